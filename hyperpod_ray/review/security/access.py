"""Who reaches the Kubernetes API: the public endpoint and EKS access entries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hyperpod_ray.review.assembly import EnvironmentAssembly
from hyperpod_ray.review.changes import Changes, Kind, ResourceChange
from hyperpod_ray.review.findings import Remark
from hyperpod_ray.review.references import Reader
from hyperpod_ray.review.security.network import within

_EVERYWHERE = ["0.0.0.0/0"]
_MEMBER = "member of Kubernetes group "


def remarks(changes: Changes) -> Iterator[Remark]:
    """Remarks on the endpoint and on access entries."""
    for change in changes.of_type("AWS::EKS::Cluster"):
        if change.base is not None and change.head is not None:
            yield from _endpoint(change)
    before, after = _entries(changes.base), _entries(changes.head)
    for principal in {**before, **after}:
        rights_before, rights_after = before.get(principal, set()), after.get(principal, set())
        for direction, details in (
            ("broadened", rights_after - rights_before),
            ("narrowed", rights_before - rights_after),
        ):
            for detail in sorted(details):
                group = detail.removeprefix(_MEMBER)
                yield Remark(
                    direction=direction,
                    what=f"access to Kubernetes of {principal}",
                    detail=detail,
                    subject=f"Group {group}" if group != detail else "",
                )


def _endpoint(change: ResourceChange) -> Iterator[Remark]:
    cidrs_before, cidrs_after = _public(change.before("ResourcesVpcConfig")), _public(change.now("ResourcesVpcConfig"))
    if cidrs_before == cidrs_after or change.kind is Kind.ASSET_ONLY:
        return
    opened = [cidr for cidr in cidrs_after if not any(within(cidr, other) for other in cidrs_before)]
    direction = "broadened" if opened else "narrowed"
    words = [", ".join(cidrs) or "nobody outside the VPC" for cidrs in (cidrs_before, cidrs_after)]
    yield Remark(direction=direction, what="API server endpoint", detail=f"public to {words[0]} → {words[1]}")


def _public(config: Any) -> tuple[str, ...]:
    """Ranges that reach the public endpoint; EKS's default is everywhere."""
    config = config if isinstance(config, dict) else {}
    if config.get("EndpointPublicAccess") is False:
        return ()
    ranges = config.get("PublicAccessCidrs")
    return tuple(str(cidr) for cidr in ranges) if isinstance(ranges, list) and ranges else tuple(_EVERYWHERE)


def _entries(assembly: EnvironmentAssembly) -> dict[str, set[str]]:
    reader = Reader(assembly)
    entries: dict[str, set[str]] = {}
    for key, resource in assembly.of_type("AWS::EKS::AccessEntry"):
        stack = assembly.stacks[key.stack]
        properties = resource.get("Properties", {})
        has = entries.setdefault(reader.text(properties.get("PrincipalArn"), stack), set())
        has.add(f"entry of type {properties.get('Type', 'STANDARD')}")
        for policy in properties.get("AccessPolicies") or []:
            name = reader.text(policy.get("PolicyArn"), stack).rpartition("/")[2]
            scope = policy.get("AccessScope") or {}
            spaces = [str(namespace) for namespace in scope.get("Namespaces") or []]
            if spaces:
                has |= {f"{name} in namespace {space}" for space in spaces}
            else:
                has.add(f"{name} in the whole cluster")
        has |= {f"{_MEMBER}{group}" for group in properties.get("KubernetesGroups") or []}
    return entries
