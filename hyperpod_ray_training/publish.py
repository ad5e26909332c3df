"""Makes a run visible to who may use the dashboard: a link from Ray's log folder to the run's own journal.

`hyperpod-ray status` runs where the shared file system is not mounted. Ray's dashboard serves the files of each node's
log folder, to who has its token, and follows links that leave that folder (`LogAgentV1Grpc._resolve_filename`). So the
driver links `progress.json` and `events.jsonl` as `resilience/JOB/…`: nothing is copied, no process has to live for it,
and who reads it could submit a job that reads the same files.

A run on object storage has nothing to link to: a thread of the driver writes a copy of `progress.json` instead.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
from collections.abc import Iterable
from pathlib import Path

from hyperpod_ray_training.folder import RunFolder
from hyperpod_ray_training.journal import EVENTS, PROGRESS, log

FOLDER = "resilience"
"""Folder in Ray's log folder; `hyperpod-ray status` reads `resilience/JOB/progress.json`."""
COPY_S = 15.0
_DRIVER_LOG = re.compile(r"job-driver-(?P<job>.+)\.log")
_JOB_CONFIG = "RAY_JOB_CONFIG_JSON_ENV_VAR"
_published: set[str] = set()


def publish(folder: RunFolder) -> bool:
    """Link the run's journal for the job of this process; False outside of a submitted job, or before Ray is known.

    Never raises: a run is trained whether it can be seen or not.
    """
    try:
        destination = _place()
        if destination is None:
            return False
        destination.mkdir(parents=True, exist_ok=True)
        if folder.local:
            for name in (PROGRESS, EVENTS):
                _link(destination / name, to=folder.at(name))
        elif folder.url not in _published:
            _published.add(folder.url)
            threading.Thread(target=_keep_copied, args=(folder, destination), name="publish", daemon=True).start()
    except OSError as error:
        log(f"status cannot show this run: {error}")
        return False
    return True


def _place() -> Path | None:
    """The job's folder: beside the log that Ray writes this process's output to, else where Ray says that logs are."""
    for number in (1, 2):
        with contextlib.suppress(OSError):
            written = Path(f"/proc/self/fd/{number}").readlink()
            if match := _DRIVER_LOG.fullmatch(written.name):
                return written.parent / FOLDER / match["job"]
    job = _submission()
    logs = _logs()
    return logs / FOLDER / job if job and logs is not None else None


def _submission() -> str:
    """The job's ID from what Ray's job supervisor sets for its driver."""
    with contextlib.suppress(ValueError, AttributeError):
        return str(json.loads(os.environ.get(_JOB_CONFIG, "{}")).get("metadata", {}).get("job_submission_id") or "")
    return ""


def _logs() -> Path | None:
    """Ray's log folder on this node; None while Ray is not initialized, or with a driver outside of the cluster."""
    import ray

    if not ray.is_initialized():
        return None
    context = ray.get_runtime_context()
    try:
        return Path(str(context.get_temp_dir())) / str(context.get_session_name()) / "logs"
    except Exception:  # a client's driver has no node of its own
        return None


def _link(link: Path, *, to: str) -> None:
    """A symbolic link in one step, also where one is there."""
    fresh = link.with_name(f".{link.name}.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        fresh.unlink()
    fresh.symlink_to(to)
    fresh.replace(link)


def _keep_copied(folder: RunFolder, destination: Path, waits: Iterable[None] | None = None) -> None:
    """Copy the progress file until the process ends; `waits` limits it."""
    pause = threading.Event()
    for _ in waits if waits is not None else iter(lambda: pause.wait(COPY_S), True):
        with contextlib.suppress(OSError):
            content = folder.fs.cat_file(folder.at(PROGRESS))
            fresh = destination / f".{PROGRESS}.{os.getpid()}"
            fresh.write_bytes(content)
            fresh.replace(destination / PROGRESS)
