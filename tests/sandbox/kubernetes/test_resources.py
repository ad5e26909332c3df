"""Which kinds are served, and in which order versions are preferred."""

# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.resources import Registry, builtin_resources

Json = dict[str, Any]
PRIORITY = [
    "v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10",
]  # fmt: skip
"""https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/"""


def definition(*versions: Json, scope: str = "Namespaced") -> Json:
    names = {"kind": "Thing", "plural": "things", "singular": "thing", "shortNames": ["th"], "categories": ["all"]}
    return {
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": scope, "names": names, "versions": list(versions)},
    }


def version(name: str, **more: Any) -> Json:
    return {"name": name, "served": True, "schema": {"openAPIV3Schema": {"type": "object"}}, **more}


@pytest.fixture
def registry() -> Registry:
    return Registry(builtin_resources())


def test_versions_are_in_the_order_that_the_documentation_gives(registry: Registry) -> None:
    registry.install(definition(*(version(name) for name in reversed(PRIORITY))))
    assert registry.groups()["example.com"] == PRIORITY


def test_a_definition_serves_its_versions_until_it_goes(registry: Registry) -> None:
    before = registry.generation
    registry.install(definition(version("v1", subresources={"status": {}}), version("v1beta1", served=False)))
    assert registry.by_path("example.com", "v1beta1", "things") is None, "a version that is not served"
    thing = registry.by_path("example.com", "v1", "things")
    assert thing is not None
    assert thing is registry.by_kind("example.com/v1", "Thing")
    assert (thing.namespaced, thing.subresources, thing.short_names) == (True, ("status",), ("th",))
    assert registry.generation > before, "clients that cached discovery look again"
    registry.install(definition(version("v1"), scope="Cluster"))
    again = registry.by_kind("example.com/v1", "Thing")
    assert again is not None and not again.namespaced, "a change replaces what was served"
    registry.remove("things.example.com")
    assert registry.by_kind("example.com/v1", "Thing") is None
    assert "example.com" not in registry.groups()


@pytest.mark.parametrize(
    ("api_version", "kind", "plural", "namespaced", "short"),
    [
        ("v1", "Pod", "pods", True, "po"), ("v1", "Node", "nodes", False, "no"), ("v1", "Endpoints", "endpoints", True, "ep"),
        ("apps/v1", "DaemonSet", "daemonsets", True, "ds"), ("batch/v1", "CronJob", "cronjobs", True, "cj"),
        ("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", True, "netpol"),
        ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", True, "pdb"),
        ("storage.k8s.io/v1", "StorageClass", "storageclasses", False, "sc"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", False, "crd"),
    ],
)  # fmt: skip
def test_builtin_kinds_are_named_as_kubectl_lists_them(  # noqa: PLR0917
    registry: Registry, api_version: str, kind: str, plural: str, namespaced: bool, short: str
) -> None:
    """`kubectl api-resources`: https://kubernetes.io/docs/reference/kubectl/#resource-types"""
    resource = registry.by_kind(api_version, kind)
    assert resource is not None
    assert (resource.plural, resource.namespaced, short in resource.short_names) == (plural, namespaced, True)
    group, _, version_name = api_version.rpartition("/")
    assert registry.by_path(group, version_name, plural) is resource


def test_both_apis_of_events_show_the_same_objects(registry: Registry) -> None:
    """https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/"""
    core, newer = registry.by_kind("v1", "Event"), registry.by_kind("events.k8s.io/v1", "Event")
    assert core is not None and newer is not None
    assert core.store == newer.store
    assert len({resource.store for resource in registry.stored().values()}) == len(registry.stored())
