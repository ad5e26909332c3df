"""How long a deploy takes: the critical path through what changes, by the templates' dependencies and `durations.yaml`.

Resources wait for what they refer to and for `DependsOn`; stacks for the stacks they depend on. The CDK deploys one
stack after another unless `--concurrency` says otherwise, so the sum over the stacks is the figure for a plain
`cdk deploy`.

With continuous provisioning CloudFormation waits for no node: "The cluster becomes operational once cluster-level
resources are ready" (https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateCluster.html). The deploy
waits for the first node of the head's group (`FirstNodes`); when other groups can train is a figure of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hyperpod_ray.review.assembly import EnvironmentAssembly, Key
from hyperpod_ray.review.changes import Changes, Kind, ResourceChange, compare
from hyperpod_ray.review.effects.hyperpod import batch
from hyperpod_ray.review.facts import load_yaml
from hyperpod_ray.review.instance_groups import count, groups, instance_type
from hyperpod_ray.review.references import references


class Minutes(NamedTuple):
    """A span: the quickest, the usual and the slowest."""

    low: float
    mid: float
    high: float

    def __add__(self, addend: object) -> Minutes:
        if not isinstance(addend, Minutes):
            return NotImplemented
        return Minutes(self.low + addend.low, self.mid + addend.mid, self.high + addend.high)

    def __str__(self) -> str:
        if self.high <= 1:
            return "under a minute"
        low, high = round(self.low), math.ceil(self.high)
        return f"{low}–{high} min" if low != high else f"{high} min"

    @property
    def usual(self) -> str:
        """The usual figure in words."""
        return f"{max(1, round(self.mid))} min"


NOTHING = Minutes(0, 0, 0)
CLUSTER = "AWS::SageMaker::Cluster"
FIRST_NODES = "Custom::HyperPodNodesRunning"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One resource on the critical path."""

    title: str
    type: str
    action: str
    minutes: Minutes
    source: str


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """When the nodes of a group take work, which the deploy itself does not wait for."""

    group: str
    minutes: Minutes
    """From the start of the deploy."""
    why: str


@dataclass(kw_only=True)
class Schedule:
    """How long a deploy takes."""

    in_turn: Minutes
    """One stack after another: what `cdk deploy` does."""
    side_by_side: Minutes
    """As many stacks at once as their dependencies allow (`--concurrency`)."""
    path: list[Step] = field(default_factory=list)
    """Steps of the longest chain that may take more than a minute, in order."""
    chain: list[str] = field(default_factory=list)
    """Names of the stacks on that chain, in order."""
    each: dict[str, Minutes] = field(default_factory=dict)
    """Stack name → what it takes by itself."""
    stacks: int = 0
    """Stacks that are updated."""
    nodes: list[Nodes] = field(default_factory=list)
    """Groups whose nodes take work later than the deploy ends, soonest first."""


def schedule(changes: Changes) -> Schedule | None:
    """The schedule of a change; None when nothing is deployed."""
    steps = {key: _step(change, changes) for key, change in changes.resources.items()}
    if not steps:
        return None
    walk = _Walk(head=changes.head, steps=steps)
    chains = {stack: _stack(stack, changes, walk) for stack in {key.stack for key in steps}}
    order = [stack for stack in changes.head.stacks if stack in chains]
    in_turn = NOTHING
    for stack in order:
        in_turn += chains[stack][0]
    ends = _side_by_side(changes.head, chains)
    side, last_stack = max((ends[name] for name in order), key=lambda ending: ending[0].mid, default=(NOTHING, []))
    path: list[Step] = []
    for stack in last_stack:
        path += [steps[key] for key in chains[stack][1] if key in steps and steps[key].minutes.high > 1]
    names = {stack: changes.head.stacks[stack].name for stack in order}
    return Schedule(
        in_turn=in_turn,
        side_by_side=side,
        path=path,
        chain=[names[stack] for stack in last_stack],
        each={names[stack]: chains[stack][0] for stack in order},
        stacks=len(order),
        nodes=_later(changes, walk, ends, side),
    )


def first_deploy(head: EnvironmentAssembly) -> Schedule | None:
    """The schedule of an environment that is not deployed yet."""
    return schedule(compare(EnvironmentAssembly(name=head.name, folder=head.folder, stacks={}), head))


