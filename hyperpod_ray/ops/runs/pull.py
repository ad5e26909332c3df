"""`runs pull`: a checkpoint, or other files of a run, to this machine.

Three sources. Files on the shared file system come through Ray's dashboard, by the same port forward and token as the
Jobs API. Files in S3 come from S3, with your own credentials. Files of this machine (`--here`) are copied. What arrives
is compared with the CRC-32 that was noted when training wrote it. The folder gets its name when all of it is there;
until then it is `NAME.partial`, and the same command continues it.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hyperpod_ray.core.amounts import duration
from hyperpod_ray.ops import orchestrators, output
from hyperpod_ray.ops.errors import BAD_USE, CONDITION_FALSE, OK, OpsError
from hyperpod_ray.ops.in_ray import files as reader
from hyperpod_ray.ops.journal.run_state import Mode, State
from hyperpod_ray.ops.orchestrators.run_files import ABOUT, CHUNK_BYTES, File, Opened, files_of, undamaged
from hyperpod_ray.ops.orchestrators.run_list import Source
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach.clients import AnyTarget
from hyperpod_ray.ops.runs import listing as runs

LIST_SECONDS = 3600
STREAM_SECONDS = 86_400
TRIES = 5
WAIT_SECONDS = 2.0
SAY_SECONDS = 10.0
ROOM = 1.01
"""Free space that is needed, as a factor of what is left to copy."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is pulled of a run."""

    best: str = ""
    """Metric of the best checkpoint."""
    mode: Mode = "min"
    step: int | None = None
    """Step of the checkpoint. Default: the newest complete one."""
    files: tuple[str, ...] = ()
    """Patterns of files below the run's folder, in place of a checkpoint."""


@dataclass(frozen=True, kw_only=True)
class Pulled:
    """A copy that is whole."""

    run: str
    source: str
    files: Sequence[File]
    copied: int
    """Bytes that came now; the others were there before."""

    @property
    def bytes(self) -> int:
        """All of it."""
        return sum(file.bytes for file in self.files)


def run(target: AnyTarget, name: str, *, selection: Wanted, to: Path, source: Source, form: Format) -> int:
    """Find it, compare space, copy, verify, name it."""
    pulled = fetch(target, name, selection=selection, to=to, source=source)
    if form is Format.json:
        data = {"environment": target.name, "run": pulled.run, "source": pulled.source, "folder": str(to)}
        output.write_json("pull", {**data, "bytes": pulled.bytes, "files": [asdict(file) for file in pulled.files]})
        return OK
    output.write_line(str(to))
    sizes = f"{pulled.bytes / 2**20:,.1f} MiB, {pulled.copied / 2**20:,.1f} MiB of it copied now"
    output.log(f"{len(pulled.files)} files, {sizes}; verified")
    return OK


def fetch(target: AnyTarget, name: str, *, selection: Wanted, to: Path, source: Source) -> Pulled:
    """Copy and verify."""
    require_free_name(to)
    state = _state(target, name, source=source)
    folder = state.folder if selection.files else _checkpoint(state, selection)
    with _opened(target, folder, patterns=selection.files, source=source) as (files, read):
        if not files:
            raise OpsError(
                f"{folder}: no file" + (f" fits {', '.join(selection.files)}" if selection.files else ""),
                expected="files of the run",
                fix="correct --file, or pull again: training deletes old checkpoints",
                code=CONDITION_FALSE,
            )
        copied = _copy(files, read, to=to, of=folder)
    return Pulled(run=state.training.name, source=folder, files=files, copied=copied)


def checkpoint_of(target: AnyTarget, name: str, *, selection: Wanted, source: Source) -> str:
    """The folder of a run's checkpoint, where the run wrote it."""
    return _checkpoint(_state(target, name, source=source), selection)


def _state(target: AnyTarget, name: str, *, source: Source) -> State:
    """What the folder of a run says.

    Raises:
        OpsError: There is no such folder.
    """
    (pulled_run,), states = runs.seen(target, source, names=[name])
    state = states.get(pulled_run.folder)
    if state is None:
        raise OpsError(
            f"{pulled_run.name or pulled_run.id}: nothing in {pulled_run.folder or '?'}",
            expected="a run folder, which the training library writes",
            fix="name the run in the job (--name), and train with hyperpod_ray_training.Run",
            code=CONDITION_FALSE,
        )
    return state


