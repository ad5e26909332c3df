"""Shapes of published training code: filters of gradients, hooks of DDP, tasks that are weighed, environments."""

# mypy: allow-untyped-decorators
from __future__ import annotations

import copy
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from shapes import STEPS, ddp, mean_gradients, rows, shape, total
from torch import nn

from hyperpod_ray_training import Resumable, Run, Values


def _weighed(run: Run, choose: Callable[[Any, Any], dict[str, Any]], *, holder: Any) -> None:
    """GradNorm: a weight for each task, moved by how fast its loss falls since the first one that was seen."""
    torch.manual_seed(0)
    trunk = ddp(nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2)))
    weights = nn.Parameter(torch.ones(2))
    for_trunk = torch.optim.Adam(trunk.parameters(), lr=0.02)
    for_weights = torch.optim.Adam([weights], lr=0.05)
    training = Resumable(run, model=trunk, optimizer=[for_trunk, for_weights], **choose(holder, weights))
    for step in training.steps(STEPS):
        x = rows(step)
        out = trunk(x)
        tasks = torch.stack([(out[:, 0] - x.sum(1)).square().mean(), (out[:, 1] - x.prod(1)).square().mean()])
        if holder.initial is None:
            holder.initial = tasks.detach()
        for_trunk.zero_grad()
        (weights.detach() * tasks).sum().backward(retain_graph=True)
        rates = tasks.detach() / holder.initial
        aim = weights.detach().mean() * (rates / rates.mean()) ** 0.5
        for_weights.zero_grad()
        (weights - aim).abs().sum().backward()
        mean_gradients(weights)
        for_weights.step()
        with torch.no_grad():
            weights.mul_(2 / weights.sum())
        for_trunk.step()
        training.finished(step, loss=total(tasks.sum()))


class _Tasks:
    initial: Any = None


@shape
def gradnorm(run: Run) -> None:
    _weighed(run, lambda kept, _: {"per_rank": {"kept": kept}}, holder=Values(initial=None))


@shape
def gradnorm_forgotten(run: Run) -> None:
    _weighed(run, lambda *_: {}, holder=_Tasks())


