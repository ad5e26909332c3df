"""Every image, AWS call and destination of every environment, and whether the templates let it through.

Judged from the templates: what manifests and Helm values name, the record of the locked charts as Helm renders them,
the roles' policies as IAM decides them, and the routes and endpoints that the network has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.charts.contents import images_of
from hyperpod_ray.core import Plan, environment_names, load_any, needs
from hyperpod_ray.core.images import ChartImage, Reference, chart_images
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.core.names import GUARD
from tests.stacks.assembled import Assembly, synthesize
from tests.support.iam import Request, allows, statements_of
from tests.support.references import References

VARIANTS = Path(__file__).parent / "variants"
EXAMPLES = FOLDER / "examples"
FOLDERS = {
    **dict.fromkeys(environment_names(folder=EXAMPLES), EXAMPLES),
    **dict.fromkeys(sorted(path.stem for path in VARIANTS.glob("*.yaml")), VARIANTS),
    **dict.fromkeys(environment_names(), FOLDER),
}
"""Every environment that is shipped, every example and every variant, with its folder."""
EVERY = list(FOLDERS)
ON_EKS = [name for name in EVERY if isinstance(load_any(name, folder=FOLDERS[name]).plan, Plan)]
"""Those with Kubernetes objects, charts and images of pods."""
UNNAMED = {"amazon-sagemaker-hyperpod-observability", "amazon-sagemaker-hyperpod-taskgovernance"}
"""Add-ons whose images AWS does not name. Nodes may pull from every repository while one is installed."""
PULL = ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")


@dataclass(frozen=True)
class World:
    """One environment's templates, with questions."""

    plan: Any
    """A `Plan`, or a `SlurmPlan`."""
    assembly: Assembly

    @cached_property
    def references(self) -> References:
        settings = self.plan.settings
        return References(self.assembly.templates, account=settings.account, region=settings.region)

    def resolved(self, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """`stack/logical id` and resolved properties of each resource of a type."""
        for key, resource in self.assembly.of_type(kind).items():
            yield key, self.references.resolve(key.partition("/")[0], resource.get("Properties", {}))

    # --- what runs ---------------------------------------------------------------------------------------------------

    @cached_property
    def objects(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for _, properties in self.resolved("Custom::AWSCDK-EKS-KubernetesResource"):
            found += json.loads(properties["Manifest"])
        return found

    @cached_property
    def images(self) -> set[str]:
        """Images of manifests, charts, add-ons and of every pod's sandbox."""
        found = set(images_of(self.objects))
        lock, region = self.plan.settings.helm.lock_file, self.plan.settings.region
        for _, properties in self.resolved("Custom::AWSCDK-EKS-HelmChart"):
            values = json.loads(properties["Values"])
            recorded = chart_images(lock, properties["Release"])
            assert recorded, f"nothing is recorded of chart {properties['Release']}"
            found |= {with_values(image, values, region) for image in recorded if on(image, values)}
        data = needs.catalogue()
        added = [
            repository
            for _, p in self.resolved("AWS::EKS::Addon")
            if p["AddonName"] not in UNNAMED
            for repository in data["addons"][p["AddonName"]]
        ]
        registry = f"{needs.eks_registry(region)}.dkr.ecr.{region}.amazonaws.com"
        return found | {f"{registry}/{repository}" for repository in [*added, *data["node_images"]]}

    # --- who may -----------------------------------------------------------------------------------------------------

    def permissions(self, role: str) -> list[Any]:
        """Statements of the policies of a role, by its name or ARN."""
        name = role.rpartition("/")[2]
        found: list[Any] = []
        for key, properties in self.resolved("AWS::IAM::Role"):
            if key.replace("/", "-") == name or properties.get("RoleName") == name:
                found += statements_of(*(policy["PolicyDocument"] for policy in properties.get("Policies", [])))
        for kind in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
            for _, properties in self.resolved(kind):
                if name in {role.rpartition("/")[2] for role in properties.get("Roles", [])}:
                    found += statements_of(properties["PolicyDocument"])
        return found

    @cached_property
    def node_roles(self) -> list[str]:
        """The first is of every node; or of Slurm's controller, and a second of the others."""
        (cluster,) = [properties for _, properties in self.resolved("AWS::SageMaker::Cluster")]
        groups = sorted(
            cluster["InstanceGroups"], key=lambda one: one.get("SlurmConfig", {}).get("NodeType") != "Controller"
        )
        roles = list(dict.fromkeys(str(group["ExecutionRole"]) for group in groups))
        assert len(roles) == (2 if self.accounting else 1)
        return roles

    @property
    def accounting(self) -> bool:
        """An accounting database is there, whose password is the controller's alone."""
        return not isinstance(self.plan, Plan) and self.plan.settings.hyperpod.accounting_database is not None

    @property
    def node_role(self) -> str:
        return self.node_roles[0]

    @cached_property
    def roles(self) -> dict[str, str]:
        made = {"node": self.node_role}
        for _, properties in self.resolved("AWS::EKS::Addon"):
            if properties["AddonName"] == "aws-fsx-csi-driver":
                made["fsx-csi"] = properties["ServiceAccountRoleArn"]
        for _, properties in self.resolved("AWS::EKS::PodIdentityAssociation"):
            made["guard" if properties["ServiceAccount"] == GUARD else "ray"] = properties["RoleArn"]
        for _, properties in self.resolved("AWS::CodeBuild::Project"):
            if "VpcConfig" in properties:
                made["build"] = properties["ServiceRole"]
        for _, properties in self.resolved("AWS::Lambda::Function"):
            if properties.get("Description", "").startswith("onEvent handler for EKS kubectl"):
                made["kubectl"] = properties["Role"]
        return made

    # --- how it gets there -------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """A VPC is made, and nothing leads out of it."""
        made = bool(self.assembly.of_type("AWS::EC2::VPC"))
        return made and not self.assembly.of_type("AWS::EC2::NatGateway")

    @cached_property
    def endpoints(self) -> dict[str, list[Any]]:
        """Service (without `com.amazonaws.REGION.`) to the statements of its endpoint's policy."""
        made = {}
        for _, properties in self.resolved("AWS::EC2::VPCEndpoint"):
            service = properties["ServiceName"].removeprefix(f"com.amazonaws.{self.plan.settings.region}.")
            made[service] = statements_of(properties.get("PolicyDocument", {"Statement": []}))
        return made

    def lets_through(self, service: str, action: str, resource: str, **context: str) -> bool:
        """Whether a closed network's endpoint admits a request. Its statements are for everybody: the principal is out
        of them, and conditions say who.
        """
        bare = [{key: value for key, value in s.items() if key != "Principal"} for s in self.endpoints[service]]
        keys = {f"aws:{key}": value for key, value in context.items()}
        return allows(bare, Request(action=action, resource=resource, context=keys))

    @property
    def ours(self) -> dict[str, str]:
        return {"PrincipalAccount": self.plan.settings.account, "ResourceAccount": self.plan.settings.account}


def on(image: ChartImage, values: dict[str, Any]) -> bool:
    return not image.condition or at(values, image.condition) is True


def at(values: Any, path: str) -> Any:
    for step in path.split("."):
        values = values.get(step) if isinstance(values, dict) else None
    return values


def with_values(image: ChartImage, values: dict[str, Any], region: str) -> str:
    """The image that the chart renders, by the values that Helm was seen to take it from."""
    levers = image.levers
    if whole := at(values, levers.get("image", "-")):
        return str(whole)
    own = image.at(region)
    assert own is not None
    name = at(values, levers.get("repository", "-")) or own.name
    return f"{name}:{at(values, levers.get('tag', '-')) or own.tag}"


@pytest.fixture(scope="module")
def worlds(assemblies: dict[str, Assembly]) -> dict[str, World]:
    made = {}
    for name in EVERY:
        folder = FOLDERS[name]
        assembly = assemblies[name] if folder == FOLDER else synthesize(name, folder=folder)
        made[name] = World(load_any(name, folder=folder).plan, assembly)
    return made


@pytest.fixture(params=EVERY)
def world(request: pytest.FixtureRequest, worlds: dict[str, World]) -> World:
    return worlds[request.param]


@pytest.fixture(params=ON_EKS)
def on_eks(request: pytest.FixtureRequest, worlds: dict[str, World]) -> World:
    return worlds[request.param]


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

    def test_what_is_pulled_from_this_account_is_put_there(self, on_eks: World) -> None:
        """By a build of exactly this tag, or by whoever the environment file names."""
        built = {
            f"{properties['repositoryUri']}:{properties['imageTag']}"
            for _, properties in on_eks.resolved("Custom::CDKContainerImageBuild")
        }
        given = {on_eks.plan.existing_image}
        for image in on_eks.images - given:
            reference = Reference.parse(image)
            if reference.ecr and reference.ecr[0] == on_eks.plan.settings.account:
                assert image in built

    def test_copies_are_there_before_the_pods(self, on_eks: World) -> None:
        if "Mirror" not in "".join(on_eks.assembly.templates):
            return
        manifests = [json.loads(path.read_text()) for path in on_eks.assembly.folder.rglob("manifest.json")]
        stacks = {key: value for m in manifests for key, value in m["artifacts"].items() if "Mirror" in key}
        (mirror,) = [key for key, value in stacks.items() if value["type"] == "aws:cloudformation:stack"]
        waiting = [
            value["displayName"] for m in manifests for value in m["artifacts"].values()
            if mirror in value.get("dependencies", [])
        ]  # fmt: skip
        assert f"{on_eks.plan.name}/HyperPod" in waiting

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

    def test_one_without_a_digest_cannot_be_copied(self, worlds: dict[str, World]) -> None:
        """CloudFormation refuses the stack until `hyperpod-ray image pin` recorded what it copies."""
        for name in ("prod", "closed"):
            template = worlds[name].assembly.templates[f"{name}-Mirror"]
            unknown = [copy for copy in needs.copies(worlds[name].plan) if not copy.source.digest]
            assert bool(unknown) == any(
                "hyperpod-ray image pin" in json.dumps(rule) for rule in template.get("Rules", {}).values()
            )


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

    def test_every_call_has_its_endpoint_in_a_closed_network(self, world: World) -> None:
        settings = world.plan.settings
        wanted = {call.endpoint for call in needs.calls(world.plan)}
        if not world.closed:
            assert set(world.endpoints) <= {"s3"}
            assert all(not statements for statements in world.endpoints.values()), "a NAT gateway leads to S3, too"
            return
        assert set(world.endpoints) == wanted, "an endpoint for every call, and none for nobody"
        role = f"arn:aws:iam::{settings.account}:role/any"
        compact = settings.region.replace("-", "")
        resources = {
            "trust": role,
            "responses": f"arn:aws:s3:::cloudformation-custom-resource-response-{compact}/x",
            "layers": f"arn:aws:s3:::prod-{settings.region}-starport-layer-bucket/x",
        }
        for call in needs.calls(world.plan):
            # services sign these themselves, and taking a role by a token has no account yet
            anonymous = (
                call.resource in ("responses", "layers", "service") or "sts:AssumeRoleWithWebIdentity" in call.actions
            )
            for action in call.actions:
                resource = resources.get(call.resource, "*") if action.startswith(("s3:", "sts:Assume")) else "*"
                context = {} if anonymous else world.ours
                assert world.lets_through(call.endpoint, action.replace("*", "X"), resource, **context), call

    def test_the_managed_policy_of_nodes_is_there(self, world: World) -> None:
        for role in world.node_roles:
            (arns,) = [
                properties["ManagedPolicyArns"]
                for key, properties in world.resolved("AWS::IAM::Role")
                if role.endswith(key.replace("/", "-"))
            ]
            assert any(arn.endswith(":policy/AmazonSageMakerClusterInstanceRolePolicy") for arn in arns)


class TestClosedNetworkKeepsData:
    @pytest.mark.parametrize("name", ["prod", "closed"])
    def test_no_bucket_of_a_stranger(self, name: str, worlds: dict[str, World]) -> None:
        world = worlds[name]
        ours = world.plan.settings.account
        for action in ("s3:PutObject", "s3:GetObject"):
            theirs = {"PrincipalAccount": ours, "ResourceAccount": "999999999999"}
            assert not world.lets_through("s3", action, "arn:aws:s3:::loot/x", **theirs)
            stolen = {"PrincipalAccount": "999999999999", "ResourceAccount": ours}
            assert not world.lets_through("s3", action, "arn:aws:s3:::ours/x", **stolen)
            assert world.lets_through("s3", action, "arn:aws:s3:::ours/x", **world.ours)
        assert not world.lets_through("s3", "s3:PutObject", "arn:aws:s3:::prod-us-west-2-starport-layer-bucket/x")

    @pytest.mark.parametrize(
        "service", ["ec2", "ecr.api", "ecr.dkr", "eks", "eks-auth", "fsx", "lambda", "logs", "monitoring"]
    )
    def test_no_credentials_of_a_stranger(self, service: str, worlds: dict[str, World]) -> None:
        world = worlds["prod"]
        for call in needs.calls(world.plan):
            if call.endpoint == service:
                for action in call.actions:
                    assert not world.lets_through(service, action, "*", PrincipalAccount="999999999999"), action

    def test_no_role_of_a_stranger(self, worlds: dict[str, World]) -> None:
        foreign = "arn:aws:iam::999999999999:role/any"
        assert not worlds["prod"].lets_through("sts", "sts:AssumeRole", foreign, **worlds["prod"].ours)

    def test_what_ray_may_use_is_let_through(self, worlds: dict[str, World]) -> None:
        world = worlds["closed"]
        theirs = {"PrincipalAccount": world.plan.settings.account, "ResourceAccount": "999999999999"}
        data = "arn:aws:s3:::data-of-another-account"
        assert world.lets_through("s3", "s3:GetObject", f"{data}/corpus/1", **theirs)
        assert world.lets_through("s3", "s3:ListBucket", data, **theirs)
        assert not world.lets_through("s3", "s3:GetObject", f"{data}/other/1", **theirs)
        assert not world.lets_through("s3", "s3:PutObject", f"{data}/corpus/1", **theirs)
        assert world.lets_through("s3", "s3:PutObject", "arn:aws:s3:::runs-of-ours/1", **theirs)


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
