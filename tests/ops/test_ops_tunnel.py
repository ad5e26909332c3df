"""The way to a private Kubernetes API: this program's commands and the AWS CLI's, by a plugin that forwards TCP."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.core.loader import parse
from hyperpod_ray.ops.orchestrators.eks import way as laptop_check
from hyperpod_ray.ops.reach import tunnel
from hyperpod_ray.ops.reach.clients import Kubernetes, Target
from hyperpod_ray_sandbox.aws import paths
from tests.ops.world import ROOT, World, environment_text
from tests.support import session_plugin
from tests.support.emulator import until
from tests.support.ports import free_port
from tests.support.web import web_server

pytestmark = [pytest.mark.emulator, pytest.mark.slow]
HEAD = {"namespace": "ray", "selector": "ray.io/node-type=head", "port": 8265}
ALWAYS = ("--tunnel", "always")


@dataclass
class Laptop:
    """A PATH with the stand-in plugin alone, and a folder in which it writes what it was given."""

    world: World
    folder: Path
    record: Path

    def environ(self, **more: str) -> dict[str, str]:
        environ = self.world.environ(PATH=f"{self.folder}:/usr/bin:/bin", STAND_IN_RECORD=str(self.record), **more)
        environ.pop("KUBECONFIG", None)
        return environ

    def ops(self, *arguments: str, **more: str) -> Any:
        return self.world.process(*arguments, env=self.environ(**more))

    def sessions(self) -> list[Any]:
        """What each start of the plugin was given."""
        files = sorted(self.record.glob("*.json"), key=lambda path: int(path.stem))
        return [json.loads(path.read_text()) for path in files]


@pytest.fixture
def laptop(faults: World, tmp_path: Path) -> Laptop:
    folder, record = tmp_path / "bin", tmp_path / "record"
    folder.mkdir()
    record.mkdir()
    plugin = folder / tunnel.PLUGIN
    plugin.write_text(f"#!/bin/sh\nexec '{sys.executable}' '{session_plugin.__file__}' \"$@\"\n")
    plugin.chmod(0o755)
    return Laptop(world=faults, folder=folder, record=record)


@pytest.fixture
def bridged(faults: World) -> Iterator[None]:
    """A web server behind the head's port 8265."""
    with web_server() as address:
        faults.request("POST", "/rehearsal/bridges", {**HEAD, "to": address})
        yield
    faults.request("DELETE", "/rehearsal/bridges")


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pid: int) -> bool:
    """Whether it ends: what was killed a moment ago may still wait for a processor."""
    until(lambda: not alive(pid))
    return True


def endpoint(world: World) -> tuple[str, str]:
    url = world.client("eks").describe_cluster(name=world.plan.eks_cluster_name)["cluster"]["endpoint"]
    host, _, port = url.removeprefix("https://").partition(":")
    return host, port


def test_connect_through_a_cpu_node_and_its_dashboard(laptop: Laptop, bridged: None) -> None:
    """One session; the forward to the pod goes through it; the token is in no argument; nothing is left."""
    done = laptop.ops(*ALWAYS, "connect", "demo", "--check", "--port", "0")
    assert done.code == 0, done.err
    (session,) = laptop.sessions()
    request = json.loads(session["arguments"][4])
    arn = laptop.world.client("sagemaker").describe_cluster(ClusterName="ray-ops")["ClusterArn"]
    heads = {instance["InstanceId"] for instance in laptop.world.instances() if instance["InstanceGroupName"] == "head"}
    found = re.fullmatch(rf"sagemaker-cluster:{arn.rpartition('/')[2]}_head-(i-[0-9a-f]+)", request["Target"])
    assert found and found[1] in heads
    host, port = endpoint(laptop.world)
    assert request["DocumentName"] == "AWS-StartPortForwardingSessionToRemoteHost"
    assert request["Parameters"] == {"host": [host], "portNumber": [port], "localPortNumber": ["0"]}
    assert "demo" in request["Reason"]
    for secret in (session["session"]["TokenValue"], session["session"]["StreamUrl"]):
        assert secret not in " ".join(session["arguments"])
        assert secret not in done.out + done.err
    assert re.search(rf"kubectl --server https://127\.0\.0\.1:\d+ --tls-server-name {re.escape(host)}", done.out)
    assert gone(session["pid"])


