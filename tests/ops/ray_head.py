"""A real Ray head with token authentication, of a test's own, on loopback."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hyperpod_ray.ops import in_ray
from hyperpod_ray.ops.reach.jobs_api import Jobs
from hyperpod_ray_sandbox import leash
from tests.ops.world import ROOT
from tests.support.ports import free_port

COMMAND = "python main.py 'two words' \"$HOME\" && echo piped | cat"
"""What the pods of a job's own cluster have as its command: quotes, a variable and operators of a shell."""
OWN_RUN = "own-run"
"""Folder of the head's home that is the run folder of such a job."""
RAY = ROOT / ".venv-rehearsal" / "bin" / "ray"
STARTS = 10
"""Ray gives a node 30 s to start (ray/_private/node.py, no setting), too few on a machine that is busy."""


@dataclass(frozen=True)
class Head:
    """Where the dashboard of a Ray head answers, and to whom."""

    url: str
    token: str
    gcs: str = ""
    """Address of the GCS, which further nodes join."""
    home: Path = Path()
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of its nodes, and so of its jobs."""

    @contextlib.contextmanager
    def node(self, number: int, *, cpus: int) -> Iterator[Node]:
        """A worker node on an address of its own, until the end or until it is lost."""
        mark, temp = f"ray-node-{number}-{self.gcs}", tempfile.mkdtemp(prefix="ray-")
        ports = 21000 + 100 * number
        command = [
            *(str(RAY), "start", "--block", f"--address={self.gcs}", f"--node-ip-address=127.0.0.{number}"),
            *("--disable-usage-stats", f"--temp-dir={temp}", f"--num-cpus={cpus}"),
            *(f"--dashboard-agent-listen-port={free_port()}",),
            *(f"--min-worker-port={ports}", f"--max-worker-port={ports + 99}"),
        ]
        process = _start(command, self.home / f"node-{number}.log", mark=mark, token=self.token, **self.variables)
        try:
            yield Node(mark=mark, process=process)
        finally:
            _end(mark, process)
            shutil.rmtree(temp, ignore_errors=True)


@dataclass(frozen=True)
class Node:
    """A node of a Ray cluster: every process with its mark."""

    mark: str
    process: subprocess.Popen[bytes]

    def lose(self) -> None:
        """End every process of it at once, its workers' too."""
        _end(self.mark, self.process)


def _start(command: list[str], log: Path, *, mark: str, token: str, **variables: str) -> subprocess.Popen[bytes]:
    environ = {
        **os.environ,
        leash.VARIABLE: leash.SEPARATOR.join(filter(None, [os.environ.get(leash.VARIABLE, ""), mark])),
        in_ray.COMMAND_VARIABLE: COMMAND,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": token,
        # Ray's own niceness of workers, 15, leaves them a thirtieth of a core beside the rest of the suite
        "RAY_worker_niceness": "0",
        "PATH": f"{RAY.parent}:{os.environ['PATH']}",
        **variables,
    }
    with log.open("w") as stream:
        return subprocess.Popen(command, env=environ, stdout=stream, stderr=stream, start_new_session=True)


def _end(mark: str, process: subprocess.Popen[bytes]) -> None:
    """End what carries a mark. No SIGTERM: `ray start --block` lets that take half a minute."""
    while left := leash.carriers(mark):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.poll()
        time.sleep(0.05)
    process.wait()


@contextlib.contextmanager
def ray_head(home: Path, *, token: str, **variables: str) -> Iterator[Head]:
    """A head with a dashboard. `driver` is a resource of it, as of the driver groups of environments.

    Args:
        home: Folder of the logs.
        token: What the dashboard asks for.
        variables: Environment variables of all of its processes, and so of its jobs.
    """
    if not RAY.exists():
        pytest.fail("Ray is not installed: make rehearsal-env")
    port, gcs, agent = free_port(), free_port(), free_port()
    temp = f"/tmp/r{os.getpid()}-{gcs}"  # short: Ray makes paths of sockets from it
    command = [
        *(str(RAY), "start", "--head", "--block", "--disable-usage-stats", f"--temp-dir={temp}"),
        *("--node-ip-address=127.0.0.1", f"--port={gcs}", f"--dashboard-agent-listen-port={agent}"),
        *("--dashboard-host=127.0.0.1", f"--dashboard-port={port}"),
        *("--num-cpus=1", '--resources={"driver": 1}'),
    ]
    mark, log = f"ray-head-{gcs}", home / "log"
    given, variables = variables, {**variables, in_ray.RUN_FOLDER_VARIABLE: str(home / OWN_RUN)}
    jobs = Jobs(f"http://127.0.0.1:{port}", token=token)

    def started() -> bool:
        """Whether it answers, and its agent, which takes the jobs; False where it has ended meanwhile."""
        end = time.monotonic() + 900
        while process.poll() is None:
            assert time.monotonic() < end, log.read_text()
            with contextlib.suppress(Exception):
                jobs.json("GET", "/api/jobs/")
                socket.create_connection(("127.0.0.1", agent), timeout=60).close()
                return True
            time.sleep(0.1)
        return False

    starts = STARTS
    process = _start(command, log, mark=mark, token=token, **variables)
    try:
        while not started():
            starts -= 1
            assert starts, log.read_text()
            _end(mark, process)
            shutil.rmtree(temp, ignore_errors=True)
            process = _start(command, log, mark=mark, token=token, **variables)
        yield Head(url=f"http://127.0.0.1:{port}", token=token, gcs=f"127.0.0.1:{gcs}", home=home, variables=given)
    finally:
        _end(mark, process)
        shutil.rmtree(temp, ignore_errors=True)
