"""Lightning's `Trainer` in a run that survives: its loop stays, its state is the run's.

    trainer = pl.Trainer(**in_ray(config["run"]), max_epochs=3)
    trainer.fit(model, loader)

A step of the run is a step of the optimizer; with manual optimization, and any number of optimizers, it is a batch.
The strategy is DDP on the process group that Ray, or the library, has opened. Batches that are done are passed over by
index. What `self.log(…, on_epoch=True)` and a module's torchmetrics add up continues in the epoch that was under way,
so that a scheduler with `monitor=` sees what it would have seen.

Hooks used, of Lightning 2: `FitLoop.setup_data`, `_TrainingEpochLoop.on_run_start`, `_EvaluationLoop.run`,
`_Loop.state_dict` and `load_state_dict`, `_ResultCollection.log` and `update_metrics`,
`_LoggerConnector._callback_metrics`.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from hyperpod_ray_training import rng
from hyperpod_ray_training.errors import InputError
from hyperpod_ray_training.resumable import Resumable, ensure_process_group
from hyperpod_ray_training.run import Run
from hyperpod_ray_training.stateful import View

if TYPE_CHECKING:
    import pytorch_lightning as pl
else:  # two names of one package; a trainer takes callbacks of its own only
    _UNIFIED = "pytorch_lightning" not in sys.modules and importlib.util.find_spec("lightning") is not None
    pl = importlib.import_module("lightning.pytorch" if _UNIFIED else "pytorch_lightning")


def in_ray(run: Run, *, callbacks: Sequence[Any] = (), **ddp: Any) -> dict[str, Any]:
    """Arguments of a `Trainer` that survives: strategy, accelerator, devices, callbacks; no checkpoints of its own.

    Args:
        run: In the loop function it is `config["run"]`.
        callbacks: Your own callbacks.
        ddp: Arguments of `DDPStrategy`, such as `find_unused_parameters=True` for several optimizers.
    """
    ensure_process_group()
    strategy = pl.strategies.DDPStrategy
    surviving = type("SurvivingDDP", (_OneDevice, strategy), {})(cluster_environment=_environment(), **ddp)
    return {
        "strategy": surviving, "accelerator": "gpu" if torch.cuda.is_available() else "cpu", "devices": 1,
        "callbacks": [*callbacks, Survive(run)], "enable_checkpointing": False,
    }  # fmt: skip


def _environment() -> Any:
    """Ranks of the process group that is open."""
    base = importlib.import_module(f"{pl.__name__}.plugins.environments").LightningEnvironment

    def set_rank(self: Any, rank: int) -> None:
        base.set_global_rank(self, dist.get_rank())

    return type(
        "OpenGroup",
        (base,),
        {
            "creates_processes_externally": property(lambda _: True),
            "world_size": lambda _: dist.get_world_size(),
            "set_world_size": lambda *_: None,
            "global_rank": lambda _: dist.get_rank(),
            "set_global_rank": set_rank,
            "local_rank": lambda _: 0,  # each process sees the one device that Ray gave it
            "node_rank": lambda _: 0,
            "teardown": lambda _: None,
        },
    )()


class _OneDevice:
    """Of a strategy: this process trains on one device, beside those of the other ranks."""

    @property
    def root_device(self) -> torch.device:
        """What Ray gave this worker."""
        if not torch.cuda.is_available():
            return torch.device("cpu")
        import ray.train.torch

        return ray.train.torch.get_device()

    @property
    def distributed_sampler_kwargs(self) -> dict[str, int]:
        """The rows of a rank."""
        return {"num_replicas": dist.get_world_size(), "rank": dist.get_rank()}


class _Loops(View):
    """Where the trainer's loops stand, and its callbacks' states; the same on every rank."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer

    def state_dict(self) -> dict[str, Any]:
        """As a checkpoint of Lightning holds it."""
        trainer = self.trainer
        stateful = (callback for callback in trainer.callbacks if not isinstance(callback, Survive))
        callbacks = {callback.state_key: state for callback in stateful if (state := callback.state_dict())}
        return {"loops": pickle.dumps((trainer.fit_loop.state_dict(), callbacks))}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Into the trainer, whose loops then continue."""
        loops, callbacks = pickle.loads(saved["loops"])  # noqa: S301 - the run's own checkpoint
        loop = self.trainer.fit_loop
        loop.load_state_dict(loops)
        if loop.epoch_progress.total.completed == loop.epoch_progress.total.ready:  # between two epochs
            loop.epoch_loop.batch_progress.reset_on_run()
            loop.epoch_loop.scheduler_progress.reset_on_run()
            loop.epoch_loop.automatic_optimization.optim_progress.reset_on_run()
        for callback in self.trainer.callbacks:
            if callback.state_key in callbacks:
                callback.load_state_dict(callbacks[callback.state_key])


class _Logged(dict[str, Any]):
    """What the trainer shows of earlier steps and adds up over an epoch, as it is when somebody asks: no state."""

    __slots__ = ("trainer",)

    def __init__(self, trainer: Any) -> None:
        super().__init__()
        self.trainer = trainer

    def values(self) -> Any:
        """Dictionaries of tensors."""
        connector, loop = self.trainer._logger_connector, self.trainer.fit_loop.epoch_loop
        results = [*loop._results.values(), *loop.val_loop._results.values()]
        return [connector._logged_metrics, connector._progress_bar_metrics, *(vars(result) for result in results)]


class _Sums(View):
    """What a rank has logged in the epoch under way, and the newest metrics that a scheduler or callback may monitor.

    Args:
        trainer: The trainer; its module's torchmetrics count too.
    """

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer
        self.pending: dict[str, dict[str, Any]] = {}
        self.shown: dict[str, Any] = {}
        self.results = trainer.fit_loop.epoch_loop._results
        self.update = self.results.update_metrics
        self.results.update_metrics = self._continued

    def _continued(self, key: str, value: Any, batch_size: int) -> None:
        """A sum exists from its first `log` on: what was restored of it goes in then."""
        vars(self.results[key]).update(_state_of(self.pending.pop(key, {})))
        self.update(key, value, batch_size)

    def _metrics(self) -> dict[str, Any]:
        """The torchmetrics of the module, by their path; their states are in no `state_dict`."""
        return {
            name: module
            for name, module in self.trainer.lightning_module.named_modules()
            if hasattr(module, "_defaults")
        }

    def held(self) -> list[Any]:
        """What the sums and torchmetrics are in."""
        metrics = [getattr(metric, name) for metric in self._metrics().values() for name in metric._defaults]
        return [*metrics, *(dict(vars(result)) for result in self.results.values() if result.is_tensor)]

    def state_dict(self) -> dict[str, Any]:
        """Sums, torchmetrics, and what the trainer shows its callbacks."""
        sums = {
            key: {name: _copied(value) for name, value in vars(result).items() if name in _OF_A_SUM}
            | {_LOGGED_AS: _arguments_of(result.meta)}
            for key, result in self.results.items()
            if result.is_tensor and not result.has_reset
        }
        return {
            "sums": {**self.pending, **sums},
            "shown": {key: _copied(value) for key, value in self.trainer._logger_connector._callback_metrics.items()},
            "metrics": {
                path: {name: _copied(getattr(metric, name)) for name in (*metric._defaults, "_update_count")}
                for path, metric in self._metrics().items()
            },
        }  # fmt: skip

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Into the trainer, and the module's metrics."""
        device = self.trainer.strategy.root_device
        self.pending = {key: _to(value, device) for key, value in saved["sums"].items()}
        self.shown = _to(saved["shown"], device)
        metrics = self._metrics()
        for path, states in saved["metrics"].items():
            for name, value in _to(states, device).items():
                setattr(metrics[path], name, value)

    def begin(self) -> None:
        """The trainer has cleared what it shows, and the epoch under way begins."""
        self.trainer._logger_connector._callback_metrics.update(self.shown)

    def settle(self) -> None:
        """The epoch ends: what it has logged before the fault alone counts too."""
        for key, saved in list(self.pending.items()):
            arguments = saved.get(_LOGGED_AS)
            if arguments is None:
                continue
            del self.pending[key]
            reduction = getattr(builtins if arguments["reduce_fx"][0] else torch, arguments["reduce_fx"][1])
            self.results.log(
                **{**arguments, "reduce_fx": reduction}, value=torch.zeros_like(saved["value"]), batch_size=1,
                sync_dist_fn=self.trainer.strategy.reduce,
            )  # fmt: skip
            vars(self.results[key]).update(_state_of(saved))

    def unclaimed(self) -> list[str]:
        """What was restored, and the epoch that has ended did not log again; it is forgotten."""
        names, self.pending = sorted(self.pending), {}
        return names


