"""What a changed `AWS::EKS::Cluster` or `AWS::EKS::Addon` does (replacement: see `general`)."""

from __future__ import annotations

import json
import re
from typing import Any

from hyperpod_ray.core import names
from hyperpod_ray.review import severity
from hyperpod_ray.review.changes import Changes, Kind, ResourceChange, differing
from hyperpod_ray.review.effects.in_place import only_tags
from hyperpod_ray.review.facts import source
from hyperpod_ray.review.findings import Effect, Findings, Row
from hyperpod_ray.review.schemas import at

_MINOR = re.compile(r"^1\.(\d+)$")
_ADD_ONS = {
    names.CNI_ADDON: "Its pods are rolled node by node; pods that run keep their addresses, new pods wait until then.",
    names.PROXY_ADDON: "Its pods are rolled over the nodes one by one; connections that run stay.",
    "coredns": "Its two replicas are rolled; names resolve all the while.",
    names.POD_IDENTITY_ADDON: "Its pods are rolled node by node; a pod that asks for credentials then retries.",
    names.OBSERVABILITY_ADDON: "Its collectors restart: metrics have a gap of minutes. Training does not use them.",
    names.EBS_CSI_ADDON: "Its pods are rolled; a volume that is attached stays, a new head's waits until then.",
    names.CSI_ADDON: "Its pods are rolled; mounted volumes stay mounted, new mounts wait until then.",
}


def find(changes: Changes, findings: Findings) -> None:
    """Rows for each cluster and add-on changed in place."""
    for change in changes.of_type("AWS::EKS::Cluster"):
        if change.kind is Kind.CHANGED and not only_tags(change):
            _cluster(change, findings)
    for change in changes.of_type("AWS::EKS::Addon"):
        if change.kind is Kind.CHANGED and not only_tags(change):
            _addon(change, changes, findings)


def _cluster(change: ResourceChange, findings: Findings) -> None:
    common: dict[str, Any] = {"what": f"EKS cluster {change.now('Name')}", "where": change.title}
    if change.differs("Version"):
        findings.add(_version(str(change.before("Version")), str(change.now("Version")), common))
    rest = sorted({pointer[0] for pointer in change.changed} - {"Version"})
    if rest:
        findings.add(
            Row(
                effect=Effect.SAFE,
                code="eks-setting",
                change=", ".join(".".join(pointer) for pointer in change.changed if pointer[0] != "Version"),
                consequence="In place; the control plane stays reachable, apart from short moments, and pods run on.",
                unavailable="the Kubernetes API, for moments",
                source=source("eks-update"),
                **common,
            )
        )


def _version(before: str, after: str, common: dict[str, Any]) -> Row:
    minor_before, minor_after = _minor(before), _minor(after)
    step = minor_after - minor_before if minor_before is not None and minor_after is not None else None
    changed = f"Kubernetes {before} → {after}"
    if step == 1:
        return Row(
            effect=Effect.SAFE,
            code="eks-version",
            change=changed,
            consequence="The control plane is updated in place; pods run on. Nodes keep their kubelet until "
            "their software is updated, add-ons "
            "their version. It can be rolled back for 7 days, outside CloudFormation. The kubectl layer may be "
            "one minor version off.",
            unavailable="the Kubernetes API, for moments: no new pods are scheduled then",
            source=source("eks-update"),
            **common,
        )
    if step is not None and step < 0:
        return Row(
            effect=Effect.REJECTED,
            code="eks-downgrade",
            change=changed,
            consequence="A template cannot take a cluster's version back. EKS has a rollback call of its own: "
            "one minor version, within 7 days "
            "of an update in place.",
            source=source("eks-rollback"),
            **common,
        )
    return Row(
        effect=Effect.REJECTED,
        code="eks-version-skipped",
        change=changed,
        consequence="EKS updates one minor version at a time and refuses a larger step: deploy each version in "
        "between.",
        source=source("eks-update"),
        **common,
    )


