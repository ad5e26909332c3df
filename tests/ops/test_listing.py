from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.core.loader import parse
from hyperpod_ray.ops import orchestrators
from hyperpod_ray.ops.errors import OK, OpsError
from hyperpod_ray.ops.in_ray import runs as reader
from hyperpod_ray.ops.jobs import own_cluster
from hyperpod_ray.ops.observe import queues
from hyperpod_ray.ops.orchestrators.eks import runs
from hyperpod_ray.ops.orchestrators.run_list import Source
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach.clients import Target
from hyperpod_ray.ops.runs import listing, pull
from tests.ops.ops_runs_commands_helpers import Api, Ray
from tests.ops.ops_team_runs_helpers import SPACE
from tests.ops.world import environment_text


def test_a_member_sees_state_progress_and_the_best_checkpoint_of_the_teams_runs(
    target: Target, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    source = Source()
    assert listing.listing(target, form=Format.json, source=source) == 0
    out, err = capsys.readouterr()
    assert "the standing RayCluster is not yours to reach" in err
    listed = {run["name"]: run for run in json.loads(out)["runs"]}
    assert (listed["first"]["state"], listed["first"]["waits"]) == ("SUCCEEDED", ""), "what has ended waits for nothing"
    assert (listed["first"]["progress"]["step"], listed["first"]["progress"]["steps_total"]) == (32, 100)
    assert listed["first"]["progress"]["steps_per_second"]
    assert listed["first"]["progress"]["loss"] == pytest.approx(1.8)
    assert (listed["second"]["state"], listed["second"]["progress"]) == ("PENDING", None)
    assert "hyperpod-ns-vision-localqueue" in listed["second"]["waits"]

    assert listing.show(target, "first", form=Format.table, source=source) == 0
    shown = capsys.readouterr().out
    for words in (f"{tmp_path}/first/step-00000020-abc123, loss 3", "recoveries", "32 of 100", f"namespace {SPACE}"):
        assert words in shown
    assert "two" in shown
    assert reader.MARK.strip() not in shown, "a report is no line of the job's own"

    assert listing.best(target, ["first"], metric="accuracy", mode="max", form=Format.table, source=source) == 0
    assert capsys.readouterr().out.strip() == f"{tmp_path}/first/step-00000020-abc123"
    assert listing.logs(target, "first", following=False, source=source) == 0
    assert capsys.readouterr().out.splitlines() == ["a line of the submitter", "one", "two"]


def test_a_name_that_is_no_run_and_files_that_may_not_be_read_are_said(target: Target, tmp_path: Path) -> None:
    source, none = Source(), "no run 'firsd'; did you mean 'first'"
    with pytest.raises(OpsError, match=none):
        listing.show(target, "firsd", form=Format.table, source=source)
    with pytest.raises(OpsError, match=none):
        listing.logs(target, "firsd", following=False, source=source)
    with pytest.raises(OpsError, match=none):
        listing.stop(target, "firsd", yes=True, source=source)
    wanted = pull.Wanted(best="loss")
    with pytest.raises(OpsError, match="on the shared file system, which the standing RayCluster serves"):
        pull.run(target, "first", selection=wanted, to=tmp_path / "best", source=Source(), form=Format.table)
    assert not list(tmp_path.glob("best*")), "nothing is half done"


def test_another_refusal_is_not_hidden(target: Target) -> None:
    target.plan.settings.__dict__["teams"] = []
    with pytest.raises(Exception, match="403"):
        listing.listing(target, form=Format.json, source=Source())


NOWHERE = Source()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A target, its Kubernetes and its Ray; time passes only while somebody sleeps."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
    monkeypatch.setattr(runs, "time", clock)
    monkeypatch.setattr(own_cluster, "time", clock)
    parts = SimpleNamespace(api=Api(), ray=Ray("RUNNING"), clock=now)
    plan = parse(environment_text(), name="demo", path=Path("demo.yaml")).plan

    @contextlib.contextmanager
    def jobs_of(_: Any, *, address: str) -> Iterator[Ray]:
        yield parts.ray

    monkeypatch.setattr(runs, "jobs_of", jobs_of)
    monkeypatch.setattr(queues, "why_it_waits", lambda *_: None)
    parts.target = SimpleNamespace(
        name="demo", plan=plan, kubernetes=parts.api, aws=SimpleNamespace(require_account=lambda: "arn"), folder=None,
        command=lambda *words: " ".join(["hyperpod-ray", words[0], "demo", *words[1:]]),
    )  # fmt: skip
    return parts


def test_a_list_without_runs_says_how_to_begin(
    world: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = SimpleNamespace(example=lambda: "hyperpod-ray submit demo job.yaml")
    nothing = SimpleNamespace(refuse=lambda _: None, listed=lambda *_, **__: ([], {}))
    monkeypatch.setattr(orchestrators, "of", lambda _: SimpleNamespace(runs=nothing, jobs=jobs))
    for state, first in (("", "no runs"), ("failed", "no runs with state failed")):
        assert listing.listing(world.target, form=Format.table, source=NOWHERE, state=state) == OK
        written = capsys.readouterr()
        assert (written.out, written.err.splitlines()) == ("", [first, "next: hyperpod-ray submit demo job.yaml"])
