"""Rules of `hyperpod_ray/core/checks/repository.py`: a file that trips each, and the nearest one that does not."""

# ruff: noqa: E501  (a case is one line, to be read across)

from __future__ import annotations

import pytest

from tests.core.environment_files import Case
from tests.core.rule_cases import assert_named_rule, assert_rule, case_id

CASES = [
    Case("charts_are_locked", {"helm/kuberay_operator": "1.7.1"}, "helm.kuberay_operator", "locks kuberay-operator 1.7.0", {"helm/kuberay_operator": "1.7.0"}),
    Case("charts_are_locked", {"helm/lock_file": "chart.lock.yaml"}, "helm.lock_file", "is no file of the project. Expected a lock file of charts. Fix: did you mean 'charts.lock.yaml'?", {"helm/lock_file": "charts.lock.yaml"}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_rule(case: Case) -> None:
    assert_rule(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rule_says_it(case: Case) -> None:
    assert_named_rule(case)
