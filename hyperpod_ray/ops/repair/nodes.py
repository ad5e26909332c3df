"""`nodes`: what the nodes are, why they are so, and what can be done to one of them."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING, Any

from hyperpod_ray.core import names
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import BAD_USE, OK, OpsError
from hyperpod_ray.ops.observe import gather, hyperpod, slurm
from hyperpod_ray.ops.observe.node_rows import Row, joined
from hyperpod_ray.ops.observe.snapshot import NODES, SOURCES, Cluster, ClusterEvent, Instance, Snapshot
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach.clients import AnyTarget, SlurmTarget, Target
from hyperpod_ray.ops.reach.tunnel import INSTALL, PLUGIN, session_target
from hyperpod_ray.ops.repair import slurm_repair
from hyperpod_ray.ops.repair.slurm_repair import Repair, Verb, When

if TYPE_CHECKING:
    from rich.table import Table

SOURCES = ("HyperPod", "HyperPod events", "Kubernetes", "Slurm")
WIDE = 100
BATCH = 25
"""Nodes that one BatchReboot or BatchReplace call takes."""


def listing(target: AnyTarget, *, form: Format, group: str = "") -> int:
    """List nodes with health, fault, age and how often each place was replaced."""
    cluster = hyperpod.require_cluster(target)
    seen = look(target)
    rows = [row for row in joined(seen) if not group or row.group == group]
    if group and group not in {item.name for item in cluster.groups}:
        raise unknown_group(target, cluster, group)
    if form is Format.json:
        output.write_json("nodes", {"environment": target.name, "nodes": rows, "unseen": seen.unseen})
        return OK
    console = output.console(form)
    # the type is known by its group; what is worth the room on a narrow screen is the whole id
    wide = console.width >= WIDE
    console.print(_slurm_table(rows, wide=wide) if isinstance(target, SlurmTarget) else _table(rows, wide=wide))
    for item in seen.unseen:
        output.log(f"{item.source} could not be asked: {item.why}")
    return OK


def _table(rows: list[Row], *, wide: bool) -> Table:
    table = output.table(
        "=Node", "Group", *(["=Type"] if wide else []), "HyperPod", "Kubernetes", "Fault", ">Age", ">Repl."
    )
    for row in rows:
        seen_as = " ".join(filter(None, [row.kubernetes, _worded(row.health) if row.health != "Schedulable" else ""]))
        kind = [row.type] if wide else []
        number = str(row.replacements or "")
        table.add_row(row.id, row.group, *kind, row.status, seen_as, row.fault, output.age(row.launched), number)
    return table


def _slurm_table(rows: list[Row], *, wide: bool) -> Table:
    """HyperPod's node beside Slurm's, which has another name, a partition, jobs, and a reason why it takes none."""
    table = output.table(
        "=Node", "Group", *(["=Type"] if wide else []), "HyperPod", "=Slurm name", "Slurm", "Partition", "Jobs",
        "Reason", ">Age", *([">Repl."] if wide else []),
    )  # fmt: skip
    for row in rows:
        table.add_row(
            row.id, row.group, *([row.type] if wide else []), row.status, row.name, row.slurm,
            ", ".join(row.partitions), ", ".join(row.jobs), row.reason or row.fault, output.age(row.launched),
            *([str(row.replacements or "")] if wide else []),
        )  # fmt: skip
    return table


def look(target: AnyTarget) -> Snapshot:
    """HyperPod, and Kubernetes or Slurm; an error where HyperPod does not answer, because then no node can be named."""
    seen = gather.snapshot(target, only=SOURCES)
    for item in seen.unseen:
        if item.source == "HyperPod":
            raise OpsError.outcome(item.why, fix=item.next or target.command("status"))
    return seen


def require_kubernetes(seen: Snapshot) -> None:
    """An error where Kubernetes did not answer."""
    for item in seen.unseen:
        if item.source in ("Kubernetes", NODES):
            raise OpsError.outcome(item.why, fix=item.next or "run the command again")


def unknown_group(target: AnyTarget, cluster: Cluster, group: str) -> OpsError:
    """An error that names the groups there are."""
    known = ", ".join(item.name for item in cluster.groups)
    return OpsError(
        f"group: '{group}' is not in cluster '{cluster.name}'",
        expected=f"one of {known}",
        fix=f"hyperpod-ray nodes {target.name}",
        code=BAD_USE,
    )


def _worded(health: str) -> str:
    """The label's value, with a place where a narrow column may fold it."""
    return health.replace("UnschedulablePending", "Unschedulable Pending")


