"""What a changed `AWS::SageMaker::Cluster` does to nodes: the registry schema says nothing about groups."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from hyperpod_ray.core.names import INSTANCE_GROUP_LABEL
from hyperpod_ray.review import severity
from hyperpod_ray.review.changes import Changes, Kind, ResourceChange
from hyperpod_ray.review.effects.in_place import only_tags
from hyperpod_ray.review.facts import facts, source
from hyperpod_ray.review.findings import Effect, Findings, Remark, Row
from hyperpod_ray.review.instance_groups import UNCOUNTED, Group, count, groups, instance_type, nodes, scaled, storage

_ROW_OF_ITS_OWN = {
    "InstanceGroupName",
    "InstanceCount",
    "InstanceType",
    "KubernetesConfig",
    "ScheduledUpdateConfig",
    "AutoPatchConfig",
    "OnStartDeepHealthChecks",
    "SlurmConfig",
}
_REST = "the nodes' EBS volumes and local disks go with them"


def find(changes: Changes, findings: Findings) -> None:
    """Rows for each changed cluster and each of its groups."""
    for change in changes.of_type("AWS::SageMaker::Cluster"):
        if only_tags(change):
            continue
        if change.kind is Kind.CHANGED or (change.kind is Kind.REPLACED and change.same_name):
            _cluster(change, findings)
            _groups(change, changes, findings)
    for key, resource in changes.head.of_type("AWS::SageMaker::Cluster"):
        if key not in changes.resources and changes.base.resource(key) is not None:
            unchanged = ResourceChange(
                key=key, kind=Kind.CHANGED, type=resource["Type"], title=changes.head.title(key), base=resource,
                head=resource,
            )  # fmt: skip
            _replaced_networks(unchanged, changes, findings)


# --- the cluster -----------------------------------------------------------------------------------------------------


def _cluster(change: ResourceChange, findings: Findings) -> None:
    _recovery(change, findings)
    _provisioning(change, findings)
    _tier(change, findings)
    _autoscaling(change, findings)
    for name, words in _CLUSTER_SETTINGS.items():
        if change.differs(name):
            findings.add(
                Row(
                    effect=Effect.SAFE,
                    code="cluster-setting",
                    what=f"HyperPod cluster {change.now('ClusterName')}",
                    change=f"{name} {_value(change.before(name))} → {_value(change.now(name))}",
                    consequence=words,
                    source=source("update-cluster"),
                    where=change.title,
                )
            )
    documented = {
        "InstanceGroups",
        "NodeRecovery",
        "NodeProvisioningMode",
        "ClusterName",
        "VpcConfig",
        "Orchestrator",
        "AutoScaling",
        "TieredStorageConfig",
        *_CLUSTER_SETTINGS,
    }
    for name in sorted({pointer[0] for pointer in change.changed} - documented):
        findings.add(
            Row(
                effect=Effect.INTERRUPTS,
                code="cluster-undocumented",
                what=f"HyperPod cluster {change.now('ClusterName')}",
                change=f"{name} {_value(change.before(name))} → {_value(change.now(name))}",
                consequence="Changed in place by the registry schema; what it does to running nodes is not known "
                "here, so expect an interruption.",
                source=source("update-cluster"),
                where=change.title,
            )
        )


def _recovery(change: ResourceChange, findings: Findings) -> None:
    if not change.differs("NodeRecovery"):
        return
    before, after = change.before("NodeRecovery") or "Automatic", change.now("NodeRecovery") or "Automatic"
    off = after == "None"
    findings.add(
        Row(
            effect=Effect.WEAKENS if off else Effect.SAFE,
            code="node-recovery-off" if off else "node-recovery-on",
            what=f"HyperPod cluster {change.now('ClusterName')}",
            change=f"NodeRecovery {before} → {after}",
            consequence="Nothing happens now. After the deploy, HyperPod no longer reboots or replaces a "
            "faulty node: a fault stops "
            "training until you act."
            if off
            else "After the deploy, HyperPod reboots or replaces faulty nodes by itself.",
            source=source("node-recovery"),
            where=change.title,
        )
    )
    findings.remark(
        Remark(
            direction="switched off" if off else "switched on",
            what="node recovery",
            detail=f"NodeRecovery {before} → {after} of {change.now('ClusterName')}",
        )
    )


def _provisioning(change: ResourceChange, findings: Findings) -> None:
    if not change.differs("NodeProvisioningMode"):
        return
    findings.add(
        Row(
            effect=Effect.REJECTED if change.before("NodeProvisioningMode") else Effect.INTERRUPTS,
            code="provisioning-mode",
            what=f"HyperPod cluster {change.now('ClusterName')}",
            change=f"NodeProvisioningMode {change.before('NodeProvisioningMode')} → "
            f"{change.now('NodeProvisioningMode')}",
            consequence="UpdateCluster knows no value to leave Continuous again, so that CloudFormation "
            "cannot apply it."
            if change.before("NodeProvisioningMode")
            else "The API takes it; what becomes of the nodes is not documented: expect an interruption.",
            source=source("update-cluster"),
            where=change.title,
        )
    )


def _autoscaling(change: ResourceChange, findings: Findings) -> None:
    if not change.differs("AutoScaling"):
        return
    before, after = (side is not None and side.get("Mode") == "Enable" for side in _sides(change, "AutoScaling"))
    off = before and not after
    common: dict[str, Any] = {
        "what": f"HyperPod cluster {change.now('ClusterName')}",
        "change": f"AutoScaling {_value(change.before('AutoScaling'))} → {_value(change.now('AutoScaling'))}",
        "where": change.title,
    }
    if off:
        row = Row(
            code="autoscaling-off",
            consequence="Managed Karpenter ends: pods that wait for a node of an autoscaled group wait forever, and "
            "nobody replaces or removes the nodes that it added. AWS does not say what becomes of them.",
            unavailable="new nodes of autoscaled groups",
            **severity.of_class("autoscaling-off"),
            **common,
        )
        _switched_off(row, setting="autoscaling", was=change.before("AutoScaling"), findings=findings)
        return
    findings.add(
        Row(
            effect=Effect.SAFE,
            code="cluster-setting",
            consequence="In place; from then on managed Karpenter adds nodes for waiting pods and removes empty ones.",
            source=source("autoscaling"),
            **common,
        )
    )


def _sides(change: ResourceChange, name: str) -> tuple[Any, Any]:
    return change.before(name), change.now(name)


def _tiered(config: Any) -> bool:
    return isinstance(config, dict) and config.get("Mode", "Enable") == "Enable"


def _tier(change: ResourceChange, findings: Findings) -> None:
    name = "TieredStorageConfig"
    if not change.differs(name):
        return
    before, after = (_tier_percent(side) for side in _sides(change, name))
    common: dict[str, Any] = {
        "what": f"HyperPod cluster {change.now('ClusterName')}",
        "change": f"{name} {_value(change.before(name))} → {_value(change.now(name))}",
        "source": source("tiered-storage"),
        "where": change.title,
    }
    if before and not after:
        row = Row(
            effect=Effect.INTERRUPTS,
            code="tiered-storage-off",
            consequence="Checkpoints that are only in the nodes' memory are lost, and a run that saves into it "
            "fails at its next save. End such runs first, or let them save to the file system.",
            unavailable="checkpoints in memory",
            **common,
        )
    elif after > before:
        row = Row(
            effect=Effect.INTERRUPTS,
            code="tiered-storage-more",
            consequence="In place. The memory that holds checkpoints is taken from what pods can have, also from pods "
            "that run: the kubelet ends pods of a node that runs short. Pods created later ask for less.",
            **common,
        )
    elif after < before:
        row = Row(
            effect=Effect.WEAKENS,
            code="tiered-storage-less",
            consequence="In place. The nodes' memory holds fewer or smaller checkpoints: what does not fit is in the "
            "second tier alone, from which a run resumes more slowly.",
            **common,
        )
    else:
        row = Row(effect=Effect.SAFE, code="cluster-setting", consequence="In place.", **common)
    findings.add(row)


def _tier_percent(config: Any) -> int:
    """Percent of the nodes' memory that holds checkpoints; the service's own share counts as 1."""
    return int(config.get("InstanceMemoryAllocationPercentage") or 1) if _tiered(config) else 0


_CLUSTER_SETTINGS = {
    "Tags": "In place; nodes are not touched.",
    "ClusterRole": "In place: the role that managed Karpenter acts with.",
    "DeletionPolicy": "Says what happens on deletion; nodes are not touched.",
    "UpdateReplacePolicy": "Says what happens on replacement; nodes are not touched.",
}


# --- groups ----------------------------------------------------------------------------------------------------------


def _groups(change: ResourceChange, changes: Changes, findings: Findings) -> None:
    before, after = groups(change.base), groups(change.head)
    autoscaled = scaled(change.base)
    gone = {name: group for name, group in before.items() if name not in after}
    added = {name: group for name, group in after.items() if name not in before}
    for name, group in list(gone.items()):
        renamed = next((candidate for candidate, twin in added.items() if _same_but_name(group, twin)), None)
        if renamed is not None:
            findings.add(
                _autoscaled(name, group, f"renamed to {renamed}", change, code="group-renamed")
                if name in autoscaled
                else _renamed(name, renamed, group, added[renamed], change)
            )
            del gone[name], added[renamed]
    for name, group in gone.items():
        if name in autoscaled:
            findings.add(_autoscaled(name, group, "removed", change, code="group-removed"))
            continue
        findings.add(
            Row(
                effect=Effect.LOSES_NODES if count(group) else Effect.SAFE,
                code="group-removed",
                what=f"group {name}",
                change="removed",
                consequence=f"{nodes(count(group), group)} deleted; {_REST}." if count(group) else "It had no nodes.",
                unavailable=f"{nodes(count(group), group)}, for good" if count(group) else "",
                source=source("scale-down"),
                where=change.title,
                lost=_lost(group, count(group)),
            )
        )
    for name, group in added.items():
        findings.add(
            Row(
                effect=Effect.SAFE,
                code="group-added",
                what=f"group {name}",
                change=f"new: {count(group)} × {instance_type(group)}",
                consequence=f"{nodes(count(group), group)} created beside those that run, if quota, subnet and zone "
                "have room.",
                where=change.title,
            )
        )
    for name in before:
        if name in after and before[name] != after[name]:
            _group(name, before[name], after[name], change, changes, findings)
    _replaced_networks(change, changes, findings)


def _autoscaled(name: str, group: Group, words: str, change: ResourceChange, *, code: str) -> Row:
    """A group that Karpenter scales goes or becomes another: the template's count of 0 says nothing of its nodes."""
    return Row(
        code=code,
        what=f"group {name}",
        change=words,
        consequence=f"Managed Karpenter scales this group: its count of 0 is where it starts, and no template shows "
        f"how many {instance_type(group)} nodes there are. All of them go, and the pods on them; {_REST}.",
        unavailable=f"the {instance_type(group)} nodes of group {name}",
        where=change.title,
        lost=((f"{instance_type(group)} node", UNCOUNTED),),
        **severity.of_class("autoscaled-nodes-go"),
    )


