"""What reviews say, word for word: `reviews.txt`, for a person to read. `make records` writes it.

Each line is of a review that a fast test makes: a row, a remark, a note, a cost, a step of the deploy. A changed word,
figure or effect fails the test that meets it. Each scenario has the number of its lines too, so that one that is
missing fails as well. Read the lines that changed before you write the file again.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.review.report import as_json
from hyperpod_ray.review.review import EnvironmentReview, Review

FILE = Path(__file__).with_name("reviews.txt")
WRITING = "REVIEWS_WRITTEN"
"""Variable of the run that writes the file: nothing is compared."""
COUNT = "scenario | "
_PLACES = re.compile(r"/tmp/[^\s:,'`]+|\b[0-9a-f]{40}\b|\b[0-9a-f]{64}\b|(?<=volume-owner-)[0-9a-f]{8}\b")
"""Folders, and digests of shipped source: each commit has others."""


@functools.cache
def recorded() -> frozenset[str]:
    """The file's lines."""
    return frozenset(FILE.read_text(encoding="utf-8").splitlines()) if FILE.exists() else frozenset()


def lines(environment: EnvironmentReview) -> Iterator[str]:
    """What a review says of one environment, a line for each thing."""
    (data,) = as_json.data(Review(environments=[environment], base_name="", head_name=""))["environments"]
    yield _line("verdict", data["verdict"], data["words"])
    for row, shown in zip(environment.rows, data["rows"], strict=True):
        yield _line("row", *(value for key, value in shown.items() if key != "where"), *row.lost)
    yield from (_line("remark", r.direction, r.what, r.detail, r.subject) for r in environment.remarks)
    yield from (_line("note", note) for note in data["notes"])
    yield from (_line("asset", title) for title in data["asset_only"])
    if money := data["money"]:
        figures = {key: value for key, value in money.items() if key not in {"lines", "prices_read"}}
        yield _line("money", *(f"{key} {value}" for key, value in figures.items()))
        yield from (_line("cost", *line.values()) for line in money["lines"] if line["before"] != line["after"])
    if time := data["time"]:
        steps = time.pop("path")
        yield _line("time", *(f"{key} {_plain(value)}" for key, value in time.items()))
        yield from (_line("step", *map(_plain, step.values())) for step in steps)


def assert_counted(name: str, environment: EnvironmentReview) -> None:
    """A scenario has as many lines as it had."""
    line = f"{COUNT}{name} | {len(list(lines(environment)))} lines"
    if WRITING in os.environ:
        _NEW.add(line)
    else:
        before = [other for other in recorded() if other.startswith(f"{COUNT}{name} | ")]
        assert before == [line], "Fix: correct it, or make records"


_NEW: set[str] = set()


def listen(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail the test whose reviews say what the file does not have."""
    original, made = EnvironmentReview.__init__, list[EnvironmentReview]()

    def init(self: EnvironmentReview, **fields: Any) -> None:
        original(self, **fields)
        made.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EnvironmentReview, "__init__", init)
        result = yield
    if item.get_closest_marker("slow"):
        return result
    said = {line for environment in made for line in lines(environment)}
    if WRITING in os.environ:
        _NEW.update(said)
    elif new := sorted(said - recorded()):
        pytest.fail("\n".join(["new words:", *new, f"in {FILE.name}: read them, then make records"]), pytrace=False)
    return result


def _line(form: str, *values: Any) -> str:
    text = " | ".join([form, *(" ".join(str(value).split()) for value in values)])
    return _PLACES.sub("<…>", text).rstrip(" |")


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(map(_plain, value.values()))
    if isinstance(value, list):
        return ", ".join(map(_plain, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main() -> int:
    """Write the file."""
    os.environ[WRITING] = "1"
    code = pytest.main(["-q", "-m", "not slow", "-p", "no:cacheprovider", str(FILE.parent)])
    if code == 0:
        from tests.review import said

        FILE.write_text("".join(f"{line}\n" for line in sorted(said._NEW)), encoding="utf-8")
        sys.stdout.write(f"{len(said._NEW)} lines\n")
    return int(code)


if __name__ == "__main__":
    raise SystemExit(main())
