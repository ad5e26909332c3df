"""Services, NetworkPolicies and Ingresses.

Source: ValidateService of pkg/apis/core/validation, pkg/apis/networking/validation.
"""

from __future__ import annotations

import ipaddress
from typing import Any

from hyperpod_ray_sandbox.kubernetes.validation import names
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes
from hyperpod_ray_sandbox.kubernetes.validation.containers import PROTOCOLS

Json = dict[str, Any]

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_DAY_SECONDS = 86_400
_NODE_PORTS = (30000, 32767)
_BLOCK = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def service(obj: Json) -> Causes:  # noqa: PLR0912  (a list of fields)
    """Judge a Service."""
    causes, spec = Causes(), obj["spec"]
    service_type, headless = spec.get("type"), spec.get("clusterIP") == "None"
    causes.one_of("spec.type", service_type, _TYPES)
    if not spec.get("ports") and not headless and service_type != "ExternalName":
        causes.required("spec.ports")
    if service_type == "ExternalName":
        target = (spec.get("externalName") or "").removesuffix(".")
        if not target:
            causes.required("spec.externalName")
        else:
            names.subdomain(causes, "spec.externalName", target)
        if spec.get("clusterIP"):
            causes.forbidden("spec.clusterIPs", "may not be set for ExternalName services")
    if headless and service_type in ("LoadBalancer", "NodePort"):
        causes.invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {service_type} services")
    elif spec.get("clusterIPs") and not spec.get("clusterIP"):
        causes.invalid("spec.clusterIPs", spec["clusterIPs"], "must be empty when `clusterIP` is not specified")
    elif len({spec.get("clusterIP") or "", *(spec.get("clusterIPs") or [""])[:1]}) > 1:
        causes.invalid("spec.clusterIPs", spec.get("clusterIPs"), "first value must match `clusterIP`")
    elif len(spec.get("clusterIPs") or []) > 1:
        causes.invalid("spec.clusterIPs", spec["clusterIPs"], "may only hold up to 1 value on a single-stack cluster")
    elif spec.get("clusterIP") not in (None, "", "None") and not names.is_address(spec["clusterIP"]):
        causes.invalid("spec.clusterIPs[0]", spec["clusterIP"], names.ADDRESS_RULE)
    _service_ports(causes, spec)
    names.labels(causes, "spec.selector", spec.get("selector"))
    causes.one_of("spec.sessionAffinity", spec.get("sessionAffinity"), ("ClientIP", "None"))
    causes.choice("spec.internalTrafficPolicy", spec.get("internalTrafficPolicy"), ("Cluster", "Local"))
    outside = service_type in ("LoadBalancer", "NodePort")
    policy = spec.get("externalTrafficPolicy")
    if policy and not outside and not spec.get("externalIPs"):
        causes.invalid("spec.externalTrafficPolicy", policy, "may only be set for externally-accessible services")
    else:
        causes.one_of("spec.externalTrafficPolicy", policy, ("Cluster", "Local"))
    for index, address in enumerate(spec.get("externalIPs") or []):
        if not names.is_address(address):
            causes.invalid(f"spec.externalIPs[{index}]", address, names.ADDRESS_RULE)
        elif ipaddress.ip_address(address).is_loopback:
            why = "may not be in the loopback range (127.0.0.0/8, ::1/128)"
            causes.invalid(f"spec.externalIPs[{index}]", address, why)
        elif ipaddress.ip_address(address).is_link_local:
            why = "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
            causes.invalid(f"spec.externalIPs[{index}]", address, why)
    causes.choice(
        "spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), ("PreferDualStack", "RequireDualStack", "SingleStack")
    )
    _reach(causes, spec)
    _balancer(causes, spec)
    return causes


def _balancer(causes: Causes, spec: Json) -> None:
    """Judge what only a load balancer has."""
    if spec.get("type") != "LoadBalancer":
        for field in ("loadBalancerSourceRanges", "loadBalancerClass", "allocateLoadBalancerNodePorts"):
            if spec.get(field) not in (None, "", []):
                causes.forbidden(f"spec.{field}", "may only be used when `type` is 'LoadBalancer'")
    elif spec.get("loadBalancerClass"):
        names.key(causes, "spec.loadBalancerClass", spec["loadBalancerClass"])
    for index, block in enumerate(spec.get("loadBalancerSourceRanges") or []):
        if not _network(block):
            causes.invalid(f"spec.loadBalancerSourceRanges[{index}]", block, _BLOCK)


