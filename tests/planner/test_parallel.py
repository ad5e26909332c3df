from __future__ import annotations

import pytest

from hyperpod_ray.planner import (
    agreement,
    architecture,
    memory,
    parallel,
)
from hyperpod_ray.planner.parallel import Parallel
from tests.planner.pipeline_helpers import notes, outlook


def test_expert_parallelism_gathers_fewer_experts() -> None:
    model = architecture.named("qwen3-30b-a3b")
    alone, eight = (
        memory.parts(model, world=64, tokens=4096, recompute="full", parallel=Parallel(expert=degree))
        for degree in (1, 8)
    )
    experts = 128 * 3 * 2048 * 768
    assert alone["gathered layers"] - eight["gathered layers"] == pytest.approx(2 * 2 * experts * 7 / 8 / 2**30)
    assert alone["optimizer"] == eight["optimizer"]
    assert alone["activations"] == eight["activations"]


def test_splits_share_what_they_split() -> None:
    model = architecture.named("llama-3.1-70b")
    alone = memory.parts(model, world=64, tokens=32768, recompute="full")
    context = memory.parts(model, world=64, tokens=32768, recompute="full", parallel=Parallel(context=4))
    tensor = memory.parts(model, world=64, tokens=32768, recompute="full", parallel=Parallel(tensor=8))
    for name in ("activations", "logits"):
        assert context[name] == pytest.approx(alone[name] / 4)
    assert tensor["logits"] == pytest.approx(alone["logits"] / 8)
    assert tensor["gathered layers"] == pytest.approx(alone["gathered layers"] / 8)
    assert alone["activations"] / 8 < tensor["activations"] < alone["activations"]  # and buffers over its ranks
    assert alone["optimizer"] == context["optimizer"] == tensor["optimizer"]


def test_a_long_sequence_fits_with_context_parallelism_only() -> None:
    model = architecture.named("llama-3.1-8b")
    alone, split = (
        memory.fit(model, gpu="H100", world=64, tokens=131072, parallel=parallel.parse(text)) for text in ("", "cp=8")
    )
    assert (alone.verdict, split.verdict) == ("no", "yes")


@pytest.mark.parametrize(
    ("text", "layers", "micro_batches", "busy"),
    [
        ("pp=8", 128, 8, 8 / 15),  # 1F1B: (p - 1) of m + p - 1 are idle
        ("pp=8,vp=2", 128, 8, 8 / 11.5),
        ("pp=4", 80, 1e9, 1.0),
        ("pp=8", 126, 8, 126 / 128 * 8 / 15),  # 16 layers in the largest stage, 15.75 in the mean
        ("tp=8", 80, 1, 1.0),
    ],
)
def test_the_share_of_a_step_that_a_stage_works(text: str, layers: int, micro_batches: float, busy: float) -> None:
    assert parallel.parse(text).busy(layers=layers, micro_batches=micro_batches) == pytest.approx(busy)


def test_interleaving_helps_as_torchtitan_measured() -> None:
    """405B on 512 H100, 8 stages: 100 tokens per second with 1F1B, 128 interleaved."""
    shares = [parallel.parse(text).busy(layers=128, micro_batches=8) for text in ("pp=8", "pp=8,vp=2")]
    assert shares[1] / shares[0] == pytest.approx(1.28, rel=0.03)


def test_a_stage_keeps_no_more_micro_batches_than_a_step_has() -> None:
    """405B, 8 stages, 8 micro-batches: interleaved would keep 11.5; torchtitan measured less than in 1F1B."""
    rows = {point.name: point.predicted.central for point in agreement.memories()}
    assert rows["titan-405b-interleaved"] == pytest.approx(rows["titan-405b-1f1b"])
    split = parallel.parse("pp=8,vp=2")
    assert [split.in_flight(), split.in_flight(8), split.in_flight(64)] == [11.5, 8, 11.5]
    few, many = (outlook(parallel="tp=2,pp=4,vp=2", batch_tokens=tokens) for tokens in ("131072", "4194304"))
    assert (few.in_flight, many.in_flight) == (2, 5.5)
    assert few.fit.parts["activations"] < many.fit.parts["activations"]
    assert "keeps 2 micro-batches" in notes(few)


def test_the_first_stage_keeps_as_many_micro_batches_as_there_are_stages() -> None:
    model = architecture.named("llama-3.1-70b")
    parts = {
        text: memory.parts(model, world=64, tokens=8192, recompute="none", parallel=parallel.parse(text))
        for text in ("", "pp=4", "pp=4,vp=4")
    }
    assert parts["pp=4"]["activations"] == pytest.approx(parts[""]["activations"])
    assert parts["pp=4,vp=4"]["activations"] == pytest.approx(parts[""]["activations"] * (1 + 3 / 16))
    assert parts["pp=4"]["gathered layers"] > 2 * parts[""]["gathered layers"]
    alone = memory.parts(model, world=4, tokens=8192, recompute="full", parallel=parallel.parse("pp=4"))
    assert alone["gradients"] == 0
