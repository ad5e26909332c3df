from __future__ import annotations

import base64
import threading
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import botocore.auth
import botocore.awsrequest
import botocore.config
import botocore.credentials
import botocore.exceptions
import pytest

from hyperpod_ray_sandbox.aws.emulator import eks_tokens
from hyperpod_ray_sandbox.aws.emulator.gate import Refused, Secret
from tests.sandbox.aws.attacks_helpers import changed
from tests.support import roles
from tests.support.emulator import Emulator, until

pytestmark = pytest.mark.emulator


def test_eks_tokens(emulator: Emulator, session: dict[str, str]) -> None:
    iam, eks = emulator.boto("iam"), emulator.boto("eks")
    role = roles.cluster_role(iam, "cluster")
    ec2 = emulator.boto("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.9.{i}.0/24", AvailabilityZone=f"us-west-2{z}")["Subnet"]["SubnetId"]
        for i, z in enumerate("ab")
    ]
    arn = eks.create_cluster(
        name="tokens",
        roleArn=role,
        resourcesVpcConfig={"subnetIds": subnets},
        accessConfig={"authenticationMode": "API"},
    )["cluster"]["arn"]
    until(lambda: eks.describe_cluster(name="tokens")["cluster"]["status"] == "ACTIVE")

    def review(token: str, cluster: str = arn) -> dict[str, Any]:
        return emulator.control.token_review(token, cluster)

    root = {
        "aws_access_key_id": emulator.running.account,
        "aws_secret_access_key": emulator.running.secret,
    }
    good = eks_token(root)
    assert review(good)["groups"] == ["system:masters", "system:authenticated"]
    own = eks_token(root, host=f"http://127.0.0.1:{emulator.running.port}")
    assert review(own)["authenticated"], "as AWS_ENDPOINT_URL makes clients sign"

    bad = {
        "another user's secret": eks_token({**root, "aws_secret_access_key": "embedded"}),
        "for another cluster": eks_token(root, cluster="other"),
        "for another host": eks_token(root, host="https://evil.example"),
        "changed": altered(good, "X-Amz-Expires", "61"),
        "without the cluster's name": altered(good, "X-Amz-SignedHeaders", "host"),
        "another action": altered(good, "Action", "GetSessionToken"),
        "signature of zeros": altered(good, "X-Amz-Signature", "0" * 64),
        "not base64": "k8s-aws-v1.***",
        "expired": eks_token(root, minutes=-16),
        "of another account": eks_token({**root, "aws_access_key_id": "000000000009"}),
        "of a role without an access entry": eks_token(session),
    }
    for what, token in bad.items():
        assert review(token)["authenticated"] is False, what

    principal = "arn:aws:iam::000000000001:role/nobody"
    policy = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"
    eks.create_access_entry(clusterName="tokens", principalArn=principal, kubernetesGroups=["readers"])
    eks.associate_access_policy(
        clusterName="tokens", principalArn=principal, policyArn=policy,
        accessScope={"type": "namespace", "namespaces": ["ray"]},
    )  # fmt: skip
    seen = review(eks_token(session))
    assert seen["groups"] == ["readers", "system:authenticated"]
    assert seen["policies"] == [
        {"policy": "AmazonEKSViewPolicy", "scope": {"type": "namespace", "namespaces": ["ray"]}}
    ]
    eks.delete_cluster(name="tokens")
    for subnet in subnets:
        ec2.delete_subnet(SubnetId=subnet)
    ec2.delete_vpc(VpcId=vpc)


def eks_token(
    credentials: dict[str, str],
    *,
    cluster: str = "tokens",
    host: str = "https://sts.us-west-2.amazonaws.com",
    minutes: int = 0,
) -> str:
    """As `aws eks get-token` makes it, by botocore's own signer."""
    request = botocore.awsrequest.AWSRequest(
        method="GET",
        url=f"{host}/?Action=GetCallerIdentity&Version=2011-06-15",
        headers={"x-k8s-aws-id": cluster},
    )
    made = botocore.credentials.Credentials(
        credentials["aws_access_key_id"],
        credentials["aws_secret_access_key"],
        credentials.get("aws_session_token"),
    )
    then = (datetime.now(UTC) + timedelta(minutes=minutes)).replace(tzinfo=None)
    with LOCK, pytest.MonkeyPatch.context() as patch:
        patch.setattr("botocore.auth.get_current_datetime", lambda *_, **__: then)
        botocore.auth.SigV4QueryAuth(made, "sts", "us-west-2", expires=60).add_auth(request)
    return "k8s-aws-v1." + base64.urlsafe_b64encode(str(request.url).encode()).decode().rstrip("=")


LOCK = threading.Lock()


def test_the_clusters_name_must_be_signed() -> None:
    """Else a presigned GetCallerIdentity URL, made for anything, would be a token of every cluster."""
    keys = botocore.credentials.Credentials("ASIA1", "s" * 32)
    for headers, good in (({"x-k8s-aws-id": "ray"}, True), ({}, False), ({"x-other": "ray"}, False)):
        url = "https://sts.us-west-2.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15"
        request = botocore.awsrequest.AWSRequest(method="GET", url=url, headers=headers)
        botocore.auth.SigV4QueryAuth(keys, "sts", "us-west-2", expires=60).add_auth(request)
        token = "k8s-aws-v1." + base64.urlsafe_b64encode(str(request.url).encode()).decode().rstrip("=")
        secret = Secret(value="s" * 32)

        def verified(token: str = token, secret: Secret = secret) -> Secret:
            return eks_tokens.verify(token, cluster="ray", own_hosts=frozenset(), lookup=lambda _key: secret)

        if good:
            assert verified() is secret
        else:
            with pytest.raises(Refused, match="is not signed"):
                verified()


def altered(token: str, name: str, value: str) -> str:
    text = token.removeprefix("k8s-aws-v1.")
    parts = urlsplit(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode())
    url = f"{parts.scheme}://{parts.netloc}{changed(parts.geturl(), **{name: value})}"
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")