def _lost(group: Group, number: int) -> tuple[tuple[str, int], ...]:
    return ((f"{instance_type(group)} node", number),) if number else ()


def _same_but_name(group: Group, twin: Group) -> bool:
    return instance_type(group) == instance_type(twin)


def _renamed(old_name: str, new_name: str, group: Group, twin: Group, change: ResourceChange) -> Row:
    return Row(
        effect=Effect.LOSES_NODES if count(group) else Effect.SAFE,
        code="group-renamed",
        what=f"group {old_name}",
        change=f"renamed to {new_name}",
        consequence=f"HyperPod has no rename: {nodes(count(group), group)} deleted, {nodes(count(twin), twin)} "
        f"created; {_REST}. "
        "The order is the service's: the new ones may find no capacity while the old ones run.",
        unavailable=f"{nodes(count(group), group)}, until the new ones are created and checked",
        source=source("update-cluster"),
        where=change.title,
        lost=_lost(group, count(group)),
    )


def _resized(before: Group, after: Group, common: Mapping[str, Any]) -> Row:
    """Fewer instances, or more."""
    if count(after) < count(before):
        fewer = count(before) - count(after)
        return Row(
            effect=Effect.LOSES_NODES,
            code="count-down",
            change=f"count {count(before)} → {count(after)}",
            consequence=f"{nodes(fewer, before)} deleted; which ones the service chooses, busy or not. To choose: "
            f"remove them first (`nodes remove`), then lower the count. {_REST[0].upper()}{_REST[1:]}.",
            unavailable=f"{nodes(fewer, before)}, for good",
            source=source("scale-down"),
            lost=_lost(before, fewer),
            **common,
        )
    return Row(
        effect=Effect.SAFE,
        code="count-up",
        change=f"count {count(before)} → {count(after)}",
        consequence=f"{nodes(count(after) - count(before), after)} created beside those that run, if quota, "
        "subnet and zone have room.",
        **common,
    )


