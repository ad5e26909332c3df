"""What the page of `status --web` shows: `page.txt`, for a person to read. `make records` writes it.

A line is an element with attributes or text, below the look that it is of. Of a drawing, a line is a kind of
shape with their number, and a digest of where they are. Read the lines that changed before you write the file again.
"""

from __future__ import annotations

import sys
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from unittest import mock

from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.web import page
from hyperpod_ray.ops.web.view import View
from hyperpod_ray.ops.web.watch import Latest
from hyperpod_ray.pricing import price_file
from tests.ops.money_helpers import KNOWN
from tests.support import pages
from tests.support.pages import NOW

FILE = Path(__file__).with_name("page.txt")
LONGEST = 60
VOID = ("meta", "link", "br")


class Elements(HTMLParser):
    """Lines of a page: two spaces for each element around. Of a drawing, each kind of shape is a line."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.depth = 0
        self.drawn: dict[str, list[str]] | None = None
        self.shape = ""
        self.opened = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if self.drawn is not None:
            self.shape = " ".join(filter(None, [tag, values.get("class", "")]))
            self.drawn.setdefault(self.shape, []).append(repr(values))
            return
        shown = [f"{name}={_short(value)}" for name, value in values.items() if name != "data-digest"]
        self.lines.append(f"{'  ' * self.depth}{' '.join([tag, *shown])}")
        self.depth += tag not in VOID
        self.opened = True
        if tag == "svg":
            self.drawn = {}

    def handle_endtag(self, tag: str) -> None:
        if tag == "svg" and self.drawn is not None:
            for shape, values in self.drawn.items():
                self.lines.append(
                    f"{'  ' * self.depth}{shape} {len(values)} <{zlib.crc32(''.join(values).encode()):08x}>"
                )
            self.drawn = None
        if self.drawn is None:
            self.depth -= 1
        self.opened = False

    def handle_data(self, data: str) -> None:
        text = " ".join(data.split())
        if not text:
            return
        if self.drawn is not None:
            self.drawn[self.shape].append(text)
        if self.opened and self.drawn is None:
            self.lines[-1] += f" | {text}"
        else:
            self.lines.append(f"{'  ' * self.depth}| {text}")
        self.opened = False


def _short(value: str) -> str:
    """An attribute's value, or its digest where nobody reads it."""
    return value if len(value) <= LONGEST or " " not in value else f"<{zlib.crc32(value.encode()):08x}>"


def latest(folder: Path) -> Iterator[tuple[str, Latest[View]]]:
    """Looks that differ: in trouble, well, not yet, and one that failed after a look that did not."""
    with mock.patch.object(price_file, "recorded", lambda *_: KNOWN):  # a new price changes no word
        troubled, well = pages.environment(folder), pages.environment(folder, pages.healthy())
    failure = OpsError("the credentials have expired", expected="current credentials", fix="aws sso login")
    yield "in trouble", Latest(value=troubled, at=NOW)
    yield "well", Latest(value=replace(well, runs=(), relative=True), at=NOW, asking_since=NOW + timedelta(seconds=9))
    yield "not yet", Latest()
    yield "failed since", Latest(value=None, failure=failure, failed_since=NOW)


def lines_of(name: str, look: Latest[View]) -> list[str]:
    """The page of a look, from its title on."""
    tone = look.value.tone if look.value else "none"
    sections = page.sections(look, environment="demo", every=15)
    text = page.document(page.title(look, environment="demo"), sections, every=15, tone=tone)
    return [f"# {name}", *(line for line in Elements(text).lines if " " in line.strip())]


def today(folder: Path) -> list[str]:
    """All lines of the file."""
    return [line for name, look in latest(folder) for line in lines_of(name, look)]


def main() -> int:
    """Write the file."""
    with tempfile.TemporaryDirectory() as folder:
        written = today(Path(folder))
    FILE.write_text("".join(f"{line}\n" for line in written), encoding="utf-8")
    sys.stdout.write(f"{len(written)} lines\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
