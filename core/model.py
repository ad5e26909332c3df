"""Every setting of an environment, in one place: the reference of `environments/NAME.yaml`.

One file is one environment is one CDK Stage. Units are in the names (`capacity_gib`, `log_retention_days`);
descriptions carry the AWS or Kubernetes term and the default. Only what one value
can say about itself is checked here (type, range, pattern); what two values must say to each other is in `checks`.

The JSON Schema for editors and `docs/settings.md` are generated from this module (`hyperpod-ray env`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from core import shapes

# --- words ---------------------------------------------------------------------------------------------------------

AccountId = Annotated[str, shapes.ACCOUNT_ID.field()]
"""Twelve digits, quoted in YAML so that a leading zero survives."""

Region = Annotated[str, shapes.REGION.field()]
AvailabilityZoneId = Annotated[str, shapes.AVAILABILITY_ZONE_ID.field()]
SubnetId = Annotated[str, shapes.SUBNET_ID.field()]
Cidr = Annotated[str, shapes.CIDR.field()]
RoleArn = Annotated[str, shapes.ROLE_ARN.field()]
InstanceTypeName = Annotated[str, shapes.INSTANCE_TYPE.field()]
HyperPodName = Annotated[str, shapes.HYPERPOD_NAME.field()]
KubernetesName = Annotated[str, shapes.KUBERNETES_NAME.field()]
"""An RFC 1123 label: lower case letters, digits and hyphens, at most 63 characters."""

SemanticVersion = Annotated[str, shapes.SEMANTIC_VERSION.field()]
EcrRepositories = Annotated[str, shapes.ECR_REPOSITORIES.field()]
"""An Amazon ECR repository, or all whose names begin alike (`…/team/*`)."""
CachePrefix = Annotated[str, shapes.CACHE_PREFIX.field(min_length=2, max_length=30)]
LogRetentionDays = Literal[1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 3653]
DeepHealthCheck = Literal["InstanceStress", "InstanceConnectivity"]
Amount = Annotated[str, shapes.AMOUNT.field()]
"""A large number as people write it: `70B`, `4M`, `1.5T`, `1e12`."""
Quantity = Annotated[str, Field(pattern=r"^\d+(\.\d+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$")]


class Settings(BaseModel):
    """Base of every section: unknown keys are errors, values never change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


def kind_of(default: str, *, key: str = "existing", modes: Sequence[str] = ("static", "dynamic")) -> Discriminator:
    """Choose among the kinds of a section: `existing` where that key is written, else `mode`, else the default."""

    def chosen(value: Any) -> str:
        if isinstance(value, Settings):
            return str(getattr(value, "kind", default))
        if not isinstance(value, Mapping):
            return default
        if key in value:
            return "existing"
        return value["mode"] if value.get("mode") in modes else default

    return Discriminator(chosen)


# --- network -------------------------------------------------------------------------------------------------------


class ExistingSubnets(Settings):
    """A VPC that exists, with the subnets of its nodes. Nothing is created in it but security groups."""

    vpc_id: Annotated[str, shapes.VPC_ID.field()]
    """`AWS::EC2::VPC` id."""
    vpc_cidr: Cidr
    """The VPC's primary CIDR; needed because nothing is looked up at synth."""
    node_subnet_ids: Annotated[dict[AvailabilityZoneId, SubnetId], Field(min_length=1, max_length=16)]
    """Private subnet for HyperPod nodes per availability zone ID."""
    node_subnet_cidrs: Annotated[dict[AvailabilityZoneId, Cidr], Field(min_length=1)]
    """CIDR of each of those subnets, so that addresses can be counted before money is spent."""


class ExistingVpc(ExistingSubnets):
    """A VPC that exists. Nothing is created in it but security groups."""

    control_plane_subnet_ids: Annotated[list[SubnetId], Field(min_length=2)]
    """At least two private subnets for the EKS control plane's network interfaces, one per zone in the order of
    `availability_zone_ids`."""


class NetworkZones(Settings):
    """What a new and an existing network share."""

    kind: ClassVar[str]

    availability_zone_ids: Annotated[list[AvailabilityZoneId], Field(min_length=2, max_length=4)]
    """AZ **IDs** (`usw2-az2`), not names: names differ between accounts and GPU capacity is sold by zone. EKS needs
    two; instance groups use the first unless they name another. A zone may be added at the end later."""

    @property
    def closed(self) -> bool:
        """Whether the VPC has no route to the internet. Of an existing one not known, taken for open."""
        return False


class NewNetwork(NetworkZones):
    """A VPC that the Network stack creates (the default)."""

    kind: ClassVar = "new"

    cidr: Cidr = "10.0.0.0/16"
    """IPv4 range of the VPC (/16 to /20)."""
    zone_slots: Annotated[int, Field(ge=2, le=4)] = 4
    """How many zones the VPC's range is laid out for. Zones can be added later up to this number, and no subnet moves.
    A change of the number moves subnets, and with them the nodes."""
    node_subnet_prefix: Annotated[int, Field(ge=17, le=26)] | None = None
    """Prefix length of each node subnet. Default: an eighth of the VPC's range (a quarter with `zone_slots` 2 or 3),
    independent of the groups' counts, because resizing a subnet replaces it. Checked against the groups' addresses."""
    egress: Literal["nat", "closed"] = "nat"
    """`nat`: NAT gateways. `closed`: no route to the internet, interface endpoints for every service that is called."""
    nat_gateways: Annotated[int, Field(ge=1, le=4)] = 1
    """NAT gateways when `egress` is `nat`; one per zone keeps egress when a zone fails."""
    flow_log_retention_days: LogRetentionDays = 90
    """How long VPC flow logs are kept in CloudWatch Logs."""
    flow_log_group_exists: bool = False
    """Log into `/aws/vpc/ray-on-hyperpod/NAME` as it exists, such as the group that a protected environment left. The
    stack then neither creates, changes nor deletes it."""

    @property
    def closed(self) -> bool:
        """Whether the VPC has no route to the internet."""
        return self.egress == "closed"


