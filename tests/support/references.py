"""What a template's intrinsic functions come to, with made-up but distinct physical names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

ARNS = {
    "AWS::CloudWatch::Alarm": "cloudwatch:{region}:{account}:alarm:{name}",
    "AWS::CodeBuild::Project": "codebuild:{region}:{account}:project/{name}",
    "AWS::EC2::FlowLog": "ec2:{region}:{account}:vpc-flow-log/{name}",
    "AWS::EC2::SecurityGroup": "ec2:{region}:{account}:security-group/{name}",
    "AWS::EC2::Subnet": "ec2:{region}:{account}:subnet/{name}",
    "AWS::EC2::VPC": "ec2:{region}:{account}:vpc/{name}",
    "AWS::ECR::Repository": "ecr:{region}:{account}:repository/{name}",
    "AWS::EKS::Cluster": "eks:{region}:{account}:cluster/{name}",
    "AWS::Events::Rule": "events:{region}:{account}:rule/{name}",
    "AWS::FSx::FileSystem": "fsx:{region}:{account}:file-system/{name}",
    "AWS::IAM::ManagedPolicy": "iam::{account}:policy/{name}",
    "AWS::IAM::OIDCProvider": "iam::{account}:oidc-provider/{name}",
    "AWS::IAM::Role": "iam::{account}:role/{name}",
    "AWS::KMS::Key": "kms:{region}:{account}:key/{name}",
    "AWS::Lambda::Function": "lambda:{region}:{account}:function:{name}",
    "AWS::Logs::LogGroup": "logs:{region}:{account}:log-group:{name}:*",
    "AWS::S3::Bucket": "s3:::{name}",
    "AWS::SageMaker::Cluster": "sagemaker:{region}:{account}:cluster/{name}",
    "AWS::SageMaker::MlflowApp": "sagemaker:{region}:{account}:mlflow-app/app-{name}",
    "AWS::SNS::Topic": "sns:{region}:{account}:{name}",
    "AWS::StepFunctions::StateMachine": "states:{region}:{account}:stateMachine:{name}",
}
NAMES = ("BucketName", "RepositoryName", "LogGroupName", "ClusterName", "Name", "AlarmName", "TopicName", "RoleName")
REF_IS_ARN = (
    "AWS::SNS::Topic",
    "AWS::IAM::ManagedPolicy",
    "AWS::StepFunctions::StateMachine",
    "AWS::IAM::OIDCProvider",
)


class References:
    """Resolves values of the templates of one environment; KeyError for what they do not hold."""

    def __init__(self, templates: Mapping[str, Any], *, account: str, region: str) -> None:
        self._templates, self._account, self._region = templates, account, region

    def arn(self, stack: str, logical_id: str) -> str:
        """The ARN of a resource."""
        resource = self._templates[stack]["Resources"][logical_id]
        rest = ARNS[resource["Type"]].format(
            region=self._region, account=self._account, name=self.name(stack, logical_id)
        )
        return f"arn:aws:{rest}"

    def name(self, stack: str, logical_id: str) -> str:
        """The physical name of a resource: as given, else `stack-logical id`."""
        properties = self._templates[stack]["Resources"][logical_id].get("Properties", {})
        given = next((properties[key] for key in NAMES if key in properties), None)
        return str(self.resolve(stack, given)) if given is not None else f"{stack}-{logical_id}"

    def resolve(self, stack: str, value: Any) -> Any:
        """The value with every intrinsic function replaced."""
        if isinstance(value, list):
            return [self.resolve(stack, item) for item in value]
        if not isinstance(value, Mapping):
            return value
        if len(value) == 1:
            (name, argument), *_ = value.items()
            if name == "Ref" or name.startswith("Fn::"):
                return self._function(stack, name, argument)
        return {self.resolve(stack, key): self.resolve(stack, item) for key, item in value.items()}

    def _function(self, stack: str, name: str, argument: Any) -> Any:  # noqa: PLR0911  # one line per function
        match name:
            case "Ref":
                return self._ref(stack, argument)
            case "Fn::GetAtt":
                logical_id, attribute = argument if isinstance(argument, list) else argument.split(".", 1)
                return self._attribute(stack, logical_id, attribute)
            case "Fn::Join":
                return argument[0].join(str(self.resolve(stack, item)) for item in argument[1])
            case "Fn::Sub":
                return re.sub(r"\$\{([^}]+)\}", lambda found: str(self._ref(stack, found[1])), argument)
            case "Fn::ImportValue":
                exporter, output = self._export(argument)
                return self.resolve(exporter, output["Value"])
            case "Fn::If":
                return self.resolve(stack, argument[1])
            case "Fn::Select":
                return self.resolve(stack, argument[1])[int(argument[0])]
            case "Fn::Split":
                return str(self.resolve(stack, argument[1])).split(argument[0])
            case _:
                raise NotImplementedError(name)

    def _ref(self, stack: str, name: str) -> str:
        pseudo = {
            "AWS::Partition": "aws",
            "AWS::Region": self._region,
            "AWS::AccountId": self._account,
            "AWS::URLSuffix": "amazonaws.com",
            "AWS::NoValue": "",
        }
        if name in pseudo:
            return pseudo[name]
        if name not in self._templates[stack]["Resources"]:
            return f"parameter-{name}"
        kind = self._templates[stack]["Resources"][name]["Type"]
        return self.arn(stack, name) if kind in REF_IS_ARN else self.name(stack, name)

    def _attribute(self, stack: str, logical_id: str, attribute: str) -> str:
        resource = self._templates[stack]["Resources"][logical_id]
        if attribute.lower().endswith("arn") and resource["Type"] in ARNS:
            return self.arn(stack, logical_id)
        if attribute in ("GroupId", "VpcId", "SubnetId", "RoleId", "KeyId"):
            return self.name(stack, logical_id)
        return f"{self.name(stack, logical_id)}.{attribute}"

    def _export(self, name: str) -> tuple[str, Any]:
        for stack, template in self._templates.items():
            for output in template.get("Outputs", {}).values():
                if output.get("Export", {}).get("Name") == name:
                    return stack, output
        raise KeyError(name)
