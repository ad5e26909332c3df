"""What an environment has cost so far this month, and which of its GPUs do nothing: prices times what is there. Pure.

This is arithmetic over list prices, not a bill: `bill.py` asks AWS for that. A node that was replaced and
is gone is not counted before its replacement's launch, so the sum is a lower bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from hyperpod_ray.core import names
from hyperpod_ray.core.amounts import dollars
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.requests import read_cache_gib
from hyperpod_ray.ops import orchestrators, output
from hyperpod_ray.ops.journal.record import FINISHED, Record
from hyperpod_ray.ops.journal.run import Run
from hyperpod_ray.ops.observe.snapshot import EKS, Instance, Snapshot
from hyperpod_ray.ops.orchestrators.interface import Work
from hyperpod_ray.ops.verdict import ray as verdict_ray
from hyperpod_ray.ops.verdict import training as verdict_training
from hyperpod_ray.pricing import prices
from hyperpod_ray.pricing.prices import HOURS_PER_MONTH, Price, Prices, elastic_words

PAID_FOR = ("Pending", "ShuttingDown", "Failure")
"""States of an instance that is not there to be paid for, or no longer."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """One thing that is there and costs money."""

    name: str
    what: str
    usd_per_hour: float | None
    """None where the price is unknown."""
    hours: float
    """Since the beginning of the month, of all pieces together for nodes."""
    usd: float | None
    estimate: bool = False
    elsewhere_usd_per_hour: float | None = None
    """Without a price: what it costs in the dearest Region with one. In no sum."""


@dataclass(frozen=True, kw_only=True)
class Idle:
    """Accelerated nodes of a group that are ready, and on which nothing is to be done."""

    group: str
    nodes: tuple[str, ...]
    gpus: int
    usd_per_hour: float | None
    why: str
    """What is missing: a worker, or a job for it."""
    since: datetime | None = None
    """Since when that is so of all of them; None where it is not known."""
    usd: float | None = None
    """What they have cost since then."""
    earliest: datetime | None = None
    """Where `since` is not known: since when it can be so at the most."""
    usd_at_most: float | None = None
    """What they have cost since `earliest`."""

    @property
    def cost(self) -> str:
        """What they cost, in words."""
        if self.since:
            return f", {dollars(self.usd)} since {output.clock(self.since)}"
        return f", at most {dollars(self.usd_at_most)} since {output.clock(self.earliest)}" if self.earliest else ""


@dataclass(frozen=True, kw_only=True)
class UnusedQuota:
    """Accelerators of one type that a team is sure of, and that no job of its own has."""

    team: str
    type: str
    gpus: float
    of: float
    """The team's whole quota."""
    usd_per_hour: float | None
    earliest: datetime | None
    """Since when so many can be unused at the most; None where that may not be seen."""
    usd_at_most: float | None

    @property
    def text(self) -> str:
        """All of it in words."""
        cost = f", at most {dollars(self.usd_at_most)} since {output.clock(self.earliest)}" if self.earliest else ""
        return (
            f"quota of team {self.team}: {self.gpus:g} of {self.of:g} GPUs ({self.type}) without a job of the team, "
            f"{dollars(self.usd_per_hour)} an hour{cost}"
        )


