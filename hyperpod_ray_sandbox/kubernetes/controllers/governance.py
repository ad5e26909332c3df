"""What HyperPod task governance makes of teams' quotas, as a stand-in: Kueue's definitions, namespaces, queues.

Names follow the service's guide. A ClusterQueue has the shape of the service's own: each flavor with all five
resources. The definitions are Kueue's own, and `kueue.py` admits the jobs.
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-operate-console-ui-governance-policies.html
https://github.com/aws/sagemaker-hyperpod-cli (examples/end_to_end_walkthrough/03-task-governance)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

from hyperpod_ray_rules import data, names
from hyperpod_ray_sandbox.kubernetes.amounts import written
from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.controllers.aws import Aws
from hyperpod_ray_sandbox.kubernetes.controllers.kueue import defined
from hyperpod_ray_sandbox.kubernetes.kueue import digests
from hyperpod_ray_sandbox.kubernetes.status import ApiError

Json = dict[str, Any]
API_VERSION = f"{digests.GROUP}/v1beta2"
MADE_BY = {"hyperpod-ray.sandbox/created-by": "task-governance"}
COHORT = "hyperpod-cohort"
_CRD = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")


class Governance:
    """Follows the quotas and policies of this control plane's HyperPod clusters."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._seen = ""

    async def poll(self, aws: Aws, clusters: Iterable[Json]) -> None:
        """Bring queues and classes in line with the service, once the add-on has brought Kueue."""
        arns = [cluster["ClusterArn"] for cluster in clusters]
        quotas: list[Json] = []
        policies: list[Json] = []
        for arn in arns:
            for summary in await aws.pages(
                "sagemaker", "list_cluster_scheduler_configs", "ClusterSchedulerConfigSummaries", ClusterArn=arn
            ):
                identifier = summary["ClusterSchedulerConfigId"]
                policies.append(
                    await aws.call(
                        "sagemaker", "describe_cluster_scheduler_config", ClusterSchedulerConfigId=identifier
                    )
                )
            quotas += await aws.pages("sagemaker", "list_compute_quotas", "ComputeQuotaSummaries", ClusterArn=arn)
        if policies or quotas:
            self._define()
        if not defined(self._api):
            return
        expected = {(kind, space, name): body for kind, space, name, body in objects(quotas, policies)}
        for (kind, space, name), body in expected.items():
            self._keep(kind, space, name, body)
        for kind in ("LocalQueue", "ClusterQueue", "ResourceFlavor", "WorkloadPriorityClass"):
            for existing in self._api.all(API_VERSION, kind):
                key = (kind, existing["metadata"].get("namespace", ""), existing["metadata"]["name"])
                if key not in expected and (existing["metadata"].get("labels") or {}).items() >= MADE_BY.items():
                    self._api.delete(self._api.kind(API_VERSION, kind), key[1], key[2])

    def _define(self) -> None:
        for definition in digests.definitions():
            if self._api.find(*_CRD, "", definition["metadata"]["name"]) is None:
                self._api.create(self._api.kind(*_CRD), "", definition)

    def _keep(self, kind: str, space: str, name: str, body: Json) -> None:
        version = "v1" if kind == "Namespace" else API_VERSION
        existing = self._api.find(version, kind, space, name)
        if existing is None:
            try:
                self._api.create(self._api.kind(version, kind), space, manifest(kind, space, name, body))
            except ApiError as error:
                if error.code not in (403, 409):  # a namespace that goes takes nothing new
                    raise
        elif not _within(body, existing):
            self._api.modify(existing, lambda current: current.update(body))


def _within(expected: Any, actual: Any) -> bool:
    """Whether an object has what is expected, beside the defaults that the API server filled in."""
    if isinstance(expected, dict):
        return isinstance(actual, dict) and all(_within(value, actual.get(key)) for key, value in expected.items())
    if isinstance(expected, list):
        return isinstance(actual, list) and len(actual) == len(expected) and all(map(_within, expected, actual))
    return bool(expected == actual)


def objects(quotas: Iterable[Json], policies: Iterable[Json]) -> Iterator[tuple[str, str, str, Json]]:
    """Kind, namespace, name and spec (or value) of what the service keeps."""
    for policy in policies:
        for priority in policy["SchedulerConfig"].get("PriorityClasses", []):
            name = f"{priority['Name']}{names.PRIORITY_SUFFIX}"
            yield "WorkloadPriorityClass", "", name, {"value": priority["Weight"]}
    types: set[str] = set()
    for quota in quotas:
        team = quota["ComputeQuotaTarget"]["TeamName"]
        space = f"{names.TEAM_NAMESPACE_PREFIX}{team}"
        queue = f"{space}-clusterqueue"
        yield "Namespace", "", space, {}
        yield "ClusterQueue", "", queue, {"spec": _cluster_queue(quota)}
        yield "LocalQueue", space, f"{space}{names.TEAM_QUEUE_SUFFIX}", {"spec": {"clusterQueue": queue}}
        types |= {entry["InstanceType"] for entry in quota["ComputeQuotaConfig"].get("ComputeQuotaResources", [])}
    for instance_type in sorted(types):
        yield "ResourceFlavor", "", instance_type, {"spec": {"nodeLabels": {names.INSTANCE_TYPE_LABEL: instance_type}}}


