"""The way to a Kubernetes API server: kubeconfigs as kubectl reads them, TLS, retries, and port-forwards."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import urllib3
import websocket
import yaml

from hyperpod_ray.core.proxies import proxy_of
from hyperpod_ray.guard.kubernetes import Kubernetes as InPod
from hyperpod_ray.ops.errors import ApiError, OpsError, explain
from hyperpod_ray.ops.reach import api_server
from hyperpod_ray.ops.reach.api_server import ApiServer
from hyperpod_ray.ops.reach.forward import ROOM, Relay
from hyperpod_ray.ops.reach.kubeconfig import Credential, Kubeconfig, tls_context
from hyperpod_ray_sandbox.aws import paths

Json = dict[str, Any]
MIB = 2**20

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
        self.retry_after = ""
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


def config(
    folder: Path,
    *,
    cluster: Json | None = None,
    user: Json | None = None,
    name: str = "config",
    current: str = "c",
    **more: Any,
) -> str:
    content = {
        "current-context": current,
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://api.example.com/", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
    }
    (folder / name).write_text(yaml.safe_dump({**content, **more}))
    return str(folder / name)


def plugin(folder: Path, text: str, **more: Any) -> Json:
    """A user whose credential comes from a program beside the kubeconfig."""
    (folder / "plugin").write_text(f"#!{sys.executable}\nimport json, os, sys\n{text}")
    (folder / "plugin").chmod(0o755)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "./plugin", **more}}


COUNTING = """
count = len(open(sys.argv[1]).read()) if os.path.exists(sys.argv[1]) else 0
open(sys.argv[1], "a").write("x")
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
status = {"token": f"{os.environ['PREFIX']}-{count}", **({"expirationTimestamp": sys.argv[2]} if sys.argv[2:] else {})}
print(json.dumps({"kind": "ExecCredential", "apiVersion": info["apiVersion"], "status": status}))
"""


def bearer(config: Kubeconfig, **options: Any) -> str:
    return config.credential(**options).headers["Authorization"]


# --- kubeconfigs ------------------------------------------------------------------------------------------------------


def test_a_plugin_is_asked_once_while_its_token_is_good(tmp_path: Path) -> None:
    user = plugin(
        tmp_path, COUNTING, args=[str(tmp_path / "n"), "2999-01-01T00:00:00Z"], env=[{"name": "PREFIX", "value": "t"}]
    )
    read = Kubeconfig(config(tmp_path, user=user))
    assert [bearer(read), bearer(read), bearer(read, renewed=True), bearer(read)] == [
        "Bearer t-0", "Bearer t-0", "Bearer t-1", "Bearer t-1",
    ]  # fmt: skip


@pytest.mark.parametrize("until", ["2001-01-01T00:00:00Z", "2001-01-01T00:00:00+09:00"])
def test_a_plugin_is_asked_again_when_its_token_expires(tmp_path: Path, until: str) -> None:
    user = plugin(tmp_path, COUNTING, args=[str(tmp_path / "n"), until], env=[{"name": "PREFIX", "value": "t"}])
    read = Kubeconfig(config(tmp_path, user=user))
    assert [bearer(read), bearer(read)] == ["Bearer t-0", "Bearer t-1"]


def test_a_server_that_no_longer_knows_the_token_gets_a_new_one(tmp_path: Path, plain: Answering) -> None:
    user = plugin(tmp_path, COUNTING, args=[str(tmp_path / "n")], env=[{"name": "PREFIX", "value": "t"}])
    read = Kubeconfig(config(tmp_path, user=user))
    plain.statuses = [401, 200]
    api = ApiServer(plain.url, read.credential)
    assert json.loads(api.send("GET", "/api", query={}, headers={})) == {"message": "said 200"}
    assert [asked["headers"]["Authorization"] for asked in plain.asked] == ["Bearer t-0", "Bearer t-1"]


def test_certificates_tokens_and_files_beside_the_kubeconfig(tmp_path: Path, certificates: Path) -> None:
    for file in ("ca", "client", "key"):
        (tmp_path / f"{file}.pem").write_bytes((certificates / f"{file}.pem").read_bytes())
    (tmp_path / "token").write_text("from-a-file\n")
    user = {"client-certificate": "client.pem", "client-key": "key.pem", "tokenFile": "token", "token": "older"}
    read = Kubeconfig(config(tmp_path, cluster={"certificate-authority": "ca.pem"}, user=user))
    assert read.authority.startswith("-----BEGIN CERTIFICATE")
    credential = read.credential()
    assert credential.headers == {"Authorization": "Bearer from-a-file"}
    assert "BEGIN CERTIFICATE" in credential.certificate
    assert "BEGIN PRIVATE KEY" in credential.key
    assert "PRIVATE" not in repr(credential)
    (tmp_path / "token").write_text("renewed")
    assert bearer(read) == "Bearer renewed"


def test_several_files_are_one_and_the_first_has_its_way(tmp_path: Path) -> None:
    first = config(tmp_path, user={"token": "first"}, name="first", clusters=[])
    second = config(tmp_path, user={"token": "second"}, name="second", current="other")
    read = Kubeconfig(f"{tmp_path}/absent:{first}:{second}")
    assert (read.server, bearer(read)) == ("https://api.example.com", "Bearer first")


@pytest.mark.parametrize(
    ("user", "headers"),
    [
        ({"username": "jane", "password": "p:w"}, {"Authorization": f"Basic {base64.b64encode(b'jane:p:w').decode()}"}),
        (
            {"token": "t", "as": "system:masters", "as-groups": ["g"]},
            {"Authorization": "Bearer t", "Impersonate-User": "system:masters", "Impersonate-Group": "g"},
        ),
        (None, {}),
    ],
)
def test_who_asks(tmp_path: Path, user: Json | None, headers: Json) -> None:
    assert Kubeconfig(config(tmp_path, user=user)).credential().headers == headers


WRONG: list[tuple[Json, str]] = [
    ({"user": {"auth-provider": {"name": "gcp"}}}, "auth-provider"),
    ({"user": {"as": "x", "as-groups": ["a", "b"]}}, "more than a user and a group"),
    ({"user": {"client-certificate-data": base64.b64encode(b"x").decode()}}, "one of client certificate and key"),
    ({"user": {"client-key-data": "%%%"}}, "no base64"),
    ({"user": {"tokenFile": "nowhere"}}, "tokenFile"),
    ({"cluster": {"server": "api.example.com"}}, "'api.example.com'"),
    ({"clusters": []}, "no cluster 'k'"),
    ({"users": [{"name": "other"}]}, "no user 'u'. Expected a name of `users`: other"),
    ({"current": ""}, "no current context"),
    ({"user": {"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}}}, "v1alpha1"),
    ({"user": {"exec": {"command": "no-such-program", "apiVersion": "client.authentication.k8s.io/v1",
                        "installHint": "get it"}}}, "'no-such-program' cannot be started"),
    ({"user": {"exec": {"command": "true", "apiVersion": "client.authentication.k8s.io/v1",
                        "interactiveMode": "Always"}}}, "asks questions"),
    ({"user": {"exec": {"command": "true", "apiVersion": "client.authentication.k8s.io/v1"}}}, "no ExecCredential"),
    ({"user": {"exec": {"command": "false", "apiVersion": "client.authentication.k8s.io/v1"}}}, "ended with 1"),
    ({"user": {"exec": {"command": "echo", "args": ['{"status": {}}'],
                        "apiVersion": "client.authentication.k8s.io/v1"}}}, "gives no credential"),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "said"), WRONG, ids=[said for _, said in WRONG])
def test_what_cannot_be_used_is_refused(
    tmp_path: Path, settings: Json, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(OpsError) as error:
        Kubeconfig(config(tmp_path, **settings)).credential()
    assert said in error.value.message
    assert error.value.message.startswith("KUBECONFIG cannot be used: ")
    assert "unset KUBECONFIG" in error.value.fix


def test_a_file_that_is_no_kubeconfig(tmp_path: Path) -> None:
    for text, said in (("[1]", "no mapping"), ("a: [", "cannot be read"), ("", "no file at")):
        (tmp_path / "x").write_text(text)
        with pytest.raises(OpsError, match=said):
            Kubeconfig(str(tmp_path / "x"))


# --- TLS --------------------------------------------------------------------------------------------------------------


def server_side(certificates: Path, *, asks: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.pem")
    if asks:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificates / "ca.pem")
    return context


def nobody(**_: Any) -> Credential:
    return Credential()


def ask(server: Answering, credential: Any = nobody, **options: Any) -> bytes:
    return ApiServer(server.url, credential, **options).send("GET", "/version", query={}, headers={})


def test_an_authority_as_eks_makes_it_is_accepted_by_every_python(
    certificates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.13 and newer set VERIFY_X509_STRICT, which refuses it."""
    usual = ssl.create_default_context

    def strict(**options: Any) -> ssl.SSLContext:
        context = usual(**options)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)
    authority = (certificates / "ca.pem").read_text()
    with answering(server_side(certificates)) as server:
        address = ("127.0.0.1", server.server_address[1])
        with socket.create_connection(address) as raw, pytest.raises(ssl.SSLCertVerificationError, match="Identifier"):
            strict(cadata=authority).wrap_socket(raw, server_hostname="127.0.0.1")
        assert ask(server, authority=authority)
        (tmp_path / "ca.crt").write_text(authority)
        (tmp_path / "token").write_text("t")
        variables = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(address[1])}
        with pytest.raises(KeyError, match="items"):  # it answered
            InPod(folder=tmp_path, environment=variables).nodes()


