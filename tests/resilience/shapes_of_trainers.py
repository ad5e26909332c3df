"""Shapes whose loop is a trainer's: TRL's SFT and DPO on Hugging Face's `Trainer`, and Lightning."""

# mypy: allow-untyped-decorators
from __future__ import annotations

import copy
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from shapes import STEPS, shape, total
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from hyperpod_ray_training import Run, Values

VOCABULARY, LENGTH = 32, 12


def causal_model() -> Any:
    """A GPT of two thin layers, with dropout."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=VOCABULARY, n_positions=LENGTH, n_embd=16, n_layer=2, n_head=2, bos_token_id=0,
                   eos_token_id=0)
    )  # fmt: skip


def arguments_of(run: Run, **more: Any) -> Any:
    """What TRL's configurations set, for `STEPS` steps on a CPU."""
    from transformers import TrainingArguments

    return TrainingArguments(
        output_dir=str(Path(run.url) / "trainer"), use_cpu=True, max_steps=STEPS, per_device_train_batch_size=2,
        learning_rate=1e-2, warmup_steps=2, lr_scheduler_type="cosine", logging_steps=1, save_strategy="no",
        report_to="none", disable_tqdm=True, ddp_backend="gloo", dataloader_pin_memory=False,
        remove_unused_columns=False, **more,
    )  # fmt: skip


def weights(model: nn.Module) -> float:
    """A number that differs where any weight does."""
    return sum(float(parameter.detach().double().square().sum()) for parameter in model.parameters())


def tokens(count: int, seed: int) -> torch.Tensor:
    return torch.randint(1, VOCABULARY, (count, LENGTH), generator=torch.Generator().manual_seed(seed))


@shape
def trl_sft(run: Run) -> None:
    """Loss on completions alone, two batches accumulated, a token accuracy that is averaged until the next log."""
    from transformers import Trainer

    from hyperpod_ray_training.huggingface import survive

    class SFTTrainer(Trainer):  # type: ignore[misc]
        _metrics: Any

        def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **more: Any) -> Any:
            loss, outputs = super().compute_loss(model, inputs, return_outputs=True, **more)
            right = (outputs.logits[:, :-1].argmax(-1) == inputs["labels"][:, 1:]).float().mean()
            self._metrics["mean_token_accuracy"].append(right.item())
            return (loss, outputs) if return_outputs else loss

        def log(self, logs: Any, *rest: Any) -> None:
            logs |= {key: sum(values) / len(values) for key, values in self._metrics.items() if values}
            self._metrics.clear()
            super().log(logs | ({"loss": logs["loss"] + weights(self.model)} if "loss" in logs else {}), *rest)

    def collate(examples: list[torch.Tensor]) -> dict[str, torch.Tensor]:
        ids = torch.stack(examples)
        labels = ids.clone()
        labels[:, : LENGTH // 2] = -100  # the prompt
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}

    trainer = SFTTrainer(
        model=causal_model(), args=arguments_of(run, gradient_accumulation_steps=2), data_collator=collate,
        train_dataset=list(tokens(48, 1)),
    )  # fmt: skip
    trainer._metrics = defaultdict(list)
    survive(trainer, run).train()


