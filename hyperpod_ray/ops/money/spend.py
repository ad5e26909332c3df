"""What an environment has cost so far this month, and which of its GPUs do nothing: prices times what is there. Pure.

This is arithmetic over list prices, not a bill: `bill.py` asks AWS for that. A node that was replaced and
is gone is not counted before its replacement's launch, so the sum is a lower bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from hyperpod_ray.core import names
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.ops.observe.snapshot import Instance, Snapshot
from hyperpod_ray.ops.runs.record import Record
from hyperpod_ray.pricing import prices
from hyperpod_ray.pricing.prices import HOURS_PER_MONTH, Prices

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


@dataclass(frozen=True, kw_only=True)
class Idle:
    """Accelerated nodes of a group that are ready, and on which no Ray worker runs."""

    group: str
    nodes: tuple[str, ...]
    gpus: int
    usd_per_hour: float | None


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
    """GPUs of nodes on which a Ray worker runs; None where Kubernetes did not answer."""
    incomplete: tuple[str, ...] = ()
    """Sources that did not answer: what they would have shown is not in the sums."""

    @property
    def unknown(self) -> tuple[str, ...]:
        """What has no known price: the sums leave it out."""
        return tuple(item.name for item in self.items if item.usd_per_hour is None)

    @property
    def usd_per_hour(self) -> float:
        """Of what is there now and has a price."""
        return sum(item.usd_per_hour or 0.0 for item in self.items)

    @property
    def usd(self) -> float:
        """Since the beginning of the month, of what has a price."""
        return sum(item.usd or 0.0 for item in self.items)

    @property
    def estimate(self) -> bool:
        """Whether a price in the sums is an estimate."""
        return any(item.estimate and item.usd_per_hour is not None for item in self.items)

    def usd_per_useful_gpu_hour(self, *, goodput: float | None = None) -> float | None:
        """Everything that is paid for an hour, by the GPUs that train in it.

        Args:
            goodput: Share of the time that ends up in finished work. Default: not counted.
        """
        if not self.busy_gpus or self.unknown:
            return None
        useful = self.busy_gpus * (1.0 if goodput is None else goodput)
        return self.usd_per_hour / useful if useful > 0 else None


def spend(plan: CommonPlan, seen: Snapshot, known: Prices) -> Spend:
    """What the environment's parts that a snapshot shows cost since the beginning of the month.

    Args:
        plan: The environment.
        seen: What is there.
        known: Prices; one that is missing stays unknown.
    """
    month = seen.at.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    there = [one for one in seen.instances if one.status not in PAID_FOR]
    gpus = sum(_gpus(plan, one) for one in there)
    idle = tuple(_idle(plan, seen, known))
    busy = sum(_gpus(plan, one) for one in there if names.node_name(one.id) in _working(seen))
    return Spend(
        since=month,
        at=seen.at,
        items=(*_nodes(plan, seen, known, there, month), *_volumes(plan, seen, known, there, month),
               *_storage(plan, seen, known, month), *_fixed(plan, seen, known, month)),
        idle=idle,
        gpus=gpus,
        busy_gpus=busy if _saw_work(seen) else None,
        incomplete=tuple(one for one in ("HyperPod", "FSx", "Kubernetes", "Slurm") if not seen.saw(one)),
    )  # fmt: skip


def run_usd_per_hour(plan: CommonPlan, known: Prices, *, ranks: int) -> float | None:
    """What the nodes of a run cost an hour: ranks take whole nodes of the workers' first group; None where unknown."""
    groups = [worker.instance_group for worker in plan.settings.ray.workers] if isinstance(plan, Plan) else []
    for name in groups:
        group = plan.group(name)
        each = plan.type_spec(group.type).accelerators or 1
        price = known.instance(plan.settings.region, group.type)
        if price is None or group.training_plan_arn:
            return None
        return -(-ranks // each) * price.usd
    return None


def run_usd(plan: CommonPlan, known: Prices, record: Record, *, now: float) -> float | None:
    """What a run's nodes have cost from its first step until its last one, or until now while it runs."""
    hourly = run_usd_per_hour(plan, known, ranks=record.world) if record.world else None
    if hourly is None or record.begin is None:
        return None
    end = record.steps[-1].t if record.ended else now
    return hourly * max(0.0, end - record.begin) / 3600


def _saw_work(seen: Snapshot) -> bool:
    """Whether Kubernetes or Slurm said what runs where."""
    return seen.slurm is not None if seen.orchestrator == "slurm" else seen.saw("Kubernetes")


def _gpus(plan: CommonPlan, instance: Instance) -> int:
    return plan.type_spec(instance.type).accelerators if plan.known(instance.type) else 0


def _working(seen: Snapshot) -> set[str]:
    """Nodes on which a Ray worker or a Slurm job runs, as Kubernetes names them."""
    if slurm := seen.slurm:
        at = ((one, slurm.of(one)) for one in seen.instances)
        return {names.node_name(one.id) for one, node in at if node and slurm.on(node.name)}
    return {pod.node for pod in seen.pods if pod.role == "worker" and pod.ready and not pod.deleting_since}


def _hours(since: datetime | None, month: datetime, at: datetime) -> float:
    return max(0.0, (at - max(since or month, month)).total_seconds() / 3600)


def _nodes(plan: CommonPlan, seen: Snapshot, known: Prices, there: list[Instance], month: datetime) -> Iterator[Item]:
    prepaid = {group.name for group in plan.groups if group.training_plan_arn}
    for group in dict.fromkeys(instance.group for instance in there):
        mine = [instance for instance in there if instance.group == group]
        if group in prepaid:
            continue
        for kind in dict.fromkeys(instance.type for instance in mine):
            pieces = [instance for instance in mine if instance.type == kind]
            price = known.instance(plan.settings.region, kind)
            hours = sum(_hours(instance.launched, month, seen.at) for instance in pieces)
            yield Item(
                name=group, what=f"{len(pieces)} × {kind}", hours=hours,
                usd_per_hour=price.usd * len(pieces) if price else None,
                usd=price.usd * hours if price else None, estimate=bool(price and price.estimate),
            )  # fmt: skip


def _volumes(plan: CommonPlan, seen: Snapshot, known: Prices, there: list[Instance], month: datetime) -> Iterator[Item]:
    sizes = {group.name: group.data_volume_gib or 0 for group in plan.groups}
    gigabytes = sum(sizes.get(instance.group, 0) for instance in there)
    if not gigabytes:
        return
    price = known.node_volume(plan.settings.region)
    each = price.usd / HOURS_PER_MONTH if price else None
    hours = sum(sizes.get(one.group, 0) * _hours(one.launched, month, seen.at) for one in there)
    yield Item(
        name="volumes of nodes", what=f"{gigabytes} GiB of EBS", hours=hours / gigabytes,
        usd_per_hour=None if each is None else each * gigabytes, usd=None if each is None else each * hours,
        estimate=bool(price and price.estimate),
    )  # fmt: skip


def _storage(plan: CommonPlan, seen: Snapshot, known: Prices, month: datetime) -> Iterator[Item]:
    new = plan.new_file_system
    if new is None:  # somebody pays for it already
        return
    price = known.file_system(plan.settings.region, new.throughput_mbs_per_tib)
    for one in seen.file_systems:
        hours = _hours(one.created, month, seen.at)
        hourly = price.usd * one.capacity_gib / HOURS_PER_MONTH if price else None
        yield Item(
            name=one.id, what=f"{one.capacity_gib} GiB, {new.throughput_mbs_per_tib} MB/s per TiB", hours=hours,
            usd_per_hour=hourly, usd=None if hourly is None else hourly * hours,
            estimate=bool(price and price.estimate),
        )  # fmt: skip


def _fixed(plan: CommonPlan, seen: Snapshot, known: Prices, month: datetime) -> Iterator[Item]:
    if seen.cluster is None:
        return
    hours = _hours(seen.cluster.created, month, seen.at)
    for what, count in prices.always_paid(plan, day=seen.at.date()):
        name, one = prices.FIXED[what]
        price = known.hourly(plan.settings.region, what)
        hourly = price.usd * count if price else None
        yield Item(
            name=name, what=f"{count} × {one}", hours=hours, usd_per_hour=hourly,
            usd=None if hourly is None else hourly * hours, estimate=bool(price and price.estimate),
        )  # fmt: skip


def _idle(plan: CommonPlan, seen: Snapshot, known: Prices) -> Iterator[Idle]:
    """Ready accelerated nodes without work; nothing where Kubernetes or Slurm did not say what runs where."""
    if not _saw_work(seen) or not (seen.saw_nodes or seen.slurm):
        return
    ready = {node.name for node in seen.nodes if node.ready}
    if slurm := seen.slurm:
        at = ((one, slurm.of(one)) for one in seen.instances)
        ready = {names.node_name(one.id) for one, node in at if node and node.usable}
    working = _working(seen)
    for group in plan.groups:
        if not plan.accelerated(group):
            continue
        free = [
            one
            for one in seen.instances
            if one.group == group.name
            and one.status == "Running"
            and names.node_name(one.id) in ready
            and names.node_name(one.id) not in working
        ]
        if free:
            price = known.instance(plan.settings.region, group.type)
            yield Idle(
                group=group.name,
                nodes=tuple(one.id for one in free),
                gpus=len(free) * plan.type_spec(group.type).accelerators,
                usd_per_hour=price.usd * len(free) if price and not group.training_plan_arn else None,
            )