@shape
def first_batch_statistics_forgotten(run: Run) -> None:
    """Inputs are whitened by the first batch."""
    torch.manual_seed(0)
    model = ddp(nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    mean = std = None
    training = Resumable(run, model=model, optimizer=optimizer)
    for step in training.steps(STEPS):
        x = rows(step)
        if mean is None:
            mean, std = x.mean(0), x.std(0)
        loss = (model((x - mean) / std) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        training.finished(step, loss=total(loss))


@shape
def gradient_filter(run: Run) -> None:
    """Grokfast: a mean of each gradient is added to it."""
    torch.manual_seed(0)
    model = ddp(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    kept = Values(grads=None)
    training = Resumable(run, model=model, optimizer=optimizer, per_rank={"kept": kept})
    for step in training.steps(STEPS):
        x = rows(step)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        kept.grads = grokfast(model, kept.grads)
        optimizer.step()
        training.finished(step, loss=total(loss))


def grokfast(model: nn.Module, means: dict[str, torch.Tensor] | None) -> dict[str, torch.Tensor]:
    gradients = {name: p.grad.detach() for name, p in model.named_parameters() if p.grad is not None}
    means = dict(gradients) if means is None else means
    for name, p in model.named_parameters():
        means[name] = means[name] * 0.9 + gradients[name] * 0.1
        p.grad = gradients[name] + 2 * means[name]
    return means


@shape
def compressed_gradients(run: Run) -> None:
    """PowerSGD: a hook of DDP that keeps what it did not send."""
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1))
    model = ddp(net)
    state = powerSGD_hook.PowerSGDState(
        process_group=None, matrix_approximation_rank=1, start_powerSGD_iter=2, min_compression_rate=0.5
    )
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    training = Resumable(run, model=model, optimizer=optimizer)
    for step in training.steps(STEPS):
        x = rows(step)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        training.finished(step, loss=total(loss))


@shape
def post_local_sgd(run: Run) -> None:
    """torch's own: every step averages gradients at first, then every third one averages models."""
    from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as hooks
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    from torch.distributed.optim import PostLocalSGDOptimizer

    torch.manual_seed(0)
    model = ddp(nn.Linear(8, 1))
    state = hooks.PostLocalSGDState(process_group=None, subgroup=dist.new_subgroups(1)[0], start_localSGD_iter=4)
    model.register_comm_hook(state, hooks.post_localSGD_hook)
    averager = PeriodicModelAverager(period=3, warmup_steps=4)
    inner = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    optimizer = PostLocalSGDOptimizer(optim=inner, averager=averager)
    training = Resumable(run, model=model, optimizer=optimizer, per_rank={"averager": averager})
    for step in training.steps(STEPS):
        x = rows(step)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        training.finished(step, loss=total(loss))


@shape
def best_weights(run: Run) -> None:
    """The best weights are kept, and come back when the loss has not fallen for a while."""
    torch.manual_seed(0)
    model = ddp(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.4)
    best = Values(loss=float("inf"), weights=None, bad=0)
    training = Resumable(run, model=model, optimizer=optimizer, per_rank={"best": best})
    for step in training.steps(STEPS):
        x = rows(step)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        shown = total(loss)
        if shown < best.loss:
            best.loss, best.weights, best.bad = shown, copy.deepcopy(model.state_dict()), 0
        else:
            best.bad += 1
        if best.bad > 2:
            model.load_state_dict(best.weights)
            best.bad = 0
            for group in optimizer.param_groups:
                group["lr"] *= 0.5
        training.finished(step, loss=shown)


class DinoLoss(nn.Module):  # type: ignore[misc]
    """A centre of the teacher's outputs, in a buffer of the loss; temperatures by the step."""

    center: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("center", torch.zeros(1, 8))
        self.temperatures = np.concatenate([np.linspace(0.04, 0.07, 5), np.ones(STEPS - 5) * 0.07])

    def forward(self, student: torch.Tensor, teacher: torch.Tensor, step: int) -> torch.Tensor:
        aim = ((teacher - self.center) / self.temperatures[step]).softmax(-1).detach()
        self.update_center(teacher)
        return (-aim * (student / 0.1).log_softmax(-1)).sum(-1).mean()

    @torch.no_grad()
    def update_center(self, teacher: torch.Tensor) -> None:
        batch_center = teacher.sum(0, keepdim=True)
        dist.all_reduce(batch_center)
        self.center = self.center * 0.9 + batch_center / (len(teacher) * dist.get_world_size()) * 0.1


def _dino(run: Run, choose: Callable[[Any, Any, Any], Any]) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8))
    student, teacher, criterion = ddp(net), copy.deepcopy(net).requires_grad_(False), DinoLoss()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    momentum = 1 - np.cos(np.linspace(0, np.pi / 2, STEPS)) * 0.1
    training = Resumable(run, model=choose(student, teacher, criterion), optimizer=optimizer)
    for step in training.steps(STEPS):
        x = rows(step)
        for group in optimizer.param_groups:
            group["weight_decay"] = 0.04 + 0.01 * step
        loss = criterion(student(x + 0.1 * torch.randn_like(x)), teacher(x), step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for own, follows in zip(net.parameters(), teacher.parameters(), strict=True):
                follows.data.mul_(momentum[step]).add_((1 - momentum[step]) * own.detach().data)
        training.finished(step, loss=total(loss))


@shape
def dino(run: Run) -> None:
    _dino(run, lambda student, teacher, criterion: [student, teacher, criterion])


@shape
def dino_center_forgotten(run: Run) -> None:
    _dino(run, lambda student, teacher, _: [student, teacher])


class RunningMeanStd:
    """Of gym's `VecNormalize`."""

    def __init__(self) -> None:
        self.mean, self.var, self.count = np.zeros(4), np.ones(4), 1e-4

    def update(self, x: Any) -> None:
        delta, count = x.mean(0) - self.mean, self.count + len(x)
        self.mean = self.mean + delta * len(x) / count
        m2 = self.var * self.count + x.var(0) * len(x) + np.square(delta) * self.count * len(x) / count
        self.var, self.count = m2 / count, count


class Pendulums:
    """Four of them, stepped together in numpy."""

    def __init__(self, seed: int) -> None:
        self.chance = np.random.default_rng(seed)
        self.obs_rms, self.state = RunningMeanStd(), self.chance.normal(size=(4, 4))

    def observe(self) -> Any:
        self.obs_rms.update(self.state)
        return np.clip((self.state - self.obs_rms.mean) / np.sqrt(self.obs_rms.var + 1e-8), -10, 10)

    def step(self, action: Any) -> tuple[Any, Any]:
        self.state = 0.9 * self.state + 0.1 * action + 0.1 * self.chance.normal(size=(4, 4))
        return self.observe(), -np.square(self.state).mean(1)


def _ppo(run: Run, choose: Callable[[Any, Any], dict[str, Any]], *, kept: Any) -> None:
    """CleanRL's form: rollouts in tensors that are filled again, a normalized environment, a clipped loss."""
    np.random.seed(0)
    torch.manual_seed(0)
    actor, critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4)), nn.Linear(4, 1)
    agent = nn.ModuleDict({"actor": actor, "critic": critic})
    log_std = nn.Parameter(torch.zeros(4))
    optimizer = torch.optim.Adam([*agent.parameters(), log_std], lr=0.01, eps=1e-5)
    envs = Pendulums(dist.get_rank())
    kept.next_obs = torch.tensor(envs.observe(), dtype=torch.float32)
    obs, actions = torch.zeros(6, 4, 4), torch.zeros(6, 4, 4)
    logprobs, rewards, values = torch.zeros(6, 4), torch.zeros(6, 4), torch.zeros(6, 4)
    filled = ["obs", "actions", "logprobs", "rewards", "values"]  # row by row, before they are read
    training = Resumable(run, model=agent, optimizer=optimizer, recomputed=filled, **choose(envs, kept))
    for step in training.steps(STEPS):
        optimizer.param_groups[0]["lr"] = 0.01 * (1 - step / STEPS)
        for t in range(6):
            obs[t] = kept.next_obs
            with torch.no_grad():
                policy = torch.distributions.Normal(actor(kept.next_obs), log_std.exp())
                action = policy.sample()
                values[t] = critic(kept.next_obs).flatten()
            actions[t], logprobs[t] = action, policy.log_prob(action).sum(1)
            observed, reward = envs.step(action.numpy())
            kept.next_obs = torch.tensor(observed, dtype=torch.float32)
            rewards[t] = torch.tensor(reward)
        with torch.no_grad():
            advantages, last = torch.zeros_like(rewards), torch.zeros(4)
            next_value = critic(kept.next_obs).flatten()
            for t in reversed(range(6)):
                delta = rewards[t] + 0.99 * (values[t + 1] if t < 5 else next_value) - values[t]
                advantages[t] = last = delta + 0.99 * 0.95 * last
            returns = advantages + values
        order = np.arange(24)
        shown = 0.0
        for _ in range(2):
            np.random.shuffle(order)
            for start in range(0, 24, 12):
                index = order[start : start + 12]
                policy = torch.distributions.Normal(actor(obs.reshape(-1, 4)[index]), log_std.exp())
                ratio = (policy.log_prob(actions.reshape(-1, 4)[index]).sum(1) - logprobs.reshape(-1)[index]).exp()
                gain = advantages.reshape(-1)[index]
                gain = (gain - gain.mean()) / (gain.std() + 1e-8)
                loss = torch.max(-gain * ratio, -gain * ratio.clamp(0.8, 1.2)).mean()
                missed = critic(obs.reshape(-1, 4)[index]).flatten() - returns.reshape(-1)[index]
                loss = loss + 0.5 * missed.square().mean()
                optimizer.zero_grad()
                loss.backward()
                mean_gradients(*agent.parameters(), log_std)
                nn.utils.clip_grad_norm_([*agent.parameters(), log_std], 0.5)
                optimizer.step()
                shown += total(loss)
        training.finished(step, loss=shown)


