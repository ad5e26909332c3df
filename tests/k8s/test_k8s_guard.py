"""The node guard's objects. Its program, rights and policy at work: tests/guard and tests/ops/test_node_guard.py."""

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray import k8s
from hyperpod_ray.core.names import GUARD, OPERATOR_NAMESPACE
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.k8s import guard
from tests.k8s.conftest import BINDINGS, make_plan

Json = dict[str, Any]


def objects(plan: Plan) -> dict[str, Json]:
    """By kind and namespace."""
    made = [item for manifest in k8s.guard_manifests(plan, BINDINGS) for item in manifest.objects]
    return {f"{item['kind']} {item['metadata'].get('namespace', '')}".strip(): item for item in made}


@pytest.fixture(scope="module")
def prod() -> Plan:
    return make_plan("prod")


@pytest.fixture(scope="module")
def made(prod: Plan) -> dict[str, Json]:
    return objects(prod)


def test_everything_it_consists_of(made: dict[str, Json]) -> None:
    assert list(made) == [
        f"ServiceAccount {GUARD}",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role default",
        "RoleBinding default",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        f"ConfigMap {GUARD}",
        f"Deployment {GUARD}",
    ]
    assert {item["metadata"]["name"] for item in made.values()} == {GUARD}


def test_its_rights_in_kubernetes(made: dict[str, Json]) -> None:
    assert made["ClusterRole"]["rules"] == [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch", "patch"]}
    ]
    assert made["Role default"]["rules"] == [{"apiGroups": [""], "resources": ["events"], "verbs": ["create"]}]
    own = [{"kind": "ServiceAccount", "name": GUARD, "namespace": GUARD}]
    assert made["ClusterRoleBinding"]["subjects"] == made["RoleBinding default"]["subjects"] == own
    policy = made["ValidatingAdmissionPolicy"]["spec"]
    assert policy["failurePolicy"] == "Fail"
    assert f"system:serviceaccount:{GUARD}:{GUARD}" in policy["matchConditions"][0]["expression"]
    assert made["ValidatingAdmissionPolicyBinding"]["spec"] == {"policyName": GUARD, "validationActions": ["Deny"]}


def test_the_program_is_mounted_whole(made: dict[str, Json]) -> None:
    """Every module of the package, and of ours nothing but the services' names."""
    files = guard.program()
    rest = {path for path in files if not path.startswith("hyperpod_ray/guard/")}
    rules = {"hyperpod_ray_rules/__init__.py", "hyperpod_ray_rules/names.py"}
    assert rest == {"hyperpod_ray/__init__.py", *rules}
    assert {
        "hyperpod_ray/guard/__main__.py",
        "hyperpod_ray/guard/__init__.py",
        "hyperpod_ray/guard/judge.py",
        "hyperpod_ray/guard/watching.py",
    } <= set(files)
    data = made[f"ConfigMap {GUARD}"]["data"]
    pod = made[f"Deployment {GUARD}"]["spec"]["template"]["spec"]
    (items,) = [volume["configMap"]["items"] for volume in pod["volumes"] if "configMap" in volume]
    assert {item["path"]: data[item["key"]] for item in items} == files
    assert sum(map(len, data.values())) < 500_000, "a ConfigMap has at most 1 MiB, and kubectl apply keeps it twice"


def test_another_program_rolls_the_pods(prod: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    def mark() -> str:
        template = objects(prod)[f"Deployment {GUARD}"]["spec"]["template"]
        return str(template["metadata"]["annotations"][guard.CODE_ANNOTATION])

    before = mark()
    assert mark() == before
    changed = {**guard.program(), "hyperpod_ray/guard/judge.py": "FAILED = frozenset()\n"}
    monkeypatch.setattr(guard, "program", lambda: changed)
    assert mark() != before


def test_its_pods(prod: Plan, made: dict[str, Json]) -> None:
    deployment = made[f"Deployment {GUARD}"]["spec"]
    head = prod.group(prod.settings.ray.head.instance_group)
    assert deployment["replicas"] == 2
    pod = deployment["template"]["spec"]
    assert pod["nodeSelector"] == {"sagemaker.amazonaws.com/instance-group-name": head.name}
    (spread,) = pod["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"].items() <= deployment["template"]["metadata"]["labels"].items()
    assert (spread["topologyKey"], spread["nodeTaintsPolicy"]) == ("kubernetes.io/hostname", "Honor")
    assert {
        toleration["key"]: toleration["tolerationSeconds"]
        for toleration in pod["tolerations"]
        if "tolerationSeconds" in toleration
    } == {"node.kubernetes.io/not-ready": 30, "node.kubernetes.io/unreachable": 30}
    (container,) = pod["containers"]
    assert container["image"] == BINDINGS.image_uri
    assert container["command"] == ["python3", "-m", "hyperpod_ray.guard"]
    assert container["args"] == [
        f"--cluster={prod.settings.hyperpod.cluster_name}",
        f"--region={prod.settings.region}",
        f"--endpoint=https://api.sagemaker.{prod.settings.region}.amazonaws.com",
        "--not-ready-seconds=2",
        f"--ready-file={guard.READY_FILE}",
    ]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    assert writable == {"/run/node-guard"}
    assert guard.READY_FILE in container["readinessProbe"]["exec"]["command"]
    assert "ports" not in container


def test_one_node_carries_one_pod() -> None:
    single = make_plan("local")
    group = single.group(single.settings.ray.head.instance_group)
    replicas = objects(single)[f"Deployment {GUARD}"]["spec"]["replicas"]
    assert replicas == min(2, group.count)


def test_the_setting_refuses_all_of_it() -> None:
    plan = make_plan("prod", hyperpod={"node_guard": None})
    assert k8s.guard_manifests(plan, BINDINGS) == []
    spaces = {
        item["metadata"].get("namespace") or item["metadata"]["name"]
        for manifest in k8s.namespace_manifests(plan)
        for item in manifest.objects
    }
    assert GUARD not in spaces
    assert OPERATOR_NAMESPACE in spaces


def test_its_setting_reaches_the_program() -> None:
    plan = make_plan("prod", hyperpod={"node_guard": {"not_ready_seconds": 25}})
    (container,) = objects(plan)[f"Deployment {GUARD}"]["spec"]["template"]["spec"]["containers"]
    assert "--not-ready-seconds=25" in container["args"]
