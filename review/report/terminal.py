"""The report for a terminal: the same, without folded parts' markup."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator

from review.report import differences
from review.report.verdict import mark, verdict
from review.review import EnvironmentReview, Review


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
    for row in one.rows:
        yield f"{mark(row.effect)} {row.effect.words}: {row.what}: {row.change}"
        yield from textwrap.wrap(row.consequence, width, initial_indent="     ", subsequent_indent="     ")
    if one.remarks:
        yield ""
        yield "Security"
        for remark in sorted(one.remarks, key=lambda remark: not remark.weakens):
            text = f"{'! ' if remark.weakens else '  '}{remark.direction}: {remark.what}: {remark.detail}"
            yield from textwrap.wrap(text, width, subsequent_indent="     ")
    for note in one.notes:
        yield from textwrap.wrap(f"note: {note}", width, subsequent_indent="     ")
    if one.changes is not None and one.changes.asset_only:
        titles = ", ".join(change.title for change in one.changes.asset_only)
        text = f"left out: {len(one.changes.asset_only)} resources that differ only in the hash of an uploaded file ({titles})"
        yield from textwrap.wrap(text, width, subsequent_indent="     ")
    for title, diffs in (("Kubernetes", differences.kubernetes(one)), ("Helm", differences.helm(one))):
        for name, lines in diffs:
            if lines:
                yield ""
                yield f"{title}: {name}"
                yield from (f"  {line}" for line in lines)
