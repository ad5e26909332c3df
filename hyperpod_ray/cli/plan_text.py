"""A plan as tables, on a terminal or as Markdown."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hyperpod_ray.ops import output
from hyperpod_ray.ops.output import Format
from hyperpod_ray.planner.alternatives import Alternative
from hyperpod_ray.planner.answers import Answer, Plan, Row, figure
from hyperpod_ray.planner.ranges import Range

if TYPE_CHECKING:
    from rich.console import Console

LETTERS = "abcdefg"


def text(reports: list[Plan], form: Format) -> str:
    """One plan, or two beside each other."""
    stream = io.StringIO()
    console = output.console(form, stream=stream)
    markdown = form is Format.markdown
    if len(reports) > 1:
        _compare(console, reports)
    for report in reports[:1] if len(reports) == 1 else reports:
        _plan(console, report, markdown=markdown)
    return stream.getvalue()


def _plan(console: Console, report: Plan, *, markdown: bool) -> None:
    console.print(f"{'# ' if markdown else ''}Plan of {report.environment}")
    console.print(f"{report.subject}.")
    table = output.table("", "Question", "Answer")
    for letter, answer in zip(LETTERS, report.answers, strict=True):
        table.add_row(letter, answer.title, answer.head)
    console.print(table)
    for letter, answer in zip(LETTERS, report.answers, strict=True):
        if not answer.rows and not answer.notes:
            continue
        console.print(f"{'## ' if markdown else chr(10)}{letter}. {answer.title}")
        if answer.rows:
            console.print(figures(answer))
        for note in answer.notes:
            console.print(f"{'> ' if markdown else '  '}{note}")
    if report.others:
        console.print(f"{'## ' if markdown else chr(10)}Alternatives")
        console.print(alternatives(report.others))
    console.print(f"{'## ' if markdown else chr(10)}Not known")
    for line in report.refused:
        console.print(f"- {line}")


def figures(answer: Answer) -> Any:
    """The figures of one answer as a table; those without a span stand under central."""
    table = output.table("Figure", ">Low", ">Central", ">High", "Unit", "Source")
    for row in answer.rows:
        table.add_row(row.what, *cells(row), row.unit if row.unit != "%" else "", row.source)
    return table


def alternatives(rows: Sequence[Alternative]) -> Any:
    """What else could be bought, in the order of the list."""
    table = output.table("Run on", "Fits", ">Days", ">Dollars", ">Goodput", "Note")
    for row in rows:
        goodput = "" if row.goodput is None else figure(row.goodput, "%")
        name = f"{row.name} (as it is)" if row.own else row.name
        table.add_row(name, row.fits, span(row.days, "days"), span(row.dollars, "$"), goodput, row.note)
    return table


def span(value: Range | None, unit: str) -> str:
    """A figure with its span in one cell."""
    if value is None:
        return "not known"
    low, central, high = (figure(bound, unit) for bound in value)
    return f"{central} ({low} to {high})"


def cells(row: Row) -> tuple[str, str, str]:
    """Low, central and high of a row; a figure without a span has only the middle one."""
    value = row.value
    if value is None:
        return "", "not known", ""
    if not isinstance(value, Range):
        return "", value, ""
    if value.known:
        return "", figure(value.central, row.unit), ""
    low, central, high = (figure(bound, row.unit) for bound in value)
    return low, central, high


def _compare(console: Console, reports: list[Plan]) -> None:
    table = output.table("Question", *(report.environment for report in reports))
    for answers in zip(*(report.answers for report in reports), strict=True):
        table.add_row(answers[0].title, *(answer.head for answer in answers))
    console.print(table)