class ExistingNodeNetwork(NetworkZones):
    """A VPC that you name; no setting of a new VPC can stand beside it."""

    kind: ClassVar = "existing"

    existing: ExistingSubnets
    """The VPC and its subnets."""


class ExistingNetwork(ExistingNodeNetwork):
    """A VPC that you name; no setting of a new VPC can stand beside it."""

    existing: ExistingVpc
    """The VPC and its subnets."""


Network = Annotated[Annotated[NewNetwork, Tag("new")] | Annotated[ExistingNetwork, Tag("existing")], kind_of("new")]
"""The VPC: new or existing."""


# --- EKS -----------------------------------------------------------------------------------------------------------


class RayUser(Settings):
    """An IAM role that may use Ray in its own namespaces and nothing else of the cluster."""

    role_arn: RoleArn
    """Who: becomes an EKS access entry (`AWS::EKS::AccessEntry`)."""
    namespaces: Annotated[list[KubernetesName], Field(min_length=1)]
    """Where: each gives them the Role `ray-user` (Ray's objects, ConfigMaps, pods and logs to read, port-forward)."""


class Endpoint(Settings):
    """The Kubernetes API server's reachability."""

    public: bool = False
    """Reachable from the internet, limited to `public_cidrs`. Private access from the VPC is always on."""
    public_cidrs: list[Cidr] = []
    """Who may reach the public endpoint; required when it is public, and `0.0.0.0/0` is refused."""


class ExistingEksCluster(Settings):
    """An EKS cluster that exists (same VPC, authentication mode API or API_AND_CONFIG_MAP, VPC CNI ≥ 1.18.3)."""

    cluster_name: Annotated[str, shapes.EKS_NAME.field()]
    """Its name."""
    security_group_id: Annotated[str, shapes.SECURITY_GROUP_ID.field()]
    """Its cluster security group."""
    oidc_issuer_url: Annotated[str, shapes.OIDC_ISSUER.field()]
    """Its OIDC issuer; an IAM OIDC provider for it must exist."""
    kubectl_role_arn: RoleArn
    """Role of the function that applies manifests: trusted by lambda.amazonaws.com, with an access entry that has
    `AmazonEKSClusterAdminPolicy`."""


class EksAccess(Settings):
    """What a new and an existing cluster share."""

    version: Annotated[str, shapes.KUBERNETES_VERSION.field()] = "1.35"
    """Kubernetes version; HyperPod supports a range (`service_rules/data/platform_versions.yaml`). Of an existing
    cluster: the version that it has."""
    admin_role_arns: list[RoleArn] = []
    """Roles with `AmazonEKSClusterAdminPolicy`. Default: only the deployment's own kubectl role."""
    ray_users: list[RayUser] = []
    """Roles limited to namespaces."""


class NewEks(EksAccess):
    """An EKS cluster that the Eks stack creates (the default): no EC2 node groups, authentication mode API."""

    kind: ClassVar = "new"

    endpoint: Endpoint = Endpoint()
    """API server endpoint. Default: private only."""
    log_retention_days: LogRetentionDays = 90
    """All five control-plane logs are on and kept this long."""
    log_group_exists: bool = False
    """Log into `/aws/eks/NAME/cluster` as it exists, such as the group that a protected environment left behind. The
    stack then neither creates, changes nor deletes it."""
    network_policy_mode: Literal["strict", "standard"] = "strict"
    """`NETWORK_POLICY_ENFORCING_MODE` of the VPC CNI. `strict`: a pod sends and receives nothing until its policies are
    loaded, and each namespace that you add needs a NetworkPolicy. `standard`: it is open until then."""


class ExistingEks(EksAccess):
    """An EKS cluster that you name. Its endpoint, logs and version stay as they are."""

    kind: ClassVar = "existing"

    existing: ExistingEksCluster
    """The cluster."""


Eks = Annotated[Annotated[NewEks, Tag("new")] | Annotated[ExistingEks, Tag("existing")], kind_of("new")]
"""The EKS cluster that orchestrates HyperPod: new or existing."""


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

    cron: Annotated[str, shapes.CRON.field()]
    """`cron(Minutes Hours Day-of-month Month Day-of-week Year)`, UTC."""
    rolling: RollingUpdate = RollingUpdate()
    """Batch policy. Default: one node at a time, five minutes apart."""


