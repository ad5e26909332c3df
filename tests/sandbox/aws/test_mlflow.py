"""An MLflow app through CloudFormation: the template's own resources, and what the service refuses of a role."""

from __future__ import annotations

import copy
import uuid
from typing import Any

import botocore.exceptions
import pytest

from tests.sandbox.aws.stacks_helpers import Stacks
from tests.support.emulator import Emulator

pytestmark = pytest.mark.emulator
Json = dict[str, Any]


def parts(bucket: str, *, service: str = "sagemaker.amazonaws.com", place: str = "") -> Json:
    """Bucket, role and app, as `hyperpod_ray.constructs.tracking` writes them."""
    arn = {"Fn::GetAtt": ["Bucket", "Arn"]}
    rights = {"Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject"],
              "Resource": {"Fn::Join": ["", [arn, "/*"]]}}  # fmt: skip
    trust = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole",
             "Condition": {"StringEqualsIfExists": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}}  # fmt: skip
    return {
        "Bucket": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": bucket}},
        "Role": {
            "Type": "AWS::IAM::Role",
            "Properties": {
                "AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": [trust]},
                "Policies": [{"PolicyName": "a", "PolicyDocument": {"Version": "2012-10-17", "Statement": [rights]}}],
            },
        },
        "App": {
            "Type": "AWS::SageMaker::MlflowApp",
            "DependsOn": "Bucket",
            "Properties": {
                "Name": "env",
                "ArtifactStoreUri": f"s3://{place or bucket}",
                "RoleArn": {"Fn::GetAtt": ["Role", "Arn"]},
                "WeeklyMaintenanceWindowStart": "Sun:03:30",
                "Tags": [{"Key": "team", "Value": "vision"}],
            },
        },
    }


def test_an_app_comes_changes_and_goes(emulator: Emulator, stacks: Stacks) -> None:
    sagemaker = emulator.boto("sagemaker")
    asked = parts(f"mlflow-{uuid.uuid4().hex[:8]}")
    name = stacks.create(asked)
    assert stacks.status(name) == "CREATE_COMPLETE", stacks.reasons(name)
    arn = stacks.ids(name)["App"]
    found = sagemaker.describe_mlflow_app(Arn=arn)
    assert (found["Name"], found["Status"], found["ModelRegistrationMode"]) == (
        "env", "Created", "AutoModelRegistrationDisabled"
    )  # fmt: skip
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "team", "Value": "vision"}]
    assert [app["Arn"] for app in sagemaker.list_mlflow_apps()["Summaries"]] == [arn]
    assert sagemaker.create_presigned_mlflow_app_url(Arn=arn)["AuthorizedUrl"].startswith("https://")
    later = copy.deepcopy(asked)
    later["App"]["Properties"]["WeeklyMaintenanceWindowStart"] = "Tue:04:00"
    stacks.update(name, later)
    assert stacks.ids(name)["App"] == arn, "in place"
    assert sagemaker.describe_mlflow_app(Arn=arn)["WeeklyMaintenanceWindowStart"] == "Tue:04:00"
    later["App"]["Properties"]["Name"] = "other"
    stacks.update(name, later)
    assert stacks.ids(name)["App"] != arn, "createOnlyProperties: Name"
    stacks.update(name, {key: later[key] for key in ("Bucket", "Role")})
    assert sagemaker.list_mlflow_apps()["Summaries"] == []
    with pytest.raises(botocore.exceptions.ClientError, match="ResourceNotFound"):
        sagemaker.describe_mlflow_app(Arn=arn)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"service": "ec2.amazonaws.com"}, "Could not assume role"),
        ({"place": "nowhere-at-all"}, "Bucket nowhere-at-all of the artifact store does not exist"),
        ({"window": "Sunday"}, "WeeklyMaintenanceWindowStart"),
        ({"rights": []}, "is not authorized to perform: s3:PutObject"),
    ],
    ids=["trust", "bucket", "window", "rights"],
)
def test_an_app_that_cannot_work_is_refused(emulator: Emulator, stacks: Stacks, change: Json, said: str) -> None:
    window, rights = change.pop("window", None), change.pop("rights", None)
    asked = parts(f"mlflow-{uuid.uuid4().hex[:8]}", **change)
    if window:
        asked["App"]["Properties"]["WeeklyMaintenanceWindowStart"] = window
    if rights is not None:
        asked["Role"]["Properties"]["Policies"] = rights
    name = stacks.create(asked)
    assert stacks.status(name).startswith("ROLLBACK"), stacks.status(name)
    assert said in stacks.reasons(name)
