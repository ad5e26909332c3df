"""What changed manifests and Helm releases do: immutable fields, pruning, RayClusters, claims, CRDs."""

from __future__ import annotations

from typing import Any

from hyperpod_ray.core import names
from hyperpod_ray.review import severity
from hyperpod_ray.review.changes import Changes, Kind
from hyperpod_ray.review.effects import guard, hang_rules, karpenter, raycluster
from hyperpod_ray.review.facts import facts, source
from hyperpod_ray.review.findings import Effect, Findings, Remark, Row
from hyperpod_ray.review.kubernetes import Cluster, KubernetesObject, ObjectName, Release, pairs
from hyperpod_ray_rules.quantity import number

_CRD_FREE = {"hyperpod-helm-chart"}
"""Charts whose CRDs this stack's objects do not use."""
_RESTARTS = {"Deployment": "rolled", "DaemonSet": "rolled over the nodes", "StatefulSet": "rolled one by one"}


def find(changes: Changes, findings: Findings) -> None:
    """Rows for every object and release that differs."""
    base, head = changes.base_cluster, changes.head_cluster
    doomed = _namespaces_deleted(base, head)
    for before, after in pairs(base, head):
        k8s_object = after or before
        if k8s_object is not None and guard.concerns(k8s_object):
            guard.find(before, after, findings, runs=severity.guard_runs(changes))
        elif after is None and before is not None:
            _gone(before, changes, doomed, findings)
        elif before is None and after is not None:
            _new(after, findings)
        elif before is not None and after is not None:
            _changed(before, after, base, findings)
    for key in {**base.releases, **head.releases}:
        _release(base.releases.get(key), head.releases.get(key), findings)
    for where in dict.fromkeys([*base.unreadable, *head.unreadable]):
        findings.add(
            Row(
                effect=Effect.INTERRUPTS,
                code="unreadable",
                what=f"manifest {where}",
                change="cannot be read as JSON",
                consequence="Its objects were not compared: look at the CloudFormation diff.",
                where=where,
            )
        )


# --- objects that go -------------------------------------------------------------------------------------------------


def _namespaces_deleted(base: Cluster, head: Cluster) -> set[str]:
    return {name.name for name in base.objects if name.kind == "Namespace" and name not in head.objects}


def _gone(k8s_object: KubernetesObject, changes: Changes, doomed: set[str], findings: Findings) -> None:
    owner = changes.resources.get(k8s_object.manifest)
    if owner is not None and owner.kind is Kind.REMOVED:
        how = "deleted with its manifest"
    elif k8s_object.id.namespace in doomed:
        how = f"deleted with its namespace {k8s_object.id.namespace}"
    elif k8s_object.id.kind in facts()["kubernetes"]["pruned"] and (
        not k8s_object.id.namespace
        or k8s_object.id.namespace in changes.head_cluster.namespaces_of(k8s_object.manifest)
    ):
        how = "pruned by kubectl"
    else:
        findings.add(karpenter.stays(k8s_object) if karpenter.concerns(k8s_object) else _stays(k8s_object))
        return
    if karpenter.concerns(k8s_object):
        findings.add(karpenter.deleted(k8s_object, how))
    elif _hang_rules(k8s_object):
        hang_rules.find(k8s_object, None, findings)
    else:
        findings.add(_deleted(k8s_object, how, changes.base_cluster))


def _stays(k8s_object: KubernetesObject) -> Row:
    ray = k8s_object.id.kind == "RayCluster"
    return Row(
        effect=Effect.INTERRUPTS if ray else Effect.SAFE,
        code="stays-behind",
        what=str(k8s_object.id),
        change="left the manifests",
        consequence="'kubectl apply --prune' deletes only built-in kinds it lists: this one stays in the cluster "
        "until someone deletes it."
        + (" It keeps its nodes, and a RayCluster that takes its place waits for them." if ray else ""),
        source=source("prune"),
        where=k8s_object.where,
    )


