"""What the variables of a user's loop reach, and fingerprints of what may change from step to step."""

from __future__ import annotations

import argparse
import bisect
import contextlib
import dis
import enum
import functools
import pickle
import random
import sys
import time
import types
import zlib
from collections import deque
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hyperpod_ray_training import iterators
from hyperpod_ray_training.attributes import OF_MODULES, OF_OPTIMIZERS, is_plain
from hyperpod_ray_training.iterators import place_of, plain
from hyperpod_ray_training.sources import installed
from hyperpod_ray_training.stateful import Values
from hyperpod_ray_training.trees import parts_of

_DEPTH, _MOST, _FRAMES = 4, 4000, 8
_RECENT_S = 3600.0
_HERE = str(Path(__file__).parent)
_DRIVER = str(Path(__file__).with_name("run.py"))
_WHOLE = (torch.nn.Module, torch.optim.Optimizer, torch.Tensor, torch.optim.lr_scheduler.LRScheduler,
          torch.amp.GradScaler)  # fmt: skip
"""What is asked for its state as one, and not looked into."""
_SKIPPED = (types.ModuleType, types.BuiltinFunctionType, type)
_NAMESPACES = (types.SimpleNamespace, argparse.Namespace, Values)
"""Classes of Python's own, and of this library's, that have what a user puts into them."""
_REFILLED = (list, dict, set, deque, np.ndarray, torch.Tensor)
_KNOWN = {"torch", "ray", "accelerate", "transformers", "lightning", "lightning_fabric", "pytorch_lightning",
          "torchdata", "torchmetrics", "datasets", "trl", "peft", __name__.partition(".")[0]}  # fmt: skip
"""Packages whose objects are looked at in other ways, or have adapters."""
_MOST_ELEMENTS, _SMALL_BYTES = 100_000, 1 << 20


def loop_frames(frame: types.FrameType | None = None) -> list[types.FrameType]:
    """The user's own frames that called this library, the innermost first; none of an installed package.

    Frames of who called `Run.fit` are the driver's: only `workers=0` runs both in one process, and what the loop reads
    of them is its closure, its config or a global.
    """
    frames: list[types.FrameType] = []
    frame = frame or sys._getframe(1)
    while frame is not None and len(frames) < _FRAMES:
        file = frame.f_code.co_filename
        if file == _DRIVER:
            break
        if not file.startswith(_HERE) and not installed(file):
            frames.append(frame)
        frame = frame.f_back
    return frames


def reached(
    frames: list[types.FrameType], *, modules_held: Collection[int] = (), beside: Mapping[str, Any] | None = None
) -> dict[str, tuple[Any, Any]]:
    """By path: objects that the loop's variables reach, each with a fingerprint of its content.

    Args:
        frames: The user's frames.
        modules_held: Modules by identity whose plain attributes are saved with them.
        beside: Further objects by path, such as the callbacks of a trainer.
    """
    paths: dict[str, tuple[Any, Any]] = {}
    roots: dict[str, Any] = {}
    dead: dict[str, Any] = {}
    for frame in frames:
        live, of_frame = live_names(frame), frame.f_locals
        for name, value in of_frame.items():
            shared = name in frame.f_code.co_cellvars  # functions within read it
            (roots if name in live or shared else dead).setdefault(name, value)
        roots |= {name: value for name, value in frame.f_globals.items() if name not in roots
                  and name not in of_frame and not name.startswith("__") and _may_change(value)}  # fmt: skip
    roots |= beside or {}
    _walk(roots, paths, modules_held, _MOST)
    if frames:
        _walk(_globals_elsewhere(frames), paths, (), 2 * _MOST)
    # a variable that is written before it is read keeps nothing; what it holds may still be named by it
    unread: dict[str, tuple[Any, Any]] = {}
    _walk({name: value for name, value in dead.items() if name not in roots and _holder(value)}, unread, (), _MOST)
    return {path: (value, 0) for path, (value, _) in unread.items()} | paths


def has_package_state(value: Any) -> bool:
    """Whether an object of another package's class has a state: it says so by two methods, or is an environment."""
    sort = type(value)
    if sort.__module__.partition(".")[0] in _KNOWN or isinstance(value, (*_WHOLE, *_SKIPPED)) or _of_user(value):
        return False
    if all(callable(getattr(sort, name, None)) for name in ("state_dict", "load_state_dict")):
        return True
    # https://gymnasium.farama.org/api/env/
    return callable(getattr(sort, "step", None)) and callable(getattr(sort, "reset", None)) and (
        "action_space" in dir(value)
    )  # fmt: skip


