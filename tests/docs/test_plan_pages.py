"""The plans of the shipped environments in the docs are what the planner says today."""

from __future__ import annotations

import importlib.util
import re
from types import ModuleType

import pytest

from core.loader import environment_names
from tests.docs.printed import PROJECT


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("plan_pages", PROJECT / "docs" / "plan_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", environment_names())
def test_each_shipped_environment_has_a_fresh_page(name: str, pages: ModuleType) -> None:
    written = (pages.FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert pages.page(name) == written, "run .venv/bin/python docs/plan_pages.py"


def test_prod_answers_what_its_comments_say() -> None:
    page = (PROJECT / "docs" / "plans" / "prod.md").read_text(encoding="utf-8")
    settings = (PROJECT / "environments" / "prod.yaml").read_text(encoding="utf-8")
    assert "GPU-hour costs 12 % more with it" in " ".join(settings.replace("#", " ").split())
    (percent,) = re.findall(r"\(\+([\d.]+)%\)", page)
    assert round(float(percent)) == 12
    assert "847 GB" in page
    assert "847 GB" in settings
