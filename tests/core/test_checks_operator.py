"""Rules of `hyperpod_ray/core/checks/operator.py`: a file that trips each, and the nearest one that does not."""

# ruff: noqa: E501  (a case is one line, to be read across)

from __future__ import annotations

import pytest

from tests.core.environment_files import Case
from tests.core.rule_cases import assert_named_rule, assert_rule, case_id

CASES = [
    Case("operator_accepts_the_cluster", {"ray/head/env": {"RAY_enable_autoscaler_v2": "1"}}, "ray.head.env.RAY_enable_autoscaler_v2", "cannot be set to '1' when enableInTreeAutoscaling is false", {"ray/head/env": {"RAY_enable_autoscaler_v2": "0"}}),
    Case("operator_accepts_the_cluster", {"ray/env": {"RAY_enable_autoscaler_v2": "true"}, "ray/autoscaling": True}, "ray.env.RAY_enable_autoscaler_v2", "both .spec.autoscalerOptions.version and head Pod env var", {"ray/autoscaling": True}),
    Case("operator_accepts_the_cluster", {"ray/head/env": {"REDIS_USERNAME": "x"}}, "ray.head.env.REDIS_USERNAME", "use GcsFaultToleranceOptions.RedisUsername", {}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_rule(case: Case) -> None:
    assert_rule(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rule_says_it(case: Case) -> None:
    assert_named_rule(case)
