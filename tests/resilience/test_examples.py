"""Scripts that others have published, carried over in at most ten lines, meet every fault and end with equal losses."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Any

import pytest
from examples import ADAPTERS, EXAMPLES

from docs import changed_lines

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", EXAMPLES)
def test_ten_lines_are_enough(name: str) -> None:
    changed = EXAMPLES[name].changed_lines()
    assert 0 < len(changed) <= 10, changed
    assert len(changed) == changed_lines.counts()[name], "the page's count is that of the script as published"


FAULTS = {5: "kill", 11: "freeze", 17: "hang", 23: "kill"}  # before these steps


@pytest.mark.parametrize("name", [*EXAMPLES, *ADAPTERS])
def test_every_fault_and_equal_losses(name: str, party: Any) -> None:
    steps = EXAMPLES[name].steps if name in EXAMPLES else ADAPTERS[name][1]
    through(name, party, steps=steps, faults=FAULTS if name in EXAMPLES else {3: "kill", 8: "freeze"})


def through(name: str, party: Any, *, steps: int, faults: dict[int, str]) -> Any:
    """Run an example whole and through faults, and compare; the disturbed run."""
    calm = party("calm", example=name, spares=0)
    calm.start(2)
    calm.until_done()
    truth = {step: values[0] for step, values in calm.losses().items()}
    assert sorted(truth) == list(range(1, steps + 1))
    run = party("run", example=name, spares=1, gates=list(faults))
    run.start(3)
    for number, (step, fault) in enumerate(faults.items()):
        run.until_spare()
        run.until_gate(step)
        rank, wanted = number % 2, number + 2
        victim = run.rank_pids()[rank]
        if fault == "hang":
            hang = run.url / "faults" / f"hang-rank-{rank}"
            hang.parent.mkdir(exist_ok=True)
            hang.touch()
        else:
            os.kill(victim, signal.SIGSTOP if fault == "freeze" else signal.SIGKILL)
        (run.folder / f"go-{step}").touch()
        if fault == "hang":
            run.until(lambda hang=hang: not hang.exists())
            run.notice_hang(rank, generations=wanted)
        elif fault == "freeze":
            run.notice_silence(victim, generations=wanted)
            with contextlib.suppress(ProcessLookupError):  # its pulse may have obeyed the fence already
                os.kill(victim, signal.SIGCONT)  # it thaws, and obeys its fence
        run.until(lambda wanted=wanted: len(run.events("generation")) >= wanted)
        run.start(1, first=3 + number)
    run.until_done()
    assert [event["path"] for event in run.events("restore")] == ["memory"] * len(faults)
    assert "cannot be rehearsed" not in (run.folder / "run.log").read_text()
    losses = run.losses()
    assert {step: sorted(set(values)) for step, values in losses.items()} == {s: [loss] for s, loss in truth.items()}
    assert sum(len(values) - 1 for values in losses.values()) <= len(faults)
    return run


def test_a_published_script_on_nodes_with_two_ranks_loses_a_node(party: Any) -> None:
    calm = party("calm", example="fashion", active=4, per_node=2, spares=0)
    calm.start(4)
    calm.until_done()
    run = party("run", example="fashion", active=4, per_node=2, spares=2, gates=[7])
    run.start(6)
    run.until(lambda: run.coordinator.table.warm_spares == 2)
    run.strike(2, 3, gate=7)
    run.until_done()
    assert {event["path"] for event in run.events("restore")} == {"memory"}
    truth = {step: values[0] for step, values in calm.losses().items()}
    assert {step: set(values) for step, values in run.losses().items()} == {
        step: {loss} for step, loss in truth.items()
    }
