"""What is to be trained, from the options of a command or the section `training` of an environment.

Every figure is refused at its place when no training run can have it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from hyperpod_ray.core.amounts import amount
from hyperpod_ray.core.model import Training
from hyperpod_ray.planner import PlanError, architecture, parallel, reading
from hyperpod_ray.planner.architecture import Architecture
from hyperpod_ray.planner.memory import Recompute
from hyperpod_ray.planner.parallel import Parallel

Precision = Literal["bf16", "fp8"]
Stack = Literal["pytorch", "megatron"]
"""`pytorch`: FSDP as in this project's jobs, or alike. `megatron`: Megatron-Core or Transformer Engine's kernels."""

TOKENS = (1e6, 1e15)
"""Fewest and most tokens of a run. The largest published run has 4e13."""
BATCH_TOKENS = (128.0, 1e10)
SEQUENCE = (128, 1_048_576)
KEEP = (1, 1000)
SPEED = (0.001, 10_000_000.0)
"""Tokens per second of one GPU."""
LORA_RANK = (1, 4096)


@dataclass(frozen=True, kw_only=True)
class Job:
    """One training run."""

    model: Architecture
    tokens: float
    sequence: int = 8192
    batch_tokens: float = 4e6
    save: Literal["async", "sync"] = "async"
    keep: int = 3
    tokens_per_second: float | None = None
    """Measured, of one GPU."""
    measured: str = "measured, as given"
    """Where the measured speed is from."""
    whole: bool = False
    """Whether the measured speed is of a whole run, interruptions and evaluation included."""
    save_every_seconds: float | None = None
    """As set; None: the best one is taken."""
    precision: Precision = "bf16"
    stack: Stack = "pytorch"
    parallel: Parallel = field(default_factory=Parallel)
    recompute: Recompute | None = None
    """None: the least that fits."""
    lora_rank: int = 0
    """Rank of adapters; 0: all parameters are trained."""

    @property
    def method(self) -> str:
        """What is trained, in words; empty for everything."""
        return f"LoRA of rank {self.lora_rank}" if self.lora_rank else ""


@dataclass(frozen=True, kw_only=True)
class Wish:
    """Options that go before the section `training`; what is None or empty is taken from there."""

    model: str = ""
    parameters: str = ""
    config: Path | None = None
    tokens: str = ""
    sequence: int | None = None
    batch_tokens: str = ""
    save: Literal["async", "sync"] | None = None
    keep: int | None = None
    tokens_per_second: float | None = None
    precision: Precision | None = None
    stack: Stack | None = None
    parallel: str = ""
    recompute: Recompute | None = None
    lora_rank: int | None = None


def job(wish: Wish, section: Training | None) -> Job:
    """The run that options and section describe.

    Raises:
        PlanError: neither names a model or the tokens, or one of them cannot be understood or is no run's.
    """
    named = [name for name in ("model", "parameters", "config") if getattr(wish, name)]
    if len(named) > 1:
        raise PlanError("two models", expected="one of --model, --params and --config", fix="give one")
    if not (wish.tokens or section):
        raise PlanError(
            "how many tokens to train on is not given",
            expected="--tokens",
            fix="give --tokens 1T, or write a section training in the file",
        )
    batch = wish.batch_tokens or (section.batch_tokens if section else "4M")
    every = section.save_every_seconds if section else None
    planned = Job(
        model=_model(wish, section),
        tokens=_amount(wish.tokens, section.tokens if section else "", "tokens", TOKENS, "write 1T for 1e12"),
        sequence=_whole(wish.sequence, section.sequence if section else Job.sequence, "sequence", SEQUENCE),
        batch_tokens=_amount(wish.batch_tokens, batch, "batch_tokens", BATCH_TOKENS, "write 4M for 4e6"),
        save=wish.save or (section.save if section else "async"),
        keep=_whole(wish.keep, section.keep if section else Job.keep, "keep", KEEP),
        tokens_per_second=_speed(wish, section),
        save_every_seconds=float(every) if every else None,
        precision=wish.precision or "bf16",
        stack=wish.stack or "pytorch",
        parallel=parallel.parse(wish.parallel),
        recompute=wish.recompute,
        lora_rank=0 if wish.lora_rank is None else _whole(wish.lora_rank, 0, "lora_rank", LORA_RANK),
    )
    _consistent(planned, wish)
    return planned


def _consistent(planned: Job, wish: Wish) -> None:
    """Refuses figures that are possible alone and impossible together."""
    batch, tokens = (_place(name, bool(getattr(wish, name))) for name in ("batch_tokens", "tokens"))
    if planned.batch_tokens < planned.sequence:
        raise PlanError(
            f"{batch}: {planned.batch_tokens:,.0f}, less than one sequence of {planned.sequence:,} tokens",
            expected=f"at least {planned.sequence:,}",
            fix=f"give {batch} {planned.sequence} or more, or a shorter sequence",
        )
    if planned.batch_tokens > planned.tokens:
        raise PlanError(
            f"{tokens}: {planned.tokens:,.0f}, less than one step of {planned.batch_tokens:,.0f} tokens",
            expected="one step or more",
            fix=f"give {tokens} more, or lower {batch}",
        )
    if planned.parallel.expert > 1 and planned.parallel.expert > max(1, planned.model.experts):
        raise PlanError(
            f"--parallel: ep={planned.parallel.expert} with {planned.model.experts} experts",
            expected="at most one rank for each expert" if planned.model.experts else "a mixture of experts",
            fix="lower ep" if planned.model.experts else "remove ep: the model is dense",
        )
    if planned.model.heads % planned.parallel.tensor:
        raise PlanError(
            f"--parallel: tp={planned.parallel.tensor} with {planned.model.heads} heads",
            expected="a divisor of the heads",
            fix="lower tp",
        )
    parts = planned.parallel.pipeline * planned.parallel.virtual
    if parts > planned.model.layers:
        raise PlanError(
            f"--parallel: {planned.parallel.name} of {planned.model.layers} layers",
            expected="at most one part for each layer",
            fix="lower pp or vp",
        )
    if planned.sequence % planned.parallel.context:
        raise PlanError(
            f"--parallel: cp={planned.parallel.context} of a sequence of {planned.sequence}",
            expected="a divisor of the sequence",
            fix="lower cp, or choose another --sequence",
        )


def _place(name: str, option: bool) -> str:
    return f"--{name.replace('_', '-')}" if option else f"training.{name}"


def _amount(text: str, default: str, name: str, bounds: tuple[float, float], fix: str) -> float:
    label = _place(name, bool(text))
    try:
        value = amount(text or default)
    except (ValueError, OverflowError) as error:
        raise PlanError(f"{label}: {str(error)[:120]}", expected="an amount", fix=fix) from None
    return reading.number(value, name=label, low=bounds[0], high=bounds[1], fix=fix)


def _whole(value: int | None, default: int, name: str, bounds: tuple[int, int]) -> int:
    label = _place(name, value is not None)
    number = default if value is None else value
    return int(
        reading.number(number, name=label, low=bounds[0], high=bounds[1], fix="give such a number", integer=True)
    )


def _speed(wish: Wish, section: Training | None) -> float | None:
    speed = _measured(wish, section) if wish.tokens_per_second is None else wish.tokens_per_second
    if speed is None:
        return None
    return reading.number(
        speed,
        name=_place("tokens_per_second", wish.tokens_per_second is not None),
        low=SPEED[0],
        high=SPEED[1],
        fix="give what one GPU does in a second: the job prints tokens per second of all GPUs",
    )


def _measured(wish: Wish, section: Training | None) -> float | None:
    """The section's speed, which was measured with its own model, sequence and way of training."""
    if section is None or wish.config or wish.parameters not in {"", section.parameters}:
        return None
    if wish.model not in {"", section.model} or wish.sequence not in {None, section.sequence}:
        return None
    if wish.precision or wish.parallel or wish.recompute or wish.lora_rank or wish.stack:
        return None
    return section.tokens_per_second


def _model(wish: Wish, section: Training | None) -> Architecture:
    if wish.config:
        from hyperpod_ray.planner import hugging_face

        return hugging_face.architecture(wish.config)
    if wish.model:
        return architecture.named(wish.model)
    if wish.parameters:
        return _of_size(wish.parameters, "--params")
    if section and section.model and section.parameters:
        raise PlanError("training: model and parameters", expected="one of the two", fix="remove one")
    if section and section.model:
        return architecture.named(section.model)
    if section and section.parameters:
        return _of_size(section.parameters, "training.parameters")
    raise PlanError(
        "no model is given",
        expected="--model, --params or --config",
        fix="give --model llama-3.1-70b, --params 70B or --config config.json, or write a section training in the file",
    )


def _of_size(text: str, label: str) -> Architecture:
    fix = "write 70B for 70e9"
    try:
        parameters = amount(text)
    except (ValueError, OverflowError) as error:
        raise PlanError(f"{label}: {str(error)[:120]}", expected="an amount", fix=fix) from None
    low, high = architecture.SMALLEST, architecture.LARGEST
    return architecture.of_size(reading.number(parameters, name=label, low=low, high=high, fix=fix))
