"""What an environment consists of now, and what becomes of each part when it is taken down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hyperpod_ray.core import names, plan_names
from hyperpod_ray.core.evidence import absent, code
from hyperpod_ray.ops import orchestrators
from hyperpod_ray.ops.errors import OpsError, explain
from hyperpod_ray.ops.observe import account
from hyperpod_ray.ops.observe.snapshot import Claim, FileSystem, RayCluster, Stack
from hyperpod_ray.ops.orchestrators.interface import Inside
from hyperpod_ray.ops.reach.clients import AnyTarget, Json

LATE_LOGS = "late log group"
"""A log group that a service created again after its stack went; nobody owns it, and the next deploy would meet it."""
Fate = Literal["destroyed", "kept", "blocks"]


@dataclass(frozen=True, kw_only=True)
class Item:
    """One thing, and what happens to it. `blocks`: it hinders the destroy until `note` is done."""

    kind: str
    id: str
    fate: Fate
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """Everything that was found, and what could not be looked at."""

    stacks: tuple[Stack, ...]
    ray_clusters: tuple[RayCluster, ...]
    jobs: tuple[str, ...]
    claims: tuple[Claim, ...]
    file_systems: tuple[FileSystem, ...]
    items: tuple[Item, ...]
    unseen: tuple[str, ...]
    kubernetes: bool
    """The EKS cluster exists and answers."""

    @property
    def empty(self) -> bool:
        """Nothing is left but what is meant to be kept."""
        return not any(resource.fate != "kept" for resource in self.items)


@dataclass(frozen=True, kw_only=True)
class Volume:
    """An EBS volume that the driver created for a claim: a Ray head's state."""

    id: str
    state: str
    """As EC2 has it: `available` is attached to no node."""
    gib: int


def volumes(target: AnyTarget) -> tuple[Volume, ...]:
    """EBS volumes of the environment's claims."""
    filters = [
        {"Name": f"tag:{names.ENVIRONMENT_TAG}", "Values": [target.name]},
        {"Name": "tag-key", "Values": [names.CLAIM_TAG]},
    ]
    return tuple(
        Volume(id=volume["VolumeId"], state=volume["State"], gib=volume["Size"])
        for volume in target.aws.pages("ec2", "describe_volumes", "Volumes", Filters=filters)
    )


def take(target: AnyTarget) -> Inventory:
    """Look at everything: stacks, Ray, claims, file systems, and what nobody owns."""
    target.aws.require_account()
    unseen: list[str] = []
    stacks = account.stacks(target, unseen=unseen)
    file_systems = account.file_systems(target)
    inside: Inside | None = None
    try:
        inside = orchestrators.of(target).workloads.inside()
    except Exception as error:
        explained = explain(error, environment=target.name)
        if explained is None:
            raise
        unseen.append(f"Kubernetes: {explained.message}")
    held = inside or Inside()
    items = [
        *(_stack_item(stack) for stack in stacks if stack.status),
        *(
            Item(
                kind="RayCluster",
                id=f"{ray.namespace}/{ray.name}",
                fate="destroyed",
                note="deleted first, so that it lets go of its volume",
            )
            for ray in held.ray_clusters
        ),
        *(Item(kind="RayJob", id=job, fate="destroyed", note="deleted first") for job in held.jobs),
        *(_claim_item(target, claim) for claim in held.claims),
        *(_file_system_item(target, file_system) for file_system in file_systems),
        *(
            Item(
                kind="EBS volume",
                id=volume.id,
                fate="blocks",
                note=f"{volume.gib} GiB with a head's state: deleted and waited for, before its driver goes",
            )
            for volume in volumes(target)
        ),
        *_load_balancers(held),
        *_left_by_services(target, stacks, unseen),
    ]
    return Inventory(
        stacks=stacks,
        ray_clusters=held.ray_clusters,
        jobs=held.jobs,
        claims=held.claims,
        file_systems=file_systems,
        items=tuple(items),
        unseen=tuple(unseen),
        kubernetes=inside is not None,
    )


