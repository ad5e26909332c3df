"""Rules about the EKS cluster: an existing one as the account has it, or the version of a new one as EKS offers it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import yaml

from hyperpod_ray.core import names
from hyperpod_ray.core.checks.eks import COSTS_MORE, support_of
from hyperpod_ray.core.evidence import Account, found
from hyperpod_ray.core.findings import Finding, error, fine, rule, skipped, warning
from hyperpod_ray.core.model import ExistingEksCluster
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.service_limits import kubectl_for, minor_of, platform
from hyperpod_ray_rules import eks as rules
from hyperpod_ray_rules.hyperpod import orchestrator_version

Json = dict[str, Any]
EXISTING = ("eks", "existing")
NAME = (*EXISTING, "cluster_name")
CNI_SINCE = (1, 18, 3)
ADMIN = "AmazonEKSClusterAdminPolicy"


@rule("eks", "network", needs="account", title="EKS cluster")
def existing_cluster_fits(plan: Plan, account: Account) -> Iterator[Finding]:
    """The EKS cluster that the file names is there, as the file says it is, and can orchestrate HyperPod.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-prerequisites.html
    """
    existing = plan.existing_eks
    if existing is None:
        yield skipped("the Eks stack creates it")
        return
    answer = found(account, "eks", "describe_cluster", name=existing.cluster_name)
    if answer is None:
        message = f"{existing.cluster_name}: no such EKS cluster in {plan.settings.account}, {plan.settings.region}"
        yield error(
            *NAME,
            what=message,
            expected="an EKS cluster of this account and Region",
            fix="correct eks.existing.cluster_name, or create the cluster",
        )
        return
    cluster = answer["cluster"]
    findings = [
        error(*NAME, what=refusal.message, expected=refusal.expected, fix=_fix(refusal.rule, existing.cluster_name))
        for refusal in rules.orchestrator({**cluster, "name": existing.cluster_name})
    ]
    findings += _version(plan, cluster)
    findings += _differs(plan, existing, cluster)
    yield from findings
    if not any(finding.severity == "error" for finding in findings):
        yield fine(*NAME, what=f"{existing.cluster_name} is {cluster['status']}, version {cluster['version']}")
    yield from support_of(cluster["version"], whose="update the cluster", fine_too=True)


def _fix(rule_name: str, cluster: str) -> str:
    if rule_name == "access_entries":
        mode = "--access-config authenticationMode=API_AND_CONFIG_MAP"
        return f"aws eks update-cluster-config --name {cluster} {mode}"
    return "wait until it is ACTIVE"


def _version(plan: Plan, cluster: Json) -> Iterator[Finding]:
    """The version that is there: HyperPod supports it, and the kubectl that the file's version chooses fits it."""
    actual, written = cluster["version"], plan.settings.eks.version
    path, fix = ("eks", "version"), f'set eks.version: "{actual}"'
    text = f"{cluster.get('name', '')} has Kubernetes {actual}"
    refused = list(orchestrator_version(actual))
    yield from (
        error(*path, what=f"{text}: {reason.message}", expected=reason.expected, fix="update the cluster")
        for reason in refused
    )
    if refused or written == actual:
        return
    kubectl = kubectl_for(written)
    if abs(minor_of(kubectl) - minor_of(actual)) > 1:
        yield error(
            *path,
            what=f"{text}; eks.version {written} applies manifests with kubectl {kubectl}",
            expected="versions at most one minor version apart",
            fix=fix,
        )
    else:
        yield warning(*path, what=f"{text}; eks.version is {written}", expected="the version of the cluster", fix=fix)


