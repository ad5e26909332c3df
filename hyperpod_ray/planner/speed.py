"""How fast it trains: the published range of a kind of GPU, or a figure that you measured."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from hyperpod_ray.planner import PlanError, architecture, data
from hyperpod_ray.planner.architecture import Architecture
from hyperpod_ray.planner.data import Speed
from hyperpod_ray.planner.ranges import Range


def share(observation: Speed) -> float:
    """The share of the dense bf16 rate that a published speed is, counted by `Architecture.flop_per_token`."""
    peak = next(data.gpus()[gpu].bf16_tflops for gpu, kind in data.speed_kinds().items() if kind == observation.gpu)
    if observation.tflops is not None:
        return observation.tflops / peak
    flop = architecture.named(observation.model).flop_per_token(observation.sequence)
    rate = observation.tokens_per_second
    if rate is None:
        if observation.tokens is None or observation.gpu_hours is None:
            raise ValueError(f"{observation.what}: give tokens_per_second, tokens with gpu_hours, or tflops")
        rate = observation.tokens / observation.gpu_hours / 3600
    return rate * flop / (peak * 1e12)


def shares(gpu: str) -> list[tuple[float, Speed]]:
    """Published shares of a kind of GPU, slowest first; empty where none is published."""
    kind = data.speed_kinds().get(gpu)
    return sorted(((share(one), one) for one in data.speeds() if one.gpu == kind), key=lambda pair: pair[0])


def tokens_per_second(model: Architecture, *, gpu: str, sequence: int) -> tuple[Range, str]:
    """Tokens per second of one GPU, and where the range is from.

    Raises:
        PlanError: no throughput is published for this kind.
    """
    found = shares(gpu)
    if not found:
        known = ", ".join(sorted(data.speed_kinds()))
        raise PlanError(
            f"no training throughput of {gpu} is published that this project trusts",
            expected=f"one of {known}",
            fix="measure a short run and give --tokens-per-second, per GPU",
        )
    peak = data.gpus()[gpu].bf16_tflops * 1e12
    values = [value for value, _ in found]
    range_ = Range(values[0], statistics.median(values), values[-1]).map(
        lambda value: value * peak / model.flop_per_token(sequence)
    )
    words = f"{values[0]:.0%} to {values[-1]:.0%} of {peak / 1e12:.0f} TFLOPS: {'; '.join(_sources(found))}"
    return range_, words


def _sources(found: list[tuple[float, Speed]]) -> Iterator[str]:
    for value, one in (found[0], found[-1]):
        yield f"{value:.0%} {one.what} ({one.source})"


def hidden_tokens(*, gpu: str, network_gbps: float) -> float:
    """Tokens per GPU and micro-step from which FSDP's traffic hides behind the arithmetic at the full bf16 rate.

    Weights are gathered twice in bf16 and gradients reduced in float32: 8 bytes per parameter enter each node, against
    6 FLOP per parameter and token on each GPU. The parameters cancel.
    """
    return 8 * data.gpus()[gpu].bf16_tflops * 1e12 / (6 * network_gbps / 8 * 1e9)
