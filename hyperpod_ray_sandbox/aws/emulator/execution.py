"""CloudFormation's execution role: what a stack's role may not do fails its step, as on AWS.

A request that names a role (`--role-arn`, and every deploy of a bootstrapped CDK app) makes it the stack's. Each step
then needs the role's right to the action that the resource's handler calls. Judged is the action on some resource, not
on the resource's own ARN, which only the handler knows; a type that is not in the table is not judged. Roles that the
resource names are passed, and keys are used: those are judged with their ARN and conditions (`passed`).
Source: `handlers.*.permissions` of the resource schemas, their writing call each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlencode

from hyperpod_ray_sandbox.aws.emulator import passed
from hyperpod_ray_sandbox.aws.emulator.context import Context
from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError
from hyperpod_ray_sandbox.aws.emulator.roles import Roles

Json = dict[str, Any]
_SETS = ("CreateStack", "UpdateStack", "CreateChangeSet", "DeleteStack")
# type: actions of create, update, delete
ACTIONS: dict[str, tuple[str, str, str]] = {
    "AWS::APS::RuleGroupsNamespace": (
        "aps:CreateRuleGroupsNamespace",
        "aps:PutRuleGroupsNamespace",
        "aps:DeleteRuleGroupsNamespace",
    ),
    "AWS::APS::Workspace": ("aps:CreateWorkspace", "aps:UpdateWorkspaceAlias", "aps:DeleteWorkspace"),
    "AWS::Budgets::Budget": ("budgets:ModifyBudget",) * 3,
    "AWS::Chatbot::MicrosoftTeamsChannelConfiguration": (
        "chatbot:CreateMicrosoftTeamsChannelConfiguration",
        "chatbot:UpdateMicrosoftTeamsChannelConfiguration",
        "chatbot:DeleteMicrosoftTeamsChannelConfiguration",
    ),
    "AWS::Chatbot::SlackChannelConfiguration": (
        "chatbot:CreateSlackChannelConfiguration",
        "chatbot:UpdateSlackChannelConfiguration",
        "chatbot:DeleteSlackChannelConfiguration",
    ),
    "AWS::CloudWatch::Alarm": ("cloudwatch:PutMetricAlarm", "cloudwatch:PutMetricAlarm", "cloudwatch:DeleteAlarms"),
    "AWS::CloudWatch::Dashboard": ("cloudwatch:PutDashboard", "cloudwatch:PutDashboard", "cloudwatch:DeleteDashboards"),
    "AWS::CodeBuild::Project": ("codebuild:CreateProject", "codebuild:UpdateProject", "codebuild:DeleteProject"),
    "AWS::EC2::EIP": ("ec2:AllocateAddress", "ec2:CreateTags", "ec2:ReleaseAddress"),
    "AWS::EC2::FlowLog": ("ec2:CreateFlowLogs", "ec2:CreateTags", "ec2:DeleteFlowLogs"),
    "AWS::EC2::InternetGateway": ("ec2:CreateInternetGateway", "ec2:CreateTags", "ec2:DeleteInternetGateway"),
    "AWS::EC2::NatGateway": ("ec2:CreateNatGateway", "ec2:CreateTags", "ec2:DeleteNatGateway"),
    "AWS::EC2::Route": ("ec2:CreateRoute", "ec2:ReplaceRoute", "ec2:DeleteRoute"),
    "AWS::EC2::RouteTable": ("ec2:CreateRouteTable", "ec2:CreateTags", "ec2:DeleteRouteTable"),
    "AWS::EC2::SecurityGroup": ("ec2:CreateSecurityGroup", "ec2:CreateTags", "ec2:DeleteSecurityGroup"),
    "AWS::EC2::Subnet": ("ec2:CreateSubnet", "ec2:ModifySubnetAttribute", "ec2:DeleteSubnet"),
    "AWS::EC2::VPC": ("ec2:CreateVpc", "ec2:ModifyVpcAttribute", "ec2:DeleteVpc"),
    "AWS::EC2::VPCEndpoint": ("ec2:CreateVpcEndpoint", "ec2:ModifyVpcEndpoint", "ec2:DeleteVpcEndpoints"),
    "AWS::ECR::Repository": ("ecr:CreateRepository", "ecr:PutLifecyclePolicy", "ecr:DeleteRepository"),
    "AWS::EKS::AccessEntry": ("eks:CreateAccessEntry", "eks:UpdateAccessEntry", "eks:DeleteAccessEntry"),
    "AWS::EKS::Addon": ("eks:CreateAddon", "eks:UpdateAddon", "eks:DeleteAddon"),
    "AWS::EKS::Cluster": ("eks:CreateCluster", "eks:UpdateClusterConfig", "eks:DeleteCluster"),
    "AWS::EKS::PodIdentityAssociation": (
        "eks:CreatePodIdentityAssociation",
        "eks:UpdatePodIdentityAssociation",
        "eks:DeletePodIdentityAssociation",
    ),
    "AWS::Events::Rule": ("events:PutRule", "events:PutRule", "events:DeleteRule"),
    "AWS::FSx::FileSystem": ("fsx:CreateFileSystem", "fsx:UpdateFileSystem", "fsx:DeleteFileSystem"),
    "AWS::IAM::ManagedPolicy": ("iam:CreatePolicy", "iam:CreatePolicyVersion", "iam:DeletePolicy"),
    "AWS::IAM::OIDCProvider": (
        "iam:CreateOpenIDConnectProvider",
        "iam:UpdateOpenIDConnectProviderThumbprint",
        "iam:DeleteOpenIDConnectProvider",
    ),
    "AWS::IAM::Policy": ("iam:PutRolePolicy", "iam:PutRolePolicy", "iam:DeleteRolePolicy"),
    "AWS::IAM::Role": ("iam:CreateRole", "iam:UpdateRole", "iam:DeleteRole"),
    "AWS::KMS::Key": ("kms:CreateKey", "kms:PutKeyPolicy", "kms:ScheduleKeyDeletion"),
    "AWS::Lambda::Function": ("lambda:CreateFunction", "lambda:UpdateFunctionConfiguration", "lambda:DeleteFunction"),
    "AWS::Lambda::LayerVersion": ("lambda:PublishLayerVersion", "", "lambda:DeleteLayerVersion"),
    "AWS::Logs::LogGroup": ("logs:CreateLogGroup", "logs:PutRetentionPolicy", "logs:DeleteLogGroup"),
    "AWS::Logs::MetricFilter": ("logs:PutMetricFilter", "logs:PutMetricFilter", "logs:DeleteMetricFilter"),
    "AWS::S3::Bucket": ("s3:CreateBucket", "s3:PutBucketTagging", "s3:DeleteBucket"),
    "AWS::S3::BucketPolicy": ("s3:PutBucketPolicy", "s3:PutBucketPolicy", "s3:DeleteBucketPolicy"),
    "AWS::SNS::Topic": ("sns:CreateTopic", "sns:SetTopicAttributes", "sns:DeleteTopic"),
    "AWS::SSM::Parameter": ("ssm:PutParameter", "ssm:PutParameter", "ssm:DeleteParameter"),
    "AWS::SageMaker::ClusterSchedulerConfig": (
        "sagemaker:CreateClusterSchedulerConfig",
        "sagemaker:UpdateClusterSchedulerConfig",
        "sagemaker:DeleteClusterSchedulerConfig",
    ),
    "AWS::SageMaker::ComputeQuota": (
        "sagemaker:CreateComputeQuota",
        "sagemaker:UpdateComputeQuota",
        "sagemaker:DeleteComputeQuota",
    ),
    "AWS::SageMaker::Cluster": ("sagemaker:CreateCluster", "sagemaker:UpdateCluster", "sagemaker:DeleteCluster"),
    "AWS::SageMaker::MlflowApp": (
        "sagemaker:CreateMlflowApp",
        "sagemaker:UpdateMlflowApp",
        "sagemaker:DeleteMlflowApp",
    ),
    "AWS::StepFunctions::StateMachine": (
        "states:CreateStateMachine",
        "states:UpdateStateMachine",
        "states:DeleteStateMachine",
    ),
}
CUSTOM = "lambda:InvokeFunction"
SESSION = "AWSCloudFormation"


class Execution:
    """Remembers the role of each stack, and judges its steps."""

    def __init__(self, context: Context, roles: Roles) -> None:
        self._hooks, self._roles = context.hooks, roles
        self._of_stack: Any = context.hooks.scoped_dict()
        handlers = context.hooks.app.SERVICE_HANDLERS
        original = handlers["cloudformation"]

        async def handle(method: str, path: str, headers: Json, body: bytes, query: Any) -> Any:
            form = parse_qs(body.decode("utf-8", "replace")) if body else dict(query or {})
            role = _first(form, "RoleARN")
            if role and _first(form, "Action") in _SETS:
                name = _first(form, "StackName")
                source = context.hooks.arn("cloudformation", f"stack/{name}/new")
                if not roles.trusts(role, service="cloudformation.amazonaws.com", source=source):
                    return _error(f"Role {role} is invalid or cannot be assumed")
                self._of_stack[name.partition(":stack/")[2].partition("/")[0] or name] = role
            physical_id = _first(form, "PhysicalResourceId")
            if physical_id and _first(form, "Action") == "DescribeStackResources" and not _first(form, "StackName"):
                # MiniStack finds resources by the name of their stack only
                holder = self._holder(physical_id)
                if not holder:
                    return _error(f"Stack for {physical_id} does not exist")
                body = urlencode({**form, "StackName": holder}, doseq=True).encode()
            return await original(method, path, headers, body, query)

        handlers["cloudformation"] = handle

    def judged(self, resource_type: str, step: str, original: Callable[..., Any]) -> Callable[..., Any]:
        """One step of a type, with the verdict on the role of its stack before it."""
        position = ("create", "update", "delete").index(step)
        action = (
            CUSTOM
            if resource_type == "Custom"
            else ACTIONS[resource_type][position]
            if resource_type in ACTIONS
            else ""
        )
        if not action:
            return original

        def run(*args: Any, **kwargs: Any) -> Any:
            # create(logical id, properties, stack), update(id, old, new, stack), delete(id, properties)
            at = {"create": 2, "update": 3}.get(step)
            named = str(args[at]) if at is not None and len(args) > at else ""
            stack = named or self._holder(str(args[0]))
            role = str(self._of_stack.get(stack) or "") if stack else ""
            reason = self._roles.refusal_anywhere(role, action, session=SESSION) if role else ""
            if role and not reason:
                reason = self._passes(role, resource_type, step, args)
            if reason:
                raise ServiceError("AccessDenied", f'Resource handler returned message: "{reason}"')
            return original(*args, **kwargs)

        return run

    def _passes(self, role: str, resource_type: str, step: str, args: tuple[Any, ...]) -> str:
        """IAM's message where the role may not pass a role that the resource names, or not use a key; else nothing."""
        at = {"create": 1, "update": 2}.get(step)
        properties = args[at] if at is not None and len(args) > at else None
        if not isinstance(properties, dict):
            return ""
        for need in passed.needs(resource_type, properties, region=self._hooks.region()):
            reason = self._roles.refusal(role, need.action, need.resource, session=SESSION, keys=need.keys)
            if not reason and need.action in passed.USES:
                reason = self._roles.refused_by_key(role, need.action, need.resource, session=SESSION)
            if reason:
                return reason
        return ""

    def _holder(self, physical_id: str) -> str:
        """The stack that has a resource; one that is deleted has none, though it left some."""
        for name, stack in self._hooks.cloudformation._stacks.items():
            if stack.get("StackStatus") == "DELETE_COMPLETE":
                continue
            resources = (stack.get("_resources") or {}).values()
            if any(r.get("PhysicalResourceId") == physical_id for r in resources):
                return str(name)
        return ""


def _error(message: str) -> tuple[int, Json, bytes]:
    inner = f"<Type>Sender</Type><Code>ValidationError</Code><Message>{message}</Message>"
    body = f"<ErrorResponse><Error>{inner}</Error><RequestId>refused</RequestId></ErrorResponse>"
    return 400, {"Content-Type": "text/xml"}, body.encode()


def _first(form: Any, name: str) -> str:
    value = form.get(name, "")
    return str(value[0] if isinstance(value, list) and value else value or "")
