"""Jobs of teams against the environment's teams, quotas and priorities."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from hyperpod_ray.core import Plan, job_checks, load
from hyperpod_ray.core.job import Job
from hyperpod_ray.core.loader import FOLDER
from tests.core.environment_files import plan as plan_of


@functools.cache
def plan() -> Plan:
    return load("teams", folder=FOLDER / "examples").plan


def findings(**fields: Any) -> list[tuple[str, str, str]]:
    job = Job(**{"command": "python main.py", "team": "speech", "workers": 2, **fields})
    return [(str(one.path[0]), one.severity, one.message) for one in job_checks.run(plan(), job)]


def test_a_job_within_its_quota_says_nothing() -> None:
    assert findings() == []
    assert findings(priority="deadline", topology="layer-3", topology_required=True) == []


CASES: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "no such team": ({"team": "visoin"}, "team", "error", "one of vision, speech. Fix: did you mean 'vision'?"),
    "a queue beside it": ({"queue": "other"}, "queue", "error", "the team's own, hyperpod-ns-speech-localqueue"),
    "no such priority": ({"priority": "dedline"}, "priority", "error", "did you mean 'deadline'?"),
    "no size": ({"workers": None}, "workers", "error", "not set, and the standing RayCluster"),
    "it borrows": ({"workers": 3}, "workers", "warning", "borrows 1 instances of ml.g5.8xlarge"),
    "more than it may borrow": (
        {"workers": 4},
        "workers",
        "error",
        "takes 4 instances of ml.g5.8xlarge, and team 'speech' has 2 and may borrow 1. Expected at most 3",
    ),
    "no team": ({"team": None, "cluster": "own"}, "cluster", "warning", "own, without a team"),
    "standing": ({"cluster": "standing"}, "team", "error", "speech on the standing RayCluster"),
    "topology of nobody": (
        {"team": None, "cluster": "own", "topology": "layer-1"},
        "topology",
        "error",
        "Kueue places pods by topology",
    ),
    "a requirement of nothing": ({"topology_required": True}, "topology_required", "error", "true without topology"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_the_queue_would_not_say(name: str) -> None:
    fields, path, severity, message = CASES[name]
    found = [one for one in findings(**fields) if one[0] == path and one[1] == severity]
    assert any(message in said for _, _, said in found), findings(**fields)


def test_a_team_that_lends_only_has_its_quota_and_no_more() -> None:
    quota = [{"type": "ml.p5.48xlarge", "accelerators": 8}, {"type": "ml.m5.2xlarge", "vcpus": 4}]
    made = plan_of({"teams": [{"name": "a", "quota": quota, "sharing": "lend"}], "ray/workers/0/replicas": 0})
    job = Job(command="x", team="a", workers="9", gpus_per_worker=1)
    (found,) = [one for one in job_checks.run(made, job) if one.severity == "error"]
    assert "takes 2 instances of ml.p5.48xlarge, and team 'a' has 1. Expected at most 1:" in found.message
    eight = Job(command="x", team="a", workers="8", gpus_per_worker=1)
    assert not [one for one in job_checks.run(made, eight) if one.severity == "error"]


def test_a_team_makes_the_cluster_the_jobs_own() -> None:
    assert Job(command="x", team="vision").cluster == "own"
    assert Job(command="x", team="vision").local_queue == "hyperpod-ns-vision-localqueue"
    assert Job(command="x", team="vision", priority="research").priority_class == "research-priority"
    assert Job(command="x", cluster="own", queue="q", priority="p").priority_class == "p"
    assert Job(command="x").cluster == "standing"
    assert Job(command="x").local_queue is None
