"""The driver's half of a run whose workers outlive a lost one: the coordinator, and the loop that survives."""

from __future__ import annotations

import secrets
from dataclasses import replace

import ray
from ray.train import DataConfig
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from hyperpod_ray_training.journal import log
from hyperpod_ray_training.run_parts import Parts, RunFacts
from hyperpod_ray_training.spares.coordinator import Coordinator
from hyperpod_ray_training.spares.loop import Plan, survive
from hyperpod_ray_training.spares.members import Limits
from hyperpod_ray_training.spares.ray_group import KeepSurvivors, SparesConfig, supported


def surviving(run: RunFacts, parts: Parts, *, workers: int, min_workers: int, spares: int, on_gpu: bool) -> Parts:
    """The parts of a trainer whose workers survive a lost one; unchanged, and said, where this Ray does not allow it.

    Args:
        run: The run.
        parts: Of a trainer that restarts all workers.
        workers: Ranks that train; of an elastic run the most.
        min_workers: The fewest ranks that may train.
        spares: Workers beyond those.
        on_gpu: Whether the loop trains on GPUs.
    """
    missing = supported()
    if missing is not None:
        log(f"spares: none, {missing}; a lost worker costs a restart from the checkpoint")
        return parts
    settings = run.settings
    limits = Limits.of(settings)
    token = secrets.token_hex(16)
    # on this node, where Ray's controller is too: an unplaced actor may land on the very node whose loss it should see
    affinity = NodeAffinitySchedulingStrategy(node_id=ray.get_runtime_context().get_node_id(), soft=False)
    actor = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1, max_concurrency=1000)(Coordinator)
    coordinator = actor.options(scheduling_strategy=affinity).remote(
        run=run, active=workers, least=min_workers, spares=spares, limits=limits, token=token
    )
    coordinator.address.remote()  # it listens while Ray starts the workers, who ask for the address
    backend = parts.torch_config.backend or ("cpu:gloo,cuda:nccl" if on_gpu else "gloo")
    plan = Plan(active=workers, coordinator=coordinator, token=token, backend=backend)
    return replace(
        parts,
        loop=survive(parts.loop, plan),
        torch_config=SparesConfig(timeout_s=settings.process_group_timeout_s),
        callbacks=(
            KeepSurvivors(
                active=min_workers,
                elastic=min_workers < workers,
                look_s=settings.elastic_resize_monitor_interval_s,
                coordinator=coordinator,
                standby_workers=settings.standby_workers,
            ),
        ),
        spares=spares,
        survive=True,
        # Ray would split a dataset over spares too, and wait for them: every rank takes its rows itself
        dataset_config=DataConfig(datasets_to_split=[]),
    )
