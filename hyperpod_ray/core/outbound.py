"""What an environment's HTTP proxy means inside its VPC: the variables that programs read, and what goes past it."""

from __future__ import annotations

from urllib.parse import urlsplit

from hyperpod_ray.core import needs
from hyperpod_ray.core.common_plan import CommonPlan

LOCAL = ("localhost", "127.0.0.1", "::1")
AGENTS = (
    "169.254.169.254", "fd00:ec2::254", "[fd00:ec2::254]",  # instance metadata
    "169.254.170.2", "169.254.170.23", "fd00:ec2::23", "[fd00:ec2::23]",  # credentials: containers, EKS Pod Identity
)  # fmt: skip
"""Addresses of the own node. Python takes an IPv6 address in brackets, other programs without.

https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html
"""
SERVICES = ("10.100.0.0/16", "172.20.0.0/16", "kubernetes.default.svc", ".svc", ".svc.cluster.local", ".cluster.local")
"""Services of an EKS cluster: the two ranges from which EKS takes their addresses, and their names.

https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
"""
_PREFIXES = {
    "codeartifact.api": "codeartifact", "codeartifact.repositories": ".d.codeartifact", "ecr.api": "api.ecr",
    "ecr.dkr": ".dkr.ecr", "sagemaker.api": "api.sagemaker",
}  # fmt: skip
"""Host prefixes of the VPC endpoint services that are not the service's name; a dot in front: of every account."""


def no_proxy(plan: CommonPlan) -> list[str]:
    """What goes past the proxy: the machine, the VPC, the cluster, endpoints of the stacks, and what the file names."""
    network, region = plan.settings.network, plan.settings.region
    suffix = f"{region}.{'amazonaws.com.cn' if region.startswith('cn-') else 'amazonaws.com'}"
    new, existing = plan.new_network, plan.existing_vpc
    hosts = [*LOCAL, *AGENTS, new.cidr if new else existing.vpc_cidr if existing else ""]
    # names of nodes: us-east-1 has a suffix of its own
    hosts += [".ec2.internal" if region == "us-east-1" else f".{region}.compute.internal"]
    # the API server of a cluster is reached inside the VPC
    hosts += [*SERVICES, f".{region}.eks.{suffix.removeprefix(f'{region}.')}"]
    if new is not None:
        hosts.append(f"s3.{suffix}")  # the gateway endpoint
        hosts.append(f".s3.{suffix}")
    if network.closed:
        services = {call.endpoint for call in needs.calls(plan)} - {"s3"}
        hosts += sorted(f"{_PREFIXES.get(service, service)}.{suffix}" for service in services)
    stated = network.proxy.no_proxy if network.proxy else []
    return list(dict.fromkeys(host for host in [*hosts, *stated] if host))


def variables(plan: CommonPlan) -> dict[str, str]:
    """The proxy's variables, in both spellings: curl reads one of them in small letters alone. Empty without proxy."""
    proxy = plan.settings.network.proxy
    if proxy is None:
        return {}
    # the same proxy for http:// too: pods that ask a plain address in a closed network have no other way
    values = {"HTTPS_PROXY": proxy.url, "HTTP_PROXY": proxy.url, "NO_PROXY": ",".join(no_proxy(plan))}
    return {**values, **{name.lower(): value for name, value in values.items()}}


def port(plan: CommonPlan) -> int | None:
    """The proxy's TCP port; None without a proxy."""
    proxy = plan.settings.network.proxy
    return urlsplit(proxy.url).port if proxy else None
