"""A worker's seat: the devices that Ray gave it, and its rank among the workers of its node.

A standby is a worker process without a seat. It imports what the ranks import and makes no CUDA context, so that it
takes memory of the host only. When a process of its node is lost it takes that seat over, as soon as the lost process
has let go of the devices.

Ray does not lend a GPU to a process that ran without one (ray 2.60: an idle worker is of one sort or the other). The
GPU stays reserved by the run's placement group, so the standby may use it. What Ray answers about devices in this
process follows: `ray.get_gpu_ids`, `get_accelerator_ids`, `ray.train.torch.get_device`, local ranks.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hyperpod_ray_training.journal import log

VISIBLE = "CUDA_VISIBLE_DEVICES"
GONE_S = 20.0
"""So long a killed process may hold its devices: the driver takes down what ran on them."""
_standing_by = False


class SeatTakenError(RuntimeError):
    """The lost process still has the devices."""


def stand_by(visible: str | None) -> None:
    """Mark this process as a standby that sees the devices of its node's workers. Called by Ray's controller.

    A process reads the variable once, when something first asks CUDA for devices: it must say then what it says later.
    """
    global _standing_by  # noqa: PLW0603 - of the process: the controller sets it, the loop's wrapper reads it
    _standing_by = True
    see(visible)


def see(visible: str | None) -> None:
    """Let this process see these devices; None leaves what it sees."""
    if visible is not None:
        os.environ[VISIBLE] = visible


def visible() -> str | None:
    """The devices that this process sees."""
    return os.environ.get(VISIBLE)


def stands_by() -> bool:
    """Whether this process is a standby."""
    return _standing_by


def describe() -> str:
    """This worker's seat."""
    import ray
    from ray.train.v2._internal.execution.context import get_train_context

    ranks = dataclasses.asdict(get_train_context().distributed_context)
    return json.dumps({"gpus": ray.get_gpu_ids(), "visible": visible(), "ranks": ranks})


def take(seat: str, *, pid: int) -> None:
    """Take over the seat of a process that is lost.

    Args:
        seat: As it described it; empty where it had none.
        pid: Its process, on this node.

    Raises:
        SeatTakenError: It still lives, or CUDA was used here before and sees other devices.
    """
    wait_until_gone(pid)
    if not seat:
        return
    from ray.air._internal import device_manager
    from ray.train.torch.config import _set_torch_distributed_env_vars
    from ray.train.v2._internal.execution.context import DistributedContext, get_train_context

    fields: dict[str, Any] = json.loads(seat)
    if fields["gpus"]:
        _own(fields["gpus"], fields["visible"])
    device_manager._torch_device_manager = None  # it was chosen for a process without devices
    get_train_context().distributed_context = DistributedContext(**fields["ranks"])
    _set_torch_distributed_env_vars()


def _own(gpus: list[Any], shown: str | None) -> None:
    """What Ray says in this process about its devices."""
    import torch
    from ray._private.worker import global_worker

    see(shown)
    listed = [name for name in (shown or "").split(",") if name]
    if torch.cuda.is_available() and torch.cuda.device_count() < len(listed):
        raise SeatTakenError(f"{VISIBLE}={shown}, and CUDA was asked before with fewer devices")
    theirs = global_worker.get_accelerator_ids_for_accelerator_resource

    def ids(resource_name: str, resource_regex: str) -> Any:
        return list(gpus) if resource_name == "GPU" else theirs(resource_name, resource_regex)

    global_worker.get_accelerator_ids_for_accelerator_resource = ids


def wait_until_gone(pid: int, *, limit_s: float = GONE_S) -> None:
    """Wait until a process of this node has ended; what it had on a GPU is free then."""
    until = time.monotonic() + limit_s
    while _lives(pid):
        if time.monotonic() > until:
            raise SeatTakenError(f"process {pid} still lives {limit_s:g} s after it was ended")
        time.sleep(0.01)


def _lives(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] not in {"Z", "X"}


def imported_modules() -> list[str]:
    """What this process has imported, in this order; nothing that only exists in it."""
    return [
        name
        for name, module in list(sys.modules.items())
        if name != "__main__" and getattr(getattr(module, "__spec__", None), "name", None) == name
    ]


def import_all(modules: Sequence[str]) -> None:
    """Import what is missing of `modules`; what cannot be imported is left to the loop."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in modules:
            if name not in sys.modules:
                try:
                    importlib.import_module(name)
                except Exception as error:
                    log(f"standby: {name} is not imported ({type(error).__name__}: {str(error)[:120]})")


def host_megabytes() -> dict[str, int]:
    """What this process takes of the host's memory, and how much of that it shares with nobody."""
    fields = {}
    for line in Path("/proc/self/smaps_rollup").read_text(encoding="utf-8").splitlines():
        words = line.split()
        if words[0] in {"Rss:", "Private_Clean:", "Private_Dirty:"}:
            fields[words[0]] = int(words[1]) // 1024
    return {"rss_mb": fields["Rss:"], "private_mb": fields["Private_Clean:"] + fields["Private_Dirty:"]}
