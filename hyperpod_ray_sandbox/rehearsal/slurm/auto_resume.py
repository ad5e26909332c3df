"""`srun --auto-resume=1` on the rehearsal: a stand-in for HyperPod's plugin, which AWS does not publish.

It does what the guide says of the plugin. When the step ends badly and a node of the job is lost, it waits for the
replacement, takes it into the job's allocation, and starts the same srun again. When no node is lost, it does so at
once. Which nodes are lost is not decided here: HyperPod's health checks do that (`replacement`).

A file `srun` in the PATH of the rehearsal's jobs runs this module; without the option it becomes the real srun.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hyperpod_ray_sandbox.rehearsal.slurm import answers

OPTION = "--auto-resume=1"
MOST_RESTARTS = 6
"""Bad ends that one srun may have; the plugin's own limit is not documented."""
WAIT_S = 600.0
_SETTLE_S = 1.0
_POLL_S = 0.2


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What is known when a step has ended.

    Args:
        code: Exit code of srun.
        restarts: How often it was started again before.
        wanted: Nodes that the job began with, in order.
        has: Nodes that the job has now.
        nodes: All nodes of the cluster.
    """

    code: int
    restarts: int
    wanted: tuple[str, ...]
    has: tuple[str, ...]
    nodes: tuple[answers.Node, ...] = field(default=())


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What to do next.

    Args:
        do: `end`, `wait`, `expand` or `start`.
        node: The node to take into the allocation.
        why: In words, for the job's log.
    """

    do: str
    why: str
    node: str = ""


def decide(observation: Seen) -> Decision:
    """What to do after a step. `wait` and `expand` are followed by another look."""
    if observation.code == 0:
        return Decision(do="end", why="the step succeeded")
    if observation.restarts >= MOST_RESTARTS:
        return Decision(do="end", why=f"the step failed {observation.restarts + 1} times")
    lost = answers.lost(observation.nodes, among=observation.has)
    if lost:
        return Decision(do="wait", why=f"{', '.join(lost)} is lost")
    missing = [name for name in observation.wanted if name not in observation.has]
    if not missing:
        return Decision(do="start", why="all nodes are healthy")
    idle = {node.name for node in observation.nodes if node.idle}
    back = next((name for name in missing if name in idle), None)
    if back is None:
        return Decision(do="wait", why=f"no replacement of {', '.join(missing)} yet")
    return Decision(do="expand", node=back, why=f"{back} was replaced")


class AutoResume:
    """One `srun --auto-resume=1`.

    Args:
        arguments: Of srun, without the option.
        programs: Slurm's own programs by name.
        environ: The batch script's environment.
    """

    def __init__(self, arguments: Sequence[str], *, programs: Mapping[str, str], environ: Mapping[str, str]) -> None:
        self.arguments, self.programs, self.environ = list(arguments), programs, dict(environ)
        self.job = environ["SLURM_JOB_ID"]

    def run(self) -> int:
        """Start srun until it succeeds or nothing helps; its last exit code."""
        node_names = self._nodes()
        restarts = 0
        while True:
            code = subprocess.run([self.programs["srun"], *self.arguments], check=False).returncode
            if code:
                time.sleep(_SETTLE_S)  # a health check needs a moment to notice what the step has noticed
            decision = self._until_start(code, restarts=restarts, node_names=node_names)
            self._log(f"{decision.do}: {decision.why} (srun ended with {code})")
            if decision.do == "end":
                return code
            restarts += 1

    def _until_start(self, code: int, *, restarts: int, node_names: tuple[str, ...]) -> Decision:
        deadline = time.monotonic() + WAIT_S
        reason = ""
        while True:
            observation = Seen(
                code=code, restarts=restarts, wanted=node_names, has=self._nodes() if code else node_names,
                nodes=tuple(answers.nodes(self._ask("scontrol", "show", "nodes"))) if code else (),
            )  # fmt: skip
            decision = decide(observation)
            if decision.do in {"end", "start"}:
                return decision
            if decision.why != reason:
                reason = decision.why
                self._log(f"{decision.do}: {reason}")
            if decision.do == "expand":
                self._expand(decision.node)
            if time.monotonic() > deadline:
                return Decision(do="end", why=f"{decision.why}, after {WAIT_S:g} s")
            time.sleep(_POLL_S)

    def _expand(self, node: str) -> None:
        """Take a node into the job: a job of its own gets it, gives it up, and this one takes what was given up."""
        inner = f'{self.programs["scontrol"]} update jobid="$SLURM_JOB_ID" NumNodes=0'
        self._ask(
            "salloc", "--quiet", "--immediate=30", f"--nodelist={node}", "--nodes=1",
            f"--dependency=expand:{self.job}", "/bin/sh", "-c", inner,
        )  # fmt: skip
        self._ask("scontrol", "update", f"jobid={self.job}", "NumNodes=ALL")

    def _nodes(self) -> tuple[str, ...]:
        """From Slurm, never from SLURM_JOB_NODELIST: it stays as it was when the batch script began."""
        listed = answers.node_list(self._ask("scontrol", "show", "job", self.job))
        return tuple(self._ask("scontrol", "show", "hostnames", listed).split()) if listed else ()

    def _ask(self, program: str, *arguments: str) -> str:
        # the batch script's SLURM_… variables would be options of salloc
        env = {name: value for name, value in self.environ.items() if not name.startswith("SLURM_")}
        env |= {"SLURM_CONF": self.environ["SLURM_CONF"]}
        done = subprocess.run(
            [self.programs[program], *arguments],
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            cwd="/",
        )
        if done.returncode and done.stderr.strip():
            self._log(f"{program}: {done.stderr.strip().splitlines()[-1]}")
        return done.stdout if done.returncode == 0 else ""

    def _log(self, text: str) -> None:
        sys.stderr.write(f"[auto-resume stand-in] {text}\n")
        sys.stderr.flush()


def main(arguments: Sequence[str], *, become: Callable[[str, list[str]], object] = os.execv) -> int:
    """The rehearsal's `srun`. `REHEARSAL_SLURM_PROGRAMS` has the folders of the real ones, by name."""
    programs = dict(pair.split("=", 1) for pair in os.environ["REHEARSAL_SLURM_PROGRAMS"].split(","))
    if OPTION not in arguments:
        become(programs["srun"], ["srun", *arguments])
        return 0
    rest = [argument for argument in arguments if argument != OPTION]
    return AutoResume(rest, programs=programs, environ=os.environ).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
