"""A real Ray head with token authentication, of a test's own, on loopback."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ops import in_ray
from ops.jobs_api import Jobs
from sandbox import leash
from tests.ops.world import ROOT
from tests.support.ports import free_port

COMMAND = "python main.py 'two words' \"$HOME\" && echo piped | cat"
"""What the pods of a job's own cluster have as its command: quotes, a variable and operators of a shell."""
RAY = ROOT / ".venv-rehearsal" / "bin" / "ray"


@dataclass(frozen=True)
class Head:
    """Where the dashboard of a Ray head answers, and to whom."""

    url: str
    token: str


@contextlib.contextmanager
def ray_head(home: Path, *, token: str) -> Iterator[str]:
    """The address of its dashboard. `driver` is a resource of it, as of the driver groups of environments."""
    if not RAY.exists():
        pytest.fail("Ray is not installed: make rehearsal-env")
    port, gcs = free_port(), free_port()
    temp = f"/tmp/r{os.getpid()}-{gcs}"  # short: Ray makes paths of sockets from it
    command = [
        *(str(RAY), "start", "--head", "--block", "--disable-usage-stats", f"--temp-dir={temp}"),
        *("--node-ip-address=127.0.0.1", f"--port={gcs}", f"--dashboard-agent-listen-port={free_port()}"),
        *("--dashboard-host=127.0.0.1", f"--dashboard-port={port}"),
        *("--num-cpus=1", '--resources={"driver": 1}'),
    ]
    mark = f"ray-head-{gcs}"
    environ = {
        **os.environ,
        leash.VARIABLE: leash.SEPARATOR.join(filter(None, [os.environ.get(leash.VARIABLE, ""), mark])),
        in_ray.COMMAND_VARIABLE: COMMAND,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": token,
        "PATH": f"{RAY.parent}:{os.environ['PATH']}",
    }
    with (home / "log").open("w") as log:
        process = subprocess.Popen(command, env=environ, stdout=log, stderr=log, start_new_session=True)
    try:
        jobs = Jobs(f"http://127.0.0.1:{port}", token=token)
        end = time.monotonic() + 180
        while True:
            try:
                jobs.json("GET", "/api/jobs/")
                break
            except Exception:
                assert process.poll() is None, (home / "log").read_text()
                assert time.monotonic() < end, (home / "log").read_text()
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        # no SIGTERM: `ray start --block` lets that take half a minute
        while left := leash.carriers(mark):
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.poll()
            time.sleep(0.05)
        process.wait()
        shutil.rmtree(temp, ignore_errors=True)
