"""What the stand-in for task governance makes of quotas, and what of this project's objects it takes."""

from __future__ import annotations

import asyncio
import copy
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray import k8s
from hyperpod_ray.core import load, names
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.controllers.governance import API_VERSION, Governance, amounts
from hyperpod_ray_sandbox.kubernetes.controllers.kueue import Kueue
from hyperpod_ray_sandbox.kubernetes.kueue import digests
from hyperpod_ray_sandbox.kubernetes.store import Store
from tests.k8s.conftest import BINDINGS
from tests.sandbox.kubernetes.test_kueue import without_rules

Json = dict[str, Any]
ARN = "arn:aws:sagemaker:us-west-2:000000000001:cluster/0123456789ab"
QUOTA: Json = {
    "ComputeQuotaTarget": {"TeamName": "vision", "FairShareWeight": 50},
    "ComputeQuotaConfig": {
        "ComputeQuotaResources": [{"InstanceType": "ml.g5.8xlarge", "Count": 2}],
        "ResourceSharingConfig": {"Strategy": "LendAndBorrow", "BorrowLimit": 50},
        "PreemptTeamTasks": "Never",
    },
}
DEFINITIONS = digests.definitions()
POLICY: Json = {"SchedulerConfig": {"PriorityClasses": [{"Name": "deadline", "Weight": 90}]}}


class Aws:
    """SageMaker with these quotas and policies."""

    def __init__(self, quotas: list[Json], policies: list[Json]) -> None:
        self.quotas, self.policies = quotas, policies

    async def pages(self, _service: str, operation: str, *_: object, **given: Any) -> list[Json]:
        assert given == {"ClusterArn": ARN}
        found = {"list_compute_quotas": self.quotas}.get(operation)
        return [{"ClusterSchedulerConfigId": str(n)} for n in range(len(self.policies))] if found is None else found

    async def call(self, _service: str, _operation: str, **given: Any) -> Json:
        return self.policies[int(given["ClusterSchedulerConfigId"])]


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Api:
    """An API in this process, which has no evaluator of Kueue's rules: test_hostile_team.py asks a server for them."""
    monkeypatch.setattr(digests, "definitions", lambda: [without_rules(body) for body in DEFINITIONS])
    return Api(Store(tmp_path / "objects.sqlite"))


def poll(api: Api, quotas: list[Json], policies: list[Json]) -> dict[str, list[str]]:
    aws: Any = Aws(quotas, policies)
    asyncio.run(Governance(api).poll(aws, [{"ClusterArn": ARN}]))
    kinds = ("LocalQueue", "ClusterQueue", "ResourceFlavor", "WorkloadPriorityClass")
    return {kind: [item["metadata"]["name"] for item in api.all(API_VERSION, kind)] for kind in kinds}


def test_nothing_is_there_without_quotas(api: Api) -> None:
    assert not any(poll(api, [], []).values())


def test_a_quota_becomes_namespace_queue_and_flavor_and_goes_again(api: Api) -> None:
    assert poll(api, [QUOTA], [POLICY]) == {
        "LocalQueue": [names.team_queue("vision")],
        "ClusterQueue": ["hyperpod-ns-vision-clusterqueue"],
        "ResourceFlavor": ["ml.g5.8xlarge"],
        "WorkloadPriorityClass": [names.workload_priority("deadline")],
    }
    assert api.find("v1", "Namespace", "", "hyperpod-ns-vision")
    (queue,) = api.all(API_VERSION, "ClusterQueue")
    (flavor,) = queue["spec"]["resourceGroups"][0]["flavors"]
    gpus = next(resource for resource in flavor["resources"] if resource["name"] == "nvidia.com/gpu")
    assert gpus == {"name": "nvidia.com/gpu", "nominalQuota": "2", "borrowingLimit": "1"}
    assert queue["spec"]["preemption"]["withinClusterQueue"] == "Never"
    (local,) = api.all(API_VERSION, "LocalQueue")
    assert (local["metadata"]["namespace"], local["spec"]["clusterQueue"]) == (
        "hyperpod-ns-vision",
        "hyperpod-ns-vision-clusterqueue",
    )
    more = copy.deepcopy(QUOTA)
    more["ComputeQuotaConfig"]["ComputeQuotaResources"][0]["Count"] = 3
    poll(api, [more], [POLICY])
    (queue,) = api.all(API_VERSION, "ClusterQueue")
    assert '"nominalQuota": "3"' in str(queue).replace("'", '"')
    assert not any(poll(api, [], []).values())
    assert api.find("v1", "Namespace", "", "hyperpod-ns-vision"), "what a team left is not deleted with its quota"


def test_parts_of_an_instance_are_filled_in_proportion() -> None:
    gib = 1024**3
    assert amounts({"InstanceType": "ml.p5.48xlarge", "Accelerators": 4}) == {
        "cpu": 96.0,
        "memory": 1024.0 * gib,
        "nvidia.com/gpu": 4.0,
        "aws.amazon.com/neurondevice": 0.0,
        "vpc.amazonaws.com/efa": 16.0,
    }
    assert amounts({"InstanceType": "ml.m5.2xlarge", "VCpu": 4}) == {
        "cpu": 4.0, "memory": 16.0 * gib, "nvidia.com/gpu": 0.0, "aws.amazon.com/neurondevice": 0.0,
        "vpc.amazonaws.com/efa": 0.0,
    }  # fmt: skip


