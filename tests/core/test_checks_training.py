"""Rules of `hyperpod_ray/core/checks/training.py`: a file that trips each, and the nearest one that does not."""

# ruff: noqa: E501  (a case is one line, to be read across)

from __future__ import annotations

import pytest

from tests.core.environment_files import Case
from tests.core.rule_cases import TRAINING, assert_named_rule, assert_rule, case_id

CASES = [
    Case("a_gpu_reaches_the_tokens", {"training": {**TRAINING, "tokens_per_second": 1e9}}, "training.tokens_per_second", "1,000,000,000 tokens per second", {"training": {**TRAINING, "tokens_per_second": 10000}}),
    Case("a_gpu_reaches_the_tokens", {"training": {"parameters": "70B", "tokens": "1T", "tokens_per_second": 30000.0}}, "training.tokens_per_second", "with 70B parameters", {"training": {"parameters": "70B", "tokens": "1T", "tokens_per_second": 20000.0}}),
    Case("the_size_is_said_once", {"training": {**TRAINING, "parameters": "13B"}}, "training.parameters", "13B beside model llama-3.1-8b", {"training": TRAINING}),
    Case("a_step_has_a_sequence", {"training": {**TRAINING, "batch_tokens": "8191"}}, "training.batch_tokens", "one sequence has 8,192", {"training": TRAINING}),
    Case("every_gpu_has_a_sequence", {"training": {**TRAINING, "batch_tokens": "262143"}}, "training.batch_tokens", "31 sequences, and there are 32 GPUs", {"training": {**TRAINING, "batch_tokens": "262144"}}, "warning"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_rule(case: Case) -> None:
    assert_rule(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rule_says_it(case: Case) -> None:
    assert_named_rule(case)
