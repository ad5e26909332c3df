"""Every timeout and poll interval of a surviving run, in one place.

Plain Python on purpose (no ray, no torch): the job, the RayCluster manifest of `k8s/` and the rehearsal read the same
values. Sources: ray 2.60.0 `ray/train/v2/_internal/constants.py` and `ray/_private/ray_constants.py`.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass

from hyperpod_ray_training.errors import InputError, in_three_parts

ENV_PREFIX = "RESILIENCE_"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Timeouts and intervals; the defaults are the tuned column of the fault table in the docs.

    Each field can be overridden by the environment variable `RESILIENCE_<FIELD>` in capitals, for example
    `RESILIENCE_PROCESS_GROUP_TIMEOUT_S=120`.

    Args:
        health_check_interval_s: How often the Train controller polls its workers. Ray's default is 2; a report made
            just before a worker dies is lost if the controller has not polled since, hence 0.5.
        worker_health_check_timeout_s: How long one poll of a worker may hang before the worker counts as dead (Ray:
            600).
        worker_group_start_timeout_s: How long to wait for all workers to be placed before trying again, with fewer if
            the size is elastic (Ray: 60).
        collective_timeout_s: Limit of Ray's own barriers, `report()` and the drain notice (Ray: none, so a hung rank
            would block the others there forever).
        preemption_poll_interval_s: How often a drain notice is looked for on the cluster (Ray: 5).
        process_group_timeout_s: Limit of one collective of the training process group (torch: 1800); a hung rank is
            detected after this long. Must exceed the longest legitimate pause of a rank inside a step.
        checkpoint_group_timeout_s: The same for the process group of checkpoints: restore, save and their barriers.
        node_health_check_period_ms: GCS to node ping period, on the head only (Ray: 3000).
        node_health_check_timeout_ms: Limit of one ping (Ray: 10000).
        node_health_check_initial_delay_ms: Before the first ping of a new node (Ray: 5000).
        node_health_check_failure_threshold: Missed pings until a node is dead (Ray: 5).
        node_self_check_interval_ms: How often a node asks the head whether it still counts, on every node (Ray: 60000).
            A head that was replaced and kept no state knows none of the old nodes: each ends, and comes back as a
            new one, only once it has asked.
        graceful_drain_timeout_s: What SIGTERM to `ray start --block` leaves running work, on every node (Ray: 30).
        termination_grace_margin_s: By how much the pod's grace period exceeds the drain timeout.
        elastic_resize_monitor_interval_s: How often a healthy elastic run looks for a larger size (Ray: 60).
        drain_check_interval_s: How often the training loop asks whether a drain notice has come; translated to steps.
        deadline_margin_s: The second save of a drained run starts this long before the deadline, or three times the
            last save's duration, whichever is longer.
        save_failure_limit: So many saves failing in a row end the run: it would only lose work from then on. A save
            that fails for want of room does not count: the run continues until somebody makes some.
        crash_loop_limit: The same error from user code, so many times in a row without a new checkpoint, ends the run;
            0 = never.
        standby_driver: Whether `hyperpod_ray_training.supervise` keeps the next driver ready beside the driver, with
        Ray and torch
            imported (about 0.5 GB).
        placement_wait_s: How long a submitted run waits for the cluster to be able to form its smallest world size.
        spares: Workers that stand by when `fit` gets no number; each needs a place of its own.
        standby_workers: Processes on each node that have imported and wait, without a device, for the seat of a lost
            one. 0 = none; with no spares and a fixed size, any lost worker then restarts all.
        spare_wait_s: How long a submitted run waits for the places of its spares; then it starts with fewer.
        beat_s: How often a worker of a run with spares tells the coordinator that it lives.
        silence_s: A worker that was not heard for so long is lost: its process or its node stands still.
        patience_s: With spares, so long a rank may compute, read data or sleep while others wait for it in a
            collective; also the limit of a collective then.
        hang_s: So long no rank gets on while one is behind, and that one is lost. At least `hang_steps` steps.
        hang_steps: The same limit as a multiple of the median step.
        memory_every_steps: A copy of each rank's state goes to a neighbour on another node after so many steps;
            0 = never.
        memory_overhead: Copies are made less often where steps would wait for them longer than this share of their
            time; 0 = never less often than `memory_every_steps`.
        save_every_s: Seconds between two checkpoints, which the ranks turn into steps by the time that a step takes;
            0 = the run's `save_every_steps` holds.
        verify_checksums: Check the CRC-32 of every shard before a restore (each rank reads its share of the files);
            False checks presence and size only.
        strict: Refuse a run whose loop keeps state that no copy holds, and a checkpoint of another state; False warns
            and continues.
    """

    health_check_interval_s: float = 0.5
    worker_health_check_timeout_s: float = 60.0
    worker_group_start_timeout_s: float = 5.0
    collective_timeout_s: float = 20.0
    preemption_poll_interval_s: float = 1.0
    process_group_timeout_s: int = 20
    checkpoint_group_timeout_s: int = 1800
    node_health_check_period_ms: int = 1000
    node_health_check_timeout_ms: int = 1000
    node_health_check_initial_delay_ms: int = 1000
    node_health_check_failure_threshold: int = 3
    node_self_check_interval_ms: int = 1000
    graceful_drain_timeout_s: int = 30
    termination_grace_margin_s: int = 30
    elastic_resize_monitor_interval_s: float = 10.0
    drain_check_interval_s: float = 1.0
    deadline_margin_s: float = 5.0
    save_failure_limit: int = 3
    crash_loop_limit: int = 5
    standby_driver: bool = True
    placement_wait_s: float = 600.0
    spares: int = 0
    standby_workers: int = 1
    save_every_s: float = 0.0
    spare_wait_s: float = 15.0
    beat_s: float = 0.2
    silence_s: float = 1.5
    patience_s: float = 1800.0
    hang_s: float = 2.5
    hang_steps: float = 6.0
    memory_every_steps: int = 1
    memory_overhead: float = 0.03
    verify_checksums: bool = True
    strict: bool = True

    def __post_init__(self) -> None:
        problems = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            minimum = 0 if field.name in MAY_BE_ZERO else 1e-9
            if not isinstance(value, bool) and value < minimum:
                problems.append(
                    in_three_parts(
                        f"{field.name}: {value}",
                        expected="0 or more" if minimum == 0 else "more than 0",
                        fix="correct it",
                    )
                )
        if self.health_check_interval_s > self.worker_health_check_timeout_s:
            problems.append(
                in_three_parts(
                    f"worker_health_check_timeout_s: {self.worker_health_check_timeout_s}",
                    expected=f"at least health_check_interval_s ({self.health_check_interval_s})",
                    fix="correct one of the two",
                )
            )
        if self.silence_s < 3 * self.beat_s:
            problems.append(
                in_three_parts(
                    f"silence_s: {self.silence_s}",
                    expected=f"at least 3 times beat_s ({self.beat_s})",
                    fix="correct one of the two",
                )
            )
        if problems:
            raise InputError("; ".join(f"settings: {problem}" for problem in problems))

    @property
    def termination_grace_period_s(self) -> int:
        """The pod's `terminationGracePeriodSeconds`: always longer than the drain, or the drain is cut short."""
        return self.graceful_drain_timeout_s + self.termination_grace_margin_s

    @property
    def dead_node_after_s(self) -> float:
        """Seconds until a silent node counts as dead: missed pings times the period plus one timeout."""
        return (
            self.node_health_check_failure_threshold * self.node_health_check_period_ms
            + self.node_health_check_timeout_ms
        ) / 1000

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """The defaults overridden by `RESILIENCE_*`; an unknown or unreadable variable raises InputError."""
        environ = os.environ if environ is None else environ
        fields = {ENV_PREFIX + field.name.upper(): field for field in dataclasses.fields(cls)}
        values: dict[str, float | int | bool] = {}
        problems = []
        for name, text in sorted(environ.items()):
            if not name.startswith(ENV_PREFIX) or name in NOT_SETTINGS:
                continue
            field = fields.get(name)
            if field is None:
                problems.append(
                    in_three_parts(
                        f"{name}: unknown", expected=f"one of {', '.join(sorted(fields))}", fix="correct or unset it"
                    )
                )
                continue
            try:
                values[field.name] = _parse(text, type(field.default))
            except ValueError:
                problems.append(
                    in_three_parts(f"{name}: {text!r}", expected=type(field.default).__name__, fix="correct it")
                )
        if problems:
            raise InputError("; ".join(problems))
        return cls(**values)  # type: ignore[arg-type]

    def head_env(self) -> dict[str, str]:
        """Environment of the head container: how soon a silent node counts as dead, and no metrics of Ray's own loops.

        It has no effect elsewhere.
        """
        return {
            # From the loss of a node until its replacement joins, Ray's control store tries to place the lost bundle
            # without a pause (https://github.com/ray-project/ray/pull/65007), and measures each turn. The head's agent
            # repeats each one by itself (https://github.com/ray-project/ray/pull/64891): its other metrics stand still.
            "RAY_emit_main_service_metrics": "0",
            "RAY_health_check_initial_delay_ms": str(self.node_health_check_initial_delay_ms),
            "RAY_health_check_period_ms": str(self.node_health_check_period_ms),
            "RAY_health_check_timeout_ms": str(self.node_health_check_timeout_ms),
            "RAY_health_check_failure_threshold": str(self.node_health_check_failure_threshold),
        }

    def node_env(self) -> dict[str, str]:
        """Environment of every Ray container, head and workers: how long SIGTERM lets work finish, asking the head."""
        return {
            "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": str(self.graceful_drain_timeout_s),
            "RAY_raylet_liveness_self_check_interval_ms": str(self.node_self_check_interval_ms),
        }

    def job_env(self) -> dict[str, str]:
        """Environment of the job's driver; Ray Train hands these on to its controller and workers."""
        return {
            "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": str(self.health_check_interval_s),
            "RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S": str(self.worker_health_check_timeout_s),
            "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": str(self.worker_group_start_timeout_s),
            "RAY_TRAIN_COLLECTIVE_TIMEOUT_S": str(self.collective_timeout_s),
            "RAY_TRAIN_PREEMPTION_POLL_INTERVAL_S": str(self.preemption_poll_interval_s),
        }

    def apply(self, environ: MutableMapping[str, str] | None = None) -> None:
        """Put `job_env()` into the driver's environment; a variable that is already set is the user's and stays."""
        environ = os.environ if environ is None else environ
        for name, value in self.job_env().items():
            environ.setdefault(name, value)


