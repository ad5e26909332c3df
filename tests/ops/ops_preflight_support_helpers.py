"""What tests of `checks_eks`, `ops_preflight_support` share."""

from __future__ import annotations

from typing import Any

from hyperpod_ray.core.checks import account_rules
from hyperpod_ray.core.evidence import Evidence
from hyperpod_ray.core.findings import Finding
from tests.core.account.good import account
from tests.core.account.recorded import RecordedAccount
from tests.core.environment_files import plan

RULE = {rule.title: rule for rule in account_rules()}


def asked(title: str, file: dict[str, Any], edits: dict[str, Any]) -> list[Finding]:
    return list(RULE[title](plan(file), Evidence(account=RecordedAccount(account(edits)))))
