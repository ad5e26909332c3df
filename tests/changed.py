"""The test files that a change concerns: those whose imports reach a file that differs from a base.

Imports of the product come from the graph that `make lint` checks, imports inside functions included. Those of tests
come from their text, with the `conftest.py` files above them. A file that is not Python counts as the modules of its
folder, and as an import of each test that names it. A test that only starts the command as a process is not chosen.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import grimp

PROJECT = Path(__file__).resolve().parents[1]
PACKAGES = ("hyperpod_ray", "hyperpod_ray_rules", "hyperpod_ray_training", "hyperpod_ray_sandbox")
LINKED = {"constructs": "hyperpod_ray.constructs", "stacks": "hyperpod_ray.stacks", "k8s": "hyperpod_ray.k8s"}
"""Folders at the top, and the name by which they are imported."""
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""Where a statement has statements."""


def differing(base: str, *, project: Path = PROJECT) -> list[str]:
    """Return the files that differ from where this branch left the base, committed or not.

    Raises:
        SystemExit: the base is no revision of this clone.
    """
    fork = _git("merge-base", base, "HEAD", project=project)
    if fork.returncode != 0:
        sys.exit(f"BASE: {base!r}. Expected a revision that this clone has. Fix: make changed BASE=main")
    listed = [
        _git("diff", "--name-only", fork.stdout.strip(), project=project).stdout,
        _git("ls-files", "--others", "--exclude-standard", project=project).stdout,
    ]
    return sorted({line for text in listed for line in text.splitlines()})


def test_files(base: str) -> set[str]:
    """Return the test files, relative to `tests/`, that a change against the base concerns."""
    return concerned(differing(base))


def concerned(files: Iterable[str]) -> set[str]:
    """Return the test files, relative to `tests/`, whose imports reach one of these files."""
    changed = set(files)
    graph = _graph()
    modules = {module for file in changed for module in _modules(file)}
    reached = modules.union(*(graph.find_downstream_modules(module) for module in modules & graph.modules))
    data = {Path(file).name for file in changed if not file.endswith(".py")}
    written = {PROJECT / file for file in changed}
    chosen = set()
    for path in sorted((PROJECT / "tests").rglob("test_*.py")):
        read = _read_by(path)
        if (
            read & written
            or any(reached & _imported(file) for file in read)
            or any(name in file.read_text(encoding="utf-8") for file in read for name in data)
        ):
            chosen.add(path.relative_to(PROJECT / "tests").as_posix())
    return chosen


@cache
def _graph() -> grimp.ImportGraph:
    sys.path.insert(0, str(PROJECT))
    return grimp.build_graph(*PACKAGES, "hyperpod_ray.constructs")


def _modules(file: str) -> set[str]:
    """The modules of a file of the product; those of its folder where it is not Python."""
    path = Path(file)
    top = LINKED.get(path.parts[0], path.parts[0])
    if path.suffix == ".py":
        parts = path.with_suffix("").parts[1:]
        return {".".join((top, *(part for part in parts if part != "__init__")))}
    folder = ".".join((top, *path.parts[1:-1]))
    return {module for module in _graph().modules if module == folder or module.rpartition(".")[0] == folder}


@cache
def _imported(path: Path) -> frozenset[str]:
    """What a file imports, as written; a name that is imported may be a module."""
    names = set()
    pending: list[Any] = [ast.parse(path.read_text(encoding="utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        else:  # no expression imports
            for block in BLOCKS:
                pending += getattr(node, block, ())
    return frozenset(names)


def _read_by(test: Path) -> set[Path]:
    """A test file, the `conftest.py` files above it, and what they import of `tests`."""
    pending = [test, *(folder / "conftest.py" for folder in test.parents if folder.is_relative_to(PROJECT / "tests"))]
    read: set[Path] = set()
    while pending:
        path = pending.pop()
        if path not in read and path.is_file():
            read.add(path)
            pending += _imported_tests(path)
    return read


@cache
def _imported_tests(path: Path) -> tuple[Path, ...]:
    """The files that a file imports of `tests`, by their whole name or as a file beside it."""
    files = []
    for name in _imported(path):
        parts = name.split(".")
        if parts[0] == "tests":
            files.append(PROJECT.joinpath(*parts).with_suffix(".py"))
        elif len(parts) == 1:
            files.append(path.with_name(f"{name}.py"))
    return tuple(file for file in files if file.is_file())


def _git(*arguments: str, project: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *arguments], cwd=project, capture_output=True, text=True, check=False)
