"""Small parts of the training library, each asked directly for what its docstring or the page beside its case says."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from ray.train.torch.config import _TorchBackend
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    Metadata,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from hyperpod_ray_training import InputError, Resumable, Settings, checkpoint, draining, torchrun
from hyperpod_ray_training.ranks import Ranks
from hyperpod_ray_training.spares import pulse
from hyperpod_ray_training.spares.ray_group import SparesConfig
from hyperpod_ray_training.state import module_of
from hyperpod_ray_training.trees import Mark
from tests.support.ranks import ranks


@pytest.fixture
def alone(tmp_path: Path) -> Any:
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


# ---- what two ranks agree on ----


def _agreed(rank: int, store: str, pipe: Connection) -> None:
    dist.init_process_group("gloo", store=dist.FileStore(store, 2), rank=rank, world_size=2)
    among = Ranks(Settings())
    largest = among.agree(float(rank), -float(rank), 7.0)
    among.ask(10.0 * rank, 1.0)
    answers = [among.answer(), among.answer()]
    pipe.send(
        {
            "agree": largest,
            "answers": answers,
            "zero": among.from_rank_zero(f"of {rank}"),
            "one": among.from_rank(1, f"of {rank}"),
            "first": among.first_of_all("" if rank == 0 else "trouble"),
            "nothing": among.first_of_all(""),
        }
    )


def test_two_ranks_have_one_answer(tmp_path: Path) -> None:
    with ranks(_agreed, str(tmp_path / "store")) as pipes:
        said = [pipe.recv() for pipe in pipes]
    assert (
        said[0]
        == said[1]
        == {
            "agree": [1.0, 0.0, 7.0],
            "answers": [[10.0, 1.0], None],
            "zero": "of 0",
            "one": "of 1",
            "first": "trouble",
            "nothing": "",
        }
    )


def test_a_rank_alone_agrees_with_itself(alone: None) -> None:
    among = Ranks(Settings())
    assert among.agree(3.0, -1.0) == [3.0, -1.0]
    among.ask(2.0)
    assert among.answer() == [2.0]
    assert among.answer() is None


# ---- a notice ----


class Notes:
    """A journal that remembers."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.updates: list[dict[str, Any]] = []

    def event(self, kind: str, **fields: Any) -> None:
        self.events.append((kind, fields))

    def update(self, **fields: Any) -> None:
        self.updates.append(fields)


def info(*nodes: str, deadline_ms: int | None = None) -> Any:
    return SimpleNamespace(deadline_ms=deadline_ms, preempted_node_ids=list(nodes), preempted_ranks=[0])


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[float, int]]:
    """Looks once at a notice, at a time of the monotonic clock."""
    at = {"t": 100.0}
    settings = Settings(drain_check_interval_s=2.0, deadline_margin_s=5.0)
    watch = draining.DrainWatch(settings, Notes(), clock=lambda: at["t"])  # type: ignore[arg-type]
    watch.begin(0)
    monkeypatch.setattr(torchrun, "heard", lambda: None)

    def once(step: int, now: float, notice: Any, *, last_save_s: float = 0.0) -> tuple[float, int]:
        at["t"] = now
        monkeypatch.setattr(draining, "notice", lambda: notice)
        return watch.look(step, last_save_s=last_save_s)

    once.watch = watch  # type: ignore[attr-defined]
    return once


