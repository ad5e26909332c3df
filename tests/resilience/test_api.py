"""The page of the library's API names everything that is public, with the arguments it has."""

from __future__ import annotations

import inspect
import re
from typing import Any

from conftest import ROOT

import hyperpod_ray_training as resilience
from hyperpod_ray_training import EpochBatches, Resumable, Rows, Run
from hyperpod_ray_training.spares import memory_needed

PAGE = (ROOT / "docs" / "reference" / "training-library.md").read_text()


def test_every_public_name_is_on_the_page() -> None:
    assert [name for name in resilience.__all__ if not re.search(rf"`{name}\b", PAGE)] == []


def test_every_method_of_the_loop_is_on_the_page() -> None:
    inner = {
        "about_to_step",
        "begin",
        "begin_step",
        "between",
        "draws",
        "end",
        "end_step",
        "fetched_ahead",
        "finish",
        "handed",
        "leave",
        "looks_at",
        "restore",
        "told",
    }
    public = {name for name, _ in inspect.getmembers(Resumable, inspect.isfunction) if not name.startswith("_")}
    assert {name for name in public - inner if f"`.{name}(" not in PAGE} == set()


def test_arguments_and_defaults_are_those_of_the_code() -> None:
    functions: dict[str, Any] = {
        "EpochBatches": EpochBatches, "Rows": Rows,
        "Run": Run, "Run.fit": Run.fit, "Resumable": Resumable.__init__, ".batches": Resumable.batches,
        ".save": Resumable.save, "hyperpod_ray_training.spares.memory_needed": memory_needed,
    }  # fmt: skip
    for name, function in functions.items():
        (given,) = re.findall(rf"`{re.escape(name)}\((.*?)\)`", PAGE)
        parameters = [
            parameter for parameter in inspect.signature(function).parameters.values() if parameter.name != "self"
        ]
        assert [word.split("=")[0].strip() for word in given.split(",") if word.strip() != "*"] == [
            parameter.name for parameter in parameters
        ]
        for one in parameters:
            if one.default is not one.empty and f"{one.name}=…" not in given:
                assert re.search(rf"\b{one.name}={re.escape(repr(one.default))}(,|$)", given), (name, one)
