"""Rows of Parquet files on S3 or a mounted file system, each once per epoch, through kills and changes of size.

    rows = Rows("s3://my-data/train/", global_batch=512, columns=["tokens"])
    for epoch in training.epochs(3):
        for batch in training.batches(rows):

An epoch's order is a pure function of files, seed and epoch: row groups in random order, rows in random order within
their row group. That order is cut into lanes. A step takes a few rows of each lane, and a rank reads the lanes that are
its own, each from its place on: nothing is read that is not used, and no state but the number of steps is kept.

`through` sends the rows through Ray Data, which runs the pipeline on any CPU of the cluster. Ray Data's own split of a
dataset drops rows that ranks cannot share evenly, and splits otherwise for another number of ranks; this does neither.
"""

from __future__ import annotations

import contextlib
import functools
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from pyarrow import fs

from hyperpod_ray_training.errors import InputError
from hyperpod_ray_training.exact import fingerprint_of, part_of, ranks_now, steps_of

_READERS, _LANES, _CHUNK_ROWS = 16, 64, 4096
_SUFFIX = ".parquet"


@dataclass(frozen=True)
class Unit:
    """A row group of a file."""

    path: str
    group: int
    rows: int


@functools.lru_cache(maxsize=8)
def units_of(source: str) -> tuple[Unit, ...]:
    """The row groups of all Parquet files below a folder, by name; of one file where `source` is one.

    Once in a process: survivors of a fault do not list the files again.
    """
    store, base = store_of(source)
    root = store.get_file_info(base)
    listed = (
        [root] if root.is_file else store.get_file_info(fs.FileSelector(base, recursive=True, allow_not_found=True))
    )
    files = sorted(info.path for info in listed if info.is_file and _is_data(info.path.removeprefix(base)))
    if not files:
        raise InputError(f"data: {source} has no file *{_SUFFIX}", expected="one or more", fix="correct the place")
    with ThreadPoolExecutor(_READERS) as pool:
        footers = pool.map(lambda path: pq.read_metadata(path, filesystem=store), files)
        return tuple(
            Unit(path, group, footer.row_group(group).num_rows)
            for path, footer in zip(files, footers, strict=True)
            for group in range(footer.num_row_groups)
            if footer.row_group(group).num_rows
        )


def _is_data(path: str) -> bool:
    """Whether a path below the folder is a Parquet file, and neither a file nor in a folder that is hidden."""
    parts = [part for part in path.split("/") if part]
    return path.endswith(_SUFFIX) and not any(part.startswith(("_", ".")) for part in parts) if parts else True


def store_of(url: str) -> tuple[Any, str]:
    """The file system of a place, and the path in it.

    S3 is asked in the pod's own Region first: without one, Arrow asks us-east-1 where the bucket is, which a closed
    network does not reach.
    """
    if "://" not in url:
        return fs.LocalFileSystem(), url.rstrip("/") or "/"
    region = os.environ.get("AWS_REGION")
    if region and url.startswith("s3://") and "?" not in url:
        store, path = fs.FileSystem.from_uri(f"{url}?region={region}")
        with contextlib.suppress(OSError):  # a bucket of another Region
            store.get_file_info(path)
            return store, path.rstrip("/")
    store, path = fs.FileSystem.from_uri(url)
    return store, path.rstrip("/")