class NodeGroup(Settings):
    """What instance groups have under every orchestrator: nodes of one type with one purpose."""

    name: HyperPodName
    """`InstanceGroupName`: letters, digits, hyphens, at most 63. Renaming deletes the nodes and makes new ones."""
    type: InstanceTypeName
    """`InstanceType`, with its `ml.` prefix. Changing it deletes the nodes and makes new ones."""
    count: Annotated[int, Field(ge=0, le=6758)]
    """`InstanceCount`: number of nodes."""
    min_count: Annotated[int, Field(ge=0, le=6758)] | None = None
    """`MinInstanceCount`: the cluster may be InService with this many. Needs provisioning mode `Continuous`."""
    availability_zone_id: AvailabilityZoneId | None = None
    """Zone of the group. Default: the network's first zone. Another one becomes `OverrideVpcConfig`, immutable."""
    deep_health_checks: Annotated[list[DeepHealthCheck], Field(max_length=2)] | None = None
    """`OnStartDeepHealthChecks`. Default: both on accelerated types with two or more nodes, stress alone on a single
    one, none on CPU types. An empty list switches them off. What each runs: docs/deep-health-checks.md."""
    threads_per_core: Literal[1, 2] = 1
    """`ThreadsPerCore`: 1 switches hyper-threading off, which collective communication prefers."""
    data_volume_gib: Annotated[int, Field(ge=1, le=16384)] | None = 500
    """Size of an extra EBS volume mounted at /opt/sagemaker, where container images are kept. null: none. The root
    volume's size cannot be set (`RootVolume: true` refuses `VolumeSizeInGB`) and training images soon fill it."""
    volume_kms_key_arn: Annotated[str, shapes.KEY_ARN.field()] | None = None
    """KMS key of the root and the extra volume (`VolumeKmsKeyId`). Default: the key that AWS owns."""
    training_plan_arn: Annotated[str, shapes.TRAINING_PLAN_ARN.field()] | None = None
    """`TrainingPlanArn`: reserved capacity the group draws from."""
    capacity: Literal["on-demand", "spot"] = "on-demand"
    """`CapacityRequirements`. `spot` needs provisioning mode `Continuous` and is immutable per group."""
    image_release_version: Annotated[str, shapes.AMI_VERSION.field()] | None = None
    """`ImageReleaseVersion` of the HyperPod AMI. Default: the service's current one at creation."""
    update_schedule: UpdateSchedule | None = None
    """Scheduled software updates. Default: none; nodes change only when you request it."""
    auto_patch: Literal["WhenIdle", "WhenAllIdle"] | None = None
    """`AutoPatchConfig`: security patches of the AMI, on nodes without running jobs. HyperPod cordons all nodes of the
    group for it, for up to 24 hours. `WhenIdle` patches each node that becomes idle; `WhenAllIdle` waits until all are.
    `DrainFirst` evicts pods, and only the SageMaker API has it. Default: none."""


class InstanceGroup(NodeGroup):
    """One HyperPod instance group: nodes of one type with one purpose."""

    labels: Annotated[dict[str, str], Field(max_length=50)] = {}
    """Kubernetes labels of the nodes (`KubernetesConfig.Labels`)."""
    taints: Annotated[list[Taint], Field(max_length=50)] = []
    """Kubernetes taints of the nodes (`KubernetesConfig.Taints`)."""


class TieredStorage(Settings):
    """HyperPod's managed tiered checkpointing, for `--writer tiered`: nodes' memory, and a bucket for every few saves.

    Ray's pods get the bucket as `TIERED_S3_BASE`, and the right to write to it.
    """

    memory_percent: Annotated[int, Field(ge=1, le=100)]
    """`InstanceMemoryAllocationPercentage`: share of each node's memory that holds checkpoints. Pods get the rest."""
    bucket: Annotated[str, shapes.BUCKET.field()] | None = None
    """A bucket that you have; its lifecycle rules are yours. Default: one that the Ray stack creates,
    `tier-CLUSTER-ACCOUNT-REGION`."""
    keep_days: Annotated[int, Field(ge=1, le=3650)] = 14
    """Days after which the new bucket's lifecycle rule deletes a checkpoint; nothing else prunes them. A run that
    stands still for longer loses its copies in S3."""
    on_destroy: Literal["retain", "delete"] = "retain"
    """What `cdk destroy` does with the new bucket. A bucket that was retained is taken up again by `bucket`."""


class NodeGuard(Settings):
    """The node guard: two pods on the head's group that free the pods of a node that is gone.

    Kubernetes replaces no pod of a node that is silent and whose object stays. The guard asks HyperPod about a silent
    node. Where the instance is gone or failed, it puts the taint `node.kubernetes.io/out-of-service` on the node, and
    takes it off when the node is ready again. A node that HyperPod calls `Running` is left alone.
    """

    not_ready_seconds: Annotated[int, Field(ge=0, le=600)] = 2
    """Seconds a node is not ready before HyperPod is asked about it. Kubernetes calls a node not ready 40 to 50 s after
    its last sign of life."""


class ClusterSettings(Settings):
    """What a HyperPod cluster has under every orchestrator."""

    cluster_name: HyperPodName
    """`ClusterName`: create-only; another name is another cluster. The bucket `sagemaker-NAME-ACCOUNT-REGION` has at
    most 63 characters, which leaves 30 for the name in us-west-2."""
    node_recovery: Literal["Automatic", "None"] = "Automatic"
    """`NodeRecovery`: faulty nodes are rebooted or replaced by the service. `None` leaves them to you."""
    node_provisioning_mode: Literal["Continuous"] | None = "Continuous"
    """`NodeProvisioningMode`. `Continuous`: InService with the capacity there is, the rest follows. null: all or
    nothing."""
    instance_groups: Sequence[NodeGroup]
    """One to a hundred groups."""
    alarm_emails: list[Annotated[str, shapes.MAIL.field()]] = []
    """Email addresses subscribed to node health events and alarms (SNS; each confirms by mail)."""
    event_retention_days: LogRetentionDays = 365
    """How long the cluster's events are kept in CloudWatch Logs; the service itself keeps the newest 500."""
    event_log_group_exists: bool = False
    """Archive events in `/aws/events/ray-on-hyperpod/NAME` as it exists, such as the group that a protected environment
    left behind. The stack then neither creates, changes nor deletes it."""


class HyperPod(ClusterSettings):
    """The HyperPod cluster (`AWS::SageMaker::Cluster`)."""

    instance_groups: Annotated[list[InstanceGroup], Field(min_length=1, max_length=100)]
    """One to a hundred groups."""
    managed_autoscaling: bool = False
    """`AutoScaling` by HyperPod's managed Karpenter: it scales the groups with `count: 0`, for each of which a
    `HyperpodNodeClass` and a `NodePool` are created. Needs `Continuous` and `node_recovery: Automatic`."""
    node_guard: NodeGuard | None = NodeGuard()
    """The node guard. Default: on. null: none; pods of a silent node that is kept then wait for `nodes free`."""
    tiered_storage: TieredStorage | None = None
    """Managed tiered checkpoints: nodes' memory first, then S3. Default: off."""


