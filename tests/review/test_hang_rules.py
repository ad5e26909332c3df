"""What rules of hung job detection no longer find: both sides as the ConfigMap has them."""

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray.core.model.ray import HangRule
from hyperpod_ray.review.effects import hang_rules

Rules = dict[str, Any]
RULE = {"name": "progress", "enabled": True, "log_pattern": "step", "timeout_minutes": 10}
FAULT = {"name": "memory", "enabled": True, "log_pattern": "out of memory", "fault_on_match": True}
DEFAULT: Rules = {"enabled": True, "rules": None, "action": "notify"}


def rules(*listed: Rules, enabled: bool = True, action: str = "notify") -> Rules:
    return {"enabled": enabled, "rules": list(listed), "action": action}


@pytest.mark.parametrize(
    ("before", "after", "less"),
    [
        (rules(RULE), rules(RULE), []),
        (rules(RULE), rules(RULE, enabled=False), ["detection switched off"]),
        (rules(RULE, enabled=False), rules(enabled=False), []),
        (rules(RULE, action="cancel"), rules(RULE), ["action cancel → notify"]),
        (rules(RULE), rules(RULE, action="cancel"), []),
        (rules(RULE), rules({**RULE, "enabled": False}), ["no rule is enabled"]),
        (rules(RULE, FAULT), rules(FAULT), ["rule progress removed"]),
        (rules(RULE, FAULT), rules({**RULE, "enabled": False}, FAULT), ["rule progress disabled"]),
        (rules(RULE), rules({**RULE, "name": "renamed"}), []),
        (rules(FAULT), rules(RULE, FAULT), []),
        (rules(RULE), DEFAULT, ["rule progress removed: the default detection is left"]),
        (DEFAULT, rules(), ["no rule is enabled"]),
        (DEFAULT, rules(RULE), []),
        (rules(RULE), rules({**RULE, "timeout_minutes": 11}), ["rule progress: timeout_minutes 10 → 11"]),
        (rules(RULE), rules({**RULE, "timeout_minutes": 9}), []),
        (rules(RULE), rules({**RULE, "timeout_minutes": None}), ["rule progress: timeout_minutes 10 → none"]),
        (rules({**RULE, "start_timeout_minutes": 5}), rules(RULE), ["rule progress: start_timeout_minutes 5 → none"]),
        (rules(RULE), rules({**RULE, "start_timeout_minutes": 5}), []),
        (rules(RULE), rules({**RULE, "log_pattern": "s"}), ["rule progress: looks for 's' in place of 'step'"]),
        (rules(FAULT), rules({**FAULT, "fault_on_match": False}), ["rule memory: a match is no fault any more"]),
        (rules({**FAULT, "fault_on_match": False}), rules(FAULT), []),
        (rules(RULE), rules({**RULE, "stop_pattern": "end"}), ["rule progress: ends at 'end'"]),
        (rules({**RULE, "stop_pattern": "end"}), rules(RULE), []),
    ],
)
def test_what_is_no_longer_noticed(before: Rules, after: Rules, less: list[str]) -> None:
    """https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-ray-hung-job-detection.html"""
    assert hang_rules.weaker(before, after) == less


NUMBERS = [
    name
    for name, field in HangRule.model_fields.items()
    if "int" in str(field.annotation) or "float" in str(field.annotation)
]


@pytest.mark.parametrize("name", NUMBERS)
def test_each_number_of_a_rule_makes_it_later_as_it_grows(name: str) -> None:
    """Of the service's own schema: a longer time, or more evaluations in a row, until a job counts as hung."""
    assert hang_rules.weaker(rules({**RULE, name: 3}), rules({**RULE, name: 5})) == [f"rule progress: {name} 3 → 5"]
    assert hang_rules.weaker(rules({**RULE, name: 5}), rules({**RULE, name: 3})) == []
