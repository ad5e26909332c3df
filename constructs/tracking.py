"""The MLflow app in which runs are recorded."""

from __future__ import annotations

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sagemaker as sagemaker

from constructs import Construct
from hyperpod_ray.constructs.private_bucket import private_bucket

STORE = ["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject", "s3:ListMultipartUploadParts", "s3:PutObject"]
"""What the app does with artifacts. AWS's guide has `s3:Get*`, `s3:Put*` and `s3:List*` on every bucket:
https://docs.aws.amazon.com/sagemaker/latest/dg/mlflow-app-setup-prerequisites-iam.html"""


class TrackingApp(Construct):
    """An MLflow app of SageMaker AI, its bucket for artifacts, and its role.

    Creates `AWS::SageMaker::MlflowApp`, `AWS::S3::Bucket` (encrypted, TLS only, versioned) and `AWS::IAM::Role`. The
    role reaches that bucket alone. Models are not registered by themselves, which needs rights to the Model Registry.
    App, role and bucket stay or go together: an app without its role cannot show an artifact.
    https://docs.aws.amazon.com/sagemaker/latest/dg/mlflow.html

    Args:
        name: Name of the app. A change replaces the app, and the new one has no runs.
        bucket_name: Physical name of the bucket.
        maintenance_start: Day and time in UTC (`Tue:03:30`) of the weekly maintenance. Default: the service chooses.
        retain: Whether all three stay when the stack goes; otherwise the record of all runs goes with it.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        bucket_name: str,
        maintenance_start: str | None = None,
        retain: bool,
    ) -> None:
        super().__init__(scope, construct_id)
        self.bucket = private_bucket(
            self,
            bucket_name=bucket_name,
            versioned=True,
            lifecycle_rules=[
                s3.LifecycleRule(
                    id="artifacts",
                    noncurrent_version_expiration=Duration.days(30),
                    abort_incomplete_multipart_upload_after=Duration.days(1),
                )
            ],
            retain=retain,
        )
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"),
            description="MLflow app: its artifacts",
            # inline, so that role and rights stay together
            inline_policies={
                "Artifacts": iam.PolicyDocument(
                    statements=[
                        iam.PolicyStatement(
                            actions=["s3:GetBucketLocation", "s3:ListBucket", "s3:ListBucketMultipartUploads"],
                            resources=[self.bucket.bucket_arn],
                        ),
                        iam.PolicyStatement(actions=STORE, resources=[self.bucket.arn_for_objects("*")]),
                    ]
                )
            },
        )
        self.app = sagemaker.CfnMlflowApp(
            self,
            "App",
            name=name,
            artifact_store_uri=f"s3://{bucket_name}",
            role_arn=self.role.role_arn,
            model_registration_mode="AutoModelRegistrationDisabled",
            weekly_maintenance_window_start=maintenance_start,
        )
        # the bucket's policy too: the service may ask for the place before it takes the app
        self.app.node.add_dependency(self.bucket)
        if retain:
            self.role.apply_removal_policy(RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
            self.app.apply_removal_policy(RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
        self.arn = self.app.attr_arn
