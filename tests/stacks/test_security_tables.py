"""The security tables of the shipped environments: a right, an opening or a protection changes only in review."""

from __future__ import annotations

import pytest

from docs.security_tables import FOLDER, Assembly, pages
from hyperpod_ray.core import environment_names
from tests.stacks.assembled import Assembly as Synthesized


@pytest.mark.parametrize("name", environment_names())
def test_the_tables_are_those_of_the_templates(name: str, assemblies: dict[str, Synthesized]) -> None:
    page = pages(Assembly.read(assemblies[name].folder), environment=name)
    stored = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    fix = "review the change, then run `make tables` and commit docs/security/"
    assert page.splitlines() == stored.splitlines(), fix


def test_every_table_has_rows_somewhere() -> None:
    """A reader that finds nothing would agree with every template."""
    full: dict[str, bool] = {}
    for name in environment_names():
        for section in (FOLDER / f"{name}.md").read_text(encoding="utf-8").split("\n## ")[1:]:
            title = section.splitlines()[0]
            full[title] = full.get(title, False) or section.count("\n| ") > 1
    assert len(full) == 11
    assert all(full.values()), full