def _deleted(k8s_object: KubernetesObject, how: str, base: Cluster) -> Row:
    common: dict[str, Any] = {
        "code": f"{k8s_object.id.kind.lower()}-deleted",
        "what": str(k8s_object.id),
        "change": "left the manifests",
        "where": k8s_object.where,
        "source": source("prune"),
    }
    if k8s_object.id.kind == "PersistentVolumeClaim":
        return _claim_deleted(how, _reclaim(k8s_object, base), common)
    if k8s_object.id.kind == "RayCluster":
        return Row(
            effect=Effect.INTERRUPTS,
            consequence=f"{how.capitalize()}: head and all workers end at once, and running jobs with them.",
            unavailable="the Ray cluster",
            **common,
        )
    if k8s_object.id.kind == "Namespace" and k8s_object.id.name == names.OBSERVABILITY_NAMESPACE:
        return Row(
            effect=Effect.SAFE,
            consequence=f"{how.capitalize()}, with the add-on's collectors in it. Training does not use them.",
            **common,
        )
    if k8s_object.id.kind == "Namespace":
        inside = [
            str(base_object.id)
            for base_object in base.objects.values()
            if base_object.id.namespace == k8s_object.id.name
        ]
        return Row(
            effect=Effect.INTERRUPTS,
            consequence=f"{how.capitalize()}, and Kubernetes deletes everything in it: "
            f"{', '.join(inside) or 'what others put there'}.",
            unavailable=f"everything in namespace {k8s_object.id.name}",
            **common,
        )
    running = not _idle(k8s_object) and k8s_object.id.kind in {
        "Deployment",
        "StatefulSet",
        "DaemonSet",
        "Job",
        "Pod",
        "Service",
        "ServiceAccount",
        "Secret",
        "ConfigMap",
    }
    return Row(
        effect=Effect.INTERRUPTS if running else Effect.SAFE,
        consequence=f"{how.capitalize()}." + (" What runs by it ends or loses it." if running else ""),
        **common,
    )


def _claim_deleted(how: str, policy: str, common: dict[str, Any]) -> Row:
    if policy == "Delete":
        return Row(
            effect=Effect.LOSES_DATA,
            consequence=f"{how.capitalize()}; its StorageClass reclaims by Delete, so the file system behind "
            "it is deleted with everything "
            "on it, as soon as no pod uses it any more.",
            unavailable=f"{names.MOUNT_PATH}, for good",
            lost=(("file system", 1),),
            **common,
        )
    return Row(
        effect=Effect.INTERRUPTS,
        consequence=f"{how.capitalize()} as soon as no pod uses it; the file system stays (reclaim policy "
        f"{policy}), but pods created later "
        "find no claim and do not start.",
        unavailable=f"{names.MOUNT_PATH}, for new pods",
        **common,
    )


def _reclaim(claim: KubernetesObject, cluster: Cluster) -> str:
    """What happens to the volume when the claim goes."""
    spec = claim.data.get("spec", {})
    volume = cluster.objects.get(ObjectName("PersistentVolume", "", str(spec.get("volumeName"))))
    if volume is not None:
        return str(volume.data.get("spec", {}).get("persistentVolumeReclaimPolicy", "Retain"))
    made_by = cluster.objects.get(ObjectName("StorageClass", "", str(spec.get("storageClassName"))))
    return str(made_by.data.get("reclaimPolicy", "Delete")) if made_by is not None else "Delete"


# --- objects that come or change -------------------------------------------------------------------------------------


def _new(k8s_object: KubernetesObject, findings: Findings) -> None:
    if _hang_rules(k8s_object):
        hang_rules.find(None, k8s_object, findings)
        return
    findings.add(
        Row(
            effect=Effect.SAFE,
            code="object-added",
            what=str(k8s_object.id),
            change="new",
            consequence=_consequence_of_new(k8s_object),
            where=k8s_object.where,
        )
    )


def _consequence_of_new(k8s_object: KubernetesObject) -> str:
    if k8s_object.id.kind == "RayCluster":
        return "Head and workers are created if nodes are free."
    return "Applied beside what is there."


def _hang_rules(k8s_object: KubernetesObject) -> bool:
    """Whether it holds the rules of hung job detection, which a run reads when it starts."""
    return k8s_object.id.kind == "ConfigMap" and k8s_object.id.name == names.HANG_RULES


