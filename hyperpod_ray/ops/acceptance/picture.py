"""The picture of an acceptance test, as SVG: bars of each node, what is expected as a line. It needs matplotlib."""

from __future__ import annotations

from hyperpod_ray.ops import output
from hyperpod_ray.ops.acceptance.verdict import Expected, Report
from hyperpod_ray.planner.pictures import COLOURS, LOSSES, SETTINGS, svg_of

PANELS = (
    ("tflops", "compute, TFLOP/s", "tflops"), ("memory_gb_s", "memory, GB/s", ""),
    ("write_gb_s", "files written, GB/s", ""), ("pair_gb_s", "best pair, GB/s", "network_gb_s"),
)  # fmt: skip
BAR = {"good": COLOURS["low"], "faulty": COLOURS["high"], "busy": LOSSES["waiting"]}


def draw(report: Report, expected: Expected, *, title: str) -> str:
    """The picture."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.use("Agg")
    nodes = report.nodes
    with matplotlib.rc_context({**SETTINGS, "svg.hashsalt": "check"}):
        figure = Figure(figsize=(11, 1.6 + 0.32 * len(nodes)), layout="constrained")
        axes = figure.subplots(1, len(PANELS), sharey=True)
        for panel, (name, label, limit) in zip(axes, PANELS, strict=True):
            for index, node in enumerate(nodes):
                value = getattr(node, name)
                panel.barh(index, value or 0.0, color=BAR[node.state], height=0.6)
                panel.text(
                    value or 0.0,
                    index,
                    f" {output.figure(value)}" if value is not None else " not measured",
                    va="center",
                    fontsize=8,
                )
            should = getattr(expected, limit) if limit and report.cuda else None
            if should:
                panel.axvline(should, color="black", linewidth=0.9, linestyle="--")
            panel.set(xlabel=label)
            panel.margins(x=0.3)
        axes[0].set_yticks(range(len(nodes)), [f"{node.name} ({node.state})" for node in nodes])
        axes[0].invert_yaxis()
        figure.suptitle(title, fontsize=11, fontweight="bold")
        return svg_of(figure)
