"""Real processes, a real coordinator, real kills; no Ray. Every loss is held against a run that nothing disturbed."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.resilience.spares_helpers import AGES_S, GATE, STEPS, Party, alive, check

pytestmark = pytest.mark.slow
HELD: dict[str, Any] = {"gates": [GATE]}


def test_a_killed_rank_is_replaced_and_the_survivor_stays(party: Any, truth: Any) -> None:
    run = party(validate=True, **HELD)  # a validation leaves FSDP2's root unsharded
    run.start(3)
    run.until_warm(1)
    before = run.rank_pids()
    run.strike(1)
    run.until(lambda: len(run.events("generation")) >= 2)
    after = run.rank_pids()
    assert after[0] == before[0]
    assert after[1] != before[1]
    # its end is seen at the connection, not when its silence has lasted
    (lost,) = (event["message"] for event in run.events("lost") if event["rank"] == 1)
    assert lost == "connection closed"
    run.until_done()
    assert [event["path"] for event in run.events("restore")] == ["memory"]
    check(run, truth(2), redone=1)


def standby(run: Party, order: int, *, beside: int) -> int:
    """Start a standby on the node of a rank; its process, once it has imported what the ranks did."""
    run.start(1, first=order, standby=True, node=f"127.0.0.{2 + beside}")
    assert run.coordinator is not None
    table = run.coordinator.table
    run.until(lambda: any(member.imported and member.pid == run.pids[order] for member in table.members.values()))
    return run.pids[order]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_without_a_spare_a_standby_takes_the_place_twice_in_a_row(
    party: Any, truth: Any, number: signal.Signals
) -> None:
    run = party(spares=0, gates=[GATE, GATE + 8])
    run.start(2)
    survivor = run.until(run.rank_pids)[0]
    for order, gate in ((2, GATE), (3, GATE + 8)):
        successor = standby(run, order, beside=1)
        lost = run.rank_pids()[1]
        run.strike(1, number=number, gate=gate)
        if number == signal.SIGSTOP:
            run.notice_silence(lost, generations=order)
        run.until(lambda n=order: len(run.events("generation")) >= n)
        assert run.rank_pids() == {0: survivor, 1: successor}
        assert not alive(lost), "what it had on a device is free"
    run.until_done()
    assert [event["path"] for event in run.events("restore")] == ["memory"] * 2
    check(run, truth(2), redone=2)


def test_a_standby_of_another_node_is_none(party: Any, truth: Any) -> None:
    run = party(spares=0, **HELD)
    run.start(2)
    standby(run, 2, beside=0)
    run.strike(1)
    run.until(lambda: run.events("note"))  # nobody can take it over, and that is said
    assert run.events("note")[0]["message"].startswith("1 of 2 ranks (first: 1) have no process")
    assert len(run.events("generation")) == 1
    run.start(1, first=3)  # what Ray places in the end
    run.until_done()
    assert run.rank_pids()[1] == run.pids[3]
    check(run, truth(2), redone=1)


def test_the_survivor_waits_while_the_standby_is_lost_too(party: Any, truth: Any) -> None:
    run = party(spares=0, **HELD)
    run.start(2)
    survivor = run.until(run.rank_pids)[0]
    run.until_gate()
    os.kill(standby(run, 2, beside=1), signal.SIGKILL)
    run.strike(1)
    run.until(lambda: run.events("note"))
    successor = standby(run, 3, beside=1)  # the next one, which comes after the loss
    run.until_done()
    assert run.rank_pids() == {0: survivor, 1: successor}
    check(run, truth(2), redone=1)


def test_rank_zero_too(party: Any, truth: Any) -> None:
    run = party(**HELD)
    run.start(3)
    run.until_warm(1)
    run.strike(0)
    run.until_done()
    assert [event["path"] for event in run.events("restore")] == ["memory"]
    check(run, truth(2), redone=2)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_gpu_s_error_ends_its_own_rank_and_no_other(party: Any, truth: Any, rank: int) -> None:
    run = party(**HELD)
    run.start(3)
    run.until_warm(1)
    run.until_gate()
    before = run.rank_pids()
    faults = run.url / "faults"
    faults.mkdir()
    (faults / f"gpu-error-rank-{rank}").touch()  # looked at when the gate has let a rank through: at the next step
    (run.folder / f"go-{GATE}").touch()
    run.until_done()
    after = run.rank_pids()
    assert (after[1 - rank], after[rank] != before[rank]) == (before[1 - rank], True)
    (lost,) = (event["message"] for event in run.events("lost") if event["rank"] == rank)
    assert lost == "hardware error: uncorrectable ECC error"
    assert not run.events("fallback")
    assert [event["path"] for event in run.events("restore")] == ["memory"]
    check(run, truth(2), redone=2)


@pytest.mark.parametrize(
    "phase", ["meet-0", "met-0", "group", "meet-2", "met-2", "met-4", "build", "state", "hand", "step"]
)
def test_killed_again_in_every_phase_of_a_recovery(party: Any, truth: Any, phase: str) -> None:
    run = party(spares=3, **HELD)
    run.start(5)
    run.until_warm(3)
    (run.folder / f"kill-{phase}-rank-1").touch()
    run.strike(1)
    run.until_done()
    assert not (run.folder / f"kill-{phase}-rank-1").exists(), "the phase was never reached"
    assert len(run.events("lost")) >= 2
    check(run, truth(2), redone=2)


def test_a_surprise_in_any_phase_of_a_recovery_goes_back_to_the_checkpoint(party: Any, truth: Any) -> None:
    run = party(every=3, gates=[8, 14, 20, 26])
    run.start(3)
    for number, phase in enumerate(["group", "build", "state", "step"], start=1):
        run.until_spare()
        run.until_gate(6 * number + 2)
        (run.folder / f"surprise-{phase}-rank-1").touch()
        run.strike(1, gate=6 * number + 2)
        run.until(lambda phase=phase: not (run.folder / f"surprise-{phase}-rank-1").exists())
        # an error of the loop is everybody's: Ray ends all workers and starts new ones
        run.until(lambda number=number: run.log().count("nobody thought of this") >= number)
        run.end_workers()
        run.start(3, first=3 * number)
    run.until_done()
    paths = [Path(event["path"]).name for event in run.events("restore")]
    assert sum(path.startswith("step-") for path in paths) >= 4
    check(run, truth(2), redone=STEPS)


def test_a_survivor_that_computes_alone_does_not_hold_a_recovery_up(party: Any, truth: Any) -> None:
    """It is in no collective that could be cut: its loop is interrupted, and its process and copies stay."""
    run = party(evaluate_s=3600, **HELD)
    run.start(3)
    run.until_warm(1)
    run.until_gate()
    before = run.rank_pids()
    (run.folder / "evaluate-rank-0").touch()
    (run.folder / f"go-{GATE}").touch()
    run.until((run.folder / f"evaluates-{before[0]}").exists)
    os.kill(before[1], signal.SIGKILL)
    run.until_done()
    after = run.rank_pids()
    assert after[0] == before[0]
    assert after[1] != before[1]
    assert [event["path"] for event in run.events("restore")] == ["memory"]
    assert "GenerationOverError" in run.log()
    check(run, truth(2), redone=1)


def test_killed_again_while_the_first_loss_is_being_noticed(party: Any, truth: Any) -> None:
    run = party(active=4, spares=2, per_node=2, **HELD)
    run.start(6)
    run.until_warm(2)
    run.strike(3, 0)
    run.until_done()
    check(run, truth(4), redone=2)


@pytest.mark.parametrize("replicas", [False, True], ids=["copies", "replicas"])
def test_a_node_with_two_ranks_is_covered_by_the_other(party: Any, truth: Any, replicas: bool) -> None:
    run = party(active=4, spares=2, per_node=2, replicas=replicas, **HELD)
    run.start(6)
    run.until_warm(2)
    run.strike(2, 3)
    run.until_done()
    assert [event["path"] for event in run.events("restore")] == ["memory"] * len(run.events("restore"))
    assert ("replicas hold the rest" in run.log()) == replicas
    check(run, truth(4, replicas=replicas), redone=2)


def test_a_rank_lost_with_its_copy_goes_back_to_the_checkpoint(party: Any, truth: Any) -> None:
    run = party(spares=2, every=5, gates=[12])
    run.start(4)
    run.until_warm(2)
    run.until(lambda: run.events("save"))
    run.strike(0, 1, gate=12)
    run.until_done()
    paths = [Path(event["path"]).name for event in run.events("restore")]
    assert paths[0].startswith("step-000000")
    check(run, truth(2), redone=STEPS)


def test_a_frozen_rank_is_fenced_and_cannot_come_back(party: Any, truth: Any) -> None:
    run = party(**HELD)
    run.start(3)
    run.until_warm(1)
    frozen = run.rank_pids()[1]
    run.strike(1, number=signal.SIGSTOP)
    run.notice_silence(frozen, generations=2)
    (lost,) = (event["message"] for event in run.events("lost") if event["rank"] == 1)
    assert lost.startswith("no beat for")
    run.until(lambda: not alive(frozen))  # though it stands still: the process beside it obeys
    run.until_done()
    check(run, truth(2), redone=1)


def test_what_one_rank_does_alone_is_no_hang(party: Any, truth: Any) -> None:
    """An evaluation of the master only, a wait, a slow loader: each takes four times as long as a rank may hang."""
    run = party(spares=0, settings={"hang_s": 1.0}, alone={"12": "compute", "15": "sleep", "18": "read"}, alone_s=4)
    run.start(2)
    run.until_done()
    assert all((run.folder / f"alone-{step}").exists() for step in (12, 15, 18))
    assert not run.events("lost")
    assert len(run.events("generation")) == 1
    check(run, truth(2), redone=0)


def test_a_rank_that_stands_in_a_lock_is_replaced(party: Any, truth: Any) -> None:
    """No clock is put on: the limit is the run's own."""
    run = party(settings={"hang_s": 1.0}, alone={"16": "lock"}, alone_s=0, gates=[8])
    run.start(3)
    run.until_warm(1)
    run.until_gate()
    (run.folder / "go-8").touch()
    run.until_done()
    (lost,) = (event["message"] for event in run.events("lost") if event["rank"] == 0)
    assert lost.startswith("hangs for ")
    assert " at spare_worker.py:" in lost
    assert " in alone (lock) while others wait for it" in lost
    assert [event["path"] for event in run.events("restore")] == ["memory"]
    check(run, truth(2), redone=2)


