from __future__ import annotations

import json
from typing import Any

import pytest

from hyperpod_ray_rules import hyperpod
from tests.stacks.assembled import Assembly, synthesize
from tests.stacks.slurm_stacks_helpers import permissions, references, statements
from tests.stacks.test_variants import VARIANTS
from tests.support.iam import Request, allows, many, statements_of

SECRET = "arn:aws:secretsmanager:us-west-2:111122223333:secret:slurm-AbCdEf"


KEY = "arn:aws:kms:us-west-2:111122223333:key/01234567-89ab-cdef-0123-456789abcdef"


def vpc_of(made: Assembly) -> str:
    ((key, _),) = made.of_type("AWS::EC2::VPC").items()
    return references(made).arn(*key.split("/"))


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
