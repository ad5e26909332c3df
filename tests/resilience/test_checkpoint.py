"""What a checkpoint holds and what it refuses: names, dtypes, formats, each rank's own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint import FileSystemReader
from torch.distributed.checkpoint.staging import DefaultStager
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from hyperpod_ray_training import InputError, Resumable, Run, Settings, Unrecoverable, checkpoint, rng
from hyperpod_ray_training.folder import ABOUT, RunFolder
from hyperpod_ray_training.ranks import Ranks
from hyperpod_ray_training.state import TrainingState

STEPS = 8


@pytest.fixture(autouse=True)
def no_process_group_left_behind() -> Iterator[None]:
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def state_of(model: Any, optimizer: Any, **more: Any) -> TrainingState:
    given: dict[str, Any] = {"extra": {}, "per_rank": {}, "rank": 0, "world": 1} | more
    return TrainingState(model=model, optimizer=optimizer, **given)


class Lazy:
    """State that appears with use: a curriculum, list states of metrics."""

    def __init__(self) -> None:
        self.content: dict[str, Any] = {}

    def state_dict(self) -> dict[str, Any]:
        return {**self.content, "empty": {}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        assert state.pop("empty") == {}
        self.content = dict(state)


def loop(config: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(4, 4) for _ in range(config.get("layers", 2))])
    model.to(config.get("dtype", torch.float32))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    optimizers: Any = [optimizer]
    if config.get("two"):
        optimizers = [torch.optim.AdamW(layer.parameters(), lr=0.05) for layer in model]
    extra = {"lazy": Lazy()} if config.get("lazy", True) else {}
    with Resumable(config["run"], model=model, optimizer=optimizers, extra=extra) as training:
        for step in training.steps(STEPS):
            if step == config.get("stop_at"):
                raise RuntimeError("stopped by the test")
            if extra:
                extra["lazy"].content[f"at-{step % 3}"] = torch.tensor(float(step))
            factor = 1 + sum(float(value) for value in extra["lazy"].content.values()) / 10 if extra else 1
            loss = (model(torch.randn(8, 4, dtype=config.get("dtype", torch.float32))) * factor - 1).square().mean()
            for one in optimizers:
                one.zero_grad()
            loss.backward()
            for one in optimizers:
                one.step()
            training.finished(step, loss=loss.item())


@pytest.fixture
def fit(tmp_path: Path) -> Callable[..., dict[int, float]]:
    def fitted(name: str = "run", *, keep: int | None = 3, strict: bool = True, **config: Any) -> dict[int, float]:
        run = Run(storage=str(tmp_path), name=name, save_every_steps=1, keep=keep, settings=Settings(strict=strict))
        try:
            run.fit(loop, config=config, workers=0)
        finally:
            if dist.is_initialized():
                dist.destroy_process_group()
        lines = [json.loads(line) for line in (tmp_path / name / "events.jsonl").read_text().splitlines()]
        return {line["step"]: line["loss"] for line in lines if line["kind"] == "step"}

    return fitted


def notes(folder: Path) -> str:
    lines = [json.loads(line) for line in (folder / "run" / "events.jsonl").read_text().splitlines()]
    return " ".join(line["message"] for line in lines if line["kind"] == "note")


def stopped(fit: Callable[..., Any], **config: Any) -> None:
    with pytest.raises(RuntimeError, match="stopped by the test"):
        fit(stop_at=5, **config)


@pytest.mark.slow
def test_state_that_grows_with_use_and_several_optimizers_come_back(fit: Callable[..., Any]) -> None:
    whole = fit("whole", two=True)
    stopped(fit, two=True)
    assert fit(two=True) == whole


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({"layers": 3}, {}, r"model\.2\.weight is saved, and nothing takes it"),
        ({}, {"layers": 3}, r"model\.2\.weight is not saved"),
        ({}, {"lazy": False}, r"extra\.lazy is saved, and nothing takes it"),
        ({"lazy": False}, {}, r"extra\.lazy is not saved"),
        ({"two": True}, {}, r"optimizer\.1 is saved, and nothing takes it"),
        ({}, {"two": True}, r"optimizer\.1 is not saved"),
    ],
)
def test_a_checkpoint_of_another_state_is_refused_by_name(
    fit: Callable[..., Any], tmp_path: Path, before: Any, after: Any, said: str
) -> None:
    stopped(fit, **before)
    there = {path: path.read_bytes() for path in tmp_path.glob("run/step-*/*")}
    with pytest.raises(Unrecoverable, match=said):
        fit(**after)
    assert {path: path.read_bytes() for path in tmp_path.glob("run/step-*/*")} == there


def test_without_strict_it_takes_what_fits_and_says_so(fit: Callable[..., Any], tmp_path: Path) -> None:
    stopped(fit, layers=3)
    fit(strict=False, lazy=False)
    assert "what does not fit is omitted" in notes(tmp_path)
    assert "extra.lazy is saved, and nothing takes it" in notes(tmp_path)


def test_another_dtype_is_said(fit: Callable[..., Any], tmp_path: Path) -> None:
    stopped(fit)
    assert "dtype" not in notes(tmp_path)
    fit(dtype=torch.bfloat16)
    assert "model.0.weight from torch.float32 to torch.bfloat16" in notes(tmp_path)


@pytest.mark.parametrize("ray", [False, True])
def test_keep_holds_and_makes_room_before_a_save(
    ray: bool, fit: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray removes folders itself, and raises for one that is gone: they stay, without content."""
    monkeypatch.setattr("hyperpod_ray_training.resumable.in_local_mode", lambda: not ray)
    most: list[int] = []
    save = checkpoint.to_save

    def counted(*given: Any) -> dict[str, Any]:
        most.append(len(list(tmp_path.glob("run/step-*/.metadata"))))
        return save(*given)

    monkeypatch.setattr("hyperpod_ray_training.saving.to_save", counted)
    fit(keep=2)
    folders = sorted(tmp_path.glob("run/step-*"))
    whole = [path for path in folders if (path / ".metadata").exists()]
    assert [path.name[:13] for path in whole] == ["step-00000007", "step-00000008"]
    assert max(most) == 1, "one has gone before the next is written"
    assert len(folders) == (8 if ray else 2)
    assert not [file for path in folders if path not in whole for file in path.iterdir()]


