"""Names and limits that `ops` repeats because it cannot import what declares them."""

from __future__ import annotations

import urllib.parse
from base64 import urlsafe_b64decode

import boto3
import pytest

from hyperpod_ray.ops.reach.clients import eks_token
from hyperpod_ray_sandbox.aws.emulator.eks_tokens import verify
from hyperpod_ray_sandbox.aws.emulator.gate import Refused, Secret


def test_eks_token_is_a_signed_call_that_names_the_cluster() -> None:
    session = boto3.session.Session(
        aws_access_key_id="AKIDEXAMPLE", aws_secret_access_key="s", aws_session_token="t", region_name="eu-west-1"
    )
    token = eks_token(session, cluster_name="ray-eks", region="eu-west-1")
    secret = Secret(value="s", token="t", arn="arn:aws:sts::000000000001:assumed-role/admin/me")
    for cluster, value in (("other", "s"), ("ray-eks", "another")):
        with pytest.raises(Refused):
            verify(token, cluster=cluster, own_hosts=frozenset(), lookup=lambda _, v=value: Secret(value=v, token="t"))  # type: ignore[misc]
    assert verify(token, cluster="ray-eks", own_hosts=frozenset(), lookup=lambda _: secret) is secret
    text = token.removeprefix("k8s-aws-v1.")
    url = urllib.parse.urlsplit(urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode())
    query = urllib.parse.parse_qs(url.query)
    assert url.hostname == "sts.eu-west-1.amazonaws.com"
    assert query["X-Amz-Expires"] == ["60"]
    assert query["X-Amz-Security-Token"] == ["t"]
