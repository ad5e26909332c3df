"""The models of the controllers: jobs, volumes, lost nodes, and RayClusters under a KubeRay operator."""

from __future__ import annotations

import copy
import json
import re
import urllib.error
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = [pytest.mark.emulator, pytest.mark.slow]

Json = dict[str, Any]


def given(name: str, *, group: str = "cpu", gpus: int = 0) -> Json:
    """A Node as HyperPod labels it."""
    room = {"cpu": "16", "memory": "64Gi", "pods": "29"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    labels = {
        "sagemaker.amazonaws.com/instance-group-name": group,
        "sagemaker.amazonaws.com/node-health-status": "Schedulable",
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
            "status": {"allocatable": room, "capacity": room}}  # fmt: skip


def test_daemon_sets_follow_nodes(cluster: Any) -> None:
    daemon = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": "default"},
              "spec": {"selector": {"matchLabels": {"a": "agent"}}, "template": {"metadata": {"labels": {"a": "agent"}},
                       "spec": {"containers": [{"name": "c", "image": "i:1"}]}}}}  # fmt: skip
    cluster.apply(daemon)
    cluster.kubectl("rollout", "status", "ds/agent", "--timeout=600s")
    before = cluster.get("ds", "agent")["status"]["desiredNumberScheduled"]
    cluster.kubectl("create", "-f", "-", stdin=yaml.safe_dump(given("late")))
    cluster.until(
        lambda: cluster.get("ds", "agent")["status"].get("numberReady") == before + 1, "a pod on the new node"
    )
    cluster.kubectl("delete", "node", "late")
    cluster.until(
        lambda: cluster.get("ds", "agent")["status"].get("desiredNumberScheduled") == before, "the node forgotten"
    )
    cluster.kubectl("delete", "ds", "agent")


