"""What tests of `attacks`, `eks_tokens` share."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import boto3
import botocore.auth
import botocore.awsrequest
import botocore.config
import botocore.credentials
import botocore.exceptions
import pytest

from tests.support.emulator import Emulator

TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}],
    }
)


def signed(
    emulator: Emulator, path: str, *, secret: str = "", service: str = "lambda", body: bytes = b"", host: str = ""
) -> Any:
    """Headers that are signed with this start's secret, or with another one, for the host that they go to."""
    url = f"http://{host}{path}" if host else f"{emulator.control.endpoint}{path}"
    request = botocore.awsrequest.AWSRequest(method="POST", url=url, data=body)
    credentials = botocore.credentials.Credentials(emulator.running.account, secret or emulator.running.secret)
    botocore.auth.SigV4Auth(credentials, service, emulator.running.region).add_auth(request)
    return dict(request.headers.items())


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


FUNCTION = {
    "FunctionName": "drive-by",
    "Runtime": "python3.12",
    "Role": "arn:aws:iam::000000000001:role/any",
    "Handler": "index.handler",
    "Code": {"ZipFile": ""},
}


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


FUNCTIONS = "/2015-03-31/functions"
