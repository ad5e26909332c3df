"""What an environment on Slurm becomes: the example, a file with every option, and one whose image is built."""

from __future__ import annotations

import json
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.core import load_any, requests
from hyperpod_ray.core.checks.account import limits
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.core.plan_names import stack_names
from hyperpod_ray.pricing import price_file, prices
from hyperpod_ray.review import assembly
from hyperpod_ray.review.schedule import first_deploy
from hyperpod_ray_rules import hyperpod
from tests.stacks.conftest import Assembly, synthesize
from tests.stacks.test_requests import agrees
from tests.stacks.test_variants import VARIANTS
from tests.support.iam import Request, allows, many, statements_of
from tests.support.references import References

EXAMPLES = FOLDER / "examples"
SECRET = "arn:aws:secretsmanager:us-west-2:111122223333:secret:slurm-AbCdEf"
KEY = "arn:aws:kms:us-west-2:111122223333:key/01234567-89ab-cdef-0123-456789abcdef"
OF_KUBERNETES = ("AWS::EKS::", "Custom::AWSCDK-EKS", "AWS::APS::")
OF_IMAGES = ("AWS::CodeBuild::", "AWS::ECR::")


@pytest.fixture(scope="module")
def example() -> Assembly:
    return synthesize("slurm", folder=EXAMPLES)


@pytest.fixture(scope="module")
def options() -> Assembly:
    return synthesize("slurm-options", folder=VARIANTS)


@pytest.fixture(scope="module")
def built() -> Assembly:
    return synthesize("slurm-built", folder=VARIANTS)


@pytest.fixture(params=["example", "options", "built"])
def either(request: pytest.FixtureRequest) -> Assembly:
    found: Assembly = request.getfixturevalue(request.param)
    return found


def folder_of(made: Assembly) -> Path:
    return EXAMPLES if made.name == "slurm" else VARIANTS


def references(made: Assembly) -> References:
    return References(made.templates, account="111122223333", region="us-west-2")


def permissions(made: Assembly, node_type: str = "Controller") -> list[Any]:
    """Statements of every policy of the role of one type of nodes, with what they refer to."""
    found: list[Any] = []
    groups = made.one("AWS::SageMaker::Cluster")["InstanceGroups"]
    (role,) = {json.dumps(group["ExecutionRole"]) for group in groups if group["SlurmConfig"]["NodeType"] == node_type}
    logical_id = json.loads(role)["Fn::GetAtt"][0]
    for kind in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
        for key, row in made.of_type(kind).items():
            if logical_id in json.dumps(row["Properties"]["Roles"]):
                resolved = references(made).resolve(key.partition("/")[0], row["Properties"]["PolicyDocument"])
                found += statements_of(resolved)
    return found


def vpc_of(made: Assembly) -> str:
    ((key, _),) = made.of_type("AWS::EC2::VPC").items()
    return references(made).arn(*key.split("/"))


def statements(made: Assembly) -> dict[str, dict[str, Any]]:
    """Statements of the nodes' own policy, by their names."""
    policies = [
        resource["Properties"]["PolicyDocument"]["Statement"]
        for resource in made.of_type("AWS::IAM::ManagedPolicy").values()
        if "on Slurm" in resource["Properties"].get("Description", "")
    ]
    policy = max(policies, key=len)  # the controller's, where jobs have another
    return {statement["Sid"]: statement for statement in policy}


@pytest.mark.slow
def test_the_registry_finds_no_error(either: Assembly) -> None:
    assert either.lint_errors() == []


def test_only_the_stacks_of_slurm_are_made(either: Assembly) -> None:
    plan = load_any(either.name, folder=folder_of(either)).plan
    assert sorted(either.templates) == sorted(stack_names(plan))
    kinds = {row["Type"] for template in either.templates.values() for row in template["Resources"].values()}
    assert [kind for kind in kinds if kind.startswith(OF_KUBERNETES)] == []
    assert any(kind.startswith(OF_IMAGES) for kind in kinds) == (either.name == "slurm-built")


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
        (mount,) = [one["FsxLustreConfig"] for one in group["InstanceStorageConfigs"] if "FsxLustreConfig" in one]
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


def test_nodes_may_do_what_they_need_and_no_more(example: Assembly, options: Assembly) -> None:
    plain, full = statements(example), statements(options)
    assert set(plain) == {"NewInterfaces", "Interfaces", "TagInterfaces", "TakeBackInterfaces", "Describe"}
    assert set(full) - set(plain) == {"RegistryToken", "PullImages", "AccountingSecret", "AccountingSecretKey"}
    assert full["PullImages"]["Resource"] == "arn:aws:ecr:us-west-2:111122223333:repository/team/train"
    assert "ec2:Vpc" in plain["Interfaces"]["Condition"]["ArnEquals"]
    anywhere = {name for name, row in full.items() if row["Resource"] == "*"}
    assert anywhere == {"TakeBackInterfaces", "Describe", "RegistryToken"}


