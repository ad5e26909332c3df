"""A RayCluster of a job's own: a RayJob that is made of the RayCluster that runs, submitted, explained and followed.

The job's cluster is the environment's in all but its size: image, volumes, policies and identity are read from the
RayCluster in the Kubernetes API, so that they are the deployed ones. It shares that cluster's token Secret, because a
Ray user may read no other. The job's folders travel in a ConfigMap that belongs to the RayJob.
"""

from __future__ import annotations

import base64
import copy
import json
import re
import secrets
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO

from core import job_checks, names
from core.job import Job
from core.job_file import JobFile
from core.plan import Plan
from ops import gather, in_ray, output
from ops.clients import Json, Target
from ops.errors import BAD_USE, ERROR, INTERRUPTED, OK, STILL_GOING, OpsError
from ops.snapshot import Pod
from service_rules import kuberay

RETRIES = 3
"""`backoffLimit`, where the job says none."""
FAILED_CLUSTER_SECONDS = 3600
"""How long the head of a failed job stays, so that you can read its logs."""
RECORD_SECONDS = 7 * 86400
"""How long the RayJob stays after its end, for `runs list`."""
CODE = "code.zip"
CODE_PATH = "/etc/ray-job"
MOST_BYTES = 1_000_000
"""Of the ConfigMap with the code: Kubernetes takes 1 MiB."""
POLL_SECONDS = 2.0
STOP_SECONDS = 180
ENDED = ("Complete", "Failed", "ValidationFailed")
GATES = {**kuberay.DEFAULT_GATES, "RayCronJob": True}


def path(target: Target, kind: str, name: str = "", *, namespace: str = "") -> str:
    """Path of objects of Ray's kinds in the API."""
    base = f"/apis/{names.RAY_API_VERSION}/namespaces/{namespace or target.plan.settings.ray.namespace}/{kind}"
    return f"{base}/{name}" if name else base


# --- the object ----------------------------------------------------------------------------------------------------


def ray_job(plan: Plan, live: Json, job: Job, *, name: str, code: str = "") -> Json:
    """A `ray.io/v1` RayJob that runs a job on a cluster of its own.

    Args:
        plan: The environment.
        live: Its RayCluster, from the Kubernetes API.
        job: What to run.
        name: of the RayJob.
        code: ConfigMap with the job's folders; empty where it has none.

    Raises:
        OpsError: the KubeRay operator refuses it.
    """
    spec = copy.deepcopy(live["spec"])
    head = copy.deepcopy(spec["headGroupSpec"]["template"]["spec"])
    runtime: Json = {}
    if code:
        runtime["working_dir"] = f"{CODE_PATH}/{CODE}"
    if job.packages:
        runtime["pip"] = {"packages": list(job.packages), "pip_check": False}
    made: Json = {
        "entrypoint": in_ray.COMMAND,
        "backoffLimit": RETRIES if job.retries is None else job.retries,
        "submissionMode": "K8sJobMode",
        "submitterPodTemplate": _submitter(head, code),
        "metadata": {
            "environment": plan.name,
            **({"run": job.run_name, "run_folder": job.folder} if job.folder else {}),
        },
        "rayClusterSpec": _cluster(plan, spec, job, name=name),
    }
    if any(reference.startswith("arn:") for reference in job.secrets.values()):
        runtime["worker_process_setup_hook"] = in_ray.SETUP_HOOK
    if runtime:
        made["runtimeEnvYAML"] = json.dumps(runtime)
    if plan.settings.ray.gcs_fault_tolerance:
        made["entrypointResources"] = json.dumps({names.DRIVER_GROUP: 1})
    if job.queue is not None:
        made |= {"suspend": True, "shutdownAfterJobFinishes": True}
    else:
        made["deletionStrategy"] = {"deletionRules": _deletion_rules(scales=bool(spec.get("enableInTreeAutoscaling")))}
    labels = {names.PART_OF_LABEL: names.PROJECT}
    labels |= {names.QUEUE_LABEL: job.queue} if job.queue else {}
    labels |= {names.PRIORITY_LABEL: job.priority} if job.priority else {}
    annotations = {names.COMMAND_ANNOTATION: job.command}
    manifest = {
        "apiVersion": names.RAY_API_VERSION,
        "kind": "RayJob",
        "metadata": {
            "name": name,
            "namespace": live["metadata"]["namespace"],
            "labels": labels,
            "annotations": annotations,
        },
        "spec": made,
    }
    cluster = {
        "kind": "RayCluster",
        "metadata": {"name": f"{name}-00000", "labels": {"ray.io/originated-from-crd": "RayJob"}},
        "spec": made["rayClusterSpec"],
    }
    refused = [*kuberay.judge(manifest, gates=GATES), *kuberay.judge(cluster, gates=GATES)]
    if refused:
        raise OpsError(
            f"the KubeRay operator refuses this job: {refused[0].message}",
            expected="a RayJob that it accepts",
            fix="change the job, or deploy the environment again",
            code=BAD_USE,
        )
    return manifest


