"""The node guard, the program in `hyperpod_ray/guard/`, as a Deployment with the fewest rights that it needs."""

from __future__ import annotations

import hashlib
from importlib import resources
from typing import Any

import cdk8s
from cdk8s_plus_28 import k8s

import hyperpod_ray
import hyperpod_ray_rules
from hyperpod_ray.core import needs
from hyperpod_ray.core.model import NodeGuard
from hyperpod_ray.core.names import (
    EVENTS_OF_NODES,
    GUARD,
    GUARD_MARK,
    HOSTNAME_LABEL,
    OUT_OF_SERVICE,
    OUT_OF_SERVICE_VALUE,
)
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.k8s.bindings import Bindings
from hyperpod_ray.k8s.manifest import PART_OF, Manifest, build
from hyperpod_ray.k8s.pods import (
    group_tolerations,
    node_affinity,
    node_loss_tolerations,
    node_selector,
    restricted_container,
    restricted_pod,
)

APP = {"app": GUARD}
CODE_FOLDER = "/opt/node-guard"
STATE_FOLDER = "/run/node-guard"
READY_FILE = f"{STATE_FOLDER}/ready"
CODE_ANNOTATION = "hyperpod-ray/code"
"""Digest of the program, on the pods: another program rolls them."""
USER = f"system:serviceaccount:{GUARD}:{GUARD}"
RBAC = "rbac.authorization.k8s.io"
ADMISSION = "admissionregistration.k8s.io/v1"


def program() -> dict[str, str]:
    """The guard's files by their path below `CODE_FOLDER`: its package, and the services' names."""
    product, rules = resources.files(hyperpod_ray), resources.files(hyperpod_ray_rules)
    guard = [path for path in (product / "guard").iterdir() if path.name.endswith(".py")]
    files = {f"hyperpod_ray/guard/{path.name}": path for path in sorted(guard, key=lambda path: path.name)}
    # an `__init__.py` each, so that a package of the image with the same name does not win
    files |= {
        "hyperpod_ray/__init__.py": product / "__init__.py",
        "hyperpod_ray_rules/__init__.py": rules / "__init__.py",
    }
    files |= {"hyperpod_ray_rules/names.py": rules / "names.py"}
    return {name: path.read_text(encoding="utf-8") for name, path in files.items()}


def guard(plan: Plan, bindings: Bindings, settings: NodeGuard) -> Manifest:
    """Service account, rights, the policy that narrows them, the program and the pods.

    The image is the training image, for its Python: the head's group pulls it anyway, closed networks reach it, and the
    second CPU node has it when the head must move there. The program is mounted, so that every image will do.

    Rights: read nodes, patch nodes, create events. RBAC knows no fields: who may patch a node may also set the label
    with which HyperPod replaces it. An admission policy leaves the guard the one taint and its own annotation, and the
    taint on nodes alone that are not ready.

    Two replicas act side by side without an election (see `hyperpod_ray.guard.watching`).
    https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/
    """
    files = program()

    def define(chart: cdk8s.Chart) -> None:
        _rights(chart)
        _admission(chart)
        k8s.KubeConfigMap(
            chart,
            "Program",
            metadata=k8s.ObjectMeta(name=GUARD, namespace=GUARD, labels={**PART_OF, **APP}),
            data={_key(path): text for path, text in files.items()},
        )
        _object(chart, "apps/v1", "Deployment", _deployment(plan, bindings, settings, files), namespace=GUARD)

    return build("NodeGuard", define)


def _key(path: str) -> str:
    return path.replace("/", ".")


