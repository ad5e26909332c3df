"""`hyperpod-ray nodes`: list the nodes of an environment, explain their state, act on one."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from hyperpod_ray.cli.options import Env, Listing, Output, Yes, any_target, command, group
from hyperpod_ray.ops.output import Format

NodeName = Annotated[str, typer.Argument(metavar="NODE", help="Instance ID (i-…), or its name in Kubernetes or Slurm.")]
When = Annotated[
    Literal["now", "after-jobs"] | None,
    typer.Option(metavar="WHEN", help="On Slurm: now, or after-jobs. Default: now, refused where a job runs."),
]
NodeNames = Annotated[list[str], typer.Argument(metavar="NODE...", help="One or more nodes.")]


class Deep(StrEnum):
    """HyperPod's own checks."""

    stress = "stress"
    connectivity = "connectivity"
    training = "training"


app = group(
    "List nodes, explain their state, act on one.",
    examples=["nodes prod", "nodes show prod i-0123456789abcdef0", "nodes drill dev"],
    cls=Listing,
)


def register(root: typer.Typer) -> None:
    """Add the group to the root."""
    root.add_typer(app, name="nodes")


@command(
    app, "list",
    examples=["nodes list prod", "nodes list prod --group workers -o json", "nodes list prod --unhealthy"],
)  # fmt: skip
def listing(
    env: Env,
    form: Output = Format.table,
    *,
    group: Annotated[str, typer.Option(metavar="GROUP", help="Only this instance group.")] = "",
    state: Annotated[str, typer.Option(metavar="STATE", help="Only this state, of any service.")] = "",
    instance_type: Annotated[str, typer.Option("--type", metavar="TYPE", help="Only this instance type.")] = "",
    unhealthy: Annotated[bool, typer.Option("--unhealthy", help="Only nodes that cannot take work.")] = False,
    each: Annotated[bool, typer.Option("--all", help="A line for each node, however many.")] = False,
) -> int:
    """List nodes with health, fault, age and replacements.

    Above 64 nodes, those in equal states are one line.
    """
    from hyperpod_ray.ops.repair import nodes as verb

    return verb.listing(
        any_target(env), form=form, group=group, state=state, instance_type=instance_type, unhealthy=unhealthy,
        each=each,
    )  # fmt: skip


@command(app, examples=["nodes show prod i-0123456789abcdef0"])
def show(env: Env, node: NodeName, form: Output = Format.table) -> int:
    """Show one node in HyperPod, and in Kubernetes and Ray or in Slurm."""
    from hyperpod_ray.ops.repair import nodes as verb

    return verb.show(any_target(env), node, form=form)


@command(app, examples=["nodes events prod", "nodes events prod --group workers --limit 200"])
def events(
    env: Env,
    node: Annotated[str, typer.Option(metavar="NODE", help="Only of this node.")] = "",
    group: Annotated[str, typer.Option(metavar="GROUP", help="Only of this instance group.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Number of newest events to read.")] = 50,
    form: Output = Format.table,
) -> int:
    """List events of the cluster, newest first."""
    from hyperpod_ray.ops.repair import nodes as verb

    return verb.events(any_target(env), node=node, group=group, limit=limit, form=form)


