"""What an environment costs per hour before and after: groups, storage and what is always paid, out of the templates.

Prices are those of `hyperpod_ray/pricing/prices_usd.yaml`, the file that the cost command falls back to; what it lacks
stays unknown, and what it estimates is said to be an estimate.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING

from hyperpod_ray.review.assembly import EnvironmentAssembly
from hyperpod_ray.review.changes import Changes
from hyperpod_ray.review.effects import karpenter
from hyperpod_ray.review.errors import ReviewError
from hyperpod_ray.review.instance_groups import Group, count, groups, instance_type, instance_types, scaled
from hyperpod_ray.review.kubernetes import Cluster, ObjectName
from hyperpod_ray.review.references import Reader
from hyperpod_ray_rules import fsx, quantity

HOURS_PER_MONTH = 730
"""As `hyperpod_ray.pricing.prices` counts, which is imported only when something changes."""

if TYPE_CHECKING:
    from hyperpod_ray.pricing.prices import HourlyCharge, Prices
    from hyperpod_ray.pricing.prices import Line as PriceLine


@dataclass(frozen=True, kw_only=True)
class Line:
    """One thing that costs money, before and after; empty text stands for not there, None for a price nobody knows."""

    name: str
    before: str
    after: str
    before_usd: float | None
    after_usd: float | None
    as_of: date | None = None
    source: str = ""
    estimate: str = ""
    """What a price is taken from where it is not the price of exactly this (`as in us-east-1`)."""
    before_most: float | None = None
    """Dollars per hour at most, with what autoscaling may add; None where the price or the limit is unknown."""
    after_most: float | None = None

    @property
    def difference(self) -> float | None:
        """Dollars per hour more; None when a price is unknown."""
        if self.before_usd is None or self.after_usd is None:
            return None
        return self.after_usd - self.before_usd


@dataclass(frozen=True, kw_only=True)
class Money:
    """All lines that cost money."""

    lines: list[Line]
    region: str
    not_counted: list[str]
    budget: float | None = None
    """Dollars per month that the environment's budget has afterwards; None without one."""
    budget_before: float | None = None
    """The same before."""

    @property
    def per_month(self) -> float:
        """Dollars per month more than before, of what is known, without what autoscaling may add."""
        return (self.after - self.before) * HOURS_PER_MONTH

    @property
    def month_after(self) -> float:
        """Dollars per month afterwards, of what is known."""
        return self.after * HOURS_PER_MONTH

    @property
    def most_per_month(self) -> float | None:
        """Dollars per month more than before at most, with what autoscaling may add; None where nobody knows."""
        lines = [line for line in self.lines if line.before != line.after]
        if any(line.before_most is None or line.after_most is None for line in lines):
            return None
        return sum((line.after_most or 0.0) - (line.before_most or 0.0) for line in lines) * HOURS_PER_MONTH

    @property
    def above_budget(self) -> bool:
        """Whether it costs more than its budget afterwards."""
        return self.budget is not None and self.month_after > self.budget

    @property
    def newly_above_budget(self) -> bool:
        """Whether another budget is what it costs more than."""
        return self.above_budget and self.budget != self.budget_before

    @property
    def changed_unknown(self) -> list[str]:
        """Names of the lines that change and have no price on one side."""
        return [line.name for line in self.lines if line.before != line.after and line.name in self.unknown]

    @property
    def changed(self) -> bool:
        """Whether what is paid for changes at all."""
        return any(line.before != line.after for line in self.lines)

    @property
    def unknown(self) -> list[str]:
        """Names of the lines without a price."""
        return [line.name for line in self.lines if line.before_usd is None or line.after_usd is None]

    @property
    def before(self) -> float:
        """Sum of the lines whose prices are known on both sides."""
        return sum(line.before_usd or 0.0 for line in self.lines if line.name not in self.unknown)

    @property
    def after(self) -> float:
        """Likewise, afterwards."""
        return sum(line.after_usd or 0.0 for line in self.lines if line.name not in self.unknown)

    @property
    def estimated(self) -> list[Line]:
        """Lines whose price is an estimate; the sums that hold them are estimates too."""
        return [line for line in self.lines if line.estimate and line.name not in self.unknown]

    @property
    def dates(self) -> list[date]:
        """Days on which the prices used were read."""
        return sorted({line.as_of for line in self.lines if line.as_of})


def hourly(assembly: EnvironmentAssembly, day: date) -> str:
    """What an environment costs, in words: `~604.09 $ per hour`."""
    price_table = _known()
    items = _items(assembly, Cluster(assembly, Reader(assembly)), price_table, day)
    unknown = [name for name, price_line in items.items() if price_line.usd_per_hour is None]
    total = sum(price_line.usd_per_hour or 0.0 for price_line in items.values())
    mark = "~" if any(price_line.estimate for price_line in items.values()) else ""
    return f"{mark}{total:,.2f} $ per hour" + (f", without {', '.join(unknown)}" if unknown else "")


