"""What Ray's controller makes of the errors of workers: whose they are, and when a run ends."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ray.train.v2._internal.exceptions import UserExceptionWithTraceback

from hyperpod_ray_training import Run, Settings
from hyperpod_ray_training.watch import Watch


def watch(tmp_path: Path) -> Watch:
    run = Run(storage=str(tmp_path), name="watched", settings=Settings(crash_loop_limit=3))
    (tmp_path / "watched").mkdir()
    return Watch(run)


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("shapes do not match", True),
        ("CUDA error: device-side assert triggered", True),
        ("CUDA error: an illegal memory access was encountered", True),
        ("CUDA error: uncorrectable ECC error encountered", False),
        ("NCCL error: unhandled system error", False),
    ],
)
def test_an_error_of_the_script_ends_the_run_and_one_of_a_machine_does_not(
    tmp_path: Path, text: str, ends: bool
) -> None:
    watched = watch(tmp_path)
    fatal = [watched._judge({0: RuntimeError(text)}) for _ in range(3)]
    assert fatal[:2] == [None, None]
    assert (fatal[2] is not None) == ends


def returned(call: Callable[[], Any]) -> Exception:
    """As Ray returns what a worker's loop raised."""
    try:
        call()
    except Exception as caught:
        of_ray: Exception = UserExceptionWithTraceback(caught, traceback.format_exc())
        return of_ray
    raise AssertionError("nothing was raised")


def quotes(text: str) -> None:
    raise RuntimeError(text)


@pytest.mark.parametrize(
    "call",
    [
        lambda: int("NCCL"),
        lambda: dict[str, int]()["Connection"],
        lambda: quotes("Worker 3 has no timeout in its configuration"),
        lambda: quotes("gloo"),
    ],
)
def test_an_error_of_the_script_that_quotes_a_machines_ends_the_run_too(
    tmp_path: Path, call: Callable[[], Any]
) -> None:
    watched = watch(tmp_path)
    fatal = [watched._judge({0: returned(call)}) for _ in range(3)]
    assert "the same error 3 times in a row" in str(fatal[2])


@pytest.mark.slow
def test_a_collective_that_waited_for_its_limit_names_the_way_out(tmp_path: Path) -> None:
    watch(tmp_path)._judge({1: RuntimeError("[gloo/pair.cc:537] Timed out waiting 20000ms for recv operation")})
    (line,) = (tmp_path / "watched" / "events.jsonl").read_text().splitlines()
    message = json.loads(line)["message"]
    assert "Timed out waiting 20000ms" in message
    assert "process_group_timeout_s (20)" in message
    assert "Fix: training.pause() on every rank" in message
