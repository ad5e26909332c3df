"""The language of messages, help, docstrings, comments and docs: no word of the list, no document that is not here."""

from __future__ import annotations

import functools
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
BANNED = {
    r"told": "state who reports what",
    r"anew": "again, re-…",
    r"mend(s|ed|ing)?": "fix, repair, correct",
    r"for ever": "forever, or state what happens",
    r"a person": "you, the user",
    r"held": "the field's verb: reserved, kept, used",
    r"wants": "requires, expects",
    r"(is|are) wanted": "expected …",
    r"left out": "omitted; Default: …",
    r"goes on|go on|going on|went on": "continues, resumes",
    r"meanwhile": "until then, during …",
    r"truth value": "boolean",
    r"count on an interruption": "expect an interruption",
    r"no hand on it": "without manual intervention",
    r"has no say": "is irrelevant",
    r"needs you": "action required",
    r"(who|what) gets in": "access",
    r"run on, unwatched|stay mute|a bad day": "the fact, in the field's words",
    r"a rule of ours|texts are ours": "the project's",
    r"made(?! (of|up)\b)(?!:)": "created, generated, written, built",
}
WORD = re.compile(r"(?<![\w.`-])(" + "|".join(BANNED) + r")(?![\w(])", re.IGNORECASE)
TEXT = {".md", ".yaml", ".yml", ".sh", ".toml", ".svg"}
ELSEWHERE = ("tests/", "CHANGELOG.md", "hyperpod_ray_sandbox/charts/", "environments/schema.json")
"""Tests, history, what is generated from others' text."""
MADE = ("hyperpod_ray_sandbox/", "hyperpod_ray_training/", "hyperpod_ray_sandbox/rehearsal/")
"""Rooms whose comments may say that something was made; their messages may not."""
ALLOWED = {
    "hyperpod_ray_training/spares/host_memory.py": {"held"},  # an argument's name
    "hyperpod_ray_training/stateful.py": {"held"},  # the same
    "hyperpod_ray_sandbox/kubernetes/authorization/rbac.py": {"held"},  # Kubernetes' own message
    "hyperpod_ray_sandbox/kubernetes/conformance/admission.yaml": {"held"},  # the same
    "docs/adr/index.md": {"made"},  # a decision is made
    "lifecycle/on_create.sh": {"made"},  # a comment: a change of the file would be a change of every cluster
    "hyperpod_ray/review/durations.yaml": {"made"},  # a key
}


def files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    return [
        PROJECT / name
        for name in listed
        if not name.startswith(ELSEWHERE)
        and (Path(name).suffix in TEXT | {".py"} or Path(name).name in ("Makefile", "Dockerfile"))
        and (PROJECT / name).is_file()
    ]


@functools.cache
def prose(path: Path, *, messages_only: bool = False) -> tuple[tuple[int, str], ...]:
    """`_prose`, once for all tests of this module."""
    return tuple(_prose(path, messages_only=messages_only))


def _prose(path: Path, *, messages_only: bool) -> Iterator[tuple[int, str]]:
    """The text of a file that people read: of Python comments and strings, or strings that are no docstrings."""
    text = path.read_text("utf-8")
    if path.suffix != ".py":
        yield from enumerate(text.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING) or tokenize.tok_name[token.type] == "FSTRING_MIDDLE":
            if re.fullmatch(r"[\"']\w+[\"']", token.string):
                continue  # a key
            if messages_only and token.string.startswith(("#", '"""', 'f"""')):
                continue
            plain = re.sub(r"\{[^{}]*\}", "…", token.string)
            for offset, line in enumerate(plain.splitlines()):
                yield token.start[0] + offset, line


def found(path: Path) -> list[str]:
    if not WORD.search(path.read_text("utf-8")):
        return []  # of most files; to find a file's comments and strings takes a hundred times as long
    name = str(path.relative_to(PROJECT))
    messages = {number for number, _ in prose(path, messages_only=True)} if name.startswith(MADE) else None
    return [
        f"{name}:{number}: {match.group()!r}; write: {_instead(match)}"
        for number, line in prose(path)
        for match in WORD.finditer(line)
        if match.group().lower() not in ALLOWED.get(name, set())
        and not (match.group().lower() == "made" and messages is not None and number not in messages)
    ]


def _instead(match: re.Match[str]) -> str:
    rest = match.string[match.start() :]
    return next(better for pattern, better in BANNED.items() if re.match(pattern, rest, re.IGNORECASE))


CITED = re.compile(r"(?<![\w./:*~{-])((?:\.\./)*[\w-][\w./-]*\.md)\b")
"""A Markdown file, by name or path; not as a part of a web address or a pattern."""
NOTE = re.compile(r"\[[A-Z][A-Z]+[A-Z -]* \d[\d.]*\]")
"""A document and its section in brackets, as an author's own notes are cited."""


