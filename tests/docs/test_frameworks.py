"""docs/frameworks.md quotes what the library says: the words are the library's own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PAGE = (PROJECT / "docs" / "frameworks.md").read_text(encoding="utf-8")
QUOTED = re.findall(r'refused[^:|"]*:? ?"([^"]+)"', PAGE)


def source() -> str:
    """The library's messages, with whatever stands in a placeholder."""
    folder = PROJECT / "hyperpod_ray_training"
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py")))
    return re.sub(r'"\s*\n\s*f?"', "", text)


def test_the_page_quotes_refusals() -> None:
    assert len(QUOTED) == 3, QUOTED


@pytest.mark.parametrize("words", QUOTED)
def test_each_quoted_refusal_is_said_by_the_library(words: str) -> None:
    text = source()
    for part in words.split(". Expected "):
        said = re.escape(part).replace("1", r"(1|\{[^}]+\})").replace("dict", r"(dict|\{[^}]+\})")
        assert re.search(said, text), part


@pytest.mark.parametrize("framework", ["DeepSpeed", "Megatron", "JAX"])
def test_each_framework_says_its_version_and_what_was_not_tried(framework: str) -> None:
    part = re.split(r"^## ", PAGE.partition(f"\n## {framework}\n")[2], flags=re.M)[0]
    assert re.search(r"\d+\.\d+\.\d+", part), "the version"
    assert re.search(r"(not|Neither were|was not) (tried|[A-Z])|Not tried|not tried", part)
