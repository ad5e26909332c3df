"""Admission policies of the teams' namespaces: what a queue admits is what runs, as the team's user, on its own quota.

They judge what a member asks for and what the operator makes of it. A right in RBAC says who may ask; these say what
nobody may have there, members' rights of other sources included.
https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import cdk8s

from hyperpod_ray.core import names
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.plan_names import team_namespaces
from hyperpod_ray.core.team_files import mounts, uid
from hyperpod_ray.k8s.manifest import PART_OF, Manifest, build
from hyperpod_ray.k8s.pods import group_tolerations
from hyperpod_ray.k8s.ray_settings import recovery

QUEUED = "team-queues"
"""What takes nodes in a team's namespace does so by the team's queue, and as the queue admitted it."""
PODS = "team-pods"
"""Pods of a team have the team's user, its folders and the quota that was counted."""
CRON_JOBS = "raycronjobs"
ADMISSION = "admissionregistration.k8s.io/v1"
OPERATOR = f"system:serviceaccount:{names.OPERATOR_NAMESPACE}:{names.OPERATOR_CHART}"
"""The KubeRay operator's user. Its chart calls the service account as itself."""
AUTOSCALING, FINALIZER = "kueue.x-k8s.io/elastic-job", "ray.io/rayjob-finalizer"
"""Annotation by which Kueue lets Ray's autoscaler change a job's size, and the finalizer that KubeRay removes."""
FAULT_TOLERANT = "ray.io/ft-enabled"
"""Annotation that does what `gcsFaultToleranceOptions` does: KubeRay runs a Job of its own when the cluster goes."""
FINALIZERS = [FINALIZER, "foregroundDeletion", "orphan"]
"""Finalizers of a RayJob that somebody removes when it is deleted: the operator, and Kubernetes."""
MAKERS = [
    OPERATOR,
    f"system:serviceaccount:{names.KUBE_SYSTEM}:job-controller",
    "system:kube-controller-manager",
]
"""Who makes pods of what a queue admitted: the operator, and Kubernetes' controller for the Job that submits.
https://github.com/kubernetes/kubernetes/blob/master/pkg/controller/job/job_controller.go"""
KUEUE_GROUP = f"system:serviceaccounts:{names.KUEUE_NAMESPACE}"
"""Kueue's controllers: the group of the service accounts of its namespace."""
DEVICES = "NVIDIA_VISIBLE_DEVICES"
"""Variable by which NVIDIA's container runtime gives a container GPUs that its pod did not ask for.
https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html"""
WAITS_FOR_HEAD = "wait-gcs-ready"
"""Init container that KubeRay adds to each worker, with the worker's image."""
DEFAULT_GRACE_SECONDS = 30
"""Kubernetes' terminationGracePeriodSeconds."""


def policies(plan: Plan) -> Manifest:
    """Both policies with their bindings."""
    spaces = team_namespaces(plan)

    def define(chart: cdk8s.Chart) -> None:
        for name, spec in ((QUEUED, _queued(spaces)), (PODS, _pods(plan, spaces))):
            bound = {"policyName": name, "validationActions": ["Deny"]}
            for kind, content in (("ValidatingAdmissionPolicy", spec), ("ValidatingAdmissionPolicyBinding", bound)):
                added = cdk8s.ApiObject(
                    chart,
                    kind if name == QUEUED else f"{kind}-{name}",
                    api_version=ADMISSION,
                    kind=kind,
                    metadata=cdk8s.ApiObjectMetadata(name=name, labels=PART_OF),
                )
                added.add_json_patch(cdk8s.JsonPatch.add("/spec", content))

    return build("TeamQueues", define)


def _policy(
    spaces: list[str], rules: list[dict[str, Any]], checks: Iterable[tuple[str, str]], *conditions: dict[str, str]
) -> dict[str, Any]:
    """A policy of some namespaces. Each check is an expression, and what is said where it is false."""
    named = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": spaces}
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {"namespaceSelector": {"matchExpressions": [named]}, "resourceRules": rules},
        "matchConditions": [{"name": "lives", "expression": "!has(object.metadata.deletionTimestamp)"}, *conditions],
        "validations": [{"expression": expression, "message": message} for expression, message in checks],
    }


