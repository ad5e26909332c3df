"""Asks every source of a snapshot at once; one that does not answer is noted and the others still count."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, TypeVar

from hyperpod_ray.core import names, plan_names
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.evidence import absent, code
from hyperpod_ray.core.slurm_plan import SlurmPlan
from hyperpod_ray.ops.errors import DENIED, LaptopError, OpsError, explain
from hyperpod_ray.ops.observe import controllers, slurm
from hyperpod_ray.ops.observe.free_space import with_free_space
from hyperpod_ray.ops.observe.hangs import hangs
from hyperpod_ray.ops.observe.snapshot import (
    Claim,
    Cluster,
    ClusterEvent,
    Controller,
    FileSystem,
    Group,
    Instance,
    KubernetesEvent,
    Node,
    Pod,
    RayCluster,
    RayJob,
    Snapshot,
    Stack,
    TrainingPlan,
    Unseen,
    part_of,
)
from hyperpod_ray.ops.observe.stack_cause import with_cause
from hyperpod_ray.ops.output import now
from hyperpod_ray.ops.reach.clients import AnyTarget, Json, SlurmTarget, Target

T = TypeVar("T")

EVENTS = 50
"""Newest cluster events looked at."""
WARNINGS = 50
NODES = "Kubernetes nodes"
"""Part of source Kubernetes, but asked apart: a user of a namespace may not see nodes, and has a RayCluster."""
CONTROLLERS = "controllers"
TRAINING = "Ray jobs"
HANGS = "hang events"
FREE_SPACE = "free space"
PLANS = "training plans"
SLURM = "Slurm"
SOURCES = (
    "CloudFormation", "HyperPod", "HyperPod events", "Kubernetes", "FSx", CONTROLLERS, TRAINING, HANGS, FREE_SPACE,
    PLANS, SLURM,
)  # fmt: skip


def snapshot(target: AnyTarget, *, only: tuple[str, ...] = SOURCES) -> Snapshot:
    """One snapshot. `only` limits the sources that are asked; the others are then empty and not `unseen`.

    Raises:
        OpsError: Where the credentials are missing, expired or of another account: then nothing can be said.
    """
    target.aws.require_account()
    parts: dict[str, Any] = {}
    unseen: list[Unseen] = []
    tasks = _tasks(target, unseen)
    with ThreadPoolExecutor(max_workers=len(tasks)) as pool:
        sources = {*only, NODES} if "Kubernetes" in only else set(only)
        futures = {source: pool.submit(task) for source, task in tasks.items() if source in sources}
        for source, future in futures.items():
            with _noted(source, target, unseen):
                parts |= future.result()
    if (
        any(group.training_plan for group in (parts["cluster"].groups if parts.get("cluster") else ()))
        and PLANS in only
    ):
        with _noted(PLANS, target, unseen):
            parts["training_plans"] = training_plans(target, parts["cluster"])
    if parts.get("file_systems") and FREE_SPACE in only:
        with _noted(FREE_SPACE, target, unseen):
            parts["file_systems"] = with_free_space(target, parts["file_systems"])
    if any(missing.source == "Kubernetes" and not missing.refused for missing in unseen):
        # one cause, said once
        unseen = [missing for missing in unseen if missing.source not in (NODES, CONTROLLERS, TRAINING)]
    return Snapshot(
        environment=target.name,
        at=now(),
        storage_mode=target.plan.settings.storage.kind,
        unseen=tuple(unseen),
        **_named(target),
        **parts,
    )


def _tasks(target: AnyTarget, unseen: list[Unseen]) -> dict[str, Callable[[], dict[str, Any]]]:
    """The sources that an environment has, by its orchestrator: the one place that says so."""
    tasks: dict[str, Callable[[], dict[str, Any]]] = {
        "CloudFormation": lambda: _cloudformation(target),
        "HyperPod": lambda: _hyperpod(target),
        "HyperPod events": lambda: _events(target),
        "FSx": lambda: _fsx(target),
    }
    if isinstance(target, SlurmTarget):
        tasks[SLURM] = lambda: {"slurm": slurm.look(target, cluster(target), instances(target))}
    if isinstance(target, Target):
        tasks |= {
            "Kubernetes": lambda: _kubernetes(target, unseen),
            NODES: lambda: {"nodes": nodes(target)},
            CONTROLLERS: lambda: _controllers(target, unseen),
            TRAINING: lambda: _training(target, unseen),
            HANGS: lambda: _hangs(target),
        }
    return tasks


def _named(target: AnyTarget) -> dict[str, Any]:
    """Orchestrator, and the names of what is in Kubernetes."""
    parts: dict[str, Any] = {"orchestrator": target.plan.settings.orchestrator}
    if isinstance(target, Target):
        ray = target.plan.settings.ray
        parts |= {"namespace": ray.namespace, "ray_cluster": ray.cluster_name}
        parts["eks_cluster"] = target.plan.eks_cluster_name
    return parts


@contextlib.contextmanager
def _noted(source: str, target: AnyTarget, unseen: list[Unseen]) -> Iterator[None]:
    """A failure inside is noted as a source that was not seen; a defect of this program is raised."""
    try:
        yield
    except Exception as error:
        failure = explain(error, environment=target.name)
        if failure is None:
            raise
        laptop = isinstance(failure, LaptopError)
        unseen.append(
            Unseen(source=source, why=failure.message, next=failure.fix, refused=refused(error), laptop=laptop)
        )


# --- CloudFormation --------------------------------------------------------------------------------------------------


def _cloudformation(target: AnyTarget) -> dict[str, Any]:
    return {"stacks": stacks(target)}


def stacks(target: AnyTarget, *, also: Iterable[str] = (), unseen: list[str] | None = None) -> tuple[Stack, ...]:
    """The environment's stacks: those that its file has, and those that its project adds to it.

    Args:
        target: The environment.
        also: Names of more stacks, which need not exist.
        unseen: Takes a sentence where the account's stacks may not be listed, so that what the project added is not
            known. Default: the listing is then passed over.
    """
    tagged: list[str] = []
    try:
        tagged = tagged_stacks(target)
    except Exception as error:
        if not refused(error):
            raise
        if unseen is not None:
            failure = explain(error, environment=target.name)
            unseen.append(f"stacks of your own: {failure.message if failure else error}")
    every = dict.fromkeys([*plan_names.stack_names(target.plan), *also, *tagged])
    return tuple(stack(target, name) for name in every)


def tagged_stacks(target: AnyTarget) -> list[str]:
    """Names of the stacks in the account that carry the environment's tag, as each stack of its Stage does."""
    return sorted(
        str(description["StackName"])
        for description in target.aws.pages("cloudformation", "describe_stacks", "Stacks")
        if {"Key": names.ENVIRONMENT_TAG, "Value": target.name} in description.get("Tags", [])
    )


