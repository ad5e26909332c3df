"""Reads run folders where they are mounted, and prints one line of JSON: `python -m hyperpod_ray_job.runs FOLDER...`.

A run folder is what the training library writes: `progress.json`, `events.jsonl`, and checkpoints. With `--all` each
FOLDER contains run folders. Times are seconds of this machine's clock, which is the cluster's. On a node of Slurm it is
the system's Python that reads, which may be 3.8: neither `itertools.pairwise` nor `isinstance(x, int | float)` here.
"""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

MARK = "HYPERPOD-RAY-RUNS "
"""Begins the one line that is for `hyperpod-ray`; whatever else a log contains is not."""
POINTS = 400
"""Most points of a run's curve."""
EVENTS = 60
"""Newest events, without steps."""
MOST_BYTES = 64 << 20
"""Of `events.jsonl`, from its end."""
RATE_STEPS = 50
"""Newest steps that count for the rate."""
NUMBERS = (int, float)
MOST_TEXT, MOST_VALUES, MOST_DEPTH = 2000, 200, 2
"""Of what a run says of itself: characters of a text, values of a list or an object, and how deep those may lie."""
CHECKPOINT = re.compile(r"step-(\d{8})-([0-9a-f]{6})")


class Store:
    """A folder of the file system, or a place that fsspec knows, which the image then must have."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/") or "/"
        self.remote: Any = None
        if "://" in url:
            import fsspec

            self.remote, self.url = fsspec.core.url_to_fs(self.url)

    def text(self, *parts: str) -> str | None:
        """A file's text, from its end where it is long; None where it is not there."""
        path = "/".join([self.url, *parts])
        try:
            if self.remote is not None:
                return bytes(self.remote.cat_file(path)).decode(errors="replace")
            with Path(path).open("rb") as stream:
                size = stream.seek(0, 2)
                stream.seek(max(0, size - MOST_BYTES))
                return stream.read().decode(errors="replace")
        except OSError:
            return None

    def names(self, *parts: str) -> list[str]:
        """Names in a folder; none where it is not there."""
        path = "/".join([self.url, *parts])
        try:
            if self.remote is not None:
                return [str(one).rstrip("/").rsplit("/", 1)[-1] for one in self.remote.ls(path, detail=False)]
            return [one.name for one in Path(path).iterdir()]
        except OSError:
            return []

    def size(self, *parts: str) -> int:
        """Bytes of the files of a folder."""
        path = "/".join([self.url, *parts])
        if self.remote is not None:
            return int(self.remote.du(path))
        return sum(one.stat().st_size for one in Path(path).rglob("*") if one.is_file())


