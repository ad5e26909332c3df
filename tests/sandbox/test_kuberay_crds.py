"""The digest of KubeRay's definitions keeps what the API server acts on."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray.charts import store
from hyperpod_ray.charts.lock import Lock
from hyperpod_ray_sandbox.charts import kuberay_crds

PROJECT = Path(__file__).resolve().parents[2]


def small(**schema: Any) -> bytes:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "A", "plural": "as"}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "as.x.io", "annotations": {"made": "by"}},
        "spec": {"group": "x.io", "names": names, "scope": "Namespaced", "versions": [version, {"name": "v1alpha1"}]},
    }
    return yaml.safe_dump(crd).encode()


def schema_of(text: str) -> Any:
    return yaml.safe_load(text)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def test_a_digest_keeps_what_is_checked_and_drops_what_is_read() -> None:
    rule = {"rule": "self == oldSelf", "message": "immutable"}
    field = {"type": "string", "enum": ["a"], "default": "a", "x-kubernetes-validations": [rule]}
    items = {"type": "object", "required": ["name"], "properties": {"description": {"type": "string", "pattern": "^a"}}}
    ports = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": items}
    source = small(type="object", description="x", properties={"a": {**field, "description": "y"}, "ports": ports})
    text = kuberay_crds.text(source, "a.yaml")
    assert schema_of(text) == {"type": "object", "properties": {"a": field, "ports": ports}}
    assert f"sha256 of the source: {hashlib.sha256(source).hexdigest()}" in text
    assert [v["name"] for v in yaml.safe_load(text)["spec"]["versions"]] == ["v1"]


def test_equal_parts_are_written_once() -> None:
    part = {"type": "object", "properties": {f"long-name-{i}": {"type": "string"} for i in range(50)}}
    text = kuberay_crds.text(small(type="object", properties={"a": part, "b": part, "c": part}), "a.yaml")
    assert text.count("long-name-7:") == 1
    assert schema_of(text)["properties"]["c"] == part


def _rules(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (r["rule"] for r in value.get("x-kubernetes-validations") or [])
        value = value.values()
    for inner in value if not isinstance(value, str) and hasattr(value, "__iter__") else ():
        yield from _rules(inner)


@pytest.mark.parametrize(("plural", "rules"), [("rayclusters", 3), ("raycronjobs", 9), ("rayjobs", 9)])
def test_kuberays_own_rules_are_in_the_digest(plural: str, rules: int) -> None:
    text = (kuberay_crds.TARGET / f"ray.io_{plural}.yaml").read_text()
    assert re.search(r"sha256 of the source: [0-9a-f]{64}\n", text)
    found = list(_rules(schema_of(text)))
    assert len(found) == rules
    assert "self in ['ray.io/kuberay-operator', 'kueue.x-k8s.io/multikueue']" in found
    assert '"description"' not in json.dumps(schema_of(text))


def test_the_digest_is_that_of_the_locked_chart() -> None:
    """Where the locked chart was fetched, its definitions give these very digests."""
    locked = Lock.read(PROJECT / "hyperpod_ray/locks/charts.lock.yaml").charts["kuberay-operator"]
    if locked.path.is_file():
        for plural in kuberay_crds.PLURALS:
            name = f"ray.io_{plural}.yaml"
            source = (store.unpack(locked) / "crds" / name).read_bytes()
            assert (kuberay_crds.TARGET / name).read_text() == kuberay_crds.text(source, name)