def manifest(kind: str, space: str, name: str, body: Json) -> Json:
    """One of `objects` as it is created."""
    metadata: Json = {"name": name, **({"namespace": space} if space else {})}
    if kind == "Namespace":
        return {"apiVersion": "v1", "kind": kind, "metadata": metadata}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {**metadata, "labels": dict(MADE_BY)}, **body}


def _cluster_queue(quota: Json) -> Json:
    config = quota["ComputeQuotaConfig"]
    sharing = config.get("ResourceSharingConfig") or {"Strategy": "LendAndBorrow", "BorrowLimit": 50}
    absolute = {
        quota_resource["InstanceType"]: amounts(quota_resource)
        for quota_resource in sharing.get("AbsoluteBorrowLimits") or []
    }
    entries = config.get("ComputeQuotaResources", [])
    # every flavor of a queue has the same resources, a partition of another type too
    partitions = [
        name for quota_resource in entries for name in amounts(quota_resource) if name.startswith(names.MIG_PREFIX)
    ]
    flavors = []
    for quota_resource in entries:
        resources = []
        # in the order of coveredResources, which Kueue's webhook compares one by one
        for name, amount in sorted({**dict.fromkeys(partitions, 0.0), **amounts(quota_resource)}.items()):
            limit: Json = {"name": name, "nominalQuota": written(name, Fraction(amount))}
            if sharing["Strategy"] == "LendAndBorrow":
                borrows = amount * sharing.get("BorrowLimit", 50) / 100
                if quota_resource["InstanceType"] in absolute:
                    borrows = absolute[quota_resource["InstanceType"]].get(name, 0.0)
                limit["borrowingLimit"] = written(name, Fraction(borrows))
            if sharing["Strategy"] == "DontLend":
                limit |= {"lendingLimit": "0", "borrowingLimit": "0"}
            if sharing["Strategy"] == "Lend":
                limit["borrowingLimit"] = "0"
            resources.append(limit)
        flavors.append({"name": quota_resource["InstanceType"], "resources": resources})
    covered = sorted({resource["name"] for flavor in flavors for resource in flavor["resources"]})
    within = "LowerPriority" if config.get("PreemptTeamTasks", "LowerPriority") == "LowerPriority" else "Never"
    return {
        "cohortName": COHORT,
        # without a selector a queue takes jobs of no namespace; the strategy is Kueue's default
        "namespaceSelector": {},
        "queueingStrategy": "BestEffortFIFO",
        "resourceGroups": [{"coveredResources": covered, "flavors": flavors}],
        "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": within},
        "fairSharing": {"weight": str(quota["ComputeQuotaTarget"].get("FairShareWeight", 0))},
    }


def amounts(resource: Json) -> dict[str, float]:
    """Resources of a quota; what is not given is filled in proportion to the instance, as the service does."""
    figures = data.read("instance_types.yaml").get(resource["InstanceType"], {})
    per = {
        "cpu": float(figures.get("vcpus", 0)),
        "memory": float(figures.get("memory_gib", 0)),
        "accelerators": float(figures.get("accelerators", 0)),
    }
    requested = {
        "cpu": resource.get("VCpu"),
        "memory": resource.get("MemoryInGiB"),
        "accelerators": resource.get("Accelerators"),
    }
    part = resource.get("Count")
    if part is None:
        part = max([0.0, *(value / per[key] for key, value in requested.items() if value and per[key])])
    filled = {key: float(requested[key] or 0) or part * per[key] for key in per}
    device = {"nvidia": names.GPU_RESOURCE, "neuron": names.NEURON_DEVICE}.get(str(figures.get("accelerator")))
    counted = {names.GPU_RESOURCE: 0.0, names.NEURON_DEVICE: 0.0} | ({device: filled["accelerators"]} if device else {})
    count = resource.get("Count")
    partition = resource.get("AcceleratorPartition")
    if partition:
        counted[f"{names.MIG_PREFIX}{partition['Type'].removeprefix('mig-')}"] = float(partition["Count"])
    share = float(count) if count is not None else max((filled[key] / per[key] for key in per if per[key]), default=0.0)
    efa = float(int(share * float(figures.get("efa", 0))))
    return {"cpu": filled["cpu"], "memory": filled["memory"] * 1024**3, **counted, names.EFA_RESOURCE: efa}
