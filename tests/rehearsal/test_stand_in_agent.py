"""The stand-in agent: what it refuses, when a rule fires, and what it does then. Requests are as AWS's library's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.core import load
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.k8s.hangs import content_of
from hyperpod_ray.ops.observe.hangs import hang
from hyperpod_ray_sandbox.rehearsal.hang_rules import Watched, request_of
from hyperpod_ray_sandbox.rehearsal.job_agent import PATH, Agent

RULE: dict[str, Any] = {"name": "progress", "type": "log_pattern", "enabled": True, "log_pattern": r"step \d+"}


def body(*rules: dict[str, Any], action: str = "cancel", **more: Any) -> dict[str, Any]:
    """The request as `toolkit-for-ray-on-sagemaker-ai` 1.0.4 sends it (`_client.configure`, `LogMonitorConfig`)."""
    content = {"enabled": True, "rules": list(rules), "action_policy": {"action": action}} | more
    return {"job_id": "01000000", "worker_id": "ab" * 28, "rules_content": content}


# --- the schema -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({}, "members job_id"),
        ({**body(), "extra": 1}, "members job_id"),
        ({**body(), "job_id": ""}, "are text"),
        (body(enabled="yes"), "enabled is true or false"),
        (body(rules={}), "is a list"),
        (body(action="restart"), "notify or cancel"),
        (body({**RULE, "timeout": 3}), r"rules\[0\]: unknown timeout"),
        (body({k: v for k, v in RULE.items() if k != "type"}), "no type"),
        (body({**RULE, "type": "gpu"}), "type is log_pattern"),
        (body({**RULE, "timeout_minutes": "10"}), "timeout_minutes has the wrong type"),
        (body({**RULE, "timeout_minutes": True}), "timeout_minutes has the wrong type"),
        (body({**RULE, "stop_pattern": None}), "stop_pattern has the wrong type"),
        (body({**RULE, "log_pattern": "x" * 257}), "longer than 256"),
        (body(RULE, {**RULE, "log_pattern": "(?=step)"}), r"rules\[1\].log_pattern is not RE2"),
    ],
)
def test_what_the_services_schema_has_not_is_refused(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        request_of(wrong)


def test_what_an_environment_file_says_is_taken() -> None:
    detection = load("observability", folder=FOLDER / "examples").settings.ray.hung_job_detection
    assert detection is not None
    content = content_of(detection)
    request = request_of(body(*content["rules"], action=content["action"], enabled=content["enabled"]))
    assert (len(request.rules), request.action, request.enabled) == (2, "cancel", True)


# --- when a rule fires ------------------------------------------------------------------------------------------------


def fires(rule: dict[str, Any], lines: dict[float, str], *, until: float = 2000) -> float | None:
    """The second at which it does, evaluated each second."""
    watched = Watched(rule={**RULE, **rule}, begun=0.0)
    for second in range(int(until)):
        if (text := lines.get(second)) is not None:
            watched.line(text, second)
        if watched.verdict(second):
            return second
    return None


@pytest.mark.parametrize(
    ("rule", "lines", "expected"),
    [
        ({"timeout_minutes": 1}, {}, None),  # the first line never came, and nothing limits that
        ({"timeout_minutes": 1}, {100: "step 1"}, 161),
        ({"timeout_minutes": 1}, {100: "step 1", 160: "step 2", 200: "no match"}, 221),
        ({"timeout_minutes": 1}, {100: "step x"}, None),
        ({"timeout_minutes": 0.5}, {10: "step 1"}, 41),
        ({"start_timeout_minutes": 2}, {}, 121),
        ({"start_timeout_minutes": 2}, {120: "step 1"}, None),
        ({"start_timeout_minutes": 2, "timeout_minutes": 1}, {119: "step 1"}, 180),
        (
            {"timeout_minutes": 1, "stop_pattern": "all steps done"},
            {100: "step 1", 130: "all steps done: step 1"},
            None,
        ),
        ({"timeout_minutes": 1, "metric_evaluation_data_points": 5}, {100: "step 1"}, 165),
        ({"timeout_minutes": 1, "metric_evaluation_data_points": 5}, {100: "step 1", 163: "step 2"}, 228),
        ({"log_pattern": "OOM|out of memory", "fault_on_match": True}, {7: "CUDA out of memory"}, 7),
        ({"log_pattern": "OOM", "fault_on_match": True}, {}, None),
        ({"timeout_minutes": 1, "enabled": False}, {100: "step 1"}, None),
    ],
)
def test_a_rule_fires_when_its_fields_say(
    rule: dict[str, Any], lines: dict[float, str], expected: float | None
) -> None:
    assert fires(rule, lines) == expected


def test_a_rule_is_off_by_default() -> None:
    watched = Watched(rule={k: v for k, v in RULE.items() if k != "enabled"} | {"fault_on_match": True}, begun=0)
    watched.line("step 1", 0)
    assert watched.verdict(1) == ""


# --- over HTTP, on a file ---------------------------------------------------------------------------------------------


class Host:
    """An agent with one worker's output, and a clock that the test turns."""

    def __init__(self, folder: Path) -> None:
        self.file, self.now = folder / "worker.out", 0.0
        self.file.write_text("")
        self.ended: list[Path] = []
        self.events: list[str] = []
        number = os.getpid()
        self.agent = Agent(
            address=f"127.{number >> 16 & 63 | 128}.{number >> 8 & 255}.{number & 255 or 1}",
            find=lambda worker: self.file if worker == "ab" * 28 else None,
            end_job=self.ended.append,
            note=self.events.append,
            port=0,
            clock=lambda: self.now,
        )
        self.agent.threads = self.agent.threads[:1]  # the test evaluates
        self.agent.start()

    def post(self, content: object, path: str = PATH) -> tuple[int, dict[str, str]]:
        host, port = self.agent.server.server_address[:2]
        request = urllib.request.Request(f"http://{host!s}:{port}{path}", data=json.dumps(content).encode())
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:  # noqa: S310 - loopback
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def write(self, text: str) -> None:
        with self.file.open("a") as stream:
            stream.write(text)

    def at(self, seconds: float) -> None:
        self.now = seconds
        self.agent.look()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path)
    yield made
    made.agent.close()


