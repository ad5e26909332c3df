"""Who a bearer token speaks for, while the cluster of an EKS token is not known yet."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes import auth

ARN = "arn:aws:eks:us-west-2:111122223333:cluster/new"


def authenticator_of(arns: list[str]) -> Any:
    """One that hears of the cluster as `arns` say, look by look."""
    left = iter(arns)
    review = {"authenticated": True, "username": "arn:role", "groups": ["g"], "policies": []}
    authenticator: Any = auth.Authenticator(
        static_token="x", aws_endpoint="", region="us-west-2", cluster_arn=lambda: next(left, arns[-1]),
        service_account=lambda _: None,
    )  # fmt: skip
    authenticator._client = SimpleNamespace(token_review=lambda token, arn: review if arn == ARN else {})
    return authenticator


@pytest.mark.parametrize(
    ("token", "arns", "user"),
    [
        ("k8s-aws-v1.abc", [ARN], "arn:role"),
        ("k8s-aws-v1.abc", ["", "", ARN], "arn:role"),
        ("k8s-aws-v1.abc", [""], None),
        ("another", ["", "", ARN], None),
    ],
)
def test_the_first_token_of_a_new_cluster_waits_until_it_is_known(
    monkeypatch: pytest.MonkeyPatch, token: str, arns: list[str], user: str | None
) -> None:
    monkeypatch.setattr(auth, "CREATED_SECONDS", 0.5 if user is None else 60.0)
    identity = asyncio.run(authenticator_of(arns).identify(f"Bearer {token}"))
    assert (identity.username if identity else None) == user
