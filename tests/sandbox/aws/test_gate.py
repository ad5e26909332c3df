"""What a web page, another user of the machine and a role of the account try against the embedded AWS."""

from __future__ import annotations

import base64
import hashlib
import json
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import botocore.auth
import botocore.awsrequest
import botocore.config
import botocore.credentials
import botocore.exceptions
import pytest

from tests.sandbox.aws.attacks_helpers import FUNCTION, FUNCTIONS, changed, send, signed, v4
from tests.support.emulator import Emulator

pytestmark = pytest.mark.emulator


PATHS = (FUNCTIONS, "/_local/faults", "/_ministack/reset", "/_ministack/config", "/")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "page",
    [
        {"Content-Type": "text/plain"},  # a "simple" request: no preflight
        {"Content-Type": "text/plain", "Origin": "http://evil.example"},
        {"Content-Type": "text/plain", "Origin": "null", "Sec-Fetch-Site": "cross-site"},
    ],
    ids=["simple", "origin", "sandboxed"],
)
def test_a_web_page_cannot_reach_a_service_or_the_control_plane(
    emulator: Emulator, path: str, page: dict[str, str]
) -> None:
    status, answer = send(emulator, "POST", path, json.dumps(FUNCTION).encode(), page)
    assert status == 403
    assert not [name for name in answer if name.startswith("access-control-")]
    assert emulator.boto("lambda").list_functions()["Functions"] == []


# each of them alone closes the door, even to one who has the secret: a page must not borrow a signed request
@pytest.mark.parametrize(
    "more",
    [
        {"Origin": "http://127.0.0.1:4566"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Host": "evil.example"},
        {"Host": "evil.example:4566"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1.evil.example"},
    ],
    ids=lambda more: " ".join(f"{k}={v}" for k, v in more.items()),
)
def test_a_rebound_name_and_a_page_are_refused_though_they_sign(emulator: Emulator, more: dict[str, str]) -> None:
    # the signature is right for the name that the request goes to: only the name itself is wrong
    headers = {**signed(emulator, "/_local/faults", body=b"{}", host=more.get("Host", "")), **more}
    assert send(emulator, "POST", "/_local/faults", b"{}", headers)[0] == 403


def test_the_same_request_gets_in_without_what_a_page_adds(emulator: Emulator) -> None:
    body = json.dumps({"operation": "kms.ListKeys", "code": "X"}).encode()
    headers = signed(emulator, "/_local/faults", body=body)
    assert send(emulator, "POST", "/_local/faults", body, {**headers, "Sec-Fetch-Site": "none"})[0] == 200


@pytest.mark.parametrize("path", PATHS)
def test_a_preflight_gets_no_permission(emulator: Emulator, path: str) -> None:
    ask = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    status, answer = send(emulator, "OPTIONS", path, headers=ask)
    assert status == 403
    assert not [name for name in answer if name.startswith("access-control-")]


@pytest.mark.parametrize(
    ("service", "operation"), [("s3", "list_buckets"), ("kms", "list_keys"), ("lambda", "list_functions")]
)
def test_an_answer_carries_no_cors_header(emulator: Emulator, service: str, operation: str) -> None:
    seen = getattr(emulator.boto(service), operation)()["ResponseMetadata"]["HTTPHeaders"]
    assert not [name for name in seen if name.startswith("access-control-")]


def test_a_websocket_is_refused(emulator: Emulator) -> None:
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(b"0" * 16).decode(),
    }
    assert send(emulator, "GET", "/_aws/execute-api/x/y", headers=upgrade)[0] == 403


def test_a_signed_body_cannot_be_exchanged(emulator: Emulator) -> None:
    headers = signed(emulator, "/_local/quotas", body=b"{}")
    assert send(emulator, "POST", "/_local/quotas", b'{"name": "x", "value": 1}', headers)[0] == 403
    headers["X-Amz-Content-SHA256"] = hashlib.sha256(b"{}").hexdigest()
    assert send(emulator, "POST", "/_local/quotas", b"[]", headers)[0] in (400, 403)


@pytest.mark.parametrize("minutes", [-16, 20])
def test_a_signature_of_another_time_is_refused(
    emulator: Emulator, minutes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    then = datetime.now(UTC) + timedelta(minutes=minutes)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda *_, **__: then.replace(tzinfo=None))
    assert send(emulator, "POST", "/_local/faults", b"{}", signed(emulator, "/_local/faults", body=b"{}"))[0] == 403


def test_a_request_is_signed_in_one_place(emulator: Emulator) -> None:
    query = "?X-Amz-Credential=000000000002%2F20260101%2Fus-west-2%2Fs3%2Faws4_request"
    headers = signed(emulator, f"/{query}", service="s3")
    assert send(emulator, "POST", f"/{query}", headers=headers)[0] == 400


# --- presigned URLs ---------------------------------------------------------------------------------------------------


def test_presigned_urls_open_what_they_name_and_nothing_else(emulator: Emulator, presigned: str) -> None:
    target = presigned.removeprefix(emulator.control.endpoint)
    assert send(emulator, "GET", target)[0] == 200
    assert send(emulator, "DELETE", target)[0] == 403
    assert send(emulator, "GET", target.replace("one%20thing", "other"))[0] == 403
    assert send(emulator, "GET", changed(presigned, **{"X-Amz-Expires": "600"}))[0] == 403
    assert send(emulator, "GET", changed(presigned, **{"response-content-type": "text/html"}))[0] == 403
    assert send(emulator, "GET", changed(presigned, **{"X-Amz-Signature": "0" * 64}))[0] == 403
    assert send(emulator, "GET", target.partition("?")[0])[0] == 403
    assert send(emulator, "GET", f"{target}&X-Amz-Expires=600")[0] == 400


def test_a_presigned_url_ends(emulator: Emulator, presigned: str, monkeypatch: pytest.MonkeyPatch) -> None:
    then = datetime.now(UTC) - timedelta(seconds=61)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda *_, **__: then.replace(tzinfo=None))
    url = v4(emulator).generate_presigned_url("get_object", {"Bucket": "presigned", "Key": "other"}, ExpiresIn=60)
    assert "X-Amz-Expires=60" in url
    assert then.strftime("%Y%m%dT%H%M%SZ") in url
    assert send(emulator, "GET", url.removeprefix(emulator.control.endpoint))[0] == 403


