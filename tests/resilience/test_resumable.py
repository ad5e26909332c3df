"""The loop's half in local mode: resume, damage, a full disk, a drain notice. One process, no cluster, no sleeping."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray.train
import rich.style  # noqa: F401 - draws from Python's generator when Ray first imports it, in the middle of a run
import torch
import torch.distributed as dist
from torch.distributed.checkpoint.filesystem import FileSystem

from hyperpod_ray_training import InputError, Resumable, Run, Settings, Unrecoverable
from hyperpod_ray_training.folder import SNAPSHOT, RunFolder
from tests.resilience.resumable_helpers import (
    EVERY,
    STEPS,
    checkpoints,
    events,
    fit,
    fit_stopped,
    progress,
    write_snapshot,
)

FULL_BYTES = 20_000  # the largest file a full disk still takes: a shard has more, the journal less


@pytest.fixture(autouse=True)
def no_process_group_left_behind() -> Iterator[None]:
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.mark.slow
def test_parts_of_a_step_have_their_pace(run: Run) -> None:
    noted: list[dict[str, Any]] = []

    def at_step(training: Resumable, step: int) -> None:
        noted.append(dict(training.journal.progress))
        if step < 6:
            training.part_done()
        if step == 3:
            with training.pause():
                assert training.parts.pace.last is not None
            assert training.parts.pace.last is None, "a pause is no gap"

    with pytest.raises(RuntimeError, match="stopped by the test"):
        fit(run, at_step=at_step, stop_at=8)
    paces = [one.get("part_s") is not None for one in noted]
    assert paces == [False] * 3 + [True] * 4 + [False], "three steps with parts, until one without"
    assert noted[4]["last_part_t"]
    dist.destroy_process_group()
    noted.clear()
    fit(run, at_step=at_step)
    again = noted[0]
    assert (again["last_part_t"], again["part_s"], again["part_pauses_s"]) == (None, None, None), "of this attempt only"


def test_a_stopped_run_ends_with_the_very_same_weights(run: Run, undisturbed: dict[str, Any]) -> None:
    fit_stopped(run, at=5)
    fit_stopped(run, at=10)
    result = fit(run)
    assert [event["step"] for event in events(run, "restore")] == [3, 9]
    assert torch.equal(result["weight"], undisturbed["weight"])
    assert result["loss"] == undisturbed["loss"]


@pytest.mark.parametrize("asynchronous", [True, False])
def test_each_save_holds_the_moment_it_was_asked_for(run: Run, undisturbed: dict[str, Any], asynchronous: bool) -> None:
    run = Run(storage=run.storage, name="moment", save_every_steps=1, async_save=asynchronous, settings=Settings())
    fit_stopped(run, at=7)
    assert torch.equal(fit(run)["weight"], undisturbed["weight"])
    assert [event["step"] for event in events(run, "restore")] == [7]


@pytest.mark.slow
def test_seconds_decide_when_to_save(run: Run, undisturbed: dict[str, Any]) -> None:
    """No multiple of the steps comes up; once a step is measured, each is longer than the interval."""
    often = Run(
        storage=run.storage, name="often", save_every_steps=10**6, keep=None, settings=Settings(save_every_s=1e-6)
    )
    assert torch.equal(fit(often)["weight"], undisturbed["weight"])
    saved = [int(path.name.split("-")[1]) for path in checkpoints(often)]
    assert min(saved) == 9
    assert len(saved) >= 2


@pytest.mark.slow
def test_a_finished_run_has_nothing_left_to_do(run: Run) -> None:
    fit(run)
    before = {path: path.stat().st_mtime_ns for path in Path(run.url).rglob("*.distcp")}

    def nothing(config: dict[str, Any]) -> None:
        model = torch.nn.Linear(10, 200)
        with Resumable(config["run"], model=model, optimizer=torch.optim.AdamW(model.parameters())) as training:
            assert list(training.steps(STEPS)) == []

    run.fit(nothing, workers=0)
    assert {path: path.stat().st_mtime_ns for path in Path(run.url).rglob("*.distcp")} == before


@pytest.mark.slow
def test_progress_and_events_say_what_happened(run: Run) -> None:
    fit_stopped(run, at=5)
    assert progress(run)["state"] == "failed"
    assert "stopped by the test" in progress(run)["last_error"]
    assert progress(run)["last_checkpoint_step"] == 3
    fit(run)
    kinds = [event["kind"] for event in events(run)]
    assert kinds.count("step") == 5 + (STEPS - 3)
    assert kinds.count("start") == 4  # driver and worker, twice
    assert kinds[-1] == "done"
    final = progress(run)
    assert (final["state"], final["last_step"], final["last_checkpoint_step"], final["world_size"]) == (
        "done",
        STEPS,
        STEPS,
        1,
    )
    assert final["last_checkpoint_t"] <= final["t"]
    assert Path(final["last_checkpoint_path"], ".metadata").exists()
    assert all(event["t"] > 1.7e9 for event in events(run))


# ---- damage ----


@pytest.mark.slow
def test_a_byte_spoilt_on_the_way_to_the_disk_is_found(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CRC-32 is of what was meant: one taken from the file would bless it, and a shard would be read twice."""
    fit_stopped(run, at=5)
    original = FileSystem.create_stream

    class Spoiling:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def write(self, data: Any) -> int:
            spoilt = bytearray(data)
            if len(spoilt) > 1000:
                spoilt[500] ^= 1
            return int(self.inner.write(spoilt))

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

    @contextlib.contextmanager
    def spoiling(self: Any, path: Any, mode: str) -> Iterator[Any]:
        with original(self, path, mode) as stream:
            yield Spoiling(stream) if str(path).endswith(".distcp") and mode == "wb" else stream

    monkeypatch.setattr(FileSystem, "create_stream", spoiling)
    fit_stopped(run, at=8)
    monkeypatch.setattr(FileSystem, "create_stream", original)
    fit(run)
    assert [event["step"] for event in events(run, "restore")] == [3, 3]
    assert "CRC-32" in events(run, "error")[-1]["message"]


