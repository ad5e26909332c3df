"""Do on one rank what takes long, at the product's limits, without Ray: `python tests/resilience/soak_healthy.py`.

Real processes, a real coordinator and a real clock. One rank is at work while the others wait for it, and nobody may be
fenced. Then a rank hangs in a lock, several times: it is fenced, and that takes no longer than `HUNG_S`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from conftest import WORKER_ENVIRONMENT, forking
from soak_spares import EVERY, Soak
from spares_helpers import Party

from hyperpod_ray_training import Settings
from hyperpod_ray_training.spares.members import Limits

WORK = {
    "recompile": (0, 5.0), "lock": (1, 12.0), "read": (2, 30.0), "save": (0, 30.0), "sleep": (1, 60.0),
    "debug": (2, 120.0),
    "evaluate": (0, 600.0),
}  # fmt: skip
"""Which rank does what, for how many seconds: new code, a call that holds Python's lock, a loader, a shard that is
written slowly, a sleep, a breakpoint, an evaluation on the master alone."""
HANGS, HUNG_S, REGULAR_STEPS = 5, 4.0, 15


class Healthy(Soak):  # type: ignore[misc]
    """One run, and what its ranks do."""

    def __init__(self, forker: Any, folder: Path) -> None:
        self.active, self.spares, self.folder, self.next = 3, 2, folder, 0
        settings = {name: getattr(Settings(), name) for name in ("silence_s", "hang_s", "process_group_timeout_s")}
        self.party = Party(
            forker, folder, "soak", every=EVERY, active=self.active, spares=self.spares, steps=10**6, step_s=0.1,
            limits=Limits.of(Settings()), settings=settings, product_limits=True,
        )  # fmt: skip

    def covered(self) -> bool:
        """Whether training goes on, with a warm spare."""
        self.refill()
        assert self.party.coordinator is not None
        return bool(self.party.coordinator.table.running and self.party.coordinator.table.warm_spares)

    def lost(self) -> list[dict[str, Any]]:
        """The ranks that were lost."""
        return [event for event in self.party.events("lost") if event["rank"] is not None]

    def goes_on(self, steps: int = 3) -> None:
        """Wait for further steps, with a warm spare."""
        self.party.until(self.covered, seconds=600)
        done = self.newest() + steps
        self.party.until(lambda: self.newest() >= done, seconds=1500)

    def ask(self, task: str, rank: int, seconds: float) -> float:
        """Ask a rank to do it, and return when it began."""
        flag = self.folder / f"do-{task}-rank-{rank}"
        asked = flag.with_suffix(".asked")
        asked.write_text(str(seconds))
        asked.rename(flag)  # whole, or not there
        self.party.until(lambda: not flag.exists())
        return time.time()

    def works(self, task: str, rank: int, seconds: float) -> dict[str, Any]:
        """One rank does something long; how long the others stood, and who was lost."""
        self.goes_on(REGULAR_STEPS)
        before, begun = len(self.lost()), self.ask(task, rank, seconds)
        if task != "save":
            self.party.until(lambda: time.time() > begun + seconds, seconds=seconds + 60)
        self.goes_on()
        moments = [event["t"] for event in self.party.events("step") if event["t"] >= begun - 2]
        stood = max((after - at for at, after in itertools.pairwise(moments)), default=0.0)
        fenced = [f"rank {event['rank']}: {event['message']}" for event in self.lost()[before:]]
        return {"task": task, "rank": rank, "seconds": seconds, "stood_s": round(stood, 1), "fenced": fenced}

    def hangs(self, number: int) -> float:
        """A rank stands in a lock for ever, at another line each time; seconds until it is fenced."""
        rank = number % self.active
        self.goes_on(REGULAR_STEPS)
        before, begun = len(self.lost()), self.ask("hang", rank, number)
        self.party.until(lambda: len(self.lost()) > before, seconds=300)
        event = self.lost()[before]
        assert (event["rank"], event["message"].startswith("hangs for")) == (rank, True), event
        return round(float(event["t"]) - begun, 2)


def main(argv: list[str]) -> int:
    """0 where nobody healthy was fenced, and each hung rank in time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", metavar="FILE", help="what the workers have said")
    options = parser.parse_args(argv)
    rows, hung = [], []
    with forking("spare_worker.py", **WORKER_ENVIRONMENT) as forker, tempfile.TemporaryDirectory() as folder:
        soak = Healthy(forker, Path(folder))
        try:
            for number in range(HANGS):
                hung.append(soak.hangs(number))
                sys.stdout.write(f"hang: fenced after {hung[-1]} s, load {os.getloadavg()[0]:.0f}\n")
                sys.stdout.flush()
            for task, (rank, seconds) in WORK.items():
                rows.append(soak.works(task, rank, seconds))
                sys.stdout.write(json.dumps(rows[-1]) + "\n")
                sys.stdout.flush()
        finally:
            if options.log:
                Path(options.log).write_text(soak.party.log())
            soak.party.close()
    fenced = sum(len(row["fenced"]) for row in rows)
    sys.stdout.write(json.dumps({"healthy_fenced": fenced, "hung_s": hung, "load": round(os.getloadavg()[0])}) + "\n")
    return 1 if fenced or max(hung) > HUNG_S else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
