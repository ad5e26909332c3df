"""The RayCluster (`ray.io/v1`): head, workers, and with GCS fault tolerance a place for drivers off the head."""

from __future__ import annotations

import json
from typing import Any

import cdk8s

from hyperpod_ray.core.model import GcsFaultTolerance, RayWorkerGroup
from hyperpod_ray.core.names import (
    CLAIM,
    CLIENT_PORT,
    DASHBOARD_PORT,
    DRIVER_GROUP,
    EFA_RESOURCE,
    GCS_PORT,
    HANG_RULES,
    HANG_RULES_PATH,
    HOSTNAME_LABEL,
    JOB_AGENT_VARIABLE,
    JOB_LABEL,
    METRICS_PORT,
    MOUNT_PATH,
    RAY_API_VERSION,
    RAY_CLUSTER_LABEL,
    RAY_GID,
    RAY_GROUP_LABEL,
    RAY_ROLE_LABEL,
    REDIS,
    REDIS_PORT,
    SECRETS_PATH,
    SERVICE_ACCOUNT,
)
from hyperpod_ray.core.needs import NODE_ADDRESS
from hyperpod_ray.core.plan import Plan, PodResources
from hyperpod_ray.core.plan_names import store_class
from hyperpod_ray.k8s.bindings import Bindings
from hyperpod_ray.k8s.manifest import PART_OF, Manifest, build, custom_object
from hyperpod_ray.k8s.operator import accepted
from hyperpod_ray.k8s.pods import (
    group_tolerations,
    node_affinity,
    node_loss_tolerations,
    node_selector,
    restricted_container,
    restricted_pod,
)
from hyperpod_ray.k8s.ray_settings import head_env, recovery, worker_env

LOGS = "/tmp/ray"  # noqa: S108 (where Ray writes its session, logs and spilled objects)


def ray_cluster(plan: Plan, bindings: Bindings) -> Manifest:
    """The RayCluster of the environment. Reference: https://docs.ray.io/en/latest/cluster/kubernetes/references.html."""

    def define(chart: cdk8s.Chart) -> None:
        custom_object(
            chart,
            "RayCluster",
            api_version=RAY_API_VERSION,
            kind="RayCluster",
            name=plan.settings.ray.cluster_name,
            namespace=plan.settings.ray.namespace,
            spec=cluster_spec(plan, bindings),
        )

    manifest = build("RayCluster", define)
    for document in manifest.objects:
        accepted(document, plan)
    return manifest


def _store(plan: Plan, settings: GcsFaultTolerance) -> dict[str, Any]:
    """`gcsFaultToleranceOptions`; a password is in a Secret and in no manifest."""
    if settings.volume_gib is not None:
        storage = {
            "size": f"{settings.volume_gib}Gi",
            "storageClassName": store_class(plan),
            # of one pod, not of one node: two heads that have the database open would spoil it
            "accessModes": ["ReadWriteOncePod"],
            "deletionPolicy": "DeleteWithCluster",
        }
        return {"backend": "rocksdb", "storage": storage}
    options: dict[str, Any] = {"redisAddress": settings.redis_address or f"{REDIS}:{REDIS_PORT}"}
    if settings.redis_username is not None:
        options["redisUsername"] = {"value": settings.redis_username}
    if settings.redis_password_secret is not None:
        secret = {"name": settings.redis_password_secret, "key": "password"}
        options["redisPassword"] = {"valueFrom": {"secretKeyRef": secret}}
    return options