def _load_balancers(inside: Inside) -> list[Item]:
    """Services of type LoadBalancer: what they created is known to no stack and holds the VPC."""
    return [
        Item(
            kind="load balancer",
            id=service,
            fate="blocks",
            note=f"kubectl -n {service.partition('/')[0]} delete service {service.partition('/')[2]}",
        )
        for service in inside.balancers
    ]


def _stack_item(stack: Stack) -> Item:
    return Item(
        kind="stack", id=stack.name, fate="destroyed", note=stack.status + (", protected" if stack.protected else "")
    )


def deletes_data(target: AnyTarget, *, homes: bool = False) -> bool:
    """Whether the file says that the shared file system, or that of home folders, goes with the environment."""
    storage = target.plan.new_homes if homes else target.plan.new_file_system
    return storage is not None and storage.on_destroy == "delete"


def _claim_item(target: AnyTarget, claim: Claim) -> Item:
    if claim.name.endswith(names.STORE_CLAIM_SUFFIX):
        note = "a head's state: its volume goes with it"
        return Item(kind="claim", id=f"{claim.namespace}/{claim.name}", fate="destroyed", note=note)
    if orchestrators.of(target).workloads.created_for(claim):
        note = "its file system goes with it" if deletes_data(target) else "its file system stays"
        return Item(kind="claim", id=f"{claim.namespace}/{claim.name}", fate="destroyed", note=note)
    return Item(
        kind="claim", id=f"{claim.namespace}/{claim.name}", fate="destroyed", note="its volume's data is not touched"
    )


def _file_system_item(target: AnyTarget, file_system: FileSystem) -> Item:
    existing = target.plan.existing_file_system
    if file_system.id in (existing.file_system_id if existing else None, target.plan.existing_homes):
        return Item(kind="file system", id=file_system.id, fate="kept", note="yours: not created by this environment")
    if not deletes_data(target, homes=file_system.homes):
        setting = "homes.on_destroy" if file_system.homes else "storage.on_destroy"
        return Item(
            kind="file system",
            id=file_system.id,
            fate="kept",
            note=f"{setting}: retain; "
            + ("its throughput and data" if file_system.elastic else f"{file_system.capacity_gib} GiB")
            + " still cost money",
        )
    if file_system.made_by_claim:
        return Item(
            kind="file system",
            id=file_system.id,
            fate="blocks",
            note="created by a claim: deleted and waited for, before its driver goes",
        )
    return Item(
        kind="file system",
        id=file_system.id,
        fate="destroyed",
        note=f"{file_system.size}, {file_system.lifecycle}; "
        + ("home folders are lost, but for a last backup, which costs" if file_system.homes else "the data is lost"),
    )


def _left_by_services(target: AnyTarget, stacks: tuple[Stack, ...], unseen: list[str]) -> list[Item]:
    """What services created on their own behalf: log groups, images, and what holds the VPC."""
    leftovers: list[Item] = []
    for look in (_log_groups, _images, _workspaces, _mlflow_apps, _in_the_vpc):
        try:
            leftovers += look(target, stacks)
        except Exception as error:
            explained = explain(error, environment=target.name)
            if explained is None:
                raise
            unseen.append(explained.message)
    return leftovers


def _log_groups(target: AnyTarget, stacks: tuple[Stack, ...]) -> list[Item]:
    """Groups that no stack owns: HyperPod's, and what EKS and CodeBuild created again after their stacks went."""
    cluster = target.plan.settings.hyperpod.cluster_name
    note = "created by the service, no stack owns it; --delete-logs deletes it"
    log_groups = [
        Item(kind="log group", id=name, fate="kept", note=note)
        for name in _group_names(target, names.cluster_log_groups(cluster))
    ]
    for group in plan_names.log_groups(target.plan):
        # EKS makes its group again after its own stack went, while the network's is still there
        by_eks = group.section == "eks"
        if _there(stacks, names.EKS_STACK if by_eks else group.stack) or group.name not in _group_names(
            target, group.name
        ):
            continue
        setting = f"{group.section}.{group.setting}"
        if group.exists:
            log_groups.append(Item(kind="log group", id=group.name, fate="kept", note=f"{setting}: no stack owns it"))
        elif by_eks:
            log_groups.append(_late_group(target, group.name, "EKS"))
        else:
            note = f"kept with a protected environment; {setting} takes it up, --delete-logs deletes it"
            log_groups.append(Item(kind="log group", id=group.name, fate="kept", note=note))
    if not _there(stacks, names.IMAGE_STACK):
        # CodeBuild calls its group like the project, which CloudFormation calls like the stack
        prefix = f"/aws/codebuild/{names.stack_name(target.name, names.IMAGE_STACK)}"
        log_groups += [_late_group(target, name, "CodeBuild") for name in _group_names(target, prefix)]
    return log_groups


