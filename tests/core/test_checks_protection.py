"""Rules of `hyperpod_ray/core/checks/protection.py`: a file that trips each, and the nearest one that does not."""

# ruff: noqa: E501  (a case is one line, to be read across)

from __future__ import annotations

import pytest

from tests.core.environment_files import Case
from tests.core.rule_cases import TIER, assert_named_rule, assert_rule, case_id

CASES = [
    Case("protected_keeps_data", {"protected": True, "storage/on_destroy": "delete", "storage/backup_retention_days": 7}, "storage.on_destroy", "'delete' in a protected environment", {"protected": True, "storage/backup_retention_days": 7}, beside=("storage.backup_retention_days",)),
    Case("protected_keeps_images", {"protected": True, "image/on_destroy": "delete", "storage/backup_retention_days": 7}, "image.on_destroy", "'delete' in a protected environment", {"protected": True, "storage/backup_retention_days": 7}),
    Case("protected_has_backups", {"protected": True}, "storage.backup_retention_days", "set 7, which keeps a week", {"protected": True, "storage/backup_retention_days": 1}, "warning"),
    Case("protected_has_auth", {"protected": True, "storage/backup_retention_days": 7, "ray/auth": "none"}, "ray.auth", "run code on the cluster", {"ray/auth": "token"}),
    Case("protected_has_auth", {"ray/auth": "none"}, "ray.auth", "run code on the cluster", {"ray/auth": "token"}, "warning"),
    Case("protected_keeps_runs", {"ray/tracking": {"mlflow_app": {"on_destroy": "delete"}}, "protected": True, "storage/backup_retention_days": 7}, "ray.tracking.mlflow_app.on_destroy", "'delete' in a protected environment", {"ray/tracking": {"mlflow_app": {}}, "protected": True, "storage/backup_retention_days": 7}),
    Case("protected_keeps_checkpoints", {TIER: {"memory_percent": 20, "on_destroy": "delete"}, "protected": True, "storage/backup_retention_days": 7}, "hyperpod.tiered_storage.on_destroy", "in a protected environment", {TIER: {"memory_percent": 20}, "protected": True, "storage/backup_retention_days": 7}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_rule(case: Case) -> None:
    assert_rule(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rule_says_it(case: Case) -> None:
    assert_named_rule(case)
