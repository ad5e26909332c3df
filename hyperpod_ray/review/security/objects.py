"""Kubernetes objects that guard: RBAC, network policies, pod security, authentication of Ray."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from hyperpod_ray.core.names import METRICS_PORT
from hyperpod_ray.review.findings import Remark
from hyperpod_ray.review.kubernetes import Cluster, KubernetesObject, ObjectName, pairs

_GOOD = {"runAsNonRoot": True, "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True}
_BAD = {"privileged": True, "hostNetwork": True, "hostPID": True, "hostIPC": True, "automountServiceAccountToken": True}
_METRICS = f'"port": {METRICS_PORT},'
_ENFORCE = "pod-security.kubernetes.io/enforce"
_LEVELS = {"privileged": 0, "baseline": 1, "restricted": 2}


def remarks(base: Cluster, head: Cluster) -> Iterator[Remark]:
    """Remarks on every such object that differs."""
    holders = _holders(base), _holders(head)
    new_spaces = {name.name for name in head.objects if name.kind == "Namespace" and name not in base.objects}
    for before, after in pairs(base, head):
        k8s_object = after or before
        assert k8s_object is not None  # noqa: S101  (one of the two has it)
        kind = k8s_object.id.kind
        fresh = k8s_object.id.namespace in new_spaces
        if kind in {"Role", "ClusterRole"}:
            subject = holders[after is not None].get(k8s_object.id, "")
            yield from _sets(str(k8s_object.id), _verbs(before), _verbs(after), subject=subject)
        elif kind in {"RoleBinding", "ClusterRoleBinding"}:
            yield from _bindings(str(k8s_object.id), _subjects(before), _subjects(after))
        elif kind == "NetworkPolicy":
            for remark in _network_policy(before, after, _Room.of(base, k8s_object)):
                yield replace(remark, subject=f"namespace {k8s_object.id.namespace}" if fresh else "")
        elif kind == "Namespace":
            yield from _namespace(before, after)
        if before is not None and after is not None:
            yield from _pods(str(k8s_object.id), before.data, after.data)
            if kind == "RayCluster":
                yield from _authentication(before, after)


def _holders(cluster: Cluster) -> dict[ObjectName, str]:
    """Role → who has it, as the bindings say."""
    holders: dict[ObjectName, str] = {}
    for k8s_object in cluster.objects.values():
        if k8s_object.id.kind in {"RoleBinding", "ClusterRoleBinding"}:
            role = k8s_object.data.get("roleRef", {})
            space = k8s_object.id.namespace if role.get("kind") == "Role" else ""
            for subject in k8s_object.data.get("subjects") or []:
                holders.setdefault(
                    ObjectName(str(role.get("kind")), space, str(role.get("name"))),
                    f"{subject.get('kind')} {subject.get('name')}",
                )
    return holders


def _sets(title: str, before: set[str], after: set[str], *, subject: str = "") -> Iterator[Remark]:
    for text in sorted(after - before):
        yield Remark(direction="broadened", what=title, detail=text, subject=subject)
    for text in sorted(before - after):
        yield Remark(direction="narrowed", what=title, detail=text, subject=subject)


def _bindings(title: str, before: dict[str, str], after: dict[str, str]) -> Iterator[Remark]:
    for text in sorted(after.keys() - before.keys()):
        yield Remark(direction="broadened", what=title, detail=text, subject=after[text])
    for text in sorted(before.keys() - after.keys()):
        yield Remark(direction="narrowed", what=title, detail=text, subject=before[text])


def _verbs(role: KubernetesObject | None) -> set[str]:
    rights = set()
    for rule in (role.data.get("rules") or []) if role else []:
        for group in rule.get("apiGroups") or [""]:
            for resource in rule.get("resources") or rule.get("nonResourceURLs") or []:
                for verb in rule.get("verbs") or []:
                    only = f" named {', '.join(rule['resourceNames'])}" if rule.get("resourceNames") else ""
                    rights.add(f"{verb} {resource}{'.' + group if group else ''}{only}")
    return rights


def _subjects(binding: KubernetesObject | None) -> dict[str, str]:
    """What a binding says, with whom it says it of."""
    if binding is None:
        return {}
    role = binding.data.get("roleRef", {}).get("name")
    return {
        f"{subject.get('kind')} {subject.get('name')} has {role}": f"{subject.get('kind')} {subject.get('name')}"
        for subject in binding.data.get("subjects") or []
    }


@dataclass(frozen=True, kw_only=True)
class _Room:
    """What the other policies of a namespace say before: policies add up."""

    closed: frozenset[str]
    """Directions in which every pod is closed where no policy opens it."""
    allowed: frozenset[str]
    """What pods of the same selector may do by another policy."""

    @classmethod
    def of(cls, base: Cluster, policy: KubernetesObject) -> _Room:
        """Of the namespace of a policy."""
        selector = policy.data.get("spec", {}).get("podSelector")
        policies = [
            neighbour
            for neighbour in base.objects.values()
            if neighbour.id.kind == "NetworkPolicy"
            and neighbour.id.namespace == policy.id.namespace
            and neighbour.id != policy.id
        ]
        return cls(
            closed=frozenset(
                str(direction).lower()
                for neighbour in policies
                for spec in [neighbour.data.get("spec", {})]
                if not spec.get("podSelector")
                for direction in spec.get("policyTypes") or []
                if not spec.get(str(direction).lower())
            ),
            allowed=frozenset(
                traffic
                for neighbour in policies
                if neighbour.data.get("spec", {}).get("podSelector") in ({}, selector)
                for traffic in _allowed(neighbour)
            ),
        )


def _network_policy(before: KubernetesObject | None, after: KubernetesObject | None, room: _Room) -> Iterator[Remark]:
    policy = after or before
    assert policy is not None  # noqa: S101  (one of the two has it)
    if after is None:
        detail = "no longer in the manifests; kubectl prunes no policies, so it holds until someone deletes it"
        # what it opened stays as it is; what it closed is open wherever the manifests are applied again
        yield Remark(direction="changed" if _allowed(before) else "broadened", what=str(policy.id), detail=detail)
        return
    allowed_before, allowed_after = _allowed(before), _allowed(after)
    if before is None:
        selects = json.dumps(after.data.get("spec", {}).get("podSelector", {}))
        yield Remark(
            direction="changed",
            what=str(policy.id),
            detail=f"new, for pods {selects}: allows {len(allowed_after)} kinds of traffic",
        )
        opened = {traffic for traffic in allowed_after - room.allowed if traffic.partition(":")[0] in room.closed}
        yield from _sets(str(policy.id), set(), opened)
        return
    yield from _sets(str(policy.id), allowed_before, allowed_after)
    if any(traffic.startswith("ingress") and _METRICS in traffic for traffic in allowed_before - allowed_after):
        yield Remark(
            direction="switched off",
            what=f"a way to the metrics of {policy.id}",
            detail="who scraped by it sees nothing from then on",
        )
    types_gone = set(before.data["spec"].get("policyTypes") or []) - set(after.data["spec"].get("policyTypes") or [])
    for name in sorted(types_gone):
        yield Remark(direction="broadened", what=str(policy.id), detail=f"no longer limits {name.lower()}")
    if before.data["spec"].get("podSelector") != after.data["spec"].get("podSelector"):
        yield Remark(direction="changed", what=str(policy.id), detail="selects other pods")


def _allowed(policy: KubernetesObject | None) -> set[str]:
    """What a policy lets through, for each peer and port."""
    if policy is None:
        return set()
    spec = policy.data.get("spec", {})
    return {
        f"{direction}: {json.dumps(traffic, sort_keys=True)}"
        for direction, side in (("ingress", "from"), ("egress", "to"))
        for rule in spec.get(direction) or []
        for peer in rule.get(side) or [None]
        for port in rule.get("ports") or [None]
        for traffic in [{**({"ports": [port]} if port else {}), **({side: [peer]} if peer else {})}]
    }


def _namespace(before: KubernetesObject | None, after: KubernetesObject | None) -> Iterator[Remark]:
    if before is None or after is None:
        return
    level_before, level_after = (
        (side.data.get("metadata", {}).get("labels") or {}).get(_ENFORCE, "privileged") for side in (before, after)
    )
    if level_before != level_after:
        better = _LEVELS.get(level_after, 0) > _LEVELS.get(level_before, 0)
        yield Remark(
            direction="narrowed" if better else "broadened",
            what=str(after.id),
            detail=f"pod security level {level_before} → {level_after}",
        )


def _authentication(before: KubernetesObject, after: KubernetesObject) -> Iterator[Remark]:
    mode_before, mode_after = (
        (side.data.get("spec", {}).get("authOptions") or {}).get("mode", "none") for side in (before, after)
    )
    if mode_before != mode_after:
        yield Remark(
            direction="switched on" if mode_after == "token" else "switched off",
            what=f"authentication of {after.id}",
            detail=f"authOptions.mode {mode_before} → {mode_after}; the dashboard and Jobs API run code by design",
        )


def _pods(title: str, before: Any, after: Any) -> Iterator[Remark]:
    """Guards of pods and containers, wherever in the object they are."""
    guards_before, guards_after = dict(_guards(before, "")), dict(_guards(after, ""))
    both = [set(_places(side, "")) for side in (before, after)]
    for path in sorted({*guards_before, *guards_after}):
        name = path.rpartition(".")[2]
        had, has = guards_before.get(path), guards_after.get(path)
        if had == has or not all(path.rpartition(".")[0] in places for places in both):
            continue  # a container or a group that comes or goes guards nothing that the other side has
        better = has == _GOOD[name] if name in _GOOD else has != _BAD[name]
        worse = had == _GOOD[name] if name in _GOOD else has == _BAD[name]
        if better or worse:
            yield Remark(direction="narrowed" if better else "broadened", what=title, detail=f"{path} {had} → {has}")


def _guards(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, part in value.items():
            if key in _GOOD or key in _BAD:
                yield f"{path}.{key}".lstrip("."), part
            else:
                yield from _guards(part, f"{path}.{key}")
    elif isinstance(value, list):
        for index, part in enumerate(value):
            name = part.get("groupName") or part.get("name") if isinstance(part, dict) else None
            yield from _guards(part, f"{path}[{name or index}]")


def _places(value: Any, path: str) -> Iterator[str]:
    """Paths of all mappings, as `_guards` writes them."""
    if isinstance(value, dict):
        yield path.lstrip(".")
        for key, part in value.items():
            yield from _places(part, f"{path}.{key}")
    elif isinstance(value, list):
        for index, part in enumerate(value):
            name = part.get("groupName") or part.get("name") if isinstance(part, dict) else None
            yield from _places(part, f"{path}[{name or index}]")
