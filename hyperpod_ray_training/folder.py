"""The folder of a run, `<storage>/<name>`: which checkpoints in it are complete, what Ray's snapshot says, what may go.

A checkpoint is a folder `step-<8 digits>-<attempt>`. The attempt makes the name unique per start of the worker group: a
frozen host that thaws after it was replaced keeps writing into its own folder and can never spoil the one that
counts. It is complete when DCP's `.metadata`, written last and renamed into place, exists and every file it names has
the length it says. Everything else does not count.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import stat
import tempfile
import time
import zlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec

from hyperpod_ray_training.errors import InputError
from hyperpod_ray_training.room import advice

SNAPSHOT = "checkpoint_manager_snapshot.json"
METADATA = ".metadata"
ABOUT = "about.json"
POINTER = "tiered.json"
CHECKSUMS = "checksums-{rank}.json"
_NAME = re.compile(r"step-(\d{8})-([0-9a-f]{6})")
_CHUNK_BYTES = 8 << 20


@dataclass(frozen=True, order=True)
class Found:
    """One checkpoint folder; orders by step, then by name."""

    step: int
    name: str


@dataclass(frozen=True)
class Snapshot:
    """What Ray's checkpoint manager wrote down: the folders it answers for and the Ray version that can read it."""

    ray_version: str | None
    names: frozenset[str]


def checkpoint_name(*, step: int, attempt: str) -> str:
    """The folder name of a checkpoint, for example `step-00000120-3fa9c1`."""
    return f"step-{step:08d}-{attempt}"


