"""Rules about pods and the nodes that carry them: does what Ray asks for fit what the groups have?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hyperpod_ray.core.checks.lookup import find, max_replicas, workers
from hyperpod_ray.core.common_plan import catalogue
from hyperpod_ray.core.findings import Finding, error, rule, warning
from hyperpod_ray.core.model import NodeGroup
from hyperpod_ray.core.plan import Allocatable, Plan, PodResources
from hyperpod_ray.core.yaml_source import Path

SECTIONS = ("ray", "hyperpod", "instance_types")
DRIVER = PodResources(cpu=2, memory_gib=8, gpus=0, gpu_resource="", efa=0, shared_memory_gib=1)
"""The driver's pod of GCS fault tolerance, as `k8s` makes it."""
AUTOSCALER_CPU, AUTOSCALER_MEMORY_GIB = 1, 1
"""What the autoscaler's container adds to the head's pod, rounded up."""


@dataclass(frozen=True, kw_only=True)
class _Demand:
    """Pods of one kind on one instance group."""

    path: Path
    who: str
    pod: PodResources
    count: int


_AMOUNTS = (("gpus", "accelerators"), ("efa", "EFA interfaces"), ("cpu", "vCPUs"), ("memory_gib", "GiB of memory"))


def _head_pod(plan: Plan) -> PodResources:
    pod = plan.head_resources
    if not plan.settings.ray.autoscaling:
        return pod
    return PodResources(
        cpu=pod.cpu + AUTOSCALER_CPU,
        memory_gib=pod.memory_gib + AUTOSCALER_MEMORY_GIB,
        gpus=0,
        gpu_resource=pod.gpu_resource,
        efa=0,
        shared_memory_gib=pod.shared_memory_gib,
    )


