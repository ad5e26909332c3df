"""Deletions: owners, finalizers and preconditions."""

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.conformance.runner import Client
from tests.sandbox.kubernetes.kubectl_helpers import config_map
from tests.sandbox.kubernetes.runner_helpers import MAPS, sent

pytestmark = pytest.mark.emulator


def test_owners_and_finalizers(cluster: Any) -> None:
    cluster.apply(config_map("owner", "default"))
    uid = cluster.get("cm", "owner")["metadata"]["uid"]
    child = config_map("child", "default")
    child["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}]
    held = config_map("held", "default")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    cluster.apply(child, held)
    cluster.kubectl("delete", "cm", "owner")
    assert cluster.kubectl("get", "cm", "child", ok=False).returncode != 0
    cluster.kubectl("delete", "cm", "held", "--wait=false")
    assert cluster.get("cm", "held")["metadata"]["deletionTimestamp"]
    cluster.kubectl("patch", "cm", "held", "--type=json", "-p", '[{"op":"remove","path":"/metadata/finalizers"}]')
    assert cluster.kubectl("get", "cm", "held", ok=False).returncode != 0


def test_an_owner_in_another_namespace_is_none(client: Client) -> None:
    _, owner = sent(client, "POST", MAPS, {"metadata": {"name": "far-owner"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "far-owner", "uid": owner["metadata"]["uid"]}
    metadata = {"name": "far", "ownerReferences": [reference]}
    path = "/api/v1/namespaces/default/configmaps"
    assert sent(client, "POST", path, {"metadata": metadata})[0] == 201
    near = {"name": "near", "ownerReferences": [reference]}
    assert sent(client, "POST", MAPS, {"metadata": near})[0] == 201
    code = 200
    for _ in range(3000):
        code = sent(client, "GET", f"{path}/far")[0]
        if code == 404:
            break
    assert code == 404
    assert sent(client, "GET", f"{MAPS}/near")[0] == 200