def test_a_signature_of_version_2_is_no_signature(emulator: Emulator, presigned: str) -> None:
    url = emulator.boto("s3").generate_presigned_url("get_object", {"Bucket": "presigned", "Key": "other"})
    assert "AWSAccessKeyId" in url
    assert send(emulator, "GET", url.removeprefix(emulator.control.endpoint))[0] == 403


# --- roles ------------------------------------------------------------------------------------------------------------


def test_a_role_does_only_what_its_policies_allow(emulator: Emulator, session: dict[str, str]) -> None:
    key, secret, token = session.values()
    ask: Any = boto3.Session(key, secret, token, region_name="us-west-2")
    url = emulator.control.endpoint
    assert ask.client("sts", endpoint_url=url).get_caller_identity()["Arn"].endswith("assumed-role/nobody/session")
    calls: tuple[tuple[str, Callable[[Any], object]], ...] = (
        ("s3", lambda c: c.list_buckets()),
        ("sagemaker", lambda c: c.list_clusters()),
        ("fsx", lambda c: c.describe_file_systems()),
        ("eks", lambda c: c.list_clusters()),
    )
    for service, call in calls:
        with pytest.raises(botocore.exceptions.ClientError) as refused:
            call(ask.client(service, endpoint_url=url))
        assert refused.value.response["Error"]["Code"] in ("AccessDenied", "AccessDeniedException"), service


def test_a_role_has_no_control_plane_and_no_session_without_its_token(
    emulator: Emulator, session: dict[str, str]
) -> None:
    key, secret, token = session.values()
    request = botocore.awsrequest.AWSRequest(method="GET", url=f"{emulator.control.endpoint}/_local/faults")
    botocore.auth.SigV4Auth(botocore.credentials.Credentials(key, secret, token), "x", "us-west-2").add_auth(request)
    assert send(emulator, "GET", "/_local/faults", headers=dict(request.headers.items()))[0] == 403
    ask: Any = boto3.client(
        "sts",
        endpoint_url=emulator.control.endpoint,
        region_name="us-west-2",
        aws_access_key_id=key,
        aws_secret_access_key=secret,
    )
    with pytest.raises(botocore.exceptions.ClientError, match="token"):
        ask.get_caller_identity()


# --- what lies in the state folder ------------------------------------------------------------------------------------


def test_nobody_else_can_read_the_state(emulator: Emulator) -> None:
    state = Path(emulator.running.log).parent
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    open_to_others = [
        str(path.relative_to(state))
        for path in state.rglob("*")
        if path.is_dir() and not path.is_symlink() and path.parent == state and path.stat().st_mode & 0o077
    ]
    assert open_to_others == []
    assert (state / "state.json").stat().st_mode & 0o077 == 0


# --- EKS tokens -------------------------------------------------------------------------------------------------------
