"""Measures the structure of the source: `make house` prints the table; `--json` prints the figures for tests.

Rooms, arrows and circles come from the import graph that `make lint` checks, imports inside functions included. An
empty word is a name of a local or a parameter that does not say what it holds; `WORDS` lists them.
"""

from __future__ import annotations

import argparse
import ast
import gc
import json
import re
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
PACKAGES = ("hyperpod_ray", "hyperpod_ray_rules", "hyperpod_ray_training", "hyperpod_ray_sandbox")
ROOMS = ("stacks", "constructs", "k8s", *PACKAGES)
"""Folders of the product's source."""
_TALE = ("m" + "ade", "to" + "ld")  # words that no page may have either: the test of words reads this file, too
WORDS = frozenset(_TALE) | frozenset(
    word
    for line in (
        "again asked bad each end entry first found given good here item kind known last least left mine more",
        "most new now old one other others ours own place right said seen shown then there thing wanted",
        "what which who whole wrong",
    )
    for word in line.split()
)
LONG_FUNCTION = 60
QUESTION = re.compile(
    r"orchestrator\)? (?:==|!=|in\b|not in\b)|isinstance\([^)]*\b(?:Slurm\w*|Target|Plan)\b", re.ASCII
)
"""Code that asks which orchestrator it has before it."""
STRING_OR_COMMENT = re.compile(
    r'"""(?:\\.|[^\\])*?"""|' r"'''(?:\\.|[^\\])*?'''|" r'"(?:\\.|[^"\\\n])*"|' r"'(?:\\.|[^'\\\n])*'|(#[^\n]*)",
    re.DOTALL,
)
"""A string, or in the group a comment. `tokenize` takes ten times as long."""
DIRECTIVE = re.compile(r"#\s*(noqa|type:|fmt:)")


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The figures of one checkout."""

    product_files: int
    product_lines: int
    test_files: int
    test_lines: int
    top_level_names: int
    median_file: int
    largest_file: str
    functions: int
    long_functions: int
    rooms: int
    arrows: int
    circles: int
    largest_room: str
    empty_words_percent: float
    comments_per_100_lines: float
    documented_functions_percent: float
    orchestrator_questions: int
    orchestrator_files: int
    tested_modules_percent: float


def sources(*folders: str) -> list[Path]:
    """Python files that git knows, without links."""
    listed = subprocess.run(
        ["git", "ls-files", "--", *(f"{folder}/*.py" for folder in folders)],
        cwd=PROJECT, capture_output=True, text=True, check=True,
    ).stdout.split("\n")  # fmt: skip
    return [PROJECT / name for name in listed if name and (PROJECT / name).is_file()]


def names(nodes: Iterable[ast.AST]) -> Counter[str]:
    """How often each local or parameter is bound."""
    bound: Counter[str] = Counter()
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound[node.id] += 1
        elif isinstance(node, ast.arg) and node.arg not in {"self", "cls"}:
            bound[node.arg] += 1
    return bound


def comments(text: str) -> int:
    """Lines of comment that explain; directives of tools do not count."""
    return sum(bool(comment) and not DIRECTIVE.match(comment) for comment in STRING_OR_COMMENT.findall(text))


def room_of(module: str) -> str:
    """The room of a module: the second level of the product, the distribution elsewhere."""
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] in {"hyperpod_ray", "hyperpod_ray_sandbox"} and len(parts) > 1 else parts[0]


def graph() -> tuple[set[str], set[tuple[str, str]], int]:
    """Rooms, arrows between them, and imports that would have to go for no circle to be left."""
    import grimp

    sys.path.insert(0, str(PROJECT))
    imports = grimp.build_graph(*PACKAGES, "hyperpod_ray.constructs")
    arrows = set()
    for module in imports.modules:
        for imported in imports.find_modules_directly_imported_by(module):
            if room_of(module) != room_of(imported):
                arrows.add((room_of(module), room_of(imported)))
    parents = {module.rpartition(".")[0] for module in imports.modules} & imports.modules
    breakers = sum(len(imports.nominate_cycle_breakers(parent)) for parent in parents)
    return {room_of(module) for module in imports.modules}, arrows, breakers


def measure() -> Figures:
    """Read the checkout."""
    gc.disable()  # nothing of the trees is garbage before the end
    product, tests = sources(*ROOMS), sources("tests")
    texts = {path: path.read_text(encoding="utf-8") for path in product}
    trees = [ast.parse(text) for text in texts.values()]
    lengths = {path: text.count("\n") for path, text in texts.items()}
    nodes = [node for tree in trees for node in ast.walk(tree)]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    bound = names(nodes)
    filled = sum(bool(line.strip()) for text in texts.values() for line in text.splitlines())
    rooms, arrows, circles = graph()
    by_room: Counter[str] = Counter()
    for path, count in lengths.items():
        parts = path.relative_to(PROJECT).parts
        by_room["/".join(parts[:2]) if parts[0] == "hyperpod_ray" else parts[0]] += count
    room, most = by_room.most_common(1)[0]
    asking = {path: len(QUESTION.findall(text)) for path, text in texts.items()}
    tested = {path.stem.removeprefix("test_") for path in tests if path.name.startswith("test_")}
    modules = [path for path in product if path.name != "__init__.py"]
    stems = [path.stem.strip("_") for path in modules]  # `test_main.py` is beside `__main__.py`
    named = [stem for stem in stems if any(stem == test or test.endswith(f"_{stem}") for test in tested)]
    longest = max(lengths, key=lambda path: lengths[path])
    listed = subprocess.run(["git", "ls-files"], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    documented = sum(ast.get_docstring(node) is not None for node in functions)
    return Figures(
        product_files=len(product),
        product_lines=sum(lengths.values()),
        test_files=len(tests),
        test_lines=sum(path.read_text(encoding="utf-8").count("\n") for path in tests),
        top_level_names=len({name.partition("/")[0] for name in listed.splitlines()}),
        median_file=int(statistics.median(lengths.values())),
        largest_file=f"{longest.relative_to(PROJECT)} {lengths[longest]}",
        functions=len(functions),
        long_functions=sum((node.end_lineno or 0) - node.lineno >= LONG_FUNCTION for node in functions),
        rooms=len(rooms),
        arrows=len(arrows),
        circles=circles,
        largest_room=f"{room} {100 * most / sum(lengths.values()):.0f} %",
        empty_words_percent=round(100 * sum(bound[word] for word in WORDS) / bound.total(), 2),
        comments_per_100_lines=round(100 * sum(map(comments, texts.values())) / filled, 2),
        documented_functions_percent=round(100 * documented / len(functions), 1),
        orchestrator_questions=sum(asking.values()),
        orchestrator_files=sum(count > 0 for count in asking.values()),
        tested_modules_percent=round(100 * len(named) / len(modules), 1),
    )


def words_by_file() -> dict[str, Counter[str]]:
    """The empty words of each file."""
    found = {}
    for path in sources(*ROOMS):
        bound = names(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        empty = Counter({word: bound[word] for word in WORDS if bound[word]})
        if empty:
            found[str(path.relative_to(PROJECT))] = empty
    return found


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--words", action="store_true", help="print the empty words of each file, most first")
    options = parser.parse_args()
    if options.words:
        for name, words in sorted(words_by_file().items(), key=lambda pair: -pair[1].total()):
            print(f"{words.total():4}  {name}  {', '.join(f'{word} {count}' for word, count in words.most_common())}")
        return 0
    figures = asdict(measure())
    if options.json:
        print(json.dumps(figures, indent=1))
        return 0
    for name, value in figures.items():
        print(f"{name.replace('_', ' '):32} {value}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