def _differs(plan: Plan, existing: ExistingEksCluster, cluster: Json) -> Iterator[Finding]:
    """Where the file does not say of the cluster what EKS says of it."""
    config = cluster.get("resourcesVpcConfig") or {}
    vpc = plan.existing_vpc.vpc_id if plan.existing_vpc else ""
    issuer = ((cluster.get("identity") or {}).get("oidc") or {}).get("issuer", "")
    group = config.get("clusterSecurityGroupId", "")
    if vpc and config.get("vpcId", vpc) != vpc:
        yield error(
            "network",
            "existing",
            "vpc_id",
            what=f"{existing.cluster_name} is in {config['vpcId']}",
            expected=f"{vpc}, as the file has it",
            fix="name the cluster's VPC and its subnets",
        )
    if issuer and issuer != existing.oidc_issuer_url:
        fix = f"set eks.existing.oidc_issuer_url: {issuer}"
        yield error(
            *EXISTING,
            "oidc_issuer_url",
            what=f"the OIDC issuer of {existing.cluster_name} is {issuer}",
            expected=f"{existing.oidc_issuer_url}, as the file has it",
            fix=fix,
        )
    if group and group != existing.security_group_id:
        fix = f"set eks.existing.security_group_id: {group}"
        yield error(
            *EXISTING,
            "security_group_id",
            what=f"the cluster security group of {existing.cluster_name} is {group}",
            expected=f"{existing.security_group_id}, as the file has it",
            fix=fix,
        )
    if config.get("endpointPrivateAccess") is False:
        yield error(
            *NAME,
            what=f"the private endpoint of {existing.cluster_name} is off",
            expected="it on: nodes and functions use it",
            fix=(
                f"aws eks update-cluster-config --name {existing.cluster_name} --resources-vpc-config "
                "endpointPrivateAccess=true"
            ),
        )


@rule("eks", needs="account", title="OIDC provider")
def oidc_provider_exists(plan: Plan, account: Account) -> Iterator[Finding]:
    """IAM has an OIDC provider for the existing cluster's issuer: the CSI driver's role trusts it.

    https://docs.aws.amazon.com/eks/latest/userguide/enable-iam-roles-for-service-accounts.html
    """
    existing = plan.existing_eks
    if existing is None:
        yield skipped("the Eks stack creates it")
        return
    path = (*EXISTING, "oidc_issuer_url")
    listed = account.call("iam", "list_open_id_connect_providers")["OpenIDConnectProviderList"]
    host = existing.oidc_issuer_url.removeprefix("https://")
    if any(str(provider["Arn"]).endswith(f":oidc-provider/{host}") for provider in listed):
        yield fine(*path, what=f"{host} has one")
    else:
        fix = f"eksctl utils associate-iam-oidc-provider --cluster {existing.cluster_name} --approve"
        yield error(
            *path,
            what=f"IAM has no OIDC provider for {existing.oidc_issuer_url}",
            expected="one, for the roles of service accounts",
            fix=fix,
        )


@rule("eks", needs="account", title="kubectl role")
def kubectl_role_is_admin(plan: Plan, account: Account) -> Iterator[Finding]:
    """The role that applies manifests to an existing cluster has an access entry there that makes it an administrator.

    https://docs.aws.amazon.com/eks/latest/userguide/access-policies.html
    """
    existing = plan.existing_eks
    if existing is None:
        yield skipped("the Eks stack creates it")
        return
    path, role = (*EXISTING, "kubectl_role_arn"), existing.kubectl_role_arn
    answer = found(
        account,
        "eks",
        "list_associated_access_policies",
        clusterName=existing.cluster_name,
        principalArn=role,
    )
    name = role.rpartition("/")[2]
    policies = [policy["policyArn"].rpartition("/")[2] for policy in (answer or {}).get("associatedAccessPolicies", [])]
    if ADMIN in policies:
        yield fine(*path, what=f"{name} has {ADMIN}")
        return
    message = (
        f"{name} has no access entry in {existing.cluster_name}"
        if answer is None
        else f"the access entry of {name} lacks {ADMIN}"
    )
    fix = f"aws eks create-access-entry --cluster-name {existing.cluster_name} --principal-arn {role}; then "
    fix += f"associate-access-policy with {ADMIN} and --access-scope type=cluster"
    yield error(*path, what=message, expected=f"an access entry with {ADMIN}", fix=fix)


