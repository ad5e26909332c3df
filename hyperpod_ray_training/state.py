"""What a run must keep from step to step: one registry, read by the checkpoints and by the copies in memory.

Tensors have names, `SECTION.NAME`: `model` (parameters and persistent buffers), `buffers` (the others), `optimizer`,
`gradients` (where the loop keeps them over a step) and `extra`. What is no tensor is in `trees`, one for each optimizer
and each state by name, with marks where tensors belong.

Random numbers, the place in a loader that knows its own, and `per_rank` are different on each rank.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parameter import is_lazy

from hyperpod_ray_training.attributes import Attributes
from hyperpod_ray_training.batches import Position
from hyperpod_ray_training.communication_hooks import CommunicationHooks
from hyperpod_ray_training.errors import InputError
from hyperpod_ray_training.optimizers import OptimizerState, optimizers_of
from hyperpod_ray_training.stateful import held_by, stateful
from hyperpod_ray_training.trees import Mark, join, sharded, split

MODEL, BUFFERS, OPTIMIZER, GRADIENTS, EXTRA = "model", "buffers", "optimizer", "gradients", "extra"
_MODULES = "(modules)"
"""Name of the tree of what modules save beside parameters and buffers (`get_extra_state`, packed weights)."""
ATTRIBUTES = "(attributes)"
"""Name of the tree of what has changed in the attributes of modules and optimizers; older checkpoints have none."""
_HOOKS = "(hooks)"
"""Name of the states of DDP's communication hooks; a checkpoint of a model without one has none."""
_WRAPPED = {"_orig_mod", "_checkpoint_wrapped_module"}


@dataclass
class Content:
    """A moment of the state: tensors by name (the live ones, not copies), and trees."""

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    trees: dict[str, Any] = field(default_factory=dict)


