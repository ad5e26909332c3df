"""How a model is split over GPUs beside FSDP: tensors, sequences, experts, stages."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from hyperpod_ray.planner import PlanError

WORDS = {"tp": "tensor", "cp": "context", "ep": "expert", "pp": "pipeline", "vp": "virtual"}
MOST = 1024


@dataclass(frozen=True, kw_only=True)
class Parallel:
    """Degrees of splitting; FSDP takes what is left of the GPUs."""

    tensor: int = 1
    context: int = 1
    expert: int = 1
    pipeline: int = 1
    """Stages, each on GPUs of its own."""
    virtual: int = 1
    """Parts of a stage, which an interleaved schedule takes in turn; 1: one forward, one backward (1F1B)."""

    @property
    def ranks(self) -> int:
        """GPUs that work on one sequence together."""
        return self.tensor * self.context * self.pipeline

    def in_flight(self, micro_batches: float = math.inf) -> float:
        """Micro-batches whose activations the first stage keeps: as many as stages, more where it is interleaved.

        A step has no more than its own.
        """
        scheduled = self.pipeline + (self.pipeline - 1) / self.virtual if self.virtual > 1 else float(self.pipeline)
        return min(scheduled, micro_batches)

    def busy(self, *, layers: int, micro_batches: float) -> float:
        """Share of a step in which a stage computes: the pipeline fills and drains, and stages may be uneven.

        arXiv 2104.04473, 2.2: the bubble is (stages - 1) ÷ (parts × micro-batches) of the rest.
        """
        if self.pipeline == 1:
            return 1.0
        parts = self.pipeline * self.virtual
        even = layers / (parts * -(-layers // parts))
        return even * micro_batches / (micro_batches + (self.pipeline - 1) / self.virtual)

    @property
    def name(self) -> str:
        """`tp=8,cp=2`; empty without any."""
        return ",".join(f"{word}={getattr(self, field)}" for word, field in WORDS.items() if getattr(self, field) > 1)


ALONE = Parallel()


def parse(text: str) -> Parallel:
    """`tp=8,cp=2,ep=8,pp=12,vp=4`: each once, up to 1,024; tp, cp and ep a power of two.

    Raises:
        PlanError: It is written otherwise.
    """
    degrees: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        match = re.fullmatch(r"(tp|cp|ep|pp|vp)=(\d{1,4})", part, flags=re.ASCII)
        degree = int(match[2]) if match else 0
        uneven = degree & (degree - 1) and match is not None and match[1] in ("tp", "cp", "ep")
        if match is None or WORDS[match[1]] in degrees or not 1 <= degree <= MOST or uneven:
            raise PlanError(
                f"--parallel: {text[:60]}",
                expected=f"tp, cp, ep, pp and vp, each at most once, up to {MOST}; tp, cp and ep a power of two",
                fix="write tp=8,cp=2,ep=8 or tp=8,pp=12,vp=4",
            )
        degrees[WORDS[match[1]]] = degree
    split = Parallel(**degrees)
    if split.virtual > 1 and split.pipeline == 1:
        raise PlanError(
            f"--parallel: vp={split.virtual} without stages",
            expected="pp=2 or more with vp",
            fix="give pp, or remove vp",
        )
    return split
