"""Kubernetes' hand-written validation: rules by kind, as tables and functions.

An error is worded as kube-apiserver words it. Source: k8s.io/kubernetes/pkg/apis/*/validation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hyperpod_ray_sandbox.kubernetes.resources import Resource
from hyperpod_ray_sandbox.kubernetes.status import invalid
from hyperpod_ray_sandbox.kubernetes.validation import (
    access,
    admission,
    autoscaling,
    certificates,
    changes,
    cluster,
    configuration,
    containers,
    csi,
    custom,
    definitions,
    names,
    network,
    policy,
    statuses,
    storage,
    webhooks,
    workloads,
)
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes
from hyperpod_ray_sandbox.kubernetes.validation.pods import pod_spec

Json = dict[str, Any]

__all__ = ["check_change", "check_created", "check_debuggers", "check_new", "check_resize", "check_status", "custom"]


def _pod(obj: Json) -> Causes:
    causes = Causes()
    pod_spec(causes, "spec", obj["spec"])
    for index, volume in enumerate(obj["spec"].get("volumes") or []):
        if volume.get("image") is not None and not volume["image"].get("reference"):
            causes.required(f"spec.volumes[{index}].image.reference")
    volume_names = {str(volume.get("name")) for volume in obj["spec"].get("volumes") or []}
    containers.ephemeral(causes, obj["spec"], volume_names)
    return causes


_BY_KIND: dict[str, Callable[[Json], Causes]] = {
    "Pod": _pod,
    "Deployment": workloads.workload,
    "DaemonSet": workloads.workload,
    "StatefulSet": workloads.workload,
    "ReplicaSet": workloads.workload,
    "Job": workloads.job,
    "CronJob": workloads.cron_job,
    "ReplicationController": workloads.replication_controller,
    "PodTemplate": workloads.pod_template,
    "ControllerRevision": workloads.controller_revision,
    "CSIDriver": csi.driver,
    "CSINode": csi.node,
    "VolumeAttachment": csi.attachment,
    "CertificateSigningRequest": certificates.request,
    "Endpoints": cluster.endpoints,
    "Service": network.service,
    "NetworkPolicy": network.network_policy,
    "Ingress": network.ingress,
    "PersistentVolumeClaim": storage.claim,
    "PersistentVolume": storage.volume,
    "StorageClass": storage.storage_class,
    "Role": access.role,
    "ClusterRole": access.role,
    "RoleBinding": access.binding,
    "ClusterRoleBinding": access.binding,
    "PodDisruptionBudget": policy.disruption_budget,
    "PriorityClass": policy.priority_class,
    "ResourceQuota": policy.resource_quota,
    "LimitRange": policy.limit_range,
    "HorizontalPodAutoscaler": autoscaling.autoscaler,
    "ConfigMap": configuration.config_map,
    "Secret": configuration.secret,
    "Namespace": configuration.namespace,
    "CustomResourceDefinition": definitions.definition,
    "Node": cluster.node,
    "Lease": cluster.lease,
    "EndpointSlice": cluster.endpoint_slice,
    "RuntimeClass": cluster.runtime_class,
    "Event": cluster.event,
    "IngressClass": network.ingress_class,
    "ValidatingWebhookConfiguration": webhooks.configuration,
    "MutatingWebhookConfiguration": webhooks.configuration,
    "ValidatingAdmissionPolicy": admission.policy,
    "ValidatingAdmissionPolicyBinding": admission.binding,
}


def check_created(resource: Resource, obj: Json) -> None:
    """Refuse what only a new object may not be; raises ApiError 422."""
    causes = Causes()
    if not resource.crd and resource.kind == "Ingress":
        network.one_class(causes, obj)
    if not resource.crd and resource.kind == "StatefulSet" and (obj.get("spec") or {}).get("serviceName"):
        names.label(causes, "spec.serviceName", obj["spec"]["serviceName"])
    if not resource.crd and resource.kind == "Pod" and obj["spec"].get("ephemeralContainers"):
        causes.forbidden("spec.ephemeralContainers", "cannot be set on create")
    if causes:
        raise invalid(resource.kind, resource.group, obj["metadata"].get("name", ""), causes)


def check_new(resource: Resource, obj: Json) -> None:
    """Refuse an object that kube-apiserver's own validation would refuse; raises ApiError 422."""
    causes = names.metadata(resource, obj["metadata"])
    if not resource.crd and resource.kind in _BY_KIND:
        causes += _BY_KIND[resource.kind](obj)
    if causes:
        raise invalid(resource.kind, resource.group, obj["metadata"].get("name", ""), causes)


def check_change(
    resource: Resource, new: Json, old: Json, *, expandable: Callable[[str], bool], internal: bool
) -> None:
    """Refuse a change of a field that cannot change; `expandable` says whether a StorageClass allows growth."""
    if resource.crd:
        return
    causes = changes.change(new, old, expandable=expandable, internal=internal)
    if causes:
        raise invalid(resource.kind, resource.group, new["metadata"]["name"], causes)


def check_resize(resource: Resource, new: Json, old: Json) -> None:
    """Refuse a pod's new size that a pod cannot take; raises ApiError 422."""
    causes = changes.resize(new, old)
    if causes:
        raise invalid(resource.kind, resource.group, new["metadata"]["name"], causes)


def check_debuggers(resource: Resource, pod: Json, stored: Json) -> None:
    """Refuse a change of ephemeral containers that a pod cannot take; raises ApiError 422."""
    causes = changes.debuggers(pod, stored)
    if causes:
        raise invalid(resource.kind, resource.group, pod["metadata"]["name"], causes)


def check_status(resource: Resource, new: Json, old: Json) -> None:
    """Refuse a status that a client may not write; raises ApiError 422."""
    causes = Causes() if resource.crd else statuses.status(new, old)
    if causes:
        raise invalid(resource.kind, resource.group, new["metadata"]["name"], causes)
