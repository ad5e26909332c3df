"""`deploy` around the cdk CLI: what it waits for, what it reads after, and what it says of a failure."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from core import load
from ops import deploy, names
from ops.errors import INTERRUPTED, OpsError
from ops.snapshot import Stack

PLAN = load("dev").plan
NAMES = names.stack_names(PLAN)


class Account:
    """Stack states as CloudFormation would answer them: one list per look, the last one for good."""

    def __init__(self, *looks: dict[str, str]) -> None:
        self.looks = list(looks)
        self.events: list[dict[str, Any]] = []

    def states(self) -> dict[str, str]:
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    def call(self, service: str, operation: str, **_: Any) -> Any:
        assert (service, operation) == ("cloudformation", "describe_stack_events")
        return {"StackEvents": self.events}


class Target:
    def __init__(self, account: Account) -> None:
        self.plan, self.name, self.folder, self.aws = PLAN, PLAN.name, None, account


def every(state: str, **others: str) -> dict[str, str]:
    return {name: others.get(name.partition("-")[2], state) for name in NAMES}


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A program in the CLI's place that notes its arguments, what stdin is, and ends with 0."""
    program = tmp_path / "cdk"
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/runs\nreadlink /proc/self/fd/0 >> {tmp_path}/stdin\n')
    program.chmod(0o755)
    monkeypatch.setattr(deploy, "CDK", program)

    def stacks(target: Target) -> list[Stack]:
        return [replace(Stack(name=name), status=state) for name, state in target.aws.states().items()]

    monkeypatch.setattr(deploy, "_stacks", stacks)
    monkeypatch.setattr(deploy, "_progress", lambda target, seen: None)
    return tmp_path


def run(account: Account) -> int:
    return deploy.deploy(Target(account), poll=0.01)  # type: ignore[arg-type]


def runs(cli: Path) -> list[str]:
    return (cli / "runs").read_text().splitlines() if (cli / "runs").exists() else []


def test_the_cli_asks_nothing(cli: Path) -> None:
    assert run(Account(every(""), every("CREATE_COMPLETE"))) == 0
    (arguments,) = runs(cli)
    assert "--require-approval never" in arguments
    assert f"--concurrency {deploy.CONCURRENCY}" in arguments
    assert (cli / "stdin").read_text().strip() == "/dev/null"


def test_it_waits_for_what_is_in_progress(cli: Path, capsys: pytest.CaptureFixture[str]) -> None:
    busy = every("CREATE_COMPLETE", Ray="CREATE_IN_PROGRESS")
    assert run(Account(busy, busy, every("CREATE_COMPLETE"))) == 0
    said = capsys.readouterr().err
    assert said.count("waiting for what is in progress: dev-Ray is CREATE_IN_PROGRESS") == 1
    assert len(runs(cli)) == 1


def test_a_destroy_that_began_meanwhile_is_waited_for_and_deployed_over(cli: Path) -> None:
    done, going = every("CREATE_COMPLETE"), every("DELETE_IN_PROGRESS")
    assert run(Account(done, going, going, every(""), done)) == 0
    assert len(runs(cli)) == 2


def test_success_of_the_cli_is_not_enough(cli: Path) -> None:
    with pytest.raises(OpsError) as caught:
        run(Account(every("CREATE_COMPLETE"), every("")))
    assert "dev-Network does not exist" in caught.value.message
    assert caught.value.next.endswith("hyperpod-ray deploy dev")


def test_a_failing_resource_speaks_for_itself(cli: Path) -> None:
    account = Account(every(""), every("CREATE_COMPLETE", Eks="ROLLBACK_COMPLETE", Ray=""))
    now = datetime.now(UTC) + timedelta(minutes=1)
    event = {"LogicalResourceId": "A", "ResourceType": "AWS::EKS::Cluster", "ResourceStatus": "CREATE_FAILED"}
    account.events = [
        {**event, "LogicalResourceId": "B", "Timestamp": now, "ResourceStatusReason": "Resource creation cancelled"},
        {**event, "Timestamp": now, "ResourceStatusReason": "no such role"},
        {**event, "Timestamp": now - timedelta(days=1), "ResourceStatusReason": "of yesterday"},
    ]
    with pytest.raises(OpsError) as caught:
        run(account)
    assert caught.value.message == "dev-Eks is ROLLBACK_COMPLETE: A (AWS::EKS::Cluster): no such role"


def test_a_change_set_that_nobody_executes_holds_nothing(cli: Path) -> None:
    assert not deploy._busy(Stack(name="dev-Eks", status="REVIEW_IN_PROGRESS"))
    assert deploy._busy(Stack(name="dev-Eks", status="UPDATE_ROLLBACK_IN_PROGRESS"))


def test_ctrl_c_says_what_goes_on(cli: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(deploy, "_run", interrupted)
    with pytest.raises(OpsError) as caught:
        run(Account(every("CREATE_COMPLETE"), every("CREATE_COMPLETE", Eks="UPDATE_IN_PROGRESS")))
    assert caught.value.code == INTERRUPTED
    assert "CloudFormation goes on with dev-Eks" in caught.value.message
