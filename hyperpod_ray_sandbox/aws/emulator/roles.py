"""What a role may do when a service uses it: asked of the evaluator that judges functions' calls.

On AWS a service calls with a session of the role it was given. Here the service is this process, so that the call
itself needs no signature; its verdict is the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hyperpod_ray_rules.arns import arn_of
from hyperpod_ray_sandbox.aws.emulator.context import Context

Json = dict[str, Any]
Keys = Mapping[str, Any]

# AWS's own policy of HyperPod nodes, which MiniStack lacks:
# https://docs.aws.amazon.com/sagemaker/latest/dg/security-iam-awsmanpol-AmazonSageMakerClusterInstanceRolePolicy.html
_LOGS = "arn:aws:logs:*:*:log-group:/aws/sagemaker/Clusters/*"
NODES = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Action": ["logs:PutLogEvents", "logs:CreateLogStream", "logs:DescribeLogStreams"],
            "Resource": [f"{_LOGS}:log-stream:*"],
        },
        {"Effect": "Allow", "Action": ["logs:CreateLogGroup"], "Resource": [_LOGS]},
        {
            "Effect": "Allow",
            "Action": ["cloudwatch:PutMetricData"],
            "Resource": ["*"],
            "Condition": {"StringEquals": {"cloudwatch:namespace": "/aws/sagemaker/Clusters"}},
        },
        {"Effect": "Allow", "Action": ["s3:ListBucket", "s3:GetObject"], "Resource": ["arn:aws:s3:::sagemaker-*"]},
        {
            "Effect": "Allow",
            "Action": [
                "ssmmessages:CreateControlChannel",
                "ssmmessages:CreateDataChannel",
                "ssmmessages:OpenControlChannel",
                "ssmmessages:OpenDataChannel",
            ],
            "Resource": "*",
        },
    ],
}


class Roles:
    """Asks MiniStack's policy evaluator about roles."""

    def __init__(self, context: Context) -> None:
        self._hooks = context.hooks
        self._iam = context.hooks.iam_evaluator
        name = "AmazonSageMakerClusterInstanceRolePolicy"
        managed_policy = self._hooks.iam._make_aws_managed_record(name, json.dumps(NODES), description="HyperPod nodes")
        self._hooks.iam._aws_managed_policies[f"arn:aws:iam::aws:policy/{name}"] = managed_policy

    def exists(self, arn: str) -> bool:
        """Whether there is a role."""
        return self._find(arn) is not None

    def trusts(
        self, arn: str, *, service: str, source: str, action: str = "sts:AssumeRole", keys: Keys | None = None
    ) -> bool:
        """Whether a service may take a role for one of this account's resources: `source` is its ARN."""
        role = self._find(arn)
        if role is None:
            return False
        context_keys = {"aws:SourceAccount": self._hooks.account(), "aws:SourceArn": source, **(keys or {})}
        ctx = self._asked(action=action, resource=arn, principal="", keys=context_keys)
        allowed = False
        for statement in _statements(role["AssumeRolePolicyDocument"]):
            principal = statement.get("Principal", {})
            services = _many(principal.get("Service", [])) if isinstance(principal, dict) else [principal]
            if (service in services or "*" in services) and self._applies(statement, ctx):
                if statement["Effect"] == "Deny":
                    return False
                allowed = True
        return allowed

    def trusts_web(self, arn: str, *, provider: str, claims: Mapping[str, str]) -> bool:
        """Whether a web identity may take a role: the provider's ARN, and the claims of its token."""
        role = self._find(arn)
        if role is None:
            return False
        host = provider.partition(":oidc-provider/")[2]
        keys = {f"{host}:{claim}": value for claim, value in claims.items()}
        action = "sts:AssumeRoleWithWebIdentity"
        ctx = self._asked(action=action, resource=arn, principal=provider, keys=keys)
        return bool(self._iam.evaluate_trust_policy(role["AssumeRolePolicyDocument"], provider, ctx))

    def refusal(
        self, arn: str, action: str, resource: str = "*", *, session: str = "service", keys: Keys | None = None
    ) -> str:
        """Return IAM's message where a role may not do something, else nothing."""
        account, name = _account_and_name(arn)
        principal = f"arn:aws:sts::{account}:assumed-role/{name}/{session}"
        message = f"User: {principal} is not authorized to perform: {action} on resource: {resource}"
        if self._find(arn) is None:
            return f"{message} because the role does not exist"
        ctx = self._asked(action=action, resource=resource, principal=principal, keys=keys or {})
        boundary = self._iam._permissions_boundary(self._hooks.iam._roles, name, account)
        decided = self._iam.evaluate(ctx, self._iam._gather_role_policies(name, account), *boundary)
        if decided.decision == "Allow":
            return ""
        if decided.decision == "Deny":
            return f"{message} with an explicit deny in an identity-based policy"
        return f"{message} because no identity-based policy allows the {action} action"

    def refusal_anywhere(self, arn: str, action: str, *, session: str) -> str:
        """The same for an action whose resource is not known: some resource is enough, a deny counts on all only."""
        if not self.exists(arn):
            return self.refusal(arn, action, session=session)
        account, name = _account_and_name(arn)
        policies = self._iam._gather_role_policies(name, account)
        matching = [
            statement
            for policy in policies
            for statement in policy
            if self._iam._action_matches(action, statement.actions, statement.not_actions)
        ]
        denied = any(s.effect == "Deny" and "*" in s.resources and not s.conditions for s in matching)
        if denied or not any(s.effect == "Allow" for s in matching):
            return self.refusal(arn, action, session=session)
        return ""

    def refused_by_key(self, arn: str, action: str, key: str, *, session: str) -> str:
        """KMS's message where a key's policy neither names a role nor leaves the action to the account's IAM."""
        account, name = _account_and_name(arn)
        parts = arn_of(key)
        record = self._hooks.kms._keys.get_scoped(parts.account, parts.region, parts.name)
        document = (record or {}).get("Policy")
        message = f"User: arn:aws:sts::{account}:assumed-role/{name}/{session} is not authorized to perform: {action}"
        if record is None:
            return f"{message}: key {key} does not exist"
        if not document:  # the default policy leaves everything to IAM
            return ""
        for statement in _statements(document):
            principal = statement.get("Principal", {})
            named = _many(principal.get("AWS", [])) if isinstance(principal, dict) else [principal]
            ctx = self._asked(action=action, resource=key, principal=arn, keys={})
            principals = {"*", arn, account, f"arn:aws:iam::{account}:root"} & set(map(str, named))
            if statement.get("Effect") == "Allow" and principals and self._applies(statement, ctx):
                return ""
        return f"{message} on resource: {key} because no resource-based policy allows the {action} action"

    def admits(self, document: Any, action: str, resource: str, *, account: str = "") -> bool:
        """Whether the policy of a VPC endpoint lets a request of an account through; without a policy it does."""
        if not document:
            return True
        ctx = self._asked(action=action, resource=resource, principal=f"arn:aws:iam::{account}:root", keys={})
        ctx.principal_account = account
        if not account:  # a request that the service signs itself
            ctx.principal_arn = ""
        return bool(self._iam.evaluate(ctx, [self._iam.parse_policy_document(document)]).decision == "Allow")

    def _asked(self, *, action: str, resource: str, principal: str, keys: Keys) -> Any:
        return self._iam.EvalContext(
            principal_arn=principal,
            principal_type="AssumedRole",
            principal_account=self._hooks.account(),
            action=action,
            resource_arn=resource,
            region=self._hooks.region(),
            service_context={key.lower(): value for key, value in keys.items()},
            principal_keys={},
        )

    def _applies(self, statement: Json, ctx: Any) -> bool:
        actions, excluded = _many(statement.get("Action", [])), _many(statement.get("NotAction", []))
        return bool(
            self._iam._action_matches(ctx.action, actions, excluded)
            and self._iam._conditions_met(statement.get("Condition", {}), ctx)
        )

    def _find(self, arn: str) -> Json | None:
        try:
            parts = arn_of(arn)
        except ValueError:
            return None
        if not parts.resource.startswith("role/"):
            return None
        role: Json | None = self._hooks.iam._roles.get_scoped(parts.account, None, parts.name)
        return role


def _account_and_name(arn: str) -> tuple[str, str]:
    """Account and last part of the path of a role."""
    return arn_of(arn).account, arn_of(arn).name


def _statements(document: Any) -> list[Json]:
    parsed = json.loads(document) if isinstance(document, str) else document
    return _many(parsed.get("Statement", []))


def _many(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
