"""Names that follow from an environment's settings; the fixed ones are in `hyperpod_ray.core.names`."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from hyperpod_ray.core import names, needs
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.plan import Plan


def stacks(plan: CommonPlan) -> list[str]:
    """The stacks that a deploy of this environment creates, as `names` has them, in that order.

    The one place that says which stacks an orchestrator has.
    """
    absent = set()
    if plan.stack_file_system is None:
        absent.add(names.STORAGE_STACK)
    if plan.built_image is None:
        absent.add(names.IMAGE_STACK)
    absent |= plan.absent_stacks
    if not needs.copies(plan):
        absent.add(names.MIRROR_STACK)
    return [stack for stack in names.STACKS if stack not in absent]


def stack_names(plan: CommonPlan) -> list[str]:
    """Names of those stacks in CloudFormation."""
    return [names.stack_name(plan.name, stack) for stack in stacks(plan)]


@dataclass(frozen=True, kw_only=True)
class LogGroup:
    """A log group with a fixed name. Destroy keeps it where the environment is protected; a deploy can take it up."""

    name: str
    stack: str
    """The stack that creates it, as `names` has it."""
    section: str
    setting: str
    """Setting of the section that takes up a group which exists."""
    retention: str
    """Setting of the section that only a new group has."""
    exists: bool


def log_groups(plan: CommonPlan) -> Iterator[LogGroup]:
    """The log groups that a deploy of this environment creates under a fixed name, or takes up."""
    settings, network = plan.settings, plan.new_network
    if network is not None and plan.fixed_log_groups:
        yield LogGroup(
            name=names.flow_log_group(plan.name),
            stack=names.NETWORK_STACK,
            section="network",
            setting="flow_log_group_exists",
            retention="flow_log_retention_days",
            exists=network.flow_log_group_exists,
        )
    if (eks := plan.new_eks) is not None:
        yield LogGroup(
            name=names.control_plane_log_group(plan.eks_cluster_name),
            stack=names.NETWORK_STACK,
            section="eks",
            setting="log_group_exists",
            retention="log_retention_days",
            exists=eks.log_group_exists,
        )
    if not plan.fixed_log_groups:
        return
    yield LogGroup(
        name=names.event_log_group(plan.name),
        stack=plan.event_stack,
        section="hyperpod",
        setting="event_log_group_exists",
        retention="event_retention_days",
        exists=settings.hyperpod.event_log_group_exists,
    )


def storage_class(plan: Plan) -> str:
    """The StorageClass of storage mode `dynamic`."""
    return names.storage_class(plan.settings.hyperpod.cluster_name)


def store_class(plan: Plan) -> str:
    """The StorageClass of the volumes that keep a head's state."""
    return names.store_class(plan.settings.hyperpod.cluster_name)


def volume(plan: Plan) -> str:
    """The PersistentVolume of storage modes `static` and `existing`."""
    return names.volume(plan.settings.hyperpod.cluster_name, plan.settings.ray.namespace)


def owner_volume(plan: Plan) -> str:
    """The volume-owner Job's own PersistentVolume of the same file system."""
    return names.volume(plan.settings.hyperpod.cluster_name, names.STORAGE_NAMESPACE)


def own_namespaces(plan: Plan) -> list[str]:
    """Namespaces of RayClusters that the stacks create before the first node: all but the teams'."""
    namespace = plan.settings.ray.namespace
    user_namespaces = {name for user in plan.settings.eks.ray_users for name in user.namespaces} - {namespace}
    return [namespace, *sorted(user_namespaces - set(team_namespaces(plan)))]


def team_namespaces(plan: Plan) -> list[str]:
    """Namespaces that HyperPod task governance creates, in the order of the file."""
    return [names.team_namespace(team.name) for team in plan.settings.teams]


@functools.singledispatch
def ray_namespaces(plan: CommonPlan) -> list[str]:
    """Namespaces that may hold RayClusters: the environment's own first, those of its Ray users, those of teams."""
    return []


@ray_namespaces.register
def _on_kubernetes(plan: Plan) -> list[str]:
    return [*own_namespaces(plan), *team_namespaces(plan)]


def ray_users(plan: Plan) -> dict[str, list[str]]:
    """Role ARN of each Ray user to their namespaces: those of `eks.ray_users`, and of the teams they are in."""
    users: dict[str, list[str]] = {user.role_arn: list(user.namespaces) for user in plan.settings.eks.ray_users}
    for team in plan.settings.teams:
        for role in team.role_arns:
            spaces = users.setdefault(role, [])
            if (space := names.team_namespace(team.name)) not in spaces:
                spaces.append(space)
    return users


def user_groups(plan: Plan) -> dict[str, list[str]]:
    """Role ARN to `KubernetesGroups` of its EKS access entry: EKS's own policies know no `ray.io` kinds."""
    return {role: [names.users_group(space) for space in spaces] for role, spaces in ray_users(plan).items()}
