"""Deployments, DaemonSets, StatefulSets, ReplicaSets, Jobs and CronJobs.

Source: pkg/apis/apps/validation, pkg/apis/batch/validation, github.com/robfig/cron (the schedules' parser).
"""

from __future__ import annotations

import re
import zoneinfo
from typing import Any

from hyperpod_ray_sandbox.kubernetes import name_forms
from hyperpod_ray_sandbox.kubernetes.formats import seconds
from hyperpod_ray_sandbox.kubernetes.selectors import matches
from hyperpod_ray_sandbox.kubernetes.validation import claims, job_policies, names
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes
from hyperpod_ray_sandbox.kubernetes.validation.pods import pod_spec

Json = dict[str, Any]

_PERCENT = re.compile(r"[0-9]+%")
_COUNTS = ("replicas", "minReadySeconds", "revisionHistoryLimit")
_JOB_COUNTS = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
# name, lowest, highest, words for numbers
_CRON: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {m: i + 1 for i, m in enumerate(_MONTHS)}),
    (0, 6, {d: i for i, d in enumerate(_DAYS)}),
)
_DESCRIPTORS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")


def share(causes: Causes, path: str, value: Any, *, most: int | None = 100) -> None:
    """Judge a number or a percentage."""
    if isinstance(value, str):
        if not _PERCENT.fullmatch(value):
            causes.invalid(path, value, "a valid percent string must be a numeric string followed by an ending '%'")
        elif most is not None and int(value[:-1]) > most:
            causes.invalid(path, value, f"must not be greater than {most}%")
    else:
        causes.natural(path, value)


def _template(causes: Causes, path: str, template: Json) -> None:
    pod_spec(causes, f"{path}.spec", template.get("spec") or {})
    meta = template.get("metadata") or {}
    names.labels(causes, f"{path}.metadata.labels", meta.get("labels"))
    names.annotated(causes, f"{path}.metadata.annotations", meta.get("annotations"))
    if (template.get("spec") or {}).get("ephemeralContainers"):
        causes.forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


def workload(obj: Json) -> Causes:
    """Judge a kind that keeps pods running."""
    causes, spec, kind = Causes(), obj["spec"], obj["kind"]
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    _template(causes, "spec.template", template)
    for field in _COUNTS:
        causes.natural(f"spec.{field}", spec.get(field))
    pod = template.get("spec") or {}
    causes.one_of("spec.template.spec.restartPolicy", pod.get("restartPolicy"), ("Always",))
    if pod.get("activeDeadlineSeconds") is not None:
        causes.forbidden(
            "spec.template.spec.activeDeadlineSeconds", "activeDeadlineSeconds in ReplicaSet is not Supported"
        )
    selector = spec.get("selector") or {}
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        causes.required("spec.selector")
    else:
        count = len(causes)
        names.selector(causes, "spec.selector", selector)
        if len(causes) == count and not matches(selector, labels):
            causes.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    if kind == "Deployment":
        _strategy(causes, "spec.strategy", spec.get("strategy") or {}, ("Recreate", "RollingUpdate"))
        deadline, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds") or 0
        if isinstance(deadline, int):
            causes.natural("spec.progressDeadlineSeconds", deadline)
            if deadline <= ready:
                causes.invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")
    elif kind in ("DaemonSet", "StatefulSet"):
        update, types = spec.get("updateStrategy") or {}, ("OnDelete", "RollingUpdate")
        _strategy(causes, "spec.updateStrategy", update, types, daemons=kind == "DaemonSet")
        causes.one_of("spec.podManagementPolicy", spec.get("podManagementPolicy"), ("OrderedReady", "Parallel"))
        for field, action in (spec.get("persistentVolumeClaimRetentionPolicy") or {}).items():
            at = f"spec.persistentVolumeClaimRetentionPolicy.{field}"
            causes.one_of(at, action or " ", ("Retain", "Delete"))
        causes.natural("spec.ordinals.start", (spec.get("ordinals") or {}).get("start"))
        for index, template in enumerate(spec.get("volumeClaimTemplates") or []):
            claims.spec(causes, f"spec.volumeClaimTemplates[{index}].spec", template.get("spec") or {})
    return causes