def _group(  # noqa: PLR0917
    name: str, before: Group, after: Group, change: ResourceChange, changes: Changes, findings: Findings
) -> None:
    common: dict[str, Any] = {"what": f"group {name}", "where": change.title}
    system = _runs_system(name, changes)
    autoscaled = name in scaled(change.base)
    # of several types HyperPod has a current and a desired list; what it does with nodes in between is not documented
    listed = "InstanceRequirements" in before and "InstanceRequirements" in after
    if autoscaled and instance_type(before) != instance_type(after):
        words = f"type {instance_type(before)} → {instance_type(after)}"
        findings.add(_autoscaled(name, before, words, change, code="group-type"))
    elif autoscaled and count(after):
        words = f"count {count(before)} → {count(after)}"
        findings.add(_autoscaled(name, before, words, change, code="group-fixed"))
    elif instance_type(before) != instance_type(after) and not listed:
        findings.add(
            Row(
                effect=Effect.LOSES_NODES if count(before) else Effect.SAFE,
                code="group-type",
                change=f"type {instance_type(before)} → {instance_type(after)}",
                consequence=f"{nodes(count(before), before)} deleted, {nodes(count(after), after)} created; {_REST}.",
                unavailable=f"{nodes(count(before), before)}, until the new ones are created and checked",
                source=source("update-cluster"),
                lost=_lost(before, count(before)),
                **common,
            )
        )
    elif count(after) != count(before):
        findings.add(_resized(before, after, common))
    _deep_checks(name, before, after, change, findings)
    _kubernetes_config(before, after, system, changes, findings, common)
    _schedule(before, after, findings, common)
    _patches(before, after, findings, common)
    for key in sorted({*before, *after} - _ROW_OF_ITS_OWN):
        if before.get(key) != after.get(key) and not (
            (key == "InstanceRequirements" and not listed)
            or (key == "InstanceStorageConfigs" and _mounts_alone(before, after))
        ):
            findings.add(_property(key, before, after, common))


