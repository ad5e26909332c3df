"""`deploy` around the cdk CLI: what it waits for, what it reads after, and what it says of a failure."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.core import load, plan_names
from hyperpod_ray.ops.change import cdk, deploy
from hyperpod_ray.ops.change.progress import Expected, busy
from hyperpod_ray.ops.errors import CONDITION_FALSE, INTERRUPTED, OpsError
from hyperpod_ray.ops.observe.snapshot import Stack
from hyperpod_ray.ops.reach import clients

PLAN = load("dev").plan
NAMES = plan_names.stack_names(PLAN)


class Account:
    """Stack states as CloudFormation would answer them: one list per look, the last one for good."""

    def __init__(self, *looks: dict[str, str]) -> None:
        self.looks = list(looks)
        self.events: list[dict[str, Any]] = []
        self.protected: set[str] = set()
        self.at_work = False
        """While the CLI runs, looking does not go on to the next state."""

    def states(self) -> dict[str, str]:
        return self.looks.pop(0) if len(self.looks) > 1 and not self.at_work else self.looks[0]

    def call(self, service: str, operation: str, **request: Any) -> Any:
        if operation == "update_termination_protection":
            assert request["EnableTerminationProtection"] is False
            self.protected.remove(request["StackName"])
            return {}
        assert (service, operation) == ("cloudformation", "describe_stack_events")
        return {"StackEvents": self.events}


class Target(clients.Target):
    def __init__(self, account: Account) -> None:
        super().__init__(load("dev"))
        self.aws = account  # type: ignore[assignment]


def every(state: str, **others: str) -> dict[str, str]:
    return {name: others.get(name.partition("-")[2], state) for name in NAMES}


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A program in the CLI's place that notes its arguments, what stdin is, and ends with 0."""
    program = tmp_path / "cdk"
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/runs\nreadlink /proc/self/fd/0 >> {tmp_path}/stdin\n')
    program.chmod(0o755)
    monkeypatch.setattr(cdk, "program", lambda _: program)

    def stacks(target: Target, _assembly: Path) -> list[Stack]:
        account: Any = target.aws
        states = account.states().items()
        return [replace(Stack(name=name), status=state, protected=name in account.protected) for name, state in states]

    real = deploy._run

    def _run(target: Target, **options: Any) -> int:
        account: Any = target.aws
        account.at_work = True
        try:
            return real(target, **options)
        finally:
            account.at_work = False

    monkeypatch.setattr(deploy, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(deploy, "_stacks", stacks)
    monkeypatch.setattr(deploy, "_run", _run)
    return tmp_path


def run(account: Account, review: deploy.Reviewer = lambda _: Expected()) -> int:
    return deploy.deploy(Target(account), assembly=Path("cdk.out"), review=review, poll=0.01)


def runs(cli: Path) -> list[str]:
    return (cli / "runs").read_text().splitlines() if (cli / "runs").exists() else []


def test_the_cli_asks_nothing(cli: Path) -> None:
    assert run(Account(every(""), every("CREATE_COMPLETE"))) == 0
    (arguments,) = runs(cli)
    assert "--require-approval never" in arguments
    assert f"--concurrency {deploy.CONCURRENCY}" in arguments
    assert (cli / "stdin").read_text().strip() == "/dev/null"


@pytest.mark.parametrize("state", ["ROLLBACK_COMPLETE", "ROLLBACK_FAILED"])
def test_a_first_deploy_that_failed_can_be_repeated_in_a_protected_environment(cli: Path, state: str) -> None:
    """The CLI deletes the stack that failed, and CloudFormation refuses that of a protected one."""
    network, ray = f"{PLAN.name}-Network", f"{PLAN.name}-Ray"
    failed = every("CREATE_COMPLETE", Network=state)
    account = Account(failed, every("CREATE_COMPLETE"))
    account.protected = {network, ray}
    assert run(account) == 0
    assert account.protected == {ray}


def test_a_stack_without_protection_is_not_asked_to_lose_it(cli: Path) -> None:
    account = Account(every("CREATE_COMPLETE", Network="ROLLBACK_COMPLETE"), every("CREATE_COMPLETE"))
    assert run(account) == 0, "the account refuses the call"


def test_a_review_that_stops_it_leaves_protection_on(cli: Path) -> None:
    def stop(_: object) -> Expected:
        raise OpsError.outcome("loses nodes", fix="--accept loses-nodes", code=CONDITION_FALSE)

    account = Account(every("", Network="ROLLBACK_COMPLETE"))
    account.protected = {f"{PLAN.name}-Network"}
    with pytest.raises(OpsError):
        run(account, stop)
    assert account.protected


def test_it_waits_for_what_is_in_progress(cli: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at_work = every("CREATE_COMPLETE", Ray="CREATE_IN_PROGRESS")
    assert run(Account(at_work, at_work, every("CREATE_COMPLETE"))) == 0
    said = capsys.readouterr().err
    assert said.count("waiting for what is in progress: dev-Ray is CREATE_IN_PROGRESS") == 1
    assert len(runs(cli)) == 1


def test_a_destroy_that_began_meanwhile_is_waited_for_and_deployed_over(cli: Path) -> None:
    done, going, gone = every("CREATE_COMPLETE"), every("DELETE_IN_PROGRESS"), every("")
    assert run(Account(done, going, going, gone, gone, gone, done)) == 0
    assert len(runs(cli)) == 2


def test_a_pause_between_two_stacks_of_another_deploy_is_no_end(cli: Path) -> None:
    """The CLI looks at a stack every five seconds, and begins the next one only then."""
    pause = every("CREATE_COMPLETE", Ray="")
    looks = [every("CREATE_IN_PROGRESS"), pause, pause, every("CREATE_COMPLETE", Ray="CREATE_IN_PROGRESS")]
    seen: list[Any] = []

    def accepts(stacks: Any) -> Expected:
        seen.append([stack.status for stack in stacks])
        return Expected()

    assert run(Account(*looks, every("CREATE_COMPLETE")), accepts) == 0
    assert seen == [["CREATE_COMPLETE"] * len(NAMES)]


def test_what_is_half_there_may_be_at_work(cli: Path) -> None:
    """The first look may fall into a pause of a destroy."""
    half, going = every("CREATE_COMPLETE", Ray="", Platform=""), every("DELETE_IN_PROGRESS", Ray="", Platform="")
    seen: list[Any] = []

    def accepts(stacks: Any) -> Expected:
        seen.append({stack.status for stack in stacks})
        return Expected()

    gone = every("")
    assert run(Account(half, going, gone, gone, gone, every("CREATE_COMPLETE")), accepts) == 0
    assert seen == [{""}]


def test_success_of_the_cli_is_not_enough(cli: Path) -> None:
    with pytest.raises(OpsError) as caught:
        run(Account(every("CREATE_COMPLETE"), every("")))
    assert "dev-Network does not exist" in caught.value.message
    assert caught.value.fix.endswith("hyperpod-ray deploy dev")


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
    assert not busy(Stack(name="dev-Eks", status="REVIEW_IN_PROGRESS"))
    assert busy(Stack(name="dev-Eks", status="UPDATE_ROLLBACK_IN_PROGRESS"))


def test_ctrl_c_says_what_goes_on(cli: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(deploy, "_run", interrupted)
    with pytest.raises(OpsError) as caught:
        run(Account(every("CREATE_COMPLETE"), every("CREATE_COMPLETE", Eks="UPDATE_IN_PROGRESS")))
    assert caught.value.code == INTERRUPTED
    assert "CloudFormation continues with dev-Eks (UPDATE_IN_PROGRESS)" in caught.value.message
    assert caught.value.fix.endswith("hyperpod-ray deploy dev")


def test_the_review_comes_after_the_wait_and_stops_before_the_cli(cli: Path) -> None:
    seen: list[list[str]] = []

    def refuses(stacks: Any) -> Expected:
        seen.append([stack.status for stack in stacks])
        raise OpsError.outcome("the review stops it", fix="", code=CONDITION_FALSE)

    account = Account(every("CREATE_COMPLETE", Ray="DELETE_IN_PROGRESS"), every("CREATE_COMPLETE", Ray=""))
    with pytest.raises(OpsError) as caught:
        run(account, refuses)
    assert caught.value.code == CONDITION_FALSE
    assert seen == [["CREATE_COMPLETE"] * (len(NAMES) - 1) + [""]]
    assert runs(cli) == []


def test_what_another_deploy_changed_meanwhile_is_reviewed_too(cli: Path) -> None:
    reviews: list[Any] = []

    def accepts(stacks: Any) -> Expected:
        reviews.append(stacks)
        return Expected()

    done, going = every("CREATE_COMPLETE"), every("UPDATE_IN_PROGRESS")
    assert run(Account(done, going, going, done, done), accepts) == 0
    assert len(reviews) == len(runs(cli)) == 2


def test_a_stack_that_an_earlier_deploy_rolled_back_may_stay_so(cli: Path) -> None:
    earlier = every("UPDATE_COMPLETE", Eks="UPDATE_ROLLBACK_COMPLETE")
    assert run(Account(earlier, earlier)) == 0
    with pytest.raises(OpsError, match="dev-Eks UPDATE_ROLLBACK_COMPLETE"):
        run(Account(every("UPDATE_COMPLETE"), earlier))


def test_at_the_end_it_names_the_next_command(cli: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Account(every(""), every("CREATE_COMPLETE"))) == 0
    assert capsys.readouterr().err.endswith("next: hyperpod-ray wait dev --for healthy\n")
