"""How fast it trains, from published figures: the speed of steps alone, and what a whole run makes of it.

A step's arithmetic is counted as matrix products, which FP8 speeds up, attention, which takes longer for each FLOP, and
what recomputation adds. How much of the dense rate that work reaches is a product of factors, fitted to published rows
(`hyperpod_ray.planner.fitting`, `data/speed.yaml`); the range is the spread of rows that the fit has not seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from hyperpod_ray.planner import PlanError, data
from hyperpod_ray.planner.architecture import Architecture
from hyperpod_ray.planner.memory import Recompute
from hyperpod_ray.planner.parallel import Parallel
from hyperpod_ray.planner.ranges import Range

TAIL = 1.2816
"""Standard deviations from the middle to the 10 and 90 % of a normal distribution."""
CARRIED_OVER = 1.5
"""A range is wider by this where no published row is of the same kind."""
GENERATIONS = {"A100-40GB": "A100", "A100-80GB": "A100", "H100": "Hopper", "H200": "Hopper", "B200": "Blackwell"}
"""Kinds of accelerator with published speeds."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What the speed of a training step depends on."""

    model: Architecture
    gpu: str
    sequence: int
    gpus: int
    precision: str = "bf16"
    stack: str = "pytorch"
    recompute: Recompute | None = None
    lora: bool = False
    parallel: Parallel = field(default_factory=Parallel)
    micro_batches: float = math.inf
    """Of one step of a pipeline; infinite: it never drains."""
    early: bool = False
    """Whether the software is older than 2023, without FlashAttention."""

    @property
    def generation(self) -> str:
        """Generation of the accelerator."""
        return GENERATIONS[self.gpu]

    @property
    def likeness(self) -> str:
        """Rows of the same accelerator generation, precision, software and kind of model support it directly."""
        return "/".join(
            (self.generation, self.precision, self.stack, self.family)
        )  # fmt: skip

    @property
    def family(self) -> str:
        """`dense`, `experts` or `hybrid`."""
        return "hybrid" if self.model.hybrid else "experts" if self.model.experts else "dense"

    @property
    def busy(self) -> float:
        """Share of a step in which a stage of the pipeline computes."""
        if self.parallel.pipeline == 1 or math.isinf(self.micro_batches):
            return 1.0
        return self.parallel.busy(layers=self.model.layers, micro_batches=self.micro_batches)

    @property
    def features(self) -> dict[str, float]:
        """By what the share of the dense rate is described."""
        model, split = self.model, self.parallel
        return {
            "constant": 1.0,
            "Hopper": float(self.generation == "Hopper"),
            "Blackwell": float(self.generation == "Blackwell"),
            "megatron": float(self.stack == "megatron"),
            "before 2023": float(self.early),
            "experts": float(bool(model.experts)),
            "narrow experts": math.log2(8192 / model.expert_feed) if model.experts else 0.0,
            "small": max(0.0, math.log10(7e9 / model.active)),
            "GPUs": math.log2(max(1.0, self.gpus / 8)),
            "context parallel": math.log2(split.context),
            # bytes that a rank exchanges over its FLOP: (degree - 1) ÷ degree × width against width² ÷ degree
            "split layers": (split.tensor - 1) * 1024 / model.width,
            "stages": math.log2(split.pipeline),
        }

    def work(self, fit: data.Fit) -> float:
        """FLOP of one token, each weighed by how long it takes against one of a matrix product in bf16."""
        attention = self.model.attention_flop(self.sequence)
        matrices = self.model.flop_per_token(self.sequence) - attention
        if self.lora:  # frozen matrices have no gradient of their own: forward, and backward through them
            matrices *= 4 / 6
        if self.precision == "fp8":
            matrices /= fit.fp8_experts if self.model.experts else fit.fp8
        slower = fit.attention["megatron" if self.stack == "megatron" else self.generation]
        return (matrices + slower * attention) * fit.recompute.get(self.recompute or "none", 1.0) / self.busy

    @property
    def rate(self) -> float:
        """Dense bf16 FLOP per second of one GPU."""
        return data.gpus()[self.gpu].bf16_tflops * 1e12


def known(gpu: str) -> bool:
    """Whether training speeds of this accelerator are published."""
    return gpu in GENERATIONS


def steps(setting: Setting) -> Range:
    """Tokens per second of one GPU in steps alone, 10 and 90 % around the central figure.

    Raises:
        PlanError: no throughput is published for this kind.
    """
    _refuse(setting.gpu)
    fit = data.speed()
    logarithm = sum(fit.steps[name] * value for name, value in setting.features.items())
    central = math.exp(logarithm) * setting.rate / setting.work(fit)
    return _span(central, _spread(setting, fit))


def whole(setting: Setting) -> Range:
    """Tokens per second of one GPU over a whole run, but for interruptions: evaluation, data, slow nodes are in it."""
    fit = data.speed()
    clean = steps(setting).central
    # larger runs lose less, as published; none is faster than its steps
    factor = min(1.0, math.exp(sum(fit.run[name] * value for name, value in run_features(setting).items())))
    wider = CARRIED_OVER if not fit.rows.get(setting.likeness) else 1.0
    return _span(clean * factor, wider * fit.run_spread)


