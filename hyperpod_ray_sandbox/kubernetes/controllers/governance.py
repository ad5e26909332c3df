"""What HyperPod task governance makes of teams' quotas, as a stand-in: Kueue's definitions, namespaces, queues.

Kueue itself is not here: nothing admits a job. Names follow the service's guide. A ClusterQueue has the shape of the
service's own: each flavor with all five resources. The definitions keep the kinds and their versions, and Kueue's own
rule for a queue's resources.
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-operate-console-ui-governance-policies.html
https://github.com/aws/sagemaker-hyperpod-cli (examples/end_to_end_walkthrough/03-task-governance)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from hyperpod_ray_rules import data, names
from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.controllers.aws import Aws
from hyperpod_ray_sandbox.kubernetes.controllers.common import set_status
from hyperpod_ray_sandbox.kubernetes.status import ApiError

Json = dict[str, Any]
GROUP, STORED, SERVED = "kueue.x-k8s.io", "v1beta2", ("v1beta1", "v1beta2")
API_VERSION = f"{GROUP}/{STORED}"
KINDS = {
    "clusterqueues": ("ClusterQueue", "Cluster"),
    "localqueues": ("LocalQueue", "Namespaced"),
    "resourceflavors": ("ResourceFlavor", "Cluster"),
    "workloads": ("Workload", "Namespaced"),
    "workloadpriorityclasses": ("WorkloadPriorityClass", "Cluster"),
}
MADE_BY = {"hyperpod-ray.sandbox/created-by": "task-governance"}
COHORT = "hyperpod-cohort"
NEURON_DEVICE = "aws.amazon.com/neurondevice"
"""What the service's queues call a Neuron device."""
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
        if not self._defined():
            return
        desired = {(kind, space, name): content for kind, space, name, content in self._objects(quotas, policies)}
        for (kind, space, name), content in desired.items():
            self._keep(kind, space, name, content)
        for kind in ("LocalQueue", "ClusterQueue", "ResourceFlavor", "WorkloadPriorityClass"):
            for existing in self._api.all(API_VERSION, kind):
                key = (kind, existing["metadata"].get("namespace", ""), existing["metadata"]["name"])
                if key not in desired and (existing["metadata"].get("labels") or {}).items() >= MADE_BY.items():
                    self._api.delete(self._api.kind(API_VERSION, kind), key[1], key[2])

    def _defined(self) -> bool:
        return self._api.find(*_CRD, "", f"workloads.{GROUP}") is not None

    def _define(self) -> None:
        for plural, (kind, scope) in KINDS.items():
            if self._api.find(*_CRD, "", f"{plural}.{GROUP}") is None:
                self._api.create(self._api.kind(*_CRD), "", definition(plural, kind, scope))

    def _objects(self, quotas: list[Json], policies: list[Json]) -> Iterator[tuple[str, str, str, Json]]:
        """Kind, namespace, name and spec (or value) of what the service keeps."""
        for policy in policies:
            for priority in policy["SchedulerConfig"].get("PriorityClasses", []):
                yield (
                    "WorkloadPriorityClass",
                    "",
                    f"{priority['Name']}{names.PRIORITY_SUFFIX}",
                    {"value": priority["Weight"]},
                )
        types: set[str] = set()
        for quota in quotas:
            team = quota["ComputeQuotaTarget"]["TeamName"]
            space = f"{names.TEAM_NAMESPACE_PREFIX}{team}"
            yield "Namespace", "", space, {}
            yield "ClusterQueue", "", f"{space}-clusterqueue", {"spec": _cluster_queue(quota)}
            spec = {"clusterQueue": f"{space}-clusterqueue"}
            yield "LocalQueue", space, f"{space}{names.TEAM_QUEUE_SUFFIX}", {"spec": spec, "status": _local(quota)}
            types |= {
                resource["InstanceType"] for resource in quota["ComputeQuotaConfig"].get("ComputeQuotaResources", [])
            }
        for instance_type in sorted(types):
            yield (
                "ResourceFlavor",
                "",
                instance_type,
                {"spec": {"nodeLabels": {names.INSTANCE_TYPE_LABEL: instance_type}}},
            )

    def _keep(self, kind: str, space: str, name: str, content: Json) -> None:
        version = "v1" if kind == "Namespace" else API_VERSION
        existing = self._api.find(version, kind, space, name)
        if existing is None:
            metadata: Json = {"name": name, **({"namespace": space} if space else {})}
            if kind != "Namespace":
                metadata["labels"] = dict(MADE_BY)
            body = {"apiVersion": version, "kind": kind, "metadata": metadata, **content}
            try:
                self._api.create(self._api.kind(version, kind), space, body)
            except ApiError as error:
                if error.code not in (403, 409):  # a namespace that goes takes nothing new
                    raise
        elif kind != "Namespace" and any(
            existing.get(key) != value for key, value in content.items() if key != "status"
        ):
            fields = {key: value for key, value in content.items() if key != "status"}
            self._api.modify(existing, lambda current: current.update(fields))
        if (status := content.get("status")) and (created := self._api.find(version, kind, space, name)) is not None:
            set_status(self._api, created, lambda current: current.update(status))


