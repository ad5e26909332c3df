from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hyperpod_ray import k8s
from hyperpod_ray.core import Plan
from hyperpod_ray.core.names import OPERATOR_NAMESPACE
from hyperpod_ray.core.plan_names import ray_namespaces
from tests.k8s.k8s_cluster_objects_helpers import policies

Render = Callable[[str], Any]


def peers(policy: dict[str, Any], direction: str) -> Iterator[dict[str, Any]]:
    for rule in policy.get({"from": "ingress", "to": "egress"}[direction], []):
        yield from rule[direction]


def ray_policies(plan: Plan) -> list[dict[str, Any]]:
    """The NetworkPolicies of the Ray namespaces."""
    (found,) = (manifest for manifest in k8s.namespace_manifests(plan) if manifest.name == "NetworkPolicies")
    return found.objects


class TestNetworkPolicies:
    def test_everything_is_denied_first(self, variant: Any) -> None:
        for namespace in ray_namespaces(variant.plan):
            assert policies(variant, namespace)["default-deny"] == {
                "podSelector": {},
                "policyTypes": ["Ingress", "Egress"],
            }

    def test_only_the_operator_and_observability_come_in_from_other_namespaces(self, variant: Any) -> None:
        allowed = {OPERATOR_NAMESPACE}
        if variant.plan.settings.ray.observability:
            allowed |= {"hyperpod-observability", "monitoring"}
        for name, policy in policies(variant).items():
            for peer in peers(policy, "from"):
                assert "ipBlock" not in peer, name
                namespace = peer.get("namespaceSelector", {}).get("matchLabels", {}).get("kubernetes.io/metadata.name")
                if "namespaceSelector" in peer:
                    assert namespace in allowed, name
                else:
                    assert peer["podSelector"]["matchLabels"], name

    def test_ingress_from_elsewhere_is_limited_to_ports(self, variant: Any) -> None:
        for name, policy in policies(variant).items():
            for rule in policy.get("ingress", []):
                inside = all(
                    peer.get("podSelector", {}).get("matchLabels") == {"ray.io/is-ray-node": "yes"}
                    for peer in rule["from"]
                )
                assert inside or rule.get("ports"), name

    def test_the_operator_reaches_the_dashboard(self, render: Render) -> None:
        rules = policies(render("prod"))["ray-head"]["ingress"]
        (ports,) = [rule["ports"] for rule in rules if "namespaceSelector" in rule["from"][0]]
        assert {port["port"] for port in ports} == {8265, 8080}

    def test_egress_is_named(self, render: Render) -> None:
        rules = policies(render("local"))["ray-pods"]["egress"]
        blocks = {
            (peer["ipBlock"]["cidr"], port["port"])
            for rule in rules
            for peer in rule["to"]
            if "ipBlock" in peer
            for port in rule["ports"]
        }
        assert blocks == {("0.0.0.0/0", 443), ("169.254.170.23/32", 80)}
        (dns,) = [rule for rule in rules for peer in rule["to"] if "namespaceSelector" in peer]
        assert {(port["port"], port["protocol"]) for port in dns["ports"]} == {(53, "UDP"), (53, "TCP")}

    def test_redis_is_for_ray_pods_only(self, render: Render) -> None:
        policy = policies(render("fault-tolerant"))["redis"]
        assert policy["policyTypes"] == ["Ingress"]
        assert list(peers(policy, "from")) == [{"podSelector": {"matchLabels": {"ray.io/is-ray-node": "yes"}}}]
        (redis,) = [
            one for one in render("fault-tolerant").kind("Deployment") if one["metadata"]["name"] == "ray-redis"
        ]
        deployed = redis["spec"]["template"]["metadata"]["labels"]
        assert policy["podSelector"]["matchLabels"].items() <= deployed.items()
        outside = policies(render("fault-tolerant-outside"))
        assert "redis" not in outside
        assert [rule["ports"] for rule in outside["redis-clients"]["egress"]] == [[{"port": 6380, "protocol": "TCP"}]]

    def test_observability(self, render: Render) -> None:
        for name in ("local", "prod"):
            assert not {"metrics", "dashboard-charts"} & policies(render(name)).keys()
        observed = policies(render("observed"))
        assert [rule["ports"] for rule in observed["metrics"]["ingress"]] == [[{"port": 8080, "protocol": "TCP"}]]
        scrapers = {
            peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
            for peer in peers(observed["metrics"], "from")
        }
        assert scrapers == {"hyperpod-observability", "monitoring"}
        # a host outside the cluster is reached by its port, not by a namespace
        outside = observed["dashboard-charts"]["egress"]
        assert {"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}], "ports": [{"port": 443, "protocol": "TCP"}]} in outside

    def test_ray_pods_reach_the_checkpoint_memory(self, plan_with: Callable[..., Plan]) -> None:
        plan = plan_with("prod", hyperpod={"tiered_storage": {"memory_percent": 20}})
        found = {policy["metadata"]["name"]: policy["spec"] for policy in ray_policies(plan)}
        assert found["checkpoint-memory"] == {
            "podSelector": {"matchLabels": {"ray.io/is-ray-node": "yes"}},
            "policyTypes": ["Egress"],
            "egress": [
                {
                    "to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "aws-hyperpod"}}}],
                    "ports": [{"port": 9200, "protocol": "TCP"}],
                }
            ],
        }
        off = ray_policies(plan_with("prod"))
        assert "checkpoint-memory" not in {item["metadata"]["name"] for item in off}

    def test_a_collector_may_scrape_and_the_head_asks_nobody(self, plan_with: Callable[..., Plan]) -> None:
        plan = plan_with("prod", ray={"observability": {"scrape_namespaces": ["hyperpod-observability"]}})
        names = {policy["metadata"]["name"] for policy in ray_policies(plan)}
        assert "metrics" in names
        assert "dashboard-charts" not in names
