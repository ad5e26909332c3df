"""What modules and optimizers keep in their attributes, beside parameters, buffers and state: a counter, a phase.

A checkpoint and a copy hold what has changed since the process built it, and nothing else: what the script sets when
it builds its model stays the script's to change. They also hold which parameters are trained, which modules evaluate,
and the buffers that a step has made or resized.
"""

from __future__ import annotations

import collections
import copy
import functools
import pickle
import random
import sys
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from hyperpod_ray_training.sources import of_package
from hyperpod_ray_training.stateful import GeneratorState, write_in_place
from hyperpod_ray_training.trees import checksum

OF_MODULES = frozenset(vars(nn.Module())) - {"training"}
OF_OPTIMIZERS = frozenset(vars(torch.optim.SGD([torch.zeros(1)], lr=0.0)))
_WRAPPERS = ("torch.nn.parallel.", "torch.distributed.", "torch._dynamo.")
_PLAIN = (type(None), bool, int, float, complex, str, bytes, np.generic)
_RANDOM = (random.Random, np.random.Generator, np.random.RandomState, torch.Generator)
_DEPTH, _SMALL_BYTES = 4, 1 << 20
Named = Callable[[], Iterator[tuple[str, nn.Module]]]
"""Every module, with the prefix of its names."""
_TRAINED, _BUFFERS, _VALUES, _GONE = "trained", "buffers", "values", "gone"


class Attributes:
    """The state in attributes, as an object with `state_dict` and `load_state_dict`.

    Args:
        modules: The model's modules, by prefix.
        optimizers: By name.
    """

    def __init__(self, modules: Named, optimizers: Mapping[str, Optimizer]) -> None:
        self.modules, self.optimizers = modules, optimizers
        self.built = {key: _mark(value) for key, value in self._plain().items()}
        self.buffers_built = {name: tuple(buffer.shape) for name, buffer, _ in self._buffers()}
        self.trained_built = {name: parameter.requires_grad for name, parameter in self._parameters()}

    # ---- what there is ----

    def owners(self) -> dict[str, Any]:
        """Modules and optimizers, by name."""
        named: dict[str, Any] = {f"optimizer {name}": optimizer for name, optimizer in self.optimizers.items()}
        for prefix, module in self.modules():
            if not type(module).__module__.startswith(_WRAPPERS):
                named.setdefault(f"model.{prefix}".rstrip("."), module)
        return named

    def _plain(self) -> dict[tuple[str, str], Any]:
        """By owner and attribute: what can be put back."""
        plain = {}
        for owner, value in self.owners().items():
            sort: Any = type(value)
            standard = OF_OPTIMIZERS if isinstance(value, Optimizer) else OF_MODULES | _private_of(sort)
            for name, attribute in vars(value).items():
                if name not in standard and is_plain(attribute):
                    plain[owner, name] = attribute
        return plain

    def _buffers(self) -> Iterator[tuple[str, torch.Tensor, bool]]:
        for prefix, module in self.modules():
            for name, buffer in module._buffers.items():
                if buffer is not None and not isinstance(buffer, DTensor):
                    yield f"{prefix}{name}", buffer, name not in module._non_persistent_buffers_set

    def _parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        for prefix, module in self.modules():
            for name, parameter in module._parameters.items():
                if parameter is not None:
                    yield f"{prefix}{name}", parameter

    # ---- saved and put back ----

    def state_dict(self) -> dict[str, Any]:
        """What has changed since it was built."""
        plain = self._plain()
        changed: dict[str, dict[str, Any]] = {}
        for key, value in plain.items():
            if key not in self.built or self.built[key] != _mark(value):
                changed.setdefault(key[0], {})[key[1]] = _content(value)
        late = {name: (tuple(buffer.shape), buffer.dtype, persistent) for name, buffer, persistent in self._buffers()
                if self.buffers_built.get(name) != tuple(buffer.shape)}  # fmt: skip
        trained = {name: parameter.requires_grad for name, parameter in self._parameters()
                   if self.trained_built.get(name, True) != parameter.requires_grad}  # fmt: skip
        owners = self.owners()
        gone = [key for key in self.built if key not in plain and not hasattr(owners.get(key[0]), key[1])]
        parts = {_VALUES: changed, _BUFFERS: late, _TRAINED: trained, _GONE: gone}
        return {name: part for name, part in parts.items() if part}

    def unlike(self, state: Mapping[str, Any]) -> list[str]:
        """What nothing takes."""
        owners, parameters = self.owners(), {name for name, _ in self._parameters()}
        keys = [(owner, name) for owner, values in state.get(_VALUES, {}).items() for name in values]
        lacking = [f"{owner}.{name} is saved, and nothing takes it" for owner, name in keys if owner not in owners]
        return lacking + [f"whether model.{name} is trained is saved, and nothing takes it"
                          for name in state.get(_TRAINED, ()) if name not in parameters]  # fmt: skip

    def make_buffers(self, state: Mapping[str, Any]) -> None:
        """Make the buffers that steps had made or resized, for their content to come."""
        modules = dict(self.modules())
        for name, (shape, dtype, persistent) in state.get(_BUFFERS, {}).items():
            prefix, dot, short = name.rpartition(".")
            module = modules.get(f"{prefix}{dot}")
            before = None if module is None else module._buffers.get(short)
            if module is None or (before is not None and tuple(before.shape) == tuple(shape)):
                continue
            near = before if before is not None else next((value for _, value in self._parameters()), None)
            device = torch.device("cpu") if near is None else near.device
            if short not in module._buffers:
                vars(module).pop(short, None)
                module.register_buffer(short, None, persistent=persistent)
            module._buffers[short] = torch.zeros(shape, dtype=dtype, device=device)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put back what had changed; what had not stays as it is built."""
        owners = self.owners()
        for owner, values in state.get(_VALUES, {}).items():
            attributes = vars(owners[owner]) if owner in owners else {}
            for name, value in values.items():
                attributes[name] = write_in_place(attributes.get(name), value)
        for owner, name in state.get(_GONE, ()):
            vars(owners.get(owner, self)).pop(name, None)
        parameters = dict(self._parameters())
        for name, trained in state.get(_TRAINED, {}).items():
            if name in parameters:
                parameters[name].requires_grad_(trained)


@functools.lru_cache(maxsize=1000)
def _private_of(sort: Any) -> frozenset[str]:
    """What a package's base classes keep for themselves, such as a cache of identities; torch's own have none."""
    names: set[str] = set()
    for base in sort.__mro__:
        file = str(getattr(sys.modules.get(base.__module__), "__file__", ""))
        code = getattr(vars(base).get("__init__"), "__code__", None)
        if code is not None and of_package(file) and not base.__module__.startswith("torch."):
            names |= {name for name in code.co_names if name.startswith("_")}
    return frozenset(names)


def is_plain(value: Any, depth: int = _DEPTH) -> bool:  # noqa: PLR0911 - one for each sort
    """Whether a value is numbers, words, tensors without a graph, random numbers' state, or containers of those."""
    if isinstance(value, (*_PLAIN, *_RANDOM)):
        return True
    if isinstance(value, torch.Tensor):
        return not value.requires_grad and not isinstance(value, (nn.Parameter, DTensor)) and not value.is_meta
    if isinstance(value, np.ndarray):
        return bool(value.dtype != object)
    if depth == 0:
        return False
    if type(value) in (dict, collections.OrderedDict, collections.Counter, collections.defaultdict):
        return all(is_plain(key, 1) and is_plain(element, depth - 1) for key, element in value.items())
    if type(value) in (list, tuple, set, frozenset, collections.deque):
        return all(is_plain(element, depth - 1) for element in value)
    return False