def test_static_volume_binds_and_is_released(cluster: Any) -> None:
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "static"},
              "spec": {"accessModes": ["ReadWriteMany"], "capacity": {"storage": "1200Gi"}, "storageClassName": "",
                       "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": "default", "name": "fsx"},
                       "csi": {"driver": "fsx.csi.aws.com", "volumeHandle": "fs-0123456789abcdef0"}}}  # fmt: skip
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "fsx", "namespace": "default"},
             "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": "static",
                      "resources": {"requests": {"storage": "1200Gi"}}}}  # fmt: skip
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "user", "namespace": "default"},
           "spec": {"containers": [{"name": "c", "image": "i:1"}], "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "fsx"}}]}}  # fmt: skip  # noqa: E501
    cluster.apply(claim, pod)
    cluster.until(
        lambda: "unbound immediate" in json.dumps(cluster.get("pod", "user")["status"]), "the pod waits for its claim"
    )
    cluster.apply(volume)
    cluster.kubectl("wait", "--for=jsonpath={.status.phase}=Bound", "pvc/fsx", "--timeout=600s")
    cluster.kubectl("wait", "--for=condition=Ready", "pod/user", "--timeout=600s")
    cluster.kubectl("delete", "pvc", "fsx", "--wait=false")
    assert cluster.get("pvc", "fsx")["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    cluster.kubectl("delete", "pod", "user")
    cluster.kubectl("wait", "--for=delete", "pvc/fsx", "--timeout=600s")
    cluster.kubectl("wait", "--for=jsonpath={.status.phase}=Released", "pv/static", "--timeout=600s")
    cluster.kubectl("delete", "pv", "static")


KUBERAY_CRD = (
    Path(__file__).resolve().parents[3] / "hyperpod_ray_sandbox/charts/kuberay-operator/crds/ray.io_rayclusters.yaml"
)


def ray_cluster(**group: Any) -> Json:
    def template(name: str, gpus: int = 0) -> Json:
        limits = {"cpu": "1", "memory": "2Gi"} | ({"nvidia.com/gpu": gpus} if gpus else {})
        tolerations = [
            {"key": f"node.kubernetes.io/{k}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 20}
            for k in ("not-ready", "unreachable")
        ]
        return {
            "spec": {
                "nodeSelector": {} if gpus else CPU,
                "tolerations": tolerations,
                "containers": [{"name": name, "image": "ray:2.60.0", "resources": {"limits": limits}}],
            }
        }

    workers = {
        "groupName": "gpu",
        "replicas": 1,
        "minReplicas": 1,
        "maxReplicas": 1,
        "rayStartParams": {},
        "template": template("worker", 1),
        **group,
    }
    return {
        "apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "ray", "namespace": "default"},
        "spec": {"rayVersion": "2.60.0", "headGroupSpec": {"rayStartParams": {"num-cpus": "0"}, "template": template("head")},  # noqa: E501
                 "workerGroupSpecs": [workers]},
    }  # fmt: skip


CPU = {"sagemaker.amazonaws.com/instance-group-name": "cpu"}
OPERATOR = {
    "apiVersion": "apps/v1", "kind": "Deployment",
    "metadata": {"name": "kuberay-operator", "namespace": "default", "labels": {"app.kubernetes.io/name": "kuberay-operator"}},  # noqa: E501
    "spec": {"selector": {"matchLabels": {"a": "operator"}}, "template": {"metadata": {"labels": {"a": "operator"}},
             "spec": {"nodeSelector": CPU, "containers": [{"name": "c", "image": "kuberay/operator:v1.7.0"}]}}},
}  # fmt: skip


def test_a_suspended_ray_cluster_and_a_fixed_head_name(empty: Any) -> None:
    empty.kubectl("apply", "--server-side", "-f", str(KUBERAY_CRD))
    for name, group, gpus in (("cpu-1", "cpu", 0), ("gpu-1", "gpu", 1)):
        empty.kubectl("create", "-f", "-", stdin=yaml.safe_dump(given(name, group=group, gpus=gpus)))
    operator: Json = copy.deepcopy(OPERATOR)
    operator["spec"]["template"]["spec"]["containers"][0]["env"] = [
        {"name": "ENABLE_DETERMINISTIC_HEAD_POD_NAME", "value": "true"}
    ]
    empty.apply(ray_cluster(), operator)
    empty.kubectl("wait", "--for=jsonpath={.status.state}=ready", "raycluster/ray", "--timeout=600s")
    assert empty.get("pod", "ray-head")["spec"]["containers"][0]["readinessProbe"]
    empty.kubectl("patch", "raycluster", "ray", "--type=merge", "-p", '{"spec": {"suspend": true}}')
    empty.kubectl("wait", "--for=condition=RayClusterSuspended", "raycluster/ray", "--timeout=600s")
    assert not empty.get("pods", "-l", "ray.io/cluster=ray")["items"]
    conditions = {c["type"]: c["status"] for c in empty.get("raycluster", "ray")["status"]["conditions"]}
    assert (conditions["RayClusterSuspending"], conditions["RayClusterProvisioned"]) == ("False", "False")


def test_the_claim_of_an_embedded_store(empty: Any) -> None:
    """The gate is the operator's; the claim is made once, keeps its size, and goes with its RayCluster.

    ray-operator/controllers/ray/raycluster_controller.go, reconcileGCSStoragePVC.
    """
    empty.kubectl("apply", "--server-side", "-f", str(KUBERAY_CRD))
    empty.kubectl("create", "-f", "-", stdin=yaml.safe_dump(given("cpu-1")))
    storage = {"size": "8Gi", "storageClassName": "gp3", "accessModes": ["ReadWriteOncePod"]}
    stored: Json = ray_cluster(replicas=0, minReplicas=0)
    stored["spec"]["gcsFaultToleranceOptions"] = {"backend": "rocksdb", "storage": storage}
    empty.apply(stored, OPERATOR)
    empty.until(lambda: "feature gate to be enabled" in json.dumps(empty.get("events")), "refused without the gate")
    operator: Json = copy.deepcopy(OPERATOR)
    operator["spec"]["template"]["spec"]["containers"][0]["args"] = [
        "--feature-gates=RayCronJob=true,GCSFaultToleranceEmbeddedStorage=true"
    ]
    empty.apply(operator)
    claim = empty.until(lambda: empty.get("pvc")["items"], "the claim")[0]
    assert claim["metadata"]["name"] == "ray-gcs-pvc"
    assert claim["metadata"]["ownerReferences"][0]["kind"] == "RayCluster"
    assert claim["spec"]["accessModes"] == ["ReadWriteOncePod"]
    assert claim["spec"]["storageClassName"] == "gp3"
    assert claim["spec"]["resources"]["requests"]["storage"] == "8Gi"
    stored["spec"]["gcsFaultToleranceOptions"]["storage"]["size"] = "16Gi"
    empty.apply(stored)
    empty.until(lambda: "cannot be reconfigured in place" in json.dumps(empty.get("events")), "the size stays")
    assert empty.get("pvc", "ray-gcs-pvc")["spec"]["resources"]["requests"]["storage"] == "8Gi"
    empty.kubectl("delete", "raycluster", "ray")
    empty.until(lambda: not empty.get("pvc")["items"], "the claim gone with its RayCluster")


def test_what_client_side_apply_records_has_a_limit(empty: Any) -> None:
    big = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big"}, "data": {"a": "x" * 270_000}}
    too_long = empty.kubectl("apply", "-f", "-", stdin=json.dumps(big), ok=False)
    assert "may not be more than 262144 bytes" in too_long.stderr
    empty.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(big))


def test_ray_cluster_from_definition_to_lost_node(empty: Any) -> None:
    """One story: KubeRay's own definition, validation, the operator, pods on their nodes, a node lost and one kept."""
    empty.kubectl("apply", "--server-side", "-f", str(KUBERAY_CRD))
    for bad, said in (
        (ray_cluster(bogus=1), 'unknown field "spec.workerGroupSpecs[0].bogus"'),
        (ray_cluster(groupName=None), "spec.workerGroupSpecs[0].groupName"),
        (ray_cluster(replicas="two"), "must be of type integer"),
    ):
        refused = empty.kubectl("create", "-f", "-", stdin=yaml.safe_dump(bad), ok=False)
        assert refused.returncode != 0
        assert said in refused.stderr
    empty.apply(ray_cluster(), OPERATOR)
    empty.until(lambda: "no nodes available" in json.dumps(empty.get("pods")), "the operator waits for a node")
    assert not empty.get("raycluster", "ray").get("status")  # nobody acts on it yet
    for name, group, gpus in (("cpu-1", "cpu", 0), ("gpu-1", "gpu", 1), ("gpu-2", "gpu", 1)):
        empty.kubectl("create", "-f", "-", stdin=yaml.safe_dump(given(name, group=group, gpus=gpus)))
    empty.kubectl("wait", "--for=jsonpath={.status.state}=ready", "raycluster/ray", "--timeout=600s")
    status = empty.get("raycluster", "ray")["status"]
    assert (status["readyWorkerReplicas"], status["desiredWorkerReplicas"], status["desiredGPU"]) == (1, 1, "1")
    worker = empty.get("pods", "-l", "ray.io/node-type=worker,ray.io/cluster=ray,ray.io/group=gpu")["items"][0]
    assert worker["metadata"]["name"].startswith("ray-gpu-worker-")
    assert worker["status"]["qosClass"] == "Guaranteed"
    head = empty.get("pods", "-l", "ray.io/node-type=head")["items"][0]
    assert re.fullmatch("ray-head-[a-z0-9]{5}", head["metadata"]["name"])
    assert head["status"]["qosClass"] == "Guaranteed"
    assert status["desiredMemory"] == "4Gi"
    assert {c["type"]: c["status"] for c in status["conditions"]} == {
        "HeadPodReady": "True",
        "RayClusterProvisioned": "True",
        "RayClusterSuspended": "False",
        "RayClusterSuspending": "False",
    }
    home = worker["spec"]["nodeName"]
    assert home in ("gpu-1", "gpu-2")
    assert empty.get("svc", "ray-head-svc")["spec"]["clusterIP"] == "None"

    # unreachable, its object kept: Terminating, no replacement, and the RayCluster still says ready
    empty.post(f"/rehearsal/nodes/{home}", {"mode": "unreachable"})
    empty.until(lambda: empty.get("pod", worker["metadata"]["name"])["metadata"].get("deletionTimestamp"), "evicted")
    kept = empty.get("raycluster", "ray")["status"]
    assert (kept["state"], kept["availableWorkerReplicas"]) == ("ready", 1)
    assert len(empty.get("pods", "-l", "ray.io/node-type=worker")["items"]) == 1
    # the out-of-service taint frees it
    empty.kubectl("taint", "node", home, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute")

    def moved() -> Any:
        pods = empty.get("pods", "-l", "ray.io/node-type=worker")["items"]
        return [p for p in pods if p["spec"].get("nodeName") not in (None, home) and p["status"]["phase"] == "Running"]

    second = empty.until(moved, "a new worker on the spare node")[0]
    # a node that goes takes its pods along; the worker waits for a node with a GPU
    empty.post(f"/rehearsal/nodes/{second['spec']['nodeName']}", {"mode": "gone"})
    empty.until(
        lambda: "NotFound" in empty.kubectl("get", "pod", second["metadata"]["name"], ok=False).stderr,
        "gone with its node",
    )
    waiting = empty.until(lambda: empty.get("pods", "-l", "ray.io/node-type=worker")["items"], "a replacement")[0]
    empty.until(
        lambda: "nodes are available" in json.dumps(empty.get("pod", waiting["metadata"]["name"])["status"]),
        "told why it waits",
    )
    with pytest.raises(urllib.error.HTTPError) as unknown:
        empty.post("/rehearsal/nodes/nobody", {"mode": "gone"})
    assert unknown.value.code == 404
    empty.kubectl("delete", "raycluster", "ray")
    empty.until(lambda: not empty.get("pods", "-l", "ray.io/cluster=ray")["items"], "pods gone with their RayCluster")
