"""Where a loop's iterators stand, also those that no variable names: a generator's own, those of a `zip` or `map`.

An iterator that has moved on between two steps is a place in the data. The run keeps the places of the loaders that it
hands out (`batches`); any other begins again with the process.
"""

from __future__ import annotations

import contextlib
import gc
import io
import itertools
import operator
import pickle
import random
import types
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data.dataloader import _BaseDataLoaderIter

from hyperpod_ray_training.trees import checksum

_OVER_CONTAINERS: tuple[type, ...] = (type(iter([])), type(iter(())), type(iter({})), type(iter({}.values())),
                                      type(iter({}.items())), type(iter(set())), type(reversed([])))  # fmt: skip
_NUMBERS: tuple[type, ...] = (type(iter(range(0))), type(iter(range(1 << 65))), itertools.count)
_AROUND = (zip, map, filter, enumerate, itertools.cycle, itertools.chain, itertools.islice, itertools.takewhile,
           itertools.dropwhile, itertools.starmap, itertools.zip_longest, itertools.accumulate)  # fmt: skip
"""Iterators that draw from others."""
_CONTEXT = contextlib._GeneratorContextManager  # type: ignore[attr-defined]
_DEPTH, _MOST = 6, 20_000
_ENDS = 500
"""So many elements at each end of a list are compared."""
_SMALL_BYTES = 1 << 20
_PACKAGE = f"{__name__.partition('.')[0]}."
_OPAQUE = (
    types.ModuleType,
    types.FunctionType,
    types.CodeType,
    types.FrameType,
    type,
    torch.Tensor,
    torch.nn.Module,
    str,
    bytes,
)
Foreign = Callable[[str], bool]
"""Whether a file is not the user's own."""


def place_of(value: Any, depth: int = _DEPTH) -> Any:  # noqa: PLR0911 - one for each sort
    """Where an iterator stands, comparable with where it stood; None for what is none, or shows nothing.

    An iterator that runs at the moment, such as one around the loop itself, shows nothing.
    """
    if isinstance(value, _BaseDataLoaderIter):
        return int(value._num_yielded)
    if isinstance(value, _OVER_CONTAINERS):
        return operator.length_hint(value)
    if isinstance(value, _NUMBERS):
        return repr(value) if isinstance(value, itertools.count) else operator.length_hint(value)
    if depth and isinstance(value, types.GeneratorType):
        frame = value.gi_frame
        if frame is None or value.gi_running:
            return None
        names = [(name, _content(local)) for name, local in sorted(frame.f_locals.items())]
        return frame.f_lasti, names, _places_in(value, depth)
    if depth and isinstance(value, _AROUND):
        places = _places_in(value, depth)
        if isinstance(value, itertools.cycle) and hasattr(value, "__reduce__"):
            saved = [len(referent) for referent in gc.get_referents(value) if isinstance(referent, list)]
            return places, saved
        return places or None
    return None


def _drawn(value: Any) -> list[Any]:
    """What an iterator refers to; `zip`, `map` and `chain` keep theirs in a tuple."""
    referents = gc.get_referents(value)
    return referents + [inner for referent in referents if isinstance(referent, tuple) for inner in referent]


def _places_in(value: Any, depth: int) -> list[Any]:
    return [position for referent in _drawn(value) if (position := place_of(referent, depth - 1)) is not None]


def plain(value: Any) -> Any:
    """A value whose `repr` says what it is; the name of its type for others."""
    if isinstance(value, tuple):
        return tuple(plain(element) for element in value)
    return value if isinstance(value, (int, float, str, bytes, bool)) else type(value).__name__


def _content(value: Any, depth: int = 3) -> Any:  # noqa: PLR0911 - one for each sort
    """What tells a local variable of a generator from what it was: a buffer that fills, numbers that were drawn."""
    if isinstance(value, random.Random):
        return hash(value.getstate())
    if isinstance(value, (np.random.Generator, np.random.RandomState)):
        state = value.bit_generator.state if isinstance(value, np.random.Generator) else value.get_state()
        return zlib.crc32(pickle.dumps(state))
    if isinstance(value, torch.Generator):
        return zlib.crc32(value.get_state().numpy().data)
    if isinstance(value, torch.Tensor):
        small = value.device.type == "cpu" and value.numel() * value.element_size() <= _SMALL_BYTES
        written = -1 if value.is_inference() else value._version
        return tuple(value.shape), checksum(value.detach()) if small else (id(value), written)
    if isinstance(value, np.ndarray):
        return value.shape, zlib.crc32(np.ascontiguousarray(value).data) if value.dtype != object else 0
    if depth == 0 or isinstance(value, _OPAQUE) or type(value).__module__.startswith(_PACKAGE):
        return plain(value)
    if isinstance(value, dict):
        value = list(value.items())
    if isinstance(value, (list, tuple, deque)):
        elements = list(value)
        ends = elements if len(elements) <= 2 * _ENDS else [*elements[:_ENDS], *elements[-_ENDS:]]
        return len(elements), [_content(element, depth - 1) for element in ends]
    if isinstance(value, set):
        return len(value), sum(hash(element) for element in value)
    if not isinstance(value, Iterator) and hasattr(value, "__dict__") and not isinstance(value, torch.optim.Optimizer):
        return [(name, _content(attribute, depth - 1)) for name, attribute in sorted(vars(value).items())]
    return plain(value)


