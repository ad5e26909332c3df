"""What tests of `k8s_cluster_objects`, `k8s_namespaces`, `k8s_network_policies` share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def policies(variant: Any, namespace: str = "ray") -> dict[str, dict[str, Any]]:
    return {
        item["metadata"]["name"]: item["spec"]
        for item in variant.kind("NetworkPolicy")
        if item["metadata"]["namespace"] == namespace
    }


def pods(variant: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Namespace and spec of every pod that a manifest of this project leads to."""
    for item in variant.objects:
        namespace, spec = item["metadata"].get("namespace", ""), item.get("spec", {})
        if item["kind"] in ("Job", "Deployment", "DaemonSet"):
            yield namespace, spec["template"]["spec"]
        elif item["kind"] == "RayCluster":
            for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
                yield namespace, group["template"]["spec"]
