"""Checks of what the cluster stands on: addresses, Kubernetes version, subnets, image, keys."""

from __future__ import annotations

from datetime import UTC, datetime

from core import names
from core.model import NewEks
from core.service_limits import SUPPORT_WARNING_DAYS, in_standard_support, kubectl_for, minor_of, platform
from ops import output
from ops.clients import Target, absent, code
from ops.preflight.check import Outcome, failed, ok, skipped, unknown, warning
from pricing import price_file

RESERVED = 5
"""Addresses of every subnet that AWS keeps: https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html"""


def addresses(target: Target) -> list[Outcome]:
    """Each node subnet of the new VPC has room for its nodes' addresses at full count."""
    plan = target.plan
    if plan.existing_vpc is not None:
        return [skipped("the network exists: see subnets")]
    room = 2 ** (32 - plan.node_subnet_prefix) - RESERVED
    found = []
    for zone in plan.node_zones:
        needed = plan.node_addresses(zone)
        text = f"{zone}: {needed} of {room} addresses of a /{plan.node_subnet_prefix}"
        found.append(ok(text) if needed <= room else failed(text, "a larger network.cidr or node_subnet_prefix"))
    return found


def kubernetes_version(target: Target) -> list[Outcome]:
    """HyperPod supports the Kubernetes version."""
    version = target.plan.settings.eks.version
    known = platform().kubernetes_versions
    if target.plan.existing_eks is not None:
        return [skipped("the cluster exists: see EKS version")]
    if version in known:
        return [ok(f"{version}; HyperPod supports {known[0]} to {known[-1]}")]
    return [failed(f"{version}; HyperPod supports {known[0]} to {known[-1]}", "choose one of them in eks.version")]


def eks_support(target: Target) -> list[Outcome]:
    """How long EKS supports the version at its usual price, and what follows then."""
    if target.plan.existing_eks is not None:
        return [skipped("the cluster exists: see EKS version")]
    return [_support(target, target.plan.settings.eks.version, raise_it="raise eks.version")]


def _support(target: Target, version: str, *, raise_it: str) -> Outcome:
    """By the dates on file; `EKS version` has what the service itself says."""
    known, day = platform(), output.now().date()
    support = known.eks_support.get(version)
    if support is None:
        return unknown(f"{version}: service_rules/data/platform_versions.yaml does not say how long EKS supports it")
    phase, dearer = support.phase(day), _price_in_extended_support(target)
    days = (support.standard - day).days
    if phase == "standard" and days > SUPPORT_WARNING_DAYS:
        return ok(f"{version} is in standard support until {support.standard}; {dearer} from then on")
    if phase == "ended":
        return failed(
            f"EKS ended its support of {version} on {support.extended}: it makes no new cluster of it, and may update "
            "one that exists at any time",
            f"{raise_it}, one minor version at a time",
        )
    newer = in_standard_support(after=version, on=day)
    fix = (
        f"{raise_it} to {newer[-1]}, one minor version at a time"
        if newer
        else f"HyperPod supports no version in standard support: {raise_it} when it does"
    )
    if phase == "standard":
        left = "1 day" if days == 1 else f"{days} days"
        return warning(f"standard support of {version} ends in {left}, on {support.standard}; then {dearer}", fix)
    return warning(
        f"{version} has been in extended support since {support.standard}: {dearer}, until {support.extended}",
        fix,
    )


def _price_in_extended_support(target: Target) -> str:
    region = target.plan.settings.region
    try:
        prices = price_file.recorded(target.folder)
    except price_file.PriceFileError:  # `cost` says what is wrong with it
        return "the control plane costs more"
    usual, more = prices.hourly(region, "eks_cluster"), prices.hourly(region, "eks_extended_support")
    if usual is None or more is None:
        return "the control plane costs more"
    return f"the control plane costs {usual.usd + more.usd:.2f} $ an hour in place of {usual.usd:.2f}"


