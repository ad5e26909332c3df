"""`docs/plan-agreement.md`: what the planner predicts against what is published, point by point.

The speed model is fitted before the page is written, so that data, fit and page change together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from hyperpod_ray.planner import agreement, data, published
from hyperpod_ray.planner.agreement import Point

PROJECT = Path(__file__).resolve().parents[1]
PAGE = PROJECT / "docs" / "plan-agreement.md"

EXPLAINED: dict[str, str] = {
    "automodel-lora-70b": "the source gives no reason for its 176 TFLOP/s; other rows of adapters are twice as fast",
    "automodel-qwen3-30b-a3b": "likely DeepEP, whose exchange between experts within one node the fit does not know",
    "bloomberggpt": "likely its software of 2022, without FlashAttention: the fit takes rows from 2023 on as with it",
    "bridge2511-gpt-oss-120b": "the source trains without dropping tokens; "
    "its other software for this model is as slow",
    "bridge2602-gpt-oss-120b": "the source trains without dropping tokens; "
    "its other software for this model is as slow",
    "bridge260201-qwen3-30b-a3b-b200": "newer software of the same source: three times its figure of 26.02",
    "bridge2604-qwen3-30b-a3b-b200": "newer software of the same source: three times its figure of 26.02",
    "bridge260401-qwen3-30b-a3b-b200": "newer software of the same source: three times its figure of 26.02",
    "bridge260401-deepseek-v3-b200": "newer software of the same source: a quarter above its figure of 26.02",
    "bridge2509-llama-3.1-405b": "likely large matrices, which FP8 speeds up more than the fit's one constant",
    "bridge2511-llama-3.1-405b": "likely large matrices, which FP8 speeds up more than the fit's one constant",
    "bridge2602-llama-3.1-405b": "likely large matrices, which FP8 speeds up more than the fit's one constant",
    "bridge260401-llama-3.1-405b": "likely large matrices, which FP8 speeds up more than the fit's one constant",
    "bridge2606-llama-3.1-405b": "likely large matrices, which FP8 speeds up more than the fit's one constant",
    "fms-70b-a100": "the source says that only a part of the layers is computed again; its HFU says all",
    "foundry-70b-2048-64-a100-40gb": "micro-batches of two sequences on accelerators of 40 GB; "
    "the same model on 128 of them, with four, is a third faster",
    "foundry-30b-8192": "micro-batches of one sequence, which leave FSDP's traffic in view",
    "foundry-13b-2048": "micro-batches of two sequences of 2,048 tokens, which leave FSDP's traffic in view",
    "foundry-7b-65536": "likely attention: most of the work at 65,536 tokens",
    "llama3-405b-16384-131072": "published as TFLOP/s only; at 131,072 tokens the count depends on how attention is "
    "counted, which the paper does not say",
    "megatron21-1.7b": "likely recomputation of a small model: the fit has rows of 7.5B parameters and more",
    "megatron21-3.6b": "likely recomputation of a small model: the fit has rows of 7.5B parameters and more",
    "megatron22-1t-selective": "likely its attention: the fit takes software before 2023 as slow for all parts alike",
    "mtnlg-530b": "a batch of 1,920 on ever more replicas: the source measures how the bubble grows, and more than it",
    "nemo2407-full-llama-2": "fine-tuning on packed sequences, whose attention is shorter than the sequence",
    "run-bloomberggpt": "its steps are as slow: likely its software of 2022, without FlashAttention",
    "run-llama-3.1-8b": "likely hours that hold more than the pre-training: Llama 3 8B ran at 56 % of the speed that "
    "torchtitan has without torch.compile",
    "run-tinyllama": "its hours are computed from its benchmark, 24k tokens per second, and hold no loss",
    "titan-70b-rowwise": "the source says that its row-wise FP8 is slower than it should be",
    "titan-8b-128": "the source's row without torch.compile, 16 % slower than its row with it",
    "titan-8b-8": "the source's row without torch.compile, 16 % slower than its row with it",
    "titan-8b-tp-rowwise": "the source says that its row-wise FP8 is slower than it should be",
    "tune-70b-lora": "the source computes its loss in chunks, and its adapters are on fewer matrices",
}
"""Why a point lies outside, by the beginning of its id; longer beginnings go first."""


HEAD = """# The planner against published figures

