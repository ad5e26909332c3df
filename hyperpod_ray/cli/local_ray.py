"""`hyperpod-ray local ray`: the Ray cluster generated from the manifest, as processes on loopback."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from hyperpod_ray.cli.options import Plain, command, group
from hyperpod_ray.ops.errors import OK

app = group(
    "Start, inspect, break and stop a Ray cluster on loopback.",
    examples=["local ray start local", "local ray inject node", "local ray stop"],
)
Name = Annotated[str | None, typer.Option(metavar="CLUSTER", help="Name of the cluster. Default: the only one.")]
Cluster = Annotated[str | None, typer.Argument(metavar="[CLUSTER]", help="Name of the cluster. Default: the only one.")]
Pod = Annotated[str | None, typer.Option(metavar="POD", help="Pod name or address. Default: the first worker.")]


def _run(action: str, *arguments: Any, **options: Any) -> int:
    from hyperpod_ray.cli.local_state import rehearsal_errors
    from hyperpod_ray_sandbox.rehearsal.ray_hosts import commands

    with rehearsal_errors():
        getattr(commands, action)(*arguments, **options)
    return OK


@command(app, examples=["local ray start local", "local ray start prod --max-pods 4"])
def start(
    env: Annotated[str, typer.Argument(metavar="ENV", help="Environment, or the path of a RayCluster manifest.")],
    name: Annotated[
        str | None, typer.Option(metavar="CLUSTER", help="Name of the cluster. Default: the manifest's.")
    ] = None,
    max_pods: Annotated[int, typer.Option(min=1, help="Most pods of one worker group.")] = 2,
    form: Plain = "table",
) -> int:
    """Start the pods of an environment's RayCluster."""
    return _run("start", env, name=name, max_pods=max_pods, as_json=form == "json")


@command(app, examples=["local ray stop"])
def stop(cluster: Cluster = None) -> int:
    """End every process of a cluster, and nothing else."""
    return _run("stop", cluster)


@command(app, examples=["local ray status", "local ray status -o json"])
def status(cluster: Cluster = None, form: Plain = "table") -> int:
    """Show pods, their processes and what Ray reports of them."""
    from hyperpod_ray.cli.local_state import rehearsal_errors
    from hyperpod_ray_sandbox.rehearsal.ray_hosts import commands

    with rehearsal_errors():
        commands.show(commands.only(cluster), as_json=form == "json")
    return OK


@command(app, examples=["local ray bridge"])
def bridge(
    cluster: Cluster = None,
    state: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="State folder of the embedded AWS. Default: .local/aws.")
    ] = None,
) -> int:
    """Serve this cluster behind the embedded Kubernetes API. `connect` and `submit` then reach it as a RayCluster."""
    from hyperpod_ray.cli.local_state import state_folder

    return _run("bridge", cluster, state=state_folder(state))


@command(app, examples=["local ray inject node", "local ray inject freeze", "local ray inject drain --seconds 5"])
def inject(
    fault: Annotated[
        Literal["worker", "node", "head", "freeze", "thaw", "drain", "delete"],
        typer.Argument(
            metavar="FAULT",
            help="worker: kill one training process. node: kill a pod with all its processes, as a lost machine does. "
            "head: kill the head pod. freeze: suspend a pod's processes (SIGSTOP). thaw: resume them. "
            "drain: drain as Ray does before a node goes away. delete: send SIGTERM, as deleting the pod does.",
        ),
    ],
    name: Name = None,
    pod: Pod = None,
    seconds: Annotated[int, typer.Option(min=0, help="With drain: seconds until the node goes away.")] = 30,
) -> int:
    """Inject a fault into a running cluster. `local rehearse --faults` measures the recovery from the same."""
    return _run("inject", fault, name=name, pod=pod, seconds=seconds)


@command(app, "replace-node", examples=["local ray replace-node"])
def replace_node(name: Name = None, pod: Pod = None) -> int:
    """Start a new pod in place of one that is gone."""
    return _run("replace_node", name, pod=pod)
