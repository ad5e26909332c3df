"""How a checkpoint's bytes get to storage: `shared` (a mounted file system), `fsspec` (S3 and others) or `tiered`.

`tiered` lives in its own module, because its package is optional. With it the run's folder holds a small pointer per
checkpoint, which counts once the tier said done.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter, StorageReader, StorageWriter
from torch.distributed.checkpoint._fsspec_filesystem import FsspecReader, FsspecWriter
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.storage import WriteResult

from hyperpod_ray_training.errors import InputError
from hyperpod_ray_training.faults import FaultHooks
from hyperpod_ray_training.folder import CHECKSUMS, METADATA, RunFolder
from hyperpod_ray_training.metadata import read

WRITERS = ("auto", "shared", "fsspec", "tiered")


class _Sum:
    """A stream that sums up what it is given, before the file system has had a hand on it."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.crc = inner, 0

    def write(self, data: Any) -> int:
        self.crc = zlib.crc32(data, self.crc)
        return int(self.inner.write(data))

    def __getattr__(self, name: str) -> Any:
        if name in {"seek", "truncate", "writelines"}:
            # a CRC of bytes in another order than the file's would call a good shard damaged
            raise AttributeError(f"a checkpoint's stream is written from front to back; {name} is not possible")
        return getattr(self.inner, name)


class _Summing:
    """DCP's file system; notes the CRC-32 of every file while it is written."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.sums: dict[str, int] = {}

    @contextlib.contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Iterator[Any]:
        with self.inner.create_stream(path, mode) as stream:
            if mode != "wb":
                yield stream
                return
            summed = _Sum(stream)
            yield summed
        self.sums[Path(path).name] = summed.crc

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class _Noted:
    """Mixed into a DCP writer: notes each file's CRC-32 before the checkpoint can count; carries the fault hooks.

    The CRC-32 is of the bytes that DCP hands over. Reading the shard back would bless a byte spoilt on the way, and
    read every checkpoint once more from the shared file system.
    """

    folder: RunFolder
    name: str
    note_rank: int
    hooks: FaultHooks
    fs: Any

    def note(self, *, folder: RunFolder, name: str, rank: int, hooks: FaultHooks) -> None:
        self.folder, self.name, self.note_rank, self.hooks = folder, name, rank, hooks
        self.fs = _Summing(self.fs)

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> torch.futures.Future[list[WriteResult]]:
        """Write this rank's shard, then the note of its checksums; `.metadata` follows only when all ranks did."""
        self.hooks.in_save("before-shard")
        try:
            self.hooks.at_shard()
            written: torch.futures.Future[list[WriteResult]] = super().write_data(plan, planner)  # type: ignore[misc]
        except Exception as error:
            raise system_error_in(error) from error
        noted = {file: self.fs.sums[file] for file in sorted({w.storage_data.relative_path for w in written.value()})}
        self.folder.keep(self.name, CHECKSUMS.format(rank=self.note_rank), json.dumps(noted).encode())
        self.hooks.in_save("after-shard")
        return written

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Coordinator only: the completeness mark, last of all."""
        self.hooks.in_save("before-metadata")
        super().finish(metadata, results)  # type: ignore[misc]
        self.folder.sync(self.name)  # the rename that makes it count, and the folder's own entry


class SharedWriter(_Noted, FileSystemWriter):
    """Every rank writes its shard straight into the run's folder on the shared file system, synced to disk."""


class ObjectWriter(_Noted, FsspecWriter):
    """The same through fsspec, for object storage (`s3fs` must be installed for `s3://`)."""


def system_error_in(error: BaseException) -> BaseException:
    """The OSError at the root of `error`, else `error`: torch hides a full disk behind "PytorchStreamWriter failed".

    Only the outermost exception of another rank arrives here, so the rank itself must put the cause outermost.
    """
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, OSError):
            return OSError(inner.errno, inner.strerror or str(inner))
        inner = inner.__cause__ or inner.__context__
    return error


def kind_for(folder: RunFolder, writer: str) -> str:
    """The writer to use: `auto` is `shared` on a mounted path, else `fsspec`. InputError for an unknown name."""
    if writer not in WRITERS:
        raise InputError(f"writer: {writer!r}", expected=f"one of {', '.join(WRITERS)}", fix="correct the setting")
    if writer == "shared" and not folder.local:
        raise InputError(
            f"writer shared: storage {folder.url}", expected="a mounted path", fix="use writer fsspec or tiered"
        )
    return ("shared" if folder.local else "fsspec") if writer == "auto" else writer


def writer_for(*, writer_kind: str, folder: RunFolder, name: str, rank: int, hooks: FaultHooks) -> StorageWriter:
    """A DCP storage writer for one checkpoint of kind `shared` or `fsspec`."""
    writer: SharedWriter | ObjectWriter
    if writer_kind == "shared":
        writer = SharedWriter(folder.at(name), overwrite=False)
    else:
        # an object store has no file to sync; torch would sync the whole machine instead
        writer = ObjectWriter(f"{folder.url}/{name}", overwrite=False, sync_files=folder.local)
    writer.note(folder=folder, name=name, rank=rank, hooks=hooks)
    return writer


class _Reading:
    """Mixed into a DCP reader: its metadata names nothing but what DCP writes."""

    folder: RunFolder
    name: str
    load_id: str

    def read_metadata(self, *_: Any, **__: Any) -> Metadata:
        """The checkpoint's `.metadata`."""
        content = read(self.folder.fs.cat_file(self.folder.at(self.name, METADATA)))
        content.storage_meta = content.storage_meta or StorageMeta()
        content.storage_meta.load_id = self.load_id
        return content


class SharedReader(_Reading, FileSystemReader):
    """Reads from a mounted file system."""


class ObjectReader(_Reading, FsspecReader):
    """Reads through fsspec."""


def reader_for(folder: RunFolder, name: str) -> StorageReader:
    """A DCP storage reader for one checkpoint of the run's folder."""
    reader = SharedReader(folder.at(name)) if folder.local else ObjectReader(f"{folder.url}/{name}")
    reader.folder, reader.name = folder, name
    return reader
