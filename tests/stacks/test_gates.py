"""Gates that every template must pass: linters, and our own rules for what they do not see."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from cfnlint.schema import ResourceNotFoundError
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

from hyperpod_ray.core import environment_names, load
from hyperpod_ray.core.loader import FOLDER
from tests.stacks.assembled import PROJECT, Assembly, synthesize

VARIANTS = Path(__file__).parent / "variants"
STRANGERS = Path(__file__).parent / "strangers"
MAXIMUM_BYTES = 400_000
MAXIMUM_RESOURCES = 300


def test_cfn_lint_finds_no_error(assembly: Assembly) -> None:
    assert assembly.lint_errors() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "name"),
    [
        (folder, name)
        for folder in (FOLDER, FOLDER / "examples", VARIANTS, STRANGERS)
        for name in environment_names(folder=folder)
    ],
)
def test_the_cdks_own_validation_finds_nothing(folder: Path, name: str) -> None:
    assert synthesize(name, folder=folder, validation=True).template_files()


def test_cfn_lint_finds_a_planted_error(tmp_path: Path) -> None:
    bad = {"Resources": {"Queue": {"Type": "AWS::SQS::Queue", "Properties": {"NoSuchProperty": 1}}}}
    (tmp_path / "bad.template.json").write_text(json.dumps(bad))
    (error,) = Assembly(name="bad", folder=tmp_path).lint_errors()
    assert "NoSuchProperty" in error


def test_no_weak_reference_to_another_stack(assembly: Assembly) -> None:
    for stack, template in assembly.templates.items():
        assert "Fn::GetStackOutput" not in json.dumps(template), stack


def test_create_only_properties_hold_no_value_that_changes_by_itself(assembly: Assembly) -> None:
    """A weak reference or a parameter under a create-only property makes CloudFormation plan a replacement."""
    found = [
        f"{stack}/{logical_id}{path}"
        for stack, template in assembly.templates.items()
        for logical_id, resource in template["Resources"].items()
        for path in _create_only(resource["Type"])
        for value in _at(resource.get("Properties", {}), path)
        if _names(value) & {"Fn::GetStackOutput", "Fn::FindInMap"} or _parameters(value, template)
    ]
    assert not found


def test_the_create_only_list_is_the_services_own() -> None:
    assert {"ClusterName", "VpcConfig", "Orchestrator/Eks"} <= set(_create_only("AWS::SageMaker::Cluster"))


def test_log_groups_belong_to_their_stack(assembly: Assembly) -> None:
    """A group that Lambda or CodeBuild makes by itself has no retention and is left behind on destroy."""
    for name, function in assembly.of_type("AWS::Lambda::Function").items():
        assert function["Properties"]["LoggingConfig"]["LogGroup"], name
    for name, project in assembly.of_type("AWS::CodeBuild::Project").items():
        assert project["Properties"]["LogsConfig"]["CloudWatchLogs"]["GroupName"], name
    for name, group in assembly.of_type("AWS::Logs::LogGroup").items():
        assert group["Properties"]["RetentionInDays"], name


def test_templates_are_small(assembly: Assembly) -> None:
    for path in assembly.template_files():
        assert path.stat().st_size < MAXIMUM_BYTES, path.name
        assert len(json.loads(path.read_text())["Resources"]) < MAXIMUM_RESOURCES, path.name


def test_efa_needs_self_ingress_and_self_egress(assembly: Assembly) -> None:
    cluster = assembly.one("AWS::SageMaker::Cluster")
    group = cluster["VpcConfig"]["SecurityGroupIds"]
    assert len(group) == 1
    exported = group[0]["Fn::ImportValue"].split("GetAtt")[1].split("GroupId")[0]
    for kind, peer in (("Ingress", "SourceSecurityGroupId"), ("Egress", "DestinationSecurityGroupId")):
        rules = [
            rule["Properties"]
            for rule in assembly.of_type(f"AWS::EC2::SecurityGroup{kind}").values()
            if rule["Properties"]["GroupId"] == rule["Properties"].get(peer)
            and rule["Properties"]["IpProtocol"] == "-1"
        ]
        assert any(exported.startswith(rule["GroupId"]["Fn::GetAtt"][0]) for rule in rules), kind


def test_nothing_is_open_to_the_world(assembly: Assembly) -> None:
    for name, rule in [
        *assembly.of_type("AWS::EC2::SecurityGroupIngress").items(),
        *(
            (name, {"Properties": rule})
            for name, group in assembly.of_type("AWS::EC2::SecurityGroup").items()
            for rule in group["Properties"].get("SecurityGroupIngress", [])
        ),
    ]:
        properties = rule["Properties"]
        assert properties.get("CidrIp") != "0.0.0.0/0", name
        assert properties.get("CidrIpv6") != "::/0", name


def test_pods_start_denied(assembly: Assembly) -> None:
    """In mode `standard` a pod talks freely, also to instance metadata, until its policies are loaded."""
    addons = {a["Properties"]["AddonName"]: a["Properties"] for a in assembly.of_type("AWS::EKS::Addon").values()}
    configuration = json.loads(addons["vpc-cni"]["ConfigurationValues"])
    assert configuration["env"] == {"NETWORK_POLICY_ENFORCING_MODE": "strict"}
    stack = assembly.templates[f"{assembly.name}-Eks"]["Resources"]
    (policies,) = [
        r
        for r in stack.values()
        if r["Type"] == "Custom::AWSCDK-EKS-KubernetesResource" and "system-pods" in json.dumps(r["Properties"])
    ]
    (chart,) = [key for key, r in stack.items() if r["Type"] == "Custom::AWSCDK-EKS-HelmChart"]
    assert chart in policies["DependsOn"], "the chart makes the namespace of a policy"
    assert f"{assembly.name}-Eks" in assembly.before(f"{assembly.name}-HyperPod"), "policies come before the first node"


def test_instances_made_here_would_need_imdsv2(assembly: Assembly) -> None:
    """HyperPod owns its nodes' metadata service; nothing else here may bring one up without session tokens."""
    assert not assembly.of_type("AWS::EC2::Instance")
    for name, template in assembly.of_type("AWS::EC2::LaunchTemplate").items():
        options = template["Properties"]["LaunchTemplateData"].get("MetadataOptions", {})
        assert options.get("HttpTokens") == "required", name