def test_a_certificate_of_another_authority_or_name_is_refused(certificates: Path) -> None:
    authority = (certificates / "ca.pem").read_text()
    with answering(server_side(certificates)) as server:
        for options in ({}, {"authority": authority, "tls_server_name": "other.example.com"}):
            with pytest.raises(Exception, match="CERTIFICATE_VERIFY_FAILED") as error:
                ask(server, **options)
            known = explain(error.value)
            assert known is not None
            assert "the Kubernetes API is unreachable" in known.message
        assert not server.asked
        assert ask(server, authority=authority, tls_server_name="api.example.com")
        assert ask(server, insecure=True)


def test_a_client_certificate_is_shown(certificates: Path) -> None:
    credential = Credential(
        certificate=(certificates / "client.pem").read_text(), key=(certificates / "key.pem").read_text()
    )
    authority = (certificates / "ca.pem").read_text()
    with answering(server_side(certificates, asks=True)) as server:
        assert ask(server, lambda **_: credential, authority=authority)
        assert (("commonName", "jane"),) in server.asked[0]["peer"]["subject"]
        with pytest.raises(urllib3.exceptions.HTTPError):
            ask(server, authority=authority)
        assert len(server.asked) == 1


def test_an_own_name_goes_with_it_through_a_tunnel(certificates: Path) -> None:
    authority = (certificates / "ca.pem").read_text()
    direct = ApiServer("https://api.example.com:8443", nobody, authority=authority, proxy="http://proxy:1")
    with answering(server_side(certificates)) as server:
        tunnelled = direct.through(server.url)
        assert tunnelled.proxy == ""
        assert tunnelled.tls_server_name == "api.example.com"
        assert tunnelled.send("GET", "/version", query={}, headers={})