EC2 = "arn:aws:ec2:us-west-2:111122223333"
OTHER_VPC = f"{EC2}:vpc/vpc-0aaaaaaaaaaaaaaaa"
IN_THE_VPC = {
    "CreateNetworkInterface": ("network-interface", "subnet", "security-group"),
    "CreateNetworkInterfacePermission": ("network-interface",),
    "DeleteNetworkInterface": ("network-interface",),
    "DetachNetworkInterface": ("network-interface",),
}
ANYWHERE = {
    "DeleteNetworkInterfacePermission", "DescribeNetworkInterfaces", "DescribeVpcs", "DescribeDhcpOptions",
    "DescribeSubnets", "DescribeSecurityGroups",
}  # fmt: skip
"""Actions of the guide for a cluster in a VPC, and the resources that EC2 asks for:
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites-iam.html"""


def test_the_role_has_the_actions_of_the_guide(either: Assembly) -> None:
    role = permissions(either)
    for action, kinds in IN_THE_VPC.items():
        for kind in kinds:
            asked = {"action": f"ec2:{action}", "resource": f"{EC2}:{kind}/x-1"}
            assert allows(role, Request(**asked, context={"ec2:Vpc": vpc_of(either)})), (action, kind)
            new = (action, kind) == ("CreateNetworkInterface", "network-interface")
            assert allows(role, Request(**asked, context={"ec2:Vpc": OTHER_VPC})) is new, (action, kind)
    for action in ANYWHERE:
        assert allows(role, Request(action=f"ec2:{action}")), action
    assert allows(role, Request(action="ec2:CreateTags", resource=f"{EC2}:network-interface/eni-1"))
    assert not allows(role, Request(action="ec2:CreateTags", resource=f"{EC2}:instance/i-1"))
    for action in ("ec2:ModifyNetworkInterfaceAttribute", "ec2:RunInstances", "s3:ListAllMyBuckets", "iam:PassRole"):
        assert not allows(role, Request(action=action)), action


def test_the_role_is_for_nodes_of_hyperpod_alone(either: Assembly) -> None:
    roles = [
        row["Properties"]
        for row in either.of_type("AWS::IAM::Role").values()
        if "AmazonSageMakerClusterInstanceRolePolicy" in json.dumps(row["Properties"].get("ManagedPolicyArns"))
    ]
    assert len(roles) == (2 if either.name == "slurm-options" else 1)
    for role in roles:
        assert len(role["ManagedPolicyArns"]) == 1
        trust = statements_of(role["AssumeRolePolicyDocument"])
        assert allows(trust, Request(action="sts:AssumeRole", service="sagemaker.amazonaws.com"))
        assert not allows(trust, Request(action="sts:AssumeRole", service="ec2.amazonaws.com"))


def test_the_script_can_be_read_and_no_other_bucket(example: Assembly, options: Assembly) -> None:
    ours = "arn:aws:s3:::sagemaker-slurm-options-111122223333-us-west-2"
    for action, place in (("s3:GetObject", f"{ours}/a/on_create.sh"), ("s3:ListBucket", ours)):
        assert allows(permissions(options), Request(action=action, resource=place))
        assert not allows(permissions(example), Request(action=action, resource=place))
    theirs = Request(action="s3:GetObject", resource="arn:aws:s3:::sagemaker-others/a")
    assert not allows(permissions(options), theirs)
    written = Request(action="s3:PutObject", resource=f"{ours}/a")
    assert not allows(permissions(options), written)


def test_jobs_pull_the_image_that_is_built(built: Assembly) -> None:
    ours = "arn:aws:ecr:us-west-2:111122223333:repository/ray-slurm-built"
    assert (
        references(built).resolve("slurm-built-Image", built.one("AWS::ECR::Repository")["RepositoryName"])
        == ours.rpartition("/")[2]
    )
    for action in ("BatchCheckLayerAvailability", "BatchGetImage", "GetDownloadUrlForLayer"):
        assert allows(permissions(built), Request(action=f"ecr:{action}", resource=ours))
        assert not allows(permissions(built), Request(action=f"ecr:{action}", resource=f"{ours}-2"))
    assert allows(permissions(built), Request(action="ecr:GetAuthorizationToken"))
    assert not allows(permissions(built), Request(action="ecr:PutImage", resource=ours))


def test_the_secret_is_read_and_not_changed(options: Assembly) -> None:
    assert allows(permissions(options), Request(action="secretsmanager:GetSecretValue", resource=SECRET))
    assert not allows(permissions(options), Request(action="secretsmanager:PutSecretValue", resource=SECRET))
    assert not allows(permissions(options), Request(action="secretsmanager:GetSecretValue", resource=f"{SECRET}2"))


