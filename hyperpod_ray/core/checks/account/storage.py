"""Rules about the file system, buckets and images that the file names, as the account has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hyperpod_ray.core import names
from hyperpod_ray.core.checks.account.owners import owner
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.evidence import Account, absent, code, found
from hyperpod_ray.core.findings import Finding, error, fine, rule, skipped, unknown, warning
from hyperpod_ray.core.images import Reference
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.slurm_plan import SlurmPlan
from hyperpod_ray.core.yaml_source import Path

Json = dict[str, Any]
FILE_SYSTEM = ("storage", "existing", "file_system_id")
HOMES = ("homes", "existing", "file_system_id")


@rule("storage", "network", needs="account", title="file system")
def file_system_exists(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """An existing file system is there: Lustre, available, in the VPC and zone, with the mount name of the file.

    https://docs.aws.amazon.com/fsx/latest/APIReference/API_FileSystem.html
    """
    existing = plan.existing_file_system
    if existing is None:
        yield skipped("the deployment creates it")
        return
    identifier = existing.file_system_id
    answer = found(account, "fsx", "describe_file_systems", FileSystemIds=[identifier])
    if answer is None or not answer["FileSystems"]:
        message = f"{identifier}: no such file system in {plan.settings.account}, {plan.settings.region}"
        yield error(
            *FILE_SYSTEM,
            what=message,
            expected="a file system of this account and Region",
            fix="correct storage.existing.file_system_id",
        )
        return
    file_system, findings = answer["FileSystems"][0], []
    if file_system.get("FileSystemType", "LUSTRE") != "LUSTRE":
        yield error(
            *FILE_SYSTEM,
            what=f"{identifier} is {file_system['FileSystemType']}",
            expected="FSx for Lustre",
            fix="name a Lustre file system",
        )
        return
    if file_system.get("Lifecycle", "AVAILABLE") not in ("AVAILABLE", "UPDATING"):
        findings.append(
            error(
                *FILE_SYSTEM,
                what=f"{identifier} is {file_system['Lifecycle']}",
                expected="AVAILABLE",
                fix="repair it, or name another",
            )
        )
    mount = (file_system.get("LustreConfiguration") or {}).get("MountName", existing.mount_name)
    if mount != existing.mount_name:
        fix = f"set storage.existing.mount_name: {mount}"
        findings.append(
            error(
                "storage",
                "existing",
                "mount_name",
                what=f"the mount name of {identifier} is {mount}",
                expected=f"{existing.mount_name}, as the file has it",
                fix=fix,
            )
        )
    findings += _vpc(plan, account, file_system)
    findings += _zone(plan, account, file_system)
    yield from findings or [fine(*FILE_SYSTEM, what=f"{identifier} is {file_system.get('Lifecycle', '')}")]


@rule("homes", "network", needs="account", title="home folders", orchestrator="slurm")
def homes_exist(plan: SlurmPlan, account: Account) -> Iterator[Finding]:
    """An existing file system for home folders is there: OpenZFS, available, and in the VPC of the nodes.

    https://docs.aws.amazon.com/fsx/latest/APIReference/API_FileSystem.html
    """
    identifier = plan.existing_homes
    if identifier is None:
        yield skipped("the file names none" if plan.new_homes is None else "the deployment creates it")
        return
    answer = found(account, "fsx", "describe_file_systems", FileSystemIds=[identifier])
    if answer is None or not answer["FileSystems"]:
        yield error(
            *HOMES,
            what=f"{identifier}: no such file system in {plan.settings.account}, {plan.settings.region}",
            expected="a file system of this account and Region",
            fix="correct homes.existing.file_system_id",
        )
        return
    file_system = answer["FileSystems"][0]
    if file_system.get("FileSystemType") != "OPENZFS":
        yield error(
            *HOMES,
            what=f"{identifier} is {file_system.get('FileSystemType')}",
            expected="FSx for OpenZFS",
            fix="name an OpenZFS file system",
        )
        return
    findings = list(_vpc(plan, account, file_system, setting=HOMES))
    if file_system.get("Lifecycle") not in ("AVAILABLE", "UPDATING"):
        findings.append(
            error(
                *HOMES,
                what=f"{identifier} is {file_system.get('Lifecycle')}",
                expected="AVAILABLE",
                fix="repair it, or name another",
            )
        )
    yield from findings or [fine(*HOMES, what=f"{identifier} is {file_system.get('Lifecycle')}")]


def _vpc(plan: CommonPlan, account: Account, file_system: Json, *, setting: Path = FILE_SYSTEM) -> Iterator[Finding]:
    """A file system mounts in its own VPC: the one that the file names, or that the Network stack has created."""
    identifier, vpc = file_system["FileSystemId"], file_system.get("VpcId", "")
    if plan.existing_vpc is not None:
        if vpc != plan.existing_vpc.vpc_id:
            yield error(
                *setting,
                what=f"{identifier} is in {vpc}",
                expected=f"{plan.existing_vpc.vpc_id}, the VPC of the nodes",
                fix="name a file system of that VPC",
            )
        return
    stack = names.stack_name(plan.name, names.NETWORK_STACK)
    if owner(account, vpc) != stack:
        yield error(
            *setting,
            what=f"{identifier} is in {vpc}, and the Network stack creates another VPC",
            expected="one VPC for nodes and file system",
            fix=f"name {vpc} and its subnets in network.existing",
        )


def _zone(plan: CommonPlan, account: Account, file_system: Json) -> Iterator[Finding]:
    existing, subnets = plan.existing_file_system, file_system.get("SubnetIds") or []
    if existing is None or not subnets:
        return
    listed = account.call("ec2", "describe_subnets", Filters=[{"Name": "subnet-id", "Values": subnets[:1]}])["Subnets"]
    zone = listed[0].get("AvailabilityZoneId", "") if listed else ""
    if zone and zone != existing.availability_zone_id:
        fix = f"set storage.existing.availability_zone_id: {zone}"
        yield error(
            "storage",
            "existing",
            "availability_zone_id",
            what=f"{file_system['FileSystemId']} is in {zone}",
            expected=f"{existing.availability_zone_id}, as the file has it",
            fix=fix,
        )


def bucket_region(account: Account, bucket: str) -> str | None:
    """Region of a bucket, "" where these credentials may not see it, None where there is none of that name."""
    try:
        answer = account.call("s3", "head_bucket", Bucket=bucket)
    except Exception as bad:
        if code(bad) in {"403", "AccessDenied", "Forbidden"}:
            return ""
        if code(bad) in {"301", "PermanentRedirect"}:
            response: Json = getattr(bad, "response", {})
            headers = (response.get("ResponseMetadata") or {}).get("HTTPHeaders") or {}
            return str(headers.get("x-amz-bucket-region", "another Region"))
        if absent(bad):
            return None
        raise
    headers = (answer.get("ResponseMetadata") or {}).get("HTTPHeaders") or {}
    return str(answer.get("BucketRegion") or headers.get("x-amz-bucket-region") or "here")


@rule("storage", "ray", "region", needs="account", title="buckets")
def buckets_exist(plan: Plan, account: Account) -> Iterator[Finding]:
    """Buckets of `storage.data_repositories` and `ray.access` are there; imports need a bucket of the Region.

    https://docs.aws.amazon.com/fsx/latest/LustreGuide/autoimport-data-repo-dra.html
    """
    region, access = plan.settings.region, plan.settings.ray.access
    named: dict[str, Path] = {}
    for index, link in enumerate(plan.data_repositories):
        named.setdefault(link.bucket, ("storage", "data_repositories", index, "bucket"))
    for index, grant in enumerate(access.s3 if access else []):
        named.setdefault(grant.bucket, ("ray", "access", "s3", index, "bucket"))
    if not named:
        yield skipped("the file names none")
    for bucket, path in named.items():
        bucket_home = bucket_region(account, bucket)
        imports = any(link.auto_import for link in plan.data_repositories if link.bucket == bucket)
        if bucket_home is None:
            fix = f"aws s3 mb s3://{bucket} --region {region}, or correct the name"
            yield error(*path, what=f"{bucket}: no such bucket", expected="a bucket that exists", fix=fix)
        elif not bucket_home:
            message = f"{bucket} exists, and these credentials may not see it"
            yield unknown(
                *path, what=message, expected="s3:ListBucket on it", fix="ask its owner, or ask for s3:ListBucket on it"
            )
        elif imports and bucket_home not in (region, "here"):
            yield error(
                *path,
                what=f"{bucket} is in {bucket_home}, and FSx imports automatically from its own Region only",
                expected=f"a bucket in {region}",
                fix="set auto_import: [] on its links, or use a bucket of the Region",
            )
        else:
            yield fine(*path, what=f"{bucket} in {region if bucket_home == 'here' else bucket_home}")


@rule("hyperpod", "account", "region", needs="account", title="tier bucket", orchestrator="eks")
def tier_bucket_prunes(plan: Plan, account: Account) -> Iterator[Finding]:
    """An existing bucket of tiered checkpoints is there, and a rule of its own deletes old ones.

    https://docs.aws.amazon.com/sagemaker/latest/dg/managed-tier-checkpointing.html
    """
    tiered = plan.settings.hyperpod.tiered_storage
    if tiered is None or tiered.bucket is None:
        yield skipped("tiered storage is off" if tiered is None else "the Ray stack creates it")
        return
    path, bucket = ("hyperpod", "tiered_storage", "bucket"), tiered.bucket
    region = bucket_region(account, bucket)
    if region is None:
        yield error(
            *path,
            what=f"{bucket}: no such bucket",
            expected="a bucket that exists",
            fix="correct tiered_storage.bucket, or create it",
        )
    elif not region:
        message = f"{bucket} exists, and these credentials may not see it"
        yield unknown(
            *path, what=message, expected="s3:ListBucket on it", fix="ask its owner, or ask for s3:ListBucket on it"
        )
    elif not _prunes(account, bucket):
        yield warning(
            *path,
            what=f"{bucket} has no lifecycle rule that deletes objects, and nothing else prunes checkpoints in S3",
            expected="a rule with an expiration",
            fix="add a lifecycle rule with an expiration",
        )
    else:
        yield fine(*path, what=bucket)


def _prunes(account: Account, bucket: str) -> bool:
    try:
        answer = account.call("s3", "get_bucket_lifecycle_configuration", Bucket=bucket)
    except Exception as bad:
        if code(bad) == "NoSuchLifecycleConfiguration":
            return False
        raise
    return any(
        lifecycle_rule.get("Status") == "Enabled" and {"Days", "Date"} & set(lifecycle_rule.get("Expiration") or ())
        for lifecycle_rule in answer.get("Rules", [])
    )


@rule("image", eks=("ray", "registries"), needs="account", title="image")
def images_exist(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """Images that the file names in Amazon ECR are there, by their digests.

    https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_DescribeImages.html
    """
    built = plan.built_image
    if built is None and plan.existing_image is None:
        yield skipped("the file names none")
    if built is not None:
        yield fine("image", what=f"built from {built.folder}/ into repository '{plan.image_repository}'")
    for path, uri in plan.images:
        if uri is None:
            continue
        reference = Reference.parse(uri)
        if reference.ecr is None:
            yield skipped(f"{reference.registry} is not Amazon ECR: it cannot be asked")
            continue
        number, region = reference.ecr
        if region != plan.settings.region:
            yield skipped(f"{reference.registry} is of another Region: it was not asked")
            continue
        answer = found(
            account,
            "ecr",
            "describe_images",
            registryId=number,
            repositoryName=reference.repository,
            imageIds=[{"imageDigest": reference.digest}],
        )
        details = (answer or {}).get("imageDetails") or []
        if not any(image.get("imageDigest") == reference.digest for image in details):
            yield error(
                *path,
                what=f"{uri} is not in ECR",
                expected="an image of that digest",
                fix=f"push it, or correct {'.'.join(map(str, path))}",
            )
        else:
            yield fine(*path, what=f"{reference.repository}@{reference.digest[:19]}…")


@rule("registries", needs="account", title="pull-through caches")
def caches_exist(plan: Plan, account: Account) -> Iterator[Finding]:
    """Pull-through caches that nodes may pull from are there.

    https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_DescribePullThroughCacheRules.html
    """
    prefixes = plan.settings.registries.pull_through_caches
    if not prefixes:
        yield skipped("the file names none")
    for index, prefix in enumerate(prefixes):
        path = ("registries", "pull_through_caches", index)
        answer = found(account, "ecr", "describe_pull_through_cache_rules", ecrRepositoryPrefixes=[prefix])
        if answer is None or not answer.get("pullThroughCacheRules"):
            fix = "aws ecr create-pull-through-cache-rule, or correct the prefix"
            yield error(
                *path,
                what=f"{prefix}: no such pull-through cache",
                expected="a pull-through cache rule of that prefix",
                fix=fix,
            )
        else:
            yield fine(*path, what=f"{prefix} from {answer['pullThroughCacheRules'][0].get('upstreamRegistryUrl', '')}")
