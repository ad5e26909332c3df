"""Environments that use what the shipped ones leave out, and what exists already."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.core.loader import FOLDER
from tests.stacks.assembled import Assembly, synthesize

VARIANTS = Path(__file__).parent / "variants"


@pytest.fixture(scope="module", params=["everything", "existing"])
def variant(request: pytest.FixtureRequest) -> Assembly:
    return synthesize(request.param, folder=VARIANTS)


@pytest.fixture(scope="module")
def everything() -> Assembly:
    return synthesize("everything", folder=VARIANTS)


@pytest.fixture(scope="module")
def existing() -> Assembly:
    return synthesize("existing", folder=VARIANTS)


@pytest.mark.slow
def test_cfn_lint_finds_no_error(variant: Assembly) -> None:
    assert variant.lint_errors() == []


def test_nothing_is_looked_up(variant: Assembly) -> None:
    assert not any(json.loads(p.read_text()).get("missing") for p in variant.folder.rglob("manifest.json"))


def test_add_ons_on_the_heads_group_tolerate_its_taints(everything: Assembly) -> None:
    wanted = {"key": "dedicated", "operator": "Equal", "value": "ray", "effect": "NoSchedule"}

    found = {
        resource["Properties"]["AddonName"]: json.loads(resource["Properties"].get("ConfigurationValues", "{}"))
        for resource in everything.of_type("AWS::EKS::Addon").values()
    }
    dns, controller = found["coredns"], found["aws-fsx-csi-driver"]["controller"]
    assert wanted in dns["tolerations"]
    assert wanted in controller["tolerations"]
    # a list replaces the add-on's own, which must be in it
    assert {"key": "CriticalAddonsOnly", "operator": "Exists"} in dns["tolerations"]
    assert {"key": "CriticalAddonsOnly", "operator": "Exists"} in controller["tolerations"]


def test_every_group_setting_reaches_the_template(everything: Assembly) -> None:
    cluster = everything.one("AWS::SageMaker::Cluster")
    assert cluster["AutoScaling"] == {"Mode": "Enable", "AutoScalerType": "Karpenter"}
    assert cluster["ClusterRole"]
    assert cluster["TieredStorageConfig"] == {"Mode": "Enable", "InstanceMemoryAllocationPercentage": 20}
    groups = {group["InstanceGroupName"]: group for group in cluster["InstanceGroups"]}
    workers, elsewhere = groups["workers"], groups["elsewhere"]
    assert workers["MinInstanceCount"] == 1
    assert workers["ImageReleaseVersion"] == "1.2.3"
    assert workers["NetworkInterface"] == {"InterfaceType": "efa-only"}
    assert "ImageId" not in workers
    assert elsewhere["ImageId"] == "ami-0123456789abcdef0"
    assert {"ImageReleaseVersion", "NetworkInterface"}.isdisjoint(elsewhere)
    assert workers["KubernetesConfig"] == {"Labels": {"team": "research"}}
    assert workers["ScheduledUpdateConfig"]["ScheduleExpression"] == "cron(0 6 ? * SUN *)"
    rolling = workers["ScheduledUpdateConfig"]["DeploymentConfig"]["RollingUpdatePolicy"]["MaximumBatchSize"]
    assert rolling == {"Type": "CAPACITY_PERCENTAGE", "Value": 25}
    assert groups["burst"]["AutoPatchConfig"] == {"PatchingStrategy": "WhenIdle"}
    assert "AutoPatchConfig" not in workers
    root, data = (volume["EbsVolumeConfig"] for volume in workers["InstanceStorageConfigs"])
    assert root["RootVolume"] is True
    assert "VolumeSizeInGB" not in root, "the service refuses a size for the root volume"
    assert data["VolumeSizeInGB"] == 1000
    assert root["VolumeKmsKeyId"] == data["VolumeKmsKeyId"]
    assert elsewhere["CapacityRequirements"] == {"Spot": {}}
    assert elsewhere["OverrideVpcConfig"]["Subnets"] != cluster["VpcConfig"]["Subnets"]
    assert "OverrideVpcConfig" not in workers
    assert "OnStartDeepHealthChecks" not in elsewhere
    taint = {"Key": "spot", "Value": "true", "Effect": "NoSchedule"}
    assert elsewhere["KubernetesConfig"]["Taints"] == [taint]


def test_a_training_plan_reaches_its_group_only() -> None:
    made = synthesize("training-plan", folder=FOLDER / "examples")
    groups = made.one("AWS::SageMaker::Cluster")["InstanceGroups"]
    plans = {group["InstanceGroupName"]: group.get("TrainingPlanArn") for group in groups}
    arn = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/my-plan"
    assert sorted(plans.values(), key=str) == [None, arn]
    assert next(name for name, plan in plans.items() if plan) == "workers"


def test_kubectl_fits_the_clusters_version(everything: Assembly, existing: Assembly) -> None:
    """kubectl may be one minor version older or newer: the layer's own description has its version."""
    for assembly, kubectl in ((everything, "1.33"), (existing, "1.35")):
        layers = [one["Properties"]["Description"] for one in assembly.of_type("AWS::Lambda::LayerVersion").values()]
        (text,) = [text for text in layers if "kubectl" in text]
        assert f"kubectl {kubectl}" in text


