"""An environment: all sections of one file."""

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from hyperpod_ray.core.model.eks import Eks, NewEks
from hyperpod_ray.core.model.hyperpod import ClusterSettings, HyperPod
from hyperpod_ray.core.model.image import BuiltImage, ExistingImage, Image, Registries
from hyperpod_ray.core.model.network import Network, NetworkZones
from hyperpod_ray.core.model.operation import Budget, Helm, InstanceTypeSpec, ManagedMetrics
from hyperpod_ray.core.model.ray import Ray
from hyperpod_ray.core.model.storage import DynamicStorage, ElasticStorage, ExistingStorage, StaticStorage, Storage
from hyperpod_ray.core.model.teams import TaskGovernance, Team
from hyperpod_ray.core.model.training import Training
from hyperpod_ray.core.model.words import AccountId, InstanceTypeName, Region, SemanticVersion, Settings


class CommonEnvironment(Settings):
    """What an environment has under every orchestrator."""

    installs_charts: ClassVar[bool] = False
    """Whether a deployment installs Helm charts."""
    orchestrator: str
    """What runs the nodes' work."""
    written_for: SemanticVersion | None = None
    """Version of this product that the file is written for. An older version refuses the file, and `env upgrade` begins
    at it. `env new` and `env upgrade` write it. Default: not said."""
    account: AccountId
    """The AWS account, quoted."""
    region: Region
    """The AWS region."""
    tags: Annotated[dict[str, str], Field(max_length=40)] = {}
    """Tags of every resource, on top of `hyperpod-ray:environment`."""
    protected: bool = False
    """Termination protection on the stacks and deletion protection on a new EKS cluster. A teardown needs a typed
    confirmation, and data and images are retained."""
    log_group_names: Literal["fixed", "generated"] = "fixed"
    """Names of the log groups of VPC flow logs and of archived events. `fixed`: `/aws/vpc/ray-on-hyperpod/NAME` and
    `/aws/events/ray-on-hyperpod/NAME`, which a later deploy takes up again. `generated`: CloudFormation names them, as
    version 0.2.0 did. A change replaces both groups."""
    network: NetworkZones
    """The VPC."""
    hyperpod: ClusterSettings
    """The HyperPod cluster."""
    storage: StaticStorage | ElasticStorage | DynamicStorage | ExistingStorage = StaticStorage.defaults()
    """The shared file system."""
    image: BuiltImage | ExistingImage | None = None
    """The container image."""
    budget: Budget | None = None
    """A monthly budget with mails. Default: none."""
    instance_types: dict[InstanceTypeName, InstanceTypeSpec] = {}
    """Figures of types that `hyperpod_ray_rules/data/instance_types.yaml` does not hold."""


class Environment(CommonEnvironment):
    """One environment: one file, one CDK Stage named like the file."""

    installs_charts: ClassVar[bool] = True
    orchestrator: Literal["eks"] = "eks"
    """What runs the nodes' work: `eks` for Ray by KubeRay, `slurm` for jobs by `sbatch`. An environment is either of
    the two, and cannot become the other."""
    network: Network
    """The VPC."""
    eks: Eks = NewEks.defaults()
    """The EKS cluster."""
    hyperpod: HyperPod
    """The HyperPod cluster."""
    storage: Storage = StaticStorage.defaults()
    """The shared file system."""
    image: Image = BuiltImage.defaults()
    """The container image."""
    registries: Registries = Registries.defaults()
    """Container registries."""
    ray: Ray
    """The RayCluster."""
    teams: Annotated[list[Team], Field(max_length=50)] = []
    """Teams that share the cluster by HyperPod task governance. Default: none, and no queue; jobs share the RayCluster,
    or wait for free nodes."""
    task_governance: TaskGovernance | None = None
    """How the teams share. Default: fair, with no priorities."""
    training: Training | None = None
    """What is trained. Default: not said; the command `plan` then needs it as options."""
    observability: ManagedMetrics | None = None
    """Metrics, and alerts on them. Default: no add-on. Alarms on AWS's own metrics and events do not need it."""
    helm: Helm = Helm.defaults()
    """Chart versions."""


NAME = re.compile(r"^(?=.{1,21}$)[a-z][a-z0-9]*(-[a-z0-9]+)*$")
"""Name of an environment (the file's stem): it becomes part of stack names and of an ECR repository's name."""
