"""Commands that operate an environment: look at it, wait for it, connect to it, take it down."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

import typer

from hyperpod_ray.cli.options import Env, Output, Plain, Yes, any_target, command, folder, target
from hyperpod_ray.cli.options import names as env_names
from hyperpod_ray.core import names
from hyperpod_ray.ops.output import Format


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    for add in (_status, _wait, _preflight, _capacity, _cost, _teardown, _logs, _connect):
        add(app)


def _status(app: typer.Typer) -> None:
    @command(app, examples=["status prod", "status prod -o json", "status prod --web"])
    def status(  # noqa: PLR0917
        env: Env,
        form: Output = Format.table,
        events: Annotated[int, typer.Option(min=0, help="Number of events to show.")] = 5,
        web: Annotated[bool, typer.Option("--web", help="Serve a live page on 127.0.0.1 until Ctrl-C.")] = False,
        port: Annotated[int, typer.Option(min=0, max=65535, help="With --web: local port; 0: any free port.")] = 0,
        poll: Annotated[
            float, typer.Option(min=1, metavar="SECONDS", help="With --web: seconds between two looks.")
        ] = 15,
    ) -> int:
        """Show the state of an environment, with a verdict.

        Exit code 3 when something recovers or requires action.
        """
        from hyperpod_ray.ops import status as verb

        if web:
            from hyperpod_ray.ops.web import command as page

            return page.run(any_target(env), port=port, every=poll, events=events)
        return verb.run(any_target(env), form=form, events=events)


def _wait(app: typer.Typer) -> None:
    @command(app, examples=["wait prod", "wait prod --for workers --timeout 7200"])
    def wait(
        env: Env,
        what: Annotated[
            str,
            typer.Option(
                "--for", metavar="WHAT", help="cluster, storage, healthy, an instance group, or ray (on EKS)."
            ),
        ] = "healthy",
        timeout: Annotated[
            float, typer.Option(min=0, metavar="SECONDS", help="Exit code 4 on timeout. 0: no limit.")
        ] = 0,
        poll: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Seconds between two checks.")] = 15,
        form: Plain = "table",
    ) -> int:
        """Wait for a condition, such as a healthy environment."""
        from hyperpod_ray.ops.change import wait as verb

        return verb.run(any_target(env), goal_name=what, timeout=timeout, form=Format(form), poll=poll)


def _preflight(app: typer.Typer) -> None:
    @command(app, examples=["preflight prod", "preflight prod --offline"])
    def preflight(
        env: Env,
        offline: Annotated[bool, typer.Option("--offline", help="Only checks that need no AWS account.")] = False,
        form: Output = Format.table,
    ) -> int:
        """Check the AWS account before a deployment; read-only. Exit code 3 when a check fails."""
        from hyperpod_ray.ops import preflight as verb

        return verb.run(any_target(env), offline=offline, form=form)


def _capacity(app: typer.Typer) -> None:
    @command(app, examples=["capacity prod", "capacity prod --group workers --hours 240 --after 2026-12-01"])
    def capacity(  # noqa: PLR0917
        env: Env,
        group: Annotated[str, typer.Option(metavar="GROUP", help="Only for this instance group.")] = "",
        hours: Annotated[
            int | None, typer.Option(min=1, max=87600, help="Hours of a new plan (24), or of an extension (any).")
        ] = None,
        after: Annotated[
            datetime | None, typer.Option(formats=["%Y-%m-%d"], metavar="DAY", help="Begin on this day or later.")
        ] = None,
        before: Annotated[
            datetime | None, typer.Option(formats=["%Y-%m-%d"], metavar="DAY", help="End before this day.")
        ] = None,
        form: Output = Format.table,
    ) -> int:
        """List training plans that AWS offers for the groups.

        It buys nothing. Of a group that has a training plan, it lists extensions, which begin when the plan ends. Exit
        code 3 when a group has no offer in its zone.
        """
        from hyperpod_ray.ops.preflight import offers as verb

        days = [day.replace(tzinfo=UTC) if day else None for day in (after, before)]
        wish = verb.Wish(hours=hours, after=days[0], before=days[1])
        return verb.run(any_target(env), wish, group=group, form=form)


def _cost(app: typer.Typer) -> None:
    @command(app, examples=["cost prod", "cost prod --offline -o json", "cost prod --so-far", "cost --all"])
    def cost(  # noqa: PLR0917
        env: Annotated[
            str,
            typer.Argument(
                metavar="[ENV]", help="Environment: the name of a file in environments/.", autocompletion=env_names
            ),
        ] = "",
        offline: Annotated[bool, typer.Option("--offline", help="Use the dated price file only.")] = False,
        update: Annotated[bool, typer.Option("--update", help="Write today's prices to the price file.")] = False,
        every_region: Annotated[
            bool, typer.Option("--every-region", help="With --update: all types in all Regions with HyperPod.")
        ] = False,
        so_far: Annotated[
            bool, typer.Option("--so-far", help="Show what is there now since the 1st, idle GPUs, and each run.")
        ] = False,
        actual: Annotated[
            bool, typer.Option("--actual", help="Show the month's bill and forecast. Each request costs $0.01.")
        ] = False,
        every: Annotated[bool, typer.Option("--all", help="Compare all environments of the folder.")] = False,
        form: Output = Format.table,
    ) -> int:
        """Show dollars per hour and month. Counts instance groups, storage, EKS and network egress."""
        from hyperpod_ray.ops.money import cost as verb
        from hyperpod_ray.ops.money import spending
        from hyperpod_ray.ops.output import now

        if every or not env:
            return spending.compare(
                env, target=any_target, folder=folder(), every=every, form=form, ask=actual, day=now().date()
            )
        return verb.run(
            any_target(env), form=form, offline=offline, update=update, every_region=every_region, so_far=so_far,
            actual=actual,
        )  # fmt: skip


def _teardown(app: typer.Typer) -> None:
    @command(app, examples=["teardown dev --dry-run", "teardown dev --yes", "teardown prod --confirm prod"])
    def teardown(  # noqa: PLR0917
        env: Env,
        dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the inventory and exit.")] = False,
        yes: Yes = False,
        confirm: Annotated[
            str, typer.Option(metavar="ENV", help="The environment's name, where it is protected.")
        ] = "",
        delete_logs: Annotated[
            bool, typer.Option("--delete-logs", help="Delete the log groups of the service too.")
        ] = False,
        assembly: Annotated[
            str, typer.Option("--app", metavar="FOLDER", help="Use this cloud assembly instead of synthesizing.")
        ] = "",
        poll: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Seconds between two checks.")] = 10,
        form: Plain = "table",
    ) -> int:
        """Destroy the environment and check that nothing is left. Continues an interrupted run."""
        from hyperpod_ray.ops.change import teardown as verb

        chosen = any_target(env)
        return verb.run(
            chosen,
            form=Format(form),
            yes=yes,
            word=confirm,
            dry_run=dry_run,
            delete_logs=delete_logs,
            app=assembly,
            poll=poll,
        )


def _logs(app: typer.Typer) -> None:
    @command(app, examples=["logs prod", "logs prod --kind lifecycle --since 2h", "logs prod --follow"])
    def logs(  # noqa: PLR0917
        env: Env,
        kind: Annotated[
            Literal["all", "lifecycle", "health-agent", "deep-health-check"], typer.Option(help="Kind of log.")
        ] = "all",
        node: Annotated[str, typer.Option(metavar="NODE", help="Only of this node, which may be gone.")] = "",
        since: Annotated[str, typer.Option(metavar="TIME", help="Age (15m, 2h, 3d) or time.")] = "1h",
        until: Annotated[str, typer.Option(metavar="TIME", help="Age or time. Default: now.")] = "",
        follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue until Ctrl-C.")] = False,
        form: Plain = "table",
    ) -> int:
        """Print logs of the nodes: lifecycle, health agent, deep checks."""
        from hyperpod_ray.ops.repair import logs as verb

        return verb.run(
            any_target(env), kind=kind, node=node, since=since, until=until, follow=follow, form=Format(form)
        )


def _connect(app: typer.Typer) -> None:
    @command(app, examples=["connect prod", "connect prod --port 0 --grafana", "connect prod --check"])
    def connect(
        env: Env,
        port: Annotated[
            int, typer.Option(min=0, max=65535, help="Local port; 0: any free port.")
        ] = names.DASHBOARD_PORT,
        grafana: Annotated[bool, typer.Option("--grafana", help="Forward Grafana too.")] = False,
        grafana_port: Annotated[
            int, typer.Option(min=0, max=65535, help="Local port of Grafana; 0: any free port.")
        ] = 3000,
        check: Annotated[bool, typer.Option("--check", help="Check that both answer, and exit.")] = False,
    ) -> int:
        """Forward the dashboard and Jobs API to 127.0.0.1 until Ctrl-C."""
        from hyperpod_ray.ops.reach import connect as verb

        return verb.run(target(env), port=port, grafana=grafana, grafana_port=grafana_port, check=check)