def test_one_long_call_that_holds_python_s_lock_is_no_loss(party: Any, truth: Any) -> None:
    """With the product's limit for silence: the process beside the worker says that it lives."""
    run = party(spares=0, settings={"silence_s": 1.5}, hold_lock_at=12)
    run.start(2)
    run.until_done()
    assert (run.folder / "held-1").exists()
    assert not run.events("lost")
    check(run, truth(2), redone=0)


def test_training_goes_on_without_its_coordinator_and_the_next_one_covers_a_loss(party: Any, truth: Any) -> None:
    run = party(step_s=0.2, gates=[4, 12])
    port_file = run.folder / "address"
    port_file.write_text(json.dumps(run.address))
    run.start(3, address_file=str(port_file))
    run.until_warm(1)
    run.until_gate(4)
    run.coordinator.table.over = True  # it is about to die: what it concludes from that is not heard
    run.loop.call_soon_threadsafe(run.coordinator.close)
    for writer in list(run.coordinator.writers.values()):
        run.loop.call_soon_threadsafe(writer.transport.abort)
    (run.folder / "go-4").touch()
    port_file.write_text(json.dumps(run.start_coordinator()))
    run.until_step(10)
    run.until(lambda: len(run.coordinator.table.members) == 3)
    assert not run.events("restore")
    run.strike(1, gate=12)
    run.until_done()
    assert [event["path"] for event in run.events("restore")] == ["memory"]
    check(run, truth(2), redone=1)