def _differs(version: str, ends: object) -> str:
    """What to say where the date on file is not the one that EKS gives."""
    support = platform().eks_support.get(version)
    if not isinstance(ends, datetime) or support is None or ends.astimezone(UTC).date() == support.standard:
        return ""
    return (
        f"EKS says that standard support of {version} ends on {ends.astimezone(UTC).date()}, "
        f"service_rules/data/platform_versions.yaml says {support.standard}"
    )


def pod_identity(target: Target) -> list[Outcome]:
    """An existing cluster has the add-on that `ray.access` needs; a new one gets it."""
    existing = target.plan.existing_eks
    if target.plan.settings.ray.access is None and target.plan.tier_bucket_name is None:
        return [skipped("neither ray.access nor hyperpod.tiered_storage is set")]
    if existing is None:
        return [skipped("the Eks stack adds it")]
    try:
        addon = target.aws.call(
            "eks", "describe_addon", clusterName=existing.cluster_name, addonName=names.POD_IDENTITY_ADDON
        )["addon"]
    except Exception as error:
        if not absent(error):
            raise
        agent = names.POD_IDENTITY_ADDON
        return [
            failed(
                f"{existing.cluster_name} has no add-on {agent}: Ray's pods would get no credentials",
                f"aws eks create-addon --cluster-name {existing.cluster_name} --addon-name {agent}",
            )
        ]
    return [ok(f"{names.POD_IDENTITY_ADDON} {addon.get('addonVersion', '')} is {addon.get('status', '')}")]


def eks_version(target: Target) -> list[Outcome]:
    """EKS offers the version, and in standard support (extended support costs more)."""
    settings, existing = target.plan.settings.eks, target.plan.existing_eks
    if existing is not None:
        cluster = target.aws.call("eks", "describe_cluster", name=existing.cluster_name)["cluster"]
        known = platform().kubernetes_versions
        text = f"{existing.cluster_name} is {cluster['status']}, version {cluster['version']}"
        if cluster["version"] not in known or cluster["status"] != "ACTIVE":
            return [failed(text, f"HyperPod needs an ACTIVE cluster of {known[0]} to {known[-1]}")]
        mode = (cluster.get("accessConfig") or {}).get("authenticationMode", "")
        if mode == "CONFIG_MAP":
            return [failed(f"{text}, authentication mode {mode}", "set it to API_AND_CONFIG_MAP")]
        return [
            *_kubectl(settings.version, cluster["version"], text),
            _support(target, cluster["version"], raise_it="update it"),
        ]
    answer = target.aws.call("eks", "describe_cluster_versions", clusterVersions=[settings.version])
    found = answer.get("clusterVersions", [])
    if not found:
        return [failed(f"EKS offers no version {settings.version}", "choose another eks.version")]
    status = found[0].get("versionStatus") or found[0].get("status", "")
    differs = _differs(settings.version, found[0].get("endOfStandardSupportDate"))
    more = [warning(differs, "correct the file: costs are counted by it")] if differs else []
    if "EXTENDED" in status.upper():
        costs = _price_in_extended_support(target)
        return [warning(f"{settings.version} is in extended support: {costs}", "choose a newer eks.version"), *more]
    return [ok(f"{settings.version}, {status.lower().replace('_', ' ')}"), *more]


def _kubectl(written: str, actual: str, text: str) -> list[Outcome]:
    """Whether the kubectl that the file's version chooses fits the cluster that is there."""
    kubectl = kubectl_for(written)
    if abs(minor_of(kubectl) - minor_of(actual)) > 1:
        why = (
            f"{text}; eks.version {written} applies manifests with kubectl {kubectl}, more than one minor version apart"
        )
        return [failed(why, f'set eks.version: "{actual}"')]
    if written != actual:
        return [warning(f"{text}; eks.version says {written}", f'set eks.version: "{actual}"')]
    return [ok(text)]