def _reach(causes: Causes, spec: Json) -> None:
    """Judge by which addresses and from where a Service is reached."""
    service_type, policy = spec.get("type"), spec.get("externalTrafficPolicy")
    families = spec.get("ipFamilies") or []
    for index, family in enumerate(families):
        causes.one_of(f"spec.ipFamilies[{index}]", family, ("IPv4", "IPv6"))
        if family in families[:index]:
            causes.duplicate(f"spec.ipFamilies[{index}]", family)
    if any(family == "IPv6" for family in spec.get("ipFamilies") or []):
        causes.invalid("spec.ipFamilies[0]", "IPv6", "not configured on this cluster")
    if spec.get("ipFamilyPolicy") == "RequireDualStack" and service_type != "ExternalName":
        why = "this cluster is not configured for dual-stack services"
        causes.invalid("spec.ipFamilyPolicy", "RequireDualStack", why)
    _affinity(causes, spec)
    if spec.get("trafficDistribution") is not None:
        ways = ("PreferClose", "PreferSameNode", "PreferSameZone")
        causes.one_of("spec.trafficDistribution", spec["trafficDistribution"] or " ", ways)
    if spec.get("healthCheckNodePort") and not (service_type == "LoadBalancer" and policy == "Local"):
        why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        causes.invalid("spec.healthCheckNodePort", spec["healthCheckNodePort"], why)


def _affinity(causes: Causes, spec: Json) -> None:
    """Judge how long a client stays with one pod."""
    config, path = spec.get("sessionAffinityConfig"), "spec.sessionAffinityConfig"
    if spec.get("sessionAffinity") == "None":
        return
    seconds = ((config or {}).get("clientIP") or {}).get("timeoutSeconds")
    if spec.get("sessionAffinity") == "ClientIP" and seconds is None:
        causes.required(f"{path}.clientIP.timeoutSeconds")
    elif seconds is not None and not 0 < seconds <= _DAY_SECONDS:
        causes.invalid(
            f"{path}.clientIP.timeoutSeconds", seconds, f"must be greater than 0 and less than {_DAY_SECONDS}"
        )


def _service_ports(causes: Causes, spec: Json) -> None:
    ports, service_type = spec.get("ports") or [], spec.get("type")
    port_names: set[str] = set()
    taken: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        field_path, name = f"spec.ports[{index}]", port.get("name") or ""
        if name:
            names.label(causes, f"{field_path}.name", name)
            if name in port_names:
                causes.duplicate(f"{field_path}.name", name)
            port_names.add(name)
        elif len(ports) > 1:
            causes.required(f"{field_path}.name")
        causes.port(f"{field_path}.port", port.get("port"))
        causes.one_of(f"{field_path}.protocol", port.get("protocol"), PROTOCOLS)
        names.port_or_name(causes, f"{field_path}.targetPort", port.get("targetPort"))
        if port.get("appProtocol"):
            names.key(causes, f"{field_path}.appProtocol", port["appProtocol"])
        mark = (port.get("protocol"), port.get("port"))
        if mark in taken:
            causes.duplicate(field_path, {"port": mark[1], "protocol": mark[0]})
        taken.add(mark)
        node = port.get("nodePort")
        if node and service_type == "ClusterIP":
            causes.forbidden(f"{field_path}.nodePort", "may not be used when `type` is 'ClusterIP'")
        elif node and not _NODE_PORTS[0] <= node <= _NODE_PORTS[1]:
            causes.invalid(
                f"{field_path}.nodePort",
                node,
                "provided port is not in the valid range. The range of valid ports is 30000-32767",
            )


def _network(text: Any) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    if "/" not in str(text):
        return None
    try:
        return ipaddress.ip_network(str(text), strict=False)
    except ValueError:
        return None


def _masked(causes: Causes, path: str, text: str) -> None:
    """Refuse a network with bits behind its prefix."""
    if str(ipaddress.ip_interface(text).ip) != str(ipaddress.ip_network(text, strict=False).network_address):
        causes.invalid(path, text, "must not have bits set beyond the prefix length")


