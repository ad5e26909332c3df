from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray.train.torch import TorchConfig

from hyperpod_ray_training import Run, Settings
from hyperpod_ray_training.run_parts import Parts
from hyperpod_ray_training.spares import driver

RUN = Run(storage="/fsx/runs", name="mine", settings=Settings())


class Placed:
    """Stands for Ray's remote class and its handle; notes how it was placed."""

    def __init__(self) -> None:
        self.options_given: dict[str, Any] = {}
        self.given: dict[str, Any] = {}
        self.address = SimpleNamespace(remote=lambda: None)

    def __call__(self, **options: Any) -> Any:
        self.options_given |= options
        return lambda _: self

    def options(self, **options: Any) -> Placed:
        self.options_given |= options
        return self

    def remote(self, **given: Any) -> Placed:
        self.given = given
        return self


@pytest.mark.parametrize(("least", "spares"), [(2, 1), (1, 0)])
def test_the_coordinator_sits_on_the_driver_s_node_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, least: int, spares: int
) -> None:
    here = "ab" * 28
    placed = Placed()
    monkeypatch.setattr(ray, "remote", placed)
    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(get_node_id=lambda: here))
    parts = Parts(loop=lambda _: None, torch_config=TorchConfig())
    made = driver.surviving(RUN, parts, workers=2, min_workers=least, spares=spares, on_gpu=False)
    strategy = placed.options_given["scheduling_strategy"]
    assert (strategy.node_id, strategy.soft) == (here, False)
    assert placed.options_given["max_restarts"] == placed.options_given["max_task_retries"] == -1
    assert (placed.given["active"], placed.given["least"], placed.given["spares"]) == (2, least, spares)
    (keeper,) = made.callbacks
    assert (keeper.active, keeper.elastic) == (least, least < 2)
    assert (made.survive, made.spares) == (True, spares)
