"""The roles that every cluster starts with, as far as people are bound to them.

Source: plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

GROUP = "rbac.authorization.k8s.io"
_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "deletecollection", "patch", "update"]
_ALL = [*_WRITE, *_READ]
_CORE = (
    "configmaps", "endpoints", "persistentvolumeclaims", "persistentvolumeclaims/status", "pods",
    "replicationcontrollers", "replicationcontrollers/scale", "serviceaccounts", "services", "services/status",
    "bindings", "events", "limitranges", "namespaces", "namespaces/status", "pods/log", "pods/status",
    "replicationcontrollers/status", "resourcequotas", "resourcequotas/status",
)  # fmt: skip
_APPS = (
    "daemonsets", "deployments", "deployments/scale", "replicasets", "replicasets/scale", "statefulsets",
    "statefulsets/scale",
)  # fmt: skip
_GROUPS: dict[str, tuple[str, ...]] = {
    "apps": _APPS,
    "autoscaling": ("horizontalpodautoscalers",),
    "batch": ("cronjobs", "jobs"),
    "policy": ("poddisruptionbudgets",),
    "networking.k8s.io": ("ingresses", "networkpolicies"),
}
_STATUS = ("daemonsets", "deployments", "replicasets", "statefulsets", "horizontalpodautoscalers", "cronjobs", "jobs",
           "poddisruptionbudgets", "ingresses")  # fmt: skip
_SECRET = ("pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy")
_CORE_WRITE = (
    "pods", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "configmaps", "events",
    "persistentvolumeclaims", "replicationcontrollers", "replicationcontrollers/scale", "secrets", "serviceaccounts",
    "services", "services/proxy",
)  # fmt: skip
_PATHS = ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz", "/version"]


_NEXT = {"view": "edit", "edit": "admin"}


def _rule(group: str, resources: tuple[str, ...], verbs: list[str]) -> Json:
    return {"apiGroups": [group], "resources": list(resources), "verbs": verbs}


def _view() -> list[Json]:
    rules = [_rule("", _CORE, _READ), _rule("discovery.k8s.io", ("endpointslices",), _READ)]
    for group, resources in _GROUPS.items():
        extra = tuple(f"{r}/status" for r in resources if r in _STATUS)
        history = ("controllerrevisions",) if group == "apps" else ()
        rules.append(_rule(group, (*resources, *extra, *history), _READ))
    return rules


def _edit() -> list[Json]:
    rules = [
        *_view(),
        _rule("", _SECRET, _READ),
        _rule("", ("serviceaccounts",), ["impersonate"]),
        _rule("", _CORE_WRITE, _WRITE),
        _rule("", ("pods/eviction", "serviceaccounts/token"), ["create"]),
        _rule("coordination.k8s.io", ("leases",), _ALL),
    ]
    return rules + [_rule(group, resources, _WRITE) for group, resources in _GROUPS.items()]


def _admin() -> list[Json]:
    return [
        *_edit(),
        _rule("authorization.k8s.io", ("localsubjectaccessreviews",), ["create"]),
        _rule(GROUP, ("roles", "rolebindings"), _ALL),
    ]


def _roles() -> dict[str, list[Json]]:
    reviews = ("selfsubjectaccessreviews", "selfsubjectrulesreviews")
    return {
        "cluster-admin": [
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
            {"nonResourceURLs": ["*"], "verbs": ["*"]},
        ],
        "admin": _admin(),
        "edit": _edit(),
        "view": _view(),
        "system:basic-user": [
            _rule("authorization.k8s.io", reviews, ["create"]),
            _rule("authentication.k8s.io", ("selfsubjectreviews",), ["create"]),
        ],
        "system:discovery": [{"nonResourceURLs": _PATHS, "verbs": ["get"]}],
    }


_BINDINGS = {
    "cluster-admin": "system:masters",
    "system:basic-user": "system:authenticated",
    "system:discovery": "system:authenticated",
}


def objects() -> list[Json]:
    """The ClusterRoles and ClusterRoleBindings."""
    manifests = []
    for name, rules in _roles().items():
        labels = dict(_LABELS)
        if name in ("view", "edit"):
            labels[f"{GROUP}/aggregate-to-{_NEXT[name]}"] = "true"
        role: Json = {
            "apiVersion": f"{GROUP}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name, "labels": labels},
            "rules": rules,
        }
        if name in ("admin", "edit", "view"):
            label = f"{GROUP}/aggregate-to-{name}"
            role["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]}
        manifests.append(role)
    for name, group in _BINDINGS.items():
        manifests.append(
            {
                "apiVersion": f"{GROUP}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": name, "labels": dict(_LABELS)},
                "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
                "subjects": [{"apiGroup": GROUP, "kind": "Group", "name": group}],
            }
        )
    return manifests
