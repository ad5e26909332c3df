"""Rules of `hyperpod_ray/core/checks/team_files.py`: a file that trips each, and the nearest one that does not."""

# ruff: noqa: E501  (a case is one line, to be read across)

from __future__ import annotations

import pytest

from tests.core.environment_files import Case
from tests.core.rule_cases import assert_named_rule, assert_rule, case_id, team, teams

CASES = [
    Case("users_differ", teams(team(uid=5000), team("speech", uid=5000)), "teams[1].uid", "is that of team 'vision' too", teams(team(uid=5000), team("speech", uid=5001))),
    Case("users_differ", teams(team(uid=65534)), "teams[0].uid", "is the user 'nobody'", teams(team(uid=65533))),
    Case("folders_move_to_one_team", teams(team(moves=["runs/a"]), team("speech", moves=["runs/a/b"])), "teams[1].moves[0]", "moves with 'runs/a' to team 'vision'", teams(team(moves=["runs/a"]), team("speech", moves=["runs/ab"]))),
    Case("folders_move_to_one_team", {**teams(team(moves=["runs"])), "storage/data_repositories": [{"bucket": "datasets", "path": "/runs/a"}]}, "teams[0].moves[0]", "'runs' and the link of /runs/a to S3 meet", {**teams(team(moves=["run"])), "storage/data_repositories": [{"bucket": "datasets", "path": "/runs/a"}]}),
    Case("folders_move_to_one_team", teams(team(moves=["data/x"])), "teams[0].moves[0]", "part of what all teams have", teams(team(moves=["datasets/x"]))),
    Case("a_link_leaves_teams_apart", {**teams(team()), "storage/data_repositories": [{"bucket": "data-bucket", "path": "/teams/a"}]}, "storage.data_repositories[0].path", "has the teams' own folders", {**teams(team()), "storage/data_repositories": [{"bucket": "data-bucket", "path": "/data"}]}, "warning"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_rule(case: Case) -> None:
    assert_rule(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rule_says_it(case: Case) -> None:
    assert_named_rule(case)
