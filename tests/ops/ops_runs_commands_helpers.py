"""What tests of `listing`, `ops_runs_commands` share."""

from __future__ import annotations

from typing import Any

from hyperpod_ray.ops.errors import ApiError

Json = dict[str, Any]


class Ray:
    """Ray's Jobs API: one job, whose states come one after another."""

    def __init__(self, *states: str) -> None:
        self.states = list(states)
        self.asked: list[str] = []

    def json(self, method: str, path: str, *, body: Any = None) -> Any:
        self.asked.append(f"{method} {path}")
        if path == "/api/jobs/":
            state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
            job = {
                "submission_id": "job-1",
                "status": state,
                "entrypoint": "python train.py",
                "start_time": 1_700_000_000_000,
            }
            return [job, {**job, "submission_id": None}]
        return {"logs": "one\ntwo\n"} if path.endswith("/logs") else {}


class Api:
    """Kubernetes: RayJobs, and what is created, changed and deleted. A path may refuse a method."""

    def __init__(self, *jobs: Json) -> None:
        self.jobs = list(jobs)
        self.sent: list[tuple[str, str, Any]] = []
        self.refusals: dict[tuple[str, str], int] = {}

    def request(self, method: str, path: str, *, body: Any = None) -> Json:
        self.sent.append((method, path, body))
        if status := self.refusals.get((method, path.rpartition("/")[2])):
            raise ApiError(status=status, reason="no")
        if method == "POST":
            return {"metadata": {"uid": "7"}}
        for job in self.jobs:
            if path.endswith(f"/namespaces/{job['metadata']['namespace']}/rayjobs/{job['metadata']['name']}"):
                return job
        if path.endswith("/rayclusters/ray"):
            return {"spec": {}}
        raise ApiError(status=404, reason="no")

    def items(self, path: str, **_: Any) -> list[Json]:
        return self.jobs if path.endswith("/rayjobs") else []

    def delete(self, path: str) -> bool:
        self.sent.append(("DELETE", path, None))
        self.jobs = [job for job in self.jobs if not path.endswith(f"/{job['metadata']['name']}")]
        return True

    def patch(self, path: str, body: Json) -> Json:
        self.sent.append(("PATCH", path, body))
        return {}
