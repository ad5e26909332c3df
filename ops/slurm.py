"""What the Slurm controller says, asked over Session Manager: `sinfo` and `squeue` in a form that every version has.

A HyperPod node takes no SendCommand: one session runs one command on the controller and prints its answer.
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-run-jobs-slurm-access-nodes.html
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence

from ops.clients import SlurmTarget
from ops.errors import OpsError
from ops.snapshot import Cluster, Instance, Slurm, SlurmJob, SlurmNode
from ops.tunnel import INSTALL, PLUGIN, session_target

MARK = "hyperpod-ray-part"
"""Line between the answers of the one command."""
COMMAND = f"sinfo -h -N -o '%N|%T|%P|%E' && echo {MARK} && squeue -h -o '%i|%j|%u|%T|%M|%D|%R'"
SECONDS = 40
Runner = Callable[[Sequence[str]], str]


def look(
    target: SlurmTarget, cluster: Cluster | None, instances: Sequence[Instance], *, run: Runner | None = None
) -> Slurm | None:
    """Nodes and jobs, as the controller has them; None before there is one.

    Raises:
        OpsError: The controller is not running, the plugin is missing, or Slurm did not answer.
    """
    if cluster is None:
        return None
    group = target.plan.controller.name
    there = [item for item in instances if item.group == group and item.status == "Running"]
    if not there:
        return None
    return parsed((run or _run)(session(target, cluster, there[0], COMMAND)))


def session(target: SlurmTarget, cluster: Cluster, node: Instance, command: str) -> list[str]:
    """The command line that runs a command on a node and prints what it says."""
    place = session_target(cluster.arn, group=node.group, instance=node.id)
    return [
        "aws", "ssm", "start-session", "--region", target.plan.settings.region, "--target", place,
        "--document-name", "AWS-StartNonInteractiveCommand", "--parameters", json.dumps({"command": [command]}),
    ]  # fmt: skip


def _run(command: Sequence[str]) -> str:
    for program, how in (("aws", "install the AWS CLI"), (PLUGIN, f"install it ({INSTALL})")):
        if shutil.which(program) is None:
            raise OpsError(
                f"'{program}' is not installed, and Slurm is asked over Session Manager",
                expected="the AWS CLI and its Session Manager plugin",
                fix=how,
            )
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise OpsError(
            f"no answer within {SECONDS} s", expected="sinfo and squeue to answer", fix="see whether slurmctld runs"
        ) from None
    if MARK not in ended.stdout:
        said = (ended.stderr or ended.stdout).strip().splitlines()
        raise OpsError(
            said[-1][:200] if said else f"exit code {ended.returncode}",
            expected="sinfo and squeue to answer",
            fix="see whether slurmctld runs: sudo systemctl status slurmctld",
        )
    return ended.stdout


def parsed(text: str) -> Slurm:
    """The answers of `COMMAND`; what Session Manager prints around them is skipped."""
    first, _, second = text.partition(MARK)
    nodes: dict[str, SlurmNode] = {}
    for name, state, partition, reason in _rows(first, 4):
        before = nodes.get(name)
        known = before.partitions if before else ()
        nodes[name] = SlurmNode(
            name=name,
            state=state,
            partitions=(*known, partition.rstrip("*")),
            reason="" if reason == "none" else reason,
        )
    jobs = [
        SlurmJob(id=number, name=name, user=user, state=state, elapsed=elapsed, nodes=int(count or 0), where=where)
        for number, name, user, state, elapsed, count, where in _rows(second, 7)
    ]
    return Slurm(nodes=tuple(nodes.values()), jobs=tuple(jobs))


def _rows(text: str, columns: int) -> list[list[str]]:
    """Lines with that many columns; the last column may hold the separator."""
    found = (line.strip().split("|", columns - 1) for line in text.splitlines())
    return [[cell.strip() for cell in row] for row in found if len(row) == columns]