MAY_BE_ZERO = frozenset(
    {
        "crash_loop_limit", "termination_grace_margin_s", "placement_wait_s", "deadline_margin_s", "spares",
        "save_every_s", "spare_wait_s", "memory_every_steps", "memory_overhead", "standby_workers",
    }
)  # fmt: skip
# a rehearsal's switch and the path of a file: they share the prefix but are no settings
HANG_RULES_VARIABLE = "RESILIENCE_HANG_RULES"
"""Path of the rules that `hyperpod_ray_training.hangs` sends."""
TRACKERS_VARIABLE = "RESILIENCE_TRACKING"
"""Trackers that `hyperpod_ray_training.tracking` sends metrics to: `mlflow`, `wandb`."""
TRACKING_VARIABLE, EXPERIMENT_VARIABLE = "MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME"
WANDB_PROJECT_VARIABLE = "WANDB_PROJECT"
NOT_SETTINGS = frozenset({"RESILIENCE_FAULT_HOOKS", HANG_RULES_VARIABLE, TRACKERS_VARIABLE})


def _parse(text: str, target_type: type) -> float | int | bool:
    if target_type is bool:
        if text.lower() not in {"1", "0", "true", "false"}:
            raise ValueError(text)
        return text.lower() in {"1", "true"}
    return int(text) if target_type is int else float(text)
