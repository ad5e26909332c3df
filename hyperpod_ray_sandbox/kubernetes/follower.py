"""`python -m hyperpod_ray_sandbox.kubernetes.follower`: HyperPod's nodes as Node objects of a cluster of your own.

A HyperPod instance joins its EKS cluster by itself. Where `up --kubeconfig` puts another cluster in EKS's place, no
instance is there to join it: this process makes the Node objects, keeps their heartbeat, labels and taints, and deletes
them, by the rules of `controllers/nodes.py`. It runs no pod: that takes the cluster's own nodes, or simulated kubelets.

With `--controllers` the cluster is a bare API server and its kube-controller-manager. Then the models of the scheduler,
the kubelets, KubeRay, Kueue, the FSx CSI driver and the EKS add-ons work on it, as on the embedded API.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from hyperpod_ray_sandbox.kubernetes.controllers import Controllers, Settings
from hyperpod_ray_sandbox.kubernetes.controllers.aws import Aws, AwsError
from hyperpod_ray_sandbox.kubernetes.controllers.common import condition, node_ready, set_status
from hyperpod_ray_sandbox.kubernetes.controllers.nodes import PREFIX, Nodes
from hyperpod_ray_sandbox.kubernetes.remote import Remote, proxy
from hyperpod_ray_sandbox.kubernetes.status import ApiError
from hyperpod_ray_sandbox.kubernetes.times import now

Json = dict[str, Any]
log = logging.getLogger("follower")
# a node whose heartbeat is older than 40 s is unknown to Kubernetes' node controller
HEARTBEAT_SECONDS = 10.0
ANSWER_SECONDS = 180.0
"""How long a server that is starting may answer with an error of the proxy's, which is no JSON."""


class Follower:
    """Asks the embedded AWS, and brings the cluster's Node objects in line."""

    def __init__(self, remote: Remote, aws: Aws, *, time_scale: float) -> None:
        self._remote, self._aws = remote, aws
        api: Any = remote
        self._nodes = Nodes(api, time_scale)
        self._beat = 0.0

    async def once(self) -> None:
        """One look."""
        self._remote.refresh()
        await self._aws.look()
        clusters = await self._aws.pages("eks", "list_clusters", "clusters")
        arn = ""
        if len(clusters) == 1:
            arn = str((await self._aws.call("eks", "describe_cluster", name=clusters[0]))["cluster"]["arn"])
        await self._nodes.poll(self._aws, arn)
        if time.monotonic() - self._beat >= HEARTBEAT_SECONDS:
            self._beat = time.monotonic()
            heartbeats(self._remote)

    async def run(self, poll_seconds: float) -> None:
        """Follow until cancelled."""
        while True:
            try:
                await self.once()
            except (AwsError, ApiError) as error:
                log.warning("%s", error)
            except Exception:
                log.exception("following the embedded AWS failed")
            await asyncio.sleep(poll_seconds)


def first_answer(remote: Remote, *, seconds: float = ANSWER_SECONDS, every: float = 0.2) -> None:
    """List nodes; a refusal counts at once, and a server that is still starting gets some time."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            remote.all("v1", "Node")
            return
        except ApiError as error:
            if error.code not in (502, 503) or time.monotonic() > deadline:
                raise
        time.sleep(every)


def heartbeats(remote: Remote) -> None:
    """Say of each node that is ready that its kubelet is there."""
    api: Any = remote
    for node in ours(remote):
        if node_ready(node):
            set_status(api, node, beat)


async def control(remote: Remote, settings: Settings) -> None:
    """Run the models of controllers on a bare API server until cancelled."""
    api: Any = remote
    tasks = [asyncio.ensure_future(Controllers(api, settings, control_plane=False).run())]

    async def keep_nodes() -> None:
        while True:
            try:
                heartbeats(remote)
            except ApiError as error:
                log.warning("%s", error)
            await asyncio.sleep(HEARTBEAT_SECONDS)

    tasks.append(asyncio.ensure_future(keep_nodes()))
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def beat(status: Json) -> None:
    """Say that the node's kubelet is there."""
    condition(status, "Ready", "True", "KubeletReady", "kubelet is posting ready status")
    for node_condition in status["conditions"]:
        node_condition["lastHeartbeatTime"] = now()


def ours(remote: Remote) -> list[Json]:
    """The Node objects that this process made or would make."""
    nodes = remote.all("v1", "Node")
    return [n for n in nodes if (n["metadata"].get("labels") or {}).get(PREFIX + "compute-type") == "hyperpod"]


def main(argv: list[str] | None = None) -> int:
    """Follow until SIGTERM; the Node objects go at the end, as their instances are gone with the emulator."""
    parser = argparse.ArgumentParser(prog="python -m hyperpod_ray_sandbox.kubernetes.follower", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--aws-endpoint", required=True)
    parser.add_argument("--region", required=True)
    parser.add_argument("--poll-seconds", type=float, default=1.0)
    parser.add_argument("--time-scale", type=float, default=0.05, help="as of the local Kubernetes API")
    parser.add_argument("--controllers", action="store_true", help="run the models of controllers too")
    parser.add_argument("--entrypoint-program", default="[]", help="as of the local Kubernetes API")
    parser.add_argument("--runs", type=Path, default=Path("rayjobs"), help="where runs of RayJobs have their folders")
    options = parser.parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    with proxy(options.kubeconfig) as path:
        remote = Remote(path)
        first_answer(remote)
        settings = Settings(
            aws_endpoint=options.aws_endpoint,
            region=options.region,
            poll_seconds=options.poll_seconds,
            time_scale=options.time_scale,
            entrypoints=tuple(json.loads(options.entrypoint_program)),
            runs=options.runs,
        )
        nodes_only = Follower(remote, Aws(options.aws_endpoint, options.region), time_scale=options.time_scale)

        async def follow() -> None:
            running = control(remote, settings) if options.controllers else nodes_only.run(options.poll_seconds)
            task = asyncio.ensure_future(running)
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, task.cancel)
            # `up` returns at this line: from here on a signal ends the following, and not the process
            sys.stderr.write(f"following the embedded AWS on {options.aws_endpoint}, process {os.getpid()}\n")
            with contextlib.suppress(asyncio.CancelledError):
                await task

        asyncio.run(follow())
        for node in ours(remote):
            with contextlib.suppress(ApiError):
                remote.delete(remote.kind("v1", "Node"), "", node["metadata"]["name"])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
