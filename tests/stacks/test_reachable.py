"""Every image, AWS call and destination of every environment, and whether the templates let it through.

Judged from the templates: what manifests and Helm values name, the record of the locked charts as Helm renders them,
the roles' policies as IAM decides them, and the routes and endpoints that the network has.
"""

from __future__ import annotations

from hyperpod_ray.core import Plan, needs
from hyperpod_ray.core.images import Reference
from tests.stacks.reachable_helpers import PULL, World
from tests.support.iam import Request, allows


class TestImages:
    def test_nodes_may_pull_every_image(self, on_eks: World) -> None:
        statements = on_eks.permissions(on_eks.node_role)
        for image in on_eks.images:
            reference = Reference.parse(image)
            if reference.ecr is None:
                continue
            account, region = reference.ecr
            arn = f"arn:aws:ecr:{region}:{account}:repository/{reference.repository}"
            for action in PULL:
                assert allows(statements, Request(action=action, resource=arn)), f"{action} on {arn}"
        assert allows(statements, Request(action="ecr:GetAuthorizationToken"))

    def test_a_closed_network_reaches_every_registry(self, on_eks: World) -> None:
        if not on_eks.closed:
            return
        region = on_eks.plan.settings.region
        assert {"ecr.api", "ecr.dkr", "s3"} <= set(on_eks.endpoints)
        for image in on_eks.images:
            reference = Reference.parse(image)
            assert reference.ecr is not None, f"{image} is on the internet"
            assert reference.ecr[1] == region, f"{image} is in another region"
            arn = f"arn:aws:ecr:{region}:{reference.ecr[0]}:repository/{reference.repository}"
            for action in PULL:
                assert on_eks.lets_through("ecr.dkr", action, arn, **on_eks.ours), image
        assert on_eks.lets_through("ecr.api", "ecr:GetAuthorizationToken", "*", **on_eks.ours)
        layers = f"arn:aws:s3:::prod-{region}-starport-layer-bucket/sha256"
        assert on_eks.lets_through("s3", "s3:GetObject", layers), "layers come by URLs that Amazon ECR signs"

    def test_the_model_knows_exactly_what_runs(self, on_eks: World) -> None:
        """Nothing that runs is missing in the model, and nothing in it runs nowhere (but what is built here)."""
        known = {str(need.pulled) for need in needs.images(on_eks.plan)}
        existing = {str(need.pulled) for need in needs.images(on_eks.plan) if need.workload.startswith("add-on ")}
        built = {
            f"{properties['repositoryUri']}:{properties['imageTag']}"
            for key, properties in on_eks.resolved("Custom::CDKContainerImageBuild")
            if "-Image/" in key
        }
        running = {str(Reference.parse(image)) for image in on_eks.images} - built
        assert running - known == set()
        assert known - running - existing == set()

    def test_a_stranger_may_not_be_pulled(self, worlds: dict[str, World]) -> None:
        statements = worlds["prod"].permissions(worlds["prod"].node_role)
        for arn in (
            "arn:aws:ecr:us-west-2:444455556666:repository/ray-prods",
            "arn:aws:ecr:us-west-2:444455556666:repository/other",
            "arn:aws:ecr:us-west-2:999999999999:repository/eks/coredns",
            "arn:aws:ecr:eu-west-1:602401143452:repository/eks/coredns",
        ):
            assert not allows(statements, Request(action="ecr:BatchGetImage", resource=arn)), arn
        own = "arn:aws:ecr:us-west-2:444455556666:repository/ray-prod"
        assert allows(statements, Request(action="ecr:BatchGetImage", resource=own))
        assert not allows(statements, Request(action="ecr:PutImage", resource=own))

    def test_settings_of_further_registries(self, worlds: dict[str, World]) -> None:
        world = worlds["registries"]
        statements = world.permissions(world.node_role)
        jobs = "arn:aws:ecr:us-east-2:777788889999:repository/jobs/finetune"
        cached = "arn:aws:ecr:us-east-2:111122223333:repository/docker-hub/library/redis"
        assert allows(statements, Request(action="ecr:BatchGetImage", resource=jobs))
        for action in ("ecr:BatchGetImage", "ecr:BatchImportUpstreamImage", "ecr:CreateRepository"):
            assert allows(statements, Request(action=action, resource=cached)), action
        assert not allows(statements, Request(action="ecr:CreateRepository", resource=jobs))


def self_arn(world: World, key: str) -> str:
    """ARN of a resource by `stack/logical id`."""
    return world.references.arn(*key.split("/"))


