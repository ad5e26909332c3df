"""Fine-tune a small byte-level language model with FSDP2; survives whatever takes its workers away.

Default text: `pydoc_data.topics`, the 0.5 MB of English that ships with Python; `--data FILE` for your own, or
`--data s3://BUCKET/KEY`. On GPUs it trains in bf16 over NCCL, on CPUs in float32 over gloo. From the repository's root:

    ray job submit --address http://127.0.0.1:8265 --working-dir jobs/finetune \
        --runtime-env-json '{"py_modules": ["hyperpod_ray_training"]}' \
        -- python -m hyperpod_ray_training.supervise train.py --storage /fsx/runs --name first \
        --workers 2 --gpus-per-worker 1 --steps 1000

The same line again resumes the run.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any

import ray.train
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional

from hyperpod_ray_training import (
    InputError,
    Resumable,
    add_arguments,
    batch_of,
    ensure_process_group,
    main_of,
    run_from,
    share_of,
)


class Block(nn.Module):
    """One pre-norm transformer block: causal attention and a feed-forward layer, both residual, both with dropout."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention, self.norm_feed = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention_in, self.attention_out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shape (batch, length, width) in and out."""
        batch, length, width = x.shape
        query, key, value = self.attention_in(self.norm_attention(x)).view(batch, length, 3, self.heads, -1).unbind(2)
        attended = functional.scaled_dot_product_attention(
            query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), is_causal=True
        )
        x = x + self.dropout(self.attention_out(attended.transpose(1, 2).reshape(batch, length, width)))
        return x + self.dropout(self.feed(self.norm_feed(x)))


