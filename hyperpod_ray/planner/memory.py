"""Does it fit: bytes of one GPU by part, under FSDP2 with float32 shards and Adam, and the smallest world that fits.

State shrinks with the number of GPUs; activations, logits and gathered layers do not. What does not fit on any number
of GPUs needs a shorter sequence or tensor parallelism, which this project's jobs do not use.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hyperpod_ray.planner import data
from hyperpod_ray.planner.architecture import Architecture
from hyperpod_ray.planner.ranges import GIB

Recompute = Literal["none", "selective", "full"]
RECOMPUTE: tuple[Recompute, ...] = ("none", "selective", "full")
"""How much of a layer is computed again in the backward pass, cheapest in time first."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """The memory of one GPU."""

    parts: Mapping[str, float]
    """GiB by part."""
    usable: float
    """GiB that a process can allocate."""
    world: int
    recompute: Recompute

    @property
    def total(self) -> float:
        """GiB in all."""
        return sum(self.parts.values())

    @property
    def worst(self) -> float:
        """GiB where the prediction is as low as it was found to be."""
        return self.total * (1 + data.memory()["fragmentation"].value)

    @property
    def fits(self) -> bool:
        """Whether it fits with that margin."""
        return self.worst <= self.usable


def usable(gpu: str) -> float:
    """GiB of a kind of accelerator that a training process can allocate."""
    return data.gpus()[gpu].memory_mib / 1024 - data.memory()["reserve_gib"].value


def kept_elements(model: Architecture) -> int:
    """Elements that one layer keeps of one token for its backward pass, attention fused.

    Two norms, attention and two residuals of the model's width; queries and keys before and after their rotation, and
    values; gate, up, the activation and the product of the feed-forward layer.
    """
    query, key = model.heads * model.head_width, model.kv_heads * model.head_width
    return 5 * model.width + 2 * query + 3 * key + 4 * model.feed


def parts(model: Architecture, *, world: int, tokens: int, recompute: Recompute) -> dict[str, float]:
    """GiB of one GPU by part.

    Args:
        model: What is trained.
        world: GPUs over which the state is sharded.
        tokens: Tokens of one micro-batch on one GPU.
        recompute: Activation recomputation.
    """
    constant = data.memory()
    each = {name: constant[name].value for name in ("weights", "gradients", "optimizer")}
    one = constant["activations_none"].value * tokens * kept_elements(model)
    if recompute == "full":  # the inputs of all layers, and the one that is computed again
        activations = constant["activations_full"].value * tokens * model.width * model.layers + one
    else:
        activations = one * model.layers * (constant["activations_selective"].value if recompute == "selective" else 1)
    # two layers are gathered in bf16 at once, and the root's all the time; one gradient is whole, in bf16 and float32
    gathered = 2.0 * (2 * model.block + model.root)
    reduced = 6.0 * (model.block + model.root)
    found = {name: value * model.parameters / world for name, value in each.items()}
    found["gathered layers"] = gathered if world > 1 else 0.0
    found["gradients in reduction"] = reduced if world > 1 else 0.0
    found["activations"] = activations
    found["logits"] = constant["logits"].value * tokens * model.vocabulary
    return {name: value / GIB for name, value in found.items()}


def fit(model: Architecture, *, gpu: str, world: int, tokens: int) -> Fit:
    """The memory with the least recomputation that fits, or with full recomputation where none does."""
    made = [
        Fit(
            parts=parts(model, world=world, tokens=tokens, recompute=recompute),
            usable=usable(gpu),
            world=world,
            recompute=recompute,
        )
        for recompute in RECOMPUTE
    ]
    return next((one for one in made if one.fits), made[-1])


def smallest_world(model: Architecture, *, gpu: str, tokens: int, per_node: int) -> int | None:
    """Fewest GPUs, in whole nodes, on which it fits with full recomputation; None where no number is enough."""
    margin = 1 + data.memory()["fragmentation"].value
    if per_node == 1 and fit(model, gpu=gpu, world=1, tokens=tokens).fits:
        return 1
    many = parts(model, world=10**9, tokens=tokens, recompute="full")
    left = usable(gpu) / margin - sum(many.values())
    if left <= 0:
        return None
    state = sum(data.memory()[name].value for name in ("weights", "gradients", "optimizer")) * model.parameters / GIB
    return max(per_node, math.ceil(state / left / per_node) * per_node)


def checkpoint_bytes(model: Architecture) -> float:
    """Bytes of one checkpoint of the whole state."""
    return data.memory()["checkpoint"].value * model.parameters
