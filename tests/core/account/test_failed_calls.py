"""A call that fails is no answer: the rule passes it on, and `preflight` has the row unknown, with the reason."""

from __future__ import annotations

import itertools

import pytest
from botocore.exceptions import ClientError

from hyperpod_ray.core.checks import account_rules
from hyperpod_ray.core.evidence import Evidence
from tests.core.account.good import EXISTING, NEW, account
from tests.core.account.recorded import RecordedAccount
from tests.core.account.sabotage import (
    APP,
    BY_ADDRESS,
    BY_ARTIFACT,
    CLOSED,
    GRAFANA,
    LINKED,
    METRICS,
    OWN_AMI,
    RECORDED,
    TEAMS,
    TIERED,
    Json,
)
from tests.core.environment_files import plan

pytestmark = pytest.mark.usefixtures("day")
FILES: dict[str, Json] = {
    "new": NEW, "existing": EXISTING, "closed": {**CLOSED, **TIERED}, "linked": LINKED, "metrics": {**NEW, **METRICS},
    "grafana": GRAFANA, "teams": {**NEW, **TEAMS}, "an AMI": OWN_AMI, "an app": RECORDED, "an index": BY_ADDRESS,
    "CodeArtifact": BY_ARTIFACT, "an app of others": {**NEW, "ray/access": {"mlflow_arn": APP}},
    "a tier of others": {**NEW, "hyperpod/tiered_storage": {"memory_percent": 20, "bucket": "tier-own"}},
    "a budget": {**NEW, "budget": {"usd_per_month": 1000}},
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_failure_of_the_service_is_passed_on(name: str) -> None:
    made = plan(FILES[name])
    swallowed = []
    for rule in account_rules():
        if not rule.concerns(made):
            continue
        asked = RecordedAccount(account({}))
        list(rule(made, Evidence(account=asked)))
        for call, code in itertools.product(dict.fromkeys(asked.asked), ("InternalFailure", "AccessDeniedException")):
            failing = account({"errors": {call.replace(":", "."): code}})
            try:
                rows = list(rule(made, Evidence(account=RecordedAccount(failing))))
            except ClientError as error:
                assert error.response["Error"]["Code"] == code
            else:
                # a rule may say itself that it may not ask
                if code == "InternalFailure" or "unknown" not in {row.severity for row in rows}:
                    swallowed.append((rule.title, call, code, [(row.severity, row.message) for row in rows]))
    assert swallowed == []