def network_policy(obj: Json) -> Causes:
    """Judge a NetworkPolicy."""
    causes, spec = Causes(), obj.get("spec") or {}
    names.selector(causes, "spec.podSelector", spec.get("podSelector"))
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or []):
            field_path = f"spec.{direction}[{index}]"
            for at, port in enumerate(rule.get("ports") or []):
                _policy_port(causes, f"{field_path}.ports[{at}]", port)
            for at, peer in enumerate(rule.get(peers) or []):
                _peer(causes, f"{field_path}.{peers}[{at}]", peer)
    types = spec.get("policyTypes") or []
    if len(types) > 2:
        causes.invalid("spec.policyTypes", types, "may not specify more than two policyTypes")
        return causes
    for index, policy_type in enumerate(types):
        causes.one_of(f"spec.policyTypes[{index}]", policy_type or " ", ("Ingress", "Egress"))
    return causes


def _policy_port(causes: Causes, path: str, policy_port: Json) -> None:
    causes.choice(f"{path}.protocol", policy_port.get("protocol"), ("TCP", "UDP", "SCTP"))
    port, end_port = policy_port.get("port"), policy_port.get("endPort")
    if port is None:
        if end_port is not None:
            causes.invalid(f"{path}.endPort", end_port, "may not be specified when `port` is not specified")
        return
    names.port_or_name(causes, f"{path}.port", port)
    if end_port is None:
        return
    if isinstance(port, str):
        causes.invalid(f"{path}.endPort", end_port, "may not be specified when `port` is non-numeric")
    elif end_port < port:
        causes.invalid(f"{path}.endPort", end_port, "must be greater than or equal to `port`")
    causes.port(f"{path}.endPort", end_port)


def _peer(causes: Causes, path: str, peer: Json) -> None:
    for field in ("podSelector", "namespaceSelector"):
        if peer.get(field) is not None:
            names.selector(causes, f"{path}.{field}", peer[field])
    block = peer.get("ipBlock")
    if block is not None:
        _block(causes, f"{path}.ipBlock", block)
    set_fields = [f for f in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(f) is not None]
    if not set_fields:
        causes.required(path, "must specify a peer")
    elif block is not None and len(set_fields) > 1:
        causes.forbidden(path, "may not specify both ipBlock and another peer")


def _block(causes: Causes, path: str, block: Json) -> None:
    network = _network(block.get("cidr"))
    if not block.get("cidr"):
        causes.required(f"{path}.cidr")
        return
    if network is None:
        causes.invalid(f"{path}.cidr", block["cidr"], _BLOCK)
        return
    _masked(causes, f"{path}.cidr", block["cidr"])
    for index, text in enumerate(block.get("except") or []):
        part = _network(text)
        if part is None:
            causes.invalid(f"{path}.except[{index}]", text, _BLOCK)
            continue
        _masked(causes, f"{path}.except[{index}]", text)
        if part.version != network.version or part == network or not part.subnet_of(network):  # type: ignore[arg-type]
            causes.invalid(f"{path}.except[{index}]", text, "must be a strict subset of `cidr`")


def ingress(obj: Json) -> Causes:  # noqa: PLR0912  (a list of fields)
    """Judge an Ingress."""
    causes, spec = Causes(), obj.get("spec") or {}
    if not spec.get("rules") and not spec.get("defaultBackend"):
        causes.invalid("spec", None, "either `defaultBackend` or `rules` must be specified")
    if spec.get("ingressClassName") is not None:
        names.subdomain(causes, "spec.ingressClassName", spec["ingressClassName"])
    for index, certificate in enumerate(spec.get("tls") or []):
        for at, host in enumerate(certificate.get("hosts") or []):
            names.subdomain(causes, f"spec.tls[{index}].hosts[{at}]", host.removeprefix("*."))
        if certificate.get("secretName"):
            names.subdomain(causes, f"spec.tls[{index}].secretName", certificate["secretName"])
    if spec.get("defaultBackend") is not None:
        _backend(causes, "spec.defaultBackend", spec["defaultBackend"])
    for index, rule in enumerate(spec.get("rules") or []):
        host = rule.get("host")
        if host and names.is_address(host):
            causes.invalid(f"spec.rules[{index}].host", host, "must be a DNS name, not an IP address")
        elif host:
            names.subdomain(causes, f"spec.rules[{index}].host", host.removeprefix("*."))
        if rule.get("http") is not None and not rule["http"].get("paths"):
            causes.required(f"spec.rules[{index}].http.paths")
        for at, path in enumerate((rule.get("http") or {}).get("paths") or []):
            field_path = f"spec.rules[{index}].http.paths[{at}]"
            if not path.get("pathType"):
                causes.required(f"{field_path}.pathType", "pathType must be specified")
            causes.choice(f"{field_path}.pathType", path.get("pathType"), ("Exact", "ImplementationSpecific", "Prefix"))
            if path.get("pathType") in ("Exact", "Prefix") and not str(path.get("path", "")).startswith("/"):
                causes.invalid(f"{field_path}.path", path.get("path", ""), "must be an absolute path")
            _ingress_path(causes, f"{field_path}.path", path)
            _backend(causes, f"{field_path}.backend", path.get("backend") or {})
    return causes


