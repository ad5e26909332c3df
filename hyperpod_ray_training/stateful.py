"""State by name: what has `state_dict` and `load_state_dict`, and the plain objects that have not.

A generator, a list, a dictionary, a deque, an array, a tensor or an object of a class of one's own is filled in place,
so that whoever holds it sees what was restored.
"""

from __future__ import annotations

import collections
import copy
import functools
import io
import itertools
import random
import types
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, MutableSet
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch.distributed.checkpoint.stateful import Stateful

from hyperpod_ray_training.errors import InputError
from hyperpod_ray_training.trees import CONTAINERS, parts_of

_OTHERS = (torch.nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler, torch.amp.GradScaler,
           torch.utils.data.DataLoader, torch.utils.data.Dataset, torch.distributed.ProcessGroup, io.IOBase,
           types.ModuleType, types.FunctionType, types.MethodType, types.GeneratorType)  # fmt: skip
_FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, functools.partial)
_SMALL_BYTES, _MOST_ELEMENTS = 1 << 20, 100_000
_LOOKED_AT = 100
"""Elements of a container that stand for the others."""
_PACKAGE = f"{__name__.partition('.')[0]}."
_FILLED = (random.Random, np.random.Generator, np.random.RandomState, np.ndarray, collections.deque, set)


