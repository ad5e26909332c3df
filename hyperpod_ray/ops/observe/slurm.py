"""What the Slurm controller says, asked over Session Manager: `sinfo` and `squeue` in a form that every version has.

A HyperPod node takes no SendCommand: one session runs one command on the controller and prints its answer.
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-run-jobs-slurm-access-nodes.html
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence

from hyperpod_ray.ops.errors import LaptopError, OpsError
from hyperpod_ray.ops.observe.hostlist import expanded
from hyperpod_ray.ops.observe.snapshot import Cluster, Instance, Slurm, SlurmJob, SlurmNode
from hyperpod_ray.ops.reach.clients import SlurmTarget
from hyperpod_ray.ops.reach.tunnel import INSTALL, PLUGIN, session_target

MARK = "hyperpod-ray-part"
"""Line between the answers of the one command."""
DONE = "hyperpod-ray-done"
"""Last line where every part of the command succeeded: the AWS CLI ends with 0 whatever the command did."""
PATH = 'export PATH="$PATH:/opt/slurm/bin"'
"""Where AWS's image has Slurm's commands; a session without a login shell may not have it on its PATH."""
NODES, JOBS = "%N|%o|%T|%P|%E", "%i|%u|%T|%M|%D|%B|%N|%R|%j"
"""Columns of `sinfo -N` and of `squeue`. What people write as they like is last: it may hold the separator."""
COMMAND = f"{PATH}; sinfo -h -N -o '{NODES}' && echo {MARK} && squeue -h -o '{JOBS}' && echo {DONE}"
SESSION = ("Starting session", "Exiting session", "Cannot perform start session")
"""Beginnings of the lines that Session Manager's plugin prints itself."""
SECONDS = 40
CONTROLLER_FIX = "see whether slurmctld runs: sudo systemctl status slurmctld"
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
    controller = controller_of(target, instances)
    if controller is None:
        return None
    return parsed((run or answer)(session(target, cluster, controller, COMMAND)))


def controller_of(target: SlurmTarget, instances: Sequence[Instance]) -> Instance | None:
    """The controller's node where it runs."""
    group = target.plan.controller.name
    return next((instance for instance in instances if instance.group == group and instance.status == "Running"), None)


def session(target: SlurmTarget, cluster: Cluster, node: Instance, command: str) -> list[str]:
    """The command line that runs a command on a node and prints what it says."""
    ssm_target = session_target(cluster.arn, group=node.group, instance=node.id)
    return [
        "aws", "ssm", "start-session", "--region", target.plan.settings.region, "--target", ssm_target,
        "--document-name", "AWS-StartNonInteractiveCommand", "--parameters", json.dumps({"command": [command]}),
    ]  # fmt: skip


def update(
    target: SlurmTarget,
    cluster: Cluster,
    controller: Instance,
    nodes: Sequence[str],
    *,
    reason: str,
    run: Runner | None = None,
) -> None:
    """Ask HyperPod by Slurm to repair nodes when their jobs have ended: `state=fail` takes no new job.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-resiliency-slurm-replace-faulty-instance.html

    Raises:
        OpsError: As `look`; or Slurm refuses.
    """
    (run or answer)(session(target, cluster, controller, update_command(nodes, reason=reason)))


def update_command(nodes: Sequence[str], *, reason: str) -> str:
    """What runs on the controller; only root may change a node."""
    words = ["update", f"nodename={','.join(nodes)}", "state=fail", f"reason={reason}"]
    return f'{PATH}; sudo -n "$(command -v scontrol)" {shlex.join(words)} && echo {DONE}'


def answer(
    command: Sequence[str],
    *,
    seconds: float = SECONDS,
    expectation: str = "Slurm to answer",
    fix: str = CONTROLLER_FIX,
) -> str:
    """What a command on a node prints, `DONE` included.

    Args:
        command: Of `session`.
        seconds: How long it may take.
        expectation: What is expected of the node, for messages.
        fix: What to do where the command failed.

    Raises:
        OpsError: The AWS CLI or its plugin is missing; the command failed, or took too long.
    """
    for program, how in (("aws", "install the AWS CLI"), (PLUGIN, f"install it ({INSTALL})")):
        if shutil.which(program) is None:
            raise LaptopError(
                f"'{program}' is not installed, and the node is asked over Session Manager",
                expected="the AWS CLI and its Session Manager plugin",
                fix=how,
            )
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise OpsError(f"no answer within {seconds:g} s", expected=expectation, fix=fix) from None
    if DONE not in ended.stdout.split():
        raise OpsError(
            said_last(ended.stdout, ended.stderr) or f"exit code {ended.returncode}",
            expected=f"{expectation} over Session Manager",
            fix=fix,
        )
    return ended.stdout


def said_last(printed: str, errors: str) -> str:
    """The last line that is not Session Manager's own; empty where there is none."""
    lines = [line.strip() for line in (printed + "\n" + errors).splitlines()]
    output_lines = [line for line in lines if line and not line.startswith((*SESSION, MARK))]
    return output_lines[-1][:200] if output_lines else ""


def parsed(text: str) -> Slurm:
    """The answers of `COMMAND`; what Session Manager prints around them is skipped."""
    node_text, _, second = text.partition(DONE)[0].partition(MARK)
    nodes: dict[str, SlurmNode] = {}
    for name, address, state, partition, reason in _rows(node_text, NODES):
        before = nodes.get(name)
        partitions = before.partitions if before else ()
        nodes[name] = SlurmNode(
            name=name,
            address=address,
            state=state,
            partitions=(*partitions, partition.rstrip("*")),
            reason="" if reason == "none" else reason,
        )
    jobs = [
        SlurmJob(
            id=number, name=name, user=user, state=state, elapsed=elapsed, nodes=int(count), where=where,
            hosts=expanded(hosts), batch_host="" if batch == "n/a" else batch,
        )
        for number, user, state, elapsed, count, batch, hosts, where, name in _rows(second, JOBS)
        if count.isdecimal()
    ]  # fmt: skip
    return Slurm(nodes=tuple(nodes.values()), jobs=tuple(jobs))


def _rows(text: str, columns: str) -> list[list[str]]:
    """Lines with those columns; the last column may hold the separator."""
    separators = columns.count("|")
    rows = (line.strip().split("|", separators) for line in text.splitlines())
    return [[cell.strip() for cell in row] for row in rows if len(row) == separators + 1]