# --- one node --------------------------------------------------------------------------------------------------------


def find(target: AnyTarget, node: str) -> tuple[Cluster, Instance]:
    """The instance that is meant by its ID, its name in Kubernetes or Slurm, or the unique beginning of the ID."""
    cluster = hyperpod.require_cluster(target)
    wanted = names.instance_id(node)
    listed = hyperpod.instances(target)
    exact = [instance for instance in listed if wanted in (instance.id, instance.host)]
    found = exact or [instance for instance in listed if instance.id.startswith(wanted) and len(wanted) > 3]
    if len(found) == 1:
        return cluster, found[0]
    if found:
        raise OpsError(
            f"node: '{node}' fits {', '.join(item.id for item in found)}",
            expected="the id of one node",
            fix="give more of the id",
            code=BAD_USE,
        )
    raise OpsError(
        f"node: '{node}' is not in cluster '{cluster.name}'",
        expected="the id of a node",
        fix=f"hyperpod-ray nodes {target.name}",
        code=BAD_USE,
    )


def show(target: AnyTarget, node: str, *, form: Format) -> int:
    """Everything known of one node."""
    cluster, instance = find(target, node)
    answer = target.aws.call("sagemaker", "describe_cluster_node", ClusterName=cluster.name, NodeId=instance.id)
    details: dict[str, Any] = {key: value for key, value in answer["NodeDetails"].items() if key != "LifeCycleConfig"}
    seen = look(target)
    row = next(row for row in joined(seen) if row.id == instance.id)
    past = described(target, [event for event in seen.events if event.instance == instance.id][:10])
    session = session_target(cluster.arn, group=instance.group, instance=instance.id)
    if form is Format.json:
        output.write_json(
            "node",
            {
                "environment": target.name,
                "node": row,
                "session_manager_target": session,
                "hyperpod": details,
                "events": past,
            },
        )
        return OK
    table = output.table("", "")
    table.show_header = False
    for label, value in (
        ("node", row.id), ("group", row.group), ("type", row.type), ("HyperPod", row.status),
        ("Kubernetes", row.kubernetes),
        ("Slurm", " ".join(filter(None, [row.slurm, *(f"in {name}" for name in row.partitions)]))),
        ("name", row.name), ("reason", row.reason), ("jobs", "; ".join(_described(seen, row))),
        ("health", row.health), ("fault", row.fault),
        ("launched", f"{output.clock(row.launched)} ({output.age(row.launched)})"),
        ("address", details.get("PrivatePrimaryIp", "")),
        ("zone", (details.get("Placement") or {}).get("AvailabilityZoneId", "")),
        ("software", details.get("CurrentImageReleaseVersion", "")), ("Ray pods", ", ".join(row.pods)),
        ("session", session),
    ):  # fmt: skip
        if value:
            table.add_row(label, str(value))
    console = output.console(form)
    console.print(table)
    for item in seen.unseen:
        output.log(f"{item.source} could not be asked: {item.why}")
    _print_events(past, form)
    return OK


def _described(seen: Snapshot, row: Row) -> list[str]:
    """The Slurm jobs of a node, with whose they are."""
    jobs = {job.id: job for job in (seen.slurm.jobs if seen.slurm else ())}
    return [f"{one} ({jobs[one].name}, {jobs[one].user}, {jobs[one].state}, {jobs[one].elapsed})" for one in row.jobs]


def described(target: AnyTarget, events: list[ClusterEvent]) -> list[ClusterEvent]:
    """Events with their failure messages; only errors are asked for, each by a call of its own."""
    return [hyperpod.describe_event(target, event) if event.level != "Info" else event for event in events]