def _cluster(plan: Plan, spec: Json, job: Job, *, name: str) -> Json:
    """`rayClusterSpec`: the live cluster's, with the job's size, variables and secrets."""
    spec.pop("upgradeStrategy", None)  # KubeRay allows a job's cluster none
    if (spec.get("authOptions") or {}).get("mode") == "token":
        spec["authOptions"] = {"mode": "token", "secretName": plan.settings.ray.cluster_name}
    pods = job_checks.pods_for(plan, job)
    scales = bool(spec.get("enableInTreeAutoscaling")) and job.queue is None
    if not scales:
        spec.pop("enableInTreeAutoscaling", None)
        spec.pop("autoscalerOptions", None)
    for group in spec["workerGroupSpecs"]:
        if group["groupName"] in pods:
            least, most = pods[group["groupName"]]
            group |= {"replicas": least if scales else most, "minReplicas": least if scales else most}
            group["maxReplicas"] = most
    if job.sizes is not None:
        spec["workerGroupSpecs"] = [group for group in spec["workerGroupSpecs"] if group["maxReplicas"]]
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        template = group["template"]
        template["metadata"]["labels"][names.JOB_LABEL] = name
        _own_mates(template["spec"].get("affinity") or {}, name)
        _own_secrets(template["spec"], job)
        container = template["spec"]["containers"][0]
        container["env"] = [*(container.get("env") or []), *_variables(job)]
    return dict(spec)


def _own_mates(affinity: Json, name: str) -> None:
    """Pods of a job keep apart from each other, not from those of the standing cluster."""
    rules = affinity.get("podAntiAffinity") or {}
    terms = list(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or [])
    terms += [
        one["podAffinityTerm"] for one in rules.get("preferredDuringSchedulingIgnoredDuringExecution") or []
    ]  # fmt: skip
    for term in terms:
        labels = term["labelSelector"]["matchLabels"]
        if labels.pop(names.RAY_CLUSTER_LABEL, None) is not None:
            labels[names.JOB_LABEL] = name


def _own_secrets(pod: Json, job: Job) -> None:
    """Secrets of the standing cluster are not this job's: its own come as variables."""
    mounted = {
        volume["name"]
        for volume in pod.get("volumes") or []
        if "secret" in volume and volume["name"].startswith("secret-")
    }
    pod["volumes"] = [volume for volume in pod.get("volumes") or [] if volume["name"] not in mounted]
    container = pod["containers"][0]
    container["volumeMounts"] = [mount for mount in container["volumeMounts"] if mount["name"] not in mounted]


def _variables(job: Job) -> Iterator[Json]:
    """Variables of the job's processes. KubeRay hands a runtime_env to a shell; a pod's variables are plain text."""
    for key, value in sorted(job.variables.items()):
        yield {"name": key, "value": value.replace("$(", "$$(")}
    yield {"name": in_ray.COMMAND_VARIABLE, "value": job.command.replace("$(", "$$(")}
    elsewhere = {key: value for key, value in job.secrets.items() if value.startswith("arn:")}
    if elsewhere:
        yield {"name": in_ray.SECRETS_VARIABLE, "value": json.dumps(elsewhere, sort_keys=True)}
    for key, value in sorted(job.secrets.items()):
        if key not in elsewhere:
            secret, _, item = value.partition("/")
            yield {"name": key, "valueFrom": {"secretKeyRef": {"name": secret, "key": item}}}


