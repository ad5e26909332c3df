"""docs/frameworks/: the pages quote what the library says, and name what was not tried and what to use instead."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PAGES = {page.stem: page.read_text(encoding="utf-8") for page in (PROJECT / "docs" / "frameworks").glob("*.md")}
QUOTED = [words for page in PAGES.values() for words in re.findall(r'refused[^:|"]*:? ?"([^"]+)"', page)]


def source() -> str:
    """The library's messages, with whatever stands in a placeholder."""
    folder = PROJECT / "hyperpod_ray_training"
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py")))
    return re.sub(r'"\s*\n\s*f?"', "", text)


def test_each_framework_has_a_page_that_a_menu_and_the_recipes_name() -> None:
    menu = (PROJECT / "mkdocs.yml").read_text(encoding="utf-8")
    recipes = (PROJECT / "docs" / "recipes.md").read_text(encoding="utf-8")
    assert PAGES.keys() == {"deepspeed", "megatron", "jax"}
    assert [name for name in PAGES if f": frameworks/{name}.md\n" not in menu] == []
    assert [name for name in PAGES if f"(frameworks/{name}.md)" not in recipes] == []


def test_the_pages_quote_refusals() -> None:
    assert len(QUOTED) == 3, QUOTED


@pytest.mark.parametrize("words", QUOTED)
def test_each_quoted_refusal_is_said_by_the_library(words: str) -> None:
    text = source()
    for part in words.split(". Expected "):
        said = re.escape(part).replace("1", r"(1|\{[^}]+\})").replace("dict", r"(dict|\{[^}]+\})")
        assert re.search(said, text), part


@pytest.mark.parametrize("name", PAGES)
def test_each_page_says_what_works_what_was_not_tried_and_what_to_use_instead(name: str) -> None:
    page = PAGES[name]
    assert re.search(r"\nTried: .*\d+\.\d+\.\d+", page), "the version"
    assert "\nNot tried: GPUs, more than one node" in page
    assert "\n**Instead**: " in page
    rows = re.findall(r"^\| ([^|]+) \|", page, re.M)
    assert [part for part in ("launch", "checkpoints", "EFA") if part not in rows] == []
    assert any(row.startswith("copies in memory") for row in rows)
    assert page.count("](https://") >= 2, "sources"
    assert len(page.splitlines()) < 40, "one screen"