def _queued(spaces: list[str]) -> dict[str, Any]:
    """In the teams' namespaces, nothing that takes nodes without the team's queue, or other nodes than it admitted.

    Kueue leaves what has no queue alone: such a cluster would take nodes that another team's quota counts. It reads the
    label and nothing else. KubeRay gives a RayJob's labels to its RayCluster, and a RayService's to its own. The runs
    of a RayCronJob get none of its labels, and `jobTemplate` has no place for any: each would be refused, so that the
    RayCronJob itself is. One that is there may still be suspended.

    Kueue counts a RayJob and takes its RayCluster as counted, by the owner that the RayCluster names: one that a member
    created with such an owner, or to which they added workers, would run beyond every quota. So only the operator
    creates and changes those. What a member writes into a RayJob that runs would be in its next cluster. So it does not
    change.

    Kueue counts `replicas`, and KubeRay makes `minReplicas` pods where that is more. Kueue frees the quota when a job
    ends, and KubeRay keeps its cluster for a time to live. Kueue frees it too when a RayJob is deleted, and a finalizer
    of a member's keeps the RayJob then, with its pods. What KubeRay makes of `headService` and the like reaches beyond
    the team: a Service with external IPs takes other teams' connections.
    https://github.com/ray-project/kuberay/blob/master/ray-operator/controllers/ray/raycronjob_controller.go
    https://github.com/kubernetes-sigs/kueue/blob/main/pkg/controller/jobframework/reconciler.go
    https://github.com/kubernetes-sigs/kueue/blob/main/pkg/controller/jobs/raycluster/common.go
    """
    label = f"object.metadata.?labels[?'{names.QUEUE_LABEL}'].orValue('')"
    expression = "request.resource.resource"
    cron, job, cluster = (f"{expression} == '{resource}'" for resource in (CRON_JOBS, "rayjobs", "rayclusters"))
    update = "request.operation == 'UPDATE'"
    operator = f"request.userInfo.username == '{OPERATOR}'"
    owned = "object.metadata.?ownerReferences.orValue([]).size() > 0"
    kueue = f"request.userInfo.groups.exists(group, group == '{KUEUE_GROUP}')"
    same = " && ".join(
        f"object.spec.?{field}.orValue({{}}) == oldObject.spec.?{field}.orValue({{}})"
        for field in ("rayClusterSpec", "submitterPodTemplate", "clusterSelector")
    )
    unchanged = " && ".join(
        f"object.{field}.orValue({empty}) == oldObject.{field}.orValue({empty})"
        for field, empty in (("?spec", "{}"), ("metadata.?annotations", "{}"), ("metadata.?finalizers", "[]"))
    )
    was, stays = (f"{state}.spec.?suspend.orValue(false)" for state in ("oldObject", "object"))
    checks = [
        (
            f"!({cron})",
            "a RayCronJob of a team has no queue: KubeRay gives its runs no labels. Create RayJobs on a schedule "
            "instead",
        ),
        (
            f"{cron} || {label} == request.namespace + '{names.TEAM_QUEUE_SUFFIX}'",
            "a RayJob, RayCluster or RayService of a team names the team's queue: label " + names.QUEUE_LABEL,
        ),
        (
            f"!({cluster}) || !({owned}) || {operator} || ({update} && object.spec == oldObject.spec && "
            "object.metadata.?ownerReferences.orValue([]) == oldObject.metadata.?ownerReferences.orValue([]))",
            "only the KubeRay operator creates or changes the RayCluster of a RayJob: the queue admitted it at its "
            "size. Submit another job for another size",
        ),
        (
            f"{cluster} || {cron} || !({owned})",
            "a RayJob or RayService of a team has no owner: Kueue would not count it. Remove ownerReferences",
        ),
        (
            f"!({job}) || {update} || {stays}",
            "a RayJob of a team is created suspended, and the queue starts it: set suspend: true",
        ),
        (
            f"!({job}) || !({update}) || !{was} || {stays} || {kueue}",
            "only the queue starts a RayJob of a team: leave suspend as it is",
        ),
        (
            f"!({job}) || !({update}) || {was} || {stays} || ({same})",
            "what the queue admitted does not change while it runs: rayClusterSpec, submitterPodTemplate, "
            "clusterSelector. Submit another job",
        ),
        *(
            (f"!({job}) || ({update} && ({unchanged} || ({kueue} && {stays}))) || ({expression})", message)
            for expression, message in _job_rules()
        ),
    ]
    rule = {"apiGroups": [names.RAY_API_GROUP], "apiVersions": ["v1"]}
    rules = [
        {**rule, "operations": ["CREATE", "UPDATE"], "resources": ["rayjobs", "rayclusters", "rayservices"]},
        {**rule, "operations": ["CREATE"], "resources": [CRON_JOBS]},
    ]
    return _policy(spaces, rules, checks)


