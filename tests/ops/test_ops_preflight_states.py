"""Accounts as others would find them, against what `preflight` says of them (account_states.yaml)."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray.core.loader import parse
from hyperpod_ray.core.today import VARIABLE
from hyperpod_ray.ops import preflight
from hyperpod_ray.ops.orchestrators.check import Check
from hyperpod_ray.ops.reach.clients import Aws, Target
from tests.core.account.good import EXISTING, GONE, IMAGE, KEY, NEW, PLAN, REGION, account
from tests.core.account.recorded import RecordedAccount
from tests.core.environment_files import text_of
from tests.ops import said_preflight

Json = dict[str, Any]
STATES: Json = yaml.safe_load((Path(__file__).parent / "account_states.yaml").read_text())
FILES: dict[str, Json] = {
    "new": NEW,
    "existing": EXISTING,
    "closed": {"network/egress": "closed", "registries": {"mirror": True}},
    "tiered": {"hyperpod/tiered_storage": {"memory_percent": 20}},
    "spot": {"hyperpod/instance_groups/1/capacity": "spot"},
    "plan": {"hyperpod/instance_groups/1/training_plan_arn": PLAN},
    "key": {"hyperpod/instance_groups/1/volume_kms_key_arn": KEY},
    "copies": {"network/egress": "closed", "registries": {"mirror": True}, "image/uri": IMAGE},
    "elsewhere": {"image/uri": IMAGE.replace(REGION, "eu-west-1")},
    "gateways": {
        "network/nat_gateways": 2,
        "hyperpod/instance_groups/0/data_volume_gib": None,
        "hyperpod/instance_groups/1/data_volume_gib": None,
    },
    "linked": {"storage/data_repositories": [{"bucket": "research-datasets", "path": "/data"}]},
}
WORST = {"failed": "refuse", "unknown": "unknown", "warning": "warn"}


class RecordedAws(Aws):
    """The environment's clients, which a recorded account answers."""

    def __init__(self, target: Target, data: Json) -> None:
        super().__init__(target.plan)
        self.recorded = RecordedAccount(data)

    def call(self, service: str, operation: str, **arguments: Any) -> Json:
        return self.recorded.call(service, operation, **arguments)

    def pages(self, service: str, operation: str, key: str, *, limit: int = 0, **arguments: Any) -> list[Json]:
        return self.recorded.pages(service, operation, key, **arguments)


def _without(edits: Any) -> Any:
    return {path: GONE if value == "<gone>" else value for path, value in (edits or {}).items()}


def checks(state: Json) -> list[Check]:
    """Rows of `preflight` about the account, for a state of it."""
    file = state.get("file", "new")
    text = text_of(FILES[file] if isinstance(file, str) else file)
    target = Target(parse(text, name="test", path=Path("environments/test.yaml")))
    target.aws = RecordedAws(target, account(_without(state.get("edits"))))
    return preflight._online(target)


@functools.cache
def good(file: str) -> list[str]:
    """Every row about an account in which the environment can be deployed."""
    return [said_preflight.row_of(check) for check in checks({"file": file})]


def changed(state: Json, rows: list[Check]) -> list[str]:
    """The rows that a state changes; all of them for a file of its own."""
    file = state.get("file", "new")
    base = good(file) if isinstance(file, str) else good("new")
    return said_preflight.lines_of([said_preflight.row_of(row) for row in rows], base)


@pytest.fixture(autouse=True)
def day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "2026-11-22")


@pytest.mark.parametrize("name", list(STATES))
def test_what_is_said_of_a_state(name: str) -> None:
    state = STATES[name]
    all_rows = checks(state)
    assert changed(state, all_rows) == said_preflight.recorded()[name], "Fix: correct the rule, or make records"
    rows = [check for check in all_rows if check.result not in ("ok", "skipped")]
    said = state.get("said", [])
    if said == "every":
        assert len(rows) > 15
        assert {row.result for row in rows} == {"unknown"}
    else:
        shown = [f"{row.check} | {row.result} | {row.what}" for row in rows]
        assert len(shown) == len(said), shown
        assert all(any(one.startswith(words) for one in shown) for words in said), shown
    assert all(row.expected and row.fix for row in rows), "every row names what is right, and what to do"


@pytest.mark.parametrize("file", FILES)
def test_what_is_said_of_a_good_account(file: str) -> None:
    assert good(file) == said_preflight.recorded()[f"good: {file}"], "Fix: correct the rule, or make records"


@pytest.mark.parametrize("name", list(STATES))
def test_a_result_that_is_not_the_expected_one_has_a_reason(name: str) -> None:
    state = STATES[name]
    said = state.get("said", [])
    results = {"unknown"} if said == "every" else {row.split(" | ")[1] for row in said}
    worst = next((word for result, word in WORST.items() if result in results), "ok")
    assert (worst in state["expects"]) is ("because" not in state)


def test_there_are_enough() -> None:
    assert len(STATES) >= 136
    assert sum("because" in state for state in STATES.values()) <= 9
    assert len({yaml.safe_dump([state.get("file"), state.get("edits")]) for state in STATES.values()}) >= 130


def test_credentials_that_an_open_region_refuses_are_wrong_themselves() -> None:
    for status in ("ENABLED", "ENABLED_BY_DEFAULT"):
        edits = {"errors": {"sts.get_caller_identity": "InvalidClientTokenId"}, "region_status": status}
        first, *_ = checks({"edits": edits})
        assert (first.result, "does not accept the credentials" in first.what) == ("failed", True)


def test_a_throttled_call_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """By botocore itself, as often as this program lets it: two refusals and an answer are an answer."""
    from botocore.awsrequest import AWSResponse
    from botocore.compat import HTTPHeaders

    for name, value in {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_SESSION_TOKEN": ""}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    waited: list[float] = []
    monkeypatch.setattr("botocore.endpoint.time.sleep", waited.append)
    target = Target(parse(text_of(NEW), name="test", path=Path("environments/test.yaml")))
    refused = b"<ErrorResponse><Error><Code>Throttling</Code><Message>slowly</Message></Error></ErrorResponse>"
    answered = (
        b"<GetCallerIdentityResponse><GetCallerIdentityResult><Account>123456789012</Account>"
        b"<Arn>arn:aws:iam::123456789012:user/me</Arn></GetCallerIdentityResult></GetCallerIdentityResponse>"
    )
    answers = [(400, refused), (400, refused), (200, answered)]

    class Raw:
        def __init__(self, body: bytes) -> None:
            self.body = body

        def stream(self, **_: Any) -> list[bytes]:
            return [self.body]

    def answer(request: Any, **_: Any) -> Any:
        status, body = answers.pop(0)
        return AWSResponse(request.url, status, HTTPHeaders(), Raw(body))

    target.aws.session.events.register("before-send.sts", answer)
    assert [credential.result for credential in preflight.credentials(target)] == ["ok"]
    assert (answers, len(waited)) == ([], 2)
