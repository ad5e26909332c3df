"""Rules about the section `training`: figures that no hardware reaches, and steps that are too small."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hyperpod_ray.core.amounts import amount
from hyperpod_ray.core.checks.lookup import max_replicas, workers
from hyperpod_ray.core.findings import Finding, error, rule, warning
from hyperpod_ray.core.plan import Plan

PEAK = 10e15
"""Floating-point operations per second of one GPU: twice the dense FP8 peak of NVIDIA's B200 (4.5e15), so that a slip
is refused and no measurement is. https://www.nvidia.com/en-us/data-center/dgx-b200/"""
PER_TOKEN = 6
"""Operations of one parameter for one token, forward and backward. https://arxiv.org/abs/2001.08361, section 2.1"""
_SIZE = re.compile(r"-(\d+(?:\.\d+)?)b(?:-|$)")


@rule("training")
def a_gpu_reaches_the_tokens(plan: Plan) -> Iterator[Finding]:
    """One GPU does no more than its peak: six operations for each parameter and token."""
    training = plan.settings.training
    if training is None or training.tokens_per_second is None:
        return
    match = _SIZE.search(training.model or "")
    size = amount(training.parameters) if training.parameters else float(match.group(1)) * 1e9 if match else None
    if size is None or size <= 0:
        return
    ceiling = PEAK / (PER_TOKEN * size)
    if training.tokens_per_second > ceiling:
        yield error(
            "training",
            "tokens_per_second",
            what=f"{training.tokens_per_second:,.0f} tokens per second of one GPU with {size / 1e9:g}B parameters",
            expected=f"at most {ceiling:,.0f}, above the peak of any GPU",
            fix="remove it, or give what one GPU of yours does: the sum of all divided by their number",
        )


@rule("training")
def the_size_is_said_once(plan: Plan) -> Iterator[Finding]:
    """A model of the planner's list has its own size, so that another one beside it is read by nobody."""
    training = plan.settings.training
    if training is not None and training.model and training.parameters:
        yield error(
            "training",
            "parameters",
            what=f"{training.parameters} beside model {training.model}, whose size is known",
            expected="a model or a number of parameters",
            fix="remove one of the two",
        )


@rule("training")
def a_step_has_a_sequence(plan: Plan) -> Iterator[Finding]:
    """A step has whole sequences."""
    training = plan.settings.training
    if training is None:
        return
    batch = amount(training.batch_tokens)
    if batch < training.sequence:
        yield error(
            "training",
            "batch_tokens",
            what=f"{batch:,.0f} tokens of a step, and one sequence has {training.sequence:,}",
            expected=f"{training.sequence:,} or more",
            fix=f'set training.batch_tokens: "{training.sequence}", or lower sequence',
        )


@rule("training", "ray", "hyperpod", "instance_types")
def every_gpu_has_a_sequence(plan: Plan) -> Iterator[Finding]:
    """One sequence per GPU is a micro-batch: with fewer, GPUs have nothing of their own to do in a step."""
    training = plan.settings.training
    if training is None or (batch := amount(training.batch_tokens)) < training.sequence:
        return
    gpus = sum(
        max_replicas(worker) * (worker.gpus if worker.gpus is not None else plan.type_spec(group.type).accelerators)
        for _, worker, group in workers(plan)
    )
    if batch < gpus * training.sequence:
        yield warning(
            "training",
            "batch_tokens",
            what=f"{batch:,.0f} tokens are {batch // training.sequence:,.0f} sequences, and there are {gpus} GPUs",
            expected=f"{gpus * training.sequence:,} or more, or GPUs that share a sequence",
            fix=f'set training.batch_tokens: "{gpus * training.sequence}", or shard each sequence over several GPUs',
        )
