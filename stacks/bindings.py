"""What `k8s` needs of the stacks and the stacks of `k8s`: identifiers as tokens one way, chart folders the other."""

from __future__ import annotations

from pathlib import Path

from hyperpod_ray.charts.errors import ChartMissingError
from hyperpod_ray.constructs.access import BucketAccess
from hyperpod_ray.constructs.claims import ClaimedFileSystem
from hyperpod_ray.constructs.image import TrainingImage
from hyperpod_ray.constructs.network import Network
from hyperpod_ray.constructs.storage import LustreFileSystem
from hyperpod_ray.core import needs
from hyperpod_ray.core.model import S3Access
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.k8s import Bindings, HelmRelease


def bindings(
    plan: Plan,
    *,
    network: Network,
    file_system: LustreFileSystem | ClaimedFileSystem | None,
    image: TrainingImage | None = None,
    mlflow_arn: str = "",
) -> Bindings:
    """Identifiers as CDK tokens, or as the environment file gives them for what exists already."""
    existing, named = plan.existing_file_system, plan.existing_image
    region = plan.settings.region
    created = file_system
    return Bindings(
        image_uri=image.uri if image else needs.pulled(plan, named) if named else "",
        image_content=image.content if image else named or "",
        node_subnet_id=network.node_subnets[plan.storage_zone].subnet_id,
        file_system_security_group_id=network.file_system_security_group.security_group_id,
        file_system_id=created.file_system_id if created else existing.file_system_id if existing else "",
        file_system_dns_name=created.dns_name
        if created
        else f"{existing.file_system_id}.fsx.{region}.amazonaws.com"
        if existing
        else "",
        file_system_mount_name=created.mount_name if created else existing.mount_name if existing else "",
        mlflow_arn=mlflow_arn,
    )


def bucket_access(grant: S3Access) -> BucketAccess:
    """An entry of `ray.access.s3` as the constructs take it."""
    return BucketAccess(bucket=grant.bucket, prefix=grant.prefix, mode=grant.mode)


def chart_folder(release: HelmRelease) -> Path | None:
    """The release's chart, verified against the lock and unpacked; None when it was not fetched yet."""
    try:
        return release.folder
    except ChartMissingError:
        return None
