"""`Remote`: another API server with the methods that the models of controllers call. Here it is the embedded one."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_sandbox.aws import paths
from hyperpod_ray_sandbox.kubernetes.controllers import Controllers, Settings
from hyperpod_ray_sandbox.kubernetes.controllers.common import event, set_status
from hyperpod_ray_sandbox.kubernetes.controllers.kubelet import KEPT
from hyperpod_ray_sandbox.kubernetes.remote import Remote, _listens, proxy
from hyperpod_ray_sandbox.kubernetes.status import ApiError
from tests.sandbox.kubernetes.test_team_policies import crd

Json = dict[str, Any]
SPACE = "remote"


@pytest.fixture(scope="module")
def remote(cluster: Any) -> Iterator[Remote]:
    """The embedded API behind `kubectl proxy`, without a node that would start its pods."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{paths.KUBECTL_LAYER / 'kubectl'}:{os.environ['PATH']}")
        with proxy(Path(cluster.server["kubeconfig"])) as socket:
            api = Remote(socket)
            api.create(api.kind("v1", "Namespace"), "", {"metadata": {"name": SPACE}})
            yield api


def pod(name: str, **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "x:1"}], **spec}}


def test_a_pod_gets_its_node_by_a_binding(remote: Remote) -> None:
    """An update of `spec.nodeName` is refused by every API server."""
    gated = pod("gated", schedulingGates=[{"name": "check.example.com/hold"}])
    held = remote.create(remote.kind("v1", "Pod"), SPACE, gated)
    with pytest.raises(ApiError, match="schedulingGates"):
        remote.modify(held, lambda current: current["spec"].update(nodeName="cpu-1"))
    # no node fits, so that the server's own scheduler leaves it alone
    free = remote.create(remote.kind("v1", "Pod"), SPACE, pod("free", nodeSelector={"a": "nobody"}))
    bound = remote.modify(free, lambda current: current["spec"].update(nodeName="cpu-2"))
    assert bound is not None and bound["spec"]["nodeName"] == "cpu-2"


def test_lists_are_read_once_a_pass_and_anew_after_a_write(remote: Remote, cluster: Any) -> None:
    maps = remote.all("v1", "ConfigMap", SPACE)
    assert {(m["apiVersion"], m["kind"]) for m in maps} == {("v1", "ConfigMap")}
    cluster.kubectl("create", "configmap", "other", "-n", SPACE)
    assert len(remote.all("v1", "ConfigMap", SPACE)) == len(maps)
    remote.refresh()
    assert len(remote.all("v1", "ConfigMap", SPACE)) == len(maps) + 1
    remote.create(remote.kind("v1", "ConfigMap"), SPACE, {"metadata": {"name": "own"}})
    assert len(remote.all("v1", "ConfigMap", SPACE)) == len(maps) + 2


def test_kinds_of_definitions_are_served_once_they_are_there(remote: Remote) -> None:
    assert remote.by_kind("ray.io/v1", "RayJob") is None
    assert remote.all("ray.io/v1", "RayJob") == []
    with pytest.raises(ApiError, match="no matches for kind"):
        remote.kind("ray.io/v1", "RayJob")
    remote.create(remote.kind("apiextensions.k8s.io/v1", "CustomResourceDefinition"), "", crd("RayJob"))
    resource = remote.kind("ray.io/v1", "RayJob")
    assert resource.namespaced and remote.objects(resource.store) == []


def test_status_events_and_the_end_of_a_pod(remote: Remote, cluster: Any) -> None:
    api: Any = remote
    kept = pod("ends", nodeName="cpu-1")
    kept["metadata"]["annotations"] = {KEPT: "yes"}
    held = remote.create(remote.kind("v1", "Pod"), SPACE, kept)
    set_status(api, held, lambda status: status.update(reason="Kept"))
    held = remote.find("v1", "Pod", SPACE, "ends") or held
    assert held["status"]["reason"] == "Kept"
    for _ in range(2):
        event(api, held, "Normal", "Tested", "twice", "test")
    (told,) = [e for e in cluster.get("events", "-n", SPACE)["items"] if e["reason"] == "Tested"]
    assert told["count"] == 2
    remote.finish(("/pods", SPACE, "ends"))
    assert remote.find("v1", "Pod", SPACE, "ends") is None


def test_a_reset_leaves_what_every_cluster_has(remote: Remote, cluster: Any) -> None:
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "mine"}}
    cluster.apply({**role, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]})
    remote.note("addon", "x")
    remote.reset()
    cluster.until(lambda: len(cluster.get("namespaces")["items"]) == 4, "namespaces of the system only")
    roles = {role["metadata"]["name"] for role in cluster.get("clusterroles")["items"]}
    assert "mine" not in roles and "view" in roles
    assert remote.note("addon") == "" and cluster.get("crds")["items"] == []


def test_kubernetes_own_controllers_are_not_modelled_twice(remote: Remote) -> None:
    api: Any = remote
    both = Controllers(api, Settings())._passes
    beside = Controllers(api, Settings(), control_plane=False)._passes
    left_out = {act.__qualname__.partition(".")[0] for act in both} - {
        act.__qualname__.partition(".")[0] for act in beside
    }
    assert left_out == {"Lifecycle", "Workloads", "Volumes", "Budgets"}


def test_a_socket_that_is_named_and_not_listened_to_is_not_ready(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        path = tmp_path / "api"
        assert not _listens(path)
        server.bind(str(path))
        assert path.exists() and not _listens(path)
        server.listen()
        assert _listens(path)