# --- storage -------------------------------------------------------------------------------------------------------


class ExistingFileSystem(Settings):
    """An FSx for Lustre file system that exists."""

    file_system_id: Annotated[str, shapes.FILE_SYSTEM_ID.field()]
    """`FileSystemId`."""
    mount_name: Annotated[str, shapes.MOUNT_NAME.field()]
    """`LustreMountName`."""
    availability_zone_id: AvailabilityZoneId
    """Where it is: traffic between zones is slow and charged."""


FileEvent = Literal["NEW", "CHANGED", "DELETED"]


class DataRepository(Settings):
    """A link between a folder of the file system and a bucket, or what is below a prefix of it.

    Creates `AWS::FSx::DataRepositoryAssociation`. FSx itself reads and writes the bucket: pods and nodes need no right
    to it. Files appear with their names at once and get their content at the first read.
    """

    bucket: Annotated[str, shapes.BUCKET.field()]
    """Name of the bucket. It exists before the deploy."""
    prefix: Annotated[str, shapes.PREFIX.field(max_length=900)] = ""
    """Prefix that ends with `/`. Default: the whole bucket."""
    path: Annotated[str, shapes.FILE_SYSTEM_PATH.field(max_length=200)]
    """Folder of the file system (`FileSystemPath`): `/data/images` is `/fsx/data/images` in Ray's pods."""
    import_metadata: bool = True
    """`BatchImportMetaDataOnCreate`: list the objects that are there when the link is created. A later change replaces
    the link, and the deploy is refused."""
    auto_import: Annotated[list[FileEvent], Field(max_length=3)] = ["NEW", "CHANGED", "DELETED"]
    """`AutoImportPolicy`: which events in the bucket change the folder. Needs a bucket in the environment's region."""
    auto_export: Annotated[list[FileEvent], Field(max_length=3)] = []
    """`AutoExportPolicy`: which events in the folder change the bucket. Default: none. Ray's pods may write to folders
    that are exported, and read the others."""


class NewFileSystem(Settings):
    """What a file system is created with, by the stack or by a claim (FSx for Lustre, PERSISTENT_2 SSD)."""

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
    """Zone of the file system. Default: the zone of the Ray workers."""
    on_destroy: Literal["retain", "delete"] = "retain"
    """What `cdk destroy` does with the data: keep the file system, or delete it permanently."""


class StaticStorage(NewFileSystem):
    """A file system that the Storage stack creates, beside EKS (the default)."""

    kind: ClassVar = "static"

    mode: Literal["static"] = "static"
    """`static`: the stack creates the file system. `dynamic`: the CSI driver creates it from a claim."""
    efa: bool = False
    """`EfaEnabled`: a node with EFA and Nitro v4 or later may exchange 700 Gb/s with the file system instead of 100.
    The lifecycle script configures Lustre for it where the AMI has AWS's set-up; its log says whether. Create-only: a
    change makes a new, empty file system. Sizes are multiples of 38400, 19200, 9600 or 4800 GiB at 125, 250, 500 or
    1000 MB/s per TiB."""
    data_repositories: Annotated[list[DataRepository], Field(max_length=8)] = []
    """Links to S3. A file system with a link takes no backups (`backup_retention_days` must be 0)."""


class DynamicStorage(NewFileSystem):
    """A file system that the FSx CSI driver creates from a claim, as in the AWS article.

    It takes ten minutes more, and CloudFormation does not own it.
    """

    kind: ClassVar = "dynamic"

    mode: Literal["dynamic"]
    """`static`: the stack creates the file system. `dynamic`: the CSI driver creates it from a claim."""


class ExistingStorage(Settings):
    """A file system that you name. It is mounted, and never changed or deleted."""

    kind: ClassVar = "existing"

    existing: ExistingFileSystem
    """The file system."""


Storage = Annotated[
    Annotated[StaticStorage, Tag("static")]
    | Annotated[DynamicStorage, Tag("dynamic")]
    | Annotated[ExistingStorage, Tag("existing")],
    kind_of("static"),
]
"""The shared file system for code, data and checkpoints, mounted at /fsx."""


# --- image ---------------------------------------------------------------------------------------------------------


class PackageIndex(Settings):
    """The package index that a build asks in place of PyPI: a repository of CodeArtifact, or an address."""

    codeartifact_arn: Annotated[str, shapes.CODEARTIFACT_ARN.field()] | None = None
    """Repository of AWS CodeArtifact. The build reads it by a token that is valid for one hour. Default: `url`."""
    url: Annotated[str, shapes.INDEX_URL.field(max_length=500)] | None = None
    """Address of the index, as pip's `--index-url` takes it. Default: `codeartifact_arn`."""
    secret_arn: Annotated[str, shapes.SECRET_ARN.field()] | None = None
    """Secret in AWS Secrets Manager with the keys `username` and `password`, for `url`. The build reads it; it is in
    no layer, log or template. Encrypt it with the key `aws/secretsmanager`. Default: the index asks for none."""


