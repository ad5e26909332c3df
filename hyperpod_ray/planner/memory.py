"""Does it fit: bytes of one GPU by part, under FSDP2 with float32 shards and Adam, and the smallest world that fits.

State shrinks with the number of GPUs; activations, logits and gathered layers do not. Tensor parallelism splits layers,
context parallelism sequences, expert parallelism the routed experts. A pipeline splits layers into stages: a stage
keeps its layers whole for all micro-batches of a step, and the first stage as many micro-batches as there are stages.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hyperpod_ray.planner import data
from hyperpod_ray.planner.architecture import Architecture
from hyperpod_ray.planner.parallel import ALONE, Parallel
from hyperpod_ray.planner.ranges import GIB, Range

Recompute = Literal["none", "selective", "full"]
RECOMPUTE: tuple[Recompute, ...] = ("none", "selective", "full")
"""How much of a layer is computed again in the backward pass, cheapest in time first."""
Verdict = Literal["yes", "probably", "fused", "no"]
"""`probably`: the central figure fits, the high end does not. `fused`: only the low end does, with a fused loss."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """The memory of one GPU."""

    parts: Mapping[str, float]
    """GiB by part."""
    usable: float
    """GiB that a process can allocate."""
    world: int
    recompute: Recompute
    pipelined: bool = False

    @property
    def total(self) -> float:
        """GiB in all."""
        return sum(self.parts.values())

    @property
    def span(self) -> Range:
        """GiB with the margin by which published figures differ; low: with a loss that keeps no float32 logits."""
        constant = data.memory()
        margin = constant["margin_pipeline" if self.pipelined else "margin"].value
        logits = self.parts["logits"]
        plain = constant["logits_alone" if self.world == 1 else "logits"].value
        fused = self.total - logits * (1 - constant["logits_fused"].value / plain)
        return Range(fused * (1 - margin), self.total, self.total * (1 + margin))

    @property
    def verdict(self) -> Verdict:
        """`no` only where even the low end is above what a process can allocate."""
        low, central, high = self.span
        if high <= self.usable:
            return "yes"
        return "probably" if central <= self.usable else "fused" if low <= self.usable else "no"

    @property
    def fits(self) -> bool:
        """Whether it can run: not called impossible."""
        return self.verdict != "no"


def usable(gpu: str) -> float:
    """GiB of a kind of accelerator that a training process can allocate."""
    return data.gpus()[gpu].memory_mib / 1024 - data.memory()["reserve_gib"].value


def kept_elements(model: Architecture) -> int:
    """Elements that one layer keeps of one token for its backward pass, attention fused; of the larger kind of layer.

    Two norms, attention and two residuals of the model's width; queries and keys before and after their rotation, and
    values; gate, up, the activation and the product of the feed-forward layer, or of the experts that compute the token
    with the token's copies for them.
    """
    query, key = model.heads * model.head_width, model.kv_heads * model.head_width
    matrices = 4 if model.gated else 2
    attention = 5 * model.width + 2 * query + 3 * key
    if model.hybrid:
        attention = max(attention, model.hybrid.kept)
    dense = matrices * model.feed
    if not model.experts:
        return attention + dense
    routed = model.experts_active * (matrices * model.expert_feed + 2 * model.width) + matrices * model.shared_feed
    dense_layers = model.hybrid.feeds if model.hybrid else model.dense_layers
    return attention + max(routed, dense if dense_layers else 0)


def kept_by_layers(model: Architecture) -> int:
    """The same of all layers together."""
    kinds = model.hybrid
    if kinds is None:
        return model.layers * kept_elements(model)
    query, key = model.heads * model.head_width, model.kv_heads * model.head_width
    matrices = 4 if model.gated else 2
    routed = model.experts_active * (matrices * model.expert_feed + 2 * model.width) + matrices * model.shared_feed
    feeds = kinds.feeds * (matrices * model.feed + 2 * model.width) + kinds.experts * (routed + 2 * model.width)
    return kinds.attention * (3 * model.width + 2 * query + 3 * key) + kinds.linear * kinds.kept + feeds


def adapter_parameters(model: Architecture, rank: int) -> int:
    """Trained parameters of LoRA on all matrices of attention and of dense or shared feed-forward layers."""
    query, key = model.heads * model.head_width, model.kv_heads * model.head_width
    feed = model.feed if not model.experts else model.shared_feed
    pairs = [(model.width, query), (model.width, key), (model.width, key), (query, model.width)]
    pairs += [(model.width, feed)] * (3 if model.gated else 2) if feed else []
    return model.layers * rank * sum(width_in + width_out for width_in, width_out in pairs)


def parts(
    model: Architecture,
    *,
    world: int,
    tokens: int,
    recompute: Recompute,
    parallel: Parallel = ALONE,
    lora_rank: int = 0,
    compiled: bool = False,
    micro_batches: float = math.inf,
) -> dict[str, float]:
    """GiB of one GPU by part.

    Args:
        model: What is trained.
        world: GPUs over which the state is sharded.
        tokens: Tokens of one micro-batch of one data-parallel rank; context parallelism splits them.
        recompute: Activation recomputation.
        parallel: How layers, sequences and experts are split.
        lora_rank: Rank of adapters, beside frozen weights in bf16; 0: all parameters are trained.
        compiled: Whether torch.compile fuses the layers.
        micro_batches: Of one step. Default: many.
    """
    constant = data.memory()
    trained = adapter_parameters(model, lora_rank) if lora_rank else model.parameters
    state_gib = {name: constant[name].value * trained / world for name in ("weights", "gradients", "optimizer")}
    if lora_rank:
        state_gib["weights"] += constant["frozen"].value * model.parameters / world
    rank_tokens = tokens / parallel.context
    split, stages = parallel.tensor, parallel.pipeline
    in_flight = parallel.in_flight(micro_batches) if stages > 1 else 1.0
    activations = _activations(
        model, rank_tokens=rank_tokens, split=split, recompute=recompute, compiled=compiled, held=in_flight / stages
    )
    if split > 1:
        activations += constant["tensor_parallel"].value * rank_tokens * model.width
    # two layers are gathered in bf16 at once, and the root's all the time; one gradient is whole, in bf16 and float32
    idle = model.experts * model.expert * (1 - 1 / min(parallel.expert, model.experts)) if model.experts else 0
    block, root = (model.block - idle) / split, model.root / split
    sharded = world > 1
    gathered, reduced = 2.0 * (2 * block + root), 6.0 * (block + root)
    if split * stages >= world:  # nobody shares the state: the whole gradients are all there are
        state_gib["gradients"] = 0.0 if stages > 1 else state_gib["gradients"]
    if stages > 1:  # a stage is gathered once a step, and its gradients are summed whole in float32
        stage = (model.parameters - model.root) / stages / split - idle * model.layers / stages / split
        gathered, reduced = 2.0 * (stage + root / 2), 4.0 * (stage + root / 2) + 2.0 * block
    state_gib["gathered layers"] = gathered if sharded else 0.0
    state_gib["gradients in reduction"] = reduced if sharded and not lora_rank else 0.0
    state_gib["activations"] = activations
    state_gib["logits"] = constant["logits"].value * rank_tokens * model.vocabulary / split
    if not sharded and not lora_rank:  # the gradients of one GPU are whole, and grow as activations and logits go
        state_gib["logits"] = constant["logits_alone"].value * rank_tokens * model.vocabulary
        passing = 2.0 * (block + root)  # FSDP2 casts the root and one layer also where nobody shares them
        state_gib["gathered layers"] = passing
        if micro_batches <= 1:  # with more of them, the gradients of those before are there all the time
            last = state_gib["gradients"] + (2.0 + 6.0) * root
            state_gib["gradients"] = max(0.0, last - passing - activations - state_gib["logits"])
    if stages > 1:  # the first stage keeps most micro-batches, the last one has the logits
        state_gib["logits"] = max(0.0, state_gib["logits"] - activations * (1 - 1 / max(1.0, in_flight)))
    return {name: value / GIB for name, value in state_gib.items()}


def _activations(
    model: Architecture, *, rank_tokens: float, split: int, recompute: Recompute, compiled: bool, held: float
) -> float:
    """Bytes that the layers keep for the backward pass; `held` is the share of a micro-batch's that a stage has."""
    constant = data.memory()
    bytes_each = constant["activations_none"].value * rank_tokens / split
    if recompute == "full":  # the inputs of all layers, and the one that is computed again
        kept = constant["activations_full"].value * rank_tokens * model.width * model.layers / split
        return kept * held + bytes_each * kept_elements(model)
    share = constant["activations_selective_compiled" if compiled else "activations_selective"].value
    return bytes_each * kept_by_layers(model) * (share if recompute == "selective" else 1) * held


