"""Statements and rules: what covers what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.review.review import review
from tests.review.security_helpers import group
from tests.review.small import resources, write


def remarks(tmp_path: Path, before: dict[str, Any], after: dict[str, Any]) -> set[tuple[str, str]]:
    made = review(write(tmp_path / "base", {"A": before}), write(tmp_path / "head", {"A": after}))
    return {(remark.direction, remark.detail) for remark in made.environments[0].remarks}


def policy(*statements: dict[str, Any]) -> dict[str, Any]:
    return resources(P={"Type": "AWS::IAM::Policy", "Properties": {"PolicyDocument": {"Statement": list(statements)}}})


def allow(action: Any, resource: Any = "*", **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ([allow("s3:*")], [allow("s3:GetObject")], {("narrowed", "no longer allows s3:* on *")}),
        ([allow("s3:GetObject")], [allow("s3:*")], {("broadened", "allows s3:* on *")}),
        ([allow(["s3:GetObject", "s3:PutObject"])], [allow(["s3:PutObject", "s3:GetObject"])], set()),
        ([allow(["a:B"]), allow("a:C")], [allow(["a:B", "a:C"])], set()),
        ([allow("a:B", "arn:1")], [allow("a:B", "arn:*")], {("broadened", "allows a:B on arn:*")}),
        (
            [allow("a:B", Condition={"StringEquals": {"k": "v"}})],
            [allow("a:B")],
            {("broadened", "allows a:B on *")},
        ),
        (
            [{"Effect": "Deny", "Action": "a:B", "Resource": "*"}, allow("a:*")],
            [allow("a:*")],
            {("broadened", "no longer denies a:B on *")},
        ),
        (
            [allow("a:*")],
            [allow("a:*"), {"Effect": "Deny", "Action": "a:B", "Resource": "*"}],
            {("narrowed", "denies a:B on *")},
        ),
    ],
)
def test_statements(tmp_path: Path, before: list[Any], after: list[Any], said: set[tuple[str, str]]) -> None:
    assert remarks(tmp_path, policy(*before), policy(*after)) == said


def tcp(first: int, last: int, cidr: str) -> dict[str, Any]:
    return {"IpProtocol": "tcp", "FromPort": first, "ToPort": last, "CidrIp": cidr}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ([tcp(443, 443, "10.0.0.0/8")], [tcp(443, 443, "10.1.0.0/16")], {("narrowed", "tcp 443 from 10.0.0.0/8")}),
        ([tcp(443, 443, "10.1.0.0/16")], [tcp(443, 443, "10.0.0.0/8")], {("broadened", "tcp 443 from 10.0.0.0/8")}),
        ([tcp(80, 90, "10.0.0.0/8")], [tcp(80, 443, "10.0.0.0/8")], {("broadened", "tcp 80-443 from 10.0.0.0/8")}),
        (
            [{"IpProtocol": "-1", "CidrIp": "10.0.0.0/8"}],
            [tcp(1, 2, "10.0.0.0/8")],
            {("narrowed", "everything from 10.0.0.0/8")},
        ),
    ],
)
def test_rules(tmp_path: Path, before: list[Any], after: list[Any], said: set[tuple[str, str]]) -> None:
    assert remarks(tmp_path, group(*before), group(*after)) == said


def test_a_rule_that_moves_into_a_resource_of_its_own_is_no_change(tmp_path: Path) -> None:
    apart = group()
    rule = {**tcp(443, 443, "10.0.0.0/8"), "GroupId": {"Fn::GetAtt": ["G", "GroupId"]}}
    apart["Resources"]["R"] = {"Type": "AWS::EC2::SecurityGroupIngress", "Properties": rule}
    assert remarks(tmp_path, group(tcp(443, 443, "10.0.0.0/8")), apart) == set()
