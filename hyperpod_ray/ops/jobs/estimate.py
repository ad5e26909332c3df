"""What a job will take before it is submitted: nodes, dollars an hour, and when it ends."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from hyperpod_ray.core import job_checks
from hyperpod_ray.core.amounts import dollars, duration
from hyperpod_ray.core.job import Job
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.planner import PlanError
from hyperpod_ray.planner.cluster import cluster
from hyperpod_ray.planner.failures import published
from hyperpod_ray.planner.job import Wish
from hyperpod_ray.planner.job import job as planned_job
from hyperpod_ray.planner.outlook import Outlook
from hyperpod_ray.planner.ranges import Range
from hyperpod_ray.pricing import price_file
from hyperpod_ray.pricing.prices import Price


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Figures of one job; None where they are not known, with the reason in `unknown`."""

    workers: int
    gpus: int
    nodes: int
    """Nodes that its workers and spares take."""
    instance_type: str
    """Type of its nodes, or the types that they may have."""
    usd_per_hour: float | None
    """With nodes of the first type."""
    estimated: bool
    """Whether the price is taken from another Region's."""
    most_usd_per_hour: float | None = None
    """With nodes of the dearest type; None where a price is not known."""
    seconds: Range | None = None
    unknown: str = ""

    @property
    def usd(self) -> Range | None:
        """Dollars of its nodes until the end."""
        if self.seconds is None or self.usd_per_hour is None:
            return None
        price = self.usd_per_hour / 3600
        return self.seconds.map(lambda seconds: seconds * price)


def of_job(plan: Plan, job: Job, *, folder: Path | None = None) -> Estimate:
    """Size, price and time of a job in an environment; `folder` has the prices file."""
    pods = {name: maximum for name, (_, maximum) in job_checks.pods_for(plan, job).items() if maximum}
    groups = job_checks.groups_for(plan, job)
    first_worker = next((worker for worker in groups if worker.name in pods), groups[0])
    types = plan.group(first_worker.instance_group).types
    pod = plan.worker_resources(first_worker)
    each_node = max(1, job_checks.pods_per_node(plan, first_worker))
    nodes = sum(math.ceil(count / each_node) for count in pods.values())
    each_type = [_price(plan, name, folder) for name in types]
    price, known = each_type[0], [candidate.usd for candidate in each_type if candidate]
    workers = job.sizes[1] if job.sizes else sum(pods.values())
    per_worker = job.gpus_per_worker if job.gpus_per_worker is not None else 1 if pod.gpus else 0
    gpus = workers * per_worker if job.sizes else sum(pods.values()) * pod.gpus
    seconds, unknown = _seconds(plan, job, gpus=gpus, nodes=nodes)
    return Estimate(
        workers=workers,
        gpus=gpus,
        nodes=nodes,
        instance_type=" or ".join(types),
        usd_per_hour=price.usd * nodes if price else None,
        estimated=any(candidate and candidate.estimate for candidate in each_type),
        most_usd_per_hour=max(known) * nodes if len(known) == len(types) else None,
        seconds=seconds,
        unknown=unknown,
    )


def _price(plan: Plan, instance_type: str, folder: Path | None) -> Price | None:
    try:
        return price_file.recorded(folder).instance(plan.settings.region, instance_type)
    except price_file.PriceFileError:
        return None


def _seconds(plan: Plan, job: Job, *, gpus: int, nodes: int) -> tuple[Range | None, str]:
    section = job.training or plan.settings.training
    if section is None:
        return None, "no section training in the job or the environment"
    if not gpus:
        return None, "it trains on no GPU"
    try:
        full = cluster(plan)
        size = replace(full, world=gpus, nodes=max(1, nodes), spares=max(0, full.nodes + full.spares - nodes))
        finish = Outlook(cluster=size, job=planned_job(Wish(), section), rates=published("central")).finish_seconds
    except PlanError as error:
        return None, error.what
    if finish is None:
        return None, f"no published speed of {size.gpu}; training.tokens_per_second is not set"
    if not math.isfinite(finish.high):
        return None, "with so many interruptions it does not end"
    return finish, ""


def lines(estimate: Estimate, *, now: datetime) -> list[str]:
    """The estimate in words, one fact a line."""
    about = "~" if estimate.estimated else ""
    nodes = f"{estimate.nodes} node{'s' if estimate.nodes != 1 else ''} {estimate.instance_type}"
    size = f"{estimate.gpus} GPU{'s' if estimate.gpus != 1 else ''} on {nodes}" if estimate.gpus else nodes
    price = (
        f"{dollars(estimate.usd_per_hour, mark=about)} an hour"
        if estimate.usd_per_hour is not None
        else "price not known"
    )
    if " or " in estimate.instance_type and estimate.usd_per_hour is not None:
        most = estimate.most_usd_per_hour
        dearest = "not known of each type" if most is None else f"at most {dollars(most, mark=about)}"
        price += f" with nodes of the first type, {dearest}"
    sentences = [f"it takes {size}: {price}"]
    if estimate.seconds is None:
        return [*sentences, f"when it ends is not known: {estimate.unknown}"]
    low, usual, high = (duration(seconds) for seconds in estimate.seconds)
    day = (now + timedelta(seconds=estimate.seconds.central)).strftime("%Y-%m-%d %H:%M UTC")
    money = f", about {dollars(estimate.usd.central, mark=about, cents=False)}" if estimate.usd is not None else ""
    return [*sentences, f"it ends in about {usual} ({low} to {high}), {day}{money}"]
