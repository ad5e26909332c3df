"""How many workers the cluster can hold, asked before Ray is: Ray waits for a place without a word."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from hyperpod_ray_training.errors import InputError
from hyperpod_ray_training.journal import log


def placeable(nodes: Sequence[Mapping[str, Any]], resources: Mapping[str, float]) -> int:
    """How many workers of `resources` the living nodes could hold if they were empty."""
    total = 0
    for node in nodes:
        if node.get("Alive"):
            has = node.get("Resources", {})
            total += min(
                int((has.get(resource, 0.0) + 1e-9) // need) for resource, need in resources.items() if need > 0
            )
    return total


def wait_for_placement(*, min_workers: int, resources: Mapping[str, float], wait_s: float) -> None:
    """Wait until the cluster could hold the smallest size; InputError after `wait_s` with what it has instead."""
    import ray

    until, logged = time.monotonic() + wait_s, 0.0
    while (room := placeable(ray.nodes(), resources)) < min_workers:
        need = " + ".join(f"{amount:g} {resource}" for resource, amount in resources.items())
        if time.monotonic() >= until:
            raise InputError(
                f"workers: the cluster can hold {room} after {wait_s:g} s",
                expected=f"{min_workers}, of {need} each",
                fix="add nodes, ask for fewer workers or make the size elastic (MIN:MAX)",
            )
        if time.monotonic() - logged > 30:
            logged = time.monotonic()
            log(f"waiting for the cluster: it can hold {room} of {min_workers} workers ({need} each)")
        time.sleep(1.0)


def spares_with_room(*, workers: int, spares: int, resources: Mapping[str, float], wait_s: float) -> int:
    """As many of the spares as the cluster can hold beside the workers, after up to `wait_s` seconds for all of them.

    The run does not wait for a spare that has no place, and says so.
    """
    import ray

    until = time.monotonic() + wait_s
    while (room := placeable(ray.nodes(), resources)) < workers + spares and time.monotonic() < until:
        time.sleep(0.5)
    count = max(0, min(spares, room - workers))
    if count < spares:
        log(
            f"spares: {count} of {spares}, the cluster has room for {room} workers; a fault that no spare covers costs "
            "a restart from the checkpoint"
        )
    return count