def test_an_elastic_run_shrinks_and_grows_without_a_new_process(party: Any) -> None:
    run = party(least=1, spares=0, every=5, gates=[11, 16])
    run.start(2)
    run.until(lambda: run.events("save"))
    second = run.rank_pids()[1]
    run.strike(0, gate=11)
    run.until(lambda: len(run.events("generation")) >= 2)
    assert run.rank_pids() == {0: second}
    run.until_gate(16)  # a move that comes before the test looks for a spare would not be seen
    run.start(1, first=2)
    run.until_spare()
    (run.folder / "go-16").touch()
    run.until_done()
    assert {rank for rank in run.rank_pids() if run.rank_pids()[rank] == second} == {0}
    worlds = [event["world"] for event in run.events("step")]
    assert [world for at, world in enumerate(worlds) if not at or world != worlds[at - 1]] == [2, 1, 2]
    assert sorted({event["step"] for event in run.events("step")}) == list(range(1, STEPS + 1))
    shrunk, grown = run.events("restore")
    assert shrunk["step"] in {5, 10}, "the save of step 10 is under way"
    saved = [event["step"] for event in run.events("save") if event["t"] < grown["t"]]
    last = max(event["step"] for event in run.events("step") if event["world"] == 1)
    assert grown["step"] == max(saved) == last, "no step is done again where nothing was lost"


def test_an_announced_validation_may_outlast_every_limit(party: Any, truth: Any) -> None:
    """Rank 0 waits for rank 1 for longer than a rank may hang, and than a collective of the group may take.

    A save is under way in that time, and its thread's collectives are in another order than the loop's.
    """
    run = party(spares=0, every=10, pause_at=9, slow_to_plan=True)
    run.start(2)
    run.until(lambda: all((run.folder / f"paused-{rank}").exists() for rank in (0, 1)))
    table = run.coordinator.table
    ranks = [table.members[table.ranks[rank]] for rank in (0, 1)]
    run.until(lambda: ranks[1].seq < ranks[0].seq)
    for _ in range(5):  # a collective that was begun meanwhile puts the clock back, too
        run.in_loop(lambda: setattr(table._progress, "since", -AGES_S))
        run.in_loop(lambda: run.coordinator._send(table.tick(time.monotonic())))
    assert not run.events("lost")
    time.sleep(2)  # twice what a collective may take here outside a pause
    (run.folder / "go-on").touch()
    run.until_done()
    assert not run.events("lost")
    assert not run.events("restore")
    assert [event["step"] for event in run.events("save")] == [10, 20, 30]
    check(run, truth(2), redone=0)
