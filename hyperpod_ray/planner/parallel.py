"""How a model is split over GPUs beside FSDP: tensors, sequences, experts, stages."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hyperpod_ray.planner import PlanError

WORDS = {"tp": "tensor", "cp": "context", "ep": "expert"}


@dataclass(frozen=True, kw_only=True)
class Parallel:
    """Degrees of splitting; FSDP takes what is left of the GPUs."""

    tensor: int = 1
    context: int = 1
    expert: int = 1
    pipeline: int = 1
    """Of published rows only: the planner plans no pipelines."""

    @property
    def ranks(self) -> int:
        """GPUs that work on one sequence together."""
        return self.tensor * self.context * self.pipeline

    @property
    def name(self) -> str:
        """`tp=8,cp=2`; empty without any."""
        return ",".join(f"{word}={getattr(self, field)}" for word, field in WORDS.items() if getattr(self, field) > 1)


ALONE = Parallel()


def parse(text: str) -> Parallel:
    """`tp=8,cp=2,ep=8`: each once, a power of two up to 1,024.

    Raises:
        PlanError: It is written otherwise.
    """
    degrees: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        match = re.fullmatch(r"(tp|cp|ep)=(\d{1,4})", part, flags=re.ASCII)
        degree = int(match[2]) if match else 0
        if match is None or WORDS[match[1]] in degrees or not 1 <= degree <= 1024 or degree & (degree - 1):
            raise PlanError(
                f"--parallel: {text[:60]}",
                expected="tp, cp and ep, each at most once, with a power of two up to 1024",
                fix="write tp=8,cp=2,ep=8",
            )
        degrees[WORDS[match[1]]] = degree
    return Parallel(**degrees)
