"""Task governance in the templates: Kueue, then the policy, then the quotas, judged by CloudFormation's schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_eks_v2 as eks
from aws_cdk.assertions import Template
from botocore import validate

from hyperpod_ray.constructs.teams import TaskGovernance
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.core.model import Partition, Team, TeamQuota
from hyperpod_ray.stacks import teams
from tests.core.environment_files import plan as plan_of
from tests.core.team_quotas_helpers import shared as shared_by
from tests.core.team_quotas_helpers import team as team_of
from tests.stacks.assembled import Assembly, synthesize

QUOTA, POLICY = "AWS::SageMaker::ComputeQuota", "AWS::SageMaker::ClusterSchedulerConfig"
ADDON = "amazon-sagemaker-hyperpod-taskgovernance"
TEAMS = {"hyperpod-ns-vision", "hyperpod-ns-speech"}


@pytest.fixture(scope="module")
def shared() -> Assembly:
    return synthesize("teams", folder=FOLDER / "examples")


@pytest.mark.slow
def test_the_templates_have_no_error_but_types_newer_than_the_list(shared: Assembly) -> None:
    """The list of types by Region that cfn-lint carries has the policy in us-east-1 and not in us-west-2."""
    left = [line for line in shared.lint_errors() if "E3006" not in line or POLICY not in line]
    assert left == []


def schema_of(kind: str) -> dict[str, Any]:
    import cfnlint

    schemas = Path(cfnlint.__file__).parent / "data" / "schemas"
    key = json.loads((schemas / "providers" / "us-east-1.json").read_text())[kind]
    found: dict[str, Any] = json.loads((schemas / "resources" / f"{key}.json").read_text())
    return found


@pytest.mark.parametrize("kind", [QUOTA, POLICY])
def test_the_registrys_schema_takes_each_resource(shared: Assembly, kind: str) -> None:
    import jsonschema

    schema = schema_of(kind)
    read_only = {path.rpartition("/")[2] for path in schema["readOnlyProperties"]}
    found = shared.of_type(kind)
    assert len(found) == (2 if kind == QUOTA else 1)
    for resource in found.values():
        properties = {
            **resource["Properties"],
            "ClusterArn": "arn:aws:sagemaker:us-west-2:111122223333:cluster/0123456789ab",
        }
        tags = {tag["Key"]: tag["Value"] for tag in properties.pop("Tags")}
        assert tags["hyperpod-ray:environment"] == "teams"
        jsonschema.Draft7Validator(schema).validate(properties)
        assert not read_only & set(properties)
        assert isinstance(resource["Properties"]["ClusterArn"], dict), "the ARN of the cluster beside it"


def test_quotas_say_what_the_file_says(shared: Assembly) -> None:
    by_team = {
        found["Properties"]["ComputeQuotaTarget"]["TeamName"]: found["Properties"]
        for found in shared.of_type(QUOTA).values()
    }
    assert by_team["vision"]["ComputeQuotaConfig"] == {
        "ComputeQuotaResources": [
            {"InstanceType": "ml.g5.8xlarge", "Count": 2},
            {"InstanceType": "ml.m5.2xlarge", "Count": 1},
        ],
        "ResourceSharingConfig": {"Strategy": "LendAndBorrow", "BorrowLimit": 100},
        "PreemptTeamTasks": "LowerPriority",
    }
    assert by_team["speech"]["ComputeQuotaTarget"] == {"TeamName": "speech", "FairShareWeight": 100}
    # a quota that is not in force has no queue that admits anything: API_CreateComputeQuota
    assert {quota["ActivationState"] for quota in by_team.values()} == {"Enabled"}
    policy = shared.one(POLICY)
    assert policy["SchedulerConfig"] == {
        "FairShare": "Enabled",
        "IdleResourceSharing": "Enabled",
        "PriorityClasses": [{"Name": "research", "Weight": 50}, {"Name": "deadline", "Weight": 90}],
    }


def test_kueue_comes_before_the_policy_and_the_policy_before_the_quotas(shared: Assembly) -> None:
    """And the KubeRay operator after them: its roles are in the teams' namespaces. Destroy goes the other way."""
    platform = shared.templates["teams-Platform"]["Resources"]
    (addon,) = (key for key, one in platform.items() if one["Properties"].get("AddonName") == ADDON)
    (policy,) = (key for key, one in platform.items() if one["Type"] == POLICY)
    quotas = {key for key, one in platform.items() if one["Type"] == QUOTA}
    (release,) = (key for key, one in platform.items() if one["Type"] == "Custom::AWSCDK-EKS-HelmChart")
    assert addon in platform[policy]["DependsOn"]
    assert all(policy in platform[quota]["DependsOn"] for quota in quotas)
    assert quotas <= set(platform[release]["DependsOn"])
    assert platform[release]["Properties"]["Values"].count("hyperpod-ns-") == 2
    assert "teams-HyperPod" in shared.before("teams-Platform"), "Kueue's controller needs nodes"
    assert "teams-Platform" in shared.before("teams-Ray"), "what is in the namespaces goes before the quotas"


