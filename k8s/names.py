"""Names that several manifests, the stacks and the docs must agree on."""

from __future__ import annotations

from core.model import DynamicStorage, RayUser
from core.plan import Plan

OPERATOR_NAMESPACE = "kuberay-operator"
"""Where the KubeRay operator runs; nothing of a user does."""
STORAGE_NAMESPACE = "ray-storage"
"""Where the one Job runs that is root on the file system; nothing of a user does."""
CLAIM = "fsx"
"""The PersistentVolumeClaim in the Ray namespace."""
MOUNT_PATH = "/fsx"
"""Where head and workers see the shared file system."""
SERVICE_ACCOUNT = "ray"
"""Service account of head and workers, without permissions in Kubernetes; EKS Pod Identity or IRSA may be put on it."""
RAY_UID = 1000
"""User `ray` of the Ray images."""
RAY_GID = 100
"""Group `users` of the Ray images."""
CLIENT_LABEL = {"hyperpod-ray/client": "true"}
"""A pod of the Ray namespace with this label may reach the head's Jobs API and nothing else."""
INSTANCE_GROUP_LABEL = "sagemaker.amazonaws.com/instance-group-name"
"""Label that HyperPod puts on every node of a group."""
REDIS = "ray-redis"
"""Deployment and Service of the Redis that keeps the head's state (`ray.gcs_fault_tolerance.redis_image`)."""
REDIS_PORT = 6379


def storage_class(plan: Plan) -> str:
    """Name of the StorageClass of mode `dynamic`; cluster-scoped, hence with the HyperPod cluster's name."""
    return f"{plan.settings.hyperpod.cluster_name.lower()}-fsx"


def volume(plan: Plan) -> str:
    """Name of the PersistentVolume of modes `static` and `existing`; cluster-scoped."""
    return f"{plan.settings.hyperpod.cluster_name.lower()}-{plan.settings.ray.namespace}-fsx"


def owner_volume(plan: Plan) -> str:
    """Name of the volume-owner Job's own PersistentVolume of the same file system (modes `static` and `existing`)."""
    return f"{plan.settings.hyperpod.cluster_name.lower()}-{STORAGE_NAMESPACE}-fsx"


def owner_namespace(plan: Plan) -> str:
    """Where the volume-owner Job runs. A claim mounts in its own namespace only, and mode `dynamic` has just one."""
    dynamic = isinstance(plan.settings.storage, DynamicStorage)
    return plan.settings.ray.namespace if dynamic else STORAGE_NAMESPACE


def ray_namespaces(plan: Plan) -> list[str]:
    """Namespaces that may hold RayClusters: the environment's own first, then those of its Ray users."""
    own = plan.settings.ray.namespace
    others = {name for user in plan.settings.eks.ray_users for name in user.namespaces} - {own}
    return [own, *sorted(others)]


def users_group(namespace: str) -> str:
    """Kubernetes group bound to the Ray user role of a namespace."""
    return f"ray-users:{namespace}"


def user_groups(user: RayUser) -> list[str]:
    """`KubernetesGroups` of a Ray user's EKS access entry: EKS's own policies know no `ray.io` kinds."""
    return [users_group(namespace) for namespace in user.namespaces]
