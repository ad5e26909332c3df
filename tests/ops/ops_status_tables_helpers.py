"""What tests of `markdown`, `ops_status` share."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from hyperpod_ray.ops import output, status
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.verdict import judge


def shown(snapshot: Any, *, form: Format = Format.table, events: int = 5, width: int = 160) -> str:
    stream = io.StringIO()
    console: Console = output.console(form, stream=stream)
    if form is Format.table:
        console.width = width
    status.show(console, snapshot, judge(snapshot), events=events)
    return stream.getvalue()