# --- requests ---------------------------------------------------------------------------------------------------------


def test_reading_is_tried_again_and_writing_is_not(plain: Answering, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_server, "BACKOFF_SECONDS", 0)
    api = ApiServer(plain.url, nobody)
    plain.statuses = [503, 429, 200]
    assert api.send("GET", "/x", query={"labelSelector": "a=b,c", "limit": 5}, headers={})
    assert plain.asked[-1]["path"] == "/x?labelSelector=a%3Db%2Cc&limit=5"
    assert len(plain.asked) == 3
    plain.statuses = [503, 200]
    with pytest.raises(ApiError) as error:
        api.send("PATCH", "/x", query={}, headers={"Content-Type": "application/merge-patch+json"}, body={"a": 1})
    assert (error.value.status, json.loads(error.value.body)["message"]) == (503, "said 503")
    assert plain.asked[-1]["body"] == '{"a": 1}'
    assert plain.asked[-1]["headers"]["Content-Type"] == "application/merge-patch+json"
    plain.statuses = [500] * 9
    with pytest.raises(ApiError, match="500"):
        api.send("GET", "/x", query={}, headers={})
    plain.statuses = [302]
    with pytest.raises(ApiError, match="302"):
        api.send("GET", "/x", query={}, headers={})


def test_a_proxy_is_used_except_for_this_machine(plain: Answering, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", plain.url)
    monkeypatch.setenv("NO_PROXY", ".internal")
    assert proxy_of("https://x.eks.amazonaws.com") == plain.url
    assert [proxy_of(url) for url in ("https://127.0.0.1:1", "https://localhost", "https://a.internal")] == [""] * 3
    assert ApiServer("https://a.internal", nobody, proxy=plain.url).proxy == plain.url
    plain.statuses = [502] * 9
    api = ApiServer("https://x.eks.amazonaws.com", nobody)
    monkeypatch.setattr(api_server, "RETRIES", 0)
    with pytest.raises(Exception, match=r"(?i)proxy|tunnel"):
        api.send("GET", "/version", query={}, headers={})
    with pytest.raises(websocket.WebSocketException):
        api.websocket("/x", query={}, protocol="p")
    assert [(asked["method"], asked["path"]) for asked in plain.asked] == [("CONNECT", "x.eks.amazonaws.com:443")] * 2


# --- the relay --------------------------------------------------------------------------------------------------------


class Pod:
    """The far side of a port-forward: a real WebSocket whose other end this test drives."""

    def __init__(self) -> None:
        ours, self.end = socket.socketpair()
        self.socket = websocket.WebSocket()
        self.socket.sock, self.socket.connected = ours, True
        self.near, self.person = socket.socketpair()
        self.relay = Relay(self.near, self.socket, port=80)
        self._thread = threading.Thread(target=self.relay.run)

    def start(self) -> None:
        for channel in (0, 1):
            self.say(bytes([channel]) + (80).to_bytes(2, "little"))
        self._thread.start()

    def say(self, payload: bytes, *, code: int = 2, fin: int = 1) -> None:
        frame = websocket.ABNF(fin, 0, 0, 0, code, 0, payload)
        self.end.sendall(frame.format())

    def ended(self) -> Relay:
        self._thread.join(60)
        assert not self._thread.is_alive()
        self.relay.close()
        return self.relay


def read(end: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        part = end.recv(length - len(data))
        assert part, len(data)
        data += part
    return data


def unmasked(end: socket.socket) -> tuple[int, bytes]:
    """The next frame that the relay sent."""
    first, second = read(end, 2)
    length = second & 0x7F
    length = int.from_bytes(read(end, {126: 2, 127: 8}[length]), "big") if length > 125 else length
    mask = read(end, 4)
    return first & 0xF, bytes(byte ^ mask[at % 4] for at, byte in enumerate(read(end, length)))


def test_both_ways_at_once_though_each_side_writes_before_it_reads() -> None:
    pod = Pod()
    pod.start()
    block = bytes(range(256)) * 256
    sent = [threading.Thread(target=pod.person.sendall, args=(block * 48,))]

    def answer() -> None:
        for _ in range(48):
            pod.say(b"\0" + block)

    sent.append(threading.Thread(target=answer))
    for thread in sent:
        thread.start()
    assert read(pod.person, 48 * len(block)) == block * 48
    received = 0
    while received < 48 * len(block):
        code, data = unmasked(pod.end)
        assert (code, data[0]) == (2, 0)
        received += len(data) - 1
    for thread in sent:
        thread.join(60)
    pod.person.close()
    assert not pod.ended().ended


def test_a_ping_is_answered_between_frames_and_parts_are_one_message() -> None:
    pod = Pod()
    pod.start()
    pod.say(b"here", code=9)
    assert unmasked(pod.end) == (10, b"here")
    pod.say(b"\0he", fin=0)
    pod.say(b"llo", code=0)
    assert read(pod.person, 5) == b"hello"
    pod.say(b"\1no route to pod")
    relay = pod.ended()
    assert (relay.ended, relay.error) == (True, "no route to pod")
    assert pod.person.recv(1) == b""


def test_what_the_pod_sent_last_arrives_though_it_has_gone() -> None:
    pod = Pod()
    pod.start()
    last = b"x" * (ROOM // 2)
    pod.say(b"\0" + last)
    pod.end.close()
    assert read(pod.person, len(last)) == last
    assert pod.ended().ended


def test_a_reader_that_is_slow_stops_the_pod_and_not_the_memory() -> None:
    pod = Pod()
    pod.start()
    pod.end.settimeout(2)
    with pytest.raises(TimeoutError):
        for _ in range(64):
            pod.say(b"\0" + b"x" * MIB)
    assert len(pod.relay._to_near) <= ROOM + 2 * MIB
    pod.person.close()
    pod.ended()


def test_a_message_of_another_port_ends_it() -> None:
    pod = Pod()
    pod.say(b"\0\x01\x00")
    with pytest.raises(OSError, match="began with channel 0"):
        pod.relay.run()
    pod.relay.close()


def test_keys_are_nowhere_on_disk_afterwards(
    certificates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    certificate, key = ((certificates / f"{file}.pem").read_text() for file in ("client", "key"))
    tls_context(credential=Credential(certificate=certificate, key=key))
    assert list(tmp_path.iterdir()) == []
