"""Applies the table to a manifest, in the operator's order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby

from hyperpod_ray_rules.kuberay import ray_cluster, ray_cron_job, ray_job
from hyperpod_ray_rules.kuberay.table import DEFAULT_GATES, RULES, Json, Kind, Scope, Subject, Verdict

__all__ = ["judge", "ray_cluster", "ray_cron_job", "ray_job"]

Found = Iterator[tuple[str, str]]
"""Names of rules with their messages."""


def judge(manifest: Json, *, gates: Mapping[str, bool] = DEFAULT_GATES) -> list[Verdict]:
    """What the operator refuses in a RayCluster, RayJob or RayCronJob; the first verdict is the one that it reports.

    A RayJob's cluster is judged as the RayCluster that the operator makes of it. What that RayCluster alone is refused
    for leaves the RayJob in `Initializing` for good, so that it counts as refused here too.

    Args:
        manifest: the object. Another kind has no rules and no verdict.
        gates: feature gates of the operator.
    """
    spec: Json = manifest.get("spec") or {}
    metadata: Json = manifest.get("metadata") or {}
    subject = Subject(spec=spec, metadata=metadata, gates=gates)
    match manifest.get("kind"):
        case "RayCluster":
            verdicts = [
                *_verdicts("InvalidRayClusterMetadata", _run("RayCluster", "metadata", subject)),
                *_verdicts("InvalidRayClusterSpec", _cluster(subject)),
                *_verdicts("InvalidRayClusterSpec", _run("RayCluster", "upgrade", subject)),
            ]
        case "RayJob":
            verdicts = [
                *_verdicts("InvalidRayJobMetadata", _run("RayJob", "metadata", subject)),
                *_verdicts("InvalidRayJobSpec", _job(subject)),
                *_verdicts("InvalidRayClusterSpec", _created(subject)),
            ]
        case "RayCronJob":
            job = Subject(spec=spec.get("jobTemplate") or {}, gates=gates)
            verdicts = [
                *_verdicts("InvalidRayCronJobSpec", _run("RayCronJob", "spec", subject)),
                *_verdicts(
                    "InvalidRayCronJobSpec",
                    ((name, f"invalid RayJob template: {message}") for name, message in _job(job)),
                ),
                *_verdicts("InvalidRayClusterSpec", _created(job)),
            ]
        case _:
            verdicts = []
    return verdicts


def _verdicts(reason: str, failures: Found) -> Iterator[Verdict]:
    return (Verdict(rule=name, reason=reason, message=message) for name, message in failures)


def _run(kind: Kind, scope: Scope, subject: Subject) -> Found:
    for rule in RULES:
        if rule.kind == kind and rule.scope == scope:
            for message in rule.check(subject):
                yield rule.name, message


def _cluster(subject: Subject) -> Found:
    """Rules of a spec in order; consecutive rules for worker groups run group by group."""
    rules = [rule for rule in RULES if rule.kind == "RayCluster" and rule.scope in {"spec", "group"}]
    for scope, these in groupby(rules, key=lambda rule: rule.scope):
        several = list(these)
        subjects = [replace(subject, group=group) for group in subject.groups] if scope == "group" else [subject]
        for part in subjects:
            for rule in several:
                for message in rule.check(part):
                    yield rule.name, message


def _job(subject: Subject) -> Found:
    cluster = subject.spec.get("rayClusterSpec")
    for rule in RULES:
        if rule.kind != "RayJob" or rule.scope != "spec":
            continue
        if rule.name == "runtime_environment" and cluster is not None:
            inner = replace(subject, spec=cluster, metadata={"annotations": subject.annotations})
            for name, message in _cluster(inner):
                yield name, f"{ray_job.INVALID}{message}"
        for message in rule.check(subject):
            yield rule.name, message


def _created(subject: Subject) -> Found:
    """What the operator refuses in the RayCluster that it has created of a RayJob, and of nothing else."""
    cluster = subject.spec.get("rayClusterSpec")
    if cluster is not None:
        labels = {ray_cluster.ORIGIN_LABEL: "RayJob"}
        yield from _run("RayCluster", "upgrade", replace(subject, spec=cluster, metadata={"labels": labels}))