def test_irsa_trust_names_the_audience_and_the_one_service_account(assembly: Assembly) -> None:
    trust = json.dumps(next(iter(assembly.of_type("Custom::AWSCDKCfnJson").values()))["Properties"]["Value"])
    assert ":aud" in trust
    assert "sts.amazonaws.com" in trust
    assert "system:serviceaccount:kube-system:fsx-csi-controller-sa" in trust


@pytest.fixture(scope="module")
def dynamic() -> Assembly:
    """An environment whose file system a claim makes."""
    return synthesize("dynamic-storage", folder=FOLDER / "examples")


def test_the_driver_creates_and_deletes_only_what_carries_the_environments_tag(
    assemblies: dict[str, Assembly], dynamic: Assembly
) -> None:
    statements = [s for s in _statements(dynamic) if "fsx:DeleteFileSystem" in _list(s["Action"])]
    assert statements
    for statement in statements:
        assert statement["Condition"] == {
            "StringEquals": {"aws:ResourceTag/hyperpod-ray:environment": "dynamic-storage"}
        }
    creates = [s for s in _statements(dynamic) if "fsx:CreateFileSystem" in _list(s["Action"])]
    assert creates
    for statement in creates:
        # what is created without the tag can be neither deleted nor counted by this environment
        # https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonfsx.html
        assert statement["Condition"] == {
            "StringEquals": {"aws:RequestTag/hyperpod-ray:environment": "dynamic-storage"}
        }
    static = [s for s in _statements(assemblies["prod"]) if any("fsx:" in action for action in _list(s["Action"]))]
    assert [action for s in static for action in _list(s["Action"])] == ["fsx:DescribeFileSystems"]


def test_a_claims_file_system_is_waited_for_on_both_ways(dynamic: Assembly) -> None:
    """Claim, file system, its identifiers, the Job's own volume, the Job; on destroy the guard goes last of them."""
    resources = dynamic.templates["dynamic-storage-Ray"]["Resources"]

    def before(part: str) -> set[str]:
        (resource,) = (item for name, item in resources.items() if name.startswith(part))
        text = json.dumps(resource["Properties"])
        return {*resource.get("DependsOn", []), *(name for name in resources if f'"{name}"' in text)}

    order = (
        "ClaimGuard",
        "ManifestsPersistentVolumeClaim",
        "ClaimedFileSystemReady",
        "ClaimedFileSystemVolume",
        "ClaimedFileSystemId",
        "ManifestsOwnerStorage",
        "ManifestsVolumeOwner",
    )
    # what stays is not waited for: a destroy would never end
    retained = synthesize("closed", folder=VARIANTS)
    kinds = {resource["Type"] for resource in retained.templates["closed-Ray"]["Resources"].values()}
    assert {"Custom::FileSystemOfClaim", "Custom::FileSystemsOfClaims"} & kinds == {"Custom::FileSystemOfClaim"}
    for first, then in pairwise(order):
        assert [name for name in before(then) if name.startswith(first)], f"{then} does not wait for {first}"


