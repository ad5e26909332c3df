"""Lose a worker at every point of a recovery, without Ray: `python tests/resilience/soak_recovery.py --trials 100`.

Real processes and a real coordinator, as in `test_spares.py`, with the limits that the product has. In each trial a
rank is killed, and another process in the middle of the recovery from that. A trial ends with a step that is new; it
fails where none comes within `--limit` seconds. As Ray does, a successor is started for each lost process. At the end
every loss is held against a run of as many steps that nothing disturbed. The seed draws points and ranks; the
machine's timing is its own.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from conftest import WORKER_ENVIRONMENT, forking
from soak_spares import Soak, truth
from spares_helpers import Party, alive

from hyperpod_ray_training import Settings
from hyperpod_ray_training.spares.members import Limits

GROUPS = 7
"""Groups that the loop of `spare_worker.py` and the library open: the default one, a mesh's, and the library's own."""
POINTS = (
    "noticed", "announced", "twice", "pair", "all", "warming", "coordinator", "evaluating", "group", "build", "state",
    "hand", "step", *(f"{moment}-{number}" for number in range(GROUPS) for moment in ("meet", "met")),
)  # fmt: skip
"""Where the second loss comes.

`noticed`: as soon as the first is known; `announced`: as the next generation is; `twice`: its successor, three times;
`pair`: with it, the rank that keeps its copy; `all`: every rank; `warming`: the newest spare, that imports or
rehearses; `coordinator`: the coordinator; `evaluating`: none, but a survivor computes outside any collective;
the others: a moment inside the recovery, in which a rank ends itself."""
EVERY = 5
STACKS_AFTER_S = 12.0


class Recovery(Soak):  # type: ignore[misc]
    """One run and its trials."""

    def __init__(self, forker: Any, folder: Path, *, trials: int, seed: int, limit_s: float) -> None:
        self.active, self.spares, self.healthy_every = 3, 4, 0
        self.dice, self.folder, self.limit_s = random.Random(seed), folder, limit_s
        self.points = [POINTS[number % len(POINTS)] for number in range(trials)]
        self.dice.shuffle(self.points)
        self.steps = 10**6
        self.address_file = folder / "address"
        self.party = Party(
            forker, folder, "soak", every=EVERY, active=self.active, spares=self.spares, steps=self.steps, step_s=0.1,
            limits=Limits.of(Settings()), settings={"silence_s": Settings().silence_s,
            "hang_s": Settings().hang_s, "process_group_timeout_s": Settings().process_group_timeout_s},
            address_file=str(self.address_file), product_limits=True,
        )  # fmt: skip
        self.address_file.write_text(json.dumps(self.party.address))
        self.next = 0
        self.killed: set[int] = set()
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.reached: Counter[str] = Counter()
        self.stood: list[str] = []

    def kill(self, *pids: int) -> None:
        """SIGKILL, and note whose."""
        for pid in pids:
            self.killed.add(pid)
            if alive(pid):
                os.kill(pid, signal.SIGKILL)

    def newest(self) -> int:
        """The newest step."""
        return max((event["step"] for event in self.party.events("step")), default=0)

    def covered(self) -> bool:
        """Whether training goes on, with two warm spares."""
        self.refill()
        assert self.party.coordinator is not None
        table = self.party.coordinator.table
        return bool(table.running and table.warm_spares >= 2)

    def trial(self, point: str) -> None:
        """Lose a rank, and somebody else at this point."""
        party = self.party
        party.until(self.covered, seconds=600)
        due = self.newest() + self.dice.randint(2, 12)
        party.until(lambda: self.newest() >= due)
        rank = self.dice.randrange(self.active)
        other = (rank + self.dice.randrange(1, self.active)) % self.active
        ranks, begun = party.rank_pids(), time.time()
        generations = len(party.events("generation"))
        flag = self.folder / f"kill-{point}-rank-{other if self.dice.random() < 0.5 else rank}"
        if point == "evaluating":
            flag = self.folder / f"evaluate-rank-{other}"
            flag.touch()
            party.until(lambda: not flag.exists())
        elif point == "warming":
            self.kill(next(pid for pid in party.pids.values() if alive(pid) and pid not in ranks.values()))
            self.refill()
            self.kill(party.pids[self.next - 1])
        elif point == "coordinator":
            self.new_coordinator()
        elif not self.outside(point):
            flag.touch()
        self.kill(*(ranks.values() if point == "all" else [ranks[rank]]))
        if point == "pair":
            self.kill(ranks[(rank + 1) % self.active])
        if point == "noticed":
            party.until(lambda: any(event["t"] > begun for event in party.events("lost")), seconds=self.limit_s)
            self.kill(ranks[other])
        for more in range({"announced": 1, "twice": 3}.get(point, 0)):
            if self.within(lambda more=more: len(party.events("generation")) > generations + more):
                holders = party.rank_pids()
                self.kill(holders[rank if point == "twice" else other])
        self.back(point, begun)
        sys.stdout.write(f"{point}: {self.seconds[point][-1:]} s\n")
        sys.stdout.flush()
        if not self.outside(point):
            self.reached[point] += not flag.exists()
            for left in self.folder.glob("kill-*"):
                left.unlink()
        for left in self.folder.glob("evaluate*"):
            left.unlink()

    def outside(self, point: str) -> bool:
        """Whether the harness itself does the second kill."""
        return point in POINTS[:8]

    def within(self, check: Any) -> bool:
        """Whether it comes within the limit; a process that is missing gets a successor meanwhile."""
        deadline, asked = time.monotonic() + self.limit_s, False
        while time.monotonic() < deadline:
            if not asked and deadline - time.monotonic() < self.limit_s - STACKS_AFTER_S:
                asked = True  # for whoever reads the log of one that stands
                for pid in self.party.rank_pids().values():
                    if alive(pid):
                        os.kill(pid, signal.SIGUSR1)
            self.refill()
            if check():
                return True
            time.sleep(0.02)
        return False

    def back(self, point: str, begun: float) -> None:
        """Wait for a step that is newer than all that were there at the last loss; note how long it took."""

        def goes_on() -> bool:
            # a new coordinator does not know those that died with the one before it: there is no loss then
            formed = [event["t"] for event in self.party.events("generation") if event["t"] > begun]
            changes = formed + [event["t"] for event in self.party.events("lost") if event["t"] > begun]
            if not formed:
                return False
            restored = [event["t"] for event in self.party.events("restore") if event["t"] > max(changes)]
            return bool(restored) and any(event["t"] > max(restored) for event in self.party.events("step"))

        if not self.within(goes_on):
            self.stood.append(point)
            sys.stdout.write(f"{point}: stands: {self.party.log()[-3000:]}\n")
            for pid in self.party.pids.values():  # so that the next trial has a run
                self.kill(pid)
            return
        stepped = min(
            event["t"]
            for event in self.party.events("step")
            if event["t"] > max(e["t"] for e in self.party.events("restore"))
        )
        self.seconds[point].append(stepped - begun)

    def new_coordinator(self) -> None:
        """The coordinator dies, and a new one listens elsewhere."""
        party, old = self.party, self.party.coordinator
        assert old is not None
        old.table.over = True  # what it concludes from its own end is not heard
        party.loop.call_soon_threadsafe(old.close)
        for writer in list(old.writers.values()):
            party.loop.call_soon_threadsafe(writer.transport.abort)
        self.address_file.write_text(json.dumps(party.start_coordinator()))

    def run(self) -> dict[str, Any]:
        """All trials, and what came of them."""
        self.refill()
        trials = 0
        for number, point in enumerate(self.points, start=1):
            self.trial(point)
            trials = number
            if number % 10 == 0:
                sys.stdout.write(f"{number} trials, {len(self.stood)} stand\n")
                sys.stdout.flush()
        self.party.end_workers()
        self.steps = self.newest()  # a run that nothing disturbs is as long
        events = self.party.events
        paths = Counter("memory" if event["path"] == "memory" else "disk" for event in events("restore"))
        fenced = [event for event in events("lost") if event["message"] != "connection closed"]
        losses = self.party.losses()
        times = sorted(second for each in self.seconds.values() for second in each)
        return {
            "trials": trials, "stood_still": self.stood, "restores": dict(paths),
            "fallbacks": len(events("fallback")), "points_reached": sum(self.reached.values()),
            "points_inside": sum(not self.outside(point) for point in self.points[:trials]),
            "seconds_median": round(statistics.median(times), 2), "seconds_90": round(times[int(0.9 * len(times))], 2),
            "seconds_most": round(times[-1], 2),
            "seconds_most_by_point": {key: round(max(each), 1) for key, each in sorted(self.seconds.items()) if each},
            "fenced": [f"{event['rank']}: {event['message']}" for event in fenced],
            "steps": len(losses), "steps_missing": self.steps - len(losses),
            "steps_different": sum(len(set(values)) > 1 for values in losses.values()),
        }  # fmt: skip


def main(argv: list[str]) -> int:
    """0 where every trial came back and every loss is right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=90.0, metavar="SECONDS")
    parser.add_argument("--log", metavar="FILE", help="what the workers have said, with the stacks of slow ones")
    options = parser.parse_args(argv)
    started = time.monotonic()
    with forking("spare_worker.py", **WORKER_ENVIRONMENT) as forker, tempfile.TemporaryDirectory() as folder:
        soak = Recovery(forker, Path(folder), trials=options.trials, seed=options.seed, limit_s=options.limit)
        try:
            result = soak.run()
            result["steps_different"] += soak.off(truth(forker, Path(folder), soak))
        finally:
            if options.log:
                Path(options.log).write_text(soak.party.log())
            soak.party.close()
    result |= {"seed": options.seed, "seconds": round(time.monotonic() - started), "load": round(os.getloadavg()[0], 1)}
    sys.stdout.write(json.dumps(result, indent=1) + "\n")
    return 1 if result["stood_still"] or result["steps_different"] or result["steps_missing"] else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
