"""What the stacks need of EKS beside MiniStack's API: add-ons, access entries, pod identities and a real endpoint."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hyperpod_ray_rules import eks as rules
from hyperpod_ray_sandbox.aws.emulator import eks_settings
from hyperpod_ray_sandbox.aws.emulator.cloudformation import Created, Registry, ResourceType
from hyperpod_ray_sandbox.aws.emulator.context import Context
from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError
from hyperpod_ray_sandbox.aws.emulator.network import Network
from hyperpod_ray_sandbox.aws.emulator.roles import Roles

Json = dict[str, Any]


def eks_types(context: Context) -> list[ResourceType]:
    """Return Addon, AccessEntry and PodIdentityAssociation."""
    # MiniStack knows the types of the API's early days
    kinds = {*context.hooks.eks._VALID_ACCESS_ENTRY_TYPES, "EC2", "HYBRID_LINUX", "HYPERPOD_LINUX"}
    context.hooks.eks._VALID_ACCESS_ENTRY_TYPES = tuple(sorted(kinds))
    return [_addon(context), _access_entry(context), _pod_identity_association(context)]


def extend_cluster(registry: Registry, context: Context, network: Network, roles: Roles) -> None:
    """Give clusters the Kubernetes API's address and CA, and what MiniStack's CloudFormation drops of them."""
    eks, ec2, hooks = context.hooks.eks, context.hooks.ec2, context.hooks
    original_create = eks._create_cluster
    interfaces: dict[str, list[str]] = {}

    if context.kubernetes_endpoint:
        eks._cluster_endpoint = lambda _port: context.kubernetes_endpoint

    def create_cluster(body: Json, creator_arn: str | None = None) -> Any:
        arn = hooks.arn("eks", f"cluster/{body['name']}")
        refusal = _refusal(ec2._subnets, body) or _unusable(roles, str(body.get("roleArn", "")), arn)
        if refusal is not None:
            return eks._error(400, *refusal)
        answer = original_create(body, creator_arn)
        if answer[0] < 400:
            _complete(eks._clusters[body["name"]], body)
        return answer

    def _complete(cluster: Json, body: Json) -> None:
        if context.kubernetes_ca:
            cluster["certificateAuthority"]["data"] = context.kubernetes_ca
        vpc_config = cluster["resourcesVpcConfig"]
        subnets = vpc_config["subnetIds"]
        network.check(subnets, vpc_config["securityGroupIds"])
        vpc = next((ec2._subnets[s]["VpcId"] for s in subnets if s in ec2._subnets), vpc_config["vpcId"])
        vpc_config["vpcId"] = vpc
        # the service makes the cluster security group, and takes it away with the cluster
        group = vpc_config["clusterSecurityGroupId"]
        ec2._security_groups[group] = {
            "GroupId": group,
            "GroupName": f"eks-cluster-sg-{cluster['name']}",
            "Description": "EKS created security group applied to ENI that is attached to EKS Control Plane",
            "VpcId": vpc,
            "OwnerId": hooks.account(),
            "IpPermissions": [_all_from(UserIdGroupPairs=[{"GroupId": group, "UserId": hooks.account()}])],
            "IpPermissionsEgress": [_all_from(IpRanges=[{"CidrIp": "0.0.0.0/0"}])],
        }
        interfaces[cluster["arn"]] = [
            network.create_interface([s], [group, *vpc_config["securityGroupIds"]], f"Amazon EKS {cluster['name']}")[0]
            for s in subnets
        ]

    eks._create_cluster = create_cluster
    original_delete = eks._delete_cluster

    def delete_cluster(name: str) -> Any:
        cluster = eks._clusters.get(name)
        answer = original_delete(name)
        if cluster is not None and answer[0] < 400:
            for interface in interfaces.pop(cluster["arn"], []):
                network.delete_interface(interface)
            ec2._security_groups.pop(cluster["resourcesVpcConfig"]["clusterSecurityGroupId"], None)
        return answer

    eks._delete_cluster = delete_cluster

    def keeps_more(original: Callable[..., Any]) -> Callable[..., Any]:
        def create(logical_id: str, properties: Json, stack: str) -> Any:
            name, attributes = original(logical_id, properties, stack)
            cluster = eks._clusters[name]
            camel = hooks.provisioners._pascal_to_camel
            cluster["encryptionConfig"] = camel(properties.get("EncryptionConfig", []))
            cluster["kubernetesNetworkConfig"].update(camel(properties.get("KubernetesNetworkConfig", {})))
            attributes["CertificateAuthorityData"] = cluster["certificateAuthority"]["data"]
            keys = cluster["encryptionConfig"]
            attributes["EncryptionConfigKeyArn"] = keys[0]["provider"]["keyArn"] if keys else ""
            return name, attributes

        return create

    registry.wrap("AWS::EKS::Cluster", "create", keeps_more)
    eks_settings.extend(registry, eks)


def _refusal(subnets: Json, body: Json) -> tuple[str, str] | None:
    """Error code and message of what EKS refuses."""
    config = body.get("resourcesVpcConfig") or {}
    zones = [subnets[s].get("AvailabilityZoneId", "") for s in config.get("subnetIds", []) if s in subnets]
    for refusal in rules.control_plane_zones(zones) if zones else ():
        code = "InvalidParameterException" if refusal.index is None else "UnsupportedAvailabilityZoneException"
        return code, refusal.message
    if str(config.get("endpointPublicAccess", True)).lower() == "true":
        for refusal in rules.public_cidrs(config.get("publicAccessCidrs") or []):
            return "InvalidParameterException", refusal.message
    return None


# what the control plane asks EC2 with its role; AmazonEKSClusterPolicy has more
CLUSTER_ACTIONS = ("ec2:DescribeSubnets", "ec2:DescribeVpcs", "ec2:DescribeSecurityGroups", "ec2:DescribeInstances")


def _unusable(roles: Roles, role: str, cluster: str) -> tuple[str, str] | None:
    """Error code and message of what EKS says to the role of a cluster."""
    if not roles.trusts(role, service="eks.amazonaws.com", source=cluster):
        message = f"Role with arn: {role}, could not be assumed because it does not exist or the trusted entity is not "
        message += "correct"
        return "InvalidParameterException", message
    if any(roles.refusal(role, action) for action in CLUSTER_ACTIONS):
        policy = "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"
        message = (
            "The provided role doesn't have the Amazon EKS Managed Policies associated with it. Please ensure the "
        )
        message += f"following policies [{policy}] are attached"
        return "InvalidParameterException", message
    return None


def _all_from(**peers: Any) -> Json:
    return {"IpProtocol": "-1", "IpRanges": [], "Ipv6Ranges": [], "PrefixListIds": [], "UserIdGroupPairs": [], **peers}


def _answer(response: tuple[int, Any, Any]) -> Json:
    status, _, body = response
    answer: Json = json.loads(body or b"{}")
    if status >= 400:
        raise ServiceError(str(answer.get("__type", "EksError")), str(answer.get("message", body)), status)
    return answer


def _body(context: Context, properties: Json, *without: str) -> Json:
    provisioners = context.hooks.provisioners
    kept = {k: v for k, v in properties.items() if k not in ("Tags", "ClusterName", *without)}
    body: Json = provisioners._pascal_to_camel(kept)
    return {**body, "tags": provisioners._tag_map(properties.get("Tags"))}


def _addon(context: Context) -> ResourceType:
    eks = context.hooks.eks

    def create(_logical_id: str, properties: Json, _stack: str) -> Created:
        cluster, name = properties["ClusterName"], properties["AddonName"]
        addon = _answer(eks._create_addon(cluster, _body(context, properties)))["addon"]
        return f"{cluster}|{name}", {"Arn": addon["addonArn"]}

    def update(identifier: str, _old: Json, new: Json, _stack: str) -> Created:
        cluster, name = new["ClusterName"], new["AddonName"]
        _answer(eks._update_addon(cluster, name, _body(context, new)))
        return identifier, {"Arn": _answer(eks._describe_addon(cluster, name))["addon"]["addonArn"]}

    return ResourceType(
        type="AWS::EKS::Addon",
        create=create,
        update=update,
        delete=lambda identifier, _properties: eks._delete_addon(*identifier.split("|")),
        replacing=("ClusterName", "AddonName"),
    )


def _access_entry(context: Context) -> ResourceType:
    eks = context.hooks.eks

    def policies(properties: Json) -> list[Json]:
        access_policies: list[Json] = properties.get("AccessPolicies", [])
        return access_policies

    def create(_logical_id: str, properties: Json, _stack: str) -> Created:
        cluster, principal = properties["ClusterName"], properties["PrincipalArn"]
        body = _body(context, properties, "AccessPolicies")
        access_entry = _answer(eks._create_access_entry(cluster, body))["accessEntry"]
        for policy in policies(properties):
            _answer(eks._associate_access_policy(cluster, principal, _camel(context, policy)))
        return f"{principal}|{cluster}", {"AccessEntryArn": access_entry["accessEntryArn"]}

    def update(identifier: str, old: Json, new: Json, _stack: str) -> Created:
        principal, cluster = identifier.split("|")
        for policy in policies(old):
            eks._disassociate_access_policy(cluster, principal, policy["PolicyArn"])
        for policy in policies(new):
            _answer(eks._associate_access_policy(cluster, principal, _camel(context, policy)))
        access_entry = _answer(eks._describe_access_entry(cluster, principal))["accessEntry"]
        return identifier, {"AccessEntryArn": access_entry["accessEntryArn"]}

    def delete(identifier: str, _properties: Json) -> Any:
        principal, cluster = identifier.split("|")
        return eks._delete_access_entry(cluster, principal)

    return ResourceType(
        type="AWS::EKS::AccessEntry",
        create=create,
        update=update,
        delete=delete,
        replacing=("PrincipalArn", "ClusterName", "Type"),
    )


def _pod_identity_association(context: Context) -> ResourceType:
    eks = context.hooks.eks

    def create(_logical_id: str, properties: Json, _stack: str) -> Created:
        answer = eks._create_pod_identity_association(properties["ClusterName"], _body(context, properties))
        association = _answer(answer)["association"]
        return association["associationArn"], {
            "AssociationArn": association["associationArn"],
            "AssociationId": association["associationId"],
        }

    def update(identifier: str, _old: Json, new: Json, _stack: str) -> Created:
        body = {"roleArn": new["RoleArn"]}
        answer = eks._update_pod_identity_association(new["ClusterName"], identifier.rsplit("/", 1)[1], body)
        association = _answer(answer)["association"]
        return identifier, {"AssociationArn": identifier, "AssociationId": association["associationId"]}

    return ResourceType(
        type="AWS::EKS::PodIdentityAssociation",
        create=create,
        update=update,
        delete=lambda identifier, properties: eks._delete_pod_identity_association(
            properties["ClusterName"], identifier.rsplit("/", 1)[1]
        ),
        replacing=("ClusterName", "Namespace", "ServiceAccount"),
    )


def _camel(context: Context, properties: Json) -> Json:
    camel: Json = context.hooks.provisioners._pascal_to_camel(properties)
    return camel
