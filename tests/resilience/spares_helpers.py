"""What tests of `soak_healthy`, `soak_recovery`, `soak_spares`, `exact_kills`, `shapes`, `spares` share."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_training import Run, Settings
from hyperpod_ray_training.spares.coordinator import Coordinator
from hyperpod_ray_training.spares.members import Limits

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
