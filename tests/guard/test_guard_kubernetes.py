from __future__ import annotations

import pytest

from hyperpod_ray.guard.kubernetes import KubernetesError
from hyperpod_ray_rules.names import OUT_OF_SERVICE
from tests.guard.watching_helpers import LOST, THIRD, World


def test_two_guards_act_once(world: World) -> None:
    """One decided on the node as it was before the other's change: its own comes to nothing."""
    world.change(LOST, "Unknown")
    world.instances[LOST] = "Failure"
    first, second = world.guard(), world.guard(node=f"hyperpod-{THIRD}", name="second")

    def meanwhile() -> None:
        world.before_patch = lambda: None
        second.look()

    world.before_patch = meanwhile
    first.look()
    first.look()
    assert world.taints() == ["nvidia.com/gpu", OUT_OF_SERVICE]
    assert world.reasons == ["NodeGuardFreed"]


def test_another_error_of_kubernetes_is_not_hidden(world: World) -> None:
    world.change(LOST, "Unknown")
    world.instances[LOST] = "Failure"

    def refused() -> None:
        raise KubernetesError(403, "forbidden")

    world.before_patch = refused
    with pytest.raises(KubernetesError):
        world.guard().look()
