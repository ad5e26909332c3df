"""`nodes`: what the nodes are, why they are so, and what can be done to one of them."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence

from hyperpod_ray.core.findings import meant
from hyperpod_ray.ops import orchestrators, output
from hyperpod_ray.ops.errors import BAD_USE, OK, OpsError
from hyperpod_ray.ops.observe.node_rows import Row, folded, tone_of
from hyperpod_ray.ops.observe.snapshot import ClusterEvent, Instance, Snapshot
from hyperpod_ray.ops.orchestrators.hyperpod_nodes import unknown_group
from hyperpod_ray.ops.orchestrators.interface import AnyOrchestrator, Nodes
from hyperpod_ray.ops.orchestrators.node_repair import Verb, When
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach.clients import AnyTarget
from hyperpod_ray.ops.reach.tunnel import INSTALL, PLUGIN

WIDE = 100
BATCH = 25
"""Nodes that one BatchReboot or BatchReplace call takes; BatchDelete takes more."""


STATES = (
    "Running", "Failure", "Pending", "ShuttingDown", "SystemUpdating", "DeepHealthCheckInProgress", "NotFound", "gone",
    "Ready", "Ready, cordoned", "NotReady", "unreachable", "not joined",
)  # fmt: skip
"""States that `--state` takes, beside those that a node has now."""
SLURM_STATES = ("idle", "allocated", "mixed", "down", "drained", "draining", "fail", "maint", "reserved", "unknown")


def listing(
    target: AnyTarget, *, form: Format, group: str = "", state: str = "", instance_type: str = "",
    unhealthy: bool = False, each: bool = False,
) -> int:  # fmt: skip
    """List nodes with health, fault, age and how often each place was replaced.

    Args:
        target: The environment.
        form: Of the output; JSON has every node that fits.
        group: Only nodes of this instance group.
        state: Only nodes of which a service says this.
        instance_type: Only nodes of this type.
        unhealthy: Only nodes that cannot take work now.
        each: A line for each of them, however many.
    """
    snapshot = orchestrators.of(target).nodes.look()
    groups = [known.name for known in snapshot.cluster.groups] if snapshot.cluster else []
    if group and group not in groups:
        raise unknown_group(target, groups, group)
    rows = _rows(target, snapshot)
    _refuse(target, rows, state=state, instance_type=instance_type)
    rows = [
        row
        for row in rows
        if (not group or row.group == group)
        and (not instance_type or row.type == instance_type)
        and (not state or state.lower() in map(str.lower, row.states))
        and (not unhealthy or tone_of(row) != "good")
    ]
    if form is Format.json:
        output.write_json("nodes", {"environment": target.name, "nodes": rows, "unseen": snapshot.unseen})
        return OK
    console = output.console(form)
    # the type is known by its group; what is worth the room on a narrow screen is the whole id
    wide = console.width >= WIDE
    lines = rows if each else folded(rows)
    if rows:
        console.print(_orchestrator(target).table(lines, wide=wide))
    else:
        output.log("no such node" if state or instance_type or unhealthy else "no nodes")
    if len(lines) < len(rows):
        output.log(
            f"{len(rows)} nodes in {len(lines)} line{'s' if len(lines) > 1 else ''}; {target.command('nodes')} --all "
            "lists each, --unhealthy those that cannot take work"
        )
    for listed in snapshot.unseen:
        output.log(f"{listed.source} could not be asked: {listed.why}")
    return OK


def _refuse(target: AnyTarget, rows: list[Row], *, state: str, instance_type: str) -> None:
    """Refuse a state or a type that no node can have: an empty list would say that all is well."""
    present = dict.fromkeys(state_of for row in rows for state_of in row.states)
    usual = (*STATES, *(SLURM_STATES if any(row.slurm for row in rows) else ()))
    states = list(dict.fromkeys([*usual, *present]))
    if state and state.lower() not in map(str.lower, states):
        raise OpsError(
            f"--state: no node can be '{state}'",
            expected=f"one of {', '.join(states)}",
            fix=meant(state, states) or target.command("nodes"),
            code=BAD_USE,
        )
    types = list(
        dict.fromkeys(
            [*(name for known in target.plan.groups for name in known.types), *(row.type for row in rows if row.type)]
        )
    )
    if instance_type and instance_type not in types:
        raise OpsError(
            f"--type: the cluster has no {instance_type}",
            expected=f"one of {', '.join(types)}",
            fix=meant(instance_type, types) or target.command("nodes"),
            code=BAD_USE,
        )


def _orchestrator(target: AnyTarget) -> AnyOrchestrator:
    return orchestrators.named(target.plan.settings.orchestrator)


def _rows(target: AnyTarget, seen: Snapshot) -> list[Row]:
    return _orchestrator(target).rows(seen)


# --- one node --------------------------------------------------------------------------------------------------------


def show(target: AnyTarget, node: str, *, form: Format) -> int:
    """Everything known of one node."""
    nodes = orchestrators.of(target).nodes
    instance = nodes.find(node)
    details = nodes.details(instance)
    snapshot = nodes.look()
    row = next(row for row in _rows(target, snapshot) if row.id == instance.id)
    past = _described(nodes, [event for event in snapshot.events if event.instance == instance.id][:10])
    session = nodes.session(instance)
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
        ("name", row.name), ("reason", row.reason), ("jobs", "; ".join(_jobs(snapshot, row))),
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
    for missing in snapshot.unseen:
        output.log(f"{missing.source} could not be asked: {missing.why}")
    _print_events(past, form)
    return OK


def _jobs(seen: Snapshot, row: Row) -> list[str]:
    """The Slurm jobs of a node, with whose they are."""
    jobs = {job.id: job for job in (seen.slurm.jobs if seen.slurm else ())}
    return [f"{one} ({jobs[one].name}, {jobs[one].user}, {jobs[one].state}, {jobs[one].elapsed})" for one in row.jobs]


def _described(nodes: Nodes, listed: list[ClusterEvent]) -> list[ClusterEvent]:
    """Events with their failure messages; only errors are asked for, each by a call of its own."""
    return [nodes.described(event) if event.level != "Info" else event for event in listed]


def events(target: AnyTarget, *, node: str = "", group: str = "", limit: int = 50, form: Format = Format.table) -> int:
    """Events of the cluster, a group or a node, newest first, with the failure message."""
    nodes = orchestrators.of(target).nodes
    listed = _described(nodes, nodes.events(node=node, group=group, limit=limit))
    if form is Format.json:
        output.write_json("events", {"environment": target.name, "events": listed})
    else:
        _print_events(listed, form)
    return OK


def _print_events(listed: list[ClusterEvent], form: Format) -> None:
    table = output.table("=When (UTC)", "Level", "=Where", "What")
    for event in listed:
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
    return _batch(target, nodes, verb="reboot", when=when, yes=yes)


def replace(target: AnyTarget, nodes: list[str], *, when: When | None = None, yes: bool) -> int:
    """Replace nodes by fresh ones; everything on their disks is lost."""
    return _batch(target, nodes, verb="replace", when=when, yes=yes)


def remove(target: AnyTarget, nodes: list[str], *, when: When | None = None, yes: bool) -> int:
    """Remove nodes for good: their group asks for fewer. The next deploy goes by the file's count again."""
    return _batch(target, nodes, verb="remove", when=when, yes=yes)


