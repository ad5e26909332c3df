"""What the control plane asks of SageMaker: a node fails, and a state is set, only of what there is."""

from __future__ import annotations

import pytest

from hyperpod_ray_sandbox.aws.client import ControlError
from tests.support.emulator import Emulator

pytestmark = pytest.mark.emulator


def test_failing_a_node_that_is_not_there_says_so(emulator: Emulator) -> None:
    with pytest.raises(ControlError, match="no cluster has a node i-1"):
        emulator.control.fail_node("i-1")


def test_a_state_is_set_of_what_there_is_only(emulator: Emulator) -> None:
    with pytest.raises(ControlError, match="Cluster nobody not found"):
        emulator.control.set_hyperpod("nobody", fields={"ClusterStatus": "Failed"})
