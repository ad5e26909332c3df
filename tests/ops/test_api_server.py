"""The way to a Kubernetes API server: kubeconfigs as kubectl reads them, TLS, retries, and port-forwards."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest
import urllib3
import websocket

from hyperpod_ray.core.proxies import proxy_of
from hyperpod_ray.guard.kubernetes import Kubernetes as InPod
from hyperpod_ray.ops.errors import ApiError, explain
from hyperpod_ray.ops.reach import api_server
from hyperpod_ray.ops.reach.api_server import ApiServer
from hyperpod_ray.ops.reach.forward import ROOM, Relay
from hyperpod_ray.ops.reach.kubeconfig import Credential
from tests.ops.api_server_helpers import Answering, answering, read

MIB = 2**20


# --- kubeconfigs ------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_credentials_follow_no_redirect(plain: Answering, status: int) -> None:
    with answering() as elsewhere:
        plain.statuses, plain.location = [status], f"{elsewhere.url}/x"
        with pytest.raises(ApiError) as refused:
            ApiServer(plain.url, nobody).send("GET", "/x", query={}, headers={})
        assert refused.value.status == status
        assert (len(plain.asked), elsewhere.asked) == (1, [])


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
