"""What a worker runs instead of the user's loop: wait for a rank, run the loop, let go, wait again.

The process stays. A generation that breaks costs the process groups, the model (the loop builds it again) and the step
under way, and no import, no CUDA context, no worker.
"""

from __future__ import annotations

import dataclasses
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import ray
import torch
import torch.distributed as dist

from hyperpod_ray_training import flight
from hyperpod_ray_training.errors import MARK, of_user
from hyperpod_ray_training.hardware import check_device, sign_of
from hyperpod_ray_training.journal import log
from hyperpod_ray_training.open_runs import closing
from hyperpod_ray_training.spares import seat as seats
from hyperpod_ray_training.spares.groups import GenerationOverError, Groups, collectives_begun
from hyperpod_ray_training.spares.member import CoordinatorLostError, Ended, Member, Message
from hyperpod_ray_training.spares.members import unpacked
from hyperpod_ray_training.spares.ray_view import shown
from hyperpod_ray_training.spares.stance import Stance
from hyperpod_ray_training.spares.store import Store
from hyperpod_ray_training.spares.warm_up import warm_up

WARM_UP_LIMIT_S = 120.0
FIND_S = 120.0
"""So long the coordinator may take to start."""
_IDLE_S = 0.5
_FENCE_S = 1.0
# what a lost peer or network looks like from a healthy rank; torch's own types do not cover gloo's RuntimeError
_NETWORK = (
    "gloo",
    "NCCL",
    "Connection",
    "connection",
    "peer",
    "Timed out",
    "timed out",
    "Socket",
    "socket",
    "Broken pipe",
)
_NETWORK_ERRORS = (dist.DistBackendError, dist.DistNetworkError, dist.DistStoreError, ConnectionError)


class FallBackError(RuntimeError):
    """Ray restarts all workers and the run continues from its newest checkpoint. Worker processes end here."""


class HandOverError(BaseException):
    """All ranks have met at the end of a step: the loop is left, to be entered again by other processes."""


@dataclasses.dataclass(kw_only=True)
class Generation:
    """What the library needs to know of the generation this process trains in."""

    number: int
    rank: int
    nodes: list[str]
    begun: float
    group_s: float
    member: Member
    groups: Groups
    store: Store
    quiet_groups: set[Any] = dataclasses.field(default_factory=set)
    """Groups whose collectives say nothing about a hang: saves and copies run beside the loop."""


_current: Generation | None = None


