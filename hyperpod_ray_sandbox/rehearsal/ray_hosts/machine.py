"""What this machine has for a cluster: addresses, ports, the environment with Ray; and waiting."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError
from hyperpod_ray_sandbox.rehearsal.ray_hosts.manifest import ClusterPlan
from hyperpod_ray_sandbox.rehearsal.ray_hosts.state import FIRST_HOST

REHEARSAL_ENV = ".venv-rehearsal"


def rehearsal_bin(*, project: Path) -> Path:
    """The folder with `ray` and `python` of the rehearsal environment.

    Raises:
        LocalError: the environment is missing.
    """
    folder = project / REHEARSAL_ENV / "bin"
    if not (folder / "ray").exists():
        raise LocalError(f"no {REHEARSAL_ENV}", expected="an environment with Ray", fix="make rehearsal-env")
    return folder


def free_port(ip: str, preferred: int = 0) -> int:
    """`preferred` if nothing listens there, else a free one."""
    for port in (preferred, 0):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((ip, port))
            # Ray's GCS listens on every address, so its port must be free on all of them
            if port and any(connects(address, port) for address in ("127.0.0.1", "127.0.0.11", "127.0.1.11")):
                continue
            return int(probe.getsockname()[1])
    raise LocalError(
        f"no free port on {ip}", expected="one", fix="free those of other clusters: hyperpod-ray local ray stop", code=1
    )


def connects(ip: str, port: int) -> bool:
    """Whether something listens there."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((ip, port)) == 0


def wait(check: Callable[[], Any], *, seconds: float, subject: str, every: float = 0.1) -> Any:
    """Poll until `check` gives something true; LocalError (exit 1) naming `subject` after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        if result := check():
            return result
        if time.monotonic() > deadline:
            raise LocalError(
                f"{subject}: not yet",
                expected=f"it within {seconds:g} s",
                fix="run the command again on a quieter machine",
                code=1,
            )
        time.sleep(every)


def write_secret(path: Path) -> None:
    """A new random secret in a file that its owner alone can read."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(secrets.token_hex(32))


def check_version(bin_folder: Path, cluster_plan: ClusterPlan) -> None:
    """The manifest's rayVersion must be the Ray that runs: a snapshot of another version does not load."""
    if cluster_plan.ray_version is None:
        return
    for folder in bin_folder.parent.glob("lib/python*/site-packages/ray-*.dist-info"):
        installed = folder.name.removeprefix("ray-").removesuffix(".dist-info")
        if installed != cluster_plan.ray_version:
            raise LocalError(
                f"Ray {installed} in {REHEARSAL_ENV}",
                expected=f"{cluster_plan.ray_version}, the manifest's rayVersion",
                fix="recreate it: make rehearsal-env",
            )


def free_network() -> str:
    """The first of 127.0.0, 127.0.1, … in which nothing listens on .10 and up."""
    taken = set()
    with contextlib.suppress(OSError):
        for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            address = fields[1].partition(":")[0]  # little-endian hexadecimal
            a, b, c, d = (int(address[i : i + 2], 16) for i in (6, 4, 2, 0))
            if fields[3] == "0A" and a == 127 and d >= FIRST_HOST - 1:
                taken.add(f"127.{b}.{c}")
    return next(f"127.0.{i}" for i in range(256) if f"127.0.{i}" not in taken)
