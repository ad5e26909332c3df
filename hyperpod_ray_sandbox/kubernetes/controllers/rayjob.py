"""RayJobs as KubeRay 1.7.0's operator handles them: a model of its state machine.

What it keeps: the verdict of the operator's own validation (`hyperpod_ray_rules.kuberay`) in status and events, the
RayCluster that the operator creates of `rayClusterSpec`, suspension, and the finalizer that waits for the cluster's
token. `activeDeadlineSeconds` ends a RayJob. Where this machine has a Ray, `entrypoints` runs the entrypoint on it, and
the RayJob ends as Ray's job does: retried up to `backoffLimit`, its cluster deleted by `shutdownAfterJobFinishes` or by
`deletionRules`. Elsewhere it stays `Running` with jobStatus `PENDING`, and its message says why. Not modelled: the
submitter's pod.
Source: ray-project/kuberay ray-operator/controllers/ray/rayjob_controller.go
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from hyperpod_ray_rules import kuberay, names
from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.controllers.common import event, owner, remove, set_status, suffix
from hyperpod_ray_sandbox.kubernetes.controllers.entrypoints import ENDED, Entrypoints
from hyperpod_ray_sandbox.kubernetes.status import ApiError
from hyperpod_ray_sandbox.kubernetes.store import copy
from hyperpod_ray_sandbox.kubernetes.times import now

Json = dict[str, Any]

API_VERSION = names.RAY_API_VERSION
FINALIZER = "ray.io/rayjob-finalizer"
SOURCE = "rayjob-controller"
NO_RAY = (
    "the entrypoint does not run: this machine has no Ray for the sandbox. Expected one. Fix: make rehearsal-env, then "
    "hyperpod-ray local down and up"
)
INTERACTIVE = "InteractiveMode"


class RayJobs:
    """Moves each RayJob one state further."""

    def __init__(self, api: Api, entrypoints: Entrypoints) -> None:
        self.api = api
        self._entrypoints = entrypoints

    def reconcile(self, job: Json, gates: Mapping[str, bool] = kuberay.DEFAULT_GATES) -> None:
        """One pass over one RayJob, by an operator with these feature gates."""
        if job["metadata"].get("deletionTimestamp"):
            self._entrypoints.stop(job)
            self._deleted(job)
            return
        if self._refused(job, gates):
            return
        match (job.get("status") or {}).get("jobDeploymentStatus", ""):
            case "" | "New":
                self._begin(job)
            case "Initializing" | "Waiting" | "Running" if self._overdue(job):
                self._end(job)
            case "Initializing" | "Running" if job["spec"].get("suspend"):
                self._suspend(job)
            case "Initializing":
                self._initialize(job)
            case "Waiting" if job["spec"].get("jobId"):
                self._set(job, jobDeploymentStatus="Running", jobId=job["spec"]["jobId"])
            case "Running":
                self._follow(job)
            case "Suspending":
                self._released(job, into="Suspended")
            case "Retrying":
                self._released(job, into="")
            case "Complete" | "Failed":
                self._clean(job)
            case "Suspended" if not job["spec"].get("suspend"):
                self._set(job, jobDeploymentStatus="", jobStatus="")

    def _refused(self, job: Json, gates: Mapping[str, bool]) -> bool:
        """The operator fails a job at once for what it can see; what its RayCluster is refused for comes later."""
        verdicts = [verdict for verdict in kuberay.judge(job, gates=gates) if verdict.reason != "InvalidRayClusterSpec"]
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
                "jobDeploymentStatus": "Waiting" if job["spec"].get("submissionMode") == INTERACTIVE else "Running",
            }
        self._set(job, **fields)

    def _follow(self, job: Json) -> None:
        """Run the entrypoint, and take over what Ray says of it."""
        cluster = self.api.find(
            API_VERSION, "RayCluster", job["metadata"]["namespace"], job["status"].get("rayClusterName", "")
        )
        if cluster is None or job["spec"].get("submissionMode") == INTERACTIVE:
            return
        if not self._entrypoints.installed:
            if job["status"].get("message") != NO_RAY:
                event(self.api, job, "Warning", "NoRay", NO_RAY, SOURCE)
            self._set(job, jobStatus="PENDING", message=NO_RAY, rayClusterStatus=copy(cluster.get("status") or {}))
            return
        run = self._entrypoints.follow(job, cluster)
        times = {name: run[name] for name in ("startTime", "endTime") if run.get(name)}
        self._set(job, jobStatus=run["jobStatus"], message=run["message"], **({"rayJobInfo": times} if times else {}))
        if run["jobStatus"] in ENDED:
            self._ended(job, run)

    def _ended(self, job: Json, run: Json) -> None:
        """Ray's job changes no more: the RayJob is complete, has failed, or is retried with a new cluster."""
        status = job["status"]
        failed, succeeded = int(status.get("failed") or 0), int(status.get("succeeded") or 0)
        if run["jobStatus"] != "FAILED":
            succeeded += run["jobStatus"] == "SUCCEEDED"
            self._set(job, jobDeploymentStatus="Complete", endTime=now(), failed=failed, succeeded=succeeded)
            return
        failed += 1
        retried = failed <= int(job["spec"].get("backoffLimit") or 0)
        self._set(
            job,
            jobDeploymentStatus="Retrying" if retried else "Failed",
            reason="AppFailed",
            failed=failed,
            succeeded=succeeded,
            **({} if retried else {"endTime": now()}),
        )

    def _clean(self, job: Json) -> None:
        """What the operator deletes of a RayJob that ended, when its time is over."""
        spec, status = job["spec"], job["status"]
        ended = datetime.fromisoformat(status.get("endTime") or now())
        age = (datetime.fromisoformat(now()) - ended).total_seconds()
        cluster = self.api.find(
            API_VERSION, "RayCluster", job["metadata"]["namespace"], status.get("rayClusterName", "")
        )
        if strategy := spec.get("deletionStrategy"):
            for rule in strategy.get("deletionRules") or []:
                met = rule["condition"]
                applies = met.get("jobStatus") == status.get("jobStatus") or (
                    met.get("jobDeploymentStatus") == status["jobDeploymentStatus"]
                )
                if applies and age >= int(met.get("ttlSeconds") or 0):
                    self._delete(job, cluster, str(rule["policy"]))
        elif spec.get("shutdownAfterJobFinishes") and age >= int(spec.get("ttlSecondsAfterFinished") or 0):
            self._delete(job, cluster, "DeleteCluster")

    def _delete(self, job: Json, cluster: Json | None, policy: str) -> None:
        gone = cluster is None or cluster["metadata"].get("deletionTimestamp")
        if policy == "DeleteSelf":
            remove(self.api, job)
        elif gone or cluster is None or job["spec"].get("clusterSelector"):
            return
        elif policy == "DeleteCluster":
            remove(self.api, cluster)
        elif policy == "DeleteWorkers":

            def suspend(current: Json) -> None:
                for group in current["spec"].get("workerGroupSpecs") or []:
                    group["suspend"] = True

            self.api.modify(cluster, suspend)

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
        """As the operator does, with its message; what goes then is `_clean`'s."""
        most, started = job["spec"]["activeDeadlineSeconds"], job["status"]["startTime"]
        message = (
            f"The RayJob has passed the activeDeadlineSeconds. StartTime: {started}. ActiveDeadlineSeconds: {most}"
        )
        event(self.api, job, "Warning", "DeadlineExceeded", message, SOURCE)
        self._entrypoints.stop(job)
        self._set(job, jobDeploymentStatus="Failed", reason="DeadlineExceeded", message=message, endTime=now())

    def _suspend(self, job: Json) -> None:
        self._set(job, jobDeploymentStatus="Suspending")

    def _released(self, job: Json, *, into: str) -> None:
        """Wait until its cluster is gone, and forget the run; a retried job begins again."""
        self._entrypoints.stop(job)
        name = job["status"].get("rayClusterName", "")
        cluster = self.api.find(API_VERSION, "RayCluster", job["metadata"]["namespace"], name)
        if cluster is not None:
            if not cluster["metadata"].get("deletionTimestamp"):
                remove(self.api, cluster)
            return
        self._set(
            job,
            jobDeploymentStatus=into,
            jobStatus="",
            rayClusterName="",
            dashboardURL="",
            jobId="",
            message="",
            reason="",
            rayJobInfo={},
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