def objects_of(stack: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    for resource in stack["Resources"].values():
        text = resource["Properties"].get("Manifest")
        if resource["Type"] == "Custom::AWSCDK-EKS-KubernetesResource":
            parts = text["Fn::Join"][1] if isinstance(text, dict) else [text]
            found += json.loads("".join(part if isinstance(part, str) else "token" for part in parts))
    return found


def test_teams_namespaces_are_made_by_the_service_and_dressed_by_the_ray_stack(shared: Assembly) -> None:
    for name, stack in shared.templates.items():
        spaces = {one["metadata"]["name"] for one in objects_of(stack) if one["kind"] == "Namespace"}
        assert bool(spaces & TEAMS) == (name == "teams-Ray"), name
    inside: dict[str, set[str]] = {}
    for one in objects_of(shared.templates["teams-Ray"]):
        if (space := one["metadata"].get("namespace")) in TEAMS:
            inside.setdefault(space, set()).add(one["kind"])
    needed = {"NetworkPolicy", "PersistentVolumeClaim", "Role", "RoleBinding", "ServiceAccount"}
    assert inside == dict.fromkeys(TEAMS, needed)


def test_members_have_their_own_namespace_and_see_the_template_alone(shared: Assembly) -> None:
    entries = {
        found["Properties"]["PrincipalArn"]: found["Properties"].get("KubernetesGroups")
        for found in shared.of_type("AWS::EKS::AccessEntry").values()
        if isinstance(found["Properties"]["PrincipalArn"], str)
    }
    assert entries["arn:aws:iam::111122223333:role/Vision"] == ["ray-users:hyperpod-ns-vision"]
    roles = [one for stack in shared.templates.values() for one in objects_of(stack) if one["kind"] == "RoleBinding"]
    bound = {
        (role["metadata"]["namespace"], role["roleRef"]["name"])
        for role in roles
        if any(subject["name"] == "ray-users:hyperpod-ns-vision" for subject in role["subjects"])
    }
    assert bound == {
        ("hyperpod-ns-vision", "ray-user"), ("ray", "ray-template"), ("kueue-system", "ray-user-kueue"),
    }  # fmt: skip
    rules = {
        one["metadata"]["name"]: one["rules"]
        for stack in shared.templates.values()
        for one in objects_of(stack)
        if one["kind"] == "Role"
    }
    assert rules["ray-template"] == [
        {"apiGroups": ["ray.io"], "resources": ["rayclusters"], "resourceNames": ["ray"], "verbs": ["get"]}
    ]
    assert rules["ray-user-kueue"] == [
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["kueue-manager-config"], "verbs": ["get"]}
    ]


def test_nothing_of_teams_is_there_without_teams(assembly: Assembly) -> None:
    assert not assembly.of_type(QUOTA)
    assert not assembly.of_type(POLICY)
    assert all(one["Properties"]["AddonName"] != ADDON for one in assembly.of_type("AWS::EKS::Addon").values())


