"""What a change of a RayCluster does to Ray, as KubeRay and Ray document it."""

# ruff: noqa: E501  (a row is one line, to be read across)

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray.review.effects import raycluster
from hyperpod_ray.review.findings import Findings
from hyperpod_ray.review.kubernetes import KubernetesObject, ObjectName
from tests.review.small import Json


def test_a_raycluster_that_is_made_again() -> None:
    """https://ray-project.github.io/kuberay/reference/api/ (RayClusterUpgradeStrategy)."""
    assert raycluster._strategy({"upgradeStrategy": {"type": "Recreate"}}) == "Recreate"
    assert raycluster._strategy({}) == "None"


@pytest.mark.parametrize(
    ("before", "after", "effect", "remarked"),
    [
        # https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/kuberay-gcs-ft.html
        ("", "redis.example.com:6379", None, 0),
        ("redis.example.com:6379", "redis.example.com:6379", None, 0),
        ("redis.example.com:6379", "other.example.com:6379", "interrupts", 0),
        ("redis.example.com:6379", "", "weakens", 0),
        ("rediss://redis.example.com:6379", "redis.example.com:6379", None, 1),
        ("redis.example.com:6379", "rediss://redis.example.com:6379", None, 0),
    ],
)
def test_where_the_head_keeps_its_state(before: str, after: str, effect: str | None, remarked: int) -> None:
    found = Findings()
    old, new = (
        {"gcsFaultToleranceOptions": {"redisAddress": address} if address else {}} for address in (before, after)
    )
    raycluster._state_store(old, new, found, {"what": "RayCluster ray/ray", "where": "x"})
    assert [row.effect.code for row in found.rows] == ([] if effect is None else [effect])
    assert [remark.direction for remark in found.remarks] == ["switched off"] * remarked


@pytest.mark.parametrize(
    ("before", "after", "rows"),
    [
        # another port is another server; without one Redis listens on 6379
        ("redis.example.com:6379", "redis.example.com:6380", 1),
        ("redis.example.com", "redis.example.com:6379", 0),
    ],
)
def test_a_server_is_a_host_and_a_port(before: str, after: str, rows: int) -> None:
    findings = Findings()
    old, new = ({"gcsFaultToleranceOptions": {"redisAddress": address}} for address in (before, after))
    raycluster._state_store(old, new, findings, {"what": "RayCluster ray/ray", "where": "x"})
    assert len(findings.rows) == rows


def stored(store: str) -> Json:
    """A RayCluster whose head has its state in Redis, on a volume (`8Gi`), or nowhere."""
    if store.endswith("Gi"):
        return {"gcsFaultToleranceOptions": {"backend": "rocksdb", "storage": {"size": store}}}
    return {"gcsFaultToleranceOptions": {"redisAddress": store}} if store else {}


@pytest.mark.parametrize(
    ("before", "after", "rows"),
    [
        # KubeRay keeps the claim as it is: raycluster_controller.go, reconcileGCSStoragePVC
        ("8Gi", "8Gi", []),
        ("8Gi", "16Gi", [("safe", "KubeRay leaves the volume as it is")]),
        ("", "8Gi", []),
        ("redis:6379", "8Gi", [("interrupts", "The next head reads an empty state")]),
        # the driver goes before the volume that it would delete
        ("8Gi", "redis:6379", [("interrupts", "Delete the RayCluster before the deploy")]),
        ("8Gi", "", [("weakens", "Delete the RayCluster before the deploy")]),
    ],
)
def test_a_volume_keeps_the_heads_state(before: str, after: str, rows: list[tuple[str, str]]) -> None:
    findings = Findings()
    raycluster._state_store(stored(before), stored(after), findings, {"what": "RayCluster ray/ray", "where": "x"})
    assert [row.effect.code for row in findings.rows] == [effect for effect, _ in rows]
    for row, (_, consequence) in zip(findings.rows, rows, strict=True):
        assert consequence in row.consequence


@pytest.mark.parametrize(("store", "rows"), [("8Gi", ["gcs-volume-zone"]), ("redis:6379", [])])
def test_a_head_that_moves_may_leave_the_zone_of_its_volume(store: str, rows: list[str]) -> None:
    """https://docs.aws.amazon.com/ebs/latest/userguide/ebs-volumes.html"""
    findings = Findings()
    head, moved = ({"template": {"spec": {"nodeSelector": {"group": name}}}} for name in ("a", "b"))
    old, new = ({**stored(store), "headGroupSpec": group} for group in (head, moved))
    raycluster._state_store(old, new, findings, {"what": "RayCluster ray/ray", "where": "x"})
    assert [row.code for row in findings.rows] == rows


NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


def stays(key: str | None, seconds: int | None = None, **more: str) -> Json:
    toleration = {"operator": "Exists", **more}
    return {
        **toleration,
        **({"key": key} if key else {}),
        **({} if seconds is None else {"tolerationSeconds": seconds}),
    }


@pytest.mark.parametrize(
    ("tolerations", "seconds"),
    [
        # https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#taint-based-evictions
        ([], 300),
        ([stays(NOT_READY, 30), stays(UNREACHABLE, 30)], 30),
        ([stays(NOT_READY, 30), stays(UNREACHABLE, 60)], 60),
        ([stays(NOT_READY, 30)], 300),  # Kubernetes adds the other
        ([stays(NOT_READY), stays(UNREACHABLE, 30)], raycluster.FOR_EVER),
        ([stays(None)], raycluster.FOR_EVER),  # without a key it tolerates every taint
        ([stays(None), stays(NOT_READY, 30), stays(UNREACHABLE, 30)], 30),
        ([stays(NOT_READY, 30), stays(NOT_READY, 90), stays(UNREACHABLE, 20)], 30),
        ([stays(NOT_READY, 0), stays(UNREACHABLE, 0)], 0),
        ([stays(NOT_READY, 900, effect="NoSchedule"), stays(UNREACHABLE, 900, effect="NoSchedule")], 300),
        ([stays("nvidia.com/gpu")], 300),
    ],
)
def test_how_long_a_pod_stays_on_a_silent_node(tolerations: list[Json], seconds: int) -> None:
    assert raycluster.tolerated({"tolerations": tolerations}) == seconds