def cluster_spec(
    plan: Plan, bindings: Bindings, *, job: str | None = None, autoscaling: bool | None = None
) -> dict[str, Any]:
    """`spec` of the RayCluster, or the `rayClusterSpec` of a RayJob.

    Args:
        job: name of the RayJob. Its cluster's name is known to the operator only, so that its pods recognise each
            other by a label of their own. KubeRay allows a job's cluster no `upgradeStrategy`.
        autoscaling: whether Ray scales the cluster. Default: as in the environment.
    """
    ray = plan.settings.ray
    autoscaling = ray.autoscaling if autoscaling is None else autoscaling
    mates = {RAY_CLUSTER_LABEL: ray.cluster_name} if job is None else {JOB_LABEL: job}
    spec: dict[str, Any] = {
        "rayVersion": ray.version,
        "headGroupSpec": _head(plan, bindings, autoscaling=autoscaling),
        "workerGroupSpecs": [
            _worker(plan, bindings, worker, mates=mates, autoscaling=autoscaling) for worker in ray.workers
        ],
    }
    if job is None:
        # a running cluster is not torn down by an edit of the manifest: replace pods yourself, between runs
        spec["upgradeStrategy"] = {"type": "None"}
    if ray.auth == "token":
        spec["authOptions"] = {"mode": "token"}
    if autoscaling:
        spec["enableInTreeAutoscaling"] = True
        spec["autoscalerOptions"] = {
            "version": "v2",
            "upscalingMode": "Default",
            # training pauses while a worker is replaced; a minute of idleness must not cost its pod
            "idleTimeoutSeconds": 600,
            "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"cpu": "500m", "memory": "512Mi"}},
            "securityContext": restricted_container(),
        }
    if fault_tolerance := ray.gcs_fault_tolerance:
        # without externalStorageNamespace the operator takes the RayCluster's UID: no two clusters on one Redis share
        # their state, and the clean-up after one deletes that one's only
        spec["gcsFaultToleranceOptions"] = _store(plan, fault_tolerance)
        spec["workerGroupSpecs"].append(_driver(plan, bindings, fault_tolerance.driver_instance_group, mates=mates))
    if job is not None:
        for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
            group["template"]["metadata"]["labels"][JOB_LABEL] = job
    return spec


def _head(plan: Plan, bindings: Bindings, *, autoscaling: bool) -> dict[str, Any]:
    head = plan.settings.ray.head
    # a new volume's file system is root's: the kubelet hands it to Ray's group
    group = RAY_GID if plan.head_volume_gib is not None else None
    ports = {"gcs-server": GCS_PORT, "dashboard": DASHBOARD_PORT, "client": CLIENT_PORT, "metrics": METRICS_PORT}
    return {
        "serviceType": "ClusterIP",
        "rayStartParams": {"dashboard-host": "0.0.0.0", "num-cpus": "0"},  # noqa: S104 (inside the pod; policies guard it)
        "template": _template(
            plan,
            bindings,
            name="ray-head",
            group=head.instance_group,
            resources=plan.head_resources,
            env=head_env(plan, bindings),
            ports=[{"name": name, "containerPort": port} for name, port in ports.items()],
            # the autoscaler is a container of the head's pod and talks to the Kubernetes API
            token=autoscaling,
            volume_group=group,
        ),
    }


