"""Names that the services define: Kubernetes, KubeRay, Ray, HyperPod, EKS and the CSI drivers of FSx and EBS.

The sandbox plays these services and the product uses them: both read the names here.
"""

from __future__ import annotations

# --- tags --------------------------------------------------------------------------------------------------------

CLAIM_TAG = "CSIVolumeName"
"""Tag that a CSI driver puts on a file system or an EBS volume that it created for a claim."""

# --- stacks ------------------------------------------------------------------------------------------------------

BOOTSTRAP_STACK = "CDKToolkit"
"""Stack of `cdk bootstrap`."""

# --- namespaces --------------------------------------------------------------------------------------------------

KUBE_SYSTEM = "kube-system"
"""EKS's add-ons and the dependencies chart."""
HYPERPOD_NAMESPACE = "aws-hyperpod"
"""The dependencies chart's own: health monitoring agent, pods of deep health checks, memory of tiered checkpoints."""
KUBE_PUBLIC = "kube-public"
KUBE_NODE_LEASE = "kube-node-lease"
CLOUDWATCH_NAMESPACE = "amazon-cloudwatch"

# --- charts and add-ons ------------------------------------------------------------------------------------------

OPERATOR_CHART = "kuberay-operator"
"""KubeRay's Helm chart: chart, release, lock entry."""
CNI_ADDON = "vpc-cni"
PROXY_ADDON = "kube-proxy"
POD_IDENTITY_ADDON = "eks-pod-identity-agent"
CSI_ADDON = "aws-fsx-csi-driver"
CSI_DRIVER = "fsx.csi.aws.com"
"""Provisioner of claims and driver of volumes on FSx for Lustre."""
CSI_SERVICE_ACCOUNT = "fsx-csi-controller-sa"
"""Service account of the driver's controller, in `KUBE_SYSTEM`."""
EBS_CSI_ADDON = "aws-ebs-csi-driver"
EBS_CSI_DRIVER = "ebs.csi.aws.com"
"""Provisioner of claims and driver of volumes on EBS."""
EBS_CSI_SERVICE_ACCOUNT = "ebs-csi-controller-sa"

# --- KubeRay ---------------------------------------------------------------------------------------------------

HEAD_GROUP = "headgroup"
"""What KubeRay calls the head's group."""
TOKEN_KEY = "auth_token"  # noqa: S105
"""Key of the Secret that KubeRay creates, which has the RayCluster's name."""
STORE_CLAIM_SUFFIX = "-gcs-pvc"
"""How the operator calls the claim of the embedded store of the head's state: the RayCluster's name, then this."""

# --- ports -------------------------------------------------------------------------------------------------------

DASHBOARD_PORT = 8265
"""Ray's dashboard and Jobs API, on the head."""
CLIENT_PORT = 10001
GCS_PORT = 6379
METRICS_PORT = 8080
"""Prometheus metrics of Ray's pods, and of the KubeRay operator."""

JOB_AGENT_PORT = 8889
"""HyperPod's job monitoring agent, on the host of each node: detection of hung jobs."""
JOB_AGENT_VARIABLE = "HYPERPOD_JMA_HOST"
"""Where AWS's library (`toolkit-for-ray-on-sagemaker-ai`) looks for the agent: the address of the pod's node."""

HANG_STREAMS = "SageMakerHangJobDetectionEvents/"
"""How the log streams of that agent's events begin, in the cluster's log group: then `GROUP/INSTANCE`."""
HANG_DETECTED = "HANG_DETECTED"

# --- Kubernetes: API groups, labels, taints, resources -----------------------------------------------------------

RAY_API_GROUP = "ray.io"
RAY_API_VERSION = f"{RAY_API_GROUP}/v1"
RAY_CLUSTER_LABEL = "ray.io/cluster"
RAY_GROUP_LABEL = "ray.io/group"
RAY_ROLE_LABEL = "ray.io/node-type"
RAY_POD_LABEL = "ray.io/is-ray-node"
"""Label with the value `yes` on every pod of a RayCluster."""
QUEUE_API_VERSION = "kueue.x-k8s.io/v1beta1"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
"""Labels that Kueue and HyperPod task governance read. https://kueue.sigs.k8s.io/docs/tasks/run/rayjobs/"""
TOPOLOGY_PREFERRED = "kueue.x-k8s.io/podset-preferred-topology"
TOPOLOGY_REQUIRED = "kueue.x-k8s.io/podset-required-topology"
"""Annotations of a pod template: the level of the network at which its pods are placed together.
https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/"""
TOPOLOGY_LEVELS = {
    "layer-1": "topology.k8s.aws/network-node-layer-1",
    "layer-2": "topology.k8s.aws/network-node-layer-2",
    "layer-3": "topology.k8s.aws/network-node-layer-3",
    "ultraserver": "topology.k8s.aws/ultraserver-id",
}
"""Labels that HyperPod puts on nodes.
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-operate-console-ui-governance-tasks-scheduling.html"""
PART_OF_LABEL = "app.kubernetes.io/part-of"
INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"
HOSTNAME_LABEL = "kubernetes.io/hostname"
ZONE_LABEL = "topology.kubernetes.io/zone"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""Taint that frees pods of a node that is gone but whose object is not; https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/."""
OUT_OF_SERVICE_VALUE = "nodeshutdown"
"""The value that Kubernetes' documentation gives it; its controllers read the key alone."""
EVENTS_OF_NODES = "default"
"""Namespace of events of objects that have none."""
UNREACHABLE = "node.kubernetes.io/unreachable"
NOT_READY = "node.kubernetes.io/not-ready"
GPU_RESOURCE = "nvidia.com/gpu"
"""Resource of NVIDIA GPUs, and the taint's key on nodes that have them."""
NEURON_RESOURCE = "aws.amazon.com/neuron"
"""Resource of Neuron devices, and the taint's key on nodes that have them."""
NEURON_DEVICE = "aws.amazon.com/neurondevice"
"""The older name of a Neuron device, which the queues of task governance count. Neuron's device plugin offers
`NEURON_RESOURCE` alone since its release 2.20. HyperPod's chart has 2.19.16.0, the last that offers both.
https://awsdocs-neuron.readthedocs-hosted.com/en/latest/about-neuron/announcements/neuron2.x/announce-no-support-device-version.html"""
MIG_PREFIX = "nvidia.com/mig-"
"""How the resources of GPU partitions begin: `nvidia.com/mig-1g.5gb`."""
EFA_RESOURCE = "vpc.amazonaws.com/efa"

