"""Findings about what ends or ages by itself: training plans, and the AMI of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from hyperpod_ray.core.amounts import duration
from hyperpod_ray.core.service_limits import minor_of
from hyperpod_ray.ops.observe.snapshot import Group, Snapshot
from hyperpod_ray.ops.verdict.finding import Finding, command, deploy

PLAN_ENDS = timedelta(days=1)
"""A training plan that ends sooner needs a decision now."""
PLAN_NOTED = timedelta(days=14)


def training_plans(snapshot: Snapshot) -> Iterator[Finding]:
    """Training plans that end soon, have ended, or have not begun."""
    for plan in snapshot.training_plans:
        groups = " and ".join(f"'{group}'" for group in plan.groups)
        summary = f"training plan '{plan.name}' of {'group' if len(plan.groups) == 1 else 'groups'} {groups}"
        ends = f"aws sagemaker describe-training-plan --training-plan-name {plan.name}"
        extend = f"aws sagemaker search-training-plan-offerings --training-plan-arn {plan.arn}"
        if plan.status in ("Expired", "Failed"):
            yield Finding(
                kind="action-required",
                what=f"{summary} is {plan.status}: HyperPod has taken its nodes",
                since=plan.end,
                next=f"{deploy(snapshot)}, with another plan in the environment file "
                f"({command(snapshot, 'capacity')}, without training_plan_arn, lists plans)",
                subject=plan.name,
            )
        elif plan.end is not None and plan.end - snapshot.at < PLAN_NOTED:
            remaining = plan.end - snapshot.at
            soon = remaining < PLAN_ENDS
            yield Finding(
                kind="action-required" if soon else "note",
                what=f"{summary} ends in {duration(remaining.total_seconds())}; HyperPod then takes its nodes",
                why="the run's last checkpoint stays",
                expected_by=plan.end,
                next=extend,
                subject=plan.name,
            )
        elif plan.status in ("Pending", "Scheduled"):
            yield Finding(
                kind="note",
                what=f"{summary} is {plan.status}: its nodes come when it begins",
                expected_by=plan.start,
                next=ends,
                subject=plan.name,
            )


def control_plane(snapshot: Snapshot) -> Iterator[Finding]:
    """An EKS cluster that somebody, or EKS itself, changed beside the file."""
    cluster = snapshot.control_plane
    if cluster is None:
        return
    if cluster.protected_by_file and not cluster.protected:
        protect = f"aws eks update-cluster-config --name {cluster.name} --deletion-protection"
        yield Finding(
            kind="note",
            what=f"EKS cluster '{cluster.name}' has no deletion protection, and the environment is protected",
            why="somebody took it off, or the environment was deployed by a version that did not set it",
            next=f"{protect}, or {deploy(snapshot)}",
            subject=cluster.name,
        )
    if cluster.version and minor_of(cluster.version) > minor_of(cluster.version_of_file):
        yield Finding(
            kind="note",
            what=f"EKS cluster '{cluster.name}' is {cluster.version}, and the file says {cluster.version_of_file}",
            why="EKS updates a cluster at the end of its support by itself, and refuses a deploy of an older version",
            next=f'set eks.version: "{cluster.version}", then hyperpod-ray env check {snapshot.environment}',
            subject=cluster.name,
        )


SAYS = {
    "UpdateAvailable": "has a newer AMI",
    "SecurityUpdateRequired": "needs a security update of its AMI",
    "EndOfLife": "runs an AMI that is no longer supported",
}


def images(snapshot: Snapshot) -> Iterator[Finding]:
    """Groups whose nodes run an older AMI than HyperPod has for them."""
    cluster = snapshot.cluster
    if cluster is None:
        return
    for group in cluster.groups:
        if group.update_status == "Failed":
            yield Finding(
                kind="action-required",
                what=f"the last software update of group '{group.name}' failed",
                next=f"hyperpod-ray nodes events {snapshot.environment} --group {group.name}",
                subject=group.name,
            )
        elif group.image_status in SAYS:
            yield _older(snapshot, group)
        if group.next_patch is not None and group.next_patch > snapshot.at:
            yield Finding(
                kind="note",
                what=f"HyperPod patches the AMI of group '{group.name}' in "
                f"{duration((group.next_patch - snapshot.at).total_seconds())}",
                why="it cordons the group's nodes for up to 24 hours and patches those without a job",
                expected_by=group.next_patch,
                next=f"before then, update it at a time of yours: {update_command(cluster.name, group.name)}",
                subject=group.name,
            )


def _older(snapshot: Snapshot, group: Group) -> Finding:
    assert snapshot.cluster is not None  # noqa: S101
    runs = f" ({group.image_release}" + (f", newest {group.image_available})" if group.image_available else ")")
    older = Finding(
        kind="note" if group.image_status == "UpdateAvailable" else "action-required",
        what=f"group '{group.name}' {SAYS[group.image_status]}{runs if group.image_release else ''}",
        why="an update replaces the root volume of each node: training resumes from its last checkpoint",
        next=f"{update_command(snapshot.cluster.name, group.name)}, "
        f"then {command(snapshot, 'wait')} --for {group.name}",
        subject=group.name,
    )
    if not group.own_image:
        return older
    # UpdateClusterSoftware without an AMI takes HyperPod's newest one: the user's would be gone
    return replace(
        older,
        why=f"{group.own_image} is an AMI of your own, which HyperPod does not update",
        next=f"{deploy(snapshot)}, with another AMI in image_id that is built from the newest of HyperPod",
    )


def update_command(cluster: str, group: str) -> str:
    """The call that updates a group one node at a time, and stops where nodes do not come back.

    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateClusterSoftware.html
    """
    rolling = (
        '{"RollingUpdatePolicy":{"MaximumBatchSize":{"Type":"INSTANCE_COUNT","Value":1}},"WaitIntervalInSeconds":300}'
    )
    return (
        f"aws sagemaker update-cluster-software --cluster-name {cluster} "
        f"--instance-groups InstanceGroupName={group} --deployment-config '{rolling}'"
    )