@rule("eks", "ray", "hyperpod", needs="account", title="add-ons")
def existing_cluster_has_add_ons(plan: Plan, account: Account) -> Iterator[Finding]:
    """An existing cluster has the CNI that enforces network policies, and the agent that pods get their roles from.

    https://docs.aws.amazon.com/eks/latest/userguide/cni-network-policy.html
    """
    existing = plan.existing_eks
    if existing is None:
        yield skipped("the Eks stack adds them")
        return
    cluster, path = existing.cluster_name, NAME
    cni = found(account, "eks", "describe_addon", clusterName=cluster, addonName=names.CNI_ADDON)
    version = _numbers(((cni or {}).get("addon") or {}).get("addonVersion", ""))
    if cni is None:
        yield warning(
            *path,
            what=f"{cluster} has no add-on {names.CNI_ADDON}",
            expected="it, or another CNI that enforces network policies",
            fix=f"make sure of {names.CNI_ADDON} 1.18.3 or newer, with policies on",
        )
    elif version and version < CNI_SINCE:
        fix = f"aws eks update-addon --cluster-name {cluster} --addon-name {names.CNI_ADDON}"
        yield error(
            *path,
            what=f"{names.CNI_ADDON} of {cluster} is {cni['addon']['addonVersion']}",
            expected="1.18.3 or newer",
            fix=fix,
        )
    elif not _enforces(cni["addon"]):
        fix = f"aws eks update-addon --cluster-name {cluster} --addon-name {names.CNI_ADDON} --resolve-conflicts "
        fix += """PRESERVE --configuration-values '{"enableNetworkPolicy": "true"}'"""
        yield error(
            *path,
            what=f"{names.CNI_ADDON} of {cluster} ignores every NetworkPolicy",
            expected='enableNetworkPolicy "true"',
            fix=fix,
        )
    else:
        yield fine(*path, what=f"{names.CNI_ADDON} {cni['addon'].get('addonVersion', '')}")
    if not plan.pods_have_roles and plan.settings.observability is None:
        return
    agent = names.POD_IDENTITY_ADDON
    installed = found(account, "eks", "describe_addon", clusterName=cluster, addonName=agent)
    if installed is None:
        fix = f"aws eks create-addon --cluster-name {cluster} --addon-name {agent}"
        yield error(
            *path,
            what=f"{cluster} has no add-on {agent}: pods would get no credentials",
            expected="it there",
            fix=fix,
        )
    else:
        addon = installed["addon"]
        yield fine(*path, what=f"{agent} {addon.get('addonVersion', '')} is {addon.get('status', '')}")


def _enforces(addon: Json) -> bool:
    """Whether the CNI enforces network policies: a setting of the add-on, off by default; JSON or YAML."""
    values = yaml.safe_load(addon.get("configurationValues") or "{}")
    return isinstance(values, dict) and str(values.get("enableNetworkPolicy", "")).lower() == "true"


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.removeprefix("v").partition("-")[0].split(".")
    return tuple(int(part) for part in parts) if all(part.isdigit() for part in parts) else ()


@rule("eks", needs="account", title="EKS version")
def version_is_offered(plan: Plan, account: Account) -> Iterator[Finding]:
    """EKS offers the version of a new cluster, in standard support (extended support costs more).

    https://docs.aws.amazon.com/eks/latest/APIReference/API_DescribeClusterVersions.html
    """
    if plan.existing_eks is not None:
        yield skipped("the cluster exists")
        return
    version, path = plan.settings.eks.version, ("eks", "version")
    answer = found(account, "eks", "describe_cluster_versions", clusterVersions=[version]) or {}
    offered = answer.get("clusterVersions", [])
    status = (offered[0].get("versionStatus") or offered[0].get("status", "")) if offered else ""
    if not offered or status.upper() == "UNSUPPORTED":
        yield error(
            *path,
            what=f"EKS offers no version {version}",
            expected="a version that EKS offers",
            fix="choose another eks.version",
        )
        return
    if "EXTENDED" in status.upper():
        yield warning(
            *path,
            what=f"EKS lists {version} in extended support; {COSTS_MORE}",
            expected="a version in standard support",
            fix="choose a newer eks.version",
        )
    else:
        yield fine(*path, what=f"{version}, {status.lower().replace('_', ' ')}")
    if differs := _other_date(version, offered[0].get("endOfStandardSupportDate")):
        yield warning(
            *path, what=differs, expected="the same date on both sides", fix="correct the file: costs are counted by it"
        )


def _other_date(version: str, ends: object) -> str:
    """What to say where the date on file is not the one that EKS gives."""
    support = platform().eks_support.get(version)
    if not isinstance(ends, datetime) or support is None or ends.astimezone(UTC).date() == support.standard:
        return ""
    return (
        f"EKS says that standard support of {version} ends on {ends.astimezone(UTC).date()}, "
        f"hyperpod_ray_rules/data/platform_versions.yaml says {support.standard}"
    )
