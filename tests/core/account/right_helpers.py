"""What tests of accounts that look wrong at first sight share: a case, and what its rule answers."""

from __future__ import annotations

from typing import Any

from hyperpod_ray.core.checks import account_rules
from hyperpod_ray.core.evidence import Evidence
from tests.core.account.good import account
from tests.core.account.recorded import RecordedAccount
from tests.core.environment_files import plan

Json = dict[str, Any]
RULE = {rule.title: rule for rule in account_rules()}
Right = tuple[str, str, Json, Json, str]
"""Name, title of the rule, the environment file, edits of the account, and the worst severity that the rule reports."""


def assert_says(case: Right) -> None:
    """The rule's worst finding of the account has the severity."""
    _, title, file, edits, severity = case
    findings = list(RULE[title](plan(file), Evidence(account=RecordedAccount(account(edits)))))
    severities = {finding.severity for finding in findings}
    worst = next(word for word in ("error", "warning", "unknown", "fine", "skipped") if word in severities)
    assert worst == severity, [finding.message for finding in findings]
