"""Pre-train a Llama-like model with FSDP2 on tokens that stream from S3 or a mounted folder.

`prepare.py` writes the tokens. On GPUs it trains in bf16 with float32 gradients, on CPUs in float32 over gloo. The same
line again resumes the run: no row is read twice in an epoch, whatever happened and however many workers there are.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import ray.train
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM

from hyperpod_ray_training import InputError, Resumable, add_arguments, ensure_process_group, main_of, run_from
from hyperpod_ray_training.rows import Rows

SIZES = {
    # width, layers, heads, heads of keys and values, width of the feed-forward layer
    "tiny": (64, 2, 4, 2, 128),
    "160m": (768, 12, 12, 4, 2048),
    "1b": (2048, 16, 32, 8, 8192),
    "3b": (3072, 28, 24, 8, 8192),
    "8b": (4096, 32, 32, 8, 14336),
}


def build(config: dict[str, Any]) -> LlamaForCausalLM:
    """The model, the same on every rank."""
    width, layers, heads, key_heads, feed = SIZES[config["size"]]
    torch.manual_seed(config["seed"])
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=config["vocabulary"], hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
            num_key_value_heads=key_heads, intermediate_size=feed, max_position_embeddings=config["sequence"],
            tie_word_embeddings=config["size"] in {"tiny", "160m", "1b"}, use_cache=False,
        )
    )  # fmt: skip


def schedule(step: int, *, warm_up: int, steps: int) -> float:
    """Share of the learning rate: linear warm-up, then a cosine down to a tenth."""
    if step < warm_up:
        return (step + 1) / warm_up
    done = min(1.0, (step - warm_up) / max(1, steps - warm_up))
    return 0.1 + 0.45 * (1 + math.cos(math.pi * done))


def train(config: dict[str, Any]) -> None:
    """The training loop of one worker."""
    on_gpu = torch.cuda.is_available() and config["gpus_per_worker"] > 0
    if not on_gpu:
        torch.set_num_threads(1)  # the order of sums, and so the last bit, must not depend on the machine's size
    ensure_process_group()
    world = dist.get_world_size()
    device = ray.train.torch.get_device() if on_gpu else torch.device("cpu")
    rows = Rows(config["data"], global_batch=config["global_batch"], columns=["tokens"], seed=config["seed"])
    steps = len(rows) * config["epochs"]

    model = build(config).to(device)
    mesh = init_device_mesh(device.type, (world,))
    policy = (
        MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        if on_gpu
        else MixedPrecisionPolicy()
    )
    if config["recompute"]:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=config["learning_rate"], betas=(0.9, 0.95), weight_decay=0.1, fused=on_gpu
    )
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: schedule(step, warm_up=config["warm_up"], steps=steps)
    )

    with Resumable(config["run"], model=model, optimizer=optimizer, extra={"scheduler": scheduler}) as training:
        for _ in training.epochs(config["epochs"]):
            for batch in training.batches(rows):
                tokens = batch["tokens"].to(device).long()
                # ranks may have one row more or less: the sum over all rows is divided by their number over all ranks
                count = torch.tensor(float(len(tokens)), device=device)
                dist.all_reduce(count)
                logits = model(tokens[:, :-1]).logits
                each = functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten(), reduction="sum")
                loss = each / (float(count) * config["sequence"])
                (loss * world).backward()  # FSDP averages gradients over ranks
                norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
                total = loss.detach()
                dist.all_reduce(total)
                if not math.isfinite(float(total)):
                    raise FloatingPointError(
                        f"loss: {float(total)}. Expected a number. Fix: lower --learning-rate, or look at the rows"
                    )
                training.note(loss=float(total), gradient_norm=float(norm), learning_rate=scheduler.get_last_lr()[0])


def main() -> None:
    """Read the arguments and fit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    group = parser.add_argument_group("model and data")
    group.add_argument("--data", required=True, help="what prepare.py wrote: a folder, or s3://BUCKET/PREFIX")
    group.add_argument("--size", choices=sorted(SIZES), default="160m")
    group.add_argument("--vocabulary", type=int, required=True, help="tokens of the tokenizer; 257 for bytes")
    group.add_argument("--sequence", type=int, default=4096, help="as for prepare.py")
    group.add_argument("--global-batch", type=int, default=64, help="sequences of a step over all workers")
    group.add_argument("--epochs", type=int, default=1)
    group.add_argument("--learning-rate", type=float, default=3e-4)
    group.add_argument("--warm-up", type=int, default=100, help="steps")
    group.add_argument("--recompute", action="store_true", help="compute activations again in the backward pass")
    group.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.epochs < 1:
        raise InputError(f"--epochs: {arguments.epochs}", expected="1 or more", fix="correct it")
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
