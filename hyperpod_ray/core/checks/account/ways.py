"""Rules about what stands between nodes and what they need: network ACLs, endpoints, the file system's own groups."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

from hyperpod_ray.core.checks.account.storage import FILE_SYSTEM
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.evidence import Account, found
from hyperpod_ray.core.findings import Finding, fine, rule, skipped, warning

Json = dict[str, Any]
LUSTRE = 988
"""https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html"""
OLD_LUSTRE = "2.10"


@rule("network", needs="account", title="network ACLs")
def network_acls_let_nodes_through(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """No network ACL of a node subnet denies everything in one direction.

    https://docs.aws.amazon.com/vpc/latest/userguide/vpc-network-acls.html
    """
    existing = plan.existing_vpc
    if existing is None:
        yield skipped("the Network stack leaves the default")
        return
    filters = [{"Name": "vpc-id", "Values": [existing.vpc_id]}]
    acls = account.pages("ec2", "describe_network_acls", "NetworkAcls", Filters=filters)
    by_subnet = {link["SubnetId"]: acl for acl in acls for link in acl.get("Associations", []) if link.get("SubnetId")}
    for zone, identifier in existing.node_subnet_ids.items():
        path = ("network", "existing", "node_subnet_ids", zone)
        acl = by_subnet.get(identifier)
        closed = [name for name, out in (("out", True), ("in", False)) if acl and not _lets(acl, out=out)]
        if acl and closed:
            yield warning(
                *path,
                what=f"network ACL {acl['NetworkAclId']} of {identifier} lets nothing {' or '.join(closed)}",
                expected="an ACL that lets the traffic of nodes through",
                fix="add a rule that allows it, or associate the VPC's default ACL",
            )
        else:
            yield fine(*path, what=identifier)


def _lets(acl: Json, *, out: bool) -> bool:
    """Whether an ACL allows anything in a direction before it denies everything."""
    entries = [acl_rule for acl_rule in acl.get("Entries", []) if acl_rule.get("Egress") is out]
    for acl_rule in sorted(entries, key=lambda acl_entry: acl_entry["RuleNumber"]):
        if acl_rule["RuleAction"] == "allow":
            return True
        if acl_rule.get("Protocol") == "-1" and acl_rule.get("CidrBlock") == "0.0.0.0/0":
            return False
    return False


@rule("storage", "network", needs="account", title="file system's use")
def file_system_serves_the_nodes(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """An existing file system keeps its data when a server fails, speaks the nodes' Lustre, and lets them in.

    https://docs.aws.amazon.com/fsx/latest/LustreGuide/using-fsx-lustre.html
    """
    existing = plan.existing_file_system
    if existing is None:
        yield skipped("the deployment creates it")
        return
    identifier = existing.file_system_id
    answer = found(account, "fsx", "describe_file_systems", FileSystemIds=[identifier])
    file_system = answer["FileSystems"][0] if answer and answer["FileSystems"] else {}
    if file_system.get("FileSystemType") != "LUSTRE":
        yield skipped("the rule 'file system' says what is wrong")
        return
    findings = []
    deployment_type = str((file_system.get("LustreConfiguration") or {}).get("DeploymentType", ""))
    if deployment_type.startswith("SCRATCH"):
        findings.append(
            warning(
                *FILE_SYSTEM,
                what=f"{identifier} is {deployment_type}: its files are lost with a server that fails, checkpoints too",
                expected="PERSISTENT_2",
                fix="name a persistent file system, or link its folders to S3 with automatic export",
            )
        )
    if file_system.get("FileSystemTypeVersion") == OLD_LUSTRE:
        findings.append(
            warning(
                *FILE_SYSTEM,
                what=f"{identifier} runs Lustre {OLD_LUSTRE}, and HyperPod's nodes have client 2.15",
                expected="2.12 or 2.15",
                fix=f"aws fsx update-file-system --file-system-id {identifier} --file-system-type-version 2.15",
            )
        )
    findings += _admits(plan, account, file_system)
    yield from findings or [fine(*FILE_SYSTEM, what=f"{identifier}, {deployment_type}")]


def _admits(plan: CommonPlan, account: Account, lustre: Json) -> Iterator[Finding]:
    """Whether a group of the file system's interfaces admits Lustre from the nodes' subnets, or from some group."""
    interfaces = lustre.get("NetworkInterfaceIds") or []
    if not interfaces or plan.existing_vpc is None:
        return
    filters = [{"Name": "network-interface-id", "Values": interfaces[:1]}]
    listed = account.pages("ec2", "describe_network_interfaces", "NetworkInterfaces", Filters=filters)
    groups = sorted({group["GroupId"] for source in listed for group in source.get("Groups", [])})
    if not groups:
        return
    rules = [
        permission
        for group in account.pages(
            "ec2", "describe_security_groups", "SecurityGroups", Filters=[{"Name": "group-id", "Values": groups}]
        )
        for permission in group.get("IpPermissions", [])
        if permission.get("IpProtocol") == "-1"
        or (permission.get("FromPort", 0) <= LUSTRE <= permission.get("ToPort", 0))
    ]
    # a group that it admits may be one that is put on nodes later: only CIDRs can be judged
    if any(source.get("UserIdGroupPairs") or source.get("PrefixListIds") for source in rules):
        return
    nodes = [ipaddress.ip_network(cidr) for cidr in plan.existing_vpc.node_subnet_cidrs.values()]
    ranges = [ipaddress.ip_network(source["CidrIp"]) for rule_ in rules for source in rule_.get("IpRanges", [])]
    if not all(any(node.subnet_of(source) for source in ranges if source.version == node.version) for node in nodes):  # type: ignore[arg-type]
        yield warning(
            *FILE_SYSTEM,
            what=f"the security groups of {lustre['FileSystemId']} ({', '.join(groups)}) do not admit port {LUSTRE} "
            "from every node subnet",
            expected=f"ports {LUSTRE} and 1018 to 1023 open to the nodes",
            fix=f"add rules for {', '.join(map(str, nodes))}",
        )
