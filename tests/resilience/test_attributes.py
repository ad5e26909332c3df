"""What modules and optimizers keep in attributes: saved where it has changed, and put back in place."""

from __future__ import annotations

import collections
import copy
import pickle
import random

import pytest
import torch
from torch import nn

from hyperpod_ray_training.attributes import is_plain
from hyperpod_ray_training.state import TrainingState


class Net(nn.Module):  # type: ignore[misc]
    def __init__(self, rate: float = 0.1) -> None:
        super().__init__()
        self.inner, self.rate, self.calls = nn.Linear(4, 4), rate, 0
        self.recent: collections.deque[int] = collections.deque(maxlen=3)
        self.mean, self.chance = torch.zeros(4), random.Random(1)
        self.alias = self.recent


def state_of(net: nn.Module) -> TrainingState:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    return TrainingState(model=net, optimizer=optimizer, extra={}, per_rank={}, rank=0, world=1)


def changed(net: Net) -> TrainingState:
    state = state_of(net)
    net.calls += 1
    net.recent.append(7)
    net.mean = net.mean + 1
    net.chance.random()
    net.inner.weight.requires_grad_(False)
    net.register_buffer("late", torch.full((2,), 3.0))
    return state


def test_what_has_changed_is_put_back_into_the_objects_that_are_there() -> None:
    before = changed(Net())
    after = Net(rate=0.5)
    fresh, recent, mean = state_of(after), after.recent, after.mean
    content = copy.deepcopy(before.content())
    content.trees = pickle.loads(pickle.dumps(content.trees))  # noqa: S301 - of this test
    fresh.make_buffers(content.trees)
    shapes = {name: tuple(tensor.shape) for name, tensor in content.tensors.items()}
    assert fresh.unlike(shapes, content.trees, shapes) == ""
    fresh.fill(content)
    assert after.calls == 1
    assert list(after.recent) == [7] and after.alias is after.recent is recent, "others hold it too"
    assert after.mean is mean and mean.tolist() == [1, 1, 1, 1]
    assert after.chance.random() == before.model.chance.random()
    assert not after.inner.weight.requires_grad
    assert after.late.tolist() == [3, 3]
    assert after.rate == 0.5, "what the script sets, and no step changes, stays the script's"


def test_what_has_not_changed_is_not_saved_and_an_older_checkpoint_has_none() -> None:
    state = state_of(Net())
    trees = state.content().trees
    assert trees["extra.(attributes)"] == {}
    names = {name: tuple(tensor.shape) for name, tensor in state.content().tensors.items()}
    del trees["extra.(attributes)"]
    assert state.unlike(names, trees, names) == ""


def test_a_tensor_that_takes_the_place_and_the_memory_of_another_is_another() -> None:
    net = Net()
    state = state_of(net)
    for _ in range(3):
        net.mean = None
        net.mean = torch.zeros(4)
    assert set(state.attributes.state_dict()["values"]["model"]) == {"mean"}


def test_what_was_saved_of_a_module_that_is_gone_is_refused() -> None:
    saved = changed(Net()).content()
    other = state_of(nn.Linear(4, 4))
    problems = "; ".join(other.attributes.unlike(saved.trees["extra.(attributes)"]))
    assert "model.inner.weight is trained is saved" in problems


@pytest.mark.slow
def test_what_a_package_keeps_for_itself_stays_its_own() -> None:
    """Lightning caches names of metrics by their identity, which is another one in another process."""
    import pytorch_lightning as pl

    net = pl.LightningModule()
    net.inner, net._calls = nn.Linear(4, 4), 0
    state = state_of(net)
    net._calls, net._metric_attributes = 3, {id(net): "metric"}
    assert state.attributes.state_dict()["values"]["model"] == {"_calls": 3}


def test_graphs_modules_and_parameters_are_not_plain() -> None:
    weight = nn.Parameter(torch.ones(1))
    assert not any(map(is_plain, (weight, weight * 2, [weight], nn.Linear(1, 1), object())))
    assert all(map(is_plain, (3, None, "word", [1, (2.0, {"a": torch.ones(1)})], collections.defaultdict(list))))