def test_a_save_reads_no_shard_back_and_syncs_all_of_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[str, str]] = []
    fsync, replace = os.fsync, Path.rename

    def syncing(handle: int) -> None:
        done.append(("sync", Path(f"/proc/self/fd/{handle}").readlink().name))
        fsync(handle)

    def renaming(self: Path, target: Any) -> Any:
        done.append(("rename", Path(target).name))
        return replace(self, target)

    def reading(*_: object) -> None:
        pytest.fail("a save reads its shard back")

    monkeypatch.setattr(os, "fsync", syncing)
    monkeypatch.setattr(Path, "rename", renaming)
    monkeypatch.setattr(RunFolder, "crc", reading)
    fit_stopped(run, at=4)
    (checkpoint,) = checkpoints(run)
    order = [
        ("sync", "__0_0.distcp"),
        ("sync", "checksums-0.json"),
        ("sync", checkpoint.name),
        ("sync", ".metadata.tmp"),
        ("rename", ".metadata"),
        ("sync", checkpoint.name),
        ("sync", "run"),
    ]
    at = [done.index(order[0])]
    for step in order[1:]:
        at.append(done.index(step, at[-1] + 1))  # ValueError: not done, or not in this order


# ---- storage ----


@pytest.mark.slow
def test_a_disk_that_fills_up_keeps_what_there_was_and_ends_the_run_in_words(run: Run) -> None:
    fit_stopped(run, at=5)
    before = {path: path.read_bytes() for path in checkpoints(run)[0].iterdir()}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (FULL_BYTES, hard))
        with pytest.raises(Unrecoverable) as caught:
            fit(run)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "File too large" in str(caught.value)
    assert "step 3, the newest complete checkpoint, is untouched" in str(caught.value)
    assert {path: path.read_bytes() for path in checkpoints(run)[0].iterdir()} == before
    assert [path.name[:13] for path in checkpoints(run)] == ["step-00000003"]  # failed ones gave their room back
    dist.destroy_process_group()
    assert fit(run)["step"] == STEPS  # with room again, the same run goes on


@pytest.mark.slow
def test_one_failed_save_is_told_and_training_goes_on(run: Run, undisturbed: dict[str, Any]) -> None:
    def full_for_a_moment(training: Resumable, step: int) -> None:
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        training.saver.finish()
        resource.setrlimit(resource.RLIMIT_FSIZE, (FULL_BYTES if step in {5, 6} else hard, hard))

    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    try:
        result = fit(run, at_step=full_for_a_moment)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert torch.equal(result["weight"], undisturbed["weight"])
    assert [event["step"] for event in events(run, "save")] == [3, 9, 12]
    assert [event["step"] for event in events(run, "error")] == [6]


@pytest.mark.slow
def test_failed_saves_with_good_ones_between_them_do_not_end_the_run(run: Run) -> None:
    """The limit is of failures in a row: a run of weeks meets more than that in all."""
    short = dataclasses.replace(run, save_every_steps=1, settings=Settings(save_failure_limit=2))
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]

    def full_at_every_second(training: Resumable, step: int) -> None:
        training.saver.finish()
        resource.setrlimit(resource.RLIMIT_FSIZE, (FULL_BYTES if step in {2, 4, 6, 8} else hard, hard))

    try:
        assert fit(short, at_step=full_at_every_second)["step"] == STEPS
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert [event["step"] for event in events(short, "error")] == [3, 5, 7, 9]


