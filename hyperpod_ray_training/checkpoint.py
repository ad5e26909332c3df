"""What a checkpoint holds of the registry, and how it is read: format 2, and format 1 of version 0.2.0.

Plain tensors and trees that are the same on every rank are saved once. Those that differ (a stage of a pipeline, a
local expert, running statistics) are saved for each rank, under `ranks.rank-N`. A sharded tensor is torch's to lay out.
"""

from __future__ import annotations

import dataclasses
import pickle
import zlib
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint._nested_dict import flatten_state_dict
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.tensor import DTensor
from torch.distributed.tensor import empty as sharded_empty

from hyperpod_ray_training import rng
from hyperpod_ray_training.errors import Unrecoverable
from hyperpod_ray_training.ranks import Ranks
from hyperpod_ray_training.state import BUFFERS, EXTRA, GRADIENTS, MODEL, OPTIMIZER, Content, TrainingState
from hyperpod_ray_training.trees import Mark, checksum, join, marks_in

FORMAT = 2
READABLE = (1, 2)
_FORMAT, _RANKS, _TREES, _RNG, _OWN, _DATA = "format", "ranks", "trees", "rng", "own", "data"
Fill = Callable[[dict[str, Any]], None]
"""Loads a checkpoint's content into a nested dictionary of targets; the same call on every rank."""


class MisfitError(Exception):
    """A checkpoint is whole, and these objects are not the ones it was saved of."""


# ---- save ----


def to_save(state: TrainingState, step: int, ranks: Ranks) -> dict[str, Any]:
    """The state as torch's distributed checkpoint takes it; the same call on every rank."""
    content = state.content()
    trees = {name: pickle.dumps(join(tree, _whole)) for name, tree in content.trees.items()}
    rank_key = _key(state.rank)
    saved: dict[str, Any] = {
        _FORMAT: {str(FORMAT): 0},
        "step": step,
        _DATA: state.shared(),
        _OWN: {rank_key: pickle.dumps(state.own())},
        _RNG: {rank_key: rng.capture(state.device)},
    }
    differ = apart(digests(content, trees), ranks)
    rank_values: dict[str, Any] = {}
    for name, tensor in content.tensors.items():
        section, _, rest = name.partition(".")
        # the stager cannot copy a gradient of FSDP2 in its own memory
        value = tensor.clone() if section == GRADIENTS else tensor
        if name in differ:
            rank_values[name] = value
        else:
            saved.setdefault(section, {})[rest] = value
    for name, tree in trees.items():
        if f"{_TREES}.{name}" in differ:
            rank_values[f"{_TREES}.{name}"] = tree
        else:
            saved.setdefault(_TREES, {})[name] = tree
    if rank_values:
        saved[_RANKS] = {rank_key: rank_values}
    return saved


def _whole(mark: Mark) -> Mark:
    """A mark that is the same on every rank: parts of a sharded tensor may be of other sizes."""
    return mark if mark.placements is None else dataclasses.replace(mark, shape=mark.whole)


def digests(content: Content, trees: Mapping[str, bytes]) -> dict[str, Hashable]:
    """Of each name what must be the same on every rank for one copy to be enough."""
    checksums: dict[str, Hashable] = {f"{_TREES}.{name}": zlib.crc32(tree) for name, tree in trees.items()}
    for name, tensor in content.tensors.items():
        shape = (tuple(tensor.shape), str(tensor.dtype))
        if isinstance(tensor, DTensor):
            checksums[name] = (*shape, tuple(tensor.device_mesh.mesh.flatten().tolist()), str(tensor.placements))
        else:
            checksums[name] = (*shape, checksum(tensor))
    return checksums


def apart(own_digests: Mapping[str, Hashable], ranks: Ranks) -> set[str]:
    """The names that are not the same on every rank; the same call on every rank."""
    if ranks.world == 1:
        return set()
    total = zlib.crc32(repr(sorted(own_digests.items(), key=lambda pair: pair[0])).encode())
    totals: list[Any] = [None] * ranks.world
    dist.all_gather_object(totals, total, group=ranks.patient)
    if len(set(totals)) == 1:
        return set()
    everybody: list[Any] = [None] * ranks.world
    dist.all_gather_object(everybody, dict(own_digests), group=ranks.patient)
    names = {name for peer in everybody for name in peer}
    return {name for name in names if any(peer.get(name) != everybody[0].get(name) for peer in everybody)}