`python -m docs.generate` writes this page; do not edit it. It compares [plans](plan.md) with what others published:
speeds of training steps, whole runs, and memory.

The fit does not see rows whose group has a SHA-256 that 3 divides: about a third. A group is a source, a model and an
accelerator. The range of a plan is 10 to 90 %.

Some of those rows were in view when the form of the model was chosen. Others were collected later, and are never in the
fit: *unseen*. They say what a row of your own will meet.
"""
FIRST_LOOK = """
The fit that stood when the unseen rows were collected had 84% of their steps in its range, with a median error of
13.8%. Of their 8 whole runs it had 75%, with 17.7%. The form of split layers and the spread by source changed after
that, by the fitted rows alone: each source was omitted once.
"""


def explanation(point: Point) -> str:
    """The reason of one outlier; empty where nobody wrote one."""
    names = sorted((name for name in EXPLAINED if point.name.startswith(name)), key=len, reverse=True)
    return EXPLAINED[names[0]] if names else ""


def page() -> str:
    """The page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    steps, runs, memories = agreement.steps(), agreement.runs(), agreement.memories()
    ran = agreement.ran()
    yield HEAD
    yield from _summary(steps, runs, memories)
    impossible = [name for name, _, fit in ran if fit.verdict == "no"]
    yield (
        f"{len(ran)} configurations with PyTorch ran with a printed micro-batch. "
        f"The planner calls {len(impossible)} of them impossible."
    )
    yield ""
    stages = [point for point in steps if point.row.pp > 1]
    unseen = [point for point in stages if point.kept_out]
    yield (
        f"{len(stages)} rows have a pipeline, {len(unseen)} of them kept out: {agreement.coverage(unseen):.0%} in "
        f"range, median error {agreement.median_error(unseen):.1%}. A step's time grows by"
    )
    yield (
        "the bubble: stages - 1 over parts × micro-batches, and by the largest stage where layers do not divide evenly."
    )
    yield (
        "No row is of a hybrid (Mamba, Gated DeltaNet): a plan of one carries the speed over, with a range 1.5 "
        "times as wide."
    )
    yield ""
    pipelines = [point for point in memories if point.row.pp > 1]
    yield (
        f"Six rows print the memory of a pipeline: median error {agreement.median_error(pipelines):.1%}. They chose "
        "the margin, 15 %, and count as fitted."
    )
    yield ""
    yield "Most rows are llm-foundry's, whose models are alike. By source, steps that are kept out:"
    yield ""
    yield "| source | rows | in range | median error |"
    yield "|---|---:|---:|---:|"
    for name, source in published.sources().items():
        own = [point for point in steps if point.row.source == name and point.kept_out]
        if own:
            yield f"| [{source.text}]({source.url}) | {len(own)} | {_share(own)} | {agreement.median_error(own):.0%} |"
    yield ""
    yield "## What the fit says"
    yield ""
    yield from _fit()
    yield from _tables(steps, runs, memories)
    yield ""
    yield "## Sources"
    yield ""
    for name, source in published.sources().items():
        count = sum(1 for row in published.rows().values() if row.source == name)
        yield f"- [{source.text}]({source.url}): {count} row{'s' if count > 1 else ''}, read {source.as_of}."


