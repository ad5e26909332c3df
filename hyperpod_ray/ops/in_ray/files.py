"""Makes a folder's files readable through Ray's dashboard: `python -m hyperpod_ray_job.files KEY FOLDER [PATTERN...]`.

Ray's dashboard serves the files of a node's log folder to who has its token, and follows links that leave that folder.
So the folder is linked there, and one line of JSON says what it has: name, bytes and CRC-32 of each file. A file of a
checkpoint has the CRC-32 that was noted when training wrote it; another file is read for it. Links of earlier days are
removed. Who may do this may submit any job, which reads the same files.
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import sys
import time
import zlib
from pathlib import Path
from typing import Any

MARK = "HYPERPOD-RAY-RUNS "
LINKS = "hyperpod-ray-pull"
KEPT_SECONDS = 86_400
CHUNK_BYTES = 8 << 20


class DamagedError(ValueError):
    """What training noted of its files cannot be read, so that nothing says whether they are whole."""


def checksums(name: str, content: bytes) -> dict[str, int]:
    """CRC-32 by file name, as training noted them in a file.

    Raises:
        DamagedError: The file has something else.
    """
    try:
        noted = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{name} is damaged: {type(error).__name__}") from None
    if not isinstance(noted, dict):
        raise DamagedError(f"{name} is damaged: {type(noted).__name__} in place of an object")
    for file, crc in noted.items():
        if isinstance(crc, bool) or not isinstance(crc, int) or not 0 <= crc < 1 << 32:
            raise DamagedError(f"{name} is damaged: the checksum of {file[:80]!r} is no CRC-32")
    return noted


def listing(folder: Path, patterns: list[str]) -> list[dict[str, Any]]:
    """The files below a folder, by name: all, or those that one of the patterns fits."""
    noted: dict[str, int] = {}
    for note in sorted(folder.glob("checksums-*.json")):
        if note.is_file():  # reading a pipe that somebody put there has no end
            noted.update(checksums(note.name, note.read_bytes()))
    entries = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and (not patterns or any(fnmatch.fnmatch(name, pattern) for pattern in patterns)):
            crc = noted[name] if name in noted else crc_of(path)
            entries.append({"name": name, "bytes": path.stat().st_size, "crc32": crc})
    return entries


def crc_of(path: Path) -> int:
    """CRC-32 of a file."""
    value = 0
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            value = zlib.crc32(chunk, value)
    return value


def link(logs: Path, folder: Path, key: str) -> str:
    """Link the folder into the log folder; returns the name there."""
    links = logs / LINKS
    links.mkdir(exist_ok=True)
    for stale in links.iterdir():
        with contextlib.suppress(OSError):
            if stale.is_symlink() and time.time() - stale.lstat().st_mtime > KEPT_SECONDS:
                stale.unlink()
    (links / key).symlink_to(folder, target_is_directory=True)
    return f"{LINKS}/{key}"


def main(arguments: list[str]) -> int:
    """Link and list."""
    key, name, *patterns = arguments
    folder = Path(name)
    logs = Path("/proc/self/fd/1").readlink().parent
    content: dict[str, Any] = {"found": folder.is_dir(), "files": [], "link": ""}
    if folder.is_dir():
        try:
            content |= {"files": listing(folder, patterns), "link": link(logs, folder, key)}
        except DamagedError as error:
            content["damaged"] = str(error)
    sys.stdout.write(f"{MARK}{json.dumps(content)}\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
