"""The report as one GitHub comment: the answer first, details folded, never longer than GitHub takes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from review.report import differences
from review.report.verdict import mark, verdict
from review.review import EnvironmentReview, Review

MARKER = "<!-- ray-on-hyperpod review -->"
"""First line of the comment; the workflow finds its own comment by it."""
LIMIT = 65_536
"""Characters of a GitHub comment."""
_RESERVE = 600
"""Kept for the sentence that says what was left out."""


@dataclass(kw_only=True)
class Section:
    """A part of the report that may be left out when the comment gets too long."""

    title: str
    text: str
    weight: int
    """Higher goes first when something must go."""


def render(review: Review, *, limit: int = LIMIT) -> str:
    """The whole review as markdown of at most `limit` characters; what does not fit is named, not hidden."""
    sections = list(_sections(review))
    left_out: list[Section] = []
    while True:
        text = _text(sections, left_out)
        if len(text) <= limit - (_RESERVE if left_out else 0) or not any(one.weight for one in sections):
            break
        heaviest = max(sections, key=lambda one: (one.weight, len(one.text)))
        sections.remove(heaviest)
        left_out.append(heaviest)
    return (
        text
        if len(text) <= limit
        else text[: limit - 200].rsplit("\n", 1)[0] + "\n\n… cut off here: run `python -m review` for the rest.\n"
    )


def _text(sections: list[Section], left_out: list[Section]) -> str:
    parts = [one.text for one in sections]
    if left_out:
        names = ", ".join(one.title for one in left_out[:6]) + (
            f" and {len(left_out) - 6} more" if len(left_out) > 6 else ""
        )
        size = sum(len(one.text) for one in left_out)
        parts.append(
            f"> **Left out because a comment holds {LIMIT:,} characters** ({size:,} more): {names}. "
            "`python -m review --base BASE` shows all of it."
        )
    return "\n\n".join(part for part in parts if part) + "\n"


def _sections(review: Review) -> Iterator[Section]:
    head = [MARKER, f"## {mark(review.effect)} Review: {verdict(review)}", ""]
    head.append(
        f"`{review.base_name}` → `{review.head_name}`, compared in {review.seconds:.1f} s, without an AWS account."
    )
    changed = [one for one in review.environments if not one.empty]
    if len(review.environments) > 1:
        head += ["", "| environment | verdict |", "|---|---|"]
        head += [f"| {one.name} | {mark(one.effect)} {verdict(one)} |" for one in review.environments]
    yield Section(title="verdict", text="\n".join(head), weight=0)
    for one in changed:
        yield from _environment(one)


def _environment(one: EnvironmentReview) -> Iterator[Section]:
    name = one.name or "(app)"
    yield Section(title=f"impact on {name}", text=f"### {name}\n\n{_impact(one)}", weight=0)
    yield Section(title=f"security of {name}", text=_security(one), weight=0)
    yield Section(title=f"notes on {name}", text=_notes(one), weight=0)
    yield from _folded(f"{name}: Kubernetes objects", differences.kubernetes(one), weight=2)
    yield from _folded(f"{name}: Helm values", differences.helm(one), weight=3)
    yield from _folded(f"{name}: CloudFormation", differences.cloudformation(one), weight=4)


def _impact(one: EnvironmentReview) -> str:
    if not one.rows:
        return "Nothing that CloudFormation or Kubernetes acts on."
    lines = ["| effect | what | change | consequence |", "|---|---|---|---|"]
    for row in one.rows:
        link = f" [[source]({row.source})]" if row.source else ""
        lines.append(
            f"| {mark(row.effect)} {row.effect.words} | {_cell(row.what)} | {_cell(row.change)} | {_cell(row.consequence)}{link} |"
        )
    return "\n".join(lines)


def _security(one: EnvironmentReview) -> str:
    if not one.remarks:
        return ""
    lines = ["#### Security", "", "| | what | detail |", "|---|---|---|"]
    for remark in sorted(one.remarks, key=lambda remark: not remark.weakens):
        sign = "⚠️ " if remark.weakens else ""
        lines.append(f"| {sign}{remark.direction} | {_cell(remark.what)} | {_cell(remark.detail)} |")
    return "\n".join(lines)


def _notes(one: EnvironmentReview) -> str:
    notes = list(one.notes)
    if one.changes is not None and one.changes.asset_only:
        titles = ", ".join(change.title for change in one.changes.asset_only)
        notes.append(
            f"left out: {len(one.changes.asset_only)} resources that differ only in the hash of an uploaded file ({titles})"
        )
    return "\n".join(f"- {_plain(note)}" for note in notes)


def _folded(title: str, diffs: Iterable[tuple[str, list[str]]], *, weight: int) -> Iterator[Section]:
    blocks = [(name, lines) for name, lines in diffs if lines]
    if not blocks:
        return
    text = [f"<details><summary>{title} ({len(blocks)})</summary>", ""]
    for name, lines in blocks:
        text += [f"**{_plain(name)}**", "", "```diff", *(line.replace("```", "` ` `") for line in lines), "```", ""]
    yield Section(title=title, text="\n".join([*text, "</details>"]), weight=weight)


def _cell(text: str) -> str:
    return _plain(text).replace("|", "\\|").replace("\n", " ")


def _plain(text: str) -> str:
    """Text that markdown and GitHub take for nothing else: no HTML, no mention, no reference to an issue."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([*_`\[\]~])", r"\\\1", text)
    return re.sub(r"(?<!\w)([@#])(?=\w)", "\\1\u200b", text)
