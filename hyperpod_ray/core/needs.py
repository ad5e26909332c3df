"""What each workload of an environment needs: images, AWS calls, destinations. One model, several uses.

From it follow the image permissions of the nodes' role, the copies of a mirror, the endpoints of a closed network with
their policies, the egress of network policies and security groups, and the checks that refuse what cannot be reached.
Images come from the environment file, from the record of the locked charts (`charts.contents.yaml`) and from
`hyperpod_ray/core/catalogue/needs.yaml`, which has everybody's AWS calls, and
`hyperpod_ray_rules/data/eks_images.yaml`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from hyperpod_ray.core import names
from hyperpod_ray.core import project as places
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.image_sets import default_image, missing_installer
from hyperpod_ray.core.images import ChartImage, Reference, chart_images, read_lock
from hyperpod_ray.core.model import DynamicStorage
from hyperpod_ray.core.names import CHARTS
from hyperpod_ray.core.plan import Plan, read_data
from hyperpod_ray.core.service_limits import partition_of
from hyperpod_ray.core.slurm_plan import SlurmPlan
from hyperpod_ray_rules import data as rules_data

"""Keys of the locked charts that a deploy installs."""
PIN = "hyperpod-ray image pin"
"""The commands that record digests."""
IMAGE_LOCK = "images.lock.yaml"
"""Digests of the images that a mirror copies and, in a user's project, of the base that the image is built from."""
Way = Literal["same region", "other region", "internet"]


@functools.cache
def catalogue() -> Mapping[str, Any]:
    """`core/catalogue/needs.yaml`, and the images that EKS brings (`eks_images.yaml` of the rules)."""
    data: Mapping[str, Any] = {**rules_data.read("eks_images.yaml"), **read_data("needs.yaml")}
    return data


# --- images ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ImageNeed:
    """An image that some pod of the environment runs."""

    workload: str
    """Whose it is, for messages."""
    source: Reference
    """What the workload's author names."""
    pulled: Reference
    """What the nodes pull: the source, its regional twin, or its copy in the mirror."""
    chart: str = ""
    """Key of the locked chart that brings it; empty: an add-on or this project's own manifests."""
    levers: Mapping[str, str] | None = None
    """Values of the chart that change it. None: no chart decides it."""
    setting: tuple[str, ...] = ()
    """Path of the setting that names it, where one does."""

    @property
    def movable(self) -> bool:
        """Whether the workload can be pointed at a copy."""
        return (self.levers is None and bool(self.setting)) or bool(self.levers)

    def values(self) -> dict[str, str]:
        """Chart values (by path) that point the workload at what is pulled; none where that is what it names."""
        if str(self.pulled) == str(self.source) or not self.levers:
            return {}
        pulled = self.pulled
        tag = pulled.tag + (f"@{pulled.digest}" if pulled.digest else "")
        if "image" in self.levers:
            return {self.levers["image"]: str(pulled)}
        overrides = {self.levers["repository"]: pulled.name}
        return overrides | ({self.levers["tag"]: tag} if "tag" in self.levers else {})


@dataclass(frozen=True, kw_only=True)
class Copy:
    """An image that the mirror holds."""

    source: Reference
    """Upstream, with its digest where that is known."""
    repository: str
    """Repository in this account's registry."""
    tag: str
    """Tag in it: the upstream tag and the digest's first characters, so that it never means anything else."""


def enabled(plan: Plan, component: str) -> bool:
    """Whether a component of the HyperPod chart runs in this environment: device plugins follow the instance types."""
    names_of_types = [name for group in plan.settings.hyperpod.instance_groups for name in group.types]
    specs = [plan.type_spec(name) for name in names_of_types if plan.known(name)]
    return {
        "nvidia-device-plugin": any(spec.accelerator == "nvidia" for spec in specs),
        "neuron-device-plugin": any(spec.accelerator == "neuron" for spec in specs),
        "aws-efa-k8s-device-plugin": any(spec.efa for spec in specs),
    }.get(component, True)


