"""One run on one cluster: what interrupts it, what a save costs it, and the goodput that follows.

`Outlook` holds the spans; `run(level)` is the run with all spans at one end: `low` is the good end (few interruptions,
quick repairs), `high` the bad one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from hyperpod_ray.planner import PlanError, data, goodput, memory, spares, speed, storage
from hyperpod_ray.planner.cluster import Cluster
from hyperpod_ray.planner.data import Level
from hyperpod_ray.planner.failures import LEVELS, Rates
from hyperpod_ray.planner.goodput import Interval, Losses, Run
from hyperpod_ray.planner.job import Job
from hyperpod_ray.planner.ranges import GIB, Range
from hyperpod_ray.planner.storage import Rate


@dataclass(frozen=True, kw_only=True)
class Rehearsed:
    """What a rehearsal measured of a lost node: it has no NCCL, no large state and no image to pull."""

    detect: float
    """Seconds until the loss was noticed."""
    start: float
    """Seconds from there to the next step."""
    source: str


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """The spans of one run on one cluster."""

    cluster: Cluster
    job: Job
    rates: Rates
    rehearsed: Rehearsed | None = None

    def __post_init__(self) -> None:
        """Refuse a run that this cluster cannot be asked for.

        Raises:
            PlanError: The GPUs cannot be split so, a step has less than one sequence for each rank, or a measured speed
                is above what the accelerator computes.
        """
        split, world = self.job.parallel, self.cluster.world
        if world % split.ranks:
            raise PlanError(
                f"--parallel: {split.name} on {world} GPUs",
                expected=f"a number of GPUs that {split.ranks} divides",
                fix="lower tp, cp or pp, or use other numbers of GPUs",
            )
        if self.job.batch_tokens < self.least_batch:
            raise PlanError(
                f"batch_tokens: {self.job.batch_tokens:,.0f} on {world} GPUs, less than one sequence of "
                f"{self.job.sequence:,} tokens for each of {world // split.ranks} ranks",
                expected=f"at least {self.least_batch:,}",
                fix=f"give --batch-tokens {self.least_batch}, or shorter sequences, fewer GPUs, or context parallelism",
            )
        measured = self.job.tokens_per_second
        if measured is not None and measured > (fastest := speed.fastest(self.setting)):
            raise PlanError(
                f"tokens_per_second: {measured:,.6g} of one {self.cluster.gpu}",
                expected=f"at most {fastest:,.4g}: {self.job.model.name} at four times the dense bf16 rate",
                fix="divide the speed of all GPUs by their number",
            )

    @property
    def least_batch(self) -> int:
        """Tokens of a step with one sequence for each data-parallel rank."""
        return self.cluster.world // self.job.parallel.ranks * self.job.sequence

    @property
    def micro_batches(self) -> float:
        """Micro-batches of one sequence that each pipeline takes in one step."""
        return max(1.0, self.job.batch_tokens // self.least_batch)

    @property
    def in_flight(self) -> float:
        """Micro-batches whose activations the first stage of a pipeline keeps."""
        return self.job.parallel.in_flight(self.micro_batches)

    @cached_property
    def setting(self) -> speed.Setting:
        """What the speed of a step depends on."""
        job = self.job
        return speed.Setting(
            model=job.model, gpu=self.cluster.gpu, sequence=job.sequence, gpus=self.cluster.world,
            precision=job.precision, stack=job.stack, recompute=self.fit.recompute, lora=bool(job.lora_rank),
            parallel=job.parallel, micro_batches=self.micro_batches,
        )  # fmt: skip

    # --- memory -----------------------------------------------------------------------------------------------------

    @cached_property
    def fit(self) -> memory.Fit:
        """Memory of one GPU, with the least recomputation that surely fits."""
        job = self.job
        return memory.fit(
            job.model, gpu=self.cluster.gpu, world=self.cluster.world, tokens=job.sequence, recompute=job.recompute,
            parallel=job.parallel, lora_rank=job.lora_rank, micro_batches=self.micro_batches,
        )  # fmt: skip

    @property
    def smallest_world(self) -> int | None:
        """Fewest GPUs on which it surely fits."""
        job = self.job
        return memory.smallest_world(
            job.model, gpu=self.cluster.gpu, tokens=job.sequence, per_node=self.cluster.per_node,
            recompute=job.recompute, parallel=job.parallel, lora_rank=job.lora_rank,
            micro_batches=self.micro_batches,
        )  # fmt: skip

    # --- a checkpoint -----------------------------------------------------------------------------------------------

    @property
    def checkpoint(self) -> float:
        """Bytes of one checkpoint."""
        return memory.checkpoint_bytes(self.job.model, lora_rank=self.job.lora_rank)

    @cached_property
    def write(self) -> Rate:
        """The rate at which all nodes write together, and what limits it.

        Raises:
            PlanError: the size of the file system is not known.
        """
        return self._rate(self.cluster.nodes)

    @property
    def write_alone(self) -> Rate:
        """The rate at which one node writes everything."""
        return self._rate(1)

    def _rate(self, clients: int) -> Rate:
        cluster = self.cluster
        return storage.rate(
            self._system(), clients=clients, network_gbps=cluster.network_gbps, efa_client=cluster.efa_client
        )

    def _system(self) -> storage.FileSystem:
        if self.cluster.file_system is None:
            raise PlanError(
                f"{self.cluster.environment}: the file has no size and throughput of its existing file system",
                expected="both, for the time of a checkpoint",
                fix="give them: --storage 9600@1000, or --storage elastic@4000 of Intelligent-Tiering",
            )
        return self.cluster.file_system

    @property
    def write_seconds(self) -> float:
        """Seconds of one save on the file system, and of reading it."""
        return self.checkpoint / self.write.bytes_per_second

    @property
    def room(self) -> float:
        """Checkpoints that fit on the file system beside nothing else."""
        return self._system().capacity_gib * GIB / self.checkpoint

    @property
    def tokens_bytes(self) -> float:
        """Bytes of the tokens, should they lie on the file system: 2 each hold 65,536 symbols, 4 each hold more."""
        return self.job.tokens * (2 if self.job.model.vocabulary <= 65_536 else 4)

    @property
    def needed_gib(self) -> float:
        """GiB of the checkpoints that are kept, the next one, and the tokens."""
        return ((self.job.keep + 1) * self.checkpoint + self.tokens_bytes) / GIB

    def on(self, system: storage.FileSystem) -> Outlook:
        """The same run on another file system, at the best interval there."""
        job = replace(self.job, save_every_seconds=None)
        return replace(self, cluster=self.cluster.with_storage(system), job=job)

    @cached_property
    def stall(self) -> Range:
        """Seconds that steps stop for one save."""
        if self.job.save == "sync":
            return Range.exact(self.write_seconds)
        copy = self.checkpoint / self.cluster.world / (self.cluster.figures.host_gb_s * 1e9)
        return data.times()["save_stall"].range.map(lambda seconds: seconds + copy)

    @property
    def copies(self) -> float:
        """GiB of host memory that one worker pod takes for copies of its ranks and of their neighbours."""
        ranks = self.cluster.world - self.cluster.standing_by
        if ranks < 2:
            return 0.0
        needed = spares.memory_needed(
            parameters=self.job.model.parameters, shards=ranks, ranks_per_node=self.cluster.per_pod,
            bytes_per_parameter=round(data.memory()["checkpoint"].value),
        )  # fmt: skip
        return needed / GIB

    @property
    def keeps_copies(self) -> bool:
        """Whether the run keeps them: for standbys alone it trains without copies that do not fit."""
        return 0.0 < self.copies <= self.cluster.pod_memory_gib

    # --- an interruption --------------------------------------------------------------------------------------------

    @property
    def detect(self) -> Range:
        """Seconds until a lost node is noticed."""
        if self.rehearsed:
            return Range.exact(self.rehearsed.detect)
        return data.times()["node_monitor"].range.map(lambda seconds: seconds + self.cluster.lost_after)

    @property
    def start(self) -> Range:
        """Seconds until processes and NCCL are up again."""
        published = data.times()["process_start"].range
        if self.rehearsed:
            return Range(min(self.rehearsed.start, published.central), published.central, published.high)
        return published

    @property
    def pull(self) -> Range:
        """Seconds until a node that stands by has the image."""
        return Range.exact(0) if self.cluster.pulled_early else data.node_durations()["image_pull"][0]

    @property
    def restart(self) -> Range:
        """Seconds from an interruption to the first step, when a node is there."""
        parts = (self.detect, self.start, self.pull, Range.exact(self.write_seconds))
        return Range(*(sum(values) for values in zip(*parts, strict=True)))

    @property
    def per_node_second(self) -> Range:
        """Interruptions per node and second."""
        return self.rates.per_second(nodes=1, gpus_per_node=self.cluster.per_node)

    @property
    def interruptions(self) -> Range:
        """Interruptions of the run per second."""
        return self.rates.per_second(nodes=self.cluster.nodes, gpus_per_node=self.cluster.per_node)

    # --- goodput ----------------------------------------------------------------------------------------------------

    def run(self, level: Level, *, spare_nodes: int | None = None, only_rate: bool = False) -> Run:
        """The run with every span at one end.

        Args:
            level: The end.
            spare_nodes: Nodes that stand by. Default: the cluster's.
            only_rate: Only the rate of interruptions moves, all else stays central.
        """
        index, rest = LEVELS.index(level), 1 if only_rate else LEVELS.index(level)
        repair = self.cluster.repair[0][rest]
        rate = self.interruptions[index]
        number = self.cluster.spares if spare_nodes is None else spare_nodes
        stall = self.stall[rest]
        return Run(
            stall=stall,
            usable_after=stall if self.job.save == "sync" else stall + self.write_seconds,
            rate=rate,
            restart=self.restart[rest],
            waiting=spares.expected_wait(spares=number, in_repair=rate * repair, repair=repair),
        )

    @cached_property
    def interval(self) -> Interval:
        """The best interval at the central figures."""
        return goodput.best(self.run("central"))

    @property
    def intervals(self) -> Range:
        """The best interval at each rate of interruptions, in seconds."""
        optima = [goodput.best(self.run(level, only_rate=True)).seconds for level in LEVELS]
        return Range(min(optima), optima[1], max(optima))

    @property
    def every(self) -> float:
        """The interval that is used: as set, else the best one."""
        return self.job.save_every_seconds or self.interval.seconds

    def goodput(self, level: Level = "central", *, only_rate: bool = False) -> float:
        """Goodput with the interval that is used."""
        return goodput.goodput(self.run(level, only_rate=only_rate), self.every)

    @property
    def goodputs(self) -> Range:
        """Goodput at the bad, the central and the good end."""
        return Range(self.goodput("high"), self.goodput("central"), self.goodput("low"))

    def losses(self, level: Level = "central") -> Losses:
        """Where the time goes."""
        return goodput.losses(self.run(level), self.every)

    # --- time -------------------------------------------------------------------------------------------------------

    @cached_property
    def steps_speed(self) -> tuple[Range, str] | None:
        """Tokens per second of one GPU in steps alone, with its source; None where it is not known."""
        if self.job.tokens_per_second is not None:
            return Range.exact(self.job.tokens_per_second), self.job.measured
        if not speed.known(self.cluster.gpu):
            return None
        return self._over_fabric(speed.steps(self.setting)), speed.support(self.setting)

    def _over_fabric(self, rate: Range) -> Range:
        """A speed that the measured fabric carries; as it is where none was measured."""
        most = self.fabric_limit
        return rate if most is None else rate.map(lambda value: min(value, most))

    @property
    def fabric_limit(self) -> float | None:
        """Tokens per second of one GPU at which traffic fills the fabric that `nodes check` measured.

        None where nothing was measured, or nothing leaves a node.
        """
        cluster = self.cluster
        if cluster.measured_gbps is None or cluster.nodes < 2:
            return None
        most = speed.carried(self.setting, per_node=cluster.per_node, network_gbps=cluster.measured_gbps)
        return None if math.isinf(most) else most

    @cached_property
    def throughput(self) -> tuple[Range, str] | None:
        """Tokens per second of one GPU over a whole run, but for interruptions; None where it is not known.

        A measured speed stands as it is.
        """
        if self.job.tokens_per_second is not None or not speed.known(self.cluster.gpu):
            return self.steps_speed
        return self._over_fabric(
            speed.whole(self.setting)
        ), "published whole runs, without their interruptions (docs/plan-agreement.md)"

    @property
    def step_seconds(self) -> Range | None:
        """Seconds of one step."""
        if self.steps_speed is None:
            return None
        return self.steps_speed[0].map(lambda rate: self.job.batch_tokens / (rate * self.cluster.world))

    @property
    def clean_seconds(self) -> Range | None:
        """Seconds of steps at the speed of a benchmark."""
        if self.steps_speed is None:
            return None
        return self.steps_speed[0].map(lambda rate: self.job.tokens / (rate * self.cluster.world))

    @property
    def work_seconds(self) -> Range | None:
        """Seconds of a whole run, without saves and interruptions."""
        if self.throughput is None:
            return None
        return self.throughput[0].map(lambda rate: self.job.tokens / (rate * self.cluster.world))

    @property
    def finish_seconds(self) -> Range | None:
        """Expected seconds to the end."""
        if self.work_seconds is None:
            return None
        work = self.work_seconds
        if self.job.whole:
            return work
        best_share, usual, worst_share = (self.goodput(level) for level in LEVELS)
        ends = tuple(
            seconds / share if share > 0 else float("inf")
            for seconds, share in ((work.low, best_share), (work.central, usual), (work.high, worst_share))
        )
        return Range(*ends)