def replication_controller(obj: Json) -> Causes:
    """Judge a ReplicationController."""
    causes, spec = Causes(), obj["spec"]
    for field in ("replicas", "minReadySeconds"):
        causes.natural(f"spec.{field}", spec.get(field))
    selector, template = spec.get("selector") or {}, spec.get("template")
    names.labels(causes, "spec.selector", selector)
    if not selector:
        causes.required("spec.selector")
    if template is None:
        causes.required("spec.template")
        return causes
    labels = (template.get("metadata") or {}).get("labels") or {}
    if selector and any(labels.get(key) != value for key, value in selector.items()):
        causes.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    _template(causes, "spec.template", template)
    restart = (template.get("spec") or {}).get("restartPolicy")
    causes.one_of("spec.template.spec.restartPolicy", restart, ("Always",))
    if (template.get("spec") or {}).get("activeDeadlineSeconds") is not None:
        at = "spec.template.spec.activeDeadlineSeconds"
        causes.forbidden(at, "activeDeadlineSeconds in ReplicationController is not Supported")
    return causes


def controller_revision(obj: Json) -> Causes:
    """Judge a ControllerRevision."""
    causes = Causes()
    causes.natural("revision", obj.get("revision"))
    if obj.get("data") is None:
        causes.required("data", "data is mandatory")
    elif not isinstance(obj["data"], dict):
        causes.required("data", "data must be a valid JSON object")
    return causes


def pod_template(obj: Json) -> Causes:
    """Judge a PodTemplate."""
    causes = Causes()
    _template(causes, "template", obj.get("template") or {})
    return causes


def _strategy(causes: Causes, path: str, strategy: Json, kinds: tuple[str, ...], *, daemons: bool = False) -> None:
    causes.one_of(f"{path}.type", strategy.get("type"), kinds)
    rolling = strategy.get("rollingUpdate")
    if strategy.get("type") == "Recreate" and rolling is not None:
        causes.forbidden(f"{path}.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")
    if strategy.get("type") == "OnDelete" and rolling is not None and not daemons:
        causes.invalid(f"{path}.rollingUpdate", rolling, "only allowed for updateStrategy 'RollingUpdate'")
    if strategy.get("type") != "RollingUpdate" or not rolling:
        return
    causes.natural(f"{path}.rollingUpdate.partition", rolling.get("partition"))
    for field in ("maxUnavailable", "maxSurge"):
        most = None if field == "maxSurge" and not daemons else 100
        share(causes, f"{path}.rollingUpdate.{field}", rolling.get(field), most=most)
    unavailable, surge = (rolling.get(field) not in (0, "0%") for field in ("maxUnavailable", "maxSurge"))
    if daemons and unavailable and surge:
        at = f"{path}.rollingUpdate.maxSurge"
        causes.invalid(at, rolling.get("maxSurge"), "may not be set when maxUnavailable is non-zero")
    elif unavailable or surge:
        return
    elif daemons:
        causes.required(f"{path}.rollingUpdate.maxUnavailable", "cannot be 0 when maxSurge is 0")
    else:
        causes.invalid(f"{path}.rollingUpdate.maxUnavailable", 0, "may not be 0 when `maxSurge` is 0")


