"""Rules about what an existing EKS cluster has already: another HyperPod cluster, add-ons that the stacks create."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_ray.core import names
from hyperpod_ray.core.checks.account.cluster import NAME
from hyperpod_ray.core.checks.account.owners import ours, owner
from hyperpod_ray.core.evidence import Account, found
from hyperpod_ray.core.findings import Finding, error, fine, rule, skipped
from hyperpod_ray.core.plan import Plan


@rule("eks", "hyperpod", needs="account", title="orchestrated cluster")
def cluster_orchestrates_nothing_else(plan: Plan, account: Account) -> Iterator[Finding]:
    """No other HyperPod cluster uses the existing EKS cluster: the two are mapped one to one.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks.html
    """
    existing = plan.existing_eks
    if existing is None:
        yield skipped("the Eks stack creates the cluster")
        return
    for summary in account.pages("sagemaker", "list_clusters", "ClusterSummaries"):
        name = summary["ClusterName"]
        if name == plan.settings.hyperpod.cluster_name:
            continue
        description = found(account, "sagemaker", "describe_cluster", ClusterName=name) or {}
        arn = ((description.get("Orchestrator") or {}).get("Eks") or {}).get("ClusterArn", "")
        if arn.rpartition("/")[2] == existing.cluster_name:
            yield error(
                *NAME,
                what=f"{existing.cluster_name} orchestrates HyperPod cluster {name} already",
                expected="an EKS cluster without a HyperPod cluster",
                fix="name another EKS cluster, or delete that HyperPod cluster",
            )
            return
    yield fine(*NAME, what=f"{existing.cluster_name} orchestrates no other HyperPod cluster")


@rule("eks", "storage", "hyperpod", "ray", "teams", needs="account", title="add-ons that are created")
def added_add_ons_are_free(plan: Plan, account: Account) -> Iterator[Finding]:
    """The existing cluster lacks the add-ons that the stacks create: EKS refuses a second one of a name.

    https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAddon.html (ResourceInUseException)
    """
    existing = plan.existing_eks
    if existing is None:
        yield skipped("the Eks stack creates the cluster")
        return
    cluster, free = existing.cluster_name, []
    added = [names.CSI_ADDON]
    added += [names.EBS_CSI_ADDON] if plan.head_volume_gib is not None else []
    added += [names.GOVERNANCE_ADDON] if plan.settings.teams else []
    for addon in added:
        installed = found(account, "eks", "describe_addon", clusterName=cluster, addonName=addon)
        stack = owner(account, f"{cluster}|{addon}") if installed is not None else None
        if installed is None or (stack is not None and ours(plan, stack)):
            free.append(f"{addon} is {'free' if installed is None else 'of this environment'}")
            continue
        delete = f"aws eks delete-addon --cluster-name {cluster} --addon-name {addon}"
        ends = addon == names.GOVERNANCE_ADDON
        yield error(
            *NAME,
            what=f"{cluster} has the add-on {addon} already" + (f", of stack {stack}" if stack else ""),
            expected="a cluster without it: this environment creates it",
            fix=f"see that nobody queues by it (kubectl get workloads -A); then {delete}, which ends its Kueue"
            if ends
            else f"{delete} --preserve, which keeps its pods",
        )
    if free:
        yield fine(*NAME, what="; ".join(free))
