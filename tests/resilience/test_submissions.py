"""A run that Ray has given up is started again, except where no new attempt can help."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.train import ControllerError

from hyperpod_ray_training import InputError, Run, Settings, Unrecoverable
from hyperpod_ray_training.submissions import Submissions


@pytest.fixture
def run(tmp_path: Path) -> Run:
    (tmp_path / "run").mkdir()
    return Run(storage=str(tmp_path), name="run", settings=Settings(crash_loop_limit=3))


def failing(errors: list[Exception], *, after_each: Callable[[], None] = lambda: None) -> Callable[[], Any]:
    def fit() -> str:
        if errors:
            after_each()
            raise errors.pop(0)
        return "done"

    return fit


def test_a_controller_that_failed_is_started_again(run: Run) -> None:
    pauses: list[float] = []
    errors: list[Exception] = [
        ControllerError(RuntimeError("one")),
        ray.exceptions.ActorDiedError(),
        ControllerError(ValueError("two")),
    ]
    assert Submissions(run, sleep=pauses.append).until_done(failing(errors)) == "done"
    assert pauses == [0.5, 0.5, 0.5]
    assert Path(run.url, "events.jsonl").read_text().count("controller failed, started again") == 3


def test_the_same_failure_without_progress_ends_the_run(run: Run) -> None:
    pauses: list[float] = []
    errors: list[Exception] = [ControllerError(RuntimeError(f"at address {n}")) for n in range(9)]
    with pytest.raises(ControllerError):
        Submissions(run, sleep=pauses.append).until_done(failing(errors))
    assert pauses == [0.5, 1.0]


def test_a_new_checkpoint_is_progress(run: Run) -> None:
    steps = iter(range(1, 9))
    errors: list[Exception] = [ControllerError(RuntimeError("again")) for _ in range(7)]
    fit = failing(errors, after_each=lambda: Path(run.url, f"step-{next(steps):08d}-abcdef").mkdir(parents=True))
    assert Submissions(run, sleep=lambda _: None).until_done(fit) == "done"


@pytest.mark.parametrize(
    "error",
    [ControllerError(Unrecoverable("no retry can help")), InputError("wrong"), RuntimeError("the user's")],
)
def test_what_no_attempt_can_help_is_raised_at_once(run: Run, error: Exception) -> None:
    with pytest.raises(type(error)):
        Submissions(run, sleep=lambda _: pytest.fail("waited")).until_done(failing([error]))
