"""Two ranks over gloo under torchrun: death in the middle of a save, other world sizes, the smallest job."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_training.interval import MEASURED_STEPS, WARM_STEPS

pytestmark = pytest.mark.slow

TINY = [
    "--width",
    "32",
    "--layers",
    "1",
    "--heads",
    "2",
    "--context",
    "16",
    "--global-batch",
    "6",
    "--validation-windows",
    "4",
    "--validate-every",
    "4",
    "--save-every-steps",
    "3",
]
Start = Callable[..., subprocess.CompletedProcess[str]]


def events(run: Path, kind: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == kind]


def losses(run: Path) -> dict[int, float]:
    """Step to loss; a step that was done again must have had the same loss."""
    found: dict[int, float] = {}
    for event in events(run, "step"):
        assert found.setdefault(event["step"], event["loss"]) == event["loss"], f"step {event['step']} went otherwise"
    return found


def test_death_at_any_moment_of_a_save_costs_no_checkpoint_and_no_bit(run_job: Start, tmp_path: Path) -> None:
    run_job("finetune", "--name", "calm", "--steps", "8", *TINY, ranks=2)
    run_job("finetune", "--name", "hit", "--steps", "3", *TINY, ranks=2)
    hit = tmp_path / "hit"
    (hit / "faults").mkdir()
    for fault in ("die-before-shard-rank-1", "die-after-shard-rank-1", "die-before-metadata-rank-0"):
        (hit / "faults" / fault).touch()
        died = run_job(
            "finetune", "--name", "hit", "--steps", "8", *TINY, ranks=2, check=False, RESILIENCE_FAULT_HOOKS="1"
        )
        assert died.returncode != 0
        assert not (hit / "faults" / fault).exists(), "the fault was never reached"
        unfinished = [path for path in hit.glob("step-*") if not (path / ".metadata").exists()]
        assert unfinished, "the death was not in the middle of a save"
    run_job("finetune", "--name", "hit", "--steps", "8", *TINY, ranks=2)
    assert [event["step"] for event in events(hit, "restore")] == [3, 3, 3, 3]
    assert [event["fault"] for event in events(hit, "fault")] == [
        "die-before-shard",
        "die-after-shard",
        "die-before-metadata",
    ]
    assert all((path / ".metadata").exists() for path in hit.glob("step-*"))  # what was left unfinished is gone
    assert losses(hit) == losses(tmp_path / "calm")


def test_seconds_become_the_same_steps_on_every_rank(run_job: Start, tmp_path: Path) -> None:
    """As `submit` passes them: far shorter than a step, so that every step is one to save at once a step is measured.

    Ranks with steps of their own would wait for each other in the save, and for ever in its collectives.
    """
    options = [*TINY[: TINY.index("--save-every-steps")], "--save-every-steps", "1000000", "--keep", "20"]
    run_job("finetune", "--name", "seconds", "--steps", "13", *options, ranks=2, RESILIENCE_SAVE_EVERY_S="0.000001")
    saved = {int(path.name.split("-")[1]): path for path in (tmp_path / "seconds").glob("step-*")}
    assert min(saved) == WARM_STEPS + MEASURED_STEPS + 1
    assert {10, 11, 12, 13} & set(saved)  # and again, though a save that goes on may let a step pass
    for folder in saved.values():
        assert (folder / ".metadata").exists()
        assert {path.name.split("_")[2] for path in folder.glob("__*.distcp")} == {"0", "1"}


def test_another_world_size_goes_on_where_the_last_one_stopped(run_job: Start, tmp_path: Path) -> None:
    calm = [*TINY, "--dropout", "0"]  # masks belong to ranks: with dropout another size is another run
    run_job("finetune", "--name", "two", "--steps", "9", *calm, ranks=2)
    run_job("finetune", "--name", "other", "--steps", "3", *calm, ranks=2)
    run_job("finetune", "--name", "other", "--steps", "6", *calm, ranks=3)
    run_job("finetune", "--name", "other", "--steps", "9", *calm, ranks=1)
    assert [event["world_before"] for event in events(tmp_path / "other", "resize")] == [2, 3]
    two, other = losses(tmp_path / "two"), losses(tmp_path / "other")
    assert set(two) == set(other) == set(range(1, 10))
    # the same batches and the same gradient; only the order of the sums differs
    worst = max(abs(two[step] - other[step]) / two[step] for step in two)
    assert worst < 1e-5, f"relative difference {worst:.1e}"


def test_the_same_resize_gives_the_same_run_with_dropout_too(run_job: Start, tmp_path: Path) -> None:
    for name in ("once", "twice"):
        run_job("finetune", "--name", name, "--steps", "3", *TINY, ranks=2)
        run_job("finetune", "--name", name, "--steps", "6", *TINY, ranks=3)
    assert losses(tmp_path / "once") == losses(tmp_path / "twice")
    # every rank draws its own numbers: with the same ones on all three, dropout would be a third as random
    run_job("finetune", "--name", "whole", "--steps", "6", *TINY, ranks=3)
    assert losses(tmp_path / "once")[6] != losses(tmp_path / "whole")[6]


def test_more_workers_than_samples_in_a_batch_is_refused(run_job: Start) -> None:
    arguments = [*TINY, "--global-batch", "1"]
    done = run_job("finetune", "--name", "thin", "--steps", "3", *arguments, ranks=2, check=False)
    assert done.returncode != 0
    assert "global batch: 1. Expected at least one sample for each of the 2 workers" in done.stderr


def test_the_smallest_job_learns_and_resumes(run_job: Start, tmp_path: Path) -> None:
    run_job("classify", "--name", "digits", "--steps", "60", "--save-every-steps", "30", ranks=2)
    run_job("classify", "--name", "digits", "--steps", "120", "--save-every-steps", "30", ranks=2)
    assert [event["step"] for event in events(tmp_path / "digits", "restore")] == [60]
    final = events(tmp_path / "digits", "done")[-1]
    assert final["step"] == 120
    assert final["accuracy"] > 0.85


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--workers", "4:2"], "workers: '4:2'. Expected 1 <= MIN <= MAX"),
        (["--workers", "some"], "workers: 'some'. Expected N, MIN:MAX or 0 for local mode"),
        (["--best", "loss"], "best: loss:. Expected METRIC:min or METRIC:max"),
        (["--data", "/nowhere"], "--data: /nowhere cannot be read or is empty"),
        (["--width", "33"], "--width: 33. Expected a multiple of --heads 4"),
    ],
)
def test_wrong_arguments_exit_2_with_one_line(run_job: Start, arguments: list[str], said: str) -> None:
    done = run_job("finetune", "--name", "wrong", "--steps", "1", *arguments, check=False)
    assert done.returncode == 2, done.stderr[-2000:]
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def in_a_tiny_file_system(tmp_path: Path, megabytes: int) -> list[str] | None:
    """A command prefix that runs the rest with a small tmpfs on tmp_path; None where this system forbids it."""
    flags = ["-m"] if os.geteuid() == 0 else ["-Urm"]
    mount = f'mount -t tmpfs -o size={megabytes}m tmpfs {tmp_path} && exec "$@"'
    prefix = ["unshare", *flags, "sh", "-c", mount, "sh"]
    try:
        allowed = subprocess.run([*prefix, "true"], capture_output=True, timeout=300, check=False).returncode == 0
    except FileNotFoundError:
        allowed = False
    return prefix if allowed else None


def test_a_full_file_system_is_told_in_words(tmp_path: Path) -> None:
    import sys

    from conftest import ROOT, job_environment

    prefix = in_a_tiny_file_system(tmp_path, 2)
    if prefix is None:
        pytest.skip(
            "mounting a tmpfs in a namespace is not allowed here; test_resumable covers the same with RLIMIT_FSIZE"
        )
    done = subprocess.run(
        [*prefix, sys.executable, str(ROOT / "jobs/finetune/train.py"), "--storage", str(tmp_path), "--name", "full",
         "--workers", "0", "--steps", "30", *TINY[:-1], "2", "--width", "96"],
        env=job_environment(), cwd=ROOT, capture_output=True, text=True, timeout=1800, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr[-3000:]
    assert "No space left on device" in done.stderr
    assert "free space or repair the storage, then submit the same run again" in done.stderr
    assert "Traceback" not in done.stderr.rsplit("[resilience] error:", 1)[1]
