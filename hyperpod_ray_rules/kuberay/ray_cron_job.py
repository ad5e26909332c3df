"""Rules for a RayCronJob. The rules for its job are RayJob's."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_ray_rules.kuberay import syntax
from hyperpod_ray_rules.kuberay.table import Subject, rule


@rule("RayCronJob", "spec")
def cron_job_name(subject: Subject) -> Iterator[str]:
    """The names of its jobs derive from its own."""
    if len(str(subject.metadata.get("name", ""))) > syntax.MAXIMUM_CRON_JOB_NAME:
        yield f"RayCronJob name should be no more than {syntax.MAXIMUM_CRON_JOB_NAME} characters"


@rule("RayCronJob", "spec")
def cron_schedule(subject: Subject) -> Iterator[str]:
    """Five fields or a descriptor, the time zone apart."""
    text = str(subject.spec.get("schedule") or "")
    if "TZ" in text:
        yield "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
    elif problem := syntax.schedule(text):
        yield f"invalid cron schedule: {problem}"


@rule("RayCronJob", "spec")
def cron_time_zone(subject: Subject) -> Iterator[str]:
    """A zone of the IANA database."""
    zone = subject.spec.get("timeZone")
    if zone == "":
        yield "timeZone must not be empty string, omit the field to use the local time zone of the KubeRay operator"
    elif zone is not None and not syntax.time_zone(str(zone)):
        yield f"invalid time zone: unknown time zone {zone}"
