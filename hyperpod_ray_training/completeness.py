"""Does a copy hold everything that a step needs of the steps before it? Found out by watching steps of the loop.

A dispatch mode sees every operator of a step: forward, backward and optimizer. Memory that was there before the step
and is read in it, before it is written whole, is state. What has the same content in every watched step is a constant.
What is left must be in the registry, or be declared by the loop as `recomputed`; anything else is lost with a process.

Objects beside tensors are compared between two steps: schedulers, scalers, generators, iterators, and the containers
that the loop's own variables reach.

Later steps are watched in pairs, each about twice as far as the one before: what begins late is state too. A constant
that somebody writes between them is looked at at once.

Under torch.compile a watched step runs without compiling, so its last bits may differ. It is watched by the number of
the step then, and a run that is hit does the same as one that is not.
"""

from __future__ import annotations

import dataclasses
import enum
import gc
import sys
import types
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes, _get_current_dispatch_mode
from torch.utils._pytree import tree_leaves

from hyperpod_ray_training import iterators, variables
from hyperpod_ray_training.attributes import Attributes
from hyperpod_ray_training.communication_hooks import tensors_of
from hyperpod_ray_training.state import GRADIENTS, TrainingState
from hyperpod_ray_training.stateful import InPlace, View, held_by, kept_of, small_of
from hyperpod_ray_training.trees import checksum, elements_of, local
from hyperpod_ray_training.usage import Usage

WATCHED = (2, 3, 5)
"""Steps that are watched, from where a process begins; two in a row, and one apart for what is not each step."""
AGAIN_FROM = 8
"""Later pairs of steps that are watched begin here, and each about twice as far as the one before."""
TRAINER = "trainer"
"""The path of a trainer that has the loop."""
OF_HOOK = "a tensor of a communication hook of DDP"
_MOST_CONSTANTS = 10_000
_FILLS = {"copy_", "zero_", "fill_", "normal_", "uniform_", "random_", "_foreach_zero_", "_foreach_copy_"}

_FILLED_BY_PEERS = {"recv_", "recv_any_source_", "scatter_", "allgather_", "_allgather_base_", "reduce_scatter_",
                    "_reduce_scatter_base_"}  # fmt: skip
"""Collectives whose first argument is written whole: a pipeline's buffers."""


@dataclass(frozen=True)
class Missing:
    """State that no copy holds: where it is, what it is, and the argument that adds it.

    `noted` is plain numbers, which a loop may keep only to show them: a history, a counter.
    """

    path: str
    sort: str
    fix: str
    noted: bool = False


class Step(TorchDispatchMode):
    """Watches one step; `read` are the tensors that it needed of the time before, with checksums as they were read."""

    def __init__(self) -> None:
        super().__init__()
        tensors = [tensor for tensor in _all_tensors() if _has_memory(tensor)]
        # a gradient has no Python object until somebody asks for it
        gradients = [
            tensor.grad for tensor in tensors if tensor.is_leaf and tensor.requires_grad and tensor.grad is not None
        ]
        self.gradients = {_memory(tensor) for tensor in gradients}
        self.before = {_memory(tensor): weakref.ref(tensor) for tensor in (*gradients, *tensors)}
        self._keep = gradients
        self.sums: dict[int, int] = {}
        self.versions = {_memory(tensor): tensor._version for tensor in tensors if not tensor.is_inference()}
        self.read: dict[int, weakref.ref[torch.Tensor]] = {}
        self.shapes: dict[int, tuple[int, ...]] = {}
        self.written: set[int] = set()
        self.held: set[int] = set()
        self.generators: dict[int, tuple[torch.Generator, bytes]] = {}
        self.rewritten: set[int] = set()
        """What the step needed of the time before, and left changed for a later one."""

    def __torch_dispatch__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        namespace, _, name = func._schema.name.partition("::")
        fills = name in (_FILLED_BY_PEERS if namespace == "c10d" else _FILLS)
        filled = len(tree_leaves(args[0])) if args and fills else 0
        # what is read first: a tensor may be an argument and the place of the result
        inputs = tree_leaves((args, {key: value for key, value in kwargs.items() if key != "out"}))
        for index, leaf in enumerate([*inputs, *tree_leaves(kwargs.get("out"))]):
            if isinstance(leaf, torch.Generator) and leaf._cdata not in self.generators:
                self.generators[leaf._cdata] = (leaf, _bytes_of(leaf.get_state()))
            if isinstance(leaf, torch.Tensor) and _has_memory(leaf) and leaf.numel():
                memory = _memory(leaf)
                if memory in self.before and memory not in self.read and memory not in self.written:
                    self._meet(memory, leaf, overwritten=index < filled or index >= len(inputs))
        return func(*args, **kwargs)

    def _meet(self, memory: int, leaf: torch.Tensor, *, overwritten: bool) -> None:
        owner = self.before[memory]()
        if owner is None or not _has_memory(owner) or _memory(owner) != memory:
            return  # its memory is somebody else's by now
        if overwritten:
            self.written.add(memory)
            return
        self.read[memory], self.shapes[memory] = self.before[memory], tuple(owner.shape)
        if memory not in self.held:  # what a copy holds need not be a constant
            with _disable_current_modes():
                self.sums[memory] = checksum(owner.detach())

    def ended(self) -> None:
        """The step is over: how its generators were left."""
        self._keep = []
        for memory, total in self.sums.items():
            tensor = self.read[memory]()
            if tensor is None or not _has_memory(tensor) or _memory(tensor) != memory:
                continue
            if self.versions.get(memory, _version(tensor)) != _version(tensor) and checksum(tensor.detach()) != total:
                self.rewritten.add(memory)
        self.left = {key: _bytes_of(generator.get_state()) for key, (generator, _) in self.generators.items()}