@dataclass(kw_only=True)
class _Walk:
    """When each resource is done, counted from the start of its stack."""

    head: EnvironmentAssembly
    steps: dict[Key, Step]
    ends: dict[Key, Minutes] = field(default_factory=dict)
    before: dict[Key, Key | None] = field(default_factory=dict)
    """What a resource waited for longest."""
    seen: set[Key] = field(default_factory=set)

    def end(self, key: Key) -> Minutes:
        """The end of one resource; unchanged ones take no time but pass on what they wait for."""
        if key in self.ends:
            return self.ends[key]
        if key in self.seen:
            return NOTHING  # a circle: CloudFormation refuses it, this must only end
        self.seen.add(key)
        longest, previous = NOTHING, None
        for name in sorted(self._waits_for(key)):
            dependency = Key(key.stack, name)
            ending = self.end(dependency)
            if ending.mid > longest.mid:
                longest, previous = ending, dependency
        self.ends[key] = longest + (self.steps[key].minutes if key in self.steps else NOTHING)
        self.before[key] = previous
        return self.ends[key]

    def _waits_for(self, key: Key) -> set[str]:
        stack = self.head.stacks[key.stack]
        resource = stack.resources[key.logical_id]
        dependencies = {name for name in _as_list(resource.get("DependsOn")) if name in stack.resources}
        for reference in references(resource.get("Properties", {}), stack, self.head):
            if reference.key.stack == key.stack:
                dependencies.add(reference.key.logical_id)
        return dependencies - {key.logical_id}


def _stack(stack_id: str, changes: Changes, walk: _Walk) -> tuple[Minutes, list[Key]]:
    """Duration of one stack's update and the chain that makes it: creations and updates, then removals."""
    keys = [key for key in walk.steps if key.stack == stack_id]
    lasting = [key for key in keys if changes.resources[key].kind is not Kind.REMOVED]
    latest = max(lasting, key=lambda key: walk.end(key).mid, default=None)
    total, chain = (walk.end(latest), _chain(latest, walk.before)) if latest is not None else (NOTHING, [])
    removed = [key for key in keys if changes.resources[key].kind is Kind.REMOVED]
    slowest = max(removed, key=lambda key: walk.steps[key].minutes.mid, default=None)
    if slowest is not None:
        total, chain = total + walk.steps[slowest].minutes, [*chain, slowest]
    return total, chain


def _chain(key: Key | None, before: dict[Key, Key | None]) -> list[Key]:
    chain = []
    while key is not None:
        chain.append(key)
        key = before.get(key)
    return chain[::-1]


def _side_by_side(
    head: EnvironmentAssembly, chains: dict[str, tuple[Minutes, list[Key]]]
) -> dict[str, tuple[Minutes, list[str]]]:
    """Stack → when it is done, and the stacks on the longest way there."""
    ends: dict[str, tuple[Minutes, list[str]]] = {}
    for stack_id, stack in head.stacks.items():
        waited = [ends[name] for name in stack.depends_on if name in ends]
        start, through = max(waited, key=lambda ending: ending[0].mid, default=(NOTHING, []))
        own_chain = chains.get(stack_id)
        ends[stack_id] = (start + own_chain[0], [*through, stack_id]) if own_chain else (start, through)
    return ends


def _later(changes: Changes, walk: _Walk, ends: dict[str, tuple[Minutes, list[str]]], side: Minutes) -> list[Nodes]:
    """Groups whose nodes come after the deploy: with continuous provisioning nothing waits for them."""
    late_groups = []
    for change in changes.of_type(CLUSTER):
        if change.kind is Kind.REMOVED or not _continuous(change):
            continue
        stack = changes.head.stacks[change.key.stack]
        waited = [ends[name][0] for name in stack.depends_on if name in ends]
        begins = max(waited, key=lambda span: span.mid, default=NOTHING) + walk.end(change.key)
        for group, (minutes, why) in _made(change).items():
            ready = begins + minutes
            if minutes.mid and ready.mid > side.mid:
                late_groups.append(Nodes(group=group, minutes=ready, why=why))
    return sorted(late_groups, key=lambda span: span.minutes.mid)


# --- one resource ----------------------------------------------------------------------------------------------------