def _mounts_alone(before: Group, after: Group) -> bool:
    """Whether a group of Slurm mounts another file system, and its volumes stay: `effects.slurm` reports that."""
    same = storage(before, "EbsVolumeConfig") == storage(after, "EbsVolumeConfig")
    return same and "SlurmConfig" in before and "SlurmConfig" in after


def _property(key: str, before: Group, after: Group, common: dict[str, Any]) -> Row:
    table = facts()["instance_group"]
    changed = f"{key} {_value(before.get(key))} → {_value(after.get(key))}"
    if key in table["immutable"]:
        return Row(
            effect=Effect.REJECTED,
            code="group-immutable",
            change=changed,
            consequence=f"{key} of an existing group cannot change: the service refuses, up to hours into the "
            "deployment, and the stack "
            "rolls back. Make a new group and remove the old one when it is drained.",
            source=source("override-vpc"),
            **common,
        )
    if key in table["software"]:
        return _software_update(changed, after, common)
    if key in table["new_nodes_only"]:
        return Row(
            effect=Effect.SAFE,
            code="new-nodes-only",
            change=changed,
            consequence="Only nodes created later see it: running ones keep what they were created with until they are "
            "replaced. "
            "Until then the group has both kinds.",
            source=source("lifecycle"),
            **common,
        )
    if key in table["plan"]:
        return _training_plan(changed, before.get(key), after.get(key), common)
    if key in table["settings"]:
        return Row(
            effect=Effect.SAFE,
            code="group-setting",
            change=changed,
            consequence="In place; nodes are not touched.",
            **common,
        )
    keep = ""
    if key == "ExecutionRole" and "SlurmConfig" in after:
        keep = (
            " To change no role now, set accounting_database.separate_role: false, or leave the group's access as it "
            "was. To change it for certain, give the group another name: new nodes come with the new role, and the old "
            "ones go."
        )
    return Row(
        effect=Effect.INTERRUPTS,
        code="group-undocumented",
        change=changed,
        consequence="The schema lets it change in place; whether the service accepts it, and what becomes of the "
        "nodes there are, is "
        f"documented nowhere we know. Expect an interruption and try it on a group of one node first.{keep}",
        source=source("update-cluster"),
        **common,
    )


