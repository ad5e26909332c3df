"""Kill workers of a run with spares at random, without Ray: `python tests/resilience/soak_spares.py --kills 200`.

Real processes and a real coordinator, as in `test_spares.py`, with the limits that the product has. A kill is SIGKILL
to a rank, to a spare, or to all ranks at once; SIGSTOP to a rank; the error of a GPU; or the death of a rank in one of
three moments of a save. Between the kills one rank does what healthy ranks do and what takes long. As Ray does, a
successor is started for each lost process. At the end every loss is held against a run that nothing disturbed, every
restored step against the newest checkpoint that had been announced, and every loss of a member against the kills:
whoever was fenced and not harmed was healthy. `hyperpod-ray local rehearse ENV --kills N --spares N` does the same
in a real Ray, ten times slower.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from conftest import WORKER_ENVIRONMENT, forking
from spares_helpers import Party, alive

from hyperpod_ray_training import Settings
from hyperpod_ray_training.spares.members import Limits

# what is done, and how often; the middle of a checkpoint three ways (see hyperpod_ray_training/faults.py)
KINDS = {
    "kill": 5, "spare": 1, "all": 2, "stop": 1, "die-before-shard": 2, "die-after-shard": 2, "die-before-metadata": 2,
}  # fmt: skip
KINDS["gpu-error"] = 2
PHASES = ("evaluate", "sleep", "recompile", "read", "lock", "save")
"""What one rank does while the others wait for it: it computes, sleeps, holds Python's lock as a long call of C does,
compiles, waits for a loader, or for its storage."""
PHASE_S = 12.0
KINDS_OF_NODES = {"node": 3, "all": 1, "kill": 1}
EVERY = 5


class Soak:
    """One run and its kills."""

    def __init__(
        self, forker: subprocess.Popen[str], folder: Path, *, kills: int, seed: int, per_node: int, healthy_every: int
    ) -> None:
        self.active, self.spares = 2 * per_node, 3 if per_node == 1 else 2 * per_node
        self.kinds = KINDS if per_node == 1 else KINDS_OF_NODES
        self.dice, self.kills, self.folder = random.Random(seed), kills, folder
        self.steps, self.healthy_every = 20 * kills, healthy_every
        self.harmed: set[int] = set()
        self.phases: Counter[str] = Counter()
        self.party = Party(
            forker, folder, "soak", every=EVERY, active=self.active, per_node=per_node, spares=self.spares,
            steps=self.steps, step_s=0.02, gates=[self.steps - 5],
            limits=Limits.of(Settings()), settings={"silence_s": Settings().silence_s, "hang_s": Settings().hang_s,
            "process_group_timeout_s": Settings().process_group_timeout_s}, product_limits=True, phase_s=PHASE_S,
        )  # fmt: skip
        self.next = 0
        self.seen = dict.fromkeys(self.kinds, 0)

    def refill(self) -> None:
        """As many processes as at the start."""
        living = sum(alive(pid) for pid in self.party.pids.values())
        missing = self.active + self.spares - living
        if missing > 0:
            self.party.start(missing, first=self.next)
            self.next += missing

    def one(self, number: int) -> None:
        """Wait until training goes on and a spare is warm, then kill."""
        party, dice = self.party, self.dice
        generations = len(party.events("generation"))
        party.until(self.covered, seconds=600)
        if self.healthy_every and number % self.healthy_every == 0:
            self.healthy()
        due = self.newest() + dice.randint(1, 8)
        party.until(lambda: self.newest() >= due)
        kind = dice.choices(list(self.kinds), weights=list(self.kinds.values()))[0]
        self.seen[kind] += 1
        ranks = party.rank_pids()
        if kind.startswith("die") or kind == "gpu-error":
            rank = 0 if kind == "die-before-metadata" else dice.randrange(2)
            faults = party.url / "faults"
            faults.mkdir(exist_ok=True)
            flag = faults / f"{kind}-rank-{rank}"
            self.harmed.add(ranks[rank])
            flag.touch()
            party.until(lambda: not flag.exists())
        elif kind == "spare":
            idle = [pid for pid in party.pids.values() if alive(pid) and pid not in ranks.values()]
            victim = dice.choice(idle)
            self.harmed.add(victim)
            os.kill(victim, signal.SIGKILL)
        else:
            victims = self.victims(kind, ranks)
            self.harmed |= set(victims)
            for pid in victims:
                os.kill(pid, signal.SIGSTOP if kind == "stop" else signal.SIGKILL)
        if kind != "spare":
            party.until(lambda: self.formed(generations))
        if kind == "stop":
            party.until(lambda: not alive(victims[0]))  # the process beside it obeys the fence
        self.refill()

    def newest(self) -> int:
        """The newest step."""
        return max((event["step"] for event in self.party.events("step")), default=0)

    def healthy(self) -> None:
        """One rank does something long; nobody may be lost by it."""
        phase = self.dice.choice(PHASES)
        self.phases[phase] += 1
        flag = self.folder / f"do-{phase}-rank-{self.dice.randrange(self.active)}"
        flag.touch()
        self.party.until(lambda: not flag.exists())
        done = self.newest() + 3  # the step under way may be another rank's
        self.party.until(lambda: self.newest() >= done)

    def covered(self) -> bool:
        """Whether training goes on, with a warm spare, or with as many as all nodes have ranks."""
        self.refill()
        assert self.party.coordinator is not None
        table = self.party.coordinator.table
        return bool(table.running and table.warm_spares >= (1 if self.active == 2 else self.active))

    def formed(self, generations: int) -> bool:
        """Whether a generation has formed since; a process that ends by itself meanwhile gets a successor too."""
        self.refill()
        return len(self.party.events("generation")) > generations

    def victims(self, kind: str, ranks: dict[int, int]) -> list[int]:
        """The processes that a kill hits."""
        if kind == "all":
            return list(ranks.values())
        if kind == "node":
            holders = self.party.events("generation")[-1]["ranks"].values()
            node = self.dice.choice(sorted({holder["node"] for holder in holders}))
            return [holder["pid"] for holder in holders if holder["node"] == node]
        return [ranks[self.dice.randrange(self.active)]]

    def run(self) -> dict[str, Any]:
        """All kills, and what became of them."""
        self.refill()
        for number in range(1, self.kills + 1):
            self.one(number)
            if number % 10 == 0:
                sys.stdout.write(f"{number} kills, step {max(e['step'] for e in self.party.events('step'))}\n")
                sys.stdout.flush()
        (self.folder / f"go-{self.steps - 5}").touch()
        self.party.until(lambda: self.party.events("done"), seconds=3600)
        return self.judge()

    def off(self, calm: dict[int, float]) -> int:
        """Steps whose last loss is not that of the undisturbed run."""
        return sum(losses[-1] != calm.get(step) for step, losses in self.party.losses().items())

    def fenced_healthy(self) -> list[str]:
        """The ranks that were lost and that nobody had harmed."""
        fenced = []
        for event in self.party.events("lost"):
            before = [generation for generation in self.party.events("generation") if generation["t"] <= event["t"]]
            holder = before[-1]["ranks"].get(str(event["rank"]), {}) if before else {}
            if event["rank"] is not None and holder.get("pid") not in self.harmed:
                fenced.append(f"rank {event['rank']}: {event['message']}")
        return fenced

    def judge(self) -> dict[str, Any]:
        """Checkpoints lost, steps that differ."""
        losses = self.party.losses()
        different = sum(len(set(values)) > 1 for values in losses.values())
        lost, saved, memory = 0, 0, 0
        lines = (self.party.url / "events.jsonl").read_text().splitlines()
        for event in map(json.loads, lines):
            if event["kind"] == "save":
                saved = max(saved, event["step"])
            elif event["kind"] == "restore":
                memory += event["path"] == "memory"
                lost += event["step"] < saved
        unfinished = [path.name for path in self.party.url.glob("step-*") if not (path / ".metadata").exists()]
        return {
            "kills": self.seen, "restores": len(self.party.events("restore")), "from_memory": memory,
            "checkpoints_lost": lost, "steps": len(losses), "steps_missing": self.steps - len(losses),
            "steps_done_again": sum(len(values) - 1 for values in losses.values()), "steps_different": different,
            "healthy_phases": dict(self.phases), "healthy_fenced": self.fenced_healthy(),
            "unfinished_folders": len(unfinished), "final_loss": losses[self.steps][-1],
        }  # fmt: skip


def truth(forker: subprocess.Popen[str], folder: Path, soak: Soak) -> dict[int, float]:
    """The losses of a run that nothing disturbs."""
    calm = Party(forker, folder, "calm", active=soak.active, spares=0, steps=soak.steps, step_s=0.0, every=10**6)
    try:
        calm.start(soak.active)
        calm.until(lambda: calm.events("done"), seconds=3600)
        return {step: losses[0] for step, losses in calm.losses().items()}
    finally:
        calm.close()


def main(argv: list[str]) -> int:
    """0 where nothing was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ranks-per-node", type=int, default=1, help="of two nodes; more than 1 kills whole nodes")
    parser.add_argument("--healthy-every", type=int, default=4, metavar="KILLS", help="a long phase so often; 0: never")
    parser.add_argument("--log", metavar="FILE", help="what the workers have said")
    options = parser.parse_args(argv)
    started = time.monotonic()
    with forking("spare_worker.py", **WORKER_ENVIRONMENT) as forker, tempfile.TemporaryDirectory() as folder:
        soak = Soak(forker, Path(folder), kills=options.kills, seed=options.seed, per_node=options.ranks_per_node,
                    healthy_every=options.healthy_every)  # fmt: skip
        try:
            found = soak.run()
            found["steps_different"] += soak.off(truth(forker, Path(folder), soak))
        finally:
            if options.log:
                Path(options.log).write_text(soak.party.log())
            soak.party.close()
    found |= {"seed": options.seed, "seconds": round(time.monotonic() - started), "load": round(os.getloadavg()[0], 1)}
    sys.stdout.write(json.dumps(found) + "\n")
    bad = (
        found["healthy_fenced"]
        or found["checkpoints_lost"]
        or found["steps_different"]
        or found["steps_missing"]
        or found["unfinished_folders"]
    )
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
