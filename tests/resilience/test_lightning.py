"""What the library takes of Lightning's trainer, and gives back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from hyperpod_ray_training import lightning


def test_a_sum_of_an_epoch_goes_on_where_it_was_once() -> None:
    """What was restored of a metric goes in before its first `log`, and not again at the second."""
    result = SimpleNamespace(value=torch.tensor(0.0), cumulated_batch_size=torch.tensor(0))
    updates: list[float] = []

    class Results(dict[str, Any]):
        def update_metrics(self, key: str, value: Any, batch_size: int) -> None:
            updates.append(float(self[key].value))
            self[key].value = self[key].value + value * batch_size

    loops = SimpleNamespace(epoch_loop=SimpleNamespace(_results=Results(loss=result)))
    sums = lightning._Sums(SimpleNamespace(fit_loop=loops))
    sums.pending = {"loss": {"value": torch.tensor(30.0), "cumulated_batch_size": torch.tensor(3), "unknown": 1}}
    for _ in range(2):
        loops.epoch_loop._results.update_metrics("loss", torch.tensor(2.0), 4)
    assert updates == [30.0, 38.0]
    assert float(result.value) == 46.0
    assert not hasattr(result, "unknown")
    assert sums.unclaimed() == []


@pytest.mark.parametrize("scaler", [None, object()])
def test_what_lightning_made_is_given_to_the_run(scaler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Optimizers as torch's own, schedulers by number, and a scaler of gradients where the precision has one."""
    given: dict[str, Any] = {}

    class Recorder:
        def __init__(self, run: Any, **arguments: Any) -> None:
            given.update(arguments)

        def looks_at(self, objects: Any) -> None:
            raise StopIteration  # what was given is seen

    for name in ("_Sums", "_Loops", "_Logged"):
        monkeypatch.setattr(lightning, name, lambda trainer, name=name: name)
    monkeypatch.setattr(lightning, "Resumable", Recorder)
    plain, inner = object(), object()
    trainer = SimpleNamespace(
        lr_scheduler_configs=[SimpleNamespace(scheduler="first"), SimpleNamespace(scheduler="second")],
        precision_plugin=SimpleNamespace(scaler=scaler), optimizers=[plain, SimpleNamespace(optimizer=inner)],
        strategy=SimpleNamespace(model="model"), callbacks=[],
    )  # fmt: skip
    callback: Any = SimpleNamespace(run="run")
    with pytest.raises(StopIteration):
        lightning.Survive.on_fit_start(callback, trainer, None)
    assert given["optimizer"] == [plain, inner]
    assert {"scheduler-0": "first", "scheduler-1": "second"}.items() <= given["extra"].items()
    assert given["extra"].get("scaler") is scaler
    assert ("scaler" in given["extra"]) is (scaler is not None)
    assert given["per_rank"] == {"logged": "_Sums"}
