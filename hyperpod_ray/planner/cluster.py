"""What of an environment counts for a plan: nodes that train, nodes that stand by, the file system and the prices."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TypeVar

from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.model import ElasticStorage, NewFileSystem, NodeGroup, StaticStorage
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.slurm_plan import SlurmPlan
from hyperpod_ray.planner import PlanError, data, reading, spares, storage
from hyperpod_ray.planner.checked_nodes import Checked
from hyperpod_ray.planner.data import Gpu
from hyperpod_ray.planner.failures import Rates
from hyperpod_ray.planner.ranges import Range
from hyperpod_ray.planner.storage import FileSystem, SsdFileSystem
from hyperpod_ray.pricing.prices import Cost, Prices, cost
from hyperpod_ray_rules import fsx

Planned = TypeVar("Planned", bound=CommonPlan)


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The part of an environment that trains."""

    environment: str
    region: str
    instance_type: str
    gpu: str
    per_node: int
    network_gbps: float
    nodes: int
    """Nodes that train."""
    spares: int
    """Nodes of the same groups that no worker uses."""
    world: int
    """GPUs that train."""
    standing_by: int
    """Processes of `ray.training_spares`, each on a GPU of those."""
    per_pod: int
    """GPUs of one worker pod; the largest."""
    pod_memory_gib: int
    """Host memory of a worker pod; the smallest."""
    file_system: FileSystem | None
    """None where the environment names an existing one, whose size is not in the file."""
    deep_checks: bool
    pulled_early: bool
    """Nodes get the image while they are checked."""
    lost_after: float
    """Seconds of `ray.node_loss_seconds`."""
    on_plan: bool
    """Paid with a training plan, whose price is not public."""
    spot: bool
    efa_client: bool = True
    """Whether Lustre can use EFA on its nodes."""
    scaled: bool = False
    """Whether managed Karpenter adds its nodes when a run asks for them."""
    promised: float = 0.0
    """Instances of its type that quotas of teams take beside the run that is planned."""
    team: str = ""
    """The team whose quota trains; empty: the standing RayCluster."""
    checked: Checked | None = None
    """The last test of the nodes."""

    @property
    def figures(self) -> Gpu:
        """Figures of the accelerator."""
        return data.gpus()[self.gpu]

    @property
    def name(self) -> str:
        """`8 × ml.p5.48xlarge`."""
        spare = f" and {self.spares} spare" if self.spares else ""
        return f"{self.nodes} × {self.instance_type}{spare}"

    @property
    def measured_gbps(self) -> float | None:
        """What `nodes check` measured between nodes of this type with GPUs; None where it did not."""
        checked = self.checked
        if checked is None or not checked.on_gpus or checked.all_reduce_gb_s is None:
            return None
        return 8 * checked.all_reduce_gb_s if checked.instance_type == self.instance_type else None

    @property
    def fabric_gbps(self) -> float:
        """Gb/s of one node: as measured, at most what the type has; else the type's."""
        return min(self.measured_gbps or self.network_gbps, self.network_gbps)

    def with_checked(self, checked: Checked | None) -> Cluster:
        """The same cluster with a test of its nodes."""
        return replace(self, checked=checked)

    def with_storage(self, system: FileSystem) -> Cluster:
        """The same cluster with another file system."""
        return replace(self, file_system=system)

    @property
    def repair(self) -> tuple[Range, str]:
        """Seconds until a lost node is replaced, with what they are made of."""
        spans = data.node_durations()
        parts = [("replacement", spans["made"])]
        parts.append(
            ("deep health checks", spans["deep_checks"]) if self.deep_checks else ("image", spans["image_pull"])
        )
        total = Range(*(sum(values) for values in zip(*(span for _, (span, _) in parts), strict=True)))
        return total, "; ".join(f"{part_name}: {source}" for part_name, (_, source) in parts)

    def spare_pays_from(self, rates: Rates) -> Range:
        """Number of nodes from which on the first spare pays, with its span over the rates of interruptions."""
        limits = [
            spares.pays_from(rate_per_node=rate, repair=self.repair[0].central)
            for rate in rates.per_second(nodes=1, gpus_per_node=self.per_node)
        ]
        return Range(min(limits), limits[1], max(limits))


