"""HyperPod's job monitoring agent as AWS's own library asks it: on the pod's node, at the port that policies open."""

from __future__ import annotations

import http.server
import json
import os
import re
import sys
import threading
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from toolkit_for_ray_on_sagemaker_ai.log_monitoring import LogMonitorConfig, SageMakerLogMonitoring, _client

from hyperpod_ray_rules.names import JOB_AGENT_PORT, JOB_AGENT_VARIABLE
from hyperpod_ray_training import hangs
from hyperpod_ray_training.settings import HANG_RULES_VARIABLE

RULE = {"name": "progress", "type": "log_pattern", "enabled": True, "log_pattern": r"step \d+", "timeout_minutes": 10}


class Agent(http.server.ThreadingHTTPServer):
    """Takes rules as the service documents them: 400 and a reason for a body without its members."""

    def __init__(self, address: str) -> None:
        super().__init__((address, JOB_AGENT_PORT), Handler)
        self.taken: list[dict[str, Any]] = []


class Handler(http.server.BaseHTTPRequestHandler):
    server: Agent

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        content = body.get("rules_content", {})
        known = self.path == "/configure-hang-detection-rules" and {"job_id", "worker_id", "rules_content"} == set(body)
        good = known and all(len(rule.get("log_pattern", "")) <= 256 for rule in content["rules"])
        if good:
            self.server.taken.append(body)
        answer = json.dumps({} if good else {"error": "log_pattern is longer than 256 characters"}).encode()
        self.send_response(200 if good else 400)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def address() -> str:
    """An address of loopback that no other test run of this machine uses: the port is fixed."""
    number = os.getpid()
    return f"127.{number >> 16 & 63 | 64}.{number >> 8 & 255}.{number & 255 or 1}"


