"""A tunnel by itself: the real module and a plugin that forwards TCP, with an account that only records its calls."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from hyperpod_ray.core.loader import parse
from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.reach import tunnel
from tests.ops.world import environment_text
from tests.support import session_plugin

ARN = "arn:aws:sagemaker:us-west-2:000000000001:cluster/abcdefghij12"
TOKEN = "of-nobody"


class Account:
    """Answers what a tunnel asks, and keeps it."""

    def __init__(self, *, refused: dict[str, str] | None = None) -> None:
        self.refused = refused or {}
        self.calls: list[tuple[str, Any]] = []

    def client(self, _service: str) -> Any:
        return SimpleNamespace(meta=SimpleNamespace(endpoint_url="https://ssm.us-west-2.amazonaws.com"))

    def call(self, _service: str, operation: str, **arguments: Any) -> Any:
        if operation == "describe_cluster":
            return {"ClusterArn": ARN}
        self.calls.append((operation, arguments))
        if code := self.refused.get(arguments.get("Target", "")):
            raise ClientError({"Error": {"Code": code, "Message": "no"}}, "StartSession")
        return {"SessionId": f"session-{len(self.calls)}", "TokenValue": TOKEN, "StreamUrl": "wss://nowhere"}

    def pages(self, *_: Any, **__: Any) -> list[Any]:
        nodes = [("a-gpu", "i-1", "Running"), ("head", "i-3", "Pending"), ("head", "i-2", "Running")]
        return [{"InstanceGroupName": g, "InstanceId": i, "InstanceStatus": {"Status": s}} for g, i, s in nodes]

    def ended(self) -> list[str]:
        return [arguments["SessionId"] for operation, arguments in self.calls if operation == "terminate_session"]


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    plugin = tmp_path / tunnel.PLUGIN
    plugin.write_text(f"#!/bin/sh\nexec '{sys.executable}' '{session_plugin.__file__}' \"$@\"\n")
    plugin.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("STAND_IN_RECORD", str(tmp_path))
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    return tmp_path


def made(account: Account, *nodes: str, port: int = 9) -> tunnel.Tunnel:
    return tunnel.Tunnel(
        account,  # type: ignore[arg-type]
        targets=lambda: nodes or ("node-a",), host="127.0.0.1", port=port, region="us-west-2", reason="test",
    )  # fmt: skip


@pytest.fixture
def echo() -> Iterator[int]:
    """A server that says one word to whoever comes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        import threading

        def serve() -> None:
            while True:
                try:
                    near, _ = server.accept()
                except OSError:
                    return
                near.sendall(b"there")
                near.close()

        threading.Thread(target=serve, daemon=True).start()
        yield int(server.getsockname()[1])


def word(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=600) as client:
        return client.recv(100)


def started(record: Path) -> list[Any]:
    files = sorted(record.glob("*.json"), key=lambda path: int(path.stem))
    return [json.loads(path.read_text()) for path in files]


def test_bytes_go_through_and_nothing_is_left(record: Path, echo: int) -> None:
    account = Account()
    opened = made(account, port=echo).open()
    assert word(opened.port) == b"there"
    (session,) = started(record)
    assert TOKEN not in " ".join(session["arguments"])
    assert "AWS_SSM_START_SESSION_RESPONSE" not in os.environ
    opened.close()
    opened.close()
    assert account.ended() == ["session-1"]
    with pytest.raises(ProcessLookupError):
        os.kill(session["pid"], 0)
    with pytest.raises(OSError):
        word(opened.port)


def test_a_session_that_ended_is_ended_and_replaced(record: Path, echo: int) -> None:
    account = Account()
    opened = made(account, port=echo).open()
    port = opened.port
    os.kill(started(record)[0]["pid"], signal.SIGKILL)
    end = time.monotonic() + 600
    while len(started(record)) < 2 or opened._process is None:
        assert time.monotonic() < end
        time.sleep(0.05)
    while True:
        try:
            assert word(port) == b"there"
            break
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.05)
    assert opened.port == port
    opened.close()
    assert account.ended() == ["session-1", "session-3"]


