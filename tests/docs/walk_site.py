"""`make browser`: each page of the built documentation site in headless Chromium, both themes, wide and narrow.

`make docs` builds the site into .cache/site. Pictures of the main pages go to .cache/browser, to be looked at.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support.browser import Browser

PROJECT = Path(__file__).resolve().parents[2]
SITE = PROJECT / ".cache" / "site"
FOLDER = PROJECT / ".cache" / "browser"
MAIN = ("", "tutorial/", "settings/", "architecture/", "plan/", "runbook/")
"""Pages of which pictures are kept."""
LOOKS = [(1280, False), (1280, True), (400, False), (400, True)]


def pages() -> list[str]:
    """Every page of the site, but those of sources, by its address."""
    found = sorted(path.relative_to(SITE).as_posix().removesuffix("index.html") for path in SITE.rglob("index.html"))
    return [one for one in found if not one.startswith("source/")]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        """No log."""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    assert (SITE / "index.html").is_file(), "no site: make docs"
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as made:
        yield made


@pytest.mark.parametrize(("width", "dark"), LOOKS, ids=str)
def test_every_page(browser: Browser, site: str, width: int, dark: bool) -> None:
    """No sideways scrolling, nothing from another host, no error, the theme that is preferred, every picture loads."""
    listed = pages()
    assert len(listed) > 25 and set(MAIN) <= set(listed)
    browser.look(width=width, dark=dark)
    browser.open(site)
    browser.run("localStorage.clear()")
    wrong = []
    for page in listed:
        browser.complaints()
        browser.open(f"{site}{page}")
        browser.until("document.fonts.status === 'loaded' && !!document.querySelector('h1')")
        wrong += [f"{page}: {one}" for one in browser.complaints()]
        wrong += [f"{page} is too wide: {one}" for one in browser.too_wide()]
        broken = "[...document.images].filter((one) => one.complete && !one.naturalWidth).map((one) => one.src)"
        wrong += [f"{page}: no picture {one}" for one in browser.run(broken)]
        ground = browser.run("getComputedStyle(document.body).backgroundColor")
        if (ground == "rgb(255, 255, 255)") == dark:
            wrong.append(f"{page}: ground {ground}")
        if page in MAIN:
            name = page.strip("/") or "index"
            browser.screenshot(FOLDER / f"site-{name}-{width}-{'dark' if dark else 'light'}.png", most=3000)
    assert wrong == [], "\n".join(wrong)


def test_search_and_navigation(browser: Browser, site: str) -> None:
    browser.look(width=1280)
    browser.open(site)
    assert browser.run("document.querySelectorAll('.md-nav--primary a').length") > 20
    browser.run("document.querySelector('input[name=query]').focus()")
    browser.send("Input.insertText", text="runbook")
    browser.until("document.querySelectorAll('.md-search-result__item').length > 0")
    browser.look(width=400)
    browser.open(site)
    browser.run("document.querySelector('label[for=__drawer]').click()")
    browser.until("document.getElementById('__drawer').checked")