def stack(target: AnyTarget, name: str) -> Stack:
    """One stack; with an empty status where there is none."""
    try:
        description = target.aws.call("cloudformation", "describe_stacks", StackName=name)["Stacks"][0]
    except Exception as error:
        if absent(error):
            return Stack(name=name)
        raise
    described = Stack(
        name=name,
        status="" if description["StackStatus"] == "DELETE_COMPLETE" else description["StackStatus"],
        reason=description.get("StackStatusReason", ""),
        protected=bool(description.get("EnableTerminationProtection")),
    )
    return with_cause(target, described)


# --- HyperPod --------------------------------------------------------------------------------------------------------


def _hyperpod(target: AnyTarget) -> dict[str, Any]:
    hyperpod_cluster = cluster(target)
    if hyperpod_cluster is None:
        return {"cluster": None}
    return {"cluster": hyperpod_cluster, "instances": instances(target)}


def _events(target: AnyTarget) -> dict[str, Any]:
    try:
        return {"events": events(target)}
    except Exception as error:
        if absent(error):  # no cluster, no events
            return {}
        raise


def cluster(target: AnyTarget) -> Cluster | None:
    """The HyperPod cluster; None where there is none."""
    name = target.plan.settings.hyperpod.cluster_name
    try:
        description = target.aws.call("sagemaker", "describe_cluster", ClusterName=name)
    except Exception as error:
        if absent(error):
            return None
        raise
    return Cluster(
        name=name,
        arn=description["ClusterArn"],
        status=description["ClusterStatus"],
        failure=description.get("FailureMessage", ""),
        node_recovery=description.get("NodeRecovery", "Automatic"),
        created=description.get("CreationTime"),
        groups=tuple(_group(target, group) for group in description.get("InstanceGroups", [])),
    )


