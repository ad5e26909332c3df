"""Names that the training library reads and the product writes: neither may import the other's."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from hyperpod_ray.core import names
from hyperpod_ray_training.settings import ENV_PREFIX, Settings

PROJECT = Path(__file__).resolve().parents[2]


def test_the_library_reads_the_number_of_spares_where_the_product_writes_it() -> None:
    assert Settings.from_env({names.SPARES_VARIABLE: "3"}).spares == 3
    assert names.SPARES_VARIABLE.startswith(ENV_PREFIX)


def test_the_product_writes_the_name_once() -> None:
    holders = [
        str(path.relative_to(PROJECT))
        for folder in ("hyperpod_ray/core", "hyperpod_ray/ops", "hyperpod_ray/cli", "k8s", "stacks")
        for path in (PROJECT / folder).rglob("*.py")
        if f'"{names.SPARES_VARIABLE}"' in path.read_text("utf-8")
    ]
    assert holders == ["hyperpod_ray/core/names.py"]


def test_the_library_takes_the_jobs_spares_from_the_variable_that_submit_sets() -> None:
    text = (PROJECT / "hyperpod_ray_training" / "run.py").read_text("utf-8")
    assert f'variable("{names.RUN_SPARES_VARIABLE}")' in text


@pytest.mark.parametrize("name", ["", ".model", ".checks", ".checks.account"])
def test_every_public_name_of_core_is_there(name: str) -> None:
    module = importlib.import_module(f"hyperpod_ray.core{name}")
    assert [public for public in module.__all__ if not hasattr(module, public)] == []
    assert len(module.__all__) == len(set(module.__all__))
