"""Reads run folders where they are mounted, and prints one line of JSON: `python -m hyperpod_ray_job.runs FOLDER...`.

A run folder is what the training library writes: `progress.json`, `events.jsonl`, and checkpoints. With `--all` each
FOLDER contains run folders. Times are seconds of this machine's clock, which is the cluster's. On a node of Slurm it is
the system's Python that reads, which may be 3.8. `history` adds the events up; it continues from what training wrote.
"""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

from .history import History, mapping, number, opened

MARK = "HYPERPOD-RAY-RUNS "
"""Begins the one line that is for `hyperpod-ray`; whatever else a log contains is not."""
MOST_BYTES = 16 << 20
"""Of a file that says something of a run: `progress.json`, `about.json`."""
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
        """A file's text; None where it is not there, or larger than anything that training writes there."""
        path = "/".join([self.url, *parts])
        try:
            if self.remote is None:
                with opened(path) as stream:
                    content = stream.read(MOST_BYTES + 1)
            else:
                content = bytes(self.remote.cat_file(path, start=0, end=MOST_BYTES + 1))
        except OSError:
            return None
        if len(content) > MOST_BYTES:
            return None
        return content.decode(errors="replace")

    def names(self, *parts: str) -> list[str]:
        """Names in a folder; none where it is not there."""
        path = "/".join([self.url, *parts])
        try:
            if self.remote is not None:
                return [str(child).rstrip("/").rsplit("/", 1)[-1] for child in self.remote.ls(path, detail=False)]
            return [child.name for child in Path(path).iterdir()]
        except OSError:
            return []

    def size(self, *parts: str) -> int:
        """Bytes of the files of a folder."""
        path = "/".join([self.url, *parts])
        if self.remote is not None:
            return int(self.remote.du(path))
        return sum(file.stat().st_size for file in Path(path).rglob("*") if file.is_file())


def read(folder: str) -> dict[str, Any]:
    """What one run says of itself. `found` is False where the folder has nothing of a run."""
    store = Store(folder)
    progress = mapping(store.text("progress.json"))
    history = History.kept(progress.pop("history", None))
    if store.remote is None:
        history.take_up(f"{store.url}/events.jsonl", to_the_end=True)
    checkpoints = _checkpoints(store)
    return {
        "folder": folder,
        "found": bool(progress or history.counts or checkpoints),
        "at": time.time(),
        "progress": progress,
        "history": history.summary(),
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
        problem = f"this folder cannot be read: {type(error).__name__}: {error}"[:2000]
        return {
            "folder": folder, "found": True, "at": time.time(), "progress": {"last_error": problem},
            "history": History().summary(), "checkpoints": [],
        }  # fmt: skip


def _checkpoints(store: Store) -> list[dict[str, Any]]:
    """Checkpoint folders, newest first. One is complete when what is written last is there."""
    checkpoints = []
    for name in store.names():
        match = CHECKPOINT.fullmatch(name)
        if not match:
            continue
        inside = set(store.names(name))
        about = mapping(store.text(name, "about.json"))
        metrics = about.get("metrics")
        checkpoints.append(
            {
                "name": name,
                "step": int(match[1]),
                "complete": bool({".metadata", "tiered.json"} & inside),
                "bytes": store.size(name),
                "metrics": {key: value for key, value in metrics.items() if number(value) is not None}
                if isinstance(metrics, dict)
                else {},
            }
        )
    return sorted(checkpoints, key=lambda checkpoint: (-checkpoint["step"], checkpoint["name"]))


def main(arguments: list[str]) -> int:
    """Print what was found."""
    read_every = "--all" in arguments
    folders = [word for word in arguments if word != "--all"]
    outputs = [run for folder in folders for run in (read_all(folder) if read_every else [read(folder)])]
    sys.stdout.write(f"{MARK}{json.dumps(outputs)}\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
