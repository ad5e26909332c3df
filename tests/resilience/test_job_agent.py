"""HyperPod's job monitoring agent as AWS's own library asks it: on the pod's node, at the port that policies open."""

from __future__ import annotations

import http.server
import json
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from toolkit_for_ray_on_sagemaker_ai.log_monitoring import LogMonitorConfig, SageMakerLogMonitoring, _client

from service_rules.names import JOB_AGENT_PORT, JOB_AGENT_VARIABLE

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
    page = (Path(__file__).parents[2] / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"```python hung-jobs\n(.*?)```", page, re.DOTALL)
    exec(lines, {})  # noqa: S102
    (taken,) = agent.taken
    assert taken["rules_content"]["rules"] == [RULE]
    assert taken["rules_content"]["action_policy"] == {"action": "notify"}


def test_the_agent_refuses_a_rule(agent: Agent) -> None:
    assert configure([{**RULE, "log_pattern": "x" * 257}])["status"] == "error"
    assert agent.taken == []


def test_a_node_without_an_agent_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An image before August 2026, or the closed port: a warning, and training goes on."""
    assert configure([RULE])["status"] == "warning"
    # without the manifest's variable the library asks the pod itself, where nothing listens
    monkeypatch.delenv(JOB_AGENT_VARIABLE)
    assert _client._get_service_url() == f"http://localhost:{JOB_AGENT_PORT}"