@dataclass(frozen=True, kw_only=True)
class Spend:
    """What is there, since the beginning of the month."""

    since: datetime
    at: datetime
    items: tuple[Item, ...]
    idle: tuple[Idle, ...]
    gpus: int
    """GPUs (or Neuron devices) of nodes that are there."""
    busy_gpus: int | None
    """GPUs of nodes on which a Ray worker or a job of Slurm runs; None where it is not known what runs where."""
    training_gpus: int | None = None
    """Ranks on GPUs of the runs that train; None where the jobs of Ray were not seen, and on Slurm."""
    useful_gpus: float | None = None
    """The same, each counted by its run's goodput."""
    unjudged: tuple[str, ...] = ()
    """Jobs that run and publish nothing: whether they train is not known."""
    unpriced_gpus: int = 0
    """Of `gpus`, those of groups without a known price: what they cost is in no sum."""
    quotas: tuple[UnusedQuota, ...] = ()
    """Never summed with `idle`: their nodes may be idle, or lent to others."""
    incomplete: tuple[str, ...] = ()
    """Sources that did not answer: what they would have shown is not in the sums."""

    @property
    def unknown(self) -> tuple[str, ...]:
        """What has no known price: the sums leave it out."""
        return tuple(charge.name for charge in self.items if charge.usd_per_hour is None)

    @property
    def unpriced_share(self) -> str:
        """How much of the whole the charges without a price are, in words; empty where each has one."""
        missing = [charge.elsewhere_usd_per_hour for charge in self.items if charge.usd_per_hour is None]
        return prices.unpriced_share(missing, self.usd_per_hour) if missing else ""

    @property
    def usd_per_hour(self) -> float:
        """Of what is there now and has a price."""
        return sum(charge.usd_per_hour or 0.0 for charge in self.items)

    @property
    def usd(self) -> float:
        """Since the beginning of the month, of what has a price."""
        return sum(charge.usd or 0.0 for charge in self.items)

    @property
    def estimate(self) -> bool:
        """Whether a price in the sums is an estimate."""
        return any(charge.estimate and charge.usd_per_hour is not None for charge in self.items)

    @property
    def usd_per_useful_gpu_hour(self) -> float | None:
        """Everything that is paid for an hour, by the GPUs whose hour is useful; None where a part is not known."""
        return self.usd_per_hour / self.useful_gpus if self.useful_gpus and not self.unknown else None

    @property
    def at_work(self) -> str:
        """How many GPUs train, in words; on Slurm, how many have a job."""
        if self.busy_gpus is None:
            return f"{self.gpus} GPUs are there; what runs on them is not known"
        if self.training_gpus is None:
            return f"{self.busy_gpus} of {self.gpus} GPUs have work; whether they train is not known"
        prefix = "at least " if self.unjudged else ""
        remainder = f"; {', '.join(self.unjudged)} published no steps" if self.unjudged else ""
        return f"{prefix}{self.training_gpus} of {self.gpus} GPUs train{remainder}"


def spend(plan: CommonPlan, snapshot: Snapshot, rates: Prices) -> Spend:
    """What the environment's parts that a snapshot shows cost since the beginning of the month.

    Args:
        plan: The environment.
        snapshot: What is there.
        rates: Prices; one that is missing stays unknown.
    """
    month = snapshot.at.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    billed = [part for part in snapshot.instances if part.status not in PAID_FOR]
    gpus = sum(_gpus(plan, part) for part in billed)
    work = orchestrators.named(snapshot.orchestrator).work(snapshot)
    idle = tuple(_idle(plan, snapshot, rates, work))
    busy = sum(_gpus(plan, part) for part in billed if names.node_name(part.id) in work.busy)
    training = _training(snapshot) if work.trains_known else None
    unjudged = tuple(job.id for job in verdict_training.unjudged(snapshot))
    nodes = tuple(_nodes(plan, snapshot, rates, billed, month))
    unpriced = {charge.name for charge in nodes if charge.usd_per_hour is None}
    return Spend(
        since=month,
        at=snapshot.at,
        items=(*nodes, *_volumes(plan, snapshot, rates, billed, month),
               *_storage(plan, snapshot, rates, month), *_fixed(plan, snapshot, rates, month)),
        idle=idle,
        gpus=gpus,
        busy_gpus=busy if work.known else None,
        training_gpus=None if training is None else sum(min(run.world_size or 0, gpus) for run in training),
        useful_gpus=None if training is None or unjudged
        else sum(min(run.world_size or 0, gpus) * (run.goodput or 0.0) for run in training),
        unjudged=unjudged,
        unpriced_gpus=sum(_gpus(plan, part) for part in billed if part.group in unpriced),
        quotas=tuple(_unused(plan, snapshot, rates)),
        incomplete=tuple(part for part in ("HyperPod", EKS, "FSx", "Kubernetes", "Slurm") if not snapshot.saw(part)),
    )  # fmt: skip


