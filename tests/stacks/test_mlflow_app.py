"""The MLflow app of an environment: judged by CloudFormation's schema, botocore's model, and IAM's rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator

from hyperpod_ray.core.names import SERVICE_ACCOUNT
from hyperpod_ray_rules import mlflow
from tests.stacks.assembled import Assembly, synthesize
from tests.stacks.identity_helpers import role_of, s3
from tests.support.iam import Request, allows, statements_of
from tests.support.references import References

STACK, KIND = "everything-Ray", "AWS::SageMaker::MlflowApp"
BUCKET = "mlflow-everything-111122223333-us-west-2"
APP = "arn:aws:sagemaker:us-west-2:111122223333:mlflow-app/app-everything"


@pytest.fixture(scope="module")
def everything() -> Assembly:
    return synthesize("everything", folder=Path(__file__).parent / "variants")


@pytest.fixture(scope="module")
def references(everything: Assembly) -> References:
    return References(everything.templates, account="111122223333", region="us-west-2")


@pytest.fixture(scope="module")
def app(everything: Assembly, references: References) -> dict[str, Any]:
    """Properties of the app, resolved."""
    resolved: dict[str, Any] = references.resolve(STACK, everything.one(KIND))
    return resolved


@pytest.fixture(scope="module")
def pods(everything: Assembly, references: References) -> list[Any]:
    """Statements of the role of Ray's pods."""
    return role_of(SERVICE_ACCOUNT, everything, references)[2]


@pytest.fixture(scope="module")
def own_role(everything: Assembly, references: References, app: dict[str, Any]) -> dict[str, Any]:
    """Properties of the app's role, resolved."""
    for key, found in everything.of_type("AWS::IAM::Role").items():
        stack, _, logical_id = key.partition("/")
        if references.arn(stack, logical_id) == app["RoleArn"]:
            resolved: dict[str, Any] = references.resolve(stack, found["Properties"])
            return resolved
    raise AssertionError(app["RoleArn"])


def test_the_app_is_what_the_api_takes(app: dict[str, Any]) -> None:
    model: Any = botocore.session.get_session().get_service_model("sagemaker")
    shape = model.operation_model("CreateMlflowApp").input_shape
    report = ParamValidator().validate(app, shape)
    assert not report.has_errors(), report.generate_report()
    assert app["ModelRegistrationMode"] in model.shape_for("ModelRegistrationMode").enum
    assert (app["Name"], app["ArtifactStoreUri"]) == ("everything", f"s3://{BUCKET}")
    assert app["WeeklyMaintenanceWindowStart"] == "Sun:03:30"
    assert {"Key": "hyperpod-ray:environment", "Value": "everything"} in app["Tags"]


def test_the_regions_are_the_registrys() -> None:
    """cfn-lint carries the types of each Region."""
    from cfnlint.helpers import REGIONS
    from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

    known = {region for region in REGIONS if KIND in PROVIDER_SCHEMA_MANAGER.get_resource_types(region)}
    commercial = {region for region in known if "iso" not in region and not region.startswith("eusc-")}
    assert commercial == mlflow.APP_REGIONS


@pytest.mark.parametrize(
    ("asked", "allowed"),
    [
        (s3("PutObject", f"{BUCKET}/1/run/artifacts/x"), True),
        (s3("GetObject", f"{BUCKET}/1/run/artifacts/x"), True),
        (s3("DeleteObject", f"{BUCKET}/1/run/artifacts/x"), True),
        (s3("ListBucket", BUCKET), True),
        (s3("GetBucketLocation", BUCKET), True),
        (s3("DeleteBucket", BUCKET), False),
        (s3("PutBucketPolicy", BUCKET), False),
        (s3("PutObject", f"{BUCKET}-2/x"), False),
        (s3("GetObject", "tier-everything-111122223333-us-west-2/x"), False),
        (Request(action="sagemaker:CreateModelPackage", resource="*"), False),
        (Request(action="sts:AssumeRole", resource="arn:aws:iam::111122223333:role/x"), False),
    ],
)
def test_the_apps_role_reaches_its_bucket_alone(own_role: dict[str, Any], asked: Request, allowed: bool) -> None:
    assert not own_role.get("ManagedPolicyArns")
    statements = [one for policy in own_role["Policies"] for one in statements_of(policy["PolicyDocument"])]
    assert allows(statements, asked) is allowed


