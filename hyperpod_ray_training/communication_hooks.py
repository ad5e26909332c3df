"""The state of DDP's communication hooks, such as the iteration that `PostLocalSGDState` counts: no module has it.

What a hook keeps in tensors is laid out as DDP's buckets are, and a restored process begins with other buckets: its
numbers alone are saved, and a run whose steps read the tensors is refused.
https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from hyperpod_ray_training.trees import elements_of

_PLAIN = (type(None), bool, int, float, str, bytes)


class CommunicationHooks:
    """The states that the hooks of a model were registered with; each rank has its own.

    Args:
        model: Whose DDP modules are asked.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model

    def registered(self) -> Iterator[Any]:
        """The live states, in the order of modules."""
        for module in self.model.modules():
            if isinstance(module, DistributedDataParallel):
                yield from (state for _, state in module._comm_hooks if state is not None)

    def states(self) -> list[Any]:
        """Those that have numbers, such as counts of steps."""
        return [state for state in self.registered() if _counted(state)]

    def state_dict(self) -> list[dict[str, Any]]:
        """Of each its numbers."""
        return [_counted(state) for state in self.states()]

    def unlike(self, saved: list[dict[str, Any]]) -> list[str]:
        """Why saved numbers are of other hooks; empty where they fit."""
        current = self.state_dict()
        if len(saved) != len(current):
            return [f"{len(saved)} communication hooks of DDP with numbers are saved, and the model has {len(current)}"]
        pairs = zip(self.states(), current, saved, strict=True)
        return [
            f"{type(state).__name__}: {', '.join(sorted(fields.keys() ^ old.keys()))} is saved or there, not both"
            for state, fields, old in pairs
            if fields.keys() != old.keys()
        ]

    def load_state_dict(self, saved: list[dict[str, Any]]) -> None:
        """Put back what fits; groups of processes stay."""
        for state, fields in zip(self.states(), saved, strict=False):
            for name in fields.keys() & _counted(state).keys():
                setattr(state, name, fields[name])


def tensors_of(state: Any) -> list[torch.Tensor]:
    """The tensors in an object's attributes and in their containers."""
    attributes = [value for value in _attributes(state).values() if not callable(value)]
    return [element for element in elements_of(attributes) if isinstance(element, torch.Tensor)]


def _counted(state: Any) -> dict[str, Any]:
    return {name: value for name, value in _attributes(state).items() if isinstance(value, _PLAIN)}


def _attributes(state: Any) -> dict[str, Any]:
    """Also of a class with slots."""
    slots = [vars(base).get("__slots__", ()) for base in type(state).__mro__]
    names = [name for listed in slots for name in ([listed] if isinstance(listed, str) else listed)]
    names += getattr(state, "__dict__", {})
    return {name: getattr(state, name) for name in names if hasattr(state, name)}
