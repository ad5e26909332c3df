"""The base image's digest, from a registry on loopback that speaks the protocol: challenge, token, manifest."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from hyperpod_ray.cli.main import main
from hyperpod_ray.image import recording
from hyperpod_ray.image import registry as registry_module
from hyperpod_ray.image.registry import digest
from hyperpod_ray.image.versions import FILE, ImageError, choose, read, record_digest

ROOT = Path(__file__).parents[2]
BASE = "docker.io/rayproject/ray"
INDEX = "application/vnd.oci.image.index.v1+json"
BOTH = [{"platform": {"os": "linux", "architecture": one}} for one in ("amd64", "arm64")]


def manifest(platforms: list[dict[str, dict[str, str]]]) -> bytes:
    return json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": platforms}).encode()


class Registry:
    """Hands out a token for one repository and a manifest for whoever brings it."""

    def __init__(self) -> None:
        self.body = manifest(BOTH)
        self.headers: dict[str, str] = {}
        self.challenge: str | None = None
        self.anonymous = False
        self.asked: list[str] = []
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.answer(self)

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.asked.append(handler.path)
        parts = urlsplit(handler.path)
        if parts.path == "/token":
            query = parse_qs(parts.query)
            known = query == {"service": ["registry"], "scope": ["repository:rayproject/ray:pull"]}
            self.send(handler, 200 if known else 400, json.dumps({"token": "for-everyone"}).encode())
        elif not self.anonymous and handler.headers.get("Authorization") != "Bearer for-everyone":
            challenge = self.challenge or (
                f'Bearer realm="{self.url}/token",service="registry",scope="repository:rayproject/ray:pull"'
            )
            self.send(handler, 401, b"{}", {"WWW-Authenticate": challenge})
        elif parts.path == "/v2/rayproject/ray/manifests/2.60.0":
            assert INDEX in handler.headers["Accept"]
            self.send(handler, 200, self.body, {"Content-Type": INDEX, **self.headers})
        else:
            self.send(handler, 404, b'{"errors": [{"code": "MANIFEST_UNKNOWN"}]}')

    def send(
        self, handler: BaseHTTPRequestHandler, code: int, body: bytes, headers: dict[str, str] | None = None
    ) -> None:
        handler.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)


@pytest.fixture
def registry() -> Iterator[Registry]:
    made = Registry()
    threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.mark.parametrize("anonymous", [False, True])
def test_the_digest_is_that_of_the_manifest_which_came(registry: Registry, anonymous: bool) -> None:
    registry.anonymous = anonymous
    assert digest(BASE, "2.60.0", mirror=registry.url) == "sha256:" + hashlib.sha256(registry.body).hexdigest()
    assert len(registry.asked) == (1 if anonymous else 3)


def test_a_registry_that_contradicts_itself_is_refused(registry: Registry) -> None:
    registry.headers = {"Docker-Content-Digest": "sha256:" + "0" * 64}
    with pytest.raises(ImageError, match="Expected sha256:0000"):
        digest(BASE, "2.60.0", mirror=registry.url)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (manifest(BOTH[1:]), "only for linux/arm64. Expected linux/amd64"),
        (manifest([]), "only for nothing"),
        (b"<html>", "is not JSON"),
        (b"[]", "is not JSON"),
        (b" " * 4_000_001, "Expected at most 4,000,000 bytes"),
    ],
)
def test_answers_that_are_no_use(registry: Registry, body: bytes, message: str) -> None:
    registry.body = body
    with pytest.raises(ImageError, match=message):
        digest(BASE, "2.60.0", mirror=registry.url)


def test_an_unknown_tag_is_named(registry: Registry) -> None:
    with pytest.raises(ImageError, match=r"docker.io/rayproject/ray:9.9. Expected a tag of http.*correct `tag`"):
        digest(BASE, "9.9", mirror=registry.url)


@pytest.mark.parametrize(
    ("challenge", "message"),
    [
        ('Basic realm="private"', "requires credentials"),
        ('Bearer realm="http://registry.example/token"', "Expected https://"),
        ('Bearer realm="{url}/token",service="another"', "Expected an anonymous token"),
    ],
)
def test_challenges_that_are_not_followed(registry: Registry, challenge: str, message: str) -> None:
    registry.challenge = challenge.format(url=registry.url)
    with pytest.raises(ImageError, match=message):
        digest(BASE, "2.60.0", mirror=registry.url)


def test_plain_http_leaves_this_machine_never() -> None:
    with pytest.raises(ImageError, match="Expected https://"):
        digest(BASE, "2.60.0", mirror="http://mirror.example")


def test_nobody_there_is_one_line() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # taken, but nobody listens
        with pytest.raises(ImageError, match=r".*refused"):
            digest(BASE, "2.60.0", mirror=f"http://127.0.0.1:{bound.getsockname()[1]}")


def test_a_registry_that_hangs_up_is_asked_once(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever runs the command decides whether to ask again; urllib3 says each time that it does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        asked = []

        def hang_up() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                asked.append(connection.recv(4096))
                connection.close()

        threading.Thread(target=hang_up, daemon=True).start()
        with pytest.raises(ImageError, match="Expected an answer"):
            digest(BASE, "2.60.0", mirror=f"http://127.0.0.1:{server.getsockname()[1]}")
        assert len(asked) == 1
        server.shutdown(socket.SHUT_RDWR)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with caplog.at_level("DEBUG", logger="urllib3"), pytest.raises(ImageError, match="refused"):
            digest(BASE, "2.60.0", mirror=f"http://127.0.0.1:{bound.getsockname()[1]}")
    assert not [record for record in caplog.records if "Retrying" in record.getMessage()]


@pytest.mark.parametrize("linked", ["__cause__", "__context__"])
def test_the_innermost_reason_is_named(monkeypatch: pytest.MonkeyPatch, linked: str) -> None:
    """Python links errors in two ways: `raise … from`, and while another is handled."""
    errors = [OSError("outer"), ValueError("middle"), OSError("certificate has expired\nmore of it")]
    for outer, inner in pairwise(errors):
        setattr(outer, linked, inner)

    def no_way(url: str) -> None:
        raise errors[0]

    monkeypatch.setattr(registry_module, "way_to", no_way)
    with pytest.raises(ImageError, match=r"registry\.example: certificate has expired\. Expected an answer"):
        digest(BASE, "2.60.0", mirror="https://registry.example")


def test_a_digest_is_recorded_once_and_then_guarded(tmp_path: Path) -> None:
    file = tmp_path / "versions.yaml"
    shutil.copy(FILE, file)
    name = read(file)[0]
    first, second = "sha256:" + "1a" * 32, "sha256:" + "2b" * 32

    def current() -> object:
        return read(file)[1][name]

    assert "commit it" in record_digest(read(file)[1][name], first, file=file)
    sharing = {key for key, one in read(FILE)[1].items() if one.origin == name}
    others = [one.digest for key, one in read(file)[1].items() if key not in sharing]
    assert {read(file)[1][key].digest for key in sharing} == {first}
    assert others == [one.digest for key, one in read(FILE)[1].items() if key not in sharing]
    changed = [a for a, b in zip(FILE.read_text().splitlines(), file.read_text().splitlines(), strict=True) if a != b]
    assert len(changed) == 1, "comments and all else stay"
    assert "still" in record_digest(read(file)[1][name], first, file=file)
    before = current()
    with pytest.raises(ImageError, match=r"the tag was moved.*hyperpod-ray image pin --update"):
        record_digest(read(file)[1][name], second, file=file)
    assert current() == before
    record_digest(read(file)[1][name], second, update=True, file=file)
    assert read(file)[1][name].digest == second


def test_the_command_says_in_one_line_what_is_wrong(registry: Registry) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "hyperpod_ray.cli", "image", *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    before = FILE.read_bytes()
    failed = run("pin", "--only", "base", "--mirror", registry.url)  # it knows another tag only
    assert (failed.returncode, failed.stderr.count("\n")) == (1, 2)
    assert choose().tag in failed.stderr
    wrong = run("pin", "cu99")
    assert (wrong.returncode, wrong.stderr) == (
        2,
        "error: image set: 'cu99'. Expected one of cu130, cu128, cu130-transformers, cu128-transformers\n"
        "Fix: correct the name\n",
    )
    assert FILE.read_bytes() == before


def test_a_part_out_of_reach_leaves_the_others_recorded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unreachable(*_: object, **__: object) -> list[str]:
        raise ImageError("registry: no answer", expected="an answer", fix="open the network")

    monkeypatch.setattr(recording, "base", unreachable)
    monkeypatch.setattr(recording, "installer", lambda *_, **__: ["installer: recorded"])
    monkeypatch.setattr(recording, "copies", lambda **_: ["copies: recorded"])
    assert main(["image", "pin"]) == 1
    said = capsys.readouterr()
    assert said.out == "installer: recorded\ncopies: recorded\n"
    assert said.err == "error: registry: no answer. Expected an answer\nFix: open the network\n"
    assert main(["image", "pin", "--only", "copies"]) == 0
    assert capsys.readouterr().out == "copies: recorded\n"
