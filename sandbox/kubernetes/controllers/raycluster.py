"""RayCluster to pods and a head service, named and labelled as KubeRay 1.7.0 does: a model of its operator.

Works only while a KubeRay operator Deployment is available in the cluster (its chart labels it
`app.kubernetes.io/name: kuberay-operator`). What it keeps of the real operator, good and bad: pod names and labels,
replicas kept within min and max, a failed pod replaced, a Terminating pod on a lost node **not** replaced, and
`status.state` that stays `ready` once it was. It refuses what the operator refuses (`core.kuberay`). RayJobs are in
`rayjob.py`. Not modelled: RayService, RayCronJob, the autoscaler, upgrades of pods in place. Source:
ray-project/kuberay ray-operator/controllers/ray (utils.PodName, labelPod, CalculateStatus).
"""

from __future__ import annotations

import secrets
from typing import Any

from core import kuberay
from sandbox.kubernetes.api import Api, now
from sandbox.kubernetes.controllers.common import (
    alive,
    condition,
    event,
    has,
    make_pod,
    owner,
    pod_ready,
    pods_of,
    remove,
    set_status,
)
from sandbox.kubernetes.controllers.rayjob import RayJobs
from sandbox.kubernetes.quantity import number
from sandbox.kubernetes.status import ApiError
from sandbox.kubernetes.store import copy

Json = dict[str, Any]

API_VERSION = "ray.io/v1"
HEAD_GROUP = "headgroup"
_NAMES = {"app.kubernetes.io/created-by": "kuberay-operator", "app.kubernetes.io/name": "kuberay"}
_PORTS = {"client": 10001, "dashboard": 8265, "gcs-server": 6379, "metrics": 8080, "serve": 8000}


def desired(group: Json) -> int:
    """Pods a worker group should have."""
    if group.get("suspend"):
        return 0
    low, high = int(group.get("minReplicas") or 0), int(group.get("maxReplicas") or 2147483647)
    replicas = group.get("replicas")
    count = low if replicas is None else int(replicas)
    return (high if low > high else min(max(count, low), high)) * int(group.get("numOfHosts") or 1)


