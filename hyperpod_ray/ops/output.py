"""How commands speak: data on stdout as a table or as JSON, everything else on stderr."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any, Literal, TextIO

from hyperpod_ray.core.amounts import duration
from hyperpod_ray.ops.errors import BAD_USE, OpsError
from hyperpod_ray.ops.steering import STEERING, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

SCHEMA_VERSION = 3
"""Of the JSON that every command writes: raised when a key changes its meaning or goes; new keys do not raise it."""


class Format(StrEnum):
    """How data is written."""

    table = "table"
    json = "json"
    markdown = "markdown"


STYLES = {"good": "green", "bad": "bold red", "busy": "magenta", "note": "cyan", "quiet": "default"}
"""Colours that read on dark and on light ground alike; what they say is always also said in words."""


def now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


def console(form: Format = Format.table, *, stderr: bool = False, stream: TextIO | None = None) -> Console:
    """A console for a stream (default: stdout).

    Rich itself obeys NO_COLOR, and omits colours where the stream is no terminal.
    """
    from rich.console import Console
    from rich.theme import Theme

    terminal = sys.stderr if stderr else sys.stdout
    stream = stream or terminal
    if form is Format.markdown:
        from hyperpod_ray.ops.markdown import MarkdownConsole

        return MarkdownConsole(stream, theme=Theme(STYLES))
    # a pipe has no width: wide enough that nothing is cut in a log
    on_terminal = terminal.isatty()
    width = None if on_terminal or os.environ.get("COLUMNS") else 160
    if on_terminal and stream is not terminal:  # what is written into a text first is for the terminal all the same
        width = Console(file=terminal).width

    class Printable(Console):
        """A console whose plain strings cannot steer the terminal."""

        def print(self, *objects: Any, **options: Any) -> None:
            super().print(*map(_printable_cell, objects), **options)

    return Printable(file=stream, theme=Theme(STYLES), highlight=False, markup=False, width=width, soft_wrap=False)


COLOUR = re.compile(r"\x1b\[[0-9;]*[mK]")
"""What a log may tell a terminal besides carriage return: colours, and to erase the rest of the line."""


def _printable_cell(cell: Any) -> Any:
    """A string or a styled text that cannot steer the terminal; any other renderable as it is."""
    from rich.text import Text

    if isinstance(cell, Text) and STEERING.search(cell.plain):
        return Text(printable(cell.plain), style=cell.style)
    return printable(cell) if isinstance(cell, str) else cell


def log(text: str) -> None:
    """A line of progress or advice, on stderr."""
    sys.stderr.write(f"{printable(text)}\n")
    sys.stderr.flush()


def table(*columns: str, title: str = "") -> Table:
    """An empty table that stays readable at 80 columns: long cells fold, nothing is cut.

    A column called `>X` holds numbers, one called `=X` ids to copy: neither is folded.
    """
    from rich import box
    from rich.table import Table

    class Printable(Table):
        """A table whose cells cannot steer the terminal."""

        def add_row(self, *cells: Any, **options: Any) -> None:
            super().add_row(*map(_printable_cell, cells), **options)

    printable_table = Printable(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        title=printable(title) or None,
        title_justify="left",
        title_style="bold",
        header_style="bold",
    )
    for name in columns:
        unwrapped = name[0] in ">=" if name else False
        justify: Literal["right", "left"] = "right" if name.startswith(">") else "left"
        title_ = printable(name.lstrip(">="))
        longest = max((len(word) for word in title_.split()), default=0)
        printable_table.add_column(title_, overflow="fold", justify=justify, no_wrap=unwrapped, min_width=longest)
    return printable_table


_written = {"json": 0}


def forget() -> None:
    """Begin to count JSON documents for the next command of this process."""
    _written["json"] = 0


def wrote_json() -> bool:
    """Whether this command has written a JSON document: an error must not add a second one."""
    return _written["json"] > 0


def write_json(kind: str, data: Mapping[str, Any]) -> None:
    """Data as one JSON document: `schema_version`, `kind`, `generated_at` (UTC), then what the command has to say."""
    _written["json"] += 1
    sys.stdout.write(json_text(kind, data))


def json_text(kind: str, data: Mapping[str, Any]) -> str:
    """The document that `write_json` writes."""
    document = {"schema_version": SCHEMA_VERSION, "kind": kind, "generated_at": stamp(now()), **plain(data)}
    return json.dumps(document, indent=2) + "\n"


def write_line(text: str) -> None:
    """One line of data on stdout."""
    sys.stdout.write(f"{printable(text)}\n")
    sys.stdout.flush()


def write_text(text: str) -> None:
    """Text of others (a job's log) on stdout as it is; on a terminal without what steers it, but colours."""
    if sys.stdout.isatty():
        text = "".join(
            part if COLOUR.fullmatch(part) else "\r".join(map(printable, part.split("\r")))
            for part in re.split(f"({COLOUR.pattern})", text)
        )
    sys.stdout.write(text)
    sys.stdout.flush()


def plain(value: Any) -> Any:
    """Dataclasses, enums and times as JSON knows them; times in UTC, whole seconds, with `Z`."""
    if isinstance(value, datetime):
        return stamp(value)
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(element) for key, element in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(element) for element in value]
    return value


def stamp(moment: datetime) -> str:
    """A time as `2026-11-21T17:40:00Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def figure(value: float) -> str:
    """A number in three digits; all digits from 1,000 to 99,999, a power of ten above."""
    size = abs(value)
    return f"{value:.3g}" if size < 999.5 else f"{value:,.0f}" if size < 99_999.5 else f"{value:.1e}"


def clock(moment: datetime | None) -> str:
    """A time for people: `17:40 UTC`, with the date where it is not today."""
    if moment is None:
        return ""
    in_utc = moment.astimezone(UTC)
    return in_utc.strftime("%H:%M UTC" if in_utc.date() == now().date() else "%Y-%m-%d %H:%M UTC")


def age(moment: datetime | None, *, at: datetime | None = None) -> str:
    """How long ago something was: `42 s`, `12 min`, `3 h 20 min`, `5 d`."""
    if moment is None:
        return ""
    return duration(((at or now()) - moment).total_seconds())


def interactive() -> bool:
    """Whether the user can be asked: both stdin and stderr are terminals."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: str, *, yes: bool, word: str = "") -> None:
    """Continue only after confirmation.

    Args:
        word: What must be typed; empty asks for y. `--yes` answers the question, but not one that requires a word.

    Raises:
        OpsError: Where nobody can be asked, or the answer is no.
    """
    if yes and not word:
        return
    if not interactive():
        how = f"run it in a terminal, or give --confirm {word}" if word else "run it in a terminal, or give --yes"
        raise OpsError(
            "no terminal to ask for a confirmation",
            expected="a terminal or an option that confirms",
            fix=how,
            code=BAD_USE,
        )
    sys.stderr.write(f"{question}\n" + (f"Type {word} to continue: " if word else "Continue? [y/N] "))
    sys.stderr.flush()
    answer = sys.stdin.readline().strip()
    if answer != word if word else answer.lower() not in ("y", "yes"):
        raise OpsError(
            "nothing was done: not confirmed", expected=f"'{word or 'y'}'", fix="run the command again and confirm"
        )
