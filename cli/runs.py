"""`hyperpod-ray runs`: list the jobs of an environment's RayCluster, look at one, stop it."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from cli.options import Env, Listing, Output, Yes, command, group, target
from ops.output import Format

RunName = Annotated[str, typer.Argument(metavar="RUN", help="ID of the run, as `runs list` shows it.")]
Address = Annotated[
    str, typer.Option(metavar="URL", help="Dashboard to use without a port forward. Its token: RAY_AUTH_TOKEN.")
]
State = Literal["", "pending", "running", "succeeded", "failed", "stopped"]

app = group(
    "List the runs of an environment, look at one, stop it.",
    examples=["runs list prod", "runs logs prod job-20261122-101500-0a1b2c --follow"],
    cls=Listing,
)


@command(app, "list", examples=["runs list prod", "runs list prod --state running -o json"])
def listing(
    env: Env,
    form: Output = Format.table,
    state: Annotated[State, typer.Option(metavar="STATE", help="Only runs with this state, such as running.")] = "",
    address: Address = "",
) -> int:
    """List runs, newest first: state, start, duration and command."""
    from ops import runs as verb

    return verb.listing(target(env), form=form, address=address, state=state)


@command(app, examples=["runs show prod job-20261122-101500-0a1b2c"])
def show(env: Env, run: RunName, form: Output = Format.table, address: Address = "") -> int:
    """Show one run and the end of its log. Values of its environment variables are not shown."""
    from ops import runs as verb

    return verb.show(target(env), run, form=form, address=address)


@command(app, examples=["runs logs prod job-20261122-101500-0a1b2c --follow"])
def logs(
    env: Env,
    run: RunName,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue until the run has ended.")] = False,
    address: Address = "",
) -> int:
    """Print the log of a run. With --follow, exits with the run's own exit code."""
    from ops import runs as verb

    return verb.logs(target(env), run, following=follow, address=address)


@command(app, examples=["runs stop prod job-20261122-101500-0a1b2c --yes"])
def stop(env: Env, run: RunName, yes: Yes = False, address: Address = "") -> int:
    """Stop a run and wait until it has ended. Its checkpoints stay."""
    from ops import runs as verb

    return verb.stop(target(env), run, yes=yes, address=address)