def _group(target: AnyTarget, group: Json) -> Group:
    instance_type = group.get("InstanceType", "")
    plan = target.plan
    return Group(
        name=group["InstanceGroupName"],
        type=instance_type,
        target=int(group.get("TargetCount") or 0),
        current=int(group.get("CurrentCount") or 0),
        status=group.get("Status", ""),
        # an unknown type is taken for accelerated: the mistake then is to wait for a recovery, which has a time limit
        accelerated=plan.type_spec(instance_type).accelerators > 0 if plan.known(instance_type) else True,
        role=(group.get("SlurmConfig") or {}).get("NodeType", "") or _role(plan, group["InstanceGroupName"]),
        training_plan=group.get("TrainingPlanArn", ""),
        image_status=group.get("ImageVersionStatus", ""),
        image_release=group.get("CurrentImageReleaseVersion", ""),
        image_available=group.get("DesiredImageReleaseVersion", ""),
        update_status=group.get("SoftwareUpdateStatus", ""),
    )


def _role(plan: CommonPlan, name: str) -> str:
    """A group's part in Slurm by the environment file; empty on EKS and for a group that the file does not have."""
    groups = plan.groups if isinstance(plan, SlurmPlan) else []
    return next((group.slurm.role.capitalize() for group in groups if group.name == name), "")


def training_plans(target: AnyTarget, cluster: Cluster) -> tuple[TrainingPlan, ...]:
    """The training plans that a cluster's groups take their capacity from."""
    plans = []
    for arn in sorted({group.training_plan for group in cluster.groups if group.training_plan}):
        name = arn.rpartition("/")[2]
        plan = target.aws.call("sagemaker", "describe_training_plan", TrainingPlanName=name)
        plans.append(
            TrainingPlan(
                arn=arn,
                name=name,
                status=plan["Status"],
                start=plan.get("StartTime"),
                end=plan.get("EndTime"),
                groups=tuple(group.name for group in cluster.groups if group.training_plan == arn),
                unhealthy=int(plan.get("UnhealthyInstanceCount") or 0),
            )
        )
    return tuple(plans)


def instances(target: AnyTarget) -> tuple[Instance, ...]:
    """Every node that HyperPod lists, oldest first."""
    name = target.plan.settings.hyperpod.cluster_name
    summaries = target.aws.pages("sagemaker", "list_cluster_nodes", "ClusterNodeSummaries", ClusterName=name)
    listed = [
        Instance(
            id=node["InstanceId"],
            group=node["InstanceGroupName"],
            type=node["InstanceType"],
            status=node["InstanceStatus"]["Status"],
            message=node["InstanceStatus"].get("Message", ""),
            launched=node.get("LaunchTime"),
            logical_id=node.get("NodeLogicalId", ""),
            host=node.get("PrivateDnsHostname", "").partition(".")[0],
            software_updated=node.get("LastSoftwareUpdateTime"),
            image_release=node.get("CurrentImageReleaseVersion", ""),
        )
        for node in summaries
    ]
    return tuple(
        sorted(listed, key=lambda node: (node.group, node.launched or datetime.min.replace(tzinfo=UTC), node.id))
    )


def events(target: AnyTarget, *, limit: int = EVENTS, **filters: Any) -> tuple[ClusterEvent, ...]:
    """The cluster's newest events, newest first; failure messages are not part of the listing (`describe_event`)."""
    name = target.plan.settings.hyperpod.cluster_name
    listed: list[Json] = []
    arguments: Json = {"ClusterName": name, "SortOrder": "Descending", "MaxResults": min(limit, 100), **filters}
    while len(listed) < limit:
        page = target.aws.call("sagemaker", "list_cluster_events", **arguments)
        listed += page.get("Events", [])
        if not page.get("NextToken"):
            break
        arguments["NextToken"] = page["NextToken"]
    return tuple(_event(summary) for summary in listed[:limit])


def describe_event(target: AnyTarget, event: ClusterEvent) -> ClusterEvent:
    """An event with its failure message, which only DescribeClusterEvent tells."""
    name = target.plan.settings.hyperpod.cluster_name
    details = target.aws.call("sagemaker", "describe_cluster_event", ClusterName=name, EventId=event.id)["EventDetails"]
    return _event(details)


def _event(summary: Json) -> ClusterEvent:
    metadata = (summary.get("EventDetails") or {}).get("EventMetadata") or {}
    failures = [
        part["FailureMessage"] for part in metadata.values() if isinstance(part, dict) and part.get("FailureMessage")
    ]
    return ClusterEvent(
        id=summary["EventId"],
        time=summary["EventTime"],
        level=summary.get("EventLevel", "Info"),
        description=summary.get("Description", ""),
        resource=summary.get("ResourceType", "Cluster"),
        group=summary.get("InstanceGroupName", ""),
        instance=summary.get("InstanceId", ""),
        failure="; ".join(failures),
    )


