from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from hyperpod_ray.cli.main import main
from hyperpod_ray.planner import simulate

RUN = ("--model", "llama-3.1-70b", "--tokens", "1T", "--no-deploy")


@pytest.fixture(autouse=True)
def _few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation has tests of its own."""
    monkeypatch.setattr(simulate, "RUNS", 200)


class Page(HTMLParser):
    """What a page loads, and the pictures in it."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.pictures = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.pictures += tag == "svg"
        given = dict(attrs)
        self.loads += [f"{tag} {given[key]}" for key in ("src", "href") if key in given and tag != "a"]


def test_the_page_has_its_pictures_and_loads_nothing(tmp_path: Path) -> None:
    out = tmp_path / "plan.html"
    assert main(["plan", "prod", *RUN, "-o", "html", "--out", str(out)]) == 0
    text = out.read_text(encoding="utf-8")
    page = Page()
    page.feed(text)
    assert page.pictures == 4
    assert "Days, dollars and goodput, and what decides them" in text
    assert text.index("what decides them") < text.index("a. Does it fit?")
    assert [load for load in page.loads if not re.match(r"(use|image|clippath) #", load)] == []
    assert not re.search(r"<script|@import|url\((?!#)", text)