def _per_node(pod: PodResources, room: Allocatable) -> int:
    """Pods of this kind that an empty node carries."""
    limits = [room.pods]
    for name, _ in _AMOUNTS:
        if amount := getattr(pod, name):
            limits.append(getattr(room, name) // amount)
    return min(limits)


def _why_not(plan: Plan, group: NodeGroup, demand: _Demand) -> Iterator[Finding]:
    """A pod that fits no node of its group stays Pending."""
    room = plan.allocatable(group)
    settings = {"gpus": "gpus", "efa": "efa", "cpu": "cpu", "memory_gib": "memory_gib"}
    for name, unit in _AMOUNTS:
        want, has = getattr(demand.pod, name), getattr(room, name)
        if want > has:
            after = " after system pods" if name in ("cpu", "memory_gib") else ""
            hint = ""
            if name == "cpu" and group.threads_per_core == 1 and plan.type_spec(group.type).threads == 2:
                hint = (
                    " with threads_per_core 1; with 2 it has "
                    f"{plan.allocatable(group.model_copy(update={'threads_per_core': 2})).cpu}"
                )
            yield error(
                *demand.path,
                settings[name],
                what=(
                    f"{demand.who} asks for {want} {unit}, but a node of '{group.name}' ({group.type}) has "
                    f"{has}{after}{hint}"
                ),
                expected=f"at most {has}",
                fix=f"lower {settings[name]}{_larger(plan, group, name, want)}"
                if has > 0 or name != "memory_gib"
                else "lower hyperpod.tiered_storage.memory_percent, which takes all of it",
            )
    if room.pods < 1:
        yield error(
            *demand.path,
            "instance_group",
            what=f"a node of '{group.name}' ({group.type}) carries {plan.type_spec(group.type).pods} pods, "
            f"and the {plan.daemon_sets(group)} daemon sets of every node take them all",
            expected="room for one pod more",
            fix="choose a larger instance type",
        )


def _larger(plan: Plan, group: NodeGroup, amount: str, want: int) -> str:
    """The smallest type of the same kind whose node has the amount, as the second half of a fix."""
    own = plan.type_spec(group.type)
    larger = [
        (spec.accelerators, spec.vcpus, spec.memory_gib, name)
        for name in {*catalogue(), *plan.settings.instance_types}
        if (spec := plan.type_spec(name)).accelerator == own.accelerator
        and (spec.architecture, spec.threads) == (own.architecture, own.threads)
        and spec.accelerators >= own.accelerators
        and getattr(plan.allocatable(group.model_copy(update={"type": name})), amount) >= want
    ]
    return f", or choose a larger instance type, such as {min(larger)[-1]}" if larger else ""


def _demands(plan: Plan, name: str, *, at_maximum: bool) -> list[_Demand]:
    """All that Ray puts on one instance group, at its configured or its largest size."""
    ray = plan.settings.ray
    demands = []
    if ray.head.instance_group == name:
        demands.append(_Demand(path=("ray", "head"), who="the head", pod=_head_pod(plan), count=1))
    for index, worker in enumerate(ray.workers):
        if worker.instance_group == name:
            count = max_replicas(worker) if at_maximum else worker.replicas
            pod = plan.worker_resources(worker)
            demands.append(
                _Demand(path=("ray", "workers", index), who=f"a worker of '{worker.name}'", pod=pod, count=count)
            )
    gcs = ray.gcs_fault_tolerance
    if gcs and gcs.driver_instance_group == name:
        demands.append(_Demand(path=("ray", "gcs_fault_tolerance"), who="the driver", pod=DRIVER, count=1))
    return demands


def _loaded_groups(plan: Plan) -> list[NodeGroup]:
    """Groups with a known type that carry pods of Ray."""
    ray = plan.settings.ray
    used = [ray.head.instance_group, *(worker.instance_group for worker in ray.workers)]
    if ray.gcs_fault_tolerance:
        used.append(ray.gcs_fault_tolerance.driver_instance_group)
    return [group for name in dict.fromkeys(used) if (group := find(plan, name))]


@rule(*SECTIONS)
def pods_fit_their_node(plan: Plan) -> Iterator[Finding]:
    """One pod's GPUs, EFA interfaces, vCPUs and memory are within what one node can give.

    The EKS AMI's kubelet reserve and the daemon sets are deducted. The pod has a place among the pods of one network
    interface.
    """
    for group in _loaded_groups(plan):
        for demand in _demands(plan, group.name, at_maximum=False):
            yield from _why_not(plan, group, demand)


@rule(*SECTIONS)
def replicas_fit_the_group(plan: Plan) -> Iterator[Finding]:
    """Replicas × GPUs (EFA, vCPUs, memory, pods) within the group's nodes, for all worker groups that share them.

    With managed autoscaling nodes follow pods, so nothing is counted.
    """
    if plan.settings.hyperpod.managed_autoscaling:
        return
    for group in _loaded_groups(plan):
        yield from _overload(plan, group, _demands(plan, group.name, at_maximum=False), setting="replicas")


@rule(*SECTIONS)
def max_replicas_are_reachable(plan: Plan) -> Iterator[Finding]:
    """The largest size that autoscaling may ask for must fit the nodes too, else pods stay Pending."""
    if plan.settings.hyperpod.managed_autoscaling or not plan.settings.ray.autoscaling:
        return
    for group in _loaded_groups(plan):
        usual = list(_overload(plan, group, _demands(plan, group.name, at_maximum=False), setting="replicas"))
        if not usual:
            yield from _overload(plan, group, _demands(plan, group.name, at_maximum=True), setting="max_replicas")


def _overload(plan: Plan, group: NodeGroup, demands: list[_Demand], *, setting: str) -> Iterator[Finding]:
    """Why the pods do not fit the nodes of the group, if they do not. Karpenter's groups grow with their pods."""
    if group in plan.scaled_groups:
        return
    room = plan.allocatable(group)
    demands = [demand for demand in demands if demand.count and _per_node(demand.pod, room) > 0]
    nodes = f"'{group.name}' has {group.count} × {group.type}"
    of_workers = [demand for demand in demands if demand.path[1] == "workers"]
    for demand in demands:
        per_node = _per_node(demand.pod, room)
        if demand.count > group.count * per_node:
            at = setting if demand in of_workers else "instance_group"
            if demand.path[1] == "gcs_fault_tolerance":
                at = "driver_instance_group"
            yield error(
                *demand.path,
                at,
                what=f"{demand.count} × {demand.who.removeprefix('a ')} ({_says(demand.pod)}) "
                f"need {-(-demand.count // per_node)} nodes, {nodes}, which carry {group.count * per_node}",
                expected=f"at most {group.count * per_node}",
                fix=f"lower {at}, or raise the group's count"
                if at == setting
                else "raise the group's count, or choose another group",
            )
            return
    if len(demands) < 2:
        return
    last_demand = (of_workers or demands)[-1]
    at = setting if last_demand in of_workers else "instance_group"
    for name, unit in (*_AMOUNTS, ("pods", "pods")):
        need = sum(demand.count * (1 if name == "pods" else getattr(demand.pod, name)) for demand in demands)
        has = group.count * getattr(room, name)
        if need > has:
            yield error(
                *last_demand.path,
                at,
                what=f"together {_together(demands)} ask for {need} {unit}, {nodes}, which have {has}",
                expected=f"at most {has} {unit}",
                fix="lower one of them, or raise the group's count",
            )
            return
    if not _packs(demands, room, nodes=group.count):
        yield warning(
            *last_demand.path,
            at,
            what=(
                f"the pods that share '{group.name}' may not fit its {group.count} nodes: the sum fits, node by "
                "node it does not"
            ),
            expected="pods that fill whole nodes",
            fix="give one of them a group of its own, or raise the group's count",
        )


def _together(demands: list[_Demand]) -> str:
    return " and ".join(demand.who.removeprefix("a ").removeprefix("worker of ") for demand in demands)


def _says(pod: PodResources) -> str:
    """A pod's request in a few words."""
    parts = [f"{pod.gpus} accelerators"] if pod.gpus else []
    parts += [f"{pod.efa} EFA"] if pod.efa else []
    return ", ".join([*parts, f"{pod.cpu} vCPUs", f"{pod.memory_gib} GiB"])


_PACKED_PODS = 5000
"""Above this many pods no placement is tried; the totals were compared already."""


def _packs(demands: list[_Demand], room: Allocatable, *, nodes: int) -> bool:
    """Whether placing the largest pods first finds a node for each. Nodes that look alike are kept as one entry."""
    if sum(demand.count for demand in demands) > _PACKED_PODS:
        return True
    names = [name for name, _ in _AMOUNTS] + ["pods"]
    free: dict[tuple[int, ...], int] = {tuple(getattr(room, name) for name in names): nodes}
    size = sorted(demands, key=lambda d: tuple(-getattr(d.pod, name) for name, _ in _AMOUNTS))
    for demand in size:
        want = (*(getattr(demand.pod, name) for name, _ in _AMOUNTS), 1)
        for _ in range(demand.count):
            fitting = [
                remaining for remaining in free if all(has >= need for has, need in zip(remaining, want, strict=True))
            ]
            if not fitting:
                return False
            best = min(fitting)
            free[best] -= 1
            if not free[best]:
                del free[best]
            rest = tuple(has - need for has, need in zip(best, want, strict=True))
            free[rest] = free.get(rest, 0) + 1
    return True


@rule(*SECTIONS)
def efa_goes_to_its_pods(plan: Plan) -> Iterator[Finding]:
    """A worker that leaves GPUs or EFA interfaces of a node unused pays for them."""
    for index, worker, group in workers(plan):
        spec = plan.type_spec(group.type)
        pod = plan.worker_resources(worker)
        if spec.accelerators and pod.gpus == 0 and worker.gpus == 0:
            yield warning(
                "ray",
                "workers",
                index,
                "gpus",
                what=f"0 on {group.type}, whose {spec.accelerators} accelerators then stand idle",
                expected=f"{spec.accelerators}",
                fix=f"set gpus: {spec.accelerators}, or use a group of a CPU type",
            )
        elif _leaves_idle(plan, index, spec.accelerators, pod.gpus):
            idle = spec.accelerators % pod.gpus
            yield warning(
                "ray",
                "workers",
                index,
                "gpus",
                what=(
                    f"{pod.gpus} of the {spec.accelerators} accelerators of {group.type}: {idle} of each "
                    "node stand idle"
                ),
                expected=f"a number that divides {spec.accelerators}",
                fix=f"set gpus: {_divisor(spec.accelerators, pod.gpus)}, or another divisor",
            )
        elif spec.efa > 1 and worker.efa == 0 and worker.replicas > 1:
            yield warning(
                "ray",
                "workers",
                index,
                "efa",
                what=f"0 on {group.type}: workers then talk over TCP, many times slower",
                expected=f"{spec.efa} EFA interfaces for a pod that has the whole node",
                fix="remove the setting",
            )


def _divisor(accelerators: int, limit: int) -> int:
    """The largest number of accelerators up to some number that leaves none of a node idle."""
    return max(number for number in range(1, limit + 1) if accelerators % number == 0)


def _leaves_idle(plan: Plan, index: int, accelerators: int, gpus: int) -> bool:
    """Whether pods of an odd size leave accelerators of every node to nobody."""
    workers_ = plan.settings.ray.workers
    shared = sum(worker.instance_group == workers_[index].instance_group for worker in workers_) > 1
    return 0 < gpus <= accelerators and accelerators % gpus > 0 and not shared


@rule(*SECTIONS)
def shared_memory_fits(plan: Plan) -> Iterator[Finding]:
    """Shared memory is memory of the pod: as large as the pod's memory it leaves nothing for the processes."""
    for index, worker, _ in workers(plan):
        pod = plan.worker_resources(worker)
        if worker.shared_memory_gib is not None and worker.shared_memory_gib >= pod.memory_gib:
            yield error(
                "ray",
                "workers",
                index,
                "shared_memory_gib",
                what=(
                    f"{worker.shared_memory_gib} GiB of the pod's {pod.memory_gib} GiB leaves nothing for its processes"
                ),
                expected=f"less than {pod.memory_gib} GiB",
                fix=f"set {max(1, pod.memory_gib // 4)}, a quarter",
            )
