"""The page about deep health checks: names as in model, verdict and `logs`, and links from where one meets them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from hyperpod_ray.core import names
from hyperpod_ray.core.model import DeepHealthCheck, InstanceGroup
from hyperpod_ray.core.model.descriptions import descriptions
from hyperpod_ray.ops.orchestrators.hyperpod_logs import STREAMS
from hyperpod_ray.ops.verdict import durations

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "deep-health-checks.md").read_text(encoding="utf-8")


def test_every_check_of_the_model_has_its_parts() -> None:
    table = PAGE.partition("## What each check runs")[2].partition("\n## ")[0]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("| ")]
    assert {row[1].strip(" `") for row in rows[1:] if row[1].strip()} == set(get_args(DeepHealthCheck))
    for row in rows[1:]:
        assert re.search("GPU|Trainium", row[2])
        assert len(row[4].strip()) > 15


def test_time_labels_and_logs_are_those_of_the_commands() -> None:
    assert f"{durations.DEEP_CHECK.least}–{durations.DEEP_CHECK.most} minutes for each node" in PAGE
    for label in (names.DEEP_HEALTH_LABEL, names.HEALTH_LABEL, names.FAULT_TYPE_LABELS[0]):
        assert f"`{label}`" in PAGE
    assert f"`{STREAMS['deep-health-check']}…`" in PAGE
    assert names.REPLACE in PAGE
    assert names.REBOOT in PAGE


@pytest.mark.parametrize("page", ["runbook.md", "index.md"])
def test_pages_link_to_it(page: str) -> None:
    assert "](deep-health-checks.md)" in (DOCS / page).read_text(encoding="utf-8")


def test_the_setting_and_status_lead_to_it() -> None:
    described = descriptions(InstanceGroup)["deep_health_checks"]
    assert "docs/deep-health-checks.md" in described
    assert "docs/deep-health-checks.md" in (DOCS / "settings.md").read_text(encoding="utf-8")
    assert "docs/deep-health-checks.md" in (DOCS.parent / "hyperpod_ray" / "ops" / "verdict" / "nodes.py").read_text(
        encoding="utf-8"
    )
