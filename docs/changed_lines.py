"""`docs/changed-lines.md`: what other people's scripts change to survive, counted in a diff.

A published script is kept as its changes (`tests/resilience/examples.py`), which a test applies to the script as it is
published. A shape (`tests/resilience/shapes*.py`) is kept as it survives: the loop without the library is the same
source with the library's calls replaced by what they stand for, so the diff says what they take.
"""

from __future__ import annotations

import ast
import difflib
import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
PAGE = PROJECT / "docs" / "changed-lines.md"
TESTS = PROJECT / "tests" / "resilience"
SURVIVAL = PROJECT / "docs" / "make-your-script-survive.md"

_HEAD = """<!-- Written by `python -m docs.generate`; do not edit. -->
# Lines that a script changes

Each count comes from a diff: lines that are new or different. [Make your script survive](make-your-script-survive.md)
explains them.

## Published scripts

Tests read these scripts from the packages that publish them, and apply the lines. A kill, a freeze and a hang hit the
result.

"""
_SHAPES = """
## Shapes

Tests kill these loops, and compare every loss with that of a run that nothing disturbs:
[whole state, or a refusal](make-your-script-survive.md#whole-state-or-a-refusal).
The diff is against the same loop without the library.
Your script adds two lines: the import, and the line that starts the run.

| what the script has | shape | changed lines |
|---|---|---|
"""


def published() -> dict[str, list[tuple[str, str]]]:
    """Of each published script, lines as published and what they become."""
    scripts: dict[str, list[tuple[str, str]]] = {}
    for node in ast.parse((TESTS / "examples.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            changes = next((word.value for word in node.value.keywords if word.arg == "changes"), None)
            if changes is not None and isinstance(node.targets[0], ast.Name):
                scripts[node.targets[0].id.lower()] = list(ast.literal_eval(changes))
    return scripts


def diff(before: str, after: str) -> list[str]:
    """Changed lines, `+ ` and `- ` before them, and what stays around them."""
    lines = difflib.ndiff(before.splitlines(), after.splitlines())
    return [line for line in lines if not line.startswith("?") and line[2:].strip()]


def count(lines: list[str]) -> int:
    """Lines that are new or different; of a script that only loses lines, those."""
    return sum(line.startswith("+ ") for line in lines) or sum(line.startswith("- ") for line in lines)


def shapes() -> dict[str, tuple[str, str]]:
    """Of each shape, its loop without the library and with it."""
    functions: dict[str, ast.AST] = {}
    names: list[str] = []
    for file in sorted(TESTS.glob("shapes*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                functions[node.name] = node
                if any(isinstance(mark, ast.Name) and mark.id == "shape" for mark in node.decorator_list):
                    names.append(node.name)
    return {name: (_without(_source(name, functions)), _source(name, functions)) for name in names}


def _source(name: str, functions: dict[str, ast.AST]) -> str:
    """A shape with the functions and classes of its files that it uses, one statement a line."""
    used: dict[str, ast.AST] = {}
    pending = [name]
    while pending:
        current = pending.pop()
        if current in used or current not in functions:
            continue
        used[current] = functions[current]
        pending += [node.id for node in ast.walk(functions[current]) if isinstance(node, ast.Name)]
    return "\n".join(ast.unparse(node) for node in used.values())


class _Plain(ast.NodeTransformer):
    """The library's calls, as what they stand for in a loop that nobody restores."""

    def __init__(self, kept: set[str]) -> None:
        self.kept = kept

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.AST] | None:
        if _calls(node.value, "Resumable"):
            return None
        if _calls(node.value, "Values") and isinstance(node.value, ast.Call):
            holder = node.targets[0].value if isinstance(node.targets[0], ast.Attribute) else None
            return [ast.copy_location(ast.Assign([_named(holder, word.arg or "", ast.Store())], word.value), node)
                    for word in node.value.keywords]  # fmt: skip
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        if _calls(node.value, "finished") or _calls(node.value, "note") or _calls(node.value, "Resumable"):
            return None
        return self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        return None if (node.module or "").startswith("hyperpod_ray_training") else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and _is_training(node.func.value):
            if node.func.attr in {"steps", "epochs"}:
                return ast.Call(ast.Name("range", ast.Load()), node.args[:1], [])
            if node.func.attr == "batches":
                return node.args[0]
        if isinstance(node.func, ast.Name) and node.func.id == "survive":
            return node.args[0]
        node.keywords = [word for word in node.keywords if word.arg or not _calls(word.value, "in_ray")]
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id in self.kept:
            return ast.Name(node.attr, node.ctx)
        if isinstance(node.value, ast.Attribute) and node.value.attr in self.kept:
            return ast.Attribute(node.value.value, node.attr, node.ctx)
        return node


def _without(source: str) -> str:
    tree = ast.parse(source)
    assignments = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and _calls(node.value, "Values")]
    targets = [target for assignment in assignments for target in assignment.targets]
    kept = {getattr(target, "attr", getattr(target, "id", "")) for target in targets}
    return ast.unparse(ast.fix_missing_locations(_Plain(kept).visit(tree)))


def _named(holder: ast.expr | None, name: str, context: ast.expr_context) -> ast.expr:
    return ast.Name(name, context) if holder is None else ast.Attribute(holder, name, context)


def _calls(node: ast.AST, name: str) -> bool:
    if not isinstance(node, ast.Call):
        return False
    return (node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")) == name


def _is_training(node: ast.AST) -> bool:
    return (isinstance(node, ast.Name) and node.id == "training") or (
        isinstance(node, ast.Attribute) and node.attr == "training"
    )


def equal_shapes() -> list[tuple[str, str]]:
    """What the script has and the name, of each shape that the page for users calls equal on both paths."""
    rows = re.findall(r"^\|([^|]*)\| `(\w+)` \| equal \| equal \|$", SURVIVAL.read_text(encoding="utf-8"), re.M)
    return [(described.strip(), name) for described, name in rows]


def counts() -> dict[str, int]:
    """Changed lines of each published script and of each shape that ends with equal losses."""
    loops = shapes()
    of_scripts = {
        name: sum(count(diff(*change)) for change in changes if change[1].strip())
        for name, changes in published().items()
    }
    return of_scripts | {name: count(diff(*loops[name])) for _, name in equal_shapes()}


def page() -> str:
    """The page."""
    numbers = counts()
    lines = [_HEAD]
    titles = {"fashion": "Ray's fashion-MNIST", "glue": "Hugging Face's MRPC with Accelerate",
              "readme": "Lightning's README"}  # fmt: skip
    for name, changes in published().items():
        lines.append(f"**{titles.get(name, name)}: {numbers[name]} lines**\n\n```diff\n")
        for before, after in changes:
            lines += [f"{line}\n" for line in diff(before, after)]
        lines.append("```\n\n")
    lines.append(_SHAPES.removeprefix("\n"))
    lines += [f"| {described} | `{name}` | {numbers[name]} |\n" for described, name in equal_shapes()]
    return "".join(lines)