def subnets(target: Target) -> list[Outcome]:
    """Subnets of an existing network have enough free addresses and lie in the zones that the file says."""
    existing = target.plan.existing_vpc
    if existing is None:
        return [skipped("the network is made by the stack")]
    zones = {subnet_id: zone for zone, subnet_id in existing.node_subnet_ids.items()}
    answer = target.aws.call("ec2", "describe_subnets", SubnetIds=list(zones))
    found = []
    for subnet in answer["Subnets"]:
        identifier, zone = subnet["SubnetId"], zones[subnet["SubnetId"]]
        if subnet.get("AvailabilityZoneId", zone) != zone:
            found.append(
                failed(
                    f"{identifier} is in {subnet['AvailabilityZoneId']}, the file says {zone}",
                    "correct network.existing.node_subnet_ids",
                )
            )
            continue
        needed, free = target.plan.node_addresses(zone), subnet["AvailableIpAddressCount"]
        text = f"{identifier} in {zone}: {needed} addresses needed, {free} free"
        found.append(ok(text) if needed <= free else failed(text, "use a larger subnet, or fewer nodes"))
    return found


def image(target: Target) -> list[Outcome]:
    """The image that pods are to run is in ECR; or the deployment builds it."""
    built, uri = target.plan.built_image, target.plan.existing_image
    if built is not None or uri is None:
        where = f"{built.folder}/ into repository '{built.repository_name}'" if built else "a folder"
        return [ok(f"built from {where} by the deployment")]
    host, _, rest = uri.partition("/")
    repository, _, digest = rest.partition("@")
    parts = host.split(".")
    if len(parts) < 6 or parts[1:3] != ["dkr", "ecr"]:
        return [skipped(f"{host} is not ECR: it cannot be asked")]
    try:
        target.aws.call(
            "ecr", "describe_images", registryId=parts[0], repositoryName=repository, imageIds=[{"imageDigest": digest}]
        )
    except Exception as error:
        if absent(error) or code(error) == "ImageNotFoundException":
            return [failed(f"{uri} is not in ECR", "push it, or correct image.uri")]
        raise
    return [ok(f"{repository}@{digest[:19]}…")]


def kms_keys(target: Target) -> list[Outcome]:
    """Keys of node volumes are enabled."""
    arns = sorted(
        {
            group.volume_kms_key_arn
            for group in target.plan.settings.hyperpod.instance_groups
            if group.volume_kms_key_arn
        }
    )
    if not arns:
        return [skipped("no group names one")]
    found = []
    for arn in arns:
        state = target.aws.call("kms", "describe_key", KeyId=arn)["KeyMetadata"]["KeyState"]
        short = arn.rpartition("/")[2]
        found.append(
            ok(f"{short} {state}")
            if state == "Enabled"
            else failed(f"{short} is {state}", f"aws kms enable-key --key-id {short}")
        )
    return found


def linked_buckets(target: Target) -> list[Outcome]:
    """The buckets of `storage.data_repositories` are there, and in the region where objects are imported automatically.

    https://docs.aws.amazon.com/fsx/latest/LustreGuide/autoimport-data-repo-dra.html
    """
    links = target.plan.data_repositories
    if not links:
        return [skipped("no folder is linked to S3")]
    found = []
    region = target.plan.settings.region
    for bucket in sorted({link.bucket for link in links}):
        try:
            answer = target.aws.call("s3", "head_bucket", Bucket=bucket)
        except Exception as error:
            if not absent(error) and code(error) not in {"404", "403"}:
                raise
            found.append(
                failed(
                    f"{bucket} does not exist, or these credentials may not see it",
                    f"aws s3 mb s3://{bucket} --region {region}, or correct storage.data_repositories",
                )
            )
            continue
        there = answer.get("BucketRegion") or answer["ResponseMetadata"]["HTTPHeaders"].get(
            "x-amz-bucket-region", region
        )
        imports = any(link.auto_import for link in links if link.bucket == bucket)
        if imports and there != region:
            found.append(
                failed(
                    f"{bucket} is in {there}, and FSx imports automatically from {region} only",
                    "set auto_import: [] on its links, or use a bucket of the region",
                )
            )
        else:
            found.append(ok(f"{bucket} in {there}"))
    return found


