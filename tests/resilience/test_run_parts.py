"""What helpers see of a run: `hyperpod_ray_training.Run` has all of it, and one without spares changes no part."""

from __future__ import annotations

from pathlib import Path

import pytest
from ray.train.torch import TorchConfig

from hyperpod_ray_training import Run, Settings
from hyperpod_ray_training.folder import RunFolder
from hyperpod_ray_training.run_parts import Parts, RunFacts
from hyperpod_ray_training.spares import driver


def test_a_run_has_what_helpers_see_of_one(tmp_path: Path) -> None:
    run: RunFacts = Run(storage=str(tmp_path), name="mine")
    assert (run.storage, run.name, run.best) == (str(tmp_path), "mine", None)
    assert isinstance(run.settings, Settings)
    assert isinstance(run.folder(), RunFolder)
    assert run.preflight().url == run.folder().url


def test_a_ray_without_the_hooks_trains_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "supported", lambda: "Ray 3 has no hook")
    parts = Parts(loop=lambda _: None, torch_config=TorchConfig())
    run = Run(storage="/fsx/runs", name="mine", settings=Settings())
    assert driver.surviving(run, parts, workers=2, min_workers=1, spares=0, on_gpu=False) is parts
