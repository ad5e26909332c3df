"""What a web page, another user of the machine and a role of the account try against the embedded AWS."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import stat
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import boto3
import botocore.auth
import botocore.awsrequest
import botocore.config
import botocore.credentials
import botocore.exceptions
import pytest

from hyperpod_ray_sandbox.aws.client import Client, ControlError
from hyperpod_ray_sandbox.aws.emulator import eks_tokens
from hyperpod_ray_sandbox.aws.emulator.gate import Refused, Secret
from tests.support import roles
from tests.support.emulator import Emulator, until

pytestmark = pytest.mark.emulator

FUNCTION = {
    "FunctionName": "drive-by",
    "Runtime": "python3.12",
    "Role": "arn:aws:iam::000000000001:role/any",
    "Handler": "index.handler",
    "Code": {"ZipFile": ""},
}
TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}],
    }
)


def send(
    emulator: Emulator, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str]]:
    """A request as it stands on the wire: nothing is added but the length."""
    connection = http.client.HTTPConnection("127.0.0.1", emulator.running.port, timeout=600)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in {"Host": f"127.0.0.1:{emulator.running.port}", **(headers or {})}.items():
            connection.putheader(name, value)
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        answer.read()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()


def signed(
    emulator: Emulator, path: str, *, secret: str = "", service: str = "lambda", body: bytes = b"", host: str = ""
) -> Any:
    """Headers that are signed with this start's secret, or with another one, for the host that they go to."""
    url = f"http://{host}{path}" if host else f"{emulator.control.endpoint}{path}"
    request = botocore.awsrequest.AWSRequest(method="POST", url=url, data=body)
    credentials = botocore.credentials.Credentials(emulator.running.account, secret or emulator.running.secret)
    botocore.auth.SigV4Auth(credentials, service, emulator.running.region).add_auth(request)
    return dict(request.headers.items())


FUNCTIONS = "/2015-03-31/functions"
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


@pytest.mark.parametrize("secret", ["embedded", "test", "x" * 43])
def test_another_users_secret_signs_for_nobody(emulator: Emulator, secret: str) -> None:
    assert send(emulator, "POST", FUNCTIONS, b"{}", signed(emulator, FUNCTIONS, secret=secret, body=b"{}"))[0] == 403
    running = emulator.running
    stranger = Client(running.port, running.account, running.region, Path(running.home), secret)
    with pytest.raises(ControlError, match="signature"):
        stranger.faults()


@pytest.mark.parametrize("key", ["test", "AKIAIOSFODNN7EXAMPLE", ""])
def test_the_secret_counts_only_with_a_key_of_the_account(emulator: Emulator, key: str) -> None:
    body = b"Action=GetCallerIdentity&Version=2011-06-15"
    request = botocore.awsrequest.AWSRequest(method="POST", url=emulator.control.endpoint + "/", data=body)
    credentials = botocore.credentials.Credentials(key, emulator.running.secret)
    botocore.auth.SigV4Auth(credentials, "sts", "us-west-2").add_auth(request)
    assert send(emulator, "POST", "/", body, dict(request.headers.items()))[0] == 403


def test_each_start_has_a_secret_of_its_own(emulator: Emulator) -> None:
    assert len(emulator.running.secret) >= 32
    assert emulator.running.secret not in repr(emulator.running)
    assert emulator.running.secret not in repr(emulator.control)


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


def v4(emulator: Emulator) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=emulator.control.endpoint,
        region_name="us-west-2",
        aws_access_key_id=emulator.running.account,
        aws_secret_access_key=emulator.running.secret,
        config=botocore.config.Config(signature_version="s3v4", s3={"addressing_style": "path"}),
    )


@pytest.fixture
def presigned(emulator: Emulator) -> Iterator[str]:
    """The URL of an object that exists."""
    s3 = v4(emulator)
    s3.create_bucket(Bucket="presigned", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    for key in ("one thing", "other"):
        s3.put_object(Bucket="presigned", Key=key, Body=b"content")
    yield s3.generate_presigned_url("get_object", {"Bucket": "presigned", "Key": "one thing"}, ExpiresIn=3600)
    for key in ("one thing", "other"):
        s3.delete_object(Bucket="presigned", Key=key)
    s3.delete_bucket(Bucket="presigned")


def changed(url: str, **values: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{urlencode({**dict(parse_qsl(parts.query)), **values})}"


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


@pytest.fixture
def session(emulator: Emulator) -> Iterator[dict[str, str]]:
    """Credentials of a role that may do nothing; a user assumes it, as a root user cannot."""
    iam = emulator.boto("iam")
    iam.create_user(UserName="anybody")
    iam.put_user_policy(
        UserName="anybody",
        PolicyName="assume",
        PolicyDocument=json.dumps({"Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": "*"}]}),
    )
    key = iam.create_access_key(UserName="anybody")["AccessKey"]
    role = iam.create_role(RoleName="nobody", AssumeRolePolicyDocument=TRUST)["Role"]["Arn"]
    user: Any = boto3.Session(key["AccessKeyId"], key["SecretAccessKey"], region_name="us-west-2")
    sts = user.client("sts", endpoint_url=emulator.control.endpoint)
    got = sts.assume_role(RoleArn=role, RoleSessionName="session")["Credentials"]
    yield {
        "aws_access_key_id": got["AccessKeyId"],
        "aws_secret_access_key": got["SecretAccessKey"],
        "aws_session_token": got["SessionToken"],
    }
    iam.delete_role(RoleName="nobody")
    iam.delete_access_key(UserName="anybody", AccessKeyId=key["AccessKeyId"])
    iam.delete_user_policy(UserName="anybody", PolicyName="assume")
    iam.delete_user(UserName="anybody")


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


def test_a_functions_secret_cannot_be_guessed(emulator: Emulator) -> None:
    """MiniStack derives it from the function's and the role's ARN."""
    import io
    import zipfile

    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("index.py", "import os\ndef handler(event, context): return dict(os.environ)\n")
    iam = emulator.boto("iam")
    role = iam.create_role(RoleName="function", AssumeRolePolicyDocument=TRUST)["Role"]["Arn"]
    functions = emulator.boto("lambda")
    functions.create_function(**{**FUNCTION, "Role": role, "Code": {"ZipFile": content.getvalue()}})
    arn = functions.get_function(FunctionName="drive-by")["Configuration"]["FunctionArn"]
    seen = json.load(functions.invoke(FunctionName="drive-by")["Payload"])
    functions.delete_function(FunctionName="drive-by")
    iam.delete_role(RoleName="function")
    guess = hashlib.sha256(f"{arn}:{role}".encode()).hexdigest()
    assert seen["AWS_SECRET_ACCESS_KEY"] != hashlib.sha256(f"secret:{guess}".encode()).hexdigest()
    assert seen["AWS_ACCESS_KEY_ID"].startswith("ASIA")
    assert emulator.running.secret not in json.dumps(seen), "a function has its role's secret, not the account's"


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


def test_the_secret_stands_on_no_command_line(emulator: Emulator) -> None:
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert emulator.running.secret.encode() not in process.read_bytes(), process
        except OSError:
            continue


# --- EKS tokens -------------------------------------------------------------------------------------------------------


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
