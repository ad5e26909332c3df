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

from hyperpod_ray.core.names import NOT_READY, REDIS_PORT, SPARES_VARIABLE, UNREACHABLE
from hyperpod_ray.review import severity
from hyperpod_ray.review.effects.words import moved
from hyperpod_ray.review.facts import facts, source
from hyperpod_ray.review.findings import Effect, Findings, Remark, Row
from hyperpod_ray.review.kubernetes import KubernetesObject


def find(before: KubernetesObject, after: KubernetesObject, findings: Findings) -> None:
    """Rows for a RayCluster that stays and changes."""
    spec_before, spec_after = before.data.get("spec", {}), after.data.get("spec", {})
    common: dict[str, Any] = {"what": str(after.id), "where": after.where}
    if bool(spec_before.get("suspend")) != bool(spec_after.get("suspend")):
        ends = bool(spec_after.get("suspend"))
        findings.add(
            Row(
                effect=Effect.INTERRUPTS if ends else Effect.SAFE,
                code="ray-suspended" if ends else "ray-resumed",
                change=f"suspend {spec_before.get('suspend', False)} → {spec_after.get('suspend', False)}",
                consequence="All pods are deleted." if ends else "Head and workers are created.",
                unavailable="the Ray cluster" if ends else "",
                **common,
            )
        )
    _scaling(spec_before, spec_after, findings, common)
    _state_store(spec_before, spec_after, findings, common)
    _drain(spec_before, spec_after, findings, common)
    _eviction(spec_before, spec_after, findings, common)
    _spares(spec_before, spec_after, findings, common)
    _secrets(spec_before, spec_after, findings, common)
    changed = _changed_parts(spec_before, spec_after)
    if not changed:
        return
    recreate = "Recreate" in {_strategy(spec_before), _strategy(spec_after)}
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
    _kept(spec_before, spec_after, changed, findings, common)


def _kept(
    spec_before: dict[str, Any],
    spec_after: dict[str, Any],
    changed: list[str],
    findings: Findings,
    common: dict[str, Any],
) -> None:
    mixed = moved(spec_before, spec_after, ("rayVersion", "authOptions"))
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


def _volume(spec: dict[str, Any]) -> str:
    """Size of the volume of the head's state; empty without one."""
    options = spec.get("gcsFaultToleranceOptions") or {}
    return str((options.get("storage") or {}).get("size") or "") if options.get("backend") == "rocksdb" else ""


def _redis(spec: dict[str, Any]) -> str:
    return str((spec.get("gcsFaultToleranceOptions") or {}).get("redisAddress") or "")


def _state_store(
    spec_before: dict[str, Any], spec_after: dict[str, Any], findings: Findings, common: dict[str, Any]
) -> None:
    """Where the head keeps its state for the case that it is lost."""
    if _volume(spec_before):
        _state_volume(spec_before, spec_after, findings, common)
        return
    before, after = _redis(spec_before), _redis(spec_after)
    if before and (size := _volume(spec_after)):
        findings.add(_other_store(f"Redis {before}", f"a volume of {size}", common))
        return
    if before and after:
        _login(spec_before, spec_after, findings, common)
    if before == after or not before:
        return
    if _server(before) == _server(after):
        if before.startswith("rediss://") and not after.startswith("rediss://"):
            findings.remark(
                Remark(direction="switched off", what=f"TLS to Redis of {common['what']}", detail=f"{before} → {after}")
            )
        return
    findings.add(_other_store(f"Redis {before}", after, common))


def _other_store(before: str, after: str, common: dict[str, Any], *, first: str = "") -> Row:
    """The head's state is in another place from its next start on."""
    return Row(
        effect=Effect.INTERRUPTS if after else Effect.WEAKENS,
        code="gcs-store",
        change=f"{before} → {after or 'none'}",
        consequence=(
            "The head that runs keeps the old one. The next head reads an empty state: jobs and actors of "
            "before are unknown to it. Change it between runs."
            if after
            else "From the next start of the head on, a lost head ends every job that runs."
        )
        + first,
        unavailable="recovery of a lost head" if after else "",
        source=source("gcs-fault-tolerance"),
        **common,
    )


