"""Names that the stacks, the manifests and the services use, as far as these commands look for them.

`ops` starts without cdk8s, so it cannot import `k8s.names`; a test holds the two against each other.
"""

from __future__ import annotations

from core import needs
from core.model import StaticStorage
from core.plan import Plan

ENVIRONMENT_TAG = "hyperpod-ray:environment"
"""Tag of everything that belongs to an environment, also of what the CSI driver makes."""
CLAIM_TAG = "CSIVolumeName"
"""Tag that the FSx CSI driver puts on a file system it made from a claim."""
STACKS = ("Network", "Eks", "Storage", "Image", "Mirror", "HyperPod", "Platform", "Ray")
"""Stacks of an environment in the order of their creation; they are called `NAME-Network` and so on."""
CLAIM = "fsx"
FILE_SYSTEM_DRIVER = "fsx.csi.aws.com"

_SAGEMAKER = "sagemaker.amazonaws.com"
GROUP_LABEL = f"{_SAGEMAKER}/instance-group-name"
HEALTH_LABEL = f"{_SAGEMAKER}/node-health-status"
DEEP_CHECK_LABEL = f"{_SAGEMAKER}/deep-health-check-status"
# the documentation and the service's own samples differ: singular or plural
FAULT_TYPE_LABELS = (f"{_SAGEMAKER}/fault-types", f"{_SAGEMAKER}/fault-type")
FAULT_REASON_LABELS = (f"{_SAGEMAKER}/fault-reasons", f"{_SAGEMAKER}/fault-reason")
FAULT_DETAILS = f"{_SAGEMAKER}/fault-details"
REPLACE, REBOOT = "UnschedulablePendingReplacement", "UnschedulablePendingReboot"

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""Taint that frees pods of a node that is gone but whose object is not; https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/."""
UNREACHABLE = "node.kubernetes.io/unreachable"
RAY_CLUSTER_LABEL = "ray.io/cluster"
RAY_GROUP_LABEL = "ray.io/group"
RAY_ROLE_LABEL = "ray.io/node-type"
TOKEN_KEY = "auth_token"  # noqa: S105
"""Key of the Secret that KubeRay makes, which is called like the RayCluster."""
DASHBOARD_PORT = 8265

NODE_PREFIX = "hyperpod-"
"""Kubernetes calls a HyperPod instance `hyperpod-<instance id>`."""


def stack_names(plan: Plan) -> list[str]:
    """Names of the stacks that a deploy of this environment makes, in that order."""
    absent = set()
    if not isinstance(plan.settings.storage, StaticStorage):
        absent.add("Storage")
    if plan.built_image is None:
        absent.add("Image")
    if not needs.copies(plan):
        absent.add("Mirror")
    return [f"{plan.name}-{stack}" for stack in STACKS if stack not in absent]


def node_name(instance_id: str) -> str:
    """What Kubernetes calls an instance."""
    return f"{NODE_PREFIX}{instance_id}"


def instance_id(node: str) -> str:
    """The instance behind what Kubernetes calls a node; the name itself where it is no HyperPod node."""
    return node.removeprefix(NODE_PREFIX)


def storage_class(plan: Plan) -> str:
    """The StorageClass of storage mode `dynamic`."""
    return f"{plan.settings.hyperpod.cluster_name.lower()}-fsx"


def ray_namespaces(plan: Plan) -> list[str]:
    """Namespaces that may hold RayClusters: the environment's own first, then those of its Ray users."""
    own = plan.settings.ray.namespace
    return [own, *sorted({name for user in plan.settings.eks.ray_users for name in user.namespaces} - {own})]


def cluster_log_group(cluster_name: str, cluster_arn: str) -> str:
    """Log group that the service makes for a HyperPod cluster; no stack owns it."""
    return f"/aws/sagemaker/Clusters/{cluster_name}/{cluster_arn.rpartition('/')[2]}"
