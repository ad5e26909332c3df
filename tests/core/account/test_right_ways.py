"""Rules of `hyperpod_ray/core/checks/account/ways.py`: what lets nodes through, and what does not."""

# ruff: noqa: E501  (a case on one line)

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray.core.checks.account import ways
from tests.core.account.good import EXISTING, NODES_1, NODES_2, VPC
from tests.core.account.right_helpers import Json, Right, assert_says

pytestmark = pytest.mark.usefixtures("day")


def entries(*rules: tuple[int, str]) -> Json:
    made = [
        {"RuleNumber": number, "Egress": out, "RuleAction": action, "Protocol": "-1", "CidrBlock": "0.0.0.0/0"}
        for out in (True, False)
        for number, action in rules
    ]
    link = [{"SubnetId": NODES_1}, {"SubnetId": NODES_2}]
    return {"network_acls": [{"NetworkAclId": "acl-1", "VpcId": VPC, "Associations": link, "Entries": made}]}


def admits(**rule: Any) -> Json:
    return {"security_groups > sg-0fedcba9876543210": [{"IpProtocol": "tcp", "FromPort": 0, "ToPort": 65535, **rule}]}


CASES: list[Right] = [
    ("allowed before it is denied", "network ACLs", EXISTING, entries((32767, "deny"), (100, "allow")), "fine"),
    ("denied before it is allowed", "network ACLs", EXISTING, entries((100, "allow"), (50, "deny")), "warning"),
    ("a group that is admitted", "file system's use", EXISTING, admits(UserIdGroupPairs=[{"GroupId": "sg-1"}]), "fine"),
    ("every protocol", "file system's use", EXISTING, {"security_groups > sg-0fedcba9876543210": [{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "10.0.0.0/8"}]}]}, "fine"),
    ("one subnet of two", "file system's use", EXISTING, admits(IpRanges=[{"CidrIp": "10.0.0.0/20"}]), "warning"),
    ("another port", "file system's use", EXISTING, {"security_groups > sg-0fedcba9876543210": [{"IpProtocol": "tcp", "FromPort": 2049, "ToPort": 2049, "IpRanges": [{"CidrIp": "10.0.0.0/8"}]}]}, "warning"),
    ("a file system that loses its files with a server", "file system's use", EXISTING, {"file_systems > fs-0123456789abcdef0 > LustreConfiguration": {"DeploymentType": "SCRATCH_2", "MountName": "abcd1234"}}, "warning"),
    ("a server that is older than the client speaks", "file system's use", EXISTING, {"file_systems > fs-0123456789abcdef0 > FileSystemTypeVersion": "2.10"}, "warning"),
    ("a server of the version before the client's", "file system's use", EXISTING, {"file_systems > fs-0123456789abcdef0 > FileSystemTypeVersion": "2.12"}, "fine"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_a_rule_says(case: Right) -> None:
    assert_says(case)


def acl(*rules: tuple[int, bool, str, str, str]) -> Json:
    keys = ("RuleNumber", "Egress", "RuleAction", "Protocol", "CidrBlock")
    return {"Entries": [dict(zip(keys, rule, strict=True)) for rule in rules]}


ALL, SOME, TCP, ANY = "0.0.0.0/0", "10.0.0.0/16", "6", "-1"


@pytest.mark.parametrize(
    ("rules", "out", "back"),
    [
        ([], False, False),
        ([(100, True, "allow", ANY, ALL)], True, False),
        ([(100, False, "allow", TCP, SOME)], False, True),
        ([(90, True, "deny", TCP, ALL), (100, True, "allow", ANY, ALL)], True, False),
        ([(90, True, "deny", ANY, SOME), (100, True, "allow", ANY, ALL)], True, False),
        ([(90, True, "deny", ANY, ALL), (100, True, "allow", ANY, ALL)], False, False),
        ([(90, True, "deny", TCP, ALL)], False, False),
    ],
)
def test_rules_of_an_acl_hold_in_the_order_of_their_numbers(
    rules: list[tuple[int, bool, str, str, str]], out: bool, back: bool
) -> None:
    """https://docs.aws.amazon.com/vpc/latest/userguide/nacl-rules.html"""
    assert (ways._lets(acl(*rules), out=True), ways._lets(acl(*rules), out=False)) == (out, back)