@command(
    app,
    examples=[
        "nodes check prod", "nodes check prod --picture check.svg", "nodes check prod --node i-0123456789abcdef0",
        "nodes check prod --deep stress --deep connectivity --yes",
    ],
)  # fmt: skip
def check(  # noqa: PLR0917
    env: Env,
    node: Annotated[list[str] | None, typer.Option(metavar="NODE", help="Only this node; repeatable.")] = None,
    seconds: Annotated[float, typer.Option(min=1, max=3600, help="Seconds of matrix work.")] = 60.0,
    storage: Annotated[
        str, typer.Option(metavar="FOLDER", help="Folder of the shared file system, or none. Default: its mount path.")
    ] = "",
    storage_mib: Annotated[int, typer.Option(min=8, max=1_000_000, help="MiB that each node writes and reads.")] = 4096,
    python: Annotated[
        str, typer.Option(metavar="PATH", help="On Slurm: Python with torch, on every node. Default: python3.")
    ] = "python3",
    picture: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the result as SVG into this file.")] = None,
    deep: Annotated[
        list[Deep] | None,
        typer.Option(metavar="CHECK", help="Start HyperPod's own check instead: stress, connectivity or training."),
    ] = None,
    address: Annotated[
        str, typer.Option(metavar="URL", help="Ray's dashboard, as connect prints it. Default: a port forward.")
    ] = "",
    yes: Yes = False,
    form: Output = Format.table,
) -> int:
    """Test the fabric, GPUs, memory and storage of nodes.

    Before the first run and after a repair. It measures nodes whose GPUs no run holds. Exit code 3 when a node is
    faulty, or none is free.
    """
    from hyperpod_ray.ops.acceptance import check as verb
    from hyperpod_ray.ops.orchestrators.node_check import Request

    if deep:
        return verb.deep(any_target(env), deep, nodes=node or [], yes=yes)
    request = Request(
        nodes=tuple(node or ()),
        seconds=seconds,
        storage=storage,
        storage_mib=storage_mib,
        python=python,
        address=address,
    )
    return verb.run(any_target(env), request, form=form, picture=picture)


@command(app, examples=["nodes reboot prod i-0123456789abcdef0"])
def reboot(env: Env, node: NodeNames, when: When = None, yes: Yes = False) -> int:
    """Restart nodes. Names, addresses and disks stay."""
    from hyperpod_ray.ops.repair import nodes as verb

    return verb.reboot(any_target(env), node, when=when, yes=yes)


@command(app, examples=["nodes replace prod i-0123456789abcdef0 --yes"])
def replace(env: Env, node: NodeNames, when: When = None, yes: Yes = False) -> int:
    """Replace nodes by new ones. Their disks are destroyed."""
    from hyperpod_ray.ops.repair import nodes as verb

    return verb.replace(any_target(env), node, when=when, yes=yes)


@command(app, examples=["nodes remove prod i-0123456789abcdef0"])
def remove(env: Env, node: NodeNames, when: When = None, yes: Yes = False) -> int:
    """Remove nodes for good. Their disks are destroyed, and no others come.

    Lower the group's count in the environment file as well: the command says to what.
    """
    from hyperpod_ray.ops.repair import nodes as verb

    return verb.remove(any_target(env), node, when=when, yes=yes)


@command(app, examples=["nodes drill dev", "nodes drill dev --action replace --yes"])
def drill(
    env: Env,
    node: Annotated[str, typer.Option(metavar="NODE", help="A worker node. Default: the command chooses one.")] = "",
    action: Annotated[Literal["reboot", "replace"], typer.Option(help="How HyperPod recovers the node.")] = "reboot",
    yes: Yes = False,
) -> int:
    """Make one worker node faulty, to see recovery work. Never the head's node."""
    from hyperpod_ray.ops.repair import nodes as verb

    return verb.drill(any_target(env), node, action=action, yes=yes)


@command(app, examples=["nodes free prod hyperpod-i-0123456789abcdef0"])
def free(env: Env, node: NodeName, yes: Yes = False) -> int:
    """Force-delete the pods stuck on an unreachable node."""
    from hyperpod_ray.ops.repair import nodes as verb

    return verb.free(any_target(env), node, yes=yes)


@command(app, examples=["nodes shell prod i-0123456789abcdef0", "nodes shell prod i-0123456789abcdef0 --print"])
def shell(
    env: Env,
    node: NodeName,
    show: Annotated[bool, typer.Option("--print", help="Print the command instead of running it.")] = False,
) -> int:
    """Open a Session Manager shell on a node."""
    from hyperpod_ray.ops.repair import nodes as verb

    return verb.shell(any_target(env), node, show_only=show)
