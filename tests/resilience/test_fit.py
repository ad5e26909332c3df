"""Your own configurations, merged with the run's; what contradicts it is refused, all at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import ray
import torch
from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchConfig

from hyperpod_ray_training import InputError, Run, Settings
from hyperpod_ray_training.merging import Asked, merged, resources_of
from hyperpod_ray_training.run_parts import Parts
from hyperpod_ray_training.spares import driver
from hyperpod_ray_training.spares.ray_view import Shard, View

RUN = Run(storage="/fsx/runs", name="mine", settings=Settings())


def ask(**given: Any) -> Asked:
    names = ("workers", "gpus", "cpus", "scaling", "run_config", "torch_config", "datasets", "dataset_config")
    return merged(RUN, **{name: given.get(name) for name in names})


def test_nothing_given_is_one_worker_with_a_cpu() -> None:
    asked = ask()
    assert (asked.workers, resources_of(asked)) == (1, {"CPU": 1.0})


@pytest.mark.parametrize(
    ("scaling", "workers", "resources"),
    [
        (ScalingConfig(num_workers=4), 4, {"CPU": 1.0}),
        (ScalingConfig(num_workers=(2, 4)), "2:4", {"CPU": 1.0}),
        (ScalingConfig(num_workers=2, use_gpu=True), 2, {"CPU": 1.0, "GPU": 1.0}),
        (
            ScalingConfig(num_workers=2, use_gpu=True, resources_per_worker={"GPU": 2, "trn": 1}),
            2,
            {"GPU": 2, "trn": 1},
        ),
        (ScalingConfig(num_workers=2, resources_per_worker={"CPU": 3}), 2, {"CPU": 3}),
    ],
)
def test_a_scaling_config_says_how_many_and_what_they_need(scaling: Any, workers: Any, resources: Any) -> None:
    asked = ask(scaling=scaling)
    assert (asked.workers, resources_of(asked)) == (workers, resources)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"workers": 2, "scaling": ScalingConfig(num_workers=4)}, "workers: 2 and ScalingConfig"),
        (
            {"gpus": 1, "scaling": ScalingConfig(use_gpu=True, resources_per_worker={"GPU": 2})},
            "gpus_per_worker: 1",
        ),
        ({"run_config": RunConfig(name="other")}, "RunConfig.name.: 'other'. Expected the run's, 'mine'"),
        ({"run_config": RunConfig(storage_path="/tmp/x")}, "RunConfig.storage_path.: '/tmp/x'"),
        ({"run_config": RunConfig(failure_config=FailureConfig(max_failures=3))}, "max_failures=3. Expected -1"),
        ({"run_config": RunConfig(checkpoint_config=CheckpointConfig(num_to_keep=1))}, "use Run.keep="),
        ({"torch_config": TorchConfig(timeout_s=600)}, "TorchConfig.timeout_s.: 600. Expected 20 or none"),
        ({"torch_config": TorchConfig(init_method="tcp")}, "TorchConfig.init_method.: 'tcp'"),
        ({"dataset_config": object()}, "dataset_config: one without datasets"),
    ],
)
def test_contradictions_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ask(**given)


def test_all_contradictions_are_named_at_once() -> None:
    with pytest.raises(InputError, match=r"RunConfig\(name\).*TorchConfig\(timeout_s\)"):
        ask(run_config=RunConfig(name="other"), torch_config=TorchConfig(timeout_s=600))


def test_what_agrees_is_kept() -> None:
    mine = RunConfig(name="mine", storage_path="/fsx/runs/", failure_config=FailureConfig(max_failures=-1))
    asked = ask(run_config=mine, torch_config=TorchConfig(backend="gloo", timeout_s=20))
    assert asked.run is mine
    assert asked.torch.backend == "gloo"


# ---- Ray's functions in a run with spares ----


class Whole:
    def iter_torch_batches(self, *, batch_size: int) -> Any:
        rows = torch.arange(11)
        yield from ({"x": part} for part in rows.split(batch_size))


def test_ranks_take_their_part_of_each_batch() -> None:
    parts = [
        [batch["x"].tolist() for batch in Shard(Whole(), rank=rank, world=3).iter_torch_batches(batch_size=2)]
        for rank in range(3)
    ]
    # the last five rows are one each, and two are left
    assert parts == [[[0, 1], [6]], [[2, 3], [7]], [[4, 5], [8]]]
    with pytest.raises(InputError, match="batch_size: None"):
        next(Shard(Whole(), rank=0, world=1).iter_torch_batches(batch_size=None))


def test_a_report_is_no_barrier_over_spares_and_takes_no_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    from hyperpod_ray_training import open_runs as live

    class Training:
        told_metrics: Any = None

        def leave(self, *, failed: bool) -> None: ...

        def told(self, metrics: Any) -> None:
            self.told_metrics = metrics

    training = Training()
    monkeypatch.setattr(live, "LIVE", live.LIVE)
    live.LIVE[:] = [training]
    try:
        View().report({"loss": 1.0})
        assert training.told_metrics == {"loss": 1.0}
        with pytest.raises(InputError, match=r"a checkpoint .* Expected metrics"):
            View().report({}, object())
    finally:
        live.LIVE.clear()


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


def test_a_ray_without_the_hooks_trains_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "supported", lambda: "Ray 3 has no hook")
    parts = Parts(loop=lambda _: None, torch_config=TorchConfig())
    assert driver.surviving(RUN, parts, workers=2, min_workers=1, spares=0, on_gpu=False) is parts