def _job_rules() -> Iterator[tuple[str, str]]:
    """What the RayJob of a team may not be, by its own content. Kueue may still suspend one from before these rules."""
    cluster = "object.spec.?rayClusterSpec"
    head = f"{cluster}.?headGroupSpec"
    yield (
        f"{cluster}.?workerGroupSpecs.orValue([]).all(group, "
        "group.?minReplicas.orValue(0) <= group.?replicas.orValue(0)) && "
        f"!{cluster}.?enableInTreeAutoscaling.orValue(false) && "
        f"object.metadata.?annotations[?'{AUTOSCALING}'].orValue('') == ''",
        "the queue counts the replicas of a team's RayJob, and no more may run: no minReplicas above replicas, no "
        f"enableInTreeAutoscaling, no annotation {AUTOSCALING}",
    )
    yield (
        "object.spec.?shutdownAfterJobFinishes.orValue(false) && "
        "object.spec.?ttlSecondsAfterFinished.orValue(0) == 0 && !has(object.spec.deletionStrategy)",
        "the cluster of a team's RayJob goes when the job ends, as its quota does: set shutdownAfterJobFinishes: true, "
        "and remove ttlSecondsAfterFinished and deletionStrategy",
    )
    absent = [f"!{head}.?headService.hasValue()", f"!{head}.?enableIngress.orValue(false)"]
    fields = ("networkPolicy", "tlsOptions", "historyServerOptions", "gcsFaultToleranceOptions")
    absent += [f"!{cluster}.?{field}.hasValue()" for field in fields]
    absent.append(f"object.metadata.?annotations[?'{FAULT_TOLERANT}'].orValue('false') == 'false'")
    yield (
        f"{head}.?serviceType.orValue('ClusterIP') in ['', 'ClusterIP'] && " + " && ".join(absent),
        "a team's RayJob opens no network and adds no container that the queue does not count: remove headService, "
        "enableIngress, networkPolicy, tlsOptions, historyServerOptions, gcsFaultToleranceOptions, annotation "
        f"{FAULT_TOLERANT}, and a serviceType other than ClusterIP",
    )
    yield (
        f"object.metadata.?finalizers.orValue([]).all(name, name in {_literal(FINALIZERS)})",
        "a RayJob of a team has no finalizers but KubeRay's: the quota of a deleted RayJob is free, and its pods would "
        "stay. Remove them",
    )