def _software_update(changed: str, after: Group, common: dict[str, Any]) -> Row:
    size, unit, wait = batch(after)
    batches = math.ceil(count(after) / size) if unit == "INSTANCE_COUNT" else math.ceil(100 / size)
    return Row(
        effect=Effect.INTERRUPTS,
        code="software-update",
        change=changed,
        consequence=f"A software update of {nodes(count(after), after)}: each is taken out, re-imaged and "
        f"checked, {size}"
        f"{' % of the nodes' if unit == 'CAPACITY_PERCENTAGE' else ''} at a time, {wait} s apart, so about "
        f"{batches} "
        "batches of 30–60 minutes. Work on them ends; what is on the root volume is lost.",
        unavailable=f"{size}{' %' if unit == 'CAPACITY_PERCENTAGE' else ''} of {nodes(count(after), after)} at a time",
        source=source("update-software"),
        **common,
    )


def _training_plan(changed: str, earlier: object, now: object, common: dict[str, Any]) -> Row:
    added = bool(now) and not earlier
    return Row(
        effect=Effect.SAFE if added else Effect.INTERRUPTS,
        code="training-plan",
        change=changed,
        consequence="In place, as documented: the group's capacity comes from this plan. Nodes that "
        "it has no room for are not created."
        if added
        else "In place, as documented. The capacity was the other plan's: whether the group's nodes stay until the "
        "new plan has some is not, so expect an interruption."
        if now
        else "In place, as documented. The capacity was the plan's: whether on-demand capacity takes its place at "
        "once is not, so expect an interruption, and the on-demand price.",
        source=source("training-plan"),
        **common,
    )


def _deep_checks(name: str, before: Group, after: Group, change: ResourceChange, findings: Findings) -> None:
    had, has = before.get("OnStartDeepHealthChecks") or [], after.get("OnStartDeepHealthChecks") or []
    if had == has:
        return
    less = sorted(set(had) - set(has))
    findings.add(
        Row(
            effect=Effect.WEAKENS if less else Effect.SAFE,
            code="deep-checks-off" if less else "deep-checks-on",
            what=f"group {name}",
            change=f"OnStartDeepHealthChecks {_value(had)} → {_value(has)}",
            consequence="Running nodes are not touched. Nodes created later take work without having passed "
            + f"{' and '.join(less)}: a faulty one shows first in training."
            if less
            else "Running nodes are not touched. Later nodes are checked for 30 to 120 minutes before they work.",
            source=source("deep-checks"),
            where=change.title,
        )
    )
    findings.remark(
        Remark(
            direction="switched off" if less else "switched on",
            what=f"deep health checks of group {name}",
            detail=f"{_value(had)} → {_value(has)}",
        )
    )


def _kubernetes_config(  # noqa: PLR0917
    before: Group, after: Group, system: str, changes: Changes, findings: Findings, common: dict[str, Any]
) -> None:
    config_before, config_after = before.get("KubernetesConfig") or {}, after.get("KubernetesConfig") or {}
    if config_before == config_after:
        return
    added = [taint for taint in config_after.get("Taints") or [] if taint not in (config_before.get("Taints") or [])]
    evicting = [taint for taint in added if taint.get("Effect") == "NoExecute"]
    closing = system if any(taint.get("Effect") == "NoSchedule" for taint in added) else ""
    going = _selected({*(config_before.get("Labels") or {})} - {*(config_after.get("Labels") or {})}, changes)
    if closing and not evicting:
        consequence = (
            "Put on the nodes there are, before any pod tolerates it: running pods stay. A pod that "
            f"ends until the later stacks are deployed finds no node. On this group: {closing}."
        )
    elif evicting:
        consequence = "Put on the nodes there are: pods that do not tolerate it are evicted at once."
    elif added:
        consequence = (
            "Put on the nodes there are: running pods stay, new ones that do not tolerate it are not scheduled there."
        )
    elif going:
        consequence = (
            f"Put on the nodes there are; running pods stay. Pods that select {', '.join(going)} find no node once "
            "they end: give them another selector first."
        )
    else:
        consequence = "Put on the nodes there are; running pods stay."
    findings.add(
        Row(
            effect=Effect.INTERRUPTS if evicting or closing or going else Effect.SAFE,
            code="taint-evicts" if evicting else "taint-closes" if closing else "kubernetes-config",
            change=f"KubernetesConfig {_value(config_before)} → {_value(config_after)}",
            consequence=consequence,
            unavailable="recovery of lost pods, until the later stacks are deployed" if closing else "",
            source=source("taints") if evicting or closing else source("override-vpc"),
            **common,
        )
    )


