"""Runs the entrypoints of RayJobs: a program beside this server, because the pods of the sandbox run nothing.

The program gets a folder with `job.json` (the RayJob and its RayCluster) and writes `status.json` there: `jobStatus`
and `message` of Ray's own job, and the times. It holds what it started, and is asked to end by SIGTERM. A run outlives
a restart of this server. One runs at a time: a real Ray takes a gigabyte.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

Json = dict[str, Any]

ENDED = ("SUCCEEDED", "FAILED", "STOPPED")
"""Ray's words for a job that changes no more."""
WAITS = "waits for another RayJob: this machine runs one at a time"


class Entrypoints:
    """Starts, follows and stops the runs of RayJobs.

    Args:
        program: The command, without its folder; empty where this machine has no Ray.
        folder: Where each run has a folder.
    """

    def __init__(self, program: tuple[str, ...], folder: Path) -> None:
        self.program, self.folder = program, folder
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def installed(self) -> bool:
        """Whether this machine runs entrypoints."""
        return bool(self.program)

    def follow(self, job: Json, cluster: Json) -> Json:
        """What Ray says of a RayJob's own job; its first call starts it.

        Args:
            job: The RayJob, with the name of its RayCluster and its job in its status.
            cluster: Its RayCluster.

        Returns:
            `jobStatus` and `message`, `startTime` and `endTime` where they are known.
        """
        run = self._run(job)
        if not run.exists():
            if any(self._pid(run_folder) for run_folder in self._runs()):
                return {"jobStatus": "PENDING", "message": WAITS}
            self._start(run, {"job": job, "cluster": cluster})
        lives = self._pid(run)
        status = self._read(run / "status.json")
        if status.get("jobStatus") in ENDED or lives:
            return {"jobStatus": "PENDING", "message": ""} | status
        log = (run / "log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return {"jobStatus": "FAILED", "message": f"what ran the entrypoint ended: {log[-1] if log else 'no output'}"}

    def stop(self, job: Json) -> None:
        """End a RayJob's run, if it has one."""
        run = self._run(job)
        if pid := self._pid(run):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGTERM)

    def keep(self, uids: set[str]) -> None:
        """End the runs of RayJobs that are no more."""
        for run in self._runs():
            if run.name.partition("_")[0] not in uids and (pid := self._pid(run)):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGTERM)

    def _run(self, job: Json) -> Path:
        status = job.get("status") or {}
        return self.folder / f"{job['metadata']['uid']}_{status.get('rayClusterName', '')}"

    def _runs(self) -> list[Path]:
        return sorted(self.folder.iterdir()) if self.folder.is_dir() else []

    def _start(self, run: Path, request: Json) -> None:
        run.mkdir(parents=True, mode=0o700)
        (run / "job.json").write_text(json.dumps(request), encoding="utf-8")
        with (run / "log").open("wb") as log:
            child = subprocess.Popen(
                [*self.program, str(run)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "TMPDIR")},
            )
        self._children[child.pid] = child
        (run / "pid").write_text(str(child.pid), encoding="ascii")

    def _pid(self, run: Path) -> int:
        """The process of a run that lives, or 0."""
        try:
            pid = int((run / "pid").read_text(encoding="ascii"))
        except (OSError, ValueError):
            return 0
        if pid in self._children:
            return pid if self._children[pid].poll() is None else 0
        try:
            return pid if str(run).encode() in Path(f"/proc/{pid}/cmdline").read_bytes() else 0
        except OSError:
            return 0

    @staticmethod
    def _read(path: Path) -> Json:
        try:
            status = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return status if isinstance(status, dict) else {}
