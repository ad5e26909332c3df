"""`hyperpod-ray manifests` and `ray-job`: Kubernetes objects as YAML, to read or to apply by hand."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from hyperpod_ray.cli.options import Env, command, current, folder, project_folder
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import BAD_USE, OK, OpsError


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    for add in (_manifests, _ray_job):
        add(app)


def _manifests(app: typer.Typer) -> None:
    @command(app, examples=["manifests prod", "manifests prod --out build/prod"])
    def manifests(
        env: Env,
        out: Annotated[
            Path | None, typer.Option(metavar="FOLDER", help="Folder to write to. Default: dist/manifests/ENV.")
        ] = None,
    ) -> int:
        """Write the Kubernetes objects of an environment as YAML files."""
        plan, k8s = _prepared(env)
        from hyperpod_ray.k8s import render

        target = out or project_folder() / "dist" / "manifests" / plan.name
        with _refusals():
            for path in render.write(plan, k8s.placeholders(plan), out=target):
                output.write_line(str(path))
        return OK


def _ray_job(app: typer.Typer) -> None:
    @command(
        app,
        "ray-job",
        examples=[
            'ray-job prod --name train --entrypoint "python train.py" | kubectl create -f -',
            'ray-job prod --name train --entrypoint "python train.py" --queue research --priority high',
            'ray-job dev --name nightly --entrypoint "python train.py" --schedule "0 3 * * *"',
        ],
    )
    def ray_job(  # noqa: PLR0917
        env: Env,
        name: Annotated[str, typer.Option(metavar="NAME", help="Name of the RayJob.")],
        entrypoint: Annotated[str, typer.Option(metavar="COMMAND", help="Shell command of the job.")],
        image: Annotated[
            str, typer.Option(metavar="URI", help="Image URI. Default: image.uri of the environment, or a placeholder.")
        ] = "",
        on_existing_cluster: Annotated[
            bool, typer.Option("--on-existing-cluster", help="Submit to the environment's RayCluster.")
        ] = False,
        retries: Annotated[
            int | None, typer.Option(min=0, help="backoffLimit. Default: 3; 0 on an existing cluster.")
        ] = None,
        queue: Annotated[
            str | None,
            typer.Option(metavar="NAME", help="Create it suspended for this LocalQueue (Kueue, task governance)."),
        ] = None,
        priority: Annotated[
            str | None, typer.Option(metavar="NAME", help="WorkloadPriorityClass in that queue.")
        ] = None,
        schedule: Annotated[
            str | None, typer.Option(metavar="CRON", help="Print a RayCronJob with this cron schedule.")
        ] = None,
        time_zone: Annotated[
            str | None,
            typer.Option(metavar="ZONE", help="IANA time zone of the schedule. Default: the operator's, UTC."),
        ] = None,
    ) -> int:
        """Print a RayJob or RayCronJob for `kubectl create -f -`."""
        if schedule is None and time_zone is not None:
            raise OpsError(f"--time-zone: '{time_zone}'", expected="a schedule", fix="add --schedule", code=BAD_USE)
        if schedule is not None and (queue or priority):
            raise OpsError(
                "--queue: with --schedule",
                expected="one of the two: KubeRay gives the runs of a RayCronJob no labels",
                fix="remove --queue or --schedule",
                code=BAD_USE,
            )
        plan, k8s = _prepared(env)
        from hyperpod_ray.k8s import render

        bindings = k8s.placeholders(plan)
        if image:
            bindings = dataclasses.replace(bindings, image_uri=image)
        common: dict[str, Any] = {
            "name": name,
            "entrypoint": entrypoint,
            "on_existing_cluster": on_existing_cluster,
            "retries": retries,
        }
        with _refusals():
            if schedule is None:
                job = k8s.ray_job(plan, bindings, **common, queue=queue, priority=priority)
            else:
                job = k8s.ray_cron_job(plan, bindings, **common, schedule=schedule, time_zone=time_zone)
        output.write_text(render.dump([job]))
        return OK


def _prepared(env: str) -> tuple[Any, Any]:
    """The plan, and the package `k8s`, whose cdk8s runs on the project's own Node.js."""
    from hyperpod_ray import core

    current.environment = env
    plan = core.load(env, folder=folder()).plan
    from hyperpod_ray.stacks.app import use_pinned_node

    use_pinned_node()
    from hyperpod_ray import k8s

    return plan, k8s


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Turn an error about a chart, and what the operator would refuse, into one line."""
    from hyperpod_ray.charts.errors import ChartError
    from hyperpod_ray.k8s.operator import RefusedError

    try:
        yield
    except (ChartError, RefusedError) as error:
        raise OpsError.of(error, code=BAD_USE) from error
