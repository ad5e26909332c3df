"""Rules of `hyperpod_ray/core/checks/team_access.py`: a file that trips each, and the nearest one that does not."""

# ruff: noqa: E501  (a case is one line, to be read across)

from __future__ import annotations

import pytest

from tests.core.environment_files import Case
from tests.core.rule_cases import assert_named_rule, assert_rule, case_id, team, teams

CASES = [
    Case("places_are_one_teams", teams(team(access={"s3": [{"bucket": "runs-bucket", "prefix": "a/", "mode": "write"}]}), team("speech", access={"s3": [{"bucket": "runs-bucket", "prefix": "a/b/"}]})), "teams[1].access.s3[0]", "meets s3://runs-bucket/a/ of team 'vision'", teams(team(access={"s3": [{"bucket": "runs-bucket", "prefix": "a/", "mode": "write"}]}), team("speech", access={"s3": [{"bucket": "runs-bucket", "prefix": "b/"}]}))),
    Case("what_is_read_is_no_teams", {**teams(team()), "ray/access": {"s3": [{"bucket": "runs-bucket"}, {"bucket": "runs-bucket", "prefix": "a/", "mode": "write"}]}}, "ray.access.s3[0]", "for reading has the teams' folders", {**teams(team()), "ray/access": {"s3": [{"bucket": "runs-bucket", "prefix": "data/"}, {"bucket": "runs-bucket", "prefix": "a/", "mode": "write"}]}}),
    Case("secrets_are_given_by_name", {**teams(team()), "ray/access": {"secret_arns": ["arn:aws:secretsmanager:us-west-2:111122223333:secret:a-AbCdEf"]}}, "teams[0]", "has no access of its own", {**teams(team(access={})), "ray/access": {"secret_arns": ["arn:aws:secretsmanager:us-west-2:111122223333:secret:a-AbCdEf"]}}, "warning"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_rule(case: Case) -> None:
    assert_rule(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rule_says_it(case: Case) -> None:
    assert_named_rule(case)
