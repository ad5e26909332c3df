"""What a plan finds in an environment file with a section `training`: doubts, each with the setting it is about.

Closed forms only, so that a check stays fast.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from core.findings import Finding, error, warning
from core.plan import Plan
from planner import PlanError, answers, goodput, memory
from planner.cluster import bill, cluster
from planner.failures import published
from planner.job import Wish, job
from planner.outlook import Outlook
from planner.ranges import GIB
from pricing.prices import Prices


def outlook(plan: Plan) -> Outlook | None:
    """The outlook of an environment's own run; None without a section `training`.

    Raises:
        PlanError: the section and the cluster cannot be planned.
    """
    if plan.settings.training is None:
        return None
    return Outlook(cluster=cluster(plan), job=job(Wish(), plan.settings.training), rates=published())


def findings(plan: Plan, prices: Prices, *, day: date) -> list[Finding]:
    """Every doubt of one environment; empty without a section `training`."""
    try:
        found = outlook(plan)
        return [] if found is None else [*_fit(found), *_saves(found), *_spares(plan, found, prices, day)]
    except PlanError as problem:
        message = str(problem)
        wrong_model = "model" in problem.what
        return [error("training", message=message) if wrong_model else warning("training", message=message)]


def _fit(found: Outlook) -> Iterator[Finding]:
    run, part = found.job, found.cluster
    fit = memory.fit(run.model, gpu=part.gpu, world=part.world, tokens=run.sequence)
    if fit.fits:
        return
    least = memory.smallest_world(run.model, gpu=part.gpu, tokens=run.sequence, per_node=part.per_node)
    where = f"from {least} GPUs on" if least else f"on no number of {part.gpu} with sequences of {run.sequence}"
    yield warning(
        "training",
        message=f"needs {fit.total:.0f} GiB per GPU, and {part.gpu} has {fit.usable:.0f}; fits {where}",
    )


def _saves(found: Outlook) -> Iterator[Finding]:
    run, part = found.job, found.cluster
    if part.file_system is None:
        return
    if found.room < run.keep + 1:
        yield warning(
            "training",
            "keep",
            message=(
                f"{run.keep} checkpoints of {found.checkpoint / GIB:,.0f} GiB and the next one need "
                f"{(run.keep + 1) * found.checkpoint / GIB:,.0f} GiB; the file system has "
                f"{part.file_system.capacity_gib:,}. Keep fewer, or raise storage.capacity_gib"
            ),
        )
    every = run.save_every_seconds
    if every is None:
        return
    best = found.interval
    if every < found.run("central").usable_after:
        yield warning(
            "training",
            "save_every_seconds",
            message=(
                f"{every:.0f} s, and a save takes {found.run('central').usable_after:.0f}: the next one waits for it. "
                f"Best is {best.seconds:.0f}"
            ),
        )
    elif not best.low <= every <= best.high:
        cost = best.goodput - goodput.goodput(found.run("central"), every)
        yield warning(
            "training",
            "save_every_seconds",
            message=(
                f"{every:.0f} s costs {cost:.1%} of the time; best is {best.seconds:.0f} ({best.low:.0f} to "
                f"{best.high:.0f} costs less than 0.1 point)"
            ),
        )


def _spares(plan: Plan, found: Outlook, prices: Prices, day: date) -> Iterator[Finding]:
    part = found.cluster
    limit = answers.pays_from(found)
    if not part.spares or part.nodes >= limit.central:
        return
    names = [worker.instance_group for worker in plan.settings.ray.workers]
    groups = plan.settings.hyperpod.instance_groups
    index = next(i for i, group in enumerate(groups) if group.name in names and group.type == part.instance_type)
    none, with_it = (
        answers.standby(found, bill(plan, prices, day=day))[number].per_useful_gpu_hour for number in (0, 1)
    )
    costs = f"a useful GPU-hour costs {with_it.central / none.central - 1:.0%} more with it" if none and with_it else (
        "it costs more than it saves"
    )  # fmt: skip
    yield warning(
        "hyperpod",
        "instance_groups",
        index,
        "count",
        message=(
            f"{part.spares} spare for {part.nodes} nodes: {costs}; one pays from {limit.central:.0f} nodes on "
            f"({limit.low:.0f} to {limit.high:.0f}). Keep it for a deadline or scarce capacity only"
        ),
    )
