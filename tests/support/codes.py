"""The exit code of each refusal is the recorded one: `codes.txt`, for a person to read. `make records` writes it.

A line has a function and the exit codes of what it refuses. Whatever refusal any test meets is compared with its line,
so that another code fails that test.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.support.documents import tell

PROJECT = Path(__file__).resolve().parents[2]
FILE = Path(__file__).with_name("codes.txt")
MODULE = "hyperpod_ray.ops.errors"
CLASSES = ("OpsError", "LaptopError", "KubeconfigError", "NotYoursError")
ANY = "*"
"""The code of an error that is passed on."""


@functools.cache
def recorded() -> dict[str, frozenset[str]]:
    """The codes of each function."""
    pairs = (line.split(": ") for line in FILE.read_text(encoding="utf-8").splitlines())
    return {name: frozenset(codes.split(", ")) for name, codes in pairs}


def name_of(frame: FrameType | None) -> str:
    """The function of the product that refuses; the empty text where a test does."""
    while frame is not None and (
        (frame.f_globals.get("__name__") == MODULE and frame.f_code.co_name in SHARED)
        or (frame.f_code.co_name == "__init__" and isinstance(frame.f_locals.get("self"), Exception))
    ):
        frame = frame.f_back
    if frame is None or not str(frame.f_globals.get("__name__")).startswith("hyperpod_ray."):
        return ""
    return f"{frame.f_globals['__name__']}.{_plain(frame.f_code.co_qualname)}"


SHARED = ("__init__", "of", "outcome")
"""Functions of the module that make the error for whoever calls them."""


def _plain(qualname: str) -> str:
    return re.sub(r"(\.<locals>)?\.<\w+>|<locals>\.", "", qualname)


class Judge:
    """Looks at each refusal that a test meets."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def watch(self) -> None:
        """Look at every refusal from now on; once."""
        module: Any = sys.modules.get(MODULE)
        if module is None or hasattr(module, "unwatched"):
            return
        original = module.OpsError.__init__

        def init(error: Any, *arguments: Any, **named: Any) -> None:
            original(error, *arguments, **named)
            name = name_of(sys._getframe(1))
            if name and not {ANY, str(error.code)} & recorded().get(name, frozenset()):
                self.found.append(f"{name}: exit code {error.code}, which {FILE.name} does not have")

        setattr(module, "unwatched", original)  # noqa: B010
        module.OpsError.__init__ = init

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Any:
        """Fail the test that met a refusal with another exit code."""
        self.watch()
        self.found.clear()
        result = yield
        if self.found:
            tell(item, [*dict.fromkeys(self.found), "Fix: correct the code, or make records"])
        return result


def today() -> dict[str, set[str]]:
    """The codes that the source gives to each function."""
    codes: dict[str, set[str]] = {}
    for file in sorted((PROJECT / "hyperpod_ray").rglob("*.py")):
        module = ".".join(file.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__init__")
        text = file.read_text(encoding="utf-8")
        if any(name in text for name in CLASSES):
            for name, code in _refusals(ast.parse(text), module):
                codes.setdefault(name, set()).add(code)
    return codes


def _refusals(node: ast.AST, path: str) -> Iterator[tuple[str, str]]:
    from hyperpod_ray.ops import errors

    for child in ast.iter_child_nodes(node):
        inner = path
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{path}.{child.name}"
        if (
            isinstance(child, ast.Call)
            and ast.unparse(child.func).removesuffix(".of").removesuffix(".outcome") in CLASSES
        ):
            (code,) = [word.value for word in child.keywords if word.arg == "code"] or [ast.Name(id="ERROR")]
            value = getattr(errors, code.id, None) if isinstance(code, ast.Name) else None
            yield path, ANY if value is None else str(value)
        yield from _refusals(child, inner)


def write() -> int:
    """Write the file."""
    lines = [f"{name}: {', '.join(sorted(codes))}" for name, codes in sorted(today().items())]
    FILE.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    sys.stdout.write(f"{len(lines)} lines\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(write())
