"""Who may talk to whom in a Ray namespace. Ports 8265, 10001 and 6379 run code by design: everything else is denied.

The VPC CNI enforces policies only with `enableNetworkPolicy` on. Lustre traffic is the node's (the kernel mounts), EFA
traffic bypasses the kernel: neither is seen by a policy. `kubectl port-forward` enters through the node and stays open
to whoever Kubernetes lets forward ports.
"""

from __future__ import annotations

from typing import Any

import cdk8s

from hyperpod_ray.core import needs, outbound
from hyperpod_ray.core.names import (
    CLIENT_LABEL,
    DASHBOARD_PORT,
    GUARD,
    HYPERPOD_NAMESPACE,
    KUBE_SYSTEM,
    KUEUE_NAMESPACE,
    METRICS_PORT,
    OBSERVABILITY_NAMESPACE,
    OPERATOR_NAMESPACE,
    RAY_POD_LABEL,
    RAY_ROLE_LABEL,
    REDIS,
    REDIS_PORT,
    STORAGE_NAMESPACE,
)
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.plan_names import own_namespaces, ray_namespaces
from hyperpod_ray.k8s.manifest import PART_OF, Manifest, build

RAY_POD = {RAY_POD_LABEL: "yes"}
"""Label that KubeRay puts on every pod of a RayCluster."""
HEAD_POD = {RAY_ROLE_LABEL: "head"}
CLIENT_POD = {CLIENT_LABEL: "true"}
POD_IDENTITY = "169.254.170.23/32"
"""Link-local address of the EKS Pod Identity agent, port 80. Instance metadata (169.254.169.254) stays closed."""


OPEN_NAMESPACES = (KUBE_SYSTEM, HYPERPOD_NAMESPACE)
"""Namespaces of EKS's add-ons and of HyperPod's chart."""
BOTH = ["Ingress", "Egress"]
NOTHING: dict[str, Any] = {"podSelector": {}, "policyTypes": BOTH}
EVERYTHING: dict[str, Any] = {"podSelector": {}, "policyTypes": BOTH, "ingress": [{}], "egress": [{}]}


def network_policies(plan: Plan) -> Manifest:
    """Per Ray namespace, nothing in or out except what is listed here.

    - between the pods of RayClusters, every port;
    - from the KubeRay operator's namespace to heads, 8265 and 8080; from pods labelled `hyperpod-ray/client`, 8265;
    - from Ray's pods out: DNS, HTTPS (AWS and Kubernetes APIs, package indexes), the proxy, EKS Pod Identity; from
      pods with the client label: DNS and heads;
    - Redis, in or outside the namespace, where GCS fault tolerance is on;
    - the namespaces of Grafana and Prometheus, and those of collectors, where `ray.observability` names them, and of
      the observability add-on, where `observability` installs it;
    - the memory service of tiered checkpoints, where tiered storage is on;
    - HyperPod's job monitoring agent, at port 8889 of the nodes' addresses.

    The volume-owner Job's namespace: nothing at all, as the node mounts the file system.
    """

    def define(chart: cdk8s.Chart) -> None:
        for namespace in own_namespaces(plan):
            ray_policies(chart, plan, namespace)
        _policy(chart, STORAGE_NAMESPACE, "default-deny", NOTHING)

    return build("NetworkPolicies", define)


def system_policies() -> Manifest:
    """What the CNI's mode `strict` needs: there a pod that no policy selects may neither send nor receive.

    Pods of the host's network are not concerned (the CNI itself, kube-proxy, the Pod Identity agent, the CSI driver's
    node part). DNS, the CSI controller, device plugins, the health monitoring agent and the pods of deep health checks
    are, and their ports are their charts' affair: kube-system and aws-hyperpod are open, as without the mode. They must
    be applied before the first node joins. The operator: Kubernetes and AWS APIs, DNS, and Ray's pods.
    https://docs.aws.amazon.com/eks/latest/userguide/cni-network-policy-configure.html
    """

    def define(chart: cdk8s.Chart) -> None:
        for namespace in OPEN_NAMESPACES:
            _policy(chart, namespace, "system-pods", EVERYTHING)

    return build("SystemNetworkPolicies", define)


