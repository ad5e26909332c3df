"""Chart archives: read without trusting them, written the same to the last byte every time."""

from __future__ import annotations

import io
import struct
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from hyperpod_ray.charts.errors import ChartError

MAX_BYTES = 64 * 1024 * 1024
"""Unpacked size beyond which an archive is refused; the largest chart used here has about 5 MB."""
MAX_FILES = 5000

Tree = dict[str, bytes]
"""Files of a chart: relative POSIX path → content. Modes and times carry no meaning in a chart and are omitted."""


def read(data: bytes, *, name: str) -> Tree:
    """The files of a `.tgz` or `.tar`. ChartError on anything but plain files and folders inside the archive."""
    tree: Tree = {}
    total = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:*") as archive:
            for member in archive:
                path = PurePosixPath(member.name)
                if path.is_absolute() or ".." in path.parts or "\\" in member.name or "\0" in member.name:
                    raise ChartError(
                        f"{name}: {member.name!r} leads out of the archive",
                        expected="paths within it",
                        fix="use another archive; this one is refused",
                    )
                if member.isdir():
                    continue
                if not member.isreg():
                    raise ChartError(
                        f"{name}: {member.name!r} is a link or device",
                        expected="files and folders",
                        fix="use another archive; this one is refused",
                    )
                total += member.size
                if total > MAX_BYTES or len(tree) >= MAX_FILES:
                    raise ChartError(
                        f"{name}: more than {MAX_BYTES} bytes or {MAX_FILES} files when unpacked",
                        expected="no more",
                        fix="use another archive; this one is refused",
                    )
                stream = archive.extractfile(member)
                tree[str(path)] = stream.read() if stream else b""
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise ChartError(
            f"{name}: not a whole archive ({error})",
            expected="a .tgz of a chart",
            fix="remove the file and run `hyperpod-ray charts fetch`",
        ) from error
    if not tree:
        raise ChartError(
            f"{name}: nothing in the archive",
            expected="a .tgz of a chart",
            fix="remove the file and run `hyperpod-ray charts fetch`",
        )
    return tree


def below(tree: Mapping[str, bytes], folder: str, *, name: str) -> Tree:
    """The files under `folder`, with paths relative to it."""
    prefix = folder.strip("/") + "/"
    files = {path[len(prefix) :]: data for path, data in tree.items() if path.startswith(prefix)}
    if not files:
        raise ChartError(
            f"{name}: no folder {folder!r} in it",
            expected="the folder of the chart",
            fix="correct the source's path in the lock",
        )
    return files


def pack(tree: Mapping[str, bytes], *, top: str) -> bytes:
    """A `.tgz` of the files under the folder `top`: sorted, times, owners and modes fixed.

    The gzip stream is stored, not compressed: what deflate makes of the same input differs between zlib builds, and the
    digest must not.
    """
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(tree):
            member = tarfile.TarInfo(f"{top}/{path}")
            member.size = len(tree[path])
            member.mode = 0o644
            archive.addfile(member, io.BytesIO(tree[path]))
    return b"".join(_stored_gzip(out.getvalue()))


def _stored_gzip(data: bytes) -> Iterator[bytes]:
    """RFC 1952 header without time or name, RFC 1951 stored blocks, checksum and length."""
    yield b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
    for start in range(0, len(data), 0xFFFF):
        block = data[start : start + 0xFFFF]
        is_last = start + 0xFFFF >= len(data)
        yield struct.pack("<BHH", is_last, len(block), 0xFFFF - len(block)) + block
    yield struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF)
