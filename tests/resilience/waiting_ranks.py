"""Ranks of gloo on this machine, of which one is slow or leaves a collective out.

    waiting_ranks.py slow|out-of-step RANK WORLD PORT FOLDER

Each prints one line of JSON: what it had begun, or how often it waited.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from hyperpod_ray_training import flight

flight.record()

import torch  # noqa: E402  (the recorder is set up before)
import torch.distributed as dist  # noqa: E402

from hyperpod_ray_training.folder import RunFolder  # noqa: E402
from hyperpod_ray_training.spares.stance import Stance  # noqa: E402

STEPS, BEAT_S, WORK_S, SLOW_S = 40, 0.02, 0.03, 0.15


def compute(seconds: float) -> None:
    """Use the processor for so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(2000))


def out_of_step(rank: int, folder: str) -> dict[str, Any]:
    """Rank 2 leaves out the fourth collective."""
    for step in range(5):
        if rank == 2 and step == 3:
            break
        # a rank that waits for one that does not come stands here until the others give up
        dist.all_reduce(torch.ones(4), async_op=True) if step >= 3 else dist.all_reduce(torch.ones(4))
    return {"newest": flight.keep(RunFolder(folder), attempt="gen-3", rank=rank)}


def slow(rank: int) -> dict[str, Any]:
    """Rank 1 computes longer than the others, who wait for it in each step."""
    stance, beats, over = Stance(), list[dict[str, Any]](), threading.Event()
    step = 0

    def beat() -> None:
        while not over.wait(BEAT_S):
            now = time.monotonic()  # of one clock for all processes of a machine
            beats.append({"t": now, "rank": rank, "step": step, **stance.look(now)})

    thread = threading.Thread(target=beat)
    thread.start()
    for step in range(STEPS):  # noqa: B007  (the beats say it)
        compute(SLOW_S if rank == 1 else WORK_S)
        dist.all_reduce(torch.ones(4))
    over.set()
    thread.join()
    return {"beats": beats}


def main() -> None:
    scenario, rank, world, port, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    result = slow(rank) if scenario == "slow" else out_of_step(rank, folder)
    print(json.dumps(result), flush=True)
    store = dist.distributed_c10d._get_default_store()
    store.add("ended", 1)
    while store.add("ended", 0) < world:
        time.sleep(0.05)
    time.sleep(0.5 if rank == 0 else 0)  # the store goes with rank 0
    import os

    os._exit(0)  # a collective that never ends is under way


if __name__ == "__main__":
    main()