def collector_policies() -> Manifest:
    """The observability add-on's pods: open, as their ports are the add-on's own affair; they scrape all namespaces."""

    def define(chart: cdk8s.Chart) -> None:
        _policy(chart, OBSERVABILITY_NAMESPACE, "system-pods", EVERYTHING)

    return build("CollectorNetworkPolicy", define)


def queue_policies() -> Manifest:
    """Kueue's controller, whose webhook the API server calls: open, as its ports are the add-on's own affair."""

    def define(chart: cdk8s.Chart) -> None:
        _policy(chart, KUEUE_NAMESPACE, "system-pods", EVERYTHING)

    return build("QueueNetworkPolicy", define)


def ray_policies(chart: cdk8s.Chart, plan: Plan, namespace: str) -> None:
    """The policies of one namespace that may hold RayClusters."""
    for name, spec in _policies(plan).items():
        _policy(chart, namespace, name, spec)


def operator_policies(plan: Plan) -> Manifest:
    """The KubeRay operator out: DNS, the Kubernetes API, Ray's pods; in: its metrics port."""
    spec = {
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"ports": [_port(METRICS_PORT)]}],
        "egress": [
            _dns(),
            _https(),
            *({"to": [{"namespaceSelector": _named(name)}]} for name in ray_namespaces(plan)),
        ],
    }

    def define(chart: cdk8s.Chart) -> None:
        _policy(chart, OPERATOR_NAMESPACE, "operator", spec)

    return build("OperatorNetworkPolicy", define)


def guard_policies() -> Manifest:
    """The node guard out: DNS, the Kubernetes and AWS APIs, EKS Pod Identity; in: nothing."""
    spec = {"podSelector": {}, "policyTypes": BOTH, "egress": [_dns(), _https(), _pod_identity()]}

    def define(chart: cdk8s.Chart) -> None:
        _policy(chart, GUARD, GUARD, spec)

    return build("GuardNetworkPolicy", define)


def _policy(chart: cdk8s.Chart, namespace: str, name: str, spec: dict[str, Any]) -> None:
    policy = cdk8s.ApiObject(
        chart,
        f"{namespace}-{name}",
        api_version="networking.k8s.io/v1",
        kind="NetworkPolicy",
        metadata=cdk8s.ApiObjectMetadata(name=name, namespace=namespace, labels=PART_OF),
    )
    policy.add_json_patch(cdk8s.JsonPatch.add("/spec", spec))


def _policies(plan: Plan) -> dict[str, dict[str, Any]]:
    dns, https, pod_identity = _dns(), _https(outbound.port(plan)), _pod_identity()
    policies: dict[str, dict[str, Any]] = {
        "default-deny": NOTHING,
        "ray-pods": {
            "podSelector": {"matchLabels": RAY_POD},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [{"podSelector": {"matchLabels": RAY_POD}}]}],
            "egress": [{"to": [{"podSelector": {"matchLabels": RAY_POD}}]}, dns, https, pod_identity],
        },
        "ray-head": {
            "podSelector": {"matchLabels": HEAD_POD},
            "policyTypes": ["Ingress"],
            "ingress": [
                {
                    "from": [{"namespaceSelector": _named(OPERATOR_NAMESPACE)}],
                    "ports": [_port(DASHBOARD_PORT), _port(METRICS_PORT)],
                },
                {"from": [{"podSelector": {"matchLabels": CLIENT_POD}}], "ports": [_port(DASHBOARD_PORT)]},
            ],
        },
        "ray-clients": {
            "podSelector": {"matchLabels": CLIENT_POD},
            "policyTypes": ["Egress"],
            "egress": [{"to": [{"podSelector": {"matchLabels": HEAD_POD}}], "ports": [_port(DASHBOARD_PORT)]}, dns],
        },
    }
    fault_tolerance = plan.settings.ray.gcs_fault_tolerance
    if fault_tolerance and fault_tolerance.redis_image and not fault_tolerance.redis_address:
        # the way to a Redis elsewhere is opened by `_destinations`
        redis = {"matchLabels": {"app": REDIS}}
        # KubeRay's clean-up Job, when a RayCluster is deleted, is one of its own pods and carries the same label
        policies["redis"] = {
            "podSelector": redis,
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": {"matchLabels": RAY_POD}}], "ports": [_port(REDIS_PORT)]}],
        }
        policies["redis-clients"] = {
            "podSelector": {"matchLabels": RAY_POD},
            "policyTypes": ["Egress"],
            "egress": [{"to": [{"podSelector": redis}], "ports": [_port(REDIS_PORT)]}],
        }
    observability = plan.settings.ray.observability
    scrapers = list(observability.scrape_namespaces) if observability else []
    if plan.settings.observability is not None:
        scrapers.append(OBSERVABILITY_NAMESPACE)
    return policies | _destinations(plan, scrapers)


