"""Which variables of a loop count, what differs in them, and which argument makes them a part of every copy."""

# ruff: noqa: E501  (a row is one line, to be read across)

from __future__ import annotations

import enum
import functools
import random
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from hyperpod_ray_training import Values, variables
from hyperpod_ray_training.variables import fingerprint, live_names, name_of, only_noted


class Phase(enum.Enum):
    WARM = 1
    COLD = 2


def stepped(scheduler: torch.optim.lr_scheduler.LRScheduler) -> torch.optim.lr_scheduler.LRScheduler:
    scheduler.optimizer.step()
    scheduler.step()
    return scheduler


def scheduler() -> torch.optim.lr_scheduler.LRScheduler:
    return torch.optim.lr_scheduler.StepLR(torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0), 1)


def drawn(generator: Any, draw: Callable[[Any], object]) -> Any:
    draw(generator)
    return generator


A, B = object(), object()
DIFFER: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "number": (lambda: 1, lambda: 2),
    "text": (lambda: "a", lambda: "b"),
    "truth": (lambda: True, lambda: False),
    "none and a word": (lambda: None, lambda: "None"),
    "enum": (lambda: Phase.WARM, lambda: Phase.COLD),
    "list": (lambda: [1], lambda: [1, 2]),
    "order of objects": (lambda: [A, B], lambda: [B, A]),
    "deque": (lambda: deque([1]), lambda: deque([2])),
    "dict": (lambda: {"a": 1}, lambda: {"a": 2}),
    "array": (lambda: np.zeros(3), lambda: np.array([0.0, 0.0, 1.0])),
    "array in a list": (lambda: [np.zeros(3)], lambda: [np.ones(3)]),
    "array that is transposed": (lambda: np.arange(4).reshape(2, 2), lambda: np.arange(4).reshape(2, 2).T),
    "random": (lambda: random.Random(1), lambda: drawn(random.Random(1), random.Random.random)),
    "numpy generator": (
        lambda: np.random.default_rng(1), lambda: drawn(np.random.default_rng(1), np.random.Generator.random),
    ),
    "numpy state": (
        lambda: np.random.RandomState(1), lambda: drawn(np.random.RandomState(1), np.random.RandomState.rand),
    ),
    "scheduler": (scheduler, lambda: stepped(scheduler())),
    "iterator": (lambda: iter([1, 2]), lambda: drawn(iter([1, 2]), next)),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFER)
def test_another_content_has_another_fingerprint_and_the_same_the_same(name: str) -> None:
    one, other = DIFFER[name]
    assert fingerprint(one()) is not None
    assert fingerprint(one()) == fingerprint(one())
    assert fingerprint(one()) != fingerprint(other())


@pytest.mark.parametrize("value", [torch.Generator(), torch.nn.Linear(1, 1), object(), print, time.time()], ids=type)
def test_what_is_no_state_by_itself_has_none(value: Any) -> None:
    assert fingerprint(value) is None


@pytest.mark.parametrize("value", [0.5, 3600.0, float("nan"), time.time() - 7200.5, round(time.time())])
def test_a_number_that_no_clock_shows_now_is_state(value: float) -> None:
    assert fingerprint(value) is not None


@pytest.mark.parametrize("clock", [time.monotonic, time.perf_counter])
def test_a_clock_since_the_machine_started_is_no_state_either(
    clock: Callable[[], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"time.{clock.__name__}", lambda: 90_000.25)
    assert fingerprint(90_000.75) is None
    assert fingerprint(80_000.75) is not None


def test_other_objects_in_a_list_are_no_other_order() -> None:
    """Tensors of a list that are new in each step differ in what they are, and those are watched."""
    assert fingerprint([object(), A]) == fingerprint([object(), B])


@pytest.mark.parametrize(
    ("value", "noted"),
    [
        (1, True), ("a", True), (None, True), ([1, 2.0, "x"], True), ({"a": [1, {"b": None}]}, True), (deque([1]), True),
        ([], True), ([torch.zeros(1)], False), ({"a": object()}, False), (object(), False), (torch.zeros(1), False),
    ],
    ids=repr,
)  # fmt: skip
def test_plain_numbers_and_words_may_only_be_shown(value: Any, noted: bool) -> None:
    assert only_noted(value) is noted


# ---- which variables are read before they are written ----


def names_at_here(function: Callable[[Callable[[], None]], object]) -> set[str]:
    names: set[str] = set()
    function(lambda: names.update(live_names(sys._getframe(1))))
    return names


def straight(here: Callable[[], None]) -> int:
    kept, dead = 1, 2
    here()
    dead = 3
    return kept + dead


def looping(here: Callable[[], None]) -> int:
    total, batch = 0, 0
    for step in range(2):
        batch = step
        if step == 1:
            here()
        total += batch
    return total


def branching(here: Callable[[], None]) -> int:
    maybe, never = 1, 2
    here()
    never = 4 if maybe else 5
    return never  # noqa: RET504 - it is written before it is read


def raising(here: Callable[[], None]) -> int:
    kept, lost = 1, 2
    here()
    if kept:
        raise_it = ValueError(kept)
        del raise_it
    lost = 0
    return lost  # noqa: RET504 - the same


def returning(here: Callable[[], None], stop: bool = True) -> int:
    early, late = 1, 2
    if stop:
        here()
        return early
    return late


def sharing(here: Callable[[], None]) -> Callable[[], int]:
    shared = 1
    here()
    shared += 1
    return lambda: shared


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (straight, {"kept"}),
        (looping, {"total", "batch", "here"}),
        (branching, {"maybe"}),
        (raising, {"kept"}),
        (returning, {"early"}),
        (sharing, {"shared"}),
    ],
)
def test_the_variables_that_code_behind_this_point_reads(function: Any, names: set[str]) -> None:
    assert names_at_here(function) == names


