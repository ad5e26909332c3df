"""Check the built site: each internal link and asset exists, and nothing comes from another host.

Run by `make docs`: `python docs/check_site.py .cache/site`. It prints each fault and exits with 1 when there is one.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """The anchors, links and loaded assets of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.assets: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what the tag defines and what it refers to."""
        values = {key: value for key, value in attrs if value}
        self.anchors |= {values[key] for key in ("id", "name") if key in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if "src" in values:
            self.assets.append(values["src"])
        if tag == "link" and "href" in values and values.get("rel") != "canonical":
            self.assets.append(values["href"])


def faults(site: Path) -> list[str]:
    """What is wrong with the links and assets of a built site.

    Args:
        site: The folder that MkDocs wrote.

    Returns:
        One line for each link without a target, and for each asset of another host.
    """
    pages = {path.resolve(): _Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    found = [] if pages else [f"{site}: no page"]
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # its links are absolute: the server shows it at any depth
        name = path.relative_to(site.resolve())
        for target in page.links + page.assets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                if target in page.assets and parts.scheme != "data":
                    found.append(f"{name}: asset of another host: {target}")
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            file = file / "index.html" if file.is_dir() else file
            if not file.exists():
                found.append(f"{name}: no target: {target}")
            elif parts.fragment and file in pages and unquote(parts.fragment) not in pages[file].anchors:
                found.append(f"{name}: no anchor: {target}")
    return found


if __name__ == "__main__":
    lines = faults(Path(sys.argv[1]))
    print("\n".join(lines) or "site: every internal link and asset exists", file=sys.stderr if lines else sys.stdout)
    sys.exit(1 if lines else 0)