def _rights(chart: cdk8s.Chart) -> None:
    subjects = [k8s.Subject(kind="ServiceAccount", name=GUARD, namespace=GUARD)]
    k8s.KubeServiceAccount(
        chart,
        "ServiceAccount",
        metadata=k8s.ObjectMeta(name=GUARD, namespace=GUARD, labels=PART_OF),
        automount_service_account_token=False,
    )
    cluster_wide = k8s.ObjectMeta(name=GUARD, labels=PART_OF)
    nodes = k8s.PolicyRule(api_groups=[""], resources=["nodes"], verbs=["list", "watch", "patch"])
    k8s.KubeClusterRole(chart, "Role", metadata=cluster_wide, rules=[nodes])
    k8s.KubeClusterRoleBinding(
        chart,
        "Binding",
        metadata=cluster_wide,
        role_ref=k8s.RoleRef(api_group=RBAC, kind="ClusterRole", name=GUARD),
        subjects=subjects,
    )
    events = k8s.ObjectMeta(name=GUARD, namespace=EVENTS_OF_NODES, labels=PART_OF)
    k8s.KubeRole(
        chart,
        "EventsRole",
        metadata=events,
        rules=[k8s.PolicyRule(api_groups=[""], resources=["events"], verbs=["create"])],
    )
    k8s.KubeRoleBinding(
        chart,
        "EventsBinding",
        metadata=events,
        role_ref=k8s.RoleRef(api_group=RBAC, kind="Role", name=GUARD),
        subjects=subjects,
    )


def _admission(chart: cdk8s.Chart) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes"]}
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "the-guard", "expression": f"request.userInfo.username == '{USER}'"}],
        "validations": [{"expression": text, "message": message} for text, message in RULES],
    }
    _object(chart, ADMISSION, "ValidatingAdmissionPolicy", policy)
    bound = {"policyName": GUARD, "validationActions": ["Deny"]}
    _object(chart, ADMISSION, "ValidatingAdmissionPolicyBinding", bound)


def _kept(field: str, empty: str) -> str:
    """An expression: a field of the object is as it was."""
    path = field.replace(".", ".?")
    return f"object.?{path}.orValue({empty}) == oldObject.?{path}.orValue({empty})"


def _others(whose: str) -> str:
    return f"{whose}.spec.?taints.orValue([]).filter(t, t.key != '{OUT_OF_SERVICE}')"


def _ours(whose: str) -> str:
    return f"{whose}.spec.?taints.orValue([]).filter(t, t.key == '{OUT_OF_SERVICE}')"


def _annotations(first_object: str, second_object: str) -> str:
    return (
        f"{first_object}.metadata.?annotations.orValue({{}}).all(k, k == '{GUARD_MARK}' || "
        f"(k in {second_object}.metadata.?annotations.orValue({{}}) && "
        f"{first_object}.metadata.annotations[k] == {second_object}.metadata.annotations[k]))"
    )


RULES = (
    (
        f"{_kept('metadata.labels', '{}')} && {_kept('metadata.finalizers', '[]')} && "
        f"{_kept('metadata.ownerReferences', '[]')}",
        "the node guard may not change labels, finalizers or owners of a node",
    ),
    (
        f"{_annotations('object', 'oldObject')} && {_annotations('oldObject', 'object')}",
        f"of a node's annotations, the node guard may change {GUARD_MARK} alone",
    ),
    (
        " && ".join(
            [
                _kept("spec.unschedulable", "false"),
                _kept("spec.providerID", "''"),
                _kept("spec.podCIDR", "''"),
                _kept("spec.podCIDRs", "[]"),
            ]
        ),
        "of a node's spec, the node guard may change taints alone",
    ),
    (
        f"{_others('object')} == {_others('oldObject')}",
        f"of a node's taints, the node guard may change {OUT_OF_SERVICE} alone",
    ),
    (
        f"{_ours('object')}.all(t, t.?value.orValue('') == '{OUT_OF_SERVICE_VALUE}' && t.effect == 'NoExecute') || "
        f"{_ours('object')} == {_ours('oldObject')}",
        f"the node guard may put {OUT_OF_SERVICE}={OUT_OF_SERVICE_VALUE}:NoExecute alone",
    ),
    (
        f"size({_ours('object')}) <= size({_ours('oldObject')}) || "
        "oldObject.?status.conditions.orValue([]).exists(c, c.type == 'Ready' && c.status != 'True')",
        f"the node guard may put {OUT_OF_SERVICE} on nodes alone that are not ready",
    ),
    (
        f"size({_ours('object')}) >= size({_ours('oldObject')}) || "
        f"'{GUARD_MARK}' in oldObject.metadata.?annotations.orValue({{}})",
        f"the node guard may take off {OUT_OF_SERVICE} where it put it alone",
    ),
)
"""CEL expressions of the admission policy, each with what it says to whoever breaks it."""


