"""Two ranks and spares on one card over gloo, by the product's coordinator and workers: what each fault costs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.gpu.__main__ import PROJECT, check_of
from benchmarks.gpu.losses import deterministic, events, losses

BEGUN = time.monotonic()
TOKEN = "of this run"  # noqa: S105 - on loopback, for this run
STEPS = 70
FAULTS = {"killed": (10, 1), "frozen": (26, 0), "endless kernel": (42, 1)}
"""The step at which each comes, and the rank that it meets."""
BARS_S = {"killed": 2.0, "frozen": 3.5, "endless kernel": 16.0}
"""A thread that waits for its GPU uses the processor; that nothing comes of it is known after ten seconds."""


def measure(device: str, *, small: bool) -> dict[str, Any]:
    """The undisturbed run, then one with all faults."""
    with tempfile.TemporaryDirectory() as folder:
        calm = Party(folder, "calm", device, spares=0, step_s=0.0)
        calm.until(lambda: calm.kinds("done"))
        calm.close()
        party = Party(folder, "struck", device, spares=len(FAULTS), step_s=0.1)
        progress("the undisturbed run is over")
        party.until(lambda: any(e.get("warm_spares", 0) >= len(FAULTS) for e in party.kinds("spare")))
        progress("the spares are warm")
        rows = [strike(party, fault, *where) for fault, where in FAULTS.items()]
        party.until(lambda: party.kinds("done"))
        party.close()
        true, struck = losses(folder, "calm"), losses(folder, "struck")
        paths = [event["path"] for event in party.kinds("restore")]
        log = Path(folder, "struck.log").read_text()[-3000:]
    differ = [step for step in true if set(struck.get(step, [])) != set(true[step])]
    checks = [
        check_of(
            f"{row['fault']}: no new step for",
            f"{row['no new step for s']} s",
            f"<= {BARS_S[row['fault']]:g} s",
            met=row["no new step for s"] <= BARS_S[row["fault"]] or small,
        )
        for row in rows
    ]
    checks.append(
        check_of(
            "losses after the faults, from memory",
            f"{len(differ)} of {len(true)} differ",
            "0 differ",
            met=len(true) == STEPS and set(struck) == set(true) and not differ,
        )
    )
    checks.append(
        check_of(
            "each return is from memory",
            ", ".join(paths[-len(FAULTS) :]),
            "memory each time",
            met=paths.count("memory") >= len(FAULTS) and paths[-len(FAULTS) :] == ["memory"] * len(FAULTS),
        )
    )
    return {"rows": rows, "checks": checks, "log": log}


def strike(party: Party, fault: str, step: int, rank: int) -> dict[str, Any]:
    """One fault, and what it costs."""
    party.until(lambda: party.newest_step() >= step)
    generation = len(party.kinds("generation"))
    pid = party.pids()[rank]
    begin = time.time()
    if fault == "endless kernel":
        Path(party.folder, f"{party.name}-endless-{rank}").touch()
        party.until(lambda: not Path(party.folder, f"{party.name}-endless-{rank}").exists())
        begin = time.time()
    else:
        os.kill(pid, signal.SIGKILL if fault == "killed" else signal.SIGSTOP)
    party.until(lambda: len(party.kinds("generation")) > generation)
    formed = party.kinds("generation")[-1]["t"]
    before = max(event["step"] for event in party.kinds("step") if event["t"] <= formed)
    party.until(lambda: party.newest_step() > before)
    resumed = next(event["t"] for event in party.kinds("step") if event["t"] > formed)
    newest = [event for event in party.kinds("step") if event["t"] <= formed][-1]
    again = sum(len(values) - 1 for values in losses(party.folder, party.name).values()) - party.again
    party.again += again
    restores = [event for event in party.kinds("restore") if event["t"] > begin]
    row = {
        "fault": fault,
        "rank": rank,
        "seen after s": round(formed - begin, 2),
        "no new step for s": round(resumed - min(newest["t"], resumed), 2),
        "done again": again,
        "from": restores[-1]["path"] if restores else "-",
        "build s": restores[-1].get("build_s") if restores else "-",
        "group s": restores[-1].get("group_s") if restores else "-",
        "load s": restores[-1]["seconds"] if restores else "-",
    }
    progress(json.dumps(row))  # a part that does not end has said so much
    return row


def progress(text: str) -> None:
    """For whoever looks at a part that does not end."""
    sys.stderr.write(f"{time.monotonic() - BEGUN:.1f} s: {text}\n")


class Party:
    """A coordinator in a thread, and workers around it."""

    def __init__(self, folder: str, name: str, device: str, *, spares: int, step_s: float) -> None:
        from hyperpod_ray_training import Run, Settings
        from hyperpod_ray_training.spares.coordinator import Coordinator
        from hyperpod_ray_training.spares.members import Limits

        self.folder, self.name, self.device, self.again = folder, name, device, 0
        Path(folder, name).mkdir()
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        settings = Settings()
        run = Run(storage=folder, name=name, settings=settings)
        self.coordinator = Coordinator(run=run, active=2, spares=spares, limits=Limits.of(settings), token=TOKEN)
        listening = self.coordinator.listen("127.0.0.1", nodes=False)
        address = asyncio.run_coroutine_threadsafe(listening, self.loop).result(60)
        code = "import json, sys; from benchmarks.gpu import faults; faults.work(**json.loads(sys.argv[1]))"
        self.log = Path(folder, f"{name}.log").open("w")  # noqa: SIM115 - closed by `close`
        self.workers = [
            subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    code,
                    json.dumps(
                        {
                            "folder": folder,
                            "name": name,
                            "device": device,
                            "address": address,
                            "order": order,
                            "step_s": step_s,
                        }
                    ),
                ],
                cwd=PROJECT,
                env=os.environ | {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "GLOO_SOCKET_IFNAME": "lo"},
                stdout=self.log,
                stderr=self.log,
            )
            for order in range(2 + spares)
        ]

    def kinds(self, name: str) -> list[dict[str, Any]]:
        """Events of a kind."""
        return [event for event in events(self.folder, self.name) if event["kind"] == name]

    def newest_step(self) -> int:
        """The furthest step that was done."""
        return max((event["step"] for event in self.kinds("step")), default=0)

    def pids(self) -> dict[int, int]:
        """The process of each rank."""
        return {int(rank): holder["pid"] for rank, holder in self.kinds("generation")[-1]["ranks"].items()}

    def until(self, condition: Callable[[], Any], *, seconds: float = 600.0) -> None:
        """Wait; the workers' words where it takes too long."""
        end = time.monotonic() + (seconds if self.device == "cpu" else seconds / 15)
        while not condition():
            if time.monotonic() > end:
                self.close()
                raise TimeoutError(Path(self.folder, f"{self.name}.log").read_text()[-4000:])
            time.sleep(0.01)

    def close(self) -> None:
        """End what was started."""
        for worker in self.workers:
            worker.kill()
            worker.wait()
        self.loop.call_soon_threadsafe(self.coordinator.close)
        self.log.close()


