"""`hyperpod-ray nodes`: list the nodes of an environment, explain their state, act on one."""

from __future__ import annotations

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


app = group(
    "List nodes, explain their state, act on one.",
    examples=["nodes prod", "nodes show prod i-0123456789abcdef0", "nodes drill dev"],
    cls=Listing,
)


@command(app, "list", examples=["nodes list prod", "nodes list prod --group workers -o json"])
def listing(
    env: Env,
    form: Output = Format.table,
    group: Annotated[str, typer.Option(metavar="GROUP", help="Only this instance group.")] = "",
) -> int:
    """List nodes with health, fault, age and replacements."""
    from hyperpod_ray.ops.repair import nodes as verb

    return verb.listing(any_target(env), form=form, group=group)


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
