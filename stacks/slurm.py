"""The HyperPod cluster that Slurm orchestrates."""

from __future__ import annotations

from pathlib import Path

from aws_cdk import aws_ecr as ecr

from constructs import Construct
from hyperpod_ray.constructs.hyperpod import LustreMount, OpenZfsMount, SlurmOrchestrator
from hyperpod_ray.constructs.lifecycle import LifecycleScripts
from hyperpod_ray.constructs.network import Network
from hyperpod_ray.constructs.slurm_role import SlurmExecutionRole
from hyperpod_ray.constructs.storage import HomeFileSystem, LustreFileSystem
from hyperpod_ray.core import names, needs, outbound
from hyperpod_ray.core import project as places
from hyperpod_ray.core.slurm_model import SlurmAccess
from hyperpod_ray.core.slurm_plan import SlurmPlan
from hyperpod_ray.stacks import watch
from hyperpod_ray.stacks.base import EnvironmentStack
from hyperpod_ray.stacks.bindings import bucket_access
from hyperpod_ray.stacks.hyperpod import cluster, instance_group


class SlurmStack(EnvironmentStack):
    """The cluster with its nodes' role and script, and what tells of its health: there is nothing else to wait for."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        plan: SlurmPlan,
        network: Network,
        file_system: LustreFileSystem | None,
        homes: HomeFileSystem | None = None,
        project: Path,
    ) -> None:
        super().__init__(scope, construct_id, plan=plan, description="HyperPod cluster on Slurm")
        settings = plan.settings.hyperpod
        self.scripts: LifecycleScripts | None = None
        scripts, script = None, ""
        if plan.uploads_scripts:
            folder, script = plan.script or (None, "")
            scripts = self.scripts = LifecycleScripts(
                self,
                "Lifecycle",
                bucket_name=plan.lifecycle_bucket_name,
                folder=None if folder is None else places.file(project, folder),
                script=script,
                homes=None if plan.settings.homes is None else names.HOMES_PATH,
                proxy=outbound.variables(plan),
            )
            script = scripts.script
        database = settings.accounting_database
        repository = None
        if plan.built_image is not None:
            repository = ecr.Repository.from_repository_name(self, "Repository", plan.image_repository)

        def role(construct_id: str, *, secret: bool = False, access: SlurmAccess | None = None) -> SlurmExecutionRole:
            granted = access or SlurmAccess()
            return SlurmExecutionRole(
                self,
                construct_id,
                vpc_id=network.vpc.vpc_id,
                scripts=scripts.bucket if scripts else None,
                repository=repository,
                pull_from=needs.slurm_repositories(plan),
                secret_arn=database.secret_arn if database and secret else None,
                secret_key_arn=database.kms_key_arn if database and secret else None,
                buckets=[bucket_access(grant) for grant in granted.s3],
                kms_key_arns=granted.kms_key_arns,
                secret_arns=granted.secret_arns,
            )

        execution = self.execution = role("Execution", secret=True)
        # a job takes its node's role: the accounting database's password is the controller's alone
        jobs = role("Jobs") if database and database.separate_role else execution
        roles = {group.name: jobs for group in plan.groups if group.slurm.role != "controller"}
        roles |= {group.name: role(f"Jobs-{group.name}", access=group.access) for group in plan.groups if group.access}
        self.hyperpod = cluster(
            self,
            plan,
            network=network,
            instance_groups=[
                instance_group(plan, group, slurm_role=group.slurm.role.capitalize(), partitions=group.slurm.partitions)
                for group in plan.groups
            ],
            orchestrator=SlurmOrchestrator(
                config_strategy=settings.config_strategy,
                database_endpoint=database.endpoint if database else None,
                database_secret_arn=database.secret_arn if database else None,
                database_port=database.port if database else None,
                database_name=database.name if database else None,
            ),
            execution_role=execution.role,
            group_roles={name: of_group.role for name, of_group in roles.items()},
            lifecycle_uri=scripts.source_s3_uri if scripts else None,
            lifecycle_script=script,
            file_system=_mount(plan, file_system),
            homes=_homes(plan, homes),
        )
        nodes = self.hyperpod.cluster
        nodes.node.add_dependency(execution, *roles.values())
        if scripts is not None:
            nodes.node.add_dependency(scripts.upload)
        self.health = watch.health(self, plan, cluster_arn=nodes.attr_cluster_arn, file_system=file_system, homes=homes)
        self.dashboard = watch.overview(self, plan, self.health, file_system=file_system)


def _mount(plan: SlurmPlan, created: LustreFileSystem | None) -> LustreMount | None:
    """The file system, which HyperPod mounts by itself: its DNS name and mount name, no driver and no claim."""
    if created is not None:
        return LustreMount(dns_name=created.dns_name, mount_name=created.mount_name, path=names.MOUNT_PATH)
    existing = plan.existing_file_system
    if existing is None:
        return None
    return LustreMount(
        dns_name=_dns_name(plan, existing.file_system_id), mount_name=existing.mount_name, path=names.MOUNT_PATH
    )


def _homes(plan: SlurmPlan, created: HomeFileSystem | None) -> OpenZfsMount | None:
    """The home folders, likewise."""
    if created is not None:
        return OpenZfsMount(dns_name=created.dns_name, path=names.HOMES_PATH)
    existing = plan.existing_homes
    return None if existing is None else OpenZfsMount(dns_name=_dns_name(plan, existing), path=names.HOMES_PATH)


def _dns_name(plan: SlurmPlan, file_system_id: str) -> str:
    return f"{file_system_id}.fsx.{plan.settings.region}.amazonaws.com"
