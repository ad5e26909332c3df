"""A RayJob, or a RayCronJob, for those who submit by manifest instead of by the Jobs API."""

from __future__ import annotations

import base64
import shlex
from typing import Any

from hyperpod_ray.core.names import (
    CLIENT_LABEL,
    COMMAND_ANNOTATION,
    DRIVER_GROUP,
    PRIORITY_LABEL,
    QUEUE_LABEL,
    RAY_API_VERSION,
    RAY_CLUSTER_LABEL,
)
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.k8s.bindings import Bindings
from hyperpod_ray.k8s.manifest import PART_OF
from hyperpod_ray.k8s.operator import RefusedError, accepted
from hyperpod_ray.k8s.pods import (
    group_tolerations,
    node_affinity,
    node_selector,
    resources,
    restricted_container,
    restricted_pod,
)
from hyperpod_ray.k8s.ray_cluster import cluster_spec
from hyperpod_ray.k8s.ray_settings import recovery

SHELL = frozenset(";&|<>()$`\n*?~#!{}[]\\")
"""Characters that mean something to a shell."""
RETRIES = 3
"""`backoffLimit` of a job that has its own cluster. A job on an existing cluster has none: the operator refuses it."""
FAILED_CLUSTER_SECONDS = 3600
"""How long the head of a failed job stays, so that you can read its logs."""
FAILED_AUTOSCALED_CLUSTER_SECONDS = 600
"""The same with autoscaling, where the operator cannot delete the workers alone."""


def ray_job(
    plan: Plan,
    bindings: Bindings,
    *,
    name: str,
    entrypoint: str,
    on_existing_cluster: bool = False,
    retries: int | None = None,
    queue: str | None = None,
    priority: str | None = None,
) -> dict[str, Any]:
    """A `ray.io/v1` RayJob that runs `entrypoint`.

    Args:
        name: of the RayJob, a DNS label of at most 47 characters.
        entrypoint: shell command, for example `cd /fsx/code && python main.py`. With the same storage path and run
            name each retry resumes from the last checkpoint.
        on_existing_cluster: submit to the environment's RayCluster. Default: a cluster of its own, which the operator
            deletes when the job is done.
        retries: `backoffLimit`: whole new clusters after a failure of the driver. Default: 3, and 0 on an existing
            cluster, where KubeRay allows no other. Failures of workers and nodes do not count here: Ray Train handles
            them (`FailureConfig(max_failures=-1)`).
        queue: LocalQueue of Kueue or HyperPod task governance in the Ray namespace. The job is created suspended and
            starts when the queue admits it, at a fixed size. Default: it starts at once.
        priority: WorkloadPriorityClass in that queue.

    Raises:
        RefusedError: options that exclude each other, or an object that the KubeRay operator refuses.
    """
    spec = _spec(
        plan,
        bindings,
        name=name,
        entrypoint=entrypoint,
        on_existing_cluster=on_existing_cluster,
        retries=retries,
        queue=queue,
        priority=priority,
    )
    return accepted(
        {
            "apiVersion": RAY_API_VERSION,
            "kind": "RayJob",
            "metadata": {
                "name": name,
                "namespace": plan.settings.ray.namespace,
                "labels": {**PART_OF, **_queue_labels(queue, priority)},
                **_annotations(entrypoint),
            },
            "spec": spec,
        },
        plan,
    )


def ray_cron_job(
    plan: Plan,
    bindings: Bindings,
    *,
    name: str,
    entrypoint: str,
    schedule: str,
    time_zone: str | None = None,
    on_existing_cluster: bool = False,
    retries: int | None = None,
) -> dict[str, Any]:
    """A `ray.io/v1` RayCronJob that creates such a RayJob on a schedule.

    The operator starts a run although the one before is still running: it has no concurrency policy.

    Args:
        name: of the RayCronJob, at most 36 characters.
        entrypoint: as for `ray_job`.
        schedule: five cron fields, or a descriptor such as `@daily`.
        time_zone: IANA name. Default: the operator's, which is UTC.
        on_existing_cluster: as for `ray_job`.
        retries: as for `ray_job`.

    Raises:
        RefusedError: as for `ray_job`.
    """
    job = _spec(
        plan, bindings, name=name, entrypoint=entrypoint, on_existing_cluster=on_existing_cluster, retries=retries
    )
    zone = {"timeZone": time_zone} if time_zone is not None else {}
    return accepted(
        {
            "apiVersion": RAY_API_VERSION,
            "kind": "RayCronJob",
            "metadata": {
                "name": name,
                "namespace": plan.settings.ray.namespace,
                "labels": dict(PART_OF),
                **_annotations(entrypoint),
            },
            "spec": {"schedule": schedule, **zone, "jobTemplate": job},
        },
        plan,
    )


def through_shells(command: str) -> str:
    """An entrypoint that runs `command` in a shell on the head, and in no shell before it.

    The operator writes the entrypoint into a script of the submitter's, where `&&`, `$` and the like are that script's,
    and Ray joins the words with Windows' rules for quotes. Words that mean something to a shell travel encoded.
    https://github.com/ray-project/kuberay/blob/master/ray-operator/controllers/ray/common/job.go
    """
    if not SHELL.intersection(command):
        return command
    encoded = base64.b64encode(command.encode()).decode()
    program = f"import base64, os; os.execvp('sh', ['sh', '-c', base64.b64decode('{encoded}').decode()])"
    return shlex.join(["python", "-c", program])