def test_room_is_made_of_folders_inside_a_checkpoint_too(fit: Callable[..., Any], tmp_path: Path) -> None:
    fit(keep=3)
    oldest, *_ = sorted(tmp_path.glob("run/step-*"))
    (oldest / "export" / "deep").mkdir(parents=True)
    (oldest / "export" / "deep" / "model.safetensors").write_bytes(b"1")
    RunFolder(str(tmp_path / "run")).make_room(keep=1)
    assert list(oldest.iterdir()) == []


def test_each_save_works_where_torch_empties_the_stager_after_one(
    fit: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As torch 2.11 does: a stager that was closed copies nothing but tensors."""
    stage = DefaultStager._stage
    closed = []

    def closing(stager: Any, *arguments: Any, **options: Any) -> Any:
        content = stage(stager, *arguments, **options)
        closed.append(stager._state_dict_stager.close())
        return content

    monkeypatch.setattr(DefaultStager, "_stage", closing)
    fit()
    events = [json.loads(line) for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]
    assert len(closed) > 1
    assert not [event for event in events if event["kind"] == "error"]


def test_a_checkpoint_says_its_format(fit: Callable[..., Any], tmp_path: Path) -> None:
    fit()
    newest = max(tmp_path.glob("run/step-*"))
    assert checkpoint.format_of(FileSystemReader(newest).read_metadata()) == checkpoint.FORMAT == 2
    assert json.loads((newest / ABOUT).read_text())["format"] == 2


@pytest.mark.slow
@pytest.mark.parametrize(("number", "said"), [(3, "its format is 3"), (0, r"older than 1 \(before version 0\.2\.0\)")])
def test_a_format_that_is_not_read_is_refused_in_words(
    fit: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, number: int, said: str
) -> None:
    stopped(fit)
    monkeypatch.setattr(checkpoint, "format_of", lambda _: number)
    with pytest.raises(Unrecoverable, match=rf"{said}.*reads 1 and 2"):
        fit()


@pytest.mark.slow
def test_a_checkpoint_of_version_0_2_0_goes_on(fit: Callable[..., Any], tmp_path: Path, monkeypatch: Any) -> None:
    """Written here as that version did: torch's own state dict of one optimizer, and no number."""
    import pickle

    def as_0_2_0(state: TrainingState, step: int, ranks: Ranks) -> dict[str, Any]:
        model, optimizer = get_state_dict(state.model, next(iter(state.optimizers.values())).optimizer)
        extra = {key: value.state_dict() for key, value in state.extra.items()}
        return {
            "model": model, "optimizer": optimizer, "extra": extra, "step": step, "data": state.shared(),
            "own": {"rank-0": pickle.dumps(state.own())}, "rng": {"rank-0": rng.capture(state.device)},
        }  # fmt: skip

    whole = fit("whole", lazy=False)
    with monkeypatch.context() as patched:
        patched.setattr("hyperpod_ray_training.saving.to_save", as_0_2_0)
        stopped(fit, lazy=False)
    with pytest.raises(Unrecoverable, match="saved one optimizer, and this script has several"):
        fit(lazy=False, two=True)
    with pytest.raises(Unrecoverable, match=r"model\.2\.weight is not saved"):
        fit(lazy=False, layers=3)
    assert fit(lazy=False) == whole
    assert "format 1" in notes(tmp_path)


# ---- several ranks, one process each time ----


class Several(Ranks):
    """Ranks whose exchanges are given."""

    def __init__(self, world: int) -> None:
        self.rank, self.world, self.patient = 0, world, None

    def first_of_all(self, text: str) -> str:
        return text


@pytest.mark.parametrize("other", [0.0, 1.0])
def test_plain_tensors_that_differ_are_saved_for_each_rank(monkeypatch: pytest.MonkeyPatch, other: float) -> None:
    model = nn.Linear(2, 1)
    state = state_of(model, torch.optim.SGD(model.parameters(), lr=0.1), world=2)

    def gather(told: list[Any], mine: Any, group: Any) -> None:
        told[0] = told[1] = mine
        if other:
            told[1] = {**mine, "model.bias": other} if isinstance(mine, dict) else other

    monkeypatch.setattr(dist, "all_gather_object", gather)
    saved = checkpoint.to_save(state, 1, Several(2))
    assert ("bias" in saved["model"]) == (not other)
    assert set(saved.get("ranks", {}).get("rank-0", {})) == ({"model.bias"} if other else set())
    assert "weight" in saved["model"]


def filled(folder: Path) -> Callable[[dict[str, Any]], None]:
    return lambda state: dcp.load(state, checkpoint_id=folder, no_dist=True)


@pytest.mark.parametrize(("layer", "said"), [(nn.Linear, "model.weight"), (nn.BatchNorm1d, None)])
def test_each_ranks_own_fits_no_other_number_of_ranks_but_statistics_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layer: Any, said: str | None
) -> None:
    model = nn.BatchNorm1d(3) if layer is nn.BatchNorm1d else nn.Linear(2, 1)
    apart = {"model.running_mean"} if said is None else {"model.weight"}
    state = state_of(model, torch.optim.SGD(model.parameters(), lr=0.1), world=2)
    monkeypatch.setattr(checkpoint, "apart", lambda mine, ranks: apart)
    content = checkpoint.to_save(state, 4, Several(2))
    content["rng"]["rank-1"] = content["rng"]["rank-0"]
    dcp.save(content, checkpoint_id=tmp_path, no_dist=True)
    metadata = FileSystemReader(tmp_path).read_metadata()
    told: list[str] = []
    now = state_of(model, torch.optim.SGD(model.parameters(), lr=0.1), world=1)
    if said is None:
        assert checkpoint.load(now, metadata, Several(1), filled(tmp_path), strict=True, say=told.append) == 4
        assert "all take rank 0's" in " ".join(told)
        return
    with pytest.raises(checkpoint.MisfitError, match=re.escape(said)):
        checkpoint.load(now, metadata, Several(1), filled(tmp_path), strict=True, say=told.append)
    assert checkpoint.load(state, metadata, Several(2), filled(tmp_path), strict=True, say=told.append) == 4