def test_no_job_reads_the_accounting_databases_password(options: Assembly) -> None:
    """A job takes its node's role through instance metadata: no node of jobs has a right to the secret or its key."""
    groups = options.one("AWS::SageMaker::Cluster")["InstanceGroups"]
    types = {group["SlurmConfig"]["NodeType"] for group in groups}
    assert types == {"Controller", "Compute"}
    jobs = permissions(options, "Compute")
    via = {"kms:ViaService": "secretsmanager.us-west-2.amazonaws.com"}
    for action in ("GetSecretValue", "DescribeSecret", "PutSecretValue", "ListSecretVersionIds"):
        assert not allows(jobs, Request(action=f"secretsmanager:{action}", resource=SECRET))
    assert not allows(jobs, Request(action="kms:Decrypt", resource=KEY, context=via))
    # and what jobs need is there as before
    for action in ("ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"):
        assert allows(jobs, Request(action=action, resource="arn:aws:ecr:us-west-2:111122223333:repository/team/train"))


def test_each_type_of_node_has_a_role_and_no_right_of_the_others_alone(options: Assembly) -> None:
    """Every action that a policy of one names, on every resource that it names, asked by the role of the other."""
    by_type = {node_type: permissions(options, node_type) for node_type in ("Controller", "Compute")}
    asked = {
        (node_type, action, resource)
        for node_type, rows in by_type.items()
        for statement in rows
        for action in many(statement["Action"])
        for resource in many(statement["Resource"])
    }
    assert len(asked) > 30
    alone = set()
    for node_type, action, resource in asked:
        (other,) = set(by_type) - {node_type}
        contexts = [{}, {"kms:ViaService": "secretsmanager.us-west-2.amazonaws.com"}]
        requests_ = [Request(action=action, resource=resource, context=context) for context in contexts]
        if not any(allows(by_type[other], request) for request in requests_) and any(
            allows(by_type[node_type], request) for request in requests_
        ):
            alone.add((node_type, action, resource))
    assert alone == {
        ("Controller", "secretsmanager:GetSecretValue", SECRET), ("Controller", "kms:Decrypt", KEY),
    }  # fmt: skip