class BuiltImage(Settings):
    """An image that CodeBuild builds from a folder and stores in a repository of the stack (the default)."""

    kind: ClassVar = "built"

    repository_name: Annotated[str, shapes.REPOSITORY.field(min_length=2, max_length=256)] | None = None
    """ECR repository created by the stack (immutable tags, scanned on push). Default: `ray-` and the name of the
    environment."""
    repository_exists: bool = False
    """Push into a repository that exists, such as one that an earlier teardown kept. The stack then neither creates,
    changes nor deletes it."""
    folder: str = "image"
    """Folder with the Dockerfile, relative to the project; built by CodeBuild when its content changes."""
    set: Annotated[str, shapes.IMAGE_SET.field()] | None = None
    """Set of `image/versions.yaml`: Ray, torch and CUDA, and with `-transformers` the usual libraries of language
    models. Default: its default set. Only of the folder `image`."""
    requirements: Annotated[str, shapes.REQUIREMENTS.field(max_length=200)] | None = None
    """Requirements file of your own (`NAME.in`, relative to the project), whose packages the image gets too.
    The command `image lock` writes its lock beside it, `NAME.txt`. Default: none. Only of the folder `image`."""
    index: PackageIndex | None = None
    """Package index of the build. Default: PyPI. Only of the folder `image`."""
    wheels: Annotated[str, shapes.FOLDER.field(max_length=200)] | None = None
    """Folder of wheels that travel with the build, relative to the project. pip takes a locked package from it where
    it is there. Default: none. Only of the folder `image`."""
    no_index: bool = False
    """Whether the build asks no package index at all: `wheels` has every file that the locks name."""
    base: Annotated[str, shapes.IMAGE_DIGEST.field()] | None = None
    """Base image by digest, such as a copy in Amazon ECR. Default: that of the set. Only of the folder `image`."""
    in_vpc: bool = False
    """Whether CodeBuild runs in the node subnets of the VPC. In a closed network it then reaches no internet: name
    `base`, and `index` or `no_index`."""
    keep_images: Annotated[int, Field(ge=1, le=1000)] = 30
    """Newest images kept by the repository's lifecycle rule."""
    on_destroy: Literal["retain", "delete"] = "retain"
    """What `cdk destroy` does with the repository and its images."""


class ExistingImage(Settings):
    """An image that you name. Nothing is built and no repository is created."""

    kind: ClassVar = "existing"

    uri: Annotated[str, shapes.IMAGE_DIGEST.field()]
    """The image, by digest."""


Image = Annotated[
    Annotated[BuiltImage, Tag("built")] | Annotated[ExistingImage, Tag("existing")], kind_of("built", key="uri")
]
"""The container image of head and workers: built or existing."""


# --- Ray -----------------------------------------------------------------------------------------------------------


class RayPod(Settings):
    """Resources of a head or worker pod. Defaults come from the instance type (one worker pod per node)."""

    instance_group: HyperPodName
    """Name of the HyperPod instance group whose nodes carry the pod."""
    cpu: Annotated[int, Field(ge=1)] | None = None
    """vCPU requested and limited. Default: what the node can give after system pods, by the share of GPUs taken."""
    memory_gib: Annotated[int, Field(ge=1)] | None = None
    """Memory requested and limited. Default: as for `cpu`."""
    env: dict[Annotated[str, shapes.VARIABLE.field()], str] = {}
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
    """Number of pods."""
    min_replicas: Annotated[int, Field(ge=0)] | None = None
    """Default: `replicas`."""
    max_replicas: Annotated[int, Field(ge=0)] | None = None
    """Default: `replicas`. Must be reachable with the instance group's nodes."""
    gpus: Annotated[int, Field(ge=0)] | None = None
    """`nvidia.com/gpu` (or Neuron devices) per pod. Default: all of the instance type's."""
    efa: Annotated[int, Field(ge=0)] | None = None
    """`vpc.amazonaws.com/efa` interfaces per pod. Default: all of the instance type's, in proportion to `gpus`."""
    shared_memory_gib: Annotated[int, Field(ge=1)] | None = None
    """Size of /dev/shm. Default: a quarter of the pod's memory."""


class GcsFaultTolerance(Settings):
    """Head failure without losing running work: GCS state in Redis, driver on a CPU worker group."""

    driver_instance_group: HyperPodName
    """CPU instance group that carries the job's driver, off the head's node."""
    redis_image: Annotated[str, shapes.IMAGE_DIGEST.field()] | None = None
    """Redis by digest, run in the namespace. Without it, `redis_address` is required."""
    redis_address: Annotated[str, shapes.REDIS_ADDRESS.field()] | None = None
    """An existing Redis, for example ElastiCache: `rediss://cache.example.com:6379`. `rediss://` is TLS, and the head
    trusts the certificate authorities of its image (`RAY_REDIS_CA_PATH`)."""
    redis_username: Annotated[str, shapes.REDIS_USER.field()] | None = None
    """User of an existing Redis with access control lists. Default: none."""
    redis_password_secret: KubernetesName | None = None
    """Name of a Kubernetes Secret in the Ray namespace whose key `password` opens an existing Redis. You create it; the
    head waits until it is there. Ray users can start pods that mount it. Default: no password."""


class Observability(Settings):
    """A Prometheus and a Grafana of your own: who may scrape Ray's metrics, and where the Ray dashboard finds charts.

    Nothing is installed for it. The section `observability` at the top level installs AWS's add-on, and lets it scrape.
    """

    scrape_namespaces: Annotated[list[KubernetesName], Field(max_length=10)] = []
    """Namespaces whose pods may scrape port 8080 of Ray's pods."""
    grafana_host: str | None = None
    """`RAY_GRAFANA_HOST`: Grafana's URL as the head reaches it. Default: not set."""
    grafana_iframe_host: str | None = None
    """`RAY_GRAFANA_IFRAME_HOST`: Grafana's URL as your browser reaches it. Default: not set."""
    prometheus_host: str | None = None
    """`RAY_PROMETHEUS_HOST`: Prometheus' URL as the head reaches it. Default: not set."""


class S3Access(Settings):
    """A bucket, or what is below a prefix of it, that Ray's pods may use."""

    bucket: Annotated[str, shapes.BUCKET.field()]
    """Name of the bucket."""
    prefix: Annotated[str, shapes.PREFIX.field(max_length=900)] = ""
    """Prefix that ends with `/`. Default: the whole bucket."""
    mode: Literal["read", "write"] = "read"
    """`read`: list and read objects. `write`: also write and delete them."""


