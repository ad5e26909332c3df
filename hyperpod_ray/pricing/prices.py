"""What an environment costs: pure arithmetic over prices that are given, dated and sourced; an unknown one stays so.

Prices come from the AWS Price List (`hyperpod_ray.pricing.price_list`) or from a file
(`hyperpod_ray.pricing.price_file`); this module asks nobody. A price is of the exact thing, or it is an estimate and
says of what.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from hyperpod_ray.core import needs
from hyperpod_ray.core.amounts import dollars
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.requests import read_cache_gib
from hyperpod_ray.core.service_limits import platform
from hyperpod_ray.pricing import ec2

HOURS_PER_MONTH = 730
"""As AWS's own calculator counts."""
ANYWHERE = "any"
"""In place of a region: a price that AWS asks in every one."""

Unit = Literal["hour", "GB-month"]
HourlyCharge = Literal["eks_cluster", "eks_extended_support", "nat_gateway", "public_ipv4", "interface_endpoint"]
"""What is paid for by the hour whether it is used or not."""
Usage = Literal[
    "ebs_gp3", "nat_data", "endpoint_data", "cross_zone", "log_ingestion", "alarm", "kms_key", "ecr_storage",
    "build_minute",
]  # fmt: skip
"""What is paid for by the month or by use; `Prices.usage` has the units."""
Key = TypeVar("Key", bound=str | int)

FIXED: Mapping[HourlyCharge, tuple[str, str]] = {
    "eks_cluster": ("EKS control plane", "cluster"),
    "eks_extended_support": ("EKS extended support", "cluster past standard support"),
    "nat_gateway": ("NAT gateways", "NAT gateway"),
    "public_ipv4": ("addresses of NAT gateways", "public IPv4 address"),
    "interface_endpoint": ("interface endpoints", "endpoint in one zone"),
}
"""Name of the line, and what one is."""
BY_USE: tuple[tuple[str, Usage | None, str], ...] = (
    ("data through NAT gateways", "nat_data", "per GB"),
    ("data through endpoints", "endpoint_data", "per GB"),
    ("traffic between zones", "cross_zone", "per GB and direction"),
    ("log events written to CloudWatch", "log_ingestion", "per GB"),
    ("alarms", "alarm", "a month each"),
    ("KMS keys", "kms_key", "a month each"),
    ("container images in ECR", "ecr_storage", "per GB and month"),
    ("image builds by CodeBuild", "build_minute", "per minute"),
    ("backups", None, ""),
    ("taxes, savings plans and discounts", None, ""),
)
"""What depends on use: what it is, its price, of how much."""

ELASTIC_BY_USE = "data stored on the file system by its access tier, and reads and writes of the tier"
"""What an environment with FSx Intelligent-Tiering pays by use, on top. No source here has the prices."""


class Price(BaseModel):
    """One price, with its origin."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    usd: Annotated[float, Field(gt=0)]
    """US dollars per unit."""
    as_of: date
    """The day for which it was read."""
    source: Annotated[str, Field(min_length=1)]
    """Where from."""
    estimate: str = ""
    """Empty: the price of exactly this. Otherwise what it is taken from (`as in us-east-1`), shown wherever it is."""


class RegionFallback(BaseModel):
    """Another region whose prices stand in, as estimates, for those that are not known."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    region: str
    """The other region."""
    why: Annotated[str, Field(min_length=1)]
    """What speaks for it."""


