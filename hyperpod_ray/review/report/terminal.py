"""The report for a terminal: the same, without folded parts' markup."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator

from hyperpod_ray.review.report import differences, figures, grouping
from hyperpod_ray.review.report.verdict import mark, verdict
from hyperpod_ray.review.review import EnvironmentReview, Review


def render(review: Review) -> str:
    """The whole review as plain text, wrapped to the terminal's width."""
    width = min(120, shutil.get_terminal_size((100, 24)).columns)
    lines = [f"{mark(review.effect)} {verdict(review)}"]
    lines.append(f"{review.base_name} → {review.head_name}, compared in {review.seconds:.1f} s")
    for one in review.environments:
        if not one.empty:
            lines += ["", f"── {one.name or '(app)'}: {verdict(one)} " + "─" * 20, *_environment(one, width)]
    return "\n".join(lines) + "\n"


def _environment(one: EnvironmentReview, width: int) -> Iterator[str]:
    for row in grouping.rows(one.rows):
        yield f"{mark(row.effect)} {row.effect.words}: {row.what}: {row.change}"
        yield from textwrap.wrap(row.consequence, width, initial_indent="     ", subsequent_indent="     ")
    if one.only_tags:
        return
    for title, lines in (
        ("Security", _security(one)),
        ("Money", _money(one)),
        ("Time", _time(one)),
        ("Notes", _notes(one)),
    ):
        for index, line in enumerate(lines):
            if index == 0:
                yield from ("", title)
            yield from textwrap.wrap(line, width, initial_indent="  ", subsequent_indent="     ")
    for title, diffs in (("Kubernetes", differences.kubernetes(one)), ("Helm", differences.helm(one))):
        for name, lines in diffs:
            if lines:
                yield from ("", f"{title}: {name}")
                yield from (f"  {line}" for line in lines)


def _security(one: EnvironmentReview) -> list[str]:
    return [
        f"{'! ' if group.weakens else ''}{group.direction}: {group.what}: {group.text}"
        for group in grouping.remarks(one.remarks)
    ]


def _money(one: EnvironmentReview) -> list[str]:
    if one.money is None or not one.money.changed:
        return []
    lines = [
        f"{line.name}: {line.before or 'none'} → {line.after or 'none'}: {figures.change(line)}"
        for line in one.money.lines
        if line.before != line.after
    ]
    return [*lines, figures.sums(one.money), figures.price_note(one.money)]


def _time(one: EnvironmentReview) -> list[str]:
    if one.schedule is None:
        return []
    steps = [f"{step.minutes}: {step.action} {step.type} {step.title}" for step in one.schedule.path]
    unavailable = [f"unavailable: {text}" for text in figures.unavailable(one)]
    return [figures.duration(one.schedule), *steps, *unavailable]


def _notes(one: EnvironmentReview) -> list[str]:
    return figures.notes(one)
