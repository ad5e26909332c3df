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
    steps = [event for event in events if event.get("kind") == "step" and isinstance(event.get("step"), int)]
    others = [event for event in events if event.get("kind") != "step"]
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
        "started": next((event["t"] for event in events if event.get("kind") == "start"), None),
        "counts": {kind: sum(event.get("kind") == kind for event in events) for kind in {*_kinds(events)}},
        "curve": _curve(steps),
        "events": others[-EVENTS:],
        "checkpoints": checkpoints,
    }


def read_all(storage: str) -> list[dict[str, Any]]:
    """Every run folder of a storage folder."""
    store = Store(storage)
    base = storage.rstrip("/")
    found = [name for name in sorted(store.names()) if not name.startswith(".")]
    return [one for name in found if (one := read(f"{base}/{name}"))["found"]]


def _pairs(listed: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Neighbours."""
    return [(listed[place - 1], listed[place]) for place in range(1, len(listed))]


def _kinds(events: list[dict[str, Any]]) -> set[str]:
    return {str(event.get("kind")) for event in events}


def _object(text: str | None) -> dict[str, Any]:
    try:
        content = json.loads(text or "")
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _events(text: str | None) -> list[dict[str, Any]]:
    found = []
    for line in (text or "").splitlines():
        event = _object(line)  # a first line that was cut, or a last one that is being written, is none
        if isinstance(event.get("t"), NUMBERS):
            found.append(event)
    return sorted(found, key=lambda event: event["t"])


def _curve(steps: list[dict[str, Any]]) -> list[list[float | None]]:
    """Time, step and loss: every n-th step, and the last one. A repeated step counts as it went the last time."""
    last = {step["step"]: step for step in steps}
    kept = [last[number] for number in sorted(last)]
    each = max(1, -(-len(kept) // POINTS))
    chosen = [one for index, one in enumerate(kept) if index % each == 0 or index == len(kept) - 1]
    return [[one["t"], one["step"], _number(one.get("loss"))] for one in chosen]


def _number(value: Any) -> float | None:
    number = isinstance(value, NUMBERS) and not isinstance(value, bool)
    return float(value) if number and math.isfinite(value) else None


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