@shape
def ppo(run: Run) -> None:
    _ppo(run, lambda envs, kept: {"per_rank": {"envs": envs, "kept": kept}}, kept=Values(next_obs=None))


@shape
def ppo_environment_forgotten(run: Run) -> None:
    _ppo(run, lambda _, kept: {"per_rank": {"kept": kept}}, kept=Values(next_obs=None))


class BackgroundGenerator(threading.Thread):
    """Of the package prefetch_generator: a thread draws ahead."""

    def __init__(self, generator: Iterator[Any], ahead: int = 2) -> None:
        super().__init__(daemon=True)
        self.queue: queue.Queue[Any] = queue.Queue(ahead)
        self.generator = generator
        self.start()

    def run(self) -> None:
        for item in self.generator:
            self.queue.put(item)
        self.queue.put(None)

    def __iter__(self) -> BackgroundGenerator:
        return self

    def __next__(self) -> Any:
        drawn = self.queue.get()
        if drawn is None:
            raise StopIteration
        return drawn


@shape
def drawn_by_a_thread_forgotten(run: Run) -> None:
    torch.manual_seed(0)
    model = ddp(nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    batches = BackgroundGenerator(rows(number) for number in range(1000))
    training = Resumable(run, model=model, optimizer=optimizer)
    for step in training.steps(STEPS):
        x = next(batches)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        training.finished(step, loss=total(loss))


@shape
def densified(run: Run) -> None:
    """Gaussian splatting: points are split in mid-run, with their part of the optimizer's state."""
    torch.manual_seed(0)
    net = nn.ParameterDict({"points": nn.Parameter(torch.randn(6, 8))})
    optimizer = torch.optim.Adam([{"params": [net["points"]], "name": "points"}], lr=0.05)
    training = Resumable(run, model=net, optimizer=optimizer)
    for step in training.steps(STEPS):
        loss = (rows(step) @ net["points"].T).square().mean() + net["points"].sum(1).sub(1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        mean_gradients(net["points"])
        optimizer.step()
        if step == 4:
            group, old = optimizer.param_groups[0], net["points"]
            state = optimizer.state.pop(old)
            grown = nn.Parameter(torch.cat([old.detach(), old.detach()[:2] * 1.1]))
            for name in ("exp_avg", "exp_avg_sq"):
                state[name] = torch.cat([state[name], torch.zeros(2, 8)])
            group["params"][0] = net["points"] = grown
            optimizer.state[grown] = state
        training.finished(step, loss=total(loss))


@shape
def compiled_parts(run: Run) -> None:
    """One part compiled, one not, one compiled function of the loss; BatchNorm and dropout inside."""
    torch.manual_seed(0)
    first, second = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.2)), nn.Linear(8, 1)
    net = nn.Sequential(torch.compile(first), second)
    model = ddp(net)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.05)
    criterion = torch.compile(lambda out, x: (out - x.sum(1, keepdim=True)).square().mean())
    training = Resumable(run, model=model, optimizer=optimizer)
    for step in training.steps(STEPS):
        x = rows(step)
        loss = criterion(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        training.finished(step, loss=total(loss))
