"""Worker processes of a run with spares, without Ray: `test_spares.py` starts several and kills them.

Imports what is slow once, then forks a worker for each line of JSON on stdin and answers with its process id. Of a
worker: address, token, run (storage, name), node, order, active, steps, kill (a phase in which this process
ends itself with SIGKILL, once in the run, and the generation from which on), validate, settings,
output.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import json
import os
import pdb
import signal
import sys
import threading
import time
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import examples
import preload
import ray.train
import shapes
import shapes_of_laboratories  # noqa: F401 - adds its own
import shapes_of_researchers  # noqa: F401 - adds its own
import shapes_of_strangers  # noqa: F401 - adds its own
import shapes_of_trainers  # noqa: F401 - adds its own
import torch
import torch.distributed as dist
from counts import Counts
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from hyperpod_ray_training import Resumable, Rows, Run, Settings, faults, resumable, saving, writers
from hyperpod_ray_training.open_runs import LIVE
from hyperpod_ray_training.ranks import set_limit
from hyperpod_ray_training.spares import groups, memory, neighbour
from hyperpod_ray_training.spares import loop as spares

GIVEN: dict[str, Any] = {}


def phase(name: str) -> None:
    """Die here, if it is this process's turn."""
    generation = spares.current()
    if generation is None or generation.number < GIVEN.get("from_gen", 1):
        return
    flag = Path(GIVEN["storage"], f"kill-{name}-rank-{generation.rank}")
    if flag.exists():
        flag.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    surprise = Path(GIVEN["storage"], f"surprise-{name}-rank-{generation.rank}")
    if surprise.exists():
        surprise.unlink()
        raise ValueError(f"nobody thought of this in {name}")


def opening(store: Any, name: str, *rest: Any) -> None:
    """The meeting before a group is opened: a rank may die on its way there, or with all others waiting to connect."""
    die_at(f"meet-{name}")
    meet(store, name, *rest)
    die_at(f"met-{name}")


def die_at(moment: str) -> None:
    """Die here, in whichever generation, if this rank has been asked to."""
    flag = Path(GIVEN["storage"], f"kill-{moment}-rank-{os.environ['RANK']}")
    if flag.exists():
        flag.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


meet = groups.meet
groups.meet = opening  # type: ignore[assignment]


def handing(self: neighbour.Neighbour, *rest: Any) -> Any:
    """State moves from one rank to another."""
    phase("hand")
    return hand(self, *rest)


hand = neighbour.Neighbour._hand
neighbour.Neighbour._hand = handing  # type: ignore[method-assign, assignment]


def evaluate(step: int) -> None:
    """Compute for a minute in a rank of its own, if it has been asked to; a recovery must not wait for that."""
    flag = Path(GIVEN["storage"], f"evaluate-rank-{dist.get_rank()}")
    if flag.exists():
        flag.unlink()
        Path(GIVEN["storage"], f"evaluates-{os.getpid()}").touch()
        until = time.monotonic() + GIVEN.get("evaluate_s", 60)
        while time.monotonic() < until:
            torch.ones(64, 64).sum()


