"""`nodes check` on EKS: a job of Ray."""

from __future__ import annotations

import contextlib
import json
import secrets
import shlex
import time
from collections.abc import Mapping
from typing import Any

from hyperpod_ray.core import names
from hyperpod_ray.ops import in_ray
from hyperpod_ray.ops.errors import CONDITION_FALSE, OpsError
from hyperpod_ray.ops.orchestrators import gather
from hyperpod_ray.ops.orchestrators.hyperpod_nodes import HyperPodNodes
from hyperpod_ray.ops.orchestrators.node_check import MARK, Measured, Request, program
from hyperpod_ray.ops.reach.clients import Target
from hyperpod_ray.ops.reach.jobs_api import ENDED, OURS, READ_PREFIX, Jobs, jobs_of, post, upload

PACKAGE = "hyperpod_ray_check"
POLL_SECONDS = 2.0


def package() -> tuple[str, bytes]:
    """The probes as Ray's package."""
    texts = {name: program(name) for name in ("node_probe", "ray_probe")}
    return in_ray.archive(PACKAGE, {"__init__": "", **texts})


class EksNodeCheck:
    """Measures the nodes of the standing RayCluster whose GPUs no run holds, by a Ray job."""

    def __init__(self, target: Target, nodes: HyperPodNodes) -> None:
        self.target, self.nodes = target, nodes

    def measured(self, request: Request) -> Measured:
        """What the nodes answer."""
        hosts = {} if request.address else _pods(self.target)
        chosen = self._chosen(request, hosts)
        with jobs_of(self.target, address=request.address) as jobs:
            return Measured(answer=measured_by_ray(jobs, request.content(hosts=chosen)), hosts=hosts)

    def _chosen(self, request: Request, hosts: Mapping[str, str]) -> list[str]:
        """Pods of the nodes that are asked for; with an address of Ray, Ray's own names of nodes."""
        if request.address or not request.nodes:
            return list(request.nodes)
        chosen = []
        for node in request.nodes:
            instance = self.nodes.find(node)
            pods = [pod for pod, of in hosts.items() if of == instance.id]
            if not pods:
                raise OpsError(
                    f"--node: {instance.id} has no Ray pod", expected="a node of the standing RayCluster",
                    fix=f"hyperpod-ray nodes show {self.target.name} {instance.id}", code=CONDITION_FALSE,
                )  # fmt: skip
            chosen += pods
        return chosen


def _pods(target: Target) -> dict[str, str]:
    """Instance IDs by the pods that Ray has as hosts."""
    seen = gather.snapshot(target, only=("Kubernetes",))
    return {pod.name: names.instance_id(pod.node) for pod in seen.pods if pod.node}


def measured_by_ray(jobs: Jobs, content: Mapping[str, Any]) -> dict[str, Any]:
    """What the probe prints that a Ray job starts.

    Raises:
        OpsError: The job cannot be started, fails, or does not end.
    """
    uri = upload(jobs, package(), what="")
    job = post(
        jobs,
        {
            "entrypoint": shlex.join(["python", "-m", f"{PACKAGE}.ray_probe", json.dumps(content)]),
            "runtime_env": {"py_modules": [uri]},
            "metadata": {OURS: "check"},
            "submission_id": f"{READ_PREFIX}{secrets.token_hex(6)}",
        },
    )
    try:
        return _job_answer(jobs, job, limit=float(content["limit"]) + 300)
    finally:
        with contextlib.suppress(OSError, OpsError):
            jobs.json("POST", f"/api/jobs/{job}/stop")
        with contextlib.suppress(OSError, OpsError):
            jobs.json("DELETE", f"/api/jobs/{job}")


def _job_answer(jobs: Jobs, job: str, *, limit: float) -> dict[str, Any]:
    end = time.monotonic() + limit
    while (info := jobs.json("GET", f"/api/jobs/{job}"))["status"] not in ENDED:
        if time.monotonic() > end:
            raise OpsError(
                f"the test is {info['status']} after {limit:g} s", expected="it to end",
                fix="run it again with --node, to learn which node hangs", code=CONDITION_FALSE,
            )  # fmt: skip
        time.sleep(POLL_SECONDS)
    text = str(jobs.json("GET", f"/api/jobs/{job}/logs").get("logs") or "")
    for line in text.splitlines():
        if line.startswith(MARK):
            return dict(json.loads(line.removeprefix(MARK)))
    last = (text.strip().splitlines() or [str(info.get("message") or "nothing more")])[-1]
    raise OpsError(
        f"the test {info['status']}: {last[:300]}", expected="its measurements",
        fix="correct what it names; the image needs Ray and torch", code=CONDITION_FALSE,
    )  # fmt: skip
