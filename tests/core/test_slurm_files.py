"""Environment files whose orchestrator is Slurm: what they may say, and what their own rules say of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hyperpod_ray import core
from hyperpod_ray.core import loader, requests
from hyperpod_ray.core.evidence import Evidence, Repository
from hyperpod_ray.core.findings import RULES
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.core.slurm_model import SlurmEnvironment
from hyperpod_ray.core.slurm_plan import SlurmPlan
from tests.core.environment_files import GONE, GOOD, SLURM, Case, changed
from tests.core.said import assert_said, line_of
from tests.core.slurm_files_helpers import CASES, DATABASE, EFA, GROUPS, LOGIN, MORE, SECRET, WORKERS, judged, problems

EKS_SECTIONS = {"eks", "ray", "registries", "training", "observability", "helm"}


def said_by_cases() -> Iterator[str]:
    """What each case's rule says, for `messages.txt`."""
    for case in CASES:
        for problem in problems(case.trips):
            if problem.path == case.path and case.says in problem.message:
                yield line_of(case.rule, problem.severity, problem.path, problem.message)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.says[:20]}")
def test_rule(case: Case) -> None:
    said = problems(case.trips)
    ours = [one for one in said if one.path == case.path and case.says in one.message]
    assert [our.severity for our in ours] == [case.severity], [str(one) for one in said]
    assert ours[0].line >= 1
    assert_said(line_of(case.rule, ours[0].severity, ours[0].path, ours[0].message))
    assert ours[0].expected
    assert ours[0].fix
    assert [str(problem) for problem in problems(case.passes) if problem.path == case.path] == []


def test_what_rules_of_slurm_let_through() -> None:
    """Spot capacity of login and compute; groups without EFA, and of a type that is not known, in two zones."""
    assert problems({f"{LOGIN}/capacity": "spot", f"{WORKERS}/capacity": "spot"}) == []
    apart = {**MORE, "type": "ml.m5.2xlarge", "availability_zone_id": "usw2-az1"}
    assert problems({f"{WORKERS}/type": "ml.m5.2xlarge", f"{WORKERS}/min_count": GONE, f"{GROUPS}/3": apart}) == []
    unknown = problems({f"{GROUPS}/3": {**MORE, "type": "ml.p99.48xlarge", "availability_zone_id": "usw2-az1"}})
    assert {"hyperpod.instance_groups[3].type"} <= {one.path for one in unknown}


def test_a_group_is_found_by_its_name() -> None:
    found, _ = judged(SLURM)
    assert found is not None
    roles = {name: found.plan.group(name).slurm.role for name in ("controller", "login", "workers")}
    assert roles == {"controller": "controller", "login": "login", "workers": "compute"}
    with pytest.raises(KeyError):
        found.plan.group("work")


def test_a_folder_is_no_script() -> None:
    (said,) = problems({"hyperpod/on_init_complete": "tests/core"})
    assert (said.path, "no file" in said.what) == ("hyperpod.on_init_complete", True)


def test_shared_rules_run_for_slurm() -> None:
    said = problems({"network/cidr": "10.0.0.0/24", f"{LOGIN}/name": "controller", "storage/capacity_gib": 1300})
    assert {"network.cidr", "hyperpod.instance_groups[1].name", "storage.capacity_gib"} <= {one.path for one in said}


FILE_SYSTEM = {"file_system_id": "fs-0123456789abcdef0", "mount_name": "abcdefgh", "availability_zone_id": "usw2-az1"}


@pytest.mark.parametrize(
    ("edits", "path", "words"),
    [
        (
            {"storage/availability_zone_id": "usw2-az1"},
            "storage.availability_zone_id",
            "the nodes 'workers' in usw2-az2",
        ),
        ({"storage": {"existing": FILE_SYSTEM}}, "storage.existing.availability_zone_id", "the nodes 'workers'"),
        ({**EFA, f"{WORKERS}/type": "ml.p4d.24xlarge"}, "storage.efa", "no EFA on ml.p4d.24xlarge"),
        ({**EFA, f"{WORKERS}/count": 129}, "storage.efa", "1,032 EFA connections"),
        (
            {"storage/data_repositories": [{"bucket": "a..b", "path": "/d"}]},
            "storage.data_repositories[0].bucket",
            "a..b",
        ),
    ],
)
def test_rules_of_the_file_system_look_at_compute(edits: dict[str, Any], path: str, words: str) -> None:
    """The same rules as on EKS, which there look at Ray's workers and buckets too."""
    found = [problem for problem in problems(edits) if problem.path == path and words in problem.message]
    assert len(found) == 1, [str(problem) for problem in problems(edits)]


