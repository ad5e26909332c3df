"""What tests of `guard_kubernetes`, `watching` share."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.guard import MARK
from hyperpod_ray.guard.kubernetes import KubernetesError
from hyperpod_ray.guard.watching import Guard

HERE, LOST, THIRD = (f"i-{number:017x}" for number in (1, 2, 3))
NOW = 1_800_000_000.0
GROUP_TAINT = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}


class World:
    """Nodes and instances that a test changes, and the guards that look at them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = NOW
        self.nodes: dict[str, Any] = {}
        self.events: dict[str, Any] = {}
        self.instances: dict[str, str] = {}
        self.described: dict[str, str] = {}
        self.broken: Exception | None = None
        self.asked = 0
        self.before_patch: Callable[[], None] = lambda: None
        self.version = 100
        for instance in (HERE, LOST, THIRD):
            self.instances[instance] = "Running"
            self.change(instance, "True", "2027-01-01T00:00:00Z")

    def change(self, instance: str, ready: str, since: str = "2027-01-15T07:00:00Z") -> None:
        self.version += 1
        known = self.nodes.get(f"hyperpod-{instance}", {"metadata": {}, "spec": {"taints": [GROUP_TAINT]}})
        known["metadata"] |= {"name": f"hyperpod-{instance}", "uid": instance, "resourceVersion": str(self.version)}
        known["status"] = {"conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": since}]}
        self.nodes[f"hyperpod-{instance}"] = known

    def taints(self, instance: str = LOST) -> list[str]:
        return [taint["key"] for taint in self.nodes[f"hyperpod-{instance}"]["spec"]["taints"]]

    def mark(self, instance: str = LOST) -> str | None:
        found = (self.nodes[f"hyperpod-{instance}"]["metadata"].get("annotations") or {}).get(MARK)
        return str(found) if found is not None else None

    @property
    def reasons(self) -> list[str]:
        return sorted(event["reason"] for event in self.events.values())

    # what the guard uses

    def list_nodes(self) -> tuple[list[Any], str]:
        return copy.deepcopy(list(self.nodes.values())), str(self.version)

    def patch_node(self, name: str, patch: Any) -> None:
        self.before_patch()
        node = self.nodes[name]
        if patch["metadata"]["resourceVersion"] != node["metadata"]["resourceVersion"]:
            raise KubernetesError(409, "Conflict")
        self.version += 1
        node["metadata"]["resourceVersion"] = str(self.version)
        marks = {**(node["metadata"].get("annotations") or {}), **patch["metadata"]["annotations"]}
        node["metadata"]["annotations"] = {key: value for key, value in marks.items() if value is not None}
        node["spec"]["taints"] = patch["spec"]["taints"]

    def create_event(self, namespace: str, event: Any) -> None:
        name = event["metadata"]["name"]
        assert namespace == event["metadata"]["namespace"] == "default"
        if name in self.events:
            raise KubernetesError(409, "AlreadyExists")
        self.events[name] = event

    def statuses(self) -> dict[str, str]:
        self.asked += 1
        if self.broken:
            raise self.broken
        return dict(self.instances)

    def status(self, instance: str) -> str:
        if self.broken:
            raise self.broken
        return self.described.get(instance, self.instances.get(instance, "NotFound"))

    def guard(self, *, seconds: int = 2, node: str = f"hyperpod-{HERE}", name: str = "ready") -> Guard:
        world = self

        class Kubernetes:
            nodes = staticmethod(world.list_nodes)
            patch_node = staticmethod(world.patch_node)
            create_event = staticmethod(world.create_event)

            @staticmethod
            def watch_nodes(version: str, *, seconds: int, until: Callable[[Any], bool]) -> None:
                raise AssertionError("not in these tests")

        return Guard(
            kubernetes=Kubernetes(),
            hyperpod=world,
            node=node,
            not_ready_seconds=seconds,
            ready_file=self.folder / name,
            clock=lambda: world.now,
        )


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)
