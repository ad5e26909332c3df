"""What a standby takes over, and when."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest
import ray.train.torch
from ray._private.worker import global_worker
from ray.air._internal import device_manager
from ray.train.v2._internal.execution import context as train_context
from ray.train.v2._internal.execution.context import DistributedContext

from hyperpod_ray_training.spares import seat

RANKS = {"world_rank": 3, "world_size": 4, "local_rank": 1, "local_world_size": 2, "node_rank": 1}


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A process that Ray started without a GPU, with the context of Ray Train."""
    context = SimpleNamespace(distributed_context=None)
    monkeypatch.setattr(train_context, "get_train_context", lambda: context)
    monkeypatch.setattr("ray.train.torch.config._set_torch_distributed_env_vars", lambda: None)
    monkeypatch.setattr(
        global_worker, "get_accelerator_ids_for_accelerator_resource", lambda name, regex: [], raising=False
    )
    monkeypatch.setattr(device_manager, "_torch_device_manager", "of a process without devices")
    monkeypatch.setenv(seat.VISIBLE, "0,1")
    context.waited_for = []
    monkeypatch.setattr(seat, "wait_until_gone", context.waited_for.append)
    return context


def described(gpus: list[Any], visible: str | None) -> str:
    return json.dumps({"gpus": gpus, "visible": visible, "ranks": RANKS})


@pytest.mark.parametrize(("gpus", "visible"), [([1], "0,1"), (["GPU-7a"], "GPU-3f,GPU-7a")])
def test_the_devices_and_ranks_of_the_lost_one_are_its_own(
    worker: SimpleNamespace, gpus: list[Any], visible: str
) -> None:
    seat.take(described(gpus, visible), pid=1)
    ask = global_worker.get_accelerator_ids_for_accelerator_resource
    assert ask("GPU", "^GPU_group_") == gpus
    assert ask("TPU", "^TPU_group_") == []
    assert seat.visible() == visible
    assert device_manager._torch_device_manager is None
    assert worker.distributed_context == DistributedContext(**RANKS)


def test_a_seat_without_devices_changes_none(worker: SimpleNamespace) -> None:
    seat.take(described([], None), pid=1)
    assert global_worker.get_accelerator_ids_for_accelerator_resource("GPU", "") == []
    assert seat.visible() == "0,1"
    assert worker.distributed_context.local_rank == 1
    assert worker.waited_for == [1], "the lost process may still have its devices"


def test_who_has_asked_cuda_for_fewer_devices_takes_no_seat(
    worker: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    with pytest.raises(seat.SeatTakenError, match="CUDA_VISIBLE_DEVICES=0,1, and CUDA was asked before"):
        seat.take(described([1], "0,1"), pid=1)


def test_a_process_that_still_lives_keeps_its_devices() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        with pytest.raises(seat.SeatTakenError, match=f"process {process.pid} still lives"):
            seat.wait_until_gone(process.pid, limit_s=0.05)
        waiting = threading.Thread(target=seat.wait_until_gone, args=(process.pid,), kwargs={"limit_s": 600})
        waiting.start()
        process.kill()  # nobody has waited for it yet: it has no memory any more, on no device
        waiting.join(600)
        assert not waiting.is_alive()
        assert process.returncode is None


def test_what_the_ranks_import_is_imported_and_what_cannot_be_is_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "this", raising=False)
    monkeypatch.delitem(sys.modules, "antigravity", raising=False)
    seat.import_all(["this", "no_such_module_of_theirs"])
    assert "this" in sys.modules
    assert "this" in seat.imported_modules()
    assert "__main__" not in seat.imported_modules()
    assert "standby: no_such_module_of_theirs is not imported (ModuleNotFoundError" in capsys.readouterr().err
    del sys.modules["this"]


def test_a_standby_costs_memory_of_the_host_and_says_how_much() -> None:
    memory = seat.host_megabytes()
    assert 0 < memory["private_mb"] <= memory["rss_mb"]


def test_ray_has_what_a_seat_changes() -> None:
    assert callable(type(global_worker).get_accelerator_ids_for_accelerator_resource)
    assert hasattr(device_manager, "_torch_device_manager")
    assert set(RANKS) == set(DistributedContext.__dataclass_fields__)
    assert callable(ray.train.torch.get_device)
