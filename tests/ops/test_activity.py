"""What a job's actors and GPUs do, as Ray's dashboard says it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hyperpod_ray.ops.observe import activity
from hyperpod_ray.ops.observe.snapshot import Job

JOB = Job(id="raysubmit_1", state="RUNNING", cluster="ray", namespace="ray", ray_id="01000000")


class Dashboard:
    """Answers by the beginning of a path."""

    def __init__(self, **answers: tuple[int, Any]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def call(self, method: str, path: str) -> tuple[int, bytes]:
        assert method == "GET"
        self.asked.append(path)
        status, body = self.answers["actors" if "/actors" in path else "nodes"]
        return status, body if isinstance(body, bytes) else json.dumps(body).encode()


def actors(*pairs: tuple[str, str]) -> tuple[int, Any]:
    return 200, {"data": {"result": {"result": [{"state": state, "node_id": node} for state, node in pairs]}}}


def nodes(**percents: list[Any]) -> tuple[int, Any]:
    summary = [
        {"raylet": {"nodeId": node}, "gpus": [{"utilizationGpu": value} for value in values]}
        for node, values in percents.items()
    ]
    return 200, {"data": {"summary": summary}}


def test_gpus_count_where_the_jobs_actors_live() -> None:
    ray: Any = Dashboard(
        actors=actors(("ALIVE", "a"), ("ALIVE", "a"), ("DEAD", "b")), nodes=nodes(a=[90, 100], b=[0, 0])
    )
    seen = activity.with_activity(ray, JOB)
    assert (seen.actors, seen.gpu_percent) == ({"ALIVE": 2, "DEAD": 1}, 95.0)
    assert "filter_values=01000000" in ray.asked[0]


@pytest.mark.parametrize(
    "answer", [(404, {}), (200, b"<html>"), (200, {"data": []}), (200, {"data": {"result": {"result": []}}})]
)
def test_where_ray_does_not_say_the_job_stays_as_it_is(answer: tuple[int, Any]) -> None:
    ray: Any = Dashboard(actors=answer, nodes=(200, {}))
    assert activity.with_activity(ray, JOB) is JOB


def test_a_node_without_figures_gives_none_and_no_zero() -> None:
    ray: Any = Dashboard(actors=actors(("ALIVE", "a")), nodes=nodes(a=[None, "much"]))
    assert activity.with_activity(ray, JOB).gpu_percent is None
