"""Training loops in the shapes of other people's scripts; `test_shapes.py` kills them and compares every loss.

A shape that ends in `_forgotten` is the same script without the argument that saves its state.
"""

from __future__ import annotations

import copy
import itertools
import os
import random
import signal
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from hyperpod_ray_training import Resumable, Run, Values

STEPS, EVERY = 16, 3
SHAPES: dict[str, Callable[[Any], None]] = {}


def shape(loop: Callable[..., None]) -> Callable[..., None]:
    """Add a loop to the table."""
    SHAPES[loop.__name__] = loop
    return loop


def rows(step: int, count: int = 8, width: int = 8) -> torch.Tensor:
    """The rows of this rank in a step."""
    return torch.randn(count, width, generator=torch.Generator().manual_seed(step * 10 + dist.get_rank()))


def total(loss: torch.Tensor) -> float:
    """The sum over the ranks."""
    summed = loss.detach().double().clone()
    dist.all_reduce(summed)
    return float(summed)


def mean_gradients(*parameters: torch.Tensor) -> None:
    """What DDP does, by hand."""
    for parameter in parameters:
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()


def lost_once(run: Run, step: int) -> None:
    """Rank 1 dies here, if the test has asked for it by this file."""
    if dist.get_rank() == 1 and (asked := Path(run.storage) / f"lost-in-{step}").exists():
        asked.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


def ddp(module: nn.Module, **options: Any) -> DistributedDataParallel:
    return DistributedDataParallel(module, **options)


def _gan(run: Run, choose: Callable[[Any, Any], dict[str, Any]]) -> None:
    torch.manual_seed(0)
    make, judge = ddp(nn.Linear(8, 8)), ddp(nn.Linear(8, 1))
    for_make = torch.optim.AdamW(make.parameters(), lr=0.05, betas=(0.5, 0.999))
    for_judge = torch.optim.AdamW(judge.parameters(), lr=0.05, betas=(0.5, 0.999))
    training = Resumable(run, model={"make": make, "judge": judge}, **choose(for_make, for_judge))
    for step in training.steps(STEPS):
        real, noise = rows(step), torch.randn(8, 8)
        for_judge.zero_grad()
        lost = (judge(real) - 1).square().mean() + judge(make(noise).detach()).square().mean()
        lost.backward()
        for_judge.step()
        lost_once(run, step)
        for_make.zero_grad()
        loss = (judge(make(noise)) - 1).square().mean()
        loss.backward()
        for_make.step()
        training.finished(step, loss=total(loss + lost))


@shape
def gan(run: Run) -> None:
    _gan(run, lambda one, two: {"optimizer": [one, two]})


@shape
def gan_second_in_extra(run: Run) -> None:
    _gan(run, lambda one, two: {"optimizer": one, "extra": {"judge": two}})


@shape
def gan_forgotten(run: Run) -> None:
    _gan(run, lambda one, two: {"optimizer": one})


def _muon(run: Run, choose: Callable[[Any, Any], Any]) -> None:
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    model = ddp(inner)
    matrices = torch.optim.Muon([parameter for parameter in inner.parameters() if parameter.ndim == 2], lr=0.02)
    rest = torch.optim.AdamW([parameter for parameter in inner.parameters() if parameter.ndim != 2], lr=0.02)
    training = Resumable(run, model=model, optimizer=choose(matrices, rest))
    for step in training.steps(STEPS):
        x = rows(step)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        matrices.zero_grad()
        rest.zero_grad()
        loss.backward()
        matrices.step()
        rest.step()
        training.finished(step, loss=total(loss))


@shape
def muon_and_adamw(run: Run) -> None:
    _muon(run, lambda one, two: {"muon": one, "adamw": two})


@shape
def muon_and_adamw_forgotten(run: Run) -> None:
    _muon(run, lambda one, two: two)


class OptimizersContainer(torch.optim.Optimizer):  # type: ignore[misc]
    """As torchtitan's: an Optimizer around one optimizer for each part of the model, without a state of its own."""

    def __init__(self, parts: list[nn.Module], **options: Any) -> None:
        self.optimizers = [torch.optim.AdamW(part.parameters(), **options) for part in parts]
        super().__init__([parameter for part in parts for parameter in part.parameters()], options)

    def step(self, closure: Any = None) -> None:
        for optimizer in self.optimizers:
            optimizer.step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=set_to_none)


