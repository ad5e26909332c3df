"""`survive` around a `Trainer`: what it refuses before a run begins, and the hooks that it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from hyperpod_ray_training import Run
from hyperpod_ray_training.errors import InputError

transformers: Any = pytest.importorskip("transformers")


@pytest.fixture
def trainer(tmp_path: Path) -> Any:
    """A trainer of one layer, which never trains here."""
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path / "out"), use_cpu=True, report_to=[], save_strategy="no"
    )
    return transformers.Trainer(model=torch.nn.Linear(1, 1), args=arguments)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(storage=str(tmp_path), name="mine")


@pytest.mark.parametrize("where", ["extra", "per_rank"])
def test_the_trainer_is_no_state_of_its_own(trainer: Any, run: Run, where: str) -> None:
    """It holds the model and the run: a checkpoint of it would hold both a second time."""
    from hyperpod_ray_training.huggingface import survive

    before = list(trainer.callback_handler.callbacks)
    more: Any = {where: {"mine": trainer}}
    with pytest.raises(InputError, match="the Trainer itself in extra= or per_rank="):
        survive(trainer, run, **more)
    assert trainer.callback_handler.callbacks == before, "the trainer is as it was"


def test_a_trainer_of_another_version_is_refused_by_what_it_lacks(trainer: Any, run: Run) -> None:
    """Without a hook batches would be counted twice after a return, and nobody would notice."""
    from hyperpod_ray_training.huggingface import survive

    class Older:
        _load_rng_state = get_batch_samples = None

    with pytest.raises(InputError, match="no _run_epoch, _maybe_log_save_evaluate") as refused:
        survive(Older(), run)
    assert "transformers 5" in str(refused.value)
    assert survive(trainer, run) is trainer, "the version that is installed has all of them"


def test_steps_are_saved_before_other_callbacks_see_them(trainer: Any, run: Run) -> None:
    """A callback that begins the next step would change what is saved of this one."""
    from hyperpod_ray_training.huggingface import survive

    trainer.add_callback(transformers.TrainerCallback())
    names = [type(callback).__module__ for callback in survive(trainer, run).callback_handler.callbacks]
    assert names[0] == "hyperpod_ray_training.huggingface"
