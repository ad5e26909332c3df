"""What Ray itself measures of a job that publishes no steps: its actors, and how busy the GPUs of their nodes are.

Both come from the dashboard that the Jobs API is on. Ray keeps no time of a job's last step, and its log API no time of
a log's last line: neither says whether a job trains.
https://docs.ray.io/en/latest/ray-observability/reference/api.html
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from statistics import mean
from typing import Any
from urllib.parse import urlencode

from hyperpod_ray.ops.in_ray.history import number
from hyperpod_ray.ops.observe.snapshot import Job
from hyperpod_ray.ops.reach.jobs_api import Jobs

ACTORS = 1000
"""Most actors of a job that are looked at."""


def with_activity(jobs: Jobs, job: Job) -> Job:
    """The job with its actors by state, and the use of their nodes' GPUs; unchanged where Ray does not say.

    Args:
        jobs: The dashboard.
        job: A job that runs.
    """
    query = urlencode({"filter_keys": "job_id", "filter_predicates": "=", "filter_values": job.ray_id, "limit": ACTORS})
    actors = _list(_json(jobs, f"/api/v0/actors?{query}"), "data", "result", "result")
    if not actors:
        return job
    states = Counter(str(actor.get("state") or "") for actor in actors)
    nodes = {actor.get("node_id") for actor in actors if actor.get("state") == "ALIVE"}
    used = []
    for node in _list(_json(jobs, "/nodes?view=summary"), "data", "summary"):
        if (node.get("raylet") or {}).get("nodeId") in nodes:
            used += [number(gpu.get("utilizationGpu")) for gpu in node.get("gpus") or []]
    percents = [percent for percent in used if percent is not None]
    return replace(job, actors=dict(sorted(states.items())), gpu_percent=round(mean(percents), 1) if percents else None)


def _json(jobs: Jobs, path: str) -> Any:
    """A decoded answer; None where there is none."""
    status, body = jobs.call("GET", path)
    try:
        return json.loads(body) if status == 200 else None
    except ValueError:
        return None


def _list(answer: Any, *keys: str) -> list[Mapping[str, Any]]:
    """The objects of a list inside an answer."""
    for key in keys:
        answer = answer.get(key) if isinstance(answer, dict) else None
    return [member for member in answer if isinstance(member, dict)] if isinstance(answer, list) else []
