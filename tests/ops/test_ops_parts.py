"""Single parts of operations: what each says, does and exits with, on values of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from rich.console import Console

from hyperpod_ray.ops.change import wait
from hyperpod_ray.ops.errors import BAD_USE, OpsError
from hyperpod_ray.ops.jobs import own_cluster
from hyperpod_ray.ops.money import cost
from hyperpod_ray.ops.reach import jobs_api
from hyperpod_ray.ops.reach.clients import Kubernetes
from hyperpod_ray.ops.runs import pull
from hyperpod_ray.pricing.prices import Line

Json = dict[str, Any]
NAMED: Any = SimpleNamespace(name="demo")


@pytest.mark.parametrize(
    ("status", "code", "says"),
    [
        ({"jobStatus": "SUCCEEDED"}, 0, "SUCCEEDED; its RayCluster is deleted"),
        ({"jobStatus": "FAILED", "message": "driver: exit code 7\nmore"}, 7, "j FAILED: driver: exit code 7"),
        ({"jobStatus": "FAILED", "message": "exit code 255"}, 255, "FAILED"),
        # no exit code of a process: an error all the same, never success
        ({"jobStatus": "FAILED", "message": "exit code 0"}, 1, "FAILED"),
        ({"jobStatus": "FAILED", "message": "exit code 256"}, 1, "FAILED"),
        ({"jobStatus": "FAILED"}, 1, "j FAILED"),
        ({"jobStatus": "STOPPED", "message": "exit code 7"}, 1, "STOPPED"),
        ({"jobStatus": "", "jobDeploymentStatus": "Failed", "message": "no room"}, 1, "j Failed: no room"),
    ],
)
def test_how_a_job_ended(status: Json, code: int, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """https://ray-project.github.io/kuberay/reference/api/#rayjobstatus"""
    assert own_cluster._ended(NAMED, "j", status) == code
    said = capsys.readouterr().err
    assert says in said
    assert ("next: hyperpod-ray status demo" in said) is (code != 0)
    assert "more" not in said


