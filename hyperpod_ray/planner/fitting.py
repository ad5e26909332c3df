"""Fits the speed model to published rows: `python -m hyperpod_ray.planner.fitting` writes `data/speed.yaml`.

The fit is deterministic. It sees about two thirds of the groups of rows (`published.kept_out`); a group is a source, a
model and an accelerator, so that no row is judged by its sister. Each group weighs the same. The
constants of the arithmetic are chosen from short lists of possible values, the factors by least squares of logarithms
with a small ridge.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hyperpod_ray.planner import data, published, speed
from hyperpod_ray.planner.data import Fit
from hyperpod_ray.planner.published import Row

FILE = Path(__file__).parent / "data" / "speed.yaml"
RIDGE = 0.3
ROUNDS = 4
CHOICES: dict[str, tuple[float, ...]] = {
    "A100": (1.0, 1.5, 2.0, 2.5), "Hopper": (1.5, 2.0, 2.5, 3.0, 4.0), "megatron": (1.0, 1.5, 2.0),
    "fp8": (1.2, 1.3, 1.4, 1.5), "fp8_experts": (1.0, 1.1, 1.2), "selective": (1.0, 1.1), "full": (1.1, 1.2, 1.33),
}  # fmt: skip
SLOWER = frozenset({"GPUs", "context parallel", "split layers", "stages"})
"""Features that cannot make a step faster: the fit omits one whose coefficient would say so."""
UNKNOWN_GPUS = 1024
"""GPUs of a whole run whose source does not give them."""


def setting(row: Row) -> speed.Setting:
    """What the speed of a row depends on."""
    return speed.Setting(
        model=row.architecture, gpu=row.gpu, sequence=row.sequence, gpus=row.gpus or UNKNOWN_GPUS,
        precision=row.precision, stack=row.stack, recompute=row.recompute, lora=row.method == "lora",
        parallel=row.parallel, micro_batches=row.stage_micro_batches,
        early=row.published < "2023",
    )  # fmt: skip


def uninterrupted(gpus: int) -> float:
    """Share of time that published runs of a size had without interruptions, as the planner takes it.

    The central rate, and half an hour lost for each; at least 0.9, which arXiv 2407.21783 reports for 16,384 GPUs.
    """
    table = data.failures()
    rate = table.observations[table.levels["central"]].per_thousand / 1000 * gpus / table.gpus_per_node
    return max(0.9, 1 - rate * 0.5 / 24)


def fit() -> Fit:
    """The fit of all rows that are not kept out."""
    outside = published.kept_out("steps")
    rows = [row for row in published.rows().values() if row.question == "steps" and row.group not in outside]
    choice = {name: values[len(values) // 2] for name, values in CHOICES.items()}
    for _ in range(ROUNDS):
        for name, values in CHOICES.items():
            choice[name] = min(values, key=lambda value: _loss(rows, {**choice, name: value}))
    base = _constants(choice)
    coefficients = _solve(rows, base)
    spread = _spread(rows, base)
    fitted = base.model_copy(update={"steps": coefficients, "spread": spread, "rows": _kinds()})
    run, run_spread = _runs(fitted)
    return fitted.model_copy(update={"run": run, "run_spread": run_spread})


def _kinds() -> dict[str, int]:
    rows = (row for row in published.rows().values() if row.question == "steps")
    return dict(sorted(Counter(setting(row).likeness for row in rows).items()))


def _constants(choice: Mapping[str, float]) -> Fit:
    return Fit(
        attention={"A100": choice["A100"], "Hopper": choice["Hopper"], "Blackwell": choice["Hopper"],
                   "megatron": choice["megatron"]},
        fp8=choice["fp8"], fp8_experts=choice["fp8_experts"],
        recompute={"none": 1.0, "selective": choice["selective"], "full": choice["full"]},
        steps={}, spread={}, run={}, run_spread=1.0, rows={},
    )  # fmt: skip


def _loss(rows: Sequence[Row], choice: Mapping[str, float]) -> float:
    base = _constants(choice)
    coefficients = _solve(rows, base)
    weights = _weights(rows)
    return sum(weight * _residual(row, base, coefficients) ** 2 for row, weight in zip(rows, weights, strict=True))


def _weights(rows: Sequence[Row]) -> list[float]:
    count = Counter(row.group for row in rows)
    return [1 / count[row.group] for row in rows]


def _target(row: Row, base: Fit) -> float:
    at = setting(row)
    return math.log(row.speed * at.work(base) / at.rate)


def _residual(row: Row, base: Fit, coefficients: Mapping[str, float]) -> float:
    features = setting(row).features
    return _target(row, base) - sum(coefficients[name] * value for name, value in features.items())


def _solve(rows: Sequence[Row], base: Fit) -> dict[str, float]:
    features = [setting(row).features for row in rows]
    return least_squares(features, [_target(row, base) for row in rows], _weights(rows))


def _spread(rows: Sequence[Row], base: Fit) -> dict[str, float]:
    """Spread of rows that a fit of the others predicts.

    A reader's software is none of the sources: dense rows are omitted by source, and each source weighs the same. Rows
    of experts come from too few sources, and are omitted by group.
    """
    return {
        "dense": _omitted(rows, base, [row for row in rows if not row.architecture.experts], lambda row: row.source),
        "experts": _omitted(rows, base, [row for row in rows if row.architecture.experts], lambda row: row.group),
    }


def _omitted(rows: Sequence[Row], base: Fit, judged: Sequence[Row], part: Callable[[Row], object]) -> float:
    squares = []
    for name in dict.fromkeys(map(part, judged)):
        rest = _solve([row for row in rows if part(row) != name], base)
        members = [row for row in judged if part(row) == name]
        squares.append(sum(_residual(row, base, rest) ** 2 for row in members) / len(members))
    return math.sqrt(sum(squares) / len(squares))


def _runs(fitted: Fit) -> tuple[dict[str, float], float]:
    outside = published.kept_out("run")
    rows = [row for row in published.rows().values() if row.question == "run" and row.group not in outside]
    features = [speed.run_features(setting(row)) for row in rows]
    targets = [math.log(row.speed / steps_of(row, fitted) / uninterrupted(row.gpus or UNKNOWN_GPUS)) for row in rows]
    coefficients = least_squares(features, targets, [1.0] * len(rows))
    squares = []
    for index in range(len(rows)):
        keep = [row_index for row_index in range(len(rows)) if row_index != index]
        rest = least_squares(
            [features[row_index] for row_index in keep], [targets[row_index] for row_index in keep], [1.0] * len(keep)
        )
        squares.append((targets[index] - sum(rest[name] * value for name, value in features[index].items())) ** 2)
    return coefficients, math.sqrt(sum(squares) / len(squares))


def steps_of(row: Row, fitted: Fit) -> float:
    """Tokens per second of one GPU in steps alone, as a fit predicts them for a row."""
    at = setting(row)
    logarithm = sum(fitted.steps[name] * value for name, value in at.features.items())
    return math.exp(logarithm) * at.rate / at.work(fitted)


def least_squares(
    features: Sequence[Mapping[str, float]], targets: Sequence[float], weights: Sequence[float]
) -> dict[str, float]:
    """Coefficients by name, with a ridge on all but the constant; none of `SLOWER` is positive."""
    omitted: set[str] = set()
    while True:
        rest = [{name: value for name, value in row.items() if name not in omitted} for row in features]
        coefficients = _least_squares(rest, targets, weights)
        wrong = [name for name, value in coefficients.items() if name in SLOWER and value > 0]
        if not wrong:
            return {name: coefficients.get(name, 0.0) for name in features[0]}
        omitted.add(max(wrong, key=lambda name: coefficients[name]))


def _least_squares(
    features: Sequence[Mapping[str, float]], targets: Sequence[float], weights: Sequence[float]
) -> dict[str, float]:
    names = list(features[0])
    size = len(names)
    matrix = [[0.0] * (size + 1) for _ in range(size)]
    for row, target, weight in zip(features, targets, weights, strict=True):
        values = [row[name] for name in names]
        for i, left in enumerate(values):
            matrix[i][size] += weight * left * target
            for j, right in enumerate(values):
                matrix[i][j] += weight * left * right
    for i in range(size):
        matrix[i][i] += RIDGE if names[i] != "constant" else 0.0
    for i in range(size):
        pivot = max(range(i, size), key=lambda row: abs(matrix[row][i]))
        matrix[i], matrix[pivot] = matrix[pivot], matrix[i]
        for j in range(size):
            if j != i and matrix[j][i]:
                ratio = matrix[j][i] / matrix[i][i]
                matrix[j] = [one - ratio * other for one, other in zip(matrix[j], matrix[i], strict=True)]
    return {name: matrix[i][size] / matrix[i][i] for i, name in enumerate(names)}


HEAD = """# What `python -m hyperpod_ray.planner.fitting` makes of published.yaml; do not edit it.
# docs/plan-agreement.md judges it.
about:
  - what: "the fit of published training speeds"
    as_of: {day}
    source: "hyperpod_ray/planner/data/published.yaml, fitted by hyperpod_ray/planner/fitting.py"
    stale_after_days: 365

"""


def text() -> str:
    """The file."""
    import yaml

    fitted = fit().model_dump()
    day = max(source.as_of for source in published.sources().values())
    return HEAD.format(day=day) + yaml.safe_dump(_rounded(fitted), sort_keys=False, default_flow_style=None, width=120)


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    return round(value, 4) if isinstance(value, float) else value


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
