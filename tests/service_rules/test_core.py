"""`hyperpod-ray env check` refuses what the services refuse, by the same rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hyperpod_ray.core import requests
from hyperpod_ray_rules import data, fsx, hyperpod
from tests.core.environment_files import problems
from tests.service_rules.cases import (
    ACCOUNT,
    FSX,
    FSX_OF_NO_FILE,
    HYPERPOD,
    OF_NO_FILE,
    SLURM,
    Case,
    cluster_request,
    plan_of,
    slurm_request,
)

WHERE = hyperpod.Where(region="us-west-2", account=ACCOUNT)


def errors(case: Case, edits: dict[str, object]) -> list[str]:
    return [str(p) for p in problems({"account": ACCOUNT, **edits}) if p.severity == "error"]


@pytest.mark.parametrize("case", HYPERPOD, ids=lambda c: c.rule)
def test_a_file_that_hyperpod_refuses_is_refused(case: Case) -> None:
    found = list(hyperpod.create_cluster(cluster_request(case.refused), WHERE))
    assert {f.rule for f in found} == {case.rule}
    assert errors(case, case.refused), found


@pytest.mark.parametrize("case", HYPERPOD, ids=lambda c: c.rule)
def test_the_nearest_file_is_accepted(case: Case) -> None:
    assert list(hyperpod.create_cluster(cluster_request(case.accepted), WHERE)) == []
    assert errors(case, case.accepted) == []


def test_every_rule_has_a_case() -> None:
    assert {case.rule for case in HYPERPOD} | set(OF_NO_FILE) | {rule for rule, _ in SLURM} == set(hyperpod.RULES)


def test_a_good_cluster_on_slurm_is_accepted() -> None:
    assert list(hyperpod.create_cluster(slurm_request(), WHERE)) == []


@pytest.mark.parametrize(("rule", "change"), SLURM, ids=lambda value: value if isinstance(value, str) else "")
def test_what_slurm_does_not_get(rule: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    assert {found.rule for found in hyperpod.create_cluster(change(slurm_request()), WHERE)} == {rule}


def test_eks_gets_no_part_in_slurm() -> None:
    request = cluster_request({})
    request["InstanceGroups"][0]["SlurmConfig"] = {"NodeType": "Login"}
    request["InstanceGroups"][0]["LifeCycleConfig"] = {"OnInitComplete": "more.sh"}
    found = {found.rule for found in hyperpod.create_cluster(request, WHERE)}
    assert found == {"slurm_members", "one_way_to_start"}


@pytest.mark.parametrize("rule", OF_NO_FILE)
def test_what_no_file_can_say_is_refused_by_its_rule(rule: str) -> None:
    found = list(hyperpod.create_cluster(OF_NO_FILE[rule](cluster_request({})), WHERE))
    assert {f.rule for f in found} == {rule}


@pytest.mark.parametrize("case", FSX, ids=lambda c: str(c.refused))
def test_file_systems(case: Case) -> None:
    refused = requests.create_file_system(plan_of(case.refused))
    accepted = requests.create_file_system(plan_of(case.accepted))
    assert refused
    assert accepted
    assert {f.rule for f in fsx.create_file_system(refused)} == {case.rule}
    assert list(fsx.create_file_system(accepted)) == []
    assert errors(case, case.refused)
    assert errors(case, case.accepted) == []


@pytest.mark.parametrize("rule", FSX_OF_NO_FILE)
def test_file_systems_that_no_file_can_ask_for(rule: str) -> None:
    good = requests.create_file_system(plan_of({}))
    assert good
    assert {f.rule for f in fsx.create_file_system({**good, **FSX_OF_NO_FILE[rule]})} == {rule}


def test_a_version_that_hyperpod_does_not_support() -> None:
    assert {f.rule for f in hyperpod.orchestrator_version("1.29")} == {"orchestrator_version"}
    assert any("1.29" in str(problem) for problem in problems({"eks/version": "1.29"}))
    assert all(not list(hyperpod.orchestrator_version(version)) for version in data.kubernetes_versions())
