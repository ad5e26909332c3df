"""A run's journal as text (`progress.json`, `events.jsonl`): its values, its events, and the run that they describe.

Pure. The training library writes both; `hyperpod_ray_training.journal` says what is in them. A value of another type
is none, and a line that a kill cut short is none.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from hyperpod_ray.ops.observe.snapshot import Run, RunEvent

FAULTS = ("error", "lost", "fault")
"""Kinds of events that are a fault."""
BACK = "restore"
"""The kind of event that says that training continues from an earlier step. A run's first start has none."""
LONGEST_TEXT = 300

Json = dict[str, Any]


def mapping(text: str) -> Json:
    """A JSON object; empty where the text is none."""
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def number(value: object) -> float | None:
    """A finite number. JSON has no others, and Python writes them all the same."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:  # an integer of JSON may be of any length
        return None
    return found if math.isfinite(found) else None


def whole(value: object) -> int | None:
    """A whole number."""
    found = number(value)
    return None if found is None or found != int(found) else int(found)


def numbers(value: object) -> dict[str, float]:
    """Those entries of a JSON object that are finite numbers."""
    entries = value.items() if isinstance(value, dict) else ()
    return {str(key): found for key, item in entries if (found := number(item)) is not None}


def moment(value: object) -> datetime | None:
    """Unix seconds as a time."""
    seconds = number(value)
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def first_line(value: object) -> str:
    """The first line of a text, cut where it is long."""
    return text(next(iter(str(value or "").strip().splitlines()), ""))


def text(value: object) -> str:
    """A text that can be printed: no control characters, nothing that has no UTF-8, cut where it is long."""
    cut = str(value or "")[:LONGEST_TEXT].encode("utf-8", "replace").decode()
    return "".join(char if char.isprintable() else " " for char in cut)


def events(lines: Iterable[str]) -> list[Json]:
    """The events among lines of `events.jsonl`, oldest first."""
    found = [event for event in map(mapping, lines) if _is_event(event)]
    return sorted(found, key=lambda event: float(event["t"]))


def _is_event(event: Mapping[str, Any]) -> bool:
    if moment(event.get("t")) is None or not isinstance(event.get("kind"), str):
        return False
    return event["kind"] not in ("step", "save") or whole(event.get("step")) is not None


def run_of(
    progress: Mapping[str, Any],
    happened: Iterable[Json],
    *,
    name: str,
    at: datetime,
    job: str = "",
    cluster: str = "",
    namespace: str = "",
    folder: str = "",
) -> Run:
    """A run.

    Args:
        progress: The content of `progress.json`.
        happened: Events, oldest first.
        name: Its name, where `progress` has none.
        at: The cluster's time.
        job: ID of the job that trains it.
        cluster: RayCluster of the job.
        namespace: Namespace of the RayCluster.
        folder: Its folder; empty: the folder of its newest checkpoint.
    """
    known = [RunEvent(**_shown(event)) for event in happened if _is_event(event)]
    metrics = numbers(progress.get("metrics"))
    pauses = [pause for pause in map(number, _list(progress.get("pauses_s"))) if pause is not None]
    part_pauses = [pause for pause in map(number, _list(progress.get("part_pauses_s"))) if pause is not None]
    starts = filter(None, (moment(progress.get(key)) for key in ("started_t", "begun_t")))
    return Run(
        name=text(progress.get("name") or name),
        job=job,
        cluster=cluster,
        namespace=namespace,
        state=text(progress.get("state")),
        at=at,
        step=whole(progress.get("last_step")),
        steps_total=whole(progress.get("total_steps")),
        step_seconds=number(progress.get("step_s")),
        best_step_seconds=number(progress.get("best_step_s")),
        longest_pause_seconds=pauses[1] if len(pauses) > 1 else None,
        part_seconds=number(progress.get("part_s")),
        longest_part_pause_seconds=part_pauses[1] if len(part_pauses) > 1 else None,
        loss=metrics.get("loss"),
        metrics=metrics,
        started=max(starts, default=None),
        state_since=moment(progress.get("state_t")),
        last_step_at=moment(progress.get("last_step_t")),
        last_part_at=moment(progress.get("last_part_t")),
        last_checkpoint_at=moment(progress.get("last_checkpoint_t")),
        last_checkpoint_step=whole(progress.get("last_checkpoint_step")),
        world_size=whole(progress.get("world_size")),
        attempt=str(progress.get("attempt") or ""),
        last_error=first_line(progress.get("last_error")),
        transport=first_line(progress.get("transport")),
        misses_efa=_misses_efa(progress),
        folder=folder or str(progress.get("last_checkpoint_path") or "").rpartition("/")[0],
        faults=sum(event.kind in FAULTS for event in known),
        recoveries=sum(event.kind == BACK for event in known),
        events=tuple(known),
    )


def _misses_efa(progress: Mapping[str, Any]) -> bool:
    transport = progress.get("transport")
    told = progress.get("efa") is True and progress.get("across_nodes") is True and isinstance(transport, str)
    return told and transport not in ("", "efa")


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _shown(event: Mapping[str, Any]) -> Json:
    """The fields of an event that a snapshot keeps."""
    # of a restore it matters whether it came from memory
    keys = ("path",) if event["kind"] == BACK else ("message", "why", "reason", "node", "path")
    return {
        "at": moment(event["t"]),
        "kind": text(event["kind"]),
        "step": whole(event.get("step")),
        "loss": number(event.get("loss")),
        "seconds": number(event.get("seconds")),
        "text": first_line(next((event[key] for key in keys if event.get(key)), "")),
    }
