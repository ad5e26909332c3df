"""What Kueue's webhook refuses of a RayJob or RayCluster with a queue, and what HyperPod task governance offers where.

Written from Kueue's own validation, `pkg/controller/jobs/{rayjob,raycluster}` and `pkg/controller/jobframework` of
v0.19.2, which the add-on v1.6.0-eksbuild.1 packages. https://github.com/kubernetes-sigs/kueue
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hyperpod_ray_rules import names

Json = dict[str, Any]

POD_SETS = {"0.17": 8, "0.18": 10, "0.19": 18}
"""`MaxPodSets` by version."""
FEWEST_POD_SETS = min(POD_SETS.values())
HEAD = "head"
"""Name of the head's pod set; no worker group may have it."""
ELASTIC = "kueue.x-k8s.io/elastic-job"
TOPOLOGY_UNCONSTRAINED = "kueue.x-k8s.io/podset-unconstrained-topology"
QUOTA_REGIONS = frozenset(
    {
        "us-east-1", "us-east-2", "us-west-1", "us-west-2", "ap-south-1", "ap-southeast-1", "ap-southeast-2",
        "ap-southeast-3", "ap-northeast-1", "eu-central-1", "eu-west-1", "eu-west-2", "eu-north-1", "eu-south-2",
        "sa-east-1",
    }
)  # fmt: skip
"""Regions of `AWS::SageMaker::ComputeQuota`, from the description in its resource schema."""


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """What the webhook refuses."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def managed(manifest: Json) -> bool:
    """Whether Kueue manages an object: it has a queue."""
    return bool(_labels(manifest).get(names.QUEUE_LABEL))


def judge(manifest: Json, *, pod_sets: int = FEWEST_POD_SETS) -> list[Refusal]:
    """What Kueue's webhook refuses of an object as it is created; nothing of one without a queue.

    Args:
        manifest: A RayJob or a RayCluster.
        pod_sets: `MaxPodSets` of the version. Default: that of the oldest here.
    """
    if not managed(manifest):
        return []
    if manifest["kind"] == "RayCluster":
        return list(_cluster(manifest, manifest.get("spec") or {}, "spec", extra=0, pod_sets=pod_sets))
    return list(_job(manifest, pod_sets))


def defaulted(manifest: Json) -> Json:
    """The object as the mutating webhook leaves it: one with a queue is suspended until it is admitted."""
    if not managed(manifest) or manifest.get("spec", {}).get("clusterSelector"):
        return manifest
    return {**manifest, "spec": {**manifest["spec"], "suspend": True}}


def _job(manifest: Json, pod_sets: int) -> Iterator[Refusal]:
    spec = manifest.get("spec") or {}
    selector, cluster = spec.get("clusterSelector"), spec.get("rayClusterSpec")
    if selector and cluster is not None:
        yield Refusal(path="spec.clusterSelector", message="a kueue managed job should not use an existing cluster")
        return
    if selector:
        return
    if cluster is None:
        message = "rayClusterSpec is required for Kueue-managed jobs that don't use clusterSelector"
        yield Refusal(path="spec.rayClusterSpec", message=message)
        return
    if not spec.get("shutdownAfterJobFinishes"):
        message = "a kueue managed job should delete the cluster after finishing"
        yield Refusal(path="spec.shutdownAfterJobFinishes", message=message)
    submitter = 1 if (spec.get("submissionMode") or "K8sJobMode") == "K8sJobMode" else 0
    yield from _cluster(manifest, cluster, "spec.rayClusterSpec", extra=submitter, pod_sets=pod_sets)


def _cluster(manifest: Json, spec: Json, path: str, *, extra: int, pod_sets: int) -> Iterator[Refusal]:
    groups = spec.get("workerGroupSpecs") or []
    if spec.get("enableInTreeAutoscaling") and _annotations(manifest).get(ELASTIC) != "true":
        message = "a kueue managed job should only use autoscaling when workload slicing is enabled"
        yield Refusal(path=f"{path}.enableInTreeAutoscaling", message=message)
    # the webhook leaves the submitter out; a Workload with it is refused later, so that it is counted here
    if (count := 1 + len(groups) + extra) > pod_sets:
        yield Refusal(path=f"{path}.workerGroupSpecs", message=f"Too many: {count}: must have at most {pod_sets} items")
    for index, group in enumerate(groups):
        if group.get("groupName") == HEAD:
            message = f'"{HEAD}" is reserved for the head group'
            yield Refusal(path=f"{path}.workerGroupSpecs[{index}].groupName", message=message)
    templates = [(f"{path}.headGroupSpec", spec.get("headGroupSpec") or {})]
    templates += [(f"{path}.workerGroupSpecs[{index}]", group) for index, group in enumerate(groups)]
    for group_path, group in templates:
        annotations = ((group.get("template") or {}).get("metadata") or {}).get("annotations") or {}
        kinds = (names.TOPOLOGY_REQUIRED, names.TOPOLOGY_PREFERRED, TOPOLOGY_UNCONSTRAINED)
        if sum(annotation in annotations for annotation in kinds) > 1:
            listed = ", ".join(f'"{annotation}"' for annotation in kinds)
            message = f"must not contain more than one topology annotation: [{listed}]"
            yield Refusal(path=f"{group_path}.template.metadata.annotations", message=message)


def _labels(manifest: Json) -> Mapping[str, str]:
    return (manifest.get("metadata") or {}).get("labels") or {}


def _annotations(manifest: Json) -> Mapping[str, str]:
    return (manifest.get("metadata") or {}).get("annotations") or {}
