"""Rules about names that a deployment gives: free, this environment's own, another stack's, or left by a teardown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hyperpod_ray.core import names, needs
from hyperpod_ray.core.checks.account.owners import ours, owner
from hyperpod_ray.core.checks.account.storage import bucket_region
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.evidence import Account, absent, code, found
from hyperpod_ray.core.findings import Finding, error, fine, rule, skipped, warning
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.plan_names import log_groups, stack_names
from hyperpod_ray.core.yaml_source import Path

Json = dict[str, Any]
CLUSTER_NAME = ("hyperpod", "cluster_name")
OTHER_NAME = "choose another hyperpod.cluster_name"


def judged(
    plan: CommonPlan,
    account: Account,
    path: Path,
    name: str,
    *,
    identifiers: tuple[str, ...],
    take_up: str,
    choose: str,
) -> Finding:
    """What a name that exists means: whose it is, and how to take it up.

    Args:
        plan: The environment.
        account: Whose stacks are asked.
        path: Setting that the name follows from.
        name: The name, with what it is of.
        identifiers: Physical IDs that CloudFormation may know it by.
        take_up: What to do where no stack has it.
        choose: What to do where another stack has it.
    """
    for identifier in identifiers:
        stack = owner(account, identifier)
        if stack is None:
            continue
        if ours(plan, stack):
            return fine(*path, what=f"{name} is this environment's ({stack})")
        return error(
            *path,
            what=f"{name} belongs to stack {stack}",
            expected="a free name, or one of this environment's",
            fix=choose,
        )
    return error(
        *path,
        what=f"{name} exists, and no stack has it",
        expected="a free name, or one of this environment's",
        fix=take_up,
    )


@rule("hyperpod", "account", "region", needs="account", title="stack names")
def stacks_are_ours(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """Stacks of the environment's names are its own, and in a state that a deployment can begin from.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/view-stack-events.html
    """
    stacks = []
    for name in stack_names(plan):
        try:
            listed = account.call("cloudformation", "describe_stacks", StackName=name)["Stacks"]
        except Exception as bad:
            if code(bad) != "ValidationError" and not absent(bad):
                raise
            continue
        stacks += [stack for stack in listed if stack["StackStatus"] != "DELETE_COMPLETE"]
    for stack in stacks:
        yield _stack(plan, stack)
    if not stacks:
        yield fine(what=f"none of {plan.name}'s stacks is there")


def _stack(plan: CommonPlan, stack: Json) -> Finding:
    name, status = stack["StackName"], stack["StackStatus"]
    tags = {tag["Key"]: tag["Value"] for tag in stack.get("Tags", [])}
    environment = tags.get(names.ENVIRONMENT_TAG)
    if environment != plan.name:
        whose = f"is tagged {names.ENVIRONMENT_TAG}={environment}" if environment else "is of another project"
        return error(
            what=f"stack {name} {whose}",
            expected=f"{names.ENVIRONMENT_TAG}={plan.name}",
            fix=f"rename {plan.name}.yaml, and its names with it",
        )
    if status in ("UPDATE_ROLLBACK_FAILED", "ROLLBACK_FAILED", "DELETE_FAILED"):
        fix = f"aws cloudformation continue-update-rollback --stack-name {name}"
        if status != "UPDATE_ROLLBACK_FAILED":
            fix = f"hyperpod-ray teardown {plan.name}"
        return error(what=f"{name} is {status}", expected="a state that an update can begin from", fix=fix)
    if status == "ROLLBACK_COMPLETE":
        return warning(
            what=f"{name} is ROLLBACK_COMPLETE: its first deployment failed",
            expected="no stack, or one that can be updated",
            fix=f"hyperpod-ray deploy {plan.name}, which deletes it first; describe-stack-events says why it failed",
        )
    if status.endswith("IN_PROGRESS"):
        return warning(
            what=f"{name} is {status}",
            expected="a stack without an operation in progress",
            fix="wait until it has ended",
        )
    return fine(what=f"{name} is {status}")


@rule("hyperpod", "account", "region", needs="account", title="bucket names")
def buckets_are_free(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """The buckets that the stacks create have free names, which are global: of scripts, a tier, an MLflow app.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
    """
    scripts = plan.lifecycle_bucket_name
    planned = [(scripts, "")] if plan.uploads_scripts else []
    if plan.new_tier_bucket is not None:
        planned.append((plan.new_tier_bucket, f"set hyperpod.tiered_storage.bucket: {plan.new_tier_bucket}"))
    if plan.mlflow_app is not None:
        take = "name the app that uses it in ray.access.mlflow_arn and remove ray.tracking.mlflow_app"
        planned.append((plan.mlflow_bucket_name, f"{take}, or {OTHER_NAME}"))
    if not planned:
        yield skipped("the stacks create no bucket")
    for bucket, take_up in planned:
        region = bucket_region(account, bucket)
        if region is None:
            yield fine(*CLUSTER_NAME, what=f"bucket {bucket} is free")
        elif not region:
            message = f"bucket {bucket} exists, and belongs to another account or is closed to these credentials"
            yield error(*CLUSTER_NAME, what=message, expected="a free name: bucket names are global", fix=OTHER_NAME)
        else:
            yield judged(
                plan,
                account,
                CLUSTER_NAME,
                f"bucket {bucket}",
                identifiers=(bucket,),
                take_up=take_up or _emptied(account, bucket),
                choose=OTHER_NAME,
            )


_LOOKED_AT = 5


def _emptied(account: Account, bucket: str) -> str:
    """How to get a bucket out of the way, by what is in it: nothing is deleted that nobody looked at."""
    try:
        answer = account.call("s3", "list_object_versions", Bucket=bucket, MaxKeys=_LOOKED_AT + 1)
    except Exception as bad:
        if code(bad) not in ("AccessDenied", "403") and not absent(bad):
            raise
        return f"look into it with a role that may list it: aws s3 ls s3://{bucket} --recursive, or {OTHER_NAME}"
    keys = [version["Key"] for name in ("Versions", "DeleteMarkers") for version in answer.get(name) or []]
    if not keys:
        return f"aws s3 rb s3://{bucket}, which is empty, or {OTHER_NAME}"
    sample = ", ".join(dict.fromkeys(keys[:_LOOKED_AT]))
    remainder = " and more" if len(keys) > _LOOKED_AT or answer.get("IsTruncated") else ""
    look = f"aws s3 ls s3://{bucket} --recursive"
    return f"it holds {sample}{remainder}: look at them ({look}), keep what is yours, or {OTHER_NAME}"


@rule("hyperpod", eks=("eks",), needs="account", title="cluster names")
def clusters_are_free(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """No other EKS or HyperPod cluster of the Region has the names that the stacks give.

    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateCluster.html (ClusterName)
    """
    name = plan.settings.hyperpod.cluster_name
    answer = found(account, "sagemaker", "describe_cluster", ClusterName=name)
    if answer is None:
        yield fine(*CLUSTER_NAME, what=f"HyperPod cluster {name} is free")
    elif answer.get("ClusterStatus") == "Deleting":
        yield error(
            *CLUSTER_NAME,
            what=f"HyperPod cluster {name} is Deleting",
            expected="a free name",
            fix=f"wait until it is gone, or {OTHER_NAME}",
        )
    else:
        identifiers = tuple(identifier for identifier in (answer.get("ClusterArn", ""), name) if identifier)
        count = sum(int(group.get("CurrentCount") or 0) for group in answer.get("InstanceGroups") or [])
        take_up = f"{OTHER_NAME}; the cluster has {count} nodes, and deleting it ends them"
        label = f"HyperPod cluster {name}"
        yield judged(plan, account, CLUSTER_NAME, label, identifiers=identifiers, take_up=take_up, choose=OTHER_NAME)
    if plan.new_eks is None:
        return
    eks = plan.eks_cluster_name
    if found(account, "eks", "describe_cluster", name=eks) is None:
        yield fine(*CLUSTER_NAME, what=f"EKS cluster {eks} is free")
    else:
        take_up = f"name it in eks.existing (with its VPC in network.existing), or {OTHER_NAME}"
        label = f"EKS cluster {eks}"
        yield judged(plan, account, CLUSTER_NAME, label, identifiers=(eks,), take_up=take_up, choose=OTHER_NAME)


@rule("network", "hyperpod", "image", "log_group_names", eks=("eks",), needs="account", title="left behind")
def names_are_taken_up(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """What an earlier teardown kept under a name of this environment is taken up, or is not there."""
    for group in log_groups(plan):
        listed = account.pages("logs", "describe_log_groups", "logGroups", logGroupNamePrefix=group.name)
        present = any(log_group["logGroupName"] == group.name for log_group in listed)
        path = (group.section, group.setting)
        choose = OTHER_NAME if group.section == "eks" else f"rename {plan.name}.yaml"
        yield _kept(plan, account, path, group.name, present=present, exists=group.exists, choose=choose)
    built = plan.built_image
    if built is not None:
        present = _repository(account, plan.image_repository)
        path, choose = ("image", "repository_exists"), "choose another image.repository_name"
        exists = built.repository_exists
        yield _kept(plan, account, path, plan.image_repository, present=present, exists=exists, choose=choose)


@rule("image", "ray", "registries", "helm", "hyperpod", needs="account", title="mirror repositories")
def mirror_repositories_are_free(plan: Plan, account: Account) -> Iterator[Finding]:
    """Repositories that the Mirror stack creates have free names, or are its own."""
    copies = needs.copies(plan)
    if not copies:
        yield skipped("no mirror")
    for repository in dict.fromkeys(copy.repository for copy in copies):
        path = ("registries", "mirror")
        if not _repository(account, repository):
            yield fine(*path, what=f"{repository} is free")
            continue
        take_up = _repository_emptied(account, repository)
        yield judged(plan, account, path, repository, identifiers=(repository,), take_up=take_up, choose=OTHER_NAME)


def _repository_emptied(account: Account, repository: str) -> str:
    """How to get a repository out of the way, by what is in it."""
    images = account.pages("ecr", "describe_images", "imageDetails", repositoryName=repository)
    if not images:
        return f"aws ecr delete-repository --repository-name {repository}, which is empty"
    tags = [str(tag) for image in images for tag in image.get("imageTags") or ["without a tag"]]
    sample = ", ".join(tags[:_LOOKED_AT]) + (" and more" if len(tags) > _LOOKED_AT else "")
    look = f"aws ecr describe-images --repository-name {repository}"
    return (
        f"it holds {len(images)} images ({sample}): look at them ({look}) and delete those that you do not need, or "
        "rename the environment"
    )


def _repository(account: Account, name: str) -> bool:
    return found(account, "ecr", "describe_repositories", repositoryNames=[name]) is not None


def _kept(
    plan: CommonPlan, account: Account, path: Path, name: str, *, present: bool, exists: bool, choose: str
) -> Finding:
    setting = ".".join(str(part) for part in path)
    if exists:
        if present:
            return fine(*path, what=f"{name} is there")
        return error(
            *path,
            what=f"{name} does not exist",
            expected=f"it there, because {setting} is true",
            fix=f"remove {setting}",
        )
    if not present:
        return fine(*path, what=f"{name} is free")
    take_up = f"set {setting}: true, or delete it"
    return judged(plan, account, path, name, identifiers=(name,), take_up=take_up, choose=choose)


@rule("storage", "network", needs="account", title="kept file systems")
def kept_file_systems_are_named(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """A file system that a teardown of this environment kept still costs, and a deployment makes another one.

    https://docs.aws.amazon.com/fsx/latest/LustreGuide/getting-started.html
    """
    kept = []
    for system in account.pages("fsx", "describe_file_systems", "FileSystems"):
        tags = {tag["Key"]: tag["Value"] for tag in system.get("Tags", [])}
        if tags.get(names.ENVIRONMENT_TAG) != plan.name or names.CLAIM_TAG in tags:
            continue
        homes = system.get("FileSystemType") == "OPENZFS"
        if (plan.existing_homes if homes else plan.existing_file_system) is not None:
            continue
        if owner(account, system["FileSystemId"]) is None:
            kept.append(system)
    for system in kept:
        identifier, mount = system["FileSystemId"], (system.get("LustreConfiguration") or {}).get("MountName", "")
        message = f"{identifier} of {plan.name} is kept in {system.get('VpcId', '')}, and no stack has it"
        section, more = ("homes", "") if not mount else ("storage", f", mount_name: {mount}, …")
        yield warning(
            section,
            what=message,
            expected=f"its name in {section}.existing, or no such file system: it costs",
            fix=f"to use it: {section}.existing {{file_system_id: {identifier}{more}}} with its VPC in "
            "network.existing",
        )
    if not kept:
        yield fine("storage", what="none is kept")