def tier_bucket(target: Target) -> list[Outcome]:
    """The bucket of tiered checkpoints: a new one has a free name, an existing one is there and prunes itself."""
    name, tiered = target.plan.tier_bucket_name, target.plan.settings.hyperpod.tiered_storage
    if name is None or tiered is None:
        return [skipped("tiered storage is off")]
    try:
        target.aws.call("s3", "head_bucket", Bucket=name)
    except Exception as error:
        if not absent(error) and code(error) not in {"404", "403"}:
            raise
        if tiered.bucket is None:
            return [ok(f"the Ray stack creates {name}")]
        return [failed(f"{name} does not exist, or these credentials may not see it", "correct tiered_storage.bucket")]
    if tiered.bucket is None:
        if _owned(target, name, stack=names.RAY_STACK):
            return [ok(f"{name} is there")]
        return [failed(f"{name} exists, kept by an earlier deployment", f"set hyperpod.tiered_storage.bucket: {name}")]
    return (
        [ok(name)]
        if _prunes(target, name)
        else [
            warning(
                f"{name} has no lifecycle rule that deletes objects; nothing else prunes checkpoints in S3",
                "add a rule with an expiration",
            )
        ]
    )


def _owned(target: Target, name: str, *, stack: str) -> bool:
    """Whether the environment's deployed stack has a resource of that name."""
    try:
        answer = target.aws.call(
            "cloudformation", "describe_stack_resources", StackName=names.stack_name(target.name, stack)
        )
    except Exception as error:
        if code(error) == "ValidationError" or absent(error):
            return False
        raise
    return any(item.get("PhysicalResourceId") == name for item in answer["StackResources"])


def _prunes(target: Target, bucket: str) -> bool:
    try:
        answer = target.aws.call("s3", "get_bucket_lifecycle_configuration", Bucket=bucket)
    except Exception as error:
        if code(error) == "NoSuchLifecycleConfiguration":
            return False
        raise
    return any(rule.get("Status") == "Enabled" and "Expiration" in rule for rule in answer.get("Rules", []))


def left_behind(target: Target) -> list[Outcome]:
    """What an earlier environment left under the names of this one: CloudFormation creates no second one."""
    made = [_repository(target), _log_group(target)]
    return [outcome for outcome in made if outcome is not None] or [skipped("no name is fixed")]


def _repository(target: Target) -> Outcome | None:
    built = target.plan.built_image
    if built is None:
        return None
    name, there = built.repository_name, True
    try:
        target.aws.call("ecr", "describe_repositories", repositoryNames=[name])
    except Exception as error:
        if not absent(error) and code(error) != "RepositoryNotFoundException":
            raise
        there = False
    exists, setting = built.repository_exists, "image.repository_exists"
    return _taken(target, name, stack=names.IMAGE_STACK, there=there, exists=exists, setting=setting)


def _log_group(target: Target) -> Outcome | None:
    eks = target.plan.settings.eks
    if not isinstance(eks, NewEks):
        return None
    name = target.plan.control_plane_log_group
    found = target.aws.call("logs", "describe_log_groups", logGroupNamePrefix=name)["logGroups"]
    there = any(group["logGroupName"] == name for group in found)
    exists, setting = eks.log_group_exists, "eks.log_group_exists"
    return _taken(target, name, stack=names.NETWORK_STACK, there=there, exists=exists, setting=setting)


def _taken(target: Target, name: str, *, stack: str, there: bool, exists: bool, setting: str) -> Outcome:
    if exists:
        return ok(f"{name} is there") if there else failed(f"{name} does not exist", f"remove {setting}")
    if not there:
        return ok(f"{name} is free")
    if _owned(target, name, stack=stack):
        return ok(f"{name} is this environment's")
    return failed(f"{name} exists, and no stack of {target.name} has it", f"set {setting}: true, or delete it")
