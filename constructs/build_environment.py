"""What a CodeBuild project needs for an image whose packages or network are not the public ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from aws_cdk import Stack
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from cdklabs.deploy_time_build import ContainerImageBuild

from constructs import Construct

_BUILD = 'eval "$buildCommand"'
_PUBLIC_ECR = "public.ecr.aws"


@dataclass(frozen=True, kw_only=True)
class CodeArtifactAccess:
    """A repository of AWS CodeArtifact.

    Args:
        repository_arn: Its ARN.
        domain_arn: ARN of its domain.
    """

    repository_arn: str
    domain_arn: str

    def statements(self) -> list[iam.PolicyStatement]:
        """Rights of the build: a token of this domain, and this repository's packages.

        https://docs.aws.amazon.com/codeartifact/latest/ug/repo-policies.html
        """
        bearer = {"StringEquals": {"sts:AWSServiceName": "codeartifact.amazonaws.com"}}
        return [
            iam.PolicyStatement(actions=["codeartifact:GetAuthorizationToken"], resources=[self.domain_arn]),
            iam.PolicyStatement(actions=["codeartifact:ReadFromRepository"], resources=[self.repository_arn]),
            iam.PolicyStatement(actions=["sts:GetServiceBearerToken"], resources=["*"], conditions=bearer),
        ]


@dataclass(frozen=True, kw_only=True)
class SecretAccess:
    """User and password of a package index.

    Args:
        secret_arn: Secret that has them.
    """

    secret_arn: str

    def statements(self) -> list[iam.PolicyStatement]:
        """Rights of the build: this secret."""
        return [iam.PolicyStatement(actions=["secretsmanager:GetSecretValue"], resources=[self.secret_arn])]


@dataclass(frozen=True, kw_only=True)
class BuildNetwork:
    """Where a build runs inside a VPC.

    Args:
        vpc: The VPC.
        subnets: Private subnets.
    """

    vpc: ec2.IVpc
    subnets: Sequence[ec2.ISubnet]


@dataclass(frozen=True, kw_only=True)
class BuildEnvironment:
    """How a build gets packages and its base. The default is PyPI, outside the VPC.

    Args:
        index: What gives the credentials of the package index. None: it asks for none.
        credentials: Shell commands that write them to `credentials_file`.
        credentials_file: File that Docker gives to the build as its secret `netrc`, in no layer.
        network: Where the build runs. None: outside the VPC.
        base_repository_arn: Amazon ECR repository of the base image, which the build may pull from.
        base_registry: Its host.
        proxy: Variables of the HTTP proxy, for a build inside the VPC. Docker knows them as arguments that are in no
            layer and in no history.
    """

    index: CodeArtifactAccess | SecretAccess | None = None
    credentials: Sequence[str] = ()
    credentials_file: str = ""
    network: BuildNetwork | None = None
    base_repository_arn: str | None = None
    base_registry: str | None = None
    proxy: Mapping[str, str] = field(default_factory=dict)

    @property
    def secrets(self) -> dict[str, str] | None:
        """Docker build secrets."""
        return {"netrc": f"src={self.credentials_file}"} if self.index else None

    def apply(self, scope: Construct, build: ContainerImageBuild) -> None:
        """Give the project of a build the rights, the commands and the network."""
        (project,) = [
            resource for resource in Stack.of(build).node.find_all() if isinstance(resource, codebuild.CfnProject)
        ]
        before: list[str] = []
        if self.index is not None:
            before += self.credentials
            for statement in self.index.statements():
                build.grant_principal.add_to_principal_policy(statement)
        if self.base_repository_arn is not None:
            before.append(_log_in(str(self.base_registry)))
            pull = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
            build.grant_principal.add_to_principal_policy(
                iam.PolicyStatement(actions=pull, resources=[self.base_repository_arn])
            )
        if before or self.network is not None:
            spec = Stack.of(build).resolve(project.source)["buildSpec"]
            project.add_property_override("Source.BuildSpec", extended(spec, before, public=self.network is None))
        if self.proxy:
            rows = [{"Name": name, "Type": "PLAINTEXT", "Value": value} for name, value in self.proxy.items()]
            project.add_property_override("Environment.EnvironmentVariables", rows)
        if self.network is not None:
            port = urlsplit(self.proxy["HTTPS_PROXY"]).port if self.proxy else None
            _inside(scope, project, build, self.network, proxy_port=port)


def extended(spec: str, before: Sequence[str], *, public: bool) -> str:
    """A build specification with commands before its build.

    Args:
        spec: The specification of `ContainerImageBuild`, as JSON.
        before: Commands for the shell of the build.
        public: Whether the build reaches Amazon ECR Public, which has an API in us-east-1 only and no VPC endpoint.

    Raises:
        ValueError: The specification has not the command before which these belong.
    """
    content: dict[str, Any] = json.loads(spec)
    commands = list(content["phases"]["build"]["commands"])
    if commands.count(_BUILD) != 1:
        raise ValueError(f"the build specification has {commands.count(_BUILD)} commands {_BUILD!r}; expected 1")
    if not public:
        commands = [command for command in commands if _PUBLIC_ECR not in command]
    at = commands.index(_BUILD)
    content["phases"]["build"]["commands"] = [*commands[:at], *before, *commands[at:]]
    return json.dumps(content, indent=2)


def _log_in(registry: str) -> str:
    region = registry.split(".")[3]
    return f"aws ecr get-login-password --region {region} | docker login --username AWS --password-stdin {registry}"


def _inside(
    scope: Construct,
    project: codebuild.CfnProject,
    build: ContainerImageBuild,
    network: BuildNetwork,
    *,
    proxy_port: int | None,
) -> None:
    """Run a project inside a VPC: HTTPS and the proxy out, nothing in.

    https://docs.aws.amazon.com/codebuild/latest/userguide/auth-and-access-control-iam-identity-based-access-control.html#customer-managed-policies-example-create-vpc-network-interface
    """
    stack = Stack.of(scope)
    group = ec2.SecurityGroup(
        scope, "BuildSecurityGroup", vpc=network.vpc, description="image builds", allow_all_outbound=False
    )
    group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(443), "AWS services and the package index")
    if proxy_port is not None and proxy_port != 443:
        group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(proxy_port), "the HTTP proxy")
    ids = [subnet.subnet_id for subnet in network.subnets]
    project.add_property_override(
        "VpcConfig", {"VpcId": network.vpc.vpc_id, "Subnets": ids, "SecurityGroupIds": [group.security_group_id]}
    )
    ec2_arn = f"arn:{stack.partition}:ec2:{stack.region}:{stack.account}"
    policy = iam.Policy(
        scope,
        "BuildInVpc",
        statements=[
            iam.PolicyStatement(
                actions=[
                    "ec2:CreateNetworkInterface",
                    "ec2:DeleteNetworkInterface",
                    "ec2:DescribeDhcpOptions",
                    "ec2:DescribeNetworkInterfaces",
                    "ec2:DescribeSecurityGroups",
                    "ec2:DescribeSubnets",
                    "ec2:DescribeVpcs",
                ],
                resources=["*"],
            ),
            iam.PolicyStatement(
                actions=["ec2:CreateNetworkInterfacePermission"],
                resources=[f"{ec2_arn}:network-interface/*"],
                conditions={
                    "StringEquals": {"ec2:AuthorizedService": "codebuild.amazonaws.com"},
                    "ArnEquals": {"ec2:Subnet": [f"{ec2_arn}:subnet/{candidate}" for candidate in ids]},
                },
            ),
        ],
    )
    (project_of_role,) = [candidate for candidate in stack.node.find_all() if isinstance(candidate, codebuild.Project)]
    role = project_of_role.role
    assert role is not None  # noqa: S101  (narrowing only)
    role.attach_inline_policy(policy)
    # CodeBuild looks at the role's rights when it creates the project
    project.node.add_dependency(policy)