def _state_volume(
    spec_before: dict[str, Any], spec_after: dict[str, Any], findings: Findings, common: dict[str, Any]
) -> None:
    """A volume has the head's state: it stays in its zone, keeps its size, and is deleted with its RayCluster alone."""
    before, after = _volume(spec_before), _volume(spec_after)
    if not after:
        first = (
            " Delete the RayCluster before the deploy: its volume goes with it. Otherwise the driver goes first, the "
            "volume stays and costs money until teardown, and the deploy waits 30 minutes for it."
        )
        redis = _redis(spec_after)
        findings.add(_other_store(f"a volume of {before}", f"Redis {redis}" if redis else "", common, first=first))
        return
    if before != after:
        findings.add(
            Row(
                effect=Effect.SAFE,
                code="gcs-volume-size",
                change=f"the head's volume {before} → {after}",
                consequence="KubeRay leaves the volume as it is, and says so in an event. The next RayCluster has the "
                "other size: delete this one between runs.",
                source=source("gcs-fault-tolerance"),
                **common,
            )
        )
    groups = [_pod(spec.get("headGroupSpec") or {}).get("nodeSelector") for spec in (spec_before, spec_after)]
    if groups[0] != groups[1]:
        findings.add(
            Row(
                effect=Effect.INTERRUPTS,
                code="gcs-volume-zone",
                change="the head moves to other nodes; its volume stays",
                consequence="A volume is in one Availability Zone. Where the new nodes are in another one, the next "
                "head does not start. Delete the RayCluster between runs, so that it gets a new volume there.",
                unavailable="recovery of a lost head, where the zones differ",
                source=source("gcs-fault-tolerance"),
                **common,
            )
        )


def _login(spec_before: dict[str, Any], spec_after: dict[str, Any], findings: Findings, common: dict[str, Any]) -> None:
    """Who the head is for its Redis."""
    before, after = (spec.get("gcsFaultToleranceOptions") or {} for spec in (spec_before, spec_after))
    if changed := [name for name in ("redisUsername", "redisPassword") if before.get(name) != after.get(name)]:
        findings.add(
            Row(
                code="gcs-login",
                change=f"{', '.join(changed)} of Redis",
                consequence="The head that runs stays connected. The next head, also one that takes the place of a "
                "lost one, logs in with this: where Redis refuses it, there is no head. Change Redis first.",
                unavailable="recovery of a lost head, where Redis refuses the login",
                **severity.of_class("login-changed"),
                **common,
            )
        )


def _server(address: str) -> tuple[str, str]:
    """Host and port of an address of Redis."""
    host, _, port = address.rpartition("://")[2].partition(":")
    return host, port or str(REDIS_PORT)


def _drain(spec_before: dict[str, Any], spec_after: dict[str, Any], findings: Findings, common: dict[str, Any]) -> None:
    """Time that a worker has for a last checkpoint."""
    before = {
        group.get("groupName"): _pod(group).get("terminationGracePeriodSeconds") for group in _workers(spec_before)
    }
    after = {group.get("groupName"): _pod(group).get("terminationGracePeriodSeconds") for group in _workers(spec_after)}
    for name, seconds in before.items():
        less = after.get(name)
        if isinstance(seconds, int) and isinstance(less, int) and less < seconds:
            findings.remark(
                Remark(
                    direction="switched off",
                    what=f"time for a last checkpoint of {common['what']}",
                    detail=f"worker group {name}: {seconds} → {less} s, for pods created from then on",
                )
            )