class Prices(BaseModel):
    """Known prices by region."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    instances: dict[str, dict[str, Price]] = {}
    """Region, then instance type: per instance-hour of HyperPod ("cluster usage"), on-demand."""
    storage: dict[str, dict[int, Price]] = {}
    """Region, then MB/s per TiB: FSx for Lustre PERSISTENT_2 SSD, per GB-month."""
    fixed: dict[str, dict[HourlyCharge, Price]] = {}
    """Region (or `any`), then what: per hour."""
    usage: dict[str, dict[Usage, Price]] = {}
    """Region (or `any`), then what: per GB, GB-month, minute, or piece and month."""
    alike: dict[str, RegionFallback] = {}
    """Region, then the one it is estimated from. One step only: an estimate never stands in for another price."""

    def instance(self, region: str, instance_type: str) -> Price | None:
        """Per hour; None where unknown.

        Where a Region has no price of its own: that of us-east-1 times the ratio of EC2's prices, as an estimate.
        """
        listed = self._find(self.instances, region, instance_type)
        home = self.instances.get(ec2.HOME, {}).get(instance_type)
        ratio = ec2.ratio(region, instance_type) if listed is None and home is not None else None
        if home is None or ratio is None or home.estimate:
            return listed
        return home.model_copy(
            update={
                "usd": round(home.usd * ratio, 4),
                "estimate": f"{ratio:.3g} times {ec2.HOME}, as EC2 asks",
                "source": f"{home.source}; hyperpod_ray/pricing/ec2_by_region.yaml",
            }
        )

    def file_system(self, region: str, throughput_mbs_per_tib: int) -> Price | None:
        """Per GB-month; None where unknown."""
        return self._find(self.storage, region, throughput_mbs_per_tib)

    def hourly(self, region: str, charge: HourlyCharge) -> Price | None:
        """Of what is always paid, per hour and piece; None where unknown."""
        return self._find(self.fixed, region, charge)

    def used(self, region: str, usage: Usage) -> Price | None:
        """Of what is paid for by the month or by use; None where unknown."""
        return self._find(self.usage, region, usage)

    def node_volume(self, region: str) -> Price | None:
        """Of a node's EBS volume per GB-month: an estimate, as HyperPod bills usage types of its own for it."""
        price = self.used(region, "ebs_gp3")
        if price is None:
            return None
        return price.model_copy(update={"estimate": f"as EBS gp3{' ' + price.estimate if price.estimate else ''}"})

    def _find(self, section: Mapping[str, Mapping[Key, Price]], region: str, key: Key) -> Price | None:
        price = section.get(region, {}).get(key) or section.get(ANYWHERE, {}).get(key)
        alike = self.alike.get(region)
        if price or alike is None:
            return price
        similar = section.get(alike.region, {}).get(key)
        if similar is None or similar.estimate:
            return None
        return similar.model_copy(
            update={"estimate": f"as in {alike.region}", "source": f"{similar.source}; {alike.why}"}
        )

    def dearest_instance(self, instance_type: str) -> Price | None:
        """The highest price of a type in any Region: what stands for an unknown one where its share is estimated."""
        return _dearest(self.instances, instance_type)

    def dearest_file_system(self, throughput_mbs_per_tib: int) -> Price | None:
        """Likewise of a file system."""
        return _dearest(self.storage, throughput_mbs_per_tib)

    def dearest_hourly(self, charge: HourlyCharge) -> Price | None:
        """Likewise of what is always paid."""
        return _dearest(self.fixed, charge)

    def dearest_node_volume(self) -> Price | None:
        """Likewise of a node's volume."""
        return _dearest(self.usage, "ebs_gp3")

    def entries(self) -> Iterator[tuple[str, str, str, Price]]:
        """Section, region, what it is the price of, and the price."""
        for region, types in self.instances.items():
            yield from (("instances", region, key, price) for key, price in types.items())
        for region, throughputs in self.storage.items():
            yield from (("storage", region, str(key), price) for key, price in throughputs.items())
        for region, pieces in self.fixed.items():
            yield from (("fixed", region, key, price) for key, price in pieces.items())
        for region, uses in self.usage.items():
            yield from (("usage", region, key, price) for key, price in uses.items())

    def over(self, fallback: Prices) -> Prices:
        """These prices, and the other's where these have none."""
        return Prices(
            instances=_merged(self.instances, fallback.instances),
            storage=_merged(self.storage, fallback.storage),
            fixed=_merged(self.fixed, fallback.fixed),
            usage=_merged(self.usage, fallback.usage),
            alike={**fallback.alike, **self.alike},
        )


def _dearest(section: Mapping[str, Mapping[Key, Price]], key: Key) -> Price | None:
    known = [by_key[key] for by_key in section.values() if key in by_key]
    return max(known, key=lambda price: price.usd, default=None)


def _merged(
    primary: Mapping[str, dict[Key, Price]], second: Mapping[str, dict[Key, Price]]
) -> dict[str, dict[Key, Price]]:
    return {region: {**second.get(region, {}), **primary.get(region, {})} for region in {**second, **primary}}