@dataclass(frozen=True)
class Plan:
    """Which rows a rank reads in which step of an epoch."""

    source: str
    units: tuple[Unit, ...]
    columns: tuple[str, ...] | None
    global_batch: int
    lanes: int
    seed: int
    shuffle: bool
    epoch: int
    rank: int
    world: int

    @functools.cached_property
    def samples(self) -> int:
        """Rows of an epoch."""
        return sum(unit.rows for unit in self.units)

    @functools.cached_property
    def steps(self) -> int:
        """Steps of an epoch."""
        return steps_of(self.samples, global_batch=self.global_batch)

    @functools.cached_property
    def order(self) -> npt.NDArray[np.int64]:
        """The row groups in this epoch's order."""
        count = len(self.units)
        return _random(self.seed, self.epoch).permutation(count) if self.shuffle else np.arange(count)

    @functools.cached_property
    def begins(self) -> npt.NDArray[np.int64]:
        """Where each of them begins in the order of the epoch, and where the last one ends."""
        return np.concatenate([[0], np.cumsum([self.units[unit].rows for unit in self.order])])

    def ranges(self, start: int, stop: int) -> Iterator[tuple[int, ...]]:
        """Of each lane of this rank: its rows of the steps from `start` to before `stop`, in the epoch's order."""
        for lane in range(self.rank, self.lanes, self.world):
            span = part_of(lane, steps=self.lanes, samples=self.samples)
            # rows left over fall into another step for each lane, not all into one
            length, shift = span.stop - span.start, lane * self.steps // self.lanes
            yield tuple(span.start + (length * step + shift) // self.steps for step in (start, stop))

    def count(self, step: int) -> int:
        """Rows of this rank in a step."""
        return sum(bound - begin for begin, bound in self.ranges(step, step + 1))


class Reader:
    """Reads a plan's steps. It keeps the row group of each lane that is under way."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.store: Any = None
        self.kept: dict[int, pa.Table] = {}

    def step(self, step: int) -> pa.Table:
        """The rows of this rank in a step."""
        parts, needed = [], set()
        for begin, bound in self.plan.ranges(step, step + 1):
            row = begin
            while row < bound:
                at = int(np.searchsorted(self.plan.begins, row, side="right")) - 1
                start, stop = int(self.plan.begins[at]), min(bound, int(self.plan.begins[at + 1]))
                parts.append(self._unit(at).slice(row - start, stop - row))
                needed.add(at)
                row = stop
        self.kept = {at: table for at, table in self.kept.items() if at in needed}
        return pa.concat_tables(parts)

    def _unit(self, at: int) -> pa.Table:
        if at not in self.kept:
            plan, unit = self.plan, self.plan.units[self.plan.order[at]]
            if self.store is None:
                self.store, _ = store_of(plan.source)
            with self.store.open_input_file(unit.path) as file:
                table = pq.ParquetFile(file).read_row_group(unit.group, columns=plan.columns and list(plan.columns))
            if table.num_rows != unit.rows:
                raise InputError(
                    f"data: {unit.path} has changed since the run began",
                    expected="files that nobody writes to",
                    fix="write new files beside the old ones, and start the run again",
                )
            if plan.shuffle:
                table = table.take(_random(plan.seed, plan.epoch, int(plan.order[at])).permutation(unit.rows))
            self.kept[at] = table
        return self.kept[at]


def _random(*seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed)))


class Rows:
    """Batches of this rank: together with those of the other ranks each row once per epoch. For `training.batches`.

    Args:
        source: A folder with Parquet files, or one file: a mounted path, or `s3://BUCKET/PREFIX`.
        global_batch: Rows of a step over all ranks, 1 or more. It stays the same when the number of ranks changes.
        columns: Columns to read. Default: all.
        seed: Of the order.
        shuffle: False keeps the order of the files.
        lanes: Places that are read at the same time, over all ranks: a divisor of `global_batch`, and at least as many
            as there are ranks. A rank keeps one row group in memory for each of its lanes. Default: the largest divisor
            up to 64. Shares are equal where the number of ranks divides it.
        through: Takes Ray Data's dataset of this rank's rows, and returns the one to train on, such as
            `lambda data: data.map_batches(tokenize)`. It keeps the number of rows and their order.
        ahead: Steps that are read ahead, 1 or more.

    A batch is a dictionary: a tensor for each column of numbers, a list for any other.
    """

    def __init__(
        self,
        source: str,
        *,
        global_batch: int,
        columns: Sequence[str] | None = None,
        seed: int = 0,
        shuffle: bool = True,
        lanes: int | None = None,
        through: Callable[[Any], Any] | None = None,
        ahead: int = 2,
    ) -> None:
        divisor = max((n for n in range(1, _LANES + 1) if global_batch % n == 0), default=0)
        self.source, self.global_batch, self.columns = source, global_batch, tuple(columns) if columns else None
        self.seed, self.shuffle, self.lanes, self.through = seed, shuffle, lanes or divisor, through
        self.ahead, self.epoch, self.batch = ahead, 0, 0
        if global_batch < 1 or self.lanes < 1 or global_batch % self.lanes:
            raise InputError(
                f"data: {self.lanes} lanes and a global batch of {global_batch}",
                expected="a number of lanes that divides it",
                fix="correct lanes",
            )
        world = ranks_now()[1]
        if self.lanes < world:
            raise InputError(
                f"data: {self.lanes} lanes for {world} workers",
                expected="at least one lane for each worker",
                fix=f"set lanes to a multiple of {world} that divides the global batch",
            )
        self.units = units_of(source)
        if self.plan.samples < self.lanes:
            raise InputError(
                f"data: {source} has {self.plan.samples} rows",
                expected=f"at least one for each of the {self.lanes} lanes",
                fix="correct the place, or set fewer lanes",
            )

    @property
    def plan(self) -> Plan:
        """What this rank reads in the epoch under way."""
        rank, world = ranks_now()
        return Plan(
            source=self.source, units=self.units, columns=self.columns, global_batch=self.global_batch,
            lanes=self.lanes, seed=self.seed, shuffle=self.shuffle, epoch=self.epoch, rank=rank, world=world,
        )  # fmt: skip

    @property
    def fingerprint(self) -> int:
        """Of the files and their order."""
        return fingerprint_of(self.units, self.global_batch, self.lanes, self.seed, self.shuffle)

    def start(self, *, epoch: int, batch: int) -> None:
        """The next iterator is of this epoch, behind its first `batch` steps."""
        self.epoch, self.batch = epoch, batch

    def __len__(self) -> int:
        return self.plan.steps

    def __iter__(self) -> Iterator[dict[str, Any]]:
        plan, start_step = self.plan, self.batch
        if start_step >= plan.steps:
            return
        if self.through is not None:
            read = functools.partial(_through_ray_data, self.through, plan, start_step)
        else:
            read = functools.partial(_directly, plan, start_step)
        yield from _ahead(read, self.ahead)


def _directly(plan: Plan, start_step: int) -> Iterator[dict[str, Any]]:
    reader = Reader(plan)
    for step in range(start_step, plan.steps):
        yield _batch(reader.step(step))


def _through_ray_data(through: Callable[[Any], Any], plan: Plan, start_step: int) -> Iterator[dict[str, Any]]:
    import ray.data

    chunk_steps = max(1, _CHUNK_ROWS // plan.count(start_step))
    chunks = [
        {"first": at, "last": min(at + chunk_steps, plan.steps)} for at in range(start_step, plan.steps, chunk_steps)
    ]
    data = ray.data.from_items(chunks, override_num_blocks=len(chunks))
    data.context.execution_options.preserve_order = True
    data = through(data.map_batches(functools.partial(_chunk, plan), batch_size=1, batch_format="pyarrow"))
    blocks = iter(data.iter_batches(batch_size=None, batch_format="pyarrow"))
    rest: list[pa.Table] = []
    for step in range(start_step, plan.steps):
        row_count = plan.count(step)
        while sum(table.num_rows for table in rest) < row_count:
            block = next(blocks, None)
            _require_as_many(block is not None, plan, step)
            rest.append(block)
        merged = pa.concat_tables(rest, promote_options="permissive")
        rest = [merged.slice(row_count)]
        yield _batch(merged.slice(0, row_count))
    _require_as_many(not rest[0].num_rows and not any(block.num_rows for block in blocks), plan, plan.steps)


def _require_as_many(as_many: bool, plan: Plan, step: int) -> None:
    if not as_many:
        raise InputError(
            f"data: the pipeline of `through` has other rows than it was given, seen at step {step} of {plan.steps}",
            expected="as many, in the same order",
            fix="filter and pack in files that you write before the training",
        )


def _chunk(plan: Plan, batch: pa.Table) -> pa.Table:
    """The rows of a chunk of steps: a task of Ray Data."""
    reader, (chunk,) = Reader(plan), batch.to_pylist()
    return pa.concat_tables([reader.step(step) for step in range(chunk["first"], chunk["last"])])


def _batch(table: pa.Table) -> dict[str, Any]:
    return {name: _column(table.column(name).combine_chunks()) for name in table.column_names}


def _column(column: Any) -> Any:
    """A tensor where a column has numbers, or lists of them that are equally long; else a list."""
    arrow_type = column.type
    if hasattr(column, "to_numpy_ndarray"):  # Ray Data's tensors
        return torch.from_numpy(np.array(column.to_numpy_ndarray()))
    if column.null_count:
        return column.to_pylist()
    if pa.types.is_boolean(arrow_type) or pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type):
        return torch.from_numpy(np.array(column.to_numpy(zero_copy_only=False)))
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type) or pa.types.is_fixed_size_list(arrow_type):
        flat = _column(column.flatten())
        if torch.is_tensor(flat) and len(set(column.value_lengths().to_pylist())) == 1:
            return flat.reshape(len(column), -1, *flat.shape[1:])
    return column.to_pylist()


def _ahead(make: Callable[[], Iterator[Any]], count: int) -> Iterator[Any]:
    """What an iterator yields, read by a thread of its own that is `count` items ahead."""
    filled: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(max(1, count))
    ended = threading.Event()

    def put(packet: tuple[Any, BaseException | None]) -> bool:
        while not ended.is_set():
            try:
                filled.put(packet, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def fill() -> None:
        try:
            for value in make():
                if not put(([value], None)):
                    return
            put(([], None))
        except BaseException as error:
            put(([], error))

    threading.Thread(target=fill, name="rows", daemon=True).start()
    try:
        while True:
            items, error = filled.get()
            if error is not None:
                raise error
            if not items:
                return
            yield items[0]
    finally:
        ended.set()
