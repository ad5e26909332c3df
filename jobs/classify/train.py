"""The smallest complete job: classify scikit-learn's digits with DDP.

Read this one first. From the repository's root:

    ray job submit --address http://127.0.0.1:8265 --working-dir jobs/classify \
        --runtime-env-json '{"py_modules": ["hyperpod_ray_training"]}' \
        -- python -m hyperpod_ray_training.supervise train.py --storage /fsx/runs --name digits --workers 2

The same line again resumes the run; `--workers 1:2` lets it continue with one worker while a node is being replaced.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

from hyperpod_ray_training import Resumable, add_arguments, batch_of, ensure_process_group, main_of, run_from, share_of


def train(config: dict[str, Any]) -> None:
    """The training loop of one worker."""
    # 1. model: the same start on every rank, then wrapped for data-parallel training
    torch.manual_seed(0)
    torch.set_num_threads(1)
    ensure_process_group()  # Ray has created one already, except in local mode (--workers 0)
    rank, world = dist.get_rank(), dist.get_world_size()
    layers = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10))
    model = nn.parallel.DistributedDataParallel(layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    # 2. data: which samples belong to a step depends on the step alone, so a resumed run sees what it would have seen
    digits = load_digits()
    pixels = torch.tensor(digits.data / 16.0, dtype=torch.float32)
    labels = torch.tensor(digits.target)
    train_size = 1500

    # 3. the loop: `steps` resumes from the newest complete checkpoint, `finished` saves when it is time
    with Resumable(config["run"], model=model, optimizer=optimizer) as training:
        for step in training.steps(config["steps"]):
            batch = batch_of(step, global_batch=60, samples=train_size)
            mine = share_of(batch, rank=rank, world=world)
            # the sum over 60 samples, times world because DDP averages: the same gradient at every world size
            loss = functional.cross_entropy(model(pixels[mine]), labels[mine], reduction="sum") / 60
            optimizer.zero_grad()
            (loss * world).backward()
            optimizer.step()

            # 4. metrics: the same on every rank
            total = loss.detach().clone()
            dist.all_reduce(total)
            model.eval()
            with torch.no_grad():
                right = (model(pixels[train_size:]).argmax(1) == labels[train_size:]).float().mean()
            model.train()
            training.finished(step, loss=float(total), accuracy=float(right))


def main() -> None:
    """5. scaling, checkpoints to keep and retries come from the arguments; `fit` builds the TorchTrainer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--steps", type=int, default=200)
    arguments = parser.parse_args()
    result = run_from(arguments).fit(train, config={"steps": arguments.steps}, workers=arguments.workers)
    print(f"RESULT {result.metrics}")


if __name__ == "__main__":
    main_of(main)