def images(plan: Plan) -> list[ImageNeed]:
    """Every image that a pod of the environment runs, but the one that the Image stack builds."""
    settings = plan.settings
    needed: list[ImageNeed] = []
    for chart in CHARTS:
        for image in chart_images(settings.helm.lock_file, chart, project=plan.project):
            # a region that a chart does not know is refused by a check, or has no cluster
            if enabled(plan, image.component) and (source := image.at(settings.region)) is not None:
                needed.append(_of_chart(plan, chart, image, source))
    region = settings.region
    registry = f"{eks_registry(region).replace('*', '0' * 12)}.dkr.ecr.{region}.{_suffix(region)}"
    absent = {names.EBS_CSI_ADDON} if plan.head_volume_gib is None else set()
    for addon, repositories in {**catalogue()["addons"], "every pod": catalogue()["node_images"]}.items():
        if addon in absent:
            continue
        for repository in repositories:
            reference = Reference(registry=registry, repository=repository)
            needed.append(ImageNeed(workload=f"add-on {addon}", source=reference, pulled=reference))
    tolerance = settings.ray.gcs_fault_tolerance
    if tolerance and tolerance.redis_image and not tolerance.redis_address:
        needed.append(_own(plan, "Redis", tolerance.redis_image, ("ray", "gcs_fault_tolerance", "redis_image")))
    if plan.existing_image:
        needed.append(_own(plan, "Ray", plan.existing_image, ("image", "uri")))
    return needed


def pulled(plan: Plan, reference: str) -> str:
    """What pods pull for an image that the environment file names: itself, or its copy."""
    parsed = Reference.parse(reference)
    target = _pulled(plan, parsed)
    return reference if target == parsed else str(target)


@functools.singledispatch
def copies(plan: CommonPlan) -> list[Copy]:
    """What the mirror holds: each image of another registry that its workload can be pointed away from."""
    return []


@copies.register
def _kubernetes_copies(plan: Plan) -> list[Copy]:
    by_source: dict[str, Copy] = {}
    for need in images(plan):
        if _copied(plan, need.source) and need.movable:
            by_source[str(need.source)] = _copy(plan, need.source)
    return list(by_source.values())


def without_digest(plan: CommonPlan) -> dict[str, str]:
    """Images that a deployment is refused for until `PIN` records their digests, and the file that has them."""
    records = {str(copy.source): IMAGE_LOCK for copy in copies(plan) if not copy.source.digest}
    image = plan.built_image
    built = default_image(image.folder, image.set) if image and not image.base else None
    record = IMAGE_LOCK if plan.project and not places.ships(plan.project) else "hyperpod_ray/image/versions.yaml"
    if built is not None and not built.digest and not base_digest(built.base, plan.project):
        records[built.base] = record
    installer = missing_installer(image.folder) if image is not None else ""
    if installer and not base_digest(installer, plan.project):
        records[installer] = record
    return records


def way(plan: Plan, image: Reference) -> Way:
    """How nodes reach an image's registry."""
    if image.ecr is None:
        return "internet"
    return "same region" if image.ecr[1] == plan.settings.region else "other region"


def repositories(plan: Plan) -> list[str]:
    """ARNs of the ECR repositories that nodes may pull from, without the one that the Image stack makes."""
    settings = plan.settings
    partition = partition_of(settings.region)
    eks = catalogue()["eks_registries"]
    arn = f"arn:{partition}:ecr:{settings.region}"
    arns = [f"{arn}:{eks_registry(settings.region)}:repository/{pattern}" for pattern in eks["patterns"]]
    arns += [f"{arn}:*:repository/{pattern}" for pattern in catalogue()["hyperpod_patterns"]]
    for need in images(plan):
        if need.pulled.ecr and not need.workload.startswith("add-on "):
            account, region = need.pulled.ecr
            arns.append(f"arn:{partition}:ecr:{region}:{account}:repository/{need.pulled.repository}")
    for text in settings.registries.pull_from:
        reference = Reference.parse(text)
        assert reference.ecr is not None  # noqa: S101 (the setting's pattern)
        arns.append(f"arn:{partition}:ecr:{reference.ecr[1]}:{reference.ecr[0]}:repository/{reference.repository}")
    if settings.observability is not None or settings.teams:
        # AWS does not publish the registry and the repositories of these add-ons' images
        arns.append(f"{arn}:*:repository/*")
    return sorted({*arns, *cache_repositories(plan)})


