"""`logs`: lifecycle, health-agent and deep-health-check logs of the nodes, out of CloudWatch Logs."""

from __future__ import annotations

import json
import re
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from hyperpod_ray.ops import orchestrators, output
from hyperpod_ray.ops.errors import BAD_USE, OK, OpsError
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach.clients import AnyTarget

FOLLOW_SECONDS = 5.0


def run(
    target: AnyTarget,
    *,
    kind: str,
    node: str,
    since: str,
    until: str,
    follow: bool,
    form: Format,
    poll: float = FOLLOW_SECONDS,
) -> int:
    """Print log lines, oldest first; with `follow`, continue until interrupted."""
    begin, finish = moment(since), moment(until) if until else None
    if finish and finish <= begin:
        raise OpsError(
            f"--until: {until}",
            expected=f"a time after --since {since}",
            fix="exchange the two, or remove one",
            code=BAD_USE,
        )
    if follow and finish:
        raise OpsError(
            "--follow with --until: both given", expected="one: --follow has no end", fix="remove --until", code=BAD_USE
        )
    reader = orchestrators.of(target).logs.reader(kind, node=node)
    lines = reader.read(begin, finish)
    if form is Format.json and not follow:
        output.write_json("logs", {"environment": target.name, "log_group": reader.group, "lines": lines})
        return OK
    for line in lines:
        _print(line, form)
    if not lines:
        output.log(f"no {kind} lines since {output.stamp(begin)} in {reader.group}")
    while follow:
        time.sleep(poll)
        for line in reader.read(begin, None):
            _print(line, form)
    return OK


def moment(text: str) -> datetime:
    """`90s`, `15m`, `2h`, `3d` ago, or a time such as `2026-11-21T17:40:00Z` (UTC where it names no zone)."""
    match = re.fullmatch(r"(\d+)([smhd])", text)
    unit = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
    try:
        parsed = output.now() - timedelta(**{unit[match[2]]: int(match[1])}) if match else datetime.fromisoformat(text)
        parsed = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
        if parsed.timestamp() >= 0:  # CloudWatch Logs knows no time before 1970
            return parsed
    except (ValueError, OverflowError):
        pass
    raise OpsError(
        f"time: '{text}'",
        expected="15m, 2h, 3d or 2026-11-21T17:40:00Z",
        fix="correct --since or --until",
        code=BAD_USE,
    )


def _print(line: dict[str, Any], form: Format) -> None:
    if form is Format.json:
        sys.stdout.write(json.dumps(line) + "\n")
    else:
        sys.stdout.write(f"{line['time']} {line['stream']}: {line['message']}\n")
    sys.stdout.flush()
