"""Which HTTP proxy leads to an address: HTTPS_PROXY, HTTP_PROXY and NO_PROXY of this process, as kubectl reads them."""

from __future__ import annotations

import urllib.request
from urllib.parse import urlsplit


def proxy_of(url: str) -> str:
    """The proxy's URL; empty where the address is reached without. This machine is."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    bypass = getattr(urllib.request, "proxy_bypass_environment")  # noqa: B009  # public, and not in the stubs
    if host in ("localhost", "::1") or host.startswith("127.") or bypass(parts.netloc):
        return ""
    return urllib.request.getproxies_environment().get(parts.scheme, "")
