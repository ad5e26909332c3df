from __future__ import annotations

from typing import Any

import yaml

from hyperpod_ray import k8s
from hyperpod_ray.core import Plan
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.core.model import Environment
from hyperpod_ray.core.plan import DAEMON_SET_CPU_MILLIS, DAEMON_SET_MEMORY_MIB

BINDINGS = k8s.Bindings(image_uri="registry.example.com/ray:1")


class TestImagePull:
    """The training image on nodes that are still checked."""

    def plan(self, *, checks: bool) -> Plan:
        raw = yaml.safe_load((FOLDER / "prod.yaml").read_text(encoding="utf-8"))
        if not checks:
            raw["hyperpod"]["instance_groups"][1]["deep_health_checks"] = []
        return Plan(name="prod", settings=Environment.model_validate(raw))

    def daemon_set(self) -> dict[str, Any]:
        made = k8s.ray_manifests(self.plan(checks=True), BINDINGS)
        (manifest,) = [item for item in made if item.name == "ImagePull"]
        (found,) = manifest.objects
        return dict(found)

    def test_it_goes_where_nodes_are_checked_and_nowhere_else(self) -> None:
        spec = self.daemon_set()["spec"]["template"]["spec"]
        (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ]
        label = "sagemaker.amazonaws.com/instance-group-name"
        assert term["matchExpressions"] == [{"key": label, "operator": "In", "values": ["workers"]}]
        # a node under deep health checks has this taint, as the device plugins' own tolerations say
        taint = {"key": "sagemaker.amazonaws.com/node-health-status", "operator": "Equal", "value": "Unschedulable"}
        assert {**taint, "effect": "NoSchedule"} in spec["tolerations"]

    def test_without_checks_there_is_none(self) -> None:
        made = k8s.ray_manifests(self.plan(checks=False), BINDINGS)
        assert "ImagePull" not in [item.name for item in made]

    def test_it_is_the_image_that_workers_run_and_asks_for_what_is_set_aside(self) -> None:
        (container,) = self.daemon_set()["spec"]["template"]["spec"]["containers"]
        assert container["image"] == BINDINGS.image_uri
        asked = container["resources"]["requests"]
        assert int(asked["cpu"].removesuffix("m")) <= DAEMON_SET_CPU_MILLIS / 10
        assert int(asked["memory"].removesuffix("Mi")) <= DAEMON_SET_MEMORY_MIB / 10

    def test_teardown_does_not_wait_for_it(self) -> None:
        """Teardown waits for pods with Ray's label; a DaemonSet's never end."""
        assert not [key for key in self.daemon_set()["spec"]["template"]["metadata"]["labels"] if "ray.io/" in key]

    def test_a_node_has_an_address_less_for_it(self) -> None:
        checked, unchecked = self.plan(checks=True), self.plan(checks=False)
        room = checked.allocatable(checked.group("workers"))
        assert room.pods == unchecked.allocatable(unchecked.group("workers")).pods - 1
