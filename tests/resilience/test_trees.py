"""A tree and its tensors come apart and together again; checksums are zlib's, and differ where the content does."""

from __future__ import annotations

import zlib
from collections import OrderedDict, deque, namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from hyperpod_ray_training import trees
from hyperpod_ray_training.trees import (
    CONTAINERS,
    Mark,
    checksum,
    elements_of,
    join,
    mark_of,
    marks_in,
    parts_of,
    sharded,
    split,
    weighed,
)

Pair = namedtuple("Pair", "left right")


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_a_tree_comes_apart_and_together_again() -> None:
    weight = torch.ones(2, 3, dtype=torch.float16, requires_grad=True)
    steps = torch.tensor(7)
    pair = Pair(1, "x")
    tree = OrderedDict(model={"weight": weight}, state=[steps, (steps + 1, None)], lr=0.1, pair=pair)
    tensors: dict[str, torch.Tensor] = {}
    marked = split(tree, "all", tensors)
    assert list(tensors) == ["all.model.weight", "all.state.0", "all.state.1.0"]
    assert not tensors["all.model.weight"].requires_grad
    assert tensors["all.model.weight"].data_ptr() == weight.data_ptr(), "no copy"
    assert marked["model"]["weight"] == Mark(
        name="all.model.weight", shape=(2, 3), dtype=torch.float16, device="cpu", whole=(2, 3), stride=(3, 1)
    )
    assert [mark.name for mark in marks_in(marked)] == list(tensors)
    joined = join(marked, lambda mark: tensors[mark.name])
    assert joined["model"]["weight"].equal(weight)
    assert joined["state"] == [steps, (torch.tensor(8), None)]
    assert type(joined["state"][1]) is tuple
    assert (joined["lr"], joined["pair"]) == (0.1, pair)
    assert joined["pair"] is pair, "a class of its own is not looked into"


def test_elements_of_any_depth_each_container_once() -> None:
    inner: list[Any] = [1, (2, {"x": 3})]
    inner.append(inner)
    assert sorted(elements_of({"a": inner, "b": deque([4, Pair(5, 6)])})) == [1, 2, 3, 4, 5, 6]
    assert list(elements_of("text")) == ["text"]
    assert sum(isinstance(part, CONTAINERS) for part in parts_of({"a": inner})) == 4
    assert len(list(parts_of([[0] * 9, [1] * 9, 2], most=2))) == 7


@pytest.mark.parametrize("empty", [None, {}, [], (), 0, "text"])
def test_what_has_no_tensor_stays_as_it_is(empty: Any) -> None:
    tensors: dict[str, torch.Tensor] = {}
    assert split(empty, "x", tensors) == empty
    assert tensors == {}
    assert marks_in(empty) == []


def test_two_paths_that_read_alike_have_two_names() -> None:
    """https://pytorch.org/docs/stable/optim.html: an optimizer's state is by number, a user's dict may be by text."""
    tensors: dict[str, torch.Tensor] = {}
    marked = split({1: torch.zeros(1), "1": torch.ones(1)}, "state", tensors)
    assert set(tensors) == {"state.1", "state.1'"}
    assert [int(join(marked, lambda mark: tensors[mark.name])[key]) for key in (1, "1")] == [0, 1]


def test_a_part_is_sharded_as_its_mark_says(alone: None) -> None:
    mesh = init_device_mesh("cpu", (1,))
    whole = distribute_tensor(torch.arange(6.0).reshape(3, 2), mesh, [Shard(0)])
    mark = mark_of("weight", whole)
    assert (mark.placements, mark.whole, mark.shape) == ((Shard(0),), (3, 2), (3, 2))
    part = trees.local(whole)
    assert type(part) is torch.Tensor
    like = distribute_tensor(torch.zeros(3, 2), mesh, [Replicate()])
    again = sharded(part, mark, like)
    assert isinstance(again, DTensor)
    assert (again.placements, tuple(again.shape)) == ((Shard(0),), (3, 2))
    assert again.full_tensor().equal(whole.full_tensor())
    assert sharded(whole, mark, None) is whole
    plain = torch.zeros(2)
    assert sharded(plain, mark_of("plain", plain), None) is plain
    with pytest.raises(ValueError, match="weight was sharded, and there is no sharded tensor of that name now"):
        sharded(part, mark, torch.zeros(3, 2))


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(12.0).reshape(3, 4),
        torch.arange(12.0).reshape(3, 4).t(),
        torch.arange(5, dtype=torch.int8),
        torch.ones(3, requires_grad=True),
        torch.tensor(2.5),
        torch.tensor([True, False]),
    ],
    ids=["plain", "transposed", "bytes", "gradient", "scalar", "truth"],
)
def test_a_checksum_on_a_cpu_is_zlibs(tensor: torch.Tensor) -> None:
    assert checksum(tensor) == zlib.crc32(tensor.detach().contiguous().numpy().tobytes())


def test_nothing_has_the_checksum_of_nothing() -> None:
    assert checksum(torch.zeros(0)) == zlib.crc32(b"") == 0
    assert weighed(torch.zeros(0)) == 0


def by_hand(data: bytes, chunk: int) -> int:
    """The same sum in Python's integers: words of 64 bits, then bytes, each weighed by its place."""
    cut = len(data) // 8 * 8
    words = [int.from_bytes(data[at : at + 8], "little", signed=True) for at in range(0, cut, 8)]
    total = 0
    for values in (words, list(data[cut:])):
        for at in range(0, len(values), chunk):
            weights = range(2 * at + 1, 2 * (at + len(values[at : at + chunk])) + 1, 2)
            pairs = zip(values[at : at + chunk], weights, strict=True)
            total = total * 31 + sum(value * (weight * 2654435761 | 1) for value, weight in pairs)
    total = (total + 2**63) % 2**64 - 2**63
    return (total ^ total >> 32) & 0xFFFFFFFF


@pytest.mark.parametrize("chunk", [2, 1 << 24])
@pytest.mark.parametrize("length", [1, 7, 8, 9, 16, 61])
def test_the_checksum_of_a_gpu_is_a_sum_that_a_cpu_has_too(
    length: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "_CHUNK", chunk)
    data = torch.randint(0, 256, (length + 1,), dtype=torch.uint8, generator=torch.Generator().manual_seed(length))
    assert weighed(data[:length]) == by_hand(bytes(data[:length].tolist()), chunk)
    shifted = data[1:]  # it begins where no word of eight bytes does
    assert weighed(shifted) == weighed(shifted.clone()) == by_hand(bytes(shifted.tolist()), chunk)


@pytest.mark.parametrize("length", [9, 16, 64])
def test_a_changed_and_a_moved_byte_change_it(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "_CHUNK", 2)
    data = torch.arange(length, dtype=torch.uint8)
    numbers = {weighed(data)}
    for at in range(length):
        changed = data.clone()
        changed[at] += 1
        numbers |= {weighed(changed)}
    numbers |= {weighed(data.roll(by)) for by in range(1, length)}
    assert len(numbers) == 2 * length
