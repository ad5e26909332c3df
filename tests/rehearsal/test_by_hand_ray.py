"""The commands by hand of `docs/what-happens-when-a-node-dies.md` with a real Ray: `make stories`.

`make test` types the same lines with a stand-in for `ray` (`ray_hosts/test_local_ray_by_hand.py`), and lets Ray's own
command line judge what it is asked (`tests/resilience/test_ray_commands.py`).
"""

from __future__ import annotations

import subprocess

import pytest

from hyperpod_ray_sandbox.rehearsal.ray_hosts.cluster import Cluster
from tests.rehearsal.test_rehearse_cluster import LIMIT_S, PROJECT, commands, left_since, pytestmark, ray_processes
from tests.support.ray_turn import ray_turn

__all__ = ["pytestmark"]


def test_the_commands_by_hand() -> None:
    with ray_turn():
        by_hand()


def by_hand() -> None:
    before = ray_processes()
    others = Cluster.running(project=PROJECT)
    if others:
        pytest.skip(f"another local Ray cluster runs ({', '.join(others)}), and the commands name none")
    seen: list[str] = []
    try:
        for command in commands("ray"):
            done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=LIMIT_S, check=False)
            assert done.returncode == 0, f"{' '.join(command)}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
            seen.append(done.stdout)
    finally:
        for name in set(Cluster.names(project=PROJECT)) - set(others):
            Cluster.load(name=name, project=PROJECT).stop()
    assert "not honoured" in seen[0]
    assert "ray ALIVE" in seen[1]
    assert "gone" in seen[3]
    assert "replaced by" in seen[4]
    assert left_since(before) == set()
