"""What KubeRay 1.7.0 does with a changed RayCluster.

With `upgradeStrategy` None (its default) the operator compares numbers of pods and nothing else: a changed template
does not touch the pods there are, and pods created later get the new one. With Recreate it deletes all pods, the head's
too, when the hash of the spec without replica counts differs. Pods of a worker group that left the spec are not looked
at any more.
https://github.com/ray-project/kuberay/blob/master/ray-operator/controllers/ray/raycluster_controller.go
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hyperpod_ray.core.names import NOT_READY, UNREACHABLE
from hyperpod_ray.review import severity
from hyperpod_ray.review.effects.words import moved
from hyperpod_ray.review.facts import facts, source
from hyperpod_ray.review.findings import Effect, Findings, Remark, Row
from hyperpod_ray.review.kubernetes import KubernetesObject


def find(before: KubernetesObject, now: KubernetesObject, findings: Findings) -> None:
    """Rows for a RayCluster that stays and changes."""
    old, new = before.data.get("spec", {}), now.data.get("spec", {})
    common: dict[str, Any] = {"what": str(now.id), "where": now.where}
    if bool(old.get("suspend")) != bool(new.get("suspend")):
        ends = bool(new.get("suspend"))
        findings.add(
            Row(
                effect=Effect.INTERRUPTS if ends else Effect.SAFE,
                code="ray-suspended" if ends else "ray-resumed",
                change=f"suspend {old.get('suspend', False)} → {new.get('suspend', False)}",
                consequence="All pods are deleted." if ends else "Head and workers are created.",
                unavailable="the Ray cluster" if ends else "",
                **common,
            )
        )
    _scaling(old, new, findings, common)
    _state_store(old, new, findings, common)
    _drain(old, new, findings, common)
    _eviction(old, new, findings, common)
    _secrets(old, new, findings, common)
    changed = _changed_parts(old, new)
    if not changed:
        return
    recreate = "Recreate" in {_strategy(old), _strategy(new)}
    if recreate:
        findings.add(
            Row(
                effect=Effect.INTERRUPTS,
                code="ray-recreated",
                change=", ".join(changed),
                consequence="upgradeStrategy is Recreate: the operator deletes the head and every worker and "
                "recreates them, running jobs end. "
                "(Not when the operator's own version changes in the same deploy: then it takes the new spec as "
                "given.)",
                unavailable="the Ray cluster, until head and workers are back",
                source=source("raycluster-recreate"),
                **common,
            )
        )
        return
    _kept(old, new, changed, findings, common)


def _kept(
    old: dict[str, Any], new: dict[str, Any], changed: list[str], findings: Findings, common: dict[str, Any]
) -> None:
    mixed = moved(old, new, ("rayVersion", "authOptions"))
    if mixed:
        findings.add(
            Row(
                effect=Effect.INTERRUPTS,
                code="ray-mixed",
                change="; ".join(mixed),
                consequence="upgradeStrategy None: the pods that run are not restarted. But a pod created later, "
                "for one that a fault took, is of "
                "the new version or authentication and cannot join the old head: training does not recover from "
                "the next fault. Recreate the "
                "RayCluster between runs.",
                unavailable="recovery from faults, until all pods are replaced",
                source=source("raycluster-keep"),
                **common,
            )
        )
    rest = [part for part in changed if part not in {"rayVersion", "authOptions"}]
    if rest:
        findings.add(
            Row(
                effect=Effect.SAFE,
                code="ray-not-restarted",
                change=", ".join(rest),
                consequence="upgradeStrategy None: the pods that run are not restarted and keep what they have. "
                "Pods created later, also for ones that a "
                "fault took, get the new template. To put it in force, delete the pods between runs.",
                source=source("raycluster-keep"),
                **common,
            )
        )


def _redis(spec: dict[str, Any]) -> str:
    return str((spec.get("gcsFaultToleranceOptions") or {}).get("redisAddress") or "")


def _state_store(old: dict[str, Any], new: dict[str, Any], findings: Findings, common: dict[str, Any]) -> None:
    """Where the head keeps its state for the case that it is lost."""
    before, now = _redis(old), _redis(new)
    if before == now or not before:
        return
    if _host(before) == _host(now):
        if before.startswith("rediss://") and not now.startswith("rediss://"):
            findings.remark(
                Remark(direction="switched off", what=f"TLS to Redis of {common['what']}", detail=f"{before} → {now}")
            )
        return
    findings.add(
        Row(
            effect=Effect.INTERRUPTS if now else Effect.WEAKENS,
            code="gcs-store",
            change=f"Redis {before} → {now or 'none'}",
            consequence="The head that runs keeps the old one. The next head reads an empty state: jobs and actors of "
            "before are unknown to it. Change it between runs."
            if now
            else "From the next start of the head on, a lost head ends every job that runs.",
            unavailable="recovery of a lost head" if now else "",
            source=source("gcs-fault-tolerance"),
            **common,
        )
    )


def _host(address: str) -> str:
    return address.rpartition("://")[2].partition(":")[0]


def _drain(old: dict[str, Any], new: dict[str, Any], findings: Findings, common: dict[str, Any]) -> None:
    """Time that a worker has for a last checkpoint."""
    before = {group.get("groupName"): _pod(group).get("terminationGracePeriodSeconds") for group in _workers(old)}
    now = {group.get("groupName"): _pod(group).get("terminationGracePeriodSeconds") for group in _workers(new)}
    for name, seconds in before.items():
        less = now.get(name)
        if isinstance(seconds, int) and isinstance(less, int) and less < seconds:
            findings.remark(
                Remark(
                    direction="switched off",
                    what=f"time for a last checkpoint of {common['what']}",
                    detail=f"worker group {name}: {seconds} → {less} s, for pods created from then on",
                )
            )


def _eviction(old: dict[str, Any], new: dict[str, Any], findings: Findings, common: dict[str, Any]) -> None:
    """How long pods stay on a node that is silent before they are replaced."""
    before, now = _by_name(old), _by_name(new)
    longer = {
        f"{name}: {tolerated(_pod(before[name]))} → {tolerated(_pod(now[name]))} s"
        for name in before
        if name in now and tolerated(_pod(now[name])) > tolerated(_pod(before[name]))
    }
    if longer:
        findings.add(
            Row(
                code="eviction-later",
                change=f"pods stay on a silent node, {', '.join(sorted(longer))}",
                consequence="For pods created from then on: after the loss of a node, training stands still for that "
                "much longer before their replacements start.",
                **severity.of_class("outage-longer"),
                **common,
            )
        )


def _by_name(spec: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Head and worker groups."""
    return {"head": spec.get("headGroupSpec") or {}} | {str(group.get("groupName")): group for group in _workers(spec)}