def _job_spec(causes: Causes, path: str, spec: Json) -> None:
    _template(causes, f"{path}.template", spec.get("template") or {})
    for field in _JOB_COUNTS:
        causes.natural(f"{path}.{field}", spec.get(field))
    restart = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy") or "Always"
    if restart not in ("OnFailure", "Never"):
        causes.required(f"{path}.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')
    mode = spec.get("completionMode")
    causes.choice(f"{path}.completionMode", mode, ("Indexed", "NonIndexed"))
    if mode == "Indexed" and spec.get("completions") is None:
        causes.required(f"{path}.completions", "when completion mode is Indexed")
    if spec.get("podFailurePolicy") is not None and restart != "Never":
        causes.invalid(
            f"{path}.template.spec.restartPolicy",
            restart,
            'only "Never" is supported when podFailurePolicy is specified',
        )
    job_policies.failure(causes, f"{path}.podFailurePolicy", spec)
    job_policies.limits(causes, path, spec)
    if spec.get("successPolicy") is not None and mode == "Indexed":
        job_policies.success(causes, f"{path}.successPolicy", spec)
    if spec.get("managedBy") is not None:
        names.domain_path(causes, f"{path}.managedBy", spec["managedBy"])
    replacement, policy = spec.get("podReplacementPolicy"), spec.get("podFailurePolicy")
    allowed = ("Failed",) if policy is not None else ("Failed", "TerminatingOrFailed")
    causes.choice(f"{path}.podReplacementPolicy", replacement, allowed)
    for field in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
        if spec.get(field) is not None and mode != "Indexed":
            causes.invalid(f"{path}.{field}", spec[field], "requires indexed completion mode")


def _generated(causes: Causes, obj: Json) -> None:
    """Judge what the server adds to a Job: its own labels, and a selector of nothing else."""
    selector = obj["spec"].get("selector")
    labels = ((obj["spec"].get("template") or {}).get("metadata") or {}).get("labels") or {}
    uid, name = obj["metadata"].get("uid"), obj["metadata"].get("name")
    prefix = "batch.kubernetes.io/"
    expected = {"controller-uid": uid, "job-name": name, f"{prefix}controller-uid": uid, f"{prefix}job-name": name}
    if selector is None or obj["spec"].get("manualSelector"):
        return
    for key, value in expected.items():
        if key not in labels:
            causes.required(f"spec.template.metadata.labels[{key}]", f"must be '{value}'")
        elif labels[key] != value:
            causes.invalid(f"spec.template.metadata.labels[{key}]", labels, f"must be '{value}'")
    if not matches(selector, expected):
        causes.invalid("spec.selector", selector, "`selector` not auto-generated")


def job(obj: Json) -> Causes:
    """Judge a Job."""
    causes = Causes()
    _generated(causes, obj)
    _job_spec(causes, "spec", obj["spec"])
    selector = obj["spec"].get("selector")
    labels = ((obj["spec"].get("template") or {}).get("metadata") or {}).get("labels") or {}
    if selector is None:
        causes.required("spec.selector")
    else:
        faults = len(causes)
        names.selector(causes, "spec.selector", selector)
        if len(causes) == faults and not matches(selector, labels):
            causes.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    count, name = obj["spec"].get("completions") or 0, obj["metadata"].get("name") or ""
    if obj["spec"].get("completionMode") == "Indexed" and count > 0 and not name_forms.is_label(f"{name}-{count - 1}"):
        why = f"will not able to create pod with invalid DNS label: {name}-{count - 1}"
        causes.invalid("metadata.name", name, why)
    return causes


def cron_job(obj: Json) -> Causes:
    """Judge a CronJob."""
    causes, spec = Causes(), obj["spec"]
    if len(obj["metadata"].get("name", "")) > 52:
        causes.invalid("metadata.name", obj["metadata"]["name"], "must be no more than 52 characters")
    schedule = spec.get("schedule") or ""
    if not schedule:
        causes.required("spec.schedule")
    elif "TZ" in schedule:
        causes.invalid("spec.schedule", schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
    elif fault := cron_fault(schedule):
        causes.invalid("spec.schedule", schedule, fault)
    zone = spec.get("timeZone")
    if zone == "":
        causes.invalid("spec.timeZone", zone, "timeZone must be nil or non-empty string")
    elif zone is not None and (zone.lower() == "local" or zone not in zoneinfo.available_timezones()):
        causes.invalid("spec.timeZone", zone, f"unknown time zone {zone}")
    causes.one_of("spec.concurrencyPolicy", spec.get("concurrencyPolicy"), ("Allow", "Forbid", "Replace"))
    for field in ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        causes.natural(f"spec.{field}", spec.get(field))
    job_of = (spec.get("jobTemplate") or {}).get("spec") or {}
    _job_spec(causes, "spec.jobTemplate.spec", job_of)
    if job_of.get("selector") is not None:
        causes.invalid("spec.jobTemplate.spec.selector", job_of["selector"], "`selector` will be auto-generated")
    if job_of.get("manualSelector"):
        causes.unsupported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false"))
    return causes


def cron_fault(schedule: str) -> str:
    """What is wrong with a schedule, or nothing."""
    if schedule.startswith("@"):
        if schedule.startswith("@every "):
            known = seconds(schedule.removeprefix("@every "), go=True) is not None
            return "" if known else f"failed to parse duration {schedule}"
        return "" if schedule in _DESCRIPTORS else f"unrecognized descriptor: {schedule}"
    fields = schedule.split()
    if len(fields) != 5:
        return f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
    for text, (low, high, words) in zip(fields, _CRON, strict=True):
        for part in filter(None, text.split(",")):
            if fault := _cron_part(part, low, high, words):
                return fault
    return ""


def _cron_part(part: str, low: int, high: int, words: dict[str, int]) -> str:
    span, slash, step = part.partition("/")
    first_word, dash, last_word = span.partition("-")
    try:
        start = (
            low
            if first_word in ("*", "?")
            else words[first_word.lower()]
            if first_word.lower() in words
            else int(first_word)
        )
        upper = (words[last_word.lower()] if last_word.lower() in words else int(last_word)) if dash else start
        if slash and int(step) == 0:
            return f"step of range should be a positive number: {part}"
    except ValueError:
        return f"failed to parse int from {part}"
    if start < low:
        return f"beginning of range ({start}) below minimum ({low}): {part}"
    if upper > high:
        return f"end of range ({upper}) above maximum ({high}): {part}"
    if start > upper:
        return f"beginning of range ({start}) beyond end of range ({upper}): {part}"
    return ""