def _counts(target: AnyTarget, instances: Sequence[Instance]) -> Iterator[str]:
    """What each group's count must be in the file, so that no deploy brings the nodes back."""
    cluster = orchestrators.of(target).nodes.look().cluster
    scaled = {group.name for group in target.plan.scaled_groups}
    for name, number in Counter(instance.group for instance in instances).items():
        group = next((known for known in cluster.groups if known.name == name), None) if cluster else None
        if group is None or name in scaled:
            continue
        left = max(0, group.target - number)
        yield (
            f"group '{name}' asks for {left} node{'s' if left != 1 else ''} then, and the file says "
            f"{target.plan.group(name).count}: set its count to {left}, or a deploy that changes the cluster brings "
            "nodes back"
        )


def _batch(target: AnyTarget, nodes: list[str], *, verb: Verb, when: When | None, yes: bool) -> int:
    if len(nodes) > BATCH:
        raise OpsError(
            f"{len(nodes)} nodes in one call",
            expected=f"at most {BATCH}",
            fix="give them in several calls",
            code=BAD_USE,
        )
    repairs = orchestrators.of(target).repair
    repair = repairs.planned(nodes, verb=verb, when=when)
    instances, loses = repair.instances, repairs.outcome(verb)
    output.log(f"{verb} {', '.join(f'{i.id} ({i.group}, {i.status})' for i in instances)}")
    for line in (*repair.lines, *(_counts(target, instances) if verb == "remove" else ())):
        output.log(f"  {line}")
    output.log(f"  {loses}" if repair.when == "after-jobs" else f"  what runs there stops; {loses}")
    plural = "s" if len(instances) > 1 else ""
    later = " after their jobs" if repair.when == "after-jobs" else ""
    output.confirm(f"{verb} {len(instances)} node{plural} of '{target.name}'{later}?", yes=yes)
    output.log(repairs.carry_out(repair, verb=verb))
    return OK


def drill(target: AnyTarget, node: str, *, action: str, yes: bool) -> int:
    """Make one worker node faulty on purpose."""
    return orchestrators.of(target).repair.drill(node, action=action, yes=yes)


def free(target: AnyTarget, node: str, *, yes: bool) -> int:
    """Free the pods of a node that is gone for good."""
    return orchestrators.of(target).repair.free(node, yes=yes)


# --- a shell ---------------------------------------------------------------------------------------------------------


def shell(target: AnyTarget, node: str, *, show_only: bool) -> int:
    """Open a Session Manager shell on a node; with `show_only`, print the command instead."""
    nodes = orchestrators.of(target).nodes
    instance = nodes.find(node)
    command = [
        "aws",
        "ssm",
        "start-session",
        "--target",
        nodes.session(instance),
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