@dataclass(frozen=True, kw_only=True)
class Line:
    """One thing that costs money."""

    name: str
    what: str
    quantity: float
    unit: Unit
    usd_per_unit: float | None = None
    usd_per_hour: float | None = None
    """None where the price is unknown."""
    usd_per_month: float | None = None
    as_of: date | None = None
    source: str = ""
    estimate: str = ""
    """What the price is taken from where it is not the price of exactly this; see `Price.estimate`."""
    note: str = ""
    most_usd_per_hour: float | None = None
    """What it costs at most, with the nodes that autoscaling adds or of the dearest type. None: `usd_per_hour`."""
    unbounded: bool = False
    """Whether autoscaling has no limit: then nobody knows what it costs at most."""
    elsewhere_usd_per_hour: float | None = None
    """Of a line without a price: what it costs in the dearest Region with one. In no sum."""

    @property
    def most(self) -> float | None:
        """Dollars per hour at most; None where the price or the limit is unknown."""
        if self.unbounded or self.usd_per_hour is None:
            return None
        return self.usd_per_hour if self.most_usd_per_hour is None else self.most_usd_per_hour


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The sum of what is known, and what is not."""

    lines: list[Line]
    not_counted: list[str] = field(default_factory=list)

    @property
    def unknown(self) -> list[Line]:
        """Lines without a price: the sums leave them out."""
        return [line for line in self.lines if line.usd_per_hour is None]

    @property
    def unpriced_share(self) -> str:
        """How much of the whole the lines without a price are, in words; empty where each has one."""
        # a training plan is paid for once, whatever its type costs by the hour
        missing = [line.elsewhere_usd_per_hour for line in self.unknown if line.usd_per_unit is None]
        return unpriced_share(missing, self.usd_per_hour) if missing else ""

    @property
    def estimated(self) -> list[Line]:
        """Lines whose price is an estimate: the sums hold them, and are estimates too."""
        return [line for line in self.lines if line.estimate and line.usd_per_hour is not None]

    @property
    def usd_per_hour(self) -> float:
        """Of what is known."""
        return sum(line.usd_per_hour or 0.0 for line in self.lines)

    @property
    def usd_per_month(self) -> float:
        """Of what is known."""
        return sum(line.usd_per_month or 0.0 for line in self.lines)

    @property
    def most_usd_per_hour(self) -> float:
        """Of what is known, with every node that autoscaling may add."""
        return sum(line.most or line.usd_per_hour or 0.0 for line in self.lines)

    @property
    def unbounded(self) -> list[Line]:
        """Lines that autoscaling may make as long as quota and capacity allow."""
        return [line for line in self.lines if line.unbounded]


def cost(plan: CommonPlan, prices: Prices, *, day: date) -> Cost:
    """Cost at full count on a day: instance groups, the shared file system, and what is always paid."""
    region = plan.settings.region
    lines = []
    for group in plan.groups:
        if group in plan.scaled_groups:
            price = prices.instance(region, group.type)
            lines.append(
                autoscaled(name=group.name, instance_type=group.type, limit=plan.most_nodes(group), price=price)
            )
            continue
        note = "paid with the training plan, not by the hour" if group.training_plan_arn else ""
        nodes = line(
            name=group.name,
            description=f"{group.count} × {' or '.join(group.types)}",
            quantity=group.count,
            unit="hour",
            price=prices.instance(region, group.type),
            dearest=prices.dearest_instance(group.type),
            paid=not group.training_plan_arn,
            note=note or ("spot costs less than this on-demand price" if group.capacity == "spot" else ""),
        )
        lines.append(of_any_type(nodes, [prices.instance(region, name) for name in group.types]))
    volumes = sum((group.data_volume_gib or 0) * group.count for group in plan.groups)
    if volumes:
        lines.append(node_volumes(volumes, region, prices))
    if plan.head_volume_gib is not None:
        lines.append(head_volume(plan.head_volume_gib, region, prices))
    lines += _shared_storage(plan, prices)
    homes = plan.new_homes
    if homes is not None:
        # storage and throughput of OpenZFS have prices of their own, and no source here has them
        description = f"{homes.capacity_gib} GiB and {homes.throughput_mbs} MB/s, {homes.deployment_type}"
        lines.append(
            line(name="home folders", description=description, quantity=homes.capacity_gib, unit="GB-month", price=None)
        )
    for charge, count in always_paid(plan, day=day):
        name, unit = FIXED[charge]
        lines.append(
            line(
                name=name,
                description=f"{count} × {unit}",
                quantity=count,
                unit="hour",
                price=prices.hourly(region, charge),
                dearest=prices.dearest_hourly(charge),
            )
        )
    metrics = ["samples in Amazon Managed Service for Prometheus"] if _observed(plan) else []
    stored = [ELASTIC_BY_USE] if plan.elastic_file_system is not None else []
    return Cost(lines=lines, not_counted=[*not_counted(prices, region), *metrics, *stored])


def _shared_storage(plan: CommonPlan, prices: Prices) -> list[Line]:
    """The line of the shared file system, where one is created."""
    storage, elastic = plan.ssd_file_system, plan.elastic_file_system
    if elastic is not None:
        # throughput, read cache, IOPS and what is stored have a price each, and no source here has them
        words = elastic_words(mbs=elastic.throughput_mbs, cache_gib=read_cache_gib(plan), iops=elastic.metadata_iops)
        return [line(name="storage", description=words, quantity=1, unit="hour", price=None)]
    if storage is None:
        return []
    return [
        line(
            name="storage",
            description=f"{storage.capacity_gib} GiB, {storage.throughput_mbs_per_tib} MB/s per TiB",
            quantity=storage.capacity_gib,  # FSx sells by the decimal-looking GB that its console calls GiB
            unit="GB-month",
            price=prices.file_system(plan.settings.region, storage.throughput_mbs_per_tib),
            dearest=prices.dearest_file_system(storage.throughput_mbs_per_tib),
        )
    ]


def elastic_words(*, mbs: int, cache_gib: int, iops: int) -> str:
    """What is always paid of a file system of Intelligent-Tiering; what is stored comes on top."""
    return f"Intelligent-Tiering, {mbs} MB/s, read cache {cache_gib} GiB, {iops} metadata IOPS, and what is stored"


def _observed(plan: CommonPlan) -> bool:
    return plan.observability is not None


def autoscaled(*, name: str, instance_type: str, limit: int | None, price: Price | None) -> Line:
    """The line of a group that managed Karpenter scales: from nothing to its limit.

    Args:
        name: What the report calls it.
        instance_type: Of its nodes.
        limit: Nodes at its limit; 0 or None where it has no limit.
        price: Of one node; None where unknown.
    """
    per_node = f"{price.usd:,.2f} $ per node and hour" if price else "price unknown"
    usd = None if price is None else 0.0
    return Line(
        name=name,
        what=f"0 to {limit} × {instance_type}" if limit else f"0 × {instance_type} and more",
        quantity=0,
        unit="hour",
        usd_per_unit=price.usd if price else None,
        usd_per_hour=usd,
        usd_per_month=usd,
        as_of=price.as_of if price else None,
        source=price.source if price else "",
        estimate=price.estimate if price else "",
        note=f"autoscaled: {per_node}" + ("" if limit else ", without a limit"),
        most_usd_per_hour=price.usd * limit if price and limit else None,
        unbounded=not limit,
        elsewhere_usd_per_hour=None if price else 0.0,  # the sum is without autoscaling
    )


def of_any_type(nodes: Line, each: Sequence[Price | None]) -> Line:
    """The line of a group whose nodes may be of several types: the first one's price, and the dearest one's at most.

    Args:
        nodes: Line of the group with the first type.
        each: Prices of its types; None where unknown.
    """
    if len(each) < 2 or nodes.usd_per_hour is None:
        return nodes
    unknown = sum(price is None for price in each)
    most = max(price.usd for price in each if price) * nodes.quantity
    note = f"of the first type; at most {most:,.2f} $ an hour" + (f", {unknown} without a price" if unknown else "")
    return replace(
        nodes, most_usd_per_hour=max(most, nodes.usd_per_hour), note="; ".join(filter(None, [nodes.note, note]))
    )


def node_volumes(gigabytes: int, region: str, prices: Prices) -> Line:
    """The line of the nodes' EBS volumes."""
    return line(
        name="volumes of nodes",
        description=f"{gigabytes} GiB of EBS",
        quantity=gigabytes,
        unit="GB-month",
        price=prices.node_volume(region),
        dearest=prices.dearest_node_volume(),
    )


