"""Starts, breaks and ends a real Slurm on loopback. Everything it writes is below one temporary folder."""

from __future__ import annotations

import contextlib
import getpass
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hyperpod_ray_sandbox import leash
from hyperpod_ray_sandbox.rehearsal.ray_hosts import isolation
from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError
from hyperpod_ray_sandbox.rehearsal.slurm import answers
from hyperpod_ray_sandbox.rehearsal.slurm.conf import TIMERS_OF, TUNED, Layout, Timers
from hyperpod_ray_sandbox.rehearsal.slurm.install import found, require

NODES = 4
START_S = 60.0
_GRACE_S = 10.0


class Cluster:
    """A munge daemon, a controller and nodes, each node in a process namespace of its own.

    Args:
        layout: Where everything is.
        mode: How a node is isolated.
        note: Takes a line about what happens.
    """

    def __init__(self, layout: Layout, *, mode: isolation.Mode, note: Callable[[str], None]) -> None:
        self.layout, self.mode, self.note = layout, mode, note
        self.munge: subprocess.Popen[bytes] | None = None
        self.controller: subprocess.Popen[bytes] | None = None
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}

    @classmethod
    def start(
        cls, *, nodes: int = NODES, timers: Timers = TIMERS_OF[TUNED], note: Callable[[str], None] = lambda _: None
    ) -> Cluster:
        """Start everything and wait until all nodes are idle. LocalError where Slurm is not installed."""
        require()
        folder = Path(tempfile.mkdtemp(prefix="slurm-"))
        ports = free_ports(nodes + 1)
        layout = Layout(
            folder=folder, host=socket.gethostname().split(".")[0], user=getpass.getuser(), controller_port=ports[0],
            node_ports=tuple(ports[1:]), timers=timers,
        )  # fmt: skip
        cluster = cls(layout, mode=isolation.choose(), note=note)
        try:
            cluster._begin()
        except BaseException:
            cluster.stop()
            raise
        return cluster

    def _begin(self) -> None:
        began = time.monotonic()
        layout = self.layout
        for path in (layout.folder / "state", layout.shared, *(layout.folder / f"spool-{n}" for n in layout.nodes)):
            path.mkdir()
        layout.conf.write_text(layout.render(), encoding="utf-8")
        layout.munge_key.touch(mode=0o600)
        layout.munge_key.write_bytes(secrets.token_bytes(128))
        self.munge = self._spawn(
            [
                str(found("munged")), "--foreground", "--force", f"--key-file={layout.munge_key}",
                f"--socket={layout.munge_socket}", f"--pid-file={layout.folder}/munged.pid",
                f"--log-file={layout.folder}/munged.log", f"--seed-file={layout.folder}/munged.seed",
                "--num-threads=2",
            ],
            log="munged.out",
        )  # fmt: skip
        self._until(layout.munge_socket.exists, doing="munged starts", log="munged.out")
        self.start_controller()
        for name in layout.nodes:
            self.start_node(name)
        self._until(lambda: len(self.idle()) == len(layout.nodes), doing="all nodes are idle", log="slurmctld.log")
        self.note(f"Slurm is up: {len(layout.nodes)} idle nodes after {time.monotonic() - began:.1f} s")

    # ---- parts ----

    def start_controller(self) -> None:
        """Start slurmctld; it takes up the state that an earlier one left."""
        self.controller = self._spawn([str(found("slurmctld")), "-D", "-f", str(self.layout.conf)], log="slurmctld.out")
        self._until(lambda: "UP" in self.ask("scontrol", "ping"), doing="slurmctld starts", log="slurmctld.log")

    def start_node(self, name: str) -> None:
        """Start a node's slurmd."""
        command = [*isolation.PREFIXES[self.mode], str(found("slurmd")), "-D", "-N", name, "-f", str(self.layout.conf)]
        self.nodes[name] = self._spawn(command, log=f"slurmd-{name}.out", marker=name)

    def kill_node(self, name: str) -> None:
        """End a node at once with everything on it, as a power cut does."""
        process = self.nodes.pop(name)
        isolation.destroy(isolation.Process.of(process.pid), mode=self.mode, marker=self._marker(name))
        process.poll()

    def replace_node(self, name: str) -> None:
        """A new machine under the old name: nothing of the old one is left on it."""
        shutil.rmtree(self.layout.folder / f"spool-{name}", ignore_errors=True)
        (self.layout.folder / f"spool-{name}").mkdir()
        self.start_node(name)
        self.ask("scontrol", "update", f"nodename={name}", "state=resume")

    def kill_controller(self) -> None:
        """End slurmctld at once."""
        assert self.controller is not None  # noqa: S101  (narrowing only)
        self.controller.kill()
        self.controller.wait()

    def members(self, name: str) -> list[int]:
        """Processes of a node, as this system numbers them."""
        root = isolation.Process.of(self.nodes[name].pid)
        return isolation.members(root, mode=self.mode, marker=self._marker(name))

    # ---- Slurm's own commands ----

    def env(self) -> dict[str, str]:
        """Environment that points Slurm's commands at this Slurm."""
        return {"SLURM_CONF": str(self.layout.conf)}

    def ask(self, program: str, *arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
        """What a command prints; empty where it fails, as all do while the controller is away."""
        done = subprocess.run(
            [str(found(program)), *arguments], env={**os.environ, **self.env(), **(env or {})}, capture_output=True,
            text=True, check=False, timeout=120, cwd=cwd,
        )  # fmt: skip
        return done.stdout if done.returncode == 0 else ""

    def states(self) -> dict[str, answers.Node]:
        """All nodes by name."""
        return {node.name: node for node in answers.nodes(self.ask("scontrol", "show", "nodes"))}

    def idle(self) -> list[str]:
        """Names of the nodes a job can be placed on."""
        return [name for name, node in self.states().items() if node.idle]

    def job(self, job: str) -> dict[str, str]:
        """A job, from `scontrol show job`."""
        return answers.fields(self.ask("scontrol", "show", "job", job))

    def nodes_of(self, job: str) -> list[str]:
        """The nodes a job has now, in order."""
        listed = answers.node_list(self.ask("scontrol", "show", "job", job))
        return self.ask("scontrol", "show", "hostnames", listed).split() if listed else []

    # ---- end ----

    def stop(self) -> list[int]:
        """End everything it started, by id, and remove the folder; returns what could not be ended."""
        roots = [isolation.Process.of(process.pid) for process in self.nodes.values()]
        for name in list(self.nodes):
            self.kill_node(name)
        for process in (self.controller, self.munge):
            if process is not None and process.poll() is None:
                process.terminate()
                try:
                    process.wait(timeout=_GRACE_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        shutil.rmtree(self.layout.folder, ignore_errors=True)
        return [root.pid for root in roots if root.alive]

    # ---- inside ----

    def _marker(self, name: str) -> str:
        return f"{self.layout.folder.name}/{name}"

    def _spawn(self, command: Sequence[str], *, log: str, marker: str = "") -> subprocess.Popen[bytes]:
        env = {"PATH": os.environ.get("PATH", ""), "HOME": str(Path.home()), **self.env(), **leash.inherited()}
        if marker:
            env[isolation.MARKER] = self._marker(marker)
        with (self.layout.folder / log).open("ab") as stream:
            return subprocess.Popen(
                command, env=env, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, start_new_session=True
            )

    def _until(self, check: Callable[[], bool], *, doing: str, log: str) -> None:
        deadline = time.monotonic() + START_S
        while not check():
            if time.monotonic() > deadline:
                raise LocalError(
                    f"Slurm: timed out while {doing}: {self.last_line(log)}", expected=f"less than {START_S:g} s",
                    fix="on a slow machine, again; else report the line", code=1,
                )  # fmt: skip
            time.sleep(0.1)

    def last_line(self, log: str) -> str:
        """The end of one of its logs."""
        with contextlib.suppress(OSError):
            lines = (self.layout.folder / log).read_text(encoding="utf-8", errors="replace").splitlines()
            return next((line for line in reversed(lines) if line.strip()), "no line")[-300:]
        return "no line"


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on, all at once so that they differ."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in sockets:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in sockets]
