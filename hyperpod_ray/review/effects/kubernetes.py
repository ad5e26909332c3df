"""What changed manifests and Helm releases do: immutable fields, pruning, RayClusters, claims, CRDs."""

from __future__ import annotations

from typing import Any

from hyperpod_ray.core import names
from hyperpod_ray.review.changes import Changes, Kind
from hyperpod_ray.review.effects import guard, hang_rules, karpenter, raycluster
from hyperpod_ray.review.facts import facts, source
from hyperpod_ray.review.findings import Effect, Findings, Row
from hyperpod_ray.review.kubernetes import Cluster, KubernetesObject, ObjectName, Release, pairs
from hyperpod_ray_rules.quantity import number

_CRD_FREE = {"hyperpod-helm-chart"}
"""Charts whose CRDs this stack's objects do not use."""
_RESTARTS = {"Deployment": "rolled", "DaemonSet": "rolled over the nodes", "StatefulSet": "rolled one by one"}


def find(changes: Changes, findings: Findings) -> None:
    """Rows for every object and release that differs."""
    base, head = changes.base_cluster, changes.head_cluster
    doomed = _namespaces_deleted(base, head)
    for before, now in pairs(base, head):
        one = now or before
        if one is not None and guard.concerns(one):
            guard.find(before, now, findings)
        elif now is None and before is not None:
            _gone(before, changes, doomed, findings)
        elif before is None and now is not None:
            _new(now, findings)
        elif before is not None and now is not None:
            _changed(before, now, base, findings)
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


def _gone(item: KubernetesObject, changes: Changes, doomed: set[str], findings: Findings) -> None:
    owner = changes.resources.get(item.manifest)
    if owner is not None and owner.kind is Kind.REMOVED:
        how = "deleted with its manifest"
    elif item.id.namespace in doomed:
        how = f"deleted with its namespace {item.id.namespace}"
    elif item.id.kind in facts()["kubernetes"]["pruned"] and (
        not item.id.namespace or item.id.namespace in changes.head_cluster.namespaces_of(item.manifest)
    ):
        how = "pruned by kubectl"
    else:
        findings.add(karpenter.stays(item) if karpenter.concerns(item) else _stays(item))
        return
    if karpenter.concerns(item):
        findings.add(karpenter.deleted(item, how))
    elif _hang_rules(item):
        hang_rules.find(item, None, findings)
    else:
        findings.add(_deleted(item, how, changes.base_cluster))


def _stays(item: KubernetesObject) -> Row:
    ray = item.id.kind == "RayCluster"
    return Row(
        effect=Effect.INTERRUPTS if ray else Effect.SAFE,
        code="stays-behind",
        what=str(item.id),
        change="left the manifests",
        consequence="'kubectl apply --prune' deletes only built-in kinds it lists: this one stays in the cluster "
        "until someone deletes it."
        + (" It keeps its nodes, and a RayCluster that takes its place waits for them." if ray else ""),
        source=source("prune"),
        where=item.where,
    )


