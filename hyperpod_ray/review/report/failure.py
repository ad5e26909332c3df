"""What a review says that could not be made: its messages, with paths of the repository and without a synth's noise."""

from __future__ import annotations

import re

from hyperpod_ray.core import names
from hyperpod_ray.core.errors import ProjectError

_SCRATCH = re.compile(r"(?:/[^\s:'\"]*/)?review-[^/\s]+/(?P<side>base|head)(?:-environments|-source/environments)/")
_SOURCE = re.compile(r"(?:/[^\s:'\"]*/)?review-[^/\s]+/(?P<side>base|head)-source(?P<slash>/?)")
_LOCATED = re.compile(r"^(?:\(base\) )?environments/[^\s:]+\.yaml(?::\d+)?: ")
_NOISE = re.compile(
    r"feature flags? (?:is|are) not configured|^Supply a stack id|^Some context values|cdk flags|"
    r"^\[Warning at |^jsii|^@jsii|^!!|NOTICES|^\s*$|node:internal|deprecated",
    re.IGNORECASE,
)
MARKER = f"<!-- {names.PROJECT} review -->"
"""First line of the comment; the workflow finds its own comment by it."""
LIMIT = 60_000


def messages(error: ProjectError) -> list[str]:
    """What is wrong, a message a line: those that name a file of environments, where there are any."""
    text = _SCRATCH.sub(lambda match: f"{_of(match)}environments/", str(error))
    text = _SOURCE.sub(lambda match: "the base" if match["side"] == "base" else "the head", text)
    lines = [line.rstrip() for line in text.splitlines() if not _NOISE.search(line)]
    return [line for line in lines if _LOCATED.match(line) and ": warning: " not in line] or lines


def _of(match: re.Match[str]) -> str:
    return "(base) " if match["side"] == "base" else ""


def markdown(error: ProjectError, *, base: str, head: str) -> str:
    """The comment of a review that failed."""
    listed = messages(error)
    files = sorted({line.partition(":")[0] for line in listed if _LOCATED.match(line)})
    summary = f"{', '.join(files)} cannot be used" if files else "the review ended without a result"
    body = "\n".join(line.replace("```", "` ` `") for line in listed)[:LIMIT]
    return "\n".join(
        [
            MARKER,
            f"## ❌ Review: {summary}",
            "",
            f"`{base}` → `{head}`. Nothing was compared.",
            "",
            "```text",
            body,
            "```",
            "",
        ]
    )
