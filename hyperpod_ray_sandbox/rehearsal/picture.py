"""A rehearsal's timeline as a picture: `python -m hyperpod_ray_sandbox.rehearsal.picture REPORT.json`.

Writes `timeline.svg` and `timeline.png` beside the report and prints their paths. Drawn from the report alone, so that
an old report can be drawn again.
"""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

# colour-blind safe (Okabe-Ito), dark enough on white
COLOURS = {
    "worker": "#0072b2",
    "node": "#d55e00",
    "freeze": "#8a5fa0",
    "hang": "#a0522d",
    "drain": "#00785a",
    "elastic": "#b8860b",
    "driver": "#c0397b",
    "head": "#333333",
}
WORDS = {
    "worker": "worker killed",
    "node": "node lost",
    "freeze": "node frozen",
    "hang": "rank hangs",
    "drain": "node drained",
    "elastic": "node lost, 1 worker continues",
    "driver": "driver killed",
    "head": "head lost",
}
RUN, AGAIN, PLAIN = "#1b4f72", "#e67e22", "#9aa5ad"
SHORT_NOTE = (
    "Not shown by a local rehearsal: NCCL and EFA (gloo on CPU here), FSx for Lustre's speed, Kubernetes itself, and "
    "real node replacement time: HyperPod needs minutes, a new pod here starts {delay:g} s after the loss."
)


def facts(report: dict[str, Any]) -> list[dict[str, Any]]:
    """What is drawn of each fault: where it hit, how long nothing ran, and its label. Pure, for tests."""
    start = report["started_t"]
    out = []
    for fault in report["faults"]:
        t = fault["t"] - start
        recovery, resumed = fault["recovery_s"], fault["resumed_after_s"]
        label = WORDS.get(fault["fault"], fault["fault"])
        if resumed is None:
            text = f"{label}\nnot survived"
        elif not fault["interrupted"]:
            text = f"{label}\nno interruption"
        else:
            lost = fault["steps_lost"]
            text = f"{label}\nback in {recovery:.1f} s\n{lost} step{'' if lost == 1 else 's'} lost"
        gap = None
        if resumed is None:
            gap = (t, report["seconds"])
        elif fault["interrupted"]:
            gap = (t + resumed - recovery, t + resumed)
        out.append({"kind": fault["fault"], "run": fault["run"], "t": t, "gap": gap, "text": text})
    return out


def pieces(steps: list[list[Any]], restores: list[list[Any]]) -> tuple[list[list[list[Any]]], list[list[Any]]]:
    """A run's steps cut at each restart, and the steps done a second time. Pure, for tests."""
    runs: list[list[list[Any]]] = []
    repeated, highest = [], 0
    for row in steps:
        previous = runs[-1][-1] if runs else None
        if previous is None or row[1] <= previous[1] or any(previous[0] < restore[0] < row[0] for restore in restores):
            runs.append([])
        runs[-1].append(row)
        if row[1] <= highest:
            repeated.append(row)
        highest = max(highest, row[1])
    return runs, repeated


def places(times: list[float], *, room: float, right_edge: float) -> list[float]:
    """Where labels `room` wide begin so that none overlaps or leaves the picture; moved as little as possible."""
    out: list[float] = []
    for t in times:
        out.append(max(t, out[-1] + room) if out else t)
    limit = right_edge - room
    for i in range(len(out) - 1, -1, -1):
        out[i] = min(out[i], limit)
        limit = out[i] - room
    return out