def _dpo(run: Run, *, synced: bool, saved: bool) -> None:
    """Chosen against rejected, held against a reference model; `synced` as TRL's `sync_ref_model=True`."""
    from transformers import Trainer, TrainerCallback

    from hyperpod_ray_training.huggingface import survive

    class DPOTrainer(Trainer):  # type: ignore[misc]
        ref_model: Any
        beta = 0.5

        def logps(self, model: Any, ids: torch.Tensor) -> torch.Tensor:
            chances = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[:, :-1].log_softmax(-1)
            each: torch.Tensor = chances.gather(2, ids[:, 1:, None])[:, LENGTH // 2 :, 0]
            return each.sum(1)

        def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **_: Any) -> Any:
            ids = torch.cat([inputs["chosen"], inputs["rejected"]])
            with torch.no_grad():
                chosen_ref, rejected_ref = self.logps(self.ref_model, ids).chunk(2)
            chosen, rejected = self.logps(model, ids).chunk(2)
            margins = (chosen - rejected) - (chosen_ref - rejected_ref)
            loss = -functional.logsigmoid(self.beta * margins).mean()
            return (loss, {}) if return_outputs else loss

        def log(self, logs: Any, *rest: Any) -> None:
            shown = {"loss": logs["loss"] + weights(self.model)} if "loss" in logs else {}
            super().log(logs | shown, *rest)

    class SyncRefModel(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step % 4 == 0:
                with torch.no_grad():
                    for slow, quick in zip(ref_model.parameters(), trainer.model.parameters(), strict=True):
                        slow.mul_(0.4).add_(quick, alpha=0.6)

    def collate(examples: list[torch.Tensor]) -> dict[str, torch.Tensor]:
        pairs = torch.stack(examples)
        return {"chosen": pairs[:, 0], "rejected": pairs[:, 1]}

    model = causal_model()
    ref_model = copy.deepcopy(model).eval().requires_grad_(False)
    trainer = DPOTrainer(
        model=model, args=arguments_of(run), data_collator=collate, callbacks=[SyncRefModel()] if synced else [],
        train_dataset=list(torch.stack([tokens(48, 1), tokens(48, 2)], dim=1)),
    )  # fmt: skip
    trainer.ref_model = ref_model
    survive(trainer, run, extra={"ref_model": ref_model} if saved else {}).train()


@shape
def trl_dpo(run: Run) -> None:
    _dpo(run, synced=False, saved=False)


@shape
def trl_dpo_synced_reference(run: Run) -> None:
    _dpo(run, synced=True, saved=True)


@shape
def trl_dpo_synced_reference_forgotten(run: Run) -> None:
    _dpo(run, synced=True, saved=False)


def _batches(count: int) -> DataLoader[Any]:
    data = torch.randn(count, 8, generator=torch.Generator().manual_seed(1))
    return DataLoader(TensorDataset(data), batch_size=2, shuffle=True)


@shape
def lightning_gan(run: Run) -> None:
    """Lightning's own GAN example: manual optimization, two optimizers, toggled; a metric over the epoch."""
    import pytorch_lightning as pl
    import torchmetrics

    from hyperpod_ray_training.lightning import in_ray

    class Gan(pl.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = False
            self.make, self.judge = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1)), nn.Linear(8, 1)
            self.realism = torchmetrics.MeanMetric()

        def training_step(self, batch: Any, index: int) -> Any:
            (real,), (for_make, for_judge) = batch, self.optimizers()
            self.toggle_optimizer(for_make)
            loss = (self.judge(self.make(torch.randn(2, 8))) - 1).square().mean()
            self.manual_backward(loss)
            for_make.step()
            for_make.zero_grad()
            self.untoggle_optimizer(for_make)
            self.toggle_optimizer(for_judge)
            shown = self.judge(self.make(torch.randn(2, 8)).detach())
            lost = (self.judge(real) - 1).square().mean() + shown.square().mean()
            self.manual_backward(lost)
            for_judge.step()
            for_judge.zero_grad()
            self.untoggle_optimizer(for_judge)
            self.realism.update(shown.detach())
            self.log("realism", self.realism, on_step=False, on_epoch=True)
            # without sync_dist each rank's scheduler would see a loss of its own, and the ranks would drift apart
            self.log("judge_loss", lost, on_step=True, on_epoch=True, sync_dist=True)
            return torch.tensor(total(loss + lost))

        def on_train_epoch_end(self) -> None:
            decay = self.trainer.callback_metrics["realism"].abs() + self.trainer.callback_metrics["judge_loss_epoch"]
            for optimizer in self.optimizers():  # whoever has lost a batch of the epoch takes another rate
                for group in optimizer.param_groups:
                    group["lr"] = 0.05 / (1 + float(decay))

        def configure_optimizers(self) -> Any:
            return [torch.optim.Adam(part.parameters(), lr=0.05) for part in (self.make, self.judge)]

    torch.manual_seed(0)
    trainer = pl.Trainer(
        **in_ray(run, find_unused_parameters=True), max_epochs=4, logger=False, enable_progress_bar=False,
        enable_model_summary=False, log_every_n_steps=1,
    )  # fmt: skip
    trainer.fit(Gan(), _batches(16))


