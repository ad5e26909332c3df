"""Shapes of published optimizers, losses, memories, data sets and a trainer, in the form that scripts copy."""

# mypy: allow-untyped-decorators
from __future__ import annotations

import copy
import functools
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from shapes import STEPS, ddp, rows, shape, total
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from hyperpod_ray_training import Resumable, Run


class Sam(torch.optim.Optimizer):  # type: ignore[misc]
    """Sharpness-aware minimization, in the form that most scripts copy: a base optimizer inside, shared groups."""

    param_groups: list[dict[str, Any]]

    def __init__(self, params: Any, base: Any, rho: float = 0.05, **options: Any) -> None:
        super().__init__(params, {"rho": rho, **options})
        self.base_optimizer = base(self.param_groups, **options)
        self.param_groups = self.base_optimizer.param_groups
        self.defaults.update(self.base_optimizer.defaults)

    @torch.no_grad()
    def first_step(self) -> None:
        norm = torch.stack([p.grad.norm() for group in self.param_groups for p in group["params"]]).norm()
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["old_p"] = p.data.clone()
                p.add_(p.grad * (group["rho"] / (norm + 1e-12)))

    @torch.no_grad()
    def second_step(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                p.data = self.state[p]["old_p"]
        self.base_optimizer.step()


@shape
def sam(run: Run) -> None:
    torch.manual_seed(0)
    model = ddp(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)))
    optimizer = Sam(model.parameters(), torch.optim.SGD, lr=0.05, momentum=0.9)
    training = Resumable(run, model=model, optimizer=optimizer)
    for step in training.steps(STEPS):
        x = rows(step)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.first_step()
        optimizer.zero_grad()
        (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
        optimizer.second_step()
        optimizer.zero_grad()
        training.finished(step, loss=total(loss))


class Lookahead(torch.optim.Optimizer):  # type: ignore[misc]
    """Slow weights, made at the first of each fifth step, around another optimizer."""

    def __init__(self, inner: Any, k: int = 5, alpha: float = 0.5) -> None:
        self.optimizer, self.k, self.alpha, self.counter = inner, k, alpha, 0
        super().__init__(inner.param_groups, {})
        self.param_groups = inner.param_groups

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        self.optimizer.step(closure)
        for group in self.param_groups:
            for p in group["params"]:
                slow = self.state[p].setdefault("slow_buffer", p.detach().clone())
                if group.setdefault("counter", 0) % self.k == self.k - 1:
                    slow.add_(p - slow, alpha=self.alpha)
                    p.copy_(slow)
            group["counter"] += 1


@shape
def lookahead(run: Run) -> None:
    torch.manual_seed(0)
    model = ddp(nn.Linear(8, 1))
    optimizer = Lookahead(torch.optim.AdamW(model.parameters(), lr=0.05))
    training = Resumable(run, model=model, optimizer=optimizer)
    for step in training.steps(STEPS):
        x = rows(step)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        training.finished(step, loss=total(loss))


class AdamWScheduleFree(torch.optim.Optimizer):  # type: ignore[misc]
    """Schedule-free AdamW: `z` beside the weights, plain numbers in the groups, weights that `eval` swaps."""

    def __init__(self, params: Any, lr: float, betas: tuple[float, float] = (0.9, 0.99), warmup_steps: int = 3) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": 1e-8, "k": 0, "warmup_steps": warmup_steps, "train_mode": False,
                    "weight_sum": 0.0, "lr_max": -1.0}  # fmt: skip
        super().__init__(params, defaults)

    @torch.no_grad()
    def _swap(self, *, train: bool) -> None:
        for group in self.param_groups:
            if group["train_mode"] != train:
                weight = 1 - group["betas"][0] if train else 1 - 1 / group["betas"][0]
                for p in group["params"]:
                    if "z" in self.state[p]:
                        p.lerp_(self.state[p]["z"], weight)
                group["train_mode"] = train

    def train(self) -> None:
        self._swap(train=True)

    def eval(self) -> None:
        self._swap(train=False)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            assert group["train_mode"]
            beta1, beta2 = group["betas"]
            group["k"] += 1
            lr = group["lr"] * min(1.0, group["k"] / group["warmup_steps"])
            group["lr_max"] = max(lr, group["lr_max"])
            group["weight_sum"] += group["lr_max"] ** 2
            share = group["lr_max"] ** 2 / group["weight_sum"]
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["z"], state["exp_avg_sq"] = p.clone(), torch.zeros_like(p)
                state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                root = (state["exp_avg_sq"] / (1 - beta2 ** group["k"])).sqrt().add_(group["eps"])
                grad = p.grad / root
                p.lerp_(state["z"], share).add_(grad, alpha=lr * (beta1 * (1 - share) - 1))
                state["z"].sub_(grad, alpha=lr)