def current() -> Generation | None:
    """The generation this process trains in; None in a run without spares, and in a spare."""
    return _current


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What the driver tells the workers; plain data.

    Args:
        active: Ranks that train.
        coordinator: Handle of the coordinator.
        token: For the coordinator.
        backend: Of the training group.
    """

    active: int
    coordinator: Any
    token: str
    backend: str


class Survivor:
    """One worker process of a run with spares.

    Args:
        loop: The user's.
        config: The user's, with `run`.
        plan: The driver's.
        node: This node's address.
        order: Ray's rank of this worker.
        group: Workers that Ray has started.
        find: Asks where the coordinator is.
        standby: Whether this process has no seat.
        seat: What this worker's successor takes over.
    """

    def __init__(
        self,
        loop: Callable[[dict[str, Any]], Any],
        config: dict[str, Any],
        plan: Plan,
        *,
        node: str,
        order: int,
        group: int = 0,
        find: Callable[[], tuple[str, int]],
        standby: bool = False,
        seat: str = "",
    ) -> None:
        self.loop, self.config, self.plan = closing(loop), config, plan
        settings = config["run"].settings
        flight.record()
        self.folder = config["run"].folder()
        # the coordinator judges who hangs, and knows more than a limit of a collective does
        limit = max(settings.process_group_timeout_s, settings.patience_s)
        self.groups = Groups(node=node, timeout_s=limit, backend=plan.backend)
        self.store = Store()
        self.member = Member(
            find=find, token=plan.token, node=node, port=self.groups.store.port, order=order, group=group,
            beat_s=settings.beat_s, cut=self.groups.cut, standby=standby, seat=seat,
        )  # fmt: skip
        self.groups.kept = self.member.sockets
        self.rehearse = True

    def run(self) -> Any:
        """Until the run is over."""
        try:
            while True:
                # a spare that nobody needs at once rehearses; then it waits. A standby has no device to rehearse on
                waits = self.member.now.warm or self.member.standby
                message = self.member.next(None if waits else _IDLE_S)
                if message is None:
                    self._rehearse()
                elif (ended := self._obey(message)) is not None:
                    return ended[0]
        finally:
            self.member.close()

    def _obey(self, message: Message) -> tuple[Any] | None:
        match message["type"]:
            case "welcome":
                self.rehearse = bool(message["rehearse"])
            case "import":
                seats.import_all([str(name) for name in message["modules"]])
                if torch.cuda.is_initialized():
                    log("standby: a module that the loop imports opens a CUDA context; it takes memory of a GPU")
                self.member.send("imported", **seats.host_megabytes())
            case "adopt":
                self._adopt(message)
            case "over":
                return (Ended(),)
            case "alone":
                raise CoordinatorLostError("the coordinator is gone and did not come back")
            case "fallback":
                raise FallBackError(str(message["message"]))
            case "abandon":
                self.member.send("ready", gen=message["gen"])
            case "assign" if message["gen"] >= self.member.newest_gen:
                return self._train(message)
        return None

    def _adopt(self, message: Message) -> None:
        """Take over the seat of a process that is lost; end where that cannot be, so that Ray starts another."""
        try:
            seats.take(str(message["seat"]), pid=int(message["pid"]))
        except Exception as error:
            log(f"standby: the seat of process {message['pid']} is not taken over ({type(error).__name__}: {error})")
            self.member.send("broken", message=f"the seat cannot be taken over: {error}")
            time.sleep(_FENCE_S)
            self.member.fence()
            return
        self.member.standby, self.member.seat = False, str(message["seat"])
        self.member.order, self.member.took = int(message["order"]), int(message["pid"])

    def _rehearse(self) -> None:
        started = time.monotonic()
        self.member.now.warm = True
        if self.rehearse:
            ended = threading.Event()
            threading.Thread(target=self._limit, args=(ended,), daemon=True).start()
            try:
                with shown(rank=0, world=self.plan.active):
                    warm_up(self.loop, self.config, world=self.plan.active)
            except Exception as error:
                self._end_if_broken(error)
                log(f"spare: the loop cannot be rehearsed ({type(error).__name__}: {error}); it starts cold")
                self.member.send("cold")
            finally:
                ended.set()
        self.member.send("warm", seconds=round(time.monotonic() - started, 2))

    def _end_if_broken(self, error: BaseException) -> None:
        """End this process where its device or node has failed: a spare elsewhere takes the rank over."""
        sign = sign_of(error)
        if sign is not None:
            log(f"this device or node has failed ({type(error).__name__}: {str(error).partition(chr(10))[0]})")
            self.member.send("broken", message=f"hardware error: {sign}")
            time.sleep(_FENCE_S)  # the coordinator answers with a fence, after it has noted why
            self.member.fence()

    def _limit(self, ended: threading.Event) -> None:
        """A loop that waits for others in its rehearsal never ends: this spare goes, and the next does not rehearse."""
        if not ended.wait(WARM_UP_LIMIT_S):
            self.member.send("cold")
            time.sleep(1.0)
            self.member.fence()

    def _train(self, message: Message) -> tuple[Any] | None:
        """One generation: its result where the run is finished, None where it broke."""
        try:
            return self._train_one(message)
        except GenerationOverError:  # it came while the generation was being left already
            self.groups.let_go()
        finally:
            self.member.now.rank, self.member.now.saving = None, False
        return None

    def _train_one(self, message: Message) -> tuple[Any] | None:
        global _current  # noqa: PLW0603 - `Resumable` is made deep inside the user's loop
        member, standing = self.member, self.member.now
        begun, gen, rank, nodes = (
            time.monotonic(),
            int(message["gen"]),
            int(message["rank"]),
            unpacked(message["nodes"]),
        )
        standing.gen, standing.rank, standing.world, standing.warm, member.move_asked = (
            gen,
            rank,
            len(nodes),
            True,
            False,
        )
        try:
            check_device()
            self.groups.open(
                gen=gen, rank=rank, world=len(nodes), host=message["host"], port=int(message["port"]), nodes=nodes,
                over=lambda: member.newest_gen > gen,
            )  # fmt: skip
            generation = _current = Generation(
                number=gen, rank=rank, nodes=nodes, begun=begun, group_s=time.monotonic() - begun, member=member,
                groups=self.groups, store=self.store,
            )  # fmt: skip
            standing.seq = lambda: collectives_begun(generation.quiet_groups)
            standing.stance = Stance().look
            standing.record = lambda: flight.keep(self.folder, attempt=f"gen-{gen}", rank=rank)
            with shown(rank=rank, world=len(nodes)):
                result = self.loop(dict(self.config))
            member.send("done")
            return (Ended(len(nodes), result),)
        except HandOverError:
            member.send("handed over", gen=gen)
        except (Exception, GenerationOverError) as error:
            self._end_if_broken(error)
            if member.newest_gen <= gen and not is_network(error):
                raise  # the user's own error: Ray hears of it
            log(f"generation {gen}, rank {rank}: {type(error).__name__}: {str(error).partition(chr(10))[0]}")
            # frames hold the old model and optimizer: a GPU has no room for two
            traceback.clear_frames(error.__traceback__)
            if member.newest_gen <= gen:
                member.send("broke", gen=gen)
        finally:
            standing.seq, standing.stance, standing.record, _current = (lambda: 0), (lambda _: {}), dict, None
            self.groups.let_go()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return None


def is_network(error: BaseException) -> bool:
    """Whether an error is what a lost peer looks like, in it or in what caused it."""
    cause: BaseException | None = error
    while cause is not None:
        text = str(cause)
        if MARK in text:
            return False
        names_it = isinstance(cause, RuntimeError) and any(word in text for word in _NETWORK)
        if (isinstance(cause, _NETWORK_ERRORS) or names_it) and not of_user(cause):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def survive(loop: Callable[[dict[str, Any]], Any], plan: Plan) -> Callable[[dict[str, Any]], Any]:
    """The user's loop, made to outlive its peers."""

    def run(config: dict[str, Any]) -> Any:
        return Survivor(
            loop,
            config,
            plan,
            node=str(ray.util.get_node_ip_address()),
            order=ray.train.get_context().get_world_rank(),
            group=ray.train.get_context().get_world_size(),
            find=lambda: ray.get(plan.coordinator.address.remote(), timeout=FIND_S),
            standby=seats.stands_by(),
            seat="" if seats.stands_by() else seats.describe(),
        ).run()

    return run
