"""Training scripts that others have published, carried over by docs/make-your-script-survive.md.

The scripts are not kept here: each is read from the package that carries it, which `requirements/rehearsal.txt` pins by
hash, and the changed lines are applied to it. Data and pretrained models cannot be downloaded in a test: modules of the
same shape stand in for `torchvision`, `datasets` and `evaluate`.
"""

from __future__ import annotations

import difflib
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import re
import sys
import time
import types
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

Change = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Example:
    """A published script.

    Args:
        licence: Of the package that carries it.
        source: Reads the script as published.
        changes: Lines as published, and what they become.
        loop: From the script's names and a folder for its data, the loop to run.
        stand_ins: Puts modules in the place of what cannot be downloaded.
        steps: Steps of the run in tests.
    """

    licence: str
    source: Callable[[], str]
    changes: tuple[Change, ...]
    loop: Callable[[dict[str, Any], Path], Callable[[dict[str, Any]], Any]]
    stand_ins: Callable[[], None]
    steps: int

    def carried(self) -> str:
        """The script with its changed lines."""
        text = self.source()
        for old, new in self.changes:
            assert text.count(old) == 1, f"published otherwise now: {old!r}"
            text = text.replace(old, new)
        return text

    def changed_lines(self) -> list[str]:
        """Lines that are new or different, as difflib sees them."""
        diff = difflib.ndiff(self.source().splitlines(), self.carried().splitlines())
        return [line[2:] for line in diff if line.startswith("+ ") and line[2:].strip()]


def file_of(module: str) -> str:
    spec = importlib.util.find_spec(module.rpartition(".")[0])
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(next(iter(spec.submodule_search_locations)), module.rpartition(".")[2] + ".py").read_text()


def readme_of(package: str) -> str:
    """The three steps of Lightning's README, one script."""
    text = importlib.metadata.distribution(package).read_text("METADATA") or ""
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    first = next(index for index, block in enumerate(blocks) if "import pytorch_lightning as pl" in block)
    return "\n".join(blocks[first : first + 3])


# ---- what cannot be downloaded ----


class Images:
    """As torchvision's FashionMNIST and MNIST: grey pictures of 28 x 28 and their class; few of them."""

    def __init__(self, root: str, train: bool = True, download: bool = False, transform: Any = None) -> None:
        generator = torch.Generator().manual_seed(int(train))
        count = 192 if train else 32
        self.pictures = torch.rand(count, 1, 28, 28, generator=generator)
        self.classes = torch.randint(10, (count,), generator=generator).tolist()
        self.transform = transform

    def __len__(self) -> int:
        return len(self.classes)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.transform(self.pictures[index]), self.classes[index]


class ManyImages(Images):
    """As many as the README splits: 60,000."""

    def __len__(self) -> int:
        return 60_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return super().__getitem__(index % len(self.classes))


class Sentences(dict[str, Any]):
    """As the `datasets` of GLUE's MRPC: pairs of sentences with a label."""

    def map(self, function: Any, **_: Any) -> Sentences:
        return Sentences(
            {split: [function(row) | {"label": row["label"]} for row in rows] for split, rows in self.items()}
        )

    def rename_column(self, old: str, new: str) -> Sentences:
        return Sentences(
            {
                split: [{new if k == old else k: v for k, v in row.items()} for row in rows]
                for split, rows in self.items()
            }
        )


def sentences(*_: Any, **__: Any) -> Sentences:
    words = [f"w{index}" for index in range(40)]

    def row(seed: int) -> dict[str, Any]:
        picks = torch.randint(40, (9,), generator=torch.Generator().manual_seed(seed)).tolist()
        return {
            "sentence1": " ".join(words[p] for p in picks[: 3 + seed % 3]),
            "sentence2": " ".join(words[p] for p in picks[4:]),
            "label": seed % 2,
        }

    return Sentences(train=[row(seed) for seed in range(320)], validation=[row(1000 + seed) for seed in range(8)])


class Metric:
    def add_batch(self, **_: Any) -> None: ...

    def compute(self) -> dict[str, float]:
        return {"accuracy": 0.5}


def stand_in(name: str, **content: Any) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    module.__dict__.update(content)
    sys.modules[name] = module
    return module


def pictures_stand_in() -> None:
    """For torchvision, which is not installed here."""
    same = type("Same", (), {"__init__": lambda self, *_: None, "__call__": lambda self, x: x})
    transforms = stand_in(
        "torchvision.transforms", ToTensor=same, Normalize=same,
        Compose=lambda parts: lambda x: [x := part(x) for part in parts][-1],
    )  # fmt: skip
    datasets = stand_in("torchvision.datasets", FashionMNIST=Images, MNIST=ManyImages)
    stand_in("torchvision", transforms=transforms, datasets=datasets)


