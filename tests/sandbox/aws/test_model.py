from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import botocore.session
import pytest

from hyperpod_ray_sandbox.aws import process
from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError
from hyperpod_ray_sandbox.aws.emulator.model import LOADER, Model, know_protocols_alone, metadata

SAGEMAKER = Model("sagemaker")
WRONG_TAINT = {"Taints": [{"Key": "k", "Effect": "No"}]}


def group(**more: Any) -> dict[str, Any]:
    role = "arn:aws:iam::000000000001:role/execution"
    return {
        "InstanceGroupName": "gpu",
        "InstanceType": "ml.g5.8xlarge",
        "InstanceCount": 1,
        "ExecutionRole": role,
    } | more


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"ClusterName": "a", "InstanceGroups": [group(InstanceType="ml.no")]}, "InstanceGroups.1.member.InstanceType"),
        ({"ClusterName": "a_b", "InstanceGroups": [group()]}, "regular expression"),
        ({"ClusterName": "a", "InstanceGroups": [group(InstanceCount=-1)]}, "InstanceCount"),
        ({"ClusterName": "a", "InstanceGroups": [group(ThreadsPerCore=3)]}, "less than or equal to 2"),
        ({"ClusterName": "a", "InstanceGroups": [group(Colour="red")]}, "Unknown parameter"),
        ({"InstanceGroups": [group()]}, "Missing required parameter"),
        ({"ClusterName": "a", "InstanceGroups": [group(KubernetesConfig=WRONG_TAINT)]}, "NoExecute"),
    ],
)  # fmt: skip
def test_an_invalid_request_is_named(data: dict[str, Any], said: str) -> None:
    with pytest.raises(ServiceError) as error:
        SAGEMAKER.check_input("CreateCluster", data)
    assert error.value.code == "ValidationException"
    assert said in error.value.message


def test_a_valid_request_passes() -> None:
    SAGEMAKER.check_input("CreateCluster", {"ClusterName": "a", "InstanceGroups": [group()]})


def test_an_answer_outside_the_model_is_an_error_of_ours() -> None:
    with pytest.raises(AssertionError, match="ClusterStatus"):
        SAGEMAKER.check_output(
            "DescribeCluster", {"ClusterArn": "a", "ClusterStatus": "Sleeping", "InstanceGroups": []}
        )


def test_text_of_a_template_becomes_what_the_operation_takes() -> None:
    given = {
        "InstanceGroups": [
            {"InstanceCount": "2", "InstanceStorageConfigs": [{"EbsVolumeConfig": {"RootVolume": "true"}}]}
        ]
    }
    coerced = SAGEMAKER.coerce("CreateCluster", given)["InstanceGroups"][0]
    assert coerced["InstanceCount"] == 2
    assert coerced["InstanceStorageConfigs"][0]["EbsVolumeConfig"]["RootVolume"] is True


def test_what_cannot_be_a_number_is_left_for_the_validator() -> None:
    coerced = SAGEMAKER.coerce("CreateCluster", {"ClusterName": "a", "InstanceGroups": [group(InstanceCount="two")]})
    with pytest.raises(ServiceError, match="InstanceCount"):
        SAGEMAKER.check_input("CreateCluster", coerced)


NAMES = {"states": "stepfunctions", "monitoring": "cloudwatch", "tagging": "resourcegroupstaggingapi"}


@pytest.mark.parametrize("service", [*process.SERVICES, "sagemaker", "fsx", "ce", "service-quotas"])
def test_a_service_speaks_the_protocol_of_its_whole_model(service: str) -> None:
    name = NAMES.get(service, service)
    assert metadata(name) == botocore.session.get_session().get_service_model(name).metadata


def test_no_whole_model_is_read_for_the_form_of_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """EC2's alone takes a tenth of a second, and each service of a deployment answers."""
    responses = SimpleNamespace(_BOTOCORE_NAME=NAMES)
    context: Any = SimpleNamespace(hooks=SimpleNamespace(responses=responses))
    know_protocols_alone(context)
    monkeypatch.setattr(LOADER, "load_service_model", lambda *_: pytest.fail("a whole model was read"))
    metadata.cache_clear()
    assert responses._service_model("ec2").metadata["protocol"] == "ec2"
    assert responses._service_model("states").metadata["protocol"] == "json"
    assert responses._service_model("nonsense") is None
