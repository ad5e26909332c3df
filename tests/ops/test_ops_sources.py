"""What AWS and Kubernetes answer, in their own shapes, and what is read from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from hyperpod_ray.core.loader import parse
from hyperpod_ray.ops.observe import controllers, hyperpod
from hyperpod_ray.ops.observe.controllers import EXPECTED
from hyperpod_ray.ops.observe.hangs import hangs
from hyperpod_ray.ops.observe.snapshot import (
    EKS,
    Cluster,
)
from hyperpod_ray.ops.orchestrators import gather
from hyperpod_ray.ops.reach.clients import Target
from hyperpod_ray.ops.reach.ray_pods import Pod
from hyperpod_ray.ops.verdict import judge
from tests.ops.ops_sources_helpers import ARN, NOW, Aws, Json
from tests.ops.world import environment_text

PLAN = parse(environment_text(), name="demo", path=Path("demo.yaml")).plan


@pytest.fixture
def target() -> Target:
    made = Target(parse(environment_text(), name="demo", path=Path("demo.yaml")))
    made.aws = Aws()  # type: ignore[assignment]
    return made


CLUSTER = Cluster(name="ray-ops", arn="arn:aws:sagemaker:us-west-2:000000000001:cluster/abc", status="InService")


def test_groups_have_their_plan_and_their_ami(target: Target) -> None:
    found = hyperpod.cluster(target)
    assert found is not None
    (group,) = found.groups
    assert (group.training_plan, group.image_status) == (ARN, "EndOfLife")
    assert (group.image_release, group.image_available, group.update_status) == (
        "2025.01.01",
        "2026.10.02",
        "Succeeded",
    )
    assert group.next_patch == NOW
    (plan,) = hyperpod.training_plans(target, found)
    assert (plan.name, plan.status, plan.groups, plan.unhealthy) == ("block", "Active", ("workers",), 1)


def test_hangs_name_node_group_and_job(target: Target) -> None:
    second, first = hangs(target, CLUSTER)
    assert (first.group, first.instance, first.job, first.text) == (
        "workers",
        "i-1",
        "raysubmit_1",
        "no line for 10 min",
    )
    assert (second.group, second.instance, second.job, second.text) == ("my/group", "i-2", "", "HANG_DETECTED rank 3")
    asked = target.aws.asked["filter_log_events"]  # type: ignore[attr-defined]
    assert asked["logStreamNamePrefix"] == "SageMakerHangJobDetectionEvents/"
    assert asked["logGroupName"] == "/aws/sagemaker/Clusters/ray-ops/abc"


# --- stacks ----------------------------------------------------------------------------------------------------------


# --- controllers -----------------------------------------------------------------------------------------------------


def workload(name: str, spec: Json, status: Json) -> Json:
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": "x"}}, **spec}, "status": status}


def expected(name: str) -> controllers.Expected:
    return next(item for item in EXPECTED if item.name == name)


@pytest.mark.parametrize(
    ("name", "objects", "present", "wanted", "ready"),
    [
        # the API server omits counts of zero
        ("KubeRay operator", [workload("kuberay-operator", {"replicas": 2}, {})], True, 2, 0),
        ("KubeRay operator", [workload("kuberay-operator", {"replicas": 0}, {})], True, 0, 0),
        ("KubeRay operator", [workload("kuberay-operator", {}, {"readyReplicas": 1})], True, 1, 1),
        ("KubeRay operator", [workload("another-operator", {}, {"readyReplicas": 1})], False, 0, 0),
        (
            "NVIDIA device plugin",
            [
                workload("hyperpod-dependencies-nvidia-device-plugin-mps-control-daemon", {}, {}),
                workload(
                    "hyperpod-dependencies-nvidia-device-plugin", {}, {"desiredNumberScheduled": 3, "numberReady": 2}
                ),
            ],
            True,
            3,
            2,
        ),
        (
            "HyperPod's health-monitoring agent",
            [
                workload("health-monitoring-agent-non-nvidia", {}, {}),
                workload("health-monitoring-agent", {}, {"desiredNumberScheduled": 3}),
            ],
            True,
            3,
            0,
        ),
    ],
)
def test_a_workload_is_found_by_the_charts_name(
    name: str, objects: list[Json], *, present: bool, wanted: int, ready: int
) -> None:
    found, selector = controllers.found(expected(name), objects, plan=PLAN)
    assert (found.present, found.wanted, found.ready) == (present, wanted, ready)
    assert selector == ("app=x" if present else "")


def test_only_what_serves_an_instance_type_is_expected() -> None:
    names_ = {item.name for item in controllers.expected(PLAN)}
    assert {"NVIDIA device plugin", "EFA device plugin", "HyperPod's health-monitoring agent", "CoreDNS"} <= names_
    assert "node guard" in names_
    hyperpod = PLAN.settings.hyperpod.model_copy(update={"node_guard": None})
    refused = replace(PLAN, settings=PLAN.settings.model_copy(update={"hyperpod": hyperpod}))
    assert {item.name for item in controllers.expected(refused)} == names_ - {"node guard"}
    assert "Neuron device plugin" not in names_


def test_the_pods_say_since_when_and_where() -> None:
    base, _ = controllers.found(
        expected("CoreDNS"), [workload("coredns", {"replicas": 2}, {"readyReplicas": 1})], plan=PLAN
    )
    usual = Pod(name="a", namespace="kube-system", cluster="", role="", group="", phase="Running", ready=True)
    broken = Pod(
        name="b", namespace="kube-system", cluster="", role="", group="", phase="Pending", node="hyperpod-i-1",
        reason="ImagePullBackOff", message="not found", ready_since=NOW,
    )  # fmt: skip
    found = controllers.with_pods(base, [usual, broken])
    assert (found.since, found.why, found.nodes) == (NOW, "ImagePullBackOff: not found", ("hyperpod-i-1",))
    assert controllers.with_pods(base, [usual]) == base


def test_eks_that_fails_is_not_cloudformation(target: Target) -> None:
    """What the two services say is seen apart: stacks stay in the picture, and the right service is named."""

    class Failing(Aws):
        def require_account(self) -> None:
            """The account is right."""

        def call(self, service: str, operation: str, **arguments: Any) -> Json:
            if service == "eks":
                raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "no"}}, "DescribeCluster")
            return {"Stacks": [{"StackName": arguments["StackName"], "StackStatus": "CREATE_COMPLETE"}]}

        def pages(self, service: str, operation: str, key: str, **arguments: Any) -> list[Json]:
            return []

    target.aws = Failing()  # type: ignore[assignment]
    seen = gather.snapshot(target, only=("CloudFormation", EKS))
    assert seen.stacks and all(stack.status == "CREATE_COMPLETE" for stack in seen.stacks)
    assert [missing.source for missing in seen.unseen] == [EKS]
    assert "EKS could not be asked" in [finding.what for finding in judge(seen).findings]
