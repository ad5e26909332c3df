"""Train a vision transformer on a folder of images, with DDP: from scratch, or from a model of Hugging Face.

`--data` has a folder `train` and a folder `val`, each with one folder of images per class. On GPUs it trains in bf16,
on CPUs in float32 over gloo. The same line again resumes the run. What an image's crop and flip are follows from the
seed, the epoch and the image, so that a resumed run sees the same ones.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np
import ray.train
import torch
import torch.distributed as dist
from PIL import Image
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from transformers import ViTConfig, ViTForImageClassification

from hyperpod_ray_training import InputError, Resumable, add_arguments, ensure_process_group, main_of, run_from

SIZES = {
    # width, layers, heads, pixels of a patch
    "tiny": (32, 2, 2, 4),
    "s16": (384, 12, 6, 16),
    "b16": (768, 12, 12, 16),
    "l16": (1024, 24, 16, 16),
}
LEAST_SHARE = 0.6
"""Of a side, that a crop keeps."""
MIRRORED = 0.5
"""Share of the images; 0 where left and right matter."""
SUFFIXES = {".png", ".jpg", ".jpeg", ".webp"}


class Images(Dataset[tuple[torch.Tensor, int]]):
    """The images below a folder, by class.

    Args:
        folder: Has one folder per class.
        classes: Names of the classes, in the order of their numbers.
        pixels: Height and width that each image gets.
        seed: Of crops and flips; None for none, as in a validation.
    """

    def __init__(self, folder: Path, classes: list[str], *, pixels: int, seed: int | None) -> None:
        self.files = [
            (path, label)
            for label, name in enumerate(classes)
            for path in sorted((folder / name).glob("*"))
            if path.suffix.lower() in SUFFIXES
        ]
        if not self.files:
            raise InputError(
                f"--data: {folder} has no image", expected=f"CLASS/NAME with {', '.join(sorted(SUFFIXES))}",
                fix="correct the folder",
            )  # fmt: skip
        self.pixels, self.seed, self.epoch = pixels, seed, 0

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        path, label = self.files[index]
        with Image.open(path) as file:
            image = file.convert("RGB")
        if self.seed is not None:
            image = self._cropped(image, np.random.default_rng((self.seed, self.epoch, index)))
        resized = image.resize((self.pixels, self.pixels), Image.Resampling.BICUBIC)
        values = torch.from_numpy(np.array(resized, dtype=np.float32)).permute(2, 0, 1)
        return values / 127.5 - 1, label

    def _cropped(self, image: Image.Image, chance: np.random.Generator) -> Image.Image:
        """A part of it, at times as in a mirror."""
        share = chance.uniform(LEAST_SHARE, 1)
        width, height = max(1, round(image.width * share)), max(1, round(image.height * share))
        left, top = (int(chance.integers(rest + 1)) for rest in (image.width - width, image.height - height))
        part = image.crop((left, top, left + width, top + height))
        return part.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if chance.uniform() < MIRRORED else part


def classes_of(data: Path) -> list[str]:
    """The names of the classes, by the folders of `train`."""
    train = data / "train"
    names = sorted(path.name for path in train.iterdir() if path.is_dir()) if train.is_dir() else []
    if len(names) < 2:
        raise InputError(
            f"--data: {train} has {len(names)} folders", expected="one per class, 2 or more", fix="correct the folder"
        )
    return names


def build(config: dict[str, Any], classes: list[str]) -> ViTForImageClassification:
    """The model, the same on every rank."""
    names = dict(enumerate(classes))
    torch.manual_seed(config["seed"])
    if config["model"]:
        return ViTForImageClassification.from_pretrained(
            config["model"], id2label=names, label2id={name: label for label, name in names.items()},
            image_size=config["pixels"], ignore_mismatched_sizes=True,
        )  # fmt: skip
    width, layers, heads, patch = SIZES[config["size"]]
    return ViTForImageClassification(
        ViTConfig(
            hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * width,
            image_size=config["pixels"], patch_size=patch, hidden_dropout_prob=0.1,
            id2label=names, label2id={name: label for label, name in names.items()},
        )
    )  # fmt: skip


def schedule(step: int, *, warm_up: int, steps: int) -> float:
    """Share of the learning rate: linear warm-up, then a cosine down to nothing."""
    if step < warm_up:
        return (step + 1) / warm_up
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warm_up) / max(1, steps - warm_up))))


def train(config: dict[str, Any]) -> None:
    """The training loop of one worker."""
    on_gpu = torch.cuda.is_available() and config["gpus_per_worker"] > 0
    if not on_gpu:
        torch.set_num_threads(1)  # the order of sums, and so the last bit, must not depend on the machine's size
    ensure_process_group()
    rank, world = dist.get_rank(), dist.get_world_size()
    device = ray.train.torch.get_device() if on_gpu else torch.device("cpu")
    data, batch = Path(config["data"]), config["batch"]
    classes = classes_of(data)
    images = Images(data / "train", classes, pixels=config["pixels"], seed=config["seed"])
    unseen = Images(data / "val", classes, pixels=config["pixels"], seed=None)
    if len(images) < batch * world:
        raise InputError(
            f"--batch: {batch} of {world} workers are more than the {len(images)} images",
            expected=f"at most {len(images) // world}", fix="make the batch smaller, or use fewer workers",
        )  # fmt: skip
    sampler: DistributedSampler[Any] = DistributedSampler(images, world, rank, seed=config["seed"], drop_last=True)
    loader = DataLoader(images, batch, sampler=sampler, num_workers=config["loaders"], drop_last=True)
    shares = list(range(rank, len(unseen), world))

    model = DistributedDataParallel(build(config, classes).to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["learning_rate"], weight_decay=0.05, fused=on_gpu)
    steps = len(loader) * config["epochs"]
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: schedule(step, warm_up=config["warm_up"], steps=steps)
    )

    def logits_of(pixels: torch.Tensor) -> torch.Tensor:
        with torch.autocast(device.type, torch.bfloat16, enabled=on_gpu):
            return model(pixel_values=pixels.to(device)).logits.float()

    def accuracy() -> float:
        """Share of the images of `val` whose class the model names."""
        right = torch.zeros((), device=device)
        model.eval()
        with torch.no_grad():
            for pixels, labels in DataLoader(torch.utils.data.Subset(unseen, shares), batch):
                right += (logits_of(pixels).argmax(1) == labels.to(device)).sum()
        model.train()
        dist.all_reduce(right)
        return float(right) / len(unseen)

    with Resumable(
        config["run"], model=model, optimizer=optimizer, extra={"scheduler": scheduler},
        recomputed=["images.epoch"],  # set again before it is read
    ) as training:  # fmt: skip
        for epoch in training.epochs(config["epochs"]):
            images.epoch = epoch
            sampler.set_epoch(epoch)
            for pixels, labels in training.batches(loader):
                loss = functional.cross_entropy(logits_of(pixels), labels.to(device), label_smoothing=0.1)
                optimizer.zero_grad()
                loss.backward()
                norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                mean = loss.detach() / world
                dist.all_reduce(mean)
                training.note(loss=float(mean), gradient_norm=float(norm))
                if (training.step + 1) % len(loader) == 0:  # the last step of an epoch
                    with training.pause():
                        training.note(accuracy=accuracy())


def main() -> None:
    """Read the arguments and fit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    group = parser.add_argument_group("model and data")
    group.add_argument("--data", required=True, help="a folder that every node sees, with train/CLASS and val/CLASS")
    group.add_argument("--model", default=None, help="a ViT of Hugging Face to start from (default: from scratch)")
    group.add_argument("--size", choices=sorted(SIZES), default="b16", help="of a model from scratch")
    group.add_argument("--config", default=None, help="a folder that gets config.json, for `runs export --like`")
    group.add_argument("--pixels", type=int, default=224, help="height and width; a multiple of the patch")
    group.add_argument("--batch", type=int, default=64, help="images of a step, of each worker")
    group.add_argument("--epochs", type=int, default=90)
    group.add_argument("--learning-rate", type=float, default=3e-4)
    group.add_argument("--warm-up", type=int, default=500, help="steps")
    group.add_argument("--loaders", type=int, default=4, help="processes that read images, of each worker")
    group.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    patch = SIZES[arguments.size][-1]
    if arguments.model is None and arguments.pixels % patch:
        raise InputError(f"--pixels: {arguments.pixels}", expected=f"a multiple of {patch}", fix="correct it")
    if arguments.epochs < 1:
        raise InputError(f"--epochs: {arguments.epochs}", expected="1 or more", fix="correct it")
    config = {key: value for key, value in vars(arguments).items() if key not in {"storage", "name", "workers", "best"}}
    if arguments.config is not None:
        model = build(config, classes_of(Path(arguments.data)))
        model.config.architectures = [type(model).__name__]
        model.config.save_pretrained(arguments.config)
    result = run_from(arguments).fit(
        train,
        config=config,
        workers=arguments.workers,
        gpus_per_worker=arguments.gpus_per_worker,
        cpus_per_worker=arguments.cpus_per_worker,
    )
    print(f"RESULT {result.metrics}")


if __name__ == "__main__":
    main_of(main)
