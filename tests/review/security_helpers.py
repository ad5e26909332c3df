"""What tests of `security` share."""

from __future__ import annotations

from typing import Any

from tests.review.small import resources


def group(*rules: dict[str, Any]) -> dict[str, Any]:
    properties = {"GroupDescription": "d", "VpcId": "vpc-1", "SecurityGroupIngress": list(rules)}
    return resources(G={"Type": "AWS::EC2::SecurityGroup", "Properties": properties})