def _literal(value: Any) -> str:
    """A value in the expressions' language."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_literal(key)}: {_literal(element)}" for key, element in sorted(value.items())) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_literal, value)) + "]"
    return str(value) if isinstance(value, int) else "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"


def _pods(plan: Plan, spaces: list[str]) -> dict[str, Any]:
    """What a new pod in a team's namespace may be.

    The pod security level `restricted` is enforced there too: no host paths, no host network, no privilege, no root.
    This adds what that level leaves open, and what Kueue does not count: a scheduler that is passed by, a priority that
    preempts other teams' pods, nodes that taints keep free, more CPU and memory than was requested, GPUs that were not
    requested, claims of other storage, an end that takes as long as the pod asks for.

    A pod that runs gets nothing besides: no ephemeral container, and no other size. Kueue looks at RayJobs and
    RayClusters alone: a pod of a Deployment, or of somebody's Job, would run beside every quota. So the operator makes
    all pods, through the Job of a RayJob too, whose number of pods nobody else changes.
    """
    users = {names.team_namespace(team.name): uid(team) for team in plan.settings.teams}
    claims = {
        names.team_namespace(team.name): sorted(mount.claim for mount in mounts(plan, team))
        for team in plan.settings.teams
    }
    groups = plan.settings.hyperpod.instance_groups
    tolerated = {toleration["key"] for group in groups for toleration in group_tolerations(plan, group.name)}
    # the last two are the API server's own, of ExtendedResourceToleration
    tolerated |= {names.NOT_READY, names.UNREACHABLE, names.EFA_RESOURCE, names.GPU_RESOURCE, names.NEURON_RESOURCE}
    types = sorted({group.type for group in groups})
    devices = {
        candidate: {"nvidia": names.GPU_RESOURCE, "neuron": names.NEURON_RESOURCE}[accelerator]
        for candidate in types
        if (accelerator := plan.type_spec(candidate).accelerator) in ("nvidia", "neuron")
    }
    # partitions of a GPU are devices too, where a team has a quota of them
    partitions = sorted(
        {
            f"{names.MIG_PREFIX}{toleration.partition.profile.removeprefix('mig-')}"
            for team in plan.settings.teams
            for toleration in team.quota
            if toleration.partition is not None
        }
    )
    parts = "".join(f" || container.?resources.?limits[?'{name}'].orValue('0') != '0'" for name in partitions)
    grace = max(recovery(plan).termination_grace_period_s, DEFAULT_GRACE_SECONDS)
    of_pod = "request.?subResource.orValue('') != '' || request.resource.resource != 'pods' || "
    operator = f"request.userInfo.username == '{OPERATOR}'"
    own_user = f"{_literal(users)}[request.namespace]"
    every = "(object.spec.containers + object.spec.?initContainers.orValue([]))"
    selected = f"object.spec.?nodeSelector[?'{names.INSTANCE_TYPE_LABEL}'].orValue('')"
    requests = f"container.?resources.?limits[?{_literal(devices)}[?{selected}].orValue('')].orValue('0') != '0'{parts}"
    kinds = ("configMap", "downwardAPI", "emptyDir", "persistentVolumeClaim", "projected", "secret")
    volume = " || ".join(f"has(volume.{candidate})" for candidate in kinds)
    checks = [
        (
            f"request.userInfo.username in {_literal(MAKERS)}",
            "a pod of a team is KubeRay's, of what the queue admitted: create a RayJob instead",
        ),
        (
            f"object.spec.?securityContext.?runAsUser.orValue(0) == {own_user} && "
            f"object.spec.?securityContext.?runAsGroup.orValue(0) == {own_user}",
            "a pod of a team has the team's user and group: runAsUser and runAsGroup of its security context. "
            "`hyperpod-ray submit ENV --team TEAM` sets them",
        ),
        (
            f"object.spec.?securityContext.?supplementalGroups.orValue([]).all(group, group == {names.RAY_GID}) && "
            f"object.spec.?securityContext.?fsGroup.orValue({names.RAY_GID}) in [{names.RAY_GID}, {own_user}]",
            f"a pod of a team is in the team's group and in {names.RAY_GID}, that of the image's files, and no other",
        ),
        (
            f"{every}.all(container, container.?securityContext.?runAsUser.orValue({own_user}) == {own_user} && "
            f"container.?securityContext.?runAsGroup.orValue({own_user}) == {own_user})",
            "no container of a team has another user or group than the team's",
        ),
        (
            "object.spec.?priority.orValue(0) <= 0 && "
            "!object.spec.?priorityClassName.orValue('').startsWith('system-')",
            "a pod of a team preempts no other pod: remove priorityClassName. Name a priority class of the queue "
            "instead: `hyperpod-ray submit ENV --priority NAME`",
        ),
        (
            "object.spec.?nodeName.orValue('') == '' && "
            "object.spec.?schedulerName.orValue('default-scheduler') == 'default-scheduler'",
            "a pod of a team is placed by the scheduler: remove nodeName and schedulerName",
        ),
        (
            f"{selected} in {_literal(types)}",
            f"a pod of a team names the instance type whose quota it takes: node selector {names.INSTANCE_TYPE_LABEL}",
        ),
        (
            f"object.spec.?tolerations.orValue([]).all(entry, entry.?key.orValue('') in {_literal(sorted(tolerated))})",
            "a pod of a team tolerates no other taints than those of the environment's instance groups",
        ),
        (
            f"{every}.all(container, ['cpu', 'memory'].all(name, "
            "has(container.resources) && has(container.resources.limits) && has(container.resources.requests) && "
            "name in container.resources.limits && name in container.resources.requests && "
            "container.resources.limits[name] == container.resources.requests[name]))",
            "each container of a team requests the CPU and memory that it may use: requests equal to limits, which the "
            "queue counts",
        ),
        (
            f"!({selected} in {_literal(devices)}) || object.spec.containers.exists(container, {requests})",
            "a pod on nodes with accelerators requests some: without a request it would see those of other pods",
        ),
        (
            f"!({selected} in {_literal(devices)}) || {every}.all(container, ({requests}) || "
            f"container.name == '{WAITS_FOR_HEAD}' || "
            f"container.?env.orValue([]).exists(variable, variable.name == '{DEVICES}'))",
            f"a container without accelerators beside one that has some sets {DEVICES} to void: its image may ask for "
            "all of the node",
        ),
        (
            f"{every}.all(container, container.?env.orValue([]).all(variable, variable.name != '{DEVICES}' || "
            "variable.?value.orValue('') == 'void') && !has(container.envFrom))",
            f"a container of a team sets {DEVICES} to nothing but void, since it shows GPUs that the pod did not "
            "request, and no envFrom, which can have it",
        ),
        (
            f"object.spec.?volumes.orValue([]).all(volume, ({volume}) && (!has(volume.persistentVolumeClaim) || "
            f"volume.persistentVolumeClaim.claimName in {_literal(claims)}[request.namespace]))",
            "a pod of a team mounts ConfigMaps, Secrets, empty folders and the team's claims, and nothing else",
        ),
        (
            "!has(object.spec.resourceClaims)",
            "a pod of a team has no resource claims: the queue does not count them",
        ),
        (
            f"object.spec.?terminationGracePeriodSeconds.orValue({DEFAULT_GRACE_SECONDS}) <= {grace}",
            f"a pod of a team ends within {grace} seconds, so that another team gets its nodes: "
            "terminationGracePeriodSeconds",
        ),
        (
            f"object.spec.?serviceAccountName.orValue('') in ['', 'default', '{names.SERVICE_ACCOUNT}']",
            f"a pod of a team has the service account {names.SERVICE_ACCOUNT}, and no other of its namespace",
        ),
    ]
    rule = {"apiGroups": [""], "apiVersions": ["v1"]}
    rules = [
        {**rule, "operations": ["CREATE"], "resources": ["pods"]},
        {**rule, "operations": ["UPDATE"], "resources": ["pods/ephemeralcontainers", "pods/resize"]},
        {**rule, "apiGroups": ["batch"], "operations": ["CREATE", "UPDATE"], "resources": ["jobs"]},
    ]
    of_ray = (
        f"request.resource.resource != 'jobs' || {operator} || "
        "(request.operation == 'UPDATE' && object.spec == oldObject.spec)",
        "a Job in a team's namespace is KubeRay's, as the queue counted it: create a RayJob instead",
    )
    changed = (
        "request.?subResource.orValue('') == ''",
        "a pod of a team runs as the queue counted it: no ephemeral containers, and no other resources",
    )
    return _policy(spaces, rules, [changed, of_ray, *((f"{of_pod}({check})", message) for check, message in checks)])