def _annotations(command: str) -> dict[str, Any]:
    """The command as it was given, where the entrypoint no longer shows it."""
    return {"annotations": {COMMAND_ANNOTATION: command}} if through_shells(command) != command else {}


def _queue_labels(queue: str | None, priority: str | None) -> dict[str, str]:
    stated = {QUEUE_LABEL: queue, PRIORITY_LABEL: priority}
    return {key: value for key, value in stated.items() if value is not None}


def _spec(
    plan: Plan,
    bindings: Bindings,
    *,
    name: str,
    entrypoint: str,
    on_existing_cluster: bool,
    retries: int | None,
    queue: str | None = None,
    priority: str | None = None,
) -> dict[str, Any]:
    """`spec` of a RayJob."""
    _refuse(on_existing_cluster=on_existing_cluster, retries=retries, queue=queue, priority=priority)
    settings = plan.settings.ray
    spec: dict[str, Any] = {
        "entrypoint": through_shells(entrypoint),
        "backoffLimit": retries if retries is not None else 0 if on_existing_cluster else RETRIES,
        "submissionMode": "K8sJobMode",
        "runtimeEnvYAML": _runtime_env(recovery(plan).job_env()),
        "submitterPodTemplate": _submitter(plan, bindings),
    }
    if settings.gcs_fault_tolerance:
        # the driver off the head's pod, so that a new head finds it alive
        spec["entrypointResources"] = f'{{"{DRIVER_GROUP}": 1}}'
    if on_existing_cluster:
        return {**spec, "clusterSelector": {RAY_CLUSTER_LABEL: settings.cluster_name}}
    autoscaling = settings.autoscaling and queue is None
    spec["rayClusterSpec"] = cluster_spec(plan, bindings, job=name, autoscaling=autoscaling)
    if queue is not None:
        if not any(worker.replicas for worker in settings.workers):
            raise RefusedError(
                f"queue: '{queue}'",
                expected="a worker group with replicas: a queue admits a fixed size, without the autoscaler",
                fix="set replicas in ray.workers",
            )
        # to suspend is to delete the cluster: the operator requires this consent, and no deletion rules
        return {**spec, "suspend": True, "shutdownAfterJobFinishes": True}
    return {**spec, "deletionStrategy": {"deletionRules": _deletion_rules(autoscaling=autoscaling)}}


def _refuse(*, on_existing_cluster: bool, retries: int | None, queue: str | None, priority: str | None) -> None:
    """Options that exclude each other."""
    if on_existing_cluster and retries:
        raise RefusedError(
            f"retries: {retries}",
            expected="0 on an existing cluster: a RayJob is retried on a new cluster",
            fix="remove --retries or --on-existing-cluster",
        )
    if on_existing_cluster and queue is not None:
        raise RefusedError(
            f"queue: '{queue}'",
            expected="none on an existing cluster: a queue admits clusters",
            fix="remove --queue or --on-existing-cluster",
        )
    if priority is not None and queue is None:
        raise RefusedError(f"priority: '{priority}'", expected="a queue, which gives it a meaning", fix="add --queue")


def _deletion_rules(*, autoscaling: bool) -> list[dict[str, Any]]:
    """A cluster goes at once with a job that succeeded. After a failure the GPUs are free first.

    `jobDeploymentStatus: Failed` covers jobs that failed and jobs that never started; `jobStatus: FAILED` only the
    first. The operator deletes no workers alone while the autoscaler would add them again.
    """
    succeeded = {"policy": "DeleteCluster", "condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": 0}}

    def failed(policy: str, seconds: int) -> dict[str, Any]:
        return {"policy": policy, "condition": {"jobDeploymentStatus": "Failed", "ttlSeconds": seconds}}

    if autoscaling:
        return [succeeded, failed("DeleteCluster", FAILED_AUTOSCALED_CLUSTER_SECONDS)]
    return [succeeded, failed("DeleteWorkers", 0), failed("DeleteCluster", FAILED_CLUSTER_SECONDS)]


def _submitter(plan: Plan, bindings: Bindings) -> dict[str, Any]:
    """Pod template of the Kubernetes Job that submits to the head: on the head's group, admitted by the policies."""
    head = plan.settings.ray.head.instance_group
    return {
        "metadata": {"labels": {**PART_OF, CLIENT_LABEL: "true"}},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "securityContext": restricted_pod(),
            "nodeSelector": node_selector(head),
            "affinity": {"nodeAffinity": node_affinity(deep_checks=False)},
            "tolerations": group_tolerations(plan, head),
            "containers": [
                {
                    "name": "ray-job-submitter",
                    "image": bindings.image_uri,
                    "resources": resources(cpu="500m", memory="1Gi"),
                    "securityContext": restricted_container(),
                }
            ],
        },
    }


def _runtime_env(env: dict[str, str]) -> str:
    lines = [f'  {key}: "{value}"' for key, value in sorted(env.items())]
    return "\n".join(["env_vars:", *lines, ""])