class RayAccess(Settings):
    """What Ray's pods may do in AWS: a role for service account `ray` by EKS Pod Identity, and nothing else."""

    s3: Annotated[list[S3Access], Field(max_length=20)] = []
    """Buckets and prefixes: for data, for `--storage s3://…`, and for the second tier of tiered checkpoints."""
    kms_key_arns: Annotated[list[Annotated[str, shapes.KEY_ARN.field()]], Field(max_length=20)] = []
    """Keys that encrypt those buckets (SSE-KMS); used through S3 only. Default: none, as SSE-S3 needs none."""
    secret_arns: Annotated[list[Annotated[str, shapes.SECRET_ARN.field()]], Field(max_length=20)] = []
    """Secrets in AWS Secrets Manager that Ray's pods may read, for `secrets` of a job. Keys that encrypt them go into
    `kms_key_arns`. Default: none."""
    mlflow_arn: Annotated[str, shapes.MLFLOW_ARN.field()] | None = None
    """SageMaker's MLflow tracking server or app. Pods get it as `MLFLOW_TRACKING_URI`; the packages `mlflow` and
    `sagemaker-mlflow` are yours to add. Artifacts need their bucket in `s3`."""


class Tracking(Settings):
    """Metrics of runs in an experiment tracker. The training library sends them; no tracker can stop training."""

    mlflow: Annotated[str, shapes.TRACKING_URL.field()] | None = None
    """A tracking server of MLflow, at port 443. Default: the one of `ray.access.mlflow_arn`, where that is set. Give a
    token as a job's secret `MLFLOW_TRACKING_TOKEN`."""
    experiment: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Experiment in MLflow. Default: the environment's name."""
    wandb_project: Annotated[str, shapes.WANDB_PROJECT.field()] | None = None
    """Project in Weights & Biases. The package `wandb` and the job's secret `WANDB_API_KEY` are yours to add. Default:
    nothing goes there."""


class HangRule(Settings):
    """A rule of hung job detection, in the service's own schema.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-ray-hung-job-detection.html
    """

    name: Annotated[str, Field(min_length=1, max_length=64)]
    """What events call the rule."""
    type: Literal["log_pattern"] = "log_pattern"
    """Kind of the rule."""
    enabled: bool = False
    """Whether the rule is active. The service's default is `false`."""
    log_pattern: Annotated[str, Field(min_length=1, max_length=256)]
    """Regular expression in RE2 syntax, looked for in each line of a worker's standard output. The training library
    writes `step N` there."""
    timeout_minutes: Annotated[float, Field(gt=0, le=1440)] | None = None
    """Longest time between two lines that match. Default: no limit."""
    start_timeout_minutes: Annotated[float, Field(gt=0, le=1440)] | None = None
    """Longest time from the job's start to the first line that matches. Default: no limit."""
    stop_pattern: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """Regular expression in RE2 syntax; a line that matches ends the rule. Default: none."""
    fault_on_match: bool = False
    """Whether a line that matches `log_pattern` is itself the fault."""
    metric_evaluation_data_points: Annotated[int, Field(ge=1, le=100)] = 1
    """Evaluations in a row that must fail before the job counts as hung."""


class HungJobDetection(Settings):
    """Rules for HyperPod's job monitoring agent. A run sends them when it starts; they replace the default detection.

    They are a ConfigMap that head and workers mount. A change interrupts nothing: runs that start later send it.
    """

    enabled: bool = True
    """`false` switches off hung job detection, the service's default detection too."""
    rules: Annotated[list[HangRule], Field(max_length=20)] = []
    """The rules. Without one that is enabled nothing is detected."""
    action: Literal["notify", "cancel"] = "notify"
    """`notify`: an event, which `status` and mails show. `cancel`: the agent also ends the hung worker, and the run
    resumes from its checkpoint."""


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
    secrets: Annotated[list[KubernetesName], Field(max_length=20)] = []
    """Kubernetes Secrets of the Ray namespace that head and workers mount, for `secrets` of a job. You create them;
    pods start without one that is not there yet, and see a changed value within two minutes. Every Ray user of the
    namespace can use them. Default: none."""
    auth: Literal["token", "none"] = "token"
    """`authOptions.mode`. The dashboard and Jobs API run code by design: `none` is for rehearsal only."""
    env: dict[Annotated[str, shapes.VARIABLE.field()], str] = {}
    """Environment variables of head and workers."""
    drain_timeout_seconds: Annotated[int, Field(ge=5, le=600)] = 90
    """How long a worker that must stop may save and drain (`RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S`); the pod's
    termination grace period is 30 s longer."""
    node_loss_seconds: Annotated[int, Field(ge=0, le=300)] = 30
    """Toleration of `not-ready` and `unreachable` before a pod is evicted. Kubernetes' own default is 300."""
    training_spares: Annotated[int, Field(ge=0)] = 0
    """Training processes that stand by for a lost one (`RESILIENCE_SPARES`); each needs a place, a GPU on GPU groups.
    Cover a lost node with as many as a worker pod has GPUs."""
    gcs_fault_tolerance: GcsFaultTolerance | None = None
    """Default: off. A head failure then ends the job; submit it again and it resumes from its checkpoint."""
    observability: Observability | None = None
    """Default: nobody scrapes Ray's metrics, and no Grafana or Prometheus variables."""
    access: RayAccess | None = None
    """What Ray's pods may do in AWS. Default: nothing; they then have no identity."""
    tracking: Tracking | None = None
    """Default: off. Metrics are in the run's own journal, whatever this says."""
    hung_job_detection: HungJobDetection | None = None
    """Rules by which HyperPod finds hung jobs. Default: the service's own detection, which notifies."""


# --- teams ---------------------------------------------------------------------------------------------------------


