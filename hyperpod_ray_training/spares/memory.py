"""The newest steps of this rank, and of one neighbour on another node, in host memory.

After every step a rank copies what the step changed (parameters, optimizer, buffers, schedulers, random numbers) and
sends the copy to its neighbour while the next step computes. When a rank is lost the survivors still hold a step that
is whole: at most the step under way is done again. When a rank and the node with its copy are lost together, the run
continues from the newest checkpoint.

Two steps of each are kept, four states in all: one that every rank's exchange is known to be over for, and one under
way. The older one is written over when all ranks have said that the newer one has arrived, so that whichever rank is
lost at whatever moment, one of the two is whole.

How often depends on what a copy costs: `memory_every_steps` at least, and as seldom as keeps the time that steps wait
below `memory_overhead` of them (`Neighbour.stretch`, the same on every rank).

Where another rank on another node holds the same shard anyway (a replica of HSDP's, or of DDP's), only what is this
rank's own is sent: random numbers, the place in the data, buffers, the state by name. The rest comes from the replica.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from hyperpod_ray_training.errors import InputError
from hyperpod_ray_training.hardware import training_begins
from hyperpod_ray_training.journal import log
from hyperpod_ray_training.settings import Settings
from hyperpod_ray_training.spares import host_memory as room
from hyperpod_ray_training.spares.neighbour import (
    Inventory,
    Neighbour,
    neighbour_distance,
    newest_whole,
    replicas_among,
)
from hyperpod_ray_training.spares.sealed import gathered_messages, prove
from hyperpod_ray_training.spares.snapshot import Snapshot, counts
from hyperpod_ray_training.spares.wires import Ends, Wires
from hyperpod_ray_training.state import TrainingState

if TYPE_CHECKING:
    from hyperpod_ray_training.spares.loop import Generation


class Memory:
    """The newest steps in memory, for one rank of one generation.

    Args:
        snapshot: Takes and loads copies of this rank.
        neighbour: Exchanges them.
        every: A copy after so many steps.
    """

    def __init__(self, *, snapshot: Snapshot, neighbour: Neighbour, every: int) -> None:
        self.snapshot, self.neighbour, self.every = snapshot, neighbour, every
        self.store = neighbour.store
        self._copied: int | None = None
        """Steps that were done at the last copy."""

    @property
    def interval(self) -> int:
        """Steps from one copy to the next, as paced now."""
        return self.every * self.neighbour.stretch

    def due(self, step: int) -> bool:
        """Whether the state after so many steps is kept: the same on every rank.

        Counted from the last copy: multiples of a pace that changes lie close together.
        """
        self._copied = step - 1 if self._copied is None else self._copied
        return step - self._copied >= self.interval

    def finished(self, step: int, *, settle: bool = False) -> None:
        """Keep the state after `step` steps. `settle` waits until the neighbour has it too."""
        self.neighbour.stepped()
        if self.due(step) or settle:
            self._copied = step
            self.neighbour.settle()  # its buffers are free then
            buffer = self.snapshot.take(step, self.store)
            if counts(buffer):
                self.store.put(self.neighbour.rank, step, buffer)
            self.neighbour.send(step, buffer, pending=self.snapshot.pending)
        if settle:
            self.neighbour.settle()

    def restore(self) -> int | None:
        """Load the newest step that is whole somewhere, and return it; None where none is, or a checkpoint is newer."""
        answers = self._answers()
        newest = newest_whole(
            [inventory for inventory, _, _, _ in answers],
            owned=[own_keys for _, own_keys, _, _ in answers],
            replicas=self.neighbour.replicas,
        )
        self.store.saved_step = max(saved for _, _, saved, _ in answers)
        self.neighbour.pacing.take_up(max(stretch for _, _, _, stretch in answers))
        if newest is None or newest[0] < self.store.saved_step:
            self.store.only(-1, set())
            return None
        step, sources = newest
        copy = self.neighbour.restore(step, sources)
        problem: Exception | None = None
        try:
            self.snapshot.load(copy)
        except Exception as error:  # whatever it is, a checkpoint is another way
            problem = error
            log(f"memory: the copy of step {step} cannot be loaded ({type(error).__name__}: {error})")
        if not _on_any_rank(problem is not None, group=self.neighbour.group, world=self.neighbour.world):
            return step
        self.store.only(-1, set())
        if self.store.saved_step < 0:
            raise RuntimeError(f"the copy of step {step} cannot be loaded, and there is no checkpoint") from problem
        self.snapshot.state.forget()
        return None

    def _answers(self) -> list[tuple[Inventory, Inventory, int, int]]:
        """Of each rank: the copies and the own parts it holds, the newest step it knows to be saved, the last pace."""
        store = self.store
        answer = json.dumps([store.inventory(), sorted(store.own), store.saved_step, store.stretch]).encode()
        world = self.neighbour.world
        messages = [answer] if world < 2 else gathered_messages(answer, group=self.neighbour.group, world=world)
        return [
            ([(int(owner), int(step)) for owner, step in held], [(int(owner), int(step)) for owner, step in parts],
             int(saved), int(stretch))
            for held, parts, saved, stretch in map(json.loads, messages)
        ]  # fmt: skip


def _on_any_rank(on_this_rank: bool, *, group: dist.ProcessGroup | None, world: int) -> bool:
    flag = torch.tensor([int(on_this_rank)])
    if world > 1:
        dist.all_reduce(flag, op=dist.ReduceOp.MAX, group=group)
    return bool(flag)


def memory_of(
    generation: Generation, state: TrainingState, settings: Settings, *, quiet: dist.ProcessGroup | None
) -> Memory | None:
    """The memory of this rank in a generation; None where the run keeps no copies.

    Args:
        generation: Under way.
        state: Of this rank.
        settings: Of the run.
        quiet: The group of saves.

    Raises InputError where the copies for spares do not fit this node, ForeignError where a rank is not of this run.
    """
    # copies may be slow, and are skipped then; a peer that is lost is seen by others
    limit = timedelta(seconds=settings.checkpoint_group_timeout_s)
    group = dist.new_group(backend="gloo", timeout=limit)
    # a save and a copy run beside the loop and may be slow: no sign of a hang
    generation.quiet_groups = {quiet, group}
    training_begins()
    if not settings.memory_every_steps:
        return None
    replicas = replicas_among(state, generation.nodes) or ()
    secret = generation.member.token
    prove(group, secret=secret, about=f"copies of generation {generation.number}", rank=state.rank, world=state.world)
    snapshot = Snapshot(state, replicas=bool(replicas), secret=secret)
    refusal = ""
    try:
        room.check(
            snapshot.expected_bytes(), nodes=generation.nodes, rank=state.rank, replicas=bool(replicas),
            held=generation.store.bytes, tell=generation.number == 0 and state.rank == 0,
        )  # fmt: skip
    except InputError as error:
        if settings.spares:  # asked for; else they come with the standbys, and a run trains without them
            raise
        refusal = str(error)
    if not settings.spares and _on_any_rank(bool(refusal), group=group, world=state.world):
        if refusal:
            log(f"no copies in memory, a lost rank goes back to the checkpoint: {refusal}")
        return None
    neighbour = Neighbour(
        store=generation.store.of(state.world), group=group, nodes=generation.nodes, rank=state.rank,
        replicas=replicas, share=settings.memory_overhead, steps=settings.memory_every_steps,
        pinned=state.device.type == "cuda", limit=limit,
        wires=_wires(generation, state, group=group, limit=limit) if state.world > 1 else None,
    )  # fmt: skip
    return Memory(snapshot=snapshot, neighbour=neighbour, every=settings.memory_every_steps)


def _wires(generation: Generation, state: TrainingState, *, group: dist.ProcessGroup, limit: timedelta) -> Wires:
    """Connections with both neighbours, which end with the generation."""
    groups = generation.groups
    ends = Ends(state.rank, state.world, neighbour_distance(generation.nodes), groups.node)
    with groups.noting():
        wires = Wires.open(
            ends, group=group, secret=generation.member.token, limit=limit, check=groups.refuse_if_over
        )  # fmt: skip
    groups.closing.append(wires.close)
    return wires