def _changed(before: KubernetesObject, after: KubernetesObject, base: Cluster, findings: Findings) -> None:
    if before.id != after.id:  # a Job whose name carries the hash of its content
        findings.add(
            Row(
                effect=Effect.SAFE,
                code="job-again",
                what=str(after.id),
                change=f"takes the place of {before.id.name}",
                consequence="A Job's template is immutable, so a new Job of another name runs once and the old "
                "one is pruned.",
                where=after.where,
            )
        )
        return
    frozen = [
        path
        for path in facts()["kubernetes"]["immutable"].get(after.id.kind, [])
        if _at(before, path) != _at(after, path)
    ]
    if frozen:
        findings.add(
            Row(
                effect=Effect.REJECTED,
                code="object-immutable",
                what=str(after.id),
                change="; ".join(
                    _difference(_at(before, path), _at(after, path), path.replace("/", ".")) for path in frozen
                ),
                consequence="The field is immutable: 'kubectl apply' fails and the stack rolls back. What was "
                "deployed before it in the same "
                "run stays changed.",
                source=source("immutable"),
                where=after.where,
            )
        )
        return
    if after.id.kind == "RayCluster":
        raycluster.find(before, after, findings)
    elif after.id.kind == "PersistentVolumeClaim":
        _claim(before, after, base, findings)
    elif after.id.kind == "PersistentVolume":
        _volume(before, after, findings)
    elif karpenter.concerns(after):
        karpenter.find(before, after, findings)
    elif _hang_rules(after):
        hang_rules.find(before, after, findings)
    else:
        _plain(before, after, findings)


def _idle(k8s_object: KubernetesObject) -> bool:
    """Whether its pods only sleep: the DaemonSet that pulls the training image."""
    return k8s_object.id.kind == "DaemonSet" and k8s_object.id.name == names.IMAGE_PULL


def _plain(before: KubernetesObject, after: KubernetesObject, findings: Findings) -> None:
    rolled = after.id.kind in _RESTARTS and _at(before, "spec/template") != _at(after, "spec/template")
    interrupts = rolled and not _idle(after)
    redis = rolled and "redis" in after.id.name
    consequence = (
        f"Its pods are {_RESTARTS[after.id.kind]}." if rolled else "Applied in place; running pods are not restarted."
    )
    if rolled and not interrupts:
        consequence = "Its pods pull the image on the nodes again. Training does not use them."
    if after.id.kind == "NetworkPolicy":
        consequence = "In force within seconds, also for connections that pods make from then on."
    if after.id.kind == "Namespace" and before.data.get("metadata", {}).get("labels") != after.data.get(
        "metadata", {}
    ).get("labels"):
        consequence = "Pod security levels apply to pods created from then on."
    findings.add(
        Row(
            effect=Effect.INTERRUPTS if interrupts else Effect.SAFE,
            code="pods-rolled" if rolled else "object-changed",
            what=str(after.id),
            change=", ".join(_parts(before.data, after.data)),
            consequence=consequence
            + (" The Ray head loses its state store until it is back, and waits for it." if redis else ""),
            unavailable=str(after.id) if interrupts else "",
            where=after.where,
        )
    )


def _volume(before: KubernetesObject, after: KubernetesObject, findings: Findings) -> None:
    """What becomes of the file system when its claim goes."""
    path = "spec/persistentVolumeReclaimPolicy"
    policies = [str(_at(side, path) or "Retain") for side in (before, after)]
    if policies[0] != policies[1] and "Delete" in policies:
        findings.remark(
            Remark(
                direction="switched off" if policies[1] == "Delete" else "switched on",
                what=f"retention of {after.id}",
                detail=f"persistentVolumeReclaimPolicy {' → '.join(policies)}: the driver "
                f"{'deletes' if policies[1] == 'Delete' else 'keeps'} the file system when the claim goes",
            )
        )
    _plain(before, after, findings)


def _claim(before: KubernetesObject, after: KubernetesObject, base: Cluster, findings: Findings) -> None:
    path = "spec/resources/requests/storage"
    size_before, size_after = _gib(_at(before, path)), _gib(_at(after, path))
    made_by = base.objects.get(ObjectName("StorageClass", "", str(_at(after, "spec/storageClassName"))))
    grows = made_by is not None and bool(made_by.data.get("allowVolumeExpansion"))
    common: dict[str, Any] = {"what": str(after.id), "where": after.where, "source": source("claim-resize")}
    if size_before == size_after:
        _plain(before, after, findings)
    elif size_after < size_before:
        findings.add(
            Row(
                effect=Effect.REJECTED,
                code="claim-shrunk",
                change=f"storage {_at(before, path)} → {_at(after, path)}",
                consequence="A claim cannot ask for less than it has: 'kubectl apply' fails and the stack rolls back.",
                **common,
            )
        )
    elif not grows:
        findings.add(
            Row(
                effect=Effect.REJECTED,
                code="claim-not-expandable",
                change=f"storage {_at(before, path)} → {_at(after, path)}",
                consequence="Kubernetes lets a bound claim grow only when its StorageClass says "
                "allowVolumeExpansion; this one has "
                f"{'a class that does not' if made_by else 'no class'}. 'kubectl apply' fails and the stack rolls "
                "back; a file system that "
                "was resized before it stays resized.",
                **common,
            )
        )
    else:
        findings.add(
            Row(
                effect=Effect.INTERRUPTS,
                code="claim-grown",
                change=f"storage {_at(before, path)} → {_at(after, path)}",
                consequence="The driver asks FSx to grow the file system: unavailable for a few minutes, clients "
                "retry.",
                unavailable=f"{names.MOUNT_PATH}, for a few minutes",
                **common,
            )
        )


