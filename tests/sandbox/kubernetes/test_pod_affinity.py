"""Pod affinity, as kube-scheduler's plugin `interpodaffinity` has it: a node without the key is in no domain."""

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.controllers import scheduler

Json = dict[str, Any]
KEY = "kubernetes.io/hostname"


def pod(field: str = "", *, node: str = "") -> Json:
    term = {"topologyKey": KEY, "labelSelector": {"matchLabels": {"app": "a"}}}
    affinity = {field: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}} if field else {}
    return {"metadata": {"namespace": "x", "labels": {"app": "a"}}, "spec": {"affinity": affinity, "nodeName": node}}


def node(name: str, *, labelled: bool) -> Json:
    return {"metadata": {"name": name, "labels": {KEY: name} if labelled else {}}}


@pytest.mark.parametrize(
    ("field", "labelled", "beside", "fits"),
    [
        ("podAntiAffinity", True, True, False),
        ("podAntiAffinity", True, False, True),
        ("podAntiAffinity", False, True, True),
        ("podAntiAffinity", False, False, True),
        ("podAffinity", True, True, True),
        ("podAffinity", True, False, False),
        ("podAffinity", False, True, False),
        ("podAffinity", False, False, False),
    ],
)
def test_a_node_beside_a_pod_and_another(field: str, labelled: bool, beside: bool, fits: bool) -> None:
    """One pod runs on the first node; the same again asks for its company, or for none of it."""
    nodes = [node(name, labelled=labelled) for name in ("first", "second")]
    cluster = scheduler.Cluster(nodes, [pod(node="first")])
    domains = scheduler._domains(pod(field), cluster)
    refusal = scheduler._why_not(pod(field), nodes[not beside], cluster, {}, domains)
    assert (refusal == "") is fits