def with_storage(plan: Planned, system: FileSystem) -> Planned:
    """The environment with another new file system; an existing one stays, and its price is nobody's here."""
    current = plan.new_file_system
    if current is None:
        return plan
    changed: NewFileSystem
    if isinstance(system, SsdFileSystem):
        size = {"capacity_gib": system.capacity_gib, "throughput_mbs_per_tib": system.throughput_mbs_per_tib}
        changed = (current if plan.ssd_file_system else StaticStorage.defaults()).model_copy(update=size)
    else:
        elastic = plan.elastic_file_system or ElasticStorage(mode="intelligent_tiering")
        changed = elastic.model_copy(update={"throughput_mbs": system.mbs})
    return replace(plan, settings=plan.settings.model_copy(update={"storage": changed}))


def cluster(plan: CommonPlan, *, team: str = "") -> Cluster:
    """The training part of an environment.

    Args:
        plan: The environment.
        team: Plan a run in the quota of this team. Default: the workers of the standing RayCluster.

    Raises:
        PlanError: it has no GPU workers, several kinds of them, or a kind without figures; or no such team.
    """
    teams = [known.name for known in plan.teams]
    if team and team not in teams:
        raise PlanError(
            f"--team: {team[:60]}",
            expected=f"one of {', '.join(teams)}" if teams else f"a team in {plan.name}, which has none",
            fix="name a team of the section teams" if teams else "remove --team",
        )
    part = _part(plan, team)
    groups = part.groups
    kinds = sorted({name for group in groups for name in group.types})
    if len(kinds) > 1:
        raise PlanError(
            f"{plan.name}: workers on {' and '.join(kinds)}",
            expected="one type: one training run is planned on one",
            fix="plan them one by one, in files of their own",
        )
    instance_type = kinds[0]
    node = data.node_types().get(instance_type)
    if node is None:
        raise PlanError(
            f"{instance_type}: memory and rate of its accelerators are not on file",
            expected=f"one of {', '.join(data.node_types())}",
            fix="measure on the type itself: this planner does not guess",
        )
    if plan.settings.hyperpod.node_recovery == "None":
        raise PlanError(
            f"{plan.name}: node_recovery None: nobody replaces a lost node",
            expected="a way to get nodes back: no public figure says when you do it",
            fix="plan with node_recovery: Automatic",
        )
    per_node = plan.type_spec(instance_type).accelerators
    if not part.world:
        names = [team.name for team in plan.teams]
        raise PlanError(
            f"{plan.name}: ray.workers has 0 replicas",
            expected="1 or more, or a team" if names else "1 or more",
            fix=f"give --team {names[0]}" if names else "set replicas to the size of the training run",
        )
    nodes = math.ceil(part.world / per_node)
    promised = _promised(plan, instance_type, beside=team)
    counted = [group for group in groups if group not in plan.scaled_groups]
    checks = all(plan.deep_health_checks(group) for group in groups)
    return Cluster(
        environment=plan.name,
        region=plan.settings.region,
        instance_type=instance_type,
        gpu=node.gpu,
        per_node=per_node,
        network_gbps=node.network_gbps,
        nodes=nodes,
        spares=max(0, math.floor(sum(group.count for group in counted) - nodes - promised)) if counted else 0,
        world=part.world,
        standing_by=part.standing_by,
        per_pod=part.per_pod,
        pod_memory_gib=part.memory_gib,
        file_system=storage.of(plan),
        deep_checks=checks,
        pulled_early=checks,
        lost_after=part.lost_after,
        on_plan=bool(groups[0].training_plan_arn),
        spot=any(group.capacity == "spot" for group in groups),
        efa_client=fsx.efa_interfaces(instance_type, efa=plan.type_spec(instance_type).efa) > 0,
        scaled=not counted,
        promised=promised,
        team=team,
    )


@functools.singledispatch
def _promised(plan: CommonPlan, instance_type: str, *, beside: str) -> float:
    """Instances of a type that quotas take beside one run: each team is sure of its own, and they are no spares.

    Beside a team's run that is what the other teams and the standing RayCluster's workers have.
    """
    return 0.0


