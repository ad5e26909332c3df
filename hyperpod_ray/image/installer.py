"""The sha256 of AWS's EFA installer, of a file or as its site has it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import urllib3

from hyperpod_ray.image.registry import TIMEOUT_S, way_to
from hyperpod_ray.image.versions import ImageError

SITE = "https://efa-installer.amazonaws.com"
CHUNK = 1024 * 1024
LEAST, MOST = 1_000_000, 4_000_000_000
"""Bytes of an installer: an error page is shorter, and nothing longer is read."""


def sha256_of(version: str, *, file: Path | None = None, site: str = SITE) -> str:
    """The sha256 of an installer, read once and kept nowhere.

    Args:
        file: One that was downloaded before. Default: the site's.

    Raises:
        ImageError: It cannot be read, or is no installer.
    """
    name = f"aws-efa-installer-{version}.tar.gz"
    source = str(file or f"{site}/{name}")
    if file is not None and file.name != name:
        raise ImageError(
            source, expected=f"{name}, the version of versions.yaml", fix="name that file, or correct efa.version"
        )
    content, size, magic = hashlib.sha256(), 0, b""
    try:
        for part in _of_file(file) if file else _of_site(source):
            magic, size = magic or part[:2], size + len(part)
            content.update(part)
            if size > MOST:
                break
    except (OSError, urllib3.exceptions.HTTPError) as error:
        raise ImageError(
            f"{source}: {type(error).__name__}: {error}",
            expected="the installer",
            fix="check the network and the proxy, or download it elsewhere and give --file",
        ) from None
    if not LEAST <= size <= MOST or magic != b"\x1f\x8b":
        raise ImageError(
            f"{source}: {size:,} bytes that begin with {magic!r}",
            expected=f"a gzip archive of {LEAST:,} to {MOST:,} bytes",
            fix="correct efa.version in hyperpod_ray/image/versions.yaml",
        )
    return content.hexdigest()


def _of_file(file: Path) -> Iterator[bytes]:
    with file.open("rb") as stream:
        while part := stream.read(CHUNK):
            yield part


def _of_site(url: str) -> Iterator[bytes]:
    answer = way_to(url).request("GET", url, timeout=TIMEOUT_S, preload_content=False)
    try:
        if answer.status != 200:
            raise OSError(f"{answer.status} {answer.reason}")
        yield from answer.stream(CHUNK)
    finally:
        answer.close()
