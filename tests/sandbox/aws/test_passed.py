"""Roles and keys that a resource names are asked for, where the registry's schemas have them."""

from __future__ import annotations

from typing import Any

import pytest
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

from hyperpod_ray_sandbox.aws.emulator.passed import KEYS, ROLES, USES, needs

ROLE = "arn:aws:iam::1:role/r"
KEY = "arn:aws:kms:us-west-2:1:key/k"


def asked(resource_type: str, properties: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(need.action, need.resource, need.keys) for need in needs(resource_type, properties, region="us-west-2")]


def placed(path: str, value: str) -> Any:
    """Properties that have a value at a path."""
    content: Any = value
    for step in reversed(path.split("/")):
        content = [content, content] if step == "*" else {step: content}
    return content


def properties_of(resource_type: str) -> dict[str, Any]:
    """What the registry's schema of a type has."""
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema(region="us-west-2", resource_type=resource_type).schema
    properties: dict[str, Any] = schema["properties"]
    return properties


@pytest.mark.parametrize(
    ("resource_type", "service", "path"),
    [(name, service, path) for name, places in ROLES.items() for service, path in places],
)
def test_a_role_is_passed_to_its_service_once(resource_type: str, service: str, path: str) -> None:
    """https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_use_passrole.html."""
    assert asked(resource_type, placed(path, ROLE)) == [("iam:PassRole", ROLE, {"iam:PassedToService": service})]
    assert asked(resource_type, placed(path, "arn:aws:sts::1:assumed-role/r/s")) == []
    assert asked(resource_type, placed(path, "arn:aws:iam::1:user/r")) == []
    assert asked(resource_type, placed(path, "{{resolve}}")) == [], "it is known only when the step runs"
    assert asked(resource_type, {}) == []
    assert path.split("/", maxsplit=1)[0] in properties_of(resource_type)


@pytest.mark.parametrize("resource_type", KEYS)
def test_a_key_is_used_through_its_service(resource_type: str) -> None:
    """https://docs.aws.amazon.com/kms/latest/developerguide/conditions-kms.html#conditions-kms-via-service."""
    service, path = KEYS[resource_type]
    keys = {"kms:ViaService": f"{service}.us-west-2.amazonaws.com", "kms:GrantIsForAWSResource": "true"}
    assert asked(resource_type, placed(path, KEY)) == [(action, KEY, keys) for action in USES]
    assert asked(resource_type, placed(path, "alias/aws/fsx")) == []
    assert path.split("/")[0] in properties_of(resource_type)


def test_each_role_of_a_list_is_passed_and_another_type_passes_none() -> None:
    groups = [{"ExecutionRole": ROLE}, {"ExecutionRole": ROLE + "2"}, {"ExecutionRole": ROLE}, {}, "x"]
    cluster = {"InstanceGroups": groups, "ClusterRole": ROLE + "3"}
    assert [resource for _, resource, _ in asked("AWS::SageMaker::Cluster", cluster)] == [ROLE, ROLE + "2", ROLE + "3"]
    assert asked("AWS::SageMaker::Cluster", {"InstanceGroups": {"ExecutionRole": ROLE}}) == []
    assert asked("AWS::SNS::Topic", {"RoleArn": ROLE, "KmsKeyId": KEY}) == []
