"""What tests of reachability, mirrors and endpoints share: every environment with what its templates let through."""

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
from hyperpod_ray.core.images import ChartImage, chart_images
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


@pytest.fixture(scope="session")
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
