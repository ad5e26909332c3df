"""Rules of `hyperpod_ray/core/checks/account/named.py`: accounts that each finds at fault, and its words."""

# ruff: noqa: E501  (a case on one line)

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.core.account.good import ACCOUNT, NEW, REGION
from tests.core.account.sabotage import (
    AMI,
    AMI_THERE,
    GRAFANA,
    LOGIN,
    OWN_AMI,
    Sabotage,
    assert_named_rules,
    assert_sabotage,
    case_id,
)

pytestmark = pytest.mark.usefixtures("day")
CASES = [
    Sabotage("secret of a job is not there", {}, (("secrets of jobs", "error", "no such secret in us-west-2"),), file={**NEW, "ray/access": {"secret_arns": [LOGIN]}}),
    Sabotage("secret of a job is going", {"secrets > " + LOGIN: {"DeletedDate": datetime(2026, 12, 1, tzinfo=UTC)}}, (("secrets of jobs", "error", "is scheduled for deletion"),), file={**NEW, "ray/access": {"secret_arns": [LOGIN]}}),
    Sabotage("repository of jobs is not there", {}, (("repositories of jobs", "error", "team/jobs: no such repository"),), file={**NEW, "registries/pull_from": [f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/team/jobs"]}),
    Sabotage("no repository of a pattern", {"repositories": ["team"]}, (("repositories of jobs", "warning", "team/*: no such repository"),), file={**NEW, "registries/pull_from": [f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/team/*"]}),
    Sabotage("Grafana workspace is not there", {}, (("Grafana workspace", "error", "g-0123456789: no such Grafana workspace"),), file=GRAFANA),
    Sabotage("Grafana workspace is being made", {"grafana": {"g-0123456789": "CREATING"}}, (("Grafana workspace", "error", "is CREATING"),), file=GRAFANA),
    Sabotage("Grafana may not be asked", {"grafana": {"g-0123456789": "forbidden"}}, (("Grafana workspace", "unknown", "may not describe it"),), file=GRAFANA),
    Sabotage("own AMI is not there", {}, (("AMIs", "error", f"{AMI}: no such AMI in us-west-2"),), file=OWN_AMI),
    Sabotage("own AMI is of others", {"amis": {AMI: {**AMI_THERE, "OwnerId": "999999999999"}}}, (("AMIs", "error", "is of account 999999999999"),), file=OWN_AMI),
    Sabotage("own AMI is encrypted", {"amis": {AMI: {**AMI_THERE, "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {"Encrypted": True}}]}}}, (("AMIs", "error", "is encrypted"),), file=OWN_AMI),
    Sabotage("own AMI has a second volume", {"amis": {AMI: {**AMI_THERE, "BlockDeviceMappings": [{"Ebs": {}}, {"Ebs": {}}, {"VirtualName": "ephemeral0"}]}}}, (("AMIs", "error", "has 2 volumes"),), file=OWN_AMI),
    Sabotage("own AMI is of Graviton", {"amis": {AMI: {**AMI_THERE, "Architecture": "arm64"}}}, (("AMIs", "error", "is for arm64"),), file=OWN_AMI),
    Sabotage("own AMI is being created", {"amis": {AMI: {**AMI_THERE, "State": "pending"}}}, (("AMIs", "error", "is pending"),), file=OWN_AMI),
    Sabotage("AMI release that nobody knows", {}, (("AMI releases", "unknown", "99.99.99"),), file={**NEW, "hyperpod/instance_groups/1/image_release_version": "99.99.99"}),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_sabotage(case: Sabotage) -> None:
    assert_sabotage(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rules_say_it(case: Sabotage) -> None:
    assert_named_rules(case)
