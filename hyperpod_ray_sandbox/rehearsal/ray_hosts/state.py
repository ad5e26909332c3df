"""What is known of a loopback cluster and written down: its pods, ports and folders."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from hyperpod_ray_sandbox.rehearsal.ray_hosts import isolation
from hyperpod_ray_sandbox.rehearsal.ray_hosts.isolation import Process

ROOT = Path(".local") / "ray"
FIRST_HOST = 11  # 127.0.0.11 and up; .10 is the store of the GCS


@dataclass(kw_only=True)
class Pod:
    """One pod: a process tree with its own address.

    Args:
        name: as Kubernetes would name it.
        group: the group of the plan it was made from.
        ip: its loopback address; also stands for the node it runs on.
        pid: the process started for it.
        started: that process's start time in clock ticks (guards against reused ids).
        temp: Ray's temp-dir of this pod.
        agent_port: its dashboard agent's port.
    """

    name: str
    group: str
    ip: str
    pid: int
    started: int
    temp: str
    agent_port: int
    born: float = 0.0
    frozen: bool = False
    deleted_at: float | None = None

    @property
    def process(self) -> Process:
        """Its outermost process."""
        return Process(pid=self.pid, started=self.started)

    @property
    def alive(self) -> bool:
        """Whether its processes exist (frozen counts)."""
        return self.process.alive


@dataclass(kw_only=True)
class State:
    """What is written to `state.json`."""

    name: str
    network: str
    gcs_port: int
    dashboard_port: int
    client_port: int
    mode: isolation.Mode
    max_pods: int
    backend: str | None
    pod_cpus: int = 1
    store: Pod | None = None
    store_port: int = 0
    pods: list[Pod] = field(default_factory=list)
    next_host: int = FIRST_HOST
    env: dict[str, str] = field(default_factory=dict)
    temps: list[str] = field(default_factory=list)
    """Every temp-dir ever made, also of pods that were replaced: their logs may still be wanted until `stop`."""
