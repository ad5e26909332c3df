"""Links that leave `docs/`, on the built site: a hook of MkDocs (`hooks` in mkdocs.yml).

On GitHub, a page links to a file of the repository by its relative path. The site has no such file. The hook adds a
page below `source/` for each file and folder that a page links to, and points the link there. The site therefore needs
no repository beside it: it also works for a private fork, and offline.

The hook also shortens the first line of code blocks to the language. GitHub ignores further words there; MkDocs takes
the block for text.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
DOCS = "docs"
SOURCE = "source"
_CODE = re.compile(r"(^(`{3,}).*?^\2`*$|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
_INFO = re.compile(r"^(`{3,})([\w-]+) [^\n]*")
_LINK = re.compile(r"(\]\()([^)\s]+)(\))")
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|#|/")


def page_of(path: str) -> str:
    """The page of the site that shows a path of the repository.

    Args:
        path: Relative to the repository's root, such as `environments/dev.yaml`.

    Returns:
        The page's path below `docs/`. MkDocs leaves out names with a leading dot; such a name loses the dot.
    """
    if path.startswith(f"{DOCS}/"):
        return path.removeprefix(f"{DOCS}/")
    shown = "/".join(part.lstrip(".") for part in path.split("/"))
    return f"{SOURCE}/{shown}" if path.endswith(".md") else f"{SOURCE}/{shown}.md"


def path_of(page: str, generated: dict[str, str]) -> str:
    """The path in the repository that a page of the site shows: the opposite of `page_of`."""
    return generated.get(page, f"{DOCS}/{page}")


def _relinked(text: str, path: str, new: Callable[[str], str]) -> str:
    """The text with `new(target)` in place of each linked path of the repository; code keeps its lines."""

    def replace(match: re.Match[str]) -> str:
        link, hash_, anchor = match[2].partition("#")
        if _ELSEWHERE.match(match[2]):
            return match[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
        return f"{match[1]}{new(target)}{hash_}{anchor}{match[3]}"

    parts = _CODE.split(text)  # text, code, fence, text, …
    return "".join(
        _LINK.sub(replace, part) if index % 3 == 0 else _INFO.sub(r"\1\2", part)
        for index, part in enumerate(parts)
        if index % 3 < 2
    )


def relinked(text: str, path: str) -> str:
    """A page's text for the site.

    Args:
        text: Markdown with links relative to `path`.
        path: The page's own path in the repository.

    Returns:
        The text, with each link relative to the page's place on the site.
    """
    start = posixpath.dirname(page_of(path)) or "."
    return _relinked(text, path, lambda target: posixpath.relpath(page_of(target), start))


def linked(text: str, path: str) -> list[str]:
    """The paths of the repository outside `docs/` to which a page links.

    Args:
        text: Markdown with links relative to `path`.
        path: The page's own path in the repository.
    """
    found: list[str] = []

    def note(target: str) -> str:
        found.append(target)
        return target

    _relinked(text, path, note)
    return [target for target in found if not target.startswith(f"{DOCS}/")]


def shown(path: str) -> str:
    """The Markdown that shows a file or folder of the repository.

    Args:
        path: Relative to the repository's root.
    """
    place = PROJECT / path
    if place.is_dir():
        names = sorted(f"{item.name}/" if item.is_dir() else item.name for item in place.iterdir())
        return f"# {path}\n\nA folder of the repository:\n\n" + "".join(f"- `{name}`\n" for name in names)
    text = place.read_text("utf-8")
    if path.endswith(".md"):
        return text
    kind = place.suffix.lstrip(".") or "text"
    return f"# {path}\n\nA file of the repository:\n\n````{kind}\n{text.rstrip()}\n````\n"


def sources(pages: dict[str, str]) -> dict[str, str]:
    """What the pages link to outside `docs/`, and what that links to.

    Args:
        pages: The text of each page by its path in the repository.

    Returns:
        The text of each further page by its path in the repository.
    """
    added: dict[str, str] = {}
    waiting = [target for path, text in pages.items() for target in linked(text, path)]
    while waiting:
        path = waiting.pop()
        if path not in added and (PROJECT / path).exists() and not path.startswith(".."):
            added[path] = shown(path)
            waiting += linked(added[path], path) if path.endswith(".md") else []
    return added


# --- MkDocs calls these ----------------------------------------------------------------------------------------------

_GENERATED: dict[str, str] = {}
"""The path in the repository of each page that the hook adds."""


def on_files(files: Any, *, config: Any) -> Any:
    """Add the linked files of the repository to the site."""
    from mkdocs.structure.files import File, InclusionLevel  # noqa: PLC0415 - only in .venv-docs

    pages = {f"{DOCS}/{page.src_uri}": page.content_string for page in files.documentation_pages()}
    for path, text in sources(pages).items():
        _GENERATED[page_of(path)] = path
        hidden = "---\nsearch:\n  exclude: true\n---\n"
        page = File.generated(config, page_of(path), content=hidden + text, inclusion=InclusionLevel.NOT_IN_NAV)
        files.append(page)
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Point the links of a page to the site's pages."""
    return relinked(markdown, path_of(page.file.src_uri, _GENERATED))
