"""What rules of the account read of resource policies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hyperpod_ray.core.checks.account import policies

Json = dict[str, Any]
ROOT = {"AWS": "arn:aws:iam::123456789012:root"}


def document(**statement: Any) -> Json:
    return {"Statement": [{"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": "*", **statement}]}


@pytest.mark.parametrize(
    ("given", "denied"),
    [
        (document(), True),
        (document(Action=["s3:PutObject", "s3:GetObject"]), True),
        (document(Action="S3:getobject"), True),
        (document(Action="s3:PutObject"), False),
        (document(Effect="Allow"), False),
        (document(Condition={"Bool": {"aws:SecureTransport": "false"}}), False),
        (document(Principal={"AWS": ["arn:aws:iam::1:role/x", "role/fsx"]}, Condition={"Bool": {}}), True),
        (document(Principal={"AWS": "arn:aws:iam::1:role/x"}), False),
        ({"Statement": [{"Effect": "Deny", "Principal": "*", "NotAction": "s3:PutObject"}]}, True),
        ({"Statement": [{"Effect": "Deny", "Principal": "*", "NotAction": ["s3:Get*"]}]}, False),
        ({"Statement": {"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject"}}, True),
        ({}, False),
        ("no policy", False),
        ("[]", False),
        (None, False),
    ],
)  # fmt: skip
def test_denials(given: Any, denied: bool) -> None:
    assert policies.denies(given, action="s3:GetObject", whom=("role/fsx",)) is denied
    if isinstance(given, dict):
        assert policies.denies(json.dumps(given), action="s3:GetObject", whom=("role/fsx",)) is denied


@pytest.mark.parametrize(
    ("given", "delegated"),
    [
        (document(Effect="Allow", Principal=ROOT, Action="kms:*"), True),
        (document(Effect="Allow", Principal={"AWS": "123456789012"}, Action="kms:CreateGrant"), True),
        (document(Effect="Allow", Principal="*", Action="kms:*"), True),
        (document(Effect="Allow", Principal=ROOT, Action="kms:Describe*"), False),
        (document(Effect="Allow", Principal={"AWS": "arn:aws:iam::999999999999:root"}, Action="kms:*"), False),
        (document(Effect="Deny", Principal=ROOT, Action="kms:*"), False),
    ],
)
def test_delegation(given: Json, delegated: bool) -> None:
    assert policies.delegates(given, account="123456789012", action="kms:CreateGrant") is delegated
