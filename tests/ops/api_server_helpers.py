"""What tests of `api_server`, `kubeconfig`, `scale` share."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_sandbox.aws import paths

Json = dict[str, Any]
# an authority as EKS makes it: no Authority Key Identifier anywhere
AUTHORITY = """
import datetime, ipaddress, sys
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
now = datetime.datetime.now(datetime.timezone.utc)
def name(text): return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])
def signed(subject, issuer, key, signer, *extensions):
    made = x509.CertificateBuilder().subject_name(name(subject)).issuer_name(name(issuer)).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=1))
    made = made.not_valid_after(now + datetime.timedelta(days=1))
    for extension in extensions: made = made.add_extension(extension, critical=False)
    return made.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
def pem(key): return key.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
root, server, person = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
loopback = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
names = x509.SubjectAlternativeName([x509.DNSName("api.example.com"), loopback])
files = {"ca": signed("kubernetes", "kubernetes", root, root, x509.BasicConstraints(True, None)),
         "server": signed("api", "kubernetes", server, root, names) + pem(server),
         "client": signed("jane", "kubernetes", person, root), "key": pem(person)}
for file, content in files.items(): open(f"{sys.argv[1]}/{file}.pem", "wb").write(content)
"""


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    subprocess.run([str(paths.VENV / "bin" / "python"), "-c", AUTHORITY, str(folder)], check=True)
    return folder


class Answering(ThreadingHTTPServer):
    """A server that answers with what its list of statuses says next, and keeps what it was asked."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.asked: list[Json] = []
        self.statuses: list[int] = []
        self.retry_after = self.location = ""
        super().__init__(("127.0.0.1", 0), _Handler)
        if context:
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


class _Handler(BaseHTTPRequestHandler):
    server: Answering

    def _any(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        peer = self.connection.getpeercert() if isinstance(self.connection, ssl.SSLSocket) else None
        asked = {"method": self.command, "path": self.path, "headers": dict(self.headers), "peer": peer}
        self.server.asked.append({**asked, "body": self.rfile.read(length).decode()})
        status = self.server.statuses.pop(0) if self.server.statuses else 200
        body = json.dumps({"message": f"said {status}"}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if self.server.retry_after and status != 200:
            self.send_header("Retry-After", self.server.retry_after)
        if self.server.location and 300 <= status < 400:
            self.send_header("Location", self.server.location)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PATCH = do_DELETE = do_POST = do_CONNECT = _any

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def answering(context: ssl.SSLContext | None = None) -> Iterator[Answering]:
    server = Answering(context)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def plain() -> Iterator[Answering]:
    with answering() as server:
        yield server


def read(end: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        part = end.recv(length - len(data))
        assert part, len(data)
        data += part
    return data
