"""The runs of the page: figures, the picture, and the table of faults and recoveries."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from hyperpod_ray.core.amounts import dollars, duration, span
from hyperpod_ray.ops.journal.record import Interruption, Record, Sign, moment
from hyperpod_ray.ops.web import timeline
from hyperpod_ray.ops.web.html import figures, state, table, when
from hyperpod_ray.ops.web.view import RunLine, View

FAR_SECONDS = 400 * 86400
"""An end beyond that is no forecast."""


def runs(view: View) -> str:
    """All runs."""
    signs = [
        Sign(t=listed.time.timestamp(), kind="node", text=f"{listed.where}: {listed.what}")
        for listed in view.events
        if listed.level == "Error" and listed.time
    ]
    return "".join(_run(listed, view, signs) for listed in view.runs)


def _run(run: RunLine, view: View, signs: Sequence[Sign]) -> str:
    parts = [f'<article class="run"><h3>{escape(run.name)} {state(run.tone, run.state)}</h3>']
    if run.message:
        parts.append(f'<p class="note">{escape(run.message)}</p>')
    record = run.record
    parts.append(_figures(run, record, now=view.at.timestamp()))
    if record is None:
        parts.append(f'<p class="note">{escape(run.why_no_record)}</p>' if run.why_no_record else "")
        return "".join([*parts, "</article>"])
    drawn = timeline.draw(record, now=view.at.timestamp(), node_signs=signs, relative=view.relative)
    if drawn:
        parts.append(f"<figure>{drawn}{_legend(record, nodes=bool(signs))}</figure>")
    if record.interruptions:
        begin = record.begin or 0.0
        parts.append(
            table(
                "Faults and recoveries",
                (">No.", "Stopped", "What", ">No step for", ">Steps again", "Continued from"),
                (_interruption(number, interruption, begin=begin, relative=view.relative)
                 for number, interruption in enumerate(record.interruptions, record.first_number)),
            )
        )  # fmt: skip
    return "".join([*parts, "</article>"])


def _figures(run: RunLine, record: Record | None, *, now: float) -> str:
    """What one looks for first: how far, how fast, since when, what it costs."""
    pairs = _of_job(run) if record is None else _of_record(record, now=now)
    if run.usd is not None:
        hourly = f" (~{dollars(run.usd_per_hour)} an hour)" if run.usd_per_hour is not None else ""
        pairs.append(("cost so far", f"~{dollars(run.usd)}{hourly}"))
    if run.usd_per_useful_gpu_hour is not None:
        pairs.append(("a useful GPU-hour", f"~{dollars(run.usd_per_useful_gpu_hour)}"))
    return figures(pairs)


def _of_job(run: RunLine) -> list[tuple[str, str]]:
    """What the Jobs API says."""
    pairs = [("started", when(run.started)), ("ended", when(run.ended, ago=False))]
    pairs.append(("command", f"<code>{escape(run.command)}</code>" if run.command else ""))
    return [(name, text) for name, text in pairs if text]


def _of_record(record: Record, *, now: float) -> list[tuple[str, str]]:
    """What the run wrote about itself."""
    live = not record.ended
    pairs = []
    if record.step is not None:
        of = (
            f" of {record.total_steps:,} ({100 * record.step / record.total_steps:.0f} %)" if record.total_steps else ""
        )
        pairs.append(("step", f"{record.step:,}{of}"))
    if record.step_t is not None:
        pairs.append(("last step", when(moment(record.step_t), ago=live)))
    if record.value is not None:
        pairs.append((escape(record.metric), f"{record.value:.4g}"))
    rate, usual = record.recent_rate, record.usual_rate
    if rate is not None and usual is not None:
        pairs.append(("steps per second", f"{rate:.3g} (usual {usual:.3g})"))
    if record.checkpoint_step is not None:
        at = f", {when(moment(record.checkpoint_t), ago=live)}" if record.checkpoint_t else ""
        pairs.append(("last checkpoint", f"step {record.checkpoint_step:,}{at}"))
    if record.world:
        pairs.append(("workers", f"{record.world:,}"))
    if record.goodput is not None:
        pairs.append(("goodput", f"{100 * record.goodput:.1f} %"))
        shares = [f"{share} {duration(spent)}" for share, spent in record.seconds.items() if spent >= 1]
        pairs.append(("its time", escape(", ".join(shares))))
        if record.lost_in_words:
            pairs.append(("lost by", escape(record.lost_in_words)))
    if record.partial:
        pairs.append(
            ("since the beginning", "its first events were not read: hyperpod-ray runs show reads all of them")
        )
    ends = record.ends(now=now)
    if ends is not None and ends < now + FAR_SECONDS:
        pairs.append(("ends at this rate", when(moment(ends), ago=False)))
    return pairs + _troubles(record)


def _troubles(record: Record) -> list[tuple[str, str]]:
    pairs = []
    if record.not_finite is not None:
        words = f"{record.metric} is not a number from step {record.not_finite:,}"
        pairs.append(("warning", state("bad", words)))
    if record.error and not record.ended:
        pairs.append(("last error", escape(record.error[:300])))
    return pairs


def _legend(record: Record, *, nodes: bool) -> str:
    keys = [
        ("save", f"checkpoint complete ({record.saved})"),
        ("gap", "no step"),
        ("number", "interruption, see the table"),
        ("back", "training continues"),
    ]
    if timeline.again(record.steps):
        keys.append(("again", "step done again"))
    if nodes:
        keys.append(("node", "an error among the events below"))
    shapes = {
        "save": '<rect class="save" x="3" y="3" width="8" height="8"/>',
        "gap": '<rect class="gap" x="1" y="1" width="12" height="12"/>',
        "number": '<rect class="number" x="0" y="1" width="14" height="12" rx="6"/>',
        "back": '<path class="back" d="M3 12l4-9 4 9z"/>',
        "again": '<circle class="again" cx="7" cy="7" r="3"/>',
        "node": '<path class="node" d="M1 3h12l-6 9z"/>',
    }
    return "<figcaption>" + "".join(
        f'<span class="key"><svg viewBox="0 0 14 14" width="14" height="14" aria-hidden="true">{shapes[key]}</svg> '
        f"{escape(text)}</span> "
        for key, text in keys
    ) + "</figcaption>"  # fmt: skip


def _interruption(number: int, interruption: Interruption, *, begin: float, relative: bool) -> tuple[str, ...]:
    stopped = f"{interruption.stopped_t - begin:.1f} s" if relative else when(moment(interruption.stopped_t))
    if interruption.resumed_t is None:
        lasted, source = state("bad", "until now"), ""
    else:
        lasted = escape(span(interruption.seconds or 0.0))
        source = f"step {interruption.resumed_step:,}" if interruption.resumed_step is not None else ""
        source += {"memory": " in memory of the others", "checkpoint": " of a checkpoint"}.get(interruption.source, "")
    repeated = "" if interruption.resumed_t is None else f"{interruption.again:,}"
    return (
        str(number),
        f"{stopped}, step {interruption.stopped_step:,}",
        escape(interruption.cause),
        lasted,
        repeated,
        source,
    )
