"""The documentation site: links that leave docs/ lead to a page, and the check of the built site sees faults."""

from __future__ import annotations

import importlib.util
import posixpath
import re
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.printed import PROJECT


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, PROJECT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    return load("site_sources")


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("docs/tutorial.md", "[a](../README.md#first)", "[a](source/README.md#first)"),
        ("docs/examples.md", "[a](../environments/dev.yaml)", "[a](source/environments/dev.yaml.md)"),
        ("docs/adr/index.md", "[a](../plan.md)", "[a](../plan.md)"),
        ("README.md", "![a](docs/a.svg) [b](.github/workflows)", "![a](../a.svg) [b](github/workflows.md)"),
        ("docs/a.md", "`[a](../b.md)` [c](https://d/../e)", "`[a](../b.md)` [c](https://d/../e)"),
        ("docs/a.md", "```python name=x\n[a](../b)\n```\n[a](../b)\n", "```python\n[a](../b)\n```\n[a](source/b.md)\n"),
    ],
)
def test_links_and_code_blocks_for_the_site(hook: ModuleType, path: str, text: str, expected: str) -> None:
    assert hook.relinked(text, path) == expected


def test_every_link_of_every_page_has_a_place_on_the_site(hook: ModuleType) -> None:
    pages = {page.relative_to(PROJECT).as_posix(): page.read_text("utf-8") for page in (PROJECT / "docs").rglob("*.md")}
    added = hook.sources(pages)
    assert {"README.md", "environments/examples/spot.yaml"} <= set(added)
    places = {hook.page_of(path) for path in pages | added}
    lost = []
    for path, text in (pages | added).items():
        for link in re.findall(r"\]\(([^)\s#]+\.md)(?:#[^)]*)?\)", hook.relinked(text, path)):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(hook.page_of(path)), link))
            if "://" not in link and target not in places:
                lost.append((path, link))
    assert lost == []


def test_a_path_that_leaves_the_repository_or_does_not_exist_has_no_page(hook: ModuleType) -> None:
    assert hook.sources({"docs/a.md": f"[a](../../{PROJECT.name}/LICENSE) [b](../nothing.yaml)"}) == {}


def site(folder: Path, **pages: str) -> Path:
    for name, text in pages.items():
        page = folder / name / "index.html"
        page.parent.mkdir(parents=True)
        page.write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('<a href="../b/">', None),
        ('<a href="../b/#here">', None),
        ('<a href="https://docs.aws.amazon.com/">', None),
        ('<a href="../c/">', "no target"),
        ('<a href="../b/#there">', "no anchor"),
        ('<img src="missing.png">', "no target"),
        ('<script src="https://cdn.example.com/x.js"></script>', "another host"),
        ('<link rel="stylesheet" href="//fonts.example.com/x.css">', "another host"),
    ],
)
def test_the_check_of_the_built_site(tmp_path: Path, text: str, fault: str | None) -> None:
    found = load("check_site").faults(site(tmp_path, a=text, b='<h2 id="here">'))
    assert len(found) == (0 if fault is None else 1)
    assert fault is None or fault in found[0]


def test_a_site_without_pages_is_a_fault(tmp_path: Path) -> None:
    assert load("check_site").faults(tmp_path) != []


def test_no_page_escapes_a_tag_as_only_github_reads_it() -> None:
    r"""MkDocs takes `\<Image/Repository>` for a tag, and the browser shows nothing of it: `&lt;` is right."""
    pages = sorted((PROJECT / "docs").rglob("*.md"))
    assert len(pages) > 30
    assert [str(page) for page in pages if "\\<" in page.read_text("utf-8")] == []
