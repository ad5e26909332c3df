"""A second simulator, event by event and with a clock for each node: it shares no line with the product's."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable


def finish(  # noqa: PLR0912
    *,
    nodes: int,
    rate_per_node: float,
    every: float,
    stall: float,
    usable_after: float,
    restart: float,
    work_periods: int,
    spares: int,
    repair: float,
    seed: int,
) -> float:
    """Seconds until `work_periods` intervals are saved.

    Nodes are `nodes` places that hold a working node or wait for one. A working node fails by its own exponential
    clock. Steps need all places filled and then `restart` seconds. Each save is an event of its own: it begins after
    `every` seconds of steps, holds them for `stall`, and counts `usable_after` seconds after its beginning.
    """
    draw = random.Random(seed)
    now, idle, missing = 0.0, spares, 0
    queue: list[tuple[float, int, str, int]] = []
    number = 0

    def push(at: float, what: str, epoch: int) -> None:
        nonlocal number
        number += 1
        heapq.heappush(queue, (at, number, what, epoch))

    for _ in range(nodes):
        push(draw.expovariate(rate_per_node), "fail", 0)
    epoch = 0  # of one uninterrupted stretch of steps: events of an earlier one are void
    saved = begun = 0
    running = True
    push(every, "save", epoch)
    while True:
        now, _, what, of = heapq.heappop(queue)
        if what == "fail":
            epoch += 1
            running = False
            push(now + repair, "back", 0)
            if idle:
                idle -= 1
                push(now + draw.expovariate(rate_per_node), "fail", 0)
            else:
                missing += 1
            if not missing:
                push(now + restart, "ready", epoch)
        elif what == "back":
            if missing:
                missing -= 1
                push(now + draw.expovariate(rate_per_node), "fail", 0)
                if not missing and not running:
                    epoch += 1
                    push(now + restart, "ready", epoch)
            else:
                idle += 1
        elif of != epoch:
            continue
        elif what == "ready":
            running, begun = True, saved
            push(now + every, "save", epoch)
        elif what == "save":
            begun += 1
            push(now + usable_after, "usable", epoch)
            push(now + stall + every, "save", epoch)
        elif what == "usable":
            saved += 1
            if saved >= work_periods:
                return now


def finish_by_gaps(
    *,
    gap: Callable[[], float],
    every: float,
    stall: float,
    usable_after: float,
    restart: float,
    work_periods: int,
) -> float:
    """The same with interruptions of the whole job, whose gaps have any distribution; a node is there at once."""
    now, saved, fails = 0.0, 0, gap()
    while True:
        begin = now
        # the save number n begins after n intervals and the stalls before it, and counts when it is usable
        while begin + every + usable_after <= fails:
            saved += 1
            begin += every + stall
            if saved >= work_periods:
                return begin - stall + usable_after
        now = fails + restart
        fails += gap()
        while fails <= now:  # interrupted while it restarts: the restart begins again
            now = fails + restart
            fails += gap()
