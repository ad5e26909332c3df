"""What tests of `identity`, `mlflow_app`, `team_identity`, `tier` share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.core.names import SERVICE_ACCOUNT
from tests.stacks.assembled import Assembly, synthesize
from tests.support.iam import Request, statements_of
from tests.support.references import References

VARIANTS = Path(__file__).parent / "variants"


def associations(assembly: Assembly, account: str) -> dict[str, Any]:
    """Associations of a service account, by `stack/logical id`."""
    found = assembly.of_type("AWS::EKS::PodIdentityAssociation")
    return {key: one for key, one in found.items() if one["Properties"]["ServiceAccount"] == account}


@pytest.fixture(scope="module")
def everything() -> Assembly:
    return synthesize("everything", folder=VARIANTS)


@pytest.fixture(scope="module")
def references(everything: Assembly) -> References:
    return References(everything.templates, account="111122223333", region="us-west-2")


@pytest.fixture(scope="module")
def role(everything: Assembly, references: References) -> tuple[str, list[Any], list[Any]]:
    """ARN, trust and permissions of the role of Ray's pods."""
    return role_of(SERVICE_ACCOUNT, everything, references)


def role_of(account: str, everything: Assembly, references: References) -> tuple[str, list[Any], list[Any]]:
    """ARN, trust and permissions of the role of a service account."""
    (association,) = associations(everything, account).values()
    arn = references.resolve(f"{everything.name}-Ray", association["Properties"]["RoleArn"])
    trust: list[Any] = []
    permissions: list[Any] = []
    for key, found in everything.of_type("AWS::IAM::Role").items():
        stack, _, logical_id = key.partition("/")
        if references.arn(stack, logical_id) == arn:
            assert not found["Properties"].get("ManagedPolicyArns")
            trust = statements_of(references.resolve(stack, found["Properties"]["AssumeRolePolicyDocument"]))
    name = arn.rpartition("/")[2]
    for key, policy in everything.of_type("AWS::IAM::Policy").items():
        stack = key.partition("/")[0]
        properties = references.resolve(stack, policy["Properties"])
        if name in properties["Roles"]:
            permissions += statements_of(properties["PolicyDocument"])
    return arn, trust, permissions


def s3(action: str, place: str, **context: str) -> Request:
    return Request(
        action=f"s3:{action}",
        resource=f"arn:aws:s3:::{place}",
        context={f"s3:{k}": v for k, v in context.items()},
    )
