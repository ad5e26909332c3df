"""Rules of `hyperpod_ray/core/checks/teams.py`: a file that trips each, and the nearest one that does not."""

# ruff: noqa: E501  (a case is one line, to be read across)

from __future__ import annotations

import pytest

from tests.core.account.good import EXISTING as EKS_OF_OTHERS
from tests.core.environment_files import Case
from tests.core.rule_cases import (
    CLOSED,
    ROLE,
    WORKER,
    WORKERS,
    assert_named_rule,
    assert_rule,
    case_id,
    team,
    teams,
    worker,
)

CASES = [
    Case("quotas_are_there", {**teams(team("a", {"type": "ml.p5.48xlarge", "instances": 4})), "ray/autoscaling": True, f"{WORKER}/max_replicas": 2}, "teams[0].quota[1].instances", "of which the standing RayCluster has 2", {**teams(team("a", {"type": "ml.p5.48xlarge", "instances": 2})), "ray/autoscaling": True, f"{WORKER}/max_replicas": 2}),
    Case("a_worker_of_the_team_fits", teams(team("a", {"type": "ml.p5.48xlarge", "accelerators": 4}, sharing="lend")), "teams[0].quota[1]", "0.5 instances of ml.p5.48xlarge, and one worker of 'gpu' takes 1", teams(team("a", {"type": "ml.p5.48xlarge", "accelerators": 8}, sharing="lend"))),
    Case("a_worker_of_the_team_fits", teams(team("a", {"type": "ml.p5.48xlarge", "accelerators": 4})), "teams[0].quota[1]", "with what it borrows 0.75", teams(team("a", {"type": "ml.p5.48xlarge", "accelerators": 4}, borrow_limit_percent=100))),
    Case("team_names_differ", teams(team(), team()), "teams[1].name", "already the name of teams[0]", teams(team(), team("speech"))),
    Case("quotas_are_of_the_clusters_types", {**teams(team("a")), "teams/0/quota/0": {"type": "ml.m5.2xlarge", "vcpus": 4, "accelerators": 1}}, "teams[0].quota[0].accelerators", "1, and ml.m5.2xlarge has none", teams(team("a"))),
    Case("quotas_are_of_the_clusters_types", teams(team("a", {"type": "ml.p5e.48xlarge", "instances": 1})), "teams[0].quota[1].type", "no instance group is of type", teams(team("a", {"type": "ml.p5.48xlarge", "instances": 1}))),
    Case("quotas_are_there", teams(team("a", {"type": "ml.p5.48xlarge", "instances": 5})), "teams[0].quota[1].instances", "and there are 4", teams(team("a", {"type": "ml.p5.48xlarge", "instances": 4}))),
    Case("quotas_are_there", {**teams(team("a")), "teams/0/quota/0": {"type": "ml.m5.2xlarge", "instances": 2}}, "teams[0].quota[0].instances", "and there are 2, of which the standing RayCluster has 0.25", {**teams(team("a")), "teams/0/quota/0": {"type": "ml.m5.2xlarge", "vcpus": 14}}),
    Case("a_job_of_the_team_fits", teams({"name": "a", "quota": [{"type": "ml.p5.48xlarge", "instances": 1}]}), "teams[0].quota", "the head of one job", teams(team())),
    Case("limits_of_borrowing_are_of_the_quotas_types", teams(team(borrow_limits=[{"type": "ml.p5.48xlarge", "instances": 1}])), "teams[0].borrow_limits", "no limit of ml.m5.2xlarge", teams(team(borrow_limits=[{"type": "ml.p5.48xlarge", "instances": 1}, {"type": "ml.m5.2xlarge", "instances": 0}]))),
    Case("partitions_are_of_the_types_gpus", teams(team("a", {"type": "ml.p5.48xlarge", "partition": {"profile": "mig-1g.5gb", "count": 7}})), "teams[0].quota[1].partition.profile", "is no profile of the GPUs of ml.p5.48xlarge", teams(team("a", {"type": "ml.p5.48xlarge", "partition": {"profile": "mig-1g.10gb", "count": 7}}))),
    Case("sharing_has_effect", teams(team(sharing="lend", borrow_limit_percent=5)), "teams[0].borrow_limit_percent", "does not borrow", teams(team(borrow_limit_percent=5))),
    Case("priorities_differ", {"task_governance": {}}, "task_governance", "there are no teams", {**teams(team()), "task_governance": {}}),
    Case("weights_have_effect", teams(team(fair_share_weight=0)), "teams[0].fair_share_weight", "gets nothing", teams(team(fair_share_weight=0, sharing="lend")), "warning"),
    Case("task_governance_is_in_the_region", {**teams(team()), "region": "ca-central-1", "network/availability_zone_ids": ["cac1-az1", "cac1-az2"], f"{WORKERS}/type": "ml.g5.48xlarge", "teams": [team("a", {"type": "ml.g5.48xlarge", "instances": 1})]}, "teams", "is not in ca-central-1", teams(team())),
    Case("no_worker_group_is_called_head", {**teams(team()), f"{WORKER}/name": "head"}, "ray.workers[0].name", "what Kueue calls the head's group", {f"{WORKER}/name": "head"}),
    Case("jobs_are_small_enough_for_a_queue", {**teams(team()), **{f"ray/workers/{n}": worker(name=f"w{n}", replicas=0) for n in range(1, 7)}}, "ray.workers", "7 groups, and older versions of Kueue take 6", {**teams(team()), **{f"ray/workers/{n}": worker(name=f"w{n}", replicas=0) for n in range(1, 6)}}, "warning"),
    Case("users_are_of_one_list", teams(team(role_arns=[ROLE, ROLE])), "teams[0].role_arns[1]", "named twice", teams(team(role_arns=[ROLE]))),
    Case("a_kueue_of_its_own_is_gone", {**EKS_OF_OTHERS, "ray/access": None, **teams(team())}, "eks.existing.cluster_name", "may have a Kueue of its own", EKS_OF_OTHERS, "warning"),
    Case("the_add_ons_images_of_kueue_are_within_reach", {**CLOSED, **teams(team())}, "teams", "does not publish where the images", teams(team()), "warning"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_rule(case: Case) -> None:
    assert_rule(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rule_says_it(case: Case) -> None:
    assert_named_rule(case)