@shape
def optimizer_container(run: Run) -> None:
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    model, optimizers = ddp(inner), OptimizersContainer([inner[0], inner[2]], lr=0.05)
    schedulers = [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9) for optimizer in optimizers.optimizers]
    extra = {f"scheduler-{number}": one for number, one in enumerate(schedulers)}
    training = Resumable(run, model=model, optimizer=optimizers, extra=extra)
    for step in training.steps(STEPS):
        x = rows(step)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizers.zero_grad()
        loss.backward()
        optimizers.step()
        for scheduler in schedulers:
            scheduler.step()
        training.finished(step, loss=total(loss))


class Byol(nn.Module):  # type: ignore[misc]
    """A network and its momentum copy in one module."""

    def __init__(self) -> None:
        super().__init__()
        self.online = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
        self.target = copy.deepcopy(self.online).requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.online(x) - self.target(x.flip(1)).detach() - x).square().mean()


@shape
def byol(run: Run) -> None:
    torch.manual_seed(0)
    net = Byol()
    model = ddp(net)
    optimizer = torch.optim.AdamW(net.online.parameters(), lr=0.05)
    training = Resumable(run, model=model, optimizer=optimizer)
    for step in training.steps(STEPS):
        loss = model(rows(step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for slow, quick in zip(net.target.parameters(), net.online.parameters(), strict=True):
            slow.data = slow.data * 0.9 + quick.data * 0.1
        training.finished(step, loss=total(loss))


@shape
def byol_target_forgotten(run: Run) -> None:
    torch.manual_seed(0)
    online = nn.Linear(8, 8)
    target = copy.deepcopy(online).requires_grad_(False)
    model, optimizer = ddp(online), torch.optim.AdamW(online.parameters(), lr=0.05)
    training = Resumable(run, model=model, optimizer=optimizer)
    for step in training.steps(STEPS):
        x = rows(step)
        loss = (model(x) - target(x.flip(1)) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for slow, quick in zip(target.parameters(), online.parameters(), strict=True):
                slow.lerp_(quick, 0.1)
        training.finished(step, loss=total(loss))


class Moco(nn.Module):  # type: ignore[misc]
    """A momentum encoder and a queue of keys in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(8, 4), nn.Linear(8, 4)
        self.key.load_state_dict(self.query.state_dict())
        self.key.requires_grad_(False)
        self.register_buffer("queue", torch.randn(4, 32))
        self.register_buffer("place", torch.zeros(1, dtype=torch.long))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            for slow, quick in zip(self.key.parameters(), self.query.parameters(), strict=True):
                slow.mul_(0.9).add_(quick, alpha=0.1)
            keys = self.key(x)
        loss = (self.query(x) @ self.queue.clone()).logsumexp(1).mean() - (self.query(x) * keys).sum(1).mean()
        at = int(self.place)
        self.queue[:, at : at + len(x)] = keys.T
        self.place[0] = (at + len(x)) % self.queue.shape[1]
        return loss


@shape
def moco(run: Run) -> None:
    torch.manual_seed(0)
    net = Moco()
    model = ddp(net, broadcast_buffers=False)
    optimizer = torch.optim.SGD(net.query.parameters(), lr=0.01, momentum=0.9)
    training = Resumable(run, model=model, optimizer=optimizer)
    for step in training.steps(STEPS):
        loss = model(rows(step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        training.finished(step, loss=total(loss))


class ReplayMemory:
    """As in PyTorch's DQN tutorial: a deque of transitions."""

    def __init__(self) -> None:
        self.memory: deque[tuple[torch.Tensor, int, float]] = deque(maxlen=64)

    def sample(self, chance: random.Random) -> list[tuple[torch.Tensor, int, float]]:
        return chance.sample(list(self.memory), min(8, len(self.memory)))


def _dqn(run: Run, choose: Callable[[Any, Any, Any], dict[str, Any]]) -> None:
    torch.manual_seed(0)
    net = nn.Linear(4, 2)
    target = copy.deepcopy(net)
    model, optimizer = ddp(net), torch.optim.AdamW(net.parameters(), lr=0.05)
    replay, chance = ReplayMemory(), random.Random(dist.get_rank())
    world = {"state": torch.zeros(4)}
    training = Resumable(run, optimizer=optimizer, **choose(model, target, (replay, chance, world)))
    for step in training.steps(STEPS):
        for _ in range(4):
            state = world["state"]
            best = int(net(state).argmax())
            action = best if chance.random() > 0.5 * 0.9**step else chance.randrange(2)
            world["state"] = (state + torch.randn(4) * (action + 1)).clamp(-3, 3)
            replay.memory.append((state, action, float(world["state"].sum())))
        batch = replay.sample(chance)
        states = torch.stack([state for state, _, _ in batch])
        actions, rewards = [action for _, action, _ in batch], torch.tensor([reward for _, _, reward in batch])
        with torch.no_grad():
            expected = rewards + 0.9 * target(states).max(1).values
        loss = (model(states)[torch.arange(len(batch)), actions] - expected).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 2 == 1:
            target.load_state_dict(net.state_dict())
        training.finished(step, loss=total(loss))


@shape
def dqn(run: Run) -> None:
    def choose(model: Any, target: Any, rest: Any) -> dict[str, Any]:
        replay, chance, world = rest
        return {
            "model": [model, target],
            "per_rank": {"replay": replay, "chance": chance, "world": world},
        }

    _dqn(run, choose)


@shape
def dqn_replay_forgotten(run: Run) -> None:
    _dqn(run, lambda model, target, rest: {"model": [model, target], "per_rank": {"chance": rest[1]}})


@shape
def moe_local_experts(run: Run) -> None:
    torch.manual_seed(0)
    router = nn.Linear(8, 8)
    expert = nn.Linear(8, 8)  # the same at the start, and another one on each rank from the first step on
    model = nn.ModuleDict({"router": router, "expert": expert})
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    training = Resumable(run, model=model, optimizer=optimizer)
    for step in training.steps(STEPS):
        x = rows(step)
        loss = (expert(router(x)) - (1 + dist.get_rank()) * x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        mean_gradients(*router.parameters())
        optimizer.step()
        training.finished(step, loss=total(loss))


@shape
def ddp_with_ignored_experts(run: Run) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    torch.manual_seed(100 + dist.get_rank())
    net[1].reset_parameters()
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(net, ["1.weight", "1.bias"])
    model, optimizer = ddp(net), torch.optim.AdamW(net.parameters(), lr=0.05)
    training = Resumable(run, model=model, optimizer=optimizer)
    for step in training.steps(STEPS):
        x = rows(step)
        loss = (model(x) - (1 + dist.get_rank()) * x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        training.finished(step, loss=total(loss))


@shape
def pipeline_stage(run: Run) -> None:
    """Two stages, each a `Sequential` with the same names and other layers; activations go to the next rank."""
    rank = dist.get_rank()
    torch.manual_seed(rank)
    stage = nn.Sequential(nn.Linear(8, 16), nn.Tanh()) if rank == 0 else nn.Sequential(nn.Linear(16, 8))
    optimizer = torch.optim.AdamW(stage.parameters(), lr=0.05)
    training = Resumable(run, model=stage, optimizer=optimizer)
    for step in training.steps(STEPS):
        x = torch.randn(8, 8, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        if rank == 0:
            out = stage(x)
            dist.send(out.detach(), 1)
            gradient = torch.zeros_like(out)
            dist.recv(gradient, 1)
            out.backward(gradient)
            loss = torch.zeros(())
        else:
            hidden = torch.zeros(8, 16)
            dist.recv(hidden, 0)
            hidden.requires_grad_()
            loss = (stage(hidden) - x.flip(1)).square().mean()
            loss.backward()
            assert hidden.grad is not None
            dist.send(hidden.grad, 0)
        optimizer.step()
        training.finished(step, loss=total(loss))


class Lora(nn.Module):  # type: ignore[misc]
    """A frozen layer and a trained product of two thin ones."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(8, 8).requires_grad_(False)
        self.down, self.up = nn.Linear(8, 2, bias=False), nn.Linear(2, 8, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: torch.Tensor) -> Any:
        return self.base(x) + self.up(self.down(x))


def _lora(run: Run, wrap: Callable[[nn.Module], nn.Module]) -> None:
    torch.manual_seed(0)
    net = Lora()
    model = wrap(net)
    optimizer = torch.optim.AdamW(
        [parameter for parameter in net.parameters() if parameter.requires_grad], lr=0.05, fused=True
    )
    training = Resumable(run, model=model, optimizer=optimizer)
    for step in training.steps(STEPS):
        x = rows(step)
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        training.finished(step, loss=total(loss))


@shape
def lora(run: Run) -> None:
    _lora(run, ddp)


@shape
def lora_fsdp2(run: Run) -> None:
    _lora(run, lambda net: fully_shard(net, mesh=init_device_mesh("cpu", (2,))))


@shape
def accumulation_by_hand(run: Run) -> None:
    """The optimizer steps after four steps of the run: gradients outlive `finished`."""
    torch.manual_seed(0)
    model = ddp(nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    training = Resumable(run, model=model, optimizer=optimizer)
    for step in training.steps(STEPS):
        x = rows(step)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        (loss / 4).backward()
        if step % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
        training.finished(step, loss=total(loss))


def _scaled(run: Run, choose: Callable[[Any, Any, Any], dict[str, Any]]) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.Linear(16, 1))
    model, optimizer = ddp(net), torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**4, growth_interval=2)
    ema = torch.optim.swa_utils.AveragedModel(net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    training = Resumable(run, model=model, optimizer=optimizer, **choose(scheduler, scaler, ema))
    for step in training.steps(STEPS):
        x = rows(step)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = (model(x) - x.sum(1, keepdim=True)).float().square().mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        ema.update_parameters(net)
        shown = sum(parameter.detach().double().sum() for parameter in ema.module.parameters()) + scaler.get_scale()
        training.finished(step, loss=total(loss) + total(torch.as_tensor(shown)))


@shape
def scaler_scheduler_ema(run: Run) -> None:
    _scaled(run, lambda scheduler, scaler, ema: {"extra": {"scheduler": scheduler, "scaler": scaler, "ema": ema}})


@shape
def scheduler_forgotten(run: Run) -> None:
    _scaled(run, lambda scheduler, scaler, ema: {"extra": {"scaler": scaler, "ema": ema}})


@shape
def scaler_forgotten(run: Run) -> None:
    _scaled(run, lambda scheduler, scaler, ema: {"extra": {"scheduler": scheduler, "ema": ema}})


@shape
def ema_forgotten(run: Run) -> None:
    _scaled(run, lambda scheduler, scaler, ema: {"extra": {"scheduler": scheduler, "scaler": scaler}})


@shape
def prefetched_batch(run: Run) -> None:
    """nanoGPT's: the next batch is drawn while the backward pass runs."""
    torch.manual_seed(dist.get_rank())
    model = ddp(nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    ahead = Values(x=torch.randn(8, 8))
    training = Resumable(run, model=model, optimizer=optimizer, per_rank={"ahead": ahead})
    for step in training.steps(STEPS):
        loss = (model(ahead.x) - ahead.x.sum(1, keepdim=True)).square().mean()
        ahead.x = torch.randn(8, 8)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        training.finished(step, loss=total(loss))


@shape
def prefetched_batch_forgotten(run: Run) -> None:
    torch.manual_seed(dist.get_rank())
    model = ddp(nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    x = torch.randn(8, 8)
    training = Resumable(run, model=model, optimizer=optimizer)
    for step in training.steps(STEPS):
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        x = torch.randn(8, 8)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        training.finished(step, loss=total(loss))


def _noise(run: Run, choose: Callable[[Any], dict[str, Any]]) -> None:
    torch.manual_seed(0)
    model, noise = ddp(nn.Linear(8, 1)), torch.Generator().manual_seed(5 + dist.get_rank())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    training = Resumable(run, model=model, optimizer=optimizer, **choose(noise))
    for step in training.steps(STEPS):
        x = rows(step) + 0.1 * torch.randn(8, 8, generator=noise)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        training.finished(step, loss=total(loss))


@shape
def own_generator(run: Run) -> None:
    _noise(run, lambda noise: {"per_rank": {"noise": noise}})


@shape
def own_generator_forgotten(run: Run) -> None:
    _noise(run, lambda noise: {})


@shape
def loader_with_workers(run: Run) -> None:
    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.randn(64, 8))
    loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True, num_workers=1, prefetch_factor=2)
    model = ddp(nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    training = Resumable(run, model=model, optimizer=optimizer)
    for _ in training.epochs(2):
        for (x,) in training.batches(loader):
            loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            training.note(loss=total(loss))


@shape
def loader_iterator_forgotten(run: Run) -> None:
    torch.manual_seed(0)
    batches = iter(torch.utils.data.DataLoader(torch.randn(160, 8), batch_size=8, shuffle=True))
    model = ddp(nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    training = Resumable(run, model=model, optimizer=optimizer)
    for step in training.steps(STEPS):
        x = next(batches)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        training.finished(step, loss=total(loss))


@shape
def local_sgd(run: Run) -> None:
    """Each rank trains by itself; they average after each fifth step."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    training = Resumable(run, model=model, optimizer=optimizer)
    for step in training.steps(STEPS):
        x = rows(step)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 4:
            for parameter in model.parameters():
                dist.all_reduce(parameter.data)
                parameter.data /= dist.get_world_size()
        training.finished(step, loss=total(loss))


@shape
def parameter_of_no_module(run: Run) -> None:
    """CLIP's temperature, given to the optimizer alone."""
    torch.manual_seed(0)
    model, warmth = ddp(nn.Linear(8, 8)), nn.Parameter(torch.ones(()))
    optimizer = torch.optim.AdamW([*model.parameters(), warmth], lr=0.05)
    training = Resumable(run, model=model, optimizer=optimizer)
    for step in training.steps(STEPS):
        x = rows(step)
        loss = (model(x) * warmth.exp() - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        mean_gradients(warmth)
        optimizer.step()
        training.finished(step, loss=total(loss))


@shape
def group_added_later(run: Run) -> None:
    """Gradual unfreezing, as ULMFiT's."""
    torch.manual_seed(0)
    back, head = nn.Linear(8, 8).requires_grad_(False), nn.Linear(8, 1)
    model = nn.Sequential(back, head)
    optimizer = torch.optim.AdamW(head.parameters(), lr=0.05)
    training = Resumable(run, model=model, optimizer=optimizer)
    for step in training.steps(STEPS):
        if step == 5:
            back.requires_grad_(True)
            optimizer.add_param_group({"params": list(back.parameters()), "lr": 0.01})
        x = rows(step)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        mean_gradients(*model.parameters())
        optimizer.step()
        training.finished(step, loss=total(loss))


@shape
def fsdp1(run: Run) -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = FullyShardedDataParallel(nn.Linear(8, 8), use_orig_params=True, device_id=torch.device("cpu"))
    Resumable(run, model=model, optimizer=torch.optim.AdamW(model.parameters()))


@shape
def zero_redundancy(run: Run) -> None:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = ddp(nn.Linear(8, 8))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=0.05)
    Resumable(run, model=model, optimizer=optimizer)


def _with_loader(run: Run, choose: Callable[[Any], Iterator[Any]]) -> None:
    torch.manual_seed(0)
    model = ddp(nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    loader = torch.utils.data.DataLoader(torch.randn(160, 8), batch_size=8, shuffle=True)
    batches = choose(loader)
    training = Resumable(run, model=model, optimizer=optimizer)
    for step in training.steps(STEPS):
        x = next(batches)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        training.finished(step, loss=total(loss))


def cycle(loader: Any) -> Iterator[Any]:
    """As in many scripts for diffusion models."""
    while True:
        yield from loader


@shape
def loader_cycle_forgotten(run: Run) -> None:
    _with_loader(run, cycle)


@shape
def itertools_cycle_forgotten(run: Run) -> None:
    _with_loader(run, itertools.cycle)


@shape
def map_of_seeds_forgotten(run: Run) -> None:
    def batch(seed: int) -> torch.Tensor:
        return torch.randn(8, 8, generator=torch.Generator().manual_seed(seed))

    _with_loader(run, lambda _: map(batch, itertools.count()))


@shape
def zip_of_steps_forgotten(run: Run) -> None:
    """No variable holds the iterator: the loop itself does."""
    torch.manual_seed(0)
    model = ddp(nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    batches = list(torch.randn(160, 8).split(8))
    training = Resumable(run, model=model, optimizer=optimizer)
    for step, x in zip(training.steps(STEPS), batches, strict=False):
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        training.finished(step, loss=total(loss))


def _late(run: Run, choose: Callable[[Any, Any], Any]) -> None:
    """A network that follows the trained one from the seventh step on, each third step."""
    torch.manual_seed(0)
    net = nn.Linear(8, 8)
    target = copy.deepcopy(net).requires_grad_(False)
    model, optimizer = ddp(net), torch.optim.AdamW(net.parameters(), lr=0.05)
    training = Resumable(run, model=choose(model, target), optimizer=optimizer)
    for step in training.steps(STEPS):
        x = rows(step)
        loss = (model(x) - target(x.flip(1)) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step >= 6 and step % 3 == 0:
            target.load_state_dict(net.state_dict())
        training.finished(step, loss=total(loss))


@shape
def late_target(run: Run) -> None:
    _late(run, lambda model, target: [model, target])


@shape
def late_target_forgotten(run: Run) -> None:
    _late(run, lambda model, target: model)


@shape
def late_average_forgotten(run: Run) -> None:
    """An average that is made when the warm-up is over."""
    torch.manual_seed(0)
    net = nn.Linear(8, 8)
    model, optimizer = ddp(net), torch.optim.AdamW(net.parameters(), lr=0.05)
    average = None
    training = Resumable(run, model=model, optimizer=optimizer)
    for step in training.steps(STEPS):
        x = rows(step)
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == 6:
            average = copy.deepcopy(net)
        if average is not None:
            with torch.no_grad():
                for slow, quick in zip(average.parameters(), net.parameters(), strict=True):
                    slow.lerp_(quick, 0.1)
            loss = loss + average.weight.sum()
        training.finished(step, loss=total(loss))


class Stream(torch.utils.data.IterableDataset[torch.Tensor]):  # type: ignore[misc]
    """Rows that come in order and have no index."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        generator = torch.Generator().manual_seed(dist.get_rank())
        for _ in range(8 * STEPS):
            yield torch.randn(8, generator=generator)


@shape
def streaming(run: Run) -> None:
    torch.manual_seed(0)
    loader = torch.utils.data.DataLoader(Stream(), batch_size=8, num_workers=1)
    model = ddp(nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    training = Resumable(run, model=model, optimizer=optimizer)
    for _ in training.epochs(1):
        for x in training.batches(loader):
            loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            training.note(loss=total(loss))


@shape
def streaming_forgotten(run: Run) -> None:
    _with_loader(run, lambda _: iter(torch.utils.data.DataLoader(Stream(), batch_size=8)))


@shape
def nanogpt(run: Run) -> None:
    """Its loop: micro-batches, a batch drawn ahead, a rate by the step, clipping, a scaler, the master evaluates."""
    torch.manual_seed(1337 + dist.get_rank())
    net = nn.Sequential(nn.Embedding(16, 8), nn.Dropout(0.1), nn.Linear(8, 16))
    model = ddp(net)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2, betas=(0.9, 0.95))
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    data = torch.randint(16, (512,), generator=torch.Generator().manual_seed(0))

    def get_batch() -> tuple[torch.Tensor, torch.Tensor]:
        at = torch.randint(len(data) - 9, (4,))
        return torch.stack([data[i : i + 8] for i in at]), torch.stack([data[i + 1 : i + 9] for i in at])

    ahead = Values(batch=get_batch())
    training = Resumable(run, model=model, optimizer=optimizer, extra={"scaler": scaler}, per_rank={"ahead": ahead})
    for step in training.steps(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 * (1 + step) / STEPS
        if step % 5 == 0 and dist.get_rank() == 0:
            net.eval()
            with torch.no_grad():
                net(get_batch()[0])
            net.train()
        for micro in range(2):
            model.require_backward_grad_sync = micro == 1
            x, y = ahead.batch
            loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()) / 2
            ahead.batch = get_batch()
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        training.finished(step, loss=total(loss))


@shape
def gpipe(run: Run) -> None:
    """torch's own pipeline, GPipe's schedule: a stage a rank, micro-batches."""
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    rank = dist.get_rank()
    torch.manual_seed(rank)
    module = nn.Sequential(nn.Linear(8, 16), nn.Tanh()) if rank == 0 else nn.Sequential(nn.Linear(16, 8))
    stage = PipelineStage(module, rank, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.05)
    training = Resumable(run, model=module, optimizer=optimizer)
    for step in training.steps(STEPS):
        x = torch.randn(8, 8, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        parts: list[torch.Tensor] = []
        if rank == 0:
            schedule.step(x)
        else:
            schedule.step(target=x.flip(1), losses=parts)
        optimizer.step()
        training.finished(step, loss=total(torch.stack(parts).sum() if parts else torch.zeros(())))
