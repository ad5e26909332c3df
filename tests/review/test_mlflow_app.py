"""What a changed MLflow app does: its record of runs is data, and nothing of it is in the template."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.review.findings import Effect
from hyperpod_ray.review.review import EnvironmentReview, review
from tests.review.small import resources, write

APP: dict[str, Any] = {
    "Type": "AWS::SageMaker::MlflowApp",
    "DeletionPolicy": "Delete",
    "UpdateReplacePolicy": "Delete",
    "Properties": {
        "Name": "env",
        "ArtifactStoreUri": "s3://mlflow-env",
        "RoleArn": "arn:aws:iam::111122223333:role/mlflow",
        "WeeklyMaintenanceWindowStart": "Sun:03:30",
    },
}
KEPT = {**APP, "DeletionPolicy": "RetainExceptOnCreate", "UpdateReplacePolicy": "Retain"}


def compared(tmp_path: Path, before: dict[str, Any], now: dict[str, Any]) -> EnvironmentReview:
    sides = [write(tmp_path / side, {"Ray": resources(**items)}) for side, items in (("before", before), ("now", now))]
    (environment,) = review(*sides).environments
    return environment


def changed(app: dict[str, Any], **properties: str) -> dict[str, Any]:
    made = copy.deepcopy(app)
    made["Properties"].update(properties)
    return made


@pytest.mark.parametrize(
    ("before", "now", "effect", "code"),
    [
        (APP, None, Effect.LOSES_DATA, "removed"),
        (KEPT, None, Effect.INTERRUPTS, "removed"),
        # createOnlyProperties of the resource schema: a new app has no runs
        (APP, changed(APP, RoleArn="arn:aws:iam::111122223333:role/other"), Effect.LOSES_DATA, "replaced"),
        (APP, changed(APP, WeeklyMaintenanceWindowStart="Tue:03:30"), Effect.SAFE, ""),
        (KEPT, APP, Effect.WEAKENS, ""),
    ],
    ids=["deleted", "left", "replaced", "maintenance", "no longer kept"],
)
def test_what_a_change_does(
    tmp_path: Path, before: dict[str, Any], now: dict[str, Any] | None, effect: Effect, code: str
) -> None:
    made = compared(tmp_path, {"Item": before}, {"Item": now} if now else {"Other": {"Type": "AWS::SNS::Topic"}})
    assert made.effect is effect, [(row.code, row.effect) for row in made.rows]
    if code:
        (row,) = [row for row in made.rows if row.code == code]
        assert "the record of all runs" in row.consequence or "It stays" in row.consequence
