from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.cli.deploy_review import Reviewer
from hyperpod_ray.core import load
from hyperpod_ray.ops.errors import BAD_USE, CONDITION_FALSE, OpsError
from hyperpod_ray.ops.observe.snapshot import Stack
from hyperpod_ray.ops.reach import clients
from hyperpod_ray.review.findings import Effect
from tests.cli.deploy_helpers import NAME, assembly
from tests.review.small import resources
from tests.support.service_models import values_of

CLUSTER: dict[str, Any] = {
    "Type": "AWS::SageMaker::Cluster",
    "Properties": {
        "ClusterName": "ray",
        "InstanceGroups": [{"InstanceGroupName": "workers", "InstanceType": "ml.g5.8xlarge", "InstanceCount": 4}],
    },
}


VPC = {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}}


def templates(*, workers: int = 4) -> dict[str, Any]:
    cluster = copy.deepcopy(CLUSTER)
    cluster["Properties"]["InstanceGroups"][0]["InstanceCount"] = workers
    return {"Network": resources(Vpc=VPC), "HyperPod": resources(Cluster=cluster)}


class Account:
    """CloudFormation with some stacks."""

    def __init__(self, stacks: dict[str, Any]) -> None:
        self.stacks = stacks
        self.asked: list[str] = []

    def call(self, service: str, operation: str, **arguments: Any) -> Any:
        if service == "sagemaker":  # what the review says of the cluster's plans and AMIs has its own tests
            raise Missing(arguments["ClusterName"])
        assert service == "cloudformation"
        name = arguments["StackName"]
        self.asked.append(f"{operation} {name}")
        if operation == "get_template":
            assert arguments["TemplateStage"] == "Original"
            return {"TemplateBody": self.stacks[name]}
        assert operation == "describe_stacks"
        if name not in self.stacks:
            raise Missing(name)
        return {"Stacks": [{"StackName": name, "StackStatus": "UPDATE_COMPLETE"}]}


class Missing(Exception):
    def __init__(self, name: str) -> None:
        super().__init__(f"Stack with id {name} does not exist")
        self.response = {"Error": {"Code": "ValidationError", "Message": f"Stack with id {name} does not exist"}}


def review(
    tmp_path: Path, head: dict[str, Any], deployed: dict[str, Any], *accepted: Effect, state: str = "UPDATE_COMPLETE"
) -> Any:
    target = clients.Target(load(NAME))
    account = Account({f"{NAME}-{name}": template for name, template in deployed.items()})
    target.aws = account  # type: ignore[assignment]
    folder = assembly(tmp_path / "cdk.out", head)
    made = Reviewer(target, folder=folder, assembly_folder=None, accepted=accepted)
    return made([Stack(name=name, status=state) for name in account.stacks])


def test_a_template_of_somebody_elses_tool_is_refused_in_words(tmp_path: Path) -> None:
    """CloudFormation keeps YAML as it was sent, and the SDK hands it on as text."""
    text = "Resources:\n  Bucket: {Type: AWS::S3::Bucket}\n"
    with pytest.raises(
        OpsError, match=rf"stack {NAME}-Eks: its template in the account is not JSON.*cdk deploy"
    ) as error:
        review(tmp_path, {"Eks": {"Resources": {}}}, {"Eks": text})
    assert error.value.code == BAD_USE


def test_a_new_environment_says_how_long_it_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = review(tmp_path, templates(), {})
    assert expected.left() == (pytest.approx(20.3), ["dev-Network", "dev-HyperPod"])
    assert "Usually" in capsys.readouterr().out


