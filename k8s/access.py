"""Service accounts, and what Ray users may do in their namespaces."""

from __future__ import annotations

import cdk8s
from cdk8s_plus_28 import k8s

from hyperpod_ray.core.names import KUEUE_CONFIG, KUEUE_NAMESPACE, RAY_API_GROUP, SERVICE_ACCOUNT, users_group
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.plan_names import own_namespaces, ray_namespaces, ray_users, team_namespaces
from hyperpod_ray.k8s.manifest import PART_OF, Manifest, build

READ = ["get", "list", "watch"]
EDIT = [*READ, "create", "update", "patch", "delete"]
USER_ROLE = "ray-user"
NODES_ROLE = "ray-user-nodes"
"""ClusterRole of all Ray users: which nodes there are, and their health labels."""
TEMPLATE_ROLE = "ray-template"
"""Role of teams' members in the environment's Ray namespace."""
KUEUE_ROLE = "ray-user-kueue"
"""Role of teams' members in Kueue's namespace: how long it waits for a lost pod."""
RBAC = "rbac.authorization.k8s.io"


def access(plan: Plan) -> Manifest:
    """In each Ray namespace: the service account of Ray's pods, and the role of its users.

    The service account has no permissions in Kubernetes and its token is not mounted (but for the autoscaler, whose
    role KubeRay makes). A user (`eks.ray_users`) is in the group `ray-users:<namespace>` of their access entry and has
    nothing else: Ray's objects and ConfigMaps, reading pods with their logs, port-forward, and of all Secrets the one
    that holds the RayCluster's token. No exec, and no change of policies, claims or service accounts. Nodes can be
    read, so that `ops status` sees them.

    What a RayCluster's pods mount is the user's choice, so the namespace must hold no Secret that a user may not read.
    """

    def define(chart: cdk8s.Chart) -> None:
        used = [name for name in ray_namespaces(plan) if any(name in spaces for spaces in ray_users(plan).values())]
        for namespace in own_namespaces(plan):
            of_namespace(chart, plan, namespace, used=namespace in used)
        if used:
            _nodes_role(chart, used)
        if visitors := [name for name in team_namespaces(plan) if name in used]:
            _template_role(chart, plan, visitors)
            _kueue_role(chart, visitors)

    return build("Access", define)


def of_namespace(chart: cdk8s.Chart, plan: Plan, namespace: str, *, used: bool, team: bool = False) -> None:
    """The service account of one namespace, and the role of its users where it has some.

    In a team's namespace users change RayJobs, which the queue admits. They read RayClusters, which the operator makes
    of them at the size that was admitted.
    """
    k8s.KubeServiceAccount(
        chart,
        f"ServiceAccount-{namespace}",
        metadata=k8s.ObjectMeta(name=SERVICE_ACCOUNT, namespace=namespace, labels=PART_OF),
        automount_service_account_token=False,
    )
    if used:
        _user_role(chart, namespace, cluster_name=plan.settings.ray.cluster_name, team=team)


def _template_role(chart: cdk8s.Chart, plan: Plan, teams: list[str]) -> None:
    """Teams' members read the standing RayCluster, of which `submit` makes their own, and nothing else beside it."""
    ray = plan.settings.ray
    metadata = k8s.ObjectMeta(name=TEMPLATE_ROLE, namespace=ray.namespace, labels=PART_OF)
    rule = k8s.PolicyRule(
        api_groups=[RAY_API_GROUP], resources=["rayclusters"], resource_names=[ray.cluster_name], verbs=["get"]
    )
    _of_teams(chart, "Template", metadata, rule, teams)


def _kueue_role(chart: cdk8s.Chart, teams: list[str]) -> None:
    """Teams' members read Kueue's configuration, of which `submit` warns them, and nothing else beside it."""
    metadata = k8s.ObjectMeta(name=KUEUE_ROLE, namespace=KUEUE_NAMESPACE, labels=PART_OF)
    rule = k8s.PolicyRule(api_groups=[""], resources=["configmaps"], resource_names=[KUEUE_CONFIG], verbs=["get"])
    _of_teams(chart, "Kueue", metadata, rule, teams)


