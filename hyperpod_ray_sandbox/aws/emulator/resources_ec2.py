"""The EC2 resource types MiniStack's CloudFormation lacks, and AWS's refusals to delete what is in use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hyperpod_ray_sandbox.aws.emulator.cloudformation import Created, Registry, ResourceType
from hyperpod_ray_sandbox.aws.emulator.context import Context, hex_id
from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError
from hyperpod_ray_sandbox.aws.emulator.network import Network

Json = dict[str, Any]


def ec2_types(context: Context) -> list[ResourceType]:
    """Return EIP, NatGateway, FlowLog and the security group rules."""
    return [_eip(context), _nat_gateway(context), _flow_log(context), *_rules(context)]


def protect(registry: Registry, context: Context, network: Network) -> None:
    """Refuse to delete subnets and security groups in use, from CloudFormation and from the API alike."""
    ec2 = context.hooks.ec2
    guards = {"AWS::EC2::Subnet": network.blocks_subnet, "AWS::EC2::SecurityGroup": network.blocks_security_group}

    for resource_type, blocks in guards.items():
        registry.wrap(resource_type, "delete", _refusing(blocks))

    def guarded(action: str, member: str, blocks: Callable[[str], str]) -> None:
        original = ec2._ACTION_MAP[action]

        def answer(parameters: Json) -> Any:
            reason = blocks((parameters.get(member) or [""])[0])
            return ec2._error("DependencyViolation", reason, 400) if reason else original(parameters)

        ec2._ACTION_MAP[action] = answer

    guarded("DeleteSubnet", "SubnetId", network.blocks_subnet)
    guarded("DeleteSecurityGroup", "GroupId", network.blocks_security_group)


def open_default_groups(registry: Registry, context: Context) -> None:
    """Let members of a new VPC's default security group reach each other, as on AWS; MiniStack's admit nobody.

    https://docs.aws.amazon.com/vpc/latest/userguide/default-security-group.html
    """
    ec2 = context.hooks.ec2

    def opened(vpc: str) -> None:
        group = ec2._vpcs[vpc]["DefaultSecurityGroupId"]
        pairs = [{"GroupId": group, "UserId": context.hooks.account()}]
        rule = {"IpProtocol": "-1", "IpRanges": [], "Ipv6Ranges": [], "PrefixListIds": [], "UserIdGroupPairs": pairs}
        ec2._security_groups[group]["IpPermissions"] = [rule]

    def wrapper(original: Callable[..., Any]) -> Callable[..., Any]:
        def create(*arguments: Any) -> Any:
            vpc, attributes = original(*arguments)
            opened(vpc)
            return vpc, attributes

        return create

    registry.wrap("AWS::EC2::VPC", "create", wrapper)
    of_the_api = ec2._ACTION_MAP["CreateVpc"]

    def create_vpc(parameters: Json) -> Any:
        answer = of_the_api(parameters)
        if answer[0] < 400:
            opened(_member(_xml(answer), "vpcId"))
        return answer

    ec2._ACTION_MAP["CreateVpc"] = create_vpc


def _refusing(blocks: Callable[[str], str]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def wrapper(original: Callable[..., Any]) -> Callable[..., Any]:
        def delete(identifier: str, properties: Json) -> Any:
            reason = blocks(identifier)
            if reason:
                raise ServiceError("DependencyViolation", reason)
            return original(identifier, properties)

        return delete

    return wrapper


def _xml(answer: tuple[int, Any, Any]) -> str:
    status, _, body = answer
    text = body.decode() if isinstance(body, bytes) else str(body)
    if status >= 400:
        raise ServiceError(_member(text, "Code"), _member(text, "Message"))
    return text


def _member(xml: str, name: str) -> str:
    return xml.partition(f"<{name}>")[2].partition("<")[0]


def _eip(context: Context) -> ResourceType:
    ec2, provisioners = context.hooks.ec2, context.hooks.provisioners

    def allocation(address: str) -> str:
        return next((i for i, a in ec2._addresses.items() if a["PublicIp"] == address), "")

    def create(_logical_id: str, properties: Json, _stack: str) -> Created:
        xml = _xml(ec2._ACTION_MAP["AllocateAddress"]({"Domain": ["vpc"]}))
        identifier, address = _member(xml, "allocationId"), _member(xml, "publicIp")
        provisioners._ec2_apply_tags(identifier, properties)
        return address, {"AllocationId": identifier, "PublicIp": address}

    def update(address: str, earlier: Json, later: Json, _stack: str) -> Created:
        provisioners._ec2_apply_tags(allocation(address), later, earlier)
        return address, {"AllocationId": allocation(address), "PublicIp": address}

    def delete(address: str, _properties: Json) -> None:
        identifier = allocation(address)
        used = [n for n in ec2._nat_gateways.values() if n.get("AllocationId") == identifier]
        if identifier and any(n.get("State") != "deleted" for n in used):
            raise ServiceError("AuthFailure", f"address {address} is in use by {used[0]['NatGatewayId']}")
        ec2._addresses.pop(identifier, None)
        ec2._tags.pop(identifier, None)

    return ResourceType(type="AWS::EC2::EIP", create=create, update=update, delete=delete, replacing=("Domain",))


def _nat_gateway(context: Context) -> ResourceType:
    ec2, provisioners = context.hooks.ec2, context.hooks.provisioners

    def create(_logical_id: str, properties: Json, _stack: str) -> Created:
        members = ("SubnetId", "AllocationId", "ConnectivityType")
        parameters = {m: [str(properties[m])] for m in members if m in properties}
        identifier = _member(_xml(ec2._ACTION_MAP["CreateNatGateway"](parameters)), "natGatewayId")
        provisioners._ec2_apply_tags(identifier, properties)
        return identifier, {"NatGatewayId": identifier}

    def update(identifier: str, earlier: Json, later: Json, _stack: str) -> Created:
        provisioners._ec2_apply_tags(identifier, later, earlier)
        return identifier, {"NatGatewayId": identifier}

    def delete(identifier: str, _properties: Json) -> None:
        ec2._nat_gateways.pop(identifier, None)
        ec2._tags.pop(identifier, None)

    return ResourceType(
        type="AWS::EC2::NatGateway",
        create=create,
        update=update,
        delete=delete,
        replacing=("SubnetId", "ConnectivityType", "AllocationId", "PrivateIpAddress", "VpcId"),
    )


def _flow_log(context: Context) -> ResourceType:
    ec2, provisioners = context.hooks.ec2, context.hooks.provisioners

    def create(_logical_id: str, properties: Json, _stack: str) -> Created:
        members = ("ResourceType", "TrafficType", "LogDestinationType", "LogGroupName", "LogDestination")
        parameters = {"ResourceId.1": [properties["ResourceId"]]}
        parameters |= {m: [str(properties[m])] for m in members if m in properties}
        xml = _xml(ec2._ACTION_MAP["CreateFlowLogs"](parameters))
        identifier = _member(xml.partition("<flowLogIdSet>")[2], "item")
        provisioners._ec2_apply_tags(identifier, properties)
        return identifier, {"Id": identifier}

    def update(identifier: str, earlier: Json, later: Json, _stack: str) -> Created:
        provisioners._ec2_apply_tags(identifier, later, earlier)
        return identifier, {"Id": identifier}

    def delete(identifier: str, _properties: Json) -> None:
        ec2._flow_logs.pop(identifier, None)
        ec2._tags.pop(identifier, None)

    return ResourceType(
        type="AWS::EC2::FlowLog",
        create=create,
        update=update,
        delete=delete,
        replacing=("ResourceId", "ResourceType", "TrafficType", "LogDestinationType", "LogGroupName", "LogDestination",
                   "DeliverLogsPermissionArn", "LogFormat", "MaxAggregationInterval"),
    )  # fmt: skip


def _rules(context: Context) -> list[ResourceType]:
    ec2, provisioners = context.hooks.ec2, context.hooks.provisioners

    def kind(direction: str, store: str, peer: tuple[str, ...]) -> ResourceType:
        def create(_logical_id: str, properties: Json, _stack: str) -> Created:
            group = ec2._security_groups.get(properties["GroupId"])
            if group is None:
                raise ServiceError("InvalidGroup.NotFound", f"security group {properties['GroupId']} does not exist")
            group[store].extend(provisioners._ec2_sg_permissions([properties]))
            identifier = hex_id("sgr-")
            return identifier, {"Id": identifier}

        def update(identifier: str, earlier: Json, later: Json, _stack: str) -> Created:
            group = ec2._security_groups[later["GroupId"]]
            before, after = provisioners._ec2_sg_permissions([earlier]), provisioners._ec2_sg_permissions([later])
            provisioners._ec2_sg_reconcile(group[store], before, after)
            return identifier, {"Id": identifier}

        def delete(_identifier: str, properties: Json) -> None:
            group = ec2._security_groups.get(properties["GroupId"])
            if group:
                provisioners._ec2_sg_reconcile(group[store], provisioners._ec2_sg_permissions([properties]), [])

        return ResourceType(
            type=f"AWS::EC2::SecurityGroup{direction}",
            create=create,
            update=update,
            delete=delete,
            replacing=("GroupId", "IpProtocol", "FromPort", "ToPort", "CidrIp", "CidrIpv6", *peer),
        )

    return [
        kind("Ingress", "IpPermissions", ("SourceSecurityGroupId", "SourcePrefixListId")),
        kind("Egress", "IpPermissionsEgress", ("DestinationSecurityGroupId", "DestinationPrefixListId")),
    ]
