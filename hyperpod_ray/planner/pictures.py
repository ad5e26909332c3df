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


def draw(made: Plan) -> dict[str, str]:
    """Caption → SVG, for what this plan has figures of."""
    import matplotlib

    matplotlib.use("Agg")
    with matplotlib.rc_context(SETTINGS):
        found = {"Goodput by interval between saves": _curve(made), "Where the time goes": _lost(made)}
        if drivers := decides.drivers(made.outlook) if made.fits else []:
            found[OVERVIEW] = _overview(made, drivers)
        if made.outcomes:
            found["When it ends"] = _finish(made)
        if made.deploy:
            found["Deploy of a new environment: critical path"] = _deploy(made)
    return found


def _figure(*, height: float = 3.2) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, height), layout="constrained")
    return figure, figure.subplots()


def _legend(figure: Any, *, title: str = "interruptions per 1,000 node-days") -> None:
    """Above the picture, where it covers nothing."""
    figure.legend(fontsize=8, title=title, title_fontsize=8, frameon=False, loc="outside upper left", ncols=5)


def _svg(figure: Any) -> str:
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return "<svg" + stream.getvalue().partition("<svg")[2]


def _overview(made: Plan, drivers: list[decides.Driver]) -> str:
    """Three figures, and a bar for each span that moves the end."""
    outlook = made.outlook
    figure, axes = _figure(height=1.9 + 0.42 * len(drivers))
    central = drivers[0].days.central
    for index, driver in enumerate(drivers):
        low, high = driver.days.low, min(driver.days.high, 4 * central)
        axes.barh(index, high - low, left=low, color=COLOURS["central"] if index == 0 else LOSSES["stall"], height=0.6)
        axes.text(high, index, f" {low:.3g} to {driver.days.high:.3g}", va="center", fontsize=9)
    axes.axvline(central, color="black", linewidth=0.9, linestyle="--")
    axes.set_yticks(range(len(drivers)), [driver.name for driver in drivers])
    axes.invert_yaxis()
    first = min(driver.days.low for driver in drivers)
    last = min(max(driver.days.high for driver in drivers), 4 * central)
    axes.set(xlabel="days to the end, one span moved at a time")
    axes.set_xlim(first - 0.05 * (last - first), last + 0.25 * (last - first))
    figures = {answer.key: answer for answer in made.answers}
    words = figures["time"].head.rstrip(".")
    share = outlook.goodputs
    figure.suptitle(
        f"{words}\ngoodput {share.central:.2%} ({share.low:.2%} to {share.high:.2%})", fontsize=12, fontweight="bold"
    )
    return _svg(figure)


def _curve(made: Plan) -> str:
    outlook = made.outlook
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
    return _svg(figure)


def _lost(made: Plan) -> str:
    outlook = made.outlook
    figure, axes = _figure(height=2.4)
    labels = [f"{rate:.3g}" for rate in outlook.rates.per_thousand]
    left = [0.0, 0.0, 0.0]
    for name, colour in LOSSES.items():
        values = [100 * getattr(outlook.losses(level), name) for level in LEVELS]
        axes.barh(labels, values, left=left, color=colour, label=WORDS[name])
        left = [one + other for one, other in zip(left, values, strict=True)]
    axes.set(xlabel="lost time, % of all", ylabel="interruptions per\n1,000 node-days")
    _legend(figure, title="")
    return _svg(figure)


def _finish(made: Plan) -> str:
    figure, axes = _figure()
    days = [made.outcomes[level].finish / DAY for level in LEVELS if level in made.outcomes]
    first, last = min(float(one.min()) for one in days), max(float(one.max()) for one in days)
    edges = [first + (last - first) * index / 120 for index in range(121)]
    for level in LEVELS:
        if level in made.outcomes:
            rate = made.outlook.rates.per_thousand[LEVELS.index(level)]
            axes.hist(
                made.outcomes[level].finish / DAY, bins=edges, color=COLOURS[level], alpha=0.55,
                label=f"{rate:.3g}",
            )  # fmt: skip
    axes.set(xlabel="days to the end, at the central speed", ylabel="simulated runs")
    _legend(figure)
    return _svg(figure)


def _deploy(made: Plan) -> str:
    assert made.deploy is not None  # noqa: S101
    steps = made.deploy.path
    figure, axes = _figure(height=1.2 + 0.3 * (len(steps) + 1))
    start = 0.0
    for index, step in enumerate(steps):
        axes.barh(index, step.minutes.central, left=start, color=COLOURS["central"])
        axes.plot([start + step.minutes.low, start + step.minutes.high], [index, index], color="black", linewidth=0.8)
        start += step.minutes.central
    axes.barh(len(steps), made.deploy.nodes.central, color=LOSSES["waiting"])
    axes.plot([made.deploy.nodes.low, made.deploy.nodes.high], [len(steps)] * 2, color="black", linewidth=0.8)
    axes.set_yticks(range(len(steps) + 1), [_short(step.title) for step in steps] + ["GPU nodes take work"])
    axes.invert_yaxis()
    axes.set(xlabel="minutes from the start of the deploy; lines: low to high")
    return _svg(figure)


def _short(title: str) -> str:
    return title if len(title) <= 44 else f"{title[:20]}…{title[-22:]}"
