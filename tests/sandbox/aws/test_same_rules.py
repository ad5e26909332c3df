"""The embedded AWS refuses the list that `hyperpod-ray env check` refuses, in the words of the rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hyperpod_ray.core import requests
from hyperpod_ray_rules import fsx, hyperpod
from tests.sandbox.aws.same_rules_helpers import refusal
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
from tests.support.emulator import Emulator, until

pytestmark = pytest.mark.emulator
WHERE = hyperpod.Where(region="us-west-2", account=ACCOUNT)


@pytest.mark.parametrize("case", HYPERPOD, ids=lambda c: c.rule)
def test_hyperpod_refuses(case: Case, emulator: Emulator) -> None:
    request = cluster_request(case.refused)
    (first, *_) = hyperpod.create_cluster(request, WHERE)
    assert first.rule == case.rule
    assert refusal(emulator.boto("sagemaker").create_cluster, **request) == ("ValidationException", first.message)


@pytest.mark.parametrize("rule", OF_NO_FILE)
def test_hyperpod_refuses_what_no_file_says(rule: str, emulator: Emulator) -> None:
    request = OF_NO_FILE[rule](cluster_request({}))
    (first, *_) = hyperpod.create_cluster(request, WHERE)
    assert refusal(emulator.boto("sagemaker").create_cluster, **request)[1] == first.message


@pytest.mark.parametrize("case", [c for c in HYPERPOD if c.accepted], ids=lambda c: c.rule)
def test_hyperpod_accepts_the_nearest(case: Case, emulator: Emulator) -> None:
    """As far as the cluster that orchestrates it, which is not there."""
    code, message = refusal(emulator.boto("sagemaker").create_cluster, **cluster_request(case.accepted))
    assert (code, message.endswith("cluster/none does not exist")) == ("ValidationException", True)


@pytest.mark.parametrize(("rule", "change"), SLURM, ids=lambda value: value if isinstance(value, str) else "")
def test_hyperpod_refuses_on_slurm(rule: str, change: Callable[[Any], Any], emulator: Emulator) -> None:
    request = change(slurm_request())
    (first, *_) = hyperpod.create_cluster(request, WHERE)
    assert first.rule == rule
    assert refusal(emulator.boto("sagemaker").create_cluster, **request) == ("ValidationException", first.message)


def test_a_cluster_on_slurm_is_made_and_changed_by_the_same_rules(mounted: dict[str, Any], emulator: Emulator) -> None:
    api, name = emulator.boto("sagemaker"), mounted["ClusterName"]
    api.create_cluster(**mounted)

    def update(*groups: dict[str, Any]) -> dict[str, Any]:
        return {"ClusterName": name, "InstanceGroups": list(groups)}

    try:
        until(lambda: api.describe_cluster(ClusterName=name)["ClusterStatus"] == "InService")
        controller, _, workers = mounted["InstanceGroups"]
        assert "has exactly one" in refusal(api.update_cluster, **update({**controller, "InstanceCount": 2}))[1]
        second = {**controller, "InstanceGroupName": "second"}
        assert "second group of NodeType Controller" in refusal(api.update_cluster, **update(second))[1]
        gone = {"ClusterName": name, "InstanceGroupsToDelete": ["controller"], "InstanceGroups": [workers]}
        assert "No instance group is of NodeType Controller" in refusal(api.update_cluster, **gone)[1]
        lustre = {"DnsName": "fs-11111111.fsx.us-west-2.amazonaws.com", "MountName": "a", "MountPath": "/fsx"}
        other = {**workers, "InstanceGroupName": "more", "InstanceStorageConfigs": [{"FsxLustreConfig": lustre}]}
        assert "no LUSTRE file system has fs-11111111" in refusal(api.update_cluster, **update(other))[1]
        api.update_cluster(**update({**workers, "InstanceCount": 5}))
    finally:
        until(lambda: api.describe_cluster(ClusterName=name)["ClusterStatus"] == "InService")
        api.delete_cluster(ClusterName=name)
        until(lambda: name not in [summary["ClusterName"] for summary in api.list_clusters()["ClusterSummaries"]])


@pytest.mark.parametrize("case", FSX, ids=lambda c: str(c.refused))
def test_fsx_refuses(case: Case, emulator: Emulator) -> None:
    request = requests.create_file_system(plan_of(case.refused))
    assert request
    (first, *_) = fsx.create_file_system(request)
    assert refusal(emulator.boto("fsx").create_file_system, **request) == ("BadRequest", first.message)


@pytest.mark.parametrize("rule", FSX_OF_NO_FILE)
def test_fsx_refuses_what_no_file_says(rule: str, emulator: Emulator) -> None:
    request = {**(requests.create_file_system(plan_of({})) or {}), **FSX_OF_NO_FILE[rule]}
    (first, *_) = fsx.create_file_system(request)
    assert refusal(emulator.boto("fsx").create_file_system, **request)[1] == first.message
