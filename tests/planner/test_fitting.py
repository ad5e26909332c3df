from __future__ import annotations

import pytest

from hyperpod_ray.planner import data, fitting, published


@pytest.mark.slow
def test_the_fit_does_not_see_what_is_kept_out(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fitting.fit()
    rows = dict(published.rows())
    for name, row in rows.items():
        if row.question != "memory" and row.group in published.kept_out(row.question):
            scale = {"tokens_per_second": 9, "tflops": 9, "tokens": 9, "mfu": 2, "step_seconds": 9}
            change = {key: getattr(row, key) * by for key, by in scale.items() if getattr(row, key)}
            rows[name] = row.model_copy(update=change)
    monkeypatch.setattr(published, "rows", lambda: rows)
    assert fitting.fit() == before


@pytest.mark.slow
def test_the_file_is_the_fit_of_the_published_rows() -> None:
    assert fitting.text() == fitting.FILE.read_text(encoding="utf-8"), "Fix: python -m hyperpod_ray.planner.fitting"


def test_the_file_is_the_fit_with_its_own_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same without the search for the constants, which takes seconds."""
    recorded = data.speed()
    chosen = {
        "A100": recorded.attention["A100"], "Hopper": recorded.attention["Hopper"],
        "megatron": recorded.attention["megatron"], "fp8": recorded.fp8, "fp8_experts": recorded.fp8_experts,
        "selective": recorded.recompute["selective"], "full": recorded.recompute["full"],
    }  # fmt: skip
    assert all(chosen[name] in values for name, values in fitting.CHOICES.items())
    monkeypatch.setattr(fitting, "CHOICES", {name: (value,) for name, value in chosen.items()})
    assert fitting.text() == fitting.FILE.read_text(encoding="utf-8")


def test_what_cannot_make_a_step_faster_is_omitted() -> None:
    """More GPUs and a faster step go together in these rows: the fit says that GPUs do nothing."""
    features = [{"constant": 1.0, "GPUs": float(x), "stages": -float(x % 5)} for x in range(40)]
    targets = [2 + row["GPUs"] + row["stages"] for row in features]
    found = fitting.least_squares(features, targets, [1.0] * 40)
    assert found["GPUs"] == found["stages"] == 0
    assert found["constant"] == pytest.approx(sum(targets) / 40)


def test_a_row_weighs_as_its_weight_says() -> None:
    """A constant alone is the weighted mean."""
    found = fitting.least_squares([{"constant": 1.0}] * 3, [1.0, 2.0, 6.0], [1.0, 1.0, 2.0])
    assert found == pytest.approx({"constant": (1 + 2 + 12) / 4})


def test_least_squares_finds_a_plane() -> None:
    features = [{"constant": 1.0, "x": float(x), "y": float(x * x % 7)} for x in range(40)]
    targets = [2 + 3 * row["x"] - row["y"] for row in features]
    found = fitting.least_squares(features, targets, [1.0] * 40)
    assert found == pytest.approx({"constant": 2, "x": 3, "y": -1}, abs=0.02)