@pytest.fixture(scope="module")
def one_role(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    """The same environment as it was deployed before jobs had a role of their own."""
    folder = tmp_path_factory.mktemp("one-role")
    text = (VARIANTS / "slurm-options.yaml").read_text(encoding="utf-8")
    assert text.count("  accounting_database:\n") == 1
    text = text.replace("  accounting_database:\n", "  accounting_database:\n    separate_role: false\n")
    (folder / "slurm-options.yaml").write_text(text, encoding="utf-8")
    return synthesize("slurm-options", folder=folder)


def test_groups_of_one_role_are_left_as_they_are_until_they_get_another_name(
    one_role: Assembly, options: Assembly
) -> None:
    """The embedded AWS takes the careful reading, that a group keeps its role, and refuses by this rule."""

    def groups(made: Assembly) -> dict[str, Any]:
        found = json.loads(json.dumps(made.one("AWS::SageMaker::Cluster")["InstanceGroups"]))
        return {group["InstanceGroupName"]: group for group in found}

    before, separate = groups(one_role), groups(options)
    assert len({json.dumps(group["ExecutionRole"]) for group in before.values()}) == 1
    refused = {
        name: [refusal.member for refusal in hyperpod.update_group(group, separate[name])]
        for name, group in before.items()
    }
    jobs = {name for name, group in before.items() if group["SlurmConfig"]["NodeType"] != "Controller"}
    assert jobs
    assert refused == {name: ["ExecutionRole"] if name in jobs else [] for name in before}
    # the controller and its accounting stay: its role is the same resource in both
    (controller,) = set(before) - jobs
    assert before[controller] == separate[controller]


def test_the_secrets_key_decrypts_through_secrets_manager_alone(example: Assembly, options: Assembly) -> None:
    def asked(service: str, *, action: str = "kms:Decrypt", key: str = KEY) -> Request:
        return Request(action=action, resource=key, context={"kms:ViaService": f"{service}.us-west-2.amazonaws.com"})

    assert allows(permissions(options), asked("secretsmanager"))
    for refused in (asked("s3"), asked("secretsmanager", action="kms:Encrypt"), asked("secretsmanager", key=f"{KEY}2")):
        assert not allows(permissions(options), refused), refused
    assert not allows(permissions(example), asked("secretsmanager"))


def test_small_subnets_are_there_for_endpoints_alone(either: Assembly) -> None:
    """No control plane stands in them; NAT gateways have public ones."""
    small = [
        key for key, row in either.of_type("AWS::EC2::Subnet").items()
        if row["Properties"]["CidrBlock"].endswith("/27") and "Egress" not in key
    ]  # fmt: skip
    used = json.dumps([row["Properties"] for row in either.of_type("AWS::EC2::VPCEndpoint").values()])
    assert len(small) == (2 if either.name == "slurm-options" else 0)
    assert all("Endpoints" in key and key.partition("/")[2] in used for key in small)
    assert "ControlPlane" not in json.dumps(either.templates)


def test_nodes_start_after_what_they_need(options: Assembly) -> None:
    """The role with its policies, and the script in its bucket: a node that starts before fails."""
    (cluster,) = options.of_type("AWS::SageMaker::Cluster").values()
    after = set(cluster["DependsOn"])
    needed = {
        key.partition("/")[2]
        for kind in ("AWS::IAM::ManagedPolicy", "Custom::CDKBucketDeployment")
        for key in options.of_type(kind)
    }
    assert len(needed) == 3
    assert needed <= after


def test_what_the_commands_read_is_in_the_outputs(either: Assembly) -> None:
    stack = f"{either.name}-HyperPod"
    found = {name: row["Value"] for name, row in either.templates[stack]["Outputs"].items()}
    cluster = either.one("AWS::SageMaker::Cluster")["ClusterName"]
    assert (
        found["ClusterName"]
        == cluster
        == load_any(either.name, folder=folder_of(either)).settings.hyperpod.cluster_name
    )
    assert found["ClusterArn"]["Fn::GetAtt"][1] == "ClusterArn"
    events = references(either).resolve(stack, found["EventArchive"])
    assert events == f"/aws/events/ray-on-hyperpod/{either.name}"


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


def archive(made: Assembly) -> list[dict[str, Any]]:
    groups = made.of_type("AWS::Logs::LogGroup").values()
    return [row for row in groups if str(row["Properties"].get("LogGroupName")).startswith("/aws/events/")]


def test_the_archive_is_kept_as_long_as_the_file_says(example: Assembly, built: Assembly) -> None:
    (new,) = archive(example)
    assert (new["Properties"]["RetentionInDays"], new["DeletionPolicy"]) == (365, "Delete")
    assert archive(built) == [], "it exists"


def alarms(made: Assembly, metric: str) -> list[dict[str, Any]]:
    found = made.of_type("AWS::CloudWatch::Alarm").values()
    return [row["Properties"] for row in found if row["Properties"].get("MetricName") == metric]


def test_alarms_follow_the_cluster(example: Assembly, options: Assembly, built: Assembly) -> None:
    for made, capacity in ((example, 4800), (built, 2400)):
        (full,) = alarms(made, "FreeDataStorageCapacity")
        assert full["Threshold"] == capacity * 1024**3 // 10
    assert alarms(options, "FreeDataStorageCapacity") == [], "the file system is not the stack's"


def dashboard(made: Assembly) -> list[dict[str, Any]]:
    ((key, row),) = made.of_type("AWS::CloudWatch::Dashboard").items()
    found: list[dict[str, Any]] = json.loads(
        references(made).resolve(key.partition("/")[0], row["Properties"]["DashboardBody"])
    )["widgets"]
    return found


def test_the_dashboard_shows_what_there_is(either: Assembly) -> None:
    widgets = dashboard(either)
    (shown,) = [one["properties"]["alarms"] for one in widgets if one["type"] == "alarm"]
    assert len(shown) == len(either.of_type("AWS::CloudWatch::Alarm"))
    metrics = [metric for one in widgets for metric in one["properties"].get("metrics", [])]
    filters = [
        row["Properties"]["MetricTransformations"][0] for row in either.of_type("AWS::Logs::MetricFilter").values()
    ]
    counted = {(row["MetricNamespace"], row["MetricName"]) for row in filters}
    assert counted
    assert counted <= {(metric[0], metric[1]) for metric in metrics}
    file_systems = {metric[3] for metric in metrics if metric[0] == "AWS/FSx"}
    assert len(file_systems) == len(either.of_type("AWS::FSx::FileSystem"))
    (query,) = [one["properties"]["query"] for one in widgets if one["type"] == "log"]
    assert f"SOURCE '/aws/events/ray-on-hyperpod/{either.name}'" in query


def test_the_budget_mails_at_the_files_shares(options: Assembly) -> None:
    properties = options.one("AWS::Budgets::Budget")
    said = {
        (one["Notification"]["NotificationType"], one["Notification"]["Threshold"])
        for one in properties["NotificationsWithSubscribers"]
    }
    assert said == {("ACTUAL", 70), ("FORECASTED", 90)}
    assert properties["Budget"]["BudgetLimit"] == {"Amount": 1000, "Unit": "USD"}
    (topic,) = options.of_type("AWS::SNS::Topic")
    subscribers = [one["Subscribers"] for one in properties["NotificationsWithSubscribers"]]
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