class TeamQuota(Settings):
    """What one team has of one instance type (`ComputeQuotaResources`): instances, or parts of them."""

    type: InstanceTypeName
    """`InstanceType`, with its `ml.` prefix: that of an instance group."""
    instances: Annotated[int, Field(ge=0, le=6758)] | None = None
    """Whole instances (`Count`). Alone: neither of the others can stand beside it."""
    accelerators: Annotated[int, Field(ge=0, le=100_000)] | None = None
    """GPUs or Neuron devices (`Accelerators`). SageMaker adds vCPUs and memory in proportion."""
    vcpus: Annotated[int, Field(ge=0, le=10_000_000)] | None = None
    """vCPUs (`VCpu`): for the heads of a team's jobs, which need no whole instance."""
    memory_gib: Annotated[int, Field(ge=0, le=10_000_000)] | None = None
    """Memory (`MemoryInGiB`). Default: in proportion to the others."""


class Team(Settings):
    """A team (`AWS::SageMaker::ComputeQuota`): its share, its namespace `hyperpod-ns-NAME` and its queue there.

    Jobs of the team are RayClusters of their own in that namespace: `submit --team NAME`.
    """

    name: Annotated[str, shapes.TEAM.field()]
    """`TeamName`: create-only; another name is another team, with a namespace of its own."""
    quota: Annotated[list[TeamQuota], Field(min_length=1, max_length=15)]
    """What the team is sure of, by instance type. It needs the head's type too: each job has a head."""
    fair_share_weight: Annotated[int, Field(ge=0, le=100)] = 50
    """`FairShareWeight`: of what is idle, a team with twice the weight gets twice as much."""
    sharing: Literal["lend-and-borrow", "lend", "none"] = "lend-and-borrow"
    """`Strategy`: whether others use what the team leaves idle, and the team what others leave."""
    borrow_limit_percent: Annotated[int, Field(ge=1, le=500)] = 50
    """`BorrowLimit`: how much the team borrows at most, in percent of its own quota."""
    preempt_lower_priority: bool = True
    """`PreemptTeamTasks`: a job with a higher priority takes the place of one of the same team with a lower."""
    role_arns: list[RoleArn] = []
    """IAM roles of the team's members: each becomes a Ray user of the team's namespace, and of nothing else."""


class PriorityClass(Settings):
    """A priority of jobs (`PriorityClasses`). Jobs name it as `priority`."""

    name: Annotated[str, shapes.TEAM.field()]
    """Its name. In Kubernetes the WorkloadPriorityClass is called `NAME-priority`."""
    weight: Annotated[int, Field(ge=0, le=100)]
    """More goes first, and takes the place of less."""


class TaskGovernance(Settings):
    """How teams share what is idle (`AWS::SageMaker::ClusterSchedulerConfig`).

    The Platform stack installs the add-on `amazon-sagemaker-hyperpod-taskgovernance`, which is Kueue.
    """

    priority_classes: Annotated[list[PriorityClass], Field(max_length=10)] = []
    """Priorities that jobs can name. Default: none; jobs of a queue then start in their order."""
    fair_share: bool = True
    """`FairShare`: idle instances go to teams by weight. Without it, to who asks first."""
    share_idle: bool = True
    """`IdleResourceSharing`: instances that no quota covers go to teams that borrow."""


# --- training ------------------------------------------------------------------------------------------------------


class Training(Settings):
    """What is trained here: the command `plan` takes it from here, and checks, reviews and jobs use the plan.

    It changes no template.
    """

    model: Annotated[str, shapes.MODEL.field()] | None = None
    """A model that the planner knows (`planner/data/models.yaml`). Either this or `parameters`."""
    parameters: Amount | None = None
    """Number of parameters of another dense model, such as `13B`; its shape is then assumed."""
    tokens: Amount
    """Tokens to train on, such as `1T`."""
    sequence: Annotated[int, Field(ge=128, le=1_048_576)] = 8192
    """Tokens of one sequence; one sequence per GPU is a micro-batch."""
    batch_tokens: Amount = "4M"
    """Tokens of one step over all GPUs."""
    save: Literal["async", "sync"] = "async"
    """How checkpoints are saved, as with `--save` of a job."""
    save_every_seconds: Annotated[int, Field(ge=1, le=604_800)] | None = None
    """Seconds of training between two checkpoints; `submit` passes it to the job. Default: the job's own interval in
    steps. `plan --write` writes the best one."""
    keep: Annotated[int, Field(ge=1, le=1000)] = 3
    """Checkpoints that the job keeps, as with `--keep`."""
    tokens_per_second: Annotated[float, Field(gt=0)] | None = None
    """Tokens per second of one GPU that you measured. Default: the published range of the GPU, where there is one."""


# --- Helm ----------------------------------------------------------------------------------------------------------


class Helm(Settings):
    """Versions of the Helm charts; what is fetched for them is pinned in `charts.lock.yaml`."""

    hyperpod_dependencies: SemanticVersion = "0.1.0"
    """Version of AWS's HyperPodHelmChart (health monitoring agent, device plugins, job auto restart)."""
    kuberay_operator: SemanticVersion = "1.7.0"
    """Version of the KubeRay operator chart. Its CRDs are not upgraded by `helm upgrade`."""
    lock_file: Annotated[str, shapes.LOCK_FILE.field()] = "charts.lock.yaml"
    """Lock file of the charts that are deployed, relative to the project. Default: the project's own; the rehearsal's
    stand-in charts have theirs."""


class GrafanaWorkspace(Settings):
    """An Amazon Managed Grafana workspace that you have; it needs IAM Identity Center or SAML.

    The add-on imports its dashboards into it, four of Ray among them (Core, Data, Train, Serve).
    """

    workspace_name: Annotated[str, Field(min_length=1, max_length=255)]
    """Name of the workspace."""
    workspace_arn: Annotated[str, shapes.GRAFANA_ARN.field()]
    """ARN of the workspace."""


