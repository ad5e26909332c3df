from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from hyperpod_ray_sandbox.aws import process
from tests.sandbox.aws.lifecycle_helpers import objects
from tests.sandbox.aws.process_helpers import local, said
from tests.support.emulator import ROOT, command_lines, until

pytestmark = pytest.mark.emulator


def test_of_two_ups_at_once_one_is_refused(state: Path) -> None:
    both = [local(state, "up", "--seconds-per-state", "0.1") for _ in range(2)]
    texts = [started.communicate(timeout=600)[0] for started in both]
    # the second either finds the first on its way, or finds it running; never two of them
    assert [started.returncode for started in both].count(0) >= 1, texts
    refused = [text for started, text in zip(both, texts, strict=True) if started.returncode]
    assert all("already" in text or "another `up`" in text for text in refused), texts
    assert sum("embedded AWS on" in text for text in texts) == 1, texts
    alive = process.find(state)
    assert alive is not None
    assert "already running" in said(local(state, "up"))
    assert "region us-west-2" in said(local(state, "up", "--region", "eu-west-1"), code=1)


@pytest.mark.slow
def test_down_takes_the_kubernetes_objects_along_and_keeps_the_logs(state: Path) -> None:
    first = process.start(state=state)
    objects(first, "create", "namespace", "survivor")
    text = said(local(state, "down"))
    assert "Kubernetes objects too" in text
    assert str(state) in text
    assert {path.name for path in state.iterdir()} <= {"emulator.log", "kubernetes.log", "up.lock"}
    assert process.marked(state) == []
    second = process.start(state=state)
    names = [item["metadata"]["name"] for item in objects(second, "get", "namespaces")["items"]]
    assert "default" in names
    assert "survivor" not in names
    assert second.secret != first.secret


@pytest.mark.slow
@pytest.mark.parametrize("then", ["up", "down"])
def test_what_a_killed_emulator_left_is_ended(state: Path, then: str) -> None:
    first = process.start(state=state)
    os.kill(first.pid, signal.SIGKILL)
    until(lambda: process.find(state) is None)
    assert first.kubernetes_pid in process.marked(state), "its Kubernetes API lives on"
    text = said(local(state, then))
    assert first.kubernetes_pid not in process.marked(state)
    if then == "down":
        assert "killed" in text
        assert process.marked(state) == []
        assert not (state / "state.json").exists()
    else:
        assert process.find(state) is not None
        assert sum("hyperpod_ray_sandbox.kubernetes.server" in line for line in command_lines(state).values()) == 1


@pytest.mark.slow
def test_a_killed_kubernetes_api_is_named_and_starts_again_with_its_objects(state: Path) -> None:
    first = process.start(state=state)
    objects(first, "create", "namespace", "survivor")
    assert "Kubernetes API: ready" in said(local(state, "status"))
    os.kill(first.kubernetes_pid, signal.SIGKILL)
    until(lambda: states(first) == [process.READY, process.ENDED])
    text = said(local(state, "status"), code=3)
    assert "embedded AWS: ready" in text
    assert "Kubernetes API: ended" in text
    assert f"local repair --state {state}, which keeps what is deployed" in said(local(state, "up"), code=1)
    assert "ended; it runs again" in said(local(state, "repair"))
    again = process.find(state)
    assert again is not None
    assert (again.pid, again.kubernetes) == (first.pid, first.kubernetes)
    names = [entry["metadata"]["name"] for entry in objects(again, "get", "namespaces")["items"]]
    assert "survivor" in names
    assert "already running" in said(local(state, "up"))


def test_the_cache_of_compiled_modules_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "COMPILED_MODULES", 2)
    cache = tmp_path / "node" / "v24"
    cache.mkdir(parents=True)
    for module in ("a", "b"):
        (cache / module).touch()
    process.bound_compile_cache(tmp_path / "node")
    assert sorted(file.name for file in cache.iterdir()) == ["a", "b"]
    (cache / "c").touch()
    process.bound_compile_cache(tmp_path / "node")
    assert not (tmp_path / "node").exists()
    process.bound_compile_cache(tmp_path / "node")


def test_a_shell_keeps_its_home(state: Path) -> None:
    process.start(state=state)
    text = said(local(state, "env"))
    assert "export AWS_ENDPOINT_URL=" in text
    assert "HOME" not in text


def test_a_destroy_that_is_killed_leaves_no_cdk(state: Path, tmp_path: Path) -> None:
    """Its stand-in for cdk would never end by itself."""
    pid_file = tmp_path / "pid"
    (tmp_path / "a" / "cdk.out").mkdir(parents=True)
    cdk = tmp_path / "cdk"
    cdk.write_text(f"#!/bin/sh\necho $$ > {pid_file}.part; mv {pid_file}.part {pid_file}; exec sleep 100000\n")
    cdk.chmod(0o700)
    script = f"""
import pathlib, types
from hyperpod_ray.cli import local_deploy
from hyperpod_ray_sandbox.aws import commands
client = types.SimpleNamespace(environment=dict)
commands.found = lambda state: types.SimpleNamespace(client=client)
local_deploy._rehearsed = lambda env, folder, state: (pathlib.Path({str(tmp_path)!r}) / "a" / "b" / "c.yaml", None)
local_deploy.program = lambda project: pathlib.Path({str(cdk)!r})
local_deploy.project_folder = lambda: pathlib.Path({str(tmp_path)!r})
local_deploy.destroy("dev", folder=pathlib.Path("environments"), state=pathlib.Path({str(state)!r}))
"""
    killed = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT)
    until(lambda: pid_file.exists() or killed.poll() is not None)
    pid = int(pid_file.read_text())
    until(lambda: process._alive(pid, "sleep"))
    killed.kill()
    killed.wait()
    until(lambda: not process._alive(pid, "sleep"))