FULL = {
    "disk-full": "No space left on device. To make room, delete runs that nobody needs (`du -sh ",
    "quota-full": f"(`lfs setquota -u {os.geteuid()} -B SIZE ",
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FULL)
def test_a_save_that_meets_a_full_quota_is_told_and_the_run_goes_on_when_room_is_made(
    run: Run, undisturbed: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capfd: Any, fault: str
) -> None:
    """A user's quota on Lustre is full (EDQUOT) in the middle of five saves; somebody deletes files before the next.

    That is more failures than the limit of broken storage: a run that ended would lose what it keeps here.
    """
    monkeypatch.setenv("RESILIENCE_FAULT_HOOKS", "1")
    full = range(5, 10)
    assert len(full) > run.settings.save_failure_limit

    def full_for_a_while(training: Resumable, step: int) -> None:
        training.saver.finish()
        if step - 1 in full:  # the save of the step before has met it
            newest = [checkpoint for checkpoint in checkpoints(run) if (checkpoint / ".metadata").exists()]
            assert [checkpoint.name[:13] for checkpoint in newest][-1] == f"step-{full[0]:08}"
            assert len(checkpoints(run)) == len(newest), "what is torn is removed"
        if step in full:
            folder = Path(run.url) / "faults"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{fault}-rank-0").touch()

    result = fit(dataclasses.replace(run, save_every_steps=1), at_step=full_for_a_while)
    assert torch.equal(result["weight"], undisturbed["weight"])
    assert [event["step"] for event in events(run, "save")] == [1, 2, 3, 4, 5, 11, 12]
    errors = events(run, "error")
    assert [event["step"] for event in errors] == [6, 7, 8, 9, 10]
    for told in (*(event["message"] for event in errors), progress(run)["last_error"], capfd.readouterr().err):
        assert FULL[fault] in told
    assert len(progress(run)["last_error"]) < 300, "a line of `runs show` has all of it"


@pytest.mark.parametrize("where", ["/proc/nowhere", "FILE/below"])
def test_an_unwritable_path_is_refused_before_anything_starts(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("")
    storage = where.replace("FILE", str(tmp_path / "file"))
    with pytest.raises(
        InputError, match=r"storage: .* cannot be written \(.*Expected a path that every node can write"
    ):
        fit(Run(storage=storage, name="run", settings=Settings()))


# ---- Ray's snapshot ----


def test_another_ray_versions_snapshot_is_refused_and_left_alone(run: Run) -> None:
    fit_stopped(run, at=5)
    snapshot = write_snapshot(run, names=[checkpoints(run)[0].name], version="2.49.0")
    before = snapshot.read_bytes()
    with pytest.raises(
        InputError, match=r"written by Ray 2\.49\.0, this is Ray 2\.\d+\.\d+; nothing was changed.*--rebuild-snapshot"
    ):
        fit(run)
    assert snapshot.read_bytes() == before


@pytest.mark.slow
def test_rebuild_snapshot_goes_on_from_disk(run: Run, undisturbed: dict[str, Any]) -> None:
    fit_stopped(run, at=5)
    write_snapshot(run, names=[checkpoints(run)[0].name], version="2.49.0")
    rebuilt = Run(
        storage=run.storage, name=run.name, save_every_steps=EVERY, rebuild_snapshot=True, settings=Settings()
    )
    assert torch.equal(fit(rebuilt)["weight"], undisturbed["weight"])
    assert events(run, "restore")[-1]["step"] == 3
    assert list(Path(run.url).glob(f"{SNAPSHOT}.*"))  # set aside, not deleted


def test_a_snapshot_that_names_a_deleted_folder_is_refused(run: Run) -> None:
    fit_stopped(run, at=5)
    write_snapshot(run, names=["step-00000001-abcdef", checkpoints(run)[0].name], version=ray.__version__)
    with pytest.raises(InputError, match="names checkpoints that are gone: step-00000001-abcdef"):
        fit(run)


@pytest.mark.slow
def test_a_snapshot_cut_short_is_set_aside_without_a_hand(run: Run, undisturbed: dict[str, Any]) -> None:
    fit_stopped(run, at=5)
    path = write_snapshot(run, names=[checkpoints(run)[0].name], version=ray.__version__)
    path.write_text(path.read_text()[:40])
    assert torch.equal(fit(run)["weight"], undisturbed["weight"])
    assert events(run, "restore")[-1]["step"] == 3


# ---- a drain notice ----


# ---- misuse ----


def test_a_loop_that_forgets_finished_is_told(run: Run) -> None:
    def forgetful(config: dict[str, Any]) -> None:
        model = torch.nn.Linear(2, 1)
        with Resumable(config["run"], model=model, optimizer=torch.optim.SGD(model.parameters())) as training:
            for _ in training.steps(3):
                pass

    with pytest.raises(InputError, match=r"one call of finished\(0, …\) at the end of each step"):
        run.fit(forgetful, workers=0)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("storage", "runs", "storage: 'runs'. Expected an absolute path"),
        ("name", "a/b", "name: 'a/b'. Expected one folder name"),
        ("save_every_steps", 0, "save_every_steps, event_every_steps: 0, 1"),
        ("keep", 0, "keep: 0. Expected 1 or more"),
        ("best", ("loss", ""), "best: loss:. Expected METRIC:min or METRIC:max"),
    ],
)
def test_a_wrong_run_is_refused(field: str, value: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        Run(**{"storage": "/tmp", "name": "run", "settings": Settings(), field: value})
    assert said in str(caught.value)