def _may_change(value: Any) -> bool:
    return (
        _of_user(value)
        or has_package_state(value)
        or isinstance(value, (bool, int, float, str, enum.Enum))
        or _user_function(value)
    )


def _globals_elsewhere(frames: list[types.FrameType]) -> dict[str, Any]:
    """What the user's other files keep in plain global variables."""
    names = {frame.f_globals.get("__name__") for frame in frames}
    elsewhere: dict[str, Any] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name in names or not of_user(file):
            continue
        for key, value in list(vars(module).items()):
            if not key.startswith("__") and isinstance(value, (bool, int, float, str, list, dict, deque, set)):
                elsewhere[f"{name}.{key}"] = value
    return elsewhere


def _walk(
    roots: Mapping[str, Any], paths: dict[str, tuple[Any, Any]], modules_held: Collection[int], most: int
) -> None:
    queue = deque((name, value, 0) for name, value in roots.items())
    ids = {id(value) for value, _ in paths.values()}
    while queue and len(paths) < most:
        path, value, depth = queue.popleft()
        scalar = value is None or isinstance(value, (int, float, str, bool, enum.Enum))
        if isinstance(value, _SKIPPED) or (id(value) in ids and not scalar):
            continue
        ids.add(id(value))
        content = fingerprint(value)
        if (
            content is not None
            or _holder(value)
            or is_object(value)
            or (iterators.shows_nothing(value) and not _of_user(value))
        ):
            paths[path] = (value, content or 0)
        if depth < _DEPTH:
            inside = _inside_module(value, modules_held) if isinstance(value, torch.nn.Module) else _inside(value)
            # a variable that a function shares with the loop is the loop's
            queue.extend((f"{path}{step}", inner, depth + 1) for step, inner in inside
                         if not (step.startswith("(") and step[1:-1] in roots))  # fmt: skip


def fingerprint(value: Any) -> Any:  # noqa: PLR0911, PLR0912 - one for each type
    """A number that differs where the content does; None for what is no state by itself."""
    if value is None or isinstance(value, enum.Enum):
        return repr(value)
    if isinstance(value, (int, float, str)):
        return None if _is_a_time(value) else hash(value)
    try:
        if isinstance(value, torch.Generator):
            return None  # the operators that draw from it are watched
        if isinstance(value, random.Random):
            return hash(value.getstate())
        if isinstance(value, np.random.Generator):
            return zlib.crc32(pickle.dumps(value.bit_generator.state))
        if isinstance(value, np.random.RandomState):
            return zlib.crc32(pickle.dumps(value.get_state()))
        if isinstance(value, np.ndarray):
            return zlib.crc32(np.ascontiguousarray(value).view(np.uint8).data) if value.dtype != object else len(value)
        if isinstance(value, (torch.optim.lr_scheduler.LRScheduler, torch.amp.GradScaler)):
            plain = {key: field for key, field in value.state_dict().items() if isinstance(field, (int, float, list))}
            return zlib.crc32(repr(plain).encode())
        place = None if _of_this_library(value) else place_of(value)
        if place is not None:
            return zlib.crc32(repr(place).encode())
        if isinstance(value, (deque, list, set, dict)):
            return _content(value)
        if has_package_state(value):
            return zlib.crc32(pickle.dumps(value.state_dict() if hasattr(type(value), "state_dict") else value))
        if _of_user(value) and hasattr(value, "state_dict") and not _holder(value):
            return zlib.crc32(pickle.dumps(value.state_dict()))
    except Exception:  # an object that cannot be asked is none that can be compared
        return None
    return None


def _is_a_time(value: Any) -> bool:
    """Whether a number is what a clock has just shown; those that start with the machine may be small on a new one."""
    if not isinstance(value, float) or value.is_integer():
        return False
    since_start = [clock for clock in (time.monotonic(), time.perf_counter()) if clock > _RECENT_S]
    return any(abs(value - clock) < _RECENT_S for clock in (time.time(), *since_start))


