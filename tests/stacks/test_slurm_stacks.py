"""What an environment on Slurm becomes: the example, a file with every option, and one whose image is built."""

from __future__ import annotations

import json
from collections import Counter
from datetime import date
from typing import Any

import pytest

from hyperpod_ray.core import load_any, requests
from hyperpod_ray.core.checks.account import limits
from hyperpod_ray.pricing import price_file, prices
from hyperpod_ray.review import assembly
from hyperpod_ray.review.schedule import first_deploy
from hyperpod_ray_rules import hyperpod
from tests.stacks.assembled import Assembly
from tests.stacks.slurm_stacks_helpers import alarms, folder_of, permissions, references, statements
from tests.stacks.test_requests import agrees
from tests.stacks.test_variants import VARIANTS
from tests.support.iam import Request, allows, statements_of

SECRET = "arn:aws:secretsmanager:us-west-2:111122223333:secret:slurm-AbCdEf"


@pytest.mark.slow
def test_the_registry_finds_no_error(either: Assembly) -> None:
    assert either.lint_errors() == []


def test_the_rules_judge_what_is_made(either: Assembly) -> None:
    made = either.one("AWS::SageMaker::Cluster")
    assert agrees(requests.create_cluster(load_any(either.name, folder=folder_of(either)).plan), made)
    where = hyperpod.Where(region="us-west-2", account="111122223333")
    assert list(hyperpod.create_cluster(made, where)) == []


def test_the_cluster_is_all_or_nothing_where_the_file_says_so(built: Assembly) -> None:
    cluster = built.one("AWS::SageMaker::Cluster")
    assert "NodeProvisioningMode" not in cluster
    assert cluster["NodeRecovery"] == "None"
    controller, workers = cluster["InstanceGroups"]
    assert workers["AutoPatchConfig"] == {"PatchingStrategy": "WhenAllIdle"}
    assert "AutoPatchConfig" not in controller
    assert workers["OverrideVpcConfig"]["Subnets"] != cluster["VpcConfig"]["Subnets"]
    assert workers["OverrideVpcConfig"]["SecurityGroupIds"] == cluster["VpcConfig"]["SecurityGroupIds"]
    assert "OverrideVpcConfig" not in controller


def test_the_clusters_own_subnet_is_of_the_first_zone(built: Assembly) -> None:
    """As on EKS: a cluster's network cannot change, so it follows from no group."""
    for key, resource in built.of_type("AWS::SageMaker::Cluster").items():
        subnet = references(built).resolve(key.partition("/")[0], resource["Properties"]["VpcConfig"]["Subnets"][0])
    zones = {
        key.replace("/", "-"): row["Properties"]["AvailabilityZoneId"]
        for key, row in built.of_type("AWS::EC2::Subnet").items()
    }
    assert zones[subnet] == "usw2-az2"


def test_every_node_mounts_the_file_system(example: Assembly) -> None:
    for group in example.one("AWS::SageMaker::Cluster")["InstanceGroups"]:
        (mount,) = [
            config["FsxLustreConfig"] for config in group["InstanceStorageConfigs"] if "FsxLustreConfig" in config
        ]
        assert mount["MountPath"] == "/fsx"
        assert {"EbsVolumeConfig": {"VolumeSizeInGB": 500}} in group["InstanceStorageConfigs"]
        assert {"DnsName", "MountName"} <= set(mount)
        assert "LifeCycleConfig" not in group, "AWS's image starts Slurm by itself"


def test_an_existing_file_system_is_mounted_by_its_name(options: Assembly) -> None:
    group = options.one("AWS::SageMaker::Cluster")["InstanceGroups"][1]
    dns = "fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com"
    wanted = [{"FsxLustreConfig": {"DnsName": dns, "MountName": "abcdefgh", "MountPath": "/fsx"}}]
    lustre = [config for config in group["InstanceStorageConfigs"] if "FsxOpenZfsConfig" not in config]
    assert lustre == wanted


def test_the_script_extends_the_set_up(options: Assembly) -> None:
    for group in options.one("AWS::SageMaker::Cluster")["InstanceGroups"]:
        assert group["LifeCycleConfig"]["OnInitComplete"] == "with_homes.sh", "which runs on_create.sh"
        assert "OnCreate" not in group["LifeCycleConfig"]
    bucket = options.one("AWS::S3::Bucket")["BucketName"]
    assert bucket == "sagemaker-slurm-options-111122223333-us-west-2"


def test_accounting_is_where_the_file_says(options: Assembly) -> None:
    database = options.one("AWS::SageMaker::Cluster")["Orchestrator"]["Slurm"]["AccountingDatabase"]
    assert database == {"Endpoint": "db.example.com", "SecretArn": SECRET, "Port": 3307, "Name": "acct"}
    plan = load_any(options.name, folder=VARIANTS).plan
    assert requests.create_cluster(plan)["Orchestrator"]["Slurm"]["AccountingDatabase"] == database, "as it is judged"
    assert statements(options)["AccountingSecret"]["Resource"] == SECRET
    egress = [
        rule
        for group in options.of_type("AWS::EC2::SecurityGroup").values()
        for rule in group["Properties"].get("SecurityGroupEgress", [])
        if rule.get("FromPort") == 3307
    ]
    assert len(egress) == 1


