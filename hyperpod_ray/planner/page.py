"""A plan as one HTML file with its pictures; it loads nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from hyperpod_ray.planner import page_style as look
from hyperpod_ray.planner import pictures
from hyperpod_ray.planner.alternatives import Alternative
from hyperpod_ray.planner.answers import Answer, Plan, Row, figure
from hyperpod_ray.planner.ranges import Range

STYLE = f"""{look.BASE}
.answer {{ font-size: 1.08em; font-weight: 600 }} .no {{ color: var(--bad) }}
figure {{ margin: 1rem 0 }} figcaption {{ font-weight: 600 }}
svg {{ max-width: 100%; height: auto; background: #fff; border-radius: 4px }}
td.k {{ font-weight: 600; width: 1.2rem }} .short td {{ padding: .35rem .8rem .35rem 0 }} .short a {{ color: inherit }}
@media print {{ h2 {{ break-after: avoid }} figure, tr {{ break-inside: avoid }} }}
"""
LETTERS = "abcdefg"
PLACES = {
    "interval": "Goodput by interval between saves", "goodput": "Where the time goes", "time": "When it ends",
    "first-step": "Deploy of a new environment: critical path",
}  # fmt: skip


def html(reports: list[Plan]) -> str:
    """The page of one plan, or of several below each other."""
    title = "Plan of " + " and ".join(report.environment for report in reports)
    body = "\n".join(_plan(report) for report in reports)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{STYLE}</style></head><body>\n{body}\n</body></html>\n"
    )


def _plan(report: Plan) -> str:
    drawn = pictures.draw(report) if pictures.there() else {}
    parts = [f"<h1>Plan of {escape(report.environment)}</h1>", f"<p>{escape(report.subject)}.</p>"]
    rows = "".join(
        f'<tr><td class=k>{letter}<td><a href="#{report.environment}-{answer.key}">{escape(answer.title)}</a>'
        f"<td>{_words(answer.head)}</tr>"
        for letter, answer in zip(LETTERS, report.answers, strict=True)
    )
    parts.append(f"<table class=short>{rows}</table>")
    if pictures.OVERVIEW in drawn:
        parts.append(f"<figure><figcaption>{pictures.OVERVIEW}</figcaption>{drawn[pictures.OVERVIEW]}</figure>")
    if report.others:
        parts.append(f"<h2>Alternatives</h2>{_alternatives(report.others)}")
    if not drawn:
        parts.append(
            "<p class=note>No pictures: matplotlib is not installed (pip install '.[plan]' in a checkout).</p>"
        )
    for letter, answer in zip(LETTERS, report.answers, strict=True):
        parts.append(f'<h2 id="{report.environment}-{answer.key}">{letter}. {escape(answer.title)}</h2>')
        css_class = " no" if answer.key == "fit" and not report.fits else ""
        parts.append(f'<p class="answer{css_class}">{_words(answer.head)}</p>')
        caption = PLACES.get(answer.key, "")
        if caption in drawn:
            parts.append(f"<figure><figcaption>{escape(caption)}</figcaption>{drawn[caption]}</figure>")
        parts.append(_table(answer))
        parts += [f"<p class=note>{_words(note)}</p>" for note in answer.notes]
    parts.append("<h2>Not known</h2><ul>" + "".join(f"<li>{_words(line)}</li>" for line in report.refused) + "</ul>")
    return "\n".join(parts)


def _table(answer: Answer) -> str:
    if not answer.rows:
        return ""
    head = "<tr><th>Figure<th class=n>Low<th class=n>Central<th class=n>High<th>Unit<th>Source</tr>"
    return f"<div class=wide><table>{head}{''.join(_row(row) for row in answer.rows)}</table></div>"


def _alternatives(rows: Sequence[Alternative]) -> str:
    head = "<tr><th>Run on<th>Fits<th class=n>Days<th class=n>Dollars<th class=n>Goodput<th>Note</tr>"
    body = "".join(
        f"<tr><td>{'<b>' if row.own else ''}{escape(row.name)}{'</b>' if row.own else ''}<td>{escape(row.fits)}"
        f"<td class=n>{_span(row.days, 'days')}<td class=n>{_span(row.dollars, '$')}"
        f"<td class=n>{'' if row.goodput is None else figure(row.goodput, '%')}<td class=s>{escape(row.note)}</tr>"
        for row in rows
    )
    return f"<div class=wide><table>{head}{body}</table></div>"


def _span(value: Range | None, unit: str) -> str:
    if value is None:
        return "not known"
    low, central, high = (figure(number, unit) for number in value)
    return f"{central} ({low} to {high})"


def _words(text: str) -> str:
    """Text with its commands set as such."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _row(row: Row) -> str:
    value = row.value
    if isinstance(value, Range):
        words = [figure(number, row.unit) for number in value]
        low, central, high = ("", words[1], "") if value.known else words
    else:
        low, central, high = "", value or "not known", ""
    cells = "".join(f"<td class=n>{escape(text)}" for text in (low, central, high))
    unit = "" if row.unit == "%" else row.unit
    return f"<tr><td>{escape(row.what)}{cells}<td>{escape(unit)}<td class=s>{escape(row.source)}</tr>"
