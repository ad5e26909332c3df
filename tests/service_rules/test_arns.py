"""ARNs of several services, as their documentation writes them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from botocore.utils import ArnParser

from hyperpod_ray_rules.arns import Arn, arn_of

PROJECT = Path(__file__).resolve().parents[2]
PACKAGES = ("hyperpod_ray", "hyperpod_ray_rules", "hyperpod_ray_sandbox", "hyperpod_ray_training")


@pytest.mark.parametrize(
    ("text", "parts", "name"),
    [
        (
            "arn:aws-cn:kms:cn-north-1:111122223333:key/1234abcd-12ab",
            ("aws-cn", "kms", "cn-north-1", "111122223333", "key/1234abcd-12ab"),
            "1234abcd-12ab",
        ),
        (
            "arn:aws:secretsmanager:us-west-2:111122223333:secret:token-a1b2c3",
            ("aws", "secretsmanager", "us-west-2", "111122223333", "secret:token-a1b2c3"),
            "secret:token-a1b2c3",
        ),
        ("arn:aws:iam::111122223333:role/path/Ray", ("aws", "iam", "", "111122223333", "role/path/Ray"), "Ray"),
    ],
)
def test_the_parts_of_an_arn(text: str, parts: tuple[str, ...], name: str) -> None:
    assert arn_of(text) == Arn(*parts)
    assert arn_of(text).name == name
    assert arn_of(text)._asdict() == ArnParser().parse_arn(text)


@pytest.mark.parametrize("text", ["role/Ray", "arn:aws:iam", ""])
def test_what_is_no_arn_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no ARN"):
        arn_of(text)


def test_one_place_splits_arns() -> None:
    by_hand = [
        str(path.relative_to(PROJECT))
        for package in (
            "hyperpod_ray",
            "hyperpod_ray_rules",
            "hyperpod_ray_sandbox",
            "hyperpod_ray_training",
            "constructs",
            "stacks",
            "k8s",
        )
        for path in (PROJECT / package).rglob("*.py")
        if re.search(r"arn\w*\)*\.(split|partition)\(\":\"", path.read_text("utf-8"))
    ]
    assert by_hand == []
