"""Teams: what the file may say, against the groups that are there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.core import load
from hyperpod_ray.core.checks.teams import borrowable
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray_rules import kueue
from hyperpod_ray_rules.hyperpod import orchestrator_version
from tests.core.account.good import EXISTING
from tests.core.environment_files import plan, problems
from tests.core.team_quotas_helpers import HEAD, shared, team

ROLE = "arn:aws:iam::123456789012:role/Vision"


def test_a_good_file_with_two_teams_says_nothing() -> None:
    assert problems(shared(team(role_arns=[ROLE]), team("speech", role_arns=[ROLE]))) == []


SMALL = {"ray/workers/0/gpus": 4, "ray/workers/0/cpu": 40, "ray/workers/0/memory_gib": 800, "ray/workers/0/replicas": 4}
CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "same name": (shared(team(), team()), "teams[1].name", "'vision' is already the name of teams[0]"),
    "name for Kubernetes": (shared(team("Vision")), "teams[0].name", "at most 40"),
    "name of 41 characters": (shared(team("v" * 41)), "teams[0].name", "at most 40"),
    "type twice": (
        shared(team("a", {"type": "ml.p5.48xlarge", "instances": 1}, {"type": "ml.p5.48xlarge", "instances": 1}, HEAD)),
        "teams[0].quota[1].type",
        "already in quota[0]",
    ),
    "type of no group": (
        shared(team("a", {"type": "ml.p5e.48xlarge", "instances": 1}, HEAD)),
        "teams[0].quota[0].type",
        "no instance group is of type 'ml.p5e.48xlarge'. Expected one of ml.m5.2xlarge, ml.p5.48xlarge",
    ),
    "instances and parts": (
        shared(team("a", {"type": "ml.p5.48xlarge", "instances": 1, "accelerators": 4}, HEAD)),
        "teams[0].quota[0].instances",
        "1 beside accelerators",
    ),
    "no amount": (shared(team("a", {"type": "ml.p5.48xlarge"}, HEAD)), "teams[0].quota[0]", "says no amount"),
    "GPUs of a CPU type": (
        shared(team("a", {"type": "ml.p5.48xlarge", "instances": 1}, {**HEAD, "accelerators": 1})),
        "teams[0].quota[1].accelerators",
        "ml.m5.2xlarge has none",
    ),
    "more than there is": (
        shared(team(), team("speech", {"type": "ml.p5.48xlarge", "instances": 3}, HEAD)),
        "teams[1].quota[0].instances",
        "come to 5 instances (vision 2, speech 3), and there are 4. Expected at most 4. "
        "Fix: lower a quota, or add nodes",
    ),
    "more GPUs than there are": (
        shared(team("a", {"type": "ml.p5.48xlarge", "accelerators": 33}, HEAD)),
        "teams[0].quota[0].type",
        "come to 4.12 instances (a 4.12), and there are 4",
    ),
    "what the standing cluster has": (
        {**shared(team()), "ray/workers/0/replicas": 3},
        "teams[0].quota[0].instances",
        "there are 4, of which the standing RayCluster has 3. Expected at most 1. "
        "Fix: lower a quota, or set replicas: 0 in ray.workers (3 of 'gpu')",
    ),
    "no room for a head": (
        shared(team("a", {"type": "ml.p5.48xlarge", "instances": 1})),
        "teams[0].quota",
        "has 0 vCPUs and 0 GiB of ml.m5.2xlarge, and the head of one job with its submitter takes 2.5 and 9",
    ),
    "too little for a head": (
        shared(team("a", {"type": "ml.p5.48xlarge", "instances": 1}, {"type": "ml.m5.2xlarge", "vcpus": 2})),
        "teams[0].quota",
        "has 2 vCPUs and 8 GiB",
    ),
    "too little memory for a head": (
        shared(team("a", {"type": "ml.p5.48xlarge", "instances": 1}, {**HEAD, "memory_gib": 8})),
        "teams[0].quota",
        "has 4 vCPUs and 8 GiB",
    ),
    "much memory and too few vCPUs for a head": (
        shared(team("a", {"type": "ml.p5.48xlarge", "instances": 1}, {**HEAD, "vcpus": 2, "memory_gib": 32})),
        "teams[0].quota",
        "has 2 vCPUs and 32 GiB",
    ),
    "what the standing head has": (
        shared(team("a", {"type": "ml.p5.48xlarge", "instances": 1}, {"type": "ml.m5.2xlarge", "instances": 2})),
        "teams[0].quota[1].instances",
        "come to 2 instances (a 2), and there are 2, of which the standing RayCluster has 0.25. Expected at most 1.75",
    ),
    "two standing workers on a node": (
        {**shared(team("a", {"type": "ml.p5.48xlarge", "instances": 3}, HEAD)), **SMALL},
        "teams[0].quota[0].instances",
        "there are 4, of which the standing RayCluster has 2. Expected at most 2",
    ),
    "no workers": (shared(team("a", HEAD)), "teams[0].quota", "no quota of a type that carries Ray's workers"),
    "a limit without borrowing": (
        shared(team(sharing="none", borrow_limit_percent=10)),
        "teams[0].borrow_limit_percent",
        "which does not borrow",
    ),
    "limits in amounts without borrowing": (
        shared(team(sharing="none", borrow_limits=[{"type": "ml.p5.48xlarge", "instances": 1}, HEAD])),
        "teams[0].borrow_limits",
        "which does not borrow",
    ),
    "limits in amounts and in percent": (
        shared(team(borrow_limit_percent=50, borrow_limits=[{"type": "ml.p5.48xlarge", "instances": 1}, HEAD])),
        "teams[0].borrow_limits",
        "beside borrow_limit_percent: 50",
    ),
    "a limit of a type that the team has no quota of": (
        shared(team(borrow_limits=[{"type": "ml.p5.48xlarge", "instances": 1}, HEAD,
                                   {"type": "ml.g5.8xlarge", "instances": 1}])),
        "teams[0].borrow_limits[2].type",
        "is no type of the quota",
    ),
    "a type without a limit": (
        shared(team(borrow_limits=[{"type": "ml.p5.48xlarge", "instances": 1}])),
        "teams[0].borrow_limits",
        "no limit of ml.m5.2xlarge",
    ),
    "a limit that names no amount": (
        shared(team(borrow_limits=[{"type": "ml.p5.48xlarge"}, HEAD])),
        "teams[0].borrow_limits[0]",
        "no amount of ml.p5.48xlarge",
    ),
    "a profile of another GPU": (
        shared(team("a", {"type": "ml.p5.48xlarge", "partition": {"profile": "mig-1g.5gb", "count": 7}}, HEAD)),
        "teams[0].quota[0].partition.profile",
        "is no profile of the GPUs of ml.p5.48xlarge",
    ),
    "a profile that is none": (
        shared(team("a", {"type": "ml.p5.48xlarge", "partition": {"profile": "mig-9g.9gb", "count": 7}}, HEAD)),
        "teams[0].quota[0].partition.profile",
        "mig-9g.9gb",
    ),
    "GPUs that are whole and in parts": (
        shared(team("a", {"type": "ml.p5.48xlarge", "accelerators": 4,
                          "partition": {"profile": "mig-1g.10gb", "count": 7}}, HEAD)),
        "teams[0].quota[0].partition",
        "beside accelerators: 4",
    ),
    "instances beside partitions": (
        shared(team("a", {"type": "ml.p5.48xlarge", "instances": 1,
                          "partition": {"profile": "mig-1g.10gb", "count": 7}}, HEAD)),
        "teams[0].quota[0].instances",
        "1 beside partition",
    ),
    "a limit in amounts that leaves no room for a worker": (
        shared(team("a", {"type": "ml.p5.48xlarge", "accelerators": 4}, HEAD,
                    borrow_limits=[{"type": "ml.p5.48xlarge", "accelerators": 2}, HEAD])),
        "teams[0].quota[0]",
        "with what it borrows 0.75, and one worker of",
    ),
    "a limit that the service refuses": (
        shared(team(borrow_limit_percent=501)),
        "teams[0].borrow_limit_percent",
        "500 or less",
    ),
    "a weight of nothing": (shared(team(fair_share_weight=0)), "teams[0].fair_share_weight", "gets nothing"),
    "governance of nobody": ({"task_governance": {}}, "task_governance", "there are no teams"),
    "priority twice": (
        shared(team(), task_governance={"priority_classes": [{"name": "a", "weight": 1}, {"name": "a", "weight": 2}]}),
        "task_governance.priority_classes[1].name",
        "already the name of priority_classes[0]",
    ),
    "weight twice": (
        shared(team(), task_governance={"priority_classes": [{"name": "a", "weight": 1}, {"name": "b", "weight": 1}]}),
        "task_governance.priority_classes[1].weight",
        "that of 'a' too",
    ),
    "another region": (
        shared(
            team(), region="ca-central-1", **{"network/availability_zone_ids": ["cac1-az1", "cac1-az2"]}
        ),
        "teams",
        "AWS::SageMaker::ComputeQuota is not in ca-central-1",
    ),
    "a group called head": (
        {**shared(team()), "ray/workers/0/name": "head"},
        "ray.workers[0].name",
        "what Kueue calls the head's group",
    ),
    "a role twice": (shared(team(role_arns=[ROLE, ROLE])), "teams[0].role_arns[1]", "named twice"),
    "a role of an administrator": (
        shared(team(role_arns=[ROLE]), **{"eks/admin_role_arns": [ROLE]}),
        "teams[0].role_arns[0]",
        "already in eks.admin_role_arns",
    ),
    "a user of a team that is not there": (
        shared(team(), **{"eks/ray_users": [{"role_arn": ROLE, "namespaces": ["ray", "hyperpod-ns-visoin"]}]}),
        "eks.ray_users[0].namespaces[1]",
        "did you mean 'hyperpod-ns-vision'?",
    ),
    "a closed network": (shared(team(), **{"network/egress": "closed"}), "teams", "does not publish where the images"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_cannot_work_is_refused(name: str) -> None:
    edits, path, message = CASES[name]
    found = [problem for problem in problems(edits) if problem.path == path]
    assert [message in str(one.message) for one in found] == [True], [str(problem) for problem in problems(edits)]
    assert found[0].line, "it names a line of the file"


def test_borrowed_room_is_no_sure_room() -> None:
    """Whole instances and parts of them are counted alike."""
    part = {"type": "ml.p5.48xlarge", "accelerators": 16}
    whole = {"type": "ml.p5.48xlarge", "instances": 2}
    assert problems(shared(team("a", part, HEAD), team("b", whole, HEAD))) == []
    assert problems(shared(team("a", {**part, "accelerators": 17}, HEAD), team("b", whole, HEAD)))


QUIET: dict[str, dict[str, Any]] = {
    "a weight of nothing, for who does not borrow": shared(team(fair_share_weight=0, sharing="lend")),
    "a weight of nothing, without fair share": shared(team(fair_share_weight=0), task_governance={"fair_share": False}),
    "a third each, three times": shared(
        *(team(name, {"type": "ml.p5.48xlarge", "vcpus": 256}, {**HEAD, "vcpus": 3, "memory_gib": 9}) for name in "abc")
    ),
    "small workers leave a node for each two": {**shared(team()), **SMALL},
}


@pytest.mark.parametrize("name", QUIET)
def test_what_is_right_says_nothing(name: str) -> None:
    assert [str(problem) for problem in problems(QUIET[name])] == []


def test_a_type_that_is_not_there_is_said_once() -> None:
    (problem,) = problems(shared(team("a", {"type": "ml.p5e.48xlarge", "instances": 1})))
    assert problem.path == "teams[0].quota[0].type"


@pytest.mark.parametrize(("groups", "said"), [(6, 0), (7, 1)])
def test_kueue_counts_the_groups_of_a_job(groups: int, said: int) -> None:
    workers = [{"name": f"gpu-{n}", "instance_group": "workers", "replicas": 0} for n in range(groups)]
    found = problems({**shared(team()), "ray/workers": workers})
    assert sum("older versions of Kueue" in one.message for one in found) == said


def test_an_existing_cluster_may_have_a_kueue() -> None:
    """AWS asks for its removal; no call of AWS shows it."""
    one = shared(team(role_arns=[ROLE]))
    (said,) = [row for row in problems({**EXISTING, **one}) if "Kueue of its own" in row.message]
    assert said.severity == "warning"
    assert not any("Kueue of its own" in row.message for row in [*problems(one), *problems(EXISTING)])


def test_every_kubernetes_version_that_hyperpod_takes_is_one_of_task_governance() -> None:
    """AWS: Kubernetes 1.30 or greater."""
    assert list(orchestrator_version("1.29"))
    assert not list(orchestrator_version("1.30"))


def test_the_example_is_two_teams() -> None:
    found = load("teams", folder=FOLDER / "examples")
    assert not found.warnings
    assert [one.name for one in found.settings.teams] == ["vision", "speech"]


def test_the_regions_and_limits_are_the_registrys() -> None:
    """cfn-lint carries CloudFormation's schema of the quota."""
    import cfnlint

    schemas = Path(cfnlint.__file__).parent / "data" / "schemas"
    held = {}
    for path in sorted((schemas / "providers").glob("*.json")):
        held[path.stem] = json.loads(path.read_text()).get("AWS::SageMaker::ComputeQuota")
    key = held["us-west-2"]
    schema = json.loads((schemas / "resources" / f"{key}.json").read_text())
    said = schema["description"].partition("(")[2].partition(")")[0]
    assert set(said.split(", ")) == kueue.QUOTA_REGIONS
    names_of = schema["definitions"]["ComputeQuotaTarget"]["properties"]["TeamName"]["pattern"]
    import re

    for word in ("vision", "a", "a-b", "0" * 40, "-a", "a-", "A", "a_b"):
        ours = not problems(shared(team(word)))
        assert ours == bool(re.fullmatch(names_of.strip("^$"), word)), word


