"""What kube-apiserver fills in on write, as far as clients of this project read it. Not the whole of its defaulting."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from hyperpod_ray_sandbox.kubernetes import amounts

Json = dict[str, Any]


_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_FILE_MODE = 0o644


def _put(fields: Json, **defaults: Any) -> None:
    """Set fields that are absent, empty, or zero, which Go cannot tell apart."""
    for name, value in defaults.items():
        fields[name] = fields.get(name) or value


def _http(action: Json | None) -> None:
    """An HTTP probe or hook asks for `/` over HTTP."""
    if action is not None:
        _put(action, path="/", scheme="HTTP")


def _field_refs(entries: list[Json] | None) -> None:
    for entry in entries or []:
        for source in (entry, entry.get("valueFrom") or {}):
            if source.get("fieldRef"):
                _put(source["fieldRef"], apiVersion="v1")
            if source.get("resourceFieldRef"):
                source["resourceFieldRef"].setdefault("divisor", "0")


def _volume(volume: Json) -> None:
    """A volume without a source is an empty folder; its files get mode 0644."""
    if len(volume) == 1:
        volume["emptyDir"] = {}
    for source in ("secret", "configMap", "downwardAPI", "projected"):
        if volume.get(source) is not None:
            volume[source].setdefault("defaultMode", _FILE_MODE)
    _field_refs((volume.get("downwardAPI") or {}).get("items"))
    for projected in (volume.get("projected") or {}).get("sources") or []:
        _field_refs((projected.get("downwardAPI") or {}).get("items"))
        if projected.get("serviceAccountToken") is not None:
            projected["serviceAccountToken"].setdefault("expirationSeconds", 3600)
    if volume.get("image") is not None:
        _put(volume["image"], pullPolicy=_pull_policy(str(volume["image"].get("reference", ""))))
    if volume.get("hostPath") is not None:
        volume["hostPath"].setdefault("type", "")
    template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if template:
        template.setdefault("metadata", {})
        template["spec"].setdefault("volumeMode", "Filesystem")
    if volume.get("iscsi") is not None:
        _put(volume["iscsi"], iscsiInterface="default")


def _pull_policy(image: str) -> str:
    """When an image is pulled: always where its tag is `latest`, given or not."""
    latest = image.endswith(":latest") or (":" not in image.rpartition("/")[2] and "@" not in image)
    return "Always" if latest else "IfNotPresent"


def _container(container: Json, *, host_network: bool) -> None:
    """What a container of a pod or of a template gets."""
    _put(
        container,
        imagePullPolicy=_pull_policy(str(container.get("image", ""))),
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
    )
    container.setdefault("resources", {})
    for port in container.get("ports") or []:
        _put(port, protocol="TCP")
        if host_network:
            _put(port, hostPort=port.get("containerPort"))
    for name in _PROBES:
        probe = container.get(name)
        if probe is not None:
            _put(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
            _http(probe.get("httpGet"))
            if probe.get("grpc") is not None:
                probe["grpc"].setdefault("service", "")
    if container.get("lifecycle"):
        container["lifecycle"].pop("stopSignal", None)  # the feature ContainerStopSignals is off by default
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict):
            _http(hook.get("httpGet"))
    _field_refs(container.get("env"))


def _pod_spec(spec: Json) -> None:
    """What a pod and the template of one get."""
    _put(spec, restartPolicy="Always", dnsPolicy="ClusterFirst", schedulerName="default-scheduler")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("securityContext", {})
    if spec.get("serviceAccountName") or spec.get("serviceAccount"):
        account = spec.get("serviceAccountName") or spec["serviceAccount"]
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for volume in spec.get("volumes") or []:
        _volume(volume)
    for container in _containers(spec):
        _container(container, host_network=bool(spec.get("hostNetwork")))


def _containers(spec: Json) -> list[Json]:
    fields = ("containers", "initContainers", "ephemeralContainers")
    return [container for field in fields for container in spec.get(field) or []]


def _pod(spec: Json) -> None:
    """What only a pod itself gets, not the template of one."""
    _pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    for container in _containers(spec):
        limits = container["resources"].get("limits") or {}
        if limits:
            # a limit without a request is a request of the same size
            requests = container["resources"].setdefault("requests", {})
            for name, quantity in limits.items():
                requests.setdefault(name, quantity)
    allowed = (spec.get("resources") or {}).get("limits") or {}
    if allowed:
        together = amounts.total({**spec, "overhead": None}, "requests")
        for name, amount in together.items():
            if name in ("cpu", "memory"):
                spec["resources"].setdefault("requests", {}).setdefault(name, amounts.written(name, amount))
        for name, quantity in allowed.items():
            spec["resources"].setdefault("requests", {}).setdefault(name, quantity)


_OUTSIDE = ("NodePort", "LoadBalancer")


def _service(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in spec.get("ports") or []:
        port.setdefault("protocol", "TCP")
        port["targetPort"] = port.get("targetPort") or port.get("port")
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        if spec.get("clusterIP"):
            spec.setdefault("clusterIPs", [spec["clusterIP"]])
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    if spec["sessionAffinity"] == "ClientIP":
        spec.setdefault("sessionAffinityConfig", {"clientIP": {"timeoutSeconds": 10800}})
    if spec["type"] in _OUTSIDE:
        spec.setdefault("externalTrafficPolicy", "Cluster")
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)


def _job_spec(spec: Json) -> None:
    if "parallelism" not in spec:
        spec.setdefault("completions", 1)
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else _MOST_RETRIES)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)
    _pod_spec(spec["template"].setdefault("spec", {}))


def _job(obj: Json, old: Json | None) -> None:
    """A Job gets a selector and labels of its own when it is created, and never later."""
    spec = obj.setdefault("spec", {})
    _job_spec(spec)
    if old is None and not spec.get("manualSelector"):
        uid, name = obj["metadata"]["uid"], obj["metadata"]["name"]
        selector = spec.setdefault("selector", {})
        selector.setdefault("matchLabels", {})["batch.kubernetes.io/controller-uid"] = uid
        labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
        for key in _JOB_LABELS:
            labels.setdefault(key, uid if key.endswith("controller-uid") else name)
    labels = (spec["template"].get("metadata") or {}).get("labels")
    if labels and not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(labels)


_MOST_RETRIES = 2**31 - 1
_JOB_LABELS = ("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name")


def _workload(obj: Json, _old: Json | None) -> None:
    """Replicas, history and the way a workload rolls."""
    kind, spec = obj["kind"], obj["spec"]
    if kind != "DaemonSet":
        spec.setdefault("replicas", 1)
    if kind != "ReplicaSet":
        spec.setdefault("revisionHistoryLimit", 10)
    strategy: Json = {}
    bounds: Json = {}
    if kind == "Deployment":
        spec.setdefault("progressDeadlineSeconds", 600)
        strategy, bounds = spec.setdefault("strategy", {}), {"maxUnavailable": "25%", "maxSurge": "25%"}
    elif kind == "DaemonSet":
        strategy, bounds = spec.setdefault("updateStrategy", {}), {"maxUnavailable": 1, "maxSurge": 0}
    elif kind == "StatefulSet":
        spec.setdefault("serviceName", "")
        spec.setdefault("podManagementPolicy", "OrderedReady")
        retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        retention.setdefault("whenDeleted", "Retain")
        retention.setdefault("whenScaled", "Retain")
        for claim in spec.get("volumeClaimTemplates") or []:
            claim.setdefault("apiVersion", "v1")
            claim.setdefault("kind", "PersistentVolumeClaim")
            claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
            claim.setdefault("status", {}).setdefault("phase", "Pending")
        strategy, bounds = spec.setdefault("updateStrategy", {}), {"partition": 0}
    if bounds and strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.get("rollingUpdate") or {}
        strategy["rollingUpdate"] = rolling
        for field, value in bounds.items():
            rolling.setdefault(field, value)
    _pod_spec(spec.get("template", {}).setdefault("spec", {}))


def _cron_job(obj: Json, _old: Json | None) -> None:
    """History, concurrency and the pods of a CronJob."""
    spec = obj["spec"]
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    spec.setdefault("jobTemplate", {}).setdefault("metadata", {})
    template = spec["jobTemplate"].get("spec", {}).get("template", {})
    _pod_spec(template.setdefault("spec", {}))


def _new_pod(obj: Json, old: Json | None) -> None:
    _pod(obj["spec"])
    obj["spec"].setdefault("serviceAccountName", "default")
    if old is None:
        obj.setdefault("status", {}).setdefault("phase", "Pending")


def _changed_service(obj: Json, old: Json | None) -> None:
    if old is not None:
        _drop_of_type(obj["spec"], old["spec"])
    _service(obj)


def _drop_of_type(spec: Json, before: Json) -> None:
    """What a Service keeps at a change, and what goes with its type where nobody changed it too.

    Source: patchAllocatedValues and dropTypeDependentFields of pkg/registry/core/service.
    """
    types = before.get("type", "ClusterIP"), spec.get("type") or "ClusterIP"
    if types[1] == "ExternalName":
        for field in ("clusterIP", "clusterIPs", "internalTrafficPolicy", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(field) == before.get(field):
                spec.pop(field, None)
    elif types[0] != "ExternalName":
        for field in ("clusterIP", "clusterIPs"):
            if not spec.get(field) and field in before:
                spec[field] = before[field]
    numbers = [[port.get("nodePort") for port in s.get("ports") or []] for s in (before, spec)]
    outside = [service_type in _OUTSIDE for service_type in types]
    if outside == [True, False] and numbers[0] == numbers[1]:
        for port in spec.get("ports") or []:
            port.pop("nodePort", None)
    if outside == [True, True]:
        _keep_node_ports(spec, before)
    of_balancer = ("allocateLoadBalancerNodePorts", "loadBalancerClass", "healthCheckNodePort")
    gone = [f for f in of_balancer if types[0] == "LoadBalancer" != types[1]]
    gone += ["externalTrafficPolicy"] if outside == [True, False] and not spec.get("externalIPs") else []
    for field in gone:
        if spec.get(field) == before.get(field):
            spec.pop(field, None)


def _keep_node_ports(spec: Json, before: Json) -> None:
    """Ports that name no port of the nodes keep theirs."""
    kept = {(port.get("protocol", "TCP"), port.get("port")): port.get("nodePort") for port in before.get("ports") or []}
    taken = {port.get("nodePort") for port in spec.get("ports") or []}
    for port in spec.get("ports") or []:
        number = kept.get((port.get("protocol", "TCP"), port.get("port")))
        if not port.get("nodePort") and number and number not in taken:
            port["nodePort"] = number


def _ingress_class(obj: Json, _old: Json | None) -> None:
    """Parameters of an IngressClass are of the cluster."""
    parameters = (obj.get("spec") or {}).get("parameters")
    if parameters is not None:
        parameters.setdefault("scope", "Cluster")


def _endpoints(obj: Json, _old: Json | None) -> None:
    for subset in obj.get("subsets") or []:
        for port in subset.get("ports") or []:
            port.setdefault("protocol", "TCP")


def _controller(obj: Json, _old: Json | None) -> None:
    """A ReplicationController and its template: one replica, and the labels of its template."""
    spec = obj["spec"]
    spec.setdefault("replicas", 1)
    template = spec.get("template")
    if template is not None:
        labels = (template.get("metadata") or {}).get("labels")
        if labels and not spec.get("selector"):
            spec["selector"] = dict(labels)
        _pod_spec(template.setdefault("spec", {}))


def _pod_template(obj: Json, _old: Json | None) -> None:
    _pod_spec(obj.setdefault("template", {}).setdefault("spec", {}))


def _network_policy(obj: Json, _old: Json | None) -> None:
    """A policy with egress rules is about both directions."""
    spec = obj.setdefault("spec", {})
    spec.setdefault("podSelector", {})
    for direction in ("ingress", "egress"):
        for rule in spec.get(direction) or []:
            for port in rule.get("ports") or []:
                port.setdefault("protocol", "TCP")
    spec.setdefault("policyTypes", ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"])


def _webhooks(obj: Json, _old: Json | None) -> None:
    """A webhook fails closed after ten seconds and is about every namespace."""
    for webhook in obj.get("webhooks") or []:
        webhook.setdefault("failurePolicy", "Fail")
        webhook.setdefault("matchPolicy", "Equivalent")
        webhook.setdefault("timeoutSeconds", 10)
        webhook.setdefault("namespaceSelector", {})
        webhook.setdefault("objectSelector", {})
        if obj["kind"].startswith("Mutating"):
            webhook.setdefault("reinvocationPolicy", "Never")
        for rule in webhook.get("rules") or []:
            rule.setdefault("scope", "*")
        service = (webhook.get("clientConfig") or {}).get("service")
        if service:
            service.setdefault("port", 443)


def _admission_policy(obj: Json, _old: Json | None) -> None:
    """A policy fails closed and is about every namespace."""
    spec = obj["spec"]
    if obj["kind"] == "ValidatingAdmissionPolicy":
        spec.setdefault("failurePolicy", "Fail")
    match = spec.get("matchConstraints" if obj["kind"] == "ValidatingAdmissionPolicy" else "matchResources")
    if match is not None:
        match.setdefault("matchPolicy", "Equivalent")
        match.setdefault("namespaceSelector", {})
        match.setdefault("objectSelector", {})
        for rule in [*(match.get("resourceRules") or []), *(match.get("excludeResourceRules") or [])]:
            rule.setdefault("scope", "*")


def _limit_range(obj: Json, _old: Json | None) -> None:
    """A request follows the default limit, and that the maximum."""
    for limit in obj["spec"].get("limits") or []:
        if limit.get("type") != "Container":
            continue
        usual = {**(limit.get("max") or {}), **(limit.get("default") or {})}
        requested = {**(limit.get("min") or {}), **usual, **(limit.get("defaultRequest") or {})}
        for field, defaults in (("default", usual), ("defaultRequest", requested)):
            if defaults:
                limit[field] = defaults


def _volume_of_cluster(obj: Json, old: Json | None) -> None:
    obj["spec"].setdefault("volumeMode", "Filesystem")
    if obj["kind"] == "PersistentVolume":
        obj["spec"].setdefault("persistentVolumeReclaimPolicy", "Retain")
        if obj["spec"].get("hostPath") is not None:
            obj["spec"]["hostPath"].setdefault("type", "")
    if old is None:
        phase = "Pending" if obj["kind"] == "PersistentVolumeClaim" else "Available"
        obj.setdefault("status", {}).setdefault("phase", phase)


def _claim(obj: Json, old: Json | None) -> None:
    """Both fields name the same source; a source that `dataSource` never could name is dropped.

    Source: https://github.com/kubernetes/enhancements/tree/master/keps/sig-storage/1495-volume-populators
    """
    _volume_of_cluster(obj, old)
    spec = obj["spec"]
    before = (old or {}).get("spec") or {}
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    known = before.get("dataSource") or before.get("dataSourceRef")
    if source is not None and reference is None and not known:
        group = source.get("apiGroup") or ""
        if (group, source.get("kind")) not in _DATA_SOURCES:
            source = None
            del spec["dataSource"]
    if source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = {field: value for field, value in reference.items() if field != "namespace"}


def _namespace(obj: Json, stored: Json | None) -> None:
    """A namespace is labelled with its name, and stays until it is empty."""
    obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = obj["metadata"]["name"]
    if stored is None:
        obj.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
    obj.setdefault("status", {}).setdefault("phase", "Active")


def _binding(obj: Json, _old: Json | None) -> None:
    """Users and groups are of the API group of roles."""
    obj["roleRef"].setdefault("apiGroup", "rbac.authorization.k8s.io")
    for subject in obj.get("subjects") or []:
        if subject.get("kind") != "ServiceAccount":
            subject.setdefault("apiGroup", "rbac.authorization.k8s.io")


def _definition(obj: Json, _old: Json | None) -> None:
    obj["spec"].setdefault("conversion", {"strategy": "None"})
    names = obj["spec"]["names"]
    names.setdefault("singular", names["kind"].lower())
    names.setdefault("listKind", names["kind"] + "List")


def _autoscaler(obj: Json, _old: Json | None) -> None:
    """An autoscaler follows the processors, 80 percent of what its pods request."""
    obj["spec"].setdefault("minReplicas", 1)
    if obj["apiVersion"] == "autoscaling/v2":
        target = {"type": "Utilization", "averageUtilization": 80}
        obj["spec"].setdefault("metrics", [{"type": "Resource", "resource": {"name": "cpu", "target": target}}])


def _lease(obj: Json, _old: Json | None) -> None:
    """Leases without the feature CoordinatedLeaderElection, which is off by default."""
    for field in ("strategy", "preferredHolder"):
        (obj.get("spec") or {}).pop(field, None)


def _slice(obj: Json, _old: Json | None) -> None:
    """Ports of an EndpointSlice are TCP and may have no name; no endpoints and no ports are null."""
    obj["endpoints"] = obj.get("endpoints") or None
    for endpoint in obj["endpoints"] or []:
        endpoint.setdefault("conditions", {})
        endpoint.pop("deprecatedTopology", None)  # of v1beta1
    obj["ports"] = obj.get("ports") or None
    for port in obj.get("ports") or []:
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def _flat(obj: Json, _old: Json | None) -> None:
    for path, value in _FLAT[obj["kind"]]:
        target = obj
        *parents, field = path.split(".")
        for parent in parents:
            target = target.setdefault(parent, {})
        target.setdefault(field, value)


_DATA_SOURCES = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))
_FLAT: dict[str, tuple[tuple[str, Any], ...]] = {
    "StorageClass": (("reclaimPolicy", "Delete"), ("volumeBindingMode", "Immediate")),
    "Secret": (("type", "Opaque"),),
    "PriorityClass": (("preemptionPolicy", "PreemptLowerPriority"),),
    "CSIDriver": (
        ("spec.attachRequired", True), ("spec.podInfoOnMount", False), ("spec.storageCapacity", False),
        ("spec.fsGroupPolicy", "ReadWriteOnceWithFSType"), ("spec.volumeLifecycleModes", ["Persistent"]),
        ("spec.requiresRepublish", False), ("spec.seLinuxMount", False),
    ),
}  # fmt: skip
_BY_KIND: dict[str, Callable[[Json, Json | None], None]] = {
    "Pod": _new_pod,
    **dict.fromkeys(("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"), _workload),
    "Job": _job,
    "CronJob": _cron_job,
    "Service": _changed_service,
    "PersistentVolume": _volume_of_cluster,
    "PersistentVolumeClaim": _claim,
    "Namespace": _namespace,
    "IngressClass": _ingress_class,
    "Endpoints": _endpoints,
    "ReplicationController": _controller,
    "PodTemplate": _pod_template,
    "NetworkPolicy": _network_policy,
    "LimitRange": _limit_range,
    "EndpointSlice": _slice,
    "Lease": _lease,
    "HorizontalPodAutoscaler": _autoscaler,
    "CustomResourceDefinition": _definition,
    **dict.fromkeys(("RoleBinding", "ClusterRoleBinding"), _binding),
    **dict.fromkeys(("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"), _webhooks),
    **dict.fromkeys(("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"), _admission_policy),
    **dict.fromkeys(_FLAT, _flat),
}


_ROLES = ("ClusterRole", "Role")
_STATUS: dict[str, Json] = {
    **{kind_name: {} for kind_name in ("CronJob", "Deployment", "Job", "ResourceQuota")},
    **{kind_name: {"loadBalancer": {}} for kind_name in ("Ingress", "Service")},
    **{kind_name: {"replicas": 0} for kind_name in ("ReplicaSet", "ReplicationController")},
    "StatefulSet": {"replicas": 0, "availableReplicas": 0},
    "DaemonSet": dict.fromkeys(
        ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"), 0
    ),
    "HorizontalPodAutoscaler": {"desiredReplicas": 0, "currentMetrics": None},
    "PodDisruptionBudget": dict.fromkeys(("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"), 0),
}
"""What is in the status of a new object before anybody writes it: Go's fields that are never absent."""


def fill(obj: Json, old: Json | None) -> None:
    """Fill the defaults of a built-in kind in place; `old` is the stored object on an update."""
    if old is None and obj["kind"] in _STATUS:
        obj.setdefault("status", copy.deepcopy(_STATUS[obj["kind"]]))
    if obj["kind"] in _ROLES:
        obj.setdefault("rules", None)
    if act := _BY_KIND.get(obj["kind"]):
        act(obj, old)
