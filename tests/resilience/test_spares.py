"""Real processes, a real coordinator, real kills; no Ray. Every loss is held against a run that nothing disturbed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_training import Run, Settings
from hyperpod_ray_training.spares import pulse
from hyperpod_ray_training.spares.coordinator import Coordinator
from hyperpod_ray_training.spares.members import Limits

pytestmark = pytest.mark.slow
STEPS = 30
# a loaded machine is slow, not dead: the tests are about what happens, `make rehearse` about how soon; an end is seen
# at the connection, and for a silence and a hang the tests put the clock on, of the one that is to be noticed
PATIENT: dict[str, Any] = {
    "silence_s": 900.0, "hang_s": 900.0, "process_group_timeout_s": 300, "memory_overhead": 0.0,
}  # fmt: skip
UNHURRIED = Limits(silence_s=900.0, hang_s=900.0, ready_s=900.0, barren=1000, gather_s=900.0, elastic_gather_s=900.0)
AGES_S = 1e9
# the ranks wait before step 8 until `strike` was there: a busy machine must not let a run end before its fault
GATE = 8
HELD: dict[str, Any] = {"gates": [GATE]}


class Party:
    """A coordinator in a thread, and workers around it."""

    def __init__(self, forker: subprocess.Popen[str], folder: Path, name: str, **options: Any) -> None:
        self.forker, self.folder, self.name, self.options = forker, folder, name, options
        self.active, self.per_node = options.pop("active", 2), options.pop("per_node", 1)
        self.every = options.pop("every", 100)
        self.settings, self.limits = PATIENT | options.pop("settings", {}), options.pop("limits", UNHURRIED)
        self.url = folder / name
        self.url.mkdir(parents=True, exist_ok=True)
        self.pids: dict[int, int] = {}
        self.journal: dict[str, list[dict[str, Any]]] = {}
        self.read = 0
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.coordinator: Coordinator | None = None
        self.address = self.start_coordinator()

    def start_coordinator(self) -> tuple[str, int]:
        run = Run(storage=str(self.folder), name=self.name, settings=Settings())
        limits = replace(self.limits, silence_s=self.settings["silence_s"], hang_s=self.settings["hang_s"])
        self.coordinator = Coordinator(
            run=run, active=self.active, spares=self.options.get("spares", 1), limits=limits, token="secret",
            least=self.options.get("least"),
        )  # fmt: skip
        listening = self.coordinator.listen("127.0.0.1", nodes=False)
        return asyncio.run_coroutine_threadsafe(listening, self.loop).result(600)

    def start(self, count: int, *, first: int = 0, **more: Any) -> None:
        for order in range(first, first + count):
            given = {
                "address": self.address, "token": "secret", "storage": str(self.folder), "name": self.name,
                "node": f"127.0.0.{2 + order // self.per_node}", "order": order, "active": self.active,
                "steps": STEPS, "every": self.every, "settings": self.settings,
                "output": str(self.folder / f"{self.name}.log"), **self.options, **more,
            }  # fmt: skip
            assert self.forker.stdin is not None
            assert self.forker.stdout is not None
            self.forker.stdin.write(json.dumps(given) + "\n")
            self.forker.stdin.flush()
            self.pids[order] = int(self.forker.stdout.readline())

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Of the journal, read on from where the last call left it: each of hundreds of kills is polled for."""
        with contextlib.suppress(FileNotFoundError), (self.url / "events.jsonl").open("rb") as stream:
            stream.seek(self.read)
            whole = stream.read().rpartition(b"\n")[0]  # the last line may be half written
            self.read += len(whole) + bool(whole)
            for line in whole.splitlines():
                event = json.loads(line)
                self.journal.setdefault(event["kind"], []).append(event)
        return list(self.journal.get(kind, ()))

    def until(self, check: Callable[[], Any], *, seconds: float = 900.0) -> Any:
        deadline = time.monotonic() + seconds
        while not (result := check()):
            log = self.folder / f"{self.name}.log"
            assert time.monotonic() < deadline, log.read_text()[-6000:] if log.exists() else "no log"
            time.sleep(0.05)
        return result

    def until_step(self, step: int) -> None:
        self.until(lambda: any(event["step"] >= step for event in self.events("step")))

    def until_gate(self, gate: int = GATE) -> None:
        """Every rank waits before this step: all have finished, and copied, the one before."""
        self.until(lambda: all((self.folder / f"at-{gate}-{pid}").exists() for pid in self.rank_pids().values()))

    def until_warm(self, spares: int) -> None:
        self.until(
            lambda: next((e["warm_spares"] for e in reversed(self.events("spare")) if "warm_spares" in e), 0) >= spares
        )

    def until_spare(self) -> None:
        """A spare stands by, warm, now."""
        assert self.coordinator is not None
        table = self.coordinator.table
        self.until(lambda: table.running and table.warm_spares)

    def until_done(self) -> None:
        self.until(lambda: self.events("done"))
        self.until(lambda: not any(alive(pid) for pid in self.pids.values()))

    def rank_pids(self) -> dict[int, int]:
        ranks = self.until(lambda: self.events("generation"))[-1]["ranks"]  # a spare may be warm before the first one
        return {int(rank): holder["pid"] for rank, holder in ranks.items()}

    def log(self) -> str:
        """What its workers have said."""
        return (self.folder / f"{self.name}.log").read_text()

    def end_workers(self) -> None:
        """As Ray does with those of a run that it starts again."""
        for pid in self.pids.values():
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
        assert self.coordinator is not None
        table = self.coordinator.table
        self.until(lambda: not table.members)

    def strike(self, *ranks: int, number: signal.Signals = signal.SIGKILL, gate: int = GATE) -> None:
        """Signal ranks that wait before a step, and let the run go on there."""
        self.until_gate(gate)
        pids = self.rank_pids()
        for rank in ranks:
            os.kill(pids[rank], number)
        (self.folder / f"go-{gate}").touch()

    def in_loop(self, call: Callable[[], Any]) -> Any:
        """Call in the coordinator's thread."""

        async def there() -> Any:
            return call()

        return asyncio.run_coroutine_threadsafe(there(), self.loop).result(600)

    def notice_silence(self, pid: int, *, generations: int) -> None:
        """The clock of one process that stands still passes every limit, until there are so many generations."""
        assert self.coordinator is not None
        table = self.coordinator.table

        def age() -> None:
            for member in table.members.values():
                if member.pid == pid:
                    member.beat -= AGES_S
            table._gap = (0.0, 0.0)  # a beat that was under way must not be taken for a slow machine

        self.until(lambda: self.in_loop(age) or len(self.events("generation")) >= generations)

    def notice_hang(self, rank: int, *, generations: int) -> None:
        """The clock passes every limit for a rank that is behind, until there are so many generations."""
        assert self.coordinator is not None
        table = self.coordinator.table
        hung = table.members[table.ranks[rank]]

        def age() -> None:
            others = [table.members[uid] for other, uid in table.ranks.items() if other != rank]
            if table.running and hung.uid in table.members and all(hung.seq < other.seq for other in others):
                table._progress.since -= AGES_S
                hung.still += AGES_S
                assert self.coordinator is not None
                self.coordinator._send(table.tick(time.monotonic()))  # before a beat says how long it stands really

        self.until(lambda: self.in_loop(age) or len(self.events("generation")) >= generations)

    def losses(self) -> dict[int, list[float]]:
        """Step to the losses seen there; a step that was done again has two."""
        found: dict[int, list[float]] = {}
        for event in self.events("step"):
            found.setdefault(event["step"], []).append(event["loss"])
        return found

    def close(self) -> None:
        for pid in self.pids.values():
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
        asyncio.run_coroutine_threadsafe(self.end_tasks(), self.loop).result(600)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(600)
        assert not asyncio.all_tasks(self.loop), "a task that is destroyed while it waits is a line of noise"
        self.loop.close()

    async def end_tasks(self) -> None:
        if self.coordinator is not None:
            self.coordinator.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it may end between the two steps of a read
        return False


