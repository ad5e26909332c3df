"""Security-group rules opened and closed, wherever in the templates they are."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any, NamedTuple

from hyperpod_ray.review.assembly import EnvironmentAssembly, Stack
from hyperpod_ray.review.changes import Changes, ResourceChange
from hyperpod_ray.review.findings import Remark
from hyperpod_ray.review.references import Reader, references

_PEERS = (
    "CidrIp",
    "CidrIpv6",
    "SourceSecurityGroupId",
    "DestinationSecurityGroupId",
    "SourcePrefixListId",
    "DestinationPrefixListId",
    "SourceSecurityGroupName",
)


_ANYWHERE = {"0.0.0.0/0", "::/0", "anywhere"}


class Rule(NamedTuple):
    """One rule of a security group."""

    direction: str
    protocol: str
    first: int
    last: int
    peer: str

    def __str__(self) -> str:
        ports = (
            ""
            if self.protocol == "-1"
            else f" {self.first}"
            if self.first == self.last
            else f" {self.first}-{self.last}"
        )
        protocol = "everything" if self.protocol == "-1" else self.protocol
        return f"{protocol}{ports} {'from' if self.direction == 'ingress' else 'to'} {self.peer}"


_NOTHING = Rule("egress", "icmp", 252, 86, "255.255.255.255/32")
"""What the CDK writes where nothing may leave: EC2 would else add a rule that lets everything out."""


def remarks(changes: Changes) -> Iterator[Remark]:
    """Remarks on every group whose rules differ, and on a way to the internet where there was none."""
    ways = sorted(set(_ways_out(changes.head)))
    if ways and not list(_ways_out(changes.base)) and any(changes.base.of_type("AWS::EC2::VPC")):
        yield Remark(
            direction="broadened",
            what="network",
            detail=f"{len(ways)} route{'s' if len(ways) > 1 else ''} to the internet, where there was none: "
            f"{', '.join(ways[:3])}{'…' if len(ways) > 3 else ''}",
        )
    before, after = _rules(changes.base), _rules(changes.head)
    for group in {**before, **after}:
        rules_before, rules_after = before.get(group, set()), after.get(group, set())
        for rule in sorted(rules_after - rules_before):
            if not _covered(rule, rules_before):
                fresh = group not in before and not (rule.direction == "ingress" and rule.peer in _ANYWHERE)
                yield Remark(
                    direction="new" if fresh else "broadened", what=f"security group {group}", detail=str(rule)
                )
        for rule in sorted(rules_before - rules_after):
            if not _covered(rule, rules_after):
                yield Remark(direction="narrowed", what=f"security group {group}", detail=str(rule))


def closed(change: ResourceChange, changes: Changes) -> list[Rule]:
    """Rules of a changed security group that no other one takes the place of."""
    stack = changes.head.stacks[change.key.stack]
    title = stack.title(change.key.logical_id)
    rules_before, rules_after = _rules(changes.base).get(title, set()), _rules(changes.head).get(title, set())
    return [rule for rule in sorted(rules_before - rules_after) if not _covered(rule, rules_after)]


def _ways_out(assembly: EnvironmentAssembly) -> Iterator[str]:
    for key, resource in assembly.of_type("AWS::EC2::Route"):
        properties = resource.get("Properties", {})
        if "0.0.0.0/0" in {properties.get("DestinationCidrBlock")} or properties.get("DestinationIpv6CidrBlock"):
            yield assembly.title(key)


def _rules(assembly: EnvironmentAssembly) -> dict[str, set[Rule]]:
    reader = Reader(assembly)
    rules: dict[str, set[Rule]] = {}
    for key, resource in assembly.all():
        stack = assembly.stacks[key.stack]
        properties = resource.get("Properties", {})
        if resource["Type"] == "AWS::EC2::SecurityGroup":
            group_rules = rules.setdefault(stack.title(key.logical_id), set())
            for name, direction in (("SecurityGroupIngress", "ingress"), ("SecurityGroupEgress", "egress")):
                listed = properties.get(name) or []
                items = listed if isinstance(listed, list) else [listed]
                group_rules |= {_rule(rule, direction, stack, reader) for rule in items} - {_NOTHING}
        elif resource["Type"] in {"AWS::EC2::SecurityGroupIngress", "AWS::EC2::SecurityGroupEgress"}:
            direction = "ingress" if resource["Type"].endswith("Ingress") else "egress"
            group = _group(properties.get("GroupId"), stack, assembly, reader)
            rules.setdefault(group, set()).add(_rule(properties, direction, stack, reader))
    return rules


def _group(value: Any, stack: Stack, assembly: EnvironmentAssembly, reader: Reader) -> str:
    """Construct path of a group, or the id as written."""
    for reference in references(value, stack, assembly):
        return assembly.title(reference.key)
    return reader.text(value, stack)


def _rule(properties: dict[str, Any], direction: str, stack: Stack, reader: Reader) -> Rule:
    protocol = str(properties.get("IpProtocol", "-1"))
    from_port, to_port = properties.get("FromPort"), properties.get("ToPort")
    peer = next((reader.text(properties[name], stack) for name in _PEERS if name in properties), "anywhere")
    all_ports = protocol == "-1" or not isinstance(from_port, int) or not isinstance(to_port, int)
    return Rule(
        direction, protocol, 0 if all_ports else int(from_port or 0), 65535 if all_ports else int(to_port or 0), peer
    )


def _covered(rule: Rule, rules: set[Rule]) -> bool:
    """Whether another rule lets through at least as much."""
    return any(
        candidate.direction == rule.direction
        and candidate.protocol in {"-1", rule.protocol}
        and candidate.first <= rule.first
        and rule.last <= candidate.last
        and within(rule.peer, candidate.peer)
        for candidate in rules
    )


def within(peer: str, other_peer: str) -> bool:
    """Whether a peer is another one, or a range of addresses inside it."""
    if peer == other_peer:
        return True
    try:
        inner, outer = ipaddress.ip_network(peer), ipaddress.ip_network(other_peer)
    except ValueError:
        return False
    if isinstance(inner, ipaddress.IPv4Network) and isinstance(outer, ipaddress.IPv4Network):
        return inner.subnet_of(outer)
    if isinstance(inner, ipaddress.IPv6Network) and isinstance(outer, ipaddress.IPv6Network):
        return inner.subnet_of(outer)
    return False
