"""Every setting of an environment, in one place: the reference of `environments/NAME.yaml`.

One file is one environment is one CDK Stage. Units are in the names (`capacity_gib`, `log_retention_days`);
descriptions carry the AWS or Kubernetes term and what happens when the setting is left out. Only what one value
can say about itself is checked here (type, range, pattern); what two values must say to each other is in `checks`.

The JSON Schema for editors and `docs/settings.md` are generated from this module (`python -m core`).
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

# --- words ---------------------------------------------------------------------------------------------------------

AccountId = Annotated[str, Field(pattern=r"^\d{12}$")]
"""Twelve digits, quoted in YAML so that a leading zero survives."""

Region = Annotated[str, Field(pattern=r"^[a-z]{2}(-[a-z]+)+-\d$")]
AvailabilityZoneId = Annotated[str, Field(pattern=r"^[a-z]{2,4}\d-az\d+$")]
SubnetId = Annotated[str, Field(pattern=r"^subnet-[0-9a-f]{8,17}$")]
Cidr = Annotated[str, Field(pattern=r"^\d{1,3}(\.\d{1,3}){3}/\d{1,2}$")]
RoleArn = Annotated[str, Field(pattern=r"^arn:aws[a-z-]*:iam::\d{12}:role/.+$")]
InstanceTypeName = Annotated[str, Field(pattern=r"^ml\.[a-z0-9-]+\.[a-z0-9-]+$")]
HyperPodName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$")]
KubernetesName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
"""An RFC 1123 label: lower case letters, digits and hyphens, at most 63 characters."""

SemanticVersion = Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+([-+][0-9A-Za-z.-]+)?$")]
LogRetentionDays = Literal[1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 3653]
DeepHealthCheck = Literal["InstanceStress", "InstanceConnectivity"]
Quantity = Annotated[str, Field(pattern=r"^\d+(\.\d+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$")]


class Settings(BaseModel):
    """Base of every section: unknown keys are errors, values never change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


# --- network -------------------------------------------------------------------------------------------------------


class ExistingNetwork(Settings):
    """A VPC made elsewhere. Nothing is created in it but security groups."""

    vpc_id: Annotated[str, Field(pattern=r"^vpc-[0-9a-f]{8,17}$")]
    """`AWS::EC2::VPC` id."""
    vpc_cidr: Cidr
    """The VPC's primary CIDR; needed because nothing is looked up at synth."""
    node_subnet_ids: Annotated[dict[AvailabilityZoneId, SubnetId], Field(min_length=1, max_length=16)]
    """Private subnet for HyperPod nodes per availability zone ID."""
    node_subnet_cidrs: Annotated[dict[AvailabilityZoneId, Cidr], Field(min_length=1)]
    """CIDR of each of those subnets, so that addresses can be counted before money is spent."""
    control_plane_subnet_ids: Annotated[list[SubnetId], Field(min_length=2)]
    """At least two private subnets for the EKS control plane's network interfaces, one per zone in the order of
    `availability_zone_ids`."""


class Network(Settings):
    """The VPC: new (default) or existing."""

    cidr: Cidr = "10.0.0.0/16"
    """IPv4 range of the new VPC (/16 to /20)."""
    availability_zone_ids: Annotated[list[AvailabilityZoneId], Field(min_length=2, max_length=4)]
    """AZ **IDs** (`usw2-az2`), not names: names differ between accounts and GPU capacity is sold by zone. EKS needs
    two; instance groups use the first unless they name another."""
    node_subnet_prefix: Annotated[int, Field(ge=17, le=26)] | None = None
    """Prefix length of each node subnet. Left out: a quarter of the VPC's range per zone (an eighth with four zones),
    independent of the groups' counts, because resizing a subnet replaces it. Checked against the groups' addresses."""
    egress: Literal["nat", "closed"] = "nat"
    """`nat`: NAT gateways. `closed`: no route to the internet, interface endpoints for every service that is called."""
    nat_gateways: Annotated[int, Field(ge=1, le=4)] = 1
    """NAT gateways when `egress` is `nat`; one per zone keeps egress when a zone fails."""
    flow_log_retention_days: LogRetentionDays = 90
    """How long VPC flow logs are kept in CloudWatch Logs."""
    existing: ExistingNetwork | None = None
    """Use this VPC instead of making one; `cidr`, `egress` and `nat_gateways` then have no effect."""