def sentences_stand_in() -> None:
    """For `datasets` and `evaluate`, which have nothing to load here."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer  # noqa: F401 - looks for them

    stand_in("datasets", load_dataset=sentences)
    stand_in("evaluate", load=lambda *_: Metric())


def tiny_bert(folder: Path) -> Path:
    """A model and tokenizer of BERT's kind as `from_pretrained` finds them, small and with dropout; made once."""
    where = folder / "tiny-bert"
    while dist.get_rank() and not where.exists():
        time.sleep(0.05)
    if not where.exists():
        from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

        half = folder / f"half-{os.getpid()}"
        half.mkdir(parents=True)
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{index}" for index in range(40))]
        (half / "vocab.txt").write_text("\n".join(words))
        BertTokenizerFast(vocab_file=str(half / "vocab.txt")).save_pretrained(half)
        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
            max_position_embeddings=32,
        )  # fmt: skip
        BertForSequenceClassification(config).save_pretrained(half)
        half.rename(where)
    return where


def names_of(example: Example) -> dict[str, Any]:
    """What the carried script defines."""
    example.stand_ins()
    names: dict[str, Any] = {"__name__": "carried"}
    exec(compile(example.carried(), "carried", "exec"), names)  # noqa: S102 - the published script, with our lines
    return names


# ---- the three ----


def fashion_loop(names: dict[str, Any], _: Path) -> Callable[[dict[str, Any]], Any]:
    loop: Callable[[dict[str, Any]], Any] = names["train_func_per_worker"]
    return lambda config: loop({"lr": 1e-3, "epochs": 3, "batch_size_per_worker": 8, **config})


FASHION = Example(
    licence="Apache-2.0",
    source=lambda: file_of("ray.train.examples.pytorch.torch_fashion_mnist_example"),
    changes=(
        (
            "from ray.train.torch import TorchTrainer\n",
            "from ray.train.torch import TorchTrainer\nfrom hyperpod_ray_training import Resumable, Run\n",
        ),
        (
            "    # Model training loop\n    for epoch in range(epochs):\n",
            '    training = Resumable(config["run"], model=model, optimizer=optimizer)\n'
            "    # Model training loop\n    for epoch in training.epochs(epochs):\n",
        ),
        ("in tqdm(train_dataloader, ", "in tqdm(training.batches(train_dataloader), "),
        (
            "            optimizer.step()\n",
            "            optimizer.step()\n            training.note(loss=loss.item())\n",
        ),
        (
            "    trainer = TorchTrainer(\n        train_loop_per_worker=train_func_per_worker,\n"
            "        train_loop_config=train_config,\n",
            '    result = Run(storage="/fsx/runs", name="fashion").fit(\n        train_func_per_worker,\n'
            "        config=train_config,\n        spares=1,\n",
        ),
        ("    result = trainer.fit()\n", ""),
    ),
    loop=fashion_loop,
    stand_ins=pictures_stand_in,
    steps=36,
)


def glue_loop(names: dict[str, Any], folder: Path) -> Callable[[dict[str, Any]], Any]:
    loop = names["training_function"]
    model = tiny_bert(folder)
    args = Namespace(
        model_name_or_path=str(model), output_dir=str(folder), performance_lower_bound=None, add_pad_token=False,
        tp_plan=None, tp_size=None, model_dtype=None,
    )  # fmt: skip
    return lambda config: loop({"lr": 1e-3, "num_epochs": 3, "seed": 42, "batch_size": 16, **config}, args)


GLUE = Example(
    licence="Apache-2.0",
    source=lambda: file_of("accelerate.test_utils.scripts.external_deps.test_performance"),
    changes=(
        (
            "from accelerate.utils.deepspeed import DummyOptim, DummyScheduler\n",
            "from accelerate.utils.deepspeed import DummyOptim, DummyScheduler\n"
            "from hyperpod_ray_training import Resumable, Run\n",
        ),
        (
            "    for epoch in range(starting_epoch, num_epochs):\n",
            '    extra = {"scheduler": lr_scheduler}\n'
            '    training = Resumable(config["run"], model=model, optimizer=optimizer, extra=extra)\n'
            "    for epoch in training.epochs(num_epochs):\n",
        ),
        ("in enumerate(train_dataloader):", "in enumerate(training.batches(train_dataloader)):"),
        (
            "                optimizer.zero_grad()\n",
            "                optimizer.zero_grad()\n                training.note(loss=loss.item())\n",
        ),
        (
            "                    and not lr_scheduler_check_completed\n",
            "                    and not lr_scheduler_check_completed and training.step == 0\n",
        ),
        (
            "    training_function(config, args)\n\n\nif",
            '    run = Run(storage="/fsx/runs", name="mrpc")\n'
            "    run.fit(lambda config: training_function(config, args), config=config, workers=2, spares=1)\n\n\nif",
        ),
    ),
    loop=glue_loop,
    stand_ins=sentences_stand_in,
    steps=30,
)


