"""A running embedded AWS for tests, and clients that talk to it and to nothing else.

Use: `with running(folder) as emulator: emulator.boto("sagemaker").list_clusters()`. The fixtures in
`tests/sandbox/aws/conftest.py` are thin wrappers; another folder's conftest can wrap `running` the same way.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import botocore.config

from hyperpod_ray_sandbox.aws import client, install, process

ROOT = Path(__file__).resolve().parents[2]
# ends a hang; no test is about it
PATIENCE_SECONDS = 600.0
LONGEST_PAUSE = 0.5
CDK = ROOT / "node_modules" / ".bin" / "cdk"


@dataclass(frozen=True)
class Emulator:
    """One running emulator."""

    running: process.Running

    @property
    def control(self) -> client.Client:
        """Its control plane: faults, failing nodes, quotas, inventory."""
        return self.running.client

    def environment(self) -> dict[str, str]:
        """Return what a command needs, without any AWS settings of the person who runs the tests."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("AWS_") and k != "KUBECONFIG"}
        path = os.pathsep.join([str(ROOT / ".venv" / "bin"), str(install.node().parent), kept.get("PATH", os.defpath)])
        return {**kept, **self.control.environment(), "PATH": path}

    def boto(self, service: str) -> Any:
        """Return a boto3 client that does not retry, so that an injected error is seen once."""
        return boto3.client(
            service,  # type: ignore[call-overload]  # boto3-stubs know services by their literal names
            endpoint_url=self.control.endpoint,
            region_name=self.running.region,
            aws_access_key_id=self.running.account,
            aws_secret_access_key=self.running.secret,
            config=botocore.config.Config(
                retries={"max_attempts": 0}, proxies={}, connect_timeout=PATIENCE_SECONDS, read_timeout=PATIENCE_SECONDS
            ),
        )

    def cdk(self, *arguments: str, cwd: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run the real `cdk` command line; with `check`, show its output where it fails."""
        done = subprocess.run(
            [str(CDK), *arguments], cwd=cwd, env=self.environment(), capture_output=True, text=True, check=False
        )
        if check:
            assert done.returncode == 0, f"cdk {' '.join(arguments)}: exit {done.returncode}\n{_tail(done)}"
        return done


@contextmanager
def running(folder: Path, *, seconds_per_state: float = 0.1, **options: Any) -> Iterator[Emulator]:
    """Start an emulator with its state in a folder, on any free port; stop it at the end whatever happens."""
    if not install.installed():
        install.install(lambda _text: None)
    started = process.start(state=folder, seconds_per_state=seconds_per_state, **options)
    try:
        yield Emulator(started)
    finally:
        process.stop(started, folder)


def until(condition: Callable[[], object], *, seconds: float = PATIENCE_SECONDS, every: float = 0.05) -> Any:
    """Wait for a condition and return what it gave; the limit is no assertion on speed.

    It is asked every so many seconds at first, and less often the longer it takes: what is waited for needs the
    processor too.
    """
    end, pause = time.monotonic() + seconds, every
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(pause)
        pause = min(max(every, LONGEST_PAUSE), pause * 1.1)


def command_lines(state: Path) -> dict[int, str]:
    """The processes of a state folder and their command lines, without those that end while they are read."""
    found = {}
    for pid in process.marked(state):
        with suppress(OSError):
            found[pid] = Path(f"/proc/{pid}/cmdline").read_text()
    return found


def outside(environment: Mapping[str, str]) -> set[str]:
    """Return the hosts other than loopback that an environment's URLs name."""
    return {value for value in environment.values() if "://" in value and "127.0.0.1" not in value}


def _tail(done: subprocess.CompletedProcess[str]) -> str:
    return "\n".join((done.stdout + done.stderr).splitlines()[-40:])
