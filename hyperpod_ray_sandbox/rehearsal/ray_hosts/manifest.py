"""From a RayCluster manifest (`ray.io/v1`) to the pods a loopback cluster starts.

Pure: no process is started here. What KubeRay does to a manifest (defaults for `--num-cpus`, `resources` as escaped
JSON, a generated token secret) is done the same way; what one machine cannot honour is collected in
`ClusterPlan.not_honoured` and printed, never dropped silently.

Source: https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from hyperpod_ray.core import names
from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError
from hyperpod_ray_sandbox.rehearsal.ray_hosts.scale import MEMORY_BYTES, OBJECT_STORE_BYTES, rule, scale

Manifest = Mapping[str, Any]

# rayStartParams that name a place or a size on a cluster node; here loopback, free ports and small sizes take over
REPLACED_PARAMS = frozenset(
    {"address", "block", "dashboard-agent-listen-port", "dashboard-host", "dashboard-port", "head", "memory",
     "max-worker-port", "metrics-export-port", "min-worker-port", "node-ip-address",
     "num-cpus", "num-gpus", "object-store-memory", "port",
     "ray-client-server-port", "redis-password", "resources", "temp-dir"}
)  # fmt: skip
# set by this module for every pod, so a value from the manifest would be overwritten anyway
OWN_ENV = frozenset({"RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_REDIS_ADDRESS"})
DEFAULT_GRACE_SECONDS = 30  # Kubernetes' terminationGracePeriodSeconds


@dataclass(frozen=True, kw_only=True)
class PodPlan:
    """One kind of pod: what `ray start` is given and how it may be stopped.

    Args:
        group: `headgroup` (KubeRay's name for it) or the worker group's name.
        head: whether it carries the GCS, dashboard and Jobs API.
        pods: how many after scaling.
        wanted: how many in the manifest.
        cpus: CPUs reported to Ray, after scaling.
        resources: custom resources reported to Ray.
        params: the remaining `rayStartParams`, as flags.
        env: the Ray container's environment.
        grace_seconds: `terminationGracePeriodSeconds`: from SIGTERM to SIGKILL.
        pre_stop: the container's `preStop` command; run before SIGTERM, as a kubelet does.
    """

    group: str
    head: bool
    pods: int
    wanted: int
    cpus: int
    resources: Mapping[str, float] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    grace_seconds: int = DEFAULT_GRACE_SECONDS
    pre_stop: tuple[str, ...] = ()

    @property
    def trains(self) -> bool:
        """Whether training workers can land here: it offers CPUs."""
        return not self.head and self.cpus > 0

    def flags(self) -> list[str]:
        """The arguments of `ray start` that come from the manifest (addresses, ports and folders are the cluster's)."""
        out = [f"--num-cpus={self.cpus}", "--num-gpus=0", f"--memory={MEMORY_BYTES}"]
        out.append(f"--object-store-memory={OBJECT_STORE_BYTES}")
        if self.resources:
            out.append(f"--resources={json.dumps(dict(self.resources), sort_keys=True)}")
        out += [f"--{key}={value}" for key, value in sorted(self.params.items())]
        return out


@dataclass(frozen=True, kw_only=True)
class ClusterPlan:
    """A RayCluster as processes: the head, the worker groups and what this machine omits."""

    name: str
    ray_version: str | None
    head: PodPlan
    workers: tuple[PodPlan, ...]
    token_auth: bool
    fault_tolerance: str | None
    """`redis`, `rocksdb`, or None: the head's state is lost with the head."""
    rule: str
    not_honoured: tuple[str, ...]

    @property
    def groups(self) -> tuple[PodPlan, ...]:
        """Head first."""
        return (self.head, *self.workers)

    @property
    def training_pods(self) -> int:
        """Pods that offer a CPU to training."""
        return sum(group.pods for group in self.workers if group.trains)

    @property
    def driver_resource(self) -> str | None:
        """The custom resource of a CPU-less worker group: where a job's driver goes to be off the head."""
        for group in self.workers:
            if not group.trains and group.pods:
                return next(iter(group.resources), None)
        return None


def load(path: Path) -> Manifest:
    """The RayCluster of a YAML file (several documents allowed; a RayJob's `rayClusterSpec` counts).

    Raises:
        LocalError: unreadable, not YAML, or not exactly one RayCluster in it.
    """
    try:
        documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise LocalError(
            f"{path}: cannot be read: {error.strerror}",
            expected="a manifest",
            fix="correct the path or its permissions",
        ) from error
    except yaml.YAMLError as error:
        raise LocalError(
            f"{path}: not YAML: {' '.join(str(error).split())}", expected="a manifest", fix="correct the line"
        ) from error
    return pick(documents, where=str(path))


def pick(documents: Iterable[Any], *, where: str) -> Manifest:
    """The one RayCluster among Kubernetes objects; see `load`."""
    clusters = [doc for doc in documents if isinstance(doc, Mapping) and doc.get("kind") == "RayCluster"]
    if len(clusters) != 1:
        names = ", ".join(sorted(str(doc.get("metadata", {}).get("name")) for doc in clusters)) or "none"
        raise LocalError(
            f"{where}: {len(clusters)} RayClusters ({names})", expected="one", fix="give a manifest with one RayCluster"
        )
    return clusters[0]


def _need(node: Any, path: str, expected_type: type) -> Any:
    if not isinstance(node, expected_type):
        raise LocalError(
            f"raycluster {path}: {node!r}",
            expected=f"a {'mapping' if expected_type is dict else expected_type.__name__}",
            fix="correct the manifest",
        )
    return node


def _quantity(value: Any, path: str) -> float:
    """A Kubernetes CPU or device count (`500m`, `2`, `1.5`) as a number."""
    text = str(value)
    try:
        return float(text[:-1]) / 1000 if text.endswith("m") else float(text)
    except ValueError:
        raise LocalError(
            f"raycluster {path}: {value!r}", expected="a number or milli-number", fix="correct the manifest"
        ) from None


def custom_resources(params: Mapping[str, Any], group: Mapping[str, Any], path: str) -> dict[str, float]:
    r"""Ray's custom resources of a group, from `rayStartParams.resources` or the group's `resources`.

    KubeRay expects the first as JSON inside quotes inside a string (`'"{\"driver\": 1}"'`), because it goes through
    a shell; plain JSON is taken too. The second (KubeRay ≥ 1.4) is a mapping of strings and wins.
    """
    if group.get("resources"):
        mapping: Any = group["resources"]
        path = f"{path}.resources"
    else:
        text = str(params.get("resources", "") or "{}").strip()
        path = f"{path}.rayStartParams.resources"
        try:
            mapping = json.loads(text.strip("'"))
            if isinstance(mapping, str):
                mapping = json.loads(mapping)
        except json.JSONDecodeError as error:
            raise LocalError(
                f"raycluster {path}: {text!r}: {error.msg.lower()}", expected="JSON", fix="correct the manifest"
            ) from error
    _need(mapping, path, dict)
    standard = {"CPU", "GPU", "memory"}
    return {str(key): _quantity(value, f"{path}.{key}") for key, value in mapping.items() if str(key) not in standard}


def _environment(container: Mapping[str, Any], path: str, dropped: list[str]) -> dict[str, str]:
    env: dict[str, str] = {}
    for variable in container.get("env") or []:
        name = str(_need(variable, f"{path}.env[]", dict).get("name"))
        source = variable.get("valueFrom")
        if name in OWN_ENV:
            continue
        if source is not None:
            source_type = next(iter(source), "?")
            local = {
                "status.podIP": "{ip}",
                "metadata.name": "{pod}",
                "spec.nodeName": "{node}",
                "status.hostIP": "{ip}",
            }
            field_path = (source.get("fieldRef") or {}).get("fieldPath")
            if field_path in local:
                env[name] = local[field_path]
            else:
                dropped.append(f"{path}.env {name}: valueFrom.{source_type} has no source here; left unset")
            continue
        env[name] = str(variable.get("value", ""))
    if container.get("envFrom"):
        dropped.append(f"{path}.envFrom: has no source here; omitted")
    return env


def _pod(group: Mapping[str, Any], *, head: bool, path: str, max_pods: int, dropped: list[str]) -> PodPlan:
    params = {
        str(k): str(v) for k, v in _need(group.get("rayStartParams") or {}, f"{path}.rayStartParams", dict).items()
    }
    template = _need(group.get("template"), f"{path}.template", dict)
    spec = _need(template.get("spec"), f"{path}.template.spec", dict)
    containers = _need(spec.get("containers"), f"{path}.template.spec.containers", list)
    if not containers:
        raise LocalError(
            f"raycluster {path}.template.spec.containers: none",
            expected="the Ray container",
            fix="correct the manifest",
        )
    container = _need(containers[0], f"{path}.template.spec.containers[0]", dict)
    where = f"{path}.template"
    resources = container.get("resources") or {}
    limits = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}

    gpus = 0.0
    for key, value in limits.items():
        if key in ("cpu", "memory") or key == "ephemeral-storage":
            continue
        amount = _quantity(value, f"{where} resources {key}")
        if key.endswith("/gpu") or "neuron" in key:
            gpus += amount
        dropped.append(f"{where}: {amount:g} × {key} a pod; none here (training runs on CPU with gloo)")
    # KubeRay: rayStartParams wins, otherwise --num-cpus is the container's limit
    cpus = _quantity(params.get("num-cpus", limits.get("cpu", 1)), f"{path}.rayStartParams.num-cpus")
    gpus = _quantity(params.get("num-gpus", gpus), f"{path}.rayStartParams.num-gpus")
    replicas = 1 if head else int(group.get("replicas") or 0)
    hosts = 1 if head else int(group.get("numOfHosts") or 1)
    small = scale(replicas=replicas, hosts=hosts, cpus=cpus, gpus=gpus, max_pods=max_pods)

    if container.get("image"):
        dropped.append(f"{where}: image {container['image']} is not run; the rehearsal environment's Ray is")
    for mount in container.get("volumeMounts") or []:
        if mount.get("mountPath") == names.MOUNT_PATH:
            dropped.append(f"{where}: {names.MOUNT_PATH} (the shared file system) is the folder fsx of this cluster")
    for key in (
        "nodeSelector",
        "affinity",
        "tolerations",
        "topologySpreadConstraints",
        "securityContext",
        "initContainers",
    ):
        if spec.get(key):
            dropped.append(f"{where}: {key} needs Kubernetes; not applied")
    if len(containers) > 1:
        dropped.append(
            f"{where}: side-car containers are not started: {', '.join(str(c.get('name')) for c in containers[1:])}"
        )
    handler = ((container.get("lifecycle") or {}).get("preStop") or {}).get("exec") or {}
    pre_stop = tuple(str(part) for part in handler.get("command") or ())
    if "ray stop" in " ".join(pre_stop):
        raise LocalError(
            f"raycluster {where} preStop: `ray stop`",
            expected="none: it ends training instead of draining it, and here every Ray of this machine",
            fix="remove it",
        )
    return PodPlan(
        group=names.HEAD_GROUP if head else str(group.get("groupName")),
        head=head,
        pods=small.pods,
        wanted=replicas * hosts,
        cpus=0 if head else small.cpus,
        resources=custom_resources(params, group, path),
        params={key: value for key, value in params.items() if key not in REPLACED_PARAMS},
        env=_environment(container, where, dropped),
        grace_seconds=int(spec.get("terminationGracePeriodSeconds") or DEFAULT_GRACE_SECONDS),
        pre_stop=pre_stop,
    )


def plan(manifest: Manifest, *, max_pods: int = 2, name: str | None = None, pod_cpus: int = 1) -> ClusterPlan:
    """Turn a RayCluster manifest into the pods to start on loopback.

    Args:
        manifest: a `ray.io/v1` RayCluster as a mapping.
        max_pods: most pods kept of one worker group; see `hyperpod_ray_sandbox.rehearsal.ray_hosts.scale.RULE`.
        name: the local cluster's name. Default: the manifest's.
        pod_cpus: CPUs, and so ranks, of a pod that trains.

    Raises:
        LocalError: not a RayCluster, or a part of it has the wrong shape; the message names its path.
    """
    if manifest.get("kind") != "RayCluster":
        raise LocalError(
            f"kind: {manifest.get('kind')!r}", expected="RayCluster", fix="give the manifest of a RayCluster"
        )
    if manifest.get("apiVersion") != names.RAY_API_VERSION:
        raise LocalError(
            f"raycluster apiVersion: {manifest.get('apiVersion')!r}",
            expected=f"{names.RAY_API_VERSION}",
            fix="correct the manifest",
        )
    spec = _need(manifest.get("spec"), "spec", dict)
    dropped: list[str] = []
    head = _pod(
        _need(spec.get("headGroupSpec"), "spec.headGroupSpec", dict),
        head=True,
        path="spec.headGroupSpec",
        max_pods=1,
        dropped=dropped,
    )
    workers = tuple(
        _pod(
            _need(group, f"spec.workerGroupSpecs[{i}]", dict),
            head=False,
            path=f"spec.workerGroupSpecs[{i}]",
            max_pods=max_pods,
            dropped=dropped,
        )
        for i, group in enumerate(_need(spec.get("workerGroupSpecs") or [], "spec.workerGroupSpecs", list))
    )
    workers = tuple(replace(group, cpus=pod_cpus if group.trains else group.cpus) for group in workers)
    if not any(group.trains and group.pods for group in workers):
        raise LocalError(
            "raycluster spec.workerGroupSpecs: no pod to rehearse with",
            expected="a group with a pod that can train",
            fix="set replicas to 1 or more",
        )
    options = spec.get("gcsFaultToleranceOptions")
    tolerance = None if options is None else str(options.get("backend") or "redis")
    if spec.get("enableInTreeAutoscaling"):
        dropped.append("spec.enableInTreeAutoscaling: needs Kubernetes; the number of pods is fixed")
    if spec.get("networkPolicy"):
        dropped.append("spec.networkPolicy: needs Kubernetes; everything listens on loopback instead")
    return ClusterPlan(
        name=name or str(manifest.get("metadata", {}).get("name") or "ray"),
        ray_version=spec.get("rayVersion"),
        head=head,
        workers=workers,
        token_auth=(spec.get("authOptions") or {}).get("mode") == "token",
        fault_tolerance=tolerance,
        rule=rule(max_pods=max_pods, cpus=pod_cpus),
        not_honoured=tuple(dict.fromkeys(dropped)),
    )
