"""How a checkpoint's bytes get to storage: `shared` (a mounted file system), `fsspec` (S3 and others) or `tiered`.

`tiered` lives in its own module, because its package is optional. With it the run's folder holds a small pointer per
checkpoint, which counts once the tier said done.
"""

from __future__ import annotations

import json

import torch
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter, StorageReader, StorageWriter
from torch.distributed.checkpoint._fsspec_filesystem import FsspecReader, FsspecWriter
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.storage import WriteResult

from resilience.errors import InputError
from resilience.faults import FaultHooks
from resilience.folder import CHECKSUMS, RunFolder

WRITERS = ("auto", "shared", "fsspec", "tiered")


class _Noted:
    """Mixed into a DCP writer: notes each file's CRC-32 before the checkpoint can count; carries the fault hooks."""

    folder: RunFolder
    name: str
    note_rank: int
    hooks: FaultHooks

    def note(self, *, folder: RunFolder, name: str, rank: int, hooks: FaultHooks) -> None:
        self.folder, self.name, self.note_rank, self.hooks = folder, name, rank, hooks

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> torch.futures.Future[list[WriteResult]]:
        """Write this rank's shard, then the note of its checksums; `.metadata` follows only when all ranks did."""
        self.hooks.in_save("before-shard")
        try:
            written: torch.futures.Future[list[WriteResult]] = super().write_data(plan, planner)  # type: ignore[misc]
        except Exception as error:
            raise system_error_in(error) from error
        files = {result.storage_data.relative_path for result in written.value()}
        noted = {file: self.folder.crc(self.name, file) for file in sorted(files)}
        path = self.folder.at(self.name, CHECKSUMS.format(rank=self.note_rank))
        self.folder.fs.pipe_file(path, json.dumps(noted).encode())
        self.hooks.in_save("after-shard")
        return written

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Coordinator only: the completeness mark, last of all."""
        self.hooks.in_save("before-metadata")
        super().finish(metadata, results)  # type: ignore[misc]


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


def kind_for(folder: RunFolder, asked: str) -> str:
    """The writer to use: `auto` is `shared` on a mounted path, else `fsspec`. InputError for an unknown name."""
    if asked not in WRITERS:
        raise InputError(f"writer: got {asked!r}, allowed: {', '.join(WRITERS)}")
    if asked == "shared" and not folder.local:
        raise InputError(
            f"writer shared: got storage {folder.url}, allowed: a mounted path; use writer fsspec or tiered"
        )
    return ("shared" if folder.local else "fsspec") if asked == "auto" else asked


def writer_for(*, kind: str, folder: RunFolder, name: str, rank: int, hooks: FaultHooks) -> StorageWriter:
    """A DCP storage writer for one checkpoint of kind `shared` or `fsspec`."""
    writer: SharedWriter | ObjectWriter
    if kind == "shared":
        writer = SharedWriter(folder.at(name), overwrite=False)
    else:
        writer = ObjectWriter(f"{folder.url}/{name}", overwrite=False)
    writer.note(folder=folder, name=name, rank=rank, hooks=hooks)
    return writer


def reader_for(folder: RunFolder, name: str) -> StorageReader:
    """A DCP storage reader for one checkpoint of the run's folder."""
    return FileSystemReader(folder.at(name)) if folder.local else FsspecReader(f"{folder.url}/{name}")