class InPlace:
    """Gives a plain object the two methods.

    Args:
        held: The object.
        read: Its content.
        write: Puts a content back.
    """

    def __init__(self, held: Any, read: Callable[[], Any], write: Callable[[Any], Any]) -> None:
        self.held, self.read, self.write = held, read, write

    def state_dict(self) -> dict[str, Any]:
        """The content."""
        return {"value": self.read()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put it back."""
        self.write(state["value"])


class View:
    """A state that is read out of an object which holds much more: it answers for what it names alone."""

    def held(self) -> list[Any]:
        """The live tensors that `state_dict` has the content of."""
        return []


class Values:
    """A few numbers or tensors of the loop's own that a checkpoint should hold: sums over an epoch, a best score.

    seen = Values(loss=0.0, samples=0)
    training = Resumable(run, model=model, optimizer=optimizer, per_rank={"seen": seen})
    seen.loss += loss.item()
    """

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"Values has no {name!r}; known: {', '.join(self.__dict__)}")

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__[name] = value

    def state_dict(self) -> dict[str, Any]:
        """All values."""
        return dict(self.__dict__)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over saved values."""
        self.__dict__.clear()
        self.__dict__.update(state)


def stateful(name: str, value: Any) -> Stateful:
    """`value`, or it with the two methods; InputError where its content cannot be read and put back."""
    if hasattr(type(value), "state_dict") and hasattr(type(value), "load_state_dict"):
        return cast("Stateful", value)
    read, write = _accessors(value)
    if read is None or write is None:
        raise InputError(
            f"{name}: {type(value).__name__}",
            expected="an object with state_dict and load_state_dict, a generator, a list, dict, deque or array",
            fix=f"keep it in Values: {name} = Values(value=…), and use {name}.value in the loop",
        )
    return cast("Stateful", InPlace(value, read, write))


def _accessors(  # noqa: PLR0911 - one for each type
    value: Any,
) -> tuple[Callable[[], Any] | None, Callable[[Any], Any] | None]:
    if isinstance(value, torch.Generator):
        return value.get_state, lambda state: value.set_state(state.cpu())
    if isinstance(value, random.Random):
        return value.getstate, value.setstate
    if isinstance(value, np.random.Generator):
        return lambda: value.bit_generator.state, lambda state: setattr(value.bit_generator, "state", state)
    if isinstance(value, np.random.RandomState):
        return value.get_state, value.set_state
    if isinstance(value, torch.Tensor):
        return value.detach, lambda state: _copy(value, state)
    if isinstance(value, np.ndarray):
        return value.copy, lambda state: np.copyto(value, state)
    if isinstance(value, (collections.deque, MutableSequence)):
        return lambda: list(value), lambda state: _refill(value, state, value.extend)
    if isinstance(value, MutableMapping):
        return lambda: dict(value), lambda state: _refill(value, state, value.update)
    if isinstance(value, MutableSet):
        return lambda: set(value), lambda state: _refill(value, state, value.update)  # type: ignore[attr-defined]
    if hasattr(value, "__dict__") and not isinstance(value, (type, *_FUNCTIONS)):
        return lambda: kept_of(value), lambda state: _refilled(value, state)
    return None, None


def kept_of(value: Any) -> dict[str, Any]:
    """The attributes of an object of a class of one's own, without what belongs to others or is built again."""
    return {name: attribute for name, attribute in vars(value).items() if not _of_others(attribute)}


def _of_others(attribute: Any) -> bool:
    """Whether an attribute is no state of its object: a model, an optimizer, a run, a loader, a file, a function."""
    return any(
        isinstance(part, _OTHERS) or (type(part).__module__.startswith(_PACKAGE) and type(part).__name__ != "Values")
        for part in parts_of(attribute, most=_LOOKED_AT)
    )


def small_of(value: Any) -> dict[str, Any]:
    """The attributes that are small enough to be saved with each step: no data."""
    return {name: attribute for name, attribute in kept_of(value).items() if not _is_large(attribute)}


def _is_large(value: Any) -> bool:
    for part in parts_of(value, most=_LOOKED_AT):
        if isinstance(part, (torch.Tensor, np.ndarray)):
            large = int(part.nbytes) > _SMALL_BYTES
        elif isinstance(part, (str, bytes)):
            large = len(part) > _SMALL_BYTES
        else:
            large = isinstance(part, CONTAINERS) and len(part) > _MOST_ELEMENTS
        if large:
            return True
    return False


def state_of_object(value: Any) -> dict[str, Any]:
    """What is small in an object's attributes, as it is at this moment."""
    return {name: _apart(attribute) for name, attribute in small_of(value).items()}


def _apart(value: Any) -> Any:
    if isinstance(value, torch.Generator):
        return GeneratorState(value.get_state())
    return value.detach().clone() if isinstance(value, torch.Tensor) else copy.deepcopy(value)


def _refilled(value: Any, saved: Mapping[str, Any]) -> None:
    for name in kept_of(value).keys() - saved.keys():
        del vars(value)[name]
    put_back(value, saved)


def put_back(value: Any, saved: Mapping[str, Any]) -> None:
    """Put what an object had into its attributes; what it has from others stays."""
    attributes = vars(value)
    for name, content in saved.items():
        attributes[name] = write_in_place(attributes.get(name), content)


@dataclass(frozen=True)
class GeneratorState:
    """What a `torch.Generator` that nobody has made yet continues from."""

    state: torch.Tensor

    def generator(self) -> torch.Generator:
        """One in this state."""
        generator = torch.Generator()
        generator.set_state(self.state)
        return generator


def write_in_place(before: Any, saved: Any) -> Any:  # noqa: PLR0911 - one for each type
    """Saved content as a live value: that of before, filled, where it can be; others may hold it too."""
    if isinstance(saved, GeneratorState):
        if not isinstance(before, torch.Generator):
            return saved.generator()
        before.set_state(saved.state)
        return before
    if isinstance(before, torch.Generator) and isinstance(saved, torch.Generator):
        before.set_state(saved.get_state())
        return before
    if isinstance(before, torch.Tensor) and isinstance(saved, torch.Tensor):
        if (before.shape, before.dtype) != (saved.shape, saved.dtype) or before.requires_grad:
            return saved
        _copy(before, saved)
        return before
    if isinstance(saved, list) and isinstance(before, list):
        before[:] = [write_in_place(*pair) for pair in itertools.zip_longest(before[: len(saved)], saved)]
        return before
    if isinstance(saved, Mapping) and isinstance(before, MutableMapping):
        after = {key: write_in_place(before.get(key), element) for key, element in saved.items()}
        before.clear()
        before.update(after)
        return before
    if type(before) is not type(saved):
        return saved
    read, write = _accessors(saved) if isinstance(saved, _FILLED) else (None, None)
    _, write = _accessors(before) if read is not None else (None, None)
    if read is None or write is None:
        return saved
    if isinstance(saved, np.ndarray) and (before.shape, before.dtype) != (saved.shape, saved.dtype):
        return saved
    write(read())
    return before


def _copy(tensor: torch.Tensor, saved: torch.Tensor) -> None:
    with torch.no_grad():
        tensor.copy_(saved)


def _refill(held: Any, saved: Any, add: Callable[[Any], Any]) -> None:
    """Tensors that are there stay the same objects: others may hold them too."""
    before = list(held.values()) if isinstance(held, MutableMapping) else list(held)
    after = list(saved.values()) if isinstance(saved, dict) else list(saved)
    named = list(held) == list(saved) if isinstance(held, MutableMapping) else True
    keep = (
        named
        and len(before) == len(after)
        and all(
            torch.is_tensor(old) and torch.is_tensor(new) and old.shape == new.shape and old.dtype == new.dtype
            for old, new in zip(before, after, strict=True)
        )
    )
    if keep and before:
        for old, new in zip(before, after, strict=True):
            _copy(old, new)
        return
    held.clear()
    add(copy.copy(saved))


def held_by(value: Any, depth: int = 4) -> list[Any]:  # noqa: PLR0911 - one for each sort
    """The tensors and generators that an object answers for: in its attributes and in what those contain."""
    if isinstance(value, (torch.Tensor, torch.Generator)):
        return [value]
    if isinstance(value, torch.nn.Module):
        return [*value.parameters(), *value.buffers()]
    if isinstance(value, View):
        return [member for element in value.held() for member in held_by(element, depth)]
    if depth == 0 or isinstance(value, (str, bytes, int, float, type(None), type, torch.optim.Optimizer)):
        return []
    if isinstance(value, InPlace):
        return held_by(value.held, depth)
    if isinstance(value, (dict, MutableMapping)):
        inner = list(value.values())
    elif isinstance(value, (list, tuple, set, collections.deque)):
        inner = list(value)
    elif hasattr(value, "__dict__") and not isinstance(value, _FUNCTIONS):
        inner = list(kept_of(value).values())
    else:
        return []
    return [member for element in inner for member in held_by(element, depth - 1)]
