"""The pods and the head service that KubeRay 1.7 makes of a RayCluster: names, environment, command, probes, volumes.

Not made: the autoscaler's container, TLS, the history server's collector, multi-host labels.
Source: ray-project/kuberay ray-operator/controllers/ray/common/{pod,service}.go.
"""

from __future__ import annotations

import json
import math
from typing import Any

from hyperpod_ray_rules import names
from hyperpod_ray_rules.kuberay import ray_cluster
from hyperpod_ray_rules.quantity import number
from hyperpod_ray_sandbox.kubernetes.store import copy

Json = dict[str, Any]

VERSION = "v1.7.0"
_PORTS = {
    "client": names.CLIENT_PORT,
    "dashboard": names.DASHBOARD_PORT,
    "gcs-server": names.GCS_PORT,
    "metrics": names.METRICS_PORT,
    "serve": 8000,
}
_METRICS = names.METRICS_PORT
_AGENT = 52365
_GCS = str(names.GCS_PORT)
_COMMAND = ["/bin/bash", "-c", "--"]
_OVERWRITE = "ray.io/overwrite-container-cmd"
# values of these options are written although they are true or false
_WORDED = ("log-color", "include-dashboard", "include-log-monitor")
# probe: seconds before the first, seconds of patience for a head's and a worker's, failures that are too many
_PROBES = {"livenessProbe": (30, 5, 2, 120), "readinessProbe": (10, 5, 2, 10)}
_WAIT = """
					SECONDS=0
					while true; do
						if (( SECONDS <= 120 )); then
							if ray health-check --address {gcs} > /dev/null 2>&1; then
								echo "GCS is ready."
								break
							fi
							echo "$SECONDS seconds elapsed: Waiting for GCS to be ready."
						else
							if ray health-check --address {gcs}; then
								break
							fi
							echo "$SECONDS seconds elapsed: Still waiting for GCS to be ready."
						fi
						sleep 5
					done
				"""


def service_name(cluster: Json) -> str:
    """The name of the head's service."""
    return f"{cluster['metadata']['name'][:50]}-head-svc"


def ports(cluster: Json) -> dict[str, int]:
    """The ports of the head's service: those that the head's container names, else Ray's own; and the metrics'."""
    head = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    declared = {p.get("name") or f"{p['containerPort']}-port": int(p["containerPort"]) for p in head.get("ports") or []}
    numbers = declared or dict(_PORTS)
    numbers.setdefault("metrics", _METRICS)
    return dict(sorted(numbers.items()))


def head_service(cluster: Json, labels: dict[str, str]) -> Json:
    """The specification of the head's service."""
    service_type = cluster["spec"]["headGroupSpec"].get("serviceType") or "ClusterIP"
    spec: Json = {
        "type": service_type,
        "selector": labels,
        "ports": [{"name": n, "port": p, "targetPort": p, "appProtocol": "tcp"} for n, p in ports(cluster).items()],
    }
    if service_type == "ClusterIP":
        spec |= {"clusterIP": "None", "publishNotReadyAddresses": True}
    return spec


def _start_params(declared: Json, *, node_type: str, address: str, resources: Json) -> dict[str, str]:
    params = {name: str(value) for name, value in declared.items()}
    if node_type == "worker":
        params.setdefault("address", address)
    else:
        params.setdefault("dashboard-host", "0.0.0.0")  # noqa: S104  (what KubeRay writes; nothing listens here)
    params.setdefault("metrics-export-port", str(_METRICS))
    params["block"] = "true"
    params.setdefault("dashboard-agent-listen-port", str(_AGENT))
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    cpu = number(limits.get("cpu") or 0) or number(requests.get("cpu") or 0)
    if cpu:
        params.setdefault("num-cpus", str(math.ceil(cpu)))
    if limits.get("memory"):
        params.setdefault("memory", str(math.ceil(number(limits["memory"]))))
    for name in sorted(limits):
        if name.rpartition("/")[2] == "gpu" and number(limits[name]):
            params.setdefault("num-gpus", str(math.ceil(number(limits[name]))))
        elif name == "aws.amazon.com/neuroncore" and number(limits[name]) and "resources" not in params:
            params["resources"] = f"'{json.dumps({'neuron_cores': int(number(limits[name]))}, separators=(',', ':'))}'"
    return params


