"""Every host that a manifest names, and whether the network policies let its pods get there.

Hosts are found in the manifests, in any text that looks like an address. Policies are judged as Kubernetes does:
https://kubernetes.io/docs/concepts/services-networking/network-policies/
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Any

import pytest

from hyperpod_ray.core import needs

ADDRESS = re.compile(
    r"(?:(?P<scheme>https?|redis)://)?(?P<host>[a-z][a-z0-9-]*(?:\.[a-z0-9-]+)*)(?::(?P<port>[1-9]\d{1,4}))?/?$"
)
DEFAULT = {"http": 80, "https": 443, "redis": 6379}
AGENT = "HYPERPOD_JMA_HOST"
"""AWS's library takes it for the host of the agent, whose port it knows: see tests/resilience/test_job_agent.py."""
BROWSER = "RAY_GRAFANA_IFRAME_HOST"
"""Names a host for people's browsers; no pod connects to it."""


def named(node: Any) -> Iterator[tuple[str, int]]:
    """Hosts and ports below a part of a manifest: texts that are nothing but an address with a scheme or a port."""
    if isinstance(node, dict):
        if node.get("name") == AGENT and "valueFrom" in node:
            yield node["valueFrom"]["fieldRef"]["fieldPath"], 8889
        elif node.get("name") != BROWSER:
            for value in node.values():
                yield from named(value)
    elif isinstance(node, list):
        for value in node:
            yield from named(value)
    elif isinstance(node, str):
        found = ADDRESS.fullmatch(node)
        if found and (found["scheme"] or (found["port"] and "/" not in node)):
            yield found["host"], int(found["port"] or DEFAULT[found["scheme"]])


def matches(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    assert set(selector) <= {"matchLabels"}, "this test knows no expressions"
    return bool(selector.get("matchLabels", {}).items() <= labels.items())


def may_leave(policies: list[dict[str, Any]], labels: dict[str, str], target: dict[str, Any], port: int) -> bool:
    """Whether some policy that selects the pod has a rule for the target; with none that selects it, all is open."""
    mine = [
        p["spec"]
        for p in policies
        if matches(p["spec"]["podSelector"], labels) and "Egress" in p["spec"]["policyTypes"]
    ]
    if not mine:
        return True
    for rule in (rule for spec in mine for rule in spec.get("egress", [])):
        open_port = not rule.get("ports") or any(item["port"] == port for item in rule["ports"])
        if open_port and any(reaches(peer, target) for peer in rule.get("to", [])):
            return True
    return False


def reaches(peer: dict[str, Any], target: dict[str, Any]) -> bool:
    if "ipBlock" in peer:
        cidr = peer["ipBlock"]["cidr"]
        if "address" in target:
            return ipaddress.ip_address(target["address"]) in ipaddress.ip_network(cidr)
        return bool(target.get("outside")) and cidr == "0.0.0.0/0"
    if "namespaceSelector" in peer:
        if peer["namespaceSelector"].get("matchLabels", {}).get("kubernetes.io/metadata.name") != target.get(
            "namespace"
        ):
            return False
        return "podSelector" not in peer or matches(peer["podSelector"], target.get("labels", {}))
    return "labels" in target and "namespace" not in target and matches(peer["podSelector"], target["labels"])


def target_of(host: str, variant: Any) -> dict[str, Any]:
    """What a host is: a Service made here, one of another namespace, or something outside the cluster."""
    labels = host.split(".")
    if host == "status.hostIP":
        return {"address": node_addresses(variant.plan)[0]}
    if len(labels) >= 3 and labels[2] == "svc":
        return {"namespace": labels[1]}
    for service in variant.kind("Service"):
        if service["metadata"]["name"] == host:
            return {"labels": service["spec"]["selector"]}
    return {"outside": True}


def node_addresses(plan: Any) -> list[str]:
    """An address of a node in each subnet that holds nodes."""
    return [str(next(ipaddress.ip_network(cidr).hosts()) + 3) for cidr in plan.node_subnet_cidrs]


def ray_pods(variant: Any) -> dict[str, tuple[dict[str, str], Any]]:
    """Name to labels (with those that KubeRay adds) and the part of the manifest that is about the pod."""
    spec = variant.cluster
    tolerance = spec.get("gcsFaultToleranceOptions", {})
    made = {}
    groups = {"head": spec["headGroupSpec"], **{g["groupName"]: g for g in spec["workerGroupSpecs"]}}
    for name, group in groups.items():
        kind = "head" if name == "head" else "worker"
        labels = {
            "ray.io/is-ray-node": "yes",
            "ray.io/node-type": kind,
            "ray.io/cluster": variant.plan.settings.ray.cluster_name,
        }
        # KubeRay puts the address of the state's store into every pod
        made[name] = (labels | group["template"].get("metadata", {}).get("labels", {}), [group, tolerance])
    return made


def test_pods_reach_every_host_that_their_manifest_names(variant: Any) -> None:
    own = variant.plan.settings.ray.namespace
    policies = [item for item in variant.kind("NetworkPolicy") if item["metadata"]["namespace"] == own]
    for pod, (labels, part) in ray_pods(variant).items():
        for host, port in named(part):
            assert may_leave(policies, labels, target_of(host, variant), port), f"{pod} to {host}:{port}"


def test_pods_reach_what_all_of_them_need_and_nothing_else(variant: Any) -> None:
    own = variant.plan.settings.ray.namespace
    policies = [item for item in variant.kind("NetworkPolicy") if item["metadata"]["namespace"] == own]
    opened = {443, *(destination.port for destination in needs.destinations(variant.plan) if destination.outside)}
    for labels, _ in ray_pods(variant).values():
        dns = {"namespace": "kube-system", "labels": {"k8s-app": "kube-dns"}}
        assert may_leave(policies, labels, dns, 53)
        assert may_leave(policies, labels, {"outside": True}, 443)
        assert may_leave(policies, labels, {"labels": {"ray.io/is-ray-node": "yes"}}, 6379)
        assert not may_leave(policies, labels, {"namespace": "default", "labels": {}}, 443)
        for address in node_addresses(variant.plan):
            assert may_leave(policies, labels, {"address": address}, 8889)
            assert not may_leave(policies, labels, {"address": address}, 10250), "the kubelet"
        assert not may_leave(policies, labels, {"address": "198.51.100.1"}, 8889)
        for port in {22, 80, 3000, 6379, 6380, 9090} - opened:
            assert not may_leave(policies, labels, {"outside": True}, port), port


def test_the_model_names_the_same_hosts(variant: Any) -> None:
    """The egress follows from the model; the manifests say whether the model is whole."""
    modelled = {(destination.host, destination.port) for destination in needs.destinations(variant.plan)}
    seen = {found for _, part in ray_pods(variant).values() for found in named(part)}
    outside = {(host, port) for host, port in seen if "labels" not in target_of(host, variant)}
    assert outside == modelled


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("redis:6379", [("redis", 6379)]),
        ("https://grafana.example.com", [("grafana.example.com", 443)]),
        ("http://a.b.svc:80/", [("a.b.svc", 80)]),
        ("sha256:0123", []),
        ("python train.py", []),
        ("ray:latest", []),
    ],
)
def test_the_scan_sees_addresses(text: str, found: list[tuple[str, int]]) -> None:
    assert list(named({"value": text})) == found
    assert list(named({"name": BROWSER, "value": text})) == []