def _local(quota: Json) -> Json:
    """Status of a LocalQueue: what a member reads of the flavors that its queue has."""
    entries = quota["ComputeQuotaConfig"].get("ComputeQuotaResources", [])
    return {
        "flavors": [
            {
                "name": resource["InstanceType"],
                "resources": sorted(amounts(resource)),
                "nodeLabels": {names.INSTANCE_TYPE_LABEL: resource["InstanceType"]},
            }
            for resource in entries
        ]
    }


def _cluster_queue(quota: Json) -> Json:
    config = quota["ComputeQuotaConfig"]
    sharing = config.get("ResourceSharingConfig") or {"Strategy": "LendAndBorrow", "BorrowLimit": 50}
    flavors = []
    for quota_resource in config.get("ComputeQuotaResources", []):
        resources = []
        for name, amount in amounts(quota_resource).items():
            limit: Json = {"name": name, "nominalQuota": f"{amount:g}"}
            if sharing["Strategy"] == "LendAndBorrow":
                limit["borrowingLimit"] = f"{amount * sharing.get('BorrowLimit', 50) / 100:g}"
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
    device = {"nvidia": names.GPU_RESOURCE, "neuron": NEURON_DEVICE}.get(str(figures.get("accelerator")))
    counted = {names.GPU_RESOURCE: 0.0, NEURON_DEVICE: 0.0} | ({device: filled["accelerators"]} if device else {})
    count = resource.get("Count")
    share = float(count) if count is not None else max((filled[key] / per[key] for key in per if per[key]), default=0.0)
    efa = float(int(share * float(figures.get("efa", 0))))
    return {"cpu": filled["cpu"], "memory": filled["memory"] * 1024**3, **counted, names.EFA_RESOURCE: efa}


RULES: dict[str, Json] = {
    "clusterqueues": {
        "spec": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {
                "resourceGroups": {
                    "type": "array",
                    "maxItems": 16,
                    "items": {
                        "type": "object",
                        "required": ["coveredResources", "flavors"],
                        "x-kubernetes-validations": [
                            {
                                "rule": "self.flavors.all(x, size(x.resources) == size(self.coveredResources))",
                                "message": "flavors must have the same number of resources as the coveredResources",
                            }
                        ],
                        "properties": {
                            "coveredResources": {
                                "type": "array", "minItems": 1, "maxItems": 64, "items": {"type": "string"},
                            },
                            "flavors": {
                                "type": "array",
                                "minItems": 1,
                                "maxItems": 64,
                                "items": {
                                    "type": "object",
                                    "required": ["name", "resources"],
                                    "properties": {
                                        "name": {"type": "string"},
                                        "resources": {
                                            "type": "array",
                                            "minItems": 1,
                                            "maxItems": 64,
                                            "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                        },
                                    },
                                },
                            },
                        },
                    },
                }
            },
        }
    }
}  # fmt: skip
"""Kueue's own schema of what its rules read (v0.19.2, apis/kueue/v1beta2/clusterqueue_types.go)."""


def definition(plural: str, kind: str, scope: str) -> Json:
    """A definition of one of Kueue's kinds that takes any object."""
    anything: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    anything |= {"properties": RULES[plural]} if plural in RULES else {}
    versions = [
        {
            "name": version,
            "served": True,
            "storage": version == STORED,
            "schema": {"openAPIV3Schema": anything},
            "subresources": {"status": {}},
        }
        for version in SERVED
    ]
    return {
        "apiVersion": _CRD[0],
        "kind": _CRD[1],
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "scope": scope,
            "versions": versions,
        },
    }