# --- Kubernetes ------------------------------------------------------------------------------------------------------


def _kubernetes(target: Target, unseen: list[Unseen]) -> dict[str, Any]:
    """Every Ray namespace: each kind is asked apart, so that one that may not be seen hides no other."""
    lists: dict[str, Callable[[Target, str], list[Any]]] = {
        "pods": pods,
        "ray_clusters": ray_clusters,
        "ray_jobs": ray_jobs,
        "claims": claims,
        "warnings": warnings,
    }
    objects: dict[str, list[Any]] = {part: [] for part in lists}
    own_namespace, *team_namespaces = plan_names.ray_namespaces(target.plan)
    for space in (own_namespace, *team_namespaces):
        hidden: dict[str, Exception] = {}
        for part, ask in lists.items():
            try:
                objects[part] += ask(target, space)
            except Exception as error:
                if not refused(error) or explain(error, environment=target.name) is None:
                    raise
                hidden[part] = error
        if len(hidden) == len(lists) and space == own_namespace:
            raise hidden["pods"]
        unseen += _hidden(target, space, hidden, whole_namespace=len(hidden) == len(lists))
    return {part: tuple(items) for part, items in objects.items()}


def _hidden(target: Target, space: str, hidden: dict[str, Exception], *, whole_namespace: bool) -> Iterator[Unseen]:
    """What of a namespace may not be seen: all of it, or some of its parts."""
    for part, error in hidden.items():
        failure = explain(error, environment=target.name)
        yield Unseen(
            source=f"namespace {space}" if whole_namespace else part_of(part, space),
            why=failure.message if failure else "",
            refused=True,
        )
        if whole_namespace:
            return


def refused(error: BaseException) -> bool:
    """Whether Kubernetes or AWS answered that these credentials may not."""
    return getattr(error, "status", None) == 403 or code(error) in DENIED


def nodes(target: Target) -> tuple[Node, ...]:
    """Nodes of the Kubernetes cluster."""
    return tuple(_node(obj) for obj in target.kubernetes.items("/api/v1/nodes"))


def _node(obj: Json) -> Node:
    meta, spec = obj["metadata"], obj.get("spec", {})
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    conditions = {c["type"]: c for c in (obj.get("status") or {}).get("conditions") or []}
    ready = conditions.get("Ready", {})
    taints = {taint["key"] for taint in spec.get("taints") or []}
    reported = [
        next((labels[key] for key in keys if labels.get(key)), "")
        for keys in (names.FAULT_TYPE_LABELS, names.FAULT_REASON_LABELS)
    ]
    return Node(
        name=meta["name"],
        ready=ready.get("status") == "True",
        unreachable=names.UNREACHABLE in taints or ready.get("status") == "Unknown",
        since=moment(ready.get("lastTransitionTime")),
        created=moment(meta.get("creationTimestamp")),
        group=labels.get(names.INSTANCE_GROUP_LABEL, ""),
        health=labels.get(names.HEALTH_LABEL, ""),
        deep_check=labels.get(names.DEEP_HEALTH_LABEL, ""),
        fault=": ".join(filter(None, [*reported, notes.get(names.FAULT_DETAILS, "")])),
        cordoned=bool(spec.get("unschedulable")),
        out_of_service=names.OUT_OF_SERVICE in taints,
    )


def pods(target: Target, namespace: str) -> list[Pod]:
    """Pods of RayClusters in a namespace."""
    listed = target.kubernetes.items(f"/api/v1/namespaces/{namespace}/pods", labels=names.RAY_CLUSTER_LABEL)
    return [_pod(obj) for obj in listed]


def _pod(obj: Json) -> Pod:
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    labels = meta.get("labels") or {}
    conditions = {c["type"]: c for c in status.get("conditions") or []}
    reason, message = _why_not(status, conditions)
    containers = status.get("containerStatuses") or []
    return Pod(
        name=meta["name"],
        namespace=meta.get("namespace", ""),
        cluster=labels.get(names.RAY_CLUSTER_LABEL, ""),
        role=labels.get(names.RAY_ROLE_LABEL, ""),
        group=labels.get(names.RAY_GROUP_LABEL, ""),
        phase=status.get("phase", "Pending"),
        ready=conditions.get("Ready", {}).get("status") == "True",
        node=spec.get("nodeName", ""),
        reason=reason,
        message=message,
        created=moment(meta.get("creationTimestamp")),
        deleting_since=moment(meta.get("deletionTimestamp")),
        instance_group=(spec.get("nodeSelector") or {}).get(names.INSTANCE_GROUP_LABEL, ""),
        restarts=max((c.get("restartCount", 0) for c in containers), default=0),
        ready_since=moment(conditions.get("Ready", {}).get("lastTransitionTime")),
    )