@pytest.fixture
def party(forker: subprocess.Popen[str], tmp_path: Path) -> Iterator[Callable[..., Party]]:
    parties: list[Party] = []

    def make(name: str = "run", **options: Any) -> Party:
        parties.append(Party(forker, tmp_path, name, **options))
        return parties[-1]

    yield make
    for one in parties:
        one.close()


@pytest.fixture(scope="module")
def truth(forker: subprocess.Popen[str], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[int, float]]:
    """The losses of an undisturbed run with so many ranks."""
    seen: dict[tuple[int, bool], dict[int, float]] = {}

    def of(active: int, *, replicas: bool = False) -> dict[int, float]:
        if (active, replicas) not in seen:
            calm = Party(
                forker, tmp_path_factory.mktemp(f"calm-{active}"), "calm", active=active, spares=0, step_s=0.0,
                replicas=replicas,
            )  # fmt: skip
            calm.start(active)
            calm.until_done()
            calm.close()
            seen[active, replicas] = {step: losses[0] for step, losses in calm.losses().items()}
        return seen[active, replicas]

    return of


def check(party: Party, truth: dict[int, float], *, redone: int) -> None:
    """Every step was done, every loss equals the undisturbed run's, and at most `redone` steps were done again."""
    losses = party.losses()
    assert set(losses) == set(range(1, STEPS + 1)) == set(truth)
    assert {step: sorted(set(values)) for step, values in losses.items()} == {s: [loss] for s, loss in truth.items()}
    assert sum(len(values) - 1 for values in losses.values()) <= redone


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


