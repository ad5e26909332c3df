"""Where MLflow apps of SageMaker AI are.

https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-sagemaker-mlflowapp.html
"""

from __future__ import annotations

APP_REGIONS = frozenset(
    {
        "us-east-1", "us-east-2", "us-west-1", "us-west-2", "ap-south-1", "ap-southeast-1", "ap-southeast-2",
        "ap-northeast-1", "ap-northeast-2", "ca-central-1", "eu-central-1", "eu-west-1", "eu-west-2", "eu-west-3",
        "eu-north-1", "me-south-1", "sa-east-1",
    }
)  # fmt: skip
"""Commercial Regions whose CloudFormation has `AWS::SageMaker::MlflowApp`, by the schemas of cfn-lint 1.58.0."""


def app_host(region: str) -> str:
    """Host of the apps of a Region, as the package `sagemaker-mlflow` 0.3 calls it."""
    return f"mlflow.sagemaker.{region}.app.aws"