def _destinations(plan: Plan, scrapers: list[str]) -> dict[str, dict[str, Any]]:
    """The way to what the model names: services of other namespaces, hosts outside by port, agents on nodes.

    A policy cannot name the pod's own node, hence the subnets of all nodes.

    A namespace that the head asks for charts holds the Prometheus that scrapes all Ray pods; `scrapers` do so too.
    """
    destinations = needs.destinations(plan)
    policies: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(destination.policy for destination in destinations):
        members = [destination for destination in destinations if destination.policy == name]
        headless = [destination for destination in members if destination.headless]
        peers = [{"namespaceSelector": _named(space)} for space in _namespaces([i for i in members if not i.headless])]
        ports = sorted({destination.port for destination in members if destination.outside})
        agents = sorted({destination.port for destination in members if destination.node})
        nodes = [{"ipBlock": {"cidr": cidr}} for cidr in plan.node_subnet_cidrs]
        # no port for a Service with an address: a policy counts the pod's port, a URL names the Service's
        egress: list[dict[str, Any]] = [{"to": peers}] if peers else []
        egress += [
            {"to": [{"namespaceSelector": _named(str(destination.namespace))}], "ports": [_port(destination.port)]}
            for destination in headless
        ]
        egress += [{"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}], "ports": [_port(port)]} for port in ports]
        egress += [{"to": nodes, "ports": [_port(port) for port in agents]}] if agents else []
        label = HEAD_POD if members[0].pods == "head" else RAY_POD
        policies[name] = {"podSelector": {"matchLabels": label}, "policyTypes": ["Egress"], "egress": egress}
    spaces = _namespaces([destination for destination in destinations if destination.policy == "dashboard-charts"])
    if readers := sorted({*spaces, *scrapers}):
        policies["metrics"] = {
            "podSelector": {"matchLabels": RAY_POD},
            "policyTypes": ["Ingress"],
            "ingress": [
                {"from": [{"namespaceSelector": _named(name)} for name in readers], "ports": [_port(METRICS_PORT)]}
            ],
        }
    return policies


def _namespaces(destinations: list[needs.Destination]) -> list[str]:
    return list(dict.fromkeys(destination.namespace for destination in destinations if destination.namespace))


def _dns() -> dict[str, Any]:
    return {
        "to": [{"namespaceSelector": _named(KUBE_SYSTEM), "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}],
        # TCP too: an answer that was cut short is asked for again over TCP (RFC 7766)
        "ports": [_port(53, "UDP"), _port(53)],
    }


def _https(proxy: int | None = None) -> dict[str, Any]:
    ports = sorted({443, *([proxy] if proxy else [])})
    return {"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}], "ports": [_port(port) for port in ports]}


def _pod_identity() -> dict[str, Any]:
    return {"to": [{"ipBlock": {"cidr": POD_IDENTITY}}], "ports": [_port(80)]}


def _named(namespace: str) -> dict[str, Any]:
    return {"matchLabels": {"kubernetes.io/metadata.name": namespace}}


def _port(port: int, protocol: str = "TCP") -> dict[str, Any]:
    return {"port": port, "protocol": protocol}
