"""`docs/alarms.md`: a section for each alarm and mail, which a phone opens: what it means, and what to type."""

from __future__ import annotations

import re
from pathlib import Path

from hyperpod_ray.core import notifications
from hyperpod_ray.core.notifications import AlarmMail, Notification

PROJECT = Path(__file__).resolve().parents[1]
PAGE = PROJECT / "docs" / "alarms.md"


def page() -> str:
    """The page."""
    mails: list[Notification] = sorted(
        {
            mail.name: mail
            for mail in (*notifications.ALARM_MAILS, *notifications.METRIC_MAILS, *notifications.CLUSTER_RULES)
        }.values(),
        key=lambda mail: mail.name.lower(),
    )
    lines = [
        "# Alarms, one by one",
        "",
        "`python -m docs.generate` writes this page from `hyperpod_ray/core/notifications.py`; do not edit it.",
        "With `hyperpod.runbook_url`, each mail ends with the address of its section here. `ENV` is your environment.",
        "",
    ]
    for mail in mails:
        source = "A CloudWatch alarm" if mail in notifications.ALARM_MAILS else "An alert on metrics"
        source = source if isinstance(mail, AlarmMail) else "An event, mailed each time"
        lines += [
            f"## {mail.name}",
            "",
            f"{mail.means} {source}.",
            "",
            "```console",
            f"$ {mail.command('ENV')}",
            "```",
            "",
            f"Then: [{mail.section}](runbook.md#{anchor(mail.section)}).",
            "",
        ]
    return "\n".join(lines)


def anchor(section: str) -> str:
    """What a heading of the site is found by."""
    return re.sub(r"[^\w\- ]", "", section.lower()).replace(" ", "-")