def test_a_start_that_fails_leaves_nothing(state: Path, tmp_path: Path) -> None:
    nonsense = tmp_path / "kubeconfig"
    nonsense.write_text("{}")
    with pytest.raises(process.StartError, match="no usable cluster"):
        process.start(state=state, kubeconfig=nonsense)
    assert process.marked(state) == []
    assert not (state / "state.json").exists()


def test_a_port_belongs_to_the_first_that_asks(tmp_path: Path) -> None:
    """Before its emulator starts: two that start at the same time never choose the same one."""
    with process._listener(None) as first, process._listener(None) as second:
        taken, other = (one.getsockname()[1] for one in (first, second))
        assert taken != other
        with pytest.raises(
            process.StartError, match=rf"port {taken} of 127\.0\.0\.1 is taken\. Expected a free one\. Fix"
        ):
            process.start(state=tmp_path / "aws", port=taken)
    assert process.marked(tmp_path / "aws") == []


# ignores SIGTERM, and starts another process when it gets one
STUBBORN = "trap 'sleep 600 &' TERM; echo ready; while true; do sleep 0.05; done"


def test_what_takes_no_sigterm_and_what_it_starts_meanwhile_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "PATIENCE_SECONDS", 0.5)
    marked = {**os.environ, process.MARK: str(tmp_path)}
    shell = subprocess.Popen(["bash", "-c", STUBBORN], env=marked, stdout=subprocess.PIPE, text=True)
    assert shell.stdout is not None
    assert shell.stdout.readline() == "ready\n"
    assert process.end_processes(tmp_path) >= 2
    assert process.marked(tmp_path) == []
    shell.stdout.close()


def states(running: process.Running) -> list[str]:
    return [part.state for part in process.parts(running)]


@pytest.mark.slow
def test_a_frozen_kubernetes_api_is_named_and_starts_again_with_its_objects(state: Path) -> None:
    first = process.start(state=state)
    objects(first, "create", "namespace", "survivor")
    os.kill(first.kubernetes_pid, signal.SIGSTOP)
    text = said(local(state, "up"), code=1)
    assert "its Kubernetes API is not answering" in text
    assert f"local repair --state {state}" in text
    assert "not answering; it runs again" in said(local(state, "repair"))
    names = [entry["metadata"]["name"] for entry in objects(first, "get", "namespaces")["items"]]
    assert "survivor" in names
    assert not process._alive(first.kubernetes_pid, "hyperpod_ray_sandbox")


@pytest.mark.slow
def test_a_frozen_embedded_aws_is_named_and_down_ends_it(state: Path) -> None:
    first = process.start(state=state)
    os.kill(first.pid, signal.SIGSTOP)
    text = said(local(state, "status"), code=3)
    assert "embedded AWS: not answering" in text
    fix = f"local down --state {state}, then hyperpod-ray local up --state {state}: what is deployed is lost"
    assert fix in text
    for verb, code in (("up", 1), ("repair", 3)):
        assert fix in said(local(state, verb), code=code)
    assert "stopped" in said(local(state, "down"))
    assert process.marked(state) == []


@pytest.mark.parametrize(
    ("code", "free", "said_so"),
    [
        (1, 1 << 30, "exit code 1\nlast words"),
        (1, 4096, "exit code 1, and {folder} is full\nlast words"),
        (-9, 1 << 30, "killed, as the kernel does where memory is short\nlast words"),
    ],
)
def test_a_start_that_fails_says_what_the_machine_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, free: int, said_so: str
) -> None:
    (tmp_path / "log").write_text("last words\n")
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    assert process._ending(code, tmp_path / "log").strip() == said_so.format(folder=tmp_path)


def test_the_embedded_aws_waits_for_the_api_server_that_starts_beside_it(tmp_path: Path) -> None:
    from hyperpod_ray_sandbox.aws.emulator.server import cluster_of

    record, authority = tmp_path / "server.json", tmp_path / "ca.crt"
    authority.write_text("certificate")
    record.write_text('{"url": "htt')  # half written
    timer = threading.Timer(
        0.2, process.write_private, (record, json.dumps({"url": "https://a", "ca_file": str(authority)}))
    )
    timer.start()
    assert cluster_of(record) == ("https://a", "Y2VydGlmaWNhdGU=")


CARELESS = """
import os, time
print(os.posix_spawn("/bin/true", ["true"], {}, setsid=True), flush=True)
time.sleep(600)
"""


def test_what_has_ended_is_not_waited_for_until_its_parent_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "PATIENCE_SECONDS", 3600)
    parent = subprocess.Popen([sys.executable, "-c", CARELESS], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    until(lambda: not process._alive(pid, "true"))
    os.killpg(pid, 0)  # it has its number still
    process._stop_groups([pid], 3600)
    parent.kill()
    parent.wait()
    parent.stdout.close()
