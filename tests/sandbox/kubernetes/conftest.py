"""The recording Kubernetes API as a real process, with the real kubectl, the real helm and the Python client against
it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray_sandbox.aws import install
from tests.sandbox.kubernetes.budgets_helpers import namespace  # noqa: F401 - fixtures
from tests.sandbox.kubernetes.forked_server import ForkedServer
from tests.sandbox.kubernetes.runner_helpers import client  # noqa: F401 - fixtures
from tests.support import kubectl
from tests.support.emulator import until

PROJECT = Path(__file__).resolve().parents[3]
PYTHON = PROJECT / ".venv-emulator" / "bin" / "python"
START_SECONDS = 600
PATIENCE_SECONDS = 600.0


def node(name: str, *, group: str = "cpu", gpus: int = 0, taints: list[dict[str, str]] | None = None) -> dict[str, Any]:
    """A Node as HyperPod labels it."""
    room = {"cpu": "16", "memory": "64Gi", "pods": "29"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    labels = {
        "sagemaker.amazonaws.com/instance-group-name": group,
        "sagemaker.amazonaws.com/compute-type": "given",
        "sagemaker.amazonaws.com/node-health-status": "Schedulable",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints or []},
        "status": {"allocatable": room, "capacity": room},
    }


@dataclass
class Cluster:
    """A running server and what talks to it."""

    state: Path
    arguments: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    forked: bool = False
    process: subprocess.Popen[bytes] | ForkedServer | None = None
    server: dict[str, Any] = field(default_factory=dict)

    def start(self) -> None:
        """Start the server and wait for its record."""
        record = self.state / "server.json"
        record.unlink(missing_ok=True)
        arguments = ["--state", str(self.state), *self.arguments]
        if self.forked:
            self.process = ForkedServer(PYTHON, arguments, log=self.state / "log")
        else:
            command = [str(PYTHON), "-m", "hyperpod_ray_sandbox.kubernetes.server", *arguments]
            environment = {**os.environ, **self.environment}
            with (self.state / "log").open("ab") as log:
                self.process = subprocess.Popen(command, cwd=PROJECT, stdout=log, stderr=log, env=environment)
        end = time.monotonic() + START_SECONDS
        while not record.exists():
            assert self.process.poll() is None, (self.state / "log").read_text()
            assert time.monotonic() < end, (self.state / "log").read_text()
            time.sleep(0.05)
        self.server = json.loads(record.read_text())

    def stop(self) -> int:
        """Stop it as a supervisor would; returns its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=600)

    def run(self, *command: str, stdin: str = "", ok: bool = True) -> subprocess.CompletedProcess[str]:
        """Run kubectl or helm; with `ok` a failure fails the test."""
        home = self.state / "home"
        home.mkdir(exist_ok=True)
        environment = {"HOME": str(home), "PATH": os.environ["PATH"], "KUBECONFIG": self.server["kubeconfig"]}
        done = kubectl.run(command[0], command[1:], environment=environment, stdin=stdin)
        if ok:
            assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
        return done

    def kubectl(self, *arguments: str, stdin: str = "", ok: bool = True) -> subprocess.CompletedProcess[str]:
        """Run kubectl."""
        return self.run("kubectl", *arguments, stdin=stdin, ok=ok)

    def helm(self, *arguments: str, ok: bool = True) -> subprocess.CompletedProcess[str]:
        """Run helm."""
        return self.run("helm", *arguments, ok=ok)

    def apply(self, *objects: dict[str, Any]) -> None:
        """Apply objects."""
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))

    def get(self, *what: str) -> Any:
        """`kubectl get … -o json`."""
        return json.loads(self.kubectl("get", *what, "-o", "json").stdout)

    def post(self, path: str, body: Any, method: str = "POST") -> Any:
        """Call one of the rehearsal hooks."""
        import ssl

        request = urllib.request.Request(  # noqa: S310
            self.server["url"] + path,
            data=json.dumps(body).encode() if body is not None else None,
            method=method,
            headers={"Authorization": f"Bearer {self.server['token']}", "Content-Type": "application/json"},
        )
        context = ssl.create_default_context(cafile=self.server["ca_file"])
        with urllib.request.urlopen(request, context=context, timeout=600) as answer:  # noqa: S310
            return json.loads(answer.read())

    def until(self, check: Callable[[], Any], what: str) -> Any:
        """Poll until a check answers something true; the time limit is only there to end a hang."""
        try:
            return until(check, seconds=PATIENCE_SECONDS, every=0.2)
        except AssertionError as error:
            raise AssertionError(f"never: {what}: {error}") from None

    def client(self) -> Any:
        """An ApiClient of the Python `kubernetes` package."""
        import importlib

        kubernetes: Any = importlib.import_module("kubernetes")

        return kubernetes.config.new_client_from_config(self.server["kubeconfig"])


@pytest.fixture(scope="session")
def tools() -> None:
    """Skip, saying why, where the emulator's environment was not installed."""
    if not PYTHON.exists():
        pytest.skip("no .venv-emulator: install hyperpod_ray_sandbox/requirements.txt into it (`make setup`)")
    if not install.installed():  # one process at a time, so that no other finds half of kubectl
        install.install(lambda _text: None)


def _cluster(state: Path, *arguments: str, forked: bool = False) -> Iterator[Cluster]:
    state.mkdir(parents=True, exist_ok=True)
    cluster = Cluster(state, list(arguments), forked=forked)
    cluster.start()
    yield cluster
    if cluster.process is not None and cluster.process.poll() is None:
        cluster.stop()


@pytest.fixture(scope="module")
def cluster(tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A server with three nodes: two with CPUs, one with a GPU."""
    state = tmp_path_factory.mktemp("kubernetes")
    given = state / "nodes.json"
    given.write_text(json.dumps([node("cpu-1"), node("cpu-2"), node("gpu-1", group="gpu", gpus=1)]))
    yield from _cluster(state, "--static-nodes", str(given), "--time-scale", "0.02", forked=True)


@pytest.fixture
def empty(tools: None, tmp_path: Path) -> Iterator[Cluster]:
    """A server of its own, without nodes, started by the command itself."""
    yield from _cluster(tmp_path / "empty", "--time-scale", "0.02")


@pytest.fixture(scope="session")
def make_cluster() -> type[Cluster]:
    """The class, for tests whose server somebody else starts."""
    return Cluster
