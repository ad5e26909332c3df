"""The planner against published figures: the counts that docs/plan-agreement.md shows, and what rows must have."""

from __future__ import annotations

import hashlib
import re

import pytest

from hyperpod_ray.planner import agreement, data, fitting, published, speed
from hyperpod_ray.planner.agreement import Point
from hyperpod_ray.planner.published import Row


@pytest.fixture(scope="module")
def steps() -> list[Point]:
    return agreement.steps()


@pytest.fixture(scope="module")
def runs() -> list[Point]:
    return agreement.runs()


def outside(points: list[Point]) -> list[Point]:
    return [point for point in points if point.kept_out]


# --- the rows ---------------------------------------------------------------------------------------------------------


def test_there_are_enough_rows_of_either_question() -> None:
    questions = [row.question for row in published.rows().values()]
    assert questions.count("steps") >= 200
    assert questions.count("run") >= 20
    assert len({row.source for row in published.rows().values()}) >= 20
    assert {row.source for row in published.rows().values()} == set(published.sources())


NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
UNITS = {"k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}


def printed(row: Row) -> set[float]:
    """Numbers of a printed figure, with and without the unit after them."""
    found: set[float] = set()
    for match in NUMBER.finditer(row.printed):
        value = float(match[0].replace(",", ""))
        unit = row.printed[match.end() : match.end() + 1]
        word = row.printed[match.end() :].strip().split(" ")[0]
        found |= {value, value * UNITS.get(unit, 1), value * {"trillion": 1e12}.get(word, 1)}
    return found


@pytest.mark.parametrize("name", published.rows())
def test_a_row_is_its_printed_figure(name: str) -> None:
    """The number that the planner uses is the one that is printed, but for hours that are GPUs × days."""
    row = published.rows()[name]
    figures = printed(row)
    for value in (row.tokens_per_second, row.tflops, row.mfu, row.memory_gib, row.tokens):
        assert value is None or value in figures, (row.printed, value)
    if row.gpu_hours is not None and row.gpu_hours not in figures:
        assert row.gpu_hours in {gpus * days * 24 for gpus in figures for days in figures}


def test_whole_runs_by_hand() -> None:
    """Tokens ÷ GPU hours ÷ 3,600, as published for Llama 3.1 8B and Llama 2 70B."""
    rows = published.rows()
    assert rows["run-llama-3.1-8b"].speed == pytest.approx(2854, abs=1)
    assert rows["run-llama-3-8b"].speed == pytest.approx(3205, abs=1)
    assert rows["run-llama-2-70b"].speed == pytest.approx(323, abs=1)
    assert rows["run-mpt-7b"].gpu_hours == 440 * 9.5 * 24


# --- the fit ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("question", ["steps", "run"])
def test_a_third_of_the_groups_is_kept_out_and_no_group_is_split(question: published.Question) -> None:
    rows = [row for row in published.rows().values() if row.question == question]
    kept = published.kept_out(question)
    known = {row.group for row in rows if not row.unseen}
    # the rule is a hash: about a third of the groups of any list
    assert len(known & kept) == pytest.approx(len(known) / 3, abs=3.5)
    assert {row.group for row in rows if row.unseen} <= kept
    for row in rows:
        digest = int(hashlib.sha256("/".join(row.group).encode()).hexdigest(), 16)
        assert (row.group in kept) == (row.unseen or digest % 3 == 0 or any(
            other.unseen for other in rows if other.group == row.group
        ))  # fmt: skip


def test_every_row_has_been_compared_with_its_source_or_with_transcriptions_of_it() -> None:
    """No figure is from memory alone; a quoted one is of a paper, which names its table."""
    rows = published.rows().values()
    assert {row.origin for row in rows} == {"read", "quoted"}
    assert sum(row.origin == "read" for row in rows) >= 200
    for row in rows:
        if row.origin == "quoted":
            assert "arxiv.org" in published.sources()[row.source].url or row.source == "mpt", row.what


# --- what it is worth -------------------------------------------------------------------------------------------------


def test_speeds_that_the_fit_has_not_seen(steps: list[Point]) -> None:
    kept = outside(steps)
    assert len(kept) >= 60
    assert agreement.coverage(kept) >= 0.8
    assert agreement.median_error(kept) <= 0.2
    chosen = [point for point in kept if not point.row.unseen]
    assert agreement.coverage(chosen) >= 0.8
    assert agreement.median_error(chosen) <= 0.2
    # not only where models are alike
    others = [point for point in kept if point.row.source != "foundry"]
    assert agreement.median_error(others) <= 0.2
    # 68 of 91 (75 %): fewer than 80 %, as rows of experts on Blackwell and row-wise FP8 lie together
    assert agreement.coverage(others) >= 0.74


def test_speeds_that_were_collected_when_the_model_stood(steps: list[Point], runs: list[Point]) -> None:
    """Nobody had them in view: they say what a reader's own row will meet. docs/plan-agreement.md shows them apart."""
    unseen = [point for point in steps if point.row.unseen]
    assert len(unseen) >= 50
    assert all(point.kept_out for point in unseen)
    assert agreement.coverage(unseen) >= 0.75
    assert agreement.median_error(unseen) <= 0.2
    whole = [point for point in runs if point.row.unseen]
    assert len(whole) >= 8
    assert agreement.coverage(whole) >= 0.8
    assert agreement.median_error(whole) <= 0.2


def test_whole_runs_that_the_fit_has_not_seen(runs: list[Point]) -> None:
    kept = outside(runs)
    assert len(kept) >= 8
    assert agreement.coverage(kept) >= 0.8
    assert agreement.median_error(kept) <= 0.2


def test_a_whole_run_is_no_faster_than_its_steps(steps: list[Point]) -> None:
    dense = [point.row for point in steps if not point.row.architecture.experts]
    for row in dense:
        at = fitting.setting(row)
        assert speed.whole(at).central <= speed.steps(at).central


def test_memory_of_published_runs() -> None:
    points = agreement.memories()
    assert len(points) >= 15
    assert agreement.median_error(points) <= 0.05
    assert agreement.median_error(outside(points)) <= 0.05
    assert agreement.median_error([point for point in points if point.row.pp > 1]) <= 0.05


def test_no_configuration_that_ran_is_called_impossible() -> None:
    ran = agreement.ran()
    assert len(ran) > 140
    assert [name for name, _, fit in ran if fit.verdict == "no"] == []
    verdicts = {name: fit.verdict for name, _, fit in ran}
    assert verdicts["foundry-7b-65536-8-h100-80gb"] == "probably"
    assert verdicts["foundry-30b-8192-8-h100-80gb"] == "probably"


def test_a_verdict_never_contradicts_its_figures() -> None:
    for _, _, fit in agreement.ran():
        low, central, high = fit.span
        assert low <= central <= high
        assert {
            "yes": high <= fit.usable,
            "probably": central <= fit.usable < high,
            "fused": low <= fit.usable < central,
            "no": fit.usable < low,
        }[fit.verdict]


def test_what_did_not_run_is_not_promised() -> None:
    """torchtitan, docs/performance.md of 2024-07, note 1: Llama 2 70B on 64 A100 with selective recomputation.

    It runs with one sequence, and runs out of memory with two.
    """
    rows = published.rows()
    one = agreement.fit_of(rows["titan-a100-7"])
    two = agreement.fit_of(rows["titan-a100-7"].model_copy(update={"sequences_per_gpu": 2}))
    assert one.verdict != "no"
    assert two.verdict != "yes"
    assert two.total > one.total


def test_rows_by_kind_say_what_is_carried_over() -> None:
    assert data.speed().rows["Hopper/bf16/pytorch/dense"] > 50
    assert "Blackwell/bf16/pytorch/dense" not in data.speed().rows
