"""What tests of `metrics_helpers`, `alarms`, `budget`, `dashboard`, `health`, `metrics` share."""

from __future__ import annotations

from typing import Any

from hyperpod_ray.core import load
from tests.stacks.assembled import Assembly
from tests.support.iam import statements_of
from tests.support.references import References


def references(assembly: Assembly) -> References:
    settings = load(assembly.name).settings
    return References(assembly.templates, account=settings.account, region=settings.region)


def split(key: str) -> tuple[str, str]:
    stack, _, logical_id = key.partition("/")
    return stack, logical_id


def documents(assembly: Assembly, kind: str, member: str, target: str) -> list[Any]:
    """Statements of the resource policies that are about `target`."""
    refs, found = references(assembly), []
    for key, policy in assembly.of_type(kind).items():
        stack, _ = split(key)
        if target in refs.resolve(stack, policy["Properties"][member]):
            found += statements_of(refs.resolve(stack, policy["Properties"]["PolicyDocument"]))
    return found


def key_statements(assembly: Assembly, topic: str) -> list[Any]:
    """The policy of the key that encrypts a topic."""
    refs = references(assembly)
    for name, found in assembly.of_type("AWS::SNS::Topic").items():
        stack, logical_id = split(name)
        if refs.arn(stack, logical_id) != topic:
            continue
        used = refs.resolve(stack, found["Properties"]["KmsMasterKeyId"])
        for other, key in assembly.of_type("AWS::KMS::Key").items():
            if refs.arn(*split(other)) == used or refs.name(*split(other)) == used:
                return statements_of(refs.resolve(split(other)[0], key["Properties"]["KeyPolicy"]))
    raise AssertionError(f"no topic {topic} with a key of its own")
