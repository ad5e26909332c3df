"""Hugging Face's `Trainer` in a run that survives: its loop stays, its state is the run's.

    trainer = Trainer(model=model, args=arguments, train_dataset=data)
    survive(trainer, config["run"]).train()

A step of the run is a step of the optimizer. Set `save_strategy="no"`: the run saves. Batches that are done are passed
over by index, as `Trainer` does it; a collator that draws random numbers (masked language models) draws others for the
batch that was already loaded when the state was copied.

Hooks used, of transformers 5: `Trainer._run_epoch`, `_load_rng_state`, `_maybe_log_save_evaluate`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import Trainer, TrainerCallback
from transformers.trainer_callback import ExportableState

from hyperpod_ray_training import rng
from hyperpod_ray_training.completeness import TRAINER
from hyperpod_ray_training.errors import InputError
from hyperpod_ray_training.resumable import Resumable
from hyperpod_ray_training.run import Run
from hyperpod_ray_training.stateful import View

_HOOKS = ("_run_epoch", "get_batch_samples", "_load_rng_state", "_maybe_log_save_evaluate")


def survive(
    trainer: Trainer,
    run: Run,
    *,
    extra: Mapping[str, Any] | None = None,
    per_rank: Mapping[str, Any] | None = None,
    recomputed: Sequence[Any] = (),
) -> Trainer:
    """Let `trainer.train()` resume where the run stands; the same trainer.

    Args:
        trainer: As it is made in the loop function, in every worker.
        run: In the loop function it is `config["run"]`.
        extra: State of your own beside the trainer's, such as a reference model that is trained along.
        per_rank: The same, of each rank.
        recomputed: What need not come back.
    """
    missing = [name for name in _HOOKS if not hasattr(trainer, name)]
    if missing:
        raise InputError(
            f"transformers: this version's Trainer has no {', '.join(missing)}",
            expected="transformers 5",
            fix="install it in the image",
        )
    if any(value is trainer for value in [*(extra or {}).values(), *(per_rank or {}).values()]):
        raise InputError(
            f"survive: the {type(trainer).__name__} itself in extra= or per_rank=, which has the model and the run",
            expected="what its class keeps beside those",
            fix="trainer.kept = Values(mean=…), per_rank={'kept': trainer.kept}, and self.kept.mean in the class",
        )
    more = {"extra": dict(extra or {}), "per_rank": dict(per_rank or {}), "recomputed": recomputed}
    keeper = Survive(trainer, run, more)
    trainer.add_callback(keeper)
    # a step is saved before other callbacks begin the next one, and restored after they have begun the training
    trainer.callback_handler.callbacks.insert(0, _Steps(keeper))
    trainer._run_epoch = keeper.around_epoch(trainer._run_epoch)
    trainer.get_batch_samples = keeper.around_batches(trainer.get_batch_samples)
    trainer._load_rng_state = keeper.load_rng_state
    trainer._maybe_log_save_evaluate = keeper.around_pause(trainer._maybe_log_save_evaluate)
    return trainer


class _State(View):
    """The trainer's `TrainerState` and its callbacks', the same on every rank."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer

    def state_dict(self) -> dict[str, Any]:
        """As the trainer writes it, in one string."""
        state, handler = self.trainer.state, self.trainer.callback_handler
        exported = [
            callback for callback in [*handler.callbacks, self.trainer.control] if isinstance(callback, ExportableState)
        ]
        callbacks = {type(callback).__name__: callback.state() for callback in exported}
        return {"json": json.dumps(dataclasses.asdict(state) | {"stateful_callbacks": callbacks})}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Into the state that the trainer has already made."""
        for name, value in json.loads(saved["json"]).items():
            setattr(self.trainer.state, name, value)
        self.trainer._load_callback_state()


class _Sums(View):
    """What the trainer adds up until it logs; of this rank."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer

    def held(self) -> list[Any]:
        """The sum that is a tensor."""
        return [self.trainer._tr_loss]

    def state_dict(self) -> dict[str, Any]:
        """Three sums."""
        trainer = self.trainer
        return {
            "loss": trainer._tr_loss.cpu(),
            "logged": trainer._total_loss_scalar,
            "step": trainer._globalstep_last_logged,
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Into the running trainer."""
        trainer = self.trainer
        trainer._tr_loss = saved["loss"].to(trainer.args.device)
        trainer._total_loss_scalar, trainer._globalstep_last_logged = saved["logged"], saved["step"]


_SAVED_AS_SUMS = ("_total_loss_scalar", "_globalstep_last_logged")


class Survive(TrainerCallback):
    """Brings the trainer's steps to the run; `survive` adds it."""

    def __init__(self, trainer: Trainer, run: Run, more: dict[str, Any]) -> None:
        self.trainer, self.run, self.more = trainer, run, more
        self.training: Any = None
        self.numbers: bytes | None = None
        self.ran = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Everything is made: restore."""
        trainer = self.trainer
        optimizer = getattr(trainer.optimizer, "optimizer", trainer.optimizer)  # Accelerate's is around torch's
        extra = {**self.more["extra"], "scheduler": trainer.lr_scheduler, "trainer": _State(trainer)}
        if trainer.accelerator.scaler is not None:
            extra["scaler"] = trainer.accelerator.scaler
        model = trainer.model_wrapped if isinstance(trainer.model_wrapped, torch.nn.Module) else trainer.model
        self.training = Resumable(
            self.run, model=model, optimizer=optimizer, extra=extra,
            recomputed=[*self.more["recomputed"], *_SAVED_AS_SUMS],
            per_rank={**self.more["per_rank"], "sums": _Sums(trainer)},
        )  # fmt: skip
        self.training.fetched_ahead("survive")
        self.training.looks_at(
            {TRAINER: trainer}
            | {f"{TRAINER}.callback_handler.callbacks[{number}]": callback
               for number, callback in enumerate(trainer.callback_handler.callbacks[1:])
               if not isinstance(callback, ExportableState)}
        )  # fmt: skip
        self.training.total_steps = state.max_steps
        self.training.begin()
        self.numbers = rng.capture(self.training.device)
        self.start = (self.training.position.epoch, self.training.position.batch)

    def around_epoch(self, original: Any) -> Any:
        """Epochs that are done are not run; the one under way starts behind its batches."""

        def run_epoch(**options: Any) -> None:
            training, position = self.training, self.training.position
            epoch, (resumed_epoch, batch) = options["epoch"], self.start
            if self.ran:
                position.next_epoch()
                training.end_step()
            if self.trainer.state.global_step >= self.trainer.state.max_steps:
                self.trainer.control.should_training_stop = True
            if epoch < resumed_epoch or self.trainer.control.should_training_stop:
                return
            self.ran = True
            if epoch == resumed_epoch and (resumed_epoch or batch):
                options |= {
                    "resume_from_checkpoint": "the run's", "epochs_trained": epoch,
                    "steps_trained_in_current_epoch": batch,
                }  # fmt: skip
            original(**options)

        return run_epoch

    def around_batches(self, original: Any) -> Any:
        """Batches of a step come from a place that the run keeps."""

        def get_batch_samples(*args: Any, **kwargs: Any) -> Any:
            batches = original(*args, **kwargs)
            if self.training is not None:
                self.training.handed(batches)
            return batches

        return get_batch_samples

    def load_rng_state(self, _: Any) -> None:
        """The trainer asks for this once it has passed over the batches that are done."""
        if self.numbers is not None:
            rng.restore(self.numbers, self.training.device)

    def around_pause(self, original: Any) -> Any:
        """An evaluation or a save may take long."""

        def log_save_evaluate(*args: Any, **kwargs: Any) -> None:
            control = self.trainer.control
            if not (control.should_evaluate or control.should_save):
                original(*args, **kwargs)
                return
            with self.training.pause():
                original(*args, **kwargs)

        return log_save_evaluate

    def on_substep_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """A batch of the step is done, and it has more."""
        self.training.part_done()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Count its batches."""
        self.training.position.batch += self.trainer.current_gradient_accumulation_steps

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """What the trainer logs goes into the run's journal."""
        self.training.note(**{key: value for key, value in (logs or {}).items() if isinstance(value, (int, float))})

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Save the last step."""
        self.training.end()


class _Steps(TrainerCallback):
    """Tells the run where a step ends, before any other callback knows of the next one."""

    def __init__(self, keeper: Survive) -> None:
        self.keeper = keeper

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The step before is done, with its logs and evaluations."""
        self.keeper.training.end_step()
        self.keeper.training.begin_step()