def of_new(head: EnvironmentAssembly, *, day: date) -> Money:
    """Cost of an environment that was not there before."""
    return _money({}, head, Cluster(head, Reader(head)), day)


def money(changes: Changes, *, day: date) -> Money:
    """Cost before and after, both at the prices of one day: what EKS asks depends on it."""
    before = _items(changes.base, changes.base_cluster, _known(), day)
    return replace(_money(before, changes.head, changes.head_cluster, day), budget_before=_budget(changes.base))


def _known() -> Prices:
    from hyperpod_ray.pricing import price_file  # only when something changes

    try:
        return price_file.recorded()
    except price_file.PriceFileError as error:
        raise ReviewError.together([str(error)]) from error


def _money(before: dict[str, PriceLine], head: EnvironmentAssembly, cluster: Cluster, day: date) -> Money:
    from hyperpod_ray.pricing import prices

    price_table = _known()
    after = _items(head, cluster, price_table, day)
    lines = []
    for name in {**before, **after}:
        line_before, line_after = before.get(name), after.get(name)
        price_line = line_after or line_before
        lines.append(
            Line(
                name=name,
                before=_words(line_before),
                after=_words(line_after),
                before_usd=line_before.usd_per_hour if line_before else 0.0,
                after_usd=line_after.usd_per_hour if line_after else 0.0,
                as_of=price_line.as_of if price_line else None,
                source=price_line.source if price_line else "",
                estimate=next((side.estimate for side in (line_after, line_before) if side and side.estimate), ""),
                before_most=line_before.most if line_before else 0.0,
                after_most=line_after.most if line_after else 0.0,
            )
        )
    region = _region(head)
    return Money(lines=lines, region=region, not_counted=prices.not_counted(price_table, region), budget=_budget(head))


def _budget(assembly: EnvironmentAssembly) -> float | None:
    """Dollars per month of the environment's budget."""
    for _, resource in assembly.of_type("AWS::Budgets::Budget"):
        budget = resource.get("Properties", {}).get("Budget") or {}
        amount = (budget.get("BudgetLimit") or {}).get("Amount")
        if isinstance(amount, int | float) and budget.get("TimeUnit") == "MONTHLY":
            return float(amount)
    return None


def _words(line: PriceLine | None) -> str:
    if line is None:
        return ""
    return f"{line.what}, {line.note}" if line.note else line.what


def _items(assembly: EnvironmentAssembly, cluster: Cluster, price_table: Prices, day: date) -> dict[str, PriceLine]:
    from hyperpod_ray.pricing import prices

    lines: dict[str, PriceLine] = {}
    region = _region(assembly)
    volumes = 0
    for _, resource in assembly.of_type("AWS::SageMaker::Cluster"):
        autoscaled = scaled(resource)
        for name, group in groups(resource).items():
            if name in autoscaled:
                node_type = instance_type(group)
                lines[f"group {name}"] = prices.autoscaled(
                    name=f"group {name}",
                    instance_type=node_type,
                    limit=karpenter.most_nodes(cluster, name, node_type),
                    price=price_table.instance(region, node_type),
                )
                continue
            plan = bool(group.get("TrainingPlanArn"))
            of_types = [price_table.instance(region, of_type) for of_type in instance_types(group)]
            nodes = prices.line(
                name=f"group {name}",
                description=f"{count(group)} × {instance_type(group)}",
                quantity=count(group),
                unit="hour",
                price=of_types[0] if of_types else None,
                paid=not plan,
                note="paid with the training plan" if plan else "",
            )
            lines[f"group {name}"] = prices.of_any_type(nodes, of_types)
            volumes += count(group) * _volume(group)
    if volumes:
        lines["volumes of nodes"] = prices.node_volumes(volumes, region, price_table)
    if gib := sum(_head_volumes(cluster)):
        lines["volume of the head"] = prices.head_volume(gib, region, price_table)
    for name, size, speed in _file_systems(assembly, cluster):
        lines[name] = prices.line(
            name=name,
            description=f"{size} GiB, {speed} MB/s per TiB",
            quantity=size,
            unit="GB-month",
            price=price_table.file_system(region, speed),
        )
    for name, description, size in _homes(assembly):
        lines[name] = prices.line(name=name, description=description, quantity=size, unit="GB-month", price=None)
    for name, description in _elastic(assembly):
        lines[name] = prices.line(name=name, description=description, quantity=1, unit="hour", price=None)
    for piece, number in Counter(_pieces(assembly, day)).items():
        name, description = prices.FIXED[piece]
        price = price_table.hourly(region, piece)
        lines[name] = prices.line(
            name=name, description=f"{number} × {description}", quantity=number, unit="hour", price=price
        )
    return lines