def slurm_repositories(plan: CommonPlan) -> list[str]:
    """ARN of the ECR repository of an image that exists; none where it is of another registry, or built."""
    reference = Reference.parse(plan.existing_image) if plan.existing_image else None
    if reference is None or reference.ecr is None:
        return []
    account, region = reference.ecr
    return [f"arn:{partition_of(region)}:ecr:{region}:{account}:repository/{reference.repository}"]


def cache_repositories(plan: Plan) -> list[str]:
    """ARNs of the repositories of pull-through caches."""
    settings = plan.settings
    arn = f"arn:{partition_of(settings.region)}:ecr:{settings.region}:{settings.account}:repository"
    return [f"{arn}/{prefix}/*" for prefix in settings.registries.pull_through_caches]


def eks_registry(region: str) -> str:
    """Account of the EKS add-ons' registry in a region; `*` where AWS's table does not list the region."""
    data = catalogue()["eks_registries"]
    return str(data["default"] if region in data["default_regions"] else data["others"].get(region, "*"))


def _of_chart(plan: Plan, chart: str, image: ChartImage, source: Reference) -> ImageNeed:
    need = ImageNeed(
        workload=image.component or chart, source=source, pulled=source, chart=chart, levers=dict(image.levers)
    )
    return replace(need, pulled=_pulled(plan, source)) if need.movable else need


def _own(plan: Plan, workload: str, text: str, setting: tuple[str, ...]) -> ImageNeed:
    source = Reference.parse(text)
    return ImageNeed(workload=workload, source=source, pulled=_pulled(plan, source), setting=setting)


def _pulled(plan: Plan, source: Reference) -> Reference:
    region = plan.settings.region
    if twin := _regional_twin(source, region):
        return twin
    if not _copied(plan, source):
        return source
    copy = _copy(plan, source)
    registry = f"{plan.settings.account}.dkr.ecr.{region}.{_suffix(region)}"
    return Reference(registry=registry, repository=copy.repository, tag=copy.tag)


def _regional_twin(source: Reference, region: str) -> Reference | None:
    """EKS's images are in a registry of every region; charts name one region's."""
    if source.ecr is None or source.ecr[1] == region or source.ecr[0] != eks_registry(source.ecr[1]):
        return None
    account = eks_registry(region)
    return None if account == "*" else replace(source, registry=f"{account}.dkr.ecr.{region}.{_suffix(region)}")


def _copied(plan: Plan, source: Reference) -> bool:
    return plan.settings.registries.mirror and source.ecr is None


def _copy(plan: Plan, source: Reference) -> Copy:
    pinned = source if source.digest else replace(source, digest=_locked_digest(plan, replace(source, digest="")))
    short = pinned.digest.removeprefix("sha256:")[:12]
    return Copy(
        source=pinned,
        repository=f"{plan.name}/{source.registry.replace(':', '-')}/{source.repository}",
        tag="-".join(part for part in (source.tag, short) if part) or "latest",
    )


def _locked_digest(plan: Plan, reference: Reference) -> str:
    """What the project's lock says, else the one beside the lock of the charts that name the image."""
    charts = places.file(plan.project, plan.settings.helm.lock_file)
    beside = _images_of(charts.with_name(IMAGE_LOCK))
    return str(image_lock(plan.project).get(str(reference)) or beside.get(str(reference)) or "")


def base_digest(base: str, project: Path | None) -> str:
    """The digest that a user's project recorded for the base of an image; empty where it recorded none."""
    return str(image_lock(project).get(base) or "")


