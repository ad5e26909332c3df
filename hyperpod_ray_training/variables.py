"""What the variables of a user's loop reach, and fingerprints of what may change from step to step."""

from __future__ import annotations

import dis
import pickle
import random
import sys
import time
import types
import zlib
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hyperpod_ray_training import iterators
from hyperpod_ray_training.iterators import place_of, plain

_DEPTH, _MOST, _FRAMES = 4, 4000, 8
_RECENT_S = 3600.0
_HERE = str(Path(__file__).parent)
_DRIVER = str(Path(__file__).with_name("run.py"))
_WHOLE = (torch.nn.Module, torch.optim.Optimizer, torch.Tensor, torch.optim.lr_scheduler.LRScheduler,
          torch.amp.GradScaler)  # fmt: skip
"""What is asked for its state as one, and not looked into."""
_SKIPPED = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)


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
        if not file.startswith(_HERE) and not _installed(file):
            frames.append(frame)
        frame = frame.f_back
    return frames


def reached(frames: list[types.FrameType]) -> dict[str, tuple[Any, int]]:
    """By path: objects that the loop's variables reach, each with a fingerprint of its content."""
    paths: dict[str, tuple[Any, int]] = {}
    roots: dict[str, Any] = {}
    for frame in frames:
        live, of_frame = live_names(frame), frame.f_locals
        variables = {name: value for name, value in of_frame.items() if name in live or _holder(value)}
        variables |= {name: value for name, value in frame.f_globals.items()
                if name not in of_frame and not name.startswith("__") and _of_user(value)}  # fmt: skip
        roots |= {name: value for name, value in variables.items() if name not in roots}
    queue = deque((name, value, 0) for name, value in roots.items())
    ids: set[int] = set()
    while queue and len(paths) < _MOST:
        path, value, depth = queue.popleft()
        if isinstance(value, _SKIPPED) or (id(value) in ids and not isinstance(value, (int, float, str, bool))):
            continue
        ids.add(id(value))
        print_ = fingerprint(value)
        if print_ is not None or _holder(value) or (iterators.shows_nothing(value) and not _of_user(value)):
            paths[path] = (value, print_ or 0)
        if depth < _DEPTH:
            queue.extend((f"{path}{step}", inner, depth + 1) for step, inner in _inside(value))
    return paths


def fingerprint(value: Any) -> int | None:  # noqa: PLR0911 - one for each type
    """A number that differs where the content does; None for what is no state by itself."""
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
        if _of_user(value) and hasattr(value, "state_dict") and not _holder(value):
            return zlib.crc32(pickle.dumps(value.state_dict()))
    except Exception:  # an object that cannot be asked is none that can be compared
        return None
    return None


def _is_a_time(value: Any) -> bool:
    clocks = (time.time(), time.monotonic(), time.perf_counter())
    return isinstance(value, float) and any(abs(value - clock) < _RECENT_S for clock in clocks)


def only_noted(value: Any) -> bool:
    """Whether an object is of plain numbers and words alone: a history or a counter, which may only be shown."""
    if isinstance(value, (deque, list, set, dict)):
        return all(
            only_noted(element) for element in (list(value.values()) if isinstance(value, dict) else list(value))
        )
    return value is None or isinstance(value, (int, float, str)) or iterators.counts_only(value)


def _content(value: Any) -> int:
    """Of a container: its length and plain content, not of what is in tensors or objects."""
    inner = list(value.items()) if isinstance(value, dict) else list(value)
    contents = [
        element if isinstance(element, (int, float, str, bytes, bool)) else plain(element) for element in inner[:1000]
    ]
    return zlib.crc32(repr((len(inner), contents)).encode())


def _of_this_library(value: Any) -> bool:
    return isinstance(value, types.GeneratorType) and value.gi_code.co_filename.startswith(_HERE)


def _inside(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [(f"[{key!r}]", element) for key, element in list(value.items())[:200]]
    if isinstance(value, (list, tuple, deque)):
        return [
            (f"[{index}]", element)
            for index, element in enumerate(list(value)[:200])
            if not isinstance(element, torch.Tensor)
        ]
    if _of_user(value) and not isinstance(value, _WHOLE):
        return [(f".{name}", element) for name, element in getattr(value, "__dict__", {}).items()]
    return []


def _holder(value: Any) -> bool:
    """What owns tensors, or is one."""
    return isinstance(value, (torch.nn.Module, torch.optim.Optimizer, torch.Tensor, torch.Generator, deque, list, dict))


def _of_user(value: Any) -> bool:
    """Whether a class, or a plain container, comes from the user's own files."""
    if isinstance(value, _SKIPPED):
        return False
    if isinstance(value, (deque, list, dict, set, np.ndarray, torch.Tensor, random.Random, np.random.Generator)):
        return True
    if isinstance(value, (torch.nn.Module, torch.optim.Optimizer, torch.Generator, np.random.RandomState)):
        return True
    if isinstance(value, (torch.optim.lr_scheduler.LRScheduler, torch.amp.GradScaler)):
        return True
    module = sys.modules.get(type(value).__module__)
    file = getattr(module, "__file__", None)
    return type(value).__module__ == "__main__" or (
        file is not None and not _installed(file) and not file.startswith(_HERE)
    )


def foreign(file: str) -> bool:
    """Whether a file is this library's or an installed package's."""
    return file.startswith(_HERE) or _installed(file)


def _installed(file: str) -> bool:
    return "site-packages" in file or file.startswith((sys.base_prefix, "<frozen"))


def fix_for(path: str, value: Any) -> str:
    """The argument that makes an object of the loop a part of every copy."""
    name = path.replace("]", "").replace("[", ".").replace("'", "").split(".")[-1]
    if place_of(value) is not None:
        return iterators.fix_for(path, value)
    if isinstance(value, (torch.optim.lr_scheduler.LRScheduler, torch.amp.GradScaler)):
        return f"extra={{{name!r}: {path}}}"
    return f"per_rank={{{name!r}: {path}}}"


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
    return live[min(at.get(frame.f_lasti, 0) + 1, len(live) - 1)]


def _names(instruction: dis.Instruction, verb: str) -> set[str]:
    if not any(word in instruction.opname for word in ("_FAST", "_DEREF", "_CLOSURE")):
        return set()
    names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
    verbs = [part for part in instruction.opname.split("_") if part in {"LOAD", "STORE", "DELETE"}]
    verbs = verbs if len(verbs) == len(names) else verbs[:1] * len(names)
    return {str(name) for name, usage in zip(names, verbs, strict=True) if usage == verb}