def one_class(causes: Causes, obj: Json) -> None:
    """Judge the class of a new Ingress, and the annotation that was its place before."""
    annotation = (obj["metadata"].get("annotations") or {}).get("kubernetes.io/ingress.class")
    class_name = (obj.get("spec") or {}).get("ingressClassName")
    if annotation is not None and class_name is not None and annotation != class_name:
        path = "annotations.kubernetes.io/ingress.class"
        causes.invalid(path, annotation, "must match `ingressClassName` when both are specified")


def _ingress_path(causes: Causes, at: str, path: Json) -> None:
    """Judge the text of a path: it leads nowhere else."""
    text = str(path.get("path") or "")
    if path.get("pathType") in ("Exact", "Prefix"):
        for sequence in ("//", "/./", "/../", "%2f", "%2F"):
            if sequence in text:
                causes.invalid(at, text, f"must not contain '{sequence}'")
        for end in ("/..", "/."):
            if text.endswith(end):
                causes.invalid(at, text, f"cannot end with '{end}'")
    elif path.get("pathType") == "ImplementationSpecific" and text and not text.startswith("/"):
        causes.invalid(at, text, "must be an absolute path")


def _backend(causes: Causes, path: str, backend: Json) -> None:
    """Judge where an Ingress leads: a port of a service, or a resource."""
    service_backend, resource = backend.get("service"), backend.get("resource")
    if service_backend is not None and resource is not None:
        causes.invalid(path, "", "cannot set both resource and service backends")
    elif resource is None and service_backend is None:
        causes.required(path, "resource or service backend is required")
    elif resource is not None:
        _typed(causes, f"{path}.resource", resource)
    elif service_backend is not None:
        port = service_backend.get("port") or {}
        if not service_backend.get("name"):
            causes.required(f"{path}.service.name")
        else:
            names.label(causes, f"{path}.service.name", service_backend["name"])
        if port.get("name") and port.get("number"):
            causes.invalid(path, "", "cannot set both port name & port number")
        elif not port.get("name") and not port.get("number"):
            causes.required(path, "port name or number is required")
        elif port.get("number"):
            causes.port(f"{path}.service.port.number", port["number"])
        elif port.get("name"):
            names.port_name(causes, f"{path}.service.port.name", port["name"])


def _typed(causes: Causes, path: str, reference: Json) -> None:
    """Judge a reference by group, kind and name."""
    if reference.get("apiGroup") is not None:
        names.subdomain(causes, f"{path}.apiGroup", reference["apiGroup"])
    for field in ("kind", "name"):
        if not reference.get(field):
            causes.required(f"{path}.{field}")
        else:
            names.path_segment(causes, f"{path}.{field}", reference[field])


def ingress_class(obj: Json) -> Causes:
    """Judge an IngressClass."""
    causes, controller = Causes(), (obj.get("spec") or {}).get("controller") or ""
    if not controller:
        causes.required("spec.controller")
    else:
        names.domain_path(causes, "spec.controller", controller)
    parameters = (obj.get("spec") or {}).get("parameters")
    if parameters is not None:
        _typed(causes, "spec.parameters", parameters)
        scope, namespace = parameters.get("scope") or "", parameters.get("namespace")
        causes.one_of("spec.parameters.scope", scope or " ", ("Cluster", "Namespace"))
        if scope == "Namespace" and not namespace:
            causes.required("spec.parameters.namespace", "`parameters.scope` is set to 'Namespace'")
        elif scope == "Namespace":
            names.label(causes, "spec.parameters.namespace", str(namespace))
        elif scope == "Cluster" and namespace is not None:
            causes.forbidden("spec.parameters.namespace", "`parameters.scope` is set to 'Cluster'")
    return causes