def image_lock(project: Path | None = None) -> Mapping[str, str | None]:
    """`images.lock.yaml` of a project: image by tag, then its digest."""
    return _images_of(places.file(project, IMAGE_LOCK))


def _images_of(lock: Path) -> Mapping[str, str | None]:
    images = read_lock(lock).get("images")
    return dict(images) if isinstance(images, dict) else {}


def api_endpoint(plan: Plan, prefix: str) -> str:
    """URL of an AWS API in the environment's region, by the prefix that botocore calls `endpointPrefix`."""
    return f"https://{prefix}.{plan.settings.region}.{_suffix(plan.settings.region)}"


def _suffix(region: str) -> str:
    return "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"


# --- AWS calls -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Call:
    """AWS actions that something of the environment calls from inside the VPC."""

    role: str
    why: str
    endpoint: str
    """VPC endpoint service, without `com.amazonaws.REGION.`."""
    actions: list[str]
    resource: str


def calls(plan: CommonPlan) -> list[Call]:
    """Every AWS call that the catalogue knows of this environment's workloads."""
    return _workload_calls(plan) + _build_calls(plan)


@functools.singledispatch
def _workload_calls(plan: CommonPlan) -> list[Call]:
    """What nodes and pods call: each orchestrator's kind of plan registers its own."""
    raise NotImplementedError


def _build_calls(plan: CommonPlan) -> list[Call]:
    """What an image build calls that runs inside the VPC."""
    image = plan.built_image
    if image is None or not image.in_vpc:
        return []
    rows = list(catalogue()["build_calls"])
    if image.base and Reference.parse(image.base).ecr:
        rows += catalogue()["build_base_calls"]
    if image.index is not None and image.index.codeartifact_arn:
        rows += catalogue()["build_codeartifact_calls"]
    elif image.index is not None and image.index.secret_arn:
        rows += catalogue()["build_secret_calls"]
    return [Call(**row) for row in rows]


def interface_endpoints(plan: CommonPlan) -> int:
    """Interface endpoints that a closed network has in each zone; S3 has a gateway."""
    return len({call.endpoint for call in calls(plan)} - {"s3"})


@_workload_calls.register
def _slurm_calls(plan: SlurmPlan) -> list[Call]:
    rows = list(catalogue()["slurm_calls"])
    if plan.settings.image is not None:
        rows += catalogue()["slurm_image_calls"]
    if plan.uploads_scripts:
        rows += catalogue()["slurm_script_calls"]
    if plan.settings.hyperpod.accounting_database is not None:
        rows += catalogue()["slurm_accounting_calls"]
    return [Call(**row) for row in rows]


@_workload_calls.register
def _eks_calls(plan: Plan) -> list[Call]:
    rows = list(catalogue()["calls"])
    if isinstance(plan.settings.storage, DynamicStorage):
        rows += catalogue()["dynamic_storage_calls"]
    if plan.head_volume_gib is not None:
        rows += catalogue()["head_volume_calls"]
    needed = [Call(**row) for row in rows]
    if (access := plan.settings.ray.access) and access.s3:
        actions = ["s3:GetObject", "s3:ListBucket"]
        actions += ["s3:PutObject"] if any(grant.mode == "write" for grant in access.s3) else []
        needed.append(Call(role="ray", why="ray.access", endpoint="s3", actions=actions, resource="access"))
    if plan.settings.hyperpod.node_guard is not None:
        needed += [Call(**row) for row in catalogue()["node_guard_calls"]]
    if plan.settings.observability is not None:
        needed += [Call(**row) for row in catalogue()["observability_calls"]]
    if plan.tier_bucket_name:
        needed += [Call(**row) for row in catalogue()["tiered_checkpoint_calls"]]
    return needed