def _deleted(item: KubernetesObject, how: str, base: Cluster) -> Row:
    common: dict[str, Any] = {
        "code": f"{item.id.kind.lower()}-deleted",
        "what": str(item.id),
        "change": "left the manifests",
        "where": item.where,
        "source": source("prune"),
    }
    if item.id.kind == "PersistentVolumeClaim":
        policy = _reclaim(item, base)
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
    if item.id.kind == "RayCluster":
        return Row(
            effect=Effect.INTERRUPTS,
            consequence=f"{how.capitalize()}: head and all workers end at once, and running jobs with them.",
            unavailable="the Ray cluster",
            **common,
        )
    if item.id.kind == "Namespace" and item.id.name == names.OBSERVABILITY_NAMESPACE:
        return Row(
            effect=Effect.SAFE,
            consequence=f"{how.capitalize()}, with the add-on's collectors in it. Training does not use them.",
            **common,
        )
    if item.id.kind == "Namespace":
        inside = [str(other.id) for other in base.objects.values() if other.id.namespace == item.id.name]
        return Row(
            effect=Effect.INTERRUPTS,
            consequence=f"{how.capitalize()}, and Kubernetes deletes everything in it: "
            f"{', '.join(inside) or 'what others put there'}.",
            unavailable=f"everything in namespace {item.id.name}",
            **common,
        )
    running = not _idle(item) and item.id.kind in {
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


def _reclaim(claim: KubernetesObject, cluster: Cluster) -> str:
    """What happens to the volume when the claim goes."""
    spec = claim.data.get("spec", {})
    volume = cluster.objects.get(ObjectName("PersistentVolume", "", str(spec.get("volumeName"))))
    if volume is not None:
        return str(volume.data.get("spec", {}).get("persistentVolumeReclaimPolicy", "Retain"))
    made_by = cluster.objects.get(ObjectName("StorageClass", "", str(spec.get("storageClassName"))))
    return str(made_by.data.get("reclaimPolicy", "Delete")) if made_by is not None else "Delete"


# --- objects that come or change -------------------------------------------------------------------------------------


def _new(item: KubernetesObject, findings: Findings) -> None:
    if _hang_rules(item):
        hang_rules.find(None, item, findings)
        return
    findings.add(
        Row(
            effect=Effect.SAFE,
            code="object-added",
            what=str(item.id),
            change="new",
            consequence=_consequence_of_new(item),
            where=item.where,
        )
    )


def _consequence_of_new(item: KubernetesObject) -> str:
    if item.id.kind == "RayCluster":
        return "Head and workers are created if nodes are free."
    return "Applied beside what is there."


def _hang_rules(item: KubernetesObject) -> bool:
    """Whether it holds the rules of hung job detection, which a run reads when it starts."""
    return item.id.kind == "ConfigMap" and item.id.name == names.HANG_RULES


def _changed(before: KubernetesObject, now: KubernetesObject, base: Cluster, findings: Findings) -> None:
    if before.id != now.id:  # a Job whose name carries the hash of its content
        findings.add(
            Row(
                effect=Effect.SAFE,
                code="job-again",
                what=str(now.id),
                change=f"takes the place of {before.id.name}",
                consequence="A Job's template is immutable, so a new Job of another name runs once and the old "
                "one is pruned.",
                where=now.where,
            )
        )
        return
    frozen = [
        path for path in facts()["kubernetes"]["immutable"].get(now.id.kind, []) if _at(before, path) != _at(now, path)
    ]
    if frozen:
        findings.add(
            Row(
                effect=Effect.REJECTED,
                code="object-immutable",
                what=str(now.id),
                change="; ".join(
                    _difference(_at(before, path), _at(now, path), path.replace("/", ".")) for path in frozen
                ),
                consequence="The field is immutable: 'kubectl apply' fails and the stack rolls back. What was "
                "deployed before it in the same "
                "run stays changed.",
                source=source("immutable"),
                where=now.where,
            )
        )
        return
    if now.id.kind == "RayCluster":
        raycluster.find(before, now, findings)
    elif now.id.kind == "PersistentVolumeClaim":
        _claim(before, now, base, findings)
    elif karpenter.concerns(now):
        karpenter.find(before, now, findings)
    elif _hang_rules(now):
        hang_rules.find(before, now, findings)
    else:
        _plain(before, now, findings)


def _idle(item: KubernetesObject) -> bool:
    """Whether its pods only sleep: the DaemonSet that pulls the training image."""
    return item.id.kind == "DaemonSet" and item.id.name == names.IMAGE_PULL


def _plain(before: KubernetesObject, now: KubernetesObject, findings: Findings) -> None:
    rolled = now.id.kind in _RESTARTS and _at(before, "spec/template") != _at(now, "spec/template")
    interrupts = rolled and not _idle(now)
    redis = rolled and "redis" in now.id.name
    consequence = (
        f"Its pods are {_RESTARTS[now.id.kind]}." if rolled else "Applied in place; running pods are not restarted."
    )
    if rolled and not interrupts:
        consequence = "Its pods pull the image on the nodes again. Training does not use them."
    if now.id.kind == "NetworkPolicy":
        consequence = "In force within seconds, also for connections that pods make from then on."
    if now.id.kind == "Namespace" and before.data.get("metadata", {}).get("labels") != now.data.get("metadata", {}).get(
        "labels"
    ):
        consequence = "Pod security levels apply to pods created from then on."
    findings.add(
        Row(
            effect=Effect.INTERRUPTS if interrupts else Effect.SAFE,
            code="pods-rolled" if rolled else "object-changed",
            what=str(now.id),
            change=", ".join(_parts(before.data, now.data)),
            consequence=consequence
            + (" The Ray head loses its state store until it is back, and waits for it." if redis else ""),
            unavailable=str(now.id) if interrupts else "",
            where=now.where,
        )
    )


def _claim(before: KubernetesObject, now: KubernetesObject, base: Cluster, findings: Findings) -> None:
    path = "spec/resources/requests/storage"
    old, new = _gib(_at(before, path)), _gib(_at(now, path))
    made_by = base.objects.get(ObjectName("StorageClass", "", str(_at(now, "spec/storageClassName"))))
    grows = made_by is not None and bool(made_by.data.get("allowVolumeExpansion"))
    common: dict[str, Any] = {"what": str(now.id), "where": now.where, "source": source("claim-resize")}
    if old == new:
        _plain(before, now, findings)
    elif new < old:
        findings.add(
            Row(
                effect=Effect.REJECTED,
                code="claim-shrunk",
                change=f"storage {_at(before, path)} → {_at(now, path)}",
                consequence="A claim cannot ask for less than it has: 'kubectl apply' fails and the stack rolls back.",
                **common,
            )
        )
    elif not grows:
        findings.add(
            Row(
                effect=Effect.REJECTED,
                code="claim-not-expandable",
                change=f"storage {_at(before, path)} → {_at(now, path)}",
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
                change=f"storage {_at(before, path)} → {_at(now, path)}",
                consequence="The driver asks FSx to grow the file system: unavailable for a few minutes, clients "
                "retry.",
                unavailable=f"{names.MOUNT_PATH}, for a few minutes",
                **common,
            )
        )


# --- Helm ------------------------------------------------------------------------------------------------------------


def _release(before: Release | None, now: Release | None, findings: Findings) -> None:
    if before is None and now is not None:
        findings.add(
            Row(
                effect=Effect.SAFE,
                code="release-added",
                what=str(now),
                change=f"new: {_chart(now)}",
                consequence="Installed.",
                where=now.where,
            )
        )
    elif now is None and before is not None:
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
    elif before is not None and now is not None and before != now:
        _upgraded(before, now, findings)


def _chart(release: Release) -> str:
    """Chart and version; a side whose chart was not fetched has neither."""
    return "a chart that was not fetched" if release.chart == "?" else f"{release.chart} {release.version}"


def _upgraded(before: Release, now: Release, findings: Findings) -> None:
    version = before.version != now.version or before.chart != now.chart
    values, content = before.values != now.values, before.content != now.content and not version
    if not (version or values or content):
        return
    parts = [f"{_chart(before)} → {_chart(now) if before.chart != now.chart else now.version}"] if version else []
    parts += [f"values: {', '.join(_parts(before.values, now.values))}"] if values else []
    parts += [f"content of chart {now.chart} {now.version}"] if content else []
    crds = ""
    if (version or content) and now.chart not in _CRD_FREE:
        crds = " Helm does not upgrade CRDs: first apply the new chart's yourself ('kubectl apply --server-side')."
    operator = now.chart == names.OPERATOR_CHART
    consequence = "helm upgrade: pods of the release whose template changes are rolled."
    if operator:
        consequence = "helm upgrade: the operator's pods are rolled. Ray's pods keep running; no lost one is replaced."
    elif version or content or values:
        consequence += " Device plugins and health agents restart on the nodes; running pods keep their devices."
    findings.add(
        Row(
            effect=Effect.SAFE,
            code="release-upgraded",
            what=str(now),
            change="; ".join(parts),
            consequence=consequence + crds,
            unavailable="recovery of lost Ray pods, for a minute or two" if operator else "",
            source=source("helm-crds") if crds else "",
            where=now.where,
        )
    )


# --- small ones ------------------------------------------------------------------------------------------------------


def _at(item: KubernetesObject, path: str) -> Any:
    value: Any = item.data
    for name in path.split("/"):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _difference(before: Any, now: Any, path: str) -> str:
    """What differs, with its values; of a mapping the entries that differ."""
    if isinstance(before, dict) and isinstance(now, dict):
        keys = [key for key in {**before, **now} if before.get(key) != now.get(key)]
        return "; ".join(_difference(before.get(key), now.get(key), f"{path}.{key}") for key in keys)
    return f"{path} {_words(before)} → {_words(now)}"


def _words(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 100 else text[:97] + "…"


def _parts(before: Any, now: Any, path: str = "") -> list[str]:
    """Paths of what differs, to the third level."""
    if before == now:
        return []
    if isinstance(before, dict) and isinstance(now, dict) and path.count(".") < 2:
        return [
            part
            for key in {**before, **now}
            for part in _parts(before.get(key), now.get(key), f"{path}.{key}" if path else str(key))
        ]
    return [path or "all of it"]


def _gib(quantity: Any) -> float:
    return float(number(quantity or 0) / 2**30)
