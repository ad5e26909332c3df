"""The node guard itself, against the local Kubernetes API and the embedded AWS: a loss, a cut network, a return."""

from __future__ import annotations

import json
import urllib.error
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray.core.names import GUARD, HEALTH_LABEL, OUT_OF_SERVICE, REPLACE, instance_id, node_name
from tests.ops.guarded import Guarded, guarding
from tests.ops.world import World

pytestmark = [pytest.mark.emulator, pytest.mark.slow]

Json = dict[str, Any]
MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def guarded(start_world: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    world: World = start_world()  # type: ignore[operator]
    with guarding(world, tmp_path_factory.mktemp("guard")) as made:
        yield made
    world.stop()


def test_two_pods_on_two_nodes_of_the_heads_group(guarded: Guarded) -> None:
    heads = {node_name(node["InstanceId"]) for node in guarded.world.instances("head")}
    assert set(guarded.processes) == heads
    assert len(heads) == 2


def test_a_cut_network_changes_nothing(guarded: Guarded) -> None:
    lost = guarded.worker_node()
    guarded.world.node_mode(lost, "unreachable")
    guarded.until(lambda: "NodeGuardWaits" in guarded.reasons(lost), "the guard looked at it")
    assert guarded.answers(lost) == "Unknown"
    assert guarded.freed(lost) == (False, False)
    guarded.world.node_mode(lost, "restore")
    guarded.until(lambda: guarded.answers(lost) == "True", "it answers again")
    assert guarded.freed(lost) == (False, False)
    assert _decided(guarded, lost) == ["NodeGuardWaits"], "two guards, one event"


def test_a_lost_nodes_pods_are_replaced_and_it_may_return(guarded: Guarded) -> None:
    lost = guarded.worker_node()
    (old,) = [pod["metadata"]["uid"] for pod in guarded.ray_pods("worker") if pod["spec"]["nodeName"] == lost]
    guarded.world.node_mode(lost, "unreachable")
    guarded.world.running.client.fail_node(instance_id(lost))

    def replaced() -> bool:
        workers = guarded.ray_pods("worker")
        return len(workers) == 2 and all(pod["spec"]["nodeName"] != lost for pod in workers)

    guarded.until(replaced, "a new worker on another node")
    assert guarded.freed(lost) == (True, True)
    left = [pod["metadata"]["uid"] for pod in guarded.world.get("/api/v1/namespaces/ray/pods")["items"]]
    assert old not in left
    guarded.world.node_mode(lost, "restore")
    guarded.until(lambda: guarded.freed(lost) == (False, False), "taint and mark are gone")
    assert guarded.answers(lost) == "True"
    # a guard writes the event after it has changed the node
    guarded.until(lambda: "NodeGuardReturned" in guarded.reasons(lost), "it is reported")
    assert set(_decided(guarded, lost)) - {"NodeGuardWaits"} == {"NodeGuardFreed", "NodeGuardReturned"}
    for arguments in (
        ("kubectl", "describe", "node", lost),
        ("kubectl", "get", "events", "--field-selector", "involvedObject.kind=Node"),
    ):
        shown = guarded.run(*arguments)
        assert "NodeGuardFreed" in shown
        assert "NodeGuardReturned" in shown


def _decided(guarded: Guarded, node: str) -> list[str]:
    """What was reported of a node, without calls that took longer than a guard waits: a busy machine has those."""
    return [reason for reason in guarded.reasons(node) if reason != "NodeGuardCannotAsk"]


def test_no_answer_of_hyperpod_changes_nothing(guarded: Guarded) -> None:
    lost = guarded.worker_node()
    guarded.world.node_mode(lost, "unreachable")
    guarded.until(lambda: guarded.answers(lost) == "Unknown", "it is silent")
    client = guarded.world.running.client
    client.set_fault(operation="sagemaker.ListClusterNodes", code="ThrottlingException", count=-1)
    try:
        client.fail_node(instance_id(lost))
        guarded.until(lambda: "NodeGuardCannotAsk" in guarded.reasons(lost), "the guard says that it cannot ask")
        guarded.until(lambda: not any(guarded.ready(node) for node in guarded.processes), "neither is ready")
        assert guarded.freed(lost) == (False, False)
    finally:
        client.clear_faults()
    guarded.until(lambda: guarded.freed(lost) == (True, True), "it asks again")
    guarded.until(lambda: any(guarded.ready(node) for node in guarded.processes), "ready again")


FREED = {"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}
BEYOND: dict[str, tuple[Json, str]] = {
    "the label that replaces it": ({"metadata": {"labels": {HEALTH_LABEL: REPLACE}}}, "labels"),
    "an annotation": ({"metadata": {"annotations": {"a": "b"}}}, "annotations"),
    "an annotation taken off": ({"metadata": {"annotations": {"rehearsal.local/state": None}}}, "annotations"),
    "a finalizer": ({"metadata": {"finalizers": ["example.com/x"]}}, "finalizers"),
    "a cordon": ({"spec": {"unschedulable": True}}, "taints alone"),
    "another taint": ({"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}, "alone"),
    "out of service although it answers": ({"spec": {"taints": [FREED]}}, "not ready"),
}
FORBIDDEN = [
    ("DELETE", "/api/v1/nodes/NODE"),
    ("GET", "/api/v1/nodes/NODE"),
    ("PATCH", "/api/v1/nodes/NODE/status"),
    ("GET", "/api/v1/namespaces/ray/pods"),
    ("GET", "/api/v1/namespaces/ray/secrets"),
    ("GET", f"/api/v1/namespaces/{GUARD}/configmaps"),
    ("POST", "/api/v1/namespaces/ray/events"),
    ("GET", "/api/v1/namespaces/default/events"),
]


def refusal(guarded: Guarded, method: str, path: str, body: Json | None = None) -> tuple[int, str]:
    """How the API answers the guard's token; (200, "") where it does what is asked."""
    world = guarded.world
    config = yaml.safe_load(Path(world.running.kubeconfig).read_text())
    config["users"][0]["user"]["token"] = guarded.token()
    own = guarded.folder / "kubeconfig"
    own.write_text(yaml.safe_dump(config))
    as_guard = World(running=replace(world.running, kubeconfig=str(own)), state=world.state, folder=world.folder)
    try:
        as_guard.request(method, path, body, content_type=MERGE if method == "PATCH" else "application/json")
    except urllib.error.HTTPError as error:
        return error.code, str(json.load(error)["message"])
    return 200, ""


def test_the_guards_token_can_do_nothing_else(guarded: Guarded) -> None:
    """RBAC knows verbs and kinds; the admission policy knows fields."""
    names = [str(node["metadata"]["name"]) for node in guarded.world.get("/api/v1/nodes")["items"]]
    node = next(name for name in names if guarded.answers(name) == "True")
    for method, path in FORBIDDEN:
        code, said = refusal(guarded, method, path.replace("NODE", node), None if method in ("GET", "DELETE") else {})
        assert (code, "forbidden" in said) == (403, True), f"{method} {path}: {code} {said}"
    before = guarded.node(node)
    for what, (patch, word) in BEYOND.items():
        code, said = refusal(guarded, "PATCH", f"/api/v1/nodes/{node}", patch)
        assert code == 422, f"{what}: {code} {said}"
        assert f"ValidatingAdmissionPolicy '{GUARD}' with binding '{GUARD}' denied request" in said
        assert word in said, f"{what}: {said}"
    after = guarded.node(node)
    assert (after["metadata"].get("labels"), after["spec"]) == (before["metadata"].get("labels"), before["spec"])
    # a person's taint, and one of another value on a node that is silent
    world = guarded.world
    world.request("PATCH", f"/api/v1/nodes/{node}", {"spec": {"taints": [FREED]}}, content_type=MERGE)
    code, said = refusal(guarded, "PATCH", f"/api/v1/nodes/{node}", {"spec": {"taints": []}})
    world.request("PATCH", f"/api/v1/nodes/{node}", {"spec": before["spec"]}, content_type=MERGE)
    assert (code, "where it put it" in said) == (422, True), said
    world.node_mode(node, "unreachable")
    guarded.until(lambda: guarded.answers(node) == "Unknown", "it is silent")
    taints = [taint for taint in guarded.node(node)["spec"]["taints"] if taint["key"] != FREED["key"]]
    other = {"spec": {"taints": [*taints, {**FREED, "value": "other"}]}}
    code, said = refusal(guarded, "PATCH", f"/api/v1/nodes/{node}", other)
    world.node_mode(node, "restore")
    assert (code, "nodeshutdown" in said) == (422, True), said


def test_the_other_guard_frees_the_heads_node(guarded: Guarded) -> None:
    """The node takes its own guard along."""
    guarded.until(lambda: len(guarded.ray_pods("head")) == 1, "the head")
    (head,) = guarded.ray_pods("head")
    lost = str(head["spec"]["nodeName"])
    guarded.processes[lost].kill()
    guarded.world.node_mode(lost, "unreachable")
    guarded.world.running.client.fail_node(instance_id(lost))

    def moved() -> bool:
        return any(pod["spec"]["nodeName"] != lost for pod in guarded.ray_pods("head"))

    guarded.until(moved, "the head on the other node")
    assert guarded.freed(lost) == (True, True)
