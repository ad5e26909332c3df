"""Which pods reach which by the rendered network policies of two teams, by Kubernetes' own rules.

A pod that a policy selects accepts what one of these policies allows, and nothing else.
https://kubernetes.io/docs/concepts/services-networking/network-policies/
"""

from __future__ import annotations

import functools
from typing import Any

import pytest

from hyperpod_ray import k8s
from hyperpod_ray.core import load
from hyperpod_ray.core.loader import FOLDER
from tests.k8s.conftest import BINDINGS

Json = dict[str, Any]
VISION, SPEECH = "hyperpod-ns-vision", "hyperpod-ns-speech"
RAY = {"ray.io/is-ray-node": "yes"}
HEAD, WORKER = {**RAY, "ray.io/node-type": "head"}, {**RAY, "ray.io/node-type": "worker"}
CLIENT = {"hyperpod-ray/client": "true"}
PORTS = {"dashboard and Jobs API": 8265, "GCS": 6379, "Ray client": 10001, "metrics": 8080, "a worker's own": 30000}


@functools.cache
def policies(namespace: str) -> tuple[Json, ...]:
    plan = load("teams", folder=FOLDER / "examples").plan
    manifests = [*k8s.namespace_manifests(plan), *k8s.ray_manifests(plan, BINDINGS)]
    bodies = [body for manifest in manifests for body in manifest.objects if body["kind"] == "NetworkPolicy"]
    return tuple(body["spec"] for body in bodies if body["metadata"].get("namespace") == namespace)


def matches(selector: Json, labels: Json) -> bool:
    assert not selector.get("matchExpressions"), "not evaluated here"
    return (selector.get("matchLabels") or {}).items() <= labels.items()


def peers(peer: Json, *, own: str, namespace: str, labels: Json) -> bool:
    """Whether a peer of a rule in namespace `own` is a pod elsewhere; addresses are none of a pod's selectors."""
    if "ipBlock" in peer:
        return False
    spaces = peer.get("namespaceSelector")
    there = namespace == own if spaces is None else matches(spaces, {"kubernetes.io/metadata.name": namespace})
    return there and matches(peer.get("podSelector") or {}, labels)


def accepts(space: str, labels: Json, *, of: str, peer: Json, port: int) -> bool:
    """Whether a pod accepts a connection from another."""
    mine = [
        spec for spec in policies(space)
        if "Ingress" in spec.get("policyTypes", ["Ingress"]) and matches(spec["podSelector"], labels)
    ]  # fmt: skip
    if not mine:
        return True
    rules = [rule for spec in mine for rule in spec.get("ingress") or []]
    return any(
        ("from" not in rule or any(peers(one, own=space, namespace=of, labels=peer) for one in rule["from"]))
        and ("ports" not in rule or port in [port["port"] for port in rule["ports"]])
        for rule in rules
    )


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize("labels", [HEAD, WORKER, CLIENT])
def test_no_pod_of_one_team_reaches_ray_of_the_other(labels: Json, port: str) -> None:
    """Whatever labels a member puts on a pod: dashboards, the Jobs API, metrics and Ray itself are the team's own."""
    for target in (HEAD, WORKER):
        assert not accepts(VISION, target, of=SPEECH, peer=labels, port=PORTS[port])
    assert not accepts("ray", HEAD, of=SPEECH, peer=labels, port=PORTS[port]), "nor the standing cluster"


@pytest.mark.parametrize("port", PORTS)
def test_a_team_reaches_its_own_ray(port: str) -> None:
    assert accepts(VISION, HEAD, of=VISION, peer=WORKER, port=PORTS[port])
    assert accepts(VISION, WORKER, of=VISION, peer=HEAD, port=PORTS[port])


def test_the_driver_of_a_job_reaches_its_jobs_api_and_nothing_else() -> None:
    assert accepts(VISION, HEAD, of=VISION, peer=CLIENT, port=8265)
    assert not accepts(VISION, HEAD, of=VISION, peer=CLIENT, port=6379)
    assert accepts(VISION, HEAD, of="kuberay-operator", peer={}, port=8265)