def test_at_another_number_of_ranks_each_draws_numbers_of_its_own(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 1), nn.Dropout())
    one_rank = state_of(model, torch.optim.SGD(model.parameters(), lr=0.1), world=1)
    dcp.save(checkpoint.to_save(one_rank, 4, Several(1)), checkpoint_id=tmp_path, no_dist=True)
    metadata = FileSystemReader(tmp_path).read_metadata()
    drawn = []
    for rank in (0, 1):
        torch.manual_seed(0)  # as every rank of a script does
        now = state_of(model, torch.optim.SGD(model.parameters(), lr=0.1), world=2, rank=rank)
        assert checkpoint.load(now, metadata, Several(2), filled(tmp_path), strict=True, say=print) == 4
        drawn.append(torch.rand(4).tolist())
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize(("before", "after"), [(True, False), (False, True), (True, True)])
def test_a_sharded_state_fits_a_plain_model_and_the_other_way(tmp_path: Path, before: bool, after: bool) -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)

    def made(sharded: bool) -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(0)
        model = nn.Linear(4, 2)
        if sharded:
            fully_shard(model)
        return model, torch.optim.AdamW(model.parameters(), lr=0.1)

    def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> list[float]:
        losses = []
        for step in steps:
            optimizer.zero_grad()
            loss = model(torch.full((1, 4), float(step))).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    first = made(before)
    train(*first, range(3))
    dcp.save(checkpoint.to_save(state_of(*first), 3, Several(1)), checkpoint_id=tmp_path, no_dist=True)
    expected = train(*first, range(3, 6))
    second = made(after)
    state = state_of(*second)
    metadata = FileSystemReader(tmp_path).read_metadata()
    assert checkpoint.load(state, metadata, Several(1), filled(tmp_path), strict=True, say=print) == 3
    moments = [entry["exp_avg"] for entry in second[1].state.values()]
    assert [isinstance(moment, DTensor) for moment in moments] == [after] * 2
    assert train(*second, range(3, 6)) == expected


# ---- optimizers ----


def test_what_is_sharded_by_no_layout_is_refused_when_resumable_is_made() -> None:
    model = nn.Linear(2, 2)
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    zero = type("ZeroRedundancyOptimizer", (torch.optim.SGD,), {"consolidate_state_dict": lambda _: None})
    outer = zero(model.parameters(), lr=0.1)
    outer.optim = inner
    with pytest.raises(InputError, match=r"ZeroRedundancyOptimizer.*Fix: shard the model with fully_shard"):
        state_of(model, outer)