def _eviction(
    spec_before: dict[str, Any], spec_after: dict[str, Any], findings: Findings, common: dict[str, Any]
) -> None:
    """How long pods stay on a node that is silent before they are replaced."""
    before, after = _by_name(spec_before), _by_name(spec_after)
    longer = {
        f"{name}: {tolerated(_pod(before[name]))} → {tolerated(_pod(after[name]))} s"
        for name in before
        if name in after and tolerated(_pod(after[name])) > tolerated(_pod(before[name]))
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


def _spares(
    spec_before: dict[str, Any], spec_after: dict[str, Any], findings: Findings, common: dict[str, Any]
) -> None:
    """How many workers of a run stand by for one that is lost."""
    before, after = (_variable(spec.get("headGroupSpec") or {}, SPARES_VARIABLE) for spec in (spec_before, spec_after))
    if int(before or 0) > int(after or 0):
        findings.add(
            Row(
                code="spares-fewer",
                change=f"workers that stand by {before} → {after or 0}",
                consequence="For runs submitted from then on: a loss beyond that number is not taken over by a spare. "
                "The run starts its workers again, from a checkpoint.",
                **severity.of_class("spares-less"),
                **common,
            )
        )


def _variable(group: dict[str, Any], name: str) -> str:
    """The digits of an environment variable of a group's first container; empty where it has none."""
    containers = ((group.get("template") or {}).get("spec") or {}).get("containers") or [{}]
    values = [str(entry.get("value")) for entry in containers[0].get("env") or [] if entry.get("name") == name]
    return next((value for value in values if value.isdigit()), "")


def _by_name(spec: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Head and worker groups."""
    return {"head": spec.get("headGroupSpec") or {}} | {str(group.get("groupName")): group for group in _workers(spec)}


_DEFAULT_TOLERATION = 300
"""What Kubernetes adds to a pod that says nothing."""
_SILENT = {NOT_READY, UNREACHABLE}
FOR_EVER = 10**9


def tolerated(pod: dict[str, Any]) -> int:
    """Seconds that a pod stays on a node that is not ready."""
    return max(_tolerated(pod, taint) for taint in _SILENT)


def _tolerated(pod: dict[str, Any], taint: str) -> int:
    """Seconds that a pod stays on a node with a taint: of several tolerations the shortest, for one without a key too.

    https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
    """
    tolerations = [
        toleration
        for toleration in pod.get("tolerations") or []
        if toleration.get("key") in {taint, None, ""} and toleration.get("effect") in {"NoExecute", None, ""}
    ]
    if not tolerations:
        return _DEFAULT_TOLERATION
    limits = [int(toleration["tolerationSeconds"]) for toleration in tolerations if "tolerationSeconds" in toleration]
    return min(limits, default=FOR_EVER)


def _secrets(
    spec_before: dict[str, Any], spec_after: dict[str, Any], findings: Findings, common: dict[str, Any]
) -> None:
    """Kubernetes Secrets that pods created later no longer have, and those without which they do not start."""
    before, after = _by_name(spec_before), _by_name(spec_after)
    gone: set[str] = set()
    needed = _required(spec_before.get("gcsFaultToleranceOptions"), spec_after.get("gcsFaultToleranceOptions"))
    for name in set(before) & set(after):
        gone |= _mounted(before[name]) - _mounted(after[name])
        needed |= _required(before[name], after[name])
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
        for volume_source in sources:
            secret = volume_source.get("secret") or {}
            name = secret.get("secretName") or secret.get("name")
            if name:
                names.add(str(name))
    return names


def _required(before: Any, after: Any) -> set[str]:
    """Secrets that variables of the new side read, and did not before, where the pod does not start without them."""
    return set(_secret_references(after)) - set(_secret_references(before))


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


def _scaling(
    spec_before: dict[str, Any], spec_after: dict[str, Any], findings: Findings, common: dict[str, Any]
) -> None:
    before = {group.get("groupName"): group for group in spec_before.get("workerGroupSpecs", [])}
    after = {group.get("groupName"): group for group in spec_after.get("workerGroupSpecs", [])}
    for name, group in before.items():
        if name not in after:
            _group_removed(name, group, findings, common)
            continue
        _resized(name, group, after[name], findings, common, autoscales=_autoscales(spec_before))
    for name, group in after.items():
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


def _resized(
    name: str | None,
    group: dict[str, Any],
    changed: dict[str, Any],
    findings: Findings,
    common: dict[str, Any],
    *,
    autoscales: bool,
) -> None:
    replicas, has = int(changed.get("replicas") or 0), int(group.get("replicas") or 0)
    min_replicas, max_replicas = int(changed.get("minReplicas") or 0), int(changed.get("maxReplicas") or 0)
    if replicas < has or max_replicas < has:
        findings.add(
            Row(
                effect=Effect.INTERRUPTS,
                code="ray-fewer-workers",
                change=f"worker group {name}: {has} → {min(replicas, max_replicas)} workers",
                consequence=f"{has - min(replicas, max_replicas)} worker pods are deleted, which ones the operator "
                "chooses. A run of fixed size stops and "
                "cannot start again at its size; an elastic one restarts smaller from its checkpoint.",
                unavailable=f"{has - min(replicas, max_replicas)} workers, for good",
                **common,
            )
        )
    elif replicas > has and _container(group).get("resources") != _container(changed).get("resources"):
        findings.add(
            Row(
                effect=Effect.INTERRUPTS,
                code="ray-workers-wait",
                change=f"worker group {name}: {has} → {replicas} workers, each of another size",
                consequence=f"The {has} pods that run keep what they have; {replicas - has} new ones of the other "
                "size wait for what those hold. Delete the old pods for a run of the new size.",
                unavailable=f"{replicas - has} new workers, until the old pods are deleted",
                source=source("raycluster-keep"),
                **common,
            )
        )
    elif replicas > has:
        findings.add(
            Row(
                effect=Effect.SAFE,
                code="ray-more-workers",
                change=f"worker group {name}: {has} → {replicas} workers",
                consequence="Worker pods are added if nodes are free. A run of fixed size does not use them; "
                "an elastic one restarts from its "
                "checkpoint to take them in.",
                **common,
            )
        )
    elif max_replicas < int(group.get("maxReplicas") or 0) and autoscales:
        findings.add(
            Row(
                code="ray-limits-lowered",
                change=f"worker group {name}: at most {group.get('maxReplicas')} → {max_replicas} workers",
                consequence="Ray's autoscaler may have more workers than that now: those above the new limit end, "
                "with what runs on them.",
                unavailable=f"workers of {name} above {max_replicas}",
                **severity.of_class("workers-end"),
                **common,
            )
        )
    elif (min_replicas, max_replicas) != (int(group.get("minReplicas") or 0), int(group.get("maxReplicas") or 0)):
        findings.add(
            Row(
                effect=Effect.SAFE,
                code="ray-limits",
                change=f"worker group {name}: between {min_replicas} and {max_replicas} workers",
                consequence="Limits for the autoscaler; no pod is touched.",
                **common,
            )
        )


def _group_removed(name: str | None, group: dict[str, Any], findings: Findings, common: dict[str, Any]) -> None:
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


def _autoscales(spec: dict[str, Any]) -> bool:
    return bool(spec.get("enableInTreeAutoscaling"))


def _changed_parts(spec_before: dict[str, Any], spec_after: dict[str, Any]) -> list[str]:
    """What differs beside counts, in words; the recreate hash covers the same."""
    parts = []
    for name in sorted({*spec_before, *spec_after} - {"workerGroupSpecs", "headGroupSpec", "suspend"}):
        if spec_before.get(name) != spec_after.get(name):
            parts.append(name)
    parts += _template_parts("head", spec_before.get("headGroupSpec", {}), spec_after.get("headGroupSpec", {}))
    before = {group.get("groupName"): group for group in spec_before.get("workerGroupSpecs", [])}
    for group in spec_after.get("workerGroupSpecs", []):
        if group.get("groupName") in before:
            parts += _template_parts(f"worker group {group['groupName']}", before[group["groupName"]], group)
    return parts


def _template_parts(where: str, group_before: dict[str, Any], group_after: dict[str, Any]) -> list[str]:
    counts = set(facts()["kubernetes"]["raycluster_scaling"])
    parts = [
        f"{where}: {name}"
        for name in sorted({*group_before, *group_after} - counts - {"template"})
        if group_before.get(name) != group_after.get(name)
    ]
    before, after = _container(group_before), _container(group_after)
    inside = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    parts += [f"{where}: {name}" for name in inside]
    if (not inside and group_before.get("template") != group_after.get("template")) or _pod(group_before) != _pod(
        group_after
    ):
        parts.append(f"{where}: pod template")
    return parts


def _container(group: dict[str, Any]) -> dict[str, Any]:
    containers = group.get("template", {}).get("spec", {}).get("containers") or [{}]
    container: dict[str, Any] = containers[0]
    return container


def _pod(group: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = group.get("template", {}).get("spec", {})
    return {key: value for key, value in spec.items() if key != "containers"}


def _strategy(spec: dict[str, Any]) -> str:
    return str((spec.get("upgradeStrategy") or {}).get("type") or "None")
