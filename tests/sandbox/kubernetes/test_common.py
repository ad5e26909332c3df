"""What controllers share: conditions, owners, readiness, events that count, and pods that the API refuses."""

# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.controllers import common
from hyperpod_ray_sandbox.kubernetes.store import Store

Json = dict[str, Any]


@pytest.fixture
def api(tmp_path: Path) -> Api:
    return Api(Store(tmp_path / "objects.sqlite"))


@pytest.fixture
def job(api: Api) -> Json:
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]}}}
    return api.create(api.kind("batch/v1", "Job"), "default", {"metadata": {"name": "train"}, "spec": spec})


def test_the_time_of_a_condition_is_that_of_its_last_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """`lastTransitionTime` is when the status changed, not when somebody wrote it again.

    https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md
    """
    moments = iter(["10:00", "11:00", "12:00"])
    monkeypatch.setattr(common, "now", lambda: next(moments))
    status: Json = {}
    common.condition(status, "Ready", "False", "Starting")
    common.condition(status, "Ready", "False", "StillStarting", "soon")
    (record,) = status["conditions"]
    assert (record["lastTransitionTime"], record["reason"], record["message"]) == ("10:00", "StillStarting", "soon")
    common.condition(status, "Ready", "True")
    assert (record["lastTransitionTime"], record["status"], record["reason"]) == ("11:00", "True", "")
    common.condition(status, "Healthy", "True")
    assert [condition["type"] for condition in status["conditions"]] == ["Ready", "Healthy"]
    assert common.has({"status": status}, "Ready") and not common.has({"status": status}, "Ready", "False")


@pytest.mark.parametrize(
    ("phase", "ready", "going", "counts"),
    [("Running", "True", False, True), ("Running", "False", False, False), ("Pending", "True", False, False), ("Running", "True", True, False)],
)  # fmt: skip
def test_a_pod_that_is_ready(phase: str, ready: str, going: bool, counts: bool) -> None:
    """An endpoint is one that runs, is ready and is not going away."""
    pod: Json = {"metadata": {}, "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}}
    if going:
        pod["metadata"]["deletionTimestamp"] = "2026-11-22T10:00:00Z"
    assert common.pod_ready(pod) == counts
    assert common.alive(pod)
    assert not common.alive({"status": {"phase": "Failed"}})


def test_a_pod_of_a_template_is_its_owners(api: Api, job: Json) -> None:
    """One controller owns a pod: https://kubernetes.io/docs/concepts/overview/working-with-objects/owners-dependents/"""
    pod = common.make_pod(api, job, job["spec"]["template"], prefix="train-", labels={"step": "1"})
    assert pod is not None
    assert common.owned(pod, job)
    assert [stored["metadata"]["name"] for stored in common.pods_of(api, job)] == [pod["metadata"]["name"]]
    other = {"metadata": {"uid": "another", "namespace": "default"}}
    assert not common.owned(pod, other)
    plain = {"metadata": {"ownerReferences": [{"uid": job["metadata"]["uid"]}]}}
    assert not common.owned(plain, job), "an owner that is no controller"
    assert pod["metadata"]["labels"]["step"] == "1"
    common.remove(api, pod, grace_seconds=0)
    common.remove(api, pod, grace_seconds=0)
    assert common.pods_of(api, job) == [], "gone once, and nothing to do the second time"


def test_a_pod_that_is_refused_is_an_event_of_its_owner(api: Api, job: Json) -> None:
    assert common.make_pod(api, job, {"spec": {"containers": []}}, name="none") is None
    (event,) = api.all("v1", "Event", "default")
    assert (event["reason"], event["type"], event["involvedObject"]["name"]) == ("FailedCreate", "Warning", "train")
    assert "Required value" in event["message"]


def test_the_same_event_counts_up_and_another_is_one_more(api: Api, job: Json) -> None:
    for message in ("slow", "slow", "slow", "slower"):
        common.event(api, job, "Warning", "Late", message, "test")
    counts = {event["message"]: event["count"] for event in api.all("v1", "Event", "default")}
    assert counts == {"slow": 3, "slower": 1}


def test_a_template_has_one_hash_whatever_the_order_of_its_fields() -> None:
    assert common.template_hash({"a": 1, "b": 2}) == common.template_hash({"b": 2, "a": 1})
    assert common.template_hash({"a": 1}) != common.template_hash({"a": 2})