def test_the_file_system_is_beside_compute_by_itself() -> None:
    assert problems({f"{WORKERS}/availability_zone_id": "usw2-az1"}) == []
    assert problems(EFA) == []
    apart = {"storage/availability_zone_id": "usw2-az2", f"{LOGIN}/availability_zone_id": "usw2-az1"}
    assert problems(apart) == [], "of login nodes the zone does not count"


@pytest.mark.parametrize(
    ("edits", "path"),
    [
        *(({section: {}}, section) for section in sorted(EKS_SECTIONS)),
        ({f"{WORKERS}/labels": {"a": "b"}}, "hyperpod.instance_groups[2].labels"),
        ({f"{WORKERS}/taints": []}, "hyperpod.instance_groups[2].taints"),
        ({"hyperpod/managed_autoscaling": True}, "hyperpod.managed_autoscaling"),
        ({"hyperpod/node_guard": None}, "hyperpod.node_guard"),
        ({"hyperpod/tiered_storage": {"memory_percent": 5}}, "hyperpod.tiered_storage"),
        ({"storage/mode": "dynamic"}, "storage.mode"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_belongs_to_eks_is_refused_at_its_place(edits: dict[str, Any], path: str) -> None:
    said = problems(edits)
    assert [one.path for one in said] == [path], [str(one) for one in said]
    assert "orchestrator eks" in said[0].what
    assert said[0].line >= 1


def test_an_existing_network_has_no_subnets_of_a_control_plane() -> None:
    existing = {
        "vpc_id": "vpc-0123456789abcdef0",
        "vpc_cidr": "10.0.0.0/16",
        "node_subnet_ids": {"usw2-az2": "subnet-0123456789abcdef0", "usw2-az1": "subnet-0123456789abcdef1"},
        "node_subnet_cidrs": {"usw2-az2": "10.0.0.0/20", "usw2-az1": "10.0.16.0/20"},
    }
    assert problems({"network/existing": existing}) == []
    (said,) = problems({"network/existing": {**existing, "control_plane_subnet_ids": []}})
    assert (said.path, "orchestrator eks" in said.what) == ("network.existing.control_plane_subnet_ids", True)


def test_what_belongs_to_slurm_is_refused_on_eks() -> None:
    data = changed({f"{GROUPS}/0/slurm": {"role": "login"}, "hyperpod/config_strategy": "Merge"}, of=GOOD)
    said = judged(data)[1]
    assert sorted(one.path for one in said) == ["hyperpod.config_strategy", "hyperpod.instance_groups[0].slurm"]
    assert all("orchestrator slurm" in one.what for one in said)


@pytest.mark.parametrize(
    ("value", "fix"), [("Slurm", "did you mean 'slurm'?"), (None, "choose one of them"), (1, "choose")]
)
def test_an_orchestrator_that_there_is_not_is_the_one_problem(value: Any, fix: str) -> None:
    (said,) = problems({"orchestrator": value, "ray": {}})
    assert (said.path, said.expected) == ("orchestrator", "one of eks, slurm")
    assert fix in said.fix


def test_what_serves_eks_alone_refuses_the_file_at_its_line() -> None:
    examples = FOLDER / "examples"
    with pytest.raises(loader.OtherOrchestratorError) as error:
        core.load("slurm", folder=examples)
    (said,) = error.value.problems
    text = (examples / "slurm.yaml").read_text(encoding="utf-8").splitlines()
    assert text[said.line - 1] == "orchestrator: slurm"
    assert (said.path, bool(said.fix)) == ("orchestrator", True)


def test_the_request_says_the_parts() -> None:
    found, said = judged(changed({"hyperpod/accounting_database": {**DATABASE, "port": 3307}}, of=SLURM))
    assert found is not None, said
    request = requests.create_cluster(found.plan)
    assert request["Orchestrator"] == {
        "Slurm": {
            "SlurmConfigStrategy": "Managed",
            "AccountingDatabase": {"Endpoint": "db.example.com", "SecretArn": SECRET, "Port": 3307},
        }
    }
    assert [group["SlurmConfig"] for group in request["InstanceGroups"]] == [
        {"NodeType": "Controller"},
        {"NodeType": "Login"},
        {"NodeType": "Compute", "PartitionNames": ["train"]},
    ]


def test_rules_read_what_they_declare() -> None:
    """Here the other sections are not there at all."""
    evidence = Evidence(repository=Repository.around("test"))
    for case in CASES:
        whole = SlurmEnvironment.model_validate(changed(case.trips, of=SLURM))
        for rule in RULES:
            if rule.orchestrator == "slurm" and rule.needs != "account":
                part = SlurmEnvironment.model_construct(
                    orchestrator="slurm", **{name: getattr(whole, name) for name in rule.shared}
                )
                list(rule(SlurmPlan(name="test", settings=part), evidence))