def test_from_the_first_notice_on_every_step_looks_again(look: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline may be the next step: a later look would come after the node has gone."""
    assert look(10, 110.0, None) == (draining.NONE, 2), "steps of a second, a look every two seconds"
    deadline = int((time.time() + 60) * 1000)
    assert look(12, 112.0, info("a", deadline_ms=deadline)) == (draining.DRAIN, 1)
    assert look(13, 113.0, info("a", deadline_ms=deadline)) == (draining.NONE, 1)
    assert look(14, 168.0, info("a", deadline_ms=deadline)) == (draining.DEADLINE, 1)
    assert look(15, 169.0, info("a", deadline_ms=deadline)) == (draining.NONE, 1), "one save before the deadline"
    assert look(16, 170.0, info("a", "b", deadline_ms=deadline)) == (draining.DRAIN, 1), "another node goes"
    monkeypatch.setattr(torchrun, "heard", lambda: torchrun.SAVE)
    assert look(17, 171.0, None) == (draining.SIGNAL, 1)
    monkeypatch.setattr(torchrun, "heard", lambda: torchrun.LEAVE)
    assert look(18, 172.0, None) == (draining.LEAVE, 1)


def test_a_save_that_takes_long_begins_earlier(look: Any) -> None:
    deadline = int((time.time() + 60) * 1000)
    look(1, 100.0, info("a", deadline_ms=deadline))
    assert look(2, 129.0, info("a", deadline_ms=deadline), last_save_s=10.0)[0] == draining.NONE
    assert look(3, 131.0, info("a", deadline_ms=deadline), last_save_s=10.0)[0] == draining.DEADLINE, "three saves"


@pytest.mark.parametrize(
    ("code", "reason", "noted"),
    [(draining.NONE, None, 0), (draining.DRAIN, "drain", 0), (draining.DEADLINE, "deadline", 0),
     (draining.SIGNAL, "signal", 1), (draining.LEAVE, "leave", 1)],
)  # fmt: skip
def test_every_rank_hears_the_reason_and_when_to_look(look: Any, code: float, reason: str | None, noted: int) -> None:
    watch = look.watch
    assert watch.heard(5, code=code, every=3.0) == reason
    assert [watch.due(step) for step in (7, 8)] == [False, True]
    assert len(watch.journal.events) == len(watch.journal.updates) == noted
    watch.heard(5, code=code, every=0.0)
    assert watch.due(6), "at least one step later"


def test_a_run_that_has_had_a_notice_stays_draining() -> None:
    """`state` of the journal says draining until the end, also when the next answers bring no reason."""
    answers = iter([[0.0, 0.0, draining.DRAIN, 1.0, 0.0], [0.0, 0.0, draining.NONE, 1.0, 0.0], None])
    heard = iter(["drain", None])
    training = SimpleNamespace(
        ranks=SimpleNamespace(answer=lambda: next(answers)),
        waits=SimpleNamespace(answer=lambda waits, step: ""),
        drains=SimpleNamespace(heard=lambda step, *, code, every: next(heard)),
        saver=SimpleNamespace(in_flight=None), step=1, draining=False,
        _asked_about=None, _name_straggler=lambda verdict: None,
    )  # fmt: skip
    said = [(Resumable._hear(training), training.draining) for _ in range(3)]  # type: ignore[arg-type]
    assert said == [("drain", True), (None, True), (None, True)]


def test_the_watch_of_forgotten_state_hears_of_an_iterator_whose_place_the_run_keeps() -> None:
    drawn: list[Any] = []
    iterator = iter([1])
    Resumable.draws(SimpleNamespace(complete=SimpleNamespace(draws=drawn.append)), iterator)  # type: ignore[arg-type]
    assert drawn == [iterator]


# ---- processes ----


def test_the_pulse_of_a_process_counts_what_it_computed_and_what_the_kernel_did_for_it() -> None:
    """https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html (14: utime, 15: stime, in ticks)."""
    while (before := os.times()).system < 0.1 or before.user < 0.1:
        os.stat(".")  # noqa: PTH116 - a call of the kernel, and nothing else
    state, ticks = pulse.state_of(os.getpid())
    after = os.times()
    hertz = os.sysconf("SC_CLK_TCK")
    assert state == "R"
    assert (before.user + before.system) * hertz - 2 <= ticks <= (after.user + after.system) * hertz + 2


# ---- what is read into ----


def _metadata(size: tuple[int, ...], name: str) -> Metadata:
    stored = TensorStorageMetadata(TensorProperties(dtype=torch.float32), torch.Size(size), [])
    return Metadata({name: stored, "other": BytesStorageMetadata()})


def test_a_moment_of_a_sharded_parameter_is_read_into_shards(alone: None) -> None:
    """A whole moment on each rank is what FSDP was taken for: at the size of a model it does not fit."""
    mesh = init_device_mesh("cpu", (1,))
    weight = distribute_tensor(torch.zeros(4, 2), mesh, [Shard(0)])
    key = "optimizer.adam.state.weight.exp_avg"
    mark = Mark(
        name=key, shape=(4, 2), dtype=torch.float32, device="cpu", placements=(Shard(0),), whole=(4, 2), stride=(2, 1)
    )
    state = SimpleNamespace(named=dict, _with_gradients=dict, taker=lambda mark: weight, device=torch.device("cpu"))
    targets = checkpoint._targets(state, _metadata((4, 2), key), {key: None}, {"a": mark}, {})  # type: ignore[arg-type]
    target = targets[key]
    assert isinstance(target, DTensor)
    assert tuple(target.shape) == (4, 2)
    assert target.placements == (Shard(0),)
    whole = SimpleNamespace(named=dict, _with_gradients=dict, taker=lambda mark: None, device=torch.device("cpu"))
    plain = checkpoint._targets(whole, _metadata((4, 2), key), {key: None}, {"a": mark}, {})[key]  # type: ignore[arg-type]
    assert not isinstance(plain, DTensor)


@pytest.mark.parametrize("model", [{"weight": np.zeros(2)}, {}, [np.zeros(2)], "model"])
def test_arrays_of_another_framework_are_no_model(model: Any) -> None:
    """docs/frameworks/jax.md: JAX's parameters are a dict of arrays."""
    with pytest.raises(InputError, match=rf"model: {type(model).__name__}. Expected a torch.nn.Module, or several"):
        module_of(model)


# ---- Ray ----


def test_ray_places_the_workers_of_a_run_with_spares_by_its_own_backend() -> None:
    """https://github.com/ray-project/ray (`BackendConfig.backend_cls`): Ray starts workers by this class."""
    backend = SparesConfig().backend_cls
    assert issubclass(backend, _TorchBackend)
    assert backend is not _TorchBackend
    assert backend.has_replica_groups
