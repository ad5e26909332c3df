"""Runs one RayJob's entrypoint on a real Ray: `python -m hyperpod_ray_sandbox.rehearsal.ray_jobs FOLDER`.

The sandbox's Kubernetes API starts it when the RayJob's cluster is ready (`kubernetes/controllers/entrypoints.py`).
FOLDER has `job.json`; the pods of its RayCluster start as processes on loopback, scaled as `local ray start` scales
them, and the entrypoint is submitted to them as the operator submits it in HTTPMode. `status.json` follows Ray's words.
At its end, or on SIGTERM, the pods end. `/fsx` of all runs is one folder.
"""

from __future__ import annotations

import http.client
import json
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from hyperpod_ray_sandbox import leash
from hyperpod_ray_sandbox.rehearsal.ray_hosts.cluster import Cluster
from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError
from hyperpod_ray_sandbox.rehearsal.ray_hosts.jobs_api import BY_HAND_SECONDS
from hyperpod_ray_sandbox.rehearsal.ray_hosts.machine import REHEARSAL_ENV
from hyperpod_ray_sandbox.rehearsal.ray_hosts.state import ROOT

Json = dict[str, Any]

PROJECT = Path(__file__).resolve().parents[2]
EVERY_S = 0.5
ENDED = ("SUCCEEDED", "FAILED", "STOPPED")
NUMBERS = {
    "entrypointNumCpus": "entrypoint_num_cpus",
    "entrypointNumGpus": "entrypoint_num_gpus",
}


class Status:
    """What `status.json` says; written whole, and only when it changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last: Json = {}

    def write(self, **values: Any) -> None:
        """Change some of it."""
        status = {**self._last, **values}
        if status != self._last:
            part = self._path.with_suffix(".part")
            part.write_text(json.dumps(status), encoding="utf-8")
            part.replace(self._path)
            self._last = status


def request_of(job: Json) -> Json:
    """The body with which the operator submits a RayJob to Ray's Jobs API.

    Args:
        job: The RayJob.

    Raises:
        LocalError: `runtimeEnvYAML` or `entrypointResources` cannot be read.
    """
    spec = job["spec"]
    body: Json = {"entrypoint": spec["entrypoint"], "submission_id": job["status"]["jobId"]}
    if spec.get("metadata"):
        body["metadata"] = spec["metadata"]
    for field, key, read in (
        ("runtimeEnvYAML", "runtime_env", yaml.safe_load),
        ("entrypointResources", "entrypoint_resources", json.loads),
    ):
        if spec.get(field):
            try:
                body[key] = read(spec[field])
            except (yaml.YAMLError, ValueError) as error:
                raise LocalError(
                    f"spec.{field}: {' '.join(str(error).split())}", expected="a mapping", fix="correct it"
                ) from None
    # GPUs of the entrypoint are CPUs here: no pod of this machine offers one
    body |= {key: float(spec[field]) for field, key in NUMBERS.items() if spec.get(field) and "Gpu" not in field}
    return body


def run(folder: Path) -> None:
    """Start the cluster, submit, follow, and end the cluster."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    leash.hold()
    content = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    job, manifest = content["job"], content["cluster"]
    status = Status(folder / "status.json")
    try:
        body = request_of(job)
        _prepare(folder, manifest["metadata"]["name"])
        cluster = Cluster.start(manifest=manifest, project=folder, note=lambda line: print(line, flush=True))
    except LocalError as error:
        status.write(jobStatus="FAILED", message=str(error))
        return
    try:
        code, answer = cluster.dashboard.request("/api/jobs/", method="POST", body=body, timeout=BY_HAND_SECONDS)
        if code != http.client.OK:
            status.write(jobStatus="FAILED", message=f"Ray refuses the job with {code}: {answer}")
            return
        _follow(cluster, body["submission_id"], status)
    finally:
        cluster.stop()


def _prepare(folder: Path, name: str) -> None:
    """Let the run's folder be a project: with Ray's environment, and the `/fsx` of all runs."""
    (folder / REHEARSAL_ENV).symlink_to(PROJECT / REHEARSAL_ENV)
    shared = folder.parent.parent / "fsx"
    shared.mkdir(exist_ok=True)
    cluster_folder = folder / ROOT / name
    cluster_folder.mkdir(parents=True)
    (cluster_folder / "fsx").symlink_to(shared)


def _follow(cluster: Cluster, submission: str, status: Status) -> None:
    """Until Ray's job ends, or the head is gone."""
    while True:
        try:
            code, info = cluster.dashboard.request(f"/api/jobs/{submission}", timeout=BY_HAND_SECONDS)
        except OSError as error:
            code, info = 0, str(error)
        if code == http.client.OK and isinstance(info, dict):
            times = {
                name: datetime.fromtimestamp(info[key] / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                for name, key in (("startTime", "start_time"), ("endTime", "end_time"))
                if info.get(key)
            }
            ended = info["status"] in ENDED
            if ended:
                (cluster.folder / "logs" / f"{submission}.log").write_text(cluster.dashboard.job_logs(submission))
            status.write(jobStatus=info["status"], message=info.get("message") or "", **times)
            if ended:
                return
        elif not cluster.head().alive:
            status.write(jobStatus="FAILED", message=f"Ray's head ended: {cluster.launcher.last_line(cluster.head())}")
            return
        time.sleep(EVERY_S)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
