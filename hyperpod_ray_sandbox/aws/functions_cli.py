"""Three commands of the AWS CLI with Python's standard library only: its start costs more than all of their other work.

CDK's kubectl and Helm functions call `aws eks update-kubeconfig` and `aws eks get-token` for each manifest. They and
bucket deployments call `aws s3 cp s3://BUCKET/KEY FILE`. These do the same here: DescribeCluster, a presigned
GetCallerIdentity, and GetObject. Every other command goes to the real AWS CLI, and so does a copy that fails. Run as a
file, by the `aws` that `up` puts on the functions' PATH.

A deployment starts it fifty times, so it imports what starts in a moment: `urllib.parse`, `pathlib`,
`shutil` and `socket` take four times as long as all that it does.
"""

# ruff: noqa: PTH105, PTH112, PTH118, PTH123

from __future__ import annotations

import binascii
import hashlib
import hmac
import itertools
import os
import sys
from datetime import UTC, datetime, timedelta

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ALGORITHM = "AWS4-HMAC-SHA256"
EMPTY = hashlib.sha256(b"").hexdigest()
# the token's own age counts, not this: the authenticator takes a token for 15 minutes
LIFETIME = "60"
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~")
# where a cluster of your own stands for EKS: its kubeconfig, which knows no EKS token
GIVEN = "SANDBOX_KUBECONFIG"


def quoted(text: str, *, slashes: bool = False) -> str:
    """Return a text as a part of a URL, or as a path whose slashes stay."""
    plain = _UNRESERVED | {ord("/")} if slashes else _UNRESERVED
    return "".join(chr(byte) if byte in plain else f"%{byte:02X}" for byte in text.encode())