def _deletion_rules(*, scales: bool) -> list[Json]:
    """A cluster goes at once with a job that succeeded; after a failure, workers first. The record goes last."""

    def after(condition: Json, *policies: tuple[str, int]) -> list[Json]:
        return [
            {"policy": policy, "condition": {**condition, "ttlSeconds": seconds}}
            for policy, seconds in (*policies, ("DeleteSelf", RECORD_SECONDS))
        ]

    succeeded, failed = {"jobStatus": "SUCCEEDED"}, {"jobDeploymentStatus": "Failed"}
    workers = () if scales else (("DeleteWorkers", 0),)
    return [
        *after(succeeded, ("DeleteCluster", 0)),
        *after(failed, *workers, ("DeleteCluster", FAILED_CLUSTER_SECONDS)),
    ]


def _submitter(head: Json, code: str) -> Json:
    """Pod template of the Kubernetes Job that submits to the head: where the head is, admitted by the policies."""
    like = ("securityContext", "nodeSelector")
    lost = (names.NOT_READY, names.UNREACHABLE)  # the Job starts another pod where its node is lost
    amounts = {"cpu": "500m", "memory": "1Gi"}
    container: Json = {
        "name": "ray-job-submitter",
        "image": head["containers"][0]["image"],
        "resources": {"requests": dict(amounts), "limits": dict(amounts)},
        "securityContext": copy.deepcopy(head["containers"][0].get("securityContext") or {}),
    }
    spec: Json = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        **{key: copy.deepcopy(head[key]) for key in like if key in head},
        "tolerations": [copy.deepcopy(one) for one in head.get("tolerations") or [] if one.get("key") not in lost],
        "affinity": {"nodeAffinity": copy.deepcopy((head.get("affinity") or {}).get("nodeAffinity") or {})},
        "containers": [container],
    }
    if code:
        container["volumeMounts"] = [{"name": "code", "mountPath": CODE_PATH, "readOnly": True}]
        spec["volumes"] = [{"name": "code", "configMap": {"name": code}}]
    labels = {names.PART_OF_LABEL: names.PROJECT, names.CLIENT_LABEL: "true"}
    return {"metadata": {"labels": labels}, "spec": spec}


def code_of(file: JobFile) -> bytes:
    """The job's folders as one zip file: working folder, packages, and what this program sends beside them.

    Raises:
        OpsError: it is too large, or two of them have the same file.
    """
    from ops.submit import pack

    job = file.job
    parts = [pack(file.local("working_dir", job.working_dir))] if job.working_dir else []
    parts += [pack(file.local("py_modules", one), inside=True) for one in job.py_modules]
    buffer = BytesIO()
    seen: set[str] = set()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as made:
        for _, data in [*parts, in_ray.package()]:
            with zipfile.ZipFile(BytesIO(data)) as part:
                for info in part.infolist():
                    if info.filename in seen:
                        raise OpsError(
                            f"{info.filename}: in two of the job's folders",
                            expected="each file once: they become one folder",
                            fix="rename it, or remove one of py_modules",
                            code=BAD_USE,
                        )
                    seen.add(info.filename)
                    made.writestr(info, part.read(info))
    data = buffer.getvalue()
    if len(data) > MOST_BYTES:
        raise OpsError(
            f"the job's folders pack to {len(data):,} bytes",
            expected=f"at most {MOST_BYTES:,}, which a ConfigMap takes",
            fix=f"put data on {names.MOUNT_PATH} and what is not needed into .gitignore, or use cluster: standing",
            code=BAD_USE,
        )
    return data


# --- its life ------------------------------------------------------------------------------------------------------


