"""What a review says that could not be made: its messages, with paths of the repository and without a synth's noise."""

from __future__ import annotations

import re

from hyperpod_ray.core import names
from hyperpod_ray.core.errors import ProjectError
from hyperpod_ray.review.worktrees import BASE_PATH

_LOCATED = re.compile(rf"^(?:{re.escape(BASE_PATH)})?(?P<file>[^\s:][^:]*\.yaml)(?::\d+)?: ")
_NOISE = re.compile(
    r"feature flags? (?:is|are) not configured|^Supply a stack id|^Some context values|cdk flags|"
    r"^\[Warning at |^jsii|^@jsii|^!!|NOTICES|^\s*$|node:internal|deprecated",
    re.IGNORECASE,
)
MARKER = f"<!-- {names.PROJECT} review -->"
"""First line of the comment; the workflow finds its own comment by it."""
LIMIT = 60_000


def messages(error: ProjectError) -> list[str]:
    """What is wrong, a message a line: those that name a file of the repository, where there are any."""
    located = [line for line in _lines(error.what) if _LOCATED.match(line) and ": warning: " not in line]
    return located or _lines(str(error))


def _lines(text: str) -> list[str]:
    """Lines without a synthesis' noise, as text that moves no cursor."""
    said = [line.rstrip() for line in text.splitlines() if not _NOISE.search(line)]
    return ["".join(mark if mark.isprintable() else "\ufffd" for mark in line) for line in said]


def summary(error: ProjectError) -> str:
    """Which files cannot be used, in a few words."""
    files = {line[: match.end("file")] for line in messages(error) if (match := _LOCATED.match(line))}
    return f"{', '.join(sorted(files))} cannot be used" if files else "the review ended without a result"


def markdown(error: ProjectError, *, base: str, head: str) -> str:
    """The comment of a review that failed."""
    body = "\n".join(line.replace("```", "` ` `") for line in messages(error))[:LIMIT]
    return "\n".join(
        [
            MARKER,
            f"## ❌ Review: {summary(error)}",
            "",
            f"`{base}` → `{head}`. Nothing was compared.",
            "",
            "```text",
            body,
            "```",
            "",
        ]
    )
