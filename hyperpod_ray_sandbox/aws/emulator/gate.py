"""What stands before every request: whose browser sent it, and whether its signature was made with a secret of ours.

The embedded AWS runs Lambda functions as processes of this machine, so a request that gets in can run code. A request
passes when all of this holds:

- its `Host` is `127.0.0.1:PORT` or `localhost:PORT`: a name that was rebound to 127.0.0.1 is refused;
- it has no `Origin`, and no `Sec-Fetch-Site` but `same-origin` or `none`: no web page sent it;
- it carries a Signature Version 4, in its header or its query, that botocore's own signer recomputes with the secret of
  the access key. The root key's secret is made at each start; the secrets of roles' sessions are made by STS here.

The one exception is the URL that a custom resource answers to: CloudFormation gives it to the function only, and its
random last part is the secret.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode

import botocore.auth
import botocore.awsrequest
import botocore.compat
import botocore.credentials

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

CONTROL = "/_local/"
ALGORITHM = "AWS4-HMAC-SHA256"
SKEW = timedelta(minutes=15)
LONGEST_PRESIGNED = timedelta(days=7)
LARGEST_BODY = 512 * 1024 * 1024
# the token is `secrets`-quality (a UUID of MiniStack's), known to the one function that was handed the URL
RESPONSE_URL = re.compile(r"/_ministack/cfn-(response|signal)/[0-9A-Za-z_-]{32,}")
BROWSER_SITES = frozenset({"same-origin", "none"})
EMPTY = hashlib.sha256(b"").hexdigest()


class Refused(Exception):
    """A request that does not get in: HTTP status, AWS's error code, message."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass(frozen=True, kw_only=True)
class Secret:
    """The secret of an access key; `token` is the session token that must come with it, `root` the account itself."""

    value: str
    token: str = ""
    root: bool = False
    arn: str = ""
    account: str = ""


Lookup = Callable[[str], Secret | None]


@dataclass(frozen=True, kw_only=True)
class Signed:
    """The parts of a signature."""

    key: str
    region: str
    service: str
    scope_date: str
    names: tuple[str, ...]
    signature: str
    date: str
    token: str


class _Exactly(botocore.auth.SigV4Auth):
    """botocore's signer, over exactly the headers that the client says it signed."""

    names: tuple[str, ...] = ()

    def headers_to_sign(self, request: Any) -> Any:
        headers = botocore.compat.HTTPHeaders()
        for name in self.names:
            headers[name] = request.headers.get(name, "")
        return headers


class _ExactlyS3(_Exactly):
    """The same for S3, which signs its path as it is sent."""

    def _normalize_url_path(self, path: str) -> str:
        return path


def verify_header(
    *, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes, lookup: Lookup
) -> Secret:
    """Return the secret that signed the request's `Authorization`; `Refused` where it is none of ours."""
    signed = _parse_header(headers)
    secret = _secret(signed, lookup)
    now = datetime.now(UTC)
    if abs(now - _moment(signed.date)) > SKEW:
        raise Refused(403, "RequestTimeTooSkewed", f"signature expired or not yet valid: {signed.date}")
    digest = headers.get("x-amz-content-sha256", "")
    if re.fullmatch(r"[0-9a-f]{64}", digest) and digest != hashlib.sha256(body).hexdigest():
        raise Refused(400, "XAmzContentSHA256Mismatch", "the body is not the one that was signed")
    _compare(signed, secret, method=method, path=path, query=query, headers=headers, body=body)
    return secret


def verify_query(
    *,
    method: str,
    path: str,
    query: str,
    headers: Mapping[str, str],
    body: bytes,
    lookup: Lookup,
    lives: timedelta | None = None,
) -> Secret:
    """Return the secret that presigned the URL; `lives` replaces the lifetime that the URL claims."""
    pairs = parse_qsl(query, keep_blank_values=True)
    values = dict(pairs)
    if len(values) != len(pairs):
        raise Refused(400, "InvalidQueryParameter", "a parameter of a presigned URL is there twice")
    signed = _parse_query(values)
    secret = _secret(signed, lookup)
    try:
        claimed = timedelta(seconds=int(values.get("X-Amz-Expires", "")))
    except (ValueError, OverflowError):
        raise Refused(400, "AuthorizationQueryParametersError", "X-Amz-Expires must be a number") from None
    if not timedelta(0) <= claimed <= LONGEST_PRESIGNED:
        raise Refused(400, "AuthorizationQueryParametersError", "X-Amz-Expires must be between 0 and 604800")
    age = datetime.now(UTC) - _moment(signed.date)
    if age > (lives or claimed) or age < -SKEW:
        raise Refused(403, "AccessDenied", "Request has expired")
    # in the order it came: botocore sorts
    rest = urlencode([(k, v) for k, v in pairs if k != "X-Amz-Signature"], quote_via=botocore.compat.quote, safe="-_.~")
    _compare(signed, secret, method=method, path=path, query=rest, headers=headers, body=body, presigned=True)
    return secret