@dataclass
class _Constant:
    """A tensor that steps read and that was the same in all that were watched."""

    tensor: weakref.ref[torch.Tensor]
    total: int
    version: int
    memory: int

    @staticmethod
    def of(tensor: torch.Tensor, total: int) -> _Constant:
        return _Constant(weakref.ref(tensor), total, _version(tensor), _memory(tensor))

    def written(self) -> bool:
        """Whether somebody has written it since, or has given the tensor other memory."""
        tensor = self.tensor()
        return tensor is not None and _has_memory(tensor) and (
            _version(tensor) != self.version or _memory(tensor) != self.memory
        )  # fmt: skip


@dataclass
class Completeness:
    """Watches the first steps of a process and names what no copy holds.

    Args:
        state: The registry.
        recomputed: What the loop declares as no state: objects, or names of its variables.
        quiesce: Waits until no other thread of the run makes objects. A walk of the heap may meet one that is half
            made, and Python documents no protection: https://docs.python.org/3/library/gc.html#gc.get_referrers
        done: Steps of the run that are done.
    """

    state: TrainingState
    recomputed: Sequence[Any] = ()
    quiesce: Callable[[], object] = lambda: None
    first: int = 0
    steps: list[Step] = field(default_factory=list)
    looked: list[dict[str, tuple[Any, Any]]] = field(default_factory=list)
    marks: dict[str, tuple[_Same | None, Any]] = field(default_factory=dict)
    """By path: what was there when it was looked at before, and its fingerprint."""
    start: dict[str, tuple[_Same, Any]] = field(default_factory=dict)
    """The same, before the first step of this process."""
    beside: Mapping[str, Any] = field(default_factory=dict)
    """Objects by path that the loop's variables do not reach, such as the callbacks of a trainer."""
    usage: Usage | None = None
    names: frozenset[str] = frozenset()
    """The tensors at the newest save."""
    named: set[str] = field(default_factory=set)
    """What has been named already."""
    through: str = ""
    """The call of an adapter that takes `extra=` in the place of `Resumable`."""
    fetches_by_itself: bool = False
    """Whether another trainer has the iterators of the data, whose place the run keeps."""
    drawn_by_run: list[Any] = field(default_factory=list)
    """Iterators whose place the run keeps."""
    places: list[dict[int, tuple[Any, Any]]] = field(default_factory=list)
    """Of each watched step, where iterators stood when it began."""
    constants: dict[int, _Constant] = field(default_factory=dict)
    """By the tensor's identity."""
    _saved_since: bool = False
    """Whether a save was made since objects were looked at."""
    _pending: list[Missing] = field(default_factory=list)
    """What the beginning of a step has shown."""
    _strangers: set[int] = field(default_factory=set)
    """Optimizers with a state, which nobody has given."""
    _stranger_since: bool = False
    """Whether one was met for the first time: the next two steps say whether it is state."""
    _handed: set[int] = field(default_factory=set)
    """Memory of the batches that came since the step before ended."""
    _late: bool = False
    """Whether the pair under way is a later one."""
    _at_once: int = -1
    """The step from which a pair is watched because a constant was written."""
    _under_way: Step | None = None
    _stance: Any = None

    def begin(self, step: int) -> None:
        """The loop begins, or continues, at this step."""
        self.first = step

    def noticed(self, step: int, names: frozenset[str]) -> None:
        """These tensors are about to be saved after so many steps: where they are others, steps are watched again."""
        names = frozenset(name for name in names if not name.startswith(f"{GRADIENTS}."))
        if self.over and self.names and names != self.names and not _compiled():
            self.state.proved, self.first = False, step - WATCHED[0]
        if self.over:
            self.names = names
        self._saved_since = True

    @property
    def over(self) -> bool:
        """Whether all steps to be watched have been, here or where the state comes from."""
        return self.state.proved

    def step_begins(self, step: int, frames: list[types.FrameType]) -> None:
        """Watch it, where it is one to watch."""
        if _get_current_dispatch_mode() is not None:
            return
        # a process that was restored has compiled nothing yet
        compiled = self.state.compiled = self.state.compiled or _compiled()
        number = step if compiled else step - self.first
        if step == self.first and not self.over:
            self.start = {path: (_Same(value), mark) for path, (value, mark) in self._reached(frames).items()}
        if not self._is_watched(number, step, compiled=compiled):
            if self._saved_since:
                self._saved_since = False
                self._pending = self._objects(self._reached(frames))
            return
        self.quiesce()
        self.state.named()  # frees what FSDP2 has gathered
        self._saved_since = False
        self.looked.append(self._reached(frames))
        self.places.append({} if self.fetches_by_itself else iterators.at_work(self.drawn_by_run, variables.foreign))
        self._stance = torch.compiler.set_stance("force_eager") if compiled else None
        self._under_way = Step()
        self._under_way.written |= self._handed
        self._under_way.held = self._held_memories()  # a step may put another tensor in the place of one
        self._under_way.__enter__()

    def _is_watched(self, number: int, step: int, *, compiled: bool) -> bool:
        """Whether this step is one of the first to be watched, or of a later pair."""
        if compiled:  # wherever the run was hit: a watched step may have other bits
            pair = _begins_pair(number)
            watched = pair or number in WATCHED or _begins_pair(number - 1)
            if pair or (not watched and number > WATCHED[-1]):
                self._forget_steps()
            self._late = self._late or pair
            return watched
        if not self.over and number == WATCHED[len(self.steps)]:
            return True
        if self.steps and not self._late:
            return False
        pair = _begins_pair(number) or step == self._at_once
        if self.steps and not pair:
            return True  # the second of a pair
        if pair:
            self._forget_steps()
            self._late = True
        return pair

    def _forget_steps(self) -> None:
        """The tensors and objects of the loop are let go."""
        self.steps, self.looked, self.places, self._late, self._at_once = [], [], [], False, -1

    def draws(self, iterator: Any) -> None:
        """The run draws batches from this iterator, and knows its place."""
        self.drawn_by_run = [*self.drawn_by_run[-3:], iterator]

    def handed(self, batch: Any) -> None:
        """The run hands this batch to the loop, and would again."""
        tensors = [*tree_leaves(batch), *held_by(batch)]
        memories = {_memory(tensor) for tensor in tensors if isinstance(tensor, torch.Tensor) and _has_memory(tensor)}
        if self._under_way is not None:
            self._under_way.written |= memories
            if self.fetches_by_itself:  # it has looked at its labels already
                for memory in memories:
                    self._under_way.read.pop(memory, None)
                    self._under_way.sums.pop(memory, None)
        if self.fetches_by_itself:
            self._handed = memories  # of the step to come

    def abandon(self) -> None:
        """The loop is left within a step."""
        step, self._under_way = self._under_way, None
        if step is not None and _get_current_dispatch_mode() is step:
            step.__exit__(None, None, None)
        if self._stance is not None:
            self._stance.__exit__(None, None, None)
            self._stance = None

    def step_ended(self, step: int = -1) -> list[Missing]:
        """What is missing, once two steps have been watched; the same things are not named again.

        Args:
            step: The step that has ended.
        """
        watched = self._under_way
        self.abandon()
        if watched is None:
            return self._rewritten(step)
        watched.ended()
        self.steps.append(watched)
        if len(self.steps) < 2:
            if not self.marks:
                self._objects(self.looked[-1])
            return []
        if not self._late:
            self.state.proved = len(self.steps) == len(WATCHED)
        missing = self._missing()
        if self._late or self.over:
            self._forget_steps()
        return missing

    def _rewritten(self, step: int) -> list[Missing]:
        """A constant that somebody has written since: the next two steps say whether it is state."""
        pending, self._pending = self._first_named(self._pending), []
        if self._at_once > step or self.steps:
            return pending
        written = [key for key, constant in self.constants.items() if constant.written()]
        stranger, self._stranger_since = self._stranger_since, False
        if not written and not stranger:
            return pending
        if not _compiled():
            self._at_once = step + 1
            return pending
        missing: list[Missing] = []
        for key in written:
            tensor = self.constants.pop(key).tensor()
            if tensor is not None:
                path, sort = _owned_elsewhere(tensor)
                missing.append(Missing(path, sort, _named(tensor, (path, sort)).fix, noted=True))
        return pending + self._first_named(missing)

    # ---- what is missing ----

    def _missing(self) -> list[Missing]:
        oldest, newest = self.steps[0], self.steps[-1]
        held = self.state.held()
        excused = [value for excuse in self.recomputed if not isinstance(excuse, str) for value in held_by(excuse)]
        memories = self._held_memories() | newest.held
        gradients = {_memory(value.grad): value for value in self.state.model.parameters()
                     if value.grad is not None and _has_memory(value.grad)}  # fmt: skip
        live = any(memory in step.gradients for step in self.steps for memory in step.read)
        owners = _owners(self.looked[-1])
        for hook in self.state.hooks.registered():
            owners |= {_memory(tensor): (type(hook).__name__, OF_HOOK) for tensor in tensors_of(hook)}
        missing: dict[tuple[str, str], Missing] = {}
        read = {memory: step.read[memory] for step in self.steps[:-1] for memory in step.rewritten - newest.read.keys()}
        rewritten = {memory for step in self.steps for memory in step.rewritten}
        for memory, reference in (newest.read | read).items():
            was = oldest.before.get(memory)
            # a batch may have the memory of an earlier one, which is gone
            fresh = was is None or (was is not newest.before.get(memory) and was() is None)
            if memory in newest.held or memory in newest.gradients:
                continue
            if self.fetches_by_itself and fresh and memory not in owners:  # what the user's objects have is no batch
                continue
            tensor = reference()
            gone = tensor is None or not _has_memory(tensor) or _memory(tensor) != memory
            if not gone and (memory in memories or memory in gradients):
                continue
            if gone and memory not in newest.read:
                continue  # the newest step shows what becomes of its like
            same = not gone and memory not in rewritten and self._constant(memory, oldest, newest)
            if same and tensor is not None and self._as_ever(tensor, newest.sums.get(memory)):
                continue
            if not gone and tensor is not None and self._of_reducer(tensor):
                continue
            owner = owners.get(memory)
            if owner is not None and any(word in self.recomputed for word in _words(owner[0])):
                continue
            if gone or tensor is None:  # a step has used it up, such as a batch that the step before drew
                owner = owner or ("a tensor of the step before", "a tensor")
                named = _loose(owner[0], newest.shapes[memory])
            else:
                named = _named(tensor, owner)
            missing[named.path, named.sort] = named
        self.state.gradients = live or (self.state.gradients and not self.over)
        for named in [
            *self._generators(held, excused),
            *self._objects(self.looked[-1]),
            *self._set_once(newest, excused),
            *self._iterators(),
            *self._counted_again(),
        ]:
            missing[named.path, named.sort] = named
        return self._first_named(missing.values())

    def _first_named(self, missing: Iterable[Missing]) -> list[Missing]:
        """Those that have not been named before."""
        if self.through:
            missing = [self._for_adapter(value) for value in missing]
        anew = [value for value in missing if value.path not in self.named]
        self.named |= {value.path for value in anew}
        return anew

    def _of_reducer(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is DDP's own map of used parameters, which each backward pass fills again."""
        return tensor.dtype == torch.int32 and any(
            module.find_unused_parameters and tuple(tensor.shape) == (len(module._module_parameters),)
            for module in self.state.model.modules()
            if isinstance(module, DistributedDataParallel)
        )

    def _held_memories(self) -> set[int]:
        held = [
            *self.state.held(),
            *(value for excuse in self.recomputed if not isinstance(excuse, str) for value in held_by(excuse)),
        ]
        return {_memory(value) for value in held if isinstance(value, torch.Tensor) and _has_memory(value)}

    @staticmethod
    def _constant(memory: int, oldest: Step, newest: Step) -> bool:
        if memory in oldest.sums:
            return oldest.sums[memory] == newest.sums[memory]
        # read for the first time now: a constant if it was there, and nobody has written it since
        return memory in oldest.before and oldest.versions.get(memory, -1) == newest.versions.get(memory, -2)

    def _for_adapter(self, missing: Missing) -> Missing:
        """The fix where an adapter has called `Resumable`."""
        name, *below = missing.path.removeprefix(f"{TRAINER}.").replace("[", ".").replace("(", ".").split(".")
        fills = missing.fix.startswith((f"per_rank={{{TRAINER!r}", "make it in the step")) or " in a " in missing.sort
        if missing.path.startswith(f"{TRAINER}.") and name != "callback_handler" and fills:
            # a trainer has the model and the run: nobody can save it whole, and an attribute may be another object next
            if below or missing.sort == "a Values":
                return dataclasses.replace(missing, fix=f"{self.through}(…, per_rank={{{name!r}: {TRAINER}.{name}}})")
            argument = f"{self.through}(…, per_rank={{'kept': {TRAINER}.kept}})"
            fix = f"keep it in Values: {TRAINER}.kept = Values({name}=…), {argument}, and self.kept.{name} in its place"
            return dataclasses.replace(missing, fix=fix)
        if not missing.fix.startswith(("model=", "optimizer=", "extra=", "per_rank=")):
            return missing
        stays = missing.fix.startswith(("per_rank=", "extra="))
        argument = missing.fix if stays else f"extra={{{_words(missing.path)[-1]!r}: {missing.path}}}"
        return dataclasses.replace(missing, fix=f"{self.through}(…, {argument})")

    def _as_ever(self, tensor: torch.Tensor, total: int | None) -> bool:
        """Whether a tensor that stayed the same in these steps is what it was in those before; it is remembered."""
        if total is None:
            return True
        before = self.constants.get(id(tensor))
        if before is not None and before.tensor() is tensor and before.total != total:
            return False
        if len(self.constants) < _MOST_CONSTANTS:
            self.constants[id(tensor)] = _Constant.of(tensor, total)
        return True

    def _generators(self, held: Iterable[Any], excused: Iterable[Any]) -> Iterator[Missing]:
        default = [torch.default_generator, *(torch.cuda.default_generators if torch.cuda.is_available() else ())]
        # an operator gets another Python object for the same generator
        accounted = {
            generator._cdata for generator in [*held, *excused, *default] if isinstance(generator, torch.Generator)
        }
        before, after = self.steps[0], self.steps[1]
        paths = {
            value._cdata: path for path, (value, _) in self.looked[-1].items() if isinstance(value, torch.Generator)
        }
        for key, (_generator, state) in after.generators.items():
            # one that is seeded again in each step is no state: it does not continue where the step before left it
            if key not in accounted and before.left.get(key) == state:
                path = paths.get(key, "generator")
                if path not in self.recomputed:
                    name = _words(path)[-1]
                    yield Missing(path, "a torch.Generator", f"per_rank={{{name!r}: {path}}}")

    def _reached(self, frames: list[types.FrameType]) -> dict[str, tuple[Any, Any]]:
        self.usage = Usage(frames, variables.of_user)
        modules = {id(module) for module in self.state.model.modules()}
        return variables.reached(frames, modules_held=modules, beside=self.beside)

    def _objects(self, after: Mapping[str, tuple[Any, Any]]) -> list[Missing]:
        """What is there in the place of what was looked at before, with another content, and in nobody's care."""
        before, self.marks = self.marks, {}
        accounted = _ids(self.state, self.recomputed)
        samplers = {id(sampler) for sampler in _samplers_of(self.state)}
        carers = [path for path, (holder, _) in after.items()
                  if (id(holder) in accounted or id(holder) in samplers) and not _is_scalar(holder)]  # fmt: skip
        missing = self._strangers_in(after, accounted)
        for path, (value, mark) in after.items():
            unseen = iterators.shows_nothing(value) and not variables.is_object(value)
            reference, was = before.get(path, (None, mark))
            self.marks[path] = (_Same(value), was if path in before else mark)
            words = _words(path)
            if (id(value) in accounted and not _is_scalar(value)) or any(word in self.recomputed for word in words):
                continue
            if path not in before or path in self.recomputed or (self.usage is not None and self.usage.from_run(path)):
                continue
            replaced = not _is_scalar(value) and reference is not None and reference.is_not(value)
            # the steps' own operators show a tensor that is replaced, and nothing shows an array
            array = replaced and isinstance(value, np.ndarray)
            noted = variables.only_noted(value) or unseen or _is_scalar(value) or array
            if (was == mark and not unseen) or (replaced and not noted):
                self.marks[path] = (_Same(value), mark)
                continue
            if any(_cares(after[carer][0], carer, path, samplers) for carer in carers):
                continue
            if missing and any(path.startswith((f"{gap.path}[", f"{gap.path}.", f"{gap.path}(")) for gap in missing):
                continue
            shown = self.usage is not None and self.usage.only_shown(path)
            fix = variables.fix_for(path, value, after)
            if replaced and path.isidentifier():  # the object that is given now is another one in the next step
                fix = _loose(path, ()).fix
            noted = shown and (noted or isinstance(value, (list, dict, deque, set)))
            missing.append(Missing(path, f"a {type(value).__name__}", fix, noted))
        return missing

    def _set_once(self, newest: Step, excused: Iterable[Any]) -> Iterator[Missing]:
        """Real numbers that the first steps have set, and none since: a restored process would set them by its own."""
        start, self.start = self.start, {}
        accounted = _ids(self.state, self.recomputed) | {id(value) for value in excused}
        before, after = self.looked[-2], self.looked[-1]
        for path, (value, mark) in after.items():
            stays = path in before and before[path][1] == mark and (_is_scalar(value) or before[path][0] is value)
            if not stays or not _is_data(value, newest) or any(word in self.recomputed for word in _words(path)):
                continue
            reference, was = start.get(path, (None, mark))
            unset = was == repr(None)
            filled = reference is not None and was != mark and (_is_scalar(value) or not reference.is_not(value))
            holder = path.rpartition(".")[0]
            fresh = path not in start and holder in start and not start[holder][0].is_not(after.get(holder, (None,))[0])
            cared = {id(owner) for place, (owner, _) in after.items() if path.startswith((f"{place}.", f"{place}["))}
            cared |= set() if _is_scalar(value) else {id(value)}
            if path.endswith("]") or not (unset or filled or fresh) or accounted & cared:
                continue
            fix = variables.fix_for(path, value, after) if holder else _loose(path, ()).fix
            shown = self.usage is not None and self.usage.only_shown(path)
            yield Missing(path, f"a {type(value).__name__} that the first steps set", fix, shown)

    def _strangers_in(self, after: Mapping[str, tuple[Any, Any]], accounted: Collection[int]) -> list[Missing]:
        """Optimizers of the loop that have got a state since the steps before were watched, and that nobody gave."""
        strangers = [(path, value) for path, (value, _) in after.items() if isinstance(value, torch.optim.Optimizer)
                     and value.state and id(value) not in accounted and id(value) not in self._strangers
                     and not any(word in self.recomputed for word in _words(path))]  # fmt: skip
        self._strangers |= {id(value) for _, value in strangers}
        self._stranger_since = self._stranger_since or bool(strangers)
        if not _compiled():
            return []
        return [
            Missing(path, f"the state of {type(value).__name__}", f"optimizer=[…, {path}]") for path, value in strangers
        ]

    def _counted_again(self) -> Iterator[Missing]:
        """What `enumerate` counts around the run's batches: from its start again, in an epoch that is restored."""
        for name in self.usage.counted_again() if self.usage is not None else ():
            if name not in self.recomputed:
                yield Missing(name, "the number of enumerate", f"use training.position.batch for {name}: it counts on")

    def _iterators(self) -> Iterator[Missing]:
        """Iterators that moved on from one step to the next, and whose place nobody keeps; not those behind others."""
        before, after = self.places[-2], self.places[-1]
        moved = {key: value for key, (value, place) in after.items() if key in before and before[key][1] != place}
        inner = {id(value) for key, outer in moved.items() for value in iterators.behind([outer]) if id(value) != key}
        paths = {id(value): path for path, (value, _) in self.looked[-1].items()}
        accounted = _ids(self.state, self.recomputed)
        for key, value in moved.items():
            path = paths.get(key, iterators.name_of(value))
            if (
                key in paths
                or key in inner
                or key in accounted
                or any(word in self.recomputed for word in _words(path))
            ):
                continue  # one that a variable holds is named with the variables
            yield Missing(path, f"a {type(value).__name__}", iterators.fix_for(path, value))


def _begins_pair(number: int) -> bool:
    """Powers of two, each moved on by ten more: 8, 26, 52, 94; so that every rhythm of a few steps meets one."""
    power = number.bit_length() - 1
    return number >= AGAIN_FROM and number == 2**power + 10 * (power - 3)


def _version(tensor: torch.Tensor) -> int:
    return -1 if tensor.is_inference() else int(tensor._version)


def _ids(state: TrainingState, recomputed: Iterable[Any]) -> set[int]:
    """Objects that somebody answers for, and what they contain."""
    accounted: set[int] = set()
    pending: list[tuple[Any, int]] = [(member.held if isinstance(member, InPlace) else member, 3)
                                   for member in [*state.extra.values(), *state.per_rank.values()]]  # fmt: skip
    pending += [(member, 3) for member in [*recomputed, *state.hooks.states()]]
    pending += [(value, 2) for sampler in _samplers_of(state) for value in small_of(sampler).values()]
    groups = [named_optimizer.optimizer.param_groups for named_optimizer in state.optimizers.values()]
    pending += [(group, 0) for group in [*groups, *(group for listed in groups for group in listed)]]
    pending += [(named_optimizer.optimizer, 0) for named_optimizer in state.optimizers.values()]
    while pending:
        value, depth = pending.pop()
        if id(value) in accounted or _is_scalar(value):
            continue
        accounted.add(id(value))
        if depth and not isinstance(value, (torch.nn.Module, torch.optim.Optimizer, torch.Tensor, View, Attributes)):
            inner = list(_attributes_of(value).values())
            inner += list(value) if isinstance(value, (list, tuple, deque)) else []
            pending += [(member, depth - 1) for member in inner]
    return accounted


def _attributes_of(value: Any) -> dict[str, Any]:
    """What an object that is saved answers for."""
    if not hasattr(value, "__dict__"):
        return {}
    return dict(vars(value)) if hasattr(type(value), "state_dict") else kept_of(value)


def _samplers_of(state: TrainingState) -> list[Any]:
    return [sampler for samplers in state.position.samplers.values() for sampler in samplers]


def _cares(carer: Any, carer_path: str, path: str, samplers: Collection[int]) -> bool:
    """Whether an object that is saved has with it what is at a path below it."""
    if not path.startswith((f"{carer_path}.", f"{carer_path}[")) or isinstance(
        carer, (torch.nn.Module, torch.optim.Optimizer)
    ):
        return False
    if isinstance(carer, (list, tuple, dict, deque)):
        return True
    name = path[len(carer_path) + 1 :].split(".", maxsplit=1)[0].split("[", maxsplit=1)[0]
    if id(carer) in samplers and name in small_of(carer):
        return True
    if not hasattr(type(carer), "state_dict"):
        return name in kept_of(carer)
    return not variables.is_object(carer) or _in_state(carer, name)


def _in_state(carer: Any, name: str) -> bool:
    """Whether what an object of the user's says of its state may have an attribute in it: by its name, or its value."""
    saved, value = carer.state_dict(), getattr(carer, name, None)
    if not isinstance(saved, Mapping) or not _is_scalar(value) or isinstance(value, enum.Enum):
        return True
    leaves = [leaf for leaf in tree_leaves(dict(saved)) if not isinstance(leaf, bool)]
    if any(not isinstance(leaf, (int, float, type(None))) for leaf in leaves):
        return True  # in words or in bytes, it may have anything
    return any(str(key).strip("_") == name.strip("_") for key in saved) or any(leaf == value for leaf in leaves)


def _is_data(value: Any, step: Step) -> bool:
    """Whether a value is of real numbers, which may be of a batch; of tensors, those alone that the step has read."""
    for part in elements_of(value):
        if isinstance(part, torch.Tensor):
            if part.is_floating_point() and _has_memory(part) and _memory(part) in step.read:
                return True
        elif isinstance(part, float) or (isinstance(part, np.ndarray) and part.dtype.kind == "f"):
            return True
    return False


def _is_scalar(value: Any) -> bool:
    """Whether a value is the same object wherever Python needs an equal one."""
    return value is None or isinstance(value, (int, float, str, bytes, enum.Enum))


class _Same:
    """Tells an object from another without keeping it; one that has come to its place may pass for it."""

    def __init__(self, value: Any) -> None:
        self.id = id(value)

    def is_not(self, value: Any) -> bool:
        """Whether it is another."""
        return self.id != id(value)


def _owners(reached: Mapping[str, tuple[Any, int]]) -> dict[int, tuple[str, str]]:
    """Of each memory that the loop's variables reach: the path, and the sort of what owns it."""
    owners: dict[int, tuple[str, str]] = {}

    def note(tensor: Any, path: str, sort: str) -> None:
        if isinstance(tensor, torch.Tensor) and _has_memory(tensor):
            owners.setdefault(_memory(tensor), (path, sort))

    for path, (value, _) in reached.items():
        if isinstance(value, torch.optim.Optimizer):
            for slots in value.state.values():
                for leaf in tree_leaves(dict(slots)):
                    note(leaf, path, f"the state of {type(value).__name__}")
            for group in value.param_groups:
                for parameter in group["params"]:
                    note(parameter, path, f"a parameter of {type(value).__name__}")
        elif isinstance(value, torch.nn.Module):
            for name, tensor in (*value.named_parameters(), *value.named_buffers()):
                note(tensor, f"{path}.{name}", f"a tensor of {type(value).__name__}")
    for path, (value, _) in reached.items():
        note(value, path, "a tensor")
        if isinstance(value, (list, tuple, deque, dict)):
            for element in elements_of(value):
                note(element, path, f"a tensor in a {type(value).__name__}")
    return owners


def _named(tensor: torch.Tensor, owner: tuple[str, str] | None) -> Missing:
    if owner is None:
        owner = _owned_elsewhere(tensor)
    path, sort = owner
    if sort == OF_HOOK:
        return Missing(path, sort, "a hook that keeps no tensors: DDP orders its buckets again in a restored process")
    if sort.startswith(("the state of", "a parameter of")):
        return Missing(path, sort, f"optimizer=[…, {path}]")
    if sort.startswith("a tensor of"):
        module = path.partition(".")[0]
        return Missing(module, sort, f"model=[…, {module}]")
    if sort.startswith("a tensor in") and not sort.endswith("tuple"):
        return Missing(path, sort, f"per_rank={{{_words(path)[-1]!r}: {path}}}")
    return _loose(path, tuple(tensor.shape))


def _loose(path: str, shape: tuple[int, ...], sort: str = "a tensor") -> Missing:
    name = next((word for word in reversed(_words(path)) if word.isidentifier()), "x")
    return Missing(
        path, f"{sort} {list(shape)}",
        "make it in the step that uses it, or keep it in Values: "
        f"kept = Values({name}=…), per_rank={{'kept': kept}}, and "
        f"kept.{name} in its place",
    )  # fmt: skip


def _owned_elsewhere(tensor: torch.Tensor) -> tuple[str, str]:
    """Of a tensor that the loop's variables do not reach: who has it, as far as that can be seen."""
    for holder in gc.get_objects():
        if isinstance(holder, torch.optim.Optimizer):
            for slots in holder.state.values():
                if any(leaf is tensor for leaf in tree_leaves(dict(slots))):
                    return type(holder).__name__, f"the state of {type(holder).__name__}"
        elif isinstance(holder, torch.nn.Module):
            for name, registered in (*holder._parameters.items(), *holder._buffers.items()):
                if registered is tensor:
                    return f"{type(holder).__name__}.{name}", f"a tensor of {type(holder).__name__}"
    for holder in gc.get_referrers(tensor):
        if isinstance(holder, dict):
            name = next((key for key, value in holder.items() if value is tensor and isinstance(key, str)), None)
            if name is not None and not name.startswith("_"):
                return name, "a tensor"
    return "a tensor without a name", "a tensor"


def _words(path: str) -> list[str]:
    return path.replace("[", ".").replace("]", "").replace("'", "").split(".")


def _all_tensors() -> list[torch.Tensor]:
    """Every tensor that Python knows of."""
    is_tensor: dict[type, bool] = {}
    tensors = []
    for candidate in gc.get_objects():
        sort = type(candidate)
        matches = is_tensor.get(sort)
        if matches is None:
            matches = is_tensor[sort] = issubclass(sort, torch.Tensor)
        if matches:
            tensors.append(candidate)
    return tensors


def _compiled() -> bool:
    """Whether torch.compile has compiled something in this process."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return dynamo is not None and bool(dynamo.counters["frames"])


def _has_memory(tensor: Any) -> bool:
    try:
        part = local(tensor)
        return not part.is_meta and part.untyped_storage().nbytes() > 0
    except Exception:  # a tensor without storage: sparse, fake, or of another library
        return False


def _memory(tensor: torch.Tensor) -> int:
    return int(local(tensor).untyped_storage()._cdata)


def _bytes_of(tensor: torch.Tensor) -> bytes:
    with _disable_current_modes():
        return bytes(tensor.cpu().numpy().tobytes())