@shape
def lightning_monitor(run: Run) -> None:
    """A scheduler that monitors the mean of an epoch, which a fault in mid-epoch must not begin again."""
    import pytorch_lightning as pl

    from hyperpod_ray_training.lightning import in_ray

    class OfMean(torch.optim.lr_scheduler.ReduceLROnPlateau):  # type: ignore[misc]
        """Whoever sees another mean, or none, takes another rate."""

        def step(self, metrics: Any, epoch: Any = None) -> None:
            for group in self.optimizer.param_groups:
                group["lr"] = 0.01 / (1 + float(metrics))

    class Module(pl.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.Linear(16, 1))

        def training_step(self, batch: Any, _: int) -> torch.Tensor:
            loss: torch.Tensor = self.inner(batch[0]).square().mean()
            self.log("train_loss", loss, on_epoch=True, sync_dist=True)
            return loss + 0 * total(loss)

        def validation_step(self, batch: Any, _: int) -> None:
            self.log("val_loss", self.inner(batch[0]).square().mean(), sync_dist=True)

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
            scheduler = OfMean(optimizer)
            of_loss = {"scheduler": scheduler, "monitor": "train_loss_epoch", "interval": "epoch"}
            return {"optimizer": optimizer, "lr_scheduler": of_loss}

    torch.manual_seed(0)
    trainer = pl.Trainer(
        **in_ray(run), max_epochs=4, logger=False, enable_progress_bar=False, enable_model_summary=False,
        log_every_n_steps=1,
    )  # fmt: skip
    trainer.fit(Module(), _batches(16), DataLoader(TensorDataset(torch.ones(4, 8)), batch_size=2))


@shape
def lightning_states(run: Run) -> None:
    """A callback with a state, a metric that a step reads, and a value that is logged once in an epoch."""
    import pytorch_lightning as pl
    import torchmetrics

    from hyperpod_ray_training.lightning import in_ray

    class Decay(pl.Callback):  # type: ignore[misc]
        """As callbacks that count by themselves: the rate follows the batches that it has met."""

        def __init__(self) -> None:
            self.batches = 0

        def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
            self.batches += 1
            for group in trainer.optimizers[0].param_groups:
                group["lr"] = 0.05 / self.batches

        def state_dict(self) -> dict[str, Any]:
            return {"batches": self.batches}

        def load_state_dict(self, state_dict: dict[str, Any]) -> None:
            self.batches = state_dict["batches"]

    class Module(pl.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(8, 1)
            self.average = torchmetrics.MeanMetric()

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            loss: torch.Tensor = self.inner(batch[0]).square().mean()
            self.average.update(loss.detach())
            if index == 0:  # a fault later in the epoch must not lose it
                self.log("first", loss, on_step=False, on_epoch=True, sync_dist=True)
            return loss * (1 + self.average.compute()) + 0 * total(loss)

        def on_train_epoch_end(self) -> None:
            with torch.no_grad():
                self.inner.bias += self.trainer.callback_metrics["first"]
            self.average.reset()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)

    torch.manual_seed(0)
    trainer = pl.Trainer(
        **in_ray(run, callbacks=[Decay()]), max_epochs=2, logger=False, enable_progress_bar=False,
        enable_model_summary=False, log_every_n_steps=1,
    )  # fmt: skip
    trainer.fit(Module(), _batches(32))


