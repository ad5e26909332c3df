"""The faults a rehearsal knows: one class each, and the table of them at the end.

A fault says what it needs, does its harm (`inject`) and knows when the run has survived it (`recovered`). To add one,
write a class, add it to `FAULTS`, and its name to `hyperpod_ray_rules/faults.py`, which the command line reads.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

from hyperpod_ray_sandbox.rehearsal.fault_names import require_known
from hyperpod_ray_sandbox.rehearsal.ray_hosts import isolation
from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError
from hyperpod_ray_sandbox.rehearsal.report import Injected
from hyperpod_ray_training.history import Event, Tail

if TYPE_CHECKING:
    from hyperpod_ray_sandbox.rehearsal.loopback_run import Scene

ELASTIC_SECONDS, HEAD_SECONDS, STORAGE_SECONDS = 30, 40, 8
Harm = tuple[float, str]


class Timing(Protocol):
    """What of a rehearsal's options decides how many steps a fault takes."""

    @property
    def interval(self) -> int:
        """Steps between two checkpoints."""

    @property
    def step_delay_s(self) -> float:
        """Seconds of a step."""

    @property
    def drain_s(self) -> int:
        """Seconds until a draining node is gone."""


class Fault:
    """What every fault has.

    Attributes:
        name: on the command line and in the report.
        nodes: nodes that train, at least.
        spares: nodes that stand by, at least.
        resubmits: the driver is lost with it, so somebody submits the run again.
        elastic: it needs a run whose size may change.
        watched: it needs the stand-in of HyperPod's job monitoring agent, and rules for it.
        needs_spares: it waits for warm spares, and for the replacement of every node that was lost before.
    """

    name: ClassVar[str]
    nodes: ClassVar[int] = 1
    spares: ClassVar[int] = 0
    resubmits: ClassVar[bool] = False
    elastic: ClassVar[bool] = False
    watched: ClassVar[bool] = False
    needs_spares: ClassVar[bool] = True

    def needs(self, *, nodes: int, spares: int) -> None:
        """LocalError where the rehearsal's cluster is too small."""
        if nodes < self.nodes or spares < self.spares:
            raise LocalError(
                f"--faults {self.name}: {nodes} training nodes and {spares} spare nodes",
                expected=f"{self.nodes} and {self.spares} or more",
                fix=f"add --nodes {self.nodes} --spares {self.spares}",
            )

    def extra_steps(self, options: Timing, *, fault_tolerant: bool) -> int:
        """Work there must be for it beyond an interval: steps done while nothing is interrupted."""
        return 0

    def inject(self, scene: Scene) -> Harm:
        """Do it; when, and to what."""
        raise NotImplementedError

    def recovered(self, scene: Scene, tail: Tail, injected: Injected) -> bool:
        """Whether new steps were done since, by workers that came back."""
        return resumed(tail, injected.t) is not None


def resumed(tail: Tail, t: float) -> Event | None:
    """The first step after the first return since `t`. A job that never restores only starts."""
    events = [event for event in tail.events if event.t > t]
    restore = next((e for e in events if e.kind == "restore"), None)
    restart = restore or next((e for e in events if e.kind == "start" and e.worker), None)
    return next((e for e in events if e.kind == "step" and restart and e.t > restart.t), None)


def resumed_for_good(tail: Tail, t: float) -> bool:
    """The same for the newest return since `t`: several faults, several returns."""
    events = [event for event in tail.events if event.t > t]
    back = [e for e in events if e.kind == "restore"]
    lost = [e for e in events if e.kind == "lost" and e.values.get("rank") is not None]
    if not back or (lost and lost[-1].t > back[-1].t):
        return False
    return any(e.kind == "step" and e.t > back[-1].t for e in events)


class Worker(Fault):
    """SIGKILL to one training process."""

    name = "worker"

    def inject(self, scene: Scene) -> Harm:
        pod, t = scene.training_pod(), time.time()
        scene.kill_worker(pod)
        return t, f"a training process on {pod.name}"


class FreezeWorker(Fault):
    """SIGSTOP to one training process; the rest of its pod works on."""

    name = "freeze-worker"

    def inject(self, scene: Scene) -> Harm:
        pod, t = scene.training_pod(), time.time()
        scene.kill_worker(pod, number=signal.SIGSTOP)
        return t, f"a training process on {pod.name}"


class Node(Fault):
    """The pod's process namespace is killed."""

    name = "node"

    def inject(self, scene: Scene) -> Harm:
        pod, t = scene.training_pod(), time.time()
        scene.cluster.kill(pod)
        return t, pod.name


class Freeze(Fault):
    """SIGSTOP to everything in the pod."""

    name = "freeze"

    def inject(self, scene: Scene) -> Harm:
        pod, t = scene.training_pod(), time.time()
        scene.cluster.freeze(pod)
        return t, pod.name