def only_noted(value: Any) -> bool:
    """Whether an object is of plain numbers and words alone: a history or a counter, which may only be shown."""
    plain = (int, float, str, deque, list, set, dict)
    return all(part is None or isinstance(part, plain) or iterators.counts_only(part) for part in parts_of(value))


def _content(value: Any) -> Any:
    """Of a container: its length and plain content, and in which order it has what is in tensors or objects."""
    inner = list(value.items()) if isinstance(value, dict) else list(value)
    contents: list[Any] = []
    objects = []
    for element in inner[:_MOST_ELEMENTS]:
        if isinstance(element, np.ndarray) and element.dtype != object and element.nbytes < _SMALL_BYTES:
            contents.append(zlib.crc32(np.ascontiguousarray(element).view(np.uint8).data) if element.size else 0)
            continue
        contents.append(element if isinstance(element, (int, float, str, bytes, bool)) else plain(element))
        if not isinstance(element, (int, float, str, bytes, bool, tuple)):
            objects.append(id(element))
    return zlib.crc32(repr((len(inner), contents)).encode()), Order(objects)


class Order:
    """Differs from another of the same objects in another order, and from no other."""

    def __init__(self, objects: list[int]) -> None:
        self.objects, self.sorted = hash(tuple(objects)), hash(tuple(sorted(objects)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Order) and (self.objects == other.objects or self.sorted != other.sorted)

    def __hash__(self) -> int:
        return 0


def _of_this_library(value: Any) -> bool:
    return isinstance(value, types.GeneratorType) and value.gi_code.co_filename.startswith(_HERE)


def _inside(value: Any) -> list[tuple[str, Any]]:  # noqa: PLR0911 - one for each sort
    if isinstance(value, dict):
        return [(f"[{key!r}]", element) for key, element in list(value.items())[:200]]
    if isinstance(value, (list, tuple, deque)):
        return [
            (f"[{index}]", element)
            for index, element in enumerate(list(value)[:200])
            if not isinstance(element, torch.Tensor)
        ]
    if isinstance(value, functools.partial):
        arguments = [*enumerate(value.args), *value.keywords.items()]
        return [(".func", value.func), *((f"({key})", argument) for key, argument in arguments)]
    if isinstance(value, types.MethodType):
        return [(".__self__", value.__self__), (".__func__", value.__func__)]
    if _user_function(value):
        return _inside_function(value)
    if isinstance(value, torch.utils.data.DataLoader):
        parts = {"dataset": value.dataset, "sampler": value.sampler, "batch_sampler": value.batch_sampler,
                 "collate_fn": value.collate_fn}  # fmt: skip
        itself = hasattr(value, "load_state_dict")  # torchdata's saves what has a state
        return [(f".{name}", part) for name, part in parts.items()
                if part is not None and not (itself and hasattr(part, "state_dict"))]  # fmt: skip
    if isinstance(value, torch.optim.lr_scheduler.LRScheduler):
        return [(f".lr_lambdas[{number}]", rate) for number, rate in enumerate(getattr(value, "lr_lambdas", ()))
                if _user_function(rate)]  # fmt: skip
    if isinstance(value, torch.optim.Optimizer):
        return [(f".{name}", attribute) for name, attribute in vars(value).items()
                if name not in OF_OPTIMIZERS and not is_plain(attribute)]  # fmt: skip
    if _of_user(value) and not isinstance(value, (*_WHOLE, enum.Enum)):
        attributes = getattr(value, "__dict__", {})
        slots = {name: getattr(value, name) for base in type(value).__mro__ for name in _listed(base, "__slots__")
                 if hasattr(value, name)}  # fmt: skip
        return [(f".{name}", attribute) for name, attribute in {**_of_class(value), **slots, **attributes}.items()]
    return []


def _listed(base: type, name: str) -> list[str]:
    slots = vars(base).get(name, ())
    return [slots] if isinstance(slots, str) else list(slots)


def _of_class(value: Any) -> dict[str, Any]:
    """Plain attributes of an object's own class, which its methods may write."""
    return {name: attribute for base in reversed(type(value).__mro__) if _of_user_class(base)
            for name, attribute in vars(base).items() if not name.startswith("__")
            and isinstance(attribute, (bool, int, float, str, list, dict, deque, set))}  # fmt: skip


def _inside_function(function: Any) -> list[tuple[str, Any]]:
    names, cells = function.__code__.co_freevars, function.__closure__ or ()
    inside = []
    for name, cell in zip(names, cells, strict=True):
        with contextlib.suppress(ValueError):  # not assigned yet
            inside.append((f"({name})", cell.cell_contents))
    defaults = function.__defaults__ or ()
    code = function.__code__
    inside += zip((f"({name})" for name in code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]),
                  defaults, strict=False)  # fmt: skip
    inside += [
        (f"({name})", attribute) for name, attribute in {**(function.__kwdefaults__ or {}), **vars(function)}.items()
    ]
    return inside