_DEFAULT_TOLERATION = 300
"""What Kubernetes adds to a pod that says nothing."""
_SILENT = {NOT_READY, UNREACHABLE}
FOR_EVER = 10**9


def tolerated(pod: dict[str, Any]) -> int:
    """Seconds that a pod stays on a node that is not ready."""
    seconds = [
        int(toleration.get("tolerationSeconds", FOR_EVER))
        for toleration in pod.get("tolerations") or []
        if toleration.get("key") in _SILENT and toleration.get("effect") in {"NoExecute", None, ""}
    ]
    return max(seconds, default=_DEFAULT_TOLERATION)


def _secrets(old: dict[str, Any], new: dict[str, Any], findings: Findings, common: dict[str, Any]) -> None:
    """Kubernetes Secrets that pods created later no longer have, and those without which they do not start."""
    before, now = _by_name(old), _by_name(new)
    gone: set[str] = set()
    needed = _required(old.get("gcsFaultToleranceOptions"), new.get("gcsFaultToleranceOptions"))
    for name in set(before) & set(now):
        gone |= _mounted(before[name]) - _mounted(now[name])
        needed |= _required(before[name], now[name])
    if gone:
        findings.add(
            Row(
                code="secret-taken",
                change=f"no longer mounts secret {', '.join(sorted(gone))}",
                consequence="Pods that run keep it. A job that names it and starts in a pod created from then on, also "
                "for one that a fault took, fails.",
                unavailable=f"secret {', '.join(sorted(gone))}, for pods created later",
                **severity.of_class("secret-taken"),
                **common,
            )
        )
    if needed:
        findings.add(
            Row(
                code="secret-needed",
                change=f"needs secret {', '.join(sorted(needed))}",
                consequence="Pods that run stay. A pod created from then on, also for one that a fault took, waits "
                "until the Secret is there: create it first.",
                unavailable="recovery of lost pods, while the Secret is missing",
                **severity.of_class("secret-needed"),
                **common,
            )
        )


def _mounted(group: dict[str, Any]) -> set[str]:
    names = set()
    for volume in _pod(group).get("volumes") or []:
        sources = [volume, *((volume.get("projected") or {}).get("sources") or [])]
        for entry in sources:
            secret = entry.get("secret") or {}
            name = secret.get("secretName") or secret.get("name")
            if name:
                names.add(str(name))
    return names


def _required(before: Any, now: Any) -> set[str]:
    """Secrets that variables of the new side read, and did not before, where the pod does not start without them."""
    return set(_secret_references(now)) - set(_secret_references(before))


def _secret_references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        reference = value.get("secretKeyRef")
        if isinstance(reference, dict) and not reference.get("optional"):
            yield str(reference.get("name"))
        for inner in value.values():
            yield from _secret_references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _secret_references(inner)