@shape
def schedule_free(run: Run) -> None:
    torch.manual_seed(0)
    model = ddp(nn.Linear(8, 1))
    optimizer = AdamWScheduleFree(model.parameters(), lr=0.1)
    optimizer.train()
    training = Resumable(run, model=model, optimizer=optimizer)
    for step in training.steps(STEPS):
        x = rows(step)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 4 == 3:
            optimizer.eval()
            with torch.no_grad():
                loss = loss + model(rows(99)).square().mean()
            optimizer.train()
        training.finished(step, loss=total(loss))


@shape
def swa(run: Run) -> None:
    """Polyak's average from the seventh step on, `SWALR`, and new statistics of BatchNorm for it at the end."""
    from torch.optim.swa_utils import SWALR, AveragedModel, update_bn

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
    model = ddp(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    average = AveragedModel(net)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    constant = SWALR(optimizer, swa_lr=0.03, anneal_epochs=3)
    extra = {"average": average, "decay": decay, "constant": constant}
    training = Resumable(run, model=model, optimizer=optimizer, extra=extra)
    for step in training.steps(STEPS):
        x = rows(step)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step >= 6:
            average.update_parameters(net)
            constant.step()
        else:
            decay.step()
        shown = loss
        if step % 5 == 0 or step == STEPS - 1:
            update_bn([rows(number) for number in range(3)], average)
            average.eval()
            with torch.no_grad():
                shown = loss + average(rows(99)).square().mean()
        training.finished(step, loss=total(shown))


class Clip(nn.Module):  # type: ignore[misc]
    """Two towers and the temperature."""

    def __init__(self) -> None:
        super().__init__()
        self.image, self.text = nn.Linear(8, 4), nn.Sequential(nn.Linear(8, 4), nn.Dropout(0.1))
        self.logit_scale = nn.Parameter(torch.ones([]) * np.log(1 / 0.07))

    def forward(self, image: torch.Tensor, text: torch.Tensor) -> Any:
        image, text = self.image(image), self.text(text)
        return nn.functional.normalize(image, dim=-1), nn.functional.normalize(text, dim=-1), self.logit_scale.exp()


@shape
def clip_gathered(run: Run) -> None:
    """OpenCLIP's loss: features of all ranks, with gradients; labels that are kept; a scale that is clamped."""
    from torch.distributed.nn.functional import all_gather

    torch.manual_seed(dist.get_rank())
    net = Clip()
    model = ddp(net)
    decayed = [p for p in net.parameters() if p.ndim >= 2]
    rest = [p for p in net.parameters() if p.ndim < 2]
    optimizer = torch.optim.AdamW([{"params": rest, "weight_decay": 0.0}, {"params": decayed, "weight_decay": 0.2}],
                                  lr=0.02)  # fmt: skip
    labels: dict[str, torch.Tensor] = {}
    training = Resumable(run, model=model, optimizer=optimizer)
    for step in training.steps(STEPS):
        image, text, scale = model(rows(step), rows(step).flip(1))
        images, texts = torch.cat(all_gather(image)), torch.cat(all_gather(text))
        if "cpu" not in labels:
            labels["cpu"] = torch.arange(len(images))
        logits = scale * images @ texts.T
        loss = (nn.functional.cross_entropy(logits, labels["cpu"])
                + nn.functional.cross_entropy(logits.T, labels["cpu"])) / 2  # fmt: skip
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        with torch.no_grad():
            net.logit_scale.clamp_(0, np.log(100))
        training.finished(step, loss=total(loss))


class PrioritizedReplay:
    """A sum tree in an array, transitions in a list of its own, a place to write."""

    def __init__(self, capacity: int = 32) -> None:
        self.capacity, self.place, self.size, self.highest = capacity, 0, 0, 1.0
        self.tree = np.zeros(2 * capacity - 1)
        self.data: list[Any] = [None] * capacity

    def update(self, leaf: int, priority: float) -> None:
        change = priority - self.tree[leaf]
        self.highest = max(self.highest, priority)
        while True:
            self.tree[leaf] += change
            if leaf == 0:
                return
            leaf = (leaf - 1) // 2

    def add(self, transition: Any) -> None:
        self.data[self.place] = transition
        self.update(self.place + self.capacity - 1, self.highest)
        self.place, self.size = (self.place + 1) % self.capacity, min(self.size + 1, self.capacity)

    def sample(self, count: int, chance: random.Random) -> tuple[list[int], list[Any], torch.Tensor]:
        leaves = []
        for _ in range(count):
            node, mass = 0, chance.random() * self.tree[0]
            while 2 * node + 1 < len(self.tree):
                left = 2 * node + 1
                node, mass = (left, mass) if mass <= self.tree[left] else (left + 1, mass - self.tree[left])
            leaves.append(node)
        weights = torch.tensor([(self.size * self.tree[leaf] / self.tree[0]) ** -0.5 for leaf in leaves])
        return leaves, [self.data[leaf - self.capacity + 1] for leaf in leaves], weights / weights.max()


def _prioritized(run: Run, choose: Callable[[Any, Any], dict[str, Any]]) -> None:
    torch.manual_seed(0)
    net = nn.Linear(4, 2)
    target, model = copy.deepcopy(net), ddp(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    replay, world = PrioritizedReplay(), {"state": torch.zeros(4), "chance": random.Random(dist.get_rank())}
    training = Resumable(run, model=[model, target], optimizer=optimizer, per_rank=choose(replay, world))
    for step in training.steps(STEPS):
        chance = world["chance"]
        for _ in range(4):
            state = world["state"]
            action = int(net(state).argmax()) if chance.random() > 0.5 * 0.9**step else chance.randrange(2)
            world["state"] = (state + torch.randn(4) * (action + 1)).clamp(-3, 3)
            replay.add((state, action, float(world["state"].sum())))
        leaves, batch, weights = replay.sample(8, chance)
        states = torch.stack([state for state, _, _ in batch])
        with torch.no_grad():
            expected = torch.tensor([reward for _, _, reward in batch]) + 0.9 * target(states).max(1).values
        errors = model(states)[torch.arange(8), [action for _, action, _ in batch]] - expected
        loss = (weights * errors.square()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for leaf, error in zip(leaves, errors.tolist(), strict=True):
            replay.update(leaf, abs(error) + 1e-3)
        if step % 3 == 2:
            target.load_state_dict(net.state_dict())
        training.finished(step, loss=total(loss))


@shape
def dqn_prioritized(run: Run) -> None:
    _prioritized(run, lambda replay, world: {"replay": replay, "world": world})


@shape
def dqn_prioritized_forgotten(run: Run) -> None:
    _prioritized(run, lambda replay, world: {"world": world})


class Packed(torch.utils.data.IterableDataset[Any]):  # type: ignore[misc]
    """As torchtitan's data set of text: documents of any length, packed into sequences, with a state of its own."""

    def __init__(self, rank: int, length: int = 9) -> None:
        self.rank, self.length = rank, length
        self.sample, self.buffer = 0, torch.zeros(0, dtype=torch.long)

    def __iter__(self) -> Iterator[Any]:
        while True:
            while len(self.buffer) >= self.length:
                packed, self.buffer = self.buffer[: self.length], self.buffer[self.length :]
                yield {"input": packed[:-1]}, packed[1:]
            drawn = torch.Generator().manual_seed(self.sample * 10 + self.rank)
            words = torch.randint(3, 14, (1,), generator=drawn)
            self.buffer = torch.cat([self.buffer, torch.randint(16, (int(words),), generator=drawn)])
            self.sample += 1

    def state_dict(self) -> dict[str, Any]:
        return {"sample": self.sample, "buffer": self.buffer}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        self.sample, self.buffer = saved["sample"], saved["buffer"]


class OptimizersContainer(torch.optim.Optimizer):  # type: ignore[misc]
    """torchtitan's: an Optimizer and a `Stateful` over model parts."""

    def __init__(self, model_parts: list[nn.Module], **options: Any) -> None:
        self.model_parts, self.optimizers = model_parts, []
        everything = []
        for part in model_parts:
            trained = [p for p in part.parameters() if p.requires_grad]
            self.optimizers.append(torch.optim.AdamW(trained, **options))
            everything += trained
        super().__init__(everything, options)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.optimizers)

    def step(self, *_: Any, **__: Any) -> None:
        for optimizer in self.optimizers:
            optimizer.step()

    def zero_grad(self, *_: Any, **__: Any) -> None:
        for optimizer in self.optimizers:
            optimizer.zero_grad()

    def state_dict(self) -> dict[str, Any]:
        read = functools.partial(get_optimizer_state_dict, options=StateDictOptions(flatten_optimizer_state_dict=True))
        return {k: v for sd in map(read, self.model_parts, self.optimizers) for k, v in sd.items()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        write = functools.partial(
            set_optimizer_state_dict, optim_state_dict=state_dict,
            options=StateDictOptions(flatten_optimizer_state_dict=True),
        )  # fmt: skip
        list(map(write, self.model_parts, self.optimizers))


class LRSchedulersContainer:
    """One schedule for every optimizer."""

    def __init__(self, optimizers: OptimizersContainer) -> None:
        self.schedulers = [
            torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1 / (1 + 0.2 * n)) for optimizer in optimizers
        ]

    def step(self) -> None:
        for scheduler in self.schedulers:
            scheduler.step()

    def state_dict(self) -> dict[str, Any]:
        saved: dict[str, Any] = self.schedulers[0].state_dict()
        return saved

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for scheduler in self.schedulers:
            scheduler.load_state_dict(copy.deepcopy(state_dict))


class TitanTrainer:
    """The parts of torchtitan's trainer that a step touches; `ntokens_seen` and `step` are its own state."""

    def __init__(self) -> None:
        from torchdata.stateful_dataloader import StatefulDataLoader

        torch.manual_seed(0)
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        first = nn.Sequential(nn.Embedding(16, 8), nn.Linear(8, 8))
        self.model_parts = [first, nn.Sequential(nn.ReLU(), nn.Linear(8, 16))]
        for part in self.model_parts:
            fully_shard(part, mesh=mesh)
        self.optimizers = OptimizersContainer(self.model_parts, lr=0.02)
        self.lr_schedulers = LRSchedulersContainer(self.optimizers)
        self.dataloader = StatefulDataLoader(Packed(dist.get_rank()), batch_size=2)
        self.step, self.ntokens_seen, self.gradient_accumulation_steps = 0, 0, 1

    def batch_generator(self, loader: Any) -> Iterator[Any]:
        for inputs, labels in loader:
            self.ntokens_seen += labels.numel()
            yield inputs, labels

    def train_step(self, batches: Iterator[Any]) -> torch.Tensor:
        self.optimizers.zero_grad()
        total_loss = torch.zeros(())
        for _ in range(self.gradient_accumulation_steps):
            inputs, labels = next(batches)
            hidden = inputs["input"]
            for part in self.model_parts:
                hidden = part(hidden)
            loss = nn.functional.cross_entropy(hidden.flatten(0, 1), labels.flatten())
            (loss / self.gradient_accumulation_steps).backward()
            total_loss += loss.detach()
        nn.utils.clip_grad_norm_([p for part in self.model_parts for p in part.parameters()], 1.0)
        self.optimizers.step()
        self.lr_schedulers.step()
        return total_loss

    def state_dict(self) -> dict[str, Any]:
        return {"step": self.step, "ntokens_seen": self.ntokens_seen}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.step, self.ntokens_seen = state_dict["step"], state_dict["ntokens_seen"]


@shape
def torchtitan(run: Run) -> None:
    trainer = TitanTrainer()
    training = Resumable(
        run, model=trainer.model_parts, optimizer=trainer.optimizers,
        extra={"lr_scheduler": trainer.lr_schedulers, "train_state": trainer},
    )  # fmt: skip
    for _ in training.epochs(1):
        for batch in trainer.batch_generator(training.batches(trainer.dataloader)):
            trainer.step += 1
            loss = trainer.train_step(iter([batch]))
            training.note(loss=total(loss + trainer.step + trainer.ntokens_seen))
            if trainer.step == STEPS:
                break


def _titan_of_steps(run: Run, choose: Callable[[Any], dict[str, Any]]) -> None:
    """The generator of batches stays its own; nobody knows that it draws from the loader that has the state."""
    trainer = TitanTrainer()
    batches = trainer.batch_generator(trainer.dataloader)
    training = Resumable(
        run, model=trainer.model_parts, optimizer=trainer.optimizers,
        extra={"lr_scheduler": trainer.lr_schedulers, "train_state": trainer}, per_rank=choose(trainer),
    )  # fmt: skip
    for step in training.steps(STEPS):
        trainer.step += 1
        loss = trainer.train_step(batches)
        training.finished(step, loss=total(loss + trainer.step + trainer.ntokens_seen))


@shape
def torchtitan_loader_by_itself(run: Run) -> None:
    _titan_of_steps(run, lambda trainer: {"data": trainer.dataloader})


@shape
def torchtitan_loader_forgotten(run: Run) -> None:
    _titan_of_steps(run, lambda _: {})


@shape
def packed_stream(run: Run) -> None:
    from torchdata.stateful_dataloader import StatefulDataLoader

    torch.manual_seed(0)
    model = ddp(nn.Sequential(nn.Embedding(16, 8), nn.Linear(8, 16)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    loader = StatefulDataLoader(Packed(dist.get_rank()), batch_size=2)
    training = Resumable(run, model=model, optimizer=optimizer)
    for _ in training.epochs(1):
        for number, (inputs, labels) in enumerate(training.batches(loader), start=training.step):
            loss = nn.functional.cross_entropy(model(inputs["input"]).flatten(0, 1), labels.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            training.note(loss=total(loss))
            if number == STEPS - 1:
                break


@shape
def lookahead_forgotten(run: Run) -> None:
    """The inner optimizer is given, and not the one around it: slow weights, which each fifth step alone touches."""
    torch.manual_seed(0)
    model = ddp(nn.Linear(8, 1))
    inner = torch.optim.AdamW(model.parameters(), lr=0.05)
    optimizer = Lookahead(inner)
    training = Resumable(run, model=model, optimizer=inner)
    for step in training.steps(STEPS):
        x = rows(step)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        training.finished(step, loss=total(loss))