# --- EKS -----------------------------------------------------------------------------------------------------------


class RayUser(Settings):
    """An IAM role that may use Ray in its own namespaces and nothing else of the cluster."""

    role_arn: RoleArn
    """Who: becomes an EKS access entry (`AWS::EKS::AccessEntry`)."""
    namespaces: Annotated[list[KubernetesName], Field(min_length=1)]
    """Where: scope of the access policy `AmazonEKSEditPolicy`."""


class Endpoint(Settings):
    """The Kubernetes API server's reachability."""

    public: bool = False
    """Reachable from the internet, limited to `public_cidrs`. Private access from the VPC is always on."""
    public_cidrs: list[Cidr] = []
    """Who may reach the public endpoint; required when it is public, and `0.0.0.0/0` is refused."""


class ExistingEks(Settings):
    """An EKS cluster made elsewhere (same VPC, authentication mode API or API_AND_CONFIG_MAP, VPC CNI ≥ 1.18.3)."""

    cluster_name: Annotated[str, Field(pattern=r"^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$")]
    """Its name."""
    security_group_id: Annotated[str, Field(pattern=r"^sg-[0-9a-f]{8,17}$")]
    """Its cluster security group."""
    oidc_issuer_url: Annotated[str, Field(pattern=r"^https://oidc\.eks\..+$")]
    """Its OIDC issuer; an IAM OIDC provider for it must exist."""
    kubectl_role_arn: RoleArn
    """Role of the function that applies manifests: trusted by lambda.amazonaws.com, with an access entry that has
    `AmazonEKSClusterAdminPolicy`."""


class Eks(Settings):
    """The EKS cluster that orchestrates HyperPod: no EC2 node groups, authentication mode API."""

    version: Annotated[str, Field(pattern=r"^1\.\d{2}$")] = "1.34"
    """Kubernetes version; HyperPod supports a range (checked against `core/catalogue/platform_versions.yaml`)."""
    endpoint: Endpoint = Endpoint()
    """API server endpoint. Left out: private only."""
    admin_role_arns: list[RoleArn] = []
    """Roles with `AmazonEKSClusterAdminPolicy`. Left out: only the deployment's own kubectl role."""
    ray_users: list[RayUser] = []
    """Roles limited to namespaces."""
    log_retention_days: LogRetentionDays = 90
    """All five control-plane logs are on and kept this long."""
    existing: ExistingEks | None = None
    """Use this cluster instead of making one."""


# --- HyperPod ------------------------------------------------------------------------------------------------------


