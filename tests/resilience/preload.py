"""What a training process imports only when it trains: a process that forks imports it once, before its children do.

A child's first optimizer step alone imports half a second of `torch._dynamo`; a script of others takes seconds. What is
there before the fork is also taken out of the children's garbage collections, which would copy every page of it.
"""

from __future__ import annotations

import gc
import importlib

TRAINING = (
    "fsspec.implementations.chained", "ray.tune", "rich.console", "torch._dynamo",
    "torch.distributed.checkpoint.filesystem",
    "torch.distributed.checkpoint.state_dict", "torch.distributed.fsdp", "torch.nn.parallel.distributed",
    "torch.utils.serialization.config",
)  # fmt: skip
SCRIPTS = (
    "accelerate.test_utils.testing", "accelerate.utils.deepspeed", "pytorch_lightning", "ray.train.torch",
    "ray.train.v2._internal.execution.train_fn_utils", "sklearn.metrics", "torchdata.stateful_dataloader", "tqdm.auto",
    "transformers.models.bert.modeling_bert", "transformers.models.bert.tokenization_bert", "transformers.trainer",
)  # fmt: skip


def load(*more: str) -> None:
    """Import what every training loop does, and `more`."""
    for name in (*TRAINING, *more):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