class _Written:
    """Of a tensor: which one it is and how often it was written; of a small one on the CPU, its content."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = weakref.ref(tensor)
        small = tensor.device.type == "cpu" and tensor.numel() * tensor.element_size() <= _SMALL_BYTES
        version = -1 if tensor.is_inference() else tensor._version
        self.written = (tensor.untyped_storage()._cdata, version, checksum(tensor) if small else 0)

    def __eq__(self, other: object) -> bool:
        alike = isinstance(other, _Written) and self.written == other.written
        return alike and self.tensor() is not None and self.tensor() is other.tensor()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self.written)


def _mark(value: Any) -> Any:  # noqa: PLR0911 - one for each sort
    """Differs where the content does."""
    if isinstance(value, torch.Tensor):
        return _Written(value)
    if isinstance(value, torch.Generator):
        return zlib.crc32(value.get_state().cpu().numpy().tobytes())
    if isinstance(value, np.ndarray):
        return value.shape, zlib.crc32(np.ascontiguousarray(value).view(np.uint8).data) if value.size else 0
    if isinstance(value, random.Random):
        return hash(value.getstate())
    if isinstance(value, np.random.Generator):
        return zlib.crc32(pickle.dumps(value.bit_generator.state))
    if isinstance(value, np.random.RandomState):
        return zlib.crc32(pickle.dumps(value.get_state()))
    if isinstance(value, Mapping):
        return tuple((key, _mark(element)) for key, element in value.items())
    if isinstance(value, (list, tuple, collections.deque)):
        return tuple(_mark(element) for element in value)
    return type(value), repr(value)


def _content(value: Any) -> Any:
    """A value as it is saved: its content at this moment."""
    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, torch.Generator):
        return GeneratorState(value.get_state())
    if isinstance(value, Mapping):
        return {key: _content(element) for key, element in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_content(element) for element in value)
    return copy.deepcopy(value)