def _why_not(status: Json, conditions: dict[str, Json]) -> tuple[str, str]:
    """Why a pod does not run: the scheduler's reason, else the first container's that waits or died."""
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("status") == "False":
        return scheduled.get("reason", ""), scheduled.get("message", "")
    for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        state = container.get("state") or {}
        waiting, terminated = state.get("waiting") or {}, state.get("terminated") or {}
        if waiting.get("reason") and waiting["reason"] not in ("PodInitializing", "ContainerCreating"):
            last_reason = ((container.get("lastState") or {}).get("terminated") or {}).get("reason", "")
            return ("OOMKilled" if last_reason == "OOMKilled" else waiting["reason"]), waiting.get("message", "")
        if terminated.get("reason") and terminated.get("exitCode"):
            return terminated["reason"], terminated.get("message", "")
    return status.get("reason", ""), status.get("message", "")


def ray_clusters(target: Target, namespace: str) -> list[RayCluster]:
    """RayClusters of a namespace; none where KubeRay is not installed."""
    with contextlib.suppress(Missing):
        return [
            _ray(obj) for obj in _custom(target, f"/apis/{names.RAY_API_VERSION}/namespaces/{namespace}/rayclusters")
        ]
    return []


class Missing(Exception):
    """A kind of object is not installed in the cluster."""


def _custom(target: Target, path: str) -> list[Json]:
    try:
        return target.kubernetes.items(path)
    except Exception as error:
        if absent(error):
            raise Missing from None
        raise


def _ray(obj: Json) -> RayCluster:
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    replicas = sum(group.get("replicas") or 0 for group in spec.get("workerGroupSpecs") or [])
    failures = [
        c for c in status.get("conditions") or [] if c.get("type") == "ReplicaFailure" and c.get("status") == "True"
    ]
    changed = [moment(c.get("lastTransitionTime")) for c in status.get("conditions") or []]
    return RayCluster(
        name=meta["name"],
        namespace=meta.get("namespace", ""),
        state=status.get("state", ""),
        desired_workers=status.get("desiredWorkerReplicas", replicas) or replicas,
        ready_workers=status.get("readyWorkerReplicas", 0),
        suspended=bool(spec.get("suspend")),
        reason=failures[0].get("message", "") if failures else status.get("reason", ""),
        since=max(filter(None, changed), default=moment(meta.get("creationTimestamp"))),
    )


def ray_jobs(target: Target, namespace: str) -> list[RayJob]:
    """RayJobs of a namespace, newest first; none where KubeRay is not installed."""
    with contextlib.suppress(Missing):
        path = f"/apis/{names.RAY_API_VERSION}/namespaces/{namespace}/rayjobs"
        jobs = [_ray_job(obj) for obj in _custom(target, path)]
        return sorted(jobs, key=lambda job: job.created or datetime.min.replace(tzinfo=UTC), reverse=True)
    return []


def _ray_job(obj: Json) -> RayJob:
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    return RayJob(
        name=meta["name"],
        namespace=meta.get("namespace", ""),
        status=status.get("jobStatus", ""),
        deployment_status=status.get("jobDeploymentStatus", ""),
        job_id=status.get("jobId", ""),
        cluster=status.get("rayClusterName", "")
        or (spec.get("clusterSelector") or {}).get(names.RAY_CLUSTER_LABEL, ""),
        reason=status.get("reason", ""),
        message=status.get("message", ""),
        created=moment(meta.get("creationTimestamp")),
        started=moment(status.get("startTime")),
        ended=moment(status.get("endTime")),
        suspended=bool(spec.get("suspend")),
    )


def _controllers(target: Target, unseen: list[Unseen]) -> dict[str, Any]:
    """Every controller that the environment deploys; a namespace that may not be seen hides no other."""
    expected = controllers.expected(target.plan)
    states: list[Controller] = []
    for namespace in dict.fromkeys(workload.namespace for workload in expected):
        workloads = [workload for workload in expected if workload.namespace == namespace]
        try:
            listed = {
                kind: controllers.listing(target.kubernetes, namespace, kind)
                for kind in dict.fromkeys(workload.kind for workload in workloads)
            }
        except Exception as error:
            failure = explain(error, environment=target.name)
            if failure is None or not refused(error):
                raise
            unseen.append(Unseen(source=f"controllers of {namespace}", why=failure.message, refused=True))
            continue
        for workload in workloads:
            controller, selector = controllers.found(workload, listed[workload.kind], plan=target.plan)
            if controller.ready < controller.wanted and selector:
                with contextlib.suppress(Exception):  # the counts alone are worth showing
                    controller = controllers.with_pods(controller, _pods_of(target, namespace, selector))
            states.append(controller)
    return {"controllers": tuple(states)}