_OF_A_SUM = ("value", "cumulated_batch_size", "has_reset", "_update_count")
_LOGGED_AS = "arguments"
_OF_A_LOG = ("fx", "name", "prog_bar", "logger", "on_step", "on_epoch", "enable_graph", "add_dataloader_idx",
             "metric_attribute")  # fmt: skip


def _state_of(saved: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in saved.items() if name in _OF_A_SUM}


def _arguments_of(meta: Any) -> dict[str, Any] | None:
    """What `self.log` was called with; None with a group of ranks, which no checkpoint holds."""
    if meta.sync._group is not None:
        return None
    reduction = meta.reduce_fx
    return {name: getattr(meta, name) for name in _OF_A_LOG} | {
        "reduce_fx": (reduction is getattr(builtins, reduction.__name__, None), reduction.__name__),
        "sync_dist": meta.sync._should, "rank_zero_only": meta.sync.rank_zero_only,
    }  # fmt: skip


def _copied(value: Any) -> Any:
    if isinstance(value, list):
        return [_copied(element) for element in value]
    return value.detach().clone() if torch.is_tensor(value) else value


def _to(values: dict[str, Any], device: torch.device) -> dict[str, Any]:
    def moved(value: Any) -> Any:
        if isinstance(value, list):
            return [moved(element) for element in value]
        return value.to(device) if torch.is_tensor(value) else value

    return {name: moved(value) for name, value in values.items()}


