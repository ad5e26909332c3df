"""What an environment on Slurm becomes: the example, and one file with every option."""

from __future__ import annotations

from typing import Any

import pytest

from core import load_any, requests
from core.loader import FOLDER
from core.plan_names import stack_names
from service_rules import hyperpod
from tests.stacks.conftest import Assembly, synthesize
from tests.stacks.test_requests import agrees
from tests.stacks.test_variants import VARIANTS

EXAMPLES = FOLDER / "examples"
SECRET = "arn:aws:secretsmanager:us-west-2:111122223333:secret:slurm-AbCdEf"
OF_KUBERNETES = ("AWS::EKS::", "Custom::AWSCDK-EKS", "AWS::CodeBuild::", "AWS::ECR::", "AWS::APS::")


@pytest.fixture(scope="module")
def example() -> Assembly:
    return synthesize("slurm", folder=EXAMPLES)


@pytest.fixture(scope="module")
def options() -> Assembly:
    return synthesize("slurm-options", folder=VARIANTS)


@pytest.fixture(params=["example", "options"])
def either(request: pytest.FixtureRequest) -> Assembly:
    found: Assembly = request.getfixturevalue(request.param)
    return found


def statements(made: Assembly) -> dict[str, dict[str, Any]]:
    """Statements of the nodes' own policy, by their names."""
    (policy,) = [
        resource["Properties"]["PolicyDocument"]["Statement"]
        for resource in made.of_type("AWS::IAM::ManagedPolicy").values()
        if "on Slurm" in resource["Properties"].get("Description", "")
    ]
    return {statement["Sid"]: statement for statement in policy}


def test_the_registry_finds_no_error(either: Assembly) -> None:
    assert either.lint_errors() == []


def test_only_the_stacks_of_slurm_are_made(either: Assembly) -> None:
    folder = EXAMPLES if either.name == "slurm" else VARIANTS
    plan = load_any(either.name, folder=folder).plan
    assert sorted(either.templates) == sorted(stack_names(plan))
    kinds = {row["Type"] for template in either.templates.values() for row in template["Resources"].values()}
    assert [kind for kind in kinds if kind.startswith(OF_KUBERNETES)] == []


def test_the_rules_judge_what_is_made(either: Assembly) -> None:
    folder = EXAMPLES if either.name == "slurm" else VARIANTS
    made = either.one("AWS::SageMaker::Cluster")
    assert agrees(requests.create_cluster(load_any(either.name, folder=folder).plan), made)
    where = hyperpod.Where(region="us-west-2", account="111122223333")
    assert list(hyperpod.create_cluster(made, where)) == []


def test_every_node_mounts_the_file_system(example: Assembly) -> None:
    for group in example.one("AWS::SageMaker::Cluster")["InstanceGroups"]:
        (mount,) = [one["FsxLustreConfig"] for one in group["InstanceStorageConfigs"] if "FsxLustreConfig" in one]
        assert mount["MountPath"] == "/fsx"
        assert {"DnsName", "MountName"} <= set(mount)
        assert "LifeCycleConfig" not in group, "AWS's image starts Slurm by itself"


def test_an_existing_file_system_is_mounted_by_its_name(options: Assembly) -> None:
    group = options.one("AWS::SageMaker::Cluster")["InstanceGroups"][1]
    dns = "fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com"
    wanted = [{"FsxLustreConfig": {"DnsName": dns, "MountName": "abcdefgh", "MountPath": "/fsx"}}]
    assert group["InstanceStorageConfigs"] == wanted


def test_the_script_extends_the_set_up(options: Assembly) -> None:
    for group in options.one("AWS::SageMaker::Cluster")["InstanceGroups"]:
        assert group["LifeCycleConfig"]["OnInitComplete"] == "on_create.sh"
        assert "OnCreate" not in group["LifeCycleConfig"]
    bucket = options.one("AWS::S3::Bucket")["BucketName"]
    assert bucket == "sagemaker-slurm-options-111122223333-us-west-2"


def test_accounting_is_where_the_file_says(options: Assembly) -> None:
    database = options.one("AWS::SageMaker::Cluster")["Orchestrator"]["Slurm"]["AccountingDatabase"]
    assert database == {"Endpoint": "db.example.com", "SecretArn": SECRET, "Port": 3307, "Name": "acct"}
    assert statements(options)["AccountingSecret"]["Resource"] == SECRET
    egress = [
        rule
        for group in options.of_type("AWS::EC2::SecurityGroup").values()
        for rule in group["Properties"].get("SecurityGroupEgress", [])
        if rule.get("FromPort") == 3307
    ]
    assert len(egress) == 1


def test_nodes_may_do_what_they_need_and_no_more(example: Assembly, options: Assembly) -> None:
    plain, full = statements(example), statements(options)
    assert set(plain) == {"NewInterfaces", "Interfaces", "TagInterfaces", "TakeBackInterfaces", "Describe"}
    assert set(full) - set(plain) == {"RegistryToken", "PullImages", "AccountingSecret"}
    assert full["PullImages"]["Resource"] == "arn:aws:ecr:us-west-2:111122223333:repository/team/train"
    assert "ec2:Vpc" in plain["Interfaces"]["Condition"]["ArnEquals"]
    anywhere = {name for name, row in full.items() if row["Resource"] == "*"}
    assert anywhere == {"TakeBackInterfaces", "Describe", "RegistryToken"}


def test_a_closed_network_has_the_endpoints_that_nodes_call(options: Assembly) -> None:
    services = {
        str(endpoint["Properties"]["ServiceName"]).rpartition("us-west-2.")[2]
        for endpoint in options.of_type("AWS::EC2::VPCEndpoint").values()
        if endpoint["Properties"].get("VpcEndpointType") == "Interface"
    }
    assert services == {
        "ecr.api", "ecr.dkr", "logs", "monitoring", "secretsmanager", "sagemaker.api", "ssm", "ssmmessages",
        "ec2messages",
    }  # fmt: skip
    assert not options.of_type("AWS::EC2::NatGateway")


def test_the_way_out_is_there_before_the_nodes(example: Assembly) -> None:
    assert any(name.startswith("slurm-Network/") for name in example.of_type("AWS::EC2::NatGateway"))
    assert "slurm-Network" in example.before("slurm-HyperPod")


def test_events_are_archived_and_mailed_and_no_alarm_reads_eks(example: Assembly, options: Assembly) -> None:
    assert example.one("AWS::CloudWatch::Dashboard")
    assert len(options.of_type("AWS::SNS::Subscription")) == 1
    assert options.one("AWS::Budgets::Budget")
    alarms = example.of_type("AWS::CloudWatch::Alarm").values()
    assert alarms
    assert "AWS/EKS" not in str([alarm["Properties"] for alarm in alarms])
    assert "AWS/EKS" not in str(example.one("AWS::CloudWatch::Dashboard"))


def test_a_protected_environment_keeps_its_archive(options: Assembly) -> None:
    groups = options.of_type("AWS::Logs::LogGroup").values()
    (archive,) = [row for row in groups if str(row["Properties"].get("LogGroupName")).startswith("/aws/events/")]
    assert archive["DeletionPolicy"].startswith("Retain")
