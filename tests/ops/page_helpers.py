"""What tests of `html`, `page` share."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hyperpod_ray.ops.web import page
from hyperpod_ray.ops.web.view import View
from hyperpod_ray.ops.web.watch import Latest
from tests.support import pages
from tests.support.pages import NOW


@pytest.fixture(scope="module")
def page_view(tmp_path_factory: pytest.TempPathFactory) -> View:
    return pages.environment(tmp_path_factory.mktemp("environments"))


def shown(value: View | None, **more: object) -> str:
    latest: Latest[View] = replace(Latest(value=value, at=NOW if value else None), **more)  # type: ignore[arg-type]
    sections = page.sections(latest, environment="demo", every=15)
    tone = value.tone if value else "none"
    return page.document(page.title(latest, environment="demo"), sections, every=15, tone=tone)