def head_volume(gigabytes: int, region: str, prices: Prices) -> Line:
    """The line of the EBS volume that keeps the Ray head's state; it is billed as EBS, not by HyperPod."""
    return line(
        name="volume of the head",
        description=f"{gigabytes} GiB of EBS gp3",
        quantity=gigabytes,
        unit="GB-month",
        price=prices.used(region, "ebs_gp3"),
        dearest=prices.dearest_node_volume(),
    )


def unpriced_gpus(plan: CommonPlan, names: Collection[str]) -> str:
    """How much of a sum is missing where instance groups have no price, in words; empty where they all have one."""
    gpus = {group.name: group.count * plan.type_spec(group.type).accelerators for group in plan.groups}
    missing, whole = sum(gpus.get(name, 0) for name in names), sum(gpus.values())
    return f", with {missing} of {whole} GPUs" if missing else ""


def unpriced_share(elsewhere: Sequence[float | None], known_usd_per_hour: float) -> str:
    """How much of the whole the lines without a price are, in words.

    Args:
        elsewhere: What each costs an hour in the dearest Region that has a price; None where none has.
        known_usd_per_hour: The sum of the others.
    """
    if None in elsewhere:
        return "no Region has a known price of all of it, so its share of the whole is unknown"
    usd = sum(price or 0.0 for price in elsewhere)
    whole = usd + known_usd_per_hour
    share = 100 * usd / whole if whole else 0.0
    percent = "under 0.1" if share < 0.1 else f"about {share:.1f}" if share < 10 else f"about {share:.0f}"
    return f"at the dearest known price of a Region it is {dollars(usd)} an hour, {percent} % of the whole"