class Hang(Fault):
    """One rank stops inside a step; its process still answers."""

    name = "hang"
    nodes = 2

    def inject(self, scene: Scene) -> Harm:
        event = scene.arm("hang", rank=1)
        return event.t, "rank 1"


class GpuError(Fault):
    """One rank raises what a GPU with an uncorrectable memory error does."""

    name = "gpu-error"
    nodes = 2

    def inject(self, scene: Scene) -> Harm:
        event = scene.arm("gpu-error", rank=1)
        return event.t, "rank 1"


class HungJob(Hang):
    """The same, and the library's own limit is far away: the stand-in agent ends the workers that write no step."""

    name = "hung-job"
    watched = True

    def recovered(self, scene: Scene, tail: Tail, injected: Injected) -> bool:
        return bool(scene.hangs) and super().recovered(scene, tail, injected)


class Drain(Fault):
    """SIGTERM to the pod, as deleting it does."""

    name = "drain"

    def extra_steps(self, options: Timing, *, fault_tolerant: bool) -> int:
        return int(options.drain_s / options.step_delay_s)

    def inject(self, scene: Scene) -> Harm:
        pod, t = scene.training_pod(), time.time()
        scene.cluster.delete(pod)
        return t, pod.name


class Elastic(Fault):
    """A node goes and comes back late; the run continues with what is left."""

    name = "elastic"
    nodes = 2
    elastic = True

    def extra_steps(self, options: Timing, *, fault_tolerant: bool) -> int:
        return int(ELASTIC_SECONDS / options.step_delay_s)

    def inject(self, scene: Scene) -> Harm:
        pod, t = scene.training_pod(), time.time()
        scene.replacement.hold(pod)
        scene.cluster.kill(pod)
        return t, pod.name

    def recovered(self, scene: Scene, tail: Tail, injected: Injected) -> bool:
        steps = [event for event in tail.events if event.t > injected.t and event.kind == "step"]
        small = next((e for e in steps if e.values.get("world", 0) < scene.size), None)
        if small and time.time() > small.t + scene.options.elastic_gap_s:
            scene.replacement.release()
        return small is not None and any(e.values.get("world") == scene.size and e.t > small.t for e in steps)


class Driver(Fault):
    """SIGKILL to the job's driver; its supervisor starts it again."""

    name = "driver"

    def inject(self, scene: Scene) -> Harm:
        t = time.time()
        isolation.send([scene.driver()], signal.SIGKILL)
        return t, "the job's driver"


class Head(Fault):
    """The head pod is killed; a new one comes at the same address."""

    name = "head"
    resubmits = True

    def extra_steps(self, options: Timing, *, fault_tolerant: bool) -> int:
        return int(HEAD_SECONDS / options.step_delay_s) if fault_tolerant else 0

    def inject(self, scene: Scene) -> Harm:
        head, t = scene.cluster.head(), time.time()
        scene.cluster.kill(head)
        return t, head.name

    def recovered(self, scene: Scene, tail: Tail, injected: Injected) -> bool:
        if not scene.cluster.state.backend or resumed(tail, injected.t):
            return super().recovered(scene, tail, injected)
        if scene.watcher.status == "SUCCEEDED":
            return True  # done before the new head was complete: no interruption either
        # fault tolerance: the new head must be up and know every node, and training must still continue after that
        back = scene.replacement.complete and all(
            scene.watcher.nodes.get(pod.ip) == "ALIVE" for pod in scene.cluster.state.pods
        )
        steps = sum(event.kind == "step" and event.t > injected.t for event in tail.events)
        running = scene.watcher.status == "RUNNING" and scene.watcher.status_t > injected.t + 5
        return bool(back and running and steps > scene.options.interval)


class TwoAtOnce(Fault):
    """Two nodes that train are lost in the same moment."""

    name = "two-at-once"
    nodes = 2

    def inject(self, scene: Scene) -> Harm:
        pods, t = scene.training_pods()[:2], time.time()
        for pod in pods:
            scene.cluster.kill(pod)
        return t, ", ".join(pod.name for pod in pods)

    def recovered(self, scene: Scene, tail: Tail, injected: Injected) -> bool:
        return resumed_for_good(tail, injected.t)


class DuringRecovery(Fault):
    """A worker is lost, and another as soon as the loss of the first is known."""

    name = "during-recovery"
    nodes = 2

    def inject(self, scene: Scene) -> Harm:
        victim, second = scene.training_pods()[:2]
        t = time.time()
        scene.kill_worker(victim)
        scene.wait_for(lambda e: e.t >= t and e.kind in {"lost", "error"}, doing="the first loss being noticed")
        scene.kill_worker(second)
        return t, f"a training process on {victim.name}, then one on {second.name}"

    def recovered(self, scene: Scene, tail: Tail, injected: Injected) -> bool:
        return resumed_for_good(tail, injected.t)


