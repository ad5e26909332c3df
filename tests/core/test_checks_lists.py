"""Rules of `hyperpod_ray/core/checks/lists.py`: a file that trips each, and the nearest one that does not."""

# ruff: noqa: E501  (a case is one line, to be read across)

from __future__ import annotations

import pytest

from tests.core.environment_files import Case
from tests.core.rule_cases import (
    KEY_ARN,
    MAILS,
    PUBLIC,
    SCHEDULE,
    SECRET,
    TEAM_IMAGES,
    WORKERS,
    assert_named_rule,
    assert_rule,
    case_id,
)

CASES = [
    Case("secrets_are_mounted_once", {"ray/secrets": ["a", "b", "a"]}, "ray.secrets[2]", "'a' is already entry 0", {"ray/secrets": ["a", "b"]}),
    Case("secrets_are_mounted_once", {"ray/access": {"secret_arns": [SECRET, SECRET]}}, "ray.access.secret_arns[1]", "already entry 0", {"ray/access": {"secret_arns": [SECRET]}}),
    Case("secrets_are_mounted_once", {"ray/access": {"s3": [{"bucket": "datasets"}], "kms_key_arns": [KEY_ARN, KEY_ARN]}}, "ray.access.kms_key_arns[1]", "already entry 0", {"ray/access": {"s3": [{"bucket": "datasets"}], "kms_key_arns": [KEY_ARN]}}),
    Case("secrets_are_mounted_once", {"ray/observability": {"scrape_namespaces": ["a", "a"]}}, "ray.observability.scrape_namespaces[1]", "already entry 0", {"ray/observability": {"scrape_namespaces": ["a"]}}),
    Case("registries_are_named_once", {"registries": {"pull_from": [TEAM_IMAGES, TEAM_IMAGES]}}, "registries.pull_from[1]", "already entry 0", {"registries": {"pull_from": [TEAM_IMAGES]}}),
    Case("registries_are_named_once", {"registries": {"pull_through_caches": ["quay", "quay"]}}, "registries.pull_through_caches[1]", "already entry 0", {"registries": {"pull_through_caches": ["quay"]}}),
    Case("alert_percents_differ", {"budget": {"usd_per_month": 900000, "alert_percent": [80, 80]}, **MAILS}, "budget.alert_percent[1]", "'80' is already entry 0", {"budget": {"usd_per_month": 900000, "alert_percent": [80, 90]}, **MAILS}),
    Case("rollback_alarms_differ", {f"{WORKERS}/update_schedule": {**SCHEDULE, "rolling": {"rollback_alarm_names": ["a", "a"]}}}, "hyperpod.instance_groups[1].update_schedule.rolling.rollback_alarm_names[1]", "already entry 0", {f"{WORKERS}/update_schedule": {**SCHEDULE, "rolling": {"rollback_alarm_names": ["a", "b"]}}}),
    Case("public_ranges_differ", {"eks/endpoint": {"public": True, "public_cidrs": ["20.0.0.0/24", "20.0.0.0/24"]}}, "eks.endpoint.public_cidrs[1]", "already entry 0", {"eks/endpoint": PUBLIC}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_rule(case: Case) -> None:
    assert_rule(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rule_says_it(case: Case) -> None:
    assert_named_rule(case)
