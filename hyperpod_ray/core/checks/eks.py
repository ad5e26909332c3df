"""Rules about the EKS cluster and who may use it."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping

from hyperpod_ray.core import names
from hyperpod_ray.core.findings import Finding, error, fine, rule, warning
from hyperpod_ray.core.model import Environment, NewEks
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.plan_names import log_groups
from hyperpod_ray.core.service_limits import SUPPORT_WARNING_DAYS, in_standard_support, partition_of, platform
from hyperpod_ray.core.today import today
from hyperpod_ray_rules.arns import arn_of
from hyperpod_ray_rules.eks import public_cidrs
from hyperpod_ray_rules.hyperpod import orchestrator_version
from hyperpod_ray_rules.refusal import Refusal

COSTS_MORE = "extended support costs more"
"""What a warning says of the price; `preflight` puts the figures there."""
RANGES = "name the ranges you work from"
EXAMPLE_RANGES = ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")
"""RFC 5737: in documentation only."""


@rule("eks")
def version_is_supported(plan: Plan) -> Iterator[Finding]:
    """HyperPod supports a range of Kubernetes versions (`hyperpod_ray_rules/data/platform_versions.yaml`).

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-prerequisites.html
    """
    for refusal in orchestrator_version(plan.settings.eks.version):
        yield error("eks", "version", what=refusal.message, expected=refusal.expected, fix="set one of these versions")


@rule("eks", "region")
def version_is_in_standard_support(plan: Plan) -> Iterator[Finding]:
    """EKS charges more for a version after its standard support, and later updates the cluster by itself.

    https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html
    """
    whose = "raise eks.version" if plan.existing_eks is None else "update the cluster"
    if plan.new_eks is not None and plan.new_eks.support_type == "STANDARD":
        return  # `standard_support_updates_by_itself` answers
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
            yield fine("eks", "version", what=f"{version} is in standard support until {support.standard}")
        return
    newer = in_standard_support(after=version, on=day)
    fix = (
        f"{whose} to {newer[-1]}, one minor version at a time"
        if newer
        else "wait for a newer version: HyperPod supports none yet"
    )
    if phase == "ended":
        message = f"EKS ended its support of {version} on {support.extended}: it creates no new cluster of it"
    elif phase == "extended":
        message = f"{version} is in extended support since {support.standard} until {support.extended}; {COSTS_MORE}"
    else:
        remaining = "1 day" if days == 1 else f"{days} days"
        message = f"standard support of {version} ends in {remaining}, on {support.standard}; {COSTS_MORE}"
    yield warning(
        "eks",
        "version",
        what=message,
        expected=f"a version in standard support for more than {SUPPORT_WARNING_DAYS} days",
        fix=fix,
    )


@rule("eks")
def standard_support_updates_by_itself(plan: Plan) -> Iterator[Finding]:
    """At the end of standard support, EKS updates a cluster without extended support to the next version.

    https://docs.aws.amazon.com/eks/latest/userguide/view-upgrade-policy.html
    """
    if plan.new_eks is None or plan.new_eks.support_type == "EXTENDED":
        return
    version, supported = plan.new_eks.version, platform().kubernetes_versions
    support = platform().eks_support.get(version)
    if support is None or version not in supported:
        return
    if support.phase(today()) != "standard":
        yield error(
            "eks",
            "support_type",
            what=f"'STANDARD', and standard support of {version} ended on {support.standard}",
            expected="a version in standard support, or 'EXTENDED'",
            fix=f"raise eks.version to {supported[-1]}, or remove support_type",
        )
        return
    newer = f"{version.split('.')[0]}.{int(version.split('.')[1]) + 1}"
    beyond = "" if newer in supported else f", which HyperPod does not support: {supported[-1]} is its newest"
    yield warning(
        "eks",
        "support_type",
        what=f"'STANDARD': after {support.standard} EKS updates the cluster to {newer} by itself{beyond}",
        expected="an update that this file makes: EKS refuses a version below the cluster's at the next deploy",
        fix="remove support_type" if beyond else f"raise eks.version to {newer}, or remove support_type",
    )


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
        yield error(
            *path,
            what="a public endpoint without ranges",
            expected="the ranges that may reach it, for example your office's",
            fix="name them, or set eks.endpoint.public: false",
        )
    if not endpoint.public and endpoint.public_cidrs:
        yield warning(
            *path,
            what="has no effect while eks.endpoint.public is false",
            expected="a public endpoint, or no ranges",
            fix="remove public_cidrs, or set public: true",
        )
    wide = sum(network.num_addresses for network in ipaddress.collapse_addresses(_ranges(endpoint.public_cidrs)))
    if wide >= 2**25 and len(endpoint.public_cidrs) > 1:
        yield error(
            *path,
            what=f"the {len(endpoint.public_cidrs)} ranges have {wide:,} addresses, a large part of the internet",
            expected=f"fewer than {2**25:,} addresses",
            fix=RANGES,
        )
    refused = {parsed.index: parsed for parsed in public_cidrs(endpoint.public_cidrs)}
    if too_many := refused.pop(None, None):
        yield error(
            *path, what=too_many.message, expected=too_many.expected, fix="combine neighboring ranges, or remove some"
        )
    yield from _judged_ranges(endpoint.public_cidrs, refused)


def _judged_ranges(cidrs: list[str], refused: Mapping[int | None, Refusal]) -> Iterator[Finding]:
    """Each range by itself; `refused` has what EKS refuses, by the range's place."""
    path = ("eks", "endpoint", "public_cidrs")
    for index, cidr in enumerate(cidrs):
        try:
            parsed = ipaddress.IPv4Network(cidr)
        except ValueError:
            yield error(
                *path, index, what=refused[index].message, expected=refused[index].expected, fix="correct the range"
            )
            continue
        if parsed.prefixlen == 0:
            yield error(
                *path, index, what="'0.0.0.0/0' is the whole internet", expected="ranges of /8 or smaller", fix=RANGES
            )
        elif parsed.prefixlen < 8:
            yield error(
                *path,
                index,
                what=f"'{cidr}' is a large part of the internet",
                expected="ranges of /8 or smaller",
                fix=RANGES,
            )
        elif any(parsed.subnet_of(ipaddress.IPv4Network(example)) for example in EXAMPLE_RANGES):
            yield error(
                *path,
                index,
                what=f"'{cidr}' is reserved for examples",
                expected="public addresses of yours",
                fix=RANGES,
            )
        elif index in refused:
            yield error(*path, index, what=refused[index].message, expected=refused[index].expected, fix=RANGES)


