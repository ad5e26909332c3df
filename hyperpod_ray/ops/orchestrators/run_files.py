"""Files of a run, wherever they are."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from hyperpod_ray.ops.errors import CONDITION_FALSE, OpsError
from hyperpod_ray.ops.in_ray import files as reader

CHUNK_BYTES = 1 << 20
ABOUT = ".pull.json"
"""What a copy that is under way notes of its source, in the new folder."""


@dataclass(frozen=True, kw_only=True)
class File:
    """One file of what is pulled."""

    name: str
    """Below the folder, with `/`."""
    bytes: int
    crc32: int | None
    """Noted when it was written; None where S3's own checksum is all there is."""


Opened = tuple[list[File], Callable[[str], AbstractContextManager[Iterator[bytes]]]]
"""The files of a folder, and what opens one by its name."""


@contextlib.contextmanager
def undamaged(folder: str) -> Iterator[None]:
    """Refuse a folder whose checksums are damaged: nothing says that its files are those that training wrote."""
    try:
        yield
    except reader.DamagedError as error:
        raise OpsError(
            f"{folder}: {error}",
            expected="the CRC-32 of each file, as training wrote them",
            fix="pull another checkpoint: `runs show -o json` lists them, --step names one",
            code=CONDITION_FALSE,
        ) from None


def files_of(items: Sequence[dict[str, Any]]) -> list[File]:
    """What was listed; a name that leads out of the folder is refused."""
    found = [File(name=str(item["name"]), bytes=int(item["bytes"]), crc32=item["crc32"]) for item in items]
    for file in found:
        path = PurePosixPath(file.name)
        if path.is_absolute() or ".." in path.parts or file.name == ABOUT:
            raise OpsError(
                f"the cluster lists a file '{file.name}'",
                expected="names below the folder",
                fix="look at the run's folder: something else writes into it",
            )
    return found