def _of_teams(
    chart: cdk8s.Chart, construct_id: str, metadata: k8s.ObjectMeta, rule: k8s.PolicyRule, teams: list[str]
) -> None:
    """A Role of one rule, for the members of every team."""
    k8s.KubeRole(chart, construct_id, metadata=metadata, rules=[rule])
    k8s.KubeRoleBinding(
        chart,
        f"{construct_id}Binding",
        metadata=metadata,
        role_ref=k8s.RoleRef(api_group=RBAC, kind="Role", name=str(metadata.name)),
        subjects=[k8s.Subject(api_group=RBAC, kind="Group", name=users_group(name)) for name in teams],
    )


def _user_role(chart: cdk8s.Chart, namespace: str, *, cluster_name: str, team: bool) -> None:
    metadata = k8s.ObjectMeta(name=USER_ROLE, namespace=namespace, labels=PART_OF)
    kinds = ["rayclusters", "rayjobs", "raycronjobs"]
    changed = ["rayjobs"] if team else kinds
    read = [resource for resource in kinds if resource not in changed]
    k8s.KubeRole(
        chart,
        f"Role-{namespace}",
        metadata=metadata,
        rules=[
            k8s.PolicyRule(api_groups=[RAY_API_GROUP], resources=changed, verbs=EDIT),
            *([k8s.PolicyRule(api_groups=[RAY_API_GROUP], resources=read, verbs=READ)] if read else []),
            k8s.PolicyRule(
                api_groups=[RAY_API_GROUP], resources=[f"{resource}/status" for resource in kinds], verbs=READ
            ),
            k8s.PolicyRule(api_groups=[""], resources=["configmaps"], verbs=EDIT),
            k8s.PolicyRule(
                api_groups=[""],
                resources=["pods", "pods/log", "services", "events", "persistentvolumeclaims"],
                verbs=READ,
            ),
            k8s.PolicyRule(api_groups=["batch"], resources=["jobs"], verbs=READ),
            # which queues a job can name, and why one waits; nothing is there without Kueue
            k8s.PolicyRule(api_groups=["kueue.x-k8s.io"], resources=["localqueues", "workloads"], verbs=READ),
            # over WebSocket the request is a GET: "get" always, since Kubernetes 1.35 "create" too; SPDY asks "create"
            k8s.PolicyRule(api_groups=[""], resources=["pods/portforward"], verbs=["get", "create"]),
            # the token that KubeRay keeps under the RayCluster's name; without "list", no other Secret's name shows
            k8s.PolicyRule(api_groups=[""], resources=["secrets"], resource_names=[cluster_name], verbs=["get"]),
        ],
    )
    k8s.KubeRoleBinding(
        chart,
        f"RoleBinding-{namespace}",
        metadata=metadata,
        role_ref=k8s.RoleRef(api_group=RBAC, kind="Role", name=USER_ROLE),
        subjects=[k8s.Subject(api_group=RBAC, kind="Group", name=users_group(namespace))],
    )


def _nodes_role(chart: cdk8s.Chart, namespaces: list[str]) -> None:
    metadata = k8s.ObjectMeta(name=NODES_ROLE, labels=PART_OF)
    rules = [k8s.PolicyRule(api_groups=[""], resources=["nodes"], verbs=READ)]
    k8s.KubeClusterRole(chart, "Nodes", metadata=metadata, rules=rules)
    k8s.KubeClusterRoleBinding(
        chart,
        "NodesBinding",
        metadata=metadata,
        role_ref=k8s.RoleRef(api_group=RBAC, kind="ClusterRole", name=NODES_ROLE),
        subjects=[k8s.Subject(api_group=RBAC, kind="Group", name=users_group(name)) for name in namespaces],
    )
