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
    for environment in review.environments:
        if not environment.empty:
            lines += [
                "",
                f"── {environment.name or '(app)'}: {verdict(environment)} " + "─" * 20,
                *_environment(environment, width),
            ]
    return "\n".join(lines) + "\n"


def _environment(environment: EnvironmentReview, width: int) -> Iterator[str]:
    for row in grouping.rows(environment.rows):
        yield f"{mark(row.effect)} {row.effect.words}: {row.what}: {row.change}"
        yield from textwrap.wrap(row.consequence, width, initial_indent="     ", subsequent_indent="     ")
    if environment.only_tags:
        return
    for title, lines in (
        ("Security", _security(environment)),
        ("Money", _money(environment)),
        ("Time", _time(environment)),
        ("Notes", _notes(environment)),
    ):
        for index, line in enumerate(lines):
            if index == 0:
                yield from ("", title)
            yield from textwrap.wrap(line, width, initial_indent="  ", subsequent_indent="     ")
    for title, diffs in (("Kubernetes", differences.kubernetes(environment)), ("Helm", differences.helm(environment))):
        for name, lines in diffs:
            if lines:
                yield from ("", f"{title}: {name}")
                yield from (f"  {line}" for line in lines)


def _security(environment: EnvironmentReview) -> list[str]:
    return [
        f"{'! ' if group.weakens else ''}{group.direction}: {group.what}: {group.text}"
        for group in grouping.remarks(environment.remarks)
    ]


def _money(environment: EnvironmentReview) -> list[str]:
    if environment.money is None or not environment.money.changed:
        return []
    lines = [
        f"{line.name}: {line.before or 'none'} → {line.after or 'none'}: {figures.change(line)}"
        for line in environment.money.lines
        if line.before != line.after
    ]
    return [*lines, figures.sums(environment.money), figures.price_note(environment.money)]


def _time(environment: EnvironmentReview) -> list[str]:
    if environment.schedule is None:
        return []
    steps = [f"{step.minutes}: {step.action} {step.type} {step.title}" for step in environment.schedule.path]
    unavailable = [f"unavailable: {text}" for text in figures.unavailable(environment)]
    return [figures.duration(environment.schedule), *steps, *unavailable]


def _notes(environment: EnvironmentReview) -> list[str]:
    return figures.notes(environment)
