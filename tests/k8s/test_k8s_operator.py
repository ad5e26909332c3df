from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hyperpod_ray import k8s
from hyperpod_ray.k8s.operator import feature_gates

Render = Callable[[str], Any]


def test_the_release_has_the_feature_gates_that_are_judged_by(render: Render) -> None:
    values = k8s.kuberay_operator(render("dev").plan).values
    gates = {gate["name"]: gate["enabled"] for gate in values["featureGates"]}
    assert gates == feature_gates(render("dev").plan)
    assert not gates["GCSFaultToleranceEmbeddedStorage"], "alpha: on where the file asks for it alone"
    assert gates["RayCronJob"]
    assert gates["RayJobDeletionPolicy"]


def test_random_deletion_of_autoscaled_workers_stays_off(render: Render) -> None:
    # a deploy writes `replicas` again; the operator removes no pod for it unless this variable is set
    assert "ENABLE_RANDOM_POD_DELETE" not in json.dumps(k8s.kuberay_operator(render("dev").plan).values)