@pytest.mark.parametrize(
    ("service", "source", "allowed"),
    [
        ("sagemaker.amazonaws.com", "111122223333", True),
        ("sagemaker.amazonaws.com", "444455556666", False),
        ("ec2.amazonaws.com", "111122223333", False),
    ],
)
def test_sagemaker_takes_the_role_for_this_account(
    own_role: dict[str, Any], service: str, source: str, allowed: bool
) -> None:
    trust = statements_of(own_role["AssumeRolePolicyDocument"])
    asked = Request(action="sts:AssumeRole", service=service, context={"aws:SourceAccount": source})
    assert allows(trust, asked) is allowed


@pytest.mark.parametrize(
    ("asked", "allowed"),
    [
        (Request(action="sagemaker:CallMlflowAppApi", resource=APP), True),
        *((Request(action=f"sagemaker-mlflow:{action}", resource=APP), True) for action in ("CreateRun", "LogBatch")),
        *(
            (Request(action=f"sagemaker-mlflow:{action}", resource=APP), False)
            for action in ("DeleteRun", "DeleteExperiment", "AccessUI")
        ),
        *(
            (Request(action=f"sagemaker:{action}", resource=APP), False)
            for action in ("DeleteMlflowApp", "UpdateMlflowApp", "CreatePresignedMlflowAppUrl")
        ),
        (Request(action="sagemaker:CallMlflowAppApi", resource=f"{APP}-2"), False),
        (Request(action="sagemaker-mlflow:CreateRun", resource=f"{APP}-2"), False),
        (s3("PutObject", f"{BUCKET}/1/run/artifacts/x"), True),
        (s3("ListBucket", BUCKET), True),
        (s3("DeleteObject", f"{BUCKET}/1/run/artifacts/x"), False),
    ],
)
def test_pods_record_runs_and_delete_none(pods: list[Any], asked: Request, allowed: bool) -> None:
    assert allows(pods, asked) is allowed


def test_every_action_is_in_the_service_authorization_reference(pods: list[Any]) -> None:
    """cfn-lint carries its list: a misspelled action allows nothing, and nobody says so."""
    import cfnlint

    listed = json.loads((Path(cfnlint.__file__).parent / "data/AdditionalSpecs/Policies.json").read_text())
    asked = [action for pod in pods for action in pod["Action"] if "mlflow" in action.lower()]
    assert "sagemaker:CallMlflowAppApi" in asked
    for action in asked:
        service, _, name = action.partition(":")
        assert name.lower() in listed[service]["Actions"], action


def test_app_role_and_bucket_stay_together(everything: Assembly) -> None:
    """An app without its role cannot show an artifact; a bucket without its policy takes requests in the clear."""
    resources = everything.templates[STACK]["Resources"]
    kept = {
        resource["Type"]
        for name, resource in resources.items()
        if name.startswith("Tracking") and resource.get("DeletionPolicy") in {"Retain", "RetainExceptOnCreate"}
        and resource["UpdateReplacePolicy"] == "Retain"
    }  # fmt: skip
    assert kept == {KIND, "AWS::S3::Bucket", "AWS::S3::BucketPolicy", "AWS::IAM::Role"}
    every = [resource.get("Properties", {}) for resource in resources.values()]
    (bucket,) = [properties for properties in every if properties.get("BucketName") == BUCKET]
    assert bucket["BucketEncryption"]
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    (policy,) = [one["Properties"] for name, one in resources.items() if name.startswith("TrackingBucketPolicy")]
    (tls,) = [one for one in policy["PolicyDocument"]["Statement"] if one["Effect"] == "Deny"]
    assert tls["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_pods_get_the_address_without_a_hand(everything: Assembly, references: References) -> None:
    (cluster,) = [
        text
        for resource in everything.of_type("Custom::AWSCDK-EKS-KubernetesResource").values()
        if '"kind":"RayCluster"' in (text := str(references.resolve(STACK, resource["Properties"]["Manifest"])))
    ]
    (load,) = json.loads(cluster)
    pods = [load["spec"]["headGroupSpec"], *load["spec"]["workerGroupSpecs"]]
    assert len(pods) >= 3
    for pod in pods:
        given = {one["name"]: one.get("value") for one in pod["template"]["spec"]["containers"][0]["env"]}
        assert given["MLFLOW_TRACKING_URI"] == APP
        assert given["RESILIENCE_TRACKING"] == "mlflow"
        assert given["MLFLOW_EXPERIMENT_NAME"] == "everything"
        assert given["AWS_REGION"] == "us-west-2"