class RayClusters:
    """Keeps the pods of RayClusters."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self._jobs = RayJobs(api)

    def _operator_runs(self) -> bool:
        return any(
            (d["metadata"].get("labels") or {}).get("app.kubernetes.io/name") == "kuberay-operator"
            and has(d, "Available")
            and int((d.get("status") or {}).get("readyReplicas") or 0) > 0
            for d in self.api.all("apps/v1", "Deployment")
        )

    def reconcile(self) -> None:
        """One pass."""
        resource = self.api.registry.by_kind(API_VERSION, "RayCluster")
        if resource is None or not self._operator_runs():
            return
        for stored in self.api.store.objects(resource.store):
            if not stored["metadata"].get("deletionTimestamp"):
                self._cluster(self.api.present(resource, stored))
        jobs = self.api.registry.by_kind(API_VERSION, "RayJob")
        if jobs is not None:
            for stored in self.api.store.objects(jobs.store):
                self._jobs.reconcile(self.api.present(jobs, stored))

    def _cluster(self, cluster: Json) -> None:
        if problems := kuberay.judge(cluster):
            part = "metadata" if problems[0].reason == "InvalidRayClusterMetadata" else "spec"
            part = "UpgradeStrategy" if problems[0].rule == "upgrade_strategy" else part
            name = f"{cluster['metadata']['namespace']}/{cluster['metadata']['name']}"
            said = f"The RayCluster {part} is invalid {name}: {problems[0].message}"
            if not self._told(cluster, said):
                event(self.api, cluster, "Warning", problems[0].reason, said, "raycluster-controller")
            return
        self._head_service(cluster)
        self._auth_secret(cluster)
        pods = pods_of(self.api, cluster)
        if cluster["spec"].get("suspend"):
            for pod in pods:
                remove(self.api, pod)
        else:
            self._head(cluster, [p for p in pods if _label(p, "node-type") == "head"])
            for group in cluster["spec"].get("workerGroupSpecs") or []:
                self._workers(
                    cluster,
                    group,
                    [
                        p
                        for p in pods
                        if _label(p, "node-type") == "worker" and _label(p, "group") == group["groupName"]
                    ],
                )
            known = {g["groupName"] for g in cluster["spec"].get("workerGroupSpecs") or []}
            for pod in pods:
                if (
                    _label(pod, "node-type") == "worker"
                    and _label(pod, "group") not in known
                    and not pod["metadata"].get("deletionTimestamp")
                ):
                    remove(self.api, pod)
        self._status(cluster)

    def _told(self, cluster: Json, problem: str) -> bool:
        return any(
            e.get("message") == problem and (e.get("involvedObject") or {}).get("uid") == cluster["metadata"]["uid"]
            for e in self.api.all("v1", "Event", cluster["metadata"]["namespace"])
        )

    def _head_service(self, cluster: Json) -> None:
        name, namespace = f"{cluster['metadata']['name']}-head-svc", cluster["metadata"]["namespace"]
        if self.api.find("v1", "Service", namespace, name) is not None:
            return
        head = cluster["spec"]["headGroupSpec"]
        labels = {
            **_NAMES,
            "ray.io/cluster": cluster["metadata"]["name"],
            "ray.io/node-type": "head",
            "ray.io/identifier": f"{cluster['metadata']['name']}-head",
        }
        kind = head.get("serviceType") or "ClusterIP"
        spec: Json = {
            "type": kind,
            "selector": labels,
            "publishNotReadyAddresses": True,
            "ports": [{"name": n, "port": p, "targetPort": p, "appProtocol": "tcp"} for n, p in _PORTS.items()],
        }
        if kind == "ClusterIP":
            spec["clusterIP"] = "None"
        body = {
            "apiVersion": "v1",
            "kind": "Service",
            "spec": spec,
            "metadata": {"name": name, "namespace": namespace, "labels": labels, "ownerReferences": [owner(cluster)]},
        }
        try:
            self.api.create(self.api.kind("v1", "Service"), namespace, body)
        except ApiError as error:
            event(self.api, cluster, "Warning", "FailedToCreateService", error.message, "raycluster-controller")

    def _auth_secret(self, cluster: Json) -> None:
        """The token that clients of Ray need: made once, in a Secret of the RayCluster's name."""
        if (cluster["spec"].get("authOptions") or {}).get("mode") != "token":
            return
        name, namespace = cluster["metadata"]["name"], cluster["metadata"]["namespace"]
        if self.api.find("v1", "Secret", namespace, name) is not None:
            return
        labels = {"ray.io/cluster": name}
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace, "labels": labels, "ownerReferences": [owner(cluster)]},
            "stringData": {"auth_token": secrets.token_urlsafe(32)},
        }
        try:
            self.api.create(self.api.kind("v1", "Secret"), namespace, body)
        except ApiError as error:
            event(self.api, cluster, "Warning", "FailedToCreateAuthSecret", error.message, "raycluster-controller")

    def _labels(self, cluster: Json, node_type: str, group: str) -> dict[str, str]:
        name = cluster["metadata"]["name"]
        return {
            **_NAMES,
            "ray.io/is-ray-node": "yes",
            "ray.io/cluster": name,
            "ray.io/node-type": node_type,
            "ray.io/group": group,
            "ray.io/identifier": f"{name}-{node_type}",
        }

    def _pod(
        self, cluster: Json, template: Json, *, node_type: str, group: str, name: str = "", prefix: str = ""
    ) -> None:
        namespace, cluster_name = cluster["metadata"]["namespace"], cluster["metadata"]["name"]
        service = f"{cluster_name}-head-svc.{namespace}.svc.cluster.local"

        def prepare(pod: Json) -> None:
            spec = pod["spec"]
            main = spec["containers"][0]
            env = main.setdefault("env", [])
            have = {e["name"] for e in env}
            address = "127.0.0.1:6379" if node_type == "head" else f"{service}:6379"
            for key, value in (("RAY_CLUSTER_NAME", cluster_name), ("RAY_ADDRESS", address), ("RAY_PORT", "6379")):
                if key not in have:
                    env.append({"name": key, "value": value})
            if not any(m["mountPath"] == "/dev/shm" for m in main.get("volumeMounts") or []):  # noqa: S108
                spec.setdefault("volumes", []).append({"name": "shared-mem", "emptyDir": {"medium": "Memory"}})
                main.setdefault("volumeMounts", []).append({"name": "shared-mem", "mountPath": "/dev/shm"})  # noqa: S108
            if node_type == "worker":
                small = {"cpu": "200m", "memory": "256Mi"}
                spec.setdefault("initContainers", []).append(
                    {
                        "name": "wait-gcs-ready",
                        "image": main["image"],
                        "command": ["/bin/bash", "-c", "--"],
                        "args": [f"until ray health-check --address {service}:6379; do sleep 5; done"],
                        "resources": {"limits": dict(small), "requests": dict(small)},
                    }
                )

        made = make_pod(
            self.api,
            cluster,
            copy(template),
            name=name,
            prefix=prefix,
            labels=self._labels(cluster, node_type, group),
            change=prepare,
        )
        if made:
            word = "CreatedHeadPod" if node_type == "head" else "CreatedWorkerPod"
            event(
                self.api,
                cluster,
                "Normal",
                word,
                f"Created {node_type} Pod {namespace}/{made['metadata']['name']}",
                "raycluster-controller",
            )

    def _head(self, cluster: Json, pods: list[Json]) -> None:
        for pod in pods:
            if not alive(pod) and not pod["metadata"].get("deletionTimestamp"):
                remove(self.api, pod)
        if not pods:
            self._pod(
                cluster,
                cluster["spec"]["headGroupSpec"]["template"],
                node_type="head",
                group=HEAD_GROUP,
                name=f"{cluster['metadata']['name'][:50]}-head",
            )

    def _workers(self, cluster: Json, group: Json, pods: list[Json]) -> None:
        for pod in pods:
            if not alive(pod) and not pod["metadata"].get("deletionTimestamp"):
                remove(self.api, pod)
        # a Terminating pod counts until it is gone, so a lost node whose object is kept gets no replacement
        there = [p for p in pods if alive(p)]
        missing = desired(group) - len(there)
        prefix = f"{cluster['metadata']['name']}-{group['groupName']}"[:50].lower() + "-worker-"
        for _ in range(missing):
            self._pod(cluster, group["template"], node_type="worker", group=group["groupName"], prefix=prefix)
        asked = set((group.get("scaleStrategy") or {}).get("workersToDelete") or [])
        extra = sorted(there, key=lambda p: (p["metadata"]["name"] not in asked, pod_ready(p)))[: max(0, -missing)]
        if cluster["spec"].get("enableInTreeAutoscaling"):
            # with autoscaling the operator deletes no pod of its own choice
            extra = [pod for pod in extra if pod["metadata"]["name"] in asked]
        for pod in extra:
            if not pod["metadata"].get("deletionTimestamp"):
                remove(self.api, pod)
                event(
                    self.api,
                    cluster,
                    "Normal",
                    "DeletedWorkerPod",
                    f"Deleted worker Pod {pod['metadata']['name']}",
                    "raycluster-controller",
                )

    def _status(self, cluster: Json) -> None:
        pods = pods_of(self.api, cluster)
        groups = cluster["spec"].get("workerGroupSpecs") or []
        workers = [p for p in pods if _label(p, "node-type") == "worker"]
        head = next((p for p in pods if _label(p, "node-type") == "head"), None)
        wanted = sum(desired(g) for g in groups)
        running = sum((p.get("status") or {}).get("phase") == "Running" for p in workers)
        ready = sum((p.get("status") or {}).get("phase") == "Running" and has(p, "Ready") for p in workers)
        service = self.api.find(
            "v1", "Service", cluster["metadata"]["namespace"], f"{cluster['metadata']['name']}-head-svc"
        )
        complete = bool(head) and pod_ready(head or {"metadata": {}}) and ready >= wanted

        def fill(status: Json) -> None:
            before = copy(status)
            suspended = bool(cluster["spec"].get("suspend"))
            status.update(
                observedGeneration=cluster["metadata"]["generation"],
                desiredWorkerReplicas=0 if suspended else wanted,
                availableWorkerReplicas=running,
                readyWorkerReplicas=ready,
                minWorkerReplicas=sum(int(g.get("minReplicas") or 0) for g in groups),
                maxWorkerReplicas=min(2147483647, sum(int(g.get("maxReplicas") or 2147483647) for g in groups)),
                endpoints={n: str(p) for n, p in _PORTS.items()},
                **_resources(cluster["spec"]),
            )
            status["head"] = {
                "podIP": ((head or {}).get("status") or {}).get("podIP", ""),
                "podName": (head or {"metadata": {"name": ""}})["metadata"]["name"],
                "serviceIP": ((head or {}).get("status") or {}).get("podIP", ""),
                "serviceName": (service or {"metadata": {"name": ""}})["metadata"]["name"],
            }
            up = head is not None and pod_ready(head)
            condition(
                status,
                "HeadPodReady",
                "True" if up else "False",
                "HeadPodRunningAndReady" if up else "ContainersNotReady",
            )
            if complete:
                condition(
                    status,
                    "RayClusterProvisioned",
                    "True",
                    "AllPodRunningAndReadyFirstTime",
                    "All Ray Pods are ready for the first time",
                )
            elif not any(c["type"] == "RayClusterProvisioned" for c in status["conditions"]):
                condition(
                    status,
                    "RayClusterProvisioned",
                    "False",
                    "RayClusterPodsProvisioning",
                    "RayCluster Pods are being provisioned for first time",
                )
            # as in real life: ready stays ready, whatever happens to the pods afterwards
            state = "suspended" if suspended and not pods else ("ready" if complete else status.get("state", ""))
            if state and state != status.get("state"):
                status["state"] = state
                status.setdefault("stateTransitionTimes", {})[state] = now()
            if {k: v for k, v in status.items() if k != "lastUpdateTime"} != {
                k: v for k, v in before.items() if k != "lastUpdateTime"
            }:
                status["lastUpdateTime"] = now()

        set_status(self.api, cluster, fill)


def _label(pod: Json, name: str) -> str:
    return str((pod["metadata"].get("labels") or {}).get(f"ray.io/{name}", ""))


def _resources(spec: Json) -> dict[str, str]:
    """The cluster's wish in total: CPU, memory (bytes), GPUs and TPUs, head included."""
    templates = [(spec["headGroupSpec"]["template"], 1)]
    templates += [(g["template"], desired(g)) for g in spec.get("workerGroupSpecs") or []]
    found = {}
    for field, name in (
        ("desiredCPU", "cpu"),
        ("desiredMemory", "memory"),
        ("desiredGPU", "nvidia.com/gpu"),
        ("desiredTPU", "google.com/tpu"),
    ):
        total = sum(
            number(
                ((c.get("resources") or {}).get("requests") or (c.get("resources") or {}).get("limits") or {}).get(
                    name, 0
                )
            )
            * count
            for template, count in templates
            for c in template["spec"]["containers"]
        )
        found[field] = str(int(total)) if total == int(total) else f"{int(total * 1000)}m"
    return found
