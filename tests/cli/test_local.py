"""Commands of local: a sandbox that needs no chart, and bad input that starts nothing."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.cli.main import main
from hyperpod_ray_sandbox import leash
from tests.support.slurm_account import NAME, SlurmAccount


def rehearsal(account: SlurmAccount) -> list[tuple[str, ...]]:
    """Let `local deploy` and `local destroy` reach the cdk CLI and the embedded AWS, and note what they ask of them."""
    from hyperpod_ray.cli import local_deploy
    from hyperpod_ray_sandbox.aws import commands as sandbox
    from tests.support.slurm_account import ACCOUNT, REGION

    class Client:
        endpoint, secret = "http://127.0.0.1:1", "x"

        def environment(self) -> dict[str, str]:
            return {}

    class Running:
        account, region, client = ACCOUNT, REGION, Client()

    asked: list[tuple[str, ...]] = []
    patch = account.monkeypatch
    patch.setattr("hyperpod_ray_sandbox.aws.process.find", lambda _: None)

    def up(*, account: str, region: str, **_: Any) -> Running:
        asked.append(("up", account, region))
        return Running()

    patch.setattr(sandbox, "up", up)
    patch.setattr(sandbox, "found", lambda _: Running())
    patch.setattr(sandbox, "inventory", lambda **_: [])
    patch.setattr("hyperpod_ray.charts.store.fetch", lambda _: asked.append(("chart",)))
    patch.setattr(local_deploy.Cdk, "run", lambda _self, verb, *_: asked.append((verb,)))
    patch.setattr(local_deploy.Cdk, "synthesize", lambda _self: asked.append(("synth",)))

    @contextlib.contextmanager
    def bootstrapping(_self: Any, _target: str) -> Iterator[None]:
        asked.append(("bootstrap",))
        yield

    patch.setattr(local_deploy.Cdk, "bootstrapping", bootstrapping)
    return asked


def test_a_local_deploy_needs_no_chart(account: SlurmAccount, tmp_path: Path) -> None:
    asked = rehearsal(account)
    done = account.run("local", "deploy", NAME, "--state", str(tmp_path / "state"))
    assert done.code == 0, done.err
    assert asked == [("up", "111122223333", "us-west-2"), ("bootstrap",), ("synth",), ("deploy",)]
    (file,) = (tmp_path / "state").rglob(f"{NAME}.yaml")
    assert "orchestrator: slurm" in file.read_text()
    assert done.err.count("stand-in: ") == 1


def test_a_local_destroy_says_that_nothing_is_left(account: SlurmAccount, tmp_path: Path) -> None:
    asked = rehearsal(account)
    assert account.run("local", "destroy", NAME, "--state", str(tmp_path / "state")).code == 0
    assert asked == [("synth",), ("destroy",)]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ["rehearse", "local", "--faults", "earthquake"],
            "--faults: earthquake. Expected some of worker, freeze-worker, node",
        ),
        (["rehearse", "local", "--faults", ""], "--faults: none. Expected some of"),
        (["rehearse", "local", "--interval", "2"], "--interval: 2. Expected 4 or more"),
        (["rehearse", "local", "--fault-timeout", "0"], "--fault-timeout: 0. Expected more than 0"),
        (["rehearse", "local", "--kills", "0"], "--kills: 0. Expected 1 or more"),
        (["rehearse", "local", "--kills", "3", "--web"], "--kills: 3 with --web. Expected a report as a table"),
        (["rehearse", "no-such-file.yaml"], "no-such-file.yaml: cannot be read"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = dict(os.environ)
    assert main(["local", *argv]) == 2
    assert {k: v for k, v in os.environ.items() if k != leash.VARIABLE} == {
        k: v for k, v in before.items() if k != leash.VARIABLE
    }
    error = capsys.readouterr().err
    assert message in error
    assert [line.split(":")[0] for line in error.splitlines()] == ["error", "Fix"]


def test_kills_have_no_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["local", "rehearse", "local", "--kills", "3", "-o", "json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["what"] == "--kills: 3 with -o json"