def _compare(
    signed: Signed,
    secret: Secret,
    *,
    method: str,
    path: str,
    query: str,
    headers: Mapping[str, str],
    body: bytes,
    presigned: bool = False,
) -> None:
    """Recompute the signature with botocore."""
    signer_class = _ExactlyS3 if signed.service == "s3" else _Exactly
    signer = signer_class(botocore.credentials.Credentials(signed.key, secret.value), signed.service, signed.region)
    signer.names = signed.names
    host = headers.get("host", "")
    # the host stands in the headers; here it only makes the path and the query parse
    request = botocore.awsrequest.AWSRequest(
        method=method, url=f"http://{host or 'none'}{path}{'?' + query if query else ''}", data=body
    )
    for name in {*signed.names, "x-amz-content-sha256"}:
        if name in headers:
            request.headers[name] = headers[name]
    if presigned and signed.service == "s3":
        request.headers["X-Amz-Content-SHA256"] = "UNSIGNED-PAYLOAD"
    request.context["timestamp"] = signed.date
    text = signer.string_to_sign(request, signer.canonical_request(request))
    if not hmac.compare_digest(signer.signature(text, request), signed.signature):
        message = (
            "The request signature we calculated does not match the signature you provided. "
            "Check your AWS Secret Access Key and signing method."
        )
        raise Refused(403, "SignatureDoesNotMatch", message)


def _secret(signed: Signed, lookup: Lookup) -> Secret:
    if "host" not in signed.names:
        raise Refused(403, "SignatureDoesNotMatch", "'Host' must be a signed header")
    if signed.scope_date != signed.date[:8]:
        raise Refused(403, "SignatureDoesNotMatch", "the credential's date is not the request's")
    secret = lookup(signed.key)
    if secret is None or not hmac.compare_digest(secret.token.encode(), signed.token.encode()):
        raise Refused(403, "InvalidClientTokenId", "The security token included in the request is invalid.")
    return secret


def _parse_header(headers: Mapping[str, str]) -> Signed:
    algorithm, _, rest = headers.get("authorization", "").partition(" ")
    if algorithm != ALGORITHM:
        raise Refused(403, "MissingAuthenticationToken", "Request is missing Authentication Token")
    parts = dict(part.strip().partition("=")[::2] for part in rest.split(","))
    return _signed(
        credential=parts.get("Credential", ""),
        names=parts.get("SignedHeaders", ""),
        signature=parts.get("Signature", ""),
        date=headers.get("x-amz-date", ""),
        token=headers.get("x-amz-security-token", ""),
    )


def _parse_query(values: Mapping[str, str]) -> Signed:
    if values.get("X-Amz-Algorithm") != ALGORITHM:
        raise Refused(403, "MissingAuthenticationToken", "Request is missing Authentication Token")
    return _signed(
        credential=values.get("X-Amz-Credential", ""),
        names=values.get("X-Amz-SignedHeaders", ""),
        signature=values.get("X-Amz-Signature", ""),
        date=values.get("X-Amz-Date", ""),
        token=values.get("X-Amz-Security-Token", ""),
    )


def _signed(*, credential: str, names: str, signature: str, date: str, token: str) -> Signed:
    scope = credential.split("/")
    if len(scope) != 5 or scope[4] != "aws4_request" or not names or not signature:
        raise Refused(403, "IncompleteSignature", "the signature lacks its credential, its headers or itself")
    _moment(date)
    return Signed(
        key=scope[0],
        scope_date=scope[1],
        region=scope[2],
        service=scope[3],
        names=tuple(names.lower().split(";")),
        signature=signature,
        date=date,
        token=token,
    )


def _moment(date: str) -> datetime:
    try:
        return datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise Refused(403, "IncompleteSignature", f"X-Amz-Date is no date: {date!r}") from None