def test_the_aws_cli_calls_the_plugin_the_same_way(laptop: Laptop) -> None:
    """AWS's own client is the judge of the call: the same arguments, the same variable with the same fields."""
    assert laptop.ops(*ALWAYS, "nodes", "demo").code == 0
    (ours,) = laptop.sessions()
    request = json.loads(ours["arguments"][4])
    cli = shutil.which("aws", path=str(paths.VENV / "bin"))
    assert cli, "the AWS CLI is part of the embedded AWS"
    given = [f"{name}={values[0]}" for name, values in request["Parameters"].items()]
    process = subprocess.Popen(
        [cli, "ssm", "start-session", "--target", request["Target"], "--document-name", request["DocumentName"],
         "--reason", request["Reason"], "--parameters", ",".join(given)],
        env=laptop.environ(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if "Waiting for connections" in line:
            break
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert len(laptop.sessions()) == 2, "".join(said)
    theirs = laptop.sessions()[1]
    assert json.loads(theirs["arguments"][4]) == request
    assert [*ours["arguments"][:4], ours["arguments"][5]] == [*theirs["arguments"][:4], theirs["arguments"][5]]
    assert set(ours["session"]) == set(theirs["session"])


def test_a_session_that_ends_is_replaced_and_ctrl_c_ends_it(laptop: Laptop, bridged: None) -> None:
    command = [sys.executable, "-u", "-m", "hyperpod_ray.cli", *ALWAYS, "connect", "demo", "--port", "0"]
    process = subprocess.Popen(
        command, env=laptop.environ(), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        port = int(process.stdout.readline().rpartition(":")[2])
        os.kill(laptop.sessions()[0]["pid"], signal.SIGKILL)
        while "another goes through" not in (line := process.stderr.readline()):
            assert line, "it ended"
        first, second = laptop.sessions()
        local = json.loads(second["arguments"][4])["Parameters"]["localPortNumber"][0]
        assert local != "0", "the same port again: clients have its address"
        assert first["session"]["SessionId"] != second["session"]["SessionId"]
        with socket.create_connection(("127.0.0.1", port), timeout=600) as client:
            client.sendall(b"GET /bytes/5 HTTP/1.0\r\n\r\n")
            assert client.recv(20).startswith(b"HTTP/1.1 200")
        assert alive(second["pid"])
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=600)
        assert process.returncode == 130
        assert "Traceback" not in err
        assert gone(second["pid"])
    finally:
        process.kill()
        process.wait()


def test_a_command_that_is_terminated_leaves_no_plugin(laptop: Laptop, bridged: None) -> None:
    command = [sys.executable, "-u", "-m", "hyperpod_ray.cli", *ALWAYS, "connect", "demo", "--port", "0"]
    process = subprocess.Popen(command, env=laptop.environ(), cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.terminate()
    process.communicate(timeout=600)
    assert process.returncode == 143
    assert gone(laptop.sessions()[0]["pid"])


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"STAND_IN_VERSION": "1.2.497.0"}, "is 1.2.497.0. Expected 1.2.536.0 or newer"),
        ({"STAND_IN_VERSION": "no idea"}, "is no idea"),
        ({"STAND_IN_SILENT": "1"}, "opened no port"),
        ({"PATH": "/usr/bin:/bin"}, "'session-manager-plugin' is not installed"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_plugin_is_said(laptop: Laptop, more: dict[str, str], words: str) -> None:
    environ = {**laptop.environ(), **more}
    done = laptop.world.ops(*ALWAYS, "connect", "demo", "--check", env=environ)
    assert done.code == 1
    assert words in done.err
    assert all(gone(session["pid"]) for session in laptop.sessions())


def test_nodes_that_session_manager_does_not_reach(laptop: Laptop) -> None:
    laptop.world.running.client.set_fault(operation="ssm.StartSession", code="TargetNotConnected", count=-1)
    done = laptop.world.ops(*ALWAYS, "connect", "demo", "--check", env=laptop.environ())
    assert done.code == 1
    assert done.err.count("_head-i-") == 2
    assert "interface endpoints" in done.err
    assert laptop.sessions() == []


def test_another_clusters_api_gets_no_credentials(laptop: Laptop, tmp_path: Path) -> None:
    """A server with a certificate of another authority: the handshake fails, and no request is sent."""
    make = f"import pathlib, hyperpod_ray_sandbox.kubernetes.tls as t; t.make(pathlib.Path({str(tmp_path)!r}))"
    subprocess.run([str(paths.PYTHON), "-c", make], cwd=ROOT, check=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    got: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as other:
        threading.Thread(target=answer_tls, args=(other, context, got), daemon=True).start()
        leads = f"127.0.0.1:{other.getsockname()[1]}"
        done = laptop.world.ops(*ALWAYS, "connect", "demo", "--check", env=laptop.environ(STAND_IN_LEADS_TO=leads))
    assert done.code == 1
    assert "certificate" in done.err.lower()
    assert laptop.sessions(), "the tunnel was open"
    assert b"".join(got) == b""


def answer_tls(server: socket.socket, context: ssl.SSLContext, got: list[bytes]) -> None:
    with contextlib.suppress(OSError):
        while True:
            near, _ = server.accept()
            with contextlib.suppress(OSError), context.wrap_socket(near, server_side=True) as secure:
                got.append(secure.recv(1000))


@pytest.mark.parametrize(("name", "code"), [("kubernetes.default.svc", 0), ("elsewhere.example", 1)])
def test_the_certificate_must_be_the_endpoints(
    laptop: Laptop, monkeypatch: pytest.MonkeyPatch, bridged: None, name: str, code: int
) -> None:
    """By its name, not by 127.0.0.1, for which this server's certificate is good too."""
    host, port = endpoint(laptop.world)
    authority = Kubernetes._eks

    def named(self: Kubernetes) -> tuple[tunnel.Endpoint, str]:
        return tunnel.Endpoint(url=f"https://{name}:{port}", private=True), authority(self)[1]

    monkeypatch.setattr(Kubernetes, "_eks", named)
    environ = laptop.environ(STAND_IN_LEADS_TO=f"{host}:{port}")
    done = laptop.world.ops(*ALWAYS, "connect", "demo", "--check", "--port", "0", env=environ)
    assert done.code == code, done.err
    assert f"--tls-server-name {name}" in done.out or code


# --- without an account ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "private", "answers", "proxied", "through"),
    [
        ("auto", True, False, False, True),
        ("auto", True, True, False, False),
        ("auto", False, False, False, False),
        ("auto", True, False, True, False),
        ("never", True, False, False, False),
        ("always", False, True, True, True),
    ],
)
def test_when_a_tunnel_is_needed(mode: tunnel.Mode, private: bool, answers: bool, proxied: bool, through: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1] if answers else free_port()
        there = tunnel.Endpoint(url=f"https://127.0.0.1:{port}", private=private)
        assert tunnel.needed(mode, there, proxied=proxied) is through


@pytest.mark.parametrize(
    ("public", "answers", "result", "words"),
    [
        (True, False, "ok", "public"),
        (False, True, "ok", "answers from here"),
        (False, False, "warning", "'session-manager-plugin' is not installed"),
    ],
)
def test_preflight_says_how_this_machine_reaches_kubernetes(
    monkeypatch: pytest.MonkeyPatch, public: bool, answers: bool, result: str, words: str
) -> None:
    made = Target(parse(environment_text(), name="demo", path=Path("demo.yaml")))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1] if answers else free_port()
        network = {"endpointPublicAccess": public}
        cluster = {"endpoint": f"https://127.0.0.1:{port}", "resourcesVpcConfig": network}
        monkeypatch.setattr(made.aws, "call", lambda *_, **__: {"cluster": cluster})
        monkeypatch.setenv("PATH", "/nowhere")
        (outcome,) = laptop_check.way(made)
    assert (outcome.result, words in outcome.what) == (result, True), outcome