def read(folder: str) -> dict[str, Any]:
    """What one run says of itself. `found` is False where the folder has nothing of a run."""
    store = Store(folder)
    progress = _object(store.text("progress.json"))
    events = _events(store.text("events.jsonl"))
    checkpoints = _checkpoints(store)
    steps = [event for event in events if event["kind"] == "step"]
    others = [event for event in events if event["kind"] != "step"]
    pauses = sorted((after["t"] - before["t"] for before, after in _pairs(steps)), reverse=True)
    newest = steps[-RATE_STEPS:]
    spans = sorted(after["t"] - before["t"] for before, after in _pairs(newest))
    return {
        "folder": folder,
        "found": bool(progress or events or checkpoints),
        "at": time.time(),
        "progress": progress,
        "step_seconds": spans[len(spans) // 2] if spans else None,
        "longest_pause_seconds": pauses[1] if len(pauses) > 1 else None,
        "started": next((event["t"] for event in events if event["kind"] == "start"), None),
        "counts": Counter(event["kind"] for event in events),
        "curve": _curve(steps),
        "events": others[-EVENTS:],
        "checkpoints": checkpoints,
    }


def read_all(storage: str) -> list[dict[str, Any]]:
    """Every run folder of a storage folder."""
    store = Store(storage)
    base = storage.rstrip("/")
    names = [name for name in sorted(store.names()) if not name.startswith(".")]
    return [run for name in names if (run := _read_or_blank(f"{base}/{name}"))["found"]]


def _read_or_blank(folder: str) -> dict[str, Any]:
    """One run among many: where it cannot be read it is a row that says so, and the others are read all the same."""
    try:
        return read(folder)
    except Exception as error:
        problem = f"this folder cannot be read: {type(error).__name__}: {error}"[:MOST_TEXT]
        return {
            "folder": folder, "found": True, "at": time.time(), "progress": {"last_error": problem},
            "step_seconds": None, "longest_pause_seconds": None, "started": None, "counts": {}, "curve": [],
            "events": [], "checkpoints": [],
        }  # fmt: skip


def _pairs(listed: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Neighbours."""
    return [(listed[place - 1], listed[place]) for place in range(1, len(listed))]


def _object(text: str | None) -> dict[str, Any]:
    """A JSON object, without what no run writes: it must not harm who reads many runs."""
    try:
        content = json.loads(text or "")
    except (ValueError, RecursionError):
        return {}
    return _plain(content, MOST_DEPTH) if isinstance(content, dict) else {}


def _plain(value: Any, depth: int) -> Any:
    """A value as a run may have written it: texts that can be printed, finite numbers, and not deep."""
    if isinstance(value, str):
        return value[:MOST_TEXT].encode("utf-8", "replace").decode()
    if isinstance(value, bool):
        return value
    if isinstance(value, NUMBERS):
        return value if _finite(value) else None
    if isinstance(value, dict) and depth:
        return {_plain(str(key), 0): _plain(value[key], depth - 1) for key in list(value)[:MOST_VALUES]}
    if isinstance(value, list) and depth:
        return [_plain(one, depth - 1) for one in value[:MOST_VALUES]]
    return None


def _finite(value: Any) -> bool:
    """Whether a number is one that a time, a step or a metric can have: JSON's integers have no end."""
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _events(text: str | None) -> list[dict[str, Any]]:
    # a first line that was cut, or a last one that is being written, is none
    events = [event for event in map(_object, (text or "").splitlines()) if _is_event(event)]
    return sorted(events, key=lambda event: event["t"])


def _is_event(event: dict[str, Any]) -> bool:
    """Whether a line is one of the training library's. A script may write lines of its own to the same file."""
    if _number(event.get("t")) is None or not isinstance(event.get("kind"), str):
        return False
    step = event.get("step")
    return event["kind"] != "step" or (isinstance(step, int) and not isinstance(step, bool))


def _curve(steps: list[dict[str, Any]]) -> list[list[float | None]]:
    """Time, step and loss: every n-th step, and the last one. A repeated step counts as it went the last time."""
    last = {step["step"]: step for step in steps}
    kept = [last[number] for number in sorted(last)]
    each = max(1, -(-len(kept) // POINTS))
    chosen = [one for index, one in enumerate(kept) if index % each == 0 or index == len(kept) - 1]
    return [[one["t"], one["step"], _number(one.get("loss"))] for one in chosen]


def _number(value: Any) -> float | None:
    number = isinstance(value, NUMBERS) and not isinstance(value, bool)
    return float(value) if number and _finite(value) else None


def _checkpoints(store: Store) -> list[dict[str, Any]]:
    """Checkpoint folders, newest first. One is complete when what is written last is there."""
    found = []
    for name in store.names():
        match = CHECKPOINT.fullmatch(name)
        if not match:
            continue
        inside = set(store.names(name))
        about = _object(store.text(name, "about.json"))
        metrics = about.get("metrics")
        found.append(
            {
                "name": name,
                "step": int(match[1]),
                "complete": bool({".metadata", "tiered.json"} & inside),
                "bytes": store.size(name),
                "metrics": {key: value for key, value in metrics.items() if _number(value) is not None}
                if isinstance(metrics, dict)
                else {},
            }
        )
    return sorted(found, key=lambda one: (-one["step"], one["name"]))


def main(arguments: list[str]) -> int:
    """Print what was found."""
    whole = "--all" in arguments
    folders = [word for word in arguments if word != "--all"]
    found = [one for folder in folders for one in (read_all(folder) if whole else [read(folder)])]
    sys.stdout.write(f"{MARK}{json.dumps(found)}\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
