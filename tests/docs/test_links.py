"""Links between pages, and from pages into the repository, lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [
        *PROJECT.glob("*.md"),
        *(page for folder in ("docs", ".github", "jobs") for page in (PROJECT / folder).rglob("*.md")),
    ]
)
_LINK = re.compile(r"(?<!\!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub and MkDocs make of a page's headings."""
    text = _CODE.sub(lambda code: code.group().strip("`") if "\n" not in code.group() else "", page.read_text("utf-8"))
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", head)).strip().lower().replace(" ", "-")
        for head in heads
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for match in _LINK.finditer(_CODE.sub("", page.read_text("utf-8"))):
        target = match.group(1) or match.group(2)
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []


def test_pages_of_the_site_are_in_its_navigation() -> None:
    """A page that no menu and no other page links to is never read."""
    text = (PROJECT / "mkdocs.yml").read_text("utf-8")
    linked = set(re.findall(r": ([\w/.-]+\.md)$", text, re.MULTILINE))
    pages = {str(page.relative_to(PROJECT / "docs")) for page in (PROJECT / "docs").rglob("*.md")}
    assert linked <= pages
    from_pages = {
        str((page.parent / target.partition("#")[0]).resolve().relative_to(PROJECT / "docs"))
        for page in (PROJECT / "docs").rglob("*.md")
        for target in re.findall(r"\]\(([^):\s]+\.md)(?:#[^)]*)?\)", page.read_text("utf-8"))
        if (page.parent / target).resolve().is_relative_to(PROJECT / "docs")
    }
    assert pages - linked - from_pages == set()