HELLO = {"type": "hello", "uid": "x", "order": 0, "node": "n", "port": 1, "pid": 1}


def hears(stranger: socket.socket) -> bytes:
    """What the coordinator says, until it ends the connection."""
    return b"".join(iter(lambda: stranger.recv(1000), b""))


@pytest.mark.parametrize(
    ("role", "uid", "token", "fresh"),
    [("hello", "x", "guessed", True), ("hello", "y", "secret", True), ("pulse", "x", "secret", True),
     ("hello", "x", "secret", False)],
    ids=["another token", "another member's", "of a pulse", "of another connection"],
)  # fmt: skip
def test_whoever_does_not_know_the_token_is_not_heard(
    *, party: Any, role: str, uid: str, token: str, fresh: bool
) -> None:
    run = party()
    with (
        socket.create_connection(run.address, timeout=600) as stranger,
        socket.create_connection(run.address, timeout=600) as before,
    ):
        asked = [pulse.challenged(connection) for connection in (before, stranger)]
        shown = pulse.proof(token, challenge=asked[fresh], role=role, uid=uid)
        stranger.sendall((json.dumps(HELLO | {"proof": shown}) + "\n").encode())
        assert hears(stranger) == b""
    assert run.coordinator.table.members == {}


def test_the_token_never_goes_over_the_network() -> None:
    """Somebody who reads the wire, or stands in the coordinator's place, learns nothing that opens another door."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        options = {"host": host, "port": port, "token": "secret", "uid": "x", "pid": os.getpid(), "beat_s": 1}
        process = subprocess.Popen([sys.executable, "-I", "-S", pulse.__file__], stdin=subprocess.PIPE)
        assert process.stdin is not None
        with process:
            process.stdin.write((json.dumps(options) + "\n").encode())
            process.stdin.flush()
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as lines:
                connection.sendall(b'{"challenge": "a"}\n')
                hello = json.loads(lines.readline())
                assert hello.pop("proof") == pulse.proof("secret", challenge="a", role="pulse", uid="x")
                assert "secret" not in json.dumps(hello)
                process.stdin.close()
                assert b"secret" not in lines.read()


HOSTILE = {
    "a line of two megabytes": b"x" * (2 << 20) + b"\n",
    "a line without an end": b"{" * (2 << 20),
    "a value that is nested a hundred thousand deep": b"[" * 100_000 + b"\n",
    "a list": b"[1, 2]\n",
    "no text": b"\xff\xfe\x00\n",
    "a proof that is no text": b'{"type": "hello", "proof": {"a": 1}}\n',
    "a proof beyond ASCII": '{"type": "hello", "proof": "ключ"}\n'.encode(),
    "a pulse without proof": b'{"type": "pulse", "proof": "guessed", "uid": "x"}\n',
    "the token itself": b'{"type": "hello", "token": "secret", "uid": "x"}\n',
}


def test_what_a_stranger_sends_ends_its_own_connection_alone(party: Any) -> None:
    """The coordinator hears the next one, and a member that trains hears nothing of it."""
    run = party(every=5, gates=[4])
    run.start(3)
    run.until_gate(4)
    members = dict(run.coordinator.table.members)
    for sent in HOSTILE.values():
        with socket.create_connection(run.address, timeout=600) as stranger, contextlib.suppress(OSError):
            pulse.challenged(stranger)
            stranger.sendall(sent)
            assert hears(stranger) == b""
    with socket.create_connection(run.address, timeout=600) as stranger:
        shown = pulse.proof("secret", challenge=pulse.challenged(stranger), role="hello", uid="x")
        stranger.sendall((json.dumps({"type": "hello", "proof": shown, "uid": "x"}) + "\n").encode())
        assert hears(stranger) == b"", "a hello without figures"
    assert dict(run.coordinator.table.members) == members
    assert of_ranks()
    assert not [line for line in of_ranks() if "secret" in line], "everybody can read a command line"
    (run.folder / "go-4").touch()
    run.until_done()
    assert not run.events("restore")


def of_ranks() -> list[str]:
    """Command lines of ranks and of what beats beside them."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            lines.append(path.read_text(encoding="utf-8", errors="replace"))
    return [line for line in lines if "pulse.py" in line]


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
