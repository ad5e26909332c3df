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


VPC = {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}}


def routes(*targets: dict[str, str]) -> dict[str, Any]:
    listed = {f"R{number}": {"Type": "AWS::EC2::Route", "Properties": target} for number, target in enumerate(targets)}
    return resources(Vpc=VPC, **listed)


EVERYWHERE = {"DestinationCidrBlock": "0.0.0.0/0", "NatGatewayId": "nat-1"}
EVERYWHERE_IPV6 = {"DestinationIpv6CidrBlock": "::/0", "EgressOnlyInternetGatewayId": "eigw-1"}
INSIDE = {"DestinationCidrBlock": "10.1.0.0/16", "TransitGatewayId": "tgw-1"}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (routes(), routes(EVERYWHERE), "1 route to the internet, where there was none: A/R0"),
        (routes(INSIDE), routes(INSIDE, EVERYWHERE_IPV6), "1 route to the internet, where there was none: A/R1"),
        (routes(), routes(*[EVERYWHERE] * 3), "3 routes to the internet, where there was none: A/R0, A/R1, A/R2"),
        (routes(), routes(*[EVERYWHERE] * 4), "4 routes to the internet, where there was none: A/R0, A/R1, A/R2…"),
        (routes(), routes(INSIDE), ""),
        (routes(EVERYWHERE), routes(EVERYWHERE, EVERYWHERE), ""),
        (routes(EVERYWHERE), routes(EVERYWHERE_IPV6), ""),
        (resources(), routes(EVERYWHERE), ""),  # a new network is as its file says
        (routes(EVERYWHERE), routes(), ""),
    ],
)
def test_the_first_way_to_the_internet(
    before: dict[str, Any], after: dict[str, Any], said: str, tmp_path: Path
) -> None:
    ways = {remark for remark in remarks(tmp_path, before, after) if "internet" in remark[1]}
    assert ways == ({("broadened", said)} if said else set())


def outward(first: int, last: int, cidr: str, **more: Any) -> dict[str, Any]:
    rule = {"GroupId": {"Ref": "G"}, "IpProtocol": "tcp", "FromPort": first, "ToPort": last, **more}
    return {"Type": "AWS::EC2::SecurityGroupEgress", "Properties": rule | ({"CidrIp": cidr} if cidr else {})}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        # what comes in covers nothing of what goes out
        (
            group(tcp(443, 443, "10.0.0.0/8")),
            resources(**group(tcp(443, 443, "10.0.0.0/8"))["Resources"], E=outward(443, 443, "10.0.0.0/8")),
            {("broadened", "tcp 443 to 10.0.0.0/8")},
        ),
        # https://docs.aws.amazon.com/vpc/latest/userguide/security-group-rules.html: -1 is every protocol and port
        (
            group({"IpProtocol": "-1", "CidrIp": "10.0.0.0/8"}),
            group({"IpProtocol": "-1", "CidrIp": "10.0.0.0/8"}, tcp(22, 22, "10.2.0.0/16")),
            set(),
        ),
        (
            group(tcp(80, 90, "10.0.0.0/8")),
            group(tcp(80, 91, "10.0.0.0/8")),
            {("broadened", "tcp 80-91 from 10.0.0.0/8")},
        ),
        (
            group(tcp(80, 90, "10.0.0.0/8")),
            group(tcp(79, 90, "10.0.0.0/8")),
            {("broadened", "tcp 79-90 from 10.0.0.0/8")},
        ),
        (
            group({"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "CidrIpv6": "fd00::/8"}),
            group({"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "CidrIpv6": "::/0"}),
            {("broadened", "tcp 443 from ::/0")},
        ),
        (
            group({"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "CidrIp": "0.0.0.0/0"}),
            group(
                {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "CidrIp": "0.0.0.0/0"},
                {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "CidrIpv6": "::/0"},
            ),
            {("broadened", "tcp 443 from ::/0")},
        ),
        (
            group({"IpProtocol": "udp", "FromPort": 53, "ToPort": 53, "CidrIp": "10.0.0.0/8"}),
            group(
                {"IpProtocol": "udp", "FromPort": 53, "ToPort": 53, "CidrIp": "10.0.0.0/8"}, tcp(53, 53, "10.0.0.0/8")
            ),
            {("broadened", "tcp 53 from 10.0.0.0/8")},
        ),
        # a new group opens what its file says; to everybody is said apart
        (resources(), group(tcp(443, 443, "10.0.0.0/8")), {("new", "tcp 443 from 10.0.0.0/8")}),
        (resources(), group(tcp(443, 443, "0.0.0.0/0")), {("broadened", "tcp 443 from 0.0.0.0/0")}),
    ],
)
def test_what_covers_a_rule(before: dict[str, Any], after: dict[str, Any], said: set[Any], tmp_path: Path) -> None:
    assert remarks(tmp_path, before, after) == said


def nodes_with_key(key: str | None, name: str = "workers") -> dict[str, Any]:
    volume = {"VolumeSizeInGB": 500, **({"VolumeKmsKeyId": key} if key else {})}
    own = {
        "InstanceGroupName": name, "InstanceType": "ml.p5.48xlarge", "InstanceCount": 1,
        "InstanceStorageConfigs": [{"EbsVolumeConfig": volume}],
    }  # fmt: skip
    return resources(Cluster={"Type": "AWS::SageMaker::Cluster", "Properties": {"InstanceGroups": [own]}})


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (nodes_with_key("k"), nodes_with_key(None), {("switched off", "k → a key that AWS owns")}),
        (nodes_with_key(None), nodes_with_key("k"), {("switched on", "a key that AWS owns → k")}),
        (nodes_with_key("k"), nodes_with_key("l"), set()),
        (nodes_with_key("k"), nodes_with_key(None, "others"), set()),
    ],
)
def test_the_key_of_volumes(before: dict[str, Any], after: dict[str, Any], said: set[Any], tmp_path: Path) -> None:
    assert {remark for remark in remarks(tmp_path, before, after) if "AWS owns" in remark[1]} == said
