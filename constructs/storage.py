"""The shared file system and its driver."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aws_cdk import Duration, RemovalPolicy, Stack, Tags
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms

from constructs import Construct
from hyperpod_ray.constructs.alarms import Watch
from hyperpod_ray.constructs.cluster import addon
from hyperpod_ray.constructs.identity import service_account_role
from hyperpod_ray.core import notifications
from hyperpod_ray.core.names import CSI_ADDON, CSI_SERVICE_ACCOUNT, ENVIRONMENT_TAG, KUBE_SYSTEM

CONTROLLER_TOLERATIONS: tuple[dict[str, object], ...] = (
    {"key": "CriticalAddonsOnly", "operator": "Exists"},
    {"effect": "NoExecute", "operator": "Exists", "tolerationSeconds": 300},
)
"""Default tolerations of the controllers of the FSx and the EBS driver.
https://github.com/kubernetes-sigs/aws-fsx-csi-driver/blob/master/charts/aws-fsx-csi-driver/values.yaml
https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/charts/aws-ebs-csi-driver/values.yaml
"""
CONTROLLER_SERVICE_ACCOUNT = f"system:serviceaccount:{KUBE_SYSTEM}:{CSI_SERVICE_ACCOUNT}"
FREE_SPACE_ALARM_SHARE = 0.1


@dataclass(frozen=True, kw_only=True)
class Ssd:
    """A size on SSD, and the rate that follows from it.

    Args:
        capacity_gib: 1200 or a multiple of 2400.
        throughput_mbs_per_tib: 125, 250, 500 or 1000 MB/s for each TiB.
        lustre_version: Create-only.
    """

    capacity_gib: int
    throughput_mbs_per_tib: int
    lustre_version: str


@dataclass(frozen=True, kw_only=True)
class IntelligentTiering:
    """No size, and a rate that is bought by itself. Its Lustre version is 2.15.

    https://docs.aws.amazon.com/fsx/latest/LustreGuide/intelligent-tiering-file-systems.html

    Args:
        throughput_mbs: 4000 or a multiple of it; it only grows.
        read_cache: `DataReadCacheConfiguration`, as the API has it.
        metadata_iops: 6000 or 12000; they only grow.
    """

    throughput_mbs: int
    read_cache: Mapping[str, Any]
    metadata_iops: int


@dataclass(frozen=True, kw_only=True)
class DataRepository:
    """A link between a folder of the file system and a bucket, or what is below a prefix of it.

    Args:
        bucket: Name of the bucket.
        path: Folder of the file system.
        prefix: Prefix that ends with `/`. Default: the whole bucket.
        import_metadata: List the objects that are there when the link is created.
        auto_import: Events in the bucket that change the folder: NEW, CHANGED, DELETED.
        auto_export: Events in the folder that change the bucket: likewise.
    """

    bucket: str
    path: str
    prefix: str = ""
    import_metadata: bool = True
    auto_import: Sequence[str] = ()
    auto_export: Sequence[str] = ()


class LustreFileSystem(Construct):
    """An FSx for Lustre file system beside EKS, with its own KMS key and its links to S3.

    Creates `AWS::FSx::FileSystem` (PERSISTENT_2, SSD or INTELLIGENT_TIERING) and
    `AWS::FSx::DataRepositoryAssociation`.

    Its subnet, key, deployment type, storage class and Lustre version are create-only: changing one makes a new, empty
    file system.
    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-resource-fsx-filesystem.html

    Args:
        storage: The storage class, with what it is bought by.
        efa: Whether instances reach it over EFA; create-only, with sizes of its own, and its security group must let
            all traffic through between them. Default: no.
        compression: `LZ4` or `NONE`.
        backup_retention_days: 0: no automatic backups.
        retain: Whether file system and key stay when the stack goes.
        data_repositories: Links to S3, which Intelligent-Tiering has none of.
        subnet: Exactly one; the workers' zone, because traffic between zones is slow and charged.
        security_group: Lets the nodes in.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        storage: Ssd | IntelligentTiering,
        efa: bool = False,
        compression: str,
        backup_retention_days: int,
        retain: bool,
        data_repositories: Sequence[DataRepository] = (),
        subnet: ec2.ISubnet,
        security_group: ec2.ISecurityGroup,
    ) -> None:
        super().__init__(scope, construct_id)
        policy = RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if retain else RemovalPolicy.DESTROY
        key = kms.Key(self, "Key", description="FSx for Lustre", enable_key_rotation=True, removal_policy=policy)
        self.file_system = fsx.CfnFileSystem(
            self,
            "FileSystem",
            file_system_type="LUSTRE",
            file_system_type_version=storage.lustre_version if isinstance(storage, Ssd) else "2.15",
            storage_type="SSD" if isinstance(storage, Ssd) else "INTELLIGENT_TIERING",
            storage_capacity=storage.capacity_gib if isinstance(storage, Ssd) else None,
            subnet_ids=[subnet.subnet_id],
            security_group_ids=[security_group.security_group_id],
            kms_key_id=key.key_arn,
            lustre_configuration=fsx.CfnFileSystem.LustreConfigurationProperty(
                deployment_type="PERSISTENT_2",
                **_rate(storage),
                data_compression_type=compression,
                efa_enabled=True if efa else None,
                automatic_backup_retention_days=backup_retention_days,
                # Always, though it means nothing without backups: to change it later replaces the file system.
                copy_tags_to_backups=True,
            ),
        )
        self.file_system.apply_removal_policy(policy)
        Tags.of(self.file_system).add("Name", self.node.path)
        for link in data_repositories:
            _data_repository(self, self.file_system, link)

    @property
    def file_system_id(self) -> str:
        """`FileSystemId`."""
        return self.file_system.ref

    @property
    def dns_name(self) -> str:
        """DNS name under which clients mount it."""
        return self.file_system.attr_dns_name

    @property
    def mount_name(self) -> str:
        """Lustre mount name."""
        return self.file_system.attr_lustre_mount_name

    def alarm_when_full(self, watch: Watch, *, capacity_gib: int) -> None:
        """Let `watch` alarm when less than a tenth is free.

        A full file system ends training at the next checkpoint.
        """
        metric = cloudwatch.Metric(
            namespace="AWS/FSx",
            metric_name="FreeDataStorageCapacity",
            dimensions_map={"FileSystemId": self.file_system.ref},
            statistic="Sum",  # over the file system's disks, of which each publishes its own free space every minute
            period=Duration.minutes(1),
        )
        watch.alarm(
            notifications.FILE_SYSTEM_FULL,
            metric,
            threshold=capacity_gib * 1024**3 * FREE_SPACE_ALARM_SHARE,
            periods=15,
            below=True,
        )


