"""What every role of a stack gets, also those that the CDK makes: a source on its trust, and no right to make logs."""

from __future__ import annotations

from typing import Any

from aws_cdk import CfnResource, Stack
from aws_cdk import aws_iam as iam

SOURCES = {
    "codebuild.amazonaws.com": "codebuild:{region}:{account}:project/*",
    "states.amazonaws.com": "states:{region}:{account}:stateMachine:*",
    "vpc-flow-logs.amazonaws.com": "ec2:{region}:{account}:vpc-flow-log/*",
}
"""Services that say for whom they take a role: CodeBuild's, Step Functions' and the VPC guide's pages on the confused
deputy. EKS and Lambda do not say it; SageMaker does not document it for a cluster's role."""
IF_SAID = ("sagemaker.amazonaws.com", "hyperpod.sagemaker.amazonaws.com")
"""Services whose source is judged where they say it: a key that is never set would keep nodes from their role."""
WITH_RIGHTS = ("Custom::VpcRestrictDefaultSGCustomResourceProvider",)
"""The CDK's own providers whose role has an inline policy, which the Deny must not replace."""
WRITERS = ("lambda.amazonaws.com", "codebuild.amazonaws.com")
"""Services that deliver logs late with the role of what is already deleted."""


def harden_roles(stack: Stack) -> None:
    """Limit the trusts of a stack's roles to this account, and deny functions and builds `logs:CreateLogGroup`.

    A log line that is delivered after its group went makes the group again, without retention and owned by nobody
    (aws/aws-cdk#31487). The policies that AWS maintains for functions allow that; a Deny in the role itself holds until
    the role is gone.
    """
    for resource in stack.node.find_all():
        if isinstance(resource, iam.CfnRole):
            service = _service(stack.resolve(resource.assume_role_policy_document))
        # only of plain resources the type is asked for: each question crosses over to Node.js
        elif type(resource) is CfnResource and resource.cfn_resource_type == "AWS::IAM::Role":
            service = "lambda.amazonaws.com"  # the CDK's own providers make roles of no other kind
        else:
            continue
        if service in WRITERS:
            deny = {"Effect": "Deny", "Action": "logs:CreateLogGroup", "Resource": "*"}
            policy = {"PolicyName": "NoLogGroups", "PolicyDocument": {"Version": "2012-10-17", "Statement": [deny]}}
            if resource.node.scope is not None and resource.node.scope.node.id in WITH_RIGHTS:
                resource.add_property_override("Policies.1", policy)
            else:
                resource.add_property_override("Policies", [policy])
        if condition := _source(stack, service):
            resource.add_property_override("AssumeRolePolicyDocument.Statement.0.Condition", condition)


def _source(stack: Stack, service: str) -> dict[str, Any]:
    if service in SOURCES:
        arn = SOURCES[service].format(region=stack.region, account=stack.account)
        return {
            "StringEquals": {"aws:SourceAccount": stack.account},
            "ArnLike": {"aws:SourceArn": f"arn:{stack.partition}:{arn}"},
        }
    if service in IF_SAID:
        return {"StringEqualsIfExists": {"aws:SourceAccount": stack.account}}
    return {}


def _service(document: Any) -> str:
    statements = document.get("Statement", []) if isinstance(document, dict) else []
    principal = statements[0].get("Principal", {}) if len(statements) == 1 else {}
    service = principal.get("Service", "") if isinstance(principal, dict) else ""
    return service if isinstance(service, str) else ""