@_promised.register
def _promised_on_eks(plan: Plan, instance_type: str, *, beside: str) -> float:
    if not plan.settings.teams:
        return 0.0
    from hyperpod_ray.core.checks.teams import quotas, share

    total = sum(
        share(plan, quota).instances
        for _, team, _, quota in quotas(plan)
        if quota.type == instance_type and team.name != beside
    )
    if beside:
        gpus = plan.type_spec(instance_type).accelerators
        workers = (
            worker for worker in plan.settings.ray.workers if plan.group(worker.instance_group).type == instance_type
        )
        total += sum(worker.replicas * plan.worker_resources(worker).gpus / gpus for worker in workers)
    return total


@dataclass(frozen=True, kw_only=True)
class _Part:
    """What trains, as an orchestrator's settings say it."""

    groups: Sequence[NodeGroup]
    world: int
    standing_by: int
    per_pod: int
    memory_gib: int
    lost_after: float


@functools.singledispatch
def _part(plan: CommonPlan, team: str) -> _Part:
    """What trains in an environment, or in the quota of a team: each orchestrator's kind of plan registers its own."""
    raise NotImplementedError


@_part.register
def _on_eks(plan: Plan, team: str) -> _Part:
    return _of_team(plan, team) if team else _of_workers(plan)


def _of_workers(plan: Plan) -> _Part:
    ray = plan.settings.ray
    workers = [worker for worker in ray.workers if plan.worker_resources(worker).gpus]
    if not workers:
        raise PlanError(
            f"{plan.name} trains on no GPU", expected="a group of ray.workers with one", fix="add a GPU worker group"
        )
    # with autoscaling, a run that asks for all of them gets all
    replicas = {
        worker.name: (worker.max_replicas or worker.replicas) if ray.autoscaling else worker.replicas
        for worker in workers
    }
    resources = [plan.worker_resources(worker) for worker in workers]
    return _Part(
        groups=list({worker.instance_group: plan.group(worker.instance_group) for worker in workers}.values()),
        world=sum(replicas[worker.name] * plan.worker_resources(worker).gpus for worker in workers),
        standing_by=ray.training_spares,
        per_pod=max(resource.gpus for resource in resources),
        memory_gib=min(resource.memory_gib for resource in resources),
        lost_after=float(ray.node_loss_seconds),
    )


def _of_team(plan: Plan, name: str) -> _Part:
    """The accelerated part of a team's quota: what the team is sure of, without what it can borrow."""
    team = next(team for team in plan.settings.teams if team.name == name)
    quota = [type_quota for type_quota in team.quota if plan.type_spec(type_quota.type).accelerators]
    groups = [group for group in plan.settings.hyperpod.instance_groups if group.type in {e.type for e in quota}]
    if not quota or not groups:
        raise PlanError(
            f"--team {name}: no GPU in its quota", expected="a type with GPUs, which a group has", fix="add one to it"
        )
    world = 0
    for type_quota in quota:
        per_node = plan.type_spec(type_quota.type).accelerators
        world += type_quota.instances * per_node if type_quota.instances is not None else type_quota.accelerators or 0
    ray = plan.settings.ray
    workers = [worker for worker in ray.workers if plan.worker_resources(worker).gpus]
    resources = [plan.worker_resources(worker) for worker in workers]
    spec = plan.type_spec(quota[0].type)
    return _Part(
        groups=groups,
        world=world,
        standing_by=min(ray.training_spares, max(0, world - 1)),
        per_pod=max((pod.gpus for pod in resources), default=spec.accelerators),
        memory_gib=min((pod.memory_gib for pod in resources), default=int(spec.memory_gib)),
        lost_after=float(ray.node_loss_seconds),
    )


SLURMD_TIMEOUT = 300.0
"""Slurm's default of `SlurmdTimeout`: seconds until a silent node is down. https://slurm.schedmd.com/slurm.conf.html"""