def require_free_name(to: Path) -> None:
    """Refuse a folder that is there, and a place that is none."""
    if to.exists():
        raise OpsError(
            f"--to: {to} exists", expected="a new folder", fix="name another one, or remove it", code=BAD_USE
        )
    if not to.absolute().parent.is_dir():
        raise OpsError(
            f"--to: {to.absolute().parent} does not exist",
            expected="a folder for the new one",
            fix="create it, or correct --to",
            code=BAD_USE,
        )


def _checkpoint(state: State, selection: Wanted) -> str:
    """The folder of the checkpoint that is meant."""
    complete = [checkpoint for checkpoint in state.checkpoints if checkpoint.complete]
    name = state.training.name
    if selection.step is not None:
        for checkpoint in complete:
            if checkpoint.step == selection.step:
                return checkpoint.path
        raise OpsError(
            f"{name} has no complete checkpoint of step {selection.step}",
            expected=f"one of {', '.join(str(checkpoint.step) for checkpoint in complete)}"
            if complete
            else "a checkpoint",
            fix="correct --step, or wait: training deletes old checkpoints and writes new ones",
            code=CONDITION_FALSE,
        )
    if selection.best:
        best = state.best(selection.best, selection.mode)
        if best is None:
            metrics = sorted({key for checkpoint in complete for key in checkpoint.metrics})
            raise OpsError(
                f"{name} has no complete checkpoint with the metric '{selection.best}'",
                expected=f"one of {', '.join(metrics)}" if metrics else "a checkpoint that reports metrics",
                fix="correct --best, or take --last",
                code=CONDITION_FALSE,
            )
        return best.path
    if state.last is None:
        raise OpsError(
            f"{name} has no complete checkpoint",
            expected="one",
            fix="wait for the first save; `runs show` says when it is there",
            code=CONDITION_FALSE,
        )
    return state.last.path


# ---- the three sources ----


@contextlib.contextmanager
def _opened(target: AnyTarget, folder: str, *, patterns: Sequence[str], source: Source) -> Iterator[Opened]:
    if source.here:
        directory = Path(folder)
        with undamaged(folder):
            listed = reader.listing(directory, list(patterns))
        yield files_of(listed), lambda name: _local(directory / name)
    elif folder.startswith("s3://"):
        yield _in_s3(target, folder, patterns=patterns)
    elif "://" in folder:
        raise OpsError(
            f"{folder}: a store that this command does not read",
            expected="a folder of the shared file system, or s3://BUCKET/PREFIX",
            fix="use that store's own tool",
            code=BAD_USE,
        )
    else:
        with orchestrators.of(target).runs.files(folder, patterns, source) as opened:
            yield opened


@contextlib.contextmanager
def _local(path: Path) -> Iterator[Iterator[bytes]]:
    with path.open("rb") as stream:
        yield iter(lambda: stream.read(CHUNK_BYTES), b"")


def _in_s3(target: AnyTarget, folder: str, *, patterns: Sequence[str]) -> Opened:
    """Objects below a prefix, by your own credentials."""
    import fnmatch

    from botocore.exceptions import BotoCoreError, ClientError

    bucket, _, prefix = folder.removeprefix("s3://").partition("/")
    prefix = f"{prefix.strip('/')}/"
    s3 = target.aws.client("s3")
    listed = target.aws.pages("s3", "list_objects_v2", "Contents", Bucket=bucket, Prefix=prefix)
    sizes = {obj["Key"].removeprefix(prefix): int(obj["Size"]) for obj in listed if not obj["Key"].endswith("/")}
    noted: dict[str, int] = {}
    for name in sorted(fnmatch.filter(sizes, "checksums-*.json")):
        content = s3.get_object(Bucket=bucket, Key=prefix + name)["Body"].read()
        with undamaged(folder):
            noted.update(reader.checksums(name, content))

    @contextlib.contextmanager
    def read(name: str) -> Iterator[Iterator[bytes]]:
        try:
            with contextlib.closing(s3.get_object(Bucket=bucket, Key=prefix + name)["Body"]) as body:
                yield body.iter_chunks(CHUNK_BYTES)
        except (BotoCoreError, ClientError) as error:
            raise ConnectionError(str(error)) from error

    names = [
        name for name in sorted(sizes) if not patterns or any(fnmatch.fnmatch(name, pattern) for pattern in patterns)
    ]
    return files_of([{"name": name, "bytes": sizes[name], "crc32": noted.get(name)} for name in names]), read


