"""Pipelines and hybrid layers: by hand and by published counts, what is refused; the fabric of `nodes check`."""

from __future__ import annotations

import pytest

from hyperpod_ray.planner import (
    PlanError,
    agreement,
)
from tests.planner.pipeline_helpers import notes, outlook

# --- the bubble -------------------------------------------------------------------------------------------------------


def test_micro_batches_are_sequences_of_a_step_for_each_pipeline() -> None:
    look = outlook(parallel="tp=2,pp=4", batch_tokens="4194304", sequence=8192)
    assert look.micro_batches == 512 / (64 / 8)
    assert "stages waits" in notes(look)
    assert "Activations between stages take" in notes(look)
    assert "keeps 4 micro-batches" in notes(look)
    assert "stages waits" not in notes(outlook())


def test_an_interleaved_schedule_names_what_it_needs() -> None:
    assert "multiples of 4" in notes(outlook(parallel="pp=4,vp=2", batch_tokens=str(8192 * 16 * 5)))
    assert "do not divide" in notes(outlook(parallel="pp=4,vp=3"))
    assert "multiples" not in notes(outlook(parallel="pp=4,vp=2", batch_tokens=str(8192 * 16 * 8)))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("vp=2", "vp=2 without stages"), ("pp=33", "of 32 layers"), ("pp=16,vp=3", "of 32 layers"),
        ("pp=0", "--parallel: pp=0"), ("pp=2,pp=2", "at most once"), ("pp=3", "3 divides"), ("pp=9999", "up to 1024"),
    ],
)  # fmt: skip
def test_impossible_pipelines_are_refused(text: str, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        outlook(parallel=text)


# --- memory -----------------------------------------------------------------------------------------------------------


def test_memory_of_published_pipelines() -> None:
    points = [point for point in agreement.memories() if point.row.pp > 1]
    assert len(points) == 6
    assert all(point.inside for point in points)
    assert agreement.median_error(points) < 0.05


# --- hybrids ----------------------------------------------------------------------------------------------------------


# --- the fabric -------------------------------------------------------------------------------------------------------