def _start_command(params: dict[str, str], node_type: str) -> str:
    flags = ""
    for name in sorted(params):
        if params[name].lower() in ("true", "false") and name not in _WORDED:
            flags += f" --{name} " if params[name].lower() == "true" else ""
        else:
            flags += f" --{name}={params[name]} "
    return f"ray start --head {flags}" if node_type == "head" else f"ray start {flags}"


def _field(name: str, path: str) -> Json:
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}


def _add(container: Json, *entries: Json) -> None:
    """Environment variables that are not there yet."""
    env = container.setdefault("env", [])
    for variable in entries:
        if all(e["name"] != variable["name"] for e in env):
            env.append(variable)


def _authenticate(cluster: Json, container: Json) -> None:
    options = cluster["spec"].get("authOptions") or {}
    if options.get("mode") != "token":
        return
    secret = options.get("secretName") or cluster["metadata"]["name"]
    reference = {"secretKeyRef": {"name": secret, "key": names.TOKEN_KEY}}
    _add(container, {"name": "RAY_AUTH_MODE", "value": "token"}, {"name": "RAY_AUTH_TOKEN", "valueFrom": reference})


def _fault_tolerance(cluster: Json, pod: Json, params: dict[str, str], node_type: str) -> None:
    options = cluster["spec"].get("gcsFaultToleranceOptions")
    main, annotations = pod["spec"]["containers"][0], pod["metadata"].setdefault("annotations", {})
    if node_type == "head":
        annotations["ray.io/ft-enabled"] = "true" if options is not None else "false"
    if options is None:
        return
    if node_type == "worker":
        _add(main, {"name": "RAY_gcs_rpc_server_reconnect_timeout_s", "value": "600"})
        return
    if options.get("backend") == "rocksdb":
        _embedded_store(cluster, pod)
        return
    namespace = options.get("externalStorageNamespace") or cluster["metadata"]["uid"]
    annotations["ray.io/external-storage-namespace"] = namespace
    _add(main, {"name": "RAY_external_storage_namespace", "value": namespace})
    _add(main, {"name": "RAY_REDIS_ADDRESS", "value": options.get("redisAddress", "")})
    for field, name in (("redisUsername", "REDIS_USERNAME"), ("redisPassword", "REDIS_PASSWORD")):
        if options.get(field):
            params[name.lower().replace("_", "-")] = f"${name}"
            _add(main, {"name": name, **options[field]})


def store_claim(cluster: Json) -> str:
    """The claim of the embedded store of a RayCluster's state."""
    storage = (cluster["spec"].get("gcsFaultToleranceOptions") or {}).get("storage") or {}
    return str(storage.get("claimName") or f"{cluster['metadata']['name']}{names.STORE_CLAIM_SUFFIX}")


def _embedded_store(cluster: Json, pod: Json) -> None:
    main = pod["spec"]["containers"][0]
    path = ray_cluster.EMBEDDED_PATH
    _add(main, {"name": "RAY_gcs_storage", "value": "rocksdb"}, {"name": "RAY_gcs_storage_path", "value": path})
    storage = cluster["spec"]["gcsFaultToleranceOptions"].get("storage") or {}
    mount: Json = {"name": ray_cluster.EMBEDDED_VOLUME, "mountPath": path}
    main.setdefault("volumeMounts", []).append(
        mount | ({"subPath": storage["subPath"]} if storage.get("subPath") else {})
    )
    volume = {"name": ray_cluster.EMBEDDED_VOLUME, "persistentVolumeClaim": {"claimName": store_claim(cluster)}}
    pod["spec"].setdefault("volumes", []).append(volume)


def _waiter(main: Json, address: str) -> Json:
    """The init container of workers that waits for the head."""
    small = {"cpu": "200m", "memory": "256Mi"}
    container = {
        "name": "wait-gcs-ready",
        "image": main["image"],
        "command": list(_COMMAND),
        "args": [_WAIT.format(gcs=address)],
        "env": copy(main.get("env") or []),
        "volumeMounts": copy(main.get("volumeMounts") or []),
        "resources": {"limits": dict(small), "requests": dict(small)},
    }
    for field in ("imagePullPolicy", "securityContext"):
        if main.get(field):
            container[field] = copy(main[field])
    return container


