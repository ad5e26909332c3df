"""Rules of `hyperpod_ray/core/checks/hangs.py`: a file that trips each, and the nearest one that does not."""

# ruff: noqa: E501  (a case is one line, to be read across)

from __future__ import annotations

import pytest

from tests.core.environment_files import Case
from tests.core.rule_cases import HANGS, HUNG, OOM, assert_named_rule, assert_rule, case_id

CASES = [
    Case("hang_patterns_are_re2", {HANGS: {"rules": [HUNG, {**OOM, "log_pattern": "(?<!no )OOM"}]}}, "ray.hung_job_detection.rules[1].log_pattern", "is no pattern of RE2: invalid perl operator: (?<!", {HANGS: {"rules": [HUNG, OOM]}}),
    Case("hang_patterns_are_re2", {HANGS: {"rules": [{**HUNG, "stop_pattern": r"(done) \1"}]}}, "ray.hung_job_detection.rules[0].stop_pattern", "is no pattern of RE2: invalid escape sequence", {HANGS: {"rules": [{**HUNG, "stop_pattern": r"\pL+ done\z"}]}}),
    Case("hang_patterns_are_re2", {HANGS: {"rules": [{**HUNG, "log_pattern": "(step)*"}]}}, "ray.hung_job_detection.rules[0].log_pattern", "matches every line", {HANGS: {"rules": [HUNG]}}),
    Case("hang_rules_can_fire", {HANGS: {"rules": [{k: v for k, v in HUNG.items() if k != "timeout_minutes"}]}}, "ray.hung_job_detection.rules[0]", "it never fires", {HANGS: {"rules": [{**HUNG, "start_timeout_minutes": 30}]}}),
    Case("hang_rules_can_fire", {HANGS: {"rules": [HUNG, {**OOM, "start_timeout_minutes": 30}]}}, "ray.hung_job_detection.rules[1].start_timeout_minutes", "for a fault and for progress at once", {HANGS: {"rules": [HUNG, OOM]}}),
    Case("hang_rules_can_fire", {HANGS: {"rules": [{**OOM, "stop_pattern": OOM["log_pattern"]}]}}, "ray.hung_job_detection.rules[0].stop_pattern", "ends by the line by which it fires", {HANGS: {"rules": [{**OOM, "stop_pattern": "done"}]}}),
    Case("hang_rules_can_fire", {HANGS: {"rules": [{**HUNG, "timeout_minutes": 0.5}]}}, "ray.hung_job_detection.rules[0].timeout_minutes", "0.5 minutes are shorter", {HANGS: {"rules": [{**HUNG, "timeout_minutes": 1}]}}, "warning"),
    Case("hang_rules_are_on", {HANGS: {"rules": [HUNG, {k: v for k, v in OOM.items() if k != "enabled"}]}}, "ray.hung_job_detection.rules[1]", "default of enabled is false", {HANGS: {"rules": [HUNG, {**OOM, "enabled": False}]}}, "warning"),
    Case("hang_rules_are_on", {HANGS: {"rules": [HUNG, {**OOM, "name": "progress"}]}}, "ray.hung_job_detection.rules[1].name", "is the name of 2 rules", {HANGS: {"rules": [HUNG, OOM]}}),
    Case("hang_rules_are_on", {HANGS: {}}, "ray.hung_job_detection", "replaces the default detection by nothing", {HANGS: {"enabled": False}}),
    Case("hang_rules_are_on", {HANGS: {"rules": [{**HUNG, "enabled": False}]}}, "ray.hung_job_detection", "no rule is enabled", {HANGS: {"rules": [HUNG]}}),
    Case("hang_rules_are_on", {HANGS: {"enabled": False, "rules": [HUNG]}}, "ray.hung_job_detection.rules", "have no effect with", {HANGS: {"rules": [HUNG]}}, "warning"),
    Case("the_library_is_in_the_image", {HANGS: {"rules": [HUNG]}, "image": {"uri": "123456789012.dkr.ecr.us-west-2.amazonaws.com/team/ray@sha256:" + "a" * 64}}, "ray.hung_job_detection", "may lack AWS's library", {HANGS: {"rules": [HUNG]}}, "warning"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_rule(case: Case) -> None:
    assert_rule(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rule_says_it(case: Case) -> None:
    assert_named_rule(case)
