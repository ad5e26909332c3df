"""Roles as the services want them, in the embedded AWS."""

from __future__ import annotations

import json
from typing import Any

MANAGED = "arn:aws:iam::aws:policy/"
ACTIONS = ["ec2:CreateNetworkInterface", "ecr:GetAuthorizationToken", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]


def trust(*services: str) -> str:
    """A trust policy for services."""
    statement = {"Effect": "Allow", "Principal": {"Service": list(services)}, "Action": ["sts:AssumeRole"]}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def allowing(*actions: str, resource: str | list[str] = "*", **more: Any) -> str:
    """A policy of one statement."""
    statement = {"Effect": "Allow", "Action": list(actions), "Resource": resource, **more}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def node_role(iam: Any, name: str = "execution", *, actions: list[str] | None = None) -> str:
    """A HyperPod execution role; made once."""
    try:
        made = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust("sagemaker.amazonaws.com"))
    except iam.exceptions.EntityAlreadyExistsException:
        return str(iam.get_role(RoleName=name)["Role"]["Arn"])
    iam.attach_role_policy(RoleName=name, PolicyArn=f"{MANAGED}AmazonSageMakerClusterInstanceRolePolicy")
    if actions := ACTIONS if actions is None else actions:
        iam.put_role_policy(RoleName=name, PolicyName="nodes", PolicyDocument=allowing(*actions))
    return str(made["Role"]["Arn"])


def cluster_role(iam: Any, name: str = "control-plane") -> str:
    """An EKS cluster role; made once."""
    try:
        made = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust("eks.amazonaws.com"))
    except iam.exceptions.EntityAlreadyExistsException:
        return str(iam.get_role(RoleName=name)["Role"]["Arn"])
    iam.attach_role_policy(RoleName=name, PolicyArn=f"{MANAGED}AmazonEKSClusterPolicy")
    return str(made["Role"]["Arn"])


def driver_role(iam: Any, issuer: str, name: str = "csi", *, actions: tuple[str, ...] = ("fsx:*",)) -> str:
    """A role of the FSx CSI driver's service account, with the OIDC provider of its cluster."""
    provider = iam.create_open_id_connect_provider(Url=issuer, ClientIDList=["sts.amazonaws.com"])
    host = issuer.partition("//")[2]
    claims = {
        f"{host}:aud": "sts.amazonaws.com",
        f"{host}:sub": "system:serviceaccount:kube-system:fsx-csi-controller-sa",
    }
    statement = {
        "Effect": "Allow",
        "Principal": {"Federated": provider["OpenIDConnectProviderArn"]},
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Condition": {"StringEquals": claims},
    }
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    made = iam.create_role(RoleName=name, AssumeRolePolicyDocument=document)
    iam.put_role_policy(RoleName=name, PolicyName="fsx", PolicyDocument=allowing(*actions))
    return str(made["Role"]["Arn"])


def way_out(ec2: Any, vpc: str, subnet: str) -> None:
    """A NAT gateway in a subnet, and the default route of the VPC's main table to it."""
    nat = ec2.create_nat_gateway(SubnetId=subnet, ConnectivityType="private")["NatGateway"]["NatGatewayId"]
    tables = ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["RouteTables"]
    main = next(t["RouteTableId"] for t in tables if any(a.get("Main") for a in t["Associations"]))
    ec2.create_route(RouteTableId=main, DestinationCidrBlock="0.0.0.0/0", NatGatewayId=nat)
