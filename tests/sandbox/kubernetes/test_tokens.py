from __future__ import annotations

import base64
import ssl
import urllib.error
import urllib.request
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import pytest

pytestmark = pytest.mark.emulator


def call(cluster: Any, path: str, token: str) -> int:
    context = ssl.create_default_context(cafile=cluster.server["ca_file"])
    request = urllib.request.Request(cluster.server["url"] + path, headers={"Authorization": f"Bearer {token}"})  # noqa: S310
    try:
        with urllib.request.urlopen(request, context=context) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def eks_token() -> str:
    query = {
        "Action": "GetCallerIdentity",
        "Version": "2011-06-15",
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": "000000000001/20260101/us-west-2/sts/aws4_request",
        "X-Amz-Date": datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ"),
        "X-Amz-Expires": "60",
        "X-Amz-SignedHeaders": "host;x-k8s-aws-id",
        "X-Amz-Signature": "0" * 64,
    }
    url = "https://sts.us-west-2.amazonaws.com/?" + urlencode(query)
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def test_tokens(cluster: Any) -> None:
    assert call(cluster, "/api/v1/pods", cluster.server["token"]) == 200
    assert call(cluster, "/api/v1/pods", "wrong") == 401
    assert call(cluster, "/api/v1/pods", "") == 401
    assert call(cluster, "/rehearsal/faults", "wrong") == 401
    # well-formed, and signed by nobody: without an AWS that knows the secret no such token gets in
    assert call(cluster, "/api/v1/pods", eks_token()) == 401
    assert call(cluster, "/api/v1/pods", "k8s-aws-v1.***") == 401