class Taint(Settings):
    """A Kubernetes taint put on a group's nodes (`KubernetesConfig.Taints`)."""

    key: Annotated[str, Field(min_length=1, max_length=317)]
    """Taint key."""
    value: Annotated[str, Field(max_length=63)] = ""
    """Taint value."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
    """What happens to pods that do not tolerate it."""


class RollingUpdate(Settings):
    """How UpdateClusterSoftware proceeds through a group (`RollingUpdatePolicy`)."""

    maximum_batch: Annotated[int, Field(ge=1)] = 1
    """Nodes taken at once."""
    batch_unit: Literal["INSTANCE_COUNT", "CAPACITY_PERCENTAGE"] = "INSTANCE_COUNT"
    """Unit of `maximum_batch`."""
    wait_seconds: Annotated[int, Field(ge=0, le=3600)] = 300
    """Pause between batches (`WaitIntervalInSeconds`)."""
    rollback_alarm_names: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=255)]], Field(max_length=10)
    ] = []
    """CloudWatch alarms that roll the update back (`AutoRollbackConfiguration`)."""


class UpdateSchedule(Settings):
    """Scheduled software (AMI) updates of a group (`ScheduledUpdateConfig`). They take nodes out of training."""

    cron: Annotated[str, Field(pattern=r"^cron\(.+\)$")]
    """`cron(Minutes Hours Day-of-month Month Day-of-week Year)`, UTC."""
    rolling: RollingUpdate = RollingUpdate()
    """Batch policy. Left out: one node at a time, five minutes apart."""


class InstanceGroup(Settings):
    """One HyperPod instance group: nodes of one type with one purpose."""

    name: HyperPodName
    """`InstanceGroupName`: letters, digits, hyphens, at most 63. Renaming deletes the nodes and makes new ones."""
    type: InstanceTypeName
    """`InstanceType`, with its `ml.` prefix. Changing it deletes the nodes and makes new ones."""
    count: Annotated[int, Field(ge=0, le=6758)]
    """`InstanceCount`: nodes wanted."""
    min_count: Annotated[int, Field(ge=0, le=6758)] | None = None
    """`MinInstanceCount`: the cluster may be InService with this many. Needs provisioning mode `Continuous`."""
    availability_zone_id: AvailabilityZoneId | None = None
    """Zone of the group. Left out: the network's first zone. Another one becomes `OverrideVpcConfig`, immutable."""
    deep_health_checks: Annotated[list[DeepHealthCheck], Field(max_length=2)] | None = None
    """`OnStartDeepHealthChecks`. Left out: both on accelerated types with two or more nodes, stress alone on a single
    one, none on CPU types. An empty list switches them off."""
    threads_per_core: Literal[1, 2] = 1
    """`ThreadsPerCore`: 1 switches hyper-threading off, which collective communication prefers."""
    labels: Annotated[dict[str, str], Field(max_length=50)] = {}
    """Kubernetes labels of the nodes (`KubernetesConfig.Labels`)."""
    taints: Annotated[list[Taint], Field(max_length=50)] = []
    """Kubernetes taints of the nodes (`KubernetesConfig.Taints`)."""
    data_volume_gib: Annotated[int, Field(ge=1, le=16384)] | None = 500
    """Size of an extra EBS volume mounted at /opt/sagemaker, where container images are kept. null: none. The root
    volume's size cannot be set (`RootVolume: true` refuses `VolumeSizeInGB`) and training images soon fill it."""
    volume_kms_key_arn: Annotated[str, Field(pattern=r"^arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/.+$")] | None = None
    """KMS key of the root and the extra volume (`VolumeKmsKeyId`). Left out: the key that AWS owns."""
    training_plan_arn: (
        Annotated[str, Field(pattern=r"^arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:\d{12}:training-plan/.+$")] | None
    ) = None
    """`TrainingPlanArn`: reserved capacity the group draws from."""
    capacity: Literal["on-demand", "spot"] = "on-demand"
    """`CapacityRequirements`. `spot` needs provisioning mode `Continuous` and is immutable per group."""
    image_release_version: Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+$")] | None = None
    """`ImageReleaseVersion` of the HyperPod AMI. Left out: the service's current one at creation."""
    update_schedule: UpdateSchedule | None = None
    """Scheduled software updates. Left out: none; nodes change only when you say so."""