class ByteModel(nn.Module):
    """Predicts the next byte: 256 symbols, learned positions, `layers` blocks."""

    def __init__(self, *, width: int, layers: int, heads: int, context: int, dropout: float) -> None:
        super().__init__()
        self.symbols, self.positions = nn.Embedding(256, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256, bias=False)

    def forward(self, symbols: torch.Tensor) -> torch.Tensor:
        """Logits of shape (batch, length, 256) for symbols of shape (batch, length)."""
        x = self.symbols(symbols) + self.positions(torch.arange(symbols.shape[1], device=symbols.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def content(path: str) -> bytes:
    """A file of the shared file system, or of S3."""
    if not path.startswith("s3://"):
        return Path(path).read_bytes()
    from hyperpod_ray_training.rows import store_of

    store, name = store_of(path)
    with store.open_input_stream(name) as stream:
        return bytes(stream.read())


def read_text(path: str | None) -> torch.Tensor:
    """The training text as bytes; InputError where the file cannot be read."""
    if path is None:
        from pydoc_data.topics import topics

        return torch.frombuffer(bytearray("\n".join(topics[key] for key in sorted(topics)).encode()), dtype=torch.uint8)
    try:
        return torch.frombuffer(bytearray(content(path)), dtype=torch.uint8)
    except (OSError, ValueError) as error:
        raise InputError(
            f"--data: {path} cannot be read or is empty ({error})",
            expected="a file that every node sees, or s3://BUCKET/KEY that ray.access.s3 names",
            fix="put it on the shared file system, or correct the place",
        ) from error


def windows(text: torch.Tensor, indices: Any, context: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets of the windows `indices`; window i starts at byte i*context, targets are one byte on."""
    rows = torch.stack([text[i * context : (i + 1) * context + 1] for i in indices.tolist()]).long()
    return rows[:, :-1], rows[:, 1:]


def train(config: dict[str, Any]) -> None:
    """The training loop of one worker."""
    torch.manual_seed(config["seed"])
    on_gpu = torch.cuda.is_available() and config["gpus_per_worker"] > 0
    if not on_gpu:
        torch.set_num_threads(1)  # the sum order, and so the last bit, must not depend on the machine's size
    ensure_process_group()
    rank, world = dist.get_rank(), dist.get_world_size()
    device = ray.train.torch.get_device() if on_gpu else torch.device("cpu")

    model = ByteModel(
        width=config["width"],
        layers=config["layers"],
        heads=config["heads"],
        context=config["context"],
        dropout=config["dropout"],
    ).to(device)
    mesh = init_device_mesh(device.type, (world,))
    policy = (
        MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        if on_gpu
        else MixedPrecisionPolicy()
    )
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["learning_rate"])

    text = read_text(config["data"])
    samples, held_out = (len(text) - 1) // config["context"], config["validation_windows"]
    if samples <= held_out + config["global_batch"]:
        raise InputError(
            f"--data: {len(text)} bytes",
            expected=f"more than {(held_out + config['global_batch']) * config['context']}",
            fix="give a longer text, or a smaller --context",
        )

    def loss_of(indices: Any, total: int) -> torch.Tensor:
        """This rank's part of the mean loss over `total` windows; the parts of all ranks add up to it."""
        inputs, targets = (part.to(device) for part in windows(text, indices, config["context"]))
        logits = model(inputs)
        return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction="sum") / (
            total * config["context"]
        )

    def over_ranks(part: torch.Tensor) -> float:
        total = part.detach().clone()
        dist.all_reduce(total)
        return float(total)

    with Resumable(config["run"], model=model, optimizer=optimizer) as training:
        for step in training.steps(config["steps"]):
            batch = batch_of(step, global_batch=config["global_batch"], samples=samples - held_out, seed=config["seed"])
            part = loss_of(share_of(batch, rank=rank, world=world), config["global_batch"])
            optimizer.zero_grad()
            (part * world).backward()  # FSDP averages gradients over ranks; times world makes that the batch's mean
            optimizer.step()
            metrics = {"loss": over_ranks(part)}
            if (step + 1) % config["validate_every"] == 0 or step + 1 == config["steps"]:
                model.eval()
                with torch.no_grad():
                    unseen = batch_of(0, global_batch=held_out, samples=held_out) + samples - held_out
                    metrics["validation_loss"] = over_ranks(loss_of(share_of(unseen, rank=rank, world=world), held_out))
                model.train()
            if not math.isfinite(metrics["loss"]):
                raise FloatingPointError(
                    f"loss: {metrics['loss']} at step {step + 1}. Expected a number. Fix: lower --learning-rate"
                )
            if config["step_delay_s"]:
                time.sleep(config["step_delay_s"])
            training.finished(step, **metrics)


def main() -> None:
    """Read the arguments and fit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    group = parser.add_argument_group("model and data")
    group.add_argument(
        "--data",
        default=None,
        help="a text file every node sees, or s3://BUCKET/KEY (default: the text that ships with Python)",
    )
    group.add_argument("--steps", type=int, default=200)
    group.add_argument("--global-batch", type=int, default=16, help="windows per step over all workers")
    group.add_argument("--context", type=int, default=64, help="bytes per window")
    group.add_argument("--width", type=int, default=128)
    group.add_argument("--layers", type=int, default=2)
    group.add_argument("--heads", type=int, default=4)
    group.add_argument("--dropout", type=float, default=0.1, help="of a block's two layers (default 0.1)")
    group.add_argument("--learning-rate", type=float, default=1e-3)
    group.add_argument("--validate-every", type=int, default=50)
    group.add_argument("--validation-windows", type=int, default=32)
    group.add_argument("--seed", type=int, default=0)
    group.add_argument("--step-delay-s", type=float, default=0.0, help="slows each step down, for rehearsals")
    arguments = parser.parse_args()
    if arguments.width % arguments.heads:
        raise InputError(
            f"--width: {arguments.width}",
            expected=f"a multiple of --heads {arguments.heads}",
            fix="correct one of the two",
        )
    config = {key: value for key, value in vars(arguments).items() if key not in {"storage", "name", "workers", "best"}}
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