def run_features(setting: Setting) -> dict[str, float]:
    """By what a whole run's share of the speed of its steps is described."""
    return {
        "constant": 1.0,
        "small": max(0.0, math.log10(7e9 / setting.model.active)),
        "large": max(0.0, math.log10(setting.model.active / 7e9)),
        "experts": float(bool(setting.model.experts)),
    }


def _spread(setting: Setting, fit: data.Fit) -> float:
    spread = fit.spread["dense" if setting.family == "dense" else "experts"]
    return spread if fit.rows.get(setting.likeness) else CARRIED_OVER * spread


def _span(central: float, spread: float) -> Range:
    return Range(central * math.exp(-TAIL * spread), central, central * math.exp(TAIL * spread))


def support(setting: Setting) -> str:
    """What the range is made of, in words."""
    fit = data.speed()
    alike = fit.rows.get(setting.likeness, 0)
    words = f"{sum(fit.rows.values())} published rows, {alike} of this kind (docs/plan-agreement.md)"
    return words if alike else f"{words}: carried over, with a wider range"


def _refuse(gpu: str) -> None:
    if not known(gpu):
        raise PlanError(
            f"no training throughput of {gpu} is published that this project trusts",
            expected=f"one of {', '.join(GENERATIONS)}",
            fix="measure a short run and give --tokens-per-second, per GPU",
        )


def fastest(setting: Setting) -> float:
    """Tokens per second of one GPU that no run can reach: all matrix products at four times the dense bf16 rate."""
    work = setting.model.flop_per_token(setting.sequence)
    return 4 * setting.rate / (work * (4 / 6 if setting.lora else 1))


def hidden_tokens(*, gpu: str, network_gbps: float) -> float:
    """Tokens per GPU and micro-step from which FSDP's traffic hides behind the arithmetic at the full bf16 rate.

    Weights are gathered twice in bf16 and gradients reduced in float32: 8 bytes per parameter enter each node, against
    6 FLOP per parameter and token on each GPU. The parameters cancel.
    """
    return 8 * data.gpus()[gpu].bf16_tflops * 1e12 / (6 * network_gbps / 8 * 1e9)


def carried(setting: Setting, *, per_node: int, network_gbps: float) -> float:
    """Tokens per second of one GPU where nothing but traffic between nodes takes time; infinite where there is none.

    Args:
        setting: The step.
        per_node: GPUs of one node.
        network_gbps: That enter one node, and leave it at once.
    """
    bytes_per_token = sharded_traffic(setting, per_node=per_node) + per_node * (
        stage_traffic(setting, per_node=per_node) + expert_traffic(setting, per_node=per_node)
    )
    return network_gbps / 8 * 1e9 / bytes_per_token if bytes_per_token else math.inf


def sharded_traffic(setting: Setting, *, per_node: int) -> float:
    """Bytes that enter one node for each token of one GPU, as weights are gathered and gradients reduced.

    Weights are gathered twice in bf16 and gradients reduced in float32, 8 bytes of each parameter in a micro-step;
    frozen weights have no gradients. A stage of a pipeline is gathered once, and reduced once, in a whole step. Experts
    of other nodes are not gathered.
    """
    split, model = setting.parallel, setting.model
    if setting.gpus / split.pipeline <= per_node:
        return 0.0
    tokens = setting.sequence / split.ranks * (setting.micro_batches if split.pipeline > 1 else 1)
    routed = model.expert_layers * model.experts * model.expert if model.experts else 0
    local_share = min(1.0, per_node / split.expert)
    gathered = 2.0 if split.pipeline > 1 else 4.0
    bytes_each = gathered + (0.0 if setting.lora else 4.0)
    return bytes_each * (model.parameters - routed * (1 - local_share)) / split.pipeline / tokens


def stage_traffic(setting: Setting, *, per_node: int) -> float:
    """Bytes that one GPU sends over the fabric for each token it trains: activations forward, gradients back.

    Each token crosses between stages in bf16, `virtual` times in an interleaved schedule. A GPU has its share of the
    tokens of its pipeline in each stage. Stages of one node exchange nothing over the fabric.
    """
    split = setting.parallel
    if split.pipeline == 1:
        return 0.0
    leaving = min(1.0, setting.gpus / split.pipeline / per_node)
    return 2 * 2 * setting.model.width * split.pipeline * split.virtual * leaving


def expert_traffic(setting: Setting, *, per_node: int) -> float:
    """Bytes that one GPU sends over the fabric for each token, to experts of other nodes and back, both passes."""
    split, model = setting.parallel, setting.model
    if split.expert <= per_node:
        return 0.0
    return 8.0 * model.expert_layers * model.experts_active * model.width * (1 - per_node / split.expert)