# --- HyperPod ----------------------------------------------------------------------------------------------------

HYPERPOD_LABELS = "sagemaker.amazonaws.com/"
"""Prefix of the labels and annotations that HyperPod puts on nodes."""
INSTANCE_GROUP_LABEL = f"{HYPERPOD_LABELS}instance-group-name"
HEALTH_LABEL = f"{HYPERPOD_LABELS}node-health-status"
"""Label of a node's health, and the key of the taint that goes with it."""
OBSERVABILITY_ADDON = "amazon-sagemaker-hyperpod-observability"
OBSERVABILITY_NAMESPACE = "hyperpod-observability"
OBSERVABILITY_COLLECTOR = "hyperpod-observability-operator-otel-collector"
"""Service account of the add-on's collector.
https://docs.aws.amazon.com/sagemaker/latest/dg/hyperpod-observability-addon-troubleshooting.html"""
GOVERNANCE_ADDON = "amazon-sagemaker-hyperpod-taskgovernance"
KUEUE_NAMESPACE = "kueue-system"
KUEUE_CONFIG = "kueue-manager-config"
"""ConfigMap of Kueue's own configuration."""
TEAM_NAMESPACE_PREFIX = "hyperpod-ns-"
TEAM_QUEUE_SUFFIX = "-localqueue"
PRIORITY_SUFFIX = "-priority"
"""What HyperPod task governance makes of a team and of a priority class: namespace `hyperpod-ns-TEAM`, LocalQueue
`hyperpod-ns-TEAM-localqueue`, ClusterQueue `hyperpod-ns-TEAM-clusterqueue`, WorkloadPriorityClass `CLASS-priority`.
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-operate-console-ui-governance-policies.html"""
DEEP_HEALTH_LABEL = f"{HYPERPOD_LABELS}deep-health-check-status"
# the documentation and the service's own samples differ: singular or plural
FAULT_TYPE_LABELS = (f"{HYPERPOD_LABELS}fault-types", f"{HYPERPOD_LABELS}fault-type")
FAULT_REASON_LABELS = (f"{HYPERPOD_LABELS}fault-reasons", f"{HYPERPOD_LABELS}fault-reason")
FAULT_DETAILS = f"{HYPERPOD_LABELS}fault-details"
REPLACE = "UnschedulablePendingReplacement"
REBOOT = "UnschedulablePendingReboot"
"""Values of `HEALTH_LABEL` that ask HyperPod to replace or to reboot a node."""
NODE_PREFIX = "hyperpod-"
"""Kubernetes calls a HyperPod instance `hyperpod-<instance id>`."""


def node_name(instance_id: str) -> str:
    """What Kubernetes calls a HyperPod instance."""
    return f"{NODE_PREFIX}{instance_id}"


def instance_id(node: str) -> str:
    """The instance behind what Kubernetes calls a node; the name itself where it is no HyperPod node."""
    return node.removeprefix(NODE_PREFIX)


def control_plane_log_group(eks_cluster_name: str) -> str:
    """Log group of an EKS control plane; EKS gives it its name."""
    return f"/aws/eks/{eks_cluster_name}/cluster"


def cluster_log_groups(cluster_name: str) -> str:
    """Prefix of the log groups that the service creates for HyperPod clusters of a name; no stack owns them."""
    return f"/aws/sagemaker/Clusters/{cluster_name}/"


def cluster_log_group(cluster_name: str, cluster_arn: str) -> str:
    """Log group that the service creates for a HyperPod cluster."""
    return f"{cluster_log_groups(cluster_name)}{cluster_arn.rpartition('/')[2]}"
