"""Addresses and ports of the nodes that Services take: each once, out of the ranges that a cluster has."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.status import ApiError
from hyperpod_ray_sandbox.kubernetes.store import Store

Json = dict[str, Any]


@pytest.fixture
def api(tmp_path: Path) -> Api:
    return Api(Store(tmp_path / "objects.sqlite"))


def service(api: Api, name: str, *ports: Json, **spec: Any) -> Json:
    body = {"metadata": {"name": name}, "spec": {"ports": list(ports) or [{"port": 80}], **spec}}
    created: Json = api.create(api.kind("v1", "Service"), "default", body)["spec"]
    return created


def refusal(api: Api, name: str, *ports: Json, **spec: Any) -> str:
    with pytest.raises(ApiError) as refused:
        service(api, name, *ports, **spec)
    assert refused.value.code == 422
    return refused.value.message


def test_each_service_has_an_address_of_the_clusters_range(api: Api) -> None:
    """EKS takes 10.100.0.0/16 or 172.20.0.0/16 by itself.

    https://docs.aws.amazon.com/eks/latest/APIReference/API_KubernetesNetworkConfigRequest.html
    """
    ranges = [ipaddress.ip_network(block) for block in ("10.100.0.0/16", "172.20.0.0/16")]
    addresses = [service(api, f"s-{number}")["clusterIP"] for number in range(20)]
    assert len(set(addresses)) == len(addresses)
    assert all(any(ipaddress.ip_address(address) in block for block in ranges) for address in addresses)
    assert service(api, "headless", clusterIP="None")["clusterIP"] == "None"
    assert not service(api, "elsewhere", type="ExternalName", externalName="a.example").get("clusterIP")


def test_an_address_is_given_once_and_out_of_the_range_never(api: Api) -> None:
    """https://kubernetes.io/docs/concepts/services-networking/cluster-ip-allocation/"""
    assert service(api, "mine", clusterIP="10.100.0.7")["clusterIPs"] == ["10.100.0.7"]
    assert "provided IP is already allocated" in refusal(api, "yours", clusterIP="10.100.0.7")
    assert "does not match the current range" in refusal(api, "far", clusterIP="192.168.1.1")


def test_a_port_of_the_nodes_is_given_once_for_each_protocol(api: Api) -> None:
    """The default range is 30000 to 32767: https://kubernetes.io/docs/concepts/services-networking/service/#type-nodeport"""
    ports = [service(api, f"n-{number}", type="NodePort")["ports"][0]["nodePort"] for number in range(20)]
    assert len(set(ports)) == len(ports)
    assert all(30_000 <= port <= 32_767 for port in ports)
    dns = [{"name": "udp", "port": 53, "protocol": "UDP", "nodePort": 30053}]
    service(api, "dns", *dns, type="NodePort")
    assert "provided port is already allocated" in refusal(api, "again", *dns, type="NodePort")
    service(api, "tcp", {"port": 53, "protocol": "TCP", "nodePort": 30053}, type="NodePort")
    assert "nodePort" not in service(api, "inner")["ports"][0]


def test_a_balancer_may_do_without_ports_of_the_nodes(api: Api) -> None:
    balancer = {"type": "LoadBalancer"}
    assert service(api, "with", **balancer)["ports"][0]["nodePort"]
    without = service(api, "without", **balancer, allocateLoadBalancerNodePorts=False)
    assert not without["ports"][0].get("nodePort")