def _workers(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return list(spec.get("workerGroupSpecs") or [])


def _scaling(old: dict[str, Any], new: dict[str, Any], findings: Findings, common: dict[str, Any]) -> None:
    before = {group.get("groupName"): group for group in old.get("workerGroupSpecs", [])}
    now = {group.get("groupName"): group for group in new.get("workerGroupSpecs", [])}
    for name, group in before.items():
        if name not in now:
            findings.add(
                Row(
                    effect=Effect.INTERRUPTS,
                    code="ray-group-removed",
                    change=f"worker group {name} removed",
                    consequence=f"The operator looks no more at its {group.get('replicas', 0)} pods: they run on, "
                    "hold their nodes and are not "
                    "replaced when lost; with autoscaling the head's autoscaler crashes again and again. Delete "
                    "them by hand.",
                    unavailable="replacement of its pods; their nodes, for other groups",
                    source=source("raycluster-group-removed"),
                    **common,
                )
            )
            continue
        wanted, has = int(now[name].get("replicas") or 0), int(group.get("replicas") or 0)
        least, most = int(now[name].get("minReplicas") or 0), int(now[name].get("maxReplicas") or 0)
        if wanted < has or most < has:
            findings.add(
                Row(
                    effect=Effect.INTERRUPTS,
                    code="ray-fewer-workers",
                    change=f"worker group {name}: {has} → {min(wanted, most)} workers",
                    consequence=f"{has - min(wanted, most)} worker pods are deleted, which ones the operator "
                    "chooses. A run of fixed size stops and "
                    "cannot start again at its size; an elastic one restarts smaller from its checkpoint.",
                    unavailable=f"{has - min(wanted, most)} workers, for good",
                    **common,
                )
            )
        elif wanted > has and _container(group).get("resources") != _container(now[name]).get("resources"):
            findings.add(
                Row(
                    effect=Effect.INTERRUPTS,
                    code="ray-workers-wait",
                    change=f"worker group {name}: {has} → {wanted} workers, each of another size",
                    consequence=f"The {has} pods that run keep what they have; {wanted - has} new ones of the other "
                    "size wait for what those hold. Delete the old pods for a run of the new size.",
                    unavailable=f"{wanted - has} new workers, until the old pods are deleted",
                    source=source("raycluster-keep"),
                    **common,
                )
            )
        elif wanted > has:
            findings.add(
                Row(
                    effect=Effect.SAFE,
                    code="ray-more-workers",
                    change=f"worker group {name}: {has} → {wanted} workers",
                    consequence="Worker pods are added if nodes are free. A run of fixed size does not use them; "
                    "an elastic one restarts from its "
                    "checkpoint to take them in.",
                    **common,
                )
            )
        elif most < int(group.get("maxReplicas") or 0) and _autoscales(old):
            findings.add(
                Row(
                    code="ray-limits-lowered",
                    change=f"worker group {name}: at most {group.get('maxReplicas')} → {most} workers",
                    consequence="Ray's autoscaler may have more workers than that now: those above the new limit end, "
                    "with what runs on them.",
                    unavailable=f"workers of {name} above {most}",
                    **severity.of_class("workers-end"),
                    **common,
                )
            )
        elif (least, most) != (int(group.get("minReplicas") or 0), int(group.get("maxReplicas") or 0)):
            findings.add(
                Row(
                    effect=Effect.SAFE,
                    code="ray-limits",
                    change=f"worker group {name}: between {least} and {most} workers",
                    consequence="Limits for the autoscaler; no pod is touched.",
                    **common,
                )
            )
    for name, group in now.items():
        if name not in before:
            findings.add(
                Row(
                    effect=Effect.SAFE,
                    code="ray-group-added",
                    change=f"worker group {name} new: {group.get('replicas', 0)} workers",
                    consequence="Its pods are created if nodes are free; no other pod is touched.",
                    **common,
                )
            )


def _autoscales(spec: dict[str, Any]) -> bool:
    return bool(spec.get("enableInTreeAutoscaling"))


def _changed_parts(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What differs beside counts, in words; the recreate hash covers the same."""
    parts = []
    for name in sorted({*old, *new} - {"workerGroupSpecs", "headGroupSpec", "suspend"}):
        if old.get(name) != new.get(name):
            parts.append(name)
    parts += _template_parts("head", old.get("headGroupSpec", {}), new.get("headGroupSpec", {}))
    before = {group.get("groupName"): group for group in old.get("workerGroupSpecs", [])}
    for group in new.get("workerGroupSpecs", []):
        if group.get("groupName") in before:
            parts += _template_parts(f"worker group {group['groupName']}", before[group["groupName"]], group)
    return parts


def _template_parts(where: str, old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    counts = set(facts()["kubernetes"]["raycluster_scaling"])
    parts = [
        f"{where}: {name}" for name in sorted({*old, *new} - counts - {"template"}) if old.get(name) != new.get(name)
    ]
    before, now = _container(old), _container(new)
    inside = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    parts += [f"{where}: {name}" for name in inside]
    if (not inside and old.get("template") != new.get("template")) or _pod(old) != _pod(new):
        parts.append(f"{where}: pod template")
    return parts


def _container(group: dict[str, Any]) -> dict[str, Any]:
    containers = group.get("template", {}).get("spec", {}).get("containers") or [{}]
    first: dict[str, Any] = containers[0]
    return first


def _pod(group: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = group.get("template", {}).get("spec", {})
    return {key: value for key, value in spec.items() if key != "containers"}


def _strategy(spec: dict[str, Any]) -> str:
    return str((spec.get("upgradeStrategy") or {}).get("type") or "None")
