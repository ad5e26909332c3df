"""`hyperpod-ray submit`: a job from a file, from options, or from a file with options in place of some fields."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from hyperpod_ray.cli.options import Env, any_target, command
from hyperpod_ray.ops.errors import BAD_USE, OpsError

Pairs = list[str] | None


def register(app: typer.Typer) -> None:
    """Add the command to the root."""

    @command(
        app,
        examples=[
            "submit prod --working-dir jobs/finetune -- python train.py --storage /fsx/runs --name first",
            "submit prod -f job.yaml",
            "submit prod -f job.yaml --name second --workers 2:4 --env EPOCHS=3",
            "submit prod --team vision --priority deadline -f job.yaml",
            "submit prod --secret HF_TOKEN=hugging-face/token --no-wait -- python train.py",
        ],
    )
    def submit(  # noqa: PLR0917
        env: Env,
        entrypoint: Annotated[
            list[str] | None, typer.Argument(metavar="-- COMMAND...", help="Command that the job runs.")
        ] = None,
        file: Annotated[
            Path | None, typer.Option("--file", "-f", metavar="FILE", help="Job file; options replace its fields.")
        ] = None,
        name: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the run.")] = None,
        cluster: Annotated[
            Literal["standing", "own"] | None,
            typer.Option(metavar="CLUSTER", help="standing: the RayCluster. own: a new one for this job."),
        ] = None,
        workers: Annotated[str | None, typer.Option(metavar="N", help="Training workers: a number or MIN:MAX.")] = None,
        gpus_per_worker: Annotated[int | None, typer.Option(metavar="N", help="GPUs of one worker.")] = None,
        spares: Annotated[int | None, typer.Option(metavar="N", help="Workers that stand by.")] = None,
        image: Annotated[
            str | None, typer.Option(metavar="IMAGE@DIGEST", help="Image of the pods of its own cluster.")
        ] = None,
        group: Annotated[
            str | None, typer.Option(metavar="GROUP", help="Worker group that carries the workers.")
        ] = None,
        pod_gpus: Annotated[int | None, typer.Option(metavar="N", help="GPUs of one worker pod.")] = None,
        pod_cpu: Annotated[int | None, typer.Option(metavar="N", help="Processors of one worker pod.")] = None,
        pod_memory_gib: Annotated[int | None, typer.Option(metavar="GIB", help="Memory of one worker pod.")] = None,
        working_dir: Annotated[
            str | None, typer.Option(metavar="FOLDER", help="Folder that the job runs in; uploaded.")
        ] = None,
        py_module: Annotated[
            list[str] | None,
            typer.Option("--py-module", metavar="FOLDER", help="Folder of a Python package; uploaded; repeatable."),
        ] = None,
        package: Annotated[
            list[str] | None,
            typer.Option("--package", metavar="NAME==VERSION", help="Package that Ray installs; repeatable."),
        ] = None,
        env_var: Annotated[
            list[str] | None,
            typer.Option("--env", metavar="NAME=VALUE", help="Environment variable of the job; repeatable."),
        ] = None,
        secret: Annotated[
            list[str] | None,
            typer.Option("--secret", metavar="NAME=SECRET/KEY", help="Variable from a secret; repeatable."),
        ] = None,
        notify: Annotated[
            str | None, typer.Option(metavar="SECRET/KEY", help="Webhook that hears of the job's end.")
        ] = None,
        storage: Annotated[str | None, typer.Option(metavar="PLACE", help="Folder of all runs.")] = None,
        data: Annotated[
            list[str] | None, typer.Option("--data", metavar="PLACE", help="What the job reads; repeatable.")
        ] = None,
        retries: Annotated[int | None, typer.Option(metavar="N", help="New clusters after a failed driver.")] = None,
        most_hours: Annotated[
            float | None, typer.Option(metavar="HOURS", help="End the job's own cluster after so long.")
        ] = None,
        team: Annotated[str | None, typer.Option(metavar="TEAM", help="Team whose queue and quota it uses.")] = None,
        queue: Annotated[str | None, typer.Option(metavar="NAME", help="LocalQueue of the job's own cluster.")] = None,
        priority: Annotated[str | None, typer.Option(metavar="NAME", help="Priority class in that queue.")] = None,
        topology: Annotated[
            Literal["layer-1", "layer-2", "layer-3", "ultraserver"] | None,
            typer.Option(metavar="LEVEL", help="Place workers together: layer-1, layer-2, layer-3, ultraserver."),
        ] = None,
        topology_required: Annotated[
            bool | None, typer.Option("--topology-required", help="Wait until that level has room.")
        ] = None,
        runtime_env: Annotated[
            Path | None, typer.Option(metavar="FILE", help="YAML file with Ray's runtime_env.")
        ] = None,
        submission_id: Annotated[str, typer.Option(metavar="ID", help="ID of the job. Default: Ray chooses one.")] = "",
        address: Annotated[
            str,
            typer.Option(metavar="URL", help="Dashboard to use without a port forward. Its token: RAY_AUTH_TOKEN."),
        ] = "",
        wait_: Annotated[bool, typer.Option("--wait/--no-wait", help="Follow the log to the end.")] = True,
    ) -> int:
        """Submit a job and follow its log. Checks it first, and shows what it takes. Exits with its exit code."""
        import shlex

        from hyperpod_ray.core import job_file
        from hyperpod_ray.ops import orchestrators

        fields: dict[str, Any] = {
            "command": shlex.join(entrypoint) if entrypoint else None,
            "name": name, "cluster": cluster, "workers": workers, "gpus_per_worker": gpus_per_worker, "spares": spares,
            "image": image, "group": group, "pod_gpus": pod_gpus, "pod_cpu": pod_cpu, "pod_memory_gib": pod_memory_gib,
            "working_dir": working_dir, "py_modules": py_module, "packages": package,
            "env": pairs("--env", env_var, value="VALUE"), "secrets": pairs("--secret", secret, value="SECRET/KEY"),
            "notify": notify, "storage": storage, "data": data, "retries": retries, "most_hours": most_hours,
            "team": team, "queue": queue, "priority": priority,
            "topology": topology, "topology_required": topology_required,
        }  # fmt: skip
        environment = any_target(env)
        if file is None and not entrypoint:
            raise OpsError(
                "no command to submit",
                expected="a command after --, or a job file",
                fix=f"hyperpod-ray submit {env} -- python train.py, or hyperpod-ray submit {env} -f job.yaml",
                code=BAD_USE,
            )
        job = job_file.load(file, {key: value for key, value in fields.items() if value not in (None, {})})
        return orchestrators.of(environment).jobs.submit(
            job, runtime_env=runtime_env, submission_id=submission_id, address=address, wait=wait_
        )


def pairs(option: str, items: Pairs, *, value: str) -> dict[str, str]:
    """`NAME=VALUE` words as a mapping."""
    parsed = {}
    for pair in items or []:
        name, equals, content = pair.partition("=")
        if not equals or not name:
            # what was given may be a secret: only its name is shown
            label = name or pair.partition("=")[0] or "NAME"
            raise OpsError(
                f"{option}: '{label}'", expected=f"NAME={value}", fix=f"{option} {label}={value}", code=BAD_USE
            )
        parsed[name] = content
    return parsed