def not_here(path: Path, known: set[str]) -> list[str]:
    """Documents that a file cites and that are not in the repository."""
    name = str(path.relative_to(PROJECT))
    return [
        f"{name}:{number}: cites {cited}. Expected a document of this repository, or a public page"
        for number, line in prose(path)
        for cited in (*CITED.findall(re.sub(r"https?://\S+", "", line)), *NOTE.findall(line))
        if cited.rpartition("/")[2] not in known or cited.startswith("../../..")
    ]


@pytest.mark.slow
def test_every_document_that_is_cited_is_here() -> None:
    known = {path.name for path in files() if path.suffix == ".md"} | {"CHANGELOG.md", *WRITTEN}
    ours = [path for path in files() if not str(path.relative_to(PROJECT)).startswith(SOURCES)]
    assert [line for path in ours for line in not_here(path, known)] == []


WRITTEN = {"ENV.md", "needs-ENV.md", "report.md", "body.md"}
"""Names of files that a command or a workflow writes."""
SOURCES = ("hyperpod_ray/planner/data/", "hyperpod_ray/pricing/")
"""Data whose sources are files of public repositories; `hyperpod-ray data` lists them."""


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("See docs/review.md and [a page](../README.md).", 0),
        ("See https://example.com/notes.md for more.", 0),
        ("Measured (notes/figures.md).", 1),
        ("Measured on a real cluster [OWN NOTES 3.2].", 1),
        ("The list [A] has 3 rows; section [3.2].", 0),
    ],
)
def test_the_search_finds_citations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, count: int) -> None:
    monkeypatch.setitem(globals(), "PROJECT", tmp_path)
    (tmp_path / "x.md").write_text(text + "\n")
    assert len(not_here(tmp_path / "x.md", {"review.md", "README.md"})) == count


NAMES = re.compile(r"(?:def (?:say|tell|_say|_tell)\b|\.(?:say|tell)\(|import .*\b(?:say|tell)\b)")
"""Names that are no verbs of the field: a line on stderr is logged."""


def test_no_function_says_or_tells() -> None:
    wrong = [
        f"{path.relative_to(PROJECT)}:{number}: {line.strip()}"
        for path in files()
        if path.suffix == ".py"
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if NAMES.search(line) and "stream.tell()" not in line
    ]
    assert wrong == []
    assert NAMES.search("output.say(1)") and NAMES.search("def say(text)") and not NAMES.search("# they say (so)")


def test_no_banned_word() -> None:
    wrong = [line for path in files() for line in found(path)]
    assert wrong == [], "\n".join(wrong)


@pytest.mark.parametrize(
    ("suffix", "text", "count"),
    [
        (".md", "The job goes on.\n", 1),
        (".py", '"""Left out: none."""\nheld = 1  # what a person wants\n', 3),
        (".py", 'held = {"held": told}\n', 0),
        (".yaml", "# for ever\nkey: forever\n", 1),
        (".md", "Count on an interruption; it has no say.\n", 2),
        (".md", "A pod is made. It is made of containers; the clock is made up.\n", 1),
    ],
)
def test_the_search_finds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, text: str, count: int
) -> None:
    monkeypatch.setitem(globals(), "PROJECT", tmp_path)
    path = tmp_path / f"x{suffix}"
    path.write_text(text)
    assert len(found(path)) == count


PAGES = sorted(
    {
        PROJECT / "README.md",
        PROJECT / "CONTRIBUTING.md",
        *(PROJECT / "docs").rglob("*.md"),
        *(PROJECT / "jobs").rglob("*.md"),
    }
)
LISTS = ("docs/review.md", "docs/reference/commands.md", "docs/reference/limits.md", "docs/reference/rules.md")
"""What a command printed, and pages of tables that repeat one-line docstrings."""


def long_sentences(text: str) -> list[str]:
    """Sentences of more than 25 words; what is enumerated after a colon is a list."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^([|#!]|\[[\w-]+\]: ).*$", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]*`", "CODE", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    sentences = [
        sentence
        for paragraph in re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) ", text)
        for sentence in re.split(r"(?<=[.!?;])\s+", " ".join(paragraph.split()))
    ]
    parts = [part for sentence in sentences for part in _apart(sentence)]
    return [part for part in parts if len(part.split()) > 25]


def _apart(sentence: str) -> list[str]:
    head, _, rest = sentence.partition(": ")
    return [head, *(rest.split(", ") if rest.count(",") > 1 else [rest])]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(PROJECT)))
def test_sentences_are_short(path: Path) -> None:
    if str(path.relative_to(PROJECT)) not in LISTS:
        assert long_sentences(path.read_text(encoding="utf-8")) == []


def test_a_long_sentence_is_long() -> None:
    assert long_sentences("word " * 26) and not long_sentences("word " * 25)
    assert not long_sentences("Parts: " + ", ".join(["two words"] * 20))
    assert long_sentences("Parts: " + "word " * 26)