def test_a_hung_worker_is_ended_and_the_event_is_what_status_reads(host: Host) -> None:
    assert host.post(body({**RULE, "timeout_minutes": 1})) == (200, {})
    host.write("[resilience] step 1\n[resilience] st")
    host.at(10)
    host.write("ep 2\n")
    host.at(50)
    host.at(109)
    assert (host.ended, host.events) == ([], [])
    host.at(111)
    assert host.ended == [host.file]
    (line,) = host.events
    assert "HANG_DETECTED" in line
    found = hang({"logStreamName": "SageMakerHangJobDetectionEvents/workers/i-1", "message": line, "timestamp": 0})
    assert (found.job, found.group, found.instance) == ("01000000", "workers", "i-1")
    assert found.at == datetime.fromtimestamp(0, UTC)
    assert "no line for 61 s, timeout_minutes is 1" in found.text
    host.at(500)
    assert len(host.events) == 1, "the worker is gone"


def test_notify_ends_nothing_and_is_said_once_for_each_hang(host: Host) -> None:
    host.post(body({**RULE, "timeout_minutes": 1}, action="notify"))
    host.write("step 1\n")
    host.at(0)
    for seconds in (61, 70, 80):
        host.at(seconds)
    assert len(host.events) == 1
    host.write("step 2\n")
    host.at(90)
    host.at(200)
    assert (len(host.events), host.ended) == (2, [])


def test_detection_that_is_switched_off_finds_nothing(host: Host) -> None:
    host.post(body({**RULE, "start_timeout_minutes": 1}, enabled=False))
    host.at(500)
    assert host.events == []


def test_a_bad_request_is_refused_in_the_words_that_the_library_shows(host: Host) -> None:
    status, answer = host.post(body({**RULE, "log_pattern": "("}))
    assert (status, set(answer)) == (400, {"error"})
    assert "is not RE2: missing )" in answer["error"]
    assert host.post(body(), path="/other")[0] == 404
    assert host.agent.requests == []


def test_the_picture_needs_no_re2() -> None:
    """Python of the rehearsal environment draws it, and imports this room for that."""
    code = "import sys; sys.modules['re2'] = None; from hyperpod_ray_sandbox.rehearsal import runner, report, faults"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 0, done.stderr