# --- destinations ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Destination:
    """A host and port that Ray's pods connect to, besides each other, DNS and AWS over HTTPS."""

    host: str
    port: int
    pods: Literal["ray", "head"]
    """Which pods: all of Ray's, or heads."""
    policy: Literal["redis-clients", "dashboard-charts", "tracking", "checkpoint-memory", "job-agent"]
    """Network policy that opens the way."""
    setting: tuple[str, ...]
    """Path of the setting that names it."""
    headless: bool = False
    """Whether it is a headless Service, whose port is the pods' own."""
    node: bool = False
    """Whether it is an agent on the pod's own node: `host` is then the field of the pod that has the address."""

    @property
    def namespace(self) -> str | None:
        """Namespace of a Kubernetes Service (`NAME.NAMESPACE.svc`); None for a host outside the cluster."""
        labels = self.host.split(".")
        return labels[1] if len(labels) >= 3 and labels[2] == "svc" else None

    @property
    def outside(self) -> bool:
        """Whether it is a host outside the cluster."""
        return self.namespace is None and not self.node


DATABASE_PORT = 3306
"""Port of MySQL and MariaDB, where `accounting_database.port` names no other."""
CHECKPOINT_MEMORY = (f"ai-toolkit-gossip-headless.{names.HYPERPOD_NAMESPACE}.svc.cluster.local", 9200)
"""The memory service of HyperPod's managed tiered checkpointing, as the package `amzn-sagemaker-checkpointing` asks it.
https://docs.aws.amazon.com/sagemaker/latest/dg/managed-tier-checkpointing.html
"""

NODE_ADDRESS = "status.hostIP"
"""Field of a pod with its node's address, for `fieldRef`."""


def destinations(plan: Plan) -> list[Destination]:
    """Where Ray's pods connect to by the environment file."""
    reached: list[Destination] = []
    ray = plan.settings.ray
    if ray.gcs_fault_tolerance and ray.gcs_fault_tolerance.redis_address:
        host, _, number = ray.gcs_fault_tolerance.redis_address.rpartition("/")[2].rpartition(":")
        path = ("ray", "gcs_fault_tolerance", "redis_address")
        reached.append(Destination(host=host, port=int(number), pods="ray", policy="redis-clients", setting=path))
    if ray.observability:
        for key in ("grafana_host", "prometheus_host"):
            if address := _place(getattr(ray.observability, key)):
                path = ("ray", "observability", key)
                reached.append(
                    Destination(host=address[0], port=address[1], pods="head", policy="dashboard-charts", setting=path)
                )
    if ray.tracking and (address := _place(ray.tracking.mlflow)):
        path = ("ray", "tracking", "mlflow")
        reached.append(Destination(host=address[0], port=address[1], pods="ray", policy="tracking", setting=path))
    if plan.settings.hyperpod.tiered_storage is not None:
        host, port = CHECKPOINT_MEMORY
        setting = ("hyperpod", "tiered_storage")
        reached.append(
            Destination(host=host, port=port, pods="ray", policy="checkpoint-memory", setting=setting, headless=True)
        )
    reached.append(
        Destination(
            host=NODE_ADDRESS,
            port=names.JOB_AGENT_PORT,
            pods="ray",
            policy="job-agent",
            setting=("hyperpod", "instance_groups"),
            node=True,
        )
    )
    return reached


def _place(url: str | None) -> tuple[str, int] | None:
    """Host and port of a URL; None where there is none, or where a check refuses it."""
    if url is None:
        return None
    parts = urlsplit(url)
    try:
        return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return None


@functools.singledispatch
def outside_ports(plan: CommonPlan) -> list[int]:
    """TCP ports of destinations outside the cluster, but 443 which is always open."""
    raise NotImplementedError


@outside_ports.register
def _slurm_ports(plan: SlurmPlan) -> list[int]:
    database = plan.settings.hyperpod.accounting_database
    return [] if database is None else [database.port or DATABASE_PORT]


@outside_ports.register
def _eks_ports(plan: Plan) -> list[int]:
    return sorted({destination.port for destination in destinations(plan) if destination.outside} - {443})
