"""`aws eks update-kubeconfig` and `aws eks get-token`, with Python's standard library only.

CDK's kubectl and Helm functions call the AWS CLI two or three times for each manifest, and its start costs more than
all of their other work. These two commands do the same here: DescribeCluster, and a presigned GetCallerIdentity. Every
other command goes to the real AWS CLI. Run as a file, by the `aws` that `up` puts on the functions' PATH.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import itertools
import json
import os
import shutil
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

ALGORITHM = "AWS4-HMAC-SHA256"
EMPTY = hashlib.sha256(b"").hexdigest()
# the token's own age counts, not this: the authenticator takes a token for 15 minutes
LIFETIME = "60"
# where a cluster of your own stands for EKS: its kubeconfig, which knows no EKS token
GIVEN = "SANDBOX_KUBECONFIG"


def signature(
    *, environment: Mapping[str, str], service: str, region: str, now: datetime, canonical: list[str]
) -> tuple[str, str]:
    """Return the credential scope and the signature of a canonical request."""
    scope = f"{now:%Y%m%d}/{region}/{service}/aws4_request"
    digest = hashlib.sha256("\n".join(canonical).encode()).hexdigest()
    key = f"AWS4{environment['AWS_SECRET_ACCESS_KEY']}".encode()
    for part in (f"{now:%Y%m%d}", region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    text = f"{ALGORITHM}\n{now:%Y%m%dT%H%M%SZ}\n{scope}\n{digest}"
    return scope, hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def token(cluster: str, region: str, environment: Mapping[str, str], now: datetime) -> str:
    """Return an EKS token: a presigned GetCallerIdentity that names the cluster."""
    host = f"sts.{region}.amazonaws.com"
    query = {
        "Action": "GetCallerIdentity",
        "Version": "2011-06-15",
        "X-Amz-Algorithm": ALGORITHM,
        "X-Amz-Credential": f"{environment['AWS_ACCESS_KEY_ID']}/{now:%Y%m%d}/{region}/sts/aws4_request",
        "X-Amz-Date": f"{now:%Y%m%dT%H%M%SZ}",
        "X-Amz-Expires": LIFETIME,
        "X-Amz-SignedHeaders": "host;x-k8s-aws-id",
    }
    if environment.get("AWS_SESSION_TOKEN"):
        query["X-Amz-Security-Token"] = environment["AWS_SESSION_TOKEN"]
    text = urlencode(sorted(query.items()), quote_via=quote, safe="-_.~")
    canonical = ["GET", "/", text, f"host:{host}", f"x-k8s-aws-id:{cluster}", "", "host;x-k8s-aws-id", EMPTY]
    _, signed = signature(environment=environment, service="sts", region=region, now=now, canonical=canonical)
    url = f"https://{host}/?{text}&X-Amz-Signature={signed}"
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def describe(cluster: str, region: str, environment: Mapping[str, str], now: datetime) -> dict[str, object]:
    """Ask EKS for a cluster."""
    endpoint = urlsplit(environment["AWS_ENDPOINT_URL"])
    path = f"/clusters/{quote(cluster, safe='-_.~')}"
    headers = {"host": endpoint.netloc, "x-amz-date": f"{now:%Y%m%dT%H%M%SZ}"}
    if environment.get("AWS_SESSION_TOKEN"):
        headers["x-amz-security-token"] = environment["AWS_SESSION_TOKEN"]
    names = ";".join(sorted(headers))
    lines = [f"{name}:{headers[name]}" for name in sorted(headers)]
    # every service but S3 signs its path encoded once more
    canonical = ["GET", quote(path, safe="/-_.~"), "", *lines, "", names, EMPTY]
    scope, signed = signature(environment=environment, service="eks", region=region, now=now, canonical=canonical)
    key = environment["AWS_ACCESS_KEY_ID"]
    headers["authorization"] = f"{ALGORITHM} Credential={key}/{scope}, SignedHeaders={names}, Signature={signed}"
    connection = http.client.HTTPConnection(endpoint.netloc, timeout=300)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise SystemExit(
            f"An error occurred when calling the DescribeCluster operation: {body.decode(errors='replace')}"
        )
    description: dict[str, object] = json.loads(body)["cluster"]
    return description


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
    """Run one of the two commands."""
    options = {name: value for name, value in itertools.pairwise(argv) if name.startswith("--")}
    region = options.get("--region") or os.environ["AWS_REGION"]
    now = datetime.now(UTC)
    if "get-token" in argv:
        bearer = token(options["--cluster-name"], region, os.environ, now)
        status = {"expirationTimestamp": f"{now + timedelta(minutes=14):%Y-%m-%dT%H:%M:%SZ}", "token": bearer}
        credential = {"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1beta1", "spec": {}}
        sys.stdout.write(json.dumps({**credential, "status": status}) + "\n")
        return 0
    target = Path(options["--kubeconfig"])
    if os.environ.get(GIVEN):
        shutil.copyfile(os.environ[GIVEN], target)
    else:
        target.touch(mode=0o600)
        target.write_text(json.dumps(kubeconfig(describe(options["--name"], region, os.environ, now), region)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
