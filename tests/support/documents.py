"""The keys of every JSON document that a command prints are those of its page, `docs/reference/documents.md`.

Each document that any test makes a command write is compared: a key that the page does not have, and a key of the page
that an object lacks, fail that test.
"""

from __future__ import annotations

import functools
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "documents.md"
ANY = "*"
"""A key of an object that is a table: its keys are names."""
WHOLE = "**"
"""The only key of an object that is not compared, nor what is below it."""
OPTIONAL = "?"
"""Ends a key that an object may lack."""
MODULE = "hyperpod_ray.ops.output"
OTHERS = ("tests/ops/test_output.py",)
"""Tests of the writing itself, whose documents are made up."""

Keys = dict[str, frozenset[str]]
"""By the path of an object: its keys."""


@functools.cache
def published() -> dict[str, Keys]:
    """The keys of the objects of each kind of document, as the page has them."""
    kinds: dict[str, Keys] = {}
    for section in re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.M)[1:]:
        kind = section.partition("\n")[0].strip("` ")
        keys = {}
        for line in section.partition("```text\n")[2].partition("```")[0].splitlines():
            path, _, names = line.partition(": ")
            keys["" if path == "document" else path] = frozenset(names.split(", "))
        kinds[kind] = keys
    return kinds


def objects(value: Any, keys: Keys, path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every object of a document with its path. Elements of a list have one path, and so have those of a table."""
    if keys.get(path) == frozenset({WHOLE}):
        return
    if isinstance(value, Mapping):
        yield path, value
        table = keys.get(path) == frozenset({ANY})
        for key, each in value.items():
            yield from objects(each, keys, f"{path}.{ANY if table else key}".removeprefix("."))
    elif isinstance(value, list):
        for each in value:
            yield from objects(each, keys, f"{path}[]")


def problems(kind: str, document: Mapping[str, Any]) -> list[str]:
    """How a document differs from its page."""
    keys = published().get(kind)
    if keys is None:
        return [f"documents.md has no document '{kind}'"]
    lines = []
    for path, element in objects(document, keys):
        documented = keys.get(path, frozenset())
        if documented == frozenset({ANY}):
            continue
        names = {name.removesuffix(OPTIONAL) for name in documented}
        needed = {name for name in documented if not name.endswith(OPTIONAL)}
        where = f"{kind}: {path or 'document'}"
        lines += [f"{where}: '{name}' is not on the page" for name in sorted(element.keys() - names)]
        lines += [f"{where}: lacks '{name}'" for name in sorted(needed - element.keys()) if element or not path]
    return lines


class Judge:
    """Looks at each document that a test makes a command write."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def watch(self) -> None:
        """Look at what the module writes from now on; once."""
        module = sys.modules.get(MODULE)
        if module is None or hasattr(module, "unwatched"):
            return
        plain, original = module.plain, module.json_text

        def json_text(kind: str, data: Mapping[str, Any]) -> str:
            self.found += problems(kind, plain(data))
            return str(original(kind, data))

        setattr(module, "unwatched", original)  # noqa: B010
        setattr(module, "json_text", json_text)  # noqa: B010

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Any:
        """Fail the test that had a document written which is not as its page says."""
        self.watch()
        self.found.clear()
        result = yield
        if self.found and not item.nodeid.startswith(OTHERS):
            lines = list(dict.fromkeys(self.found))
            tell(item, [*lines[:20], "Fix: correct the command, or docs/reference/documents.md"])
        return result


def tell(item: pytest.Item, lines: list[str]) -> None:
    """Fail a test by what its commands wrote; one marked slow warns: its minutes are about something else."""
    if item.get_closest_marker("slow"):
        warnings.warn("\n".join(lines), stacklevel=1)
    else:
        pytest.fail("\n".join(lines), pytrace=False)