class Slow(torch.utils.data.Dataset[int]):  # type: ignore[misc]
    """Takes its time to read."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> int:
        time.sleep(self.seconds)
        return index


def alone(step: int) -> None:
    """What rank 0 does alone before a step, once in the run."""
    task = GIVEN.get("alone", {}).get(str(step))
    done = Path(GIVEN["storage"], f"alone-{step}")
    if task is None or dist.get_rank() != 0 or done.exists():
        return
    done.touch()
    until = time.monotonic() + GIVEN["alone_s"]
    if task == "compute":
        while time.monotonic() < until:
            torch.ones(64, 64).sum()
    elif task == "sleep":
        time.sleep(GIVEN["alone_s"])
    elif task == "read":
        list(torch.utils.data.DataLoader(Slow(GIVEN["alone_s"]), num_workers=1, generator=torch.Generator()))
    elif task == "lock":
        lock = threading.Lock()
        with lock:
            lock.acquire()


def perform(step: int) -> None:
    """What a healthy rank does for long before a step, where it has been asked to."""
    for flag in Path(GIVEN["storage"]).glob(f"do-*-rank-{dist.get_rank()}"):
        task, seconds = flag.name.split("-")[1], float(flag.read_text() or GIVEN.get("phase_s", 0.0))
        if task == "save":
            continue  # the writer looks at it
        flag.unlink(missing_ok=True)
        until = time.monotonic() + seconds
        if task == "evaluate":
            while time.monotonic() < until:
                torch.ones(64, 64).sum()
        elif task == "sleep":
            time.sleep(seconds)
        elif task == "recompile":
            while time.monotonic() < until:  # new code each time, as a compiler makes it
                exec(compile(f"x = {time.monotonic()}", "generated", "exec"), {})  # noqa: S102
        elif task == "read":
            list(torch.utils.data.DataLoader(Slow(seconds), num_workers=1, generator=torch.Generator()))
        elif task == "lock":
            ctypes.PyDLL(None).usleep(int(seconds * 1e6))
        elif task == "debug":
            debug(seconds)
        elif task == "hang":  # each time at another line: where ranks were fenced before, it may be the script
            lock = threading.Lock()
            lock.acquire()
            exec(compile("\n" * int(seconds) + "lock.acquire()", "hangs.py", "exec"), {"lock": lock})  # noqa: S102


def debug(seconds: float) -> None:
    """Stand at a breakpoint until somebody types `c`."""
    typed, types = os.pipe()
    threading.Timer(seconds, os.write, (types, b"c\n")).start()
    with os.fdopen(typed) as stdin, Path(os.devnull).open("w") as stdout:
        pdb.Pdb(stdin=stdin, stdout=stdout, nosigint=True).set_trace()
        time.sleep(0)  # the debugger stops here


def slow_shard(self: faults.FaultHooks) -> None:
    """A shard that takes long to write, where it has been asked to."""
    at_shard(self)
    flag = Path(GIVEN["storage"], f"do-save-rank-{self.rank}")
    if flag.exists():
        seconds = float(flag.read_text() or GIVEN["phase_s"])
        flag.unlink(missing_ok=True)
        time.sleep(seconds)


at_shard = faults.FaultHooks.at_shard
faults.FaultHooks.at_shard = slow_shard  # type: ignore[method-assign]


def hold_lock() -> None:
    """Hold Python's lock in calls of C that take seconds, one after another, as a pickle of much does."""
    pickled = ctypes.PyDLL(None).usleep  # called with the lock, which other functions give back
    pickled(4_000_000)
    sum(range(30_000_000))
    Path(GIVEN["storage"], "held-1").touch()