def _late_group(target: AnyTarget, name: str, service: str) -> Item:
    if target.plan.settings.protected:
        note = f"kept with a protected environment, or created again by {service}; --delete-logs deletes it"
        return Item(kind="log group", id=name, fate="kept", note=note)
    return Item(kind=LATE_LOGS, id=name, fate="destroyed", note=f"created again by {service} after its stack went")


def _there(stacks: tuple[Stack, ...], name: str) -> bool:
    return any(stack.status for stack in stacks if stack.name.endswith(f"-{name}"))


def _group_names(target: AnyTarget, prefix: str) -> list[str]:
    groups = target.aws.pages("logs", "describe_log_groups", "logGroups", logGroupNamePrefix=prefix)
    return [str(log_group["logGroupName"]) for log_group in groups]


def _images(target: AnyTarget, stacks: tuple[Stack, ...]) -> list[Item]:
    del stacks
    settings = target.plan.built_image
    if settings is None:
        return []
    try:
        images = target.aws.pages("ecr", "list_images", "imageIds", repositoryName=target.plan.image_repository)
    except Exception as error:
        if absent(error):
            return []
        raise
    fate: Fate = "kept" if settings.repository_exists or settings.on_destroy == "retain" else "destroyed"
    return [Item(kind="repository", id=target.plan.image_repository, fate=fate, note=f"{len(images)} images")]


def _workspaces(target: AnyTarget, stacks: tuple[Stack, ...]) -> list[Item]:
    """Prometheus workspaces that a destroy keeps, also those of earlier ones: each deploy makes a new one."""
    settings = target.plan.observability
    if settings is None or settings.on_destroy != "retain":
        return []
    owned = _there(stacks, names.PLATFORM_STACK)
    # the service takes an alias for the beginning of one
    workspaces = target.aws.pages("amp", "list_workspaces", "workspaces", alias=target.name)
    note = "observability.on_destroy: retain" if owned else "no stack owns it: aws amp delete-workspace --workspace-id "
    return [
        Item(
            kind="Prometheus workspace",
            id=str(workspace["workspaceId"]),
            fate="kept",
            note=note if owned else f"{note}{workspace['workspaceId']}",
        )
        for workspace in workspaces
        if workspace.get("alias") == target.name
    ]


def _mlflow_apps(target: AnyTarget, stacks: tuple[Stack, ...]) -> list[Item]:
    """MLflow apps of the environment's name that a destroy keeps; their names are not unique."""
    app = target.plan.mlflow_app
    if app is None or app.on_destroy != "retain":
        return []
    owned = _there(stacks, names.RAY_STACK)
    kept = "ray.tracking.mlflow_app.on_destroy: retain"
    apps = target.aws.pages("sagemaker", "list_mlflow_apps", "Summaries")
    return [
        Item(
            kind="MLflow app",
            id=str(application["Arn"]),
            fate="kept",
            note=kept if owned else f"no stack owns it: aws sagemaker delete-mlflow-app --arn {application['Arn']}",
        )
        for application in apps
        if application.get("Name") == target.plan.settings.hyperpod.cluster_name
    ]


def _vpcs(target: AnyTarget) -> list[str]:
    """VPCs that the environment's network stack created: more than one after a destroy that kept a file system."""
    tagged = [{"Name": f"tag:{names.ENVIRONMENT_TAG}", "Values": [target.name]}]
    return [str(vpc["VpcId"]) for vpc in target.aws.pages("ec2", "describe_vpcs", "Vpcs", Filters=tagged)]