class ManagedMetrics(Settings):
    """Metrics of nodes, GPUs and Ray, and alerts on them.

    The Platform stack installs the add-on `amazon-sagemaker-hyperpod-observability`, with a workspace of Amazon Managed
    Service for Prometheus (`AWS::APS::Workspace`).
    """

    level: Literal["BASIC", "ADVANCED"] = "BASIC"
    """Metrics of nodes, GPUs and the cluster. `ADVANCED` adds those that AWS leaves off by default, and EFA's."""
    scrape_seconds: Annotated[int, Field(ge=15, le=300)] = 30
    """Seconds between two samples. Half of it doubles what Amazon Managed Service for Prometheus charges."""
    retention_days: Annotated[int, Field(ge=1, le=1095)] = 150
    """Days for which the workspace keeps samples."""
    container_logs: bool = False
    """Let the add-on send the logs of containers to CloudWatch Logs."""
    workers_missing_minutes: Annotated[int, Field(ge=1, le=1440)] | None = 40
    """Minutes with fewer Ray nodes than the file asks for, until a mail. Default: longer than a replacement takes.
    null: no alert."""
    operator_down_minutes: Annotated[int, Field(ge=1, le=1440)] | None = 10
    """Minutes without metrics of the KubeRay operator, until a mail. null: no alert."""
    gpus_idle_minutes: Annotated[int, Field(ge=5, le=1440)] | None = 60
    """Minutes in which no GPU of Ray's is used by 5 percent, until a mail. null: no alert."""
    no_step_minutes: Annotated[int, Field(ge=5, le=1440)] | None = 45
    """Minutes without a step of a run of the training library, until a mail. Default: longer than a replacement takes.
    null: no alert."""
    grafana: GrafanaWorkspace | None = None
    """A Grafana workspace for the add-on's dashboards. Default: none; the metrics are in Prometheus only."""
    on_destroy: Literal["retain", "delete"] = "delete"
    """What `cdk destroy` does with the Prometheus workspace and its samples."""


class Budget(Settings):
    """A monthly budget of this environment (`AWS::Budgets::Budget`), by the tag `hyperpod-ray:environment`.

    Activate the tag once in the Billing console as a cost allocation tag; until then AWS counts nothing.
    """

    usd_per_month: Annotated[float, Field(gt=0, le=1_000_000_000)]
    """US dollars of a calendar month."""
    alert_percent: Annotated[list[Annotated[int, Field(ge=1, le=1000)]], Field(min_length=1, max_length=4)] = [80, 100]
    """Percent of the budget at whose cost so far a mail is sent."""
    forecast_percent: Annotated[int, Field(ge=1, le=1000)] | None = 100
    """Percent of the budget at whose forecast a mail is sent. AWS needs about five weeks of costs for a forecast. null:
    no mail."""


class InstanceTypeSpec(Settings):
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
    """Threads of one core. Default: 2; Graviton and some newer types have 1 and refuse `threads_per_core: 2`."""
    architecture: Literal["x86_64", "arm64"] = "x86_64"
    """Processor architecture; head, workers and image must have the same."""


class Registries(Settings):
    """Where nodes pull container images from, besides AWS's own registries and the image's repository."""

    mirror: bool = False
    """Copy every image of another registry (KubeRay's operator, device plugins, Redis, `image.uri`) into repositories
    of this account that the Mirror stack creates, and let pods pull the copies. A closed network needs it."""
    pull_from: list[EcrRepositories] = []
    """Further Amazon ECR repositories that pods may pull from, of any account and region:
    `111122223333.dkr.ecr.us-west-2.amazonaws.com/team/*`. Their own policies must let this account pull."""
    pull_through_caches: list[CachePrefix] = []
    """Repository prefixes of pull-through caches that this account and region have: nodes may pull from them, and
    bring in what is not cached yet (`ecr:BatchImportUpstreamImage`, `ecr:CreateRepository`)."""


class Ground(Settings):
    """What an environment has under every orchestrator."""

    orchestrator: str
    """What runs the nodes' work."""
    account: AccountId
    """The AWS account, quoted."""
    region: Region
    """The AWS region."""
    tags: Annotated[dict[str, str], Field(max_length=40)] = {}
    """Tags of every resource, on top of `hyperpod-ray:environment`."""
    protected: bool = False
    """Termination protection on the stacks, a typed confirmation on teardown, data and images retained."""
    network: NetworkZones
    """The VPC."""
    hyperpod: ClusterSettings
    """The HyperPod cluster."""
    storage: StaticStorage | DynamicStorage | ExistingStorage = StaticStorage()
    """The shared file system."""
    image: BuiltImage | ExistingImage | None = None
    """The container image."""
    budget: Budget | None = None
    """A monthly budget with mails. Default: none."""
    instance_types: dict[InstanceTypeName, InstanceTypeSpec] = {}
    """Figures of types that `service_rules/data/instance_types.yaml` does not hold."""


class Environment(Ground):
    """One environment: one file, one CDK Stage named like the file."""

    orchestrator: Literal["eks"] = "eks"
    """What runs the nodes' work: `eks` for Ray by KubeRay, `slurm` for jobs by `sbatch`. An environment is either of
    the two, and cannot become the other."""
    network: Network
    """The VPC."""
    eks: Eks = NewEks()
    """The EKS cluster."""
    hyperpod: HyperPod
    """The HyperPod cluster."""
    storage: Storage = StaticStorage()
    """The shared file system."""
    image: Image = BuiltImage()
    """The container image."""
    registries: Registries = Registries()
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
    helm: Helm = Helm()
    """Chart versions."""


NAME = re.compile(r"^(?=.{1,21}$)[a-z][a-z0-9]*(-[a-z0-9]+)*$")
"""Name of an environment (the file's stem): it becomes part of stack names and of an ECR repository's name."""