def test_jobs_pull_the_image_that_is_built(built: Assembly) -> None:
    ours = "arn:aws:ecr:us-west-2:111122223333:repository/team/slurm"
    assert not built.of_type("AWS::ECR::Repository"), "it is there already: `repository_exists`"
    for action in ("BatchCheckLayerAvailability", "BatchGetImage", "GetDownloadUrlForLayer"):
        assert allows(permissions(built), Request(action=f"ecr:{action}", resource=ours))
        assert not allows(permissions(built), Request(action=f"ecr:{action}", resource=f"{ours}-2"))
    assert allows(permissions(built), Request(action="ecr:GetAuthorizationToken"))
    assert not allows(permissions(built), Request(action="ecr:PutImage", resource=ours))


def test_nodes_are_in_the_group_of_the_network(either: Assembly) -> None:
    group = either.one("AWS::SageMaker::Cluster")["VpcConfig"]["SecurityGroupIds"]
    assert len(group) == 1
    assert "NodesSecurityGroup" in json.dumps(group)


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


def test_the_repository_is_there_before_the_role_that_names_it(built: Assembly) -> None:
    assert "slurm-built-Image" in built.before("slurm-built-HyperPod")


def test_events_are_archived_and_mailed_and_no_alarm_reads_eks(example: Assembly, options: Assembly) -> None:
    assert example.one("AWS::CloudWatch::Dashboard")
    assert len(options.of_type("AWS::SNS::Subscription")) == 1
    assert options.one("AWS::Budgets::Budget")
    alarms = example.of_type("AWS::CloudWatch::Alarm").values()
    assert alarms
    assert "AWS/EKS" not in str([alarm["Properties"] for alarm in alarms])
    assert "AWS/EKS" not in str(example.one("AWS::CloudWatch::Dashboard"))


def archive(made: Assembly) -> list[dict[str, Any]]:
    groups = made.of_type("AWS::Logs::LogGroup").values()
    return [row for row in groups if str(row["Properties"].get("LogGroupName")).startswith("/aws/events/")]


def test_the_archive_is_kept_as_long_as_the_file_says(example: Assembly, built: Assembly) -> None:
    (new,) = archive(example)
    assert (new["Properties"]["RetentionInDays"], new["DeletionPolicy"]) == (365, "Delete")
    assert archive(built) == [], "it exists"


def test_alarms_follow_the_cluster(example: Assembly, options: Assembly, built: Assembly) -> None:
    for made, capacity in ((example, 4800), (built, 2400)):
        (full,) = alarms(made, "FreeDataStorageCapacity")
        assert full["Threshold"] == capacity * 1024**3 // 10
    assert alarms(options, "FreeDataStorageCapacity") == [], "the file system is not the stack's"


def test_the_budget_mails_at_the_files_shares(options: Assembly) -> None:
    properties = options.one("AWS::Budgets::Budget")
    said = {
        (subscriber["Notification"]["NotificationType"], subscriber["Notification"]["Threshold"])
        for subscriber in properties["NotificationsWithSubscribers"]
    }
    assert said == {("ACTUAL", 70), ("FORECASTED", 90)}
    assert properties["Budget"]["BudgetLimit"] == {"Amount": 1000, "Unit": "USD"}
    (topic,) = options.of_type("AWS::SNS::Topic")
    subscribers = [subscriber["Subscribers"] for subscriber in properties["NotificationsWithSubscribers"]]
    assert subscribers == [[{"Address": {"Ref": topic.partition("/")[2]}, "SubscriptionType": "SNS"}]] * 2
    policy = statements_of(options.one("AWS::SNS::TopicPolicy")["PolicyDocument"])
    assert "budgets.amazonaws.com" in json.dumps([one["Principal"] for one in policy])


def test_roles_are_fewer_than_preflight_asks_for(either: Assembly) -> None:
    assert 0 < len(either.of_type("AWS::IAM::Role")) <= limits.ROLES["slurm"]


def test_a_protected_environment_keeps_its_archive(options: Assembly) -> None:
    (kept,) = archive(options)
    assert kept["DeletionPolicy"].startswith("Retain")


def test_what_is_always_paid_is_what_the_templates_make(either: Assembly) -> None:
    plan = load_any(either.name, folder=folder_of(either)).plan
    counted = Counter(
        {
            "nat_gateway": len(either.of_type("AWS::EC2::NatGateway")),
            "public_ipv4": len(either.of_type("AWS::EC2::EIP")),
            "interface_endpoint": sum(
                len(row["Properties"].get("SubnetIds", [])) for row in either.of_type("AWS::EC2::VPCEndpoint").values()
            ),
        }
    )
    assert dict(prices.always_paid(plan, day=date(2026, 11, 22))) == dict(+counted)
    lines = prices.cost(plan, price_file.recorded(), day=date(2026, 11, 22)).lines
    groups = {row.name: row.quantity for row in lines if row.unit == "hour"}
    assert {group.name: group.count for group in plan.groups}.items() <= groups.items()


def test_a_first_deploy_waits_for_no_kubernetes(example: Assembly) -> None:
    """The times are those of the resources: the file system before the nodes that mount it, and their deep checks."""
    made = first_deploy(assembly.read(example.folder)["slurm"])
    assert made is not None
    assert [name.removeprefix("slurm-") for name in made.chain] == ["Network", "Storage", "HyperPod"]
    assert [step.title.rpartition("/")[2] for step in made.path][-2:] == ["FileSystem", "Cluster"]
    assert 15 < made.side_by_side.mid <= 40
    (workers,) = made.nodes
    assert (workers.group, "deep health checks" in workers.why) == ("workers", True)
    assert workers.minutes.low >= made.side_by_side.low
