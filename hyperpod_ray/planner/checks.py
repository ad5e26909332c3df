"""What a plan finds in an environment file with a section `training`: doubts, each with the setting it is about.

Closed forms only, so that a check stays fast.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date

from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.findings import Finding, error, warning
from hyperpod_ray.core.model import Training
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.planner import PlanError, goodput
from hyperpod_ray.planner.cluster import bill, cluster
from hyperpod_ray.planner.failures import published
from hyperpod_ray.planner.job import Wish, job
from hyperpod_ray.planner.outlook import Outlook
from hyperpod_ray.planner.ranges import GIB
from hyperpod_ray.planner.storage import FileSystem, SsdFileSystem
from hyperpod_ray.pricing.prices import Prices


def outlook(plan: CommonPlan) -> Outlook | None:
    """The outlook of an environment's own run; None without a section `training`.

    Raises:
        PlanError: the section and the cluster cannot be planned.
    """
    if plan.training is None:
        return None
    return Outlook(cluster=cluster(plan), job=job(Wish(), plan.training), rates=published())


def findings(plan: Plan, prices: Prices, *, day: date) -> list[Finding]:
    """Every doubt of one environment; empty without a section `training`."""
    try:
        run = outlook(plan)
        return [] if run is None else [*_fit(run), *_copies(run), *_saves(run), *_spares(plan, run, prices, day)]
    except PlanError as problem:
        is_error = problem.what.startswith(("model", "no model", "training", "batch_tokens", "tokens_per_second"))
        level = error if is_error else warning
        key = re.match(r"(?:training\.)?(\w+):", problem.what)
        path = ("training", key[1]) if key and key[1] in Training.model_fields else ("training",)
        return [level(*path, what=problem.what, expected=problem.expected, fix=_in_file(problem.fix))]


def _in_file(fix: str) -> str:
    """A fix for the settings file: `--batch-tokens 8192` is `batch_tokens: 8192` there."""
    return re.sub(r"--([a-z]+(?:-[a-z]+)*) (\d[\w.]*)", lambda m: f"{m[1].replace('-', '_')}: {m[2]}", fix)


def _fit(run: Outlook) -> Iterator[Finding]:
    part, fit, minimum = run.cluster, run.fit, run.smallest_world
    if fit.verdict in {"yes", "probably"}:
        return
    low, _, _ = fit.span
    fused = f"; with a fused loss {low:.1f}" if fit.verdict == "fused" else ""
    yield warning(
        "training",
        what=f"needs {fit.total:.1f} GiB per GPU with {part.world} GPUs{fused}",
        expected=f"at most {fit.usable:.1f}, which {part.gpu} has",
        fix=f"use {minimum} GPUs or more"
        if minimum
        else f"shorten sequences of {run.job.sequence}, or use GPUs with more memory: no number of {part.gpu} is sure",
    )


def _copies(run: Outlook) -> Iterator[Finding]:
    part = run.cluster
    if part.standing_by and run.copies > part.pod_memory_gib:
        yield error(
            "ray",
            "training_spares",
            what=(
                f"{part.standing_by} spares with {run.job.model.name} keep {run.copies:,.0f} GiB of copies in the "
                "host memory of a worker pod"
            ),
            expected=f"at most the {part.pod_memory_gib:,} of the pod",
            fix="use more GPUs, raise memory_gib of the workers, or set 0",
        )


def _size_setting(system: FileSystem) -> str:
    """The setting that makes a file system larger."""
    return "capacity_gib" if isinstance(system, SsdFileSystem) else "throughput_mbs"


def _saves(future: Outlook) -> Iterator[Finding]:
    run, part = future.job, future.cluster
    if part.file_system is None:
        return
    if future.room < run.keep + 1:
        yield warning(
            "training",
            "keep",
            what=(
                f"{run.keep} checkpoints of {future.checkpoint / GIB:,.0f} GiB and the next one need "
                f"{(run.keep + 1) * future.checkpoint / GIB:,.0f} GiB"
            ),
            expected=f"at most the {part.file_system.capacity_gib:,} of the file system",
            fix=f"lower keep, or raise storage.{_size_setting(part.file_system)}",
        )
    every = run.save_every_seconds
    if every is None:
        return
    best = future.interval
    if every < future.run("central").usable_after:
        yield warning(
            "training",
            "save_every_seconds",
            what=f"{every:.0f} s, and a save takes {future.run('central').usable_after:.0f}: the next one waits for it",
            expected=f"{best.low:.0f} to {best.high:.0f}",
            fix=f"set {best.seconds:.0f}",
        )
    elif not best.low <= every <= best.high:
        cost = best.goodput - goodput.goodput(future.run("central"), every)
        yield warning(
            "training",
            "save_every_seconds",
            what=f"{every:.0f} s costs {cost:.1%} of the time",
            expected=f"{best.low:.0f} to {best.high:.0f}, which costs less than 0.1 point more than the best",
            fix=f"set {best.seconds:.0f}",
        )


def _spares(plan: Plan, forecast: Outlook, prices: Prices, day: date) -> Iterator[Finding]:
    part = forecast.cluster
    if not part.spares:
        return
    from hyperpod_ray.planner import answers

    limit = answers.pays_from(forecast)
    # nodes that a team is sure of are no spares (`Cluster.promised`), and managed Karpenter has none
    if part.scaled or part.nodes >= limit.central:
        return
    names = [worker.instance_group for worker in plan.settings.ray.workers]
    groups = plan.settings.hyperpod.instance_groups
    index = next(i for i, group in enumerate(groups) if group.name in names and group.type == part.instance_type)
    none, with_it = (
        answers.standby(forecast, bill(plan, prices, day=day))[number].per_useful_gpu_hour for number in (0, 1)
    )
    costs = f"a useful GPU-hour costs {with_it.central / none.central - 1:.0%} more with it" if none and with_it else (
        "it costs more than it saves"
    )  # fmt: skip
    yield warning(
        "hyperpod",
        "instance_groups",
        index,
        "count",
        what=f"{part.spares} spare{'s' if part.spares > 1 else ''} for {part.nodes} "
        f"node{'s' if part.nodes > 1 else ''}: {costs}",
        expected=f"a spare from {limit.central:.0f} nodes on ({limit.low:.0f} to {limit.high:.0f})",
        fix=f"lower count by {part.spares}; keep the spare for a deadline or scarce capacity only",
    )
