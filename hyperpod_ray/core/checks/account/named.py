"""Rules about what the file names for jobs and dashboards: secrets, repositories, a Grafana workspace, AMI releases."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from hyperpod_ray.core.checks.account.keys import readable_secret
from hyperpod_ray.core.checks.lookup import GROUPS
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.evidence import Account, code, found
from hyperpod_ray.core.findings import Finding, error, fine, rule, skipped, unknown, warning
from hyperpod_ray.core.images import Reference
from hyperpod_ray.core.plan import Plan
from hyperpod_ray_rules.arns import arn_of

RELEASES = "https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-release-ami-eks.html"


@rule("ray", "account", "region", needs="account", title="secrets of jobs")
def secrets_are_there(plan: Plan, account: Account) -> Iterator[Finding]:
    """Secrets that Ray's pods may read are there. Those of another account cannot be asked.

    https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_DescribeSecret.html
    """
    access = plan.settings.ray.access
    if access is None or not access.secret_arns:
        yield skipped("the file names none")
        return
    for index, arn in enumerate(access.secret_arns):
        path = ("ray", "access", "secret_arns", index)
        _, _, region, number, _ = arn_of(arn)
        if (number, region) != (plan.settings.account, plan.settings.region):
            yield skipped(f"{arn.rpartition(':')[2]} is of {number} in {region}: it was not asked")
            continue
        key = next(iter(access.kms_key_arns), None)
        fix = "name its key in ray.access.kms_key_arns"
        yield readable_secret(account, path, arn, reader="Ray's role", of="a job", fix=fix, key_arn=key)


@rule("registries", "account", "region", needs="account", title="repositories of jobs")
def repositories_are_there(plan: Plan, account: Account) -> Iterator[Finding]:
    """Repositories that nodes may pull from are there.

    https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_DescribeRepositories.html
    """
    named = plan.settings.registries.pull_from
    if not named:
        yield skipped("the file names none")
    for index, text in enumerate(named):
        path = ("registries", "pull_from", index)
        reference = Reference.parse(text)
        if reference.ecr is None or reference.ecr != (plan.settings.account, plan.settings.region):
            yield skipped(f"{reference.registry} is of another account or Region: it was not asked")
            continue
        pattern = reference.repository
        if "*" in pattern:
            listed = account.pages("ecr", "describe_repositories", "repositories")
            exists = any(fnmatchcase(repository["repositoryName"], pattern) for repository in listed)
        else:
            exists = found(account, "ecr", "describe_repositories", repositoryNames=[pattern]) is not None
        if exists:
            yield fine(*path, what=f"{pattern} is there")
        else:
            yield (warning if "*" in pattern else error)(
                *path,
                what=f"{pattern}: no such repository in {plan.settings.region}",
                expected="a repository of that name",
                fix=f"correct the name, or aws ecr create-repository --repository-name {pattern.rstrip('*') or 'NAME'}",
            )


@rule("observability", "region", needs="account", title="Grafana workspace")
def grafana_is_there(plan: Plan, account: Account) -> Iterator[Finding]:
    """The workspace for the add-on's dashboards is there and active.

    https://docs.aws.amazon.com/grafana/latest/APIReference/API_DescribeWorkspace.html
    """
    section = plan.settings.observability
    if section is None or section.grafana is None:
        yield skipped("the file names none")
        return
    path, arn = ("observability", "grafana", "workspace_arn"), section.grafana.workspace_arn
    name, region = arn.rpartition("/")[2], arn_of(arn).region
    if region != plan.settings.region:
        yield skipped(f"{name} is in {region}: it was not asked")
        return
    try:
        answer = found(account, "grafana", "describe_workspace", workspaceId=name)
    except Exception as bad:
        if code(bad) != "AccessDeniedException":
            raise
        yield unknown(
            *path,
            what=f"{name}: the caller may not describe it",
            expected="grafana:DescribeWorkspace",
            fix="ask for it, or look at the workspace in the console",
        )
        return
    state = str((answer or {}).get("workspace", {}).get("status", "")) if answer else ""
    if answer is None:
        yield error(
            *path,
            what=f"{name}: no such Grafana workspace in {region}",
            expected="a workspace that exists",
            fix="correct the ARN, or remove grafana",
        )
    elif state != "ACTIVE":
        yield error(
            *path,
            what=f"{name} is {state}",
            expected="a workspace that is ACTIVE",
            fix="wait until it is, or remove it",
        )
    else:
        yield fine(*path, what=f"{name} is ACTIVE")


@rule("hyperpod", "account", "region", needs="account", title="AMIs")
def images_of_nodes_fit(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """An AMI of your own is the account's, is not encrypted, has one volume, and is of the nodes' architecture.

    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterInstanceGroupSpecification.html
    """
    own = [(index, group) for index, group in enumerate(plan.groups) if group.image_id]
    if not own:
        yield skipped("no group names one")
    for index, group in own:
        path = (*GROUPS, index, "image_id")
        filters = [{"Name": "image-id", "Values": [group.image_id]}]
        listed = account.call("ec2", "describe_images", Filters=filters)["Images"]
        if not listed:
            yield error(
                *path,
                what=f"{group.image_id}: no such AMI in {plan.settings.region}",
                expected="an AMI of this account and Region",
                fix=f"correct the ID, or aws ec2 copy-image --source-image-id {group.image_id} --source-region REGION "
                f"--region {plan.settings.region} --name NAME",
            )
            continue
        faults = list(_unfit(listed[0], plan.settings.account, plan.type_spec(group.type).architecture))
        for what, expected, fix in faults:
            yield error(*path, what=f"{group.image_id} {what}", expected=expected, fix=fix)
        if not faults:
            yield fine(*path, what=f"{group.image_id} ({listed[0].get('Name', 'without a name')}) fits {group.type}")


def _unfit(image: dict[str, Any], account: str, architecture: str) -> Iterator[tuple[str, str, str]]:
    """What HyperPod refuses of an AMI of your own: what, what it expects, and the fix."""
    volumes = [device["Ebs"] for device in image.get("BlockDeviceMappings", []) if "Ebs" in device]
    if image.get("State") != "available":
        yield f"is {image.get('State')}", "an AMI that is available", "wait until it is, or name another one"
    if image.get("OwnerId") != account:
        yield (
            f"is of account {image.get('OwnerId')}",
            f"an AMI of {account}",
            "copy it, and name the copy",
        )
    if any(volume.get("Encrypted") for volume in volumes):
        yield "is encrypted", "an AMI that is not encrypted", "create it from a snapshot that is not encrypted"
    if len(volumes) > 1:
        yield f"has {len(volumes)} volumes", "the root volume alone", "create it without the other volumes"
    if image.get("Architecture") not in (None, architecture):
        yield f"is for {image.get('Architecture')}", f"an AMI for {architecture}", "name one of the nodes' architecture"


@rule("hyperpod", needs="account", title="AMI releases")
def releases_cannot_be_asked(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """No call of AWS lists the releases of the HyperPod AMI: a release that does not exist fails in the deployment.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-release-ami-eks.html
    """
    del account
    pinned = [(index, group) for index, group in enumerate(plan.groups) if group.image_release_version]
    if not pinned:
        yield skipped("no group names a release")
    for index, group in pinned:
        yield unknown(
            *GROUPS,
            index,
            "image_release_version",
            what=f"release {group.image_release_version} of '{group.name}': no call of AWS says whether it exists",
            expected="a release of AWS's list",
            fix=f"look it up in {RELEASES}, or remove image_release_version",
        )
