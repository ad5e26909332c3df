"""`python -m ops VERB ENV`: day 2 of an environment. Commands are declared here and imported when they run."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from ops.errors import ERROR, INTERRUPTED, OK, OpsError, explain
from ops.output import Format, say

app = typer.Typer(
    name="ops",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Day 2 of an environment: look at it, wait for it, act on its nodes, submit work, take it down.",
    epilog="Exit codes: 0 fine, 1 error, 2 bad use or bad file, 3 condition false, "
    "4 timed out and still going, 130 interrupted.",
)


class NodesGroup(TyperGroup):
    """`nodes ENV` is `nodes list ENV`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `list` in front of what names no command."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args = ["list", *args]
        return super().parse_args(ctx, args)


nodes_app = typer.Typer(
    cls=NodesGroup, no_args_is_help=True, rich_markup_mode=None, help="List nodes, say why they are so, act on one."
)
app.add_typer(nodes_app, name="nodes")


def _complete(incomplete: str) -> list[str]:
    import core  # noqa: PLC0415

    return [name for name in core.names() if name.startswith(incomplete)]


Env = Annotated[
    str,
    typer.Argument(metavar="ENV", help="Environment: the name of a file in environments/.", autocompletion=_complete),
]
Output = Annotated[Format, typer.Option("--output", "-o", help="How data is written to stdout.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
NodeName = Annotated[str, typer.Argument(metavar="NODE", help="Instance id (i-…) or Kubernetes name (hyperpod-i-…).")]


_used: dict[str, Any] = {"environment": "ENV", "folder": None}
"""What the command line said before the verb, and which environment an error is about."""


@app.callback()
def _common(
    folder: Annotated[
        Path | None,
        typer.Option("--environments", help="Read environment files of this folder.", envvar="OPS_ENVIRONMENTS"),
    ] = None,
) -> None:
    _used["folder"] = folder


def _target(name: str) -> Any:
    _used["environment"] = name
    from ops.clients import target  # noqa: PLC0415

    return target(name, folder=_used["folder"])


@app.command()
def status(
    env: Env, form: Output = Format.table, events: Annotated[int, typer.Option(min=0, help="Events shown.")] = 5
) -> int:
    """One screen and a verdict: Healthy, Recovering or Needs you. Exit code 3 unless Healthy."""
    from ops import status as verb  # noqa: PLC0415

    return verb.run(_target(env), form=form, events=events)


@nodes_app.command("list")
def nodes_list(
    env: Env, form: Output = Format.table, group: Annotated[str, typer.Option(help="Only this instance group.")] = ""
) -> int:
    """List nodes with health, fault, age and replacements."""
    from ops import nodes as verb  # noqa: PLC0415

    return verb.listing(_target(env), form=form, group=group)


@nodes_app.command("show")
def nodes_show(env: Env, node: NodeName, form: Output = Format.table) -> int:
    """Everything known of one node."""
    from ops import nodes as verb  # noqa: PLC0415

    return verb.show(_target(env), node, form=form)


@nodes_app.command("events")
def nodes_events(
    env: Env,
    node: Annotated[str, typer.Option(help="Only of this node.")] = "",
    group: Annotated[str, typer.Option(help="Only of this instance group.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Newest events asked for.")] = 50,
    form: Output = Format.table,
) -> int:
    """Events of the cluster, newest first, with the failure message."""
    from ops import nodes as verb  # noqa: PLC0415

    return verb.events(_target(env), node=node, group=group, limit=limit, form=form)


@nodes_app.command("reboot")
def nodes_reboot(
    env: Env, node: Annotated[list[str], typer.Argument(metavar="NODE...", help="One or more nodes.")], yes: Yes = False
) -> int:
    """Restart nodes: names, addresses and disks stay."""
    from ops import nodes as verb  # noqa: PLC0415

    return verb.reboot(_target(env), node, yes=yes)


@nodes_app.command("replace")
def nodes_replace(
    env: Env, node: Annotated[list[str], typer.Argument(metavar="NODE...", help="One or more nodes.")], yes: Yes = False
) -> int:
    """Replace nodes by fresh ones: their disks are destroyed."""
    from ops import nodes as verb  # noqa: PLC0415

    return verb.replace(_target(env), node, yes=yes)


@nodes_app.command("drill")
def nodes_drill(
    env: Env,
    node: Annotated[str, typer.Option(help="This worker node; otherwise one is chosen.")] = "",
    action: Annotated[Literal["reboot", "replace"], typer.Option(help="What the service is told to do.")] = "reboot",
    yes: Yes = False,
) -> int:
    """Inject a fault on one worker node, to see recovery work. Never the head's node."""
    from ops import nodes as verb  # noqa: PLC0415

    return verb.drill(_target(env), node, action=action, yes=yes)


@nodes_app.command("free")
def nodes_free(env: Env, node: NodeName, yes: Yes = False) -> int:
    """Free the pods of a node that is unreachable for good while Kubernetes still lists it."""
    from ops import nodes as verb  # noqa: PLC0415

    return verb.free(_target(env), node, yes=yes)


@nodes_app.command("shell")
def nodes_shell(
    env: Env, node: NodeName, show: Annotated[bool, typer.Option("--print", help="Print the command instead.")] = False
) -> int:
    """Open a Session Manager shell on a node."""
    from ops import nodes as verb  # noqa: PLC0415

    return verb.shell(_target(env), node, show_only=show)


@app.command()
def wait(
    env: Env,
    what: Annotated[
        str, typer.Option("--for", metavar="WHAT", help="cluster, storage, ray, healthy, or an instance group.")
    ] = "healthy",
    timeout: Annotated[
        float, typer.Option(min=0, help="Seconds to wait at most; 0 waits on. Exit code 4 when they are over.")
    ] = 0,
    poll: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 15,
    form: Output = Format.table,
) -> int:
    """Wait until something is as it should be."""
    from ops import wait as verb  # noqa: PLC0415

    return verb.run(_target(env), what=what, timeout=timeout, form=form, poll=poll)


@app.command()
def preflight(
    env: Env,
    offline: Annotated[bool, typer.Option("--offline", help="Only what needs no account.")] = False,
    form: Output = Format.table,
) -> int:
    """Read-only checks before money is spent. Exit code 3 where one failed."""
    from ops import preflight as verb  # noqa: PLC0415

    return verb.run(_target(env), offline=offline, form=form)


@app.command()
def cost(
    env: Env,
    offline: Annotated[bool, typer.Option("--offline", help="Use the dated price file only.")] = False,
    update: Annotated[bool, typer.Option("--update", help="Write today's prices into the price file.")] = False,
    form: Output = Format.table,
) -> int:
    """Dollars per hour and month: groups, storage, EKS and the way out of the network."""
    from ops import cost as verb  # noqa: PLC0415

    return verb.run(_target(env), form=form, offline=offline, update=update)


@app.command()
def teardown(  # noqa: PLR0917
    env: Env,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the inventory and stop.")] = False,
    yes: Yes = False,
    confirm: Annotated[str, typer.Option(metavar="ENV", help="The environment's name, where it is protected.")] = "",
    delete_logs: Annotated[bool, typer.Option("--delete-logs", help="Delete the service's log groups too.")] = False,
    assembly: Annotated[str, typer.Option("--app", metavar="FOLDER", help="Use this synthesized assembly.")] = "",
    poll: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 10,
    form: Output = Format.table,
) -> int:
    """Take the environment down without orphaning anything; go on where an earlier run stopped."""
    from ops import teardown as verb  # noqa: PLC0415

    target = _target(env)
    return verb.run(
        target, form=form, yes=yes, word=confirm, dry_run=dry_run, delete_logs=delete_logs, app=assembly, poll=poll
    )


@app.command()
def logs(  # noqa: PLR0917
    env: Env,
    kind: Annotated[
        Literal["all", "lifecycle", "health-agent", "deep-health-check"], typer.Option(help="Which logs.")
    ] = "all",
    node: Annotated[str, typer.Option(help="Only of this node (also one that is gone).")] = "",
    since: Annotated[str, typer.Option(help="15m, 2h, 3d ago, or a time.")] = "1h",
    until: Annotated[str, typer.Option(help="Likewise; left out: now.")] = "",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    form: Output = Format.table,
) -> int:
    """Lifecycle, health-agent and deep-health-check logs of the nodes."""
    from ops import logs as verb  # noqa: PLC0415

    return verb.run(_target(env), kind=kind, node=node, since=since, until=until, follow=follow, form=form)


@app.command()
def connect(
    env: Env,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Local port; 0 takes any.")] = 8265,
    grafana: Annotated[bool, typer.Option("--grafana", help="Grafana too.")] = False,
    grafana_port: Annotated[int, typer.Option(min=0, max=65535, help="Local port of Grafana; 0 takes any.")] = 3000,
    check: Annotated[bool, typer.Option("--check", help="Only see whether they answer, and end.")] = False,
) -> int:
    """Dashboard and Jobs API on 127.0.0.1, until Ctrl-C."""
    from ops import connect as verb  # noqa: PLC0415

    return verb.run(_target(env), port=port, grafana=grafana, grafana_port=grafana_port, check=check)


@app.command()
def submit(  # noqa: PLR0917
    env: Env,
    entrypoint: Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND...", help="What the job runs.")] = None,
    working_dir: Annotated[Path | None, typer.Option(help="Folder that the job runs in; uploaded.")] = None,
    env_var: Annotated[
        list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="Environment variable of the job.")
    ] = None,
    runtime_env: Annotated[Path | None, typer.Option(help="YAML file with Ray's runtime_env.")] = None,
    submission_id: Annotated[str, typer.Option(help="Id of the job; left out: Ray makes one.")] = "",
    address: Annotated[
        str, typer.Option(help="A dashboard that is reachable already; its token from RAY_AUTH_TOKEN.")
    ] = "",
    wait_: Annotated[bool, typer.Option("--wait/--no-wait", help="Follow the log to the end.")] = True,
    follow: Annotated[str, typer.Option(metavar="JOB", help="Follow a job that was submitted before.")] = "",
) -> int:
    """Submit a job and follow its log; ends with the job's own exit code."""
    from ops import submit as verb  # noqa: PLC0415

    return verb.run(
        _target(env), entrypoint=entrypoint or [], working_dir=working_dir, env_vars=env_var or [],
        runtime_env=runtime_env, submission_id=submission_id, address=address, wait=wait_, job=follow,
    )  # fmt: skip


# typer carries its own click; the base of its errors has no public name
USAGE: Any = typer.BadParameter.__mro__[2]


def main(arguments: list[str] | None = None) -> int:
    """Run one command; every failure is one line, the next command and an exit code."""
    command = typer.main.get_command(app)
    try:
        code = command.main(args=arguments, prog_name="python -m ops", standalone_mode=False)
        return int(code or OK)
    except typer.Abort:
        return INTERRUPTED
    except USAGE as error:
        error.show(file=sys.stderr)
        return int(error.exit_code)
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # the reader (head, less) has gone; Python would complain again when it flushes
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:
        known = explain(error, environment=_used["environment"])
        if known is None:
            if os.environ.get("OPS_TRACEBACK"):
                raise
            known = OpsError(
                f"this should not happen: {type(error).__name__}: {error}",
                next="run it again with OPS_TRACEBACK=1 and report what it says",
                code=ERROR,
            )
        say(f"error: {known.message}")
        if known.next:
            say(f"next: {known.next}")
        return known.code


if __name__ == "__main__":
    raise SystemExit(main())