class Answers:
    """Ray's Jobs API: each answer in turn; an error is raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers: Iterator[Any] = iter(answers)
        self.sent: list[Json] = []

    def json(self, method: str, path: str, *, body: Json) -> Any:
        assert (method, path) == ("POST", "/api/jobs/")
        self.sent.append(body)
        answer = next(self.answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


def refusal(text: str) -> OpsError:
    return OpsError(text, expected="x", fix="x")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Waiting moves it."""
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("time.sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    return now


@pytest.mark.parametrize(
    "answers",
    [
        ({},),
        (refusal("no agent; try again later"), {}),
        (OSError("reset"), {}),
        # the reply was lost, and not the request
        (OSError("reset"), refusal("Job with submission_id j already exists")),
    ],
    ids=["at once", "without an agent", "cut off", "a lost reply"],
)
def test_a_job_is_submitted_once(clock: list[float], answers: tuple[Any, ...]) -> None:
    api = Answers(*answers)
    assert jobs_api.post(api, {"submission_id": "j", "entrypoint": "x"}) == "j"  # type: ignore[arg-type]
    assert api.sent == [{"submission_id": "j", "entrypoint": "x"}] * len(answers)


def test_a_name_of_its_own_is_kept_over_tries(clock: list[float]) -> None:
    api = Answers(OSError("reset"), {})
    name = jobs_api.post(api, {"entrypoint": "x"})  # type: ignore[arg-type]
    assert re.fullmatch(r"job-\d{8}-\d{6}-[0-9a-f]{6}", name)
    assert [body["submission_id"] for body in api.sent] == [name, name]


def test_what_a_dashboard_refuses_is_said(clock: list[float]) -> None:
    with pytest.raises(OpsError, match="already exists"):
        jobs_api.post(Answers(refusal("j already exists")), {"submission_id": "j"})  # type: ignore[arg-type]
    with pytest.raises(OpsError, match="Ray's dashboard does not answer: reset") as silent:
        jobs_api.post(Answers(*[OSError("reset")] * 999), {"submission_id": "j"})  # type: ignore[arg-type]
    assert clock[0] - 1000 >= jobs_api.AGENT_SECONDS
    assert silent.value.fix == "submit again"
    with pytest.raises(OpsError, match="try again later"):
        jobs_api.post(Answers(*[refusal("try again later")] * 999), {"submission_id": "j"})  # type: ignore[arg-type]


def test_a_folder_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    pull.require_free_name(tmp_path / "new")
    with pytest.raises(OpsError, match=re.escape(f"--to: {tmp_path} exists")) as there:
        pull.require_free_name(tmp_path)
    assert (there.value.code, there.value.expected) == (BAD_USE, "a new folder")
    with pytest.raises(OpsError, match="none does not exist") as nowhere:
        pull.require_free_name(tmp_path / "none" / "new")
    assert (nowhere.value.code, nowhere.value.expected) == (BAD_USE, "a folder for the new one")


# --- the cluster and its head ----------------------------------------------------------------------------------------


def asking(answer: Any) -> Any:
    def call(service: str, operation: str, **arguments: Any) -> Json:
        assert (service, operation, arguments) == ("eks", "describe_cluster", {"name": "demo-eks"})
        if isinstance(answer, Exception):
            raise answer
        return {"cluster": answer}

    return SimpleNamespace(_aws=SimpleNamespace(call=call), cluster_name="demo-eks", _plan=SimpleNamespace(name="demo"))


def test_a_cluster_that_cannot_be_reached_yet() -> None:
    absent = ClientError({"Error": {"Code": "ResourceNotFoundException", "Message": "no"}}, "DescribeCluster")
    with pytest.raises(OpsError, match="EKS cluster 'demo-eks' does not exist") as nowhere:
        Kubernetes._eks(asking(absent))
    assert nowhere.value.fix == "hyperpod-ray deploy demo"
    with pytest.raises(OpsError, match="is CREATING and has no endpoint yet") as young:
        Kubernetes._eks(asking({"status": "CREATING"}))
    assert young.value.fix == "hyperpod-ray wait demo --for cluster"
    denied = ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "DescribeCluster")
    with pytest.raises(ClientError):
        Kubernetes._eks(asking(denied))
    there = {"endpoint": "https://x.eks.amazonaws.com", "certificateAuthority": {"data": "Q0E="}}
    endpoint, authority = Kubernetes._eks(asking(there))
    assert (endpoint.url, authority) == ("https://x.eks.amazonaws.com", "Q0E=")


# --- figures and waiting ---------------------------------------------------------------------------------------------


def line(**more: Any) -> Line:
    return Line(name="burst", what="0 to 4", quantity=0, unit="hour", **more)


@pytest.mark.parametrize(
    ("value", "of", "hours", "text"),
    [
        (0.0, line(unbounded=True), 1, "unknown: no limit"),
        (None, line(), 1, "unknown"),
        (1.5, line(), 1, "~1.50"),
        (0.0, line(most_usd_per_hour=10.0), 1, "0.00 to ~10.00"),
        (0.0, line(most_usd_per_hour=10.0), 730, "0.00 to ~7,300.00"),
    ],
)
def test_a_price_that_is_a_range(value: float | None, of: Line, hours: int, text: str) -> None:
    assert cost._ranged(value, of, mark="~", hours=hours) == text


def test_waiting_between_two_looks_takes_its_time(clock: list[float]) -> None:
    goal: Any = SimpleNamespace(name="cluster", usual="20 min", then="ray")
    progress: Any = SimpleNamespace(phase="Creating")
    wait._Display(Console(force_terminal=False), goal).sleep(15, progress, clock[0])
    assert clock[0] == 1015
    shown = wait._Display(Console(force_terminal=True), goal)
    updates: list[float] = []
    shown._live = SimpleNamespace(update=lambda block: updates.append(clock[0]))
    shown.sleep(3, progress, clock[0])
    assert (clock[0], updates) == (1018, [1016, 1017, 1018])