def _runs_system(group: str, changes: Changes) -> str:
    """What selects a group's nodes: Ray's head and workers, add-ons, the operator. Empty for a group that idles."""
    selecting = []
    for k8s_object in changes.base_cluster.objects.values():
        spec = k8s_object.data.get("spec", {})
        if k8s_object.id.kind == "RayCluster":
            selecting += ["Ray's head"] if _selects(spec.get("headGroupSpec"), group) else []
            workers = [
                worker_group for worker_group in spec.get("workerGroupSpecs") or [] if _selects(worker_group, group)
            ]
            selecting += [f"Ray's workers {worker_group.get('groupName')}" for worker_group in workers]
    for release in changes.base_cluster.releases.values():
        if _selects(release.values, group):
            selecting.append(release.name)
    for _, resource in changes.base.of_type("AWS::EKS::Addon"):
        if _selects(resource.get("Properties", {}).get("ConfigurationValues"), group):
            selecting.append(str(resource["Properties"].get("AddonName")))
    return ", ".join(selecting)


def _selects(value: Any, group: str) -> bool:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return False
    if isinstance(value, dict):
        return value.get(INSTANCE_GROUP_LABEL) == group or any(_selects(part, group) for part in value.values())
    if isinstance(value, list):
        return any(_selects(part, group) for part in value)
    return False


def _selected(labels: set[str], changes: Changes) -> list[str]:
    """Those of some labels that an object of the base selects nodes by."""
    selected = set()
    for k8s_object in changes.base_cluster.objects.values():
        text = json.dumps(k8s_object.data)
        selected |= {label for label in labels if json.dumps(label) in text}
    return sorted(selected)


def _switched_off(row: Row, *, setting: str, was: Any, findings: Findings) -> None:
    findings.add(row)
    findings.remark(Remark(direction="switched off", what=f"{setting} of {row.what}", detail=_value(was)))


def _schedule(before: Group, after: Group, findings: Findings, common: dict[str, Any]) -> None:
    previous, updated = before.get("ScheduledUpdateConfig"), after.get("ScheduledUpdateConfig")
    if previous == updated:
        return
    if updated is None:
        lost = "Nodes keep their software until someone updates it."
        row = Row(
            effect=Effect.WEAKENS, code="schedule-off", change="ScheduledUpdateConfig removed", consequence=lost,
            source=source("ami-update"), **common,
        )  # fmt: skip
        _switched_off(row, setting="scheduled software updates", was=previous, findings=findings)
        return
    _rollback_alarms(before, after, findings, common)
    if previous is not None and _without_alarms(previous) == _without_alarms(updated):
        return
    size, unit, wait = batch(after)
    findings.add(
        Row(
            effect=_rolled(before, after),
            code="schedule",
            change=f"ScheduledUpdateConfig {'changed' if previous else 'new'}: {updated.get('ScheduleExpression')}",
            consequence=f"Nothing happens on deploy. At each time of the schedule (UTC) the nodes are rolled, {size}"
            f"{' %' if unit == 'CAPACITY_PERCENTAGE' else ''} at a time and {wait} s apart; work on them ends.",
            source=source("ami-update"),
            **common,
        )
    )


def _rolled(before: Group, after: Group) -> Effect:
    """How a changed schedule rolls the nodes that the one before rolled too: more at once, sooner, or more gently."""
    previous, updated = before.get("ScheduledUpdateConfig") or {}, after["ScheduledUpdateConfig"]
    (size_before, unit_before, wait_before), (size, unit, wait) = batch(before), batch(after)
    same_times = previous.get("ScheduleExpression") == updated.get("ScheduleExpression")
    if not same_times or unit != unit_before or size > size_before:
        return Effect.INTERRUPTS
    return Effect.WEAKENS if wait < wait_before else Effect.SAFE


