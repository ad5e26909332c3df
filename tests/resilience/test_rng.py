"""Random numbers of a rank: captured, continued, and new ones at another world size."""

from __future__ import annotations

import random

import numpy as np
import torch

from hyperpod_ray_training import rng

CPU = torch.device("cpu")


def draw() -> tuple[float, float, float]:
    return random.random(), float(np.random.rand()), float(torch.rand(()))


def test_every_generator_continues() -> None:
    saved = rng.capture(CPU)
    first = draw()
    assert all(a != b for a, b in zip(first, draw(), strict=True))
    rng.restore(saved, CPU)
    assert draw() == first


def test_capturing_draws_nothing() -> None:
    saved = rng.capture(CPU)
    rng.capture(CPU)
    first = draw()
    rng.restore(saved, CPU)
    assert draw() == first


def test_new_streams_depend_on_seed_step_and_rank_alone() -> None:
    seen: dict[tuple[int, int, int], tuple[float, float, float]] = {}
    for key in [(0, 10, 0), (0, 10, 1), (0, 11, 0), (1, 10, 0), (0, 10, 0)]:
        seed, step, rank = key
        rng.reseed(seed=seed, step=step, rank=rank)
        drawn = draw()
        assert seen.setdefault(key, drawn) == drawn
    for values in zip(*seen.values(), strict=True):
        assert len(set(values)) == len(seen)
