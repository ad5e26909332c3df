"""Every example passes the checks without a warning, and each is about one need."""

from __future__ import annotations

import re

import pytest

from hyperpod_ray.core.loader import FOLDER, EnvironmentFile, environment_names, load, load_any
from hyperpod_ray.core.plan import Plan

EXAMPLES = FOLDER / "examples"


@pytest.mark.parametrize("name", environment_names(folder=EXAMPLES))
def test_an_example_is_accepted_without_warnings(name: str) -> None:
    assert load_any(name, folder=EXAMPLES).warnings == []


@pytest.mark.parametrize("name", environment_names(folder=EXAMPLES))
def test_an_example_says_what_it_is_for(name: str) -> None:
    schema, title, *_ = (EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    assert schema == "# yaml-language-server: $schema=../schema.json"
    assert re.fullmatch(r"# [A-Z].*\.", title)


def test_examples_can_stand_beside_each_other() -> None:
    found = [
        load_any(name, folder=EXAMPLES).settings.hyperpod.cluster_name for name in environment_names(folder=EXAMPLES)
    ]
    assert len(set(found)) == len(found)


def test_an_example_can_be_copied_beside_the_shipped_environments() -> None:
    """Two environments of one account and Region with one repository are refused."""
    files = [load_any(name, folder=EXAMPLES) for name in environment_names(folder=EXAMPLES)]
    plans = [file.plan for file in files if isinstance(file, EnvironmentFile)]
    assert len(files) == len(plans) + 2, "those on Slurm build no image"
    plans.append(Plan(name="dev", settings=load("dev").settings))
    found = [plan.image_repository for plan in plans if plan.built_image]
    assert len(found) == len(plans) - 1, "one example runs an image that exists"
    assert len(set(found)) == len(found)


def test_every_example_is_in_the_docs() -> None:
    page = (FOLDER.parent / "docs" / "examples.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\(\.\./environments/examples/([a-z0-9-]+)\.yaml\)", page))
    assert linked == set(environment_names(folder=EXAMPLES))
