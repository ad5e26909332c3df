"""The life of a job on a RayCluster of its own: submitted, found, followed to its end, stopped.

`job_object` makes the RayJob, `queues` says why it waits. The job's folders travel in a ConfigMap that belongs to the
RayJob. A team's jobs are in the team's namespace.
"""

from __future__ import annotations

import base64
import re
import secrets
import time

from hyperpod_ray.core import names
from hyperpod_ray.core.job import Job
from hyperpod_ray.core.job_file import JobFile
from hyperpod_ray.core.plan_names import ray_namespaces
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import BAD_USE, ERROR, INTERRUPTED, OK, STILL_GOING, OpsError
from hyperpod_ray.ops.jobs.job_object import CODE, code_of, namespace_of, ray_job
from hyperpod_ray.ops.observe import gang, queues
from hyperpod_ray.ops.reach import pod_log
from hyperpod_ray.ops.reach.clients import Json, Target

POLL_SECONDS = 2.0
STOP_SECONDS = 180
ENDED = ("Complete", "Failed", "ValidationFailed")


def path(target: Target, resource: str, name: str = "", *, namespace: str = "") -> str:
    """Path of objects of Ray's kinds in the API."""
    base = f"/apis/{names.RAY_API_VERSION}/namespaces/{namespace or target.plan.settings.ray.namespace}/{resource}"
    return f"{base}/{name}" if name else base


def submit(target: Target, file: JobFile, *, name: str, wait: bool) -> int:
    """Create the RayJob with its code, and follow it."""
    target.aws.require_account()
    plan, api = target.plan, target.kubernetes
    namespace = namespace_of(plan, file.job)
    data = code_of(file)
    live = _live(target)
    called = name or _name(file.job)
    code = f"{called}-code"
    manifest = ray_job(plan, live, file.job, name=called, code=code)
    if (queue := file.job.local_queue) is not None:
        queues.require(target, queue, namespace=namespace, job=manifest)
        if notice := gang.warning(target):
            output.log(f"warning: {notice}")
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    labels = {names.PART_OF_LABEL: names.PROJECT}
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": code, "namespace": namespace, "labels": labels},
        "binaryData": {CODE: base64.b64encode(data).decode()},
        "immutable": True,
    }
    try:
        api.request("POST", maps, body=body)
        try:
            created = api.request("POST", path(target, "rayjobs", namespace=namespace), body=manifest)
        except Exception:
            api.delete(f"{maps}/{code}")  # this one is ours: it has just been created
            raise
    except Exception as error:
        if getattr(error, "status", None) != 409:
            raise
        raise OpsError(
            f"a job called '{called}' exists",
            expected="a new name",
            fix="give another --submission-id",
            code=BAD_USE,
        ) from None
    owner = {
        "apiVersion": names.RAY_API_VERSION,
        "kind": "RayJob",
        "name": called,
        "uid": created["metadata"]["uid"],
    }
    api.patch(f"{maps}/{code}", {"metadata": {"ownerReferences": [owner]}})
    output.log(f"submitted {called}, on a RayCluster of its own: {file.job.command}")
    if not wait:
        output.write_line(called)
        return OK
    try:
        return follow(target, called)
    except KeyboardInterrupt:
        command = target.command("runs logs", called, "--follow")
        output.log(f"stopped following; {called} continues. Follow it again: {command}")
        return INTERRUPTED


def _name(job: Job) -> str:
    """A DNS label of at most 47 characters."""
    base = re.sub(r"[^a-z0-9-]+", "-", (job.run_name or "job").lower()).strip("-")
    base = re.sub(r"^[^a-z]+", "", base) or "job"
    return f"{base[:36].rstrip('-')}-{secrets.token_hex(3)}"


def _live(target: Target) -> Json:
    ray = target.plan.settings.ray
    try:
        return target.kubernetes.request("GET", path(target, "rayclusters", ray.cluster_name))
    except Exception as error:
        if getattr(error, "status", None) != 404:
            raise
        raise OpsError(
            f"RayCluster '{ray.cluster_name}' does not exist",
            expected="the environment's RayCluster, which the job's own is made of",
            fix=f"hyperpod-ray wait {target.name} --for ray",
        ) from None


