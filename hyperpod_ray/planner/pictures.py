"""The pictures of a plan, as SVG: interval curve, lost time, finish dates, deploy. They need matplotlib."""

from __future__ import annotations

import io
from typing import Any

from hyperpod_ray.planner import decides, goodput
from hyperpod_ray.planner.answers import Plan
from hyperpod_ray.planner.failures import LEVELS
from hyperpod_ray.planner.ranges import DAY

COLOURS = {"low": "#1b7837", "central": "#2166ac", "high": "#b2182b"}
LOSSES = {"stall": "#4393c3", "redo": "#d6604d", "restart": "#f4a582", "waiting": "#878787"}
WORDS = {"stall": "saves", "redo": "steps done again", "restart": "restart", "waiting": "waiting for a node"}
SETTINGS: Any = {
    "svg.fonttype": "none", "svg.hashsalt": "plan", "font.family": "sans-serif", "font.size": 10,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25, "axes.axisbelow": True,
}  # fmt: skip


OVERVIEW = "Days, dollars and goodput, and what decides them"


def there() -> bool:
    """Whether pictures can be drawn."""
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def draw(report: Plan) -> dict[str, str]:
    """Caption → SVG, for what this plan has figures of."""
    import matplotlib

    matplotlib.use("Agg")
    with matplotlib.rc_context(SETTINGS):
        drawings = {"Goodput by interval between saves": _curve(report), "Where the time goes": _lost(report)}
        if drivers := decides.drivers(report.outlook) if report.fits else []:
            drawings[OVERVIEW] = _overview(report, drivers)
        if report.outcomes:
            drawings["When it ends"] = _finish(report)
        if report.deploy:
            drawings["Deploy of a new environment: critical path"] = _deploy(report)
    return drawings


def _figure(*, height: float = 3.2) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, height), layout="constrained")
    return figure, figure.subplots()


def _legend(figure: Any, *, title: str = "interruptions per 1,000 node-days") -> None:
    """Above the picture, where it covers nothing."""
    figure.legend(fontsize=8, title=title, title_fontsize=8, frameon=False, loc="outside upper left", ncols=5)


def svg_of(figure: Any) -> str:
    """A figure as an element of a page; the same figure gives the same text."""
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return "<svg" + stream.getvalue().partition("<svg")[2]


def _overview(report: Plan, drivers: list[decides.Driver]) -> str:
    """Three figures, and a bar for each span that moves the end."""
    outlook = report.outlook
    figure, axes = _figure(height=1.9 + 0.42 * len(drivers))
    central = drivers[0].days.central
    for index, driver in enumerate(drivers):
        low, high = driver.days.low, min(driver.days.high, 4 * central)
        axes.barh(index, high - low, left=low, color=COLOURS["central"] if index == 0 else LOSSES["stall"], height=0.6)
        axes.text(high, index, f" {low:.3g} to {driver.days.high:.3g}", va="center", fontsize=9)
    axes.axvline(central, color="black", linewidth=0.9, linestyle="--")
    axes.set_yticks(range(len(drivers)), [driver.name for driver in drivers])
    axes.invert_yaxis()
    earliest = min(driver.days.low for driver in drivers)
    latest = min(max(driver.days.high for driver in drivers), 4 * central)
    axes.set(xlabel="days to the end, one span moved at a time")
    axes.set_xlim(earliest - 0.05 * (latest - earliest), latest + 0.25 * (latest - earliest))
    figures = {answer.key: answer for answer in report.answers}
    words = figures["time"].head.rstrip(".")
    share = outlook.goodputs
    figure.suptitle(
        f"{words}\ngoodput {share.central:.2%} ({share.low:.2%} to {share.high:.2%})", fontsize=12, fontweight="bold"
    )
    return svg_of(figure)


def _curve(report: Plan) -> str:
    outlook = report.outlook
    figure, axes = _figure()
    for level in LEVELS:
        points = goodput.curve(outlook.run(level, only_rate=True))
        rate = outlook.rates.per_thousand[LEVELS.index(level)]
        axes.plot(
            [seconds / 60 for seconds, _ in points],
            [100 * share for _, share in points],
            color=COLOURS[level],
            label=f"{rate:.3g}",
        )
    best = outlook.interval
    axes.axvspan(best.low / 60, best.high / 60, color=COLOURS["central"], alpha=0.1, label="within 0.1 point")
    axes.axvline(outlook.every / 60, color="black", linewidth=0.8, linestyle="--", label="planned")
    axes.set(xscale="log", xlabel="minutes of training between two saves", ylabel="goodput, %")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    _legend(figure)
    return svg_of(figure)


def _lost(report: Plan) -> str:
    outlook = report.outlook
    figure, axes = _figure(height=2.4)
    labels = [f"{rate:.3g}" for rate in outlook.rates.per_thousand]
    offsets = [0.0, 0.0, 0.0]
    for name, colour in LOSSES.items():
        values = [100 * getattr(outlook.losses(level), name) for level in LEVELS]
        axes.barh(labels, values, left=offsets, color=colour, label=WORDS[name])
        offsets = [offset + width for offset, width in zip(offsets, values, strict=True)]
    axes.set(xlabel="lost time, % of all", ylabel="interruptions per\n1,000 node-days")
    _legend(figure, title="")
    return svg_of(figure)


def _finish(report: Plan) -> str:
    figure, axes = _figure()
    days = [report.outcomes[level].finish / DAY for level in LEVELS if level in report.outcomes]
    earliest, latest = min(float(outcome.min()) for outcome in days), max(float(outcome.max()) for outcome in days)
    edges = [earliest + (latest - earliest) * index / 120 for index in range(121)]
    for level in LEVELS:
        if level in report.outcomes:
            rate = report.outlook.rates.per_thousand[LEVELS.index(level)]
            axes.hist(
                report.outcomes[level].finish / DAY, bins=edges, color=COLOURS[level], alpha=0.55,
                label=f"{rate:.3g}",
            )  # fmt: skip
    axes.set(xlabel="days to the end, at the central speed", ylabel="simulated runs")
    _legend(figure)
    return svg_of(figure)


def _deploy(report: Plan) -> str:
    assert report.deploy is not None  # noqa: S101
    steps = report.deploy.path
    figure, axes = _figure(height=1.2 + 0.3 * (len(steps) + 1))
    start = 0.0
    for index, step in enumerate(steps):
        axes.barh(index, step.minutes.central, left=start, color=COLOURS["central"])
        axes.plot([start + step.minutes.low, start + step.minutes.high], [index, index], color="black", linewidth=0.8)
        start += step.minutes.central
    axes.barh(len(steps), report.deploy.nodes.central, color=LOSSES["waiting"])
    axes.plot([report.deploy.nodes.low, report.deploy.nodes.high], [len(steps)] * 2, color="black", linewidth=0.8)
    axes.set_yticks(range(len(steps) + 1), [_short(step.title) for step in steps] + ["GPU nodes take work"])
    axes.invert_yaxis()
    axes.set(xlabel="minutes from the start of the deploy; lines: low to high")
    return svg_of(figure)


def _short(title: str) -> str:
    return title if len(title) <= 44 else f"{title[:20]}…{title[-22:]}"
