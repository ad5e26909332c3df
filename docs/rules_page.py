"""`docs/reference/rules.md`: every rule that `hyperpod-ray env check` applies, from the rules themselves."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from hyperpod_ray.core import checks
from hyperpod_ray.core.findings import RULES

PROJECT = Path(__file__).resolve().parents[1]
PAGE = PROJECT / "docs" / "reference" / "rules.md"


def page() -> str:
    """The page."""
    lines = [
        "# Rules of environments",
        "",
        "`python -m docs.generate` writes this page from `hyperpod_ray/core/checks/`; do not edit it.",
        "A rule runs when the sections that it reads are valid and what it needs is at hand.",
        "All findings come in one run.",
        "",
        "| a rule needs | which is | it runs in |",
        "|---|---|---|",
        "| file | the environment file alone | `env check`, and every command that reads an environment |",
        "| repository | the files around it too: other environments, chart lock, images, folders | the same |",
        "| repository, before a deployment | its ingredients: charts, digests, cdk CLI | `preflight` |",
        "| account | the AWS account and Region too | `preflight` |",
        "",
        "The embedded AWS refuses requests by the functions of `hyperpod_ray_rules/` that these rules call.",
        "[Settings](../settings.md) has the values of each single setting.",
        "",
    ]
    checks.account_rules()
    rooms = [name for name in checks.__all__ if name not in ("run", "account_rules")]
    for room in sorted([*rooms, "account"]):
        of_room = f"hyperpod_ray.core.checks.{room}"
        found = [rule for rule in RULES if f"{rule.check.__module__}.".startswith(f"{of_room}.")]
        if not found:
            continue
        lines += [f"## {room}", "", "| rule | needs | reads | what it checks |", "|---|---|---|---|"]
        for rule in found:
            text = " ".join((inspect.getdoc(rule.check) or "").split()).replace("|", "\\|")
            text = re.sub(r"(https://[^\s)]+[^\s).,;:])", r"[source](\1)", text)
            reads = ", ".join(f"`{name}`" for name in sorted(rule.shared))
            if rule.eks:
                reads += f"; with EKS {', '.join(f'`{name}`' for name in sorted(rule.eks))}"
            level = f"{rule.needs}, before a deployment" if rule.stage == "deploy" else rule.needs
            lines.append(f"| `{rule.check.__name__}` | {level} | {reads} | {text} |")
        lines.append("")
    return "\n".join(lines)
