"""The guard's signature against botocore's."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import botocore.auth
import botocore.awsrequest
import botocore.credentials
import pytest

from hyperpod_ray.guard.signing import Credentials, signed

KEYS = Credentials(
    key="ASIAEXAMPLE", secret="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", token="Fwo//token==", expires=0
)
HEADERS = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": "SageMaker.ListClusterNodes"}


@pytest.mark.parametrize("host", ["api.sagemaker.us-west-2.amazonaws.com", "127.0.0.1:4566", "localhost:8080"])
@pytest.mark.parametrize("body", [b"{}", '{"ClusterName": "é"}'.encode()])
@pytest.mark.parametrize("region", ["us-west-2", "eu-central-1"])
def test_the_signature_is_botocores(monkeypatch: pytest.MonkeyPatch, host: str, body: bytes, region: str) -> None:
    now = time.time()
    monkeypatch.setattr(
        botocore.auth, "get_current_datetime", lambda *_: datetime.fromtimestamp(now, UTC).replace(tzinfo=None)
    )
    scheme = "https" if "amazonaws" in host else "http"
    request: Any = botocore.awsrequest.AWSRequest("POST", f"{scheme}://{host}/", headers=HEADERS, data=body)
    keys = botocore.credentials.Credentials(KEYS.key, KEYS.secret, KEYS.token)
    botocore.auth.SigV4Auth(keys, "sagemaker", region).add_auth(request)
    sent = signed(credentials=KEYS, host=host, region=region, service="sagemaker", headers=HEADERS, body=body, now=now)
    assert sent["X-Amz-Date"] == request.headers["X-Amz-Date"]
    assert sent["Authorization"] == request.headers["Authorization"]
    assert sent["X-Amz-Security-Token"] == KEYS.token
    assert KEYS.secret not in str(sent)
