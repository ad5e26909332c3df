"""Nodes, leases, endpoint slices and runtime classes.

Source: ValidateNode of pkg/apis/core/validation, pkg/apis/{coordination,discovery,node}/validation.
"""

from __future__ import annotations

import ipaddress
from typing import Any

from hyperpod_ray_rules.names import HOSTNAME_LABEL, KUBE_SYSTEM
from hyperpod_ray_rules.quantity import number
from hyperpod_ray_sandbox.kubernetes import name_forms
from hyperpod_ray_sandbox.kubernetes.validation import names, quantities
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes
from hyperpod_ray_sandbox.kubernetes.validation.pods import EFFECTS, tolerations

Json = dict[str, Any]

_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_ENDPOINTS, _ADDRESSES, _PORTS = 1000, 100, 20_000
_HINTS = 8


def node(obj: Json) -> Causes:
    """Judge a Node."""
    causes, spec = Causes(), obj.get("spec") or {}
    taints(causes, "metadata.taints", spec.get("taints"))
    for field in ("capacity", "allocatable"):
        for name, amount in ((obj.get("status") or {}).get(field) or {}).items():
            causes.quantity(f"status.{field}[{name}]", amount)
            if quantities.is_extended(name) and number(amount) != int(number(amount)):
                causes.invalid(f"status.{field}.{name}", amount, "must be an integer")
    ranges = spec.get("podCIDRs") or ([spec["podCIDR"]] if spec.get("podCIDR") else [])
    for index, text in enumerate(ranges):
        if not _network(text):
            causes.invalid(f"spec.podCIDRs[{index}]", text, "must be a valid CIDR value, (e.g. 10.9.8.0/24)")
    families = [":" in str(text) for text in ranges]
    if len(set(families)) < len(families):
        causes.invalid("spec.podCIDRs", ranges, "may specify no more than one CIDR for each IP family")
    return causes


def taints(causes: Causes, path: str, declared: list[Json] | None) -> None:
    """Judge the taints of a node."""
    marks: set[tuple[str, str]] = set()
    for index, taint in enumerate(declared or []):
        at, key, value, effect = (
            f"{path}[{index}]",
            taint.get("key") or "",
            taint.get("value") or "",
            taint.get("effect"),
        )
        names.key(causes, f"{at}.key", key)
        if not name_forms.is_value(value):
            causes.invalid(f"{at}.value", value, name_forms.value_rule(value))
        if not effect:
            causes.required(f"{at}.effect")
        elif effect not in EFFECTS:
            causes.unsupported(f"{at}.effect", effect, EFFECTS)
        if (key, str(effect)) in marks:
            causes.duplicate(at, taint)
        marks.add((key, str(effect)))