def _inside_module(module: torch.nn.Module, modules_held: Collection[int]) -> list[tuple[str, Any]]:
    """What a module and its parts keep beside tensors: the user's objects and functions, also those of hooks."""
    inside: list[tuple[str, Any]] = []
    for name, part in module.named_modules():
        place = "".join(f"[{word}]" if word.isdigit() else f".{word}" for word in name.split(".") if word)
        held = id(part) in modules_held or not _of_user_class(type(part))
        for attribute_name, attribute in list(vars(part).items()):
            if "_hooks" in attribute_name and isinstance(attribute, dict):
                inside += [(f"{place}(hook)", hook) for hook in attribute.values() if _hook_of_user(hook)]
            elif attribute_name not in OF_MODULES and (
                not held if is_plain(attribute) else _of_user(attribute) or _user_function(attribute)
            ):
                inside.append((f"{place}.{attribute_name}", attribute))
    return inside


def _hook_of_user(hook: Any) -> bool:
    return _user_function(hook) or isinstance(hook, types.MethodType) or _of_user(hook)


def _user_function(value: Any) -> bool:
    """Whether a value is a function from the user's own files, or an object around one."""
    if isinstance(value, functools.partial):
        return True
    if isinstance(value, types.MethodType):
        return _of_user(value.__self__)
    return isinstance(value, types.FunctionType) and not foreign(value.__code__.co_filename)


def _holder(value: Any) -> bool:
    """What owns tensors, or is one."""
    return isinstance(value, (torch.nn.Module, torch.optim.Optimizer, torch.Tensor, torch.Generator, deque, list, dict,
                             tuple))  # fmt: skip


def _of_user(value: Any) -> bool:
    """Whether a class, or a plain container, comes from the user's own files."""
    if isinstance(value, (*_SKIPPED, types.FunctionType, types.MethodType)):
        return False
    if isinstance(value, (deque, list, dict, set, np.ndarray, torch.Tensor, random.Random, np.random.Generator)):
        return True
    if isinstance(value, (torch.nn.Module, torch.optim.Optimizer, torch.Generator, np.random.RandomState)):
        return True
    if isinstance(value, (torch.optim.lr_scheduler.LRScheduler, torch.amp.GradScaler)):
        return True
    return isinstance(value, _NAMESPACES) or _of_user_class(type(value))


def _of_user_class(sort: type) -> bool:
    """Whether a class is the user's, or one of torch's that counts steps for the loop."""
    if sort.__module__.startswith("torch.distributed.algorithms.model_averaging."):
        return True
    return sort.__module__ == "__main__" or of_user(getattr(sys.modules.get(sort.__module__), "__file__", None))


@functools.lru_cache(maxsize=10_000)
def of_user(file: str | None) -> bool:
    """Whether a module's file is one of the user's own; modules without one may name anything."""
    return file is not None and Path(file).is_absolute() and not foreign(file)


def foreign(file: str) -> bool:
    """Whether a file is this library's or an installed package's."""
    return file.startswith(_HERE) or installed(file)