# ---- copying ----


def _copy(
    files: Sequence[File], read: Callable[[str], AbstractContextManager[Iterator[bytes]]], *, to: Path, of: str
) -> int:
    """Copy what is not there yet, and name the folder. Returns the bytes that were copied now."""
    partial = to.with_name(f"{to.name}.partial")
    about = {"source": of, "files": [asdict(file) for file in files]}
    _begin(partial, about)
    remaining = [file for file in files if not _is_there(partial / file.name, file)]
    needed, free = sum(file.bytes for file in remaining), shutil.disk_usage(partial).free
    if needed * ROOM > free:
        raise OpsError(
            f"{partial.parent}: {free / 2**30:,.2f} GiB are free",
            expected=f"{needed * ROOM / 2**30:,.2f} GiB, for {len(remaining)} files",
            fix="free space, or name a folder on another disk; the same command continues",
            code=CONDITION_FALSE,
        )
    if len(remaining) < len(files):
        output.log(f"{len(files) - len(remaining)} of {len(files)} files are in {partial} already")
    progress = _Progress(needed)
    for file in remaining:
        _fetch(file, read, partial / file.name, progress=progress)
    (partial / ABOUT).unlink()
    partial.rename(to)
    return needed


def _begin(partial: Path, about: dict[str, Any]) -> None:
    """Make the folder for what is under way, or take up one of the same source."""
    note = partial / ABOUT
    if partial.exists():
        try:
            same = json.loads(note.read_text(encoding="utf-8")) == about
        except (OSError, ValueError):
            same = False
        if not same:
            raise OpsError(
                f"{partial} has something else",
                expected=f"nothing, or what is there of {about['source']}",
                fix="remove it, or name another folder",
                code=BAD_USE,
            )
        return
    partial.mkdir()
    note.write_text(json.dumps(about), encoding="utf-8")


def _is_there(path: Path, file: File) -> bool:
    """Whether a file arrived before: it gets its name after it was verified."""
    return path.is_file() and path.stat().st_size == file.bytes


def _fetch(file: File, read: Callable[[str], Any], path: Path, *, progress: _Progress) -> None:
    """One file, verified, in a few tries. It gets its name last."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    for tries_left in reversed(range(TRIES)):
        try:
            _receive(file, read, part, progress=progress)
            part.replace(path)
            return
        except OSError as error:
            if not tries_left:
                raise OpsError(
                    f"{file.name} did not arrive in {TRIES} tries: {error}",
                    expected="all of it",
                    fix="run the command again: it continues; training may have deleted the checkpoint",
                ) from None
            output.log(f"{file.name}: {error}; once more")
            time.sleep(WAIT_SECONDS)


def _receive(file: File, read: Callable[[str], Any], part: Path, *, progress: _Progress) -> None:
    size = value = 0
    begun = progress.done
    with part.open("wb") as stream:
        if file.bytes:  # an empty one is not asked for
            with read(file.name) as chunks:
                for chunk in chunks:
                    stream.write(chunk)
                    size, value = size + len(chunk), zlib.crc32(chunk, value)
                    progress.at(begun + size)
    problem = ""
    if size != file.bytes:
        problem = f"{size} bytes of {file.bytes}"
    elif file.crc32 is not None and value != file.crc32:
        problem = f"CRC-32 {value:08x}, {file.crc32:08x} noted"
    if problem:
        progress.done = begun
        raise OSError(problem)


class _Progress:
    """Says from time to time how far it is, and how long it takes."""

    def __init__(self, total: int) -> None:
        self.total, self.done = total, 0
        self.begun = self.said = time.monotonic()

    def at(self, done: int) -> None:
        """So many bytes have arrived."""
        self.done, now = done, time.monotonic()
        if now - self.said > SAY_SECONDS:
            self.said = now
            rate = done / (now - self.begun)
            remaining = duration((self.total - done) / rate) if rate else "?"
            output.log(
                f"{done / 2**30:,.2f} of {self.total / 2**30:,.2f} GiB, {rate / 2**20:,.0f} MiB/s, {remaining} left"
            )
