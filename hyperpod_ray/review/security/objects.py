"""Kubernetes objects that guard: RBAC, network policies, pod security, authentication of Ray."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hyperpod_ray.review.findings import Remark
from hyperpod_ray.review.kubernetes import Cluster, KubernetesObject, ObjectName, pairs

_GOOD = {"runAsNonRoot": True, "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True}
_BAD = {"privileged": True, "hostNetwork": True, "hostPID": True, "hostIPC": True, "automountServiceAccountToken": True}
_ENFORCE = "pod-security.kubernetes.io/enforce"
_LEVELS = {"privileged": 0, "baseline": 1, "restricted": 2}


def remarks(base: Cluster, head: Cluster) -> Iterator[Remark]:
    """Remarks on every such object that differs."""
    holders = _holders(base), _holders(head)
    new_spaces = {name.name for name in head.objects if name.kind == "Namespace" and name not in base.objects}
    for before, now in pairs(base, head):
        item = now or before
        assert item is not None  # noqa: S101  (one of the two has it)
        kind = item.id.kind
        fresh = item.id.namespace in new_spaces
        if kind in {"Role", "ClusterRole"}:
            subject = holders[now is not None].get(item.id, "")
            yield from _sets(str(item.id), _verbs(before), _verbs(now), subject=subject)
        elif kind in {"RoleBinding", "ClusterRoleBinding"}:
            yield from _bindings(str(item.id), _subjects(before), _subjects(now))
        elif kind == "NetworkPolicy":
            for remark in _network_policy(before, now):
                yield replace(remark, subject=f"namespace {item.id.namespace}" if fresh else "")
        elif kind == "Namespace":
            yield from _namespace(before, now)
        if before is not None and now is not None:
            yield from _pods(str(item.id), before.data, now.data)
            if kind == "RayCluster":
                yield from _authentication(before, now)


def _holders(cluster: Cluster) -> dict[ObjectName, str]:
    """Role → who has it, as the bindings say."""
    found: dict[ObjectName, str] = {}
    for item in cluster.objects.values():
        if item.id.kind in {"RoleBinding", "ClusterRoleBinding"}:
            role = item.data.get("roleRef", {})
            space = item.id.namespace if role.get("kind") == "Role" else ""
            for one in item.data.get("subjects") or []:
                found.setdefault(
                    ObjectName(str(role.get("kind")), space, str(role.get("name"))),
                    f"{one.get('kind')} {one.get('name')}",
                )
    return found


def _sets(what: str, before: set[str], now: set[str], *, subject: str = "") -> Iterator[Remark]:
    for text in sorted(now - before):
        yield Remark(direction="broadened", what=what, detail=text, subject=subject)
    for text in sorted(before - now):
        yield Remark(direction="narrowed", what=what, detail=text, subject=subject)


def _bindings(what: str, before: dict[str, str], now: dict[str, str]) -> Iterator[Remark]:
    for text in sorted(now.keys() - before.keys()):
        yield Remark(direction="broadened", what=what, detail=text, subject=now[text])
    for text in sorted(before.keys() - now.keys()):
        yield Remark(direction="narrowed", what=what, detail=text, subject=before[text])


def _verbs(item: KubernetesObject | None) -> set[str]:
    found = set()
    for rule in (item.data.get("rules") or []) if item else []:
        for group in rule.get("apiGroups") or [""]:
            for resource in rule.get("resources") or rule.get("nonResourceURLs") or []:
                for verb in rule.get("verbs") or []:
                    only = f" named {', '.join(rule['resourceNames'])}" if rule.get("resourceNames") else ""
                    found.add(f"{verb} {resource}{'.' + group if group else ''}{only}")
    return found


def _subjects(item: KubernetesObject | None) -> dict[str, str]:
    """What a binding says, with whom it says it of."""
    if item is None:
        return {}
    role = item.data.get("roleRef", {}).get("name")
    return {
        f"{one.get('kind')} {one.get('name')} has {role}": f"{one.get('kind')} {one.get('name')}"
        for one in item.data.get("subjects") or []
    }


def _network_policy(before: KubernetesObject | None, now: KubernetesObject | None) -> Iterator[Remark]:
    item = now or before
    assert item is not None  # noqa: S101  (one of the two has it)
    if now is None:
        detail = "no longer in the manifests; kubectl prunes no policies, so it holds until someone deletes it"
        yield Remark(direction="broadened", what=str(item.id), detail=detail)
        return
    old, new = _allowed(before), _allowed(now)
    if before is None:
        selects = json.dumps(now.data.get("spec", {}).get("podSelector", {}))
        yield Remark(
            direction="changed",
            what=str(item.id),
            detail=f"new, for pods {selects}: allows {len(new)} kinds of traffic",
        )
        return
    yield from _sets(str(item.id), old, new)
    types_gone = set(before.data["spec"].get("policyTypes") or []) - set(now.data["spec"].get("policyTypes") or [])
    for name in sorted(types_gone):
        yield Remark(direction="broadened", what=str(item.id), detail=f"no longer limits {name.lower()}")
    if before.data["spec"].get("podSelector") != now.data["spec"].get("podSelector"):
        yield Remark(direction="changed", what=str(item.id), detail="selects other pods")


def _allowed(item: KubernetesObject | None) -> set[str]:
    if item is None:
        return set()
    spec = item.data.get("spec", {})
    return {
        f"{direction}: {json.dumps(rule, sort_keys=True)}"
        for direction in ("ingress", "egress")
        for rule in spec.get(direction) or []
    }


def _namespace(before: KubernetesObject | None, now: KubernetesObject | None) -> Iterator[Remark]:
    if before is None or now is None:
        return
    old, new = (
        (item.data.get("metadata", {}).get("labels") or {}).get(_ENFORCE, "privileged") for item in (before, now)
    )
    if old != new:
        better = _LEVELS.get(new, 0) > _LEVELS.get(old, 0)
        yield Remark(
            direction="narrowed" if better else "broadened",
            what=str(now.id),
            detail=f"pod security level {old} → {new}",
        )


def _authentication(before: KubernetesObject, now: KubernetesObject) -> Iterator[Remark]:
    old, new = ((item.data.get("spec", {}).get("authOptions") or {}).get("mode", "none") for item in (before, now))
    if old != new:
        yield Remark(
            direction="switched on" if new == "token" else "switched off",
            what=f"authentication of {now.id}",
            detail=f"authOptions.mode {old} → {new}; the dashboard and Jobs API run code by design",
        )


def _pods(what: str, before: Any, now: Any) -> Iterator[Remark]:
    """Guards of pods and containers, wherever in the object they are."""
    old, new = dict(_guards(before, "")), dict(_guards(now, ""))
    both = [set(_places(side, "")) for side in (before, now)]
    for path in sorted({*old, *new}):
        name = path.rpartition(".")[2]
        had, has = old.get(path), new.get(path)
        if had == has or not all(path.rpartition(".")[0] in places for places in both):
            continue  # a container or a group that comes or goes guards nothing that the other side has
        good = has == _GOOD[name] if name in _GOOD else has != _BAD[name]
        worse = had == _GOOD[name] if name in _GOOD else has == _BAD[name]
        if good or worse:
            yield Remark(direction="narrowed" if good else "broadened", what=what, detail=f"{path} {had} → {has}")


def _guards(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key in _GOOD or key in _BAD:
                yield f"{path}.{key}".lstrip("."), item
            else:
                yield from _guards(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            name = item.get("groupName") or item.get("name") if isinstance(item, dict) else None
            yield from _guards(item, f"{path}[{name or index}]")


def _places(value: Any, path: str) -> Iterator[str]:
    """Paths of all mappings, as `_guards` writes them."""
    if isinstance(value, dict):
        yield path.lstrip(".")
        for key, item in value.items():
            yield from _places(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            name = item.get("groupName") or item.get("name") if isinstance(item, dict) else None
            yield from _places(item, f"{path}[{name or index}]")
