"""A run with dropout that is killed and resumed from its checkpoint: its losses beside those of an undisturbed run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.gpu.__main__ import PROJECT, check_of

STEPS, KILL_AT, EVERY = 60, 37, 10
"""Steps; the kill comes soon after one of them; steps between two checkpoints."""


def measure(device: str, *, small: bool) -> dict[str, Any]:
    """The undisturbed run, then the one that is killed."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        _start(folder, "calm", device).wait()
        calm_s = time.monotonic() - begin
        process = _start(folder, "killed", device)
        while process.poll() is None and len(losses(folder, "killed")) < KILL_AT:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        begin = time.monotonic()
        code = _start(folder, "killed", device).wait()
        calm, killed = losses(folder, "calm"), losses(folder, "killed")
        errors = [
            event.get("message")
            for name in ("calm", "killed")
            for event in events(folder, name)
            if event["kind"] == "error"
        ]
        restored = [event for event in events(folder, "killed") if event["kind"] == "restore"]
    again = sum(len(values) - 1 for values in killed.values())
    differ = [step for step in calm if set(killed.get(step, [])) != set(calm[step])]
    row = {
        "run": "dropout, FSDP2 in bf16, world of one",
        "steps": len(calm),
        "killed at": KILL_AT,
        "resumed from": restored[-1]["step"] if restored else "-",
        "done again": again,
        "losses that differ": len(differ),
        "calm run s": round(calm_s, 1),
        "resumed run s": round(time.monotonic() - begin, 1),
    }
    met = code == 0 and len(calm) == STEPS and set(killed) == set(calm) and not differ and again > 0
    return {
        "rows": [row],
        "errors": errors,
        "checks": [
            check_of(
                "losses after a kill, from disk",
                f"{len(differ)} of {len(calm)} differ",
                "0 differ, some steps done again",
                met=met,
            ),
            check_of("saves that failed", f"{len(errors)} {errors[:1]}", "0", met=not errors),
        ],
    }


def events(folder: str, name: str) -> list[dict[str, Any]]:
    """What a run has written; the last line may be half there."""
    try:
        text = Path(folder, name, "events.jsonl").read_text()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.rpartition("\n")[0].splitlines()]


def losses(folder: str, name: str) -> dict[int, list[float]]:
    """Step to the losses seen there; a step that was done again has two."""
    values: dict[int, list[float]] = {}
    for event in events(folder, name):
        if event["kind"] == "step":
            values.setdefault(event["step"], []).append(event["loss"])
    return values


def _start(folder: str, name: str, device: str) -> subprocess.Popen[bytes]:
    code = f"from benchmarks.gpu import losses; losses.train_main({folder!r}, {name!r}, {device!r})"
    environment = os.environ | {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    return subprocess.Popen([sys.executable, "-c", code], cwd=PROJECT, env=environment)


def train_main(folder: str, name: str, device: str) -> None:
    """The run, in Ray's local mode: the shipped job's model, sharded by FSDP2 in a world of one."""
    from hyperpod_ray_training import Run

    run = Run(storage=folder, name=name, save_every_steps=EVERY)
    run.fit(train, workers=0, config={"device": device})


def train(config: dict[str, Any]) -> None:
    """The loop."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.nn import functional

    from hyperpod_ray_training import Resumable, ensure_process_group
    from jobs.finetune.train import ByteModel

    ensure_process_group()
    deterministic(torch)
    place = torch.device(config["device"])
    torch.manual_seed(0)
    model = ByteModel(width=128, layers=2, heads=4, context=64, dropout=0.2).to(place)
    mesh = init_device_mesh(place.type, (1,))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with Resumable(config["run"], model=model, optimizer=optimizer) as training:
        for step in training.steps(STEPS):
            generator = torch.Generator().manual_seed(step)
            symbols = torch.randint(0, 256, (8, 65), generator=generator).to(place)
            logits = model(symbols[:, :-1]).float()
            loss = functional.cross_entropy(logits.flatten(0, 1), symbols[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            training.finished(step, loss=float(loss))


def deterministic(torch: Any) -> None:
    """Sums in the same order each time; the check is about state, not about kernels that add as they please."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