class Gate:
    """The ASGI application that stands before the emulator."""

    def __init__(self, application: Any, *, hosts: frozenset[str], lookup: Lookup) -> None:
        self._application = application
        self._hosts = hosts
        self._lookup = lookup

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer why not."""
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
            return
        if scope["type"] != "http":  # WebSocket APIs: no stack has one, and browsers open them across sites
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = _headers(scope["headers"])
        try:
            self._from_here(scope["headers"])
            body = await self._let_in(scope, headers, receive)
        except Refused as refused:
            await _answer(send, refused, headers)
            return
        await self._application(scope, _replay(body, receive), _without_cors(send))

    def _from_here(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        """Refuse what a web page sent, whatever else it carries."""
        headers: dict[str, list[str]] = {}
        for name, value in raw:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        hosts = headers.get("host", [])
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            raise Refused(403, "AccessDenied", f"this emulator answers as {' or '.join(sorted(self._hosts))} only")
        if "origin" in headers:
            raise Refused(403, "AccessDenied", "this emulator answers no web page: the request has an Origin")
        if not BROWSER_SITES.issuperset(headers.get("sec-fetch-site", [])):
            raise Refused(403, "AccessDenied", "this emulator answers no web page: the request comes from another site")

    async def _let_in(self, scope: Scope, headers: Mapping[str, str], receive: Receive) -> bytes:
        """Return the body of a request whose signature is right."""
        method = str(scope["method"])
        path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        query = scope.get("query_string", b"").decode("latin-1")
        if method == "PUT" and RESPONSE_URL.fullmatch(path):
            return await _read(receive)
        header = "authorization" in headers
        names = {name.lower() for name, _ in parse_qsl(query, keep_blank_values=True)}
        if header and names & {"x-amz-credential", "x-amz-signature", "awsaccesskeyid"}:
            # MiniStack must take the same caller for the one who signed as this gate does
            raise Refused(400, "InvalidArgument", "a request is signed in its header or in its query, not in both")
        # before the body is read: who sends it must at least name a key of ours
        signed = _parse_header(headers) if header else _parse_query(dict(parse_qsl(query, keep_blank_values=True)))
        _secret(signed, self._lookup)
        body = await _read(receive)
        verify = verify_header if header else verify_query
        secret = verify(method=method, path=path, query=query, headers=headers, body=body, lookup=self._lookup)
        if path.startswith(CONTROL) and not secret.root:
            raise Refused(403, "AccessDenied", "the control plane is for the one who started the emulator")
        return body


def _headers(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in raw:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        # Signature Version 4 signs a header of several lines as its values joined by a comma
        headers[key] = f"{headers[key]},{text}" if key in headers else text
    return headers


async def _read(receive: Receive) -> bytes:
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "IncompleteBody", "the request ended before its body")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > LARGEST_BODY:
            raise Refused(413, "EntityTooLarge", f"a body is at most {LARGEST_BODY} bytes")
        if not message.get("more_body"):
            return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    delivered = False

    async def again() -> dict[str, Any]:
        nonlocal delivered
        if delivered:
            return await receive()
        delivered = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _without_cors(send: Send) -> Send:
    """Drop MiniStack's `Access-Control-Allow-Origin: *` and its like."""

    async def filtered(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            kept = [(n, v) for n, v in message.get("headers", []) if not n.lower().startswith(b"access-control-")]
            message = {**message, "headers": kept}
        await send(message)

    return filtered


async def _answer(send: Send, refused: Refused, headers: Mapping[str, str]) -> None:
    """Answer in the form that the client's protocol has for errors."""
    if "x-amz-target" in headers or "json" in headers.get("content-type", ""):
        media_type, payload = "application/json", json.dumps({"__type": refused.code, "message": str(refused)})
    else:
        media_type = "text/xml"
        inner = f"<Code>{refused.code}</Code><Message>{_escaped(str(refused))}</Message>"
        payload = f"<ErrorResponse><Error>{inner}</Error><RequestId>refused</RequestId></ErrorResponse>"
        if "/s3/aws4_request" in headers.get("authorization", ""):
            payload = f"<Error>{inner}<RequestId>refused</RequestId></Error>"
    answer = [
        (b"content-type", media_type.encode()),
        (b"content-length", str(len(payload.encode())).encode()),
        (b"x-amzn-errortype", refused.code.encode()),
    ]
    await send({"type": "http.response.start", "status": refused.status, "headers": answer})
    await send({"type": "http.response.body", "body": payload.encode()})


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
