"""What tests of `execution_role`, `roles` share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hyperpod_ray.core import load
from tests.stacks.assembled import Assembly
from tests.support.iam import statements_of
from tests.support.references import References


def roles(assembly: Assembly) -> Iterator[tuple[str, str, list[Any], list[Any]]]:
    """Name, service that takes it, trust, and all statements of each role that a service takes."""
    settings = load(assembly.name).settings
    references = References(assembly.templates, account=settings.account, region=settings.region)
    attached: dict[str, list[Any]] = {}
    for kind in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
        for key, policy in assembly.of_type(kind).items():
            properties = references.resolve(key.partition("/")[0], policy["Properties"])
            for role in properties.get("Roles", []):
                attached.setdefault(role, []).extend(statements_of(properties["PolicyDocument"]))
    for key, role in assembly.of_type("AWS::IAM::Role").items():
        stack, _, logical_id = key.partition("/")
        trust_document = references.resolve(stack, role["Properties"]["AssumeRolePolicyDocument"])
        trust = statements_of(trust_document)
        service = trust[0]["Principal"].get("Service", "")
        inline = [p["PolicyDocument"] for p in references.resolve(stack, role["Properties"].get("Policies", []))]
        name = references.name(stack, logical_id)
        if service:
            yield key, service, trust, [*statements_of(*inline), *attached.get(name, [])]