def _ranges(cidrs: list[str]) -> Iterator[ipaddress.IPv4Network]:
    for cidr in cidrs:
        try:
            network = ipaddress.IPv4Network(cidr)
        except ValueError:
            continue
        if network.prefixlen >= 8:  # a wider one is an error of its own
            yield network


@rule("eks", "network")
def closed_network_reaches_nothing(plan: Plan) -> Iterator[Finding]:
    """With a public endpoint the API server of a closed network is reachable from outside after all."""
    if isinstance(plan.settings.eks, NewEks) and plan.settings.eks.endpoint.public and plan.settings.network.closed:
        yield warning(
            "eks",
            "endpoint",
            "public",
            what="opens the API server of a network that is otherwise closed",
            expected="a private endpoint with network.egress 'closed'",
            fix="set public: false, or accept that the API server is reachable from outside",
        )


@rule("eks", "network")
def existing_cluster_has_existing_network(plan: Plan) -> Iterator[Finding]:
    """HyperPod nodes and the EKS cluster are in one VPC."""
    if plan.existing_eks is not None and plan.existing_vpc is None:
        yield error(
            "eks",
            "existing",
            what="an existing cluster, and network creates a VPC",
            expected="the VPC of the cluster",
            fix="name its VPC in network.existing",
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
            what=f"'{existing.oidc_issuer_url[:80]}' is not in {plan.settings.region}",
            expected=f"a URL of https://oidc.eks.{plan.settings.region}",
            fix="correct the URL, or region",
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
    holders: dict[str, str] = {}
    for path, arn in roles:
        yield from _role(path, arn, settings)
        if arn in holders and path[1] != "existing":
            yield error(
                *path,
                what=f"'{arn}' is already in {holders[arn]}",
                expected="one access entry for each role",
                fix="keep one",
            )
        holders.setdefault(arn, f"eks.{path[1]}")


def _role(path: tuple[str | int, ...], arn: str, settings: Environment) -> Iterator[Finding]:
    """One role by itself."""
    partition, account = arn_of(arn).partition, arn_of(arn).account
    expected_partition = partition_of(settings.region)
    if partition != expected_partition:
        yield error(
            *path,
            what=f"'{arn}' is in partition {partition}",
            expected=f"partition {expected_partition}, that of {settings.region}",
            fix="name a role of that partition",
        )
    if "*" in arn or "?" in arn or arn.endswith("/"):
        yield error(
            *path,
            what=f"'{arn}' names no single role",
            expected="the ARN of one role, without a wildcard",
            fix="correct the ARN",
        )
    if "/aws-service-role/" in arn:
        yield error(
            *path,
            what=f"'{arn}' is a service-linked role, which gets no access entry",
            expected="a role of yours",
            fix="name another role",
        )
    if account != settings.account and path[1] == "existing":
        yield error(
            *path,
            what=f"is a role of account {account}, and Lambda uses roles of its own account only",
            expected=f"a role of {settings.account}",
            fix="name a role of that account",
        )
    elif account != settings.account:
        yield warning(
            *path,
            what=f"is a role of account {account}",
            expected=f"a role of the environment's account, {settings.account}",
            fix=f"make sure that {settings.account} trusts that account, or name a role of its own",
        )


@rule("eks", "ray")
def users_get_ray_namespaces(plan: Plan) -> Iterator[Finding]:
    """A Ray user works in Ray's namespace or in one of their own, never in one of the system's."""
    for index, user in enumerate(plan.settings.eks.ray_users):
        path = ("eks", "ray_users", index, "namespaces")
        for position, namespace in enumerate(user.namespaces):
            if namespace in names.SYSTEM_NAMESPACES or namespace.startswith("kube-"):
                yield error(
                    *path,
                    position,
                    what=f"'{namespace}' belongs to the cluster itself",
                    expected="a namespace of the users' own",
                    fix="name another namespace",
                )
            if namespace in user.namespaces[:position]:
                yield error(
                    *path,
                    position,
                    what=f"'{namespace}' is named twice",
                    expected="each namespace once",
                    fix="keep one",
                )
        if plan.settings.ray.namespace not in user.namespaces:
            yield warning(
                *path,
                what=f"'{plan.settings.ray.namespace}', where the RayCluster is, is not among them",
                expected="the namespace of the RayCluster, for users who submit to it",
                fix=f"add '{plan.settings.ray.namespace}', unless these users only run jobs of their own",
            )


@rule("network", "eks", "hyperpod", "image", "log_group_names")
def what_exists_keeps_its_settings(plan: Plan) -> Iterator[Finding]:
    """A repository or log group that exists is used as it is."""
    image = plan.built_image
    for group in log_groups(plan):
        if group.exists and group.retention in getattr(plan.settings, group.section).model_fields_set:
            yield error(
                group.section,
                group.retention,
                what=f"is of a new log group, and {group.setting} is true",
                expected="one of the two",
                fix="remove one",
            )
    if image is None or not image.repository_exists:
        return
    for name in ("keep_images", "on_destroy"):
        if name in image.model_fields_set:
            yield error(
                "image",
                name,
                what="is of a new repository, and repository_exists is true",
                expected="one of the two",
                fix="remove one",
            )