def signature(
    *, environment: Mapping[str, str], service: str, region: str, moment: datetime, canonical: list[str]
) -> tuple[str, str]:
    """Return the credential scope and the signature of a canonical request."""
    scope = f"{moment:%Y%m%d}/{region}/{service}/aws4_request"
    digest = hashlib.sha256("\n".join(canonical).encode()).hexdigest()
    key = f"AWS4{environment['AWS_SECRET_ACCESS_KEY']}".encode()
    for part in (f"{moment:%Y%m%d}", region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    text = f"{ALGORITHM}\n{moment:%Y%m%dT%H%M%SZ}\n{scope}\n{digest}"
    return scope, hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def token(cluster: str, region: str, environment: Mapping[str, str], moment: datetime) -> str:
    """Return an EKS token: a presigned GetCallerIdentity that names the cluster."""
    host = f"sts.{region}.amazonaws.com"
    query = {
        "Action": "GetCallerIdentity",
        "Version": "2011-06-15",
        "X-Amz-Algorithm": ALGORITHM,
        "X-Amz-Credential": f"{environment['AWS_ACCESS_KEY_ID']}/{moment:%Y%m%d}/{region}/sts/aws4_request",
        "X-Amz-Date": f"{moment:%Y%m%dT%H%M%SZ}",
        "X-Amz-Expires": LIFETIME,
        "X-Amz-SignedHeaders": "host;x-k8s-aws-id",
    }
    if environment.get("AWS_SESSION_TOKEN"):
        query["X-Amz-Security-Token"] = environment["AWS_SESSION_TOKEN"]
    text = "&".join(f"{name}={quoted(value)}" for name, value in sorted(query.items()))
    canonical = ["GET", "/", text, f"host:{host}", f"x-k8s-aws-id:{cluster}", "", "host;x-k8s-aws-id", EMPTY]
    _, signed = signature(environment=environment, service="sts", region=region, moment=moment, canonical=canonical)
    url = f"https://{host}/?{text}&X-Amz-Signature={signed}"
    packed = binascii.b2a_base64(url.encode(), newline=False).decode()
    return "k8s-aws-v1." + packed.rstrip("=").replace("+", "-").replace("/", "_")


def get(
    service: str, path: str, canonical: str, region: str, moment: datetime
) -> tuple[int, dict[str, str], Iterator[bytes]]:
    """Send a signed GET to the embedded AWS; return the status, the headers, and the body in parts.

    Args:
        service: The service that is asked.
        path: The path, encoded.
        canonical: The path as it is signed: encoded once more, but not for S3.
        region: The service's.
        moment: The time of the signature.
    """
    import http.client  # `get-token`, which every kubectl starts, needs none

    environment = os.environ
    host = environment["AWS_ENDPOINT_URL"].partition("://")[2].rstrip("/")
    headers = {"host": host, "x-amz-content-sha256": EMPTY, "x-amz-date": f"{moment:%Y%m%dT%H%M%SZ}"}
    if environment.get("AWS_SESSION_TOKEN"):
        headers["x-amz-security-token"] = environment["AWS_SESSION_TOKEN"]
    names = ";".join(sorted(headers))
    lines = [f"{name}:{headers[name]}" for name in sorted(headers)]
    request = ["GET", canonical, "", *lines, "", names, EMPTY]
    scope, signed = signature(environment=environment, service=service, region=region, moment=moment, canonical=request)
    key = environment["AWS_ACCESS_KEY_ID"]
    headers["authorization"] = f"{ALGORITHM} Credential={key}/{scope}, SignedHeaders={names}, Signature={signed}"
    connection = http.client.HTTPConnection(host, timeout=300)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    answered = {name.lower(): value for name, value in answer.getheaders()}
    return answer.status, answered, iter(lambda: answer.read(1 << 20), b"")


def describe(cluster: str, region: str, moment: datetime) -> dict[str, object]:
    """Ask EKS for a cluster."""
    import json  # `get-token` needs none

    path = f"/clusters/{quoted(cluster)}"
    status, _, parts = get("eks", path, quoted(path, slashes=True), region, moment)
    body = b"".join(parts)
    if status != 200:
        raise SystemExit(
            f"An error occurred when calling the DescribeCluster operation: {body.decode(errors='replace')}"
        )
    description: dict[str, object] = json.loads(body)["cluster"]
    return description


def copy(source: str, target: str, region: str, moment: datetime) -> int:
    """Copy an object of S3 into a file, or into a folder under its name; 1 where the real AWS CLI has to try."""
    path = "/" + quoted(source.removeprefix("s3://"), slashes=True)
    status, headers, parts = get("s3", path, path, region, moment)
    if status != 200 or source.endswith("/"):
        return 1
    file = os.path.join(target, source.rpartition("/")[2]) if os.path.isdir(target) else target
    with open(f"{file}.part", "wb") as opened:
        size = sum(opened.write(part) for part in parts)
    if size != int(headers["content-length"]):
        return 1
    os.replace(f"{file}.part", file)
    return 0


def kubeconfig(cluster: Mapping[str, object], region: str) -> dict[str, object]:
    """Return what `aws eks update-kubeconfig` writes."""
    arn, authority = cluster["arn"], cluster["certificateAuthority"]
    assert isinstance(authority, dict)  # noqa: S101  (narrowing only)
    command = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "aws",
        "args": ["--region", region, "eks", "get-token", "--cluster-name", cluster["name"], "--output", "json"],
        "interactiveMode": "Never",
    }
    server = {"certificate-authority-data": authority["data"], "server": cluster["endpoint"]}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": arn, "cluster": server}],
        "contexts": [{"name": arn, "context": {"cluster": arn, "user": arn}}],
        "current-context": arn,
        "users": [{"name": arn, "user": {"exec": command}}],
    }


def main(argv: list[str]) -> int:
    """Run one of the three commands."""
    options = {name: value for name, value in itertools.pairwise(argv) if name.startswith("--")}
    region = options.get("--region") or os.environ["AWS_REGION"]
    moment = datetime.now(UTC)
    if argv[:2] == ["s3", "cp"]:
        return copy(argv[2], argv[3], region, moment)
    if "get-token" in argv:
        bearer = token(options["--cluster-name"], region, os.environ, moment)
        expires = f"{moment + timedelta(minutes=14):%Y-%m-%dT%H:%M:%SZ}"
        sys.stdout.write(
            '{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1beta1", "spec": {}, '
            f'"status": {{"expirationTimestamp": "{expires}", "token": "{bearer}"}}}}\n'
        )
        return 0
    target = options["--kubeconfig"]
    if os.environ.get(GIVEN):
        with open(os.environ[GIVEN], "rb") as kubeconfig_file:
            content = kubeconfig_file.read()
    else:
        import json

        content = json.dumps(kubeconfig(describe(options["--name"], region, moment), region)).encode()
    with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as opened:
        opened.write(content)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