def _alarms(group: Group) -> set[str]:
    """Names of the alarms that stop a rolling update of the group."""
    deployment = (group.get("ScheduledUpdateConfig") or {}).get("DeploymentConfig") or {}
    return {str(alarm.get("AlarmName")) for alarm in deployment.get("AutoRollbackConfiguration") or []}


def _without_alarms(schedule: dict[str, Any]) -> dict[str, Any]:
    deployment = schedule.get("DeploymentConfig") or {}
    kept = {key: value for key, value in deployment.items() if key != "AutoRollbackConfiguration"}
    return {**schedule, "DeploymentConfig": kept}


def _rollback_alarms(before: Group, after: Group, findings: Findings, common: dict[str, Any]) -> None:
    gone, new = _alarms(before) - _alarms(after), _alarms(after) - _alarms(before)
    if not gone and not new:
        return
    row = Row(
        effect=Effect.WEAKENS if gone else Effect.SAFE,
        code="rollback-alarms",
        change=f"alarms that stop an update: {_value(sorted(_alarms(before)))} → {_value(sorted(_alarms(after)))}",
        consequence="Nothing happens on deploy. "
        + (
            f"An update continues with the next nodes while {', '.join(sorted(gone))} is in alarm."
            if gone
            else "An update stops and goes back when one of them is in alarm."
        ),
        source=source("ami-update"),
        **common,
    )
    if gone:
        _switched_off(row, setting="alarms that stop an update", was=sorted(gone), findings=findings)
    else:
        findings.add(row)


def _patches(before: Group, after: Group, findings: Findings, common: dict[str, Any]) -> None:
    patching_before, patching_after = before.get("AutoPatchConfig"), after.get("AutoPatchConfig")
    if patching_before == patching_after:
        return
    if patching_after is None:
        lost = "Idle nodes get no security patches of the AMI until someone updates them."
        row = Row(
            effect=Effect.WEAKENS, code="patches-off", change="AutoPatchConfig removed", consequence=lost,
            source=source("auto-patch"), **common,
        )  # fmt: skip
        _switched_off(row, setting="security patches", was=patching_before, findings=findings)
        return
    strategy = patching_after.get("PatchingStrategy")
    patched_nodes = "each node as it becomes idle" if strategy == "WhenIdle" else "the nodes once all are idle"
    findings.add(
        Row(
            code="patches",
            change=f"AutoPatchConfig {'changed' if patching_before else 'new'}: {strategy}",
            consequence="Nothing happens on deploy, and no work ends. When AWS publishes a security patch, HyperPod "
            f"cordons all nodes of the group for up to 24 hours and patches {patched_nodes}. New work waits, and so "
            "does what lost its node.",
            **severity.of_class("patches-cordon"),
            **common,
        )
    )


def _replaced_networks(change: ResourceChange, changes: Changes, findings: Findings) -> None:
    """Groups in another zone whose subnet or security group is replaced: the same text, another value, refused."""
    from hyperpod_ray.review.references import references  # only here

    stack = changes.head.stacks[change.key.stack]
    before = groups(change.base)
    for name, group in groups(change.head).items():
        if name not in before or before[name] != group or "OverrideVpcConfig" not in group:
            continue
        for reference in references(group["OverrideVpcConfig"], stack, changes.head):
            network = changes.resources.get(reference.key)
            if network is not None and network.kind is Kind.REPLACED:
                findings.add(
                    Row(
                        effect=Effect.REJECTED,
                        code="group-immutable",
                        what=f"group {name}",
                        change=f"OverrideVpcConfig refers to {network.title}, which is replaced",
                        consequence="The subnets and security groups of an existing group cannot change.",
                        source=source("override-vpc"),
                        where=change.title,
                    )
                )


def batch(group: Group) -> tuple[int, str, int]:
    """Size, unit and pause of a group's rolling update; one node at a time where nothing is said."""
    deployment = (group.get("ScheduledUpdateConfig") or {}).get("DeploymentConfig") or {}
    size = (deployment.get("RollingUpdatePolicy") or {}).get("MaximumBatchSize") or {}
    return (
        int(size.get("Value") or 1),
        str(size.get("Type") or "INSTANCE_COUNT"),
        int(deployment.get("WaitIntervalInSeconds") or 0),
    )


def _value(value: Any) -> str:
    if value in (None, [], {}):
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text if len(text) <= 120 else text[:117] + "…"
