"""RayJobs under the model of the KubeRay operator: its verdict is in the status, never silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.sandbox.kubernetes.test_controllers import OPERATOR, given, ray_cluster

pytestmark = [pytest.mark.emulator, pytest.mark.slow]

Json = dict[str, Any]
DEFINITIONS = Path(__file__).resolve().parents[3] / "hyperpod_ray_sandbox" / "charts" / "kuberay-operator" / "crds"


def ray_job(name: str, **spec: Any) -> Json:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": metadata, "spec": {"entrypoint": "x", **spec}}


def spec(**changes: Any) -> Json:
    found: Json = ray_cluster()["spec"]
    return {**found, **changes}


def deployment_status(cluster: Any, name: str) -> str:
    return str((cluster.get("rayjob", name).get("status") or {}).get("jobDeploymentStatus", ""))


def test_ray_jobs_get_the_operators_verdict(empty: Any) -> None:
    for name in ("rayclusters", "rayjobs"):
        empty.kubectl("apply", "--server-side", "-f", str(DEFINITIONS / f"ray.io_{name}.yaml"))
    empty.apply(OPERATOR)
    for name, group, gpus in (("cpu-1", "cpu", 0), ("gpu-1", "gpu", 1), ("gpu-2", "gpu", 1)):
        empty.kubectl("create", "-f", "-", stdin=yaml.safe_dump(given(name, group=group, gpus=gpus)))
    # refused at once
    refused = {
        "retried": (
            ray_job("retried", clusterSelector={"ray.io/cluster": "ray"}, backoffLimit=3),
            "The RayJob spec is invalid: BackoffLimit is incompatible with ClusterSelector mode",
        ),
        "suspended": (
            ray_job("suspended", suspend=True, rayClusterSpec=spec()),
            "The RayJob spec is invalid: a RayJob with shutdownAfterJobFinishes set to false is not allowed to be "
            "suspended",
        ),
    }
    for job, _ in refused.values():
        empty.apply(job)
    for name, (_, message) in refused.items():
        empty.until(lambda name=name: deployment_status(empty, name) == "ValidationFailed", f"{name} refused")
        status = empty.get("rayjob", name)["status"]
        assert (status["reason"], status["message"]) == ("ValidationFailed", message)
        assert message in empty.kubectl("describe", "rayjob", name).stdout

    # accepted as a job, and refused as the cluster that the operator makes of it: no pod, and no deletion
    stuck = ray_job("stuck", rayClusterSpec=spec(upgradeStrategy={"type": "None"}, authOptions={"mode": "token"}))
    empty.apply(stuck)
    empty.until(lambda: deployment_status(empty, "stuck") == "Initializing", "the job is accepted")
    cluster = empty.get("rayjob", "stuck")["status"]["rayClusterName"]
    said = "upgradeStrategy cannot be set when RayCluster is created by RayJob"
    empty.until(lambda: said in empty.kubectl("describe", "raycluster", cluster, ok=False).stdout, "the verdict")
    assert empty.get("pods", "-l", f"ray.io/cluster={cluster}")["items"] == []
    empty.kubectl("delete", "rayjob", "stuck", "--wait=false")
    # a good one passes meanwhile, with a cluster of its own
    empty.apply(ray_job("good", rayClusterSpec=spec()))
    empty.kubectl("wait", "--for=jsonpath={.status.jobDeploymentStatus}=Running", "rayjob/good", "--timeout=600s")
    own = empty.get("rayjob", "good")["status"]["rayClusterName"]
    assert own.startswith("good-")
    assert empty.get("raycluster", own)["metadata"]["labels"]["ray.io/originated-from-crd"] == "RayJob"
    assert empty.get("rayjob", "stuck")["metadata"]["finalizers"] == ["ray.io/rayjob-finalizer"]
    # the documented way out: the token it waits for
    empty.kubectl("create", "secret", "generic", cluster, "--from-literal=auth_token=none")
    empty.until(lambda: empty.kubectl("get", "rayjob", "stuck", ok=False).returncode != 0, "deleted")

    # a queue's job waits without a cluster, and starts when it is admitted
    empty.kubectl("delete", "rayjob", "good")
    empty.until(lambda: empty.kubectl("get", "raycluster", own, ok=False).returncode != 0, "gone with its job")
    empty.apply(ray_job("queued", suspend=True, shutdownAfterJobFinishes=True, rayClusterSpec=spec()))
    empty.kubectl("wait", "--for=jsonpath={.status.jobDeploymentStatus}=Suspended", "rayjob/queued", "--timeout=600s")
    assert not [item for item in empty.get("rayclusters")["items"] if item["metadata"]["name"].startswith("queued-")]
    empty.kubectl("patch", "rayjob", "queued", "--type=merge", "-p", '{"spec":{"suspend":false}}')
    empty.kubectl("wait", "--for=jsonpath={.status.jobDeploymentStatus}=Running", "rayjob/queued", "--timeout=600s")

    # a job with an end is ended with its cluster, whatever it does
    empty.apply(ray_job("bounded", activeDeadlineSeconds=1, shutdownAfterJobFinishes=True, rayClusterSpec=spec()))
    empty.kubectl("wait", "--for=jsonpath={.status.jobDeploymentStatus}=Failed", "rayjob/bounded", "--timeout=600s")
    status = empty.get("rayjob", "bounded")["status"]
    assert status["reason"] == "DeadlineExceeded" and "ActiveDeadlineSeconds: 1" in status["message"]
    empty.until(
        lambda: (
            not [one for one in empty.get("rayclusters")["items"] if one["metadata"]["name"].startswith("bounded-")]
        ),
        "its cluster goes",
    )
    assert deployment_status(empty, "queued") == "Running"


def test_autoscaled_workers_outlive_a_deploy(empty: Any) -> None:
    """A deploy writes `replicas` of the file again; the operator leaves the workers to the autoscaler."""
    empty.kubectl("apply", "--server-side", "-f", str(DEFINITIONS / "ray.io_rayclusters.yaml"))
    empty.apply(OPERATOR)
    for name, group, gpus in (("cpu-1", "cpu", 0), ("gpu-1", "gpu", 1), ("gpu-2", "gpu", 1)):
        empty.kubectl("create", "-f", "-", stdin=yaml.safe_dump(given(name, group=group, gpus=gpus)))
    scaled = ray_cluster(replicas=2, minReplicas=0, maxReplicas=2)
    scaled["spec"]["enableInTreeAutoscaling"] = True
    empty.apply(scaled)

    def workers() -> list[str]:
        found = empty.get("pods", "-l", "ray.io/node-type=worker,ray.io/cluster=ray")["items"]
        return sorted(pod["metadata"]["name"] for pod in found if not pod["metadata"].get("deletionTimestamp"))

    empty.until(lambda: len(workers()) == 2, "two workers")
    before = workers()
    scaled["spec"]["workerGroupSpecs"][0]["replicas"] = 1
    empty.apply(scaled)
    empty.until(
        lambda: empty.get("raycluster", "ray")["status"].get("desiredWorkerReplicas") == 1, "the operator saw it"
    )
    assert workers() == before
    # named by the autoscaler, a worker goes
    scaled["spec"]["workerGroupSpecs"][0]["scaleStrategy"] = {"workersToDelete": [before[0]]}
    empty.apply(scaled)
    empty.until(lambda: workers() == before[1:], "the named worker is deleted")
