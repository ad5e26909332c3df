"""One HTTP request at a time, each with a time limit, through no proxy."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

LOOPBACK = ("127.0.0.1", "localhost", "::1")
LINK_LOCAL = "169.254."
"""Addresses of agents on the own node, EKS Pod Identity's among them: they answer over plain HTTP."""


class UnreachableError(Exception):
    """No answer."""


def connect(
    url: str, *, seconds: float, context: ssl.SSLContext | None = None
) -> tuple[http.client.HTTPConnection, str]:
    """A connection to a URL's host, not opened yet, and the URL's path.

    Raises:
        ValueError: plain HTTP to a host that is neither this machine nor an agent on the own node.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if parts.scheme == "https":
        return http.client.HTTPSConnection(
            host, parts.port, timeout=seconds, context=context or ssl.create_default_context()
        ), path
    if parts.scheme != "http" or not (host in LOOPBACK or host.startswith(LINK_LOCAL)):
        raise ValueError(f"{url}: expected https, or http to this machine")
    return http.client.HTTPConnection(host, parts.port, timeout=seconds), path


def ask(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    body: bytes | None = None,
    seconds: float = 10.0,
    context: ssl.SSLContext | None = None,
) -> tuple[int, bytes]:
    """Status and body of an answer.

    Raises:
        UnreachableError: there was none.
    """
    connection, path = connect(url, seconds=seconds, context=context)
    try:
        connection.request(method, path, body=body, headers=dict(headers))
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise UnreachableError(f"{method} {url}: {type(error).__name__}: {error}") from error
    finally:
        connection.close()