def _in_the_vpc(target: AnyTarget, stacks: tuple[Stack, ...]) -> list[Item]:
    """Interfaces, endpoints and groups in the VPC that no stack owns: its deletion would fail."""
    if target.plan.existing_vpc is not None:
        return []
    kept = _interfaces_that_stay(target)
    leftovers = []
    for vpc in _vpcs(target):
        vpc_filter = [{"Name": "vpc-id", "Values": [vpc]}]
        interfaces = target.aws.pages("ec2", "describe_network_interfaces", "NetworkInterfaces", Filters=vpc_filter)
        leftovers += [*_of_guardduty(target, vpc_filter), *_nobodys(interfaces, stacks, kept=kept)]
        if any(interface["NetworkInterfaceId"] in kept for interface in interfaces):
            note = "with a subnet and a security group, for the file system that is kept; costs nothing by itself"
            leftovers.append(Item(kind="VPC", id=vpc, fate="kept", note=note))
    return leftovers


def _interfaces_that_stay(target: AnyTarget) -> set[str]:
    """Network interfaces of the file systems that destroy keeps."""
    if not target.plan.network_outlives_destroy:
        return set()
    return {interface for file_system in account.file_systems(target) for interface in file_system.interfaces}


def _of_guardduty(target: AnyTarget, vpc_filter: list[Json]) -> list[Item]:
    blockers = []
    for endpoint in target.aws.pages("ec2", "describe_vpc_endpoints", "VpcEndpoints", Filters=vpc_filter):
        if "guardduty" in endpoint.get("ServiceName", "") and not _tag(endpoint):
            note = f"created by GuardDuty: aws ec2 delete-vpc-endpoints --vpc-endpoint-ids {endpoint['VpcEndpointId']}"
            blockers.append(Item(kind="VPC endpoint", id=endpoint["VpcEndpointId"], fate="blocks", note=note))
    for group in target.aws.pages("ec2", "describe_security_groups", "SecurityGroups", Filters=vpc_filter):
        if "guardduty" in group["GroupName"].lower() and not _tag(group):
            note = f"created by GuardDuty: aws ec2 delete-security-group --group-id {group['GroupId']}"
            blockers.append(Item(kind="security group", id=group["GroupId"], fate="blocks", note=note))
    return blockers


def _nobodys(interfaces: list[Json], stacks: tuple[Stack, ...], *, kept: set[str]) -> list[Item]:
    if _there(stacks, names.HYPERPOD_STACK):
        return []  # its nodes' interfaces go with it
    blockers = []
    for interface in interfaces:
        orphaned = interface.get("Status") == "available" or "fsx" in interface.get("Description", "").lower()
        if orphaned and interface["NetworkInterfaceId"] not in kept:
            note = interface.get("Description", "") or "nobody's"
            blockers.append(
                Item(kind="network interface", id=interface["NetworkInterfaceId"], fate="blocks", note=note)
            )
    return blockers


def _tag(resource: Json) -> str:
    return str(
        {tag["Key"]: tag.get("Value", "") for tag in resource.get("Tags", [])}.get("aws:cloudformation:stack-name", "")
    )


def delete_logs(target: AnyTarget, inventory: Inventory, *, item_kind: str = "log group") -> list[str]:
    """Delete the services' log groups; returns their names."""
    gone = []
    for resource in inventory.items:
        if resource.kind == item_kind:
            try:
                target.aws.call("logs", "delete_log_group", logGroupName=resource.id)
            except Exception as error:
                if code(error) != "ResourceNotFoundException":
                    raise
            gone.append(resource.id)
    return gone


def refuse_unseen(inventory: Inventory, *, environment: str) -> None:
    """Without Kubernetes claims cannot be deleted, and a destroy would orphan their file systems."""
    unseen = [text for text in inventory.unseen if text.startswith("Kubernetes")]
    if unseen:
        raise OpsError(
            f"the EKS cluster does not answer: {unseen[0].removeprefix('Kubernetes: ')}",
            expected="an answer: without one the claims' file systems would be orphaned",
            fix=f"restore access, then hyperpod-ray teardown {environment}",
        )
