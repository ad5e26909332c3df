"""The language of messages, help, docstrings, comments and docs: no word of the list, no document that is not here."""

from __future__ import annotations

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
    r"field notes|the seed's (way|job|manifest)": "cite what is in the repository, or a public page",
    r"truth value": "boolean",
}
WORD = re.compile(r"(?<![\w.`-])(" + "|".join(BANNED) + r")(?![\w(])", re.IGNORECASE)
TEXT = {".md", ".yaml", ".yml", ".sh", ".toml", ".svg"}
ELSEWHERE = ("tests/", "CHANGELOG.md", "sandbox/charts/", "environments/schema.json")
"""Tests, history, what is generated from others' text."""
ALLOWED = {
    "resilience/spares/room.py": {"held"},  # an argument's name
    "sandbox/kubernetes/authorization/rbac.py": {"held"},  # Kubernetes' own message
    "sandbox/kubernetes/conformance/admission.yaml": {"held"},  # the same
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


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """The text of a file that people read: of Python its comments and strings."""
    text = path.read_text("utf-8")
    if path.suffix != ".py":
        yield from enumerate(text.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING) or tokenize.tok_name[token.type] == "FSTRING_MIDDLE":
            if re.fullmatch(r"[\"']\w+[\"']", token.string):
                continue  # a key
            plain = re.sub(r"\{[^{}]*\}", "…", token.string)
            for offset, line in enumerate(plain.splitlines()):
                yield token.start[0] + offset, line


def found(path: Path) -> list[str]:
    name = str(path.relative_to(PROJECT))
    return [
        f"{name}:{number}: {match.group()!r}; write: {_instead(match.group())}"
        for number, line in prose(path)
        for match in WORD.finditer(line)
        if match.group().lower() not in ALLOWED.get(name, set())
    ]


def _instead(word: str) -> str:
    return next(better for pattern, better in BANNED.items() if re.fullmatch(pattern, word, re.IGNORECASE))


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
    ],
)
def test_the_search_finds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, text: str, count: int
) -> None:
    monkeypatch.setitem(globals(), "PROJECT", tmp_path)
    path = tmp_path / f"x{suffix}"
    path.write_text(text)
    assert len(found(path)) == count