def follow(target: Target, name: str, *, poll: float = POLL_SECONDS) -> int:
    """Say why the job waits and print its log, until it has ended. Exit code of the driver where it failed."""
    reported, log = "", pod_log.Follower()
    while True:
        rayjob = find(target, name)
        status = rayjob.get("status") or {}
        state = status.get("jobDeploymentStatus") or ""
        waiting = queues.why_it_waits(target, rayjob)
        words = f"{name} waits: {waiting}" if waiting else f"{name} {state or 'New'}"
        if words != reported:
            output.log(words)
            reported = words
        if fresh := log.more(target, name, namespace=rayjob["metadata"]["namespace"]):
            output.write_text(fresh)
        if state in ENDED:
            return _ended(target, name, status)
        time.sleep(poll)


def find(target: Target, name: str) -> Json:
    """The RayJob called `name`, in any namespace of the environment that you may see."""
    for namespace in ray_namespaces(target.plan):
        try:
            return target.kubernetes.request("GET", path(target, "rayjobs", name, namespace=namespace))
        except Exception as error:
            if getattr(error, "status", None) not in (403, 404):
                raise
    raise OpsError(
        f"RayJob '{name}' does not exist",
        expected="a job that was not deleted",
        fix=f"hyperpod-ray runs list {target.name}",
        code=BAD_USE,
    ) from None


def listed(target: Target) -> list[Json]:
    """RayJobs of the environment with clusters of their own; none where the kind or the right is missing."""
    rayjobs: list[Json] = []
    for namespace in ray_namespaces(target.plan):
        try:
            rayjobs += target.kubernetes.items(path(target, "rayjobs", namespace=namespace))
        except Exception as error:
            if getattr(error, "status", None) not in (403, 404):
                raise
    return [rayjob for rayjob in rayjobs if "rayClusterSpec" in rayjob["spec"]]


def exit_code(status: Json) -> int | None:
    """Exit code of the driver, from the words of Ray; None where the job has not failed or Ray does not say it."""
    if status.get("jobStatus") == "SUCCEEDED":
        return 0
    match = re.search(r"exit code (\d+)", str(status.get("message") or ""))
    return int(match[1]) if match and status.get("jobStatus") == "FAILED" else None


def _ended(target: Target, name: str, status: Json) -> int:
    state = status.get("jobStatus") or status.get("jobDeploymentStatus") or ""
    if state == "SUCCEEDED":
        output.log(f"{name} SUCCEEDED; its RayCluster is deleted")
        return OK
    message = str(status.get("message") or "").strip().splitlines()
    output.log(f"{name} {state}" + (f": {message[0][:300]}" if message else ""))
    output.log(f"next: hyperpod-ray status {target.name}")
    code = exit_code(status)
    return code if code is not None and 0 < code < 256 else ERROR


def stop(target: Target, name: str, *, limit_s: float = STOP_SECONDS) -> None:
    """Delete the RayJob, and with it its cluster; wait until both are gone."""
    rayjob = find(target, name)
    cluster = str((rayjob.get("status") or {}).get("rayClusterName") or "")
    namespace = str(rayjob["metadata"]["namespace"])
    target.kubernetes.delete(path(target, "rayjobs", name, namespace=namespace))
    deadline = time.monotonic() + limit_s
    while True:
        remaining = [candidate for candidate in listed(target) if candidate["metadata"]["name"] == name]
        clusters = target.kubernetes.items(path(target, "rayclusters", namespace=namespace))
        if not remaining and not any(candidate["metadata"]["name"] == cluster for candidate in clusters):
            return
        if time.monotonic() > deadline:
            raise OpsError(
                f"{name} is not gone after {limit_s:g} s",
                expected="the operator to delete it with its RayCluster",
                fix=f"hyperpod-ray status {target.name}",
                code=STILL_GOING,
            )
        time.sleep(min(POLL_SECONDS, 0.5))
