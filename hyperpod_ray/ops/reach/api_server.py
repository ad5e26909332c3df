"""HTTP and WebSocket to a Kubernetes API server: what a client sends, without a class for each object."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from hyperpod_ray.core.proxies import proxy_of
from hyperpod_ray.ops.errors import ApiError
from hyperpod_ray.ops.reach.kubeconfig import Credential, tls_context

Json = dict[str, Any]

CONNECT_SECONDS, READ_SECONDS = 5, 30
RETRIES, BACKOFF_SECONDS = 4, 0.3
RETRY_AFTER_SECONDS = 20
"""The API server's priority and fairness asks for seconds; whoever asks for an hour is asked again before."""
RETRIED = (429, 500, 502, 503, 504)


def _patient(retry: Any) -> Any:
    """A `Retry` that waits as long as the server asks for, within bounds."""

    class Patient(retry):  # type: ignore[misc]
        def get_retry_after(self, response: Any) -> float | None:
            seconds = super().get_retry_after(response)
            return None if seconds is None else min(seconds, RETRY_AFTER_SECONDS)

    return Patient


class ApiServer:
    """One API server and who asks it.

    Args:
        server: Its address, `https://HOST[:PORT]`.
        credential: Who asks; called for each request, and with `renewed=True` after an answer of 401.
        authority: Certificates that sign the server's, PEM. Default: those of this machine.
        insecure: Verify nothing.
        tls_server_name: Name in the server's certificate. Default: the address's host.
        proxy: HTTP proxy. Default: HTTPS_PROXY and NO_PROXY of this process.
    """

    def __init__(
        self,
        server: str,
        credential: Callable[..., Credential],
        *,
        authority: str = "",
        insecure: bool = False,
        tls_server_name: str = "",
        proxy: str = "",
    ) -> None:
        self.server = server.rstrip("/")
        self.proxy = proxy or proxy_of(self.server)
        self._credential = credential
        self._authority, self._insecure = authority, insecure
        self.tls_server_name = tls_server_name
        self._pools: tuple[tuple[str, str], Any] | None = None
        self._lock = threading.Lock()

    def through(self, server: str) -> ApiServer:
        """The same server behind another address of this machine; its certificate must still carry its own name."""
        return ApiServer(
            server, self._credential, authority=self._authority, insecure=self._insecure, tls_server_name=self._name
        )

    # --- requests --------------------------------------------------------------------------------------------------

    def send(self, method: str, path: str, *, query: Json, headers: dict[str, str], body: Any = None) -> bytes:
        """The body of the answer.

        Raises:
            ApiError: The server refuses.
            urllib3.exceptions.HTTPError: It cannot be reached.
        """
        answer = self._once(self._credential(), method, path, query=query, headers=headers, body=body)
        if answer.status == 401:
            answer = self._once(self._credential(renewed=True), method, path, query=query, headers=headers, body=body)
        if not 200 <= answer.status < 300:
            text = answer.data.decode(errors="replace")
            raise ApiError(status=answer.status, reason=str(answer.reason or ""), body=text)
        content: bytes = answer.data
        return content

    def _once(
        self, credential: Credential, method: str, path: str, *, query: Json, headers: dict[str, str], body: Any
    ) -> Any:
        import urllib3

        return self._pool(credential).request(
            method,
            self._url(path, query),
            body=None if body is None else json.dumps(body).encode(),
            headers={**headers, **credential.headers},
            timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS),
            retries=_patient(urllib3.Retry)(
                total=RETRIES,
                backoff_factor=BACKOFF_SECONDS,
                status_forcelist=RETRIED,
                allowed_methods=frozenset({"GET"}),
                raise_on_status=False,
                redirect=0,
                raise_on_redirect=False,
            ),
        )

    def _url(self, path: str, query: Json) -> str:
        text = f"{self.server}{quote(path, safe='/:%@')}"
        return f"{text}?{urlencode(query)}" if query else text

    def _pool(self, credential: Credential) -> Any:
        import urllib3

        with self._lock:
            key = (credential.certificate, credential.key)
            if self._pools is None or self._pools[0] != key:
                options: Json = {
                    "ssl_context": tls_context(
                        authority=self._authority, insecure=self._insecure, credential=credential
                    ),
                    "maxsize": 8,
                }
                if self._insecure:
                    options["cert_reqs"] = "CERT_NONE"
                    options["assert_hostname"] = False
                if self.tls_server_name:
                    options["server_hostname"] = self.tls_server_name
                manager: Any = (
                    urllib3.ProxyManager(self.proxy, **options, proxy_headers=self._proxy_headers())
                    if self.proxy
                    else urllib3.PoolManager(**options)
                )
                self._pools = (key, manager)
            return self._pools[1]

    def _proxy_headers(self) -> Any:
        import urllib3

        parts = urlsplit(self.proxy)
        if not parts.username:
            return None
        return urllib3.make_headers(proxy_basic_auth=f"{parts.username}:{parts.password or ''}")

    # --- WebSockets ------------------------------------------------------------------------------------------------

    def websocket(self, path: str, *, query: Json, protocol: str) -> Any:
        """An open WebSocket of the `websocket` package."""
        import websocket

        credential = self._credential()
        context = tls_context(authority=self._authority, insecure=self._insecure, credential=credential)
        options: Json = {}
        if self.proxy:
            parts = urlsplit(self.proxy)
            options |= {"http_proxy_host": parts.hostname, "http_proxy_port": parts.port or 80, "http_no_proxy": [""]}
            options |= {"http_proxy_auth": (parts.username, parts.password or "")} if parts.username else {}
            options["sslopt"] = {"context": context, "server_hostname": self._name}
        else:  # a socket of our own: the package would read the proxies of this process
            options["socket"] = self._socket(context)
        return websocket.create_connection(
            "ws" + self._url(path, query).removeprefix("http"),
            timeout=READ_SECONDS,
            header=[f"{name}: {value}" for name, value in credential.headers.items()],
            subprotocols=[protocol],
            suppress_origin=True,
            **options,
        )

    @property
    def _name(self) -> str:
        """Name in the server's certificate."""
        return self.tls_server_name or urlsplit(self.server).hostname or ""

    def _socket(self, context: ssl.SSLContext) -> socket.socket:
        parts = urlsplit(self.server)
        secure = parts.scheme == "https"
        address = (parts.hostname or "", parts.port or (443 if secure else 80))
        plain = socket.create_connection(address, timeout=READ_SECONDS)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return context.wrap_socket(plain, server_hostname=self._name) if secure else plain
        except BaseException:
            plain.close()
            raise
