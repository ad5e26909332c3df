"""The report as one GitHub comment: the answer first, details folded, never longer than GitHub takes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hyperpod_ray.review.findings import Effect, Row, first_few
from hyperpod_ray.review.report import differences, figures, grouping
from hyperpod_ray.review.report.failure import MARKER
from hyperpod_ray.review.report.verdict import mark, verdict
from hyperpod_ray.review.review import EnvironmentReview, Review

LIMIT = 65_536
"""Characters of a GitHub comment; counted in bytes here, which is never fewer and also fits an environment variable."""


_LINES = (10_000, 120, 40, 12)
"""Lines of one difference: the most that fits is taken."""


_ROOM, _ROOM_FOR_SECURITY = 3_000, 1_200
"""Bytes of the rows that are not folded."""
_LONG_NAME = re.compile(r"[\w./-]{28,}")
Differences = dict[str, list[tuple[str, list[str]]]]


@dataclass(kw_only=True)
class Section:
    """A part of the report that may be omitted when the comment gets too long."""

    title: str
    text: str
    weight: int
    """Higher goes first when something must go."""


def render(review: Review, *, limit: int = LIMIT) -> str:
    """The whole review as markdown of at most `limit` bytes; what does not fit is named, not hidden.

    Long differences are shortened first, then whole folded parts go, the plain CloudFormation ones before the others.
    """
    sections: list[Section] = []
    changed = [(part, _differences(part)) for part in review.environments if not part.empty]
    for lines in _LINES:
        sections = list(_sections(review, changed, max_lines=lines))
        text = _text(sections, [])
        if _size(text) <= limit:
            return text
    left_out: list[Section] = []
    while _size(text) > limit and any(part.weight for part in sections):
        heaviest = max(sections, key=lambda part: (part.weight, _size(part.text)))
        sections.remove(heaviest)
        left_out.append(heaviest)
        text = _text(sections, left_out)
    return text if _size(text) <= limit else _cut(text, limit)


def _size(text: str) -> int:
    return len(text.encode())


def _cut(text: str, limit: int) -> str:
    """The beginning of a report whose tables alone are too long, up to a whole line."""
    notice = "\n\n… cut off here, as a comment holds no more: `hyperpod-ray review --base BASE` shows all of it.\n"
    return text.encode()[: limit - _size(notice)].decode(errors="ignore").rpartition("\n")[0] + notice


def _text(sections: list[Section], left_out: list[Section]) -> str:
    parts = [section.text for section in sections]
    if left_out:
        names = first_few([section.title for section in left_out], most=6)
        size = sum(_size(section.text) for section in left_out)
        parts.append(
            f"> **Omitted, because a comment can have {LIMIT:,} characters** ({size:,} more): {names}. "
            "`hyperpod-ray review --base BASE` shows all of it."
        )
    return "\n\n".join(part for part in parts if part) + "\n"


def _sections(
    review: Review, changed: list[tuple[EnvironmentReview, Differences]], *, max_lines: int
) -> Iterator[Section]:
    head = [MARKER, f"## {mark(review.effect)} Review: {verdict(review)}", ""]
    head.append(
        f"`{review.base_name}` → `{review.head_name}`, compared in {review.seconds:.1f} s, without an AWS account."
    )
    unchanged = [environment.name for environment in review.environments if environment.empty]
    if len(changed) == 1 and unchanged:
        head[-1] += f" No change: {first_few(unchanged, most=6)}."
    elif len(review.environments) > 1:
        head += ["", "| environment | verdict |", "|---|---|"]
        head += [
            f"| {environment.name} | {mark(environment.effect)} {verdict(environment)} |"
            for environment in review.environments
        ]
    yield Section(title="verdict", text="\n".join(head), weight=0)
    for environment, diffs in changed:
        yield from _environment(environment, diffs, max_lines)


def _environment(environment: EnvironmentReview, diffs: Differences, max_lines: int) -> Iterator[Section]:
    name = environment.name or "(app)"
    if environment.only_tags:
        (row,) = environment.rows
        text = f"**{name}**: {_plain(row.what)}: {_plain(row.change)}. {row.consequence}"
        yield Section(title=f"impact on {name}", text=text, weight=0)
        return
    yield Section(title=f"impact on {name}", text=f"### {name}\n\n{_impact(environment)}", weight=0)
    yield Section(title=f"security of {name}", text=_security(environment), weight=0)
    yield Section(title=f"money of {name}", text=_money(environment), weight=0)
    yield Section(title=f"time of {name}", text=_time(environment), weight=1)
    yield Section(title=f"notes on {name}", text=_notes(environment), weight=0)
    for weight, (title, blocks) in enumerate(diffs.items(), start=2):
        yield from _folded(f"{name}: {title}", blocks, weight=weight, max_lines=max_lines)


def _differences(environment: EnvironmentReview) -> Differences:
    """Everything below the tables, in the order in which it is kept when something must go."""
    return {
        "Kubernetes objects": list(differences.together(differences.kubernetes(environment))),
        "Helm values": list(differences.together(differences.helm(environment))),
        "CloudFormation": list(differences.together(differences.cloudformation(environment))),
    }


def _impact(environment: EnvironmentReview) -> str:
    if not environment.rows:
        return "Nothing that CloudFormation or Kubernetes acts on." if not environment.remarks else ""
    # what is safe is folded away beneath what is not, and what a screen cannot hold beneath that
    rows = grouping.rows(environment.rows)
    worse = [row for row in rows if row.effect is not Effect.SAFE]
    safe = [row for row in rows if row.effect is Effect.SAFE]
    if not worse and len(_table(safe).encode()) <= _ROOM:
        return _table(safe)
    visible, rest = _first(worse)
    parts = [_table(visible)] if visible else []
    if rest:
        counts = Counter(row.effect for row in rest)
        words = ", ".join(f"{mark(effect)} {number} {effect.words}" for effect, number in counts.items())
        parts.append(f"<details><summary>{len(rest)} more: {words}</summary>\n\n{_table(rest)}\n\n</details>")
    if safe:
        parts.append(
            f"<details><summary>{mark(Effect.SAFE)} safe ({len(safe)})</summary>\n\n{_table(safe)}\n\n</details>"
        )
    return "\n\n".join(parts)


def _first(rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """Rows that have room on a screen: the first of each effect, then as many as fit, worst first."""
    first_rows = {row.effect: row for row in reversed(rows)}.values()
    visible = list(first_rows)
    room = _ROOM - sum(len(_line(row).encode()) for row in visible)
    for row in rows:
        if row not in visible and (size := len(_line(row).encode())) <= room:
            visible.append(row)
            room -= size
    return [row for row in rows if row in visible], [row for row in rows if row not in visible]


def _table(rows: Iterable[Row]) -> str:
    return "\n".join(["| effect | what | change | consequence |", "|---|---|---|---|", *map(_line, rows)])


def _line(row: Row) -> str:
    link = f" [[source]({row.source})]" if row.source else ""
    return (
        f"| {mark(row.effect)} {row.effect.words} | {_cell(row.what)} | {_cell(row.change)} | "
        f"{_cell(row.consequence)}{link} |"
    )


def _security(environment: EnvironmentReview) -> str:
    groups = grouping.remarks(environment.remarks)
    if not groups:
        return ""
    lines, room = ["#### Security", "", *_HEADER], _ROOM_FOR_SECURITY
    folded: list[str] = []
    for group in groups:
        sign = "⚠️ " if group.weakens else ""
        line = f"| {sign}{group.direction} | {_cell(group.what)} | {_cell(group.text)} |"
        room -= len(line.encode())
        (lines if group.weakens and (room > 0 or len(lines) < 5) else folded).append(line)
    if len(lines) == 2 + len(_HEADER):
        lines = lines[:1]
    if folded:
        hidden = sum("⚠️" in line for line in folded)
        words = f"{len(folded)} more" + (f", ⚠️ {hidden} of them" if hidden else "")
        lines += ["", f"<details><summary>{words}</summary>", "", *_HEADER, *folded, "", "</details>"]
    return "\n".join(lines)


_HEADER = ("| | what | detail |", "|---|---|---|")


def _money(environment: EnvironmentReview) -> str:
    paid = environment.money
    if paid is None or not paid.changed:
        return ""
    changed = [line for line in paid.lines if line.before != line.after]
    table = ["| | before | after | $ per hour |", "|---|---|---|---|"]
    for line in changed:
        table.append(f"| {_cell(line.name)} | {line.before or '–'} | {line.after or '–'} | {figures.change(line)} |")
    lines = ["#### Money", "", figures.sums(paid), ""]
    lines += ["<details><summary>what changes, and where the prices are from</summary>", "", *table, ""]
    return "\n".join([*lines, figures.price_note(paid), "", "</details>"])


def _time(environment: EnvironmentReview) -> str:
    if environment.schedule is None:
        return ""
    lines = ["#### Time", "", figures.duration(environment.schedule)]
    if environment.schedule.path:
        lines += [
            "",
            "<details><summary>the longest chain</summary>",
            "",
            "| step | minutes | source |",
            "|---|---|---|",
        ]
        for step in environment.schedule.path:
            lines.append(
                f"| {step.action} {_cell(step.type)} {_cell(step.title)} | {step.minutes} | {_cell(step.source)} |"
            )
        lines += ["", "</details>"]
    unavailable = figures.unavailable(environment)
    if unavailable:
        lines += ["", "Unavailable during the change: " + "; ".join(_plain(text) for text in unavailable) + "."]
    return "\n".join(lines)


def _notes(environment: EnvironmentReview) -> str:
    bullets = [f"- {_plain(note)}" for note in figures.notes(environment)]
    if not bullets:
        return ""
    return "\n".join([f"<details><summary>notes ({len(bullets)})</summary>", "", *bullets, "", "</details>"])


def _folded(title: str, diffs: Iterable[tuple[str, list[str]]], *, weight: int, max_lines: int) -> Iterator[Section]:
    blocks = [(name, lines) for name, lines in diffs if lines]
    if not blocks:
        return
    text = [f"<details><summary>{title} ({len(blocks)})</summary>", ""]
    for name, lines in blocks:
        visible = [line.replace("```", "` ` `") for line in lines[:max_lines]]
        if len(lines) > max_lines:
            visible.append(f"… {len(lines) - max_lines} more lines omitted: a comment can have {LIMIT:,} characters")
        text += [f"**{_plain(name)}**", "", "```diff", *visible, "```", ""]
    yield Section(title=title, text="\n".join([*text, "</details>"]), weight=weight)


def _cell(text: str) -> str:
    """A cell of a table; long names may break, so that one does not take the room of the others."""
    text = _LONG_NAME.sub(lambda name: re.sub(r"(?<=[/._])(?=\w)", "\u200b", name.group()), text)
    return _plain(text).replace("|", "\\|").replace("\n", " ")


def _plain(text: str) -> str:
    """Text that markdown and GitHub take for nothing else: no HTML, no mention, no reference to an issue."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([*_`\[\]~])", r"\\\1", text)
    return re.sub(r"(?<!\w)([@#])(?=\w)", "\\1\u200b", text)
