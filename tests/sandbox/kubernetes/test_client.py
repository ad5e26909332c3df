"""The Python `kubernetes` client: list, watch, patch, delete, as `hyperpod_ray/ops/` uses it."""

from __future__ import annotations

import importlib
import threading
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.conformance.runner import Client, Step

pytestmark = pytest.mark.emulator

# half of the package has no types
kubernetes: Any = importlib.import_module("kubernetes")


def test_list_patch_delete(cluster: Any) -> None:
    core = kubernetes.client.CoreV1Api(cluster.client())
    body = {"metadata": {"name": "client", "labels": {"who": "client"}}, "data": {"a": "1"}}
    core.create_namespaced_config_map("default", body)
    with pytest.raises(kubernetes.client.ApiException) as taken:
        core.create_namespaced_config_map("default", body)
    assert taken.value.status == 409
    core.patch_namespaced_config_map("client", "default", {"data": {"b": "2", "a": None}})
    core.patch_namespaced_config_map("client", "default", [{"op": "add", "path": "/data/c", "value": "3"}])
    found = core.list_namespaced_config_map("default", label_selector="who=client").items
    assert [f.data for f in found] == [{"b": "2", "c": "3"}]
    assert core.list_namespaced_config_map("default", label_selector="who in (x,y)").items == []
    core.delete_collection_namespaced_config_map("default", label_selector="who=client")
    with pytest.raises(kubernetes.client.ApiException) as gone:
        core.read_namespaced_config_map("client", "default")
    assert gone.value.status == 404
    nodes = core.list_node(label_selector="sagemaker.amazonaws.com/instance-group-name=gpu").items
    assert [n.metadata.name for n in nodes] == ["gpu-1"]
    assert nodes[0].status.allocatable["nvidia.com/gpu"] == "1"
    # every object the server made for itself can be read back by the client's own models
    assert kubernetes.client.VersionApi(cluster.client()).get_code().git_version.endswith("+rehearsal")


def test_watch_sees_each_change_once_and_resumes(cluster: Any) -> None:
    core = kubernetes.client.CoreV1Api(cluster.client())
    start = core.list_namespaced_config_map("default").metadata.resource_version
    seen: list[tuple[str, str]] = []

    def follow() -> None:
        stream = kubernetes.watch.Watch()
        for event in stream.stream(
            core.list_namespaced_config_map,
            "default",
            resource_version=start,
            label_selector="watched=yes",
            timeout_seconds=600,
        ):
            seen.append((event["type"], (event["object"].data or {}).get("n", "")))
            if event["type"] == "DELETED":
                stream.stop()

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    other = kubernetes.client.CoreV1Api(cluster.client())
    other.create_namespaced_config_map(
        "default", {"metadata": {"name": "watched", "labels": {"watched": "yes"}}, "data": {"n": "1"}}
    )
    other.patch_namespaced_config_map("watched", "default", {"data": {"n": "2"}})
    # leaving the selection is a deletion to this watcher
    other.patch_namespaced_config_map("watched", "default", {"metadata": {"labels": {"watched": "no"}}})
    thread.join(600)
    assert seen == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")]
    other.delete_namespaced_config_map("watched", "default")


def test_watch_from_a_forgotten_version_is_gone(empty: Any) -> None:
    """A restart keeps the objects, not the history: a watch from before is told so, and lists again."""
    core = kubernetes.client.CoreV1Api(empty.client())
    old = core.list_namespaced_config_map("default").metadata.resource_version
    core.create_namespaced_config_map("default", {"metadata": {"name": "after"}})
    assert empty.stop() == 0
    empty.start()
    path = f"/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=5&resourceVersion={old}"
    client = Client.of(Path(empty.server["kubeconfig"]))
    assert client.send(Step("GET", path, "")) == (200, {"events": [["ERROR", 410]]})