class HomeFileSystem(Construct):
    """An FSx for OpenZFS file system for home folders, with its own KMS key.

    Creates `AWS::FSx::FileSystem` (SSD). Root of each client is root in it: its security group says who a client is.
    Its subnet, key, deployment type, export and compression are create-only.
    https://docs.aws.amazon.com/fsx/latest/OpenZFSGuide/what-is-fsx.html

    Args:
        capacity_gib: 64 to 524288; it only grows, by a tenth or more.
        throughput_mbs: A value of the deployment type.
        deployment_type: `SINGLE_AZ_1`, `SINGLE_AZ_2`, `SINGLE_AZ_HA_1` or `SINGLE_AZ_HA_2`.
        backup_retention_days: 0: no automatic backups.
        retain: Whether file system and key stay when the stack goes.
        subnet: Exactly one.
        security_group: Lets the nodes in.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        capacity_gib: int,
        throughput_mbs: int,
        deployment_type: str,
        backup_retention_days: int,
        retain: bool,
        subnet: ec2.ISubnet,
        security_group: ec2.ISecurityGroup,
    ) -> None:
        super().__init__(scope, construct_id)
        policy = RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if retain else RemovalPolicy.DESTROY
        key = kms.Key(self, "Key", description="FSx for OpenZFS", enable_key_rotation=True, removal_policy=policy)
        properties = fsx.CfnFileSystem
        everyone = properties.ClientConfigurationsProperty(clients="*", options=["rw", "crossmnt", "no_root_squash"])
        self.file_system = properties(
            self,
            "FileSystem",
            file_system_type="OPENZFS",
            storage_type="SSD",
            storage_capacity=capacity_gib,
            subnet_ids=[subnet.subnet_id],
            security_group_ids=[security_group.security_group_id],
            kms_key_id=key.key_arn,
            open_zfs_configuration=properties.OpenZFSConfigurationProperty(
                deployment_type=deployment_type,
                throughput_capacity=throughput_mbs,
                automatic_backup_retention_days=backup_retention_days,
                copy_tags_to_backups=True,
                root_volume_configuration=properties.RootVolumeConfigurationProperty(
                    data_compression_type="LZ4",
                    nfs_exports=[properties.NfsExportsProperty(client_configurations=[everyone])],
                ),
                # without it the deletion fails where somebody created a volume or a snapshot
                options=["DELETE_CHILD_VOLUMES_AND_SNAPSHOTS"],
            ),
        )
        self.file_system.apply_removal_policy(policy)
        Tags.of(self.file_system).add("Name", self.node.path)

    @property
    def file_system_id(self) -> str:
        """`FileSystemId`."""
        return self.file_system.ref

    @property
    def dns_name(self) -> str:
        """DNS name under which clients mount it."""
        return self.file_system.attr_dns_name

    def alarm_when_full(self, watch: Watch, *, capacity_gib: int) -> None:
        """Let `watch` alarm when more than nine tenths are used: a full one ends jobs that write to a home folder.

        https://docs.aws.amazon.com/fsx/latest/OpenZFSGuide/fsx-openzfs-metrics.html
        """
        metric = cloudwatch.Metric(
            namespace="AWS/FSx",
            metric_name="UsedStorageCapacity",
            dimensions_map={"FileSystemId": self.file_system.ref},
            statistic="Average",
            period=Duration.minutes(1),
        )
        watch.alarm(
            notifications.HOMES_FULL,
            metric,
            threshold=capacity_gib * 1024**3 * (1 - FREE_SPACE_ALARM_SHARE),
            periods=15,
        )


def _rate(storage: Ssd | IntelligentTiering) -> dict[str, Any]:
    """Members of `LustreConfiguration` that follow from the storage class."""
    metadata, cache = (
        fsx.CfnFileSystem.MetadataConfigurationProperty,
        fsx.CfnFileSystem.DataReadCacheConfigurationProperty,
    )
    if isinstance(storage, Ssd):
        return {
            "per_unit_storage_throughput": storage.throughput_mbs_per_tib,
            "metadata_configuration": metadata(mode="AUTOMATIC"),
        }
    sizing = storage.read_cache
    return {
        "throughput_capacity": storage.throughput_mbs,
        "data_read_cache_configuration": cache(sizing_mode=sizing["SizingMode"], size_gib=sizing.get("SizeGiB")),
        "metadata_configuration": metadata(mode="USER_PROVISIONED", iops=storage.metadata_iops),
    }


def _data_repository(scope: Construct, file_system: fsx.CfnFileSystem, link: DataRepository) -> None:
    """A link to S3 (`AWS::FSx::DataRepositoryAssociation`).

    It goes with the stack, also where the file system stays: files and objects stay, and files whose content was never
    read can then no longer be read.

    FSx makes itself a service-linked role for the bucket; whoever deploys may `iam:CreateServiceLinkedRole`,
    `iam:PutRolePolicy` and `s3:ListBucket`, as the bootstrap stack's execution role may.
    https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html
    """
    association = fsx.CfnDataRepositoryAssociation(
        scope,
        # by its folder: another folder is another link, whatever stands before it in the file
        f"Repository-{hashlib.sha256(link.path.encode()).hexdigest()[:8]}",
        file_system_id=file_system.ref,
        file_system_path=link.path,
        data_repository_path=f"s3://{link.bucket}/{link.prefix}",
        batch_import_meta_data_on_create=link.import_metadata,
        s3=fsx.CfnDataRepositoryAssociation.S3Property(
            auto_import_policy=fsx.CfnDataRepositoryAssociation.AutoImportPolicyProperty(events=list(link.auto_import)),
            auto_export_policy=fsx.CfnDataRepositoryAssociation.AutoExportPolicyProperty(events=list(link.auto_export)),
        ),
    )
    Tags.of(association).add("Name", f"{scope.node.path}{link.path}")


class FsxCsiRole(Construct):
    """The role of the FSx for Lustre CSI driver's controller (`AWS::IAM::Role`, IRSA).

    Trusted for exactly one service account of exactly this cluster. For file systems created by claims it may create,
    and change or delete only what carries this environment's tag; otherwise it may only describe. The AWS article
    grants AmazonFSxFullAccess.

    Args:
        creates_file_systems: Whether claims create file systems.
        environment_name: Value of the tag that the StorageClass puts on every file system.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        creates_file_systems: bool,
        environment_name: str,
        oidc_provider: iam.IOpenIdConnectProvider,
        oidc_issuer: str,
    ) -> None:
        super().__init__(scope, construct_id)
        self.role = service_account_role(
            self,
            service_account=CONTROLLER_SERVICE_ACCOUNT,
            oidc_provider=oidc_provider,
            oidc_issuer=oidc_issuer,
        )
        for statement in self._statements(environment_name, creates_file_systems=creates_file_systems):
            self.role.add_to_policy(statement)

    def _statements(self, environment_name: str, *, creates_file_systems: bool) -> Sequence[iam.PolicyStatement]:
        statements = [iam.PolicyStatement(sid="Describe", actions=["fsx:DescribeFileSystems"], resources=["*"])]
        if not creates_file_systems:
            return statements
        stack = Stack.of(self)
        file_systems = f"arn:{stack.partition}:fsx:{stack.region}:{stack.account}:file-system/*"
        role_of_service = f"arn:{stack.partition}:iam::{stack.account}:role/aws-service-role/fsx.amazonaws.com/*"
        request_tag = {"StringEquals": {f"aws:RequestTag/{ENVIRONMENT_TAG}": environment_name}}
        owned = {"StringEquals": {f"aws:ResourceTag/{ENVIRONMENT_TAG}": environment_name}}
        return [
            *statements,
            iam.PolicyStatement(
                sid="Create",
                actions=["fsx:CreateFileSystem", "fsx:TagResource"],
                resources=[file_systems],
                conditions=request_tag,
            ),
            iam.PolicyStatement(
                sid="ChangeOwn",
                actions=["fsx:DeleteFileSystem", "fsx:UpdateFileSystem"],
                resources=[file_systems],
                conditions=owned,
            ),
            iam.PolicyStatement(
                sid="ServiceLinkedRole",
                actions=["iam:CreateServiceLinkedRole"],
                resources=[role_of_service],
                conditions={"StringEquals": {"iam:AWSServiceName": "fsx.amazonaws.com"}},
            ),
        ]


class FsxCsiDriver(Construct):
    """The FSx for Lustre CSI driver as an EKS add-on (`AWS::EKS::Addon`).

    Needs running nodes: the add-on's controller is a Deployment.

    Args:
        role: Of its controller, see `FsxCsiRole`.
        node_selector: Node labels of a CPU group, so that the controller keeps off accelerated nodes.
        tolerations: Of that group's taints. Default: those of the add-on only.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: eks.ICluster,
        role: iam.IRole,
        node_selector: dict[str, str],
        tolerations: Sequence[dict[str, object]] = (),
    ) -> None:
        super().__init__(scope, construct_id)
        self.addon = addon(
            self,
            CSI_ADDON,
            cluster=cluster,
            configuration={"controller": controller_placement(node_selector, tolerations)},
            role_arn=role.role_arn,
        )


def controller_placement(
    node_selector: dict[str, str], tolerations: Sequence[dict[str, object]] = ()
) -> dict[str, object]:
    """Where a CSI driver's controller runs, as the add-ons' charts take it."""
    controller: dict[str, object] = {"nodeSelector": node_selector}
    if tolerations:
        # the chart's own list is replaced
        controller["tolerations"] = [*CONTROLLER_TOLERATIONS, *tolerations]
    return controller
