"""Names, versions and schedules as KubeRay's operator judges them; schedules by robfig/cron's parser_test.go."""

# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

import pytest

from hyperpod_ray_rules.kuberay import syntax


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("5 * * * *", ""), ("*/15 0-6 1,15 jan-mar mon", ""), ("0 0 ? * SUN", ""), ("@daily", ""), ("@every 1h30m", ""), ("@every 0", ""),
        ("", "empty spec string"), ("* * * *", "expected exactly 5 fields, found 4"), ("@sometimes", "unrecognized descriptor"), ("@every soon", "unrecognized"),
        ("60 * * * *", "end of range (60) above maximum (59)"), ("* * 0 * *", "beginning of range (0) below minimum (1)"),
        ("5-3 * * * *", "beyond end of range"), ("*/0 * * * *", "should be a positive number"), ("a * * * *", "failed to parse int from a"),
        ("1-2-3 * * * *", "too many hyphens"), ("* * * * 7", "above maximum (6)"),
    ],
)  # fmt: skip
def test_a_schedule(text: str, why: str) -> None:
    said = syntax.schedule(text)
    assert (said == "") == (why == "") and why in said


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("ray-1", True),
        ("a", True),
        ("1a", False),
        ("Ray", False),
        ("a-", False),
        ("", False),
        ("a" * 63, True),
        ("a" * 64, False),
    ],
)
def test_a_name_of_a_cluster_is_a_label_of_dns(name: str, good: bool) -> None:
    assert (syntax.dns1035(name) == []) is good


@pytest.mark.parametrize(
    ("key", "value", "good"),
    [
        ("app", "ray", True), ("example.com/app", "", True), ("Example.com/app", "x", False), ("app/", "x", False), ("a" * 64, "x", False),
        ("app", "a" * 64, False), ("app", "-x", False), ("app", "x_y.z", True),
    ],
)  # fmt: skip
def test_a_label(key: str, value: str, good: bool) -> None:
    assert (not syntax.label_key(key) and not syntax.label_value(value)) is good


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("2.60.0", (2, 60, 0)),
        ("v2.9", (2, 9, 0)),
        (" 2.9.1rc1", (2, 9, 1)),
        ("1.2.3.4", (1, 2, 3)),
        ("2", None),
        ("nightly", None),
    ],
)
def test_a_version(text: str, parts: tuple[int, ...] | None) -> None:
    assert syntax.version(text) == parts


def test_names_leave_room_for_what_the_operator_appends() -> None:
    assert syntax.MAXIMUM_JOB_NAME + len("-") + 5 == syntax.MAXIMUM_CLUSTER_NAME
    assert syntax.time_zone("UTC") and syntax.time_zone("Local")
