"""Every name on which two rooms must agree: this project's own here, the services' in `hyperpod_ray_rules.names`.

All of them can be had here. This module imports no other of `core`, so that every room can read it. Names that follow
from an environment's settings are in `hyperpod_ray.core.plan_names`. A test refuses a second copy of a name in the
source.
"""

from __future__ import annotations

from hyperpod_ray_rules.names import *

PROJECT = "ray-on-hyperpod"
"""What this project calls itself: label `part-of`, user agent, annotations."""
PROGRAM = "hyperpod-ray"
"""The console script."""

LEFT_BY_TOOLS = ("__pycache__", "*.pyc", ".DS_Store")
"""Names of what Python and macOS leave in folders. An upload holds none of it, and its hash does not depend on it."""
NO_CONTENT = [f"**/{name}" for name in LEFT_BY_TOOLS]
"""The same as patterns of the CDK's `exclude`."""

# --- tags --------------------------------------------------------------------------------------------------------

OWN_TAGS = "hyperpod-ray:"
"""Prefix of this project's tags; `tags` of an environment file may not use it."""
ENVIRONMENT_TAG = f"{OWN_TAGS}environment"
"""Tag of everything of an environment, also of what the CSI driver creates. Policies and teardown use it."""

# --- stacks, in the order of their creation ----------------------------------------------------------------------

NETWORK_STACK = "Network"
EKS_STACK = "Eks"
STORAGE_STACK = "Storage"
IMAGE_STACK = "Image"
MIRROR_STACK = "Mirror"
HYPERPOD_STACK = "HyperPod"
PLATFORM_STACK = "Platform"
RAY_STACK = "Ray"
STACKS = (
    NETWORK_STACK,
    EKS_STACK,
    STORAGE_STACK,
    IMAGE_STACK,
    MIRROR_STACK,
    HYPERPOD_STACK,
    PLATFORM_STACK,
    RAY_STACK,
)
"""Stacks of an environment; CloudFormation knows them as `NAME-Network` and so on, see `stack_name`."""

# --- namespaces --------------------------------------------------------------------------------------------------

OPERATOR_NAMESPACE = "kuberay-operator"
"""Where the KubeRay operator runs; nothing of a user does."""
STORAGE_NAMESPACE = "ray-storage"
"""Where the one Job runs that is root on the file system; nothing of a user does."""
GUARD = "node-guard"
"""The node guard's Deployment, service account and namespace; nothing of a user is there."""
GUARD_MARK = "hyperpod-ray/freed-at"
"""Annotation of a node that the guard put the out-of-service taint on: when it did."""
SYSTEM_NAMESPACES = frozenset(
    {
        "default",
        KUBE_SYSTEM,
        KUBE_PUBLIC,
        KUBE_NODE_LEASE,
        HYPERPOD_NAMESPACE,
        CLOUDWATCH_NAMESPACE,
        OPERATOR_NAMESPACE,
        STORAGE_NAMESPACE,
        GUARD,
        KUEUE_CONFIG,
        KUEUE_NAMESPACE,
    }
)
"""Namespaces of Kubernetes, EKS, the dependencies chart and the KubeRay operator."""

# --- charts and add-ons ------------------------------------------------------------------------------------------

DEPENDENCIES_CHART = "hyperpod-dependencies"
"""HyperPod's Helm chart of device plugins and agents: chart, release, lock entry."""
CHARTS = (DEPENDENCIES_CHART, OPERATOR_CHART)

# --- what Ray's pods have ----------------------------------------------------------------------------------------

CLAIM = "fsx"
"""The PersistentVolumeClaim in each Ray namespace, and the pods' volume of it."""
MOUNT_PATH = "/fsx"
"""Where head and workers see the shared file system."""
HOMES_PATH = "/homes"
"""Where nodes of Slurm see the home folders. Not /home: a mount there would hide the folder of the AMI's user."""
HANG_RULES = "hung-job-detection"
"""ConfigMap of the rules of hung job detection, in each Ray namespace."""
HANG_RULES_FILE = "rules.json"
"""Its key, and the file that head and workers mount."""
HANG_RULES_PATH = "/etc/hyperpod-ray/hung-job-detection"
"""Where they mount it."""
SECRETS_PATH = "/etc/ray-secrets"
"""Where head and workers see the Kubernetes Secrets of `ray.secrets`: `/etc/ray-secrets/NAME/KEY`."""
SERVICE_ACCOUNT = "ray"
"""Service account of head and workers, without permissions in Kubernetes; EKS Pod Identity or IRSA may be put on it."""
RAY_UID = 1000
"""User `ray` of the Ray images."""
RAY_GID = 100
"""Group `users` of the Ray images."""
IMAGE_PULL = "image-pull"
"""DaemonSet that pulls the training image while nodes are checked."""
REDIS = "ray-redis"
"""Deployment and Service of the Redis that keeps the head's state (`ray.gcs_fault_tolerance.redis_image`)."""
DRIVER_GROUP = "driver"
"""Worker group and Ray resource of GCS fault tolerance: `ray job submit --entrypoint-resources '{"driver": 1}'`."""

