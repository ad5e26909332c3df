"""Rules of a RayCronJob, in the order and the words of KubeRay's ValidateRayCronJobSpec."""

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_rules.kuberay import ray_cron_job
from hyperpod_ray_rules.kuberay.table import Check, Subject


def said(rule: Check, spec: dict[str, Any], name: str = "nightly") -> list[str]:
    return list(rule(Subject(spec=spec, metadata={"name": name})))


@pytest.mark.parametrize(("length", "refused"), [(36, False), (37, True)])
def test_names_of_its_jobs_derive_from_its_own(length: int, refused: bool) -> None:
    assert bool(said(ray_cron_job.cron_job_name, {}, "n" * length)) is refused


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ("0 3 * * *", ""),
        ("CRON_TZ=UTC 0 3 * * *", "use timeZone field instead"),
        ("TZ=UTC @daily", "use timeZone"),
        ("", "empty spec string"),
        ("0 3 * *", "found 4"),
    ],
)
def test_its_schedule(schedule: str, words: str) -> None:
    reasons = said(ray_cron_job.cron_schedule, {"schedule": schedule})
    assert bool(reasons) == bool(words) and all(words in reason for reason in reasons)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, ""),
        ({"timeZone": "UTC"}, ""),
        ({"timeZone": ""}, "must not be empty string"),
        ({"timeZone": "Mars/Base"}, "unknown time zone"),
    ],
)
def test_its_time_zone(spec: dict[str, Any], words: str) -> None:
    reasons = said(ray_cron_job.cron_time_zone, spec)
    assert bool(reasons) == bool(words) and all(words in reason for reason in reasons)