def test_a_queue_has_the_shape_of_the_services_own(api: Api) -> None:
    """Each flavor with the same five resources, of which the jobs' pods ask for some; as recorded by AWS."""
    recorded = {"aws.amazon.com/neurondevice", "cpu", "memory", "nvidia.com/gpu", "vpc.amazonaws.com/efa"}
    quota = copy.deepcopy(QUOTA)
    quota["ComputeQuotaConfig"]["ComputeQuotaResources"].append({"InstanceType": "ml.m5.2xlarge", "Count": 1})
    poll(api, [quota], [POLICY])
    (queue,) = api.all(API_VERSION, "ClusterQueue")
    (group,) = queue["spec"]["resourceGroups"]
    assert set(group["coveredResources"]) == recorded
    assert len(group["flavors"]) == 2
    for flavor in group["flavors"]:
        # Kueue's webhook compares them one by one: "must match the name in coveredResources"
        assert [resource["name"] for resource in flavor["resources"]] == group["coveredResources"]
    assert queue["spec"]["namespaceSelector"] == {}, "absent, it selects nothing"
    Kueue(api).reconcile()
    (local,) = api.all(API_VERSION, "LocalQueue")
    rows = local["status"]["flavorsReservation"]
    assert [(row["name"], {resource["name"] for resource in row["resources"]}) for row in rows] == [
        ("ml.g5.8xlarge", recorded), ("ml.m5.2xlarge", recorded),
    ]  # fmt: skip
    plan = load("teams", folder=FOLDER / "examples").plan
    for worker in plan.settings.ray.workers:
        pod = plan.worker_resources(worker)
        asked = {"cpu", "memory", pod.gpu_resource, *(["vpc.amazonaws.com/efa"] if pod.efa else [])}
        assert asked <= recorded


def test_a_poll_that_changes_nothing_writes_nothing(api: Api) -> None:
    """The API server fills in defaults: they are no difference."""
    poll(api, [QUOTA], [POLICY])
    version = api.store.version
    poll(api, [QUOTA], [POLICY])
    assert api.store.version == version


def test_partitions_and_absolute_limits(api: Api) -> None:
    """Fields of the API reference: AcceleratorPartitionConfig and AbsoluteBorrowLimits."""
    quota = copy.deepcopy(QUOTA)
    partition = {"Type": "mig-1g.10gb", "Count": 7}
    quota["ComputeQuotaConfig"] |= {
        "ComputeQuotaResources": [{"InstanceType": "ml.p5.48xlarge", "AcceleratorPartition": partition},
                                  {"InstanceType": "ml.m5.2xlarge", "Count": 1}],
        "ResourceSharingConfig": {"Strategy": "LendAndBorrow", "AbsoluteBorrowLimits": [
            {"InstanceType": "ml.p5.48xlarge", "AcceleratorPartition": {"Type": "mig-1g.10gb", "Count": 3}}]},
    }  # fmt: skip
    poll(api, [quota], [])
    (queue,) = api.all(API_VERSION, "ClusterQueue")
    (group,) = queue["spec"]["resourceGroups"]
    assert "nvidia.com/mig-1g.10gb" in group["coveredResources"]
    large, small = group["flavors"]
    (slices,) = [amount for amount in large["resources"] if amount["name"] == "nvidia.com/mig-1g.10gb"]
    assert slices == {"name": "nvidia.com/mig-1g.10gb", "nominalQuota": "7", "borrowingLimit": "3"}
    for flavor in (large, small):
        assert [resource["name"] for resource in flavor["resources"]] == group["coveredResources"]


def test_the_teams_objects_are_taken_by_the_api_after_the_quota(api: Api) -> None:
    """The namespace is there already: the manifest adds its labels to it."""
    poll(api, [QUOTA], [])
    plan = load("teams", folder=FOLDER / "examples").plan
    made = {manifest.name: manifest.objects for manifest in k8s.ray_manifests(plan, BINDINGS)}
    for item in [*made["TeamQueues"], *made["Team-vision"]]:
        resource = api.kind(item["apiVersion"], item["kind"])
        space, name = item["metadata"].get("namespace", ""), item["metadata"]["name"]
        there = api.find(item["apiVersion"], item["kind"], space, name)
        if there is None:
            api.create(resource, space, copy.deepcopy(item))
        else:
            assert item["kind"] == "Namespace"
            api.modify(there, lambda current, item=item: current["metadata"].update(labels=item["metadata"]["labels"]))  # type: ignore[misc]
    space = api.find("v1", "Namespace", "", "hyperpod-ns-vision")
    assert space is not None
    assert space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert api.find("v1", "PersistentVolumeClaim", "hyperpod-ns-vision", "team-files")
