"""OpenAPI documents: references lead somewhere, and clients find a kind's schema by its group, version and kind."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes import openapi
from hyperpod_ray_sandbox.kubernetes.resources import Registry, builtin_resources

Json = dict[str, Any]
THING: Json = {
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"},
        "versions": [{
            "name": "v1", "served": True,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}},
        }],
    },
}  # fmt: skip


@pytest.fixture
def registry() -> Registry:
    registry = Registry(builtin_resources())
    registry.install(THING)
    return registry


@pytest.mark.parametrize(("group", "version"), [("", "v1"), ("apps", "v1"), ("batch", "v1"), ("example.com", "v1")])
def test_every_reference_of_a_document_is_in_it(registry: Registry, group: str, version: str) -> None:
    """https://spec.openapis.org/oas/v3.0.0.html#reference-object"""
    document = openapi.v3(registry, group, version)
    assert document is not None and document["openapi"].startswith("3.0.")
    references = set(re.findall(r'"\$ref": "([^"]+)"', json.dumps(document)))
    prefix = "#/components/schemas/"
    assert all(reference.startswith(prefix) for reference in references)
    assert {reference.removeprefix(prefix) for reference in references} <= set(document["components"]["schemas"])
    assert "#/$defs/" not in json.dumps(document)


def test_the_second_version_refers_to_definitions(registry: Registry) -> None:
    document = openapi.v2(registry)
    references = set(re.findall(r'"\$ref": "#/definitions/([^"]+)"', json.dumps(document)))
    assert document["swagger"] == "2.0"
    assert references and references <= set(document["definitions"])


def test_a_kind_is_found_by_its_extension(registry: Registry) -> None:
    """kubectl looks for `x-kubernetes-group-version-kind` of the operation and of the schema.

    https://kubernetes.io/docs/reference/using-api/api-concepts/#openapi-interface-definition
    """
    kind = {"group": "example.com", "version": "v1", "kind": "Thing"}
    document = openapi.v3(registry, "example.com", "v1")
    assert document is not None
    name = "com.example.v1.Thing"
    assert document["components"]["schemas"][name]["x-kubernetes-group-version-kind"] == [kind]
    assert set(document["paths"]) == {
        "/apis/example.com/v1/namespaces/{namespace}/things",
        "/apis/example.com/v1/namespaces/{namespace}/things/{name}",
    }
    for operations in document["paths"].values():
        assert all(operation["x-kubernetes-group-version-kind"] == kind for operation in operations.values())
    dry_run = document["paths"]["/apis/example.com/v1/namespaces/{namespace}/things"]["post"]["parameters"]
    assert "dryRun" in {parameter["name"] for parameter in dry_run}, "kubectl dries a run on the server only with it"


def test_an_index_names_each_group_and_its_mark_changes_with_a_definition(registry: Registry) -> None:
    before = openapi.index(registry)["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/example.com/v1"} <= set(before)
    for path, entry in before.items():
        assert re.fullmatch(rf"/openapi/v3/{re.escape(path)}\?hash=[0-9A-F]+", entry["serverRelativeURL"])
    registry.install(THING)
    after = openapi.index(registry)["paths"]
    assert after["apis/example.com/v1"] != before["apis/example.com/v1"], "a client would keep the old schema"
    assert openapi.v3(registry, "nobody.example", "v1") is None
