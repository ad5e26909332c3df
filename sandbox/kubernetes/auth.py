"""Who may speak: the static token of this server, or a well-formed EKS token (`aws eks get-token`)."""

from __future__ import annotations

import base64
import binascii
import hmac
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

_PREFIX = "k8s-aws-v1."
_NEEDED = ("X-Amz-Credential", "X-Amz-Date", "X-Amz-Signature", "X-Amz-SignedHeaders")


def eks_token_fault(token: str, *, now: datetime | None = None) -> str | None:  # noqa: PLR0911
    """Why an EKS token is no presigned STS GetCallerIdentity URL of the last 15 minutes; None when it is one.

    The signature itself is not checked: this server does not know the secret keys. Source: the token format of
    https://github.com/kubernetes-sigs/aws-iam-authenticator.
    """
    if not token.startswith(_PREFIX):
        return "not an EKS token"
    text = token[len(_PREFIX) :]
    try:
        url = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except (binascii.Error, ValueError):
        return "not base64"
    query = {k: v[0] for k, v in parse_qs(urlsplit(url).query).items()}
    if query.get("Action") != "GetCallerIdentity":
        return "not a GetCallerIdentity call"
    missing = [name for name in _NEEDED if not query.get(name)]
    if missing:
        return f"unsigned: no {', '.join(missing)}"
    if "x-k8s-aws-id" not in query["X-Amz-SignedHeaders"].split(";"):
        return "the cluster's name is not signed"
    try:
        signed = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return "X-Amz-Date is no date"
    if abs((now or datetime.now(UTC)) - signed) > timedelta(minutes=15):
        return "expired"
    return None


def allowed(header: str, static_token: str) -> bool:
    """Whether an Authorization header lets a request in."""
    kind, _, token = header.partition(" ")
    if kind.lower() != "bearer" or not token:
        return False
    token = token.strip()
    return hmac.compare_digest(token.encode(), static_token.encode()) or eks_token_fault(token) is None