def run_usd_per_hour(plan: CommonPlan, rates: Prices, *, ranks: int) -> float | None:
    """What the nodes of a run cost an hour: ranks take whole nodes of the workers' first group; None where unknown."""
    for name in plan.ray_groups:
        group = plan.group(name)
        per_node = plan.type_spec(group.type).accelerators or 1
        price = rates.instance(plan.settings.region, group.type)
        if price is None or group.training_plan_arn:
            return None
        return -(-ranks // per_node) * price.usd
    return None


def run_usd(plan: CommonPlan, rates: Prices, record: Record) -> float | None:
    """What a run's nodes have cost in the time in which it had workers on them, by how many there were."""
    hourly = {ranks: run_usd_per_hour(plan, rates, ranks=ranks) for ranks in record.held}
    if record.partial or not hourly or None in hourly.values():
        return None
    return sum((hourly[ranks] or 0.0) * seconds / 3600 for ranks, seconds in record.held.items())


def run_usd_per_useful_gpu_hour(plan: CommonPlan, rates: Prices, run: Run) -> float | None:
    """A run's dollars by the GPU-hours of it that were useful; None for one whose ranks are on CPUs."""
    if run.record is None or run.device == "cpu" or not run.record.useful_rank_seconds:
        return None
    usd = run_usd(plan, rates, run.record)
    return None if usd is None else usd * 3600 / run.record.useful_rank_seconds


def _training(snapshot: Snapshot) -> list[Run]:
    """Runs on GPUs whose job runs, and that have begun."""
    going = {(job.cluster, job.id) for job in snapshot.jobs if job.state == "RUNNING"}
    return [
        run for run in snapshot.runs
        if (run.cluster, run.job) in going and run.device != "cpu" and run.state not in ("starting", *FINISHED)
    ]  # fmt: skip


def _gpus(plan: CommonPlan, instance: Instance) -> int:
    return plan.type_spec(instance.type).accelerators if plan.known(instance.type) else 0


def _hours(since: datetime | None, month: datetime, at: datetime) -> float:
    return max(0.0, (at - max(since or month, month)).total_seconds() / 3600)


def _nodes(
    plan: CommonPlan, snapshot: Snapshot, rates: Prices, billed: list[Instance], month: datetime
) -> Iterator[Item]:
    prepaid = {group.name for group in plan.groups if group.training_plan_arn}
    for group in dict.fromkeys(instance.group for instance in billed):
        members = [instance for instance in billed if instance.group == group]
        if group in prepaid:
            continue
        for instance_type in dict.fromkeys(instance.type for instance in members):
            pieces = [instance for instance in members if instance.type == instance_type]
            price = rates.instance(plan.settings.region, instance_type)
            hours = sum(_hours(instance.launched, month, snapshot.at) for instance in pieces)
            yield Item(
                name=group, what=f"{len(pieces)} × {instance_type}", hours=hours,
                usd_per_hour=price.usd * len(pieces) if price else None,
                usd=price.usd * hours if price else None, estimate=bool(price and price.estimate),
                elsewhere_usd_per_hour=_elsewhere(price, rates.dearest_instance(instance_type), len(pieces)),
            )  # fmt: skip


def _volumes(
    plan: CommonPlan, snapshot: Snapshot, rates: Prices, billed: list[Instance], month: datetime
) -> Iterator[Item]:
    sizes = {group.name: group.data_volume_gib or 0 for group in plan.groups}
    gigabytes = sum(sizes.get(instance.group, 0) for instance in billed)
    if not gigabytes:
        return
    price = rates.node_volume(plan.settings.region)
    hourly = price.usd / HOURS_PER_MONTH if price else None
    hours = sum(sizes.get(node.group, 0) * _hours(node.launched, month, snapshot.at) for node in billed)
    yield Item(
        name="volumes of nodes", what=f"{gigabytes} GiB of EBS", hours=hours / gigabytes,
        usd_per_hour=None if hourly is None else hourly * gigabytes, usd=None if hourly is None else hourly * hours,
        estimate=bool(price and price.estimate),
        elsewhere_usd_per_hour=_elsewhere(price, rates.dearest_node_volume(), gigabytes / HOURS_PER_MONTH),
    )  # fmt: skip


def _storage(plan: CommonPlan, snapshot: Snapshot, rates: Prices, month: datetime) -> Iterator[Item]:
    for open_zfs in snapshot.file_systems:
        if open_zfs.homes and plan.new_homes is not None:
            speed = f"{plan.new_homes.throughput_mbs} MB/s for home folders"
            yield Item(
                name=open_zfs.id, what=f"{open_zfs.capacity_gib} GiB and {speed}",
                hours=_hours(open_zfs.created, month, snapshot.at), usd_per_hour=None, usd=None,
            )  # fmt: skip
    if (elastic := plan.elastic_file_system) is not None:
        words = elastic_words(mbs=elastic.throughput_mbs, cache_gib=read_cache_gib(plan), iops=elastic.metadata_iops)
        for lustre in snapshot.file_systems:
            if not lustre.homes:
                hours = _hours(lustre.created, month, snapshot.at)
                yield Item(name=lustre.id, what=words, hours=hours, usd_per_hour=None, usd=None)
    spec = plan.ssd_file_system
    if spec is None:  # without a known price, or somebody pays for it already
        return
    price = rates.file_system(plan.settings.region, spec.throughput_mbs_per_tib)
    for lustre in snapshot.file_systems:
        if lustre.homes:
            continue
        hours = _hours(lustre.created, month, snapshot.at)
        hourly = price.usd * lustre.capacity_gib / HOURS_PER_MONTH if price else None
        yield Item(
            name=lustre.id, what=f"{lustre.capacity_gib} GiB, {spec.throughput_mbs_per_tib} MB/s per TiB", hours=hours,
            usd_per_hour=hourly, usd=None if hourly is None else hourly * hours,
            estimate=bool(price and price.estimate),
            elsewhere_usd_per_hour=_elsewhere(
                price, rates.dearest_file_system(spec.throughput_mbs_per_tib), lustre.capacity_gib / HOURS_PER_MONTH
            ),
        )  # fmt: skip


def _fixed(plan: CommonPlan, snapshot: Snapshot, rates: Prices, month: datetime) -> Iterator[Item]:
    """The network and the EKS cluster: of each, since its own beginning where that is known."""
    eks = snapshot.control_plane
    standing = [part.created for part in (snapshot.cluster, eks) if part is not None]
    if not standing:
        return
    since = min(filter(None, standing), default=None)
    version = eks.version if eks else ""
    for charge, count in prices.always_paid(plan, day=snapshot.at.date(), eks_version=version):
        name, unit = prices.FIXED[charge]
        began = eks.created if eks is not None and charge.startswith("eks_") else since
        hours = _hours(began or since, month, snapshot.at)
        price = rates.hourly(plan.settings.region, charge)
        hourly = price.usd * count if price else None
        yield Item(
            name=name, what=f"{count} × {unit}", hours=hours, usd_per_hour=hourly,
            usd=None if hourly is None else hourly * hours, estimate=bool(price and price.estimate),
            elsewhere_usd_per_hour=_elsewhere(price, rates.dearest_hourly(charge), count),
        )  # fmt: skip


def _elsewhere(price: Price | None, dearest: Price | None, quantity: float) -> float | None:
    """Dollars an hour of a charge without a price, in the dearest Region that has one."""
    return dearest.usd * quantity if price is None and dearest is not None else None


def _idle(plan: CommonPlan, snapshot: Snapshot, rates: Prices, work: Work) -> Iterator[Idle]:
    """Ready accelerated nodes without work; nothing where Kubernetes or Slurm did not say what runs where."""
    yield from _without_work(plan, snapshot, rates, work)
    if not work.trains_known:
        return
    for cluster in dict.fromkeys((pod.namespace, pod.cluster) for pod in snapshot.pods):
        if not verdict_ray.jobless(snapshot, *cluster):
            continue
        pods = [pod for pod in snapshot.pods if (pod.namespace, pod.cluster) == cluster and pod.node in work.busy]
        workers = {pod.node for pod in pods if pod.role == "worker"}
        since = verdict_ray.without_job(snapshot, *cluster)
        for group in plan.groups:
            free = [
                instance
                for instance in snapshot.instances
                if instance.group == group.name and names.node_name(instance.id) in workers
            ]
            if free and plan.accelerated(group):
                why = f"no job on RayCluster {cluster[0]}/{cluster[1]}, whose workers are on"
                yield _idle_nodes(plan, snapshot, rates, free, why=why, since=since)


def _without_work(plan: CommonPlan, seen: Snapshot, known: Prices, work: Work) -> Iterator[Idle]:
    if not work.known or work.ready is None:
        return
    for group in plan.groups:
        if not plan.accelerated(group):
            continue
        free = [
            one
            for one in seen.instances
            if one.group == group.name
            and one.status == "Running"
            and names.node_name(one.id) in work.ready
            and names.node_name(one.id) not in work.busy
        ]
        if free:
            # a worker may have been there and gone: when the node was ready is the earliest that it can be
            ready = max(filter(None, (work.ready_since.get(names.node_name(one.id)) for one in free)), default=None)
            yield _idle_nodes(plan, seen, known, free, why=work.idle, since=None if seen.pods else ready,
                              earliest=ready)  # fmt: skip


def _unused(plan: CommonPlan, snapshot: Snapshot, rates: Prices) -> Iterator[UnusedQuota]:
    """Quotas of teams of which their own jobs have not everything."""
    uses = {use.namespace: use for use in snapshot.quotas}
    for team in plan.teams:
        use = uses.get(names.team_namespace(team.name))
        if use is None:
            continue
        for quota in team.quota:
            devices = plan.type_spec(quota.type).accelerators if plan.known(quota.type) else 0
            accelerators = float(quota.accelerators or (quota.instances or 0) * devices)
            free = accelerators - use.reserved.get(quota.type, 0.0)
            if free <= 0:
                continue
            price = rates.instance(plan.settings.region, quota.type)
            hourly = price.usd / devices * free if price and devices else None
            hours = _hours_since(use.changed, snapshot.at)
            yield UnusedQuota(
                team=team.name, type=quota.type, gpus=free, of=accelerators, usd_per_hour=hourly, earliest=use.changed,
                usd_at_most=None if hourly is None or hours is None else hourly * hours,
            )  # fmt: skip


def _hours_since(since: datetime | None, at: datetime) -> float | None:
    return None if since is None else max(0.0, (at - since).total_seconds() / 3600)


def _idle_nodes(
    plan: CommonPlan, snapshot: Snapshot, rates: Prices, free: list[Instance], *, why: str, since: datetime | None,
    earliest: datetime | None = None,
) -> Idle:  # fmt: skip
    group = plan.group(free[0].group)
    each = [rates.instance(plan.settings.region, instance.type) for instance in free]
    unknown = group.training_plan_arn is not None or None in each
    hourly = None if unknown else sum(price.usd for price in each if price)
    hours, most_hours = _hours_since(since, snapshot.at), _hours_since(earliest, snapshot.at)
    return Idle(
        group=group.name, nodes=tuple(instance.id for instance in free), usd_per_hour=hourly, why=why, since=since,
        gpus=len(free) * plan.type_spec(group.type).accelerators, earliest=earliest,
        usd=None if hourly is None or hours is None else hourly * hours,
        usd_at_most=None if hourly is None or most_hours is None else hourly * most_hours,
    )  # fmt: skip