def submit(target: Target, file: JobFile, *, name: str, wait: bool) -> int:
    """Create the RayJob with its code, and follow it."""
    target.aws.require_account()
    plan, api = target.plan, target.kubernetes
    namespace = plan.settings.ray.namespace
    data = code_of(file)
    live = _live(target)
    called = name or _name(file.job)
    code = f"{called}-code"
    manifest = ray_job(plan, live, file.job, name=called, code=code)
    if file.job.queue is not None:
        _require_queue(target, file.job.queue)
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
        made = api.request("POST", path(target, "rayjobs"), body=manifest)
    except Exception as error:
        if getattr(error, "status", None) == 409:
            raise OpsError(
                f"a job called '{called}' exists",
                expected="a new name",
                fix="give another --submission-id",
                code=BAD_USE,
            ) from None
        api.delete(f"{maps}/{code}")
        raise
    owner = {
        "apiVersion": names.RAY_API_VERSION,
        "kind": "RayJob",
        "name": called,
        "uid": made["metadata"]["uid"],
    }
    api.patch(f"{maps}/{code}", {"metadata": {"ownerReferences": [owner]}})
    output.log(f"submitted {called}, on a RayCluster of its own: {file.job.command}")
    if not wait:
        output.write_line(called)
        return OK
    try:
        return follow(target, called)
    except KeyboardInterrupt:
        again = target.command("runs logs", called, "--follow")
        output.log(f"stopped following; {called} continues. Follow it again: {again}")
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


def _require_queue(target: Target, queue: str) -> None:
    """Refuse a queue that does not exist: a job in it waits without an end."""
    namespace = target.plan.settings.ray.namespace
    where = f"/apis/{names.QUEUE_API_VERSION}/namespaces/{namespace}/localqueues"
    try:
        there = [item["metadata"]["name"] for item in target.kubernetes.items(where)]
    except Exception as error:
        if getattr(error, "status", None) == 404:
            raise OpsError(
                f"queue: '{queue}', and the cluster has no Kueue",
                expected="Kueue, or the add-on for HyperPod task governance",
                fix="remove queue: without one, jobs wait for free nodes",
                code=BAD_USE,
            ) from None
        if getattr(error, "status", None) == 403:
            output.log(f"whether queue '{queue}' exists is not yours to see")
            return
        raise
    if queue not in there:
        raise OpsError(
            f"queue: no LocalQueue '{queue}' in namespace {namespace}",
            expected=f"one of {', '.join(there)}" if there else "a LocalQueue; there is none",
            fix="correct queue, or ask for a LocalQueue in this namespace",
            code=BAD_USE,
        )


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """Why a job's cluster is not there yet."""

    what: str
    holders: str = ""
    """Who has what it waits for."""

    def __str__(self) -> str:
        return f"{self.what}; {self.holders}" if self.holders else self.what


def why_it_waits(target: Target, item: Json) -> Waiting | None:
    """What a RayJob waits for; None where it does not."""
    status = item.get("status") or {}
    state, cluster = status.get("jobDeploymentStatus") or "", status.get("rayClusterName") or ""
    queue = (item["metadata"].get("labels") or {}).get(names.QUEUE_LABEL)
    if queue and (item["spec"].get("suspend") or state == "Suspended"):
        return Waiting(what=f"queue '{queue}' has not admitted it")
    if state not in ("", "New", "Initializing", "Waiting"):
        return None
    pods = gather.pods(target, item["metadata"]["namespace"])
    own = [pod for pod in pods if pod.cluster == cluster]
    pending = [pod for pod in own if pod.phase == "Pending" and not pod.node]
    if pending:
        first = pending[0]
        said = re.sub(r"\s+", " ", first.message or first.reason or "not scheduled yet").strip()
        what = f"{len(pending)} of {len(own)} pods find no node (group {first.instance_group or '?'}): {said[:200]}"
        return Waiting(what=what, holders=_holders(pods, first.instance_group, cluster))
    broken = next((pod for pod in own if not pod.ready and pod.reason), None)
    if broken is not None:
        return Waiting(what=f"pod {broken.name} does not run: {broken.reason} {broken.message[:160]}".rstrip())
    if own and not all(pod.ready for pod in own):
        return Waiting(what=f"{sum(pod.ready for pod in own)} of {len(own)} pods are ready")
    return Waiting(what=str(status.get("reason") or "") or "its RayCluster has no pods yet") if not own else None


