"""The stacks of an environment on EKS, and which of them wait for which."""

from __future__ import annotations

import json

from hyperpod_ray.core import load
from hyperpod_ray.core.plan_names import stack_names
from tests.stacks.assembled import Assembly
from tests.stacks.reachable_helpers import World


def test_copies_are_there_before_the_pods(on_eks: World) -> None:
    if "Mirror" not in "".join(on_eks.assembly.templates):
        return
    manifests = [json.loads(path.read_text()) for path in on_eks.assembly.folder.rglob("manifest.json")]
    stacks = {key: value for m in manifests for key, value in m["artifacts"].items() if "Mirror" in key}
    (mirror,) = [key for key, value in stacks.items() if value["type"] == "aws:cloudformation:stack"]
    waiting = [
        value["displayName"] for m in manifests for value in m["artifacts"].values()
        if mirror in value.get("dependencies", [])
    ]  # fmt: skip
    assert f"{on_eks.plan.name}/HyperPod" in waiting


def test_each_stack_waits_for_what_it_stands_on(assembly: Assembly) -> None:
    """On destroy the order is reversed: nodes go after what runs on them, the control plane after its nodes."""
    plan = load(assembly.name).plan
    assert sorted(assembly.templates) == sorted(stack_names(plan))
    needed = {"Eks": "Network", "HyperPod": "Eks", "Platform": "HyperPod", "Ray": "Platform"}
    for stack, before in needed.items():
        assert f"{plan.name}-{before}" in assembly.before(f"{plan.name}-{stack}"), stack
