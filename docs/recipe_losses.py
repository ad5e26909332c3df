"""What the READMEs of `jobs/` expect: a table and the picture `loss.svg`, both of the losses in `loss.csv`.

`tests/resilience/test_recipes.py` runs each recipe with a tiny model, and compares its losses with that file.
"""

from __future__ import annotations

import csv
import re
from datetime import UTC, datetime
from pathlib import Path

from hyperpod_ray.ops.journal.record import Record, Step
from hyperpod_ray.ops.journal.run import Run
from hyperpod_ray.ops.journal.run_state import State
from hyperpod_ray.ops.runs import run_plot

JOBS = Path(__file__).resolve().parents[1] / "jobs"
COLUMNS = 5
"""Steps in the table, at most."""
_TABLE = re.compile(r"(?<=\(loss\.svg\)\n)\n\| step \|.*\n\|[-|]+\|\n\| loss \|.*\n")


def recipes() -> list[str]:
    """Folders with recorded losses."""
    return sorted(path.parent.name for path in JOBS.glob("*/loss.csv"))


def losses(recipe: str) -> list[tuple[int, float]]:
    """Step and loss, by step."""
    with (JOBS / recipe / "loss.csv").open(encoding="utf-8", newline="") as file:
        return [(int(row["step"]), float(row["loss"])) for row in csv.DictReader(file)]


def picture(recipe: str) -> str:
    """`loss.svg`, drawn as a run is."""
    steps = tuple(Step(t=0.0, step=step, value=loss) for step, loss in losses(recipe))
    run = Run(name=recipe, job="", cluster="", namespace="", state="done", at=datetime.fromtimestamp(0, UTC),
              record=Record(name=recipe, steps=steps))  # fmt: skip
    return run_plot.svg([State(training=run, checkpoints=())], title="Loss of the tiny model of the test")


def readme(recipe: str) -> str:
    """The README with the table of its recorded losses below the picture."""
    text = (JOBS / recipe / "README.md").read_text(encoding="utf-8")
    curve = losses(recipe)
    last = len(curve) - 1
    chosen = [curve[round(part * last / (COLUMNS - 1))] for part in range(COLUMNS)] if last >= COLUMNS else curve
    table = "\n".join(
        (
            "",
            f"| step | {' | '.join(str(step) for step, _ in chosen)} |",
            f"|{'---|' * (len(chosen) + 1)}",
            f"| loss | {' | '.join(f'{loss:.2f}' for _, loss in chosen)} |",
            "",
        )
    )
    return _TABLE.sub(lambda _: table, text)