def test_parts_that_fill_the_nodes_are_no_more_than_there_are() -> None:
    """Eight parts come to 768 of 768 vCPUs; their sum as binary fractions is a little more than four."""
    vcpus = [97] * 7 + [89]
    assert sum(vcpus) == 4 * 192 < 192 * 4.000001
    assert sum(one / 192 for one in vcpus) > 4
    teams = [team(f"t{n}", {"type": "ml.p5.48xlarge", "vcpus": one}, HEAD) for n, one in enumerate(vcpus)]
    said = [problem.message for problem in problems(shared(*teams)) if "quotas of ml.p5.48xlarge" in problem.message]
    assert said == []
    teams[0]["quota"][0]["vcpus"] = 98
    (message,) = [
        problem.message for problem in problems(shared(*teams)) if "quotas of ml.p5.48xlarge" in problem.message
    ]
    assert "and there are 4" in message


@pytest.mark.parametrize(("instances", "said"), [(3, None), (4, "come to 4 instances (vision 4), and there are 3")])
def test_a_group_that_is_scaled_counts_with_the_nodes_it_can_have(instances: int, said: str | None) -> None:
    """Its count is 0: what its workers can need is what there can be."""
    file = shared(
        team("vision", {"type": "ml.g5.48xlarge", "instances": instances}, HEAD),
        **{
            "hyperpod/managed_autoscaling": True,
            "hyperpod/instance_groups/2": {"name": "burst", "type": "ml.g5.48xlarge", "count": 0},
            "ray/autoscaling": True,
            "ray/workers/1": {"name": "burst", "instance_group": "burst", "replicas": 0, "max_replicas": 3},
        },
    )
    found = [problem.message for problem in problems(file) if "quotas of ml.g5.48xlarge" in problem.message]
    assert len(found) == (1 if said else 0), found
    assert not said or said in found[0]


def test_what_may_be_borrowed_of_a_type_is_the_limit_of_that_type() -> None:
    """`AbsoluteBorrowLimits` has an amount for each instance type; a percentage is of the quota of each.

    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ResourceSharingConfig.html
    """
    quota = [{"type": "ml.p5.48xlarge", "instances": 2}, {"type": "ml.m5.2xlarge", "instances": 1}]
    limits = [{"type": "ml.p5.48xlarge", "accelerators": 4}, {"type": "ml.m5.2xlarge", "instances": 1}]
    expected = {
        "amounts": (team("a", *quota, borrow_limits=limits), [0.5, 1.0]),
        "percent": (team("a", *quota, borrow_limit_percent=50), [1.0, 0.5]),
        "nothing": (team("a", *quota, sharing="lend"), [0.0, 0.0]),
    }
    for name, (settings, instances) in expected.items():
        settled = plan({**shared(settings), "hyperpod/instance_groups/0/count": 4})
        (vision,) = settled.settings.teams
        assert [borrowable(settled, vision, own) for own in vision.quota] == instances, name
