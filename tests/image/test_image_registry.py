"""The base image's digest, from a registry on loopback that speaks the protocol: challenge, token, manifest."""

from __future__ import annotations

import hashlib
import socket
import threading
from itertools import pairwise

import pytest

from hyperpod_ray.image import registry as registry_module
from hyperpod_ray.image.registry import digest
from hyperpod_ray.image.versions import ImageError
from tests.image.image_registry_helpers import BOTH, Registry, manifest

BASE = "docker.io/rayproject/ray"


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
