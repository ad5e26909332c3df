"""`docs/reference/limits.md`: each limit of an environment file, and who outside was asked about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.core.encoded_limits import Limits, encoded

PROJECT = Path(__file__).resolve().parents[1]
PAGE = PROJECT / "docs" / "reference" / "limits.md"
JUDGES = PROJECT / "tests" / "core" / "judges.yaml"
_WORDS = {
    "minimum": "from {}", "exclusiveMinimum": "above {}", "maximum": "to {}", "exclusiveMaximum": "below {}",
    "minLength": "from {} characters", "maxLength": "to {} characters", "minItems": "from {} entries",
    "maxItems": "to {} entries", "minProperties": "from {} entries", "maxProperties": "to {} entries", "const": "`{}`",
}  # fmt: skip


def words(limits: Limits) -> str:
    """Limits in a few words; a pattern is in the schema for editors."""
    parts = [_WORDS[word].format(value) for word, value in sorted(limits.items()) if word in _WORDS]
    parts += ["a pattern"] if "pattern" in limits else []
    if "enum" in limits:
        values = limits["enum"]
        parts.append(", ".join(f"`{value}`" for value in values) if len(values) < 8 else f"{len(values)} values")
    if "items" in limits:
        parts.append(f"each: {words(limits['items'])}")
    return "; ".join(parts)


def asked(judge: dict[str, Any]) -> str:
    """Who was asked."""
    place = ", ".join(f"`{judge[key]}`" for key in ("at", "each") if key in judge)
    if "call" in judge:
        return f"AWS SDK, `{judge['call']}`: {place}"
    if "schema" in judge:
        return f"CloudFormation registry, `{judge['schema']}`: {place}"
    if "kubernetes" in judge:
        return f"Kubernetes, names of a {judge['kubernetes']}"
    if "page" in judge:
        return f"a page alone: [source]({judge['page']})" + (f"; {judge['why']}" if "why" in judge else "")
    return f"nobody; ours: {judge['ours']}"


def page() -> str:
    """The page."""
    judges = yaml.safe_load(JUDGES.read_text(encoding="utf-8"))
    limits = encoded()
    machines = sum(bool(judge.keys() & {"call", "schema", "kubernetes"}) for judge in judges.values())
    pages = sum("page" in judge for judge in judges.values())
    lines = [
        "# Limits of settings, and who was asked",
        "",
        "`python -m docs.generate` writes this page from the settings and `tests/core/judges.yaml`; do not edit it.",
        "",
        f"{len(limits)} settings have a limit. For {machines} a test asks a model from outside: the AWS SDK's models,",
        "CloudFormation's registry schemas or Kubernetes' rules for names. No limit of ours may be wider than theirs.",
        f"For {pages} no model has the limit: the row names the page to read, and no test asks it. The other",
        f"{len(limits) - machines - pages} are this project's own.",
        "",
        "Karpenter's and Kueue's definitions judge the NodePools, their labels, and the number of worker groups of a",
        "queued job: `tests/k8s/test_definitions.py`.",
        "",
        "| setting | limit | asked |",
        "|---|---|---|",
    ]
    lines += [
        f"| `{name}` | {words(limits[name])} | {asked(judges[name])} |".replace("|  |", "| |")
        for name in sorted(limits)
    ]
    return "\n".join([*lines, ""])