class HyperPod(Settings):
    """The HyperPod cluster (`AWS::SageMaker::Cluster`)."""

    cluster_name: HyperPodName
    """`ClusterName`: create-only; another name is another cluster."""
    node_recovery: Literal["Automatic", "None"] = "Automatic"
    """`NodeRecovery`: faulty nodes are rebooted or replaced by the service. `None` leaves them to you."""
    node_provisioning_mode: Literal["Continuous"] | None = "Continuous"
    """`NodeProvisioningMode`. `Continuous`: InService with the capacity there is, the rest follows. null: all or
    nothing."""
    managed_autoscaling: bool = False
    """`AutoScaling` by HyperPod's managed Karpenter; needs `Continuous` and `node_recovery: Automatic`."""
    tiered_storage_memory_percent: Annotated[int, Field(ge=0, le=100)] | None = None
    """`TieredStorageConfig`: share of node memory that holds checkpoints. Left out: off."""
    instance_groups: Annotated[list[InstanceGroup], Field(min_length=1, max_length=100)]
    """One to a hundred groups."""
    alarm_emails: list[Annotated[str, Field(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$")]] = []
    """Who is told of node health events and alarms (SNS subscriptions, to be confirmed by mail)."""
    event_retention_days: LogRetentionDays = 365
    """How long the cluster's events are kept in CloudWatch Logs; the service itself keeps the newest 500."""


# --- storage -------------------------------------------------------------------------------------------------------


class ExistingFileSystem(Settings):
    """An FSx for Lustre file system made elsewhere."""

    file_system_id: Annotated[str, Field(pattern=r"^fs-[0-9a-f]{8,21}$")]
    """`FileSystemId`."""
    mount_name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,8}$")]
    """`LustreMountName`."""
    availability_zone_id: AvailabilityZoneId
    """Where it is: traffic between zones is slow and charged."""


class Storage(Settings):
    """The shared file system for code, data and checkpoints (FSx for Lustre, PERSISTENT_2 SSD), mounted at /fsx."""

    mode: Literal["static", "dynamic", "existing"] = "static"
    """`static`: made by the stack beside EKS. `dynamic`: made by the CSI driver from a claim, as in the AWS article;
    ten minutes more, and not owned by CloudFormation. `existing`: yours."""
    capacity_gib: Annotated[int, Field(ge=1200)] = 1200
    """1200, 2400 or a multiple of 2400 GiB."""
    throughput_mbs_per_tib: Literal[125, 250, 500, 1000] = 250
    """`PerUnitStorageThroughput`, MB/s per TiB. With the size it bounds how fast a checkpoint is written."""
    compression: Literal["LZ4", "NONE"] = "LZ4"
    """`DataCompressionType`."""
    lustre_version: Literal["2.12", "2.15"] = "2.15"
    """`FileSystemTypeVersion`."""
    backup_retention_days: Annotated[int, Field(ge=0, le=90)] = 0
    """`AutomaticBackupRetentionDays`; 0 makes none."""
    availability_zone_id: AvailabilityZoneId | None = None
    """Zone of the file system. Left out: the zone of the Ray workers."""
    on_destroy: Literal["retain", "delete"] = "retain"
    """What `cdk destroy` does with the data: keep the file system, or delete it for good."""
    existing: ExistingFileSystem | None = None
    """The file system of mode `existing`."""


# --- image ---------------------------------------------------------------------------------------------------------


class Image(Settings):
    """The container image of head and workers."""

    repository_name: Annotated[str, Field(pattern=r"^[a-z0-9]+(?:[._/-][a-z0-9]+)*$", max_length=256)] = "ray-training"
    """ECR repository made by the stack (immutable tags, scanned on push)."""
    folder: str = "image"
    """Folder with the Dockerfile, relative to the project; built by CodeBuild when its content changes."""
    keep_images: Annotated[int, Field(ge=1, le=1000)] = 30
    """Newest images kept by the repository's lifecycle rule."""
    uri: Annotated[str, Field(pattern=r"^[^\s@]+@sha256:[0-9a-f]{64}$")] | None = None
    """Use this image (by digest) instead of building one."""
    on_destroy: Literal["retain", "delete"] = "retain"
    """What `cdk destroy` does with the repository and its images."""


# --- Ray -----------------------------------------------------------------------------------------------------------


class RayPod(Settings):
    """What a head or worker pod gets. Left out, figures come from the instance type (one worker pod per node)."""

    instance_group: HyperPodName
    """Name of the HyperPod instance group whose nodes carry the pod."""
    cpu: Annotated[int, Field(ge=1)] | None = None
    """vCPU requested and limited. Left out: what the node can give after system pods, by the share of GPUs taken."""
    memory_gib: Annotated[int, Field(ge=1)] | None = None
    """Memory requested and limited. Left out: as for `cpu`."""
    env: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str] = {}
    """Environment variables of the container, on top of the ones for the whole cluster."""


class RayHead(RayPod):
    """The Ray head: GCS, dashboard, Jobs API. No training lands on it (`num-cpus: 0`)."""

    memory_gib: Annotated[int, Field(ge=1)] | None = 8
    """Memory requested and limited. null: what the node can give after system pods."""
    cpu: Annotated[int, Field(ge=1)] | None = 2
    """vCPU requested and limited. null: what the node can give after system pods."""


class RayWorkerGroup(RayPod):
    """A group of equal worker pods."""

    name: KubernetesName
    """`groupName`, unique in the RayCluster."""
    replicas: Annotated[int, Field(ge=0)]
    """Pods wanted."""
    min_replicas: Annotated[int, Field(ge=0)] | None = None
    """Left out: `replicas`."""
    max_replicas: Annotated[int, Field(ge=0)] | None = None
    """Left out: `replicas`. Must be reachable with the instance group's nodes."""
    gpus: Annotated[int, Field(ge=0)] | None = None
    """`nvidia.com/gpu` (or Neuron devices) per pod. Left out: all of the instance type's."""
    efa: Annotated[int, Field(ge=0)] | None = None
    """`vpc.amazonaws.com/efa` interfaces per pod. Left out: all of the instance type's, in proportion to `gpus`."""
    shared_memory_gib: Annotated[int, Field(ge=1)] | None = None
    """Size of /dev/shm. Left out: a quarter of the pod's memory."""


class GcsFaultTolerance(Settings):
    """Head failure without losing running work: GCS state in Redis, driver on a CPU worker group."""

    driver_instance_group: HyperPodName
    """CPU instance group that carries the job's driver, off the head's node."""
    redis_image: Annotated[str, Field(pattern=r"^[^\s@]+@sha256:[0-9a-f]{64}$")] | None = None
    """Redis by digest, run in the namespace. Left out: `redis_address` must be given."""
    redis_address: Annotated[str, Field(pattern=r"^[a-z0-9.-]+:\d{2,5}$")] | None = None
    """An existing Redis, for example ElastiCache."""


class Observability(Settings):
    """Where Grafana and Prometheus are, for the Ray dashboard's charts."""

    grafana_host: str = "http://prometheus-grafana.prometheus-system.svc:80"
    """`RAY_GRAFANA_HOST`: as the head reaches Grafana."""
    grafana_iframe_host: str = "http://localhost:3000"
    """`RAY_GRAFANA_IFRAME_HOST`: as your browser reaches it."""
    prometheus_host: str = "http://prometheus-kube-prometheus-prometheus.prometheus-system.svc:9090"
    """`RAY_PROMETHEUS_HOST`."""


class Ray(Settings):
    """The RayCluster (`ray.io/v1`, KubeRay)."""

    version: SemanticVersion = "2.60.0"
    """`rayVersion`; must equal the image's Ray."""
    cluster_name: KubernetesName = "ray"
    """Name of the RayCluster; its head service is `<name>-head-svc`."""
    namespace: KubernetesName = "ray"
    """Namespace of everything of Ray."""
    head: RayHead
    """The head pod; on a CPU group, because GPUs are what fails."""
    workers: Annotated[list[RayWorkerGroup], Field(min_length=1)]
    """One or more worker groups."""
    autoscaling: bool = False
    """`enableInTreeAutoscaling`: Ray asks for workers between min and max. For nodes too, see `managed_autoscaling`."""
    auth: Literal["token", "none"] = "token"
    """`authOptions.mode`. The dashboard and Jobs API run code by design: `none` is for rehearsal only."""
    env: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str] = {}
    """Environment variables of head and workers."""
    drain_timeout_seconds: Annotated[int, Field(ge=5, le=600)] = 90
    """How long a worker that is told to stop may save and drain (`RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S`); the pod's
    termination grace period is 30 s longer."""
    node_loss_seconds: Annotated[int, Field(ge=0, le=300)] = 30
    """Toleration of `not-ready` and `unreachable` before a pod is evicted. Kubernetes' own default is 300."""
    gcs_fault_tolerance: GcsFaultTolerance | None = None
    """Left out: a head failure ends the job, which is then resubmitted and resumes from its checkpoint."""
    observability: Observability | None = None
    """Left out: no Grafana or Prometheus variables."""