def group(name: str = "gpu", *, image: str = "ray:1", pod: Json | None = None, **counts: Any) -> Json:
    template = {"spec": {**(pod or {}), "containers": [{"name": "ray", "image": image}]}}
    return {"groupName": name, "template": template, "replicas": 4, "minReplicas": 4, "maxReplicas": 4, **counts}


def spec(*groups: Json, **more: Any) -> Json:
    return {"rayVersion": "2.50.0", "headGroupSpec": group("head"), "workerGroupSpecs": list(groups), **more}


def projected(*names: str) -> Json:
    return {"volumes": [{"projected": {"sources": [{"secret": {"name": name}} for name in names]}}]}


def needs(name: str, **more: bool) -> Json:
    reference = {"secretKeyRef": {"name": name, "key": "k", **more}}
    return {"initContainers": [{"name": "first", "env": [{"name": "A", "valueFrom": reference}]}]}


SECRET = {"volumes": [{"secret": {"secretName": "token"}}]}
GRACE = {"terminationGracePeriodSeconds": 600}
CHANGES: dict[str, tuple[Json, Json, dict[str, str]]] = {
    "nothing": (spec(group()), spec(group()), {}),
    "suspended": (spec(group()), spec(group(), suspend=True), {"ray-suspended": "interrupts"}),
    "resumed": (spec(group(), suspend=True), spec(group()), {"ray-resumed": "safe"}),
    "fewer": (spec(group()), spec(group(replicas=3)), {"ray-fewer-workers": "interrupts"}),
    "fewer at most": (spec(group()), spec(group(maxReplicas=2)), {"ray-fewer-workers": "interrupts"}),
    "more": (spec(group()), spec(group(replicas=5, maxReplicas=5)), {"ray-more-workers": "safe"}),
    "a lower limit": (
        spec(group(maxReplicas=9), enableInTreeAutoscaling=True), spec(group(maxReplicas=8), enableInTreeAutoscaling=True),
        {"ray-limits-lowered": "interrupts"},
    ),
    "a lower limit of nobody": (spec(group(maxReplicas=9)), spec(group(maxReplicas=8)), {"ray-limits": "safe"}),
    "a higher limit": (spec(group()), spec(group(maxReplicas=8)), {"ray-limits": "safe"}),
    "a group goes": (spec(group(), group("b")), spec(group()), {"ray-group-removed": "interrupts"}),
    "a group comes": (spec(group()), spec(group(), group("b")), {"ray-group-added": "safe"}),
    "another image": (spec(group()), spec(group(image="ray:2")), {"ray-not-restarted": "safe"}),
    "another version": (spec(group()), spec(group(), rayVersion="2.51.0"), {"ray-mixed": "interrupts"}),
    "made again": (
        spec(group(), upgradeStrategy={"type": "Recreate"}), spec(group(image="ray:2"), upgradeStrategy={"type": "Recreate"}),
        {"ray-recreated": "interrupts"},
    ),
    "made again from now on": (
        spec(group()), spec(group(image="ray:2"), upgradeStrategy={"type": "Recreate"}), {"ray-recreated": "interrupts"},
    ),
    "counts of one that is made again": (
        spec(group(), upgradeStrategy={"type": "Recreate"}),
        spec(group(replicas=5, maxReplicas=5), upgradeStrategy={"type": "Recreate"}), {"ray-more-workers": "safe"},
    ),
    "a secret goes": (
        spec(group(pod=SECRET)), spec(group()), {"secret-taken": "interrupts", "ray-not-restarted": "safe"},
    ),
    # https://kubernetes.io/docs/concepts/storage/projected-volumes/
    "a secret of a projected volume goes": (
        spec(group(pod=projected("token", "other"))), spec(group(pod=projected("other"))),
        {"secret-taken": "interrupts", "ray-not-restarted": "safe"},
    ),
    # https://kubernetes.io/docs/concepts/configuration/secret/#restriction-secret-must-exist: unless marked optional
    "a secret is needed": (spec(group()), spec(group(pod=needs("pw"))), {"secret-needed": "interrupts", "ray-not-restarted": "safe"}),
    "a secret is needed for certain": (
        spec(group()), spec(group(pod=needs("pw", optional=False))), {"secret-needed": "interrupts", "ray-not-restarted": "safe"},
    ),
    "a secret that may be missing": (spec(group()), spec(group(pod=needs("pw", optional=True))), {"ray-not-restarted": "safe"}),
    "less time for a checkpoint": (
        spec(group(pod=GRACE)), spec(group(pod={"terminationGracePeriodSeconds": 60})), {"ray-not-restarted": "safe"},
    ),
}  # fmt: skip


def ray(spec: Json) -> KubernetesObject:
    return KubernetesObject(id=ObjectName("RayCluster", "ray", "ray"), data={"spec": spec}, manifest=None, where="")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", CHANGES)
def test_what_kuberay_does(name: str) -> None:
    before, after, rows = CHANGES[name]
    findings = Findings()
    raycluster.find(ray(before), ray(after), findings)
    assert {row.code: row.effect.code for row in findings.rows} == rows
    assert [remark.what for remark in findings.remarks] == (
        ["time for a last checkpoint of RayCluster ray/ray"] if "checkpoint" in name else []
    )