def events(target: AnyTarget, *, node: str = "", group: str = "", limit: int = 50, form: Format = Format.table) -> int:
    """Events of the cluster, a group or a node, newest first, with the failure message."""
    cluster = hyperpod.require_cluster(target)
    filters: dict[str, Any] = {}
    if node:
        filters["NodeId"] = names.instance_id(node)
    if group:
        if group not in {item.name for item in cluster.groups}:
            raise unknown_group(target, cluster, group)
        filters["InstanceGroupName"] = group
    found = described(target, list(hyperpod.events(target, limit=limit, **filters)))
    if form is Format.json:
        output.write_json("events", {"environment": target.name, "events": found})
    else:
        _print_events(found, form)
    return OK


def _print_events(found: list[ClusterEvent], form: Format) -> None:
    table = output.table("=When (UTC)", "Level", "=Where", "What")
    for event in found:
        text = event.description + (f": {event.failure}" if event.failure else "")
        table.add_row(
            event.time.astimezone(output.now().tzinfo).strftime("%m-%d %H:%M:%S"),
            event.level,
            event.instance or event.group or "cluster",
            text,
        )
    output.console(form).print(table)


# --- acting on nodes -------------------------------------------------------------------------------------------------


def reboot(target: AnyTarget, nodes: list[str], *, when: When | None = None, yes: bool) -> int:
    """Restart nodes; names, addresses and disks stay."""
    return _batch(
        target,
        nodes,
        verb="reboot",
        operation="batch_reboot_cluster_nodes",
        loses="node name, address and disks stay; back in 1–10 min",
        when=when,
        yes=yes,
    )


def replace(target: AnyTarget, nodes: list[str], *, when: When | None = None, yes: bool) -> int:
    """Replace nodes by fresh ones; everything on their disks is lost."""
    what = (
        "a new instance with the same name in Slurm starts"
        if isinstance(target, SlurmTarget)
        else "a new instance with a new name and address runs the lifecycle script"
    )
    return _batch(
        target,
        nodes,
        verb="replace",
        operation="batch_replace_cluster_nodes",
        loses=f"EBS and NVMe volumes are destroyed; {what}; "
        f"20–30 min, then the deep health checks where they are on. {names.MOUNT_PATH} is not touched",
        when=when,
        yes=yes,
    )


def _batch(
    target: AnyTarget, nodes: list[str], *, verb: Verb, operation: str, loses: str, when: When | None, yes: bool
) -> int:
    if len(nodes) > BATCH:
        raise OpsError(
            f"{len(nodes)} nodes in one call",
            expected=f"at most {BATCH}",
            fix="give them in several calls",
            code=BAD_USE,
        )
    if when == "after-jobs" and not isinstance(target, SlurmTarget):
        raise OpsError(
            "--when after-jobs: only Slurm knows when a node's jobs end",
            expected="an environment with orchestrator slurm",
            fix="stop the run, then give the command without --when",
            code=BAD_USE,
        )
    found = [find(target, node) for node in nodes]
    cluster = found[0][0]
    instances = list({instance.id: instance for _, instance in found}.values())
    repair = _repair(target, nodes, instances, verb=verb, when=when)
    output.log(f"{verb} {', '.join(f'{i.id} ({i.group}, {i.status})' for i in instances)}")
    for line in repair.lines:
        output.log(f"  {line}")
    output.log(f"  {loses}" if repair.when == "after-jobs" else f"  what runs there stops; {loses}")
    plural = "s" if len(instances) > 1 else ""
    later = " after their jobs" if repair.when == "after-jobs" else ""
    output.confirm(f"{verb} {len(instances)} node{plural} of '{target.name}'{later}?", yes=yes)
    if isinstance(target, SlurmTarget) and repair.when == "after-jobs":
        _by_slurm(target, cluster, repair.hosts, verb=verb)
        return OK
    answer = target.aws.call("sagemaker", operation, ClusterName=cluster.name, NodeIds=[i.id for i in instances])
    failed = answer.get("Failed", [])
    for node in answer.get("Successful", []):
        output.write_line(node)
    if failed:
        why = "; ".join(f"{item['NodeId']}: {item['ErrorCode']} {item['Message']}" for item in failed)
        raise OpsError(
            f"{verb} was refused: {why}",
            expected="HyperPod to accept every node",
            fix=f"hyperpod-ray nodes {target.name}",
        )
    output.log(f"under way; hyperpod-ray wait {target.name} --for {instances[0].group}")
    return OK