SHARES: dict[str, tuple[dict[str, Any], tuple[str, int | None, str]]] = {
    "as it comes": ({}, ("LendAndBorrow", 50, "LowerPriority")),
    "a limit": ({"borrow_limit_percent": 200}, ("LendAndBorrow", 200, "LowerPriority")),
    "lends": ({"sharing": "lend"}, ("Lend", None, "LowerPriority")),
    "neither": ({"sharing": "none", "preempt_lower_priority": False}, ("DontLend", None, "Never")),
}


@pytest.mark.parametrize("name", SHARES)
def test_what_a_team_shares(name: str) -> None:
    fields, wanted = SHARES[name]
    made = teams._share(Team(name="a", quota=[TeamQuota(type="ml.m5.2xlarge", instances=0)], **fields))
    assert (made.strategy, made.borrow_limit_percent, made.preempt) == wanted
    assert made.resources == [{"InstanceType": "ml.m5.2xlarge", "Count": 0}], "0 is an amount"
    assert not made.borrow_limits


def test_limits_in_amounts_take_the_place_of_a_percentage() -> None:
    """The service's own shape judges it: both members are in its API."""
    limits = [TeamQuota(type="ml.p5.48xlarge", vcpus=8, partition=Partition(profile="mig-1g.10gb", count=3))]
    quota = [TeamQuota(type="ml.p5.48xlarge", instances=1)]
    share = teams._share(Team(name="a", quota=quota, borrow_limits=limits))
    assert share.borrow_limit_percent is None
    partition = {"Type": "mig-1g.10gb", "Count": 3}
    assert share.borrow_limits == [{"InstanceType": "ml.p5.48xlarge", "VCpu": 8, "AcceleratorPartition": partition}]
    app = App(builtin_cloud_formation_validation=False)
    stack = Stack(app, "S")
    cluster = eks.Cluster.from_cluster_attributes(stack, "C", cluster_name="c")
    TaskGovernance(
        stack, "T", environment="e", cluster=cluster, cluster_arn="arn:aws:sagemaker:us-west-2:111122223333:cluster/x",
        teams=[share], priority_classes={}, fair_share=True, share_idle=True, tags={},
    )  # fmt: skip
    (resource,) = Template.from_stack(stack).find_resources(QUOTA).values()
    config = resource["Properties"]["ComputeQuotaConfig"]
    assert config["ResourceSharingConfig"] == {
        "Strategy": "LendAndBorrow", "AbsoluteBorrowLimits": share.borrow_limits,
    }  # fmt: skip
    model = botocore.session.get_session().get_service_model("sagemaker").shape_for("ComputeQuotaConfig")
    assert not validate.ParamValidator().validate(config, model).has_errors()


@pytest.mark.parametrize("fair_share", [True, False])
@pytest.mark.parametrize("share_idle", [True, False])
def test_each_way_of_sharing_is_switched_by_its_own_setting(fair_share: bool, share_idle: bool) -> None:
    """`FairShare` divides idle instances by weight, `IdleResourceSharing` lends what no quota covers.

    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_SchedulerConfig.html
    """
    governance = {"fair_share": fair_share, "share_idle": share_idle}
    settled = plan_of({**shared_by(team_of("a")), "task_governance": governance})
    stack = Stack(App(builtin_cloud_formation_validation=False), "S")
    cluster = eks.Cluster.from_cluster_attributes(stack, "C", cluster_name="c")
    teams.task_governance(stack, settled, cluster=cluster, cluster_arn="arn:aws:sagemaker:us-west-2:1:cluster/x")
    (policy,) = Template.from_stack(stack).find_resources(POLICY).values()
    words = {True: "Enabled", False: "Disabled"}
    assert policy["Properties"]["SchedulerConfig"] == {
        "FairShare": words[fair_share], "IdleResourceSharing": words[share_idle],
    }  # fmt: skip