def _holders(pods: list[Pod], group: str, cluster: str) -> str:
    """Clusters whose pods are on the nodes of a group."""
    counts: dict[str, int] = {}
    for pod in pods:
        if pod.instance_group == group and pod.cluster != cluster and pod.node and pod.phase != "Succeeded":
            counts[pod.cluster] = counts.get(pod.cluster, 0) + 1
    held = ", ".join(f"RayCluster {name} has {count}" for name, count in sorted(counts.items()))
    return f"of the pods on these nodes, {held}" if held else ""


def follow(target: Target, name: str, *, poll: float = POLL_SECONDS) -> int:
    """Say why the job waits and print its log, until it has ended. Exit code of the driver where it failed."""
    said, printed = "", 0
    while True:
        item = find(target, name)
        status = item.get("status") or {}
        state = status.get("jobDeploymentStatus") or ""
        waiting = why_it_waits(target, item)
        words = f"{name} waits: {waiting}" if waiting else f"{name} {state or 'New'}"
        if words != said:
            output.log(words)
            said = words
        text = log_of(target, name)
        if len(text) < printed:
            printed = 0  # a retry: the log of a new submitter
        if text[printed:]:
            output.write_text(text[printed:])
            printed = len(text)
        if state in ENDED:
            return _ended(target, name, status)
        time.sleep(poll)


def find(target: Target, name: str) -> Json:
    """The RayJob called `name`."""
    try:
        return target.kubernetes.request("GET", path(target, "rayjobs", name))
    except Exception as error:
        if getattr(error, "status", None) != 404:
            raise
        raise OpsError(
            f"RayJob '{name}' does not exist",
            expected="a job that was not deleted",
            fix=f"hyperpod-ray runs list {target.name}",
            code=BAD_USE,
        ) from None


def listed(target: Target) -> list[Json]:
    """RayJobs of the environment with clusters of their own; none where the kind or the right is missing."""
    try:
        found = target.kubernetes.items(path(target, "rayjobs"))
    except Exception as error:
        if getattr(error, "status", None) in (403, 404):
            return []
        raise
    return [item for item in found if "rayClusterSpec" in item["spec"]]


def log_of(target: Target, name: str) -> str:
    """The submitter's log, which is the driver's; empty where it does not run yet."""
    namespace = target.plan.settings.ray.namespace
    pods = target.kubernetes.items(f"/api/v1/namespaces/{namespace}/pods", labels=f"job-name={name}")
    begun = [pod for pod in pods if (pod.get("status") or {}).get("phase") in ("Running", "Succeeded", "Failed")]
    if not begun:
        return ""
    newest = max(begun, key=lambda pod: str(pod["metadata"].get("creationTimestamp") or ""))
    try:
        return target.kubernetes.text(f"/api/v1/namespaces/{namespace}/pods/{newest['metadata']['name']}/log")
    except Exception as error:
        if getattr(error, "status", None) in (400, 404):
            return ""  # its container has not begun, or the pod is gone
        raise


def exit_code(status: Json) -> int | None:
    """Exit code of the driver, from the words of Ray; None where the job has not failed or Ray does not say it."""
    if status.get("jobStatus") == "SUCCEEDED":
        return 0
    found = re.search(r"exit code (\d+)", str(status.get("message") or ""))
    return int(found[1]) if found and status.get("jobStatus") == "FAILED" else None


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
    item = find(target, name)
    cluster = str((item.get("status") or {}).get("rayClusterName") or "")
    target.kubernetes.delete(path(target, "rayjobs", name))
    end = time.monotonic() + limit_s
    while True:
        left = [one for one in listed(target) if one["metadata"]["name"] == name]
        clusters = target.kubernetes.items(path(target, "rayclusters"))
        if not left and not any(one["metadata"]["name"] == cluster for one in clusters):
            return
        if time.monotonic() > end:
            raise OpsError(
                f"{name} is not gone after {limit_s:g} s",
                expected="the operator to delete it with its RayCluster",
                fix=f"hyperpod-ray status {target.name}",
                code=STILL_GOING,
            )
        time.sleep(min(POLL_SECONDS, 0.5))