class Flap(Fault):
    """The same node stands still for three seconds, three times."""

    name = "flap"

    def inject(self, scene: Scene) -> Harm:
        pod, t = scene.training_pod(), time.time()
        for _ in range(3):
            scene.cluster.freeze(pod)
            scene.work_for(3.0)
            if pod.alive:
                scene.cluster.freeze(pod, thaw=True)
            scene.work_for(1.0)
        return t, f"{pod.name}, three times"

    def recovered(self, scene: Scene, tail: Tail, injected: Injected) -> bool:
        return resumed_for_good(tail, injected.t)


class SparesExhausted(Fault):
    """The spare nodes are lost first, then one that trains: somebody has to come, and survivors wait for them."""

    name = "spares-exhausted"

    def inject(self, scene: Scene) -> Harm:
        pod = scene.training_pod()
        for spare in scene.spare_pods():
            scene.cluster.kill(spare)
        t = time.time()
        scene.cluster.kill(pod)
        return t, f"{pod.name}, and every spare before it"


class Spareless(Fault):
    """The spare nodes are lost first, then one training process: a standby of its node takes its place."""

    name = "spareless"
    needs_spares = False

    def inject(self, scene: Scene) -> Harm:
        pod = scene.training_pod()
        spares = scene.spare_pods()
        for spare in spares:
            scene.cluster.kill(spare)
        scene.wait_until(lambda tail: not scene.warm_spares(tail), doing="the spares being missed")
        t = time.time()
        scene.kill_worker(pod)
        return t, f"a training process on {pod.name}" + (", and every spare before it" if spares else "")


class CoordinatorKilled(Fault):
    """SIGKILL to the coordinator of the spares: training must continue, and the next fault be covered."""

    name = "coordinator"
    spares = 1

    def inject(self, scene: Scene) -> Harm:
        pids = [pid for pod in scene.cluster.alive_pods() for pid in scene.cluster.find(pod, "ray::Coordinator")]
        if not pids:
            raise LocalError("no coordinator process", expected="one on the head", fix="see the head's log", code=1)
        t = time.time()
        isolation.send(pids, signal.SIGKILL)
        return t, "the coordinator"

    def extra_steps(self, options: Timing, *, fault_tolerant: bool) -> int:
        return 2 * options.interval

    def recovered(self, scene: Scene, tail: Tail, injected: Injected) -> bool:
        steps = sum(event.kind == "step" and event.t > injected.t for event in tail.events)
        return steps > scene.options.interval


class WriterKilled(Fault):
    """Rank 0 is killed in the moment before it marks a checkpoint as complete."""

    name = "writer"

    def inject(self, scene: Scene) -> Harm:
        event = scene.arm("die-before-metadata", rank=0)
        return event.t, "rank 0, all shards written"


class _Storage(Fault):
    """A fault of the shared file system, which only the saves see; training continues and a later save succeeds."""

    switch: ClassVar[str]

    def extra_steps(self, options: Timing, *, fault_tolerant: bool) -> int:
        return 2 * options.interval + int(STORAGE_SECONDS / options.step_delay_s)

    def inject(self, scene: Scene) -> Harm:
        event = scene.arm(self.switch, rank=0)
        return event.t, "a save of rank 0"

    def recovered(self, scene: Scene, tail: Tail, injected: Injected) -> bool:
        return any(event.kind == "save" and event.t > injected.t for event in tail.events)


class DiskFull(_Storage):
    """A save finds no room."""

    name, switch = "disk-full", "disk-full"


class ReadOnly(_Storage):
    """A save finds the folder read-only."""

    name, switch = "read-only", "read-only"


class SlowStorage(_Storage):
    """A save takes eight seconds longer, which must not look like a rank that hangs."""

    name, switch = "slow-storage", "slow-storage"


class ClockJump(Fault):
    """The wall clock of a rank jumps by an hour: nothing may come of it."""

    name = "clock-jump"

    def extra_steps(self, options: Timing, *, fault_tolerant: bool) -> int:
        return 2 * options.interval

    def inject(self, scene: Scene) -> Harm:
        event = scene.arm("clock-jump", rank=0)
        return event.t, "rank 0's wall clock"

    def recovered(self, scene: Scene, tail: Tail, injected: Injected) -> bool:
        return any(
            event.kind == "save" and event.t > injected.t and (event.step or 0) > injected.step for event in tail.events
        )


FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        Worker(), FreezeWorker(), Node(), Freeze(), Hang(), GpuError(), HungJob(), Drain(), Elastic(), Driver(), Head(),
        TwoAtOnce(), DuringRecovery(), Flap(), SparesExhausted(), Spareless(), CoordinatorKilled(),
        WriterKilled(), DiskFull(), ReadOnly(), SlowStorage(), ClockJump(),
    )
}  # fmt: skip


def faults_named(names: Sequence[str]) -> list[Fault]:
    """Faults by name; LocalError for an unknown one, or none."""
    require_known(names)
    return [FAULTS[name] for name in names]