def not_counted(prices: Prices, region: str) -> list[str]:
    """What depends on use, each with what it costs where that is known."""
    sentences = []
    for label, key, of in BY_USE:
        price = prices.used(region, key) if key else None
        mark = "~" if price and price.estimate else ""
        sentences.append(f"{label} ({mark}{price.usd:g} $ {of})" if price else label)
    return sentences


def in_extended_support(version: str, *, day: date) -> bool:
    """Whether an EKS cluster of that version is billed for extended support on that day, on top of its usual price."""
    support = platform().eks_support.get(version)
    return support is not None and support.phase(day) != "standard"


def always_paid(plan: CommonPlan, *, day: date, eks_version: str = "") -> Iterator[tuple[HourlyCharge, int]]:
    """What the environment's own network and EKS cluster cost by the hour on a day, and how many of each.

    Existing ones are not counted: somebody pays for them already.

    Args:
        plan: The environment.
        day: In UTC.
        eks_version: That the control plane has. Default: the file's.
    """
    network, zones = plan.new_network, len(plan.settings.network.availability_zone_ids)
    if (eks := plan.new_eks) is not None:
        yield "eks_cluster", 1
        if in_extended_support(eks_version or eks.version, day=day):
            yield "eks_extended_support", 1
    if network is not None and not network.closed:
        gateways = min(network.nat_gateways, zones)
        yield "nat_gateway", gateways
        yield "public_ipv4", gateways
    if network is not None and network.closed:
        yield "interface_endpoint", needs.interface_endpoints(plan) * zones


def line(
    *,
    name: str,
    description: str,
    quantity: int,
    unit: Unit,
    price: Price | None,
    dearest: Price | None = None,
    paid: bool = True,
    note: str = "",
) -> Line:
    """One thing and what it costs, for the cost command and the review.

    Args:
        name: What the report calls it.
        description: How many of what.
        quantity: Pieces, or GB.
        unit: What the price is per.
        price: Of one unit; None where unknown.
        dearest: Of one unit in the dearest Region, for the share of a line without a price. Default: none is known.
        paid: Whether it is paid for by the hour or month. Default: yes.
        note: What to say in the place of the price's day.
    """
    usd = 0.0 if not quantity and paid else price.usd * quantity if price and paid else None
    hour = month = None
    if usd is not None:
        hour, month = (usd, usd * HOURS_PER_MONTH) if unit == "hour" else (usd / HOURS_PER_MONTH, usd)
    elsewhere = dearest.usd * quantity if dearest and paid and price is None else None
    return Line(
        name=name,
        what=description,
        elsewhere_usd_per_hour=elsewhere / HOURS_PER_MONTH if elsewhere and unit == "GB-month" else elsewhere,
        quantity=quantity,
        unit=unit,
        usd_per_unit=price.usd if price else None,
        usd_per_hour=hour,
        usd_per_month=month,
        as_of=price.as_of if price else None,
        source=price.source if price else "",
        estimate=price.estimate if price else "",
        note=note,
    )
