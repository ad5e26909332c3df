"""Draw the recorded figures of `recovery.py`: `.venv-rehearsal/bin/python benchmarks/recovery_picture.py`."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

FIGURES = Path(__file__).with_name("recovery_figures.json")
PICTURE = FIGURES.parents[1] / "docs" / "recovery-times.svg"
NAMES = {
    "worker": "worker killed", "node": "node lost", "freeze": "node frozen", "hang": "rank hangs",
    "drain": "node drained",
}  # fmt: skip
COLOURS = ("#1a7f37", "#6e7781", "#bf8700", "#cf222e")
WAITED_S = 120.0


def medians() -> dict[str, dict[str, float | None]]:
    """Of each way and fault; None where it did not come back while somebody waited."""
    ways: dict[str, Any] = json.loads(FIGURES.read_text(encoding="utf-8"))["ways"]
    return {
        way: {
            fault: None if None in values else statistics.median(values) for fault, values in found["seconds"].items()
        }
        for way, found in ways.items()
    }


def main() -> None:
    """Write the picture."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams |= {"svg.hashsalt": "recovery", "svg.fonttype": "none", "font.size": 9}
    import matplotlib.pyplot as plt

    found = medians()
    figure, axes = plt.subplots(figsize=(8, 4.6), layout="constrained")
    height = 0.8 / len(found)
    for index, (way, seconds) in enumerate(found.items()):
        for row, fault in enumerate(NAMES):
            value = seconds[fault]
            at = row + (index - (len(found) - 1) / 2) * height
            axes.barh(at, value or WAITED_S, height * 0.9, color=COLOURS[index], label=way if not row else None)
            text = f"{value:.1f} s" if value else f"not within {WAITED_S:.0f} s"
            axes.text((value or WAITED_S) * 1.06, at, text, va="center", fontsize=7)
    axes.set_yticks(range(len(NAMES)), list(NAMES.values()))
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(0.3, 500)
    axes.set_xticks([0.5, 1, 2, 5, 10, 20, 50, 100], ["0.5", "1", "2", "5", "10", "20", "50", "100"])
    axes.minorticks_off()
    axes.set_xlabel("seconds without a new step (logarithmic)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.12), ncols=4, frameon=False)
    figure.savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
