"""Names and limits that `ops` repeats because it cannot import what declares them."""

from __future__ import annotations

import re
import urllib.parse
from base64 import urlsafe_b64decode

import boto3
import pytest

import k8s.names
from core import load
from hyperpod_ray import storage
from ops import names
from ops.clients import eks_token
from sandbox.aws.emulator.eks_tokens import verify
from sandbox.aws.emulator.gate import Refused, Secret


def test_names_are_those_of_the_manifests_and_stacks() -> None:
    from stacks.environment import ENVIRONMENT_TAG

    plan = load("prod").plan
    assert names.ENVIRONMENT_TAG == ENVIRONMENT_TAG == storage.ENVIRONMENT_TAG
    assert names.GROUP_LABEL == k8s.names.INSTANCE_GROUP_LABEL
    assert names.CLAIM == k8s.names.CLAIM
    assert names.storage_class(plan) == k8s.names.storage_class(plan)
    assert names.ray_namespaces(plan) == k8s.names.ray_namespaces(plan)


@pytest.mark.parametrize("name", ["dev", "local", "prod"])
def test_stack_names_are_those_of_the_stage(name: str) -> None:
    import inspect

    from stacks import environment

    source = inspect.getsource(environment.EnvironmentStage)
    declared = re.findall(r"\w+Stack\(\s*self,\s*\"(\w+)\"", source)
    assert sorted(declared) == sorted(names.STACKS)
    assert names.stack_names(load(name).plan)[0] == f"{name}-Network"
    assert (f"{name}-Mirror" in names.stack_names(load(name).plan)) == (name == "prod")


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