def _repair(target: AnyTarget, nodes: list[str], instances: list[Instance], *, verb: Verb, when: When | None) -> Repair:
    """What is done when, and what it costs; on EKS always now."""
    if not isinstance(target, SlurmTarget):
        lines = _riding(target, instances) if isinstance(target, Target) else []
        return Repair(when="now", hosts=(), lines=tuple(lines))
    seen = look(target)
    command = " ".join(["hyperpod-ray", "nodes", verb, target.name, *nodes])
    return slurm_repair.judged(seen, instances, verb=verb, when=when, command=command)


def _by_slurm(target: SlurmTarget, cluster: Cluster, hosts: tuple[str, ...], *, verb: Verb) -> None:
    controller = slurm.controller_of(target, hyperpod.instances(target))
    if controller is None:
        raise OpsError.outcome("the Slurm controller does not run", fix=target.command("status"))
    slurm.update(target, cluster, controller, hosts, reason=slurm_repair.REASONS[verb])
    for host in hosts:
        output.write_line(host)
    output.log(f"asked for; watch it: hyperpod-ray nodes {target.name}")


def _riding(target: Target, instances: list[Instance]) -> list[str]:
    """Which Ray pods sit on the nodes; unknown where Kubernetes does not answer."""
    seen = gather.snapshot(target, only=("Kubernetes",))
    if not seen.saw("Kubernetes"):
        return [f"which pods sit there is unknown: {seen.unseen[0].why}"]
    lines = []
    for instance in instances:
        pods = [f"{pod.name} ({pod.role})" for pod in seen.pods if pod.node == names.node_name(instance.id)]
        lines.append(f"{instance.id} carries {', '.join(pods) if pods else 'no Ray pods'}")
    return lines


def drill(target: Target, node: str, *, action: str, yes: bool) -> int:
    """Rehearse a fault: tell the service that one worker node is to be replaced (or rebooted), as its agent would.

    Sets the label `node-health-status` on the Kubernetes node. Never the head's node, only accelerated nodes, and only
    where node recovery is on.
    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-resiliency-manual.html
    """
    cluster = hyperpod.require_cluster(target)
    if cluster.node_recovery != "Automatic":
        raise OpsError(
            f"node recovery: {cluster.node_recovery}",
            expected="Automatic: otherwise nothing repairs the node",
            fix="set hyperpod.node_recovery: Automatic and deploy",
        )
    seen = look(target)
    require_kubernetes(seen)
    heads = {pod.node for pod in seen.pods if pod.role == "head"}
    workers = [
        instance
        for instance in seen.instances
        if instance.status == "Running"
        and names.node_name(instance.id) not in heads
        and (group := seen.group(instance.group)) is not None
        and group.accelerated
        and any(item.name == names.node_name(instance.id) and item.ready for item in seen.nodes)
    ]
    if node:
        _, wanted = find(target, node)
        if names.node_name(wanted.id) in heads:
            raise OpsError(
                f"node {wanted.id} carries the Ray head",
                expected="a node of the workers",
                fix=f"hyperpod-ray nodes {target.name}",
                code=BAD_USE,
            )
        if wanted.id not in {item.id for item in workers}:
            raise OpsError(
                f"node: {wanted.id}",
                expected="a running, ready, accelerated worker node",
                fix=f"hyperpod-ray nodes {target.name}",
                code=BAD_USE,
            )
        chosen = wanted
    else:
        if not workers:
            raise OpsError(
                "no node for a drill",
                expected="a running, ready, accelerated worker node",
                fix=f"hyperpod-ray nodes {target.name}",
            )
        carrying = {pod.node for pod in seen.pods if pod.role == "worker"}
        # a node that carries a worker makes the better drill; the first by name, so that two runs agree
        chosen = sorted(workers, key=lambda item: (names.node_name(item.id) not in carrying, item.id))[0]
    status = {"replace": names.REPLACE, "reboot": names.REBOOT}[action]
    output.log(f"drill on {chosen.id} ({chosen.group}): label {names.HEALTH_LABEL}={status}")
    for line in _riding(target, [chosen]):
        output.log(f"  {line}")
    output.log(
        "  a running job loses this worker and resumes from its last checkpoint"
        + ("; the node's disks are destroyed" if action == "replace" else "")
    )
    output.confirm(f"Inject the fault on '{target.name}'?", yes=yes)
    path = f"/api/v1/nodes/{names.node_name(chosen.id)}"
    target.kubernetes.patch(path, {"metadata": {"labels": {names.HEALTH_LABEL: status}}})
    output.write_line(chosen.id)
    output.log(
        f"watch it: hyperpod-ray status {target.name}; hyperpod-ray nodes events {target.name} --node {chosen.id}"
    )
    return OK