def _shared_memory(spec: Json, main: Json) -> None:
    mount_path = "/dev/shm"  # noqa: S108  (a path in a pod)
    if any(m["mountPath"] == mount_path for m in main.get("volumeMounts") or []):
        return
    resources = main.get("resources") or {}
    size = (resources.get("limits") or {}).get("memory") or (resources.get("requests") or {}).get("memory")
    medium: Json = {"medium": "Memory"} | ({"sizeLimit": size} if size else {})
    if all(v["name"] != "shared-mem" for v in spec.get("volumes") or []):
        spec.setdefault("volumes", []).append({"name": "shared-mem", "emptyDir": medium})
    main.setdefault("volumeMounts", []).append({"name": "shared-mem", "mountPath": mount_path})


def _environment(main: Json, node_type: str, *, host: str, command: str) -> None:
    reach = "127.0.0.1" if node_type == "head" else host
    if node_type == "worker":
        _add(main, {"name": "FQ_RAY_IP", "value": host}, {"name": "RAY_IP", "value": host.partition(".")[0]})
    _add(
        main,
        _field("RAY_CLUSTER_NAME", f"metadata.labels['{names.RAY_CLUSTER_LABEL}']"),
        _field("RAY_CLUSTER_NAMESPACE", "metadata.namespace"),
        _field("RAY_CLOUD_INSTANCE_ID", "metadata.name"),
        _field("RAY_NODE_TYPE_NAME", f"metadata.labels['{names.RAY_GROUP_LABEL}']"),
        {"name": "KUBERAY_GEN_RAY_START_CMD", "value": command},
        {"name": "RAY_PORT", "value": _GCS},
        {"name": "RAY_ADDRESS", "value": f"{reach}:{_GCS}"},
        {"name": "RAY_USAGE_STATS_KUBERAY_IN_USE", "value": "1"},
    )
    if node_type == "head":
        tags = f"kuberay_version={VERSION};kuberay_crd=RayCluster"
        _add(main, {"name": "RAY_USAGE_STATS_EXTRA_TAGS", "value": tags})
    _add(main, {"name": "RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE", "value": "1"})


def _probes(main: Json, params: dict[str, str], node_type: str) -> None:
    """One HTTP health check, as KubeRay makes for Ray 2.53 and newer."""
    for probe, (delay, head, worker, failures) in _PROBES.items():
        main.setdefault(
            probe,
            {
                "httpGet": {
                    "path": "/api/healthz",
                    "port": int(params["dashboard-agent-listen-port"]),
                    "scheme": "HTTP",
                },
                "initialDelaySeconds": delay,
                "timeoutSeconds": head if node_type == "head" else worker,
                "periodSeconds": 5,
                "successThreshold": 1,
                "failureThreshold": failures,
            },
        )


def build(cluster: Json, pod: Json, *, node_type: str, start_params: Json) -> None:
    """Change a pod made of a group's template into the one that the operator makes."""
    spec, main = pod["spec"], pod["spec"]["containers"][0]
    host = f"{service_name(cluster)}.{cluster['metadata']['namespace']}.svc.cluster.local"
    address = f"{host}:{_GCS}"
    if node_type == "worker":
        spec.setdefault("initContainers", []).append(_waiter(main, address))
    resources = main.get("resources") or {}
    params = _start_params(start_params, node_type=node_type, address=address, resources=resources)
    _fault_tolerance(cluster, pod, params, node_type)
    if all(p.get("name") != "metrics" for p in main.get("ports") or []):
        main.setdefault("ports", []).append({"name": "metrics", "containerPort": _METRICS})
    _authenticate(cluster, main)
    for init in spec.get("initContainers") or []:
        if init["name"] == "wait-gcs-ready":
            _authenticate(cluster, init)
    if "plasma-directory" not in params:
        _shared_memory(spec, main)
    start = _start_command(params, node_type)
    command = " ".join([*(main.get("command") or []), *(main.get("args") or [])])
    overwrite = (pod["metadata"].get("annotations") or {}).get(_OVERWRITE, "").lower() == "true"
    if not overwrite and "ray start" not in command:
        generated = f"ulimit -n ${{RAY_START_ULIMIT_OPEN_FILES:-65536}}; {start}"
        main["command"] = list(_COMMAND)
        main["args"] = [f"{command} && {generated}" if command else generated]
    for init in spec.get("initContainers") or []:
        _add(init, {"name": "FQ_RAY_IP", "value": host}, {"name": "RAY_IP", "value": host.partition(".")[0]})
    _environment(main, node_type, host=host, command=start)
    _probes(main, params, node_type)
