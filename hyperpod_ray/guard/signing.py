"""AWS Signature Version 4 of one kind of request: a POST with a JSON body to the root of a service's endpoint.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """Temporary credentials of a role."""

    key: str
    secret: str
    token: str
    expires: float
    """Seconds since 1970."""


def signed(
    *,
    credentials: Credentials,
    host: str,
    region: str,
    service: str,
    headers: Mapping[str, str],
    body: bytes,
    now: float,
) -> dict[str, str]:
    """The headers with which the request is sent, the signature among them.

    Args:
        host: as the request's header `Host` has it, with the port where it is not the scheme's own.
        headers: what else is signed.
        now: seconds since 1970.
    """
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    day = moment[:8]
    sent = {**headers, "Host": host, "X-Amz-Date": moment, "X-Amz-Security-Token": credentials.token}
    ordered = sorted((name.lower(), value.strip()) for name, value in sent.items())
    names = ";".join(name for name, _ in ordered)
    lines = [
        "POST",
        "/",
        "",
        *(f"{name}:{value}" for name, value in ordered),
        "",
        names,
        hashlib.sha256(body).hexdigest(),
    ]
    scope = f"{day}/{region}/{service}/aws4_request"
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    key = f"AWS4{credentials.secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = _hmac(key, part)
    signature = _hmac(key, f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{digest}").hex()
    sent["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={credentials.key}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return sent


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