def _step(change: ResourceChange, changes: Changes) -> Step:
    table = load_durations()
    durations = table["types"].get(change.type, table["default"])
    action = {Kind.ADDED: "create", Kind.REMOVED: "delete", Kind.REPLACED: "replace"}.get(change.kind, "update")
    minutes = Minutes(*durations["create" if action == "replace" else action])
    source = str(durations["source"])
    if action != "delete":
        extra, why = NOTHING, ""
        if change.type == CLUSTER:
            extra, why = _nodes(change)
        elif change.type == FIRST_NODES:
            extra, why = _first_nodes(change, changes)
        minutes, source = minutes + extra, "; ".join(part for part in (source, why) if part)
    if change.kind is Kind.REMOVED and change.kept:
        minutes = Minutes(0, 0.3, 1)
    return Step(title=change.title, type=change.type, action=action, minutes=minutes, source=source)


def load_durations() -> dict[str, Any]:
    """`durations.yaml`."""
    return load_yaml("durations.yaml")


def _nodes(change: ResourceChange) -> tuple[Minutes, str]:
    """What CloudFormation waits for beside the cluster: groups are worked on side by side, so the slowest counts."""
    created = _made(change) if _continuous(change) else {}
    slowest, why = NOTHING, ""
    for name, (minutes, words) in _all_groups(change).items():
        if name not in created and minutes.mid > slowest.mid:
            slowest, why = minutes, f"group {name}: {words}"
    return slowest, why


def _first_nodes(change: ResourceChange, changes: Changes) -> tuple[Minutes, str]:
    """What the nodes of one group take, beside what is in the cluster's own figure."""
    for cluster in changes.of_type(CLUSTER):
        created = _made(cluster).get(str(change.now("InstanceGroupName")))
        if created and _continuous(cluster):
            return created
    return NOTHING, ""


def _continuous(change: ResourceChange) -> bool:
    return bool(change.now("NodeProvisioningMode") == "Continuous")


def _made(change: ResourceChange) -> dict[str, tuple[Minutes, str]]:
    """Groups that get nodes → what these take."""
    before, after = groups(change.base), groups(change.head)
    fresh = change.kind in {Kind.ADDED, Kind.REPLACED}
    return {
        name: duration
        for name, duration in _all_groups(change).items()
        if name in after and _new_nodes(None if fresh else before.get(name), after[name]) > 0
    }


def _all_groups(change: ResourceChange) -> dict[str, tuple[Minutes, str]]:
    table = load_durations()["nodes"]
    before, after = groups(change.base), groups(change.head)
    fresh = change.kind in {Kind.ADDED, Kind.REPLACED}
    return {
        name: _group(None if fresh else before.get(name), after.get(name), table, fresh=fresh)
        for name in {**before, **after}
    }


def _new_nodes(before: dict[str, Any] | None, after: dict[str, Any]) -> int:
    return count(after) - (count(before) if before and instance_type(before) == instance_type(after) else 0)


def _group(
    before: dict[str, Any] | None, after: dict[str, Any] | None, table: dict[str, Any], *, fresh: bool
) -> tuple[Minutes, str]:
    if after is None:
        return Minutes(*table["deleted"]["minutes"]), f"nodes deleted ({table['deleted']['source']})"
    created = _new_nodes(before, after)
    if created > 0:
        checks = bool(after.get("OnStartDeepHealthChecks"))
        # the first nodes of a new cluster are in the cluster's own figure
        total = NOTHING if fresh else Minutes(*table["made"]["minutes"])
        total += Minutes(*table["deep_checks"]["minutes"]) if checks else NOTHING
        parts = [] if fresh else [f"nodes created ({table['made']['source']})"]
        return total, " and ".join(
            [*parts, *([f"deep health checks ({table['deep_checks']['source']})"] if checks else [])]
        )
    if created < 0:
        return Minutes(*table["deleted"]["minutes"]), f"nodes deleted ({table['deleted']['source']})"
    if before and any(before.get(key) != after.get(key) for key in ("ImageReleaseVersion", "ImageId")) and count(after):
        size, unit, wait = batch(after)
        batches = math.ceil(count(after) / size) if unit == "INSTANCE_COUNT" else math.ceil(100 / size)
        pause = (batches - 1) * wait / 60
        spans = (batches * minutes + pause for minutes in table["software_update"]["minutes"])
        return Minutes(*spans), f"{batches} batches ({table['software_update']['source']})"
    return NOTHING, ""


def _as_list(value: Any) -> list[str]:
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [str(value)]
