"""RayCronJobs as KubeRay 1.7.0's operator handles them: a RayJob at each time of the schedule.

A run starts although the one before still runs. A RayCronJob that missed several times starts one run.
Source: ray-project/kuberay ray-operator/controllers/ray/raycronjob_controller.go, github.com/robfig/cron (schedules).
"""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from hyperpod_ray_rules import kuberay, names
from hyperpod_ray_rules.kuberay.syntax import FIELDS
from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.controllers.common import event, owner, set_status, suffix
from hyperpod_ray_sandbox.kubernetes.status import ApiError
from hyperpod_ray_sandbox.kubernetes.store import copy
from hyperpod_ray_sandbox.kubernetes.times import now

Json = dict[str, Any]

SOURCE = "raycronjob-controller"
NAME_LABEL = "ray.io/cronjob-name"
TIME_ANNOTATION = "ray.io/cronjob-scheduled-timestamp"
SUSPENDED = "RayCronJob suspended, no new RayJobs will be created"
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_DURATION = re.compile(r"(\d+(?:\.\d*)?)(h|ms|m|s|us|µs|ns)")
_LONGEST = timedelta(days=5 * 366)
"""A schedule without a time in five years, such as 30 February, has none."""


class RayCronJobs:
    """Starts the RayJobs of each RayCronJob."""

    def __init__(self, api: Api) -> None:
        self.api = api

    def reconcile(self, cron_job: Json, gates: Mapping[str, bool] = kuberay.DEFAULT_GATES) -> None:
        """One pass over one RayCronJob, by an operator with these feature gates."""
        metadata, spec = cron_job["metadata"], cron_job["spec"]
        if metadata.get("deletionTimestamp"):
            return
        if verdicts := kuberay.judge(cron_job, gates=gates):
            message = f"{metadata['namespace']}/{metadata['name']}: {verdicts[0].message}"
            self._once(cron_job, "Warning", verdicts[0].reason, message)
            return
        if spec.get("suspend"):
            self._once(cron_job, "Normal", "SuspendedRayCronJob", SUSPENDED)
            return
        previous = (cron_job.get("status") or {}).get("lastScheduleTime") or metadata["creationTimestamp"]
        due = following(spec["schedule"], datetime.fromisoformat(previous), zone=spec.get("timeZone") or "UTC")
        if due is None or due > datetime.now(UTC):
            return
        try:
            self._start(cron_job, due)
        except ApiError as error:
            self._once(cron_job, "Warning", "FailedToCreateRayJob", f"Failed to create RayJob: {error.message}")
            return
        set_status(self.api, cron_job, lambda status: status.update(lastScheduleTime=now()))

    def _start(self, cron_job: Json, due: datetime) -> None:
        metadata = cron_job["metadata"]
        body = {
            "apiVersion": names.RAY_API_VERSION,
            "kind": "RayJob",
            "metadata": {
                "name": f"{metadata['name']}-{suffix()}",
                "namespace": metadata["namespace"],
                "labels": {NAME_LABEL: metadata["name"]},
                "annotations": {TIME_ANNOTATION: due.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")},
                "ownerReferences": [owner(cron_job)],
            },
            "spec": copy(cron_job["spec"]["jobTemplate"]),
        }
        self.api.create(self.api.kind(names.RAY_API_VERSION, "RayJob"), metadata["namespace"], body)

    def _once(self, cron_job: Json, event_type: str, reason: str, message: str) -> None:
        events = self.api.all("v1", "Event")
        if not any(
            record["involvedObject"].get("uid") == cron_job["metadata"]["uid"] and record.get("message") == message
            for record in events
        ):
            event(self.api, cron_job, event_type, reason, message, SOURCE)


def following(schedule: str, after: datetime, *, zone: str = "UTC") -> datetime | None:
    """The first time of a schedule after a time, or None where there is none.

    Args:
        schedule: Five cron fields, a descriptor such as `@daily`, or `@every DURATION`; one that its rules accept.
        after: With its time zone.
        zone: IANA name; the schedule's hours are of this zone.
    """
    if schedule.startswith("@every "):
        seconds = sum(float(count) * _UNITS[unit] for count, unit in _DURATION.findall(schedule))
        return after.replace(microsecond=0) + timedelta(seconds=max(1, int(seconds)))
    texts = _DESCRIPTORS.get(schedule, schedule).split()
    minutes, hours, days, months, weekdays = (
        _values(text, low, high, words) for text, (_, low, high, words) in zip(texts, FIELDS, strict=True)
    )
    # a day matches by either field where both are restricted, as cron does
    either = not texts[2].startswith(("*", "?")) and not texts[4].startswith(("*", "?"))
    local = zoneinfo.ZoneInfo("UTC" if zone == "Local" else zone)
    moment = after.astimezone(local).replace(second=0, microsecond=0, tzinfo=None) + timedelta(minutes=1)
    limit = moment + _LONGEST
    while moment < limit:
        by_day, by_weekday = moment.day in days, moment.isoweekday() % 7 in weekdays
        if moment.month not in months or not ((by_day or by_weekday) if either else (by_day and by_weekday)):
            moment = moment.replace(hour=0, minute=0) + timedelta(days=1)
        elif moment.hour not in hours:
            moment = moment.replace(minute=0) + timedelta(hours=1)
        elif moment.minute not in minutes:
            moment += timedelta(minutes=1)
        else:
            due = moment.replace(tzinfo=local).astimezone(UTC)
            # an hour that the zone skips in spring does not exist, and one that it repeats comes once
            if due > after and due.astimezone(local).replace(tzinfo=None) == moment:
                return due
            moment += timedelta(minutes=1)
    return None


def _values(text: str, low: int, high: int, words: tuple[str, ...]) -> set[int]:
    """The numbers that a cron field names."""
    numbers: set[int] = set()
    for piece in text.split(","):
        span, _, step = piece.partition("/")
        if span in {"*", "?"}:
            lower, upper = low, high
        else:
            bounds = [words.index(bound.lower()) + low if bound.lower() in words else int(bound)
                      for bound in span.split("-")]  # fmt: skip
            lower, upper = bounds[0], bounds[-1] if len(bounds) > 1 or not step else high
        numbers.update(range(lower, upper + 1, int(step or 1)))
    return numbers