class TestCalls:
    def test_roles_may_call_what_the_catalogue_says(self, world: World) -> None:
        """Calls whose resource is this environment's own; images are judged above, managed policies are AWS's."""
        settings = world.plan.settings
        account, region = settings.account, settings.region
        interface = f"arn:aws:ec2:{region}:{account}:network-interface/eni-0"
        file_system = f"arn:aws:fsx:{region}:{account}:file-system/fs-0"
        resources = {
            "*": ["*"],
            "network-interface": [interface],
            "lifecycle": [f"arn:aws:s3:::{world.plan.lifecycle_bucket_name}{end}" for end in ("", "/on_create.sh")],
            "assets": [f"arn:aws:s3:::cdk-hnb659fds-assets-{account}-{region}{end}" for end in ("", "/x.zip")],
            "file-system": [file_system],
            "tier-metrics": ["*"],
            "hyperpod-cluster": [self_arn(world, key) for key in world.assembly.of_type("AWS::SageMaker::Cluster")],
        }
        if isinstance(world.plan, Plan):
            tier = f"arn:aws:s3:::{world.plan.tier_bucket_name}"
            resources |= {
                "eks-cluster": [f"arn:aws:eks:{region}:{account}:cluster/{world.plan.eks_cluster_name}"],
                "tier": [tier, f"{tier}/checkpoints/x"],
            }
        elif (database := settings.hyperpod.accounting_database) is not None:
            resources["accounting-secret"] = [database.secret_arn]
        if (image := world.plan.built_image) is not None and image.in_vpc:
            resources |= {
                "repository": [self_arn(world, key) for key in world.assembly.of_type("AWS::ECR::Repository")],
                "base": [f"arn:aws:ecr:{region}:444455556666:repository/copies/ray"],
                "codeartifact-domain": ["arn:aws:codeartifact:us-west-2:777788889999:domain/ml"],
                "codeartifact-repository": ["arn:aws:codeartifact:us-west-2:777788889999:repository/ml/pypi-copy"],
            }
        there = world.plan.existing_vpc
        (vpc,) = [world.references.arn(*key.split("/")) for key in world.assembly.of_type("AWS::EC2::VPC")] or [
            f"arn:aws:ec2:{region}:{account}:vpc/{there.vpc_id if there else ''}"
        ]
        context: dict[str, str | list[str]] = {
            "ec2:Vpc": vpc,
            "cloudwatch:namespace": "/aws/sagemaker/Clusters",
            "ec2:CreateAction": "CreateNetworkInterface",
            "aws:ResourceTag/hyperpod-ray:environment": world.plan.name,
            "aws:RequestTag/hyperpod-ray:environment": world.plan.name,
        }
        judged = 0
        for call in needs.calls(world.plan):
            if call.role not in world.roles or call.resource not in resources:
                continue
            statements = world.permissions(world.roles[call.role])
            others = [world.permissions(role) for role in world.node_roles[1:] if call.role == "node"]
            for action in call.actions:
                one = [
                    r for r in resources[call.resource] if ("/" in r.partition(":::")[2]) == action.endswith("Object")
                ]
                for resource in one if call.endpoint == "s3" else resources[call.resource]:
                    asked = Request(action=action, resource=resource, context=context)
                    assert allows(statements, asked), f"{call.role}: {action} on {resource}"
                    for other in others:
                        assert allows(other, asked) == (call.resource != "accounting-secret"), f"{action} on {resource}"
                    judged += 1
        assert judged >= (20 if isinstance(world.plan, Plan) else 4 if len(resources) > 7 else 0)

    def test_the_managed_policy_of_nodes_is_there(self, world: World) -> None:
        for role in world.node_roles:
            (arns,) = [
                properties["ManagedPolicyArns"]
                for key, properties in world.resolved("AWS::IAM::Role")
                if role.endswith(key.replace("/", "-"))
            ]
            assert any(arn.endswith(":policy/AmazonSageMakerClusterInstanceRolePolicy") for arn in arns)


class TestDestinations:
    def test_the_nodes_let_every_port_out(self, world: World) -> None:
        """Pods' traffic leaves by the nodes' security group."""
        ports = {*needs.outside_ports(world.plan), 443}
        opened = {
            rule["FromPort"]
            for key, group in world.resolved("AWS::EC2::SecurityGroup")
            if "-Network/" in key and group["GroupDescription"].endswith("HyperPod nodes")
            for rule in group["SecurityGroupEgress"]
            if rule.get("CidrIp") == "0.0.0.0/0"
        }
        assert opened == ports

    def test_the_way_to_agents_leads_to_the_nodes_and_nowhere_else(self, on_eks: World) -> None:
        """The policy's ranges are computed from the file; the subnets' are the templates'."""
        zones = set(on_eks.plan.node_zones)
        made = {
            subnet["CidrBlock"]
            for key, subnet in on_eks.resolved("AWS::EC2::Subnet")
            if "NodesSubnet" in key and subnet["AvailabilityZoneId"] in zones
        }
        vpc = on_eks.plan.existing_vpc
        nodes = {vpc.node_subnet_cidrs[zone] for zone in zones} if vpc else made
        policies = [o for o in on_eks.objects if o["kind"] == "NetworkPolicy" and o["metadata"]["name"] == "job-agent"]
        assert policies
        for policy in policies:
            (rule,) = policy["spec"]["egress"]
            assert {peer["ipBlock"]["cidr"] for peer in rule["to"]} == nodes
            assert rule["ports"] == [{"port": 8889, "protocol": "TCP"}]