def node_change(causes: Causes, new: Json, old: Json) -> None:
    """Judge a change of a Node: what it is at its provider stays."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    for field in ("podCIDRs", "podCIDR"):
        if before.get(field) and before[field] != after.get(field):
            causes.forbidden("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid')
            break
    if before.get("externalID") != after.get("externalID"):
        causes.forbidden("spec.externalID", "may not be updated")
    if before.get("providerID") and before["providerID"] != after.get("providerID"):
        causes.forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid')


def _network(text: Any) -> bool:
    try:
        ipaddress.ip_network(str(text))
    except ValueError:
        return False
    return True


def lease(obj: Json) -> Causes:
    """Judge a Lease."""
    causes, spec = Causes(), obj.get("spec") or {}
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if isinstance(seconds, int) and seconds <= 0:
        causes.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    if isinstance(transitions, int) and transitions < 0:
        causes.invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0")
    return causes


def endpoint_slice(obj: Json) -> Causes:
    """Judge an EndpointSlice."""
    causes, address_type = Causes(), obj.get("addressType") or ""
    if not address_type:
        causes.required("addressType")
    elif address_type not in _ADDRESS_TYPES:
        causes.unsupported("addressType", address_type, _ADDRESS_TYPES)
    endpoints, ports = obj.get("endpoints") or [], obj.get("ports") or []
    if len(endpoints) > _ENDPOINTS:
        causes.too_many("endpoints", len(endpoints), _ENDPOINTS)
    for index, endpoint in enumerate(endpoints):
        _endpoint(causes, f"endpoints[{index}]", endpoint, address_type)
    if len(ports) > _PORTS:
        causes.too_many("ports", len(ports), _PORTS)
    taken: set[str] = set()
    for index, port in enumerate(ports):
        at, name = f"ports[{index}]", port.get("name") or ""
        if name in taken:
            causes.duplicate(f"{at}.name", name)
        taken.add(name)
        if name:
            names.label(causes, f"{at}.name", name)
        causes.one_of(f"{at}.protocol", port.get("protocol"), _PROTOCOLS)
        if port.get("appProtocol") is not None:
            names.key(causes, f"{at}.appProtocol", port["appProtocol"])
    return causes


def _endpoint(causes: Causes, at: str, endpoint: Json, address_type: str) -> None:
    addresses = endpoint.get("addresses") or []
    if not addresses:
        causes.required(f"{at}.addresses", "must contain at least 1 address")
    if len(addresses) > _ADDRESSES:
        causes.too_many(f"{at}.addresses", len(addresses), _ADDRESSES)
    for place, address in enumerate(addresses):
        path = f"{at}.addresses[{place}]"
        if address_type == "FQDN":
            names.subdomain(causes, path, address)
            continue
        try:
            version = ipaddress.ip_address(str(address)).version
        except ValueError:
            causes.invalid(path, address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
            continue
        if address_type == "IPv4" and version != 4:
            causes.invalid(path, address, "must be an IPv4 address")
        elif address_type == "IPv6" and version != 6:
            causes.invalid(path, address, "must be an IPv6 address")
        else:
            _special(causes, path, address)
    if endpoint.get("nodeName") is not None:
        names.subdomain(causes, f"{at}.nodeName", endpoint["nodeName"])
    if endpoint.get("hostname") is not None:
        names.label(causes, f"{at}.hostname", endpoint["hostname"])
    _hints(causes, f"{at}.hints", endpoint.get("hints") or {})
    if HOSTNAME_LABEL in (endpoint.get("deprecatedTopology") or {}):
        causes.invalid(f"{at}.deprecatedTopology", HOSTNAME_LABEL, "may not be set, use the nodeName field")


def _hints(causes: Causes, at: str, declared: Json) -> None:
    """Judge for which zones and nodes an endpoint is."""
    for field in ("forNodes", "forZones"):
        hints = [str(hint.get("name") or "") for hint in declared.get(field) or []]
        if len(hints) > _HINTS:
            causes.too_many(f"{at}.{field}", len(hints), _HINTS)
        for place, hint in enumerate(hints):
            if hint in hints[:place]:
                causes.duplicate(f"{at}.{field}[{place}].name", hint)
            if not name_forms.is_value(hint):
                causes.invalid(f"{at}.{field}[{place}].name", hint, name_forms.value_rule(hint))


def endpoints(obj: Json) -> Causes:
    """Judge Endpoints."""
    causes = Causes()
    for index, subset in enumerate(obj.get("subsets") or []):
        at, ports = f"subsets[{index}]", subset.get("ports") or []
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            causes.required(at, "must specify `addresses` or `notReadyAddresses`")
        for field in ("addresses", "notReadyAddresses"):
            for place, address in enumerate(subset.get(field) or []):
                path, text = f"{at}.{field}[{place}]", address.get("ip") or ""
                if not names.is_address(text):
                    names.address(causes, f"{path}.ip", text)
                else:
                    _special(causes, f"{path}.ip", text)
                if address.get("hostname"):
                    names.label(causes, f"{path}.hostname", address["hostname"])
                if address.get("nodeName") is not None:
                    names.subdomain(causes, f"{path}.nodeName", address["nodeName"])
        _subset_ports(causes, at, ports)
    return causes


def _subset_ports(causes: Causes, at: str, ports: list[Json]) -> None:
    for place, port in enumerate(ports):
        path = f"{at}.ports[{place}]"
        if len(ports) > 1 and not port.get("name"):
            causes.required(f"{path}.name")
        elif port.get("name"):
            names.label(causes, f"{path}.name", port["name"])
        causes.port(f"{path}.port", port.get("port") or 0)
        causes.one_of(f"{path}.protocol", port.get("protocol") or "TCP", _PROTOCOLS)
        if port.get("appProtocol"):
            names.key(causes, f"{path}.appProtocol", port["appProtocol"])


def _special(causes: Causes, path: str, text: Any) -> None:
    """Judge an address of an endpoint, which must be one that other machines reach."""
    address = ipaddress.ip_address(str(text))
    for special, rule in (
        (address.is_unspecified, f"may not be unspecified ({address})"),
        (address.is_loopback, "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (address.is_link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        (
            (address.version == 4 and str(address).startswith("224.0.0.")) or str(address).startswith("ff02:"),
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
        ),
    ):
        if special:
            causes.invalid(path, text, rule)


def event(obj: Json) -> Causes:
    """Judge an Event: it lies beside what it is about."""
    causes, namespace = Causes(), obj["metadata"].get("namespace") or ""
    about = (obj.get("involvedObject") or obj.get("regarding") or {}).get("namespace") or ""
    if (about and about != namespace) or (not about and namespace not in ("default", KUBE_SYSTEM)):
        causes.invalid("involvedObject.namespace", about, "does not match event.namespace")
    return causes


def runtime_class(obj: Json) -> Causes:
    """Judge a RuntimeClass."""
    causes, scheduling = Causes(), obj.get("scheduling") or {}
    names.label(causes, "handler", obj.get("handler") or "")
    names.labels(causes, "scheduling.nodeSelector", scheduling.get("nodeSelector"))
    tolerations(causes, "scheduling.tolerations", scheduling.get("tolerations"))
    quantities.requirements(causes, "overhead.podFixed", {"limits": (obj.get("overhead") or {}).get("podFixed")})
    return causes
