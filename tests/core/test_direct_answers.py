"""Small functions of the core, asked directly for what the page or the sentence beside their case says."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.core import requests, secret_words
from hyperpod_ray.core.checks import image_build
from hyperpod_ray.core.checks.account import capacity
from tests.core.environment_files import plan, problems


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--hf-token", "abc"], ["--hf-token"]),
        (["--hf-token=/etc/ray-secrets/hf/token", "word"], []),
        (["--password=hunter22", "word"], ["--password"]),
        (["word", "word"], []),
    ],
)
def test_an_option_with_its_value_takes_no_other_word(words: list[str], found: list[str]) -> None:
    """https://pubs.opengroup.org/onlinepubs/9799919799/basedefs/V1_chap12.html; GNU's `--name=value` is one word."""
    assert secret_words.options_of_command(words) == found


@pytest.mark.parametrize(
    ("file", "why"),
    [
        # https://packaging.python.org/en/latest/specifications/platform-compatibility-tags/
        ("x-1-py3-none-any.whl", ""),
        ("x-1-cp312-cp312-manylinux_2_28_x86_64.whl", ""),
        ("x-1-cp312-cp312-musllinux_1_2_x86_64.whl", ""),
        ("x-1-cp312-cp312-manylinux_2_28_aarch64.whl", "is for manylinux_2_28_aarch64"),
        ("x-1-cp312-cp312-macosx_11_0_x86_64.whl", "is for macosx_11_0_x86_64"),
        ("x-1-cp312-cp312-win_amd64.whl", "is for win_amd64"),
        ("x-1.tar.gz", ""),
    ],
)
def test_a_file_that_a_build_on_linux_can_use(file: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / file
    path.write_bytes(b"content")
    listed = {hashlib.sha256(b"content").hexdigest()}
    assert image_build._unusable(path, listed, "x86_64") == why
    assert image_build._unusable(path, None, "x86_64") == "is in no lock"
    assert why or image_build._unusable(path, {"other"}, "x86_64") == "has another hash than its lock"


def test_a_schedule_as_the_service_takes_it() -> None:
    """https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ScheduledUpdateConfig.html."""
    schedule = {"cron": "cron(0 6 ? * SUN *)", "rolling": {"maximum_batch": 3, "batch_unit": "CAPACITY_PERCENTAGE"}}
    group = plan({"hyperpod/instance_groups/1/update_schedule": schedule}).settings.hyperpod.instance_groups[1]
    assert group.update_schedule is not None
    assert requests._schedule(group.update_schedule) == {
        "ScheduleExpression": "cron(0 6 ? * SUN *)",
        "DeploymentConfig": {
            "RollingUpdatePolicy": {"MaximumBatchSize": {"Type": "CAPACITY_PERCENTAGE", "Value": 3}},
        },
    }


def test_a_list_that_is_too_long_says_how_many_it_may_have() -> None:
    tags = {f"tag-{number}": "x" for number in range(41)}
    (problem,) = problems({"tags": tags})
    assert (problem.what, problem.expected) == ("more than 40 entries", "at most 40")


@pytest.mark.parametrize(
    ("free", "own", "severities"),
    [(4, False, []), (3, False, ["error"]), (3, True, []), (None, False, []), (0, False, ["error"])],
)
def test_a_training_plan_whose_free_instances_just_suffice(
    free: int | None, own: bool, severities: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeTrainingPlan.html."""
    monkeypatch.setattr(capacity, "_own", lambda plan, account, arn: own)
    description: dict[str, Any] = {"TrainingPlanArn": "arn:plan", "TotalInstanceCount": 8, "Status": "Active"}
    description |= {} if free is None else {"AvailableInstanceCount": free}
    nobody: Any = None
    found = capacity._taken(nobody, nobody, ("x",), label="plan", description=description, count=4)
    assert [one.severity for one in found if one.severity == "error"] == severities
