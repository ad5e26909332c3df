"""RayCluster to pods and a head service, named and labelled as KubeRay 1.7.0 does: a model of its operator.

Works only while a KubeRay operator Deployment is available in the cluster (its chart labels it
`app.kubernetes.io/name: kuberay-operator`). What it keeps of the real operator, good and bad: pod names and labels,
replicas kept within min and max, a failed pod replaced, a Terminating pod on a lost node **not** replaced, and
`status.state` that stays `ready` once it was. It refuses what the operator refuses (`hyperpod_ray_rules.kuberay`).
RayJobs are in `rayjob.py`, RayCronJobs in `raycronjob.py`. Not modelled: RayService, the autoscaler, upgrades of pods
in place. Source: ray-project/kuberay ray-operator/controllers/ray (utils.PodName, labelPod, CalculateStatus).
"""

from __future__ import annotations

import secrets
from fractions import Fraction
from typing import Any

from hyperpod_ray_rules import kuberay, names
from hyperpod_ray_rules.quantity import number
from hyperpod_ray_sandbox.kubernetes.amounts import written
from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.controllers import raypods
from hyperpod_ray_sandbox.kubernetes.controllers.common import (
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
from hyperpod_ray_sandbox.kubernetes.controllers.entrypoints import Entrypoints
from hyperpod_ray_sandbox.kubernetes.controllers.raycronjob import RayCronJobs
from hyperpod_ray_sandbox.kubernetes.controllers.rayjob import RayJobs
from hyperpod_ray_sandbox.kubernetes.status import ApiError
from hyperpod_ray_sandbox.kubernetes.store import copy
from hyperpod_ray_sandbox.kubernetes.times import now

Json = dict[str, Any]

API_VERSION = names.RAY_API_VERSION
HEAD_GROUP = names.HEAD_GROUP
_NAMES = {"app.kubernetes.io/created-by": names.OPERATOR_CHART, "app.kubernetes.io/name": "kuberay"}


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

    def __init__(self, api: Api, entrypoints: Entrypoints) -> None:
        self.api = api
        self._entrypoints = entrypoints
        self._jobs = RayJobs(api, entrypoints)
        self._cron_jobs = RayCronJobs(api)

    def _operator_runs(self) -> bool:
        return any(
            (d["metadata"].get("labels") or {}).get("app.kubernetes.io/name") == names.OPERATOR_CHART
            and has(d, "Available")
            and int((d.get("status") or {}).get("readyReplicas") or 0) > 0
            for d in self.api.all("apps/v1", "Deployment")
        )

    def _operator_setting(self, name: str) -> str:
        """An environment variable of the operator's container."""
        for deployment in self.api.all("apps/v1", "Deployment"):
            if (deployment["metadata"].get("labels") or {}).get("app.kubernetes.io/name") == names.OPERATOR_CHART:
                for variable in deployment["spec"]["template"]["spec"]["containers"][0].get("env") or []:
                    if variable["name"] == name:
                        return str(variable.get("value") or "")
        return ""

    def _gates(self) -> dict[str, bool]:
        """The feature gates with which the operator runs."""
        gates = dict(kuberay.DEFAULT_GATES)
        for deployment in self.api.all("apps/v1", "Deployment"):
            if (deployment["metadata"].get("labels") or {}).get("app.kubernetes.io/name") == names.OPERATOR_CHART:
                for argument in deployment["spec"]["template"]["spec"]["containers"][0].get("args") or []:
                    option, _, value = str(argument).partition("=")
                    if option == "--feature-gates":
                        pairs = (pair.partition("=") for pair in value.split(","))
                        gates |= {name: on == "true" for name, _, on in pairs}
        return gates

    def reconcile(self) -> None:
        """One pass."""
        resource = self.api.registry.by_kind(API_VERSION, "RayCluster")
        if resource is None or not self._operator_runs():
            return
        gates = self._gates()
        for stored in self.api.store.objects(resource.store):
            if not stored["metadata"].get("deletionTimestamp"):
                self._cluster(self.api.present(resource, stored), gates)
        jobs = self.api.registry.by_kind(API_VERSION, "RayJob")
        if jobs is not None:
            stored_jobs = list(self.api.store.objects(jobs.store))
            self._entrypoints.keep({str(stored["metadata"]["uid"]) for stored in stored_jobs})
            for stored in stored_jobs:
                self._jobs.reconcile(self.api.present(jobs, stored), gates)
        cron_jobs = self.api.registry.by_kind(API_VERSION, "RayCronJob")
        if cron_jobs is not None and jobs is not None:
            for stored in list(self.api.store.objects(cron_jobs.store)):
                self._cron_jobs.reconcile(self.api.present(cron_jobs, stored), gates)

    def _cluster(self, cluster: Json, gates: dict[str, bool]) -> None:
        if problems := kuberay.judge(cluster, gates=gates):
            # the operator's sentence names what it found invalid: metadata, spec or UpgradeStrategy
            part = "metadata" if problems[0].reason == "InvalidRayClusterMetadata" else "spec"
            part = "UpgradeStrategy" if problems[0].rule == "upgrade_strategy" else part
            name = f"{cluster['metadata']['namespace']}/{cluster['metadata']['name']}"
            message = f"The RayCluster {part} is invalid {name}: {problems[0].message}"
            # once: the operator's recorder counts a repeated event up instead of writing it again
            if not self._told(cluster, message):
                event(self.api, cluster, "Warning", problems[0].reason, message, "raycluster-controller")
            return
        # before the pods, as the operator does: workers look for the head by this Service's name
        self._head_service(cluster)
        self._auth_secret(cluster)
        self._store_claim(cluster)
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
            group_names = {g["groupName"] for g in cluster["spec"].get("workerGroupSpecs") or []}
            for pod in pods:
                if (
                    _label(pod, "node-type") == "worker"
                    and _label(pod, "group") not in group_names
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
        labels = {
            **_NAMES,
            names.RAY_CLUSTER_LABEL: cluster["metadata"]["name"],
            names.RAY_ROLE_LABEL: "head",
            "ray.io/identifier": f"{cluster['metadata']['name']}-head",
        }
        body = {
            "apiVersion": "v1",
            "kind": "Service",
            "spec": raypods.head_service(cluster, labels),
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
        labels = {names.RAY_CLUSTER_LABEL: name}
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace, "labels": labels, "ownerReferences": [owner(cluster)]},
            "stringData": {names.TOKEN_KEY: secrets.token_urlsafe(32)},
        }
        try:
            self.api.create(self.api.kind("v1", "Secret"), namespace, body)
        except ApiError as error:
            event(self.api, cluster, "Warning", "FailedToCreateAuthSecret", error.message, "raycluster-controller")

    def _store_claim(self, cluster: Json) -> None:
        """The claim of the embedded store: made once, and never changed. It goes with the RayCluster, unless retained.

        Source: ray-operator/controllers/ray/raycluster_controller.go (reconcileGCSStoragePVC), common/gcs_ft.go.
        """
        options = cluster["spec"].get("gcsFaultToleranceOptions") or {}
        storage = options.get("storage") or {}
        if options.get("backend") != "rocksdb" or storage.get("claimName"):
            return
        name, namespace = raypods.store_claim(cluster), cluster["metadata"]["namespace"]
        modes, size = storage.get("accessModes") or ["ReadWriteOnce"], storage.get("size") or "1Gi"
        existing = self.api.find("v1", "PersistentVolumeClaim", namespace, name)
        if existing is not None:
            has_size = existing["spec"]["resources"]["requests"]["storage"]
            if number(has_size) != number(size):
                message = (
                    f"GCS storage PVC {namespace}/{name} already exists and cannot be reconfigured in place (size: "
                    f"{has_size} != {size}); delete the PVC to recreate it with the new settings"
                )
                if not self._told(cluster, message):
                    event(self.api, cluster, "Warning", "FailedToCreatePVC", message, "raycluster-controller")
            return
        spec: Json = {"accessModes": modes, "resources": {"requests": {"storage": size}}}
        if storage.get("storageClassName"):
            spec["storageClassName"] = storage["storageClassName"]
        labels = {names.RAY_CLUSTER_LABEL: cluster["metadata"]["name"]}
        metadata: Json = {"name": name, "namespace": namespace, "labels": labels}
        if storage.get("deletionPolicy") != "Retain":
            metadata["ownerReferences"] = [owner(cluster)]
        body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
        try:
            self.api.create(self.api.kind("v1", "PersistentVolumeClaim"), namespace, body)
        except ApiError as error:
            event(self.api, cluster, "Warning", "FailedToCreatePVC", error.message, "raycluster-controller")

    def _labels(self, cluster: Json, node_type: str, group: str) -> dict[str, str]:
        name = cluster["metadata"]["name"]
        return {
            **_NAMES,
            names.RAY_POD_LABEL: "yes",
            names.RAY_CLUSTER_LABEL: name,
            names.RAY_ROLE_LABEL: node_type,
            names.RAY_GROUP_LABEL: group,
            "ray.io/identifier": f"{name}-{node_type}",
        }

    def _pod(self, cluster: Json, spec: Json, *, node_type: str, group: str, name: str = "", prefix: str = "") -> None:
        namespace, start_params = cluster["metadata"]["namespace"], spec.get("rayStartParams") or {}

        def prepare(pod: Json) -> None:
            raypods.build(cluster, pod, node_type=node_type, start_params=start_params)

        created = make_pod(
            self.api,
            cluster,
            copy(spec["template"]),
            name=name,
            prefix=prefix,
            labels=self._labels(cluster, node_type, group),
            change=prepare,
        )
        if created:
            word = "CreatedHeadPod" if node_type == "head" else "CreatedWorkerPod"
            event(
                self.api,
                cluster,
                "Normal",
                word,
                f"Created {node_type} Pod {namespace}/{created['metadata']['name']}",
                "raycluster-controller",
            )

    def _head(self, cluster: Json, pods: list[Json]) -> None:
        for pod in pods:
            if not alive(pod) and not pod["metadata"].get("deletionTimestamp"):
                remove(self.api, pod)
        if not pods:
            # random letters at the end, unless the operator runs with a fixed name
            name = f"{cluster['metadata']['name'][:50]}-head".lower()
            fixed = self._operator_setting("ENABLE_DETERMINISTIC_HEAD_POD_NAME").lower() == "true"
            self._pod(
                cluster,
                cluster["spec"]["headGroupSpec"],
                node_type="head",
                group=HEAD_GROUP,
                name=name if fixed else "",
                prefix=f"{name}-",
            )

    def _workers(self, cluster: Json, group: Json, pods: list[Json]) -> None:
        for pod in pods:
            if not alive(pod) and not pod["metadata"].get("deletionTimestamp"):
                remove(self.api, pod)
        # a Terminating pod counts until it is gone, so a lost node whose object is kept gets no replacement
        living = [p for p in pods if alive(p)]
        missing = desired(group) - len(living)
        prefix = f"{cluster['metadata']['name']}-{group['groupName']}"[:50].lower() + "-worker-"
        for _ in range(missing):
            self._pod(cluster, group, node_type="worker", group=group["groupName"], prefix=prefix)
        to_delete = set((group.get("scaleStrategy") or {}).get("workersToDelete") or [])
        # those that the autoscaler names go first, then those that are not ready
        extra = sorted(living, key=lambda p: (p["metadata"]["name"] not in to_delete, pod_ready(p)))[: max(0, -missing)]
        if cluster["spec"].get("enableInTreeAutoscaling"):
            # with autoscaling the operator deletes no pod of its own choice
            extra = [pod for pod in extra if pod["metadata"]["name"] in to_delete]
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
        replicas = sum(desired(g) for g in groups)
        running = sum((p.get("status") or {}).get("phase") == "Running" for p in workers)
        ready = sum((p.get("status") or {}).get("phase") == "Running" and has(p, "Ready") for p in workers)
        service = self.api.find(
            "v1", "Service", cluster["metadata"]["namespace"], f"{cluster['metadata']['name']}-head-svc"
        )
        complete = bool(head) and pod_ready(head or {"metadata": {}}) and ready >= replicas

        def fill(status: Json) -> None:
            before = copy(status)
            suspended = bool(cluster["spec"].get("suspend"))
            status.update(
                observedGeneration=cluster["metadata"]["generation"],
                desiredWorkerReplicas=0 if suspended else replicas,
                availableWorkerReplicas=running,
                readyWorkerReplicas=ready,
                minWorkerReplicas=sum(int(g.get("minReplicas") or 0) for g in groups),
                maxWorkerReplicas=min(2147483647, sum(int(g.get("maxReplicas") or 2147483647) for g in groups)),
                endpoints={n: str(p) for n, p in raypods.ports(cluster).items()},
                **_resources(cluster["spec"]),
            )
            status["head"] = {
                "podIP": ((head or {}).get("status") or {}).get("podIP", ""),
                "podName": (head or {"metadata": {"name": ""}})["metadata"]["name"],
                "serviceIP": ((head or {}).get("status") or {}).get("podIP", ""),
                "serviceName": (service or {"metadata": {"name": ""}})["metadata"]["name"],
            }
            _head_condition(status, head)
            _suspension(status, suspended=suspended, empty=not pods)
            _provisioned(status, complete=complete)
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


def _head_condition(status: Json, head: Json | None) -> None:
    if head is None:
        condition(status, "HeadPodReady", "False", "HeadPodNotFound", "Head Pod not found")
    elif pod_ready(head):
        condition(status, "HeadPodReady", "True", "HeadPodRunningAndReady")
    else:
        conditions = (c for c in (head.get("status") or {}).get("conditions") or [] if c["type"] == "Ready")
        reason = next((c.get("reason") for c in conditions), None) or "Unknown"
        condition(status, "HeadPodReady", "False", reason)


def _provisioned(status: Json, *, complete: bool) -> None:
    """Whether all pods have been ready once."""
    if any(c["type"] == "RayClusterSuspended" and c["status"] == "True" for c in status["conditions"]):
        message = "RayCluster has been suspended"
        condition(status, "RayClusterProvisioned", "False", "RayClusterPodsProvisioning", message)
    elif complete:
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


def _suspension(status: Json, *, suspended: bool, empty: bool) -> None:
    """Suspending until the last pod is gone, then Suspended; never both."""
    for word, holds in (("Suspended", empty), ("Suspending", not empty)):
        condition(status, f"RayCluster{word}", "True" if suspended and holds else "False", f"RayCluster{word}")


def _label(pod: Json, name: str) -> str:
    return str((pod["metadata"].get("labels") or {}).get(f"ray.io/{name}", ""))


def _resources(spec: Json) -> dict[str, str]:
    """The cluster's wish in total: CPU, memory, GPUs and TPUs, head included."""
    templates = [(spec["headGroupSpec"]["template"], 1)]
    templates += [(g["template"], desired(g)) for g in spec.get("workerGroupSpecs") or []]
    resources = {}
    for field, name in (
        ("desiredCPU", "cpu"),
        ("desiredMemory", "memory"),
        ("desiredGPU", names.GPU_RESOURCE),
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
        resources[field] = written(name, Fraction(total))
    return resources