def _worker(
    plan: Plan, bindings: Bindings, worker: RayWorkerGroup, *, mates: dict[str, str], autoscaling: bool
) -> dict[str, Any]:
    resources = plan.worker_resources(worker)
    whole_node = (
        resources.gpus > 0 and resources.gpus == plan.type_spec(plan.group(worker.instance_group).type).accelerators
    )
    template = _template(
        plan,
        bindings,
        name="ray-worker",
        group=worker.instance_group,
        resources=resources,
        env=worker_env(plan, bindings, worker, resources),
    )
    spread = _anti_affinity({RAY_GROUP_LABEL: worker.name, **mates})
    template["spec"]["affinity"]["podAntiAffinity"] = (
        {"requiredDuringSchedulingIgnoredDuringExecution": [spread]}
        if whole_node
        else {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": spread}]}
    )
    return {
        "groupName": worker.name,
        **_counts(worker, autoscaling=autoscaling),
        "numOfHosts": 1,
        "rayStartParams": {},
        "template": template,
    }


def _counts(worker: RayWorkerGroup, *, autoscaling: bool) -> dict[str, int]:
    """Pods of a worker group, and the bounds between which Ray scales it.

    A deploy that changes the RayCluster writes `replicas` again: a list of a custom resource is replaced as a whole.
    With autoscaling that removes no pod, because the operator then leaves every deletion to the autoscaler.
    """
    counts = {"replicas": worker.replicas, "minReplicas": worker.replicas, "maxReplicas": worker.replicas}
    if autoscaling and worker.min_replicas is not None:
        counts["minReplicas"] = worker.min_replicas
    if autoscaling and worker.max_replicas is not None:
        counts["maxReplicas"] = worker.max_replicas
    return counts


def _driver(plan: Plan, bindings: Bindings, group: str, *, mates: dict[str, str]) -> dict[str, Any]:
    template = _template(
        plan,
        bindings,
        name="ray-worker",
        group=group,
        resources=PodResources(cpu=2, memory_gib=8, gpus=0, gpu_resource="", efa=0, shared_memory_gib=1),
        env=worker_env(plan, bindings, None, None),
    )
    # off the head's node: one lost node must not take both
    head = _anti_affinity({RAY_ROLE_LABEL: "head", **mates})
    template["spec"]["affinity"]["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [head]}
    return {
        "groupName": DRIVER_GROUP,
        "replicas": 1,
        "minReplicas": 1,
        "maxReplicas": 1,
        "numOfHosts": 1,
        # JSON inside quotes inside a string: KubeRay hands it to a shell
        "rayStartParams": {"num-cpus": "0", "resources": json.dumps(json.dumps({DRIVER_GROUP: 1}))},
        "template": template,
    }


def _anti_affinity(labels: dict[str, str]) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": HOSTNAME_LABEL}


def _template(
    plan: Plan,
    bindings: Bindings,
    *,
    name: str,
    group: str,
    resources: PodResources,
    env: dict[str, str],
    ports: list[dict[str, Any]] | None = None,
    token: bool = False,
    volume_group: int | None = None,
) -> dict[str, Any]:
    """Pod template of head and workers.

    The Ray container must be the first; no preStop hook: `ray stop` would cut the drain that SIGTERM starts.
    """
    container: dict[str, Any] = {
        "name": name,
        "image": bindings.image_uri,
        # a tag here is a content hash or a digest, never `latest`
        "imagePullPolicy": "IfNotPresent",
        "env": [*_node_address(env), *({"name": key, "value": value} for key, value in sorted(env.items()))],
        "resources": _resource_requirements(resources),
        "securityContext": restricted_container(),
        "volumeMounts": [
            {"name": CLAIM, "mountPath": MOUNT_PATH},
            {"name": "ray-logs", "mountPath": LOGS},
            {"name": "shared-memory", "mountPath": "/dev/shm"},  # noqa: S108
            {"name": HANG_RULES, "mountPath": HANG_RULES_PATH, "readOnly": True},
            *(
                {"name": f"secret-{name}", "mountPath": f"{SECRETS_PATH}/{name}", "readOnly": True}
                for name in plan.settings.ray.secrets
            ),
        ],
    }
    if ports:
        container["ports"] = ports
    return {
        "metadata": {"labels": dict(PART_OF)},
        "spec": {
            "serviceAccountName": SERVICE_ACCOUNT,
            "automountServiceAccountToken": token,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": recovery(plan).termination_grace_period_s,
            "securityContext": restricted_pod(volume_group=volume_group),
            "nodeSelector": node_selector(group),
            "affinity": {"nodeAffinity": node_affinity(deep_checks=bool(plan.deep_health_checks(plan.group(group))))},
            "tolerations": [
                *node_loss_tolerations(plan.settings.ray.node_loss_seconds),
                *group_tolerations(plan, group),
            ],
            "containers": [container],
            "volumes": [
                {"name": CLAIM, "persistentVolumeClaim": {"claimName": CLAIM}},
                {"name": "ray-logs", "emptyDir": {}},
                {
                    "name": "shared-memory",
                    "emptyDir": {"medium": "Memory", "sizeLimit": f"{resources.shared_memory_gib}Gi"},
                },
                # mounted whether it is there or not: rules that come, change or go restart no pod
                {"name": HANG_RULES, "configMap": {"name": HANG_RULES, "optional": True}},
                *(_secret(name) for name in plan.settings.ray.secrets),
            ],
        },
    }


def _secret(name: str) -> dict[str, Any]:
    """A Kubernetes Secret as files. Pods start without one that is not there yet, and see it when it is.

    Files belong to root and Ray runs as another user, hence readable for all in the pod: there is one container.
    """
    return {"name": f"secret-{name}", "secret": {"secretName": name, "optional": True, "defaultMode": 0o444}}


def _node_address(env: dict[str, str]) -> list[dict[str, Any]]:
    """Where AWS's library finds the job monitoring agent, unless the environment file says it."""
    if JOB_AGENT_VARIABLE in env:
        return []
    return [{"name": JOB_AGENT_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": NODE_ADDRESS}}}]


def _resource_requirements(resources: PodResources) -> dict[str, dict[str, str]]:
    amounts = {"cpu": str(resources.cpu), "memory": f"{resources.memory_gib}Gi"}
    if resources.gpus:
        amounts[resources.gpu_resource] = str(resources.gpus)
    if resources.efa:
        amounts[EFA_RESOURCE] = str(resources.efa)
    return {"requests": dict(amounts), "limits": dict(amounts)}
