"""What is to be trained, from the options of a command or the section `training` of an environment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hyperpod_ray.core.amounts import amount
from hyperpod_ray.core.model import Training
from hyperpod_ray.planner import PlanError, architecture
from hyperpod_ray.planner.architecture import Architecture


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
    save_every_seconds: float | None = None
    """As set; None: the best one is taken."""


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


def job(wish: Wish, section: Training | None) -> Job:
    """The run that options and section describe.

    Raises:
        PlanError: neither names a model or the tokens, or one of them cannot be understood.
    """
    given = [name for name in ("model", "parameters", "config") if getattr(wish, name)]
    if len(given) > 1:
        raise PlanError("two models", expected="one of --model, --params and --config", fix="give one")
    tokens = wish.tokens or (section.tokens if section else "")
    if not tokens:
        raise PlanError(
            "how many tokens to train on is not given",
            expected="--tokens",
            fix="give --tokens 1T, or write a section training in the file",
        )
    every = section.save_every_seconds if section else None
    try:
        return Job(
            model=_model(wish, section),
            tokens=_positive(amount(tokens), "--tokens"),
            sequence=wish.sequence or (section.sequence if section else Job.sequence),
            batch_tokens=_positive(
                amount(wish.batch_tokens or (section.batch_tokens if section else "4M")), "--batch-tokens"
            ),
            save=wish.save or (section.save if section else "async"),
            keep=wish.keep or (section.keep if section else Job.keep),
            tokens_per_second=wish.tokens_per_second or _measured(wish, section),
            save_every_seconds=float(every) if every else None,
        )
    except ValueError as error:
        raise PlanError(str(error), expected="an amount above 0", fix="write 70B for 70e9, 1T for 1e12") from None


def _measured(wish: Wish, section: Training | None) -> float | None:
    """The section's speed, which was measured with its own model and sequence."""
    if section is None or wish.config or wish.parameters not in {"", section.parameters}:
        return None
    if wish.model not in {"", section.model} or wish.sequence not in {None, section.sequence}:
        return None
    return section.tokens_per_second


def _positive(number: float, name: str) -> float:
    if number <= 0:
        raise ValueError(f"{name}: {number:g}")
    return number


def _model(wish: Wish, section: Training | None) -> Architecture:
    if wish.config:
        return architecture.from_config(wish.config)
    if wish.model:
        return architecture.named(wish.model)
    if wish.parameters:
        return architecture.of_size(amount(wish.parameters))
    if section and section.model and section.parameters:
        raise PlanError("training: model and parameters", expected="one of the two", fix="remove one")
    if section and section.model:
        return architecture.named(section.model)
    if section and section.parameters:
        return architecture.of_size(amount(section.parameters))
    raise PlanError(
        "no model is given",
        expected="--model, --params or --config",
        fix="give --model llama-3.1-70b, --params 70B or --config config.json, or write a section training in the file",
    )
