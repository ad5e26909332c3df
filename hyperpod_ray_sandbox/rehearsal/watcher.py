"""Looks at a cluster's head from outside: which nodes live, and what the Jobs API says of a run."""

from __future__ import annotations

import threading
import time

from hyperpod_ray_sandbox.rehearsal.ray_hosts.cluster import Cluster
from hyperpod_ray_sandbox.rehearsal.report import Observation


class Watcher(threading.Thread):
    """Looks at the head every half second, off the main thread because a dead head answers nothing for seconds."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(daemon=True, name="rehearse-watcher")
        self.cluster = cluster
        self.submission: str | None = None
        self.nodes: dict[str, str] = {}
        self.status, self.message = "", ""
        self.status_t = 0.0
        self.seen: list[Observation] = []
        self.heads: list[float] = []
        """When the head answered again after it did not."""
        self.ended = threading.Event()

    def follow(self, submission: str) -> None:
        """Watch this job from now on."""
        self.submission, self.status, self.status_t = submission, "", 0.0

    def run(self) -> None:
        """Until `ended` is set."""
        silent = False
        while not self.ended.wait(0.4):
            dashboard = self.cluster.dashboard
            nodes = dashboard.nodes()
            now = time.time()
            if nodes and silent:
                self.heads.append(now)
            silent = not nodes
            for ip, state in nodes.items():
                if state == "DEAD" and self.nodes.get(ip) == "ALIVE":
                    self.seen.append(Observation(t=now, what="Ray's head: node dead"))
            self.nodes = nodes or self.nodes
            if submission := self.submission:
                status, message = dashboard.job(submission)
                if submission == self.submission:
                    if status != self.status and status in {"FAILED", "UNREACHABLE", "UNKNOWN"}:
                        self.seen.append(Observation(t=time.time(), what=f"Jobs API: {status.lower()}"))
                    self.status, self.message, self.status_t = status, message, time.time()
