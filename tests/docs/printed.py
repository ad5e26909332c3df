"""The commands that README and docs print: fenced blocks line by line, and code spans that begin with a program.

`commands.yaml` beside this file says for each how it is proved. `test_printed_commands.py` compares the two,
`test_walk.py` runs what is to be run.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).resolve().parents[2]
PAGES = [
    *(PROJECT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((PROJECT / "docs").rglob("*.md")),
]
CLASSES = ("clone", "sandbox", "walk", "same", "tests", "ci", "account", "mention")
PROGRAMS = (
    "hyperpod-ray", "make", "npx", "cdk", "aws", "kubectl", "helm", "pip", "git", "python", "python3", "ray", "eval",
    "export", "source", "cp", ".venv/bin/python", ".ci/run",
)  # fmt: skip
SHELL = {"bash", "console", "sh", "bash submit", "bash export"}
"""Info strings of blocks whose lines are commands."""
DATA = {"yaml", "json", "diff", "text", "toml", "dockerfile"}
NAMES = re.compile(r"(?<![\w/.])(demo|prod|dev|local|staging|research|ENV)(?![\w/.:-])")
"""Names of environments in commands."""
LISTED = "## Commands that nothing runs\n"
"""The list of one class; it is compared with `commands.yaml`."""
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


@dataclass(frozen=True)
class Command:
    """One printed command."""

    page: str
    line: int
    text: str
    output: str = ""
    """What the page prints below it; empty where it prints none."""
    fenced: bool = True

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Block:
    """A fenced block: its info string and its lines with their numbers."""

    page: str
    info: str
    lines: tuple[tuple[int, str], ...]


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page."""
    inside: list[tuple[int, str]] | None = None
    info = indent = ""
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        if match := re.match(r"( *)```(.*)$", line):
            if inside is None:
                indent, info, inside = match.group(1), match.group(2).strip(), []
            else:
                yield Block(str(page.relative_to(PROJECT)), info, tuple(inside))
                inside = None
        elif inside is not None:
            inside.append((number, line.removeprefix(indent)))


def plain(text: str) -> str:
    """A command without its comment, continuation lines joined."""
    return re.sub(r"\s+", " ", re.sub(r"\s+# .*$", "", text.replace("\\\n", " "))).strip()


def of_block(block: Block) -> Iterator[Command]:
    """The commands of a block. Where a line begins with `$ `, lines without it are output."""
    shown = any(line.startswith("$ ") for _, line in block.lines)
    if block.info not in SHELL and not (block.info == "text" and shown):
        return
    found: list[tuple[int, list[str], list[str]]] = []
    continued = False
    for number, line in block.lines:
        if continued:
            found[-1][1].append(line)
        elif line.startswith("$ ") or (not shown and line.strip() and not line.startswith("#")):
            found.append((number, [line.removeprefix("$ ")], []))
        elif shown and found:
            found[-1][2].append(line)
        continued = line.endswith("\\") and bool(found) and not found[-1][2]
    for number, lines, output in found:
        text = "\n".join(lines)
        yield Command(block.page, number, plain(text), "\n".join(output).strip())


def of_spans(page: Path) -> Iterator[Command]:
    """Commands in code spans: a program with at least one word behind it, and no `…`."""
    fenced = False
    text = page.read_text("utf-8").partition(LISTED)[0]
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            for span in _SPAN.findall(line):
                words = span.split()
                if len(words) > 1 and words[0] in PROGRAMS and "…" not in span:
                    yield Command(str(page.relative_to(PROJECT)), number, plain(span), fenced=False)


def printed() -> list[Command]:
    """Every printed command of every page."""
    return [
        command
        for page in PAGES
        for command in (*(c for block in blocks(page) for c in of_block(block)), *of_spans(page))
    ]


@functools.cache
def classes() -> dict[str, list[dict[str, Any]]]:
    """`commands.yaml`: class to entries, each with `run` and what its class needs."""
    data = yaml.safe_load((PROJECT / "tests/docs/commands.yaml").read_text("utf-8"))
    return {
        name: [{"run": entry} if isinstance(entry, str) else entry for entry in entries or []]
        for name, entries in data.items()
    }


def matches(pattern: str, text: str) -> bool:
    """Whether a command is the one of an entry; `*` stands for anything."""
    return re.fullmatch(".*".join(re.escape(part) for part in pattern.split("*")), text) is not None


@functools.cache
def class_of(text: str) -> tuple[str, dict[str, Any]] | None:
    """The class of a command and its entry; an exact entry goes before a pattern."""
    found = [
        ("*" in entry["run"], -len(entry["run"]), name, entry)
        for name, entries in classes().items()
        for entry in entries
        if matches(entry["run"], text)
    ]
    if not found:
        return None
    _, _, name, entry = min(found, key=lambda item: item[:2])
    return name, entry


def of_class(name: str) -> list[tuple[str, dict[str, Any]]]:
    """Printed commands of a class with their entries, each once."""
    found: dict[str, dict[str, Any]] = {}
    for command in printed():
        known = class_of(command.text)
        if known and known[0] == name:
            found.setdefault(command.text, known[1])
    return sorted(found.items())
