"""Whether nodes of Slurm may be replaced or restarted now, after their jobs, or not at all; and what that costs.

HyperPod's API acts at once and needs no Slurm: right for a node without a job and for a lost one. A reason in Slurm
(`state=fail`) acts when the node's jobs have ended: right for a node that still works.
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-resiliency-slurm-replace-faulty-instance.html
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_BatchReplaceClusterNodes.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hyperpod_ray.ops.errors import BAD_USE, OpsError
from hyperpod_ray.ops.observe.snapshot import REBOOT, REPLACE, Cluster, Instance, Slurm, SlurmJob, SlurmNode, Snapshot
from hyperpod_ray.ops.orchestrators.node_repair import NodeRepair, Verb, When

REASONS: dict[str, str] = {"replace": REPLACE, "reboot": REBOOT}


def judged(
    snapshot: Snapshot, instances: Sequence[Instance], *, verb: Verb, when: When | None, command: str
) -> NodeRepair:
    """The repair that may be done.

    Args:
        snapshot: HyperPod and Slurm.
        instances: The nodes.
        verb: `replace`, `reboot` or `remove`.
        when: What was asked for. None: at once where no job is lost, else refused.
        command: The command line that was given, without `--when`.

    Raises:
        OpsError: It must not be done, or somebody must choose.
    """
    assert snapshot.cluster is not None  # noqa: S101  (instances have a cluster)
    for instance in instances:
        _judge_role(snapshot.cluster, snapshot, instance, verb=verb, when=when, command=command)
    compute = [instance for instance in instances if role(snapshot, instance) == "Compute"]
    nodes = [(instance, snapshot.slurm.of(instance) if snapshot.slurm else None) for instance in compute]
    if when == "after-jobs" and verb == "remove":
        raise OpsError(
            "--when after-jobs: Slurm has a reason that replaces or reboots a node, and none that removes it",
            expected="--when now, on nodes without a job",
            fix=f"on the controller, sudo scontrol update nodename=NAME state=drain reason=remove; when its jobs have "
            f"ended, {command} --when now",
            code=BAD_USE,
        )
    if when == "after-jobs":
        return _after_jobs(snapshot, nodes, verb=verb, command=command)
    if when is None:
        _judge_unasked(snapshot, nodes, verb=verb, command=command)
    return NodeRepair(when="now", instances=tuple(instances), lines=tuple(_costs(snapshot, nodes)))


def role(snapshot: Snapshot, instance: Instance) -> str:
    """Controller, Login or Compute."""
    group = snapshot.group(instance.group)
    return (group.role if group else "") or "Compute"


def _judge_role(
    cluster: Cluster, snapshot: Snapshot, instance: Instance, *, verb: Verb, when: When | None, command: str
) -> None:
    part = role(snapshot, instance)
    if part == "Compute":
        return
    if part == "Controller" and verb != "reboot":
        raise OpsError(
            f"node {instance.id} is the Slurm controller, and HyperPod {verb}s no controller",
            expected="a node of a login or compute group",
            fix=f"restart it: {command.replace(f' {verb} ', ' reboot ', 1)} --when now",
            code=BAD_USE,
        )
    if when == "now":
        return
    loses = (
        "while it restarts, jobs run on and none starts"
        if part == "Controller"
        else "who is logged in there loses the session and what runs in it"
    )
    what = f"node {instance.id} of cluster '{cluster.name}' has the role {part}"
    if when == "after-jobs":
        raise OpsError(
            f"{what}, and Slurm places no job there",
            expected="a compute node with --when after-jobs",
            fix=f"{command} --when now; {loses}",
            code=BAD_USE,
        )
    raise OpsError(f"{what}: {loses}", expected="a choice", fix=f"{command} --when now", code=BAD_USE)


def _after_jobs(
    snapshot: Snapshot, nodes: Sequence[tuple[Instance, SlurmNode | None]], *, verb: Verb, command: str
) -> NodeRepair:
    assert snapshot.cluster is not None  # noqa: S101  (instances have a cluster)
    if snapshot.slurm is None:
        raise OpsError(
            f"Slurm could not be asked: {_why(snapshot)}",
            expected="the Slurm controller to answer: --when after-jobs is its work",
            fix=f"repair the way to it, or {command} --when now",
        )
    if snapshot.cluster.node_recovery != "Automatic":
        raise OpsError(
            f"node recovery: {snapshot.cluster.node_recovery}",
            expected="Automatic: otherwise nothing acts on the node's reason",
            fix=f"set hyperpod.node_recovery: Automatic and deploy, or {command} --when now",
            code=BAD_USE,
        )
    hosts = []
    for instance, node in nodes:
        if node is None:
            raise OpsError(
                f"node {instance.id} is not in Slurm",
                expected="a node that sinfo lists",
                fix=f"{command} --when now",
                code=BAD_USE,
            )
        _judge_under_way(node, command=command)
        hosts.append(node.name)
    lines = [
        f'Slurm takes no new job there: scontrol update nodename={",".join(hosts)} state=fail reason="{REASONS[verb]}"',
        *(f"{host} is repaired after job {', '.join(jobs)}" for host in hosts if (jobs := _ids(snapshot.slurm, host))),
        "until a node is idle again, do not change its state and do not restart slurmctld: the repair can fail",
    ]
    return NodeRepair(
        when="after-jobs", instances=tuple(instance for instance, _ in nodes), hosts=tuple(hosts), lines=tuple(lines)
    )


def _judge_unasked(
    snapshot: Snapshot, nodes: Sequence[tuple[Instance, SlurmNode | None]], *, verb: Verb, command: str
) -> None:
    """Without a choice, nothing may be lost and nothing may be under way."""
    if snapshot.slurm is None and nodes:
        raise OpsError(
            f"which jobs run there is unknown: {_why(snapshot)}",
            expected="the Slurm controller to answer, or a choice",
            fix=f"{command} --when now, which ends the jobs there",
            code=BAD_USE,
        )
    for _, node in nodes:
        if node is None:
            continue
        _judge_under_way(node, command=command)
        if lost := list(_lost(snapshot.slurm or Slurm(), node)):
            raise OpsError(
                f"node {node.name} has work: {'; '.join(lost)}",
                expected="a node without a job" if verb == "remove" else "a choice: after these jobs, or now",
                fix=f"{command} --when now, which ends them"
                if verb == "remove"
                else f"{command} --when after-jobs, or {command} --when now",
                code=BAD_USE,
            )


def _judge_under_way(node: SlurmNode, *, command: str) -> None:
    if node.repaired:
        raise OpsError(
            f"node {node.name} is {node.state} with the reason '{node.reason}': its repair is under way",
            expected="no change until it is idle again: the repair can fail",
            fix=f"wait; as the last resort, {command} --when now",
            code=BAD_USE,
        )


def _costs(snapshot: Snapshot, nodes: Sequence[tuple[Instance, SlurmNode | None]]) -> Iterator[str]:
    if snapshot.slurm is None and nodes:
        yield f"which jobs run there is unknown: {_why(snapshot)}"
    for instance, node in nodes:
        if snapshot.slurm is None:
            continue
        if node is None:
            yield f"{instance.id} is not in Slurm: no job runs there"
            continue
        yield from _lost(snapshot.slurm, node) or [f"{node.name} has no job"]


def _lost(slurm: Slurm, node: SlurmNode) -> list[str]:
    """What each job of a node loses with it."""
    return [_loss(job, node) for job in slurm.on(node.name)]


def _loss(job: SlurmJob, node: SlurmNode) -> str:
    what = f"job {job.id} ({job.name}, {job.user}, {job.elapsed} on {job.nodes} node{'s' if job.nodes > 1 else ''})"
    if job.batch_host == node.name:
        back = "its batch script runs here, so only --requeue brings it back"
    else:
        back = "srun --auto-resume=1 or --requeue brings it back"
    return f"{what} loses its steps since the last checkpoint; {back}"


def _ids(slurm: Slurm, host: str) -> list[str]:
    return [job.id for job in slurm.on(host)]


def _why(snapshot: Snapshot) -> str:
    return next((source.why for source in snapshot.unseen if source.source == "Slurm"), "the controller does not run")