# ---- load ----


def format_of(metadata: Metadata) -> int:
    """The number of a checkpoint's format; 0 for one before version 0.2.0."""
    keys = metadata.state_dict_metadata
    numbers = [int(key.partition(".")[2]) for key in keys if key.startswith(f"{_FORMAT}.")]
    return max(numbers) if numbers else int(f"{_DATA}.world" in keys)


def saved_world(metadata: Metadata) -> int:
    """How many ranks a checkpoint is of."""
    return sum(1 for key in metadata.state_dict_metadata if key.startswith(f"{_RNG}.{_key('')}"))


def load(
    state: TrainingState, metadata: Metadata, ranks: Ranks, fill: Fill, *, strict: bool, say: Callable[[str], None]
) -> int:
    """Take over a checkpoint and return its step; the same call on every rank.

    Args:
        state: The objects to fill.
        metadata: Of the checkpoint.
        ranks: This rank among the others.
        fill: Reads content.
        strict: False takes what fits, and says what does not.
        say: Writes a line for who reads the run's log and journal.

    Raises MisfitError where the checkpoint is of other objects, on every rank.
    """
    if not metadata.state_dict_metadata:
        raise ValueError("its metadata names nothing")
    number = format_of(metadata)
    if number not in READABLE:
        raise MisfitError(
            f"its format is {number or 'older than 1 (before version 0.2.0)'}, and this version reads "
            f"{' and '.join(map(str, READABLE))}; resume with the version that wrote it"
        )
    if number == 1:
        return _load_format_1(state, metadata, ranks, fill, say=say)
    same = saved_world(metadata) == state.world
    small, rest = _asked(metadata, state.rank if same else 0)
    head = _nested({key: path for key, path in small.items() if same or not key.startswith((_OWN, _RNG))})
    fill(head)
    reason = unreadable = ""
    try:
        trees, apart_trees = _trees_in(head, state.rank if same else 0)
        rank_state = pickle.loads(head[_OWN][_key(state.rank)]) if same else None  # noqa: S301 - the run's own checkpoint
        sizes = {_name(key): tuple(_tensor(metadata, key).size) for key in rest}
        state.make_buffers(trees)
        reason = "" if same else _not_of_this_size(state, rest, apart_trees, say)
        reason = reason or "; ".join(filter(None, (state.unlike(sizes, trees, sizes), state.unlike_own(rank_state))))
    except Exception as error:  # what one rank cannot read, no rank takes
        unreadable = f"{type(error).__name__}: {error}"
    if unreadable := ranks.first_of_all(unreadable):
        raise ValueError(unreadable)
    reason = ranks.first_of_all(reason)
    if reason and strict:
        raise MisfitError(reason)
    if reason:
        say(f"what does not fit is omitted: {reason}")
    live = state.named()
    rest = {key: path for key, path in rest.items() if _fits(state, live, _name(key), sizes[_name(key)])}
    converted = {
        name: (saved, live[name].dtype)
        for name, saved in ((_name(key), _tensor(metadata, key).properties.dtype) for key in rest)
        if name in live and live[name].dtype != saved
    }
    if converted:
        dtypes = [f"{name} from {before} to {after}" for name, (before, after) in converted.items()]
        suffix = f" and {len(dtypes) - 3} more" if len(dtypes) > 3 else ""
        say(f"the checkpoint has other dtypes, its numbers are converted: {', '.join(dtypes[:3])}{suffix}")
    trees = _laid_out(state, trees)
    targets = _targets(state, metadata, rest, trees, converted)
    body: dict[str, Any] = {}
    for key, path in rest.items():
        _set(body, path, targets[_name(key)])
    if body:
        fill(body)
    state.gradients = state.gradients or any(name.startswith(f"{GRADIENTS}.") for name in targets)
    state.fill(Content(targets, trees))
    step = int(head["step"])
    state.fill_own(head[_DATA], rank_state)
    if same:
        rng.restore(head[_RNG][_key(state.rank)], state.device)
    else:
        rng.reseed(seed=state.seed, step=step, rank=state.rank)
    return step