def counts_only(value: Any) -> bool:
    """Whether an iterator yields plain numbers, which a loop may draw only to show them."""
    return isinstance(value, _NUMBERS)


def shows_nothing(value: Any) -> bool:
    """Whether an object is an iterator of somebody's own class, whose place cannot be compared."""
    return (
        hasattr(type(value), "__next__")
        and not isinstance(value, (types.GeneratorType, *_AROUND, *_OVER_CONTAINERS, *_NUMBERS, io.IOBase))
        and not isinstance(value, _BaseDataLoaderIter)
    )


def at_work(own: Iterable[Any], foreign: Foreign) -> dict[int, tuple[Any, Any]]:
    """Every iterator that may feed the loop, by its identity, with its place.

    Args:
        own: Iterators that the run itself draws from; what they draw from is no concern.
        foreign: Says of a file whether it is not the user's own.
    """
    accounted = {id(value) for value in behind(own)}
    feeds = (_BaseDataLoaderIter, types.GeneratorType, *_AROUND)
    by_type: dict[type, bool] = {}
    candidates = []
    for candidate in gc.get_objects():
        sort = type(candidate)  # `isinstance` would ask what a weak proxy stands for
        if sort not in by_type:
            by_type[sort] = issubclass(sort, (*feeds, _CONTEXT))
        if by_type[sort]:
            candidates.append(candidate)
    # what stands in a `with` around the loop stays where it is: what its variables hold, the loop has elsewhere
    accounted |= {id(getattr(value, "gen", None)) for value in candidates if issubclass(type(value), _CONTEXT)}
    places = {}
    for candidate in candidates:
        if issubclass(type(candidate), feeds) and id(candidate) not in accounted and _feeds(candidate, foreign):
            position = place_of(candidate)
            if position is not None:
                places[id(candidate)] = (candidate, position)
    return places


def _feeds(value: Any, foreign: Foreign) -> bool:
    """Whether an iterator yields data of the loop: from a loader, from the user's own code, or beside the loop."""
    if isinstance(value, _BaseDataLoaderIter):
        return True
    if isinstance(value, types.GeneratorType):
        return value.gi_frame is not None and not value.gi_running and not foreign(value.gi_code.co_filename)
    if not isinstance(value, _AROUND):
        return False
    drawn = [referent for referent in _drawn(value) if isinstance(referent, Iterator)]
    return any(_feeds(referent, foreign) or _runs(referent) for referent in drawn)


def _runs(value: Any) -> bool:
    """Whether a generator is under way: the loop's own steps, when one of them begins."""
    return isinstance(value, types.GeneratorType) and value.gi_running


def behind(iterators: Iterable[Any]) -> list[Any]:
    """Iterators and what they reach: their own iterators, samplers and datasets."""
    reached: dict[int, Any] = {}
    queue = deque(iterators)
    while queue and len(reached) < _MOST:
        value = queue.popleft()
        if id(value) in reached or isinstance(value, _OPAQUE):
            continue
        reached[id(value)] = value
        queue.extend(gc.get_referents(value))
        if isinstance(value, types.GeneratorType) and value.gi_frame is not None:
            queue.extend(value.gi_frame.f_locals.values())  # of one that runs, the collector shows nothing
    return list(reached.values())


def name_of(value: Any) -> str:
    """What an iterator that no variable holds is called."""
    if isinstance(value, types.GeneratorType):
        return value.__name__
    return "DataLoader" if isinstance(value, _BaseDataLoaderIter) else type(value).__name__


def fix_for(path: str, value: Any) -> str:
    """The line that keeps the place in the data."""
    if counts_only(value):
        return f"compute {path} from the number of the step"
    keeps = "for batch in training.batches(loader), which keeps the place in the loader"
    if any(isinstance(inner, _BaseDataLoaderIter) for inner in behind([value])):
        return keeps
    return f"{keeps}; or make the batch of {path} from the number of the step"
