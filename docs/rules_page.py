"""Writes `docs/reference/rules.md`: every rule that `hyperpod-ray env check` applies, from the rules themselves.

.venv/bin/python docs/rules_page.py
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))
from core import checks  # noqa: E402
from core.findings import RULES  # noqa: E402

PAGE = PROJECT / "docs" / "reference" / "rules.md"


def page() -> str:
    """The page."""
    lines = [
        "# Rules of environment files",
        "",
        "`docs/rules_page.py` makes this page from `core/checks/`; do not edit it. `env check` applies each",
        "rule when the sections that it reads are valid. It reports all findings in one run.",
        "[Settings](../settings.md) has the values of each single setting.",
        "",
    ]
    for room in (name for name in checks.__all__ if name != "run"):
        found = [rule for rule in RULES if rule.check.__module__ == f"core.checks.{room}"]
        if not found:
            continue
        lines += [f"## {room}", "", "| rule | reads | what it checks |", "|---|---|---|"]
        for rule in found:
            text = " ".join((inspect.getdoc(rule.check) or "").split()).replace("|", "\\|")
            text = re.sub(r"(https://[^\s)]+[^\s).,;:])", r"[source](\1)", text)
            reads = ", ".join(f"`{name}`" for name in sorted(rule.reads))
            lines.append(f"| `{rule.check.__name__}` | {reads} | {text} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