def test_equal_templates_are_deployed_without_a_word_of_loss(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert review(tmp_path, templates(), templates()).minutes == {}
    assert "no change" in capsys.readouterr().out


def test_a_change_that_loses_nodes_stops_and_names_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(OpsError) as caught:
        review(tmp_path, templates(workers=2), templates())
    assert caught.value.code == CONDITION_FALSE
    assert caught.value.message == "the review stops the deploy of 'dev': loses nodes. Nothing was changed"
    assert caught.value.fix == "to deploy it all the same: hyperpod-ray deploy dev --accept loses-nodes"
    assert "loses nodes" in capsys.readouterr().out


@pytest.mark.parametrize("accepted", [(), (Effect.SAFE,), (Effect.INTERRUPTS,), (Effect.REJECTED,)])
def test_what_is_milder_does_not_accept_it(tmp_path: Path, accepted: tuple[Effect, ...]) -> None:
    with pytest.raises(OpsError, match="loses nodes"):
        review(tmp_path, templates(workers=2), templates(), *accepted)


@pytest.mark.parametrize("accepted", [Effect.LOSES_NODES, Effect.LOSES_DATA])
def test_an_accepted_loss_is_deployed(tmp_path: Path, accepted: Effect) -> None:
    assert "dev-HyperPod" in review(tmp_path, templates(workers=2), templates(), accepted).minutes


def test_what_the_service_rejects_is_accepted_by_its_own_name_only(tmp_path: Path) -> None:
    renamed = templates()
    renamed["HyperPod"]["Resources"]["Cluster"]["Properties"]["VpcConfig"] = {"Subnets": ["subnet-2"]}
    with pytest.raises(OpsError) as caught:
        review(tmp_path, renamed, templates(), Effect.LOSES_DATA)
    assert "will be rejected by the service" in caught.value.message
    assert caught.value.fix.endswith("deploy dev --accept loses-data --accept rejected")
    assert review(tmp_path / "again", renamed, templates(), Effect.LOSES_DATA, Effect.REJECTED)


def test_stacks_that_never_came_up_are_no_base(tmp_path: Path) -> None:
    """A first deploy that failed leaves ROLLBACK_COMPLETE: its template is there, its resources are not."""
    assert set(review(tmp_path, templates(workers=2), templates(), state="ROLLBACK_COMPLETE").minutes) == {
        "dev-Network", "dev-HyperPod",
    }  # fmt: skip


NEVER_UP = {"REVIEW_IN_PROGRESS", "ROLLBACK_COMPLETE", "ROLLBACK_FAILED"}


@pytest.mark.parametrize("state", sorted(values_of("cloudformation", "StackStatus")))
def test_a_stack_that_came_up_is_reviewed_in_whatever_state_it_is(state: str, tmp_path: Path) -> None:
    """A change that was rolled back leaves what was there before it."""
    if state in NEVER_UP:
        assert review(tmp_path, templates(workers=2), templates(), state=state).minutes
    else:
        with pytest.raises(OpsError, match="loses nodes"):
            review(tmp_path, templates(workers=2), templates(), state=state)


def test_a_part_that_left_the_file_is_in_the_review(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    review(tmp_path, templates(), {**templates(), "Mirror": resources(Vpc=VPC)})
    assert "stack dev-Mirror: no longer part of the app" in capsys.readouterr().out


def test_templates_that_refuse_themselves_are_not_sent(tmp_path: Path) -> None:
    head = templates()
    description = "chart kuberay-operator 1.7.0 was not fetched: run 'hyperpod-ray charts fetch', then deploy again"
    assertion = {"Assert": {"Fn::Equals": ["complete", "incomplete"]}, "AssertDescription": description}
    head["Network"]["Rules"] = {"NotDeployable": {"Assertions": [assertion]}}
    with pytest.raises(OpsError) as caught:
        review(tmp_path, head, {})
    assert caught.value.code == CONDITION_FALSE
    assert (
        "dev-Network: chart kuberay-operator 1.7.0 was not fetched: run 'hyperpod-ray charts fetch'"
        in caught.value.message
    )
    assert "nothing was changed" in caught.value.message


def test_an_assembly_of_another_environment_is_bad_use(tmp_path: Path) -> None:
    target = clients.Target(load("prod"))
    with pytest.raises(OpsError, match=r"has no environment 'prod'\. Expected one of dev") as caught:
        Reviewer(target, folder=assembly(tmp_path / "cdk.out", templates()), assembly_folder=None, accepted=())
    assert caught.value.code == BAD_USE
