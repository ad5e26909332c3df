"""`connect`: through the API server's port-forward to a real web server, and to a real Ray head."""

from __future__ import annotations

import base64
import contextlib
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from hyperpod_ray.ops.reach import connect
from hyperpod_ray.ops.reach.clients import target
from hyperpod_ray.ops.reach.forward import Forward
from hyperpod_ray_sandbox.aws import paths
from tests.ops.ray_head import RAY, Head
from tests.ops.world import ROOT, World, environment_text
from tests.support.ports import free_port
from tests.support.ray_turn import ray_turn
from tests.support.web import BLOCK, web_server

pytestmark = [pytest.mark.emulator, pytest.mark.slow]

MIB = 2**20
HEAD = {"namespace": "ray", "selector": "ray.io/node-type=head", "port": 8265}


class Connected:
    """`ops connect` as a process of its own, as a person leaves it running."""

    def __init__(self, world: World, *arguments: str) -> None:
        command = [sys.executable, "-u", "-m", "hyperpod_ray.cli", "connect", "demo", *arguments]
        self.process = subprocess.Popen(
            command, env=world.environ(), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.out: list[str] = []
        self.err: list[str] = []

    def lines(self, count: int) -> list[str]:
        assert self.process.stdout is not None
        while len(self.out) < count:
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError(f"ended: {self.process.communicate()}")
            self.out.append(line.rstrip("\n"))
        return self.out

    def said(self, words: str) -> str:
        """Read stderr until a line has these words."""
        assert self.process.stderr is not None
        while True:
            line = self.process.stderr.readline()
            assert line, self.err
            self.err.append(line)
            if words in line:
                return line

    @property
    def port(self) -> int:
        return int(self.lines(1)[0].rpartition(":")[2])

    def end(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=600)
        self.out += out.splitlines()
        self.err.append(err)
        return self.process.returncode


@contextlib.contextmanager
def connected(world: World, *arguments: str) -> Iterator[Connected]:
    made = Connected(world, *arguments)
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def bridged(faults: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """The world, with a real web server behind port 8265 of its head."""
    monkeypatch.setattr(connect, "ANSWER_SECONDS", 900)  # this process serves it, and may be short of processor time
    with web_server() as address:
        faults.request("POST", "/rehearsal/bridges", {**HEAD, "to": address})
        yield faults
    faults.request("DELETE", "/rehearsal/bridges")


def head_of(world: World) -> str:
    """The head pod's name: its last letters are random."""
    (head,) = world.get("/api/v1/namespaces/ray/pods?labelSelector=ray.io/node-type%3Dhead")["items"]
    return str(head["metadata"]["name"])


def get(port: int, path: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request("GET", path)
    return connection.getresponse().read()


def listening(port: int) -> set[str]:
    """Addresses, as /proc writes them, on which something listens at a port."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            host, _, at = line.split()[1].rpartition(":")
            if line.split()[3] == "0A" and int(at, 16) == port:
                found.add(host)
    return found


def test_the_dashboard_on_loopback_with_megabytes_both_ways(bridged: World) -> None:
    with connected(bridged, "--port", "0") as made:
        port = made.port
        assert listening(port) == {"0100007F"}
        body = get(port, f"/bytes/{12 * MIB}")
        assert (len(body), body[: len(BLOCK)]) == (12 * MIB, BLOCK)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        for _ in range(2):  # also over a connection that is kept
            connection.request("POST", "/echo", body=BLOCK * 100)
            assert connection.getresponse().read() == BLOCK * 100
        assert made.end() == 130
        assert "Traceback" not in "".join(made.err)
        assert "closed" in "".join(made.err)
    assert not listening(port)


def test_many_connections_at_once(bridged: World) -> None:
    with connected(bridged, "--port", "0") as made:
        port = made.port
        with ThreadPoolExecutor(150) as pool:
            sizes = list(pool.map(lambda at: len(get(port, f"/bytes/{100_000 + at}")), range(150)))
        assert sizes == [100_000 + at for at in range(150)]
        made.end()
        assert "failed" not in "".join(made.err)


def test_a_new_head_is_found_when_the_old_one_goes(bridged: World) -> None:
    with connected(bridged, "--port", "0") as made:
        port = made.port
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        connection.request("GET", "/hold")
        answer = connection.getresponse()
        assert answer.read(5) == b"begun"
        bridged.request("DELETE", f"/api/v1/namespaces/ray/pods/{head_of(bridged)}")
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            answer.read()
        # nobody has asked for anything since: it is said all the same
        assert "pod ray/ray-head" in made.said("dashboard: ")

        def again() -> bool:
            with contextlib.suppress(OSError, http.client.HTTPException):
                return get(port, "/") == b"ok"
            return False

        bridged.until(again, "the new head")
        made.end()
        assert "Traceback" not in "".join(made.err)
    bridged.settle()


def test_a_pod_that_has_another_name_now(bridged: World, monkeypatch: pytest.MonkeyPatch) -> None:
    head = head_of(bridged)
    names = iter(["ray-head-gone", head])
    for name, value in bridged.environ().items():
        monkeypatch.setenv(name, value)
    kubernetes = target("demo", folder=bridged.folder).kubernetes
    with Forward(kubernetes, namespace="ray", find=lambda: next(names), remote=8265, local=0) as forward:
        assert get(forward.port, "/") == b"ok"
        assert (forward.pod, forward.failure) == (head, "")
        assert forward.news() == f"connections go to pod ray/{head} now"
        assert forward.news() == ""


def test_a_head_that_goes_for_good_is_said_once(bridged: World) -> None:
    path = "/apis/ray.io/v1/namespaces/ray/rayclusters/ray"

    def suspend(value: bool) -> None:
        bridged.request("PATCH", path, {"spec": {"suspend": value}}, content_type="application/merge-patch+json")

    with connected(bridged, "--port", "0") as made:
        port = made.port
        suspend(True)
        try:
            pods = "/api/v1/namespaces/ray/pods?labelSelector=ray.io/cluster%3Dray"
            bridged.until(lambda: not bridged.get(pods)["items"], "the pods' end")
            with pytest.raises((http.client.HTTPException, ConnectionError)):
                get(port, "/")
            made.said("a connection failed: the head of RayCluster 'ray' does not exist")
            assert made.end() == 130
            assert "Traceback" not in "".join(made.err)
            result = bridged.ops("connect", "demo", "--check", "--port", "0")
            assert result.code == 1
            assert "Fix: hyperpod-ray wait demo --for ray" in result.err
        finally:
            suspend(False)
    bridged.settle()


def test_nothing_listens_in_the_pod(faults: World) -> None:
    closed = {"namespace": "ray", "selector": "ray.io/node-type=head", "port": 8265, "to": f"127.0.0.1:{free_port()}"}
    faults.request("POST", "/rehearsal/bridges", closed)
    try:
        _nothing_listens(faults)
    finally:
        faults.request("DELETE", "/rehearsal/bridges")


def _nothing_listens(faults: World) -> None:
    result = faults.ops("connect", "demo", "--check", "--port", "0")
    assert (result.code, result.out) == (1, "")
    found = re.search(r"nothing listens on port 8265 of pod ray/(\S+) \(connection refused\)", result.err)
    assert found, result.err
    assert f"Fix: kubectl -n ray logs {found[1]}" in result.err


def test_a_busy_port_names_its_holder_and_the_next_command(bridged: World) -> None:
    program = "import http.server as h; s = h.HTTPServer(('127.0.0.1', 0), None); print(s.server_port, flush=True); s.serve_forever()"  # noqa: E501
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        port = other.stdout.readline().strip()
        result = bridged.ops("connect", "demo", "--check", "--port", port)
        assert (result.code, result.out) == (1, "")
        assert f"port {port} on 127.0.0.1 cannot be used (Address already in use); " in result.err
        assert f"(pid {other.pid})" in result.err
        command = "hyperpod-ray connect demo --port 0"
        assert f"Fix: {command}\n" in result.err
        other.kill()
    assert bridged.ops(*command.removeprefix("hyperpod-ray ").split(), "--check").code == 0


def test_the_submit_line_holds_no_token(bridged: World) -> None:
    secret = bridged.get("/api/v1/namespaces/ray/secrets/ray")["data"]["auth_token"]
    token = base64.b64decode(secret).decode()
    result = bridged.ops("connect", "demo", "--check", "--port", "0")
    assert result.code == 0, result.err
    assert "ray job submit" in result.out
    assert len(token) > 20
    for text in (token, secret):
        assert text not in result.out + result.err


def test_access_that_is_refused_is_said(bridged: World) -> None:
    fault = {
        "kind": "error",
        "resource": "pods/portforward",
        "status": 403,
        "message": "User cannot get pods/portforward",
    }
    bridged.request("POST", "/rehearsal/faults", fault)
    result = bridged.ops("connect", "demo", "--check", "--port", "0")
    assert result.code == 1
    assert "the Kubernetes API answers 403: User cannot get pods/portforward" in result.err
    assert "Fix: ask for get and create on pods/portforward" in result.err


def test_through_a_kubeconfig_too(bridged: World) -> None:
    env = bridged.environ(KUBECONFIG=bridged.running.kubeconfig)
    assert bridged.ops("connect", "demo", "--check", "--port", "0", env=env).code == 0


# --- Grafana ---------------------------------------------------------------------------------------------------------


def observed(grafana_host: str) -> str:
    """The environment with a Grafana."""
    prometheus = "http://prometheus.prometheus-system.svc:9090"
    return (
        environment_text() + f"  observability: {{grafana_host: '{grafana_host}', prometheus_host: '{prometheus}'}}\n"
    )


@pytest.fixture
def grafana(bridged: World) -> Iterator[World]:
    """Grafana as its chart makes it: a service whose target port is a name."""
    bridged.write(observed("http://prometheus-grafana.prometheus-system.svc:80"))
    namespace, labels = "prometheus-system", {"app.kubernetes.io/name": "grafana"}
    node = next(n for n in bridged.get("/api/v1/nodes")["items"] if "m5" in str(n["metadata"]["labels"]))
    meta = {"namespace": namespace, "name": "prometheus-grafana", "labels": labels}
    box = {"name": "grafana", "image": "grafana", "ports": [{"name": "grafana", "containerPort": 3000}]}
    bridged.apply(
        [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
            {
                "apiVersion": "v1", "kind": "Service", "metadata": meta,
                "spec": {"selector": labels, "ports": [{"name": "http-web", "port": 80, "targetPort": "grafana"}]},
            },
            {
                "apiVersion": "v1", "kind": "Pod", "metadata": meta,
                "spec": {"containers": [box], "nodeName": node["metadata"]["name"]},
            },
        ]
    )  # fmt: skip
    with web_server() as address:
        bridge = {"namespace": namespace, "selector": "app.kubernetes.io/name=grafana", "port": 3000, "to": address}
        bridged.request("POST", "/rehearsal/bridges", bridge)
        bridged.until(
            lambda: (
                bridged.get(f"/api/v1/namespaces/{namespace}/pods/prometheus-grafana")["status"].get("phase")
                == "Running"
            ),
            "Grafana's pod",
        )
        yield bridged
    bridged.request("DELETE", f"/api/v1/namespaces/{namespace}")
    bridged.until(lambda: "metadata" not in bridged.get(f"/api/v1/namespaces/{namespace}"), "the namespace's end")
    bridged.write(environment_text())


def test_grafana_behind_a_service_with_a_named_target_port(grafana: World) -> None:
    with connected(grafana, "--port", "0", "--grafana", "--grafana-port", "0") as made:
        line = made.lines(2)[1]
        assert line.startswith("Grafana ")
        port = int(line.rpartition(":")[2])
        assert listening(port) == {"0100007F"}
        assert len(get(port, f"/bytes/{MIB}")) == MIB
        assert made.end() == 130


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("http://prometheus-grafana.prometheus-system.svc:81", "has no port 81. Expected one of 80"),
        ("http://nope.prometheus-system.svc:80", "no service prometheus-system/nope"),
    ],
)
def test_grafana_that_is_not_there(grafana: World, host: str, words: str) -> None:
    grafana.write(observed(host))
    result = grafana.ops("connect", "demo", "--check", "--port", "0", "--grafana", "--grafana-port", "0")
    assert (result.code, result.out) == (1, "")
    assert words in result.err
    assert "Fix: " in result.err


def test_grafana_outside_the_cluster_needs_no_forwarding(grafana: World) -> None:
    grafana.write(observed("https://grafana.example.com"))
    result = grafana.ops("connect", "demo", "--check", "--port", "0", "--grafana")
    assert result.code == 0
    assert re.search(r"^Grafana +https://grafana.example.com$", result.out, re.M)


def test_busy_port_of_grafana(grafana: World) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        result = grafana.ops("connect", "demo", "--check", "--port", "0", "--grafana", "--grafana-port", port)
    assert result.code == 1
    assert f"(pid {os.getpid()})" in result.err
    assert "Fix: hyperpod-ray connect demo --grafana --grafana-port 0" in result.err


# --- a real Ray -----------------------------------------------------------------------------------------------------


@pytest.fixture
def with_ray(faults: World, ray: Head) -> Iterator[World]:
    """The world, with a real Ray head behind port 8265 of its head."""
    faults.request("POST", "/rehearsal/bridges", {**HEAD, "to": urlsplit(ray.url).netloc})
    yield faults
    faults.request("DELETE", "/rehearsal/bridges")


@pytest.mark.rehearsal
def test_a_job_through_submit_and_through_the_printed_line(with_ray: World, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "train.py").write_text("import sys\nprint('trained', flush=True)\nsys.exit(int(sys.argv[1:] == ['bad']))\n")
    good = with_ray.process("submit", "demo", "--working-dir", str(work), "--", "python", "train.py")
    assert good.code == 0, good.err
    assert "trained" in good.out
    assert "SUCCEEDED" in good.err
    assert with_ray.process("submit", "demo", "--working-dir", str(work), "--", "python", "train.py", "bad").code == 1

    with connected(with_ray, "--port", "0") as made:
        line = made.lines(2)[1].removeprefix("submit").strip()
        tools = f"{RAY.parent}:{paths.KUBECTL_LAYER / 'kubectl'}:{os.environ['PATH']}"
        env = with_ray.environ(KUBECONFIG=with_ray.running.kubeconfig, PATH=tools)
        done = subprocess.run(
            ["bash", "-c", line], env=env, cwd=work, capture_output=True, text=True, timeout=1800, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "trained" in done.stdout + done.stderr


@pytest.mark.rehearsal
def test_the_ray_of_this_machine_behind_the_recorded_head(faults: World, tmp_path: Path) -> None:
    """`hyperpod-ray local ray bridge`: the RayCluster that was deployed, run by `hyperpod-ray local ray start`."""
    name = f"bridge-{os.getpid()}"
    recorded = faults.get("/apis/ray.io/v1/namespaces/ray/rayclusters/ray")
    secret = "/api/v1/namespaces/ray/secrets/ray"
    token = faults.get(secret)["data"]
    manifest = tmp_path / "raycluster.yaml"
    manifest.write_text(yaml.safe_dump({key: recorded[key] for key in ("apiVersion", "kind", "metadata", "spec")}))

    def local(*arguments: str) -> str:
        command = [sys.executable, "-m", "hyperpod_ray.cli", "local", "ray", *arguments]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1800, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    with ray_turn():
        local("start", str(manifest), "--name", name, "--max-pods", "1")
        try:
            assert "port 8265 of the head of RayCluster ray/ray leads to 127." in local(
                "bridge", name, "--state", str(faults.state)
            )
            done = faults.process("submit", "demo", "--", "python", "-c", "print('six times seven is', 6 * 7)")
            assert done.code == 0, done.err
            assert "six times seven is 42" in done.out
            assert faults.ops("connect", "demo", "--check", "--port", "0").code == 0
        finally:
            local("stop", name)
            shutil.rmtree(ROOT / ".local" / "ray" / name)
            faults.request("DELETE", "/rehearsal/bridges")
            # the bridge put its Ray's token into the Secret; other tests reach another Ray
            faults.request("PATCH", secret, {"data": token}, content_type="application/merge-patch+json")