def test_the_users_frames_and_none_of_the_library_or_a_package() -> None:
    def inner() -> list[str]:
        return [frame.f_code.co_name for frame in variables.loop_frames()]

    names = functools.reduce(lambda _, __: inner(), [1], list[str]())
    assert names[:3] == ["inner", "<lambda>", "test_the_users_frames_and_none_of_the_library_or_a_package"]
    assert "pytest_pyfunc_call" not in names


@pytest.mark.parametrize(
    ("file", "users"),
    [
        ("/home/me/train.py", True), ("train.py", False), (None, False), (torch.__file__, False),
        (str(Path(variables.__file__)), False), (random.__file__, False), (__file__, True),
    ],
)  # fmt: skip
def test_whose_a_file_is(file: str | None, users: bool) -> None:
    assert variables.of_user(file) is users


class Library:
    """As a package's class with a state."""

    __module__ = "somebody.replay"

    def __init__(self) -> None:
        self.size = 1

    def state_dict(self) -> dict[str, int]:
        return {"size": self.size}

    def load_state_dict(self, saved: dict[str, int]) -> None:
        self.size = saved["size"]


class Environment:
    """As https://gymnasium.farama.org/api/env/ has it."""

    __module__ = "gymnasium.envs"
    action_space = None

    def step(self, action: Any) -> None: ...

    def reset(self) -> None: ...


class Half:
    __module__ = "somebody.replay"

    def state_dict(self) -> dict[str, int]:
        return {}


class Known(Library):
    __module__ = "transformers.trainer"


class Own:
    def __init__(self) -> None:
        self.step = 0


class OwnState(Own):
    def state_dict(self) -> dict[str, int]:
        return vars(self)


@pytest.mark.parametrize(
    ("value", "has"),
    [(Library(), True), (Environment(), True), (Half(), False), (Known(), False), (Own(), False), (3, False),
     (torch.nn.Linear(1, 1), False)],
)  # fmt: skip
def test_a_state_of_another_package(value: Any, has: bool) -> None:
    assert variables.has_package_state(value) is has


@pytest.mark.parametrize(
    ("value", "is_object"),
    [(Own(), True), (SimpleNamespace(), True), (Values(a=1), True), (Phase.WARM, False), (print, False), (Own, False),
     (torch.nn.Linear(1, 1), False), (torch, False), ([], False), (lambda: 0, False)],
)  # fmt: skip
def test_what_per_rank_can_hold(value: Any, is_object: bool) -> None:
    assert variables.is_object(value) is is_object


@pytest.mark.parametrize(
    ("path", "name"),
    [("replay", "replay"), ("trainer.replay", "replay"), ("data['a']", "a"), ("parts[0]", "parts"), ("a.b[3]", "b")],
)  # fmt: skip
def test_the_word_that_a_path_ends_with(path: str, name: str) -> None:
    assert name_of(path) == name


@pytest.mark.parametrize(
    ("path", "value", "roots", "fix"),
    [
        ("scheduler", scheduler(), {}, "extra={'scheduler': scheduler}"),
        ("scaler", torch.amp.GradScaler("cpu"), {}, "extra={'scaler': scaler}"),
        ("buffer", Library(), {}, "extra={'buffer': buffer}"),
        ("env", Environment(), {}, "per_rank={'env': env}"),
        ("trainer.memory", [1], {"trainer": Own()}, "keep it on the object, self.memory in __init__, and per_rank={'trainer': trainer}"),
        ("trainer.step", 1, {"trainer": Own()}, "per_rank={'trainer': trainer}"),
        ("trainer.step", 1, {"trainer": OwnState()}, "add step to OwnState.state_dict, and give it in extra or per_rank"),
        ("table", np.zeros(1), {"table": np.zeros(1)}, "per_rank={'table': table}"),
        ("table[0]", 3, {"table": [3]}, "per_rank={'table': table}"),
        ("count", 1, {"count": 1}, "keep it in Values: kept = Values(count=…), per_rank={'kept': kept}, and kept.count in its place"),
        ("best", None, {"best": None}, "keep it in Values: kept = Values(best=…), per_rank={'kept': kept}, and kept.best in its place"),
        ("step_fn.(count)", 1, {"step_fn": Own()}, "per_rank={'own': …} with the Own"),
        ("step_fn(count)", 1, {"step_fn": print}, "keep it in Values: kept = Values(count=…), per_rank={'kept': kept}, and kept.count in its place"),
    ],
)  # fmt: skip
def test_the_argument_that_keeps_it(path: str, value: Any, roots: dict[str, Any], fix: str) -> None:
    assert variables.fix_for(path, value, {name: (root, 0) for name, root in roots.items()}) == fix