def free(target: Target, node: str, *, yes: bool) -> int:
    """Free the pods of a node that is gone for good while its Kubernetes object stays, by the out-of-service taint.

    Without it the pods stay Terminating and are never replaced. On a node that still runs, two
    copies of a pod would run: so it is refused unless Kubernetes has not heard of the node.
    """
    target.aws.require_account()
    name = names.node_name(names.instance_id(node))
    seen = look(target)
    require_kubernetes(seen)
    found = next((item for item in seen.nodes if item.name == name), None)
    if found is None:
        raise OpsError(
            f"node: '{name}' is not in Kubernetes",
            expected="the name of a node",
            fix=f"hyperpod-ray nodes {target.name}",
            code=BAD_USE,
        )
    if found.ready:
        raise OpsError(
            f"node {name} answers Kubernetes",
            expected="a lost node: freed pods of a live one run twice",
            fix=f"hyperpod-ray nodes reboot {target.name} {names.instance_id(name)}",
            code=BAD_USE,
        )
    pods = [f"{pod.name} ({pod.role})" for pod in seen.pods if pod.node == name]
    output.log(f"free {name}: not ready since {output.clock(found.since)}; it has {', '.join(pods) or 'no Ray pods'}")
    instance = next((item for item in seen.instances if names.node_name(item.id) == name), None)
    output.log(
        f"  HyperPod says {instance.status if instance else 'it is gone'}; be sure that it does not run any more"
    )
    output.confirm(f"Free the pods of {name}?", yes=yes)
    path = f"/api/v1/nodes/{name}"
    current = target.kubernetes.request("GET", path)
    taints = [taint for taint in current.get("spec", {}).get("taints") or [] if taint["key"] != names.OUT_OF_SERVICE]
    taints.append({"key": names.OUT_OF_SERVICE, "value": names.OUT_OF_SERVICE_VALUE, "effect": "NoExecute"})
    # the version guards against a taint that the node controller sets in between
    version = current["metadata"]["resourceVersion"]
    target.kubernetes.patch(path, {"metadata": {"resourceVersion": version}, "spec": {"taints": taints}})
    output.write_line(name)
    output.log(
        f"its pods go within a minute; should the node come back: kubectl taint node {name} {names.OUT_OF_SERVICE}-"
    )
    return OK


# --- a shell ---------------------------------------------------------------------------------------------------------


def shell(target: AnyTarget, node: str, *, show_only: bool) -> int:
    """Open a Session Manager shell on a node; with `show_only`, print the command instead."""
    cluster, instance = find(target, node)
    command = [
        "aws",
        "ssm",
        "start-session",
        "--target",
        session_target(cluster.arn, group=instance.group, instance=instance.id),
        "--region",
        target.plan.settings.region,
    ]
    if show_only:
        output.write_line(" ".join(command))
        return OK
    for program, where in (
        ("aws", "https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html"),
        (PLUGIN, INSTALL),
    ):
        if shutil.which(program) is None:
            raise OpsError(
                f"'{program}' is not installed",
                expected="it on PATH",
                fix=f"install it ({where}), or add --print to see the command",
            )
    return subprocess.run(command, check=False).returncode
