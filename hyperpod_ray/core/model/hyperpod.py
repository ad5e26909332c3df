"""Section `hyperpod`: the cluster and its instance groups."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from hyperpod_ray.core import shapes
from hyperpod_ray.core.model.words import (
    AvailabilityZoneId,
    DeepHealthCheck,
    HyperPodName,
    InstanceTypeName,
    LogRetentionDays,
    Settings,
)


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
    rolling: RollingUpdate = RollingUpdate.defaults()
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
    image_id: Annotated[str, shapes.AMI_ID.field()] | None = None
    """`ImageId`: an AMI of your own, built from a HyperPod AMI: of this account and Region, not encrypted, with one
    volume. You update it; HyperPod patches its own AMI only. Its NVIDIA driver must serve the image's CUDA: `nodes
    check` says where it does not. Default: the HyperPod AMI."""
    network_interface: Literal["efa", "efa-only"] | None = None
    """`NetworkInterface`, for types with EFA: `efa-only` gives EFA devices beside the first no IP address, which leaves
    addresses of the node subnet to pods. AWS does not document what a change does to nodes. Default: the service's."""
    update_schedule: UpdateSchedule | None = None
    """Scheduled software updates. Default: none; nodes change only when you request it."""
    auto_patch: Literal["WhenIdle", "WhenAllIdle"] | None = None
    """`AutoPatchConfig`: security patches of the AMI, on nodes without running jobs. HyperPod cordons all nodes of the
    group for it, for up to 24 hours. `WhenIdle` patches each node that becomes idle; `WhenAllIdle` waits until all are.
    Only the SageMaker API has `DrainFirst`, which evicts pods, and another date or wait. `status` shows the next date.
    Default: none."""

    @property
    def types(self) -> list[str]:
        """Types that its nodes may have, the first choice first."""
        return [self.type]


class InstanceGroup(NodeGroup):
    """One HyperPod instance group: nodes of one type with one purpose."""

    labels: Annotated[dict[str, str], Field(max_length=50)] = {}
    """Kubernetes labels of the nodes (`KubernetesConfig.Labels`)."""
    taints: Annotated[list[Taint], Field(max_length=50)] = []
    """Kubernetes taints of the nodes (`KubernetesConfig.Taints`)."""
    fallback_types: Annotated[list[InstanceTypeName], Field(max_length=19)] = []
    """Types that HyperPod takes, in this order, where `type` has no capacity (`InstanceRequirements`). `type` sizes the
    pods, so each has its accelerators, and no less of the rest. Needs provisioning mode `Continuous`; not with
    a training plan, managed autoscaling or task governance. Default: none."""

    @property
    def types(self) -> list[str]:
        """Types that its nodes may have, the first choice first."""
        return [self.type, *self.fallback_types]


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


class SlackChannel(Settings):
    """A Slack channel that alarms reach (`AWS::Chatbot::SlackChannelConfiguration`)."""

    workspace_id: Annotated[str, shapes.SLACK_WORKSPACE.field()]
    """`SlackWorkspaceId`. Authorize the workspace once in the console of Amazon Q Developer in chat applications."""
    channel_id: Annotated[str, shapes.SLACK_CHANNEL.field()]
    """`SlackChannelId`. Invite `@Amazon Q` to a private channel."""


class TeamsChannel(Settings):
    """A Microsoft Teams channel that alarms reach (`AWS::Chatbot::MicrosoftTeamsChannelConfiguration`)."""

    tenant_id: Annotated[str, shapes.TEAMS_ID.field()]
    """`TeamsTenantId`."""
    team_id: Annotated[str, shapes.TEAMS_ID.field()]
    """`TeamId`. Configure the team once in the console of Amazon Q Developer in chat applications."""
    channel_id: Annotated[str, shapes.TEAMS_CHANNEL.field(max_length=255)]
    """`TeamsChannelId`."""


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
    alarm_https: Annotated[list[Annotated[str, shapes.HTTPS.field(max_length=1024)]], Field(max_length=20)] = []
    """HTTPS endpoints that SNS posts the same to (`AWS::SNS::Subscription`). Each has to confirm: it fetches the
    `SubscribeURL` of the first request. An address that is a secret itself does not belong into a file: subscribe it
    with `aws sns subscribe`."""
    alarm_topic_arn: Annotated[str, shapes.TOPIC_ARN.field()] | None = None
    """A topic that you have, in the environment's Region: it gets alarms, events and alerts beside the environment's
    own. Its policy must let CloudWatch and EventBridge publish. Default: none."""
    alarm_slack: Annotated[list[SlackChannel], Field(max_length=10)] = []
    """Slack channels that alarms, events and alerts on metrics reach, by Amazon Q Developer in chat applications. A
    channel has one configuration in an account. The budget notifies one topic, that of mails."""
    alarm_teams: Annotated[list[TeamsChannel], Field(max_length=10)] = []
    """Microsoft Teams channels, likewise."""
    runbook_url: Annotated[str, shapes.RUNBOOK_URL.field(max_length=300)] | None = None
    """Address of the page `docs/alarms.md` where your people read it. Each mail ends with it, and with `#` and the
    alarm's name in lower case. Default: none; mails name the section of the runbook in the repository."""
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
    node_guard: NodeGuard | None = NodeGuard.defaults()
    """The node guard. Default: on. null: none; pods of a silent node that is kept then wait for `nodes free`."""
    tiered_storage: TieredStorage | None = None
    """Managed tiered checkpoints: nodes' memory first, then S3. Default: off."""
