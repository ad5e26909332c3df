"""A run's optimizers: one, several, or a container around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.optim import Optimizer

from hyperpod_ray_training.errors import InputError
from hyperpod_ray_training.trees import Mark, join, sharded, split

SAVED_PER_RANK = "consolidate_state_dict"
"""Method of ZeroRedundancyOptimizer, whose ranks keep a part of the state each, by no layout that others can read."""


def optimizers_of(optimizer: Any) -> dict[str, Optimizer]:
    """Every optimizer by name: "" for a single one, else its key, or its place in the list or container."""
    if isinstance(optimizer, Mapping):
        named = {str(name): member for name, wrapper in optimizer.items() for member in _inner(wrapper)}
        if len(named) != sum(len(_inner(wrapper)) for wrapper in optimizer.values()):
            raise _not_one(optimizer, "a mapping with one optimizer under each name")
        return named
    if isinstance(optimizer, (list, tuple)):
        inner = [member for wrapper in optimizer for member in _inner(wrapper)]
    else:
        inner = _inner(optimizer)
    distinct = list({id(member): member for member in inner}.values())
    if len(distinct) == 1:
        return {"": distinct[0]}
    return {str(number): member for number, member in enumerate(distinct)}


def _inner(optimizer: Any) -> list[Optimizer]:
    """The optimizers that step: those that a wrapper holds, else the object itself."""
    if hasattr(optimizer, SAVED_PER_RANK):
        raise InputError(
            f"optimizer: {type(optimizer).__name__}, whose state no checkpoint can take up in parts",
            expected="an optimizer that keeps its state in `.state`",
            fix="shard the model with fully_shard(model), and give the optimizer that it wraps: "
            "optimizer = torch.optim.AdamW(model.parameters())",
        )
    held: list[Optimizer] = []
    for value in vars(optimizer).values() if hasattr(optimizer, "__dict__") else ():
        held += [member for member in _listed(value) if isinstance(member, Optimizer) and member is not optimizer]
    inner = [member for wrapped in held for member in _inner(wrapped)]
    if inner:
        # a wrapper with a state of its own (Lookahead, SAM) counts beside what it wraps, also before it has filled it
        own = isinstance(optimizer, Optimizer) and all(optimizer.state is not member.state for member in inner)
        shares = own and any(optimizer.param_groups is member.param_groups for member in inner)
        return [*inner, optimizer] if own and (optimizer.state or shares) else inner
    if not isinstance(optimizer, Optimizer):
        raise _not_one(optimizer, "a torch.optim.Optimizer, several, or an object that holds them")
    return [optimizer]


def _listed(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    return value if isinstance(value, (list, tuple)) else [value]


def _not_one(optimizer: Any, expected: str) -> InputError:
    return InputError(
        f"optimizer: {type(optimizer).__name__}",
        expected=expected,
        fix="give optimizer=one, optimizer=[one, other] or optimizer={'name': one}",
    )


class OptimizerState:
    """One optimizer's state by the names of its parameters.

    Args:
        optimizer: The optimizer.
        section: First part of the names of its tensors.
    """

    def __init__(self, optimizer: Optimizer, section: str) -> None:
        self.optimizer, self.section = optimizer, section

    def parameters(self) -> list[torch.Tensor]:
        """All of its groups, in order."""
        return [parameter for group in self.optimizer.param_groups for parameter in group["params"]]

    def by_name(self, names: Mapping[int, str]) -> dict[str, torch.Tensor]:
        """Its parameters by the model's names; by place where the model has none for them."""
        named = {}
        for number, group in enumerate(self.optimizer.param_groups):
            for index, parameter in enumerate(group["params"]):
                named[names.get(id(parameter), f"params.{number}.{index}")] = parameter
        return named

    def take(self, named: Mapping[str, torch.Tensor], tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
        """The state as a tree; its tensors go into `tensors`."""
        names = {id(parameter): name for name, parameter in named.items()}
        state = self.optimizer.state
        return {
            "state": {
                name: split(dict(state[parameter]), f"{self.section}.state.{name}", tensors)
                for name, parameter in named.items()
                if parameter in state  # `state[parameter]` would make an entry
            },
            "groups": [
                {key: split(value, f"{self.section}.groups.{number}.{key}", tensors)
                 for key, value in group.items() if key != "params"}
                | {"params": [names[id(parameter)] for parameter in group["params"]]}
                for number, group in enumerate(self.optimizer.param_groups)
            ],
            "other": {
                key: split(value, f"{self.section}.other.{key}", tensors)
                for key, value in state.items()
                if not torch.is_tensor(key)
            },
        }  # fmt: skip

    def unlike(self, named: Mapping[str, torch.Tensor], tree: Mapping[str, Any]) -> str:
        """What of a saved state does not fit this optimizer; empty where it does."""
        groups = [group["params"] for group in tree["groups"]]
        names = {id(parameter): name for name, parameter in named.items()}
        current = [[names[id(parameter)] for parameter in group["params"]] for group in self.optimizer.param_groups]
        lacking = {name for group in groups for name in group} ^ {name for group in current for name in group}
        if lacking:
            return f"{self.section} has other parameters: {', '.join(sorted(lacking)[:5])}"
        if groups != current and [set(group) for group in groups] != [set(group) for group in current]:
            return f"{self.section} has {len(groups)} groups of parameters, and {len(current)} now, or others in each"
        return ""

    def fill(
        self, named: Mapping[str, torch.Tensor], tree: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]
    ) -> None:
        """Take over a saved state, whatever was there; tensors keep the dtype that they were saved in."""
        state = self.optimizer.state
        state.clear()
        for name, slots in tree["state"].items():
            state[named[name]] = join(slots, _maker(tensors, named[name]))
        anywhere = next(iter(named.values()), None)
        for key, value in tree["other"].items():
            state[key] = join(value, _maker(tensors, anywhere))
        for group, saved in zip(self.optimizer.param_groups, tree["groups"], strict=True):
            for key, value in saved.items():
                if key == "params":
                    group["params"] = [named[name] for name in value]
                elif isinstance(value, Mark) and torch.is_tensor(group.get(key)):
                    group[key].copy_(tensors[value.name])  # a compiled step keeps the tensor of the learning rate
                else:
                    group[key] = join(value, _maker(tensors, anywhere))


def _maker(tensors: Mapping[str, torch.Tensor], like: torch.Tensor | None) -> Callable[[Mark], torch.Tensor]:
    """Makes the tensor of a mark, where `like` is and sharded as it is."""

    def make(mark: Mark) -> torch.Tensor:
        part = tensors[mark.name]
        device = like.device if like is not None and mark.device != "cpu" else part.device
        return sharded(part.to(device), mark, like)

    return make
