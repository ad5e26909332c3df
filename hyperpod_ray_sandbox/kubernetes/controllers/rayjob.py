"""RayJobs as KubeRay 1.7.0's operator handles them, up to the submission: a model of its state machine.

What it keeps: the verdict of the operator's own validation (`hyperpod_ray_rules.kuberay`) in status and events, the
RayCluster that the operator creates of `rayClusterSpec`, suspension, and the finalizer that waits for the cluster's
token. `activeDeadlineSeconds` ends a RayJob. Not modelled: the submitter and the job itself. No entrypoint runs here,
so that a RayJob whose cluster is ready otherwise stays `Running`.
Source: ray-project/kuberay ray-operator/controllers/ray/rayjob_controller.go
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from hyperpod_ray_rules import kuberay, names
from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.controllers.common import event, owner, remove, set_status, suffix
from hyperpod_ray_sandbox.kubernetes.status import ApiError
from hyperpod_ray_sandbox.kubernetes.store import copy
from hyperpod_ray_sandbox.kubernetes.times import now

Json = dict[str, Any]

API_VERSION = names.RAY_API_VERSION
FINALIZER = "ray.io/rayjob-finalizer"
SOURCE = "rayjob-controller"
TERMINAL = {"Complete", "Failed", "ValidationFailed"}


class RayJobs:
    """Moves each RayJob one state further."""

    def __init__(self, api: Api) -> None:
        self.api = api

    def reconcile(self, job: Json) -> None:
        """One pass over one RayJob."""
        if job["metadata"].get("deletionTimestamp"):
            self._deleted(job)
            return
        if self._refused(job):
            return
        match (job.get("status") or {}).get("jobDeploymentStatus", ""):
            case "" | "New":
                self._begin(job)
            case "Initializing" | "Running" if self._overdue(job):
                self._end(job)
            case "Initializing" | "Running":
                self._suspend(job) if job["spec"].get("suspend") else self._initialize(job)
            case "Suspending":
                self._suspending(job)
            case "Suspended" if not job["spec"].get("suspend"):
                self._set(job, jobDeploymentStatus="", jobStatus="")

    def _refused(self, job: Json) -> bool:
        """The operator fails a job at once for what it can see; what its RayCluster is refused for comes later."""
        verdicts = [verdict for verdict in kuberay.judge(job) if verdict.reason != "InvalidRayClusterSpec"]
        if not verdicts:
            return False
        message = f"{job['metadata']['namespace']}/{job['metadata']['name']}: {verdicts[0].message}"
        if (job.get("status") or {}).get("message") != verdicts[0].message:
            event(self.api, job, "Warning", verdicts[0].reason, message, SOURCE)
            self._set(
                job,
                jobDeploymentStatus="ValidationFailed",
                reason="ValidationFailed",
                message=verdicts[0].message,
                endTime=now(),
            )
        return True

    def _begin(self, job: Json) -> None:
        name = job["metadata"]["name"]
        if FINALIZER not in (job["metadata"].get("finalizers") or []):

            def hold(current: Json) -> None:
                current["metadata"]["finalizers"] = [*(current["metadata"].get("finalizers") or []), FINALIZER]

            self.api.modify(job, hold)
            return
        selected = (job["spec"].get("clusterSelector") or {}).get(names.RAY_CLUSTER_LABEL)
        self._set(
            job,
            jobDeploymentStatus="Initializing",
            jobId=job["spec"].get("jobId") or f"{name}-{suffix()}",
            rayClusterName=selected or f"{name}-{suffix()}",
            startTime=now(),
        )

    def _initialize(self, job: Json) -> None:
        namespace, name = job["metadata"]["namespace"], job["status"]["rayClusterName"]
        cluster = self.api.find(API_VERSION, "RayCluster", namespace, name)
        if cluster is None:
            if job["spec"].get("clusterSelector"):
                message = f"RayCluster {namespace}/{name} set in the clusterSelector is not found."
                event(self.api, job, "Warning", "RayClusterNotFound", f"{message} It must be created manually", SOURCE)
            else:
                self._create(job, name)
            return
        status = cluster.get("status") or {}
        ready = status.get("state") == "ready"
        fields: Json = {"rayClusterStatus": copy(status)}
        if ready:
            service = status.get("head", {}).get("serviceName", "")
            fields |= {
                "dashboardURL": f"{service}.{namespace}.svc.cluster.local:{names.DASHBOARD_PORT}",
                "jobDeploymentStatus": "Running",
            }
        self._set(job, **fields)

    def _create(self, job: Json, name: str) -> None:
        metadata = job["metadata"]
        labels = {
            **(metadata.get("labels") or {}),
            "ray.io/originated-from-cr-name": metadata["name"],
            "ray.io/originated-from-crd": "RayJob",
            "ray.io/job-submission-mode": job["spec"].get("submissionMode") or "K8sJobMode",
        }
        body = {
            "apiVersion": API_VERSION,
            "kind": "RayCluster",
            "metadata": {
                "name": name,
                "namespace": metadata["namespace"],
                "labels": labels,
                "annotations": dict(metadata.get("annotations") or {}),
                "ownerReferences": [owner(job)],
            },
            "spec": copy(job["spec"]["rayClusterSpec"]),
        }
        where = f"{metadata['namespace']}/{name}"
        try:
            self.api.create(self.api.kind(API_VERSION, "RayCluster"), metadata["namespace"], body)
        except ApiError as error:
            message = f"Failed to create RayCluster {where}: {error.message}"
            event(self.api, job, "Warning", "FailedToCreateRayCluster", message, SOURCE)
        else:
            event(self.api, job, "Normal", "CreatedRayCluster", f"Created RayCluster {where}", SOURCE)

    def _overdue(self, job: Json) -> bool:
        """Whether the job has run for longer than it may."""
        most, started = job["spec"].get("activeDeadlineSeconds"), job["status"].get("startTime")
        if most is None or not started:
            return False
        age = datetime.fromisoformat(now()) - datetime.fromisoformat(started)
        return age.total_seconds() >= int(most)

    def _end(self, job: Json) -> None:
        """As the operator does, with its message; the cluster goes by `shutdownAfterJobFinishes`, or by its rules."""
        most, started = job["spec"]["activeDeadlineSeconds"], job["status"]["startTime"]
        message = (
            f"The RayJob has passed the activeDeadlineSeconds. StartTime: {started}. ActiveDeadlineSeconds: {most}"
        )
        event(self.api, job, "Warning", "DeadlineExceeded", message, SOURCE)
        rules = (job["spec"].get("deletionStrategy") or {}).get("deletionRules") or []
        failed = [rule for rule in rules if rule["condition"].get("jobDeploymentStatus") == "Failed"]
        cluster = self.api.find(
            API_VERSION, "RayCluster", job["metadata"]["namespace"], job["status"].get("rayClusterName", "")
        )
        if cluster is not None and (
            job["spec"].get("shutdownAfterJobFinishes") or any(rule["policy"] == "DeleteCluster" for rule in failed)
        ):
            remove(self.api, cluster)
        self._set(job, jobDeploymentStatus="Failed", reason="DeadlineExceeded", message=message, endTime=now())

    def _suspend(self, job: Json) -> None:
        self._set(job, jobDeploymentStatus="Suspending")

    def _suspending(self, job: Json) -> None:
        name = job["status"].get("rayClusterName", "")
        cluster = self.api.find(API_VERSION, "RayCluster", job["metadata"]["namespace"], name)
        if cluster is not None:
            if not cluster["metadata"].get("deletionTimestamp"):
                remove(self.api, cluster)
            return
        self._set(
            job,
            jobDeploymentStatus="Suspended",
            jobStatus="",
            rayClusterName="",
            dashboardURL="",
            jobId="",
            rayClusterStatus={},
        )

    def _deleted(self, job: Json) -> None:
        """The finalizer goes once the operator could ask the cluster to stop the job, for which it needs the token.

        Without the Secret of a cluster that exists it asks again and again, and the RayJob stays.
        """
        status = job.get("status") or {}
        namespace, name = job["metadata"]["namespace"], status.get("rayClusterName", "")
        cluster = self.api.find(API_VERSION, "RayCluster", namespace, name) if name else None
        if cluster is not None and status.get("jobStatus") not in {"SUCCEEDED", "FAILED", "STOPPED"}:
            options = cluster["spec"].get("authOptions") or {}
            secret = options.get("secretName") or name
            if options.get("mode") == "token" and self.api.find("v1", "Secret", namespace, secret) is None:
                return

        def release(current: Json) -> None:
            kept = [finalizer for finalizer in current["metadata"].get("finalizers") or [] if finalizer != FINALIZER]
            current["metadata"]["finalizers"] = kept

        if FINALIZER in (job["metadata"].get("finalizers") or []):
            self.api.modify(job, release)

    def _set(self, job: Json, **values: Any) -> None:
        set_status(self.api, job, lambda status: status.update(values))