class _Rest:
    """The batches that the epoch under way has left of a loader; each is a part of a step of the run."""

    def __init__(self, keeper: Survive, loader: Any) -> None:
        self.keeper, self.loader = keeper, loader

    def __len__(self) -> int:
        return len(self.loader)

    def __getattr__(self, name: str) -> Any:
        if name in {"state_dict", "load_state_dict"}:  # the run keeps the place in the data
            raise AttributeError(name)
        return getattr(self.__dict__["loader"], name)

    def __iter__(self) -> Iterator[Any]:
        # a generator begins at its first batch: the trainer makes the first iterator before the training starts
        yield from self.keeper.batches(self.loader)


class Survive(pl.Callback):
    """Brings the trainer's steps to the run; `in_ray` adds it."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.training: Any = None
        self.numbers: bytes | None = None
        self.under_way = False

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Everything is made: restore."""
        self.sums = _Sums(trainer)
        extra: dict[str, Any] = {"lightning": _Loops(trainer)}
        for number, config in enumerate(trainer.lr_scheduler_configs):
            extra[f"scheduler-{number}"] = config.scheduler
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        if scaler is not None:
            extra["scaler"] = scaler
        optimizers = [getattr(optimizer, "optimizer", optimizer) for optimizer in trainer.optimizers]
        self.training = Resumable(
            self.run, model=trainer.strategy.model, optimizer=optimizers, extra=extra,
            per_rank={"logged": self.sums}, recomputed=[_Logged(trainer)],
        )  # fmt: skip
        self.training.looks_at(
            {f"trainer.callbacks[{number}]": callback for number, callback in enumerate(trainer.callbacks)
             if type(callback).state_dict is pl.Callback.state_dict}
        )  # fmt: skip
        self.trainer, loop = trainer, trainer.fit_loop
        if trainer.max_steps > 0 and pl_module.automatic_optimization:
            self.training.total_steps = trainer.max_steps
        self.training.begin()
        self.numbers = rng.capture(self.training.device)
        if self.training.step:
            trainer.num_sanity_val_steps = 0
        loop.setup_data = self._with_rest(loop.setup_data)
        loop.epoch_loop.on_run_start = self._not_again(loop.epoch_loop.on_run_start)
        loop.epoch_loop.val_loop.run = self._in_pause(loop.epoch_loop.val_loop.run)

    def _with_rest(self, original: Callable[[], None]) -> Callable[[], None]:
        def setup_data() -> None:
            loop = self.trainer.fit_loop
            before = loop._combined_loader
            original()
            combined = loop._combined_loader
            if combined is None or combined is before:
                return
            if len(combined.flattened) != 1:
                raise InputError(
                    f"lightning: {len(combined.flattened)} training loaders", expected="1", fix="combine them into one"
                )
            combined.flattened = [_Rest(self, combined.flattened[0])]
            iter(loop._data_fetcher)

        return setup_data

    def _not_again(self, original: Callable[[Any], None]) -> Callable[[Any], None]:
        def on_run_start(data_fetcher: Any) -> None:
            original(data_fetcher)
            # the step that was saved is done, its validation too: nothing of it is to be caught up on
            loop = self.trainer.fit_loop.epoch_loop
            loop._restarting = loop.val_loop.restarting = False
            loop.reset_restart_stage()
            # of an epoch that a checkpoint begins, the trainer would not step schedulers with `monitor=` at its end
            self.trainer.fit_loop._restarting = False

        return on_run_start

    def _in_pause(self, original: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> Any:
            with self.training.pause():
                return original()

        return run

    def batches(self, loader: Any) -> Iterator[Any]:
        """What an epoch has left."""
        training = self.training
        if self.under_way:  # the trainer asks for no batch beyond the last one of an epoch
            training.position.next_epoch()
            training.end_step()
            if unclaimed := self.sums.unclaimed():
                training._warn(f"lightning: restored, and not logged again in its epoch: {', '.join(unclaimed)}")
            training._loaders = 0
        elif self.numbers is not None:
            rng.restore(self.numbers, training.device)
            self.sums.begin()
        self.under_way = True
        yield from training.batches(loader, accumulate=self.trainer.accumulate_grad_batches)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """What the module logged, and its loss, go into the run's journal."""
        logged = {key: float(value) for key, value in trainer.logged_metrics.items() if _is_number(value)}
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if loss is not None and _is_number(loss):
            logged["loss"] = float(loss) * trainer.accumulate_grad_batches
        if self.sums.pending and trainer.fit_loop.epoch_loop._is_training_done:
            self.sums.settle()
        self.training.note(**logged)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Save the last step; for the trainer its epoch is over, whole or not."""
        self.training.position.next_epoch()
        self.training.end()


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) or (torch.is_tensor(value) and value.numel() == 1)
