from __future__ import annotations

from typing import Any

import pytest
from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchConfig

from hyperpod_ray_training import InputError, Run, Settings
from hyperpod_ray_training.merging import Asked, merged, resources_of

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
