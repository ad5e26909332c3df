from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hyperpod_ray.core import names
from hyperpod_ray.core.names import GUARD, OPERATOR_NAMESPACE
from hyperpod_ray.core.plan_names import ray_namespaces
from tests.k8s.k8s_cluster_objects_helpers import pods

Render = Callable[[str], Any]


class TestNamespaces:
    def test_pod_security(self, variant: Any) -> None:
        levels = {item["metadata"]["name"]: item["metadata"]["labels"] for item in variant.kind("Namespace")}
        enforce = "pod-security.kubernetes.io/enforce"
        assert levels[OPERATOR_NAMESPACE][enforce] == "restricted"
        assert levels["ray-storage"][enforce] == "baseline"
        for name in ray_namespaces(variant.plan):
            assert levels[name][enforce] == "restricted"
        for name in levels:
            assert levels[name]["pod-security.kubernetes.io/warn"] == "restricted"
        # exporters of metrics read the host; Kueue's chart names no seccomp profile; a Job hands folders over as root
        less = {
            names.OBSERVABILITY_NAMESPACE: "privileged",
            names.KUEUE_NAMESPACE: "baseline",
            "ray-storage": "baseline",
        }
        assert {name: levels[name][enforce] for name in levels} == {
            name: less.get(name, "restricted") for name in levels
        }

    def test_no_pod_is_root_in_a_restricted_namespace(self, variant: Any) -> None:
        """https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted"""
        enforce = "pod-security.kubernetes.io/enforce"
        restricted = {
            n["metadata"]["name"] for n in variant.kind("Namespace") if n["metadata"]["labels"][enforce] == "restricted"
        }
        roots = []
        for namespace, pod in pods(variant):
            context = pod["securityContext"]
            for box in [*pod.get("initContainers", []), *pod["containers"]]:
                own = box["securityContext"]
                uid = own.get("runAsUser", context.get("runAsUser"))
                if uid == 0:
                    roots.append(namespace)
                if namespace in restricted:
                    assert context["runAsNonRoot"] is True
                    assert uid != 0
                    assert own["allowPrivilegeEscalation"] is False
                    assert own["capabilities"] == {"drop": ["ALL"]}
                    assert context["seccompProfile"]["type"] == "RuntimeDefault"
        assert roots == ["ray-storage"], "the volume-owner Job"
        assert not restricted & set(roots)

    def test_namespaces_of_users_are_made_too(self, render: Render) -> None:
        names = {item["metadata"]["name"] for item in render("several-groups").kind("Namespace")}
        assert names == {OPERATOR_NAMESPACE, GUARD, "ray", "ray-storage", "team-a", "team-b"}
