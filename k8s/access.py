"""Service accounts, and what Ray users may do in their namespaces."""

from __future__ import annotations

import cdk8s
from cdk8s_plus_28 import k8s

from core.plan import Plan
from k8s.manifest import PART_OF, Manifest, build
from k8s.names import SERVICE_ACCOUNT, ray_namespaces, users_group

EDIT = ["get", "list", "watch", "create", "update", "patch", "delete"]
USER_ROLE = "ray-user"


def access(plan: Plan) -> Manifest:
    """In each Ray namespace: the service account of Ray's pods, and the role of its users.

    The service account has no permissions in Kubernetes and its token is not mounted (but for the autoscaler, whose
    role KubeRay makes). Users (`eks.ray_users`) get what EKS's `AmazonEKSEditPolicy` does not cover: `ray.io` objects
    and port-forward, bound to the group `ray-users:<namespace>` of their access entry.
    """

    def define(chart: cdk8s.Chart) -> None:
        for namespace in ray_namespaces(plan):
            k8s.KubeServiceAccount(
                chart,
                f"ServiceAccount-{namespace}",
                metadata=k8s.ObjectMeta(name=SERVICE_ACCOUNT, namespace=namespace, labels=PART_OF),
                automount_service_account_token=False,
            )
            if any(namespace in user.namespaces for user in plan.settings.eks.ray_users):
                _user_role(chart, namespace)

    return build("Access", define)


def _user_role(chart: cdk8s.Chart, namespace: str) -> None:
    metadata = k8s.ObjectMeta(name=USER_ROLE, namespace=namespace, labels=PART_OF)
    k8s.KubeRole(
        chart,
        f"Role-{namespace}",
        metadata=metadata,
        rules=[
            k8s.PolicyRule(api_groups=["ray.io"], resources=["rayclusters", "raycronjobs", "rayjobs"], verbs=EDIT),
            k8s.PolicyRule(
                api_groups=["ray.io"],
                resources=["rayclusters/status", "raycronjobs/status", "rayjobs/status"],
                verbs=["get", "list", "watch"],
            ),
            k8s.PolicyRule(
                api_groups=[""], resources=["pods", "pods/log", "services", "events"], verbs=["get", "list", "watch"]
            ),
            # over WebSocket the request is a GET: "get" always, since Kubernetes 1.35 "create" too; SPDY asks "create"
            k8s.PolicyRule(api_groups=[""], resources=["pods/portforward"], verbs=["get", "create"]),
        ],
    )
    k8s.KubeRoleBinding(
        chart,
        f"RoleBinding-{namespace}",
        metadata=metadata,
        role_ref=k8s.RoleRef(api_group="rbac.authorization.k8s.io", kind="Role", name=USER_ROLE),
        subjects=[k8s.Subject(api_group="rbac.authorization.k8s.io", kind="Group", name=users_group(namespace))],
    )