def _pods_of(target: Target, namespace: str, selector: str) -> list[Pod]:
    return [_pod(obj) for obj in target.kubernetes.items(f"/api/v1/namespaces/{namespace}/pods", labels=selector)]


def _training(target: Target, unseen: list[Unseen]) -> dict[str, Any]:
    from hyperpod_ray.ops.observe.training import gathered  # it imports this module

    return gathered(target, noted=lambda: _noted(TRAINING, target, unseen))


def claims(target: Target, namespace: str) -> list[Claim]:
    """Volume claims of a namespace."""
    return [
        Claim(
            name=obj["metadata"]["name"],
            namespace=namespace,
            phase=(obj.get("status") or {}).get("phase", "Pending"),
            volume=(obj.get("spec") or {}).get("volumeName", ""),
            storage_class=(obj.get("spec") or {}).get("storageClassName", "") or "",
            created=moment(obj["metadata"].get("creationTimestamp")),
            deleting_since=moment(obj["metadata"].get("deletionTimestamp")),
        )
        for obj in target.kubernetes.items(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims")
    ]


def warnings(target: Target, namespace: str) -> list[KubernetesEvent]:
    """The newest warnings of a namespace, newest first."""
    answered = target.kubernetes.items(f"/api/v1/namespaces/{namespace}/events", fields="type=Warning")
    listed = [
        KubernetesEvent(
            time=moment(obj.get("lastTimestamp") or obj.get("eventTime") or obj["metadata"].get("creationTimestamp")),
            reason=obj.get("reason", ""),
            object="/".join((obj.get("involvedObject") or {}).get(key, "") for key in ("kind", "name")),
            message=obj.get("message", ""),
            count=obj.get("count") or 1,
        )
        for obj in answered
    ]
    listed.sort(key=lambda event: event.time or datetime.min.replace(tzinfo=UTC), reverse=True)
    return listed[:WARNINGS]


def moment(text: str | None) -> datetime | None:
    """A time as Kubernetes writes it."""
    return datetime.fromisoformat(text) if text else None


# --- FSx -------------------------------------------------------------------------------------------------------------


def _fsx(target: AnyTarget) -> dict[str, Any]:
    return {"file_systems": file_systems(target)}


def file_systems(target: AnyTarget) -> tuple[FileSystem, ...]:
    """File systems that carry the environment's tag, and the one that the environment only uses."""
    existing = target.plan.existing_file_system
    listed = []
    for description in target.aws.pages("fsx", "describe_file_systems", "FileSystems"):
        tags = {tag["Key"]: tag.get("Value", "") for tag in description.get("Tags", [])}
        tagged = tags.get(names.ENVIRONMENT_TAG) == target.name
        if not tagged and not (existing and existing.file_system_id == description["FileSystemId"]):
            continue
        listed.append(
            FileSystem(
                id=description["FileSystemId"],
                lifecycle=description["Lifecycle"],
                capacity_gib=description.get("StorageCapacity", 0),
                made_by_claim=names.CLAIM_TAG in tags,
                failure=(description.get("FailureDetails") or {}).get("Message", ""),
                created=description.get("CreationTime"),
                stack=tags.get("aws:cloudformation:stack-name", ""),
                interfaces=tuple(description.get("NetworkInterfaceIds", [])),
            )
        )
    return tuple(listed)


def _hangs(target: Target) -> dict[str, Any]:
    hyperpod_cluster = cluster(target)
    return {"hangs": hangs(target, hyperpod_cluster)} if hyperpod_cluster else {}


def require_cluster(target: AnyTarget) -> Cluster:
    """The HyperPod cluster, or an error that says how to make it."""
    target.aws.require_account()
    hyperpod_cluster = cluster(target)
    if hyperpod_cluster is None:
        raise OpsError(
            f"HyperPod cluster '{target.plan.settings.hyperpod.cluster_name}' does not exist",
            expected="the environment to be deployed",
            fix=target.deploy_command,
        )
    return hyperpod_cluster