def _rate_by_callback(run: Run, *, saved: bool) -> None:
    """A callback that counts by itself, and sets the rate."""
    from transformers import Trainer, TrainerCallback

    from hyperpod_ray_training.huggingface import survive

    class ByCallback(Trainer):  # type: ignore[misc]
        def log(self, logs: Any, *rest: Any) -> None:
            super().log(logs | ({"loss": logs["loss"] + weights(self.model)} if "loss" in logs else {}), *rest)

    class Rate(TrainerCallback):  # type: ignore[misc]
        def __init__(self) -> None:
            self.steps_begun = 0

        def on_step_begin(self, args: Any, state: Any, control: Any, **objects: Any) -> None:
            self.steps_begun += 1
            objects["optimizer"].param_groups[0]["lr"] = 0.01 / self.steps_begun

    def collate(examples: list[torch.Tensor]) -> dict[str, torch.Tensor]:
        return {"input_ids": torch.stack(examples), "labels": torch.stack(examples)}

    rate = Rate()
    trainer = ByCallback(
        model=causal_model(), args=arguments_of(run), data_collator=collate, train_dataset=list(tokens(96, 1)),
        callbacks=[rate],
    )  # fmt: skip
    survive(trainer, run, per_rank={"rate": rate} if saved else {}).train()


@shape
def trainer_callback(run: Run) -> None:
    _rate_by_callback(run, saved=True)


@shape
def trainer_callback_forgotten(run: Run) -> None:
    _rate_by_callback(run, saved=False)


def _normalized_by_a_mean(run: Run, *, saved: bool) -> None:
    """A trainer of one's own that divides by a mean of its losses, another tensor after each step."""
    from transformers import Trainer

    from hyperpod_ray_training.huggingface import survive

    class Normalized(Trainer):  # type: ignore[misc]
        kept: Any

        def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **more: Any) -> Any:
            loss, outputs = super().compute_loss(model, inputs, return_outputs=True, **more)
            mean = self.kept.mean
            self.kept.mean = loss.detach() if mean is None else 0.9 * mean + 0.1 * loss.detach()
            loss = loss / self.kept.mean
            return (loss, outputs) if return_outputs else loss

        def log(self, logs: Any, *rest: Any) -> None:
            super().log(logs | ({"loss": logs["loss"] + weights(self.model)} if "loss" in logs else {}), *rest)

    def collate(examples: list[torch.Tensor]) -> dict[str, torch.Tensor]:
        return {"input_ids": torch.stack(examples), "labels": torch.stack(examples)}

    trainer = Normalized(
        model=causal_model(), args=arguments_of(run), data_collator=collate, train_dataset=list(tokens(96, 1))
    )
    trainer.kept = Values(mean=None)
    survive(trainer, run, per_rank={"kept": trainer.kept} if saved else {}).train()


@shape
def trainer_mean(run: Run) -> None:
    _normalized_by_a_mean(run, saved=True)


@shape
def trainer_mean_forgotten(run: Run) -> None:
    _normalized_by_a_mean(run, saved=False)


@shape
def lightning_callback_forgotten(run: Run) -> None:
    import pytorch_lightning as pl

    from hyperpod_ray_training.lightning import in_ray

    class Rate(pl.Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            self.batches_begun = 0

        def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
            self.batches_begun += 1
            trainer.optimizers[0].param_groups[0]["lr"] = 0.05 / self.batches_begun

    class Module(pl.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(8, 1)

        def training_step(self, batch: Any, _: int) -> torch.Tensor:
            loss: torch.Tensor = self.inner(batch[0]).square().mean()
            return loss + 0 * total(loss)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.05)

    trainer = pl.Trainer(
        **in_ray(run, callbacks=[Rate()]), max_epochs=4, logger=False, enable_progress_bar=False,
        enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Module(), _batches(16))