@pytest.fixture(autouse=True)
def in_a_worker(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """What Ray's runtime and the manifest give a worker."""
    monkeypatch.setattr(_client, "_get_job_id", lambda: "01000000")
    monkeypatch.setattr(_client, "_get_worker_id", lambda: "ab" * 28)
    monkeypatch.setattr(_client, "_RETRY_DELAY", 0)
    monkeypatch.setenv(JOB_AGENT_VARIABLE, address)
    monkeypatch.setenv("LOCAL_RANK", "0")


@pytest.fixture
def agent(address: str) -> Iterator[Agent]:
    with Agent(address) as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.05,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def configure(rules: list[dict[str, Any]]) -> dict[str, Any]:
    return dict(SageMakerLogMonitoring(config=LogMonitorConfig(rules=rules, action="cancel")).start().result)


def test_rules_reach_the_agent_of_the_node(agent: Agent) -> None:
    assert configure([RULE]) == {"status": "configured"}
    (taken,) = agent.taken
    assert taken["rules_content"] == {"enabled": True, "rules": [RULE], "action_policy": {"action": "cancel"}}


def test_the_lines_of_the_documentation_reach_it(agent: Agent) -> None:
    page = (Path(__file__).parents[2] / "docs" / "hung-jobs.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"```python hung-jobs\n(.*?)```", page, re.DOTALL)
    exec(lines, {})  # noqa: S102
    (taken,) = agent.taken
    assert taken["rules_content"]["rules"] == [RULE]
    assert taken["rules_content"]["action_policy"] == {"action": "notify"}


def test_the_agent_refuses_a_rule(agent: Agent) -> None:
    assert configure([{**RULE, "log_pattern": "x" * 257}])["status"] == "error"
    assert agent.taken == []


def test_a_node_without_an_agent_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An image before August 2026, or the closed port: a warning, and training continues."""
    assert configure([RULE])["status"] == "warning"
    # without the manifest's variable the library asks the pod itself, where nothing listens
    monkeypatch.delenv(JOB_AGENT_VARIABLE)
    assert _client._get_service_url() == f"http://localhost:{JOB_AGENT_PORT}"


# --- rules of the environment file ------------------------------------------------------------------------------------


class Worker:
    """The training library in a worker, with the rules that its pod mounts."""

    def __init__(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.file = file
        monkeypatch.setenv(HANG_RULES_VARIABLE, str(file))
        monkeypatch.setattr(hangs, "_watched", hangs.Watched())
        monkeypatch.setattr(hangs, "_first_of_its_node", lambda: True)
        self.monkeypatch = monkeypatch

    def mount(self, **content: Any) -> None:
        self.file.write_text(json.dumps({"enabled": True, "rules": [RULE], "action": "cancel"} | content))

    def begin(self) -> bool:
        """Whether there was something to send; after it was sent."""
        thread = hangs.begin()
        if thread is not None:
            thread.join(60)
        return thread is not None


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Worker:
    return Worker(tmp_path / "rules.json", monkeypatch)


def test_a_loop_sends_the_rules_that_its_pod_mounts_first_of_all(agent: Agent, worker: Worker) -> None:
    worker.mount()
    order: list[str] = []
    worker.monkeypatch.setattr(hangs, "begin", lambda: order.append("rules"))

    def loop(config: dict[str, Any]) -> int:
        order.append(config["x"])
        return 7

    assert hangs.watched(loop)({"x": "loop"}) == 7
    assert order == ["rules", "loop"]
    worker.monkeypatch.undo()


def test_rules_are_sent_once_and_again_when_they_change(
    agent: Agent, worker: Worker, capsys: pytest.CaptureFixture[str]
) -> None:
    worker.mount()
    assert worker.begin()
    assert not worker.begin(), "a generation that forms again sends nothing"
    assert "agent has 1 rules, action cancel" in capsys.readouterr().err
    worker.mount(rules=[{**RULE, "timeout_minutes": 20}], action="notify")
    assert worker.begin()
    first, second = (taken["rules_content"] for taken in agent.taken)
    assert first == {"enabled": True, "rules": [RULE], "action_policy": {"action": "cancel"}}
    assert second["rules"] == [{**RULE, "timeout_minutes": 20}]
    assert second["action_policy"] == {"action": "notify"}


def test_an_opt_out_is_sent_too(agent: Agent, worker: Worker) -> None:
    worker.mount(enabled=False, rules=[], action="notify")
    assert worker.begin()
    (taken,) = agent.taken
    assert taken["rules_content"]["enabled"] is False


def test_without_rules_nothing_is_sent_or_written(
    agent: Agent, worker: Worker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not worker.begin(), "no ConfigMap"
    worker.monkeypatch.delenv(HANG_RULES_VARIABLE)
    assert not worker.begin(), "no mount"
    hangs.stepped(1, now=0.0)
    hangs.ended(1)
    with hangs.paused(1, limit_s=60):
        pass
    said = capsys.readouterr()
    assert (said.out, said.err, agent.taken) == ("", "", [])


def test_only_a_worker_of_ray_sends(worker: Worker) -> None:
    """A process that Ray did not start has no job that the agent could know."""
    worker.mount()
    worker.monkeypatch.undo()
    assert not hangs._first_of_its_node()


@pytest.mark.parametrize(
    ("actor", "local_rank", "warms_up", "sends"),
    [("a", 0, False, True), ("a", 1, False, False), (None, 0, False, False), ("a", 0, True, False)],
)
def test_the_first_training_worker_of_a_node_sends(
    monkeypatch: pytest.MonkeyPatch, actor: str | None, local_rank: int, warms_up: bool, sends: bool
) -> None:
    """Not a second one, no driver, and no spare that rehearses the loop: it would be silent, and count as hung."""
    import ray
    import ray.train

    from hyperpod_ray_training.spares import warm_up

    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "get_runtime_context", lambda: types.SimpleNamespace(get_actor_id=lambda: actor))
    monkeypatch.setattr(ray.train, "get_context", lambda: types.SimpleNamespace(get_local_rank=lambda: local_rank))
    monkeypatch.setattr(warm_up, "_under_way", warms_up)
    assert hangs._first_of_its_node() is sends


@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_file_that_holds_no_rules_stops_nothing(
    worker: Worker, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    worker.file.write_text(content)
    assert not worker.begin()
    assert not worker.begin()
    assert capsys.readouterr().err.count("hung job detection") == 1


def test_without_the_library_there_is_one_warning(worker: Worker, capsys: pytest.CaptureFixture[str]) -> None:
    worker.mount()
    worker.monkeypatch.setitem(sys.modules, "toolkit_for_ray_on_sagemaker_ai.log_monitoring", None)
    assert worker.begin()
    worker.mount(action="notify")
    assert worker.begin()
    said = capsys.readouterr().err
    assert said.count("no package toolkit-for-ray-on-sagemaker-ai") == 1
    assert "training continues" in said


def test_a_refused_rule_is_named(agent: Agent, worker: Worker, capsys: pytest.CaptureFixture[str]) -> None:
    worker.mount(rules=[{**RULE, "log_pattern": "x" * 257}])
    assert worker.begin()
    assert "log_pattern is longer than 256 characters; training continues without rules" in capsys.readouterr().err


def test_a_node_without_an_agent_delays_no_loop(worker: Worker, capsys: pytest.CaptureFixture[str]) -> None:
    worker.mount()
    assert worker.begin()
    assert "warning: Could not reach monitoring service" in capsys.readouterr().err


@pytest.mark.parametrize(("failures", "sent"), [(0, "notify"), (-1, "cancel"), (3, "cancel")])
def test_cancel_needs_a_trainer_that_starts_workers_again(
    agent: Agent, worker: Worker, capsys: pytest.CaptureFixture[str], failures: int, sent: str
) -> None:
    from ray.train import FailureConfig, RunConfig
    from ray.train.v2._internal.execution import context

    run = context.TrainRunContext(
        run_config=RunConfig(failure_config=FailureConfig(max_failures=failures)), train_loop_config=None,
        scaling_config=None, backend_config=None, dataset_config=None,
    )  # fmt: skip
    worker.monkeypatch.setattr(context, "_train_context", types.SimpleNamespace(train_run_context=run))
    worker.mount()
    assert worker.begin()
    (taken,) = agent.taken
    assert taken["rules_content"]["action_policy"] == {"action": sent}
    assert ("max_failures=0 would end the run" in capsys.readouterr().err) == (failures == 0)


# --- the lines that rules look for ------------------------------------------------------------------------------------


def test_the_worker_that_sent_rules_writes_its_steps(
    agent: Agent, worker: Worker, capsys: pytest.CaptureFixture[str]
) -> None:
    worker.mount()
    assert worker.begin()
    for step, now in ((1, 0.0), (2, 5.0), (3, 9.99), (4, 10.0), (5, 40.0)):
        hangs.stepped(step, now=now)
    hangs.ended(6)
    assert capsys.readouterr().out.splitlines() == [
        "[resilience] step 1", "[resilience] step 4", "[resilience] step 5", "[resilience] all steps done: step 6",
    ]  # fmt: skip


def test_a_declared_pause_is_no_hang_for_its_limit(
    agent: Agent, worker: Worker, capsys: pytest.CaptureFixture[str]
) -> None:
    worker.mount()
    assert worker.begin()
    worker.monkeypatch.setattr(hangs, "LINE_EVERY_S", 0.01)
    seen = ""
    with hangs.paused(7, limit_s=600):
        until = time.monotonic() + 600
        while seen.count("step 7, in a pause") < 3 and time.monotonic() < until:
            time.sleep(0.01)
            seen += capsys.readouterr().out
    assert seen.count("step 7, in a pause") >= 3
    with hangs.paused(8, limit_s=0):
        assert capsys.readouterr().out.count("step 8") == 0, "over"