def readme_loop(names: dict[str, Any], _: Path) -> Callable[[dict[str, Any]], Any]:
    """Shorter than published, where a run without an end would go on for days."""
    published = names["pl"]
    short = partial(published.Trainer, max_steps=30, logger=False, enable_progress_bar=False)
    names["pl"] = types.SimpleNamespace(**vars(published) | {"Trainer": short})
    loop: Callable[[dict[str, Any]], Any] = names["fit"]
    return loop


README = Example(
    licence="Apache-2.0",
    source=lambda: readme_of("pytorch-lightning"),
    changes=(
        (
            "import pytorch_lightning as pl\n",
            "import pytorch_lightning as pl\nfrom hyperpod_ray_training import Run\n"
            "from hyperpod_ray_training.lightning import in_ray\n",
        ),
        (
            "autoencoder = LitAutoEncoder()\n"
            "trainer = pl.Trainer()\n"
            "trainer.fit(autoencoder, DataLoader(train), DataLoader(val))",
            "def fit(config):\n"
            "    autoencoder = LitAutoEncoder()\n"
            '    trainer = pl.Trainer(**in_ray(config["run"]))\n'
            "    trainer.fit(autoencoder, DataLoader(train), DataLoader(val))\n\n\n"
            'if __name__ == "__main__":\n'
            '    Run(storage="/fsx/runs", name="mnist").fit(fit, workers=2, spares=1)',
        ),
    ),
    stand_ins=pictures_stand_in,
    loop=readme_loop,
    steps=30,
)

EXAMPLES = {"fashion": FASHION, "glue": GLUE, "readme": README}


# ---- adapters with a loop of their own ----


def trainer_loop(folder: Path) -> Callable[[dict[str, Any]], Any]:
    """Hugging Face's Trainer with dropout, a scheduler, accumulated gradients, and an evaluation in mid-epoch."""
    from transformers import BertForSequenceClassification, Trainer, TrainingArguments

    from hyperpod_ray_training.huggingface import survive

    def rows(count: int, seed: int) -> list[dict[str, Any]]:
        tokens = torch.randint(5, 45, (count, 8), generator=torch.Generator().manual_seed(seed))
        return [{"input_ids": row, "labels": int(row.sum()) % 2} for row in tokens]

    def loop(config: dict[str, Any]) -> None:
        torch.manual_seed(0)
        arguments = TrainingArguments(
            output_dir=str(folder / "trainer"), use_cpu=True, num_train_epochs=3, per_device_train_batch_size=4,
            gradient_accumulation_steps=2, learning_rate=1e-2, warmup_steps=3, logging_steps=1, eval_strategy="steps",
            eval_steps=5, save_strategy="no", report_to="none", disable_tqdm=True, ddp_backend="gloo",
            dataloader_pin_memory=False,
        )  # fmt: skip
        model = BertForSequenceClassification.from_pretrained(tiny_bert(folder))
        trainer = Trainer(model=model, args=arguments, train_dataset=rows(60, 1), eval_dataset=rows(8, 2))
        survive(trainer, config["run"]).train()

    return loop


def lightning_loop(folder: Path) -> Callable[[dict[str, Any]], Any]:
    """Lightning's Trainer with dropout, a scheduler, accumulated gradients, and a validation in mid-epoch."""
    import pytorch_lightning as pl
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    from hyperpod_ray_training.lightning import in_ray

    class Module(pl.LightningModule):  # type: ignore[misc]  # not in the environment that checks types
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.Linear(16, 1))

        def training_step(self, batch: Any, _: int) -> torch.Tensor:
            loss: torch.Tensor = self.inner(batch[0]).square().mean()
            self.log("train_loss", loss)
            return loss

        def validation_step(self, batch: Any, _: int) -> None:
            self.log("val_loss", self.inner(batch[0]).square().mean(), sync_dist=True)

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def rows(count: int, seed: int) -> DataLoader[Any]:
        data = torch.randn(count, 8, generator=torch.Generator().manual_seed(seed))
        return DataLoader(TensorDataset(data), batch_size=4, shuffle=seed == 1)

    def loop(config: dict[str, Any]) -> None:
        torch.manual_seed(0)
        trainer = pl.Trainer(
            **in_ray(config["run"]), max_epochs=3, accumulate_grad_batches=2, val_check_interval=4, logger=False,
            enable_progress_bar=False, log_every_n_steps=1,
        )  # fmt: skip
        trainer.fit(Module(), rows(60, 1), rows(8, 2))
        assert trainer.global_step == 12
        assert trainer.current_epoch == 3

    return loop


ADAPTERS = {"trainer": (trainer_loop, 12), "lightning": (lightning_loop, 12)}
