"""The words of AWS, Kubernetes and NVIDIA that commands go by are the services' own."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from typing import Any

import botocore.exceptions
import botocore.session
import pytest

from hyperpod_ray.ops.acceptance import node_probe
from hyperpod_ray.ops.change import progress
from hyperpod_ray.ops.errors import ERROR, explain
from hyperpod_ray.ops.observe import stack_cause
from hyperpod_ray.ops.verdict import ray
from hyperpod_ray.ops.web import environment
from tests.ops.snapshots import ago, healthy, with_pod

MODEL: Any = botocore.session.get_session().get_service_model("cloudformation")


def test_the_states_of_stacks_are_cloudformations() -> None:
    states, resources = MODEL.shape_for("StackStatus").enum, MODEL.shape_for("ResourceStatus").enum
    good = {
        state for state in states if state.endswith("_COMPLETE") and not {"ROLLBACK", "DELETE"} & {*state.split("_")}
    }
    assert set(progress.COMPLETE) == good == {"CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE"}
    assert {state for state in environment.GOOD if state in states} == good
    ours = ("CREATE", "UPDATE", "DELETE", "IMPORT")
    assert set(stack_cause._BEGINNINGS) == {f"{verb}_IN_PROGRESS" for verb in ours} <= {*states} & {*resources}


UNREACHED = {
    "EndpointConnectionError": {"endpoint_url": "https://x"}, "ConnectTimeoutError": {"endpoint_url": "https://x"},
    "ReadTimeoutError": {"endpoint_url": "https://x"}, "ConnectionClosedError": {"endpoint_url": "https://x"},
    "SSLError": {"endpoint_url": "https://x"}, "ProxyConnectionError": {"proxy_url": "http://proxy"},
}  # fmt: skip


@pytest.mark.parametrize("name", UNREACHED)
def test_an_aws_that_does_not_answer_is_one_message(name: str) -> None:
    """Each failure of a connection that botocore has, but for a stream that breaks in the middle."""
    error = vars(botocore.exceptions)[name](**UNREACHED[name], error=OSError("refused"))
    failure = explain(error)
    assert failure is not None
    url = UNREACHED[name].get("endpoint_url", "AWS")
    assert failure.message == f"{url} does not answer ({name}). Expected an answer"
    assert failure.fix == "check network, proxy and AWS_ENDPOINT_URL, then run the command again"
    assert failure.code == ERROR


def test_each_failure_of_a_connection_that_botocore_has_is_known() -> None:
    bases = (botocore.exceptions.HTTPClientError, botocore.exceptions.ConnectionError)
    listed = {
        name
        for name, value in vars(botocore.exceptions).items()
        if isinstance(value, type) and issubclass(value, bases)
    }
    assert listed - {base.__name__ for base in bases} - {"ResponseStreamingError"} == set(UNREACHED)


# pkg/kubelet/images/types.go and pkg/kubelet/kuberuntime of Kubernetes; OOMKilled and Error end a container
IMAGE = ("ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull")
CRASH = (
    "CrashLoopBackOff", "OOMKilled", "Error", "CreateContainerConfigError", "CreateContainerError", "RunContainerError",
)  # fmt: skip


@pytest.mark.parametrize("reason", [*IMAGE, *CRASH])
def test_a_container_that_does_not_start_needs_somebody(reason: str) -> None:
    seen = with_pod(healthy(), "w1", ready=False, reason=reason, message="why", restarts=3, created=ago(9))
    (finding,) = ray.pods(seen)
    assert (finding.kind, finding.why, finding.since, finding.subject) == ("action-required", "why", ago(9), "w1")
    if reason in IMAGE:
        assert finding.what == f"pod w1 cannot get its image ({reason})"
        assert finding.next == "hyperpod-ray preflight demo"
    else:
        assert finding.what == f"pod w1 does not stay up ({reason}, 3 restarts)"
        assert finding.next == "kubectl -n ray logs w1 --previous"
    assert not [*ray.pods(with_pod(seen, "w1", deleting_since=ago(1)))]


@pytest.mark.parametrize("reason", ["Unschedulable", "SchedulingGated"])
def test_a_pod_without_a_node_waits(reason: str) -> None:
    """`status.conditions` of a pod: https://kubernetes.io/docs/concepts/scheduling-eviction/pod-scheduling-readiness/."""
    seen = with_pod(healthy(), "w1", ready=False, reason=reason, message="0/5 nodes", node="", created=ago(1))
    seen = replace(seen, unseen=())
    (finding,) = ray.pods(seen)
    assert "w1" in finding.what and "image" not in finding.what


def test_the_counters_are_fields_of_nvidia_smi(monkeypatch: pytest.MonkeyPatch) -> None:
    """`nvidia-smi --help-query-gpu` and `--help-query-remapped-rows` of driver 580."""
    asked: list[list[str]] = []

    class Done:
        returncode, stdout, stderr = 0, "0, 1, 2, Active, 40\n", ""

    def run(words: list[str], **_: object) -> type[Done]:
        asked.append(words)
        return Done

    monkeypatch.setattr(subprocess, "run", run)
    node_probe.health()
    node_probe.driver()
    assert asked == [
        ["nvidia-smi", f"{query}", "--format=csv,noheader,nounits"]
        for query in (
            "--query-gpu=ecc.errors.uncorrected.volatile.total,ecc.errors.corrected.volatile.total,"
            "ecc.errors.uncorrected.aggregate.total,clocks_throttle_reasons.hw_slowdown,temperature.gpu",
            "--query-remapped-rows=remapped_rows.pending,remapped_rows.failure",
            "--query-gpu=driver_version",
        )
    ]
