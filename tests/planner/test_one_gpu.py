"""The memory of one GPU beside what one H100 was measured to take: `python -m benchmarks.gpu --only planner`."""

from __future__ import annotations

import pytest

from hyperpod_ray.planner import architecture, memory

PLAIN = [
    ("llama-3.2-1b", 1024, "none", 19.93),
    ("llama-3.2-1b", 2048, "none", 21.14),
    ("llama-3.2-1b", 4096, "none", 27.91),
    ("llama-3.2-1b", 8192, "none", 41.46),
    ("llama-3.2-3b", 1024, "none", 50.03),
    ("llama-3.2-3b", 2048, "none", 50.27),
    ("llama-3.2-3b", 4096, "none", 57.66),
    ("llama-3.2-3b", 8192, "full", 51.91),
]
COMPILED = [("llama-3.2-1b", 8192, 32.8), ("llama-3.2-3b", 4096, 61.12)]
"""Layers and loss compiled, four micro-batches a step."""


@pytest.mark.parametrize(("model", "tokens", "recompute", "gib"), PLAIN)
def test_a_plain_loop_takes_what_is_planned(model: str, tokens: int, recompute: memory.Recompute, gib: float) -> None:
    fit = memory.fit(
        architecture.named(model), gpu="H100", world=1, tokens=tokens, recompute=recompute, micro_batches=1
    )
    assert fit.total == pytest.approx(gib, rel=0.05)
    assert fit.span.low <= gib <= fit.span.high


@pytest.mark.parametrize(("model", "tokens", "gib"), COMPILED)
def test_gradients_of_earlier_micro_batches_stay(model: str, tokens: int, gib: float) -> None:
    shape = architecture.named(model)
    fits = {
        count: memory.fit(shape, gpu="H100", world=1, tokens=tokens, recompute="none", micro_batches=count)
        for count in (1, 2, 4)
    }
    assert fits[2].parts == fits[4].parts
    assert fits[2].parts["gradients"] == pytest.approx(4 * shape.parameters / 2**30)
    assert fits[1].parts["gradients"] < fits[2].parts["gradients"]
    assert fits[4].span.low <= gib <= fits[4].span.high, "a compiled loss and fused layers keep less"
    assert gib < fits[4].total
