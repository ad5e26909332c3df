"""Rules of `hyperpod_ray/core/checks/image_build.py`: a file that trips each, and the nearest one that does not."""

# ruff: noqa: E501  (a case is one line, to be read across)

from __future__ import annotations

import pytest

from tests.core.environment_files import Case
from tests.core.rule_cases import CLOSED, CODEARTIFACT, OTHER_REGION, assert_named_rule, assert_rule, case_id

CASES = [
    Case("one_index_is_named", {"image/index": {}}, "image.index", "no address", {"image/index": {"url": "https://packages.example.com/simple"}}),
    Case("a_build_in_a_closed_network_reaches_its_sources", {**CLOSED, "image/in_vpc": True, "image/base": OTHER_REGION, "image/index": CODEARTIFACT}, "image.base", "the build has no way to", {**CLOSED, "image/in_vpc": True, "image/base": OTHER_REGION.replace("eu-west-1", "us-west-2"), "image/index": CODEARTIFACT}),
    Case("wheels_are_what_the_locks_name", {"image/wheels": "nowhere"}, "image.wheels", "is no folder of the project", {"image/wheels": "hyperpod_ray/image/wheels"}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_rule(case: Case) -> None:
    assert_rule(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rule_says_it(case: Case) -> None:
    assert_named_rule(case)