@_part.register
def _on_slurm(plan: SlurmPlan, team: str) -> _Part:
    """Every accelerated compute group at full count: a job takes whole nodes, and `sbatch --nodes` says how many."""
    groups = [group for group in plan.compute if plan.accelerated(group)]
    if not groups:
        raise PlanError(
            f"{plan.name} trains on no GPU", expected="a compute group with GPUs", fix="add a GPU group of role compute"
        )
    specs = [plan.type_spec(group.type) for group in groups]
    return _Part(
        groups=groups,
        world=sum(spec.accelerators * group.count for spec, group in zip(specs, groups, strict=True)),
        standing_by=0,
        per_pod=max(spec.accelerators for spec in specs),
        memory_gib=min(int(spec.memory_gib) for spec in specs),
        lost_after=SLURMD_TIMEOUT,
    )


@dataclass(frozen=True, kw_only=True)
class Bill:
    """Dollars per hour of an environment."""

    node: float | None
    """One training node; None where its price is not known."""
    rest: float
    """Everything else whose price is known."""
    unknown: tuple[str, ...]
    """Lines without a price."""
    estimated: bool
    source: str
    training: tuple[str, ...] = ()
    """Groups of training nodes: lines of theirs."""

    def at_node_price(self, usd: float) -> Bill:
        """The bill with the price of a training node that the user knows.

        Raises:
            PlanError: it is no price.
        """
        fix = "give dollars of one node and hour: the price of a training plan ÷ its nodes ÷ its hours"
        price = reading.number(usd, name="--node-price", low=0.01, high=10_000, fix=fix)
        still_unknown = tuple(name for name in self.unknown if name not in self.training)
        source = f"{price:,.6g} $ a training node and hour, as given; the rest: {self.source}"
        return replace(self, node=price, unknown=still_unknown, source=source)

    def per_hour(self, *, nodes: int) -> float | None:
        """Of the environment with so many training nodes."""
        return None if self.node is None else self.node * nodes + self.rest


LARGEST_GIB = 1_000_000
"""FSx creates larger file systems on request; the planner prices none."""


def file_systems(
    plan: CommonPlan, prices: Prices, *, day: date, gib: float, part: Cluster | None = None
) -> list[tuple[FileSystem, Bill]]:
    """The smallest new file system on SSD of each throughput that holds so much, with the environment's bill with it.

    EFA-enabled ones are among them where Lustre can use EFA on the nodes. Empty where the environment creates none, or
    one without a size, whose price is not known, and where none is so large.
    """
    if plan.ssd_file_system is None or gib > LARGEST_GIB:
        return []
    part = part or cluster(plan)
    priced: list[tuple[FileSystem, Bill]] = []
    for efa in (False, True) if part.efa_client else (False,):
        for tier in fsx.PER_TIB["PERSISTENT_2"]:
            step = fsx.EFA_STEP[tier] if efa else 2400
            size = 1200 if gib <= 1200 and not efa else max(1, math.ceil(gib / step)) * step
            system = SsdFileSystem(capacity_gib=size, throughput_mbs_per_tib=tier, efa=efa)
            priced.append((system, bill(with_storage(plan, system), prices, day=day, part=part)))
    return priced


def bill(plan: CommonPlan, prices: Prices, *, day: date, part: Cluster | None = None) -> Bill:
    """What an environment costs per hour."""
    instance_type = (part or cluster(plan)).instance_type
    priced: Cost = cost(plan, prices, day=day)
    group_names = {group.name for group in plan.groups if group.type == instance_type}
    lines = [line for line in priced.lines if line.name in group_names]
    all_priced = all(line.usd_per_hour is not None for line in lines)
    price = lines[0].usd_per_unit if all_priced else None
    unknown = tuple(line.name for line in priced.unknown)
    rest = sum(line.usd_per_hour or 0.0 for line in priced.lines if line.name not in group_names)
    estimate = any(line.estimate for line in priced.estimated)
    dates = sorted({str(line.as_of) for line in priced.lines if line.as_of})
    words = f"on-demand in {plan.settings.region}, prices read {dates[0]} to {dates[-1]}" if dates else "no price known"
    if estimate:
        words += f"; an estimate: {next(line.estimate for line in priced.estimated)}"
    return Bill(
        node=price, rest=rest, unknown=unknown, estimated=estimate, source=words, training=tuple(sorted(group_names))
    )  # fmt: skip
