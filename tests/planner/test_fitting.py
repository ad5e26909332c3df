from __future__ import annotations

import pytest

from hyperpod_ray.planner import fitting, published


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


def test_least_squares_finds_a_plane() -> None:
    features = [{"constant": 1.0, "x": float(x), "y": float(x * x % 7)} for x in range(40)]
    targets = [2 + 3 * row["x"] - row["y"] for row in features]
    found = fitting.least_squares(features, targets, [1.0] * 40)
    assert found == pytest.approx({"constant": 2, "x": 3, "y": -1}, abs=0.02)
