"""The pictures of the README and the docs are drawn from the app and are not stale."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest

from hyperpod_ray.core.loader import FOLDER
from tests.stacks.assembled import PROJECT, Assembly, synthesize


@pytest.fixture(scope="module")
def drawing() -> ModuleType:
    spec = importlib.util.spec_from_file_location("draw_architecture", PROJECT / "docs" / "draw_architecture.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def stored(name: str) -> str:
    return (PROJECT / "docs" / name).read_text()


def test_the_picture_is_of_this_app(drawing: ModuleType, assemblies: dict[str, Assembly]) -> None:
    drawn = drawing.draw(drawing.read(assemblies["prod"].folder))
    assert drawn == stored("architecture.svg"), "run `make picture` and commit docs/architecture.svg"


def test_the_picture_of_slurm_is_of_this_app(drawing: ModuleType) -> None:
    drawn = drawing.draw(drawing.read(synthesize("slurm", folder=FOLDER / "examples").folder))
    assert drawn == stored("architecture-slurm.svg"), "run `make picture` and commit docs/architecture-slurm.svg"
    assert "HyperPod on Slurm" in drawn
    assert "partition train" in drawn