@pytest.mark.parametrize("forbidden", ["*", "iam:*", "s3:*", "fsx:*", "ec2:*", "sagemaker:*", "eks:*"])
def test_no_statement_of_ours_grants_whole_services(assembly: Assembly, forbidden: str) -> None:
    for statement in _statements(assembly):
        if statement["Effect"] == "Allow":
            assert forbidden not in _list(statement["Action"]), statement


def test_no_secret_in_a_template(assembly: Assembly) -> None:
    for stack, template in assembly.templates.items():
        text = json.dumps(template)
        for word in ("AKIA", "aws_secret_access_key", "PRIVATE KEY", "password="):
            assert word not in text, f"{word} in {stack}"


def test_a_protected_environments_control_plane_cannot_be_deleted_by_accident(assemblies: dict[str, Assembly]) -> None:
    """Named where it is off, too: an update keeps what it does not name."""
    for name in ("prod", "local"):
        (cluster,) = assemblies[name].of_type("AWS::EKS::Cluster").values()
        assert cluster["Properties"]["DeletionProtection"] is load(name).settings.protected, name
        assert cluster["Properties"]["UpgradePolicy"] == {"SupportType": "EXTENDED"}
    assert load("prod").settings.protected
    assert not load("local").settings.protected


def test_what_is_kept_keeps_its_home_and_only_that(assemblies: dict[str, Assembly]) -> None:
    """A file system's interface in a VPC that CloudFormation deletes is a destroy that fails after an hour."""
    kinds = ("AWS::EC2::VPC", "AWS::EC2::Subnet", "AWS::EC2::SecurityGroup", "AWS::EC2::NatGateway")
    for name, expected in {"prod": [1, 1, 1, 0], "local": [0, 0, 0, 0]}.items():
        kept = [
            sum(r.get("DeletionPolicy") == "RetainExceptOnCreate" for r in assemblies[name].of_type(kind).values())
            for kind in kinds
        ]
        assert kept == expected, name


def test_the_constructs_folder_is_no_package() -> None:
    """With constructs/__init__.py, `import aws_cdk` dies: it imports the PyPI package of that name."""
    assert not (PROJECT / "constructs" / "__init__.py").exists()


def test_library_and_cli_are_pinned_together() -> None:
    package = json.loads((PROJECT / "package.json").read_text())["devDependencies"]["aws-cdk"]
    installed = json.loads((PROJECT / "node_modules" / "aws-cdk" / "package.json").read_text())["version"]
    assert package == installed
    library = [
        line for line in (PROJECT / "requirements.txt").read_text().splitlines() if line.startswith("aws-cdk-lib==")
    ]
    assert library == ["aws-cdk-lib==2.275.0 \\"], "move the CLI with it: see the pin in package.json"


def _create_only(kind: str) -> list[str]:
    try:
        schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-west-2", kind).schema
    except ResourceNotFoundError:
        return []
    return [path.removeprefix("/properties/") for path in schema.get("createOnlyProperties", [])]


def _at(properties: Any, path: str) -> Iterator[Any]:
    key, _, rest = path.partition("/")
    if isinstance(properties, dict) and key in properties:
        if rest:
            yield from _at(properties[key], rest)
        else:
            yield properties[key]


def _names(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*(_names(v) for v in value.values()))
    return set().union(*(_names(v) for v in value)) if isinstance(value, list) else set()


def _parameters(value: Any, template: dict[str, Any]) -> bool:
    if isinstance(value, dict):
        return value.get("Ref") in template.get("Parameters", {}) or any(
            _parameters(v, template) for v in value.values()
        )
    return isinstance(value, list) and any(_parameters(v, template) for v in value)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _statements(assembly: Assembly) -> list[dict[str, Any]]:
    found = []
    for kind in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
        for policy in assembly.of_type(kind).values():
            found += policy["Properties"]["PolicyDocument"]["Statement"]
    return found