def fit(
    model: Architecture,
    *,
    gpu: str,
    world: int,
    tokens: int,
    recompute: Recompute | None = None,
    parallel: Parallel = ALONE,
    lora_rank: int = 0,
    micro_batches: float = math.inf,
) -> Fit:
    """The memory with the least recomputation that surely fits, or with full recomputation where none does."""
    choices = [
        Fit(
            parts=parts(
                model, world=world, tokens=tokens, recompute=choice, parallel=parallel, lora_rank=lora_rank,
                micro_batches=micro_batches,
            ),
            usable=usable(gpu),
            world=world,
            recompute=choice,
            pipelined=parallel.pipeline > 1,
        )
        for choice in ([recompute] if recompute else RECOMPUTE)
    ]  # fmt: skip
    return next((choice for choice in choices if choice.verdict == "yes"), choices[-1])


def smallest_world(
    model: Architecture,
    *,
    gpu: str,
    tokens: int,
    per_node: int,
    recompute: Recompute | None = None,
    parallel: Parallel = ALONE,
    lora_rank: int = 0,
    micro_batches: float = math.inf,
) -> int | None:
    """Fewest GPUs, in whole nodes, on which it surely fits; None where no number is enough."""
    best_case = fit(
        model, gpu=gpu, world=1, tokens=tokens, recompute=recompute, parallel=parallel, lora_rank=lora_rank,
        micro_batches=micro_batches,
    )  # fmt: skip
    if per_node == 1 and best_case.verdict == "yes":
        return 1

    def total(world: int) -> float:
        part_sizes = parts(
            model, world=world, tokens=tokens, recompute=recompute or "full", parallel=parallel, lora_rank=lora_rank,
            micro_batches=micro_batches,
        )  # fmt: skip
        return sum(part_sizes.values())

    many = total(10**9)
    state = total(2) - many
    margin = data.memory()["margin_pipeline" if parallel.pipeline > 1 else "margin"].value
    remaining = usable(gpu) / (1 + margin) - many
    if remaining <= 0:
        return None
    step = math.lcm(per_node, parallel.ranks)
    return max(step, math.ceil(2 * state / remaining / step) * step)


def checkpoint_bytes(model: Architecture, *, lora_rank: int = 0) -> float:
    """Bytes of one checkpoint of the whole state that is trained."""
    trained = adapter_parameters(model, lora_rank) if lora_rank else model.parameters
    return data.memory()["checkpoint"].value * trained