def work(*, folder: str, name: str, device: str, address: list[Any], order: int, step_s: float) -> None:
    """A worker: the product's, without Ray's driver."""
    import ray.train

    from hyperpod_ray_training import Run, Settings, resumable
    from hyperpod_ray_training.spares import loop as spares

    resumable.report_alone = lambda *_: None  # type: ignore[attr-defined]  # no Ray here
    ray.train.get_checkpoint = lambda: None
    # three and more processes share the card: what a copy costs them says nothing about a rank with a card of its own
    run = Run(storage=folder, name=name, save_every_steps=1000, settings=Settings(memory_overhead=0.0))
    backend = "cpu:gloo,cuda:gloo" if device == "cuda" else "gloo"
    plan = spares.Plan(active=2, coordinator=None, token=TOKEN, backend=backend)
    config = {"run": run, "device": device, "step_s": step_s, "folder": folder, "name": name}
    spares.Survivor(
        train, config, plan, node=f"127.0.0.{2 + order}", order=order, find=lambda: (address[0], int(address[1]))
    ).run()


def train(config: dict[str, Any]) -> None:
    """The loop: the shipped job's model with dropout, DDP over gloo."""
    import torch
    import torch.distributed as dist
    from torch.nn import functional

    from hyperpod_ray_training import Resumable
    from jobs.finetune.train import ByteModel

    deterministic(torch)
    place, rank = torch.device(config["device"]), dist.get_rank()
    torch.manual_seed(0)
    small = place.type == "cpu"
    plain = ByteModel(width=32 if small else 256, layers=1 if small else 4, heads=4, context=64, dropout=0.2).to(place)
    model = torch.nn.parallel.DistributedDataParallel(plain)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with Resumable(config["run"], model=model, optimizer=optimizer) as training:
        for step in training.steps(STEPS):
            generator = torch.Generator().manual_seed(2 * step + rank)
            symbols = torch.randint(0, 256, (4, 65), generator=generator).to(place)
            flag = Path(config["folder"], f"{config['name']}-endless-{rank}")
            if flag.exists():
                flag.unlink()
                endless(place)
            logits = model(symbols[:, :-1]).float()
            loss = functional.cross_entropy(logits.flatten(0, 1), symbols[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            time.sleep(config["step_s"])
            training.finished(step, loss=float(loss))


def endless(place: Any) -> None:
    """A kernel that never ends, and a host that waits for it; without a GPU, a lock that nobody gives back."""
    import torch

    if place.type == "cuda":
        torch.cuda._sleep(1 << 60)
        torch.cuda.synchronize()
        return
    lock = threading.Lock()
    with lock:
        lock.acquire()
