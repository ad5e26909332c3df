"""Rules about the HTTP proxy: it can be reached from where it is set."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.findings import Finding, error, rule, warning
from hyperpod_ray.core.images import Reference
from hyperpod_ray.core.slurm_plan import SlurmPlan


def _address(host: str) -> ipaddress.IPv4Address | None:
    try:
        return ipaddress.IPv4Address(host)
    except ValueError:
        return None


@rule("network")
def proxy_is_reachable(plan: CommonPlan) -> Iterator[Finding]:
    """Nodes, pods and functions reach the proxy: it is on no single machine, and a closed VPC has it inside."""
    proxy = plan.settings.network.proxy
    if proxy is None:
        return
    path = ("network", "proxy", "url")
    host, _, port = proxy.url.partition("://")[2].rpartition(":")
    address = _address(host)
    if not 0 < int(port) < 65536:
        yield error(*path, what=f"port {port}", expected="a port from 1 to 65535", fix="correct it")
    elif host == "localhost" or (address is not None and (address.is_loopback or address.is_link_local)):
        yield error(
            *path,
            what=f"'{host}' is another machine on each node and in each pod",
            expected="an address that the whole VPC reaches",
            fix="name the proxy's own host",
        )
    elif (network := plan.new_network) is not None and network.closed:
        try:
            inside = address in ipaddress.IPv4Network(network.cidr) if address else False
        except ValueError:
            return  # another rule refuses the range
        if not inside:
            yield error(
                *path,
                what=f"'{host}' is outside the VPC, which has no way out",
                expected=f"an address within {network.cidr}, or another egress",
                fix="set network.egress: nat, name an existing VPC, or remove network.proxy",
            )


@rule("network")
def what_passes_the_proxy_is_a_range(plan: CommonPlan) -> Iterator[Finding]:
    """What goes past the proxy is a host, a domain, or a range that leaves something for the proxy."""
    proxy = plan.settings.network.proxy
    for index, entry in enumerate(proxy.no_proxy if proxy else ()):
        if "/" not in entry:
            continue
        try:
            everything = ipaddress.IPv4Network(entry).prefixlen == 0
        except ValueError:
            everything = None
        if everything is not False:
            yield error(
                "network",
                "proxy",
                "no_proxy",
                index,
                what=f"'{entry}' {'is every address' if everything else 'is no IPv4 range'}",
                expected="an address that begins a range, with a prefix length from 1 to 32",
                fix="correct it, or remove network.proxy",
            )


@rule("network", "hyperpod", orchestrator="slurm")
def slurm_nodes_learn_of_the_proxy(plan: SlurmPlan) -> Iterator[Finding]:
    """On Slurm the proxy reaches nodes with the script that HyperPod runs on them; without a script none runs."""
    if plan.settings.network.proxy is not None and not plan.uploads_scripts:
        yield error(
            "network",
            "proxy",
            what="no script runs on the nodes, so none of them would learn of it",
            expected="hyperpod.on_init_complete, before which the proxy is set up",
            fix="set hyperpod.on_init_complete to a script of your project, even one that does nothing",
        )


@rule("network", "image")
def builds_pull_their_base_past_the_proxy(plan: CommonPlan) -> Iterator[Finding]:
    """Docker's daemon in a build reads no proxy of ours: the base comes from Amazon ECR, or by a direct route."""
    image = plan.built_image
    if plan.settings.network.proxy is None or image is None or not image.in_vpc:
        return
    if image.base is None or Reference.parse(image.base).ecr is None:
        yield warning(
            "image",
            "base",
            what="the build's Docker pulls the base without the proxy",
            expected="a base in Amazon ECR, or a direct way to the base's registry",
            fix="copy the base to Amazon ECR and set image.base to the copy",
        )
