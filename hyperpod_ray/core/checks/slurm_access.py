"""Rules about what groups of a Slurm cluster may do in AWS: no partition writes what another one reads as its own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from hyperpod_ray.core.checks.lookup import GROUPS
from hyperpod_ray.core.findings import Finding, error, rule, warning
from hyperpod_ray.core.model import S3Access
from hyperpod_ray.core.slurm_model import SlurmAccess, SlurmGroup
from hyperpod_ray.core.slurm_plan import SlurmPlan
from hyperpod_ray.core.team_access import meet
from hyperpod_ray_rules.arns import arn_of

_ASSETS = re.compile(r"cdk-[a-z0-9]+-assets-")
OPEN_BUCKETS = "sagemaker-"
"""Prefix of the buckets that AWS's managed policy of HyperPod nodes reads, whatever the group.
https://docs.aws.amazon.com/sagemaker/latest/dg/security-iam-awsmanpol-AmazonSageMakerClusterInstanceRolePolicy.html"""


def _granted(plan: SlurmPlan) -> Iterator[tuple[int, SlurmGroup, SlurmAccess]]:
    for index, group in enumerate(plan.groups):
        if group.access is not None:
            yield index, group, group.access


def _users(group: SlurmGroup) -> str:
    """Who has a group's role: users of its partition, or those who log in to it."""
    return f"partition '{group.slurm.partitions[0]}'" if group.slurm.partitions else f"group '{group.name}'"


@rule("hyperpod", orchestrator="slurm")
def places_are_one_partitions(plan: SlurmPlan) -> Iterator[Finding]:
    """Two partitions whose places in S3 meet are not apart: one of them writes what the other reads as its own.

    Groups of one partition run the same jobs, so that they may share.
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/security-best-practices.html
    """
    before: list[tuple[SlurmGroup, S3Access]] = []
    for index, group, access in _granted(plan):
        for position, grant in enumerate(access.s3):
            for other_group, other_grant in before:
                if (
                    _users(group) != _users(other_group)
                    and meet(grant, other_grant)
                    and "write" in (grant.mode, other_grant.mode)
                ):
                    yield error(
                        *GROUPS,
                        index,
                        "access",
                        "s3",
                        position,
                        what=f"s3://{grant.bucket}/{grant.prefix} meets s3://{other_grant.bucket}/{other_grant.prefix} "
                        f"of {_users(other_group)}, and one of the two is written",
                        expected="a bucket or a prefix of its own",
                        fix="give each partition a prefix, and share by an entry that both read",
                    )
                    break
        before += [(group, grant) for grant in access.s3]


@rule("hyperpod", orchestrator="slurm")
def access_is_of_jobs(plan: SlurmPlan) -> Iterator[Finding]:
    """No job runs on the controller, whose role also reads the accounting database's password."""
    for index, group, _ in _granted(plan):
        if group.slurm.role == "controller":
            yield error(
                *GROUPS,
                index,
                "access",
                what="access of the controller's group, on which no job runs",
                expected="access of groups with role compute or login",
                fix="move it to the groups whose jobs use it",
            )


@rule("hyperpod", orchestrator="slurm")
def a_partition_has_one_access(plan: SlurmPlan) -> Iterator[Finding]:
    """A job runs on any group of its partition: where their rights differ, chance decides whether it fails."""
    for name, groups in plan.partitions.items():
        for group in groups[1:]:
            if group.access != groups[0].access:
                yield warning(
                    *GROUPS,
                    plan.groups.index(group),
                    "access",
                    what=f"differs from that of '{groups[0].name}', which is in partition '{name}' too",
                    expected="the same access for the groups of a partition",
                    fix="give both the same, or put them into two partitions",
                )


@rule("hyperpod", "account", "region", orchestrator="slurm")
def buckets_of_groups_are_theirs(plan: SlurmPlan) -> Iterator[Finding]:
    """Buckets that every node reads, or whose content runs as root, are no place of one group."""
    for index, group, access in _granted(plan):
        for position, grant in enumerate(access.s3):
            path = (*GROUPS, index, "access", "s3", position)
            root = "what the CDK deploys" if _ASSETS.match(grant.bucket) else ""
            root = "the script that every node runs as root" if grant.bucket == plan.lifecycle_bucket_name else root
            if root and grant.mode == "write":
                yield error(
                    *path,
                    "mode",
                    what=f"jobs of '{group.name}' may write {grant.bucket}, which holds {root}",
                    expected="mode read, or another bucket",
                    fix="use a bucket of your own",
                )
            elif grant.bucket.startswith(OPEN_BUCKETS):
                yield warning(
                    *path,
                    "bucket",
                    what=f"every node of the cluster reads {grant.bucket}: AWS's policy of HyperPod nodes lets each "
                    f"read buckets whose name starts with {OPEN_BUCKETS}",
                    expected="a bucket with another name, where other groups are not to read it",
                    fix="use a bucket with another name",
                )


@rule("hyperpod", "region", "network", orchestrator="slurm")
def names_of_access_are_of_the_region(plan: SlurmPlan) -> Iterator[Finding]:
    """Nodes ask Secrets Manager and KMS of their own Region, once for each name."""
    region = plan.settings.region
    for index, _, access in _granted(plan):
        path = (*GROUPS, index, "access")
        for setting, arns in (("secret_arns", access.secret_arns), ("kms_key_arns", access.kms_key_arns)):
            yield from _twice((*path, setting), arns)
            for position, arn in enumerate(arns):
                if arn_of(arn).region != region:
                    yield error(
                        *path,
                        setting,
                        position,
                        what=f"{arn} is of {arn_of(arn).region}",
                        expected=f"one of {region}, the environment's Region",
                        fix=f"replicate it to {region} and name the replica",
                    )
        yield from _twice((*path, "s3"), [f"{grant.bucket}/{grant.prefix}" for grant in access.s3])
        if access.secret_arns and plan.settings.network.closed:
            yield error(
                *path,
                "secret_arns",
                what="a closed network has no route to AWS Secrets Manager",
                expected="a network with a route to it",
                fix="set network.egress: nat, or remove secret_arns",
            )


def _twice(path: tuple[str | int, ...], values: Sequence[Any]) -> Iterator[Finding]:
    for index, value in enumerate(values):
        if value in values[:index]:
            yield error(
                *path,
                index,
                what=f"'{value}' is already entry {values.index(value)}",
                expected="each value once",
                fix="remove this entry",
            )
