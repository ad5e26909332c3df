"""Rules about the EKS cluster and who may use it."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from core import names
from core.findings import Finding, error, fine, rule, warning
from core.model import NewEks
from core.plan import Plan
from core.plan_names import log_groups
from core.service_limits import SUPPORT_WARNING_DAYS, in_standard_support, partition_of, platform
from core.today import today
from service_rules.eks import public_cidrs
from service_rules.hyperpod import orchestrator_version

COSTS_MORE = "extended support costs more"
"""What a warning says of the price; `preflight` puts the figures there."""
EXAMPLE_RANGES = ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")
"""RFC 5737: in documentation only."""


@rule("eks")
def version_is_supported(plan: Plan) -> Iterator[Finding]:
    """HyperPod supports a range of Kubernetes versions (`service_rules/data/platform_versions.yaml`).

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-prerequisites.html
    """
    for reason in version_is_supported_by_hyperpod(plan.settings.eks.version):
        yield error("eks", "version", message=reason)


def version_is_supported_by_hyperpod(version: str) -> Iterator[str]:
    """Why HyperPod refuses a Kubernetes version; nothing where it takes it."""
    yield from (found.message for found in orchestrator_version(version))


@rule("eks", "region")
def version_is_in_standard_support(plan: Plan) -> Iterator[Finding]:
    """EKS charges more for a version after its standard support, and later updates the cluster by itself.

    https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html
    """
    whose = "raise eks.version" if plan.existing_eks is None else "update the cluster"
    yield from support_of(plan.settings.eks.version, whose=whose)


def support_of(version: str, *, whose: str, fine_too: bool = False) -> Iterator[Finding]:
    """How long EKS supports a version, by the dates on file.

    Args:
        version: Kubernetes version of a cluster.
        whose: What to do to get a newer one.
        fine_too: Whether to answer a version in standard support.
    """
    day, support = today(), platform().eks_support.get(version)
    if support is None or version not in platform().kubernetes_versions:
        return
    phase, days = support.phase(day), (support.standard - day).days
    if phase == "standard" and days > SUPPORT_WARNING_DAYS:
        if fine_too:
            yield fine("eks", "version", message=f"{version} is in standard support until {support.standard}")
        return
    newer = in_standard_support(after=version, on=day)
    fix = (
        f"Fix: {whose} to {newer[-1]}, one minor version at a time"
        if newer
        else "HyperPod supports no newer version yet"
    )
    if phase == "ended":
        said = f"EKS ended its support of {version} on {support.extended}: it makes no new cluster of it"
    elif phase == "extended":
        said = f"{version} is in extended support since {support.standard} until {support.extended}; {COSTS_MORE}"
    else:
        left = "1 day" if days == 1 else f"{days} days"
        said = f"standard support of {version} ends in {left}, on {support.standard}; {COSTS_MORE}"
    yield warning("eks", "version", message=f"{said}. {fix}")


@rule("eks")
def public_endpoint_is_limited(plan: Plan) -> Iterator[Finding]:
    """A public API server is open to named ranges only, and those ranges are public addresses.

    https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html
    """
    if not isinstance(plan.settings.eks, NewEks):
        return
    endpoint = plan.settings.eks.endpoint
    path = ("eks", "endpoint", "public_cidrs")
    if endpoint.public and not endpoint.public_cidrs:
        yield error(*path, message="a public endpoint needs the ranges that may reach it, for example your office's")
    if not endpoint.public and endpoint.public_cidrs:
        yield warning(*path, message="has no effect while eks.endpoint.public is false")
    wide = sum(one.num_addresses for one in ipaddress.collapse_addresses(_ranges(endpoint.public_cidrs)))
    if wide >= 2**25 and len(endpoint.public_cidrs) > 1:
        message = f"the {len(endpoint.public_cidrs)} ranges have {wide:,} addresses, a large part of the internet. "
        yield error(*path, message=f"{message}Fix: name the ranges you work from")
    refused = {found.index: found.message for found in public_cidrs(endpoint.public_cidrs)}
    if None in refused:
        yield error(*path, message=refused.pop(None))
    for index, cidr in enumerate(endpoint.public_cidrs):
        try:
            found = ipaddress.IPv4Network(cidr)
        except ValueError:
            yield error(*path, index, message=refused[index])
            continue
        if found.prefixlen == 0:
            yield error(*path, index, message="'0.0.0.0/0' is the whole internet; name the ranges you work from")
        elif found.prefixlen < 8:
            yield error(
                *path, index, message=f"'{cidr}' is a large part of the internet; name the ranges you work from"
            )
        elif any(found.subnet_of(ipaddress.IPv4Network(example)) for example in EXAMPLE_RANGES):
            yield error(*path, index, message=f"'{cidr}' is reserved for examples; name the ranges you work from")
        elif index in refused:
            yield error(*path, index, message=refused[index])


def _ranges(cidrs: list[str]) -> Iterator[ipaddress.IPv4Network]:
    for cidr in cidrs:
        try:
            found = ipaddress.IPv4Network(cidr)
        except ValueError:
            continue
        if found.prefixlen >= 8:  # a wider one is an error of its own
            yield found


@rule("eks", "network")
def closed_network_reaches_nothing(plan: Plan) -> Iterator[Finding]:
    """With a public endpoint the API server of a closed network is reachable from outside after all."""
    if isinstance(plan.settings.eks, NewEks) and plan.settings.eks.endpoint.public and plan.settings.network.closed:
        yield warning("eks", "endpoint", "public", message="opens the API server of a network that is otherwise closed")


@rule("eks", "network")
def existing_cluster_has_existing_network(plan: Plan) -> Iterator[Finding]:
    """HyperPod nodes and the EKS cluster are in one VPC."""
    if plan.existing_eks is not None and plan.existing_vpc is None:
        yield error(
            "eks",
            "existing",
            message="an existing cluster is in a VPC that exists too; give it in network.existing (its own VPC)",
        )


@rule("eks", "region")
def issuer_is_of_the_region(plan: Plan) -> Iterator[Finding]:
    """An EKS issuer's host names the cluster's region."""
    existing = plan.existing_eks
    if existing and not existing.oidc_issuer_url.startswith(f"https://oidc.eks.{plan.settings.region}."):
        yield error(
            "eks",
            "existing",
            "oidc_issuer_url",
            message=f"'{existing.oidc_issuer_url[:80]}' is not in {plan.settings.region}; "
            f"it begins with https://oidc.eks.{plan.settings.region}.",
        )


@rule("eks", "region", "account")
def roles_are_plausible(plan: Plan) -> Iterator[Finding]:
    """Role ARNs are in the region's partition, name one role each, and none twice (EKS has one access entry for each).

    A role of another account works only if that account is trusted: a warning.
    https://docs.aws.amazon.com/eks/latest/userguide/access-entries.html
    """
    settings = plan.settings
    eks = settings.eks
    roles: list[tuple[tuple[str | int, ...], str]] = [
        (("eks", "admin_role_arns", index), arn) for index, arn in enumerate(eks.admin_role_arns)
    ]
    roles += [(("eks", "ray_users", index, "role_arn"), user.role_arn) for index, user in enumerate(eks.ray_users)]
    if plan.existing_eks:
        roles.append((("eks", "existing", "kubectl_role_arn"), plan.existing_eks.kubectl_role_arn))
    seen: dict[str, str] = {}
    for path, arn in roles:
        partition, account = arn.split(":")[1], arn.split(":")[4]
        wanted = partition_of(settings.region)
        if partition != wanted:
            yield error(*path, message=f"'{arn}' is in partition {partition}, the region {settings.region} in {wanted}")
        if "*" in arn or "?" in arn or arn.endswith("/"):
            yield error(*path, message=f"'{arn}' names no single role; a wildcard is not allowed")
        name = arn.rpartition("/")[2]
        if "/aws-service-role/" in arn:
            yield error(
                *path,
                message=f"'{arn}' is a service-linked role; EKS makes no access entry for it. Fix: a role of yours",
            )
        elif len(name) > 64:
            yield error(
                *path, message=f"the role's name has {len(name)} characters. Expected at most 64. Fix: correct the ARN"
            )
        if account != settings.account and path[1] == "existing":
            yield error(*path, message=f"is a role of account {account}; Lambda runs functions with roles of its own "
                        f"account, {settings.account}. Fix: a role of that account")  # fmt: skip
        elif account != settings.account:
            yield warning(*path, message=f"is a role of account {account}, the environment is in {settings.account}")
        if arn in seen and path[1] != "existing":
            yield error(*path, message=f"'{arn}' is already in {seen[arn]}; EKS has one access entry per role")
        seen.setdefault(arn, f"eks.{path[1]}")


@rule("eks", "ray")
def users_get_ray_namespaces(plan: Plan) -> Iterator[Finding]:
    """A Ray user works in Ray's namespace or in one of their own, never in one of the system's."""
    for index, user in enumerate(plan.settings.eks.ray_users):
        path = ("eks", "ray_users", index, "namespaces")
        for place, namespace in enumerate(user.namespaces):
            if namespace in names.SYSTEM_NAMESPACES or namespace.startswith("kube-"):
                yield error(
                    *path,
                    place,
                    message=f"'{namespace}' belongs to the cluster itself; Ray users get namespaces of their own",
                )
            if namespace in user.namespaces[:place]:
                yield error(*path, place, message=f"'{namespace}' is named twice")
        if plan.settings.ray.namespace not in user.namespaces:
            yield warning(*path, message=f"'{plan.settings.ray.namespace}', where the RayCluster is, is not among them")


@rule("network", "eks", "hyperpod", "image")
def what_exists_keeps_its_settings(plan: Plan) -> Iterator[Finding]:
    """A repository or log group that exists is used as it is."""
    image = plan.built_image
    for group in log_groups(plan):
        if group.exists and group.retention in getattr(plan.settings, group.section).model_fields_set:
            yield error(
                group.section,
                group.retention,
                message=f"is of a new log group, and {group.setting} is true; remove one",
            )
    if image is None or not image.repository_exists:
        return
    for name in ("keep_images", "on_destroy"):
        if name in image.model_fields_set:
            yield error("image", name, message="is of a new repository, and repository_exists is true; remove one")