# --- ports -------------------------------------------------------------------------------------------------------

REDIS_PORT = GCS_PORT

# --- labels ----------------------------------------------------------------------------------------------------

CLIENT_LABEL = "hyperpod-ray/client"
"""A pod of a Ray namespace with this label (`true`) may reach the head's Jobs API and nothing else."""
JOB_LABEL = "hyperpod-ray/job"
"""The RayJob that the pods of its own cluster belong to."""

COMMAND_ANNOTATION = "hyperpod-ray/command"
"""Annotation of a RayJob: the job's own command; its entrypoint only starts it."""

# --- environment variables ---------------------------------------------------------------------------------------

ENVIRONMENTS_VARIABLE = "HYPERPOD_RAY_ENVIRONMENTS"
"""Folder of environment files, in place of `--environments`."""
TUNNEL_VARIABLE = "HYPERPOD_RAY_TUNNEL"
"""Whether the Kubernetes API is reached through Session Manager, in place of `--tunnel`."""
SAVE_EVERY_VARIABLE = "RESILIENCE_SAVE_EVERY_S"
"""Environment variable of a job: seconds between two checkpoints (`save_every_s` of the training library)."""
PUBLISHED_RUNS = "resilience/"
"""Folder in Ray's log folder where the training library links a run's journal: `resilience/JOB/progress.json`."""
TRACEBACK_VARIABLE = "HYPERPOD_RAY_TRACEBACK"
"""Set: an internal error shows its traceback."""
TIERED_S3_VARIABLE = "TIERED_S3_BASE"
"""Where the tiered writer puts its second tier; `hyperpod_ray_training.tiered` reads it."""
TRACKING_VARIABLE = "MLFLOW_TRACKING_URI"
TRACKERS_VARIABLE = "RESILIENCE_TRACKING"
"""Where the training library sends metrics: `mlflow`, `wandb`; `hyperpod_ray_training.settings` reads it."""
RUN_NAME_VARIABLE = "RUN_NAME"
"""Environment variables of a job: what its job file says of the run; defaults of the training library's."""
RUN_STORAGE_VARIABLE = "RUN_STORAGE"
RUN_WORKERS_VARIABLE = "RUN_WORKERS"
RUN_GPUS_VARIABLE = "RUN_GPUS_PER_WORKER"
RUN_SPARES_VARIABLE = "RUN_SPARES"
NOTIFY_VARIABLE = "HYPERPOD_RAY_NOTIFY_URL"
"""Where a job's first process posts that the job has ended."""
SPARES_VARIABLE = "RESILIENCE_SPARES"
"""Setting `spares` of the training library, of every job of an environment."""


def stack_name(environment: str, stack: str) -> str:
    """Name of a stack in CloudFormation: `dev-Network`."""
    return f"{environment}-{stack}"


def image_repository(environment: str) -> str:
    """ECR repository of the image that a stack builds, where the file names none: unique in an account and Region."""
    return f"ray-{environment}"


def flow_log_group(environment: str) -> str:
    """Log group of the VPC's flow logs."""
    return f"/aws/vpc/{PROJECT}/{environment}"


def event_log_group(environment: str) -> str:
    """Log group that archives the cluster's events."""
    return f"/aws/events/{PROJECT}/{environment}"


def storage_class(cluster_name: str) -> str:
    """The StorageClass of storage mode `dynamic`; cluster-scoped, hence with the HyperPod cluster's name."""
    return f"{cluster_name.lower()}-{CLAIM}"


def store_class(cluster_name: str) -> str:
    """The StorageClass of the volumes on which Ray's embedded store keeps a head's state; cluster-scoped likewise."""
    return f"{cluster_name.lower()}-ray-head"


def volume(cluster_name: str, namespace: str) -> str:
    """The PersistentVolume of a namespace in storage modes `static` and `existing`; cluster-scoped likewise."""
    return f"{cluster_name.lower()}-{namespace}-{CLAIM}"


def team_volume(cluster_name: str, namespace: str, claim: str) -> str:
    """The PersistentVolume of a claim in a team's namespace."""
    return f"{cluster_name.lower()}-{namespace}-{claim}"


def users_group(namespace: str) -> str:
    """Kubernetes group bound to the Ray user role of a namespace."""
    return f"ray-users:{namespace}"


def team_namespace(team: str) -> str:
    """Namespace that HyperPod task governance creates for a team."""
    return f"{TEAM_NAMESPACE_PREFIX}{team}"


def team_queue(team: str) -> str:
    """LocalQueue that HyperPod task governance creates in it."""
    return f"{team_namespace(team)}{TEAM_QUEUE_SUFFIX}"


def workload_priority(priority: str) -> str:
    """WorkloadPriorityClass that HyperPod task governance creates for a priority class."""
    return f"{priority}{PRIORITY_SUFFIX}"
