"""Rules of `hyperpod_ray/core/checks/metrics.py`: a file that trips each, and the nearest one that does not."""

# ruff: noqa: E501  (a case is one line, to be read across)

from __future__ import annotations

import pytest

from tests.core.environment_files import Case
from tests.core.rule_cases import CLOSED, GRAFANA, MAILS, assert_named_rule, assert_rule, case_id

CASES = [
    Case("an_alert_sees_two_samples", {"observability": {"scrape_seconds": 300, "no_step_minutes": 9}, **MAILS}, "observability.no_step_minutes", "9 minutes have fewer than two samples", {"observability": {"scrape_seconds": 300, "no_step_minutes": 10}, **MAILS}, "warning"),
    Case("an_alert_sees_two_samples", {"observability": {"scrape_seconds": 60, "operator_down_minutes": 1}, **MAILS}, "observability.operator_down_minutes", "1 minutes have fewer than two samples", {"observability": {"scrape_seconds": 60, "operator_down_minutes": 2}, **MAILS}, "warning"),
    Case("grafana_is_in_the_region", {"observability": {"grafana": GRAFANA}, **MAILS}, "observability.grafana.workspace_arn", "is in eu-west-1", {"observability": {"grafana": {**GRAFANA, "workspace_arn": GRAFANA["workspace_arn"].replace("eu-west-1", "us-west-2")}}, **MAILS}, "warning"),
    Case("alerts_have_their_source", {"image": {"uri": "123456789012.dkr.ecr.us-west-2.amazonaws.com/team/ray@sha256:" + "a" * 64}, "hyperpod/instance_groups/1/type": "ml.trn1.32xlarge", "observability": {"gpus_idle_minutes": 30}, **MAILS}, "observability.gpus_idle_minutes", "no NVIDIA GPU", {"image": {"uri": "123456789012.dkr.ecr.us-west-2.amazonaws.com/team/ray@sha256:" + "a" * 64}, "hyperpod/instance_groups/1/type": "ml.trn1.32xlarge", "observability": {}}),
    Case("the_add_on_is_installed_by_somebody", {"ray/observability": {"scrape_namespaces": ["hyperpod-observability"]}}, "ray.observability.scrape_namespaces", "nothing here installs", {"observability": {}, "ray/observability": {"scrape_namespaces": ["hyperpod-observability"]}}, "warning"),
    Case("the_add_ons_images_are_within_reach", {**CLOSED, "observability": {}, **MAILS}, "observability", "does not publish where the add-on's images are", {"observability": {}, **MAILS}, "warning"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_rule(case: Case) -> None:
    assert_rule(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rule_says_it(case: Case) -> None:
    assert_named_rule(case)