def _addon(change: ResourceChange, changes: Changes, findings: Findings) -> None:
    name = str(change.now("AddonName"))
    before, after = _texts(change, changes)
    pointers = ", ".join(sorted({pointer[0] for pointer in change.changed} - {"ConfigurationValues"}))
    modes = [_policy_mode(text) for text in (before, after)]
    if name == names.OBSERVABILITY_ADDON and _logs(before) and not _logs(after):
        findings.add(
            Row(
                code="container-logs-off",
                what=f"EKS add-on {name}",
                change="logs of containers are no longer sent to CloudWatch Logs",
                consequence="Training does not notice. What containers write from then on is on their nodes alone.",
                where=change.title,
                **severity.of_class("logs-off"),
            )
        )
    if name == names.OBSERVABILITY_ADDON and (less := _fewer_metrics(before, after)):
        findings.add(
            Row(
                code="metrics-less",
                what=f"EKS add-on {name}",
                change="; ".join(less),
                consequence="Training does not notice. Charts and alerts that read these metrics show less, or later.",
                where=change.title,
                **severity.of_class("metrics-less"),
            )
        )
    charts = [(_parsed(text) or {}).get("amgWorkspace") for text in (before, after)]
    if name == names.OBSERVABILITY_ADDON and charts[0] and charts[0] != charts[1]:
        findings.add(
            Row(
                code="charts-elsewhere",
                what=f"EKS add-on {name}",
                change=f"Grafana workspace {_short(charts[0])} → {_short(charts[1])}",
                consequence="Training does not notice. The charts of the old workspace end, or are kept by nobody.",
                where=change.title,
                **severity.of_class("metrics-less"),
            )
        )
    if modes[0] != modes[1]:
        findings.add(_policy_modes(change, *modes))
    documented = name in _ADD_ONS
    findings.add(
        Row(
            effect=Effect.SAFE if documented else Effect.INTERRUPTS,
            code="add-on",
            what=f"EKS add-on {name}",
            change="; ".join(part for part in (pointers, *_configuration(before, after)) if part),
            consequence=_ADD_ONS.get(name, "Its pods are rolled; what that interrupts is not known here."),
            where=change.title,
        )
    )


def _policy_mode(configuration: Any) -> str:
    """How the VPC CNI enforces network policies; its default is `standard`."""
    return str(at(_parsed(configuration) or {}, ("env", "NETWORK_POLICY_ENFORCING_MODE")) or "standard")


def _policy_modes(change: ResourceChange, before: str, after: str) -> Row:
    strict = after == "strict"
    return Row(
        effect=Effect.INTERRUPTS if strict else Effect.WEAKENS,
        code="network-policy-mode",
        what="network policies of the VPC CNI",
        change=f"NETWORK_POLICY_ENFORCING_MODE {before} → {after}",
        consequence="aws-node is rolled. A pod that starts from then on sends and receives nothing until its policies "
        "are loaded, and nothing at all in a namespace without a NetworkPolicy: add one to each of yours first. "
        "AWS does not say what happens to pods that run: deploy between runs, then restart them."
        if strict
        else "aws-node is rolled. A pod that starts from then on is open until its policies are loaded.",
        unavailable="pods of namespaces without a NetworkPolicy, once they restart" if strict else "",
        source=source("network-policies"),
        where=change.title,
    )


def _minor(version: str) -> int | None:
    match = _MINOR.match(version)
    return int(match.group(1)) if match else None


def _texts(change: ResourceChange, changes: Changes) -> tuple[str, str]:
    """An add-on's configuration before and after: JSON, with what it refers to as text."""
    key, name = change.key, "ConfigurationValues"
    before = changes.base_reader.json_text(change.before(name), changes.base.stacks[key.stack])
    return before, changes.head_reader.json_text(change.now(name), changes.head.stacks[key.stack])


def _logs(configuration: str) -> bool:
    return bool(at(_parsed(configuration) or {}, ("logging", "enabled")))


_RARELY_SECONDS = 60
"""Samples further apart miss what lasts a minute, the unit of the alerts' own windows."""
_LEVELS = ("DISABLED", "BASIC", "ADVANCED")


def _fewer_metrics(before: str, after: str) -> list[str]:
    """Kinds of metrics that have a lower level from now on, or that are asked for more rarely."""
    older, newer = ((_parsed(text) or {}).get("metricsProvider") or {} for text in (before, after))
    less = []
    for name in sorted(older):
        was, now = older[name], newer.get(name) or {}
        levels = [str(side.get("level", "DISABLED")) for side in (was, now)]
        if all(level in _LEVELS for level in levels) and _LEVELS.index(levels[1]) < _LEVELS.index(levels[0]):
            less.append(f"{name} {levels[0]} → {levels[1]}")
        elif "DISABLED" not in levels and float(now.get("scrapeInterval") or 0) > max(
            _RARELY_SECONDS, float(was.get("scrapeInterval") or 0)
        ):
            less.append(f"{name} every {was.get('scrapeInterval')} s → {now.get('scrapeInterval')} s")
    return less


def _configuration(before: str, after: str) -> list[str]:
    """Entries of an add-on's configuration that differ."""
    tree_before, tree_after = _parsed(before), _parsed(after)
    return [
        f"{'.'.join(pointer) or 'configuration'} {_short(at(tree_before, pointer))} → {_short(at(tree_after, pointer))}"
        for pointer in differing(tree_before, tree_after)
    ]


def _parsed(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _short(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 80 else text[:77] + "…"