# --- Helm ----------------------------------------------------------------------------------------------------------


class Helm(Settings):
    """Versions of the Helm charts; what is fetched for them is pinned in `charts.lock.yaml`."""

    hyperpod_dependencies: SemanticVersion = "0.1.0"
    """Version of AWS's HyperPodHelmChart (health monitoring agent, device plugins, job auto restart)."""
    kuberay_operator: SemanticVersion = "1.7.0"
    """Version of the KubeRay operator chart. Its CRDs are not upgraded by `helm upgrade`."""
    lock_file: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./-]*\.yaml$")] = "charts.lock.yaml"
    """Lock file of the charts that are deployed, relative to the project. Left out: the project's own; the rehearsal's
    stand-in charts have theirs."""


class InstanceTypeFigures(Settings):
    """Figures of an instance type this project does not know yet."""

    vcpus: Annotated[int, Field(ge=1)]
    """vCPUs with every thread of every core (`DefaultVCpus`)."""
    memory_gib: Annotated[int, Field(ge=1)]
    """Memory of the instance."""
    accelerator: Literal["nvidia", "neuron", "none"]
    """Kind of accelerator."""
    accelerators: Annotated[int, Field(ge=0)]
    """GPUs or Neuron devices."""
    efa: Annotated[int, Field(ge=0)]
    """EFA interfaces."""
    ips: Annotated[int, Field(ge=1)]
    """IP addresses one node takes from the subnet."""
    pods: Annotated[int, Field(ge=1)]
    """Pods one node can carry (one network interface, less the node's own address)."""
    threads: Literal[1, 2] = 2
    """Threads of one core. Left out: 2; Graviton and some newer types have 1 and refuse `threads_per_core: 2`."""
    architecture: Literal["x86_64", "arm64"] = "x86_64"
    """Processor architecture; head, workers and image must have the same."""


class Environment(Settings):
    """One environment: one file, one CDK Stage named like the file."""

    account: AccountId
    """The AWS account, quoted."""
    region: Region
    """The AWS region."""
    tags: Annotated[dict[str, str], Field(max_length=40)] = {}
    """Tags of every resource, on top of `hyperpod-ray:environment`."""
    protected: bool = False
    """Termination protection on the stacks, a typed confirmation on teardown, data and images retained."""
    network: Network
    """The VPC."""
    eks: Eks = Eks()
    """The EKS cluster."""
    hyperpod: HyperPod
    """The HyperPod cluster."""
    storage: Storage = Storage()
    """The shared file system."""
    image: Image = Image()
    """The container image."""
    ray: Ray
    """The RayCluster."""
    helm: Helm = Helm()
    """Chart versions."""
    instance_types: dict[InstanceTypeName, InstanceTypeFigures] = {}
    """Figures of types that `core/catalogue/instance_types.yaml` does not hold."""


NAME = re.compile(r"^[a-z][a-z0-9-]{0,20}$")
"""Name of an environment (the file's stem): it becomes part of stack names."""
