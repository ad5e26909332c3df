"""What AWS and Kubernetes answer, in their own shapes, and what is read from it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.exceptions import ClientError
from botocore.validate import validate_parameters

from hyperpod_ray.core.loader import parse
from hyperpod_ray.ops.change import upkeep
from hyperpod_ray.ops.observe import controllers, free_space, hyperpod
from hyperpod_ray.ops.observe.controllers import EXPECTED
from hyperpod_ray.ops.observe.hangs import hangs
from hyperpod_ray.ops.observe.snapshot import (
    EKS,
    Cluster,
    FileSystem,
)
from hyperpod_ray.ops.observe.stack_cause import first_failure
from hyperpod_ray.ops.orchestrators import gather
from hyperpod_ray.ops.reach.clients import Target
from hyperpod_ray.ops.reach.ray_pods import Pod
from hyperpod_ray.ops.verdict import judge
from tests.ops.world import environment_text

NOW = datetime.now(UTC)
PLAN = parse(environment_text(), name="demo", path=Path("demo.yaml")).plan
ARN = "arn:aws:sagemaker:us-west-2:000000000001:training-plan/block"
Json = dict[str, Any]
GROUP: Json = {
    "InstanceGroupName": "workers", "InstanceType": "ml.g5.8xlarge", "TargetCount": 3, "CurrentCount": 3,
    "TrainingPlanArn": ARN, "ImageVersionStatus": "EndOfLife", "CurrentImageReleaseVersion": "2025.01.01",
    "DesiredImageReleaseVersion": "2026.10.02", "SoftwareUpdateStatus": "Succeeded",
    "AutoPatchConfig": {"PatchingStrategy": "WhenIdle", "CurrentPatchSchedule": {"NextPatchDate": NOW}},
}  # fmt: skip
ANSWERS: dict[tuple[str, str], Json] = {
    ("sagemaker", "describe_cluster"): {
        "ClusterArn": "arn:aws:sagemaker:us-west-2:000000000001:cluster/abcdefghijkl", "ClusterName": "ray-ops",
        "ClusterStatus": "InService", "NodeRecovery": "Automatic", "CreationTime": NOW, "InstanceGroups": [GROUP],
    },
    ("sagemaker", "describe_training_plan"): {
        "TrainingPlanArn": ARN, "TrainingPlanName": "block", "Status": "Active", "StartTime": NOW - timedelta(days=9),
        "EndTime": NOW + timedelta(hours=20, minutes=40), "UnhealthyInstanceCount": 1,
    },
    ("cloudwatch", "get_metric_data"): {
        "MetricDataResults": [
            {"Id": "free0", "Timestamps": [NOW, NOW - timedelta(minutes=1)], "Values": [2 * 1024.0**3, 9.0]}
        ]
    },
    ("logs", "filter_log_events"): {
        "events": [
            {"logStreamName": "SageMakerHangJobDetectionEvents/workers/i-1", "timestamp": 1_000_000, "eventId": "1",
             "message": '{"event": "HANG_DETECTED", "job_id": "raysubmit_1", "message": "no line for 10 min"}'},
            {"logStreamName": "SageMakerHangJobDetectionEvents/my/group/i-2", "timestamp": 2_000_000, "eventId": "2",
             "message": "HANG_DETECTED rank 3\n"},
        ]
    },
}  # fmt: skip
OPERATIONS = {
    "describe_cluster": "DescribeCluster", "describe_training_plan": "DescribeTrainingPlan",
    "get_metric_data": "GetMetricData", "filter_log_events": "FilterLogEvents",
}  # fmt: skip


class Aws:
    """Answers by botocore's model: what is asked and what is answered must be of its shapes."""

    def __init__(self) -> None:
        self.asked: dict[str, Json] = {}
        self.refused = False

    def call(self, service: str, operation: str, **arguments: Any) -> Json:
        if self.refused:
            raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, OPERATIONS[operation])
        model = botocore.session.get_session().get_service_model(service).operation_model(OPERATIONS[operation])
        assert model.input_shape is not None
        assert model.output_shape is not None
        validate_parameters(arguments, model.input_shape)
        answer = ANSWERS[service, operation]
        validate_parameters(answer, model.output_shape)
        self.asked[operation] = arguments
        return answer

    def pages(self, service: str, operation: str, key: str, **arguments: Any) -> list[Json]:
        found: list[Json] = self.call(service, operation, **arguments)[key]
        return found


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


def test_a_review_says_what_ends_and_what_is_old(target: Target) -> None:
    ends, old = upkeep.sentences(target)
    assert ends.startswith("Training plan 'block' of group 'workers' ends in 20 h")
    assert "Group 'workers' runs an AMI that is no longer supported (2025.01.01, newest 2026.10.02)" in old
    assert "Next: `aws sagemaker update-cluster-software --cluster-name ray-ops" in old


def test_the_update_call_is_the_services_own() -> None:
    import json
    import shlex

    from hyperpod_ray.ops.verdict.upkeep import update_command

    words = shlex.split(update_command("ray-ops", "workers"))
    given = json.loads(words[words.index("--deployment-config") + 1])
    model = botocore.session.get_session().get_service_model("sagemaker").operation_model("UpdateClusterSoftware")
    assert model.input_shape is not None
    groups = [{"InstanceGroupName": "workers"}]
    validate_parameters(
        {"ClusterName": "ray-ops", "InstanceGroups": groups, "DeploymentConfig": given}, model.input_shape
    )


def test_a_review_without_rights_says_so(target: Target) -> None:
    target.aws.refused = True  # type: ignore[attr-defined]
    (sentence,) = upkeep.sentences(target)
    assert sentence.startswith("Training plans and AMIs of the running cluster are not known: ")


def test_free_space_is_the_sum_of_one_minute(target: Target) -> None:
    there = FileSystem(id="fs-1", lifecycle="AVAILABLE", capacity_gib=1200)
    creating = FileSystem(id="fs-0", lifecycle="CREATING", capacity_gib=1200)
    found = free_space.with_free_space(target, (creating, there))
    assert [item.free_gib for item in found] == [None, 2.0]
    (query,) = target.aws.asked["get_metric_data"]["MetricDataQueries"]  # type: ignore[attr-defined]
    stat = query["MetricStat"]
    assert (stat["Stat"], stat["Period"]) == ("Sum", 60), "over a longer span the sum counts each minute again"
    assert stat["Metric"]["Dimensions"] == [{"Name": "FileSystemId", "Value": "fs-1"}]


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


def event(resource: str, status: str, reason: str = "") -> Json:
    return {
        "LogicalResourceId": resource, "ResourceType": "AWS::X::Y", "ResourceStatus": status,
        "ResourceStatusReason": reason,
    }  # fmt: skip


def test_the_first_failure_of_the_last_operation_is_the_cause() -> None:
    newest_first = [
        event("demo-Ray", "UPDATE_ROLLBACK_COMPLETE"),
        event("B", "UPDATE_FAILED", "Resource update cancelled"),
        event("C", "CREATE_FAILED", "later"),
        event("A", "UPDATE_FAILED", "spec is immutable"),
        event("D", "UPDATE_FAILED", "Resource update cancelled"),
        event("demo-Ray", "UPDATE_IN_PROGRESS", "User Initiated"),
        event("Old", "CREATE_FAILED", "of another day"),
        event("demo-Ray", "CREATE_IN_PROGRESS"),
    ]
    assert first_failure(newest_first, stack="demo-Ray") == ("A (AWS::X::Y)", "spec is immutable")
    assert first_failure([event("demo-Ray", "ROLLBACK_COMPLETE")], stack="demo-Ray") == ("", "")


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
