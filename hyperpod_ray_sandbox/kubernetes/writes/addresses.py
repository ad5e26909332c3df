"""Addresses and ports of the nodes that Services take: each once, and addresses of the cluster's range alone.

Source: pkg/registry/core/service/storage/alloc.go.
"""

from __future__ import annotations

import ipaddress
import itertools
import secrets
from typing import TYPE_CHECKING, Any

from hyperpod_ray_sandbox.kubernetes.resources import Resource
from hyperpod_ray_sandbox.kubernetes.status import ApiError, invalid
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes

if TYPE_CHECKING:
    from hyperpod_ray_sandbox.kubernetes.objects import Objects

Json = dict[str, Any]

RANGES = tuple(ipaddress.ip_network(block) for block in ("172.20.0.0/16", "10.100.0.0/16", "10.0.0.0/24"))
"""EKS takes one of the first two; the last one is of a server that was started by hand."""


_FIRST_PORT, _PORTS = 30_000, 2_768


def assign(api: Objects, resource: Resource, obj: Json) -> None:
    """Give a Service an address, and a port of the nodes for each of its ports, where it names none."""
    if resource.kind != "Service" or resource.group:
        return
    spec = obj["spec"]
    others = _others(api, resource, obj)
    if spec.get("type") != "ExternalName" and not spec.get("clusterIP") and not spec.get("clusterIPs"):
        used = {other["spec"].get("clusterIP") for other in others}
        free = (f"172.20.{secrets.randbelow(255)}.{1 + secrets.randbelow(253)}" for _ in itertools.count())
        spec["clusterIP"] = next(address for address in free if address not in used)
        spec["clusterIPs"] = [spec["clusterIP"]]
    if spec.get("type") in ("NodePort", "LoadBalancer") and spec.get("allocateLoadBalancerNodePorts", True):
        taken = _taken([*others, obj])
        for port in spec.get("ports") or []:
            if not port.get("nodePort"):
                free_ports = (_FIRST_PORT + secrets.randbelow(_PORTS) for _ in itertools.count())
                port["nodePort"] = next(n for n in free_ports if (n, port.get("protocol")) not in taken)
                taken.add((port["nodePort"], port.get("protocol")))


def _others(api: Objects, resource: Resource, obj: Json) -> list[Json]:
    """The other Services of the cluster."""
    return [o for o in api.store.objects(resource.store) if o["metadata"]["uid"] != obj["metadata"].get("uid")]


def _taken(services: list[Json]) -> set[tuple[Any, Any]]:
    """Ports of the nodes that Services have, with their protocols."""
    return {(port.get("nodePort"), port.get("protocol")) for s in services for port in s["spec"].get("ports") or []}


def check(api: Objects, resource: Resource, obj: Json) -> None:
    """Refuse a Service whose address or port another one has; raises ApiError 422."""
    if resource.kind != "Service" or resource.group:
        return
    causes, spec, meta = Causes(), obj["spec"], obj["metadata"]
    others = _others(api, resource, obj)
    address = spec.get("clusterIP")
    if address not in (None, "", "None"):
        if not any(ipaddress.ip_address(address) in block for block in RANGES):
            why = f"failed to allocate IP {address}: the provided network does not match the current range"
            causes.invalid("spec.clusterIPs", [address], why)
        elif any(other["spec"].get("clusterIP") == address for other in others):
            why = f"failed to allocate IP {address}: provided IP is already allocated"
            causes.invalid("spec.clusterIPs", [address], why)
    health = spec.get("healthCheckNodePort")
    if health and not _FIRST_PORT <= health < _FIRST_PORT + _PORTS:
        why = f"failed to allocate requested HealthCheck NodePort {health}: provided port is not in the valid range"
        raise ApiError(500, "InternalError", f"Internal error occurred: {why}")
    taken = _taken(others)
    for index, port in enumerate(spec.get("ports") or []):
        mark = (port.get("nodePort"), port.get("protocol"))
        if mark[0] and mark in taken:
            causes.invalid(f"spec.ports[{index}].nodePort", mark[0], "provided port is already allocated")
        taken.add(mark)
    if causes:
        raise invalid(resource.kind, resource.group, meta["name"], causes)