def _deployment(plan: Plan, bindings: Bindings, settings: NodeGuard, files: dict[str, str]) -> dict[str, Any]:
    hyperpod = plan.settings.hyperpod
    group = plan.group(plan.settings.ray.head.instance_group)
    # a list of nodes of this size is read as a whole
    memory = f"{128 + sum(instance_group.count for instance_group in hyperpod.instance_groups) // 4}Mi"
    container = {
        "name": "guard",
        "image": bindings.image_uri,
        "imagePullPolicy": "IfNotPresent",
        "workingDir": CODE_FOLDER,
        "command": ["python3", "-m", "hyperpod_ray.guard"],
        "args": [
            f"--cluster={hyperpod.cluster_name}",
            f"--region={plan.settings.region}",
            f"--endpoint={needs.api_endpoint(plan, 'api.sagemaker')}",
            f"--not-ready-seconds={settings.not_ready_seconds}",
            f"--ready-file={READY_FILE}",
        ],
        "env": [
            {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "PYTHONPATH", "value": CODE_FOLDER},
            {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
            {"name": "PYTHONUNBUFFERED", "value": "1"},
        ],
        # Kubernetes and HyperPod answered lately: a guard that may not ask is not ready, and `status` says so
        "readinessProbe": {"exec": {"command": ["cat", READY_FILE]}, "periodSeconds": 10, "timeoutSeconds": 5},
        "resources": {"requests": {"cpu": "50m", "memory": memory}, "limits": {"cpu": "500m", "memory": memory}},
        "securityContext": restricted_container(read_only=True),
        "volumeMounts": [
            {"name": "program", "mountPath": CODE_FOLDER, "readOnly": True},
            {"name": "state", "mountPath": STATE_FOLDER},
        ],
    }
    pod = {
        "serviceAccountName": GUARD,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 10,
        "securityContext": restricted_pod(),
        "nodeSelector": node_selector(group.name),
        "affinity": {"nodeAffinity": node_affinity(deep_checks=False)},
        "tolerations": [
            *node_loss_tolerations(plan.settings.ray.node_loss_seconds),
            *group_tolerations(plan, group.name),
        ],
        # one on each node, but both on the one that is left
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": HOSTNAME_LABEL,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": APP},
                "nodeTaintsPolicy": "Honor",
            }
        ],
        "containers": [container],
        "volumes": [
            {
                "name": "program",
                "configMap": {"name": GUARD, "items": [{"key": _key(path), "path": path} for path in files]},
            },
            {"name": "state", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        ],
    }
    digest = hashlib.sha256("".join(f"{path}\n{text}\n" for path, text in files.items()).encode()).hexdigest()
    return {
        "replicas": min(2, max(1, group.count)),
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
        "selector": {"matchLabels": APP},
        "template": {
            "metadata": {"labels": {**PART_OF, **APP}, "annotations": {CODE_ANNOTATION: digest[:16]}},
            "spec": pod,
        },
    }


def _object(
    chart: cdk8s.Chart, api_version: str, kind: str, spec: dict[str, Any], *, namespace: str | None = None
) -> None:
    api_object = cdk8s.ApiObject(
        chart,
        kind,
        api_version=api_version,
        kind=kind,
        metadata=cdk8s.ApiObjectMetadata(name=GUARD, namespace=namespace, labels={**PART_OF, **APP}),
    )
    api_object.add_json_patch(cdk8s.JsonPatch.add("/spec", spec))