# --- Helm ------------------------------------------------------------------------------------------------------------


def _release(before: Release | None, after: Release | None, findings: Findings) -> None:
    if before is None and after is not None:
        findings.add(
            Row(
                effect=Effect.SAFE,
                code="release-added",
                what=str(after),
                change=f"new: {_chart(after)}",
                consequence="Installed.",
                where=after.where,
            )
        )
    elif after is None and before is not None:
        findings.add(
            Row(
                effect=Effect.INTERRUPTS,
                code="release-removed",
                what=str(before),
                change=f"{_chart(before)} removed",
                consequence="Uninstalled with everything it created, but not its CRDs nor the objects of those kinds.",
                unavailable=f"what {before.name} does",
                source=source("helm-crds"),
                where=before.where,
            )
        )
    elif before is not None and after is not None and before != after:
        _upgraded(before, after, findings)


def _chart(release: Release) -> str:
    """Chart and version; a side whose chart was not fetched has neither."""
    return "a chart that was not fetched" if release.chart == "?" else f"{release.chart} {release.version}"


def _upgraded(before: Release, after: Release, findings: Findings) -> None:
    version = before.version != after.version or before.chart != after.chart
    values, content = before.values != after.values, before.content != after.content and not version
    if not (version or values or content):
        return
    parts = [f"{_chart(before)} → {_chart(after) if before.chart != after.chart else after.version}"] if version else []
    parts += [f"values: {', '.join(_parts(before.values, after.values))}"] if values else []
    parts += [f"content of chart {after.chart} {after.version}"] if content else []
    crds = ""
    if (version or content) and after.chart not in _CRD_FREE:
        crds = " Helm does not upgrade CRDs: first apply the new chart's yourself ('kubectl apply --server-side')."
    operator = after.chart == names.OPERATOR_CHART
    consequence = "helm upgrade: pods of the release whose template changes are rolled."
    if operator:
        consequence = "helm upgrade: the operator's pods are rolled. Ray's pods keep running; no lost one is replaced."
    elif version or content or values:
        consequence += " Device plugins and health agents restart on the nodes; running pods keep their devices."
    findings.add(
        Row(
            effect=Effect.SAFE,
            code="release-upgraded",
            what=str(after),
            change="; ".join(parts),
            consequence=consequence + crds,
            unavailable="recovery of lost Ray pods, for a minute or two" if operator else "",
            source=source("helm-crds") if crds else "",
            where=after.where,
        )
    )


# --- small ones ------------------------------------------------------------------------------------------------------


def _at(k8s_object: KubernetesObject, path: str) -> Any:
    value: Any = k8s_object.data
    for name in path.split("/"):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _difference(before: Any, after: Any, path: str) -> str:
    """What differs, with its values; of a mapping the entries that differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
        return "; ".join(_difference(before.get(key), after.get(key), f"{path}.{key}") for key in keys)
    return f"{path} {_words(before)} → {_words(after)}"


def _words(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 100 else text[:97] + "…"


def _parts(before: Any, after: Any, path: str = "") -> list[str]:
    """Paths of what differs, to the third level."""
    if before == after:
        return []
    if isinstance(before, dict) and isinstance(after, dict) and path.count(".") < 2:
        return [
            part
            for key in {**before, **after}
            for part in _parts(before.get(key), after.get(key), f"{path}.{key}" if path else str(key))
        ]
    return [path or "all of it"]


def _gib(quantity: Any) -> float:
    return float(number(quantity or 0) / 2**30)
