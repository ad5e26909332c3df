"""What a tag of a container image points to today, asked of its registry without credentials.

Protocol: the OCI distribution specification, "Pulling manifests", with the Bearer challenge of Docker's token
authentication (https://distribution.github.io/distribution/spec/auth/token/). The digest is computed from the manifest
that came, never taken on trust from a header.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

import urllib3

from hyperpod_ray.core.proxies import proxy_of
from hyperpod_ray.image.versions import ImageError

TIMEOUT_S = 30
MAX_MANIFEST_BYTES = 4_000_000
"""The specification asks registries to accept 4 MB."""
PLATFORM = ("linux", "amd64")
"""What HyperPod's accelerated instances and the head run on."""
_INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
_MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_LOOPBACK = {"127.0.0.1", "localhost", "::1"}


def digest(base: str, tag: str, *, mirror: str | None = None) -> str:
    """The digest that `base:tag` has now, `sha256:…`; of the index where there are several platforms.

    Args:
        base: Host and repository, such as `docker.io/rayproject/ray`.
        mirror: Address of a registry that is asked instead of the base's own; https, or http on this machine.

    Raises:
        ImageError: Unreachable, no such tag, not for linux/amd64, or an answer that contradicts itself.
    """
    host, _, repository = base.partition("/")
    origin = (mirror or f"https://{'registry-1.docker.io' if host == 'docker.io' else host}").rstrip("/")
    _secure(origin)
    url = f"{origin}/v2/{repository}/manifests/{tag}"
    headers = {"Accept": ", ".join((*_INDEXES, *_MANIFESTS))}
    answer = _get(url, headers=headers)
    if answer.status == 401:
        token = _token(answer.headers.get("WWW-Authenticate", ""), repository=repository, url=url)
        answer = _get(url, headers={**headers, "Authorization": f"Bearer {token}"})
    if answer.status == 404:
        raise ImageError(
            f"{base}:{tag}", expected=f"a tag of {origin}", fix="correct `tag` in hyperpod_ray/image/versions.yaml"
        )
    if answer.status != 200:
        raise ImageError(
            f"{url}: {answer.status} {answer.reason}",
            expected="a manifest",
            fix="run the command again; correct `base` in hyperpod_ray/image/versions.yaml if it stays",
        )
    computed = "sha256:" + hashlib.sha256(answer.body).hexdigest()
    stated = answer.headers.get("Docker-Content-Digest", computed)
    if stated != computed:
        raise ImageError(
            f"{url}: the manifest's digest is {computed}",
            expected=f"{stated}, as the registry states",
            fix="run the command again, by another way to the registry",
        )
    _check_platform(_object(answer, url), image=f"{base}:{tag}")
    return computed


@dataclass(frozen=True, kw_only=True)
class _Answer:
    """What a registry answered, its body read no further than it may be long."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes


def _get(url: str, *, headers: dict[str, str], params: dict[str, str] | None = None) -> _Answer:
    fields = urlencode(params or {})
    try:
        answer = way_to(url).request(
            "GET",
            f"{url}?{fields}" if fields else url,
            headers=headers,
            timeout=TIMEOUT_S,
            retries=urllib3.Retry(connect=0, read=0, redirect=5, status=0),
            preload_content=False,
        )
        try:
            # a body without end is cut off, not read into memory
            body = answer.read(MAX_MANIFEST_BYTES + 1, decode_content=True)
        finally:
            answer.close()
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise ImageError(
            f"{urlsplit(url).netloc}: {_plain(error)}",
            expected="an answer",
            fix="check the network and the proxy, then run the command again",
        ) from None
    if len(body) > MAX_MANIFEST_BYTES:
        raise ImageError(
            f"{url}: a longer answer",
            expected=f"at most {MAX_MANIFEST_BYTES:,} bytes",
            fix="correct `base` in hyperpod_ray/image/versions.yaml",
        )
    return _Answer(status=answer.status, reason=str(answer.reason or ""), headers=answer.headers, body=body)


def way_to(url: str) -> urllib3.PoolManager:
    """Straight, or by the proxy that HTTPS_PROXY and NO_PROXY name."""
    # a company's own authority, where requests and the AWS CLI look for it too
    authority = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("AWS_CA_BUNDLE")
    proxy = proxy_of(url)
    if not proxy:
        return urllib3.PoolManager(ca_certs=authority)
    access = urlsplit(proxy)
    login = urllib3.make_headers(proxy_basic_auth=f"{access.username}:{access.password}") if access.username else None
    return urllib3.ProxyManager(proxy, proxy_headers=login, ca_certs=authority)


def _token(challenge: str, *, repository: str, url: str) -> str:
    """The anonymous token that the registry's challenge points to."""
    fields = dict(_CHALLENGE.findall(challenge))
    if not challenge.lower().startswith("bearer ") or "realm" not in fields:
        raise ImageError(
            f"{url}: the registry requires credentials: {challenge[:80]!r}",
            expected="anonymous access",
            fix="copy the image to a registry that allows it",
        )
    _secure(fields["realm"])
    params = {"scope": fields.get("scope", f"repository:{repository}:pull")}
    if "service" in fields:
        params["service"] = fields["service"]
    answer = _get(fields["realm"], headers={}, params=params)
    content = _object(answer, fields["realm"]) if answer.status == 200 else {}
    token = content.get("token") or content.get("access_token")
    if not isinstance(token, str):
        raise ImageError(
            f"{fields['realm']}: {answer.status} {answer.reason}",
            expected="an anonymous token",
            fix="run the command again; copy the image to another registry if it stays",
        )
    return token


def _check_platform(manifest: dict[str, Any], *, image: str) -> None:
    if manifest.get("mediaType") not in _INDEXES and "manifests" not in manifest:
        return  # one platform; its configuration says which, and the build would fail on another
    entries = [platform.get("platform") or {} for platform in manifest.get("manifests", [])]
    if PLATFORM not in [(platform.get("os"), platform.get("architecture")) for platform in entries]:
        platforms = sorted({f"{platform.get('os')}/{platform.get('architecture')}" for platform in entries})
        raise ImageError(
            f"{image}: only for {', '.join(platforms) or 'nothing'}",
            expected=f"{'/'.join(PLATFORM)}",
            fix="choose another tag",
        )


def _object(answer: _Answer, url: str) -> dict[str, Any]:
    try:
        content = json.loads(answer.body)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise ImageError(
            f"{url}: the answer is not JSON",
            expected="a JSON object",
            fix="correct `base` in hyperpod_ray/image/versions.yaml",
        )
    return content


def _secure(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise ImageError(
            f"{url}", expected="https://, or http:// on this machine", fix="correct the registry's address"
        )


def _plain(error: BaseException) -> str:
    """The innermost reason, which says more than the layers around it."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__ or error
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
