"""What kube-apiserver fills in on write, as far as clients of this project read it. Not the whole of its defaulting."""

from __future__ import annotations

import secrets
from typing import Any

Json = dict[str, Any]


def _pod_spec(spec: Json, *, restart: str = "Always") -> None:
    spec.setdefault("restartPolicy", restart)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("securityContext", {})
    for volume in spec.get("volumes") or []:
        if len(volume) == 1:
            volume["emptyDir"] = {}
    for container in [*spec.get("containers", []), *(spec.get("initContainers") or [])]:
        image = str(container.get("image", ""))
        latest = image.endswith(":latest") or (":" not in image.rpartition("/")[2] and "@" not in image)
        container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        container.setdefault("resources", {})
        limits = container["resources"].get("limits") or {}
        if limits:
            # a limit without a request is a request of the same size
            requests = container["resources"].setdefault("requests", {})
            for name, quantity in limits.items():
                requests.setdefault(name, quantity)
        for port in container.get("ports") or []:
            port.setdefault("protocol", "TCP")


def _service(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("internalTrafficPolicy", "Cluster")
    for port in spec.get("ports") or []:
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))
    if spec["type"] != "ExternalName":
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        if "clusterIP" not in spec:
            spec["clusterIP"] = f"172.20.{secrets.randbelow(255)}.{1 + secrets.randbelow(253)}"
        spec.setdefault("clusterIPs", [spec["clusterIP"]])


def _job(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    if "parallelism" not in spec:
        spec.setdefault("completions", 1)
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    if not spec.get("manualSelector"):
        uid, name = obj["metadata"]["uid"], obj["metadata"]["name"]
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
        labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
        labels.update(
            {
                "batch.kubernetes.io/controller-uid": uid,
                "batch.kubernetes.io/job-name": name,
                "controller-uid": uid,
                "job-name": name,
            }
        )
    _pod_spec(spec["template"].setdefault("spec", {}))


def fill(obj: Json, old: Json | None) -> None:  # noqa: PLR0912, PLR0915
    """Fill the defaults of a built-in kind in place; `old` is the stored object on an update."""
    kind = obj["kind"]
    if kind == "Pod":
        _pod_spec(obj["spec"])
        obj["spec"].setdefault("serviceAccountName", "default")
        if old is None:
            obj.setdefault("status", {}).setdefault("phase", "Pending")
    elif kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"):
        spec = obj["spec"]
        if kind != "DaemonSet":
            spec.setdefault("replicas", 1)
        if kind in ("Deployment", "StatefulSet", "DaemonSet"):
            spec.setdefault("revisionHistoryLimit", 10)
        rolling: Json = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
        if kind == "Deployment":
            spec.setdefault("progressDeadlineSeconds", 600)
            spec.setdefault("strategy", rolling)
        elif kind == "DaemonSet":
            rolling["rollingUpdate"] = {"maxSurge": 0, "maxUnavailable": 1}
            spec.setdefault("updateStrategy", rolling)
        elif kind == "StatefulSet":
            spec.setdefault("podManagementPolicy", "OrderedReady")
            spec.setdefault("updateStrategy", {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})
        _pod_spec(spec.get("template", {}).setdefault("spec", {}))
    elif kind == "Job":
        if old is not None:
            for field in ("selector",):
                obj["spec"].setdefault(field, old["spec"].get(field))
            labels = old["spec"]["template"].get("metadata", {}).get("labels") or {}
            template_labels = obj["spec"]["template"].setdefault("metadata", {}).setdefault("labels", {})
            for key in (
                "batch.kubernetes.io/controller-uid",
                "batch.kubernetes.io/job-name",
                "controller-uid",
                "job-name",
            ):
                if key in labels:
                    template_labels.setdefault(key, labels[key])
            for field in ("parallelism", "completions", "backoffLimit", "completionMode", "suspend"):
                if field in old["spec"]:
                    obj["spec"].setdefault(field, old["spec"][field])
            _pod_spec(obj["spec"]["template"].setdefault("spec", {}))
        else:
            _job(obj)
    elif kind == "Service":
        if old is not None:
            for field in ("clusterIP", "clusterIPs"):
                if field in (old.get("spec") or {}):
                    obj["spec"].setdefault(field, old["spec"][field])
        _service(obj)
    elif kind == "PersistentVolumeClaim":
        obj["spec"].setdefault("volumeMode", "Filesystem")
        if old is None:
            obj.setdefault("status", {}).setdefault("phase", "Pending")
    elif kind == "PersistentVolume":
        obj["spec"].setdefault("persistentVolumeReclaimPolicy", "Retain")
        obj["spec"].setdefault("volumeMode", "Filesystem")
        if old is None:
            obj.setdefault("status", {}).setdefault("phase", "Available")
    elif kind == "StorageClass":
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")
    elif kind == "Namespace":
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = obj["metadata"]["name"]
        obj.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
        obj.setdefault("status", {}).setdefault("phase", "Active")
    elif kind == "Secret":
        obj.setdefault("type", "Opaque")
    elif kind in ("RoleBinding", "ClusterRoleBinding"):
        for subject in obj.get("subjects") or []:
            group = "" if subject.get("kind") == "ServiceAccount" else "rbac.authorization.k8s.io"
            if group:
                subject.setdefault("apiGroup", group)
    elif kind == "CustomResourceDefinition":
        obj["spec"].setdefault("conversion", {"strategy": "None"})
        names = obj["spec"]["names"]
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", names["kind"] + "List")