def _trees_in(head: Mapping[str, Any], rank: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """All trees of a rank, and those of them that were different on each."""
    rank_values = head.get(_RANKS, {}).get(_key(rank), {})
    rank_trees = {name.partition(".")[2]: tree for name, tree in rank_values.items() if name.startswith(f"{_TREES}.")}
    trees = {name: pickle.loads(tree) for name, tree in (head.get(_TREES, {}) | rank_trees).items()}  # noqa: S301 - the run's
    return trees, rank_trees


def _asked(metadata: Metadata, rank: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keys and paths of what this rank reads: first what is small and needed to understand the rest."""
    small: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for key, stored in metadata.state_dict_metadata.items():
        path = metadata.planner_data[key]
        if path[0] in {_OWN, _RNG, _RANKS} and path[1] != _key(rank):
            continue
        (rest if isinstance(stored, TensorStorageMetadata) else small)[key] = path
    return small, rest


def _name(key: str) -> str:
    """The name of a saved tensor, without the rank that it is of."""
    return key.split(".", 2)[2] if key.startswith(f"{_RANKS}.") else key


def _tensor(metadata: Metadata, key: str) -> TensorStorageMetadata:
    stored = metadata.state_dict_metadata[key]
    assert isinstance(stored, TensorStorageMetadata)  # noqa: S101 - `_asked` has looked
    return stored


def _nested(paths: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for path in paths.values():
        _set(nested, path, b"")
    return nested


def _set(nested: dict[str, Any], path: Any, value: Any) -> None:
    for part in path[:-1]:
        nested = nested.setdefault(part, {})
    nested[path[-1]] = value


def _not_of_this_size(
    state: TrainingState, rest: Mapping[str, Any], trees: Mapping[str, bytes], say: Callable[[str], None]
) -> str:
    """Why another number of ranks cannot take up what each rank had of its own; statistics may come from rank 0."""
    live = state.named()
    names = [_name(key) for key in rest if key.startswith(f"{_RANKS}.")]
    buffers = [name for name in names if name in live and not isinstance(live[name], torch.nn.Parameter)]
    per_rank = [name for name in names if name not in buffers and not name.startswith(f"{EXTRA}.")]
    if per_rank:
        return (
            f"{', '.join(per_rank[:3])}: each rank saved its own, and the number of ranks is {state.world} now; resume "
            "with the same number, or shard these tensors with fully_shard"
        )
    if buffers or trees:
        say(f"each rank had its own {', '.join([*buffers, *trees][:3])}; all take rank 0's at another number of ranks")
    return ""


def _fits(state: TrainingState, live: Mapping[str, torch.Tensor], name: str, size: tuple[int, ...]) -> bool:
    if name.partition(".")[0] in {MODEL, BUFFERS}:
        return name in live and tuple(live[name].shape) == size
    return True


def _laid_out(state: TrainingState, trees: Mapping[str, Any]) -> dict[str, Any]:
    """The trees with marks that are sharded as the live tensors are, which may be otherwise than when saved."""

    def again(mark: Mark) -> Mark:
        like = state.taker(mark)
        sharded = mark.name.startswith(f"{OPTIMIZER}.") and _of_parameter(state, mark)
        if like is None:
            return dataclasses.replace(mark, placements=None)
        if mark.placements is None and not (sharded and tuple(like.shape) == mark.whole):
            return mark
        assert isinstance(like, DTensor)  # noqa: S101 - `taker` says so
        fits = tuple(like.shape) == mark.whole or len(mark.placements or ()) != like.device_mesh.ndim
        return dataclasses.replace(mark, placements=tuple(like.placements) if fits else mark.placements)

    return {name: join(tree, again) for name, tree in trees.items()}


def _of_parameter(state: TrainingState, mark: Mark) -> bool:
    """Whether a mark is of an optimizer's state for a parameter of the model that is sharded."""
    return ".state." in mark.name and len(mark.whole) > 0


def _targets(
    state: TrainingState,
    metadata: Metadata,
    keys: Mapping[str, Any],
    trees: Mapping[str, Any],
    converted: Mapping[str, tuple[torch.dtype, torch.dtype]],
) -> dict[str, torch.Tensor]:
    """Tensors to read into: the model's own, and new ones for what is built again."""

    def dtype_of(name: str, saved: torch.dtype) -> torch.dtype:
        """A moment follows its parameter, where it had the parameter's dtype."""
        changes = (pair for parameter, pair in converted.items() if f".state.{parameter.partition('.')[2]}." in name)
        return next((after for before, after in changes if before == saved), saved)

    live = state.named()
    marks = {mark.name: mark for tree in trees.values() for mark in marks_in(tree)}
    gradients = state._with_gradients()
    targets: dict[str, torch.Tensor] = {}
    for key in keys:
        name, stored = _name(key), _tensor(metadata, key)
        mark, like = marks.get(name), live.get(name, gradients.get(name))
        if name in live:
            targets[name] = live[name].detach()
        elif like is not None:
            targets[name] = torch.empty_like(like, dtype=stored.properties.dtype, requires_grad=False)
        elif mark is not None and mark.placements is not None and (shard := state.taker(mark)) is not None:
            assert isinstance(shard, DTensor)  # noqa: S101 - `taker` says so
            targets[name] = sharded_empty(
                *stored.size,
                dtype=dtype_of(name, stored.properties.dtype),
                device_mesh=shard.device_mesh,
                placements=mark.placements,
            )
        else:
            device = torch.device("cpu") if mark is None or mark.device == "cpu" else state.device
            targets[name] = torch.empty(stored.size, dtype=dtype_of(name, stored.properties.dtype), device=device)
    return targets


def _key(rank: int | str) -> str:
    return f"rank-{rank}"


# ---- format 1 ----


def _load_format_1(
    state: TrainingState, metadata: Metadata, ranks: Ranks, fill: Fill, *, say: Callable[[str], None]
) -> int:
    """A checkpoint of version 0.2.0: one optimizer, one copy of every plain tensor, `extra` as it is when fresh."""
    if len(state.optimizers) != 1:
        raise MisfitError("it is of version 0.2.0, which saved one optimizer, and this script has several")
    parameters = {name: checksum(tensor) for name, tensor in state.named().items()
                  if isinstance(tensor, torch.nn.Parameter) and not isinstance(tensor, DTensor)}  # fmt: skip
    differ = sorted(apart(parameters, ranks))
    if differ:
        raise MisfitError(
            f"it is of version 0.2.0, which saved one copy for all ranks, and {', '.join(differ[:3])} are different on "
            "each rank here"
        )
    same = saved_world(metadata) == state.world
    optimizer = next(iter(state.optimizers.values())).optimizer
    model, optimizer_state = get_state_dict(state.model, optimizer)
    target: dict[str, Any] = {
        "model": model, "optimizer": optimizer_state, "step": 0, _DATA: state.shared(),
        EXTRA: {key: value.state_dict() for key, value in state.extra.items()},
    }  # fmt: skip
    target[_DATA] = {
        key: value for key, value in target[_DATA].items() if f"{_DATA}.{key}" in metadata.state_dict_metadata
    }
    if same:
        target[_OWN], target[_RNG] = {_key(state.rank): b""}, {_key(state.rank): b""}
    keys = set(flatten_state_dict(target)[0])
    untaken = [key for key in metadata.state_dict_metadata
               if key not in keys and not key.startswith((f"{_OWN}.", f"{_RNG}."))]  # fmt: skip
    missing = [key for key in keys if key not in metadata.state_dict_metadata]
    problems = [f"{key} is saved, and nothing takes it" for key in untaken] + [f"{key} is not saved" for key in missing]
    if problems:
        raise MisfitError("; ".join(problems[:8]))
    say("the checkpoint is of format 1 (version 0.2.0); the next save is of format 2")
    fill(target)
    set_state_dict(state.model, optimizer, model_state_dict=target["model"], optim_state_dict=target["optimizer"])
    for key, value in state.extra.items():
        value.load_state_dict(target[EXTRA][key])
    step = int(target["step"])
    rank_state = pickle.loads(target[_OWN][_key(state.rank)]) if same else None  # noqa: S301 - the run's own checkpoint
    state.fill_own(target[_DATA], rank_state)
    if same:
        rng.restore(target[_RNG][_key(state.rank)], state.device)
    else:
        rng.reseed(seed=state.seed, step=step, rank=state.rank)
    return step


def refused(path: str, reason: str) -> Unrecoverable:
    """The error that ends a run whose newest checkpoint is of other objects."""
    return Unrecoverable(
        f"checkpoint {path} is of another state: {reason}; nothing was changed",
        expected="the model, optimizer, extra and per_rank that it was saved with",
        fix="give Resumable the same ones, or start under a new name; RESILIENCE_STRICT=false takes what fits",
    )