def fix_for(path: str, value: Any, reached: Mapping[str, tuple[Any, Any]]) -> str:  # noqa: PLR0911, PLR0912 - one for each sort
    """The argument that makes an object of the loop a part of every copy.

    Args:
        path: Of the value.
        value: What has changed.
        reached: Every path that was reached.
    """
    if place_of(value) is not None:
        return iterators.fix_for(path, value)
    if has_package_state(value):
        return f"{'extra' if hasattr(type(value), 'state_dict') else 'per_rank'}={{{name_of(path)!r}: {path}}}"
    if isinstance(value, (torch.optim.lr_scheduler.LRScheduler, torch.amp.GradScaler)):
        return f"extra={{{name_of(path)!r}: {path}}}"
    if "(" in path:
        owner = path.rpartition(".")[0]
        if is_object(holder := reached.get(owner, (None, 0))[0]):
            word = type(holder).__name__
            return f"per_rank={{{word.lower()!r}: …}} with the {word}"
    else:
        owner = path
        while "." in owner or "[" in owner:
            owner = owner[: max(owner.rfind("."), owner.rfind("["))]
            holder = reached.get(owner, (None, 0))[0]
            if is_object(holder) and hasattr(
                holder, "state_key"
            ):  # a callback of Lightning's, which is asked for its own
                return f"give {type(holder).__name__} the methods state_dict and load_state_dict"
            if is_object(holder) and path[len(owner) + 1 :].split(".", maxsplit=1)[0].split("[", maxsplit=1)[
                0
            ] not in vars(holder):
                argument = f"per_rank={{{name_of(owner)!r}: {owner}}}"
                return f"keep it on the object, self.{name_of(path)} in __init__, and {argument}"
            if is_object(holder) and hasattr(holder, "state_dict") and not isinstance(holder, Values):
                return f"add {name_of(path)} to {type(holder).__name__}.state_dict, and give it in extra or per_rank"
            if is_object(holder):
                return f"per_rank={{{name_of(owner)!r}: {owner}}}"
        root = path.split("[", maxsplit=1)[0]
        if "." not in root and isinstance(reached.get(root, (None, 0))[0], _REFILLED):
            return f"per_rank={{{root!r}: {root}}}"
        if "." not in path and not isinstance(value, (int, float, str, tuple, enum.Enum, type(None))):
            return f"per_rank={{{name_of(path)!r}: {path}}}"
    name = path.replace(")", "").split("(")[-1].split("[")[0].split(".")[-1]
    return f"keep it in Values: kept = Values({name}=…), per_rank={{'kept': kept}}, and kept.{name} in its place"


def name_of(path: str) -> str:
    """The word that a path ends with."""
    words = path.replace("]", "").replace("[", ".").replace("'", "").split(".")
    return next((word for word in reversed(words) if not word.isdigit()), path)


def is_object(value: Any) -> bool:
    """Whether a value is of a class of the user's, whose attributes `per_rank` can hold."""
    if isinstance(
        value, (*_WHOLE, *_SKIPPED, types.FunctionType, types.MethodType, enum.Enum, torch.utils.data.DataLoader)
    ):
        return False
    return isinstance(value, _NAMESPACES) or (_of_user_class(type(value)) and hasattr(value, "__dict__"))


# ---- which variables a loop reads before it writes them ----

_ENDS = {"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD",
         "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_ABSOLUTE"}  # fmt: skip


def live_names(frame: types.FrameType) -> set[str]:
    """The local variables that code after this point may read before it writes them."""
    instructions = list(dis.get_instructions(frame.f_code))
    at = {instruction.offset: index for index, instruction in enumerate(instructions)}
    reads = [_names(instruction, "LOAD") for instruction in instructions]
    writes = [_names(instruction, "STORE") for instruction in instructions]
    live: list[set[str]] = [set() for _ in instructions]
    changed = True
    while changed:
        changed = False
        for index in reversed(range(len(instructions))):
            after: set[str] = set()
            instruction = instructions[index]
            if instruction.opname not in _ENDS and index + 1 < len(instructions):
                after |= live[index + 1]
            if instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs:
                after |= live[at.get(instruction.argval, index)]
            needed = reads[index] | (after - writes[index])
            if needed != live[index]:
                live[index], changed = needed, True
    # in a call of another Python function, `f_lasti` is in the call's inline cache, which is no instruction
    here = bisect.bisect_right([instruction.offset for instruction in instructions], frame.f_lasti)
    return live[min(here, len(live) - 1)]


def _names(instruction: dis.Instruction, verb: str) -> set[str]:
    if not any(word in instruction.opname for word in ("_FAST", "_DEREF", "_CLOSURE")):
        return set()
    names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
    verbs = [part for part in instruction.opname.split("_") if part in {"LOAD", "STORE", "DELETE"}]
    verbs = verbs if len(verbs) == len(names) else verbs[:1] * len(names)
    return {str(name) for name, usage in zip(names, verbs, strict=True) if usage == verb}