def draw(report: dict[str, Any], folder: Path) -> list[Path]:
    """Draw the report; the files written."""
    import matplotlib as mpl  # facts and pieces are tested without it

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    mpl.rcParams.update(
        {
            "font.family": "DejaVu Sans",
            "font.size": 10,
            "svg.hashsalt": "rehearse",
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    )
    line = report["timeline"]
    marks = facts(report)
    every = [row for run in line["runs"].values() for row in run["steps"]]
    if not every:
        raise ValueError("the report holds no step")
    begin, finish = min(row[0] for row in every), max(row[0] for row in every)
    span = max(finish - begin, 1.0)
    # each label needs room: the picture grows with the number of faults
    width = min(30.0, max(11.0, 2.1 * len(marks) + 4))
    figure, (top, bottom) = plt.subplots(2, 1, sharex=True, figsize=(width, 7.6), height_ratios=[1, 1.25])
    figure.subplots_adjust(left=0.75 / width, right=1 - 0.3 / width, top=0.775, bottom=0.2, hspace=0.12)

    for axis in (top, bottom):
        axis.grid(axis="y", color="#e6e9eb", linewidth=0.8)
        axis.set_axisbelow(True)
        for mark in marks:
            colour = COLOURS.get(mark["kind"], "#333333")
            if mark["gap"]:
                axis.axvspan(*mark["gap"], color=colour, alpha=0.13, linewidth=0)
            axis.axvline(mark["t"], color=colour, linewidth=1.4, linestyle=(0, (4, 2)))

    truth = dict(line["undisturbed"])
    for run in line["runs"].values():
        parts, repeated = pieces(run["steps"], run["restores"])
        for part in parts:
            top.plot(
                [r[0] for r in part],
                [truth.get(r[1]) for r in part],
                color=PLAIN,
                linewidth=5,
                alpha=0.45,
                solid_capstyle="round",
            )
            top.plot([r[0] for r in part], [r[2] for r in part], color=RUN, linewidth=1.5)
            bottom.plot([r[0] for r in part], [r[1] for r in part], color=RUN, linewidth=1.8)
        top.scatter([r[0] for r in repeated], [r[2] for r in repeated], s=12, color=AGAIN, zorder=4, linewidths=0)
        bottom.scatter([r[0] for r in repeated], [r[1] for r in repeated], s=12, color=AGAIN, zorder=4, linewidths=0)
        bottom.scatter(
            [s[0] for s in run["saves"]],
            [s[1] for s in run["saves"]],
            marker="s",
            s=26,
            facecolor="white",
            edgecolor=RUN,
            zorder=5,
        )
        bottom.scatter(
            [r[0] for r in run["restores"]],
            [r[1] for r in run["restores"]],
            marker="^",
            s=70,
            color="#00785a",
            zorder=6,
        )

    top.set_ylabel("training loss")
    bottom.set_ylabel("step")
    bottom.set_xlabel("seconds since the rehearsal began")
    ends = [mark["gap"][1] for mark in marks if mark["gap"]]
    bottom.set_xlim(begin - 0.02 * span, max([finish, *ends]) + 0.03 * span)
    bottom.set_ylim(bottom=0)
    _labels(top, marks, width=width)
    figure.suptitle(_title(report), x=0.75 / width, y=0.975, ha="left", fontsize=13, fontweight="bold")
    figure.text(0.75 / width, 0.922, _subtitle(report), ha="left", va="top", fontsize=9.5, color="#44505a")
    handles = [
        Line2D([], [], color=RUN, linewidth=1.8, label="this run"),
        Line2D([], [], color=PLAIN, linewidth=5, alpha=0.45, label="undisturbed run, same step"),
        Line2D([], [], color=AGAIN, marker="o", linestyle="", markersize=4, label="step done again"),
        Line2D([], [], color=RUN, marker="s", markerfacecolor="white", linestyle="", label="checkpoint complete"),
        Line2D([], [], color="#00785a", marker="^", linestyle="", markersize=8, label="resumed from checkpoint"),
        Line2D([], [], color="#555555", linestyle=(0, (4, 2)), label="fault"),
        Patch(color="#555555", alpha=0.15, label="no progress"),
    ]
    figure.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0.65 / width, 0.065),
        ncols=7 if width > 12.5 else 4,
        frameon=False,
        fontsize=9,
    )
    note = SHORT_NOTE.format(delay=report["settings"]["replace_after_s"])
    figure.text(
        0.75 / width,
        0.012,
        "\n".join(textwrap.wrap(note, int(width * 13))),
        ha="left",
        va="bottom",
        fontsize=8.5,
        color="#44505a",
    )

    out = [folder / "timeline.svg", folder / "timeline.png"]
    for path in out:
        figure.savefig(path, dpi=130, facecolor="white", metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)
    return out


def _labels(axis: Any, marks: list[dict[str, Any]], *, width: float) -> None:
    """Fault labels above the upper panel; neighbours too close are pushed apart and joined to their line."""
    left_edge, right_edge = axis.get_xlim()
    room = 1.75 / (width - 1.05) * (right_edge - left_edge)  # a label's width in seconds
    starts = places([mark["t"] for mark in marks], room=room, right_edge=right_edge)
    for mark, start in zip(marks, starts, strict=True):
        axis.annotate(
            mark["text"],
            xy=(mark["t"], 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(start, 1.09),
            textcoords=("data", "axes fraction"),
            ha="left",
            va="bottom",
            fontsize=8.8,
            linespacing=1.25,
            color=COLOURS.get(mark["kind"], "#333333"),
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": COLOURS.get(mark["kind"], "#333333"), "linewidth": 0.9,
                        "shrinkA": 0, "shrinkB": 0,
                        "relpos": (0, 0)},
        )  # fmt: skip


def _title(report: dict[str, Any]) -> str:
    count = len(report["faults"])
    outcome = "all survived" if report["survived"] else "NOT all survived"
    return (
        f"{report['job']} on environment {report['environment']}: {count} fault{'' if count == 1 else 's'}, {outcome}"
    )


def _subtitle(report: dict[str, Any]) -> str:
    parts = []
    for run in report["runs"]:
        if run["final_loss"] is None:
            parts.append(f"{run['status']}, no step")
        elif run["equal"]:
            parts.append(
                f"{run['status']}, final loss {run['final_loss']:.6f}, equal to the undisturbed run's to the last bit"
            )
        else:
            parts.append(
                f"{run['status']}, final loss {run['final_loss']:.6f}, "
                f"off the undisturbed run's by at most {run['largest_difference']:.1e}"
            )
    settings = report["settings"]
    parts.append(f"checkpoint every {settings['interval_steps']} steps")
    machine = report.get("machine") or {}
    if machine:
        parts.append(f"{machine['cores']} cores at load {machine['load']:g}")  # times mean little on a busy machine
    return "; ".join(parts)


def main(argv: list[str]) -> int:
    """Draw `argv[0]`."""
    source = Path(argv[0])
    for path in draw(json.loads(source.read_text(encoding="utf-8")), source.parent):
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
