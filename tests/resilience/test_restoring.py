"""Restoring: the newest checkpoint that is whole is taken, a damaged one is named, and nothing is overwritten."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ray.train
import rich.style  # noqa: F401 - draws from Python's generator when Ray first imports it, in the middle of a run
import torch

from hyperpod_ray_training import InputError, Run, Settings, Unrecoverable
from tests.resilience.resumable_helpers import (
    EVERY,
    checkpoints,
    events,
    fit,
    fit_stopped,
    progress,
    write_snapshot,
)
from tests.resilience.test_resumable import no_process_group_left_behind

__all__ = ["no_process_group_left_behind"]


def shard(checkpoint: Path) -> Path:
    return next(iter(checkpoint.glob("*.distcp")))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x40
    path.write_bytes(content)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "flipped bit": (lambda path: flip(shard(path)), "CRC-32"),
    "short shard": (lambda path: shard(path).write_bytes(shard(path).read_bytes()[:100]), "has 100 bytes"),
    "missing note": (lambda path: (path / "checksums-0.json").unlink(), "has no CRC-32 noted"),
    "emptied note": (lambda path: (path / "checksums-0.json").write_text(""), "JSONDecodeError"),
    "missing shard": (lambda path: shard(path).unlink(), "is missing"),
    "somebody else's": (lambda path: path.chmod(0o777), "foreign: everybody may write"),
    "damaged metadata": (
        lambda path: (path / ".metadata").write_bytes(b"\x80\x04nonsense"),
        ".metadata cannot be read",
    ),
}


KINDS = [pytest.param(kind, marks=() if kind == "flipped bit" else pytest.mark.slow) for kind in DAMAGE]


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_checkpoint_is_told_and_passed_over(run: Run, undisturbed: dict[str, Any], kind: str) -> None:
    fit_stopped(run, at=10)
    damage, said = DAMAGE[kind]
    newest = checkpoints(run)[-1]
    damage(newest)
    result = fit(run)
    assert events(run, "restore")[-1]["step"] == 6
    told = [event for event in events(run, "error") if event.get("path") == str(newest)]
    assert said in told[0]["message"]
    assert torch.equal(result["weight"], undisturbed["weight"])


@pytest.mark.parametrize("kind", KINDS)
def test_with_none_usable_the_run_stops_and_overwrites_nothing(run: Run, kind: str) -> None:
    fit_stopped(run, at=10)
    for checkpoint in checkpoints(run):
        DAMAGE[kind][0](checkpoint)
    before = {path: path.read_bytes() for path in Path(run.url).rglob("step-*/*") if path.is_file()}
    with pytest.raises(Unrecoverable, match=r"no usable checkpoint.*nothing was overwritten"):
        fit(run)
    after = {path: path.read_bytes() for path in Path(run.url).rglob("step-*/*") if path.is_file()}
    # a folder that is incomplete may go, one that is complete may not change
    assert all(after[path] == content for path, content in before.items() if path in after)
    assert set(after) == set(before)
    assert progress(run)["state"] == "failed"


@pytest.mark.slow
def test_an_unfinished_checkpoint_does_not_count_and_is_tidied_away(run: Run, undisturbed: dict[str, Any]) -> None:
    fit_stopped(run, at=10)
    (checkpoints(run)[-1] / ".metadata").unlink()
    assert torch.equal(fit(run)["weight"], undisturbed["weight"])
    assert events(run, "restore")[-1]["step"] == 6
    assert all((path / ".metadata").exists() for path in checkpoints(run))


def test_only_what_was_there_at_a_return_from_memory_is_tidied_away(run: Run) -> None:
    folder = run.folder()
    for name in ("step-00000004-10500a", "step-00000006-1a7e50", "step-00000008-abcdef"):
        Path(folder.at(name)).mkdir(parents=True)
    there = {"step-00000004-10500a", "step-00000008-abcdef"}  # the third save began since
    assert folder.remove_unfinished(keep_attempt="abcdef", among=there) == ["step-00000004-10500a"]
    assert [path.name for path in checkpoints(run)] == ["step-00000006-1a7e50", "step-00000008-abcdef"]


@pytest.mark.slow
def test_a_folder_that_the_snapshot_names_is_never_removed(run: Run) -> None:
    fit_stopped(run, at=10)
    newest = checkpoints(run)[-1]
    (newest / ".metadata").unlink()
    write_snapshot(run, names=[newest.name], version=ray.__version__)
    fit(run)
    assert newest.exists()


@pytest.mark.slow
def test_a_new_run_can_start_from_another(run: Run, undisturbed: dict[str, Any]) -> None:
    fit_stopped(run, at=10)
    other = Run(storage=run.storage, name="other", save_every_steps=EVERY, start_from=run.url, settings=Settings())
    assert torch.equal(fit(other)["weight"], undisturbed["weight"])
    assert events(other, "restore")[0]["step"] == 9
    with pytest.raises(InputError, match=r"start_from: .* Expected a run with a checkpoint folder"):
        fit(Run(storage=run.storage, name="third", start_from=run.storage, settings=Settings()))