def _summary(steps: Sequence[Point], runs: Sequence[Point], memories: Sequence[Point]) -> Iterator[str]:
    yield (
        "| | rows | kept out | in range, kept out | median error, kept out | in range, fitted | median error, fitted |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for title, points in (("speed of steps", steps), ("whole runs", runs), ("memory", memories)):
        outside = [point for point in points if point.kept_out]
        inside = [point for point in points if not point.kept_out]
        yield (
            f"| {title} | {len(points)} | {len(outside)} | {agreement.coverage(outside):.0%} | "
            f"{agreement.median_error(outside):.1%} | {agreement.coverage(inside):.0%} | "
            f"{agreement.median_error(inside):.1%} |"
        )
    for title, points in (("speed of steps", steps), ("whole runs", runs)):
        later = [point for point in points if point.row.unseen]
        yield (
            f"| {title}, unseen alone | {len(later)} | {len(later)} | {agreement.coverage(later):.0%} | "
            f"{agreement.median_error(later):.1%} | | |"
        )
    yield FIRST_LOOK


def _tables(steps: Sequence[Point], runs: Sequence[Point], memories: Sequence[Point]) -> Iterator[str]:
    for title, points, unit in (
        ("Speed of steps", steps, "tokens per second and GPU"),
        ("Whole runs", runs, "tokens per second and GPU: tokens ÷ GPU hours"),
        ("Memory", memories, "GiB of one GPU"),
    ):
        yield ""
        yield f"## {title}"
        yield ""
        quoted = "*Quoted*: read in public transcriptions of the paper, not in the paper."
        yield f"In {unit}. *Kept*: the fit does not see it. *Unseen*: nor did anybody who chose its form. {quoted}"
        yield ""
        yield "| what | on | published | low | central | high | error | kept | |"
        yield "|---|---|---:|---:|---:|---:|---:|---|---|"
        for point in points:
            yield _point(point)
        yield ""
        yield f"### {title}: outside the range"
        yield ""
        if agreement.outliers(points):
            yield "What the source says of the configuration; a reason with *likely* is this project's reading."
            yield ""
        for point in agreement.outliers(points):
            yield f"- `{point.name}` ({point.error:+.0%}): {explanation(point)}."
        if not agreement.outliers(points):
            yield "None."


def _share(points: Sequence[Point]) -> str:
    return f"{sum(point.inside for point in points)} of {len(points)}"


def _fit() -> Iterator[str]:
    fit = data.speed()
    yield (
        "A step's work is its matrix products, FP8's speed-up taken off, and its attention, each FLOP "
        "of which takes longer."
    )
    yield ""
    yield "| constant | value |"
    yield "|---|---:|"
    for name, value in fit.attention.items():
        yield f"| a FLOP of attention against one of a matrix product, {name} | {value:g} |"
    yield f"| speed-up of matrix products by FP8, dense | {fit.fp8:g} |"
    yield f"| speed-up of matrix products by FP8, experts | {fit.fp8_experts:g} |"
    for name, value in fit.recompute.items():
        yield f"| work with recomputation: {name} | {value:g} |"
    yield ""
    yield "The share of the dense rate that this work reaches is a product of factors:"
    yield ""
    yield "| factor | logarithm |"
    yield "|---|---:|"
    for name, value in fit.steps.items():
        yield f"| {name} | {value:+.3f} |"
    for name, value in fit.run.items():
        yield f"| a whole run against its steps: {name} | {value:+.3f} |"
    yield ""
    yield (
        f"Spread of the logarithm, each group omitted once: dense {fit.spread['dense']:.2f}, experts "
        f"{fit.spread['experts']:.2f}, whole runs {fit.run_spread:.2f}."
    )


def _point(point: Point) -> str:
    row = point.row
    gpus = f"{row.gpus:,} × " if row.gpus else ""
    digits = 1 if point.published < 100 else 0
    low, central, high = (f"{value:,.{digits}f}" for value in point.predicted)
    kept = "unseen" if row.unseen else "kept" if point.kept_out else ""
    quoted = "quoted" if row.origin == "quoted" else ""
    outside = "" if point.inside else "**outside**"
    notes = " ".join(filter(None, (outside, quoted)))
    return (
        f"| {row.what}, {row.sequence:,} tokens{', FP8' if row.precision == 'fp8' else ''} | {gpus}{row.gpu} | "
        f"{point.published:,.{digits}f} | {low} | {central} | {high} | {point.error:+.0%} | {kept} | {notes} |"
    )