def test_the_next_node_is_tried_and_a_refusal_is_not_hidden(record: Path, echo: int) -> None:
    account = Account(refused={"node-a": "TargetNotConnected"})
    with_next = made(account, "node-a", "node-b", port=echo).open()
    assert with_next.node == "node-b"
    with_next.close()
    with pytest.raises(OpsError, match=r"reaches none of node-a\. Expected nodes that reach ssm and ssmmessages"):
        made(Account(refused={"node-a": "TargetNotConnected"})).open()
    with pytest.raises(OpsError, match="ssm:StartSession on node-a is not allowed"):
        made(Account(refused={"node-a": "AccessDeniedException"}), "node-a", "node-b").open()
    with pytest.raises(OpsError, match="no running node"):
        tunnel.Tunnel(
            Account(),  # type: ignore[arg-type]
            targets=lambda: (), host="h", port=1, region="us-west-2", reason="test",
        ).open()  # fmt: skip


def test_a_plugin_that_opens_nothing_ends_the_session(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_SILENT", "1")
    account = Account()
    with pytest.raises(OpsError, match=r"opened no port: .*Cannot perform start session"):
        made(account).open()
    assert account.ended() == ["session-1"]


def test_a_plugin_that_opens_too_late_is_ended(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opens = "import time; time.sleep(3); print('Port 4567 opened for sessionId x.', flush=True)"
    script = f'[ "$1" = --version ] && echo 1.2.707.0 && exit\nexec "{sys.executable}" -c "{opens}"\n'
    (record / tunnel.PLUGIN).write_text(f"#!/bin/sh\n{script}")
    monkeypatch.setattr(tunnel, "OPEN_SECONDS", 0.2)
    account = Account()
    with pytest.raises(OpsError, match="opened no port: it ended without a word"):
        made(account).open()
    assert account.ended() == ["session-1"]


def test_cpu_nodes_that_run_come_first() -> None:
    # in the order of names, the group with GPUs would be first
    text = environment_text().replace("workers,", "a-gpu,")
    plan = parse(text, name="demo", path=Path("demo.yaml")).plan
    assert tunnel.targets(plan, Account()) == [  # type: ignore[arg-type]
        "sagemaker-cluster:abcdefghij12_head-i-2",
        "sagemaker-cluster:abcdefghij12_a-gpu-i-1",
    ]


def test_the_plugin_ends_as_by_ctrl_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends its session then; SIGKILL would leave the session until it is idle."""
    monkeypatch.setattr(tunnel, "CLOSE_SECONDS", 60)
    mark, account = tmp_path / "mark", Account()
    # a handler of its own: a suite in the background inherits an ignored SIGINT
    code = (
        "import pathlib, signal, sys, time\n"
        "def ended(*_):\n    pathlib.Path(sys.argv[1]).write_text('INT')\n    sys.exit()\n"
        "signal.signal(signal.SIGINT, ended)\nprint('up', flush=True)\ntime.sleep(600)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(mark)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    made = tunnel.Tunnel(account, targets=lambda: [], host="h", port=443, region="us-west-2", reason="r")  # type: ignore[arg-type]
    made._process, made._session = process, "session-1"
    made.close()
    assert process.wait(600) == 0
    assert mark.read_text() == "INT"
    assert account.ended() == ["session-1"]


def test_the_plugin_gets_one_sigint() -> None:
    """A second one would end a plugin that is ending its session."""
    sent: list[int] = []
    process = SimpleNamespace(poll=lambda: None, wait=lambda timeout: 0, send_signal=sent.append)
    made = tunnel.Tunnel(Account(), targets=lambda: [], host="h", port=443, region="us-west-2", reason="r")  # type: ignore[arg-type]
    made._process = process  # type: ignore[assignment]
    made.close()
    made.close()
    assert sent == [signal.SIGINT]