class RunFolder:
    """Reads and tidies one run's folder on any file system fsspec knows (a mounted path, `s3://…`)."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.fs, self.path = fsspec.core.url_to_fs(self.url)
        self.local = "file" in (self.fs.protocol if isinstance(self.fs.protocol, tuple) else (self.fs.protocol,))

    def at(self, *parts: str) -> str:
        """Path of something in the run's folder, as the file system expects it."""
        return "/".join([self.path, *parts])

    def checkpoints(self) -> list[Found]:
        """Every checkpoint folder, complete or not, newest first."""
        self.fs.invalidate_cache()
        if not self.fs.isdir(self.path):
            return []
        names = [path.rstrip("/").rsplit("/", 1)[-1] for path in self.fs.ls(self.path, detail=False)]
        checkpoints = [Found(int(match[1]), name) for name in names if (match := _NAME.fullmatch(name))]
        return sorted(checkpoints, reverse=True)

    def about(self, name: str) -> dict[str, Any]:
        """What was noted beside a checkpoint: step, metrics, world size; empty where it cannot be read."""
        try:
            about = json.loads(self.fs.cat_file(self.at(name, ABOUT)))
        except (OSError, ValueError):
            return {}
        return about if isinstance(about, dict) else {}

    def note(self, name: str, file: str, content: dict[str, Any]) -> None:
        """Write a small JSON file into a checkpoint's folder, creating the folder."""
        self.fs.makedirs(self.at(name), exist_ok=True)
        self.fs.pipe_file(self.at(name, file), json.dumps(content, default=str).encode())

    def keep(self, name: str, file: str, content: bytes) -> None:
        """Write a file of a checkpoint so that it outlives a power cut: synced, and its folder too."""
        if not self.local:
            self.fs.pipe_file(self.at(name, file), content)
            return
        handle = os.open(self.at(name, file), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        self.sync(name)

    def sync(self, name: str) -> None:
        """Make a checkpoint's entries durable: without it a power cut may leave a synced file without a name."""
        if not self.local:
            return
        for path in (self.at(name), self.path):
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def files_of(self, name: str) -> dict[str, int]:
        """File name to least length, from the checkpoint's `.metadata`."""
        from hyperpod_ray_training.metadata import read  # imports torch

        metadata = read(self.fs.cat_file(self.at(name, METADATA)))
        ends: dict[str, int] = {}
        for info in metadata.storage_data.values():
            ends[info.relative_path] = max(ends.get(info.relative_path, 0), info.offset + info.length)
        return ends

    def why_unusable(self, name: str) -> str | None:
        """None for a complete checkpoint, else what is missing; reads `.metadata` and the file sizes, no data."""
        if self.fs.exists(self.at(name, POINTER)):
            return None  # the tier answers for the bytes; the pointer was written after it said done
        if not self.fs.exists(self.at(name, METADATA)):
            return "unfinished: no .metadata, which is written last"
        try:
            files = self.files_of(name)
        except Exception as error:
            return f".metadata cannot be read ({type(error).__name__}: {error})"
        for file, min_bytes in files.items():
            try:
                size = self.fs.size(self.at(name, file))
            except OSError:
                return f"{file} is missing"
            if size < min_bytes:
                return f"{file} has {size} bytes, {min_bytes} expected"
        return None

    def why_foreign(self, name: str) -> str | None:
        """None where nobody but this process' user or root can have written a checkpoint, else who could.

        State is unpickled, and a pickle runs what its writer put into it. The run's folder counts too: who may rename
        in it may put another checkpoint into the place of one. Groups are trusted as the file system has them. Object
        storage tells no owners, nor does a file system that gives all files to one user.
        """
        if not self.local or not _tells_owners(self.path):
            return None
        run, this_user = Path(self.path), os.geteuid()
        for place in (run, run / name, *(run / name).iterdir()):
            for about in (place.lstat(), place.stat()):
                if about.st_uid not in {0, this_user}:
                    return f"foreign: {place} is of user {about.st_uid}, and this process of user {this_user}"
                shared = about.st_mode & stat.S_IWOTH and not about.st_mode & stat.S_ISVTX
                if shared and not stat.S_ISLNK(about.st_mode):
                    return f"foreign: everybody may write {place}"
        return None

    def spoilt_files(self, name: str, *, rank: int, world: int) -> list[str]:
        """Files of this rank's share that are not what was written: another CRC-32 than noted, or no note.

        The note is on storage before a checkpoint can count, so a missing one is damage too.
        """
        if self.fs.exists(self.at(name, POINTER)):
            return []
        noted: dict[str, int] = {}
        for path in sorted(self.fs.glob(self.at(name, CHECKSUMS.format(rank="*")))):
            noted.update(json.loads(self.fs.cat_file(path)))
        problems = []
        for file in sorted(self.files_of(name))[rank::world]:
            if file not in noted:
                problems.append(f"{file} has no CRC-32 noted in {CHECKSUMS.format(rank='N')}")
            elif (got := self.crc(name, file)) != noted[file]:
                problems.append(f"{file} has CRC-32 {got:08x}, {noted[file]:08x} expected")
        return problems

    def crc(self, name: str, file: str) -> int:
        """CRC-32 of one file."""
        value = 0
        with self.fs.open(self.at(name, file), "rb") as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                value = zlib.crc32(chunk, value)
        return value

    def snapshot(self) -> Snapshot | None:
        """Ray's snapshot, None where there is none; ValueError where it cannot be read (a write cut short)."""
        path = self.at(SNAPSHOT)
        if not self.fs.exists(path):
            return None
        content = json.loads(self.fs.cat_file(path))
        if not isinstance(content, dict):
            raise ValueError(f"not an object: {type(content).__name__}")
        results = content.get("checkpoint_results")
        names = {str(result.get("checkpoint_dir_name")) for result in results} if isinstance(results, list) else set()
        return Snapshot(ray_version=content.get("ray_version"), names=frozenset(names))

    def set_snapshot_aside(self) -> str:
        """Rename the snapshot so that Ray starts a new one; the checkpoints stay. Returns the new name."""
        aside = f"{SNAPSHOT}.{int(time.time())}"
        self.fs.mv(self.at(SNAPSHOT), self.at(aside))
        return aside

    def remove_unfinished(self, *, keep_attempt: str, among: Collection[str] | None = None) -> list[str]:
        """Delete folders that earlier attempts left incomplete and return their names.

        Never touches a complete checkpoint, one that Ray's snapshot names (it would refuse to start), or this
        attempt's.

        Args:
            keep_attempt: Suffix of this attempt's folders.
            among: Names to look at. Default: all that are there.
        """
        try:
            snapshot = self.snapshot()
        except ValueError:
            return []
        named = snapshot.names if snapshot else frozenset()
        removed = []
        for checkpoint in self.checkpoints():
            if (
                checkpoint.name in named
                or checkpoint.name.endswith(keep_attempt)
                or self.why_unusable(checkpoint.name) is None
            ):
                continue
            if among is not None and checkpoint.name not in among:
                continue
            try:
                self.fs.rm(self.at(checkpoint.name), recursive=True)
            except OSError:
                continue  # another rank or Ray's own pruning was there first
            removed.append(checkpoint.name)
        return removed

    def make_room(self, *, keep: int) -> None:
        """Take the content of complete checkpoints beyond the newest `keep`, so that the next save has room.

        Their folders stay: Ray counts them, and removes them when it hears of the next checkpoint. What a tier holds
        stays too, and so does all on object storage, which is never full.
        """
        complete = [each.name for each in self.checkpoints() if self.local and self.why_unusable(each.name) is None]
        for name in complete[keep:]:
            if self.fs.exists(self.at(name, POINTER)):
                continue
            with contextlib.suppress(OSError):  # Ray was there first
                Path(self.at(name, METADATA)).unlink()  # from here on it counts for nobody
                for path in Path(self.at(name)).iterdir():
                    shutil.rmtree(path) if path.is_dir() else path.unlink()

    def remove_failed(self, name: str) -> None:
        """Delete this attempt's folder of a save that failed, to give a full disk its room back."""
        if self.why_unusable(name) is not None and self.fs.exists(self.at(name)):
            self.fs.rm(self.at(name), recursive=True)


def _tells_owners(folder: str) -> bool:
    """Whether what this process writes into a folder is its own; a folder that it only reads is taken at its word."""
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            return os.fstat(probe.fileno()).st_uid == os.geteuid()
    except OSError:
        return True


def check_writable(folder: RunFolder) -> None:
    """Create the run's folder and a probe file in it; InputError in words where that fails."""
    probe = folder.at(f".writable-{time.time_ns()}")
    try:
        folder.fs.makedirs(folder.path, exist_ok=True)
        folder.fs.pipe_file(probe, b"probe" * 1024)
        folder.fs.rm_file(probe)
    except OSError as error:
        raise InputError(
            f"storage: {folder.url} cannot be written ({error.strerror or error})",
            expected="a path that every node can write, for example the shared file system's mount",
            fix=advice(error, folder.path) or "check the mount, its owner and its free space",
        ) from error


def names_missing(folder: RunFolder, names: Iterable[str]) -> list[str]:
    """Those checkpoint folders that do not exist."""
    return sorted(name for name in names if not folder.fs.exists(folder.at(name)))