class TrainingState:
    """The live objects of one rank.

    Args:
        model: The module as the loop uses it, or several in a mapping or list.
        optimizer: Its optimizer, several, or a container of them.
        extra: Further state by name; optimizers among it count as such.
        per_rank: State by name that each rank has its own of.
        rank: This rank.
        world: Number of ranks.
    """

    def __init__(
        self,
        *,
        model: Any,
        optimizer: Any,
        extra: Mapping[str, Any],
        per_rank: Mapping[str, Any],
        rank: int,
        world: int,
    ) -> None:
        self.model = module_of(model)
        refuse_sharded_by_fsdp1(self.model)
        optimizers = optimizers_of(optimizer)
        named = {name: value for name, value in extra.items() if _is_optimizer(value)}
        for name, value in named.items():
            ids = {id(single) for single in optimizers.values()}
            optimizers |= {name if not inner else f"{name}-{inner}": single
                           for inner, single in optimizers_of(value).items() if id(single) not in ids}  # fmt: skip
        self.optimizers = {
            name: OptimizerState(single, f"{OPTIMIZER}.{name}" if name else OPTIMIZER)
            for name, single in optimizers.items()
        }
        rest = {name: value for name, value in extra.items() if name not in named}
        generators = {name: value for name, value in rest.items() if isinstance(value, torch.Generator)}
        self.extra: dict[str, Stateful] = {
            name: stateful(f"extra[{name!r}]", value) for name, value in rest.items() if name not in generators
        }
        # a generator is of one process, wherever it was named
        self.per_rank: dict[str, Stateful] = {
            name: stateful(f"per_rank[{name!r}]", value) for name, value in {**generators, **per_rank}.items()
        }
        self.hooks = self.per_rank[_HOOKS] = CommunicationHooks(self.model)
        self.rank, self.world, self.position = rank, world, Position()
        self.gradients = True
        """Whether gradients outlive a step; until a watched step has shown that they do not, they count as state."""
        self.proved = False
        """Whether watched steps have shown that nothing is missing, here or in the process that a copy is of."""
        self.compiled = False
        """Whether torch.compile has compiled something, here or in the process that a state is of."""
        parameter = next(self.model.parameters(), None)
        if parameter is None:
            raise InputError("model: no parameters", expected="a module that is trained", fix="give the model itself")
        self.device = parameter.device
        self.seed = torch.initial_seed()
        modules = _BesideTensors(self.model)
        if modules.names:
            self.extra[_MODULES] = modules
        self.attributes = Attributes(
            lambda: _clean(self.model), {name: held.optimizer for name, held in self.optimizers.items()}
        )
        self.extra[ATTRIBUTES] = self.attributes

    # ---- what there is ----

    def named(self) -> dict[str, torch.Tensor]:
        """Every parameter and buffer of the model by its full name; a shared one under each of its names."""
        for module in self.model.modules():
            if isinstance(module, FSDPModule):  # a forward without a backward leaves the root unsharded
                module.reshard()
        named: dict[str, torch.Tensor] = {}
        for prefix, module in _clean(self.model):
            for name, parameter in module._parameters.items():
                if parameter is not None:
                    named[f"{MODEL}.{prefix}{name}"] = parameter
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    section = BUFFERS if name in module._non_persistent_buffers_set else MODEL
                    named[f"{section}.{prefix}{name}"] = buffer
        return named

    def trained(self) -> list[torch.Tensor]:
        """The parameters of the optimizers, each once."""
        return list(
            {
                id(parameter): parameter
                for optimizer in self.optimizers.values()
                for parameter in optimizer.parameters()
            }.values()
        )

    def group_sizes(self) -> list[list[int]]:
        """Of each optimizer, the parameters in each group."""
        return [
            [len(group["params"]) for group in optimizer.optimizer.param_groups]
            for optimizer in self.optimizers.values()
        ]

    def parameter_shapes(self) -> dict[str, tuple[int, ...] | None]:
        """Every parameter's shape by name; None of a lazy one that has none yet."""
        return {f"{MODEL}.{prefix}{name}": None if is_lazy(parameter) else tuple(parameter.shape)
                for prefix, module in _clean(self.model) for name, parameter in module._parameters.items()
                if parameter is not None}  # fmt: skip

    def content(self) -> Content:
        """This moment. Names come in the same order in every process that runs the same script."""
        content, visited = Content(), set()
        parameter_names: dict[int, str] = {}
        for name, tensor in self.named().items():
            if id(tensor) not in visited:
                visited.add(id(tensor))
                parameter_names[id(tensor)] = name.partition(".")[2]
                content.tensors[name] = tensor.detach()
        for name, optimizer in self.optimizers.items():
            named = optimizer.by_name(parameter_names)
            for parameter_name, parameter in named.items():
                if id(parameter) not in visited:  # a parameter that no module has, such as a learned temperature
                    visited.add(id(parameter))
                    content.tensors[f"{optimizer.section}.{parameter_name}"] = parameter.detach()
            content.trees[f"{OPTIMIZER}.{name}"] = optimizer.take(named, content.tensors)
        if self.gradients:
            for name, parameter in self._with_gradients().items():
                if parameter.grad is not None:
                    content.tensors[name] = parameter.grad.detach()
        for name, value in self.extra.items():
            content.trees[f"{EXTRA}.{name}"] = split(value.state_dict(), f"{EXTRA}.{name}", content.tensors)
        return content

    def _with_gradients(self) -> dict[str, torch.Tensor]:
        """The parameters that may have a gradient, by the gradient's name."""
        parameter_names = {id(tensor): name.partition(".")[2] for name, tensor in reversed(self.named().items())}
        parameters = {f"{GRADIENTS}.{name}": parameter for optimizer in self.optimizers.values()
                      for name, parameter in optimizer.by_name(parameter_names).items()}  # fmt: skip
        trainable = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        return {f"{GRADIENTS}.{parameter_names[id(parameter)]}": parameter for parameter in trainable} | parameters

    def held(self) -> list[Any]:
        """Every tensor and generator that a copy has, or that somebody who is asked for a state answers for."""
        everything: list[Any] = [*self.content().tensors.values(), *self.trained()]
        for value in [*self.extra.values(), *self.per_rank.values()]:
            everything += held_by(value)
            everything += held_by(value.state_dict())
        everything += [generator for generators in self.position.generators.values() for generator in generators]
        return everything

    # ---- back ----

    def unlike(self, names: Iterable[str], trees: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> str:
        """What of a saved state does not fit these objects, by name and with the line to change; empty where it fits.

        Args:
            names: Of the saved tensors.
            trees: The saved trees.
            shapes: Of the saved tensors: all parts together.
        """
        names = list(names)
        live = self.named()
        parameter_names = {id(tensor): name.partition(".")[2] for name, tensor in reversed(live.items())}
        problems = [f"{name} is saved, and nothing takes it" for name in names if self._nobody_takes(name, live, trees)]
        saved = set(names)
        groups: dict[int, set[str]] = {}
        for name, tensor in live.items():
            groups.setdefault(id(tensor), set()).add(name)
        problems += [f"{min(alike)} is not saved" for alike in groups.values()
                  if not alike & saved and any(name.startswith(f"{MODEL}.") for name in alike)]  # fmt: skip
        problems += [f"{name} is saved as {list(shapes[name])}, and is {list(live[name].shape)} now" for name in names
                  if name in live and tuple(live[name].shape) != tuple(shapes[name])]  # fmt: skip
        current = {f"{OPTIMIZER}.{name}" for name in self.optimizers} | {f"{EXTRA}.{name}" for name in self.extra}
        problems += [f"{name} is saved, and nothing takes it" for name in trees if name not in current]
        attributes = f"{EXTRA}.{ATTRIBUTES}"
        problems += [f"{name} is not saved" for name in sorted(current) if name not in trees and name != attributes]
        problems += self.attributes.unlike(trees.get(attributes, {}))
        for name, optimizer in self.optimizers.items():
            tree = trees.get(f"{OPTIMIZER}.{name}")
            reason = "" if tree is None else optimizer.unlike(optimizer.by_name(parameter_names), tree)
            problems += [reason] if reason else []
        return "; ".join(problems[:8]) + (f"; and {len(problems) - 8} more" if len(problems) > 8 else "")

    def make_buffers(self, trees: Mapping[str, Any]) -> None:
        """Make the buffers that steps had made when these trees were saved."""
        self.attributes.make_buffers(trees.get(f"{EXTRA}.{ATTRIBUTES}", {}))

    def _nobody_takes(self, name: str, live: Mapping[str, torch.Tensor], trees: Mapping[str, Any]) -> bool:
        section = name.partition(".")[0]
        if section in {MODEL, BUFFERS}:
            return name not in live
        return section not in {OPTIMIZER, EXTRA, GRADIENTS}

    def taker(self, mark: Mark) -> torch.Tensor | None:
        """A live tensor that is laid out over the ranks as the saved one was, for one that is sharded."""
        live = self.named()
        suffix = mark.name.partition(".")[2]
        for name in (mark.name, f"{MODEL}.{suffix}"):
            if isinstance(live.get(name), DTensor):
                return live[name]
        like = [tensor for name, tensor in live.items() if f".{name.partition('.')[2]}." in f".{suffix}."]
        shards = [tensor for tensor in [*like, *live.values()] if isinstance(tensor, DTensor)]
        same = [tensor for tensor in shards if tuple(tensor.shape) == mark.whole]
        return next(iter([*same, *shards]), None)

    def fill(self, content: Content) -> None:
        """Take over a saved moment: tensors are this rank's parts, or sharded as the live ones."""
        live = self.named()
        parameter_names = {id(tensor): name.partition(".")[2] for name, tensor in reversed(live.items())}
        with torch.no_grad():
            for name, tensor in content.tensors.items():
                if name in live:
                    _put(live[name], tensor)
            for name, optimizer in self.optimizers.items():
                named = optimizer.by_name(parameter_names)
                for parameter_name, parameter in named.items():
                    if f"{optimizer.section}.{parameter_name}" in content.tensors:
                        _put(parameter, content.tensors[f"{optimizer.section}.{parameter_name}"])
                tree = content.trees.get(f"{OPTIMIZER}.{name}")
                if tree is not None and not optimizer.unlike(named, tree):
                    optimizer.fill(named, tree, content.tensors)
            for name, parameter in self._with_gradients().items():
                parameter.grad = None
                if name in content.tensors:
                    gradient = torch.empty_like(parameter)
                    _put(gradient, content.tensors[name])
                    parameter.grad = gradient
        for name, value in self.extra.items():
            tree = content.trees.get(f"{EXTRA}.{name}")
            if tree is not None:
                current: dict[str, torch.Tensor] = {}
                split(value.state_dict(), f"{EXTRA}.{name}", current)
                value.load_state_dict(join(tree, self._maker(content.tensors, current)))

    def _maker(
        self, tensors: Mapping[str, torch.Tensor], current: Mapping[str, torch.Tensor]
    ) -> Callable[[Mark], torch.Tensor]:
        """Makes the tensor of a mark; `current` are the tensors that are there."""

        def make(mark: Mark) -> torch.Tensor:
            part, like = tensors[mark.name], current.get(mark.name)
            if mark.device != "cpu" and part.device.type == "cpu":
                part = part.to(self.device if like is None else like.device)
            return sharded(part, mark, like if isinstance(like, DTensor) else self.taker(mark))

        return make

    def forget(self) -> None:
        """Drop what a copy that did not fit may have left in the optimizers."""
        for optimizer in self.optimizers.values():
            optimizer.optimizer.state.clear()

    def unsavable(self) -> list[str]:
        """The arguments whose content pickle refuses, each with its reason."""
        problems = []
        for argument, members in (("extra", self.extra), ("per_rank", self.per_rank)):
            for name, member in members.items():
                try:
                    pickle.dumps(split(member.state_dict(), "", {}))
                except Exception as error:  # an object of somebody's own raises what it likes
                    problems.append(f"{argument}[{name!r}] ({error})")
        return problems

    # ---- of this rank alone ----

    def own(self) -> dict[str, Any]:
        """What this rank alone has."""
        return {
            "position": self.position.own(),
            "compiled": self.compiled,
            "per_rank": {key: self.per_rank[key].state_dict() for key in self._own_names()},
        }

    def _own_names(self) -> list[str]:
        """Names of `per_rank` that there is something of."""
        return [name for name in self.per_rank if name != _HOOKS or self.hooks.states()]

    def shared(self) -> dict[str, int]:
        """The place in the data, and for how many ranks it counts."""
        return self.position.shared() | {"world": self.world}

    def fill_own(self, shared: Mapping[str, int], rank_state: Mapping[str, Any] | None) -> None:
        """Take over the place in the data and, where it fits, what this rank alone has."""
        position = None if rank_state is None else rank_state["position"]
        self.position.restore(shared, position, before=int(shared["world"]), size=self.world)
        self.compiled = self.compiled or bool(rank_state and rank_state.get("compiled"))
        for key, value in self.per_rank.items():
            if rank_state is not None and key in rank_state["per_rank"]:
                value.load_state_dict(rank_state["per_rank"][key])

    def unlike_own(self, rank_state: Mapping[str, Any] | None) -> str:
        """The same as `unlike`, of what this rank alone has."""
        if rank_state is None:
            return ""
        saved, current = set(rank_state["per_rank"]), set(self._own_names())
        problems = [f"per_rank[{name!r}] is saved, and nothing takes it" for name in sorted(saved - current)]
        if _HOOKS in saved & current:
            problems += self.hooks.unlike(rank_state["per_rank"][_HOOKS])
        return "; ".join(problems + [f"per_rank[{name!r}] is not saved" for name in sorted(current - saved)])


def module_of(model: Any) -> nn.Module:
    """A model, or several as one; InputError for what is none."""
    several = list(model.values()) if isinstance(model, Mapping) else model
    if isinstance(several, (list, tuple)) and several and all(isinstance(part, nn.Module) for part in several):
        return nn.ModuleDict(dict(model)) if isinstance(model, Mapping) else nn.ModuleList(several)
    if not isinstance(model, nn.Module):
        raise InputError(
            f"model: {type(model).__name__}", expected="a torch.nn.Module, or several", fix="give the model itself"
        )
    return model


def refuse_sharded_by_fsdp1(model: nn.Module) -> None:
    """InputError for FSDP1, whose parameters are pieces of a flat one that nobody else can read."""
    if any(isinstance(module, FullyShardedDataParallel) for module in model.modules()):
        raise InputError(
            "model: FullyShardedDataParallel (FSDP1), whose state no checkpoint can take up in parts",
            expected="a plain, DDP or FSDP2 module",
            fix="use fully_shard(model) from torch.distributed.fsdp instead of FSDP(model)",
        )


def _is_optimizer(value: Any) -> bool:
    if isinstance(value, torch.optim.Optimizer):
        return True
    return hasattr(type(value), "step") and isinstance(getattr(value, "optimizer", None), torch.optim.Optimizer) and (
        not isinstance(value, torch.optim.lr_scheduler.LRScheduler) and hasattr(value, "param_groups")
    )  # fmt: skip


def _clean(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Every module with the prefix of its names: DDP, torch.compile and checkpointing add no part of their own."""
    done: set[tuple[int, str]] = set()

    def walk(module: nn.Module, prefix: str) -> Iterator[tuple[str, nn.Module]]:
        if (id(module), prefix) in done:
            return
        done.add((id(module), prefix))
        yield prefix, module
        for name, child in module._modules.items():
            if child is not None:
                hidden = name in _WRAPPED or (name == "module" and isinstance(module, DistributedDataParallel))
                yield from walk(child, prefix if hidden else f"{prefix}{name}.")

    return walk(model, "")


def _put(live: torch.Tensor, saved: torch.Tensor) -> None:
    """Content into a live tensor: this rank's part, or a tensor sharded alike."""
    part = live._local_tensor if isinstance(live, DTensor) and not isinstance(saved, DTensor) else live
    part.copy_(saved)


class _BesideTensors:
    """What modules save that is neither parameter nor buffer: `get_extra_state`, packed weights."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.names = list(self._state())

    def _state(self) -> dict[str, Any]:
        plain = {name for name, _ in self.model.named_parameters(remove_duplicate=False)}
        plain |= {name for name, _ in self.model.named_buffers(remove_duplicate=False)}
        inner = self.model.module if isinstance(self.model, DistributedDataParallel) else self.model
        return {name: value for name, value in inner.state_dict().items()
                if name not in plain and f"module.{name}" not in plain}  # fmt: skip

    def state_dict(self) -> dict[str, Any]:
        """By the name that the module gives it."""
        return self._state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Each module takes its own."""
        inner = self.model.module if isinstance(self.model, DistributedDataParallel) else self.model
        inner.load_state_dict(state, strict=False)