def test_a_public_endpoint_is_limited(everything: Assembly) -> None:
    access = everything.one("AWS::EKS::Cluster")["ResourcesVpcConfig"]
    assert access["EndpointPublicAccess"] is True
    assert access["PublicAccessCidrs"] == ["8.8.8.0/24"]


def test_an_image_by_digest_is_not_built(variant: Assembly) -> None:
    assert not variant.of_type("AWS::ECR::Repository")
    assert not variant.of_type("AWS::CodeBuild::Project")


def test_what_exists_is_not_made_again(existing: Assembly) -> None:
    for kind in (
        "AWS::EC2::VPC",
        "AWS::EC2::Subnet",
        "AWS::EKS::Cluster",
        "AWS::FSx::FileSystem",
        "AWS::EKS::Nodegroup",
    ):
        assert not existing.of_type(kind), kind
    cluster = existing.one("AWS::SageMaker::Cluster")
    assert cluster["VpcConfig"]["Subnets"] == ["subnet-0123456789abcdef0"]
    assert "cluster/shared" in json.dumps(cluster["Orchestrator"])
    assert "fs-0123456789abcdef0" in json.dumps(existing.of_type("Custom::AWSCDK-EKS-KubernetesResource"))


def test_the_driver_trusts_the_existing_clusters_issuer(existing: Assembly) -> None:
    trust = json.dumps(
        [role["Properties"]["AssumeRolePolicyDocument"] for role in existing.of_type("AWS::IAM::Role").values()]
    )
    assert "oidc-provider/oidc.eks.us-west-2.amazonaws.com/id/0123456789ABCDEF0123456789ABCDEF" in trust


def test_forty_instance_groups_stay_small(tmp_path: Path) -> None:
    """CloudFormation's own limits are 1 MB and 500 resources."""
    import yaml

    settings = yaml.safe_load((VARIANTS / "everything.yaml").read_text())
    groups = settings["hyperpod"]["instance_groups"]
    groups += [{"name": f"more{i:02d}", "type": "ml.g5.8xlarge", "count": 2} for i in range(40 - len(groups))]
    (tmp_path / "forty.yaml").write_text(yaml.safe_dump(settings))
    forty = synthesize("forty", folder=tmp_path)
    assert len(forty.one("AWS::SageMaker::Cluster")["InstanceGroups"]) == 40
    for path in forty.template_files():
        assert path.stat().st_size < 400_000, path.name
        assert len(json.loads(path.read_text())["Resources"]) < 300, path.name


def test_an_existing_cluster_lets_the_same_people_in(existing: Assembly) -> None:
    entries = {e["Properties"]["PrincipalArn"]: e["Properties"] for e in _entries(existing) if _is_ours(e)}
    admin = entries["arn:aws:iam::111122223333:role/PlatformAdmin"]
    researcher = entries["arn:aws:iam::111122223333:role/Researcher"]
    assert admin["ClusterName"] == researcher["ClusterName"] == "shared"
    assert researcher["KubernetesGroups"] == ["ray-users:ray"]
    assert "AccessPolicies" not in researcher
    (policy,) = admin["AccessPolicies"]
    assert policy["AccessScope"] == {"Type": "cluster"}


def _entries(assembly: Assembly) -> list[dict[str, Any]]:
    return list(assembly.of_type("AWS::EKS::AccessEntry").values())


def _is_ours(entry: dict[str, Any]) -> bool:
    return isinstance(entry["Properties"]["PrincipalArn"], str)