def _volume(group: Group) -> int:
    """GiB of a node's own EBS volumes."""
    configs = [config.get("EbsVolumeConfig") or {} for config in group.get("InstanceStorageConfigs") or []]
    return sum(int(config.get("VolumeSizeInGB") or 0) for config in configs)


def _file_systems(assembly: EnvironmentAssembly, cluster: Cluster) -> Iterator[tuple[str, int, int]]:
    """Name, GiB and MB/s per TiB of each file system: of the stacks, and of claims with a class."""
    for key, resource in assembly.of_type("AWS::FSx::FileSystem"):
        properties = resource.get("Properties", {})
        throughput = (properties.get("LustreConfiguration") or {}).get("PerUnitStorageThroughput")
        size = properties.get("StorageCapacity")
        if isinstance(size, int) and isinstance(throughput, int):
            yield f"file system {assembly.title(key)}", size, throughput
    for k8s_object in cluster.objects.values():
        made_by = cluster.objects.get(
            ObjectName("StorageClass", "", str(k8s_object.data.get("spec", {}).get("storageClassName")))
        )
        if k8s_object.id.kind != "PersistentVolumeClaim" or made_by is None:
            continue
        requested = _gib((k8s_object.data["spec"].get("resources") or {}).get("requests", {}).get("storage", ""))
        speed = str((made_by.data.get("parameters") or {}).get("perUnitStorageThroughput", ""))
        if requested and speed.isdigit():
            yield f"file system of claim {k8s_object.id.namespace}/{k8s_object.id.name}", requested, int(speed)


def _gib(size: object) -> int:
    """Whole GiB of a quantity of Kubernetes, rounded up as the CSI drivers do; 0 where it is none."""
    try:
        return math.ceil(quantity.number(size) / 2**30)
    except ValueError:
        return 0


def _head_volumes(cluster: Cluster) -> Iterator[int]:
    """GiB of each volume that keeps the state of a RayCluster's head."""
    for k8s_object in cluster.objects.values():
        options = k8s_object.data.get("spec", {}).get("gcsFaultToleranceOptions") or {}
        storage = options.get("storage") or {}
        if k8s_object.id.kind == "RayCluster" and options.get("backend") == "rocksdb" and not storage.get("claimName"):
            yield _gib(storage.get("size") or "1Gi")  # the operator's default


def _homes(assembly: EnvironmentAssembly) -> Iterator[tuple[str, str, int]]:
    """Name, description and GiB of each OpenZFS file system, whose prices no source here has."""
    for key, resource in assembly.of_type("AWS::FSx::FileSystem"):
        properties = resource.get("Properties", {})
        if (open_zfs := properties.get("OpenZFSConfiguration")) is not None:
            size = int(properties.get("StorageCapacity") or 0)
            speed = f"{open_zfs.get('ThroughputCapacity')} MB/s"
            yield (
                f"file system {assembly.title(key)}",
                f"{size} GiB and {speed}, {open_zfs.get('DeploymentType')}",
                size,
            )


def _elastic(assembly: EnvironmentAssembly) -> Iterator[tuple[str, str]]:
    """Name and description of each file system of Intelligent-Tiering, whose prices no source here has."""
    from hyperpod_ray.pricing.prices import elastic_words

    for key, resource in assembly.of_type("AWS::FSx::FileSystem"):
        lustre = resource.get("Properties", {}).get("LustreConfiguration") or {}
        if isinstance(mbs := lustre.get("ThroughputCapacity"), int):
            iops = (lustre.get("MetadataConfiguration") or {}).get("Iops") or 0
            words = elastic_words(mbs=mbs, cache_gib=fsx.read_cache_gib(lustre), iops=iops)
            yield f"file system {assembly.title(key)}", words


def _pieces(assembly: EnvironmentAssembly, day: date) -> Iterator[HourlyCharge]:
    from hyperpod_ray.pricing.prices import in_extended_support

    for _, resource in assembly.of_type("AWS::EKS::Cluster"):
        yield "eks_cluster"
        if in_extended_support(str(resource.get("Properties", {}).get("Version", "")), day=day):
            yield "eks_extended_support"
    for _ in assembly.of_type("AWS::EC2::NatGateway"):
        yield "nat_gateway"
    for _ in assembly.of_type("AWS::EC2::EIP"):
        yield "public_ipv4"
    for _, resource in assembly.of_type("AWS::EC2::VPCEndpoint"):
        properties = resource.get("Properties", {})
        if properties.get("VpcEndpointType") == "Interface":
            for _ in properties.get("SubnetIds", []):
                yield "interface_endpoint"


def _region(assembly: EnvironmentAssembly) -> str:
    return next((stack.region for stack in assembly.stacks.values()), "")
