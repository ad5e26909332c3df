"""What commands print of one environment on EKS and of one on Slurm is what `screens.txt` records."""

from __future__ import annotations

import pytest

from tests.ops import said_screens


@pytest.mark.parametrize("fault", said_screens.ON_EKS)
def test_commands_on_eks_print_what_is_recorded(fault: str) -> None:
    for command, lines in said_screens.on_eks(fault):
        assert lines == said_screens.recorded().get(command), f"{command}. Fix: correct it, or make records"


@pytest.mark.parametrize("state", said_screens.ON_SLURM)
def test_commands_on_slurm_print_what_is_recorded(state: str) -> None:
    for command, lines in said_screens.on_slurm(state):
        assert lines == said_screens.recorded().get(command), f"{command}. Fix: correct it, or make records"


def test_no_record_is_of_nothing() -> None:
    typed = {f"EKS, {fault}: {words}" for fault, commands in said_screens.ON_EKS.items() for words in commands}
    typed |= {f"Slurm, {state}: {words}" for state, commands in said_screens.ON_SLURM.items() for words in commands}
    assert typed == set(said_screens.recorded())
