"""Names that follow from an environment's settings; the fixed ones are in `core.names`."""

from __future__ import annotations

from core import names, needs
from core.model import DynamicStorage, RayUser, StaticStorage
from core.plan import Plan


def stack_names(plan: Plan) -> list[str]:
    """Names of the stacks that a deploy of this environment creates, in that order."""
    absent = set()
    if not isinstance(plan.settings.storage, StaticStorage):
        absent.add(names.STORAGE_STACK)
    if plan.built_image is None:
        absent.add(names.IMAGE_STACK)
    if not needs.copies(plan):
        absent.add(names.MIRROR_STACK)
    return [names.stack_name(plan.name, stack) for stack in names.STACKS if stack not in absent]


def storage_class(plan: Plan) -> str:
    """The StorageClass of storage mode `dynamic`."""
    return names.storage_class(plan.settings.hyperpod.cluster_name)


def volume(plan: Plan) -> str:
    """The PersistentVolume of storage modes `static` and `existing`."""
    return names.volume(plan.settings.hyperpod.cluster_name, plan.settings.ray.namespace)


def owner_volume(plan: Plan) -> str:
    """The volume-owner Job's own PersistentVolume of the same file system (modes `static` and `existing`)."""
    return names.volume(plan.settings.hyperpod.cluster_name, names.STORAGE_NAMESPACE)


def owner_namespace(plan: Plan) -> str:
    """Where the volume-owner Job runs. A claim mounts in its own namespace only, and mode `dynamic` has just one."""
    dynamic = isinstance(plan.settings.storage, DynamicStorage)
    return plan.settings.ray.namespace if dynamic else names.STORAGE_NAMESPACE


def ray_namespaces(plan: Plan) -> list[str]:
    """Namespaces that may hold RayClusters: the environment's own first, then those of its Ray users."""
    own = plan.settings.ray.namespace
    others = {name for user in plan.settings.eks.ray_users for name in user.namespaces} - {own}
    return [own, *sorted(others)]


def user_groups(user: RayUser) -> list[str]:
    """`KubernetesGroups` of a Ray user's EKS access entry: EKS's own policies know no `ray.io` kinds."""
    return [names.users_group(namespace) for namespace in user.namespaces]