def train(config: dict[str, Any]) -> None:
    torch.manual_seed(0)
    world = dist.get_world_size()
    phase("group")
    if GIVEN.get("example"):
        example(config)
        return
    if GIVEN.get("rows"):
        counted(config)
        return
    if GIVEN.get("shape"):
        shapes.SHAPES[GIVEN["shape"]](config["run"])
        return
    inner = nn.Sequential(nn.Linear(8, 24), nn.Dropout(0.2), nn.Linear(24, 8))
    model = nn.Sequential(inner, nn.Linear(8, 5))
    mesh = init_device_mesh("cpu", (world,))
    if GIVEN.get("replicas"):
        mesh = init_device_mesh("cpu", (2, world // 2), mesh_dim_names=("replicate", "shard"))
    fully_shard(inner, mesh=mesh)
    fully_shard(model, mesh=mesh)
    assert all(p.device_mesh.get_rank() == dist.get_rank() for p in model.parameters()), "a mesh of another rank"
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.9)
    phase("build")
    extra = {"scheduler": scheduler}
    with Resumable(config["run"], model=model, optimizer=optimizer, extra=extra) as training:
        for step in training.steps(GIVEN["steps"]):
            phase("step")
            evaluate(step)
            alone(step)
            perform(step)
            if step == GIVEN.get("hold_lock_at") and dist.get_rank() == 1:
                hold_lock()
            generator = torch.Generator().manual_seed(step * 100 + dist.get_rank())
            x = torch.randn(4, 8, generator=generator)
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            total = loss.detach().clone()
            dist.all_reduce(total)
            if GIVEN.get("validate"):
                model.eval()
                with torch.no_grad():
                    model(x)  # leaves FSDP2's root unsharded
                model.train()
            time.sleep(GIVEN.get("step_s", 0.05))
            training.finished(step, loss=float(total), rate=scheduler.get_last_lr()[0])
            if step == GIVEN.get("pause_at"):
                long_pause(training)


def long_pause(training: Resumable) -> None:
    """Rank 0 waits in a collective, for longer than one may take outside a pause, until the test lets rank 1 go on."""
    rank, everybody = dist.get_rank(), dist.distributed_c10d._get_default_group()
    set_limit(everybody, timedelta(seconds=1))
    with training.pause():
        Path(GIVEN["storage"], f"paused-{rank}").touch()
        if rank:
            until_there("go-on")
        dist.barrier()
    set_limit(everybody, timedelta(seconds=training.settings.process_group_timeout_s))


def counted(config: dict[str, Any]) -> None:
    """What is trained in the end is, of each sample, how many steps that were kept had it."""
    world = dist.get_world_size()
    model = nn.parallel.DistributedDataParallel(Counts(GIVEN["epochs"], GIVEN["samples"]))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    rows = Rows(GIVEN["rows"], global_batch=6, columns=["id"], seed=1)
    training = Resumable(config["run"], model=model, optimizer=optimizer)
    for epoch in training.epochs(GIVEN["epochs"]):
        for batch in training.batches(rows):
            phase("step")
            optimizer.zero_grad()
            (world * model(epoch, batch["id"])).backward()
            optimizer.step()
            time.sleep(GIVEN.get("step_s", 0.05))
            training.note(loss=float(model.module.seen.detach().sum()))
    if dist.get_rank() == 0:
        Path(GIVEN["storage"], "seen.json").write_text(json.dumps(model.module.seen.tolist()))


def example(config: dict[str, Any]) -> None:
    """One of the published scripts, as Ray's local mode shows it this rank."""
    from ray.train.v2._internal.execution.train_fn_utils import LocalTrainFnUtils, set_train_fn_utils

    os.environ.update(LOCAL_RANK="0", LOCAL_WORLD_SIZE="1", ACCELERATE_USE_CPU="true")  # as Ray sets them, one a node
    name, folder = GIVEN["example"], Path(GIVEN["storage"])
    set_train_fn_utils(LocalTrainFnUtils("example", world_size=dist.get_world_size(), world_rank=dist.get_rank()))
    if name in examples.ADAPTERS:
        examples.ADAPTERS[name][0](folder)(config)
        return
    published = examples.EXAMPLES[name]
    published.loop(examples.names_of(published), folder)(config)


def gated(self: faults.FaultHooks) -> None:
    """Wait before some steps until the test says go: a script of others is faster than a spare is warm."""
    at_step(self)
    step = LIVE[-1].step if LIVE else -1  # type: ignore[attr-defined]
    if step in GIVEN.get("gates", ()):
        Path(GIVEN["storage"], f"at-{step}-{os.getpid()}").touch()
        until_there(f"go-{step}")


def until_there(name: str) -> None:
    """Wait for a file of the test's."""
    while not Path(GIVEN["storage"], name).exists():
        time.sleep(0.01)


at_step = faults.FaultHooks.at_step
faults.FaultHooks.at_step = gated  # type: ignore[method-assign]


def slow_to_plan(**given: Any) -> Any:
    """A writer on rank 0 whose thread comes to the first collective of a save a second after the loop's next one."""
    made = writer_for(**given)
    plan = made.prepare_local_plan

    def late(*arguments: Any) -> Any:
        time.sleep(1.0 if dist.get_rank() == 0 else 0.0)
        return plan(*arguments)

    made.prepare_local_plan = late
    return made


writer_for = writers.writer_for


def address() -> tuple[str, int]:
    """Where the coordinator is now."""
    file = GIVEN.get("address_file")
    host, port = json.loads(Path(file).read_text()) if file else GIVEN["address"]
    return host, port


def main() -> None:
    torch.set_num_threads(1)
    # a process that is short of processor time is slow, not lost
    if not GIVEN.get("product_limits"):
        spares.WARM_UP_LIMIT_S = 3600.0
    settings = Settings(**GIVEN.get("settings", {}))
    run = Run(storage=GIVEN["storage"], name=GIVEN["name"], save_every_steps=GIVEN["every"], settings=settings)
    resumable.report_alone = lambda *_: None  # type: ignore[attr-defined]  # no Ray here
    ray.train.get_checkpoint = lambda: None
    restore = memory.Memory.restore

    def restoring(self: memory.Memory) -> int | None:
        phase("state")
        return restore(self)

    memory.Memory.restore = restoring  # type: ignore[method-assign]
    if GIVEN.get("slow_to_plan"):
        saving.writer_for = slow_to_plan  # type: ignore[attr-defined]
    plan = spares.Plan(active=GIVEN["active"], coordinator=None, token=GIVEN["token"], backend="gloo")
    survivor = spares.Survivor(
        train, {"run": run}, plan, node=GIVEN["node"], order=GIVEN["order"], find=address,
        standby=GIVEN.get("standby", False),
    )  # fmt: skip
    survivor.run()


def worker(given: dict[str, Any]) -> NoReturn:
    """Become a worker."""
    output = os.open(given["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    GIVEN.update(given)
    faulthandler.register(signal.SIGUSR1)  # a rank that stands says where
    code = 0
    try:
        main()
    except spares.FallBackError:
        code = 3
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stderr.flush()
    os._exit(code)


def serve() -> None:
    """Fork on request until stdin ends."""
    preload.load(*preload.SCRIPTS)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the dead are nobody's to collect
    gc.freeze()  # what is imported is no state of a loop, and need not be copied into each process
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            worker(json.loads(line))
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
