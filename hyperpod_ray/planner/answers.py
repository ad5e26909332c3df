"""The seven answers of a plan, each a table of figures with low, central, high and source, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from hyperpod_ray.core.amounts import shown
from hyperpod_ray.planner import PlanError, data, decides, goodput, memory, simulate, spares, speed
from hyperpod_ray.planner.alternatives import Alternative
from hyperpod_ray.planner.cluster import Bill
from hyperpod_ray.planner.failures import LEVELS
from hyperpod_ray.planner.goodput import FLAT
from hyperpod_ray.planner.outlook import Outlook
from hyperpod_ray.planner.ranges import DAY, GIB, HOUR, Range
from hyperpod_ray.planner.simulate import Outcome
from hyperpod_ray.planner.storage import ElasticFileSystem, FileSystem

Cell = Range | str | None


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure."""

    what: str
    value: Cell
    unit: str = ""
    source: str = ""


@dataclass(kw_only=True)
class Answer:
    """One question with its figures."""

    key: str
    title: str
    head: str = ""
    """The answer in one sentence."""
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class DeployStep:
    """A resource on the critical path of a deploy."""

    title: str
    minutes: Range
    source: str


@dataclass(frozen=True, kw_only=True)
class Deploy:
    """How long a new environment takes until its nodes take work, in minutes."""

    stacks: Range
    path: tuple[DeployStep, ...]
    nodes: Range
    nodes_why: str = ""


@dataclass(kw_only=True)
class Plan:
    """All answers, and the figures behind them for pictures."""

    environment: str
    subject: str
    fits: bool
    outlook: Outlook
    bill: Bill
    answers: list[Answer]
    refused: list[str]
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    deploy: Deploy | None = None
    others: list[Alternative] = field(default_factory=list)
    """Alternatives, in the order that is asked for."""

    @property
    def as_the_jobs_do(self) -> bool:
        """Whether it fits with the loss that this project's jobs compute, which keeps float32 logits."""
        return self.outlook.fit.verdict in {"yes", "probably"}


def plan(
    outlook: Outlook,
    bill: Bill,
    *,
    deploy: Deploy | str = "",
    systems: Sequence[tuple[FileSystem, Bill]] = (),
    alternatives: Sequence[Alternative] = (),
    simulated: bool = True,
    runs: int | None = None,
) -> Plan:
    """Answer all questions.

    Args:
        outlook: Cluster, job and rates.
        bill: Prices.
        deploy: How long a deploy takes, or why that is not known.
        systems: File systems to compare, each with the bill of the environment with it.
        alternatives: What else could be bought, in the order that is asked for.
        simulated: Whether to draw runs; needs numpy.
        runs: Number of runs. Default: `simulate.RUNS`.
    """
    report = Plan(
        environment=outlook.cluster.environment,
        subject=_subject(outlook),
        fits=True,
        outlook=outlook,
        bill=bill,
        answers=[],
        refused=list(_refused(outlook, bill)),
        others=list(alternatives),
    )
    fit = _fit(report)
    report.answers.append(fit)
    if simulated and outlook.work_seconds is not None and report.fits:
        report.outcomes = _outcomes(outlook, runs=runs or simulate.RUNS)
    report.answers += [
        _time(report),
        _checkpoint(report, systems),
        _interval(report),
        _goodput(report),
        _spares(report),
    ]
    report.answers.append(_first_step(report, deploy))
    return report


def _subject(outlook: Outlook) -> str:
    job, cluster = outlook.job, outlook.cluster
    ways = [job.method, "FP8" if job.precision == "fp8" else "", job.parallel.name]
    ways += ["Megatron or Transformer Engine" if job.stack == "megatron" else ""]
    details = "".join(f", {way}" for way in ways if way)
    return (
        f"{job.model.name}{details}, {shown(job.tokens)} tokens, sequences of {job.sequence:,}, "
        f"{shown(job.batch_tokens)} tokens a step, {job.save}hronous saves, on {cluster.name}"
    )


# --- a: does it fit --------------------------------------------------------------------------------------------------


def _fit(report: Plan) -> Answer:
    outlook = report.outlook
    job, cluster = outlook.job, outlook.cluster
    constant = data.memory()
    fit, minimum = outlook.fit, outlook.smallest_world
    report.fits = fit.fits
    answer = Answer(key="fit", title="Does it fit?", head=_fit_head(fit, minimum, cluster.gpu))
    sources = {
        "activations": constant[f"activations_{fit.recompute}"].source,
        "gathered layers": "two layers and the root in bf16, FSDP2 (fully_shard)",
        "gradients in reduction": "one layer and the root in bf16 and float32, FSDP2 with reduce_dtype float32",
    }
    for name, gib in fit.parts.items():
        source = sources.get(name) or f"{constant[name].value:g} {constant[name].what} ({constant[name].source})"
        answer.rows.append(Row(what=name, value=Range.exact(gib), unit="GiB", source=source))
    margin = constant["margin"]
    answer.rows.append(
        Row(
            what="all",
            value=fit.span,
            unit="GiB",
            source=f"the sum ± {margin.value:.0%}, the {margin.what}; low: with a fused loss",
        )
    )
    smallest = Range.exact(float(minimum)) if minimum else "none"
    answer.rows.append(
        Row(
            what="smallest world that surely fits",
            value=smallest,
            unit="GPUs" if minimum else "",
            source="the sum above",
        )
    )
    if outlook.copies:
        whom = f"{cluster.standing_by} warm spares" if cluster.standing_by else "the standby of each node"
        of_pod = f"{cluster.pod_memory_gib:,} GiB a worker pod; copies for {whom}"
        answer.rows.append(
            Row(what="copies in host memory", value=Range.exact(outlook.copies), unit="GiB", source=of_pod)
        )
        if not outlook.keeps_copies:
            answer.notes.append(
                "The copies for warm spares do not fit a worker pod: the run would be refused."
                if cluster.standing_by
                else "The copies do not fit a worker pod: the run keeps none. A lost rank goes back to the checkpoint."
            )
    if job.model.assumed:
        answer.notes.append(f"{job.model.assumed[:1].upper()}{job.model.assumed[1:]}.")
    if job.model.name not in data.models():
        answer.notes.append(f"The shape counts {job.model.size}: compare that with the model's own count.")
    way = f"adapters of rank {job.lora_rank} in float32, frozen weights in bf16" if job.lora_rank else "float32 shards"
    answer.notes.append(f"One sequence of {job.sequence:,} tokens per rank and micro-step; {way}, Adam, bf16.")
    if job.parallel.name:
        answer.notes.append(
            f"It counts {job.parallel.name}. The jobs of this project split nothing beside FSDP: yours must do it."
        )
    if kinds := job.model.hybrid:
        answer.notes.append(
            f"{kinds.linear} layers are {kinds.name}, {kinds.attention} attend; no published row is of a hybrid, so "
            "speed is carried over with a wider range."
        )
    if job.parallel.pipeline > 1:
        answer.notes.append(
            f"The first of {job.parallel.pipeline} stages keeps {outlook.in_flight:.3g} micro-batches for the "
            "backward pass, and its layers whole for a step."
        )
    if job.model.experts and job.parallel.expert == 1:
        answer.notes.append("Without ep, all experts of a layer are gathered on each GPU: give --parallel ep=8.")
    return answer


def _fit_head(fit: memory.Fit, minimum: int | None, gpu: str) -> str:
    low, _, high = fit.span
    need = f"{fit.total:.1f} GiB ({low:.1f} to {high:.1f}) of {fit.usable:.1f} per GPU"
    advice = f"It surely fits from {minimum} GPUs on." if minimum else "More GPUs do not make it sure."
    how = _recompute(fit.recompute)
    if fit.verdict == "yes":
        return f"Yes: {need}, with {how}."
    if fit.verdict == "probably":
        return f"Probably: {need}, with {how}; it can run out of memory. {advice}"
    if fit.verdict == "fused":
        return f"Only with a fused loss, which keeps no float32 logits: {need}, with {how}. {advice}"
    if minimum is None:
        return (
            f"No: {need}, even with {how}. No number of {gpu} is enough: shorten the sequence, or split layers and "
            "sequences (--parallel tp=8,cp=2)."
        )
    return f"No: {need}, even with {how}. It surely fits from {minimum} GPUs on."


def _recompute(choice: str) -> str:
    return {"none": "no recomputation of activations"}.get(choice, f"{choice} recomputation of activations")


# --- b: days and dollars ---------------------------------------------------------------------------------------------


def _time(report: Plan) -> Answer:
    outlook, bill = report.outlook, report.bill
    cluster = outlook.cluster
    answer = Answer(key="time", title="When does it end, and for how much?")
    if outlook.steps_speed is None or outlook.throughput is None:
        answer.head = f"Not known: no throughput of {cluster.gpu} is published. Give --tokens-per-second, per GPU."
        return answer
    if not report.fits:
        answer.head = "It does not fit, so it does not end."
        return answer
    (clean, clean_source), (whole_run, whole_source) = outlook.steps_speed, outlook.throughput
    answer.rows.append(
        Row(what="tokens per second and GPU, steps alone", value=clean, unit="tokens/s", source=clean_source)
    )
    if outlook.job.tokens_per_second is None:
        answer.rows.append(
            Row(what="tokens per second and GPU, a whole run", value=whole_run, unit="tokens/s", source=whole_source)
        )
    answer.rows.append(
        Row(
            what="tokens per second",
            value=whole_run.map(lambda rate: rate * cluster.world),
            unit="tokens/s",
            source=f"{cluster.world} GPUs",
        )
    )
    assert outlook.clean_seconds is not None and outlook.finish_seconds is not None  # noqa: S101
    days = outlook.finish_seconds.map(lambda seconds: seconds / DAY)
    answer.rows.append(
        Row(
            what="steps alone",
            value=outlook.clean_seconds.map(lambda s: s / DAY),
            unit="days",
            source="tokens ÷ speed of steps alone: as a benchmark runs, without interruptions",
        )
    )
    share = "÷ goodput" if not outlook.job.whole else "interruptions are in the measured speed"
    answer.rows.append(Row(what="to the end", value=days, unit="days", source=f"tokens ÷ speed of a whole run {share}"))
    price = bill.per_hour(nodes=cluster.nodes + cluster.spares)
    if price is None:
        answer.rows.append(Row(what="cost", value=None, unit="$", source=f"no price of {', '.join(bill.unknown)}"))
        answer.head = f"{_long(days)}; the price is not known."
    else:
        total = days.map(lambda day: day * 24 * price)
        answer.rows.append(Row(what="the environment", value=Range.exact(price), unit="$/h", source=bill.source))
        answer.rows.append(Row(what="cost", value=total, unit="$", source="days × 24 × $/h, spares included"))
        answer.head = f"{_long(days)} and {_span(total, '$', short=True)}."
        if bill.unknown:
            answer.notes.append(f"Without {', '.join(bill.unknown)}, whose price is not known.")
    answer.notes += _time_notes(outlook)
    return answer


def _time_notes(outlook: Outlook) -> list[str]:
    """What the figures of time hold, and what they leave aside."""
    cluster, notes = outlook.cluster, []
    if words := decides.bound_by(outlook):
        notes.append(words)
    if outlook.job.tokens_per_second is None:
        notes.append(
            "Steps alone answer what a benchmark shows. A whole run also evaluates, waits for data and has slow nodes."
        )
        if outlook.job.lora_rank:
            notes.append("The published whole runs are pre-training; none of them is a fine-tuning.")
        if outlook.job.model.experts:
            notes.append("Benchmarks of experts share tokens evenly by force; a router of your own may not.")
    elif not outlook.job.whole:
        notes.append("A measured speed of steps leaves evaluation, data and slow nodes aside.")
    if cluster.scaled:
        notes.append(
            f"Managed Karpenter adds the {cluster.nodes} nodes when the run starts and removes them after it: `cost` "
            "counts none of them while nothing runs."
        )
    notes += _fabric_notes(outlook) + _pipeline_notes(outlook)
    hidden = speed.hidden_tokens(gpu=cluster.gpu, network_gbps=cluster.fabric_gbps)
    per_rank = outlook.job.sequence / outlook.job.parallel.ranks
    if cluster.nodes > 1 and per_rank < hidden and outlook.job.parallel.pipeline == 1:
        notes.append(
            f"FSDP's traffic between nodes hides behind the arithmetic from {hidden:,.0f} tokens per GPU and "
            f"micro-step on; there are {per_rank:,.0f}: expect the low end, or use larger micro-batches."
        )
    if outlook.job.parallel.tensor > cluster.per_node:
        notes.append(
            f"tp={outlook.job.parallel.tensor} leaves the node: no published row does that, expect the low end."
        )
    return notes


def _fabric_notes(outlook: Outlook) -> list[str]:
    """Which fabric the plan counts on, and how it is known."""
    cluster = outlook.cluster
    checked = cluster.checked
    if cluster.nodes < 2:
        return []
    if checked is None:
        return [
            f"The fabric is taken as {cluster.instance_type} should have it, {cluster.network_gbps:,.0f} Gb/s a node. "
            f"Measure it: hyperpod-ray nodes check {cluster.environment}"
        ]
    if cluster.measured_gbps is None:
        why = (
            f"it was of {checked.instance_type}"
            if checked.on_gpus and checked.instance_type != cluster.instance_type
            else "it measured no fabric between GPU nodes"
        )
        return [
            f"The nodes check of {checked.at:%Y-%m-%d} is not used: {why}. The fabric is taken as "
            f"{cluster.instance_type} should have it, {cluster.network_gbps:,.0f} Gb/s a node."
        ]
    notes = [
        f"The fabric is as nodes check found it on {checked.at:%Y-%m-%d}: {cluster.measured_gbps:,.0f} Gb/s a node "
        f"over {checked.transport}, of {cluster.network_gbps:,.0f} that {cluster.instance_type} should have."
    ]
    if checked.faulty:
        notes.append(f"That check found faulty nodes: {', '.join(checked.faulty)}. One slow node slows every step.")
    limit = outlook.fabric_limit
    if limit is not None and outlook.job.tokens_per_second is None and limit < speed.steps(outlook.setting).high:
        notes.append(
            f"It carries the traffic of at most {limit:,.0f} tokens per second and GPU: the speeds above stop there."
        )
    return notes


def _pipeline_notes(outlook: Outlook) -> list[str]:
    """What a pipeline costs, and what it takes of the fabric."""
    split, cluster = outlook.job.parallel, outlook.cluster
    if split.pipeline == 1:
        return []
    layers, batches = outlook.job.model.layers, outlook.micro_batches
    idle = 1 - split.busy(layers=layers, micro_batches=batches)
    schedule = f"an interleaved schedule of {split.virtual} parts" if split.virtual > 1 else "one forward, one backward"
    notes = [
        f"Each of the {split.pipeline} stages waits {idle:.1%} of a step: {batches:,.0f} micro-batches, {schedule}. "
        "More tokens a step, or more parts (vp), make it less."
    ]
    if layers % (split.pipeline * split.virtual):
        notes.append(f"{layers} layers do not divide into {split.pipeline * split.virtual} parts: the largest decides.")
    if split.virtual > 1 and batches % split.pipeline:
        notes.append(
            f"An interleaved schedule needs micro-batches in multiples of {split.pipeline}: {batches:,.0f} are not."
        )
    if speed.known(cluster.gpu):
        rate = cluster.per_node * speed.steps(outlook.setting).central
        traffic = speed.stage_traffic(outlook.setting, per_node=cluster.per_node) * rate * 8 / 1e9
        share = traffic / cluster.fabric_gbps
        notes.append(
            f"Activations between stages take {traffic:,.3g} Gb/s of a node, {share:.1%} of its fabric"
            + (": expect the low end." if share > 0.5 else ".")
        )
    return notes


# --- c: a checkpoint -------------------------------------------------------------------------------------------------


EQUAL = 0.005
"""File systems whose useful GPU-hours differ by half a percent count as equally dear."""


def advised(prices: Sequence[tuple[FileSystem, Range]]) -> FileSystem:
    """The fastest of the file systems that are as cheap as the cheapest, per useful GPU-hour.

    Speed that costs next to nothing is taken: it helps where saves are synchronous, and where one rank writes alone.
    """
    cheapest = min(price.central for _, price in prices)
    cheap = [(system, price) for system, price in prices if price.central <= cheapest * (1 + EQUAL)]
    return max(cheap, key=lambda pair: (_rate(pair[0]), -pair[1].central))[0]


def _rate(system: FileSystem) -> float:
    return system.mbs


def useful_hours(outlook: Outlook, systems: Sequence[tuple[FileSystem, Bill]]) -> list[tuple[FileSystem, Range]]:
    """Dollars per useful GPU-hour with each file system; without those whose price is not known."""
    costs = []
    for system, bill in systems:
        price = bill.per_hour(nodes=outlook.cluster.nodes + outlook.cluster.spares)
        if price is None:
            continue
        on_system, per_gpu = outlook.on(system), price / outlook.cluster.world
        costs.append((system, Range(*(per_gpu / on_system.goodput(level) for level in LEVELS))))
    return costs


def _systems(report: Plan, answer: Answer, systems: Sequence[tuple[FileSystem, Bill]]) -> None:
    outlook = report.outlook
    costs = useful_hours(outlook, systems)
    if not costs:
        return
    for system, price in costs:
        row = Row(what=f"useful GPU-hour, {system.words}", value=price, unit="$", source="the bill with it ÷ goodput")
        answer.rows.append(row)
    current = outlook.cluster.file_system
    # what it takes of the nodes' AMI is not known to the planner: EFA is advised where the file has it
    best = advised([pair for pair in costs if not pair[0].efa or (current is not None and current.efa)])
    answer.notes.append(
        f"{outlook.job.keep} checkpoints, the next one and the tokens need {outlook.needed_gib:,.0f} GiB. Of the "
        f"smallest sizes that hold them, {best.name} is the fastest that costs at most {EQUAL:.1%} more than the "
        f"cheapest; the environment has {'that' if current == best else current.name if current else 'another'}."
    )


def _checkpoint(report: Plan, systems: Sequence[tuple[FileSystem, Bill]] = ()) -> Answer:
    outlook = report.outlook
    cluster, job, size = outlook.cluster, outlook.job, outlook.checkpoint
    system = outlook._system()
    efa = system.efa and cluster.efa_client
    constant = data.memory()["checkpoint"]
    answer = Answer(key="checkpoint", title="What does a checkpoint take, and which file system pays?")
    write, alone = outlook.write, outlook.write_alone
    guide = "FSx for Lustre guide, performance"
    answer.rows = [
        Row(
            what="size",
            value=Range.exact(size / 1e9),
            unit="GB",
            source=f"{constant.value:g} {constant.what} ({constant.source})",
        ),
        Row(what="rate, all nodes", value=Range.exact(write.bytes_per_second / 1e9), unit="GB/s", source=guide),
        Row(what="to write, all nodes", value=Range.exact(outlook.write_seconds), unit="s", source=_limit(write.limit)),
        Row(
            what="to write, one rank",
            value=Range.exact(size / alone.bytes_per_second),
            unit="s",
            source=f"{_limit(alone.limit)}: torch.save on rank 0",
        ),
        Row(
            what="to read, all nodes",
            value=Range.exact(outlook.write_seconds),
            unit="s",
            source="taken as to write" + (", from the tier" if isinstance(system, ElasticFileSystem) else ""),
        ),
        Row(
            what="steps stop for",
            value=outlook.stall,
            unit="s",
            source="the write"
            if job.save == "sync"
            else "copy to the host; PyTorch and IBM's 6.3 s (hyperpod_ray/planner/data)",
        ),
        Row(
            what="checkpoints that fit",
            value=Range.exact(float(int(outlook.room))),
            source=f"{system.capacity_gib:,} GiB ÷ size; the job keeps {job.keep}, and writes one more",
        ),
    ]
    answer.head = (
        f"{size / 1e9:,.0f} GB, {_seconds(outlook.write_seconds)} to write, limited by the {write.limit}; steps "
        f"stop for {_seconds(outlook.stall.central)}."
    )
    if outlook.room < job.keep + 1:
        answer.head += f" {job.keep} of them and the next one do not fit the file system."
    answer.rows.append(
        Row(
            what="the tokens, where they lie there too",
            value=Range.exact(outlook.tokens_bytes / GIB),
            unit="GiB",
            source=f"{outlook.tokens_bytes / job.tokens:.0f} bytes each: {job.model.vocabulary:,} symbols",
        )
    )
    _systems(report, answer, systems)
    if outlook.room < job.keep + 1:
        answer.notes.append(
            f"{job.keep} checkpoints and one that is being written need {(job.keep + 1) * size / GIB:,.0f} GiB; the "
            f"file system has {system.capacity_gib:,}."
        )
    if isinstance(system, ElasticFileSystem):
        answer.notes.append(
            "Intelligent-Tiering reads as fast as it writes: from the read cache at once, from the tier after tens of "
            "milliseconds and for a charge for each request. Its price is not on file, so no other one is compared."
        )
    if system.efa and not efa:
        answer.notes.append(f"The file system is EFA-enabled, but Lustre has no EFA on {cluster.instance_type}.")
    elif efa:
        answer.notes.append(
            "Lustre uses EFA where the nodes' AMI has AWS's set-up of its client: the log of on_create says whether."
        )
    if not efa and write.bytes_per_second > 10e9:
        answer.notes.append("AWS recommends an EFA-enabled file system from 10 GB/s on.")
    answer.notes.append(
        f"{system.servers} server{'s' if system.servers > 1 else ''}"
        + (", EFA" if efa else "; without EFA one node and one server exchange 5 Gb/s at most")
        + f"; {cluster.nodes} clients."
    )
    return answer


def _limit(limit: str) -> str:
    return {
        "file system": "limit: the file system's throughput",
        "clients": "limit: the clients' network",
        "clients × servers": "limit: 5 Gb/s for each client and server",
    }[limit]


# --- d: the interval -------------------------------------------------------------------------------------------------


def _interval(report: Plan) -> Answer:
    outlook = report.outlook
    answer = Answer(key="interval", title="How often to save?")
    interval, step = outlook.interval, outlook.step_seconds
    answer.rows = [
        Row(
            what="best interval",
            value=outlook.intervals,
            unit="s",
            source="largest goodput at the high, central and low rate of interruptions",
        ),
        Row(
            what="flat part",
            value=Range(interval.low, interval.seconds, interval.high),
            unit="s",
            source=f"goodput within {FLAT:.1%} of the best, at the central rate",
        ),
    ]
    words = f"Every {_seconds(interval.seconds)} of training; anything from {_seconds(interval.low)} to "
    words += f"{_seconds(interval.high)} costs less than 0.1 point."
    if step is not None:
        answer.rows.append(Row(what="one step", value=step, unit="s", source="tokens of a step ÷ speed"))
        steps = Range(*sorted(interval.seconds / seconds for seconds in step))
        answer.rows.append(Row(what="best interval", value=steps, unit="steps", source="best interval ÷ one step"))
        answer.notes.append("The speed decides the number of steps: give jobs the seconds, which `submit` does.")
    if outlook.job.save_every_seconds:
        worse = interval.goodput - outlook.goodput()
        words += f" The file sets {_seconds(outlook.job.save_every_seconds)}"
        words += "." if worse < FLAT / 20 else f", which costs {worse:.2%}."
    answer.head = words
    return answer


# --- e: goodput ------------------------------------------------------------------------------------------------------


def _goodput(report: Plan) -> Answer:
    outlook = report.outlook
    answer = Answer(key="goodput", title="What breaks, and how much of the time is training?")
    training_share = outlook.goodputs
    share = (
        f"{training_share.central:.2%} of the time is training ({training_share.low:.2%} to {training_share.high:.2%})"
    )
    finish = outlook.finish_seconds if report.fits else None
    span = finish or Range.exact(30 * DAY)
    number = Range(*(seconds * rate for seconds, rate in zip(span, outlook.interruptions, strict=True)))
    until = "until the end" if finish else "in 30 days"
    answer.head = f"{_span(number, 'interruptions')} {until}; {share}."
    answer.rows = [
        Row(what=f"interruptions {until}", value=number, unit="interruptions", source="the rates below"),
        Row(
            what="one interruption costs",
            value=_each(outlook),
            unit="s",
            source="steps done again, restart, and the mean wait for a node",
        ),
        Row(
            what="interruptions per 1,000 node-days",
            value=outlook.rates.per_thousand,
            source=outlook.rates.source,
        ),
        Row(
            what="mean time between interruptions",
            value=outlook.interruptions.map(lambda rate: 1 / rate / HOUR),
            unit="h",
            source=f"{outlook.cluster.nodes} nodes",
        ),
        Row(
            what="restart",
            value=outlook.restart,
            unit="s",
            source="detect, image, start of processes and NCCL, read the checkpoint (planner/data/times.yaml)",
        ),
        Row(what="a lost node comes back", value=outlook.cluster.repair[0], unit="s", source=outlook.cluster.repair[1]),
    ]
    ends = {level: outlook.losses(level) for level in LEVELS}
    for name, words in (
        ("useful", "steps that count"), ("stall", "lost: steps stop for saves"), ("redo", "lost: steps done again"),
        ("restart", "lost: restart"), ("waiting", "lost: waiting for a node"),
    ):  # fmt: skip
        values = [getattr(ends[level], name) for level in LEVELS]
        answer.rows.append(
            Row(what=words, value=Range(min(values), values[1], max(values)), unit="%", source="closed form")
        )
    for level, outcome in report.outcomes.items():
        span = Range(outcome.quantile(0.05), outcome.quantile(0.5), outcome.quantile(0.95))
        rate = outlook.rates.per_thousand[LEVELS.index(level)]
        answer.rows.append(
            Row(
                what=f"end at {rate:.3g} interruptions per 1,000 node-days: 5, 50, 95 %",
                value=span.map(lambda seconds: seconds / DAY),
                unit="days",
                source=f"{len(outcome.finish):,} simulated runs at the central speed",
            )
        )
    if not report.outcomes and report.fits and outlook.work_seconds is not None:
        many = simulate.rounds(outlook.run("high", only_rate=True), outlook.every, work=outlook.work_seconds.central)
        answer.notes.append(
            "With so many interruptions no runs are drawn: their ends lie close around the closed form."
            if many > simulate.MOST_ROUNDS
            else "The 5 and 95 % of the end need the simulation, and that numpy: pip install '.[plan]' in a checkout."
        )
    answer.rows += _copies(outlook)
    answer.notes.append("Each interruption is counted as a lost node; many are not, and then nobody waits for one.")
    if outlook.cluster.nodes * outlook.cluster.per_node < 512:
        answer.notes.append("Small clusters are the least known: there, software causes most interruptions.")
    if outlook.rehearsed:
        answer.notes.append(
            f"Detection is the rehearsal's ({outlook.rehearsed.source}); its restart is the low end only, because it "
            "has no NCCL, no large state and no image to pull."
        )
    return answer


def _copies(outlook: Outlook) -> list[Row]:
    """What copies in memory cost each step, and how long a lost rank then takes; nothing where none are kept."""
    cluster = outlook.cluster
    if not outlook.keeps_copies or outlook.step_seconds is None:
        return []
    share = outlook.checkpoint / max(1, cluster.world - cluster.standing_by)
    flow = data.times()
    exchange = Range(*sorted(share / (rate * 1e9 / 8) for rate in flow["copy_gbps"].seconds))
    fastest, usual, slowest = outlook.step_seconds
    often = Range(
        *(
            max(1, math.ceil(handover / step))
            for handover, step in zip(exchange, (slowest, usual, fastest), strict=True)
        )
    )
    per_rank = zip(flow["group_per_rank"].range, flow["nccl_per_rank"].range, strict=True)
    ranks = [cluster.world * sum(seconds) for seconds in per_rank]
    back = Range(*(sum(parts) for parts in zip(exchange, flow["rebuild"].range, ranks, strict=True)))
    return [
        Row(what="copies of a step take", value=exchange, unit="s", source=flow["copy_gbps"].source),
        Row(
            what="so a copy is sent after",
            value=often,
            unit="steps",
            source="one is over before the next begins; copies hold steps up for 3 % of their time at most",
        ),
        Row(
            what=f"a lost rank is back, of {cluster.world} ranks",
            value=back,
            unit="s",
            source="hand-over, groups by rank, rebuild and NCCL (planner/data/times.yaml); then those steps again",
        ),
    ]


def _each(outlook: Outlook) -> Range:
    """Seconds that one interruption loses."""
    ends = []
    for index, level in enumerate(LEVELS):
        lost = outlook.losses(level)
        ends.append((lost.redo + lost.restart + lost.waiting) / outlook.interruptions[index])
    return Range(min(ends), ends[1], max(ends))


def _outcomes(outlook: Outlook, *, runs: int) -> dict[str, Outcome]:
    assert outlook.work_seconds is not None  # noqa: S101
    try:
        return {
            level: simulate.simulate(
                outlook.run(level, only_rate=True),
                outlook.every,
                work=outlook.work_seconds.central,
                spares=outlook.cluster.spares,
                repair=outlook.cluster.repair[0].central,
                runs=runs,
            )
            for level in LEVELS
        }
    except PlanError:
        return {}  # no numpy: the answer says what is missing


# --- f: spares -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Standby:
    """What a number of spare nodes gives and costs."""

    name: str
    spares: int
    goodput: Range
    per_hour: float | None
    per_useful_gpu_hour: Range | None


def standby(outlook: Outlook, bill: Bill) -> list[Standby]:
    """No, one and two spare nodes, and training that continues with one node less."""
    cluster = outlook.cluster
    standbys = []
    for number in (0, 1, 2):
        shares = [goodput.goodput(outlook.run(level, spare_nodes=number), outlook.every) for level in LEVELS]
        standbys.append(_standby(f"{number} spare{'s' if number != 1 else ''}", number, shares, outlook, bill))
    shares = []
    for index, level in enumerate(LEVELS):
        run = outlook.run(level, spare_nodes=0)
        rigid = goodput.goodput(goodput.Run(**{**vars(run), "waiting": 0.0}), outlook.every)
        shares.append(
            spares.elastic_goodput(
                rigid, rate=run.rate, restart=run.restart, repair=cluster.repair[0][index], nodes=cluster.nodes
            )
        )
    if cluster.nodes > 1:
        standbys.append(_standby("elastic", 0, shares, outlook, bill))
    return standbys


def _standby(name: str, number: int, shares: list[float], outlook: Outlook, bill: Bill) -> Standby:
    cluster = outlook.cluster
    share = Range(shares[2], shares[1], shares[0])
    price = bill.per_hour(nodes=cluster.nodes + number)
    useful = None if price is None else share.map(lambda useful_share: price / (cluster.world * useful_share))
    return Standby(name=name, spares=number, goodput=share, per_hour=price, per_useful_gpu_hour=useful)


def pays_from(outlook: Outlook) -> Range:
    """Number of nodes from which on the first spare pays."""
    return outlook.cluster.spare_pays_from(outlook.rates)


def _spares(report: Plan) -> Answer:
    outlook, bill = report.outlook, report.bill
    cluster = outlook.cluster
    answer = Answer(key="spares", title="Do spare nodes pay?")
    standbys = standby(outlook, bill)
    for option in standbys:
        answer.rows.append(Row(what=f"goodput, {option.name}", value=option.goodput, unit="%", source="closed form"))
    for option in standbys:
        answer.rows.append(
            Row(what=f"useful GPU-hour, {option.name}", value=option.per_useful_gpu_hour, unit="$", source=bill.source)
        )
    limit = pays_from(outlook)
    rates = outlook.per_node_second
    elastic = Range(
        *sorted(spares.pays_over_elastic_from(rate_per_node=rate, repair=cluster.repair[0].central) for rate in rates)
    )
    answer.rows.append(Row(what="a spare pays from", value=limit, unit="nodes", source="1 ÷ √(rate × repair time)"))
    answer.rows.append(
        Row(what="where training is elastic, from", value=elastic, unit="nodes", source="1 ÷ (rate × repair time)")
    )
    pays = cluster.nodes >= limit.central
    without, with_one = standbys[0].per_useful_gpu_hour, standbys[1].per_useful_gpu_hour
    if without is not None and with_one is not None:
        difference = with_one.central / without.central - 1
        answer.head = (
            f"{'Yes' if difference < 0 else 'No'}: a useful GPU-hour costs {without.central:.2f} $ without a spare and "
            f"{with_one.central:.2f} $ with one ({difference:+.1%})."
        )
    else:
        answer.head = f"{'Yes' if pays else 'No'}: one pays from {limit.central:.0f} nodes on ({_plain(limit)})."
    answer.notes.append(
        "A spare node pays for lost nodes alone: a lost process has a standby on its node, which takes no GPU."
    )
    if cluster.promised:
        answer.notes.append(f"Quotas of teams take {cluster.promised:.3g} nodes of this type: none of them is a spare.")
    if cluster.spares and not pays:
        answer.notes.append(
            f"The environment has {cluster.spares}. A deadline justifies it, or capacity that may not come back; "
            "how likely that is no public figure says."
        )
    return answer


# --- g: the first step -----------------------------------------------------------------------------------------------


def _first_step(report: Plan, deploy: Deploy | str) -> Answer:
    answer = Answer(key="first-step", title="How long until the first step of a new environment?")
    if isinstance(deploy, str):
        answer.head = deploy or "Not known: no synthesized assembly."
        return answer
    report.deploy = deploy
    start = report.outlook.start.map(lambda seconds: seconds / 60)
    total = Range(
        *(node_minutes + start_minutes for node_minutes, start_minutes in zip(deploy.nodes, start, strict=True))
    )
    answer.rows = [Row(what=step.title, value=step.minutes, unit="min", source=step.source) for step in deploy.path]
    answer.rows.append(
        Row(what="all stacks", value=deploy.stacks, unit="min", source="critical path, stacks side by side")
    )
    answer.rows.append(
        Row(what="GPU nodes take work", value=deploy.nodes, unit="min", source=deploy.nodes_why or "with the stacks")
    )
    answer.rows.append(
        Row(
            what="processes start",
            value=start,
            unit="min",
            source="start of processes and NCCL (hyperpod_ray/planner/data)",
        )
    )
    answer.rows.append(Row(what="first step", value=total, unit="min", source="sum of the last two"))
    answer.head = f"{_span(total, 'min')}, if there is capacity."
    return answer


# --- what is refused -------------------------------------------------------------------------------------------------


def _refused(outlook: Outlook, bill: Bill) -> Iterator[str]:
    cluster = outlook.cluster
    yield "whether there is capacity, and for how long: preflight and SearchTrainingPlanOfferings ask AWS"
    yield "loss, quality and convergence: tokens are taken as given"
    if cluster.spot:
        yield "spot interruptions: no public rate; they come on top of the failures"
    if cluster.on_plan and bill.node is None:
        yield "the price of the training plan: no public figure; SearchTrainingPlanOfferings has it (--node-price)"
    if outlook.throughput is None:
        yield f"days and dollars on {cluster.gpu}: no published throughput; measure it and give --tokens-per-second"
    if bill.node is None and not cluster.on_plan:
        yield f"dollars: no price of {cluster.instance_type} in {cluster.region} is on file (cost --update asks for it)"


# --- words -----------------------------------------------------------------------------------------------------------


def figure(value: float, unit: str) -> str:  # noqa: PLR0911
    """A figure for people."""
    if not math.isfinite(value):
        return "never"
    if unit == "%":
        return f"{value:.2%}"
    if unit in ("$", "$/h"):
        return f"{value:,.2f}" if abs(value) < 1000 else f"{value:,.0f}"
    if unit == "interruptions":
        return f"{value:,.0f}" if value >= 2 else f"{value:.2g}"
    if unit in ("GPUs", "nodes", "steps", "tokens/s"):
        return f"{value:,.0f}"
    if unit == "days" and abs(value) < 1000:
        return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def _plain(value: Range) -> str:
    return f"{value.low:.0f} to {value.high:.0f}"


def _span(value: Range, unit: str, *, short: bool = False) -> str:
    if value.known:
        return f"{figure(value.central, unit)} {unit}"
    low, central, high = (shown(bound) if short and math.isfinite(bound) else figure(bound, unit) for bound in value)
    return f"{central} {unit} ({low} to {high})"


def _long(days: Range) -> str:
    """Days, or hours of a short run."""
    return _span(days, "days") if days.central >= 2 else _span(days.map(lambda day: day * 24), "h")


def _seconds(value: float) -> str:
    if value < 90:
        return f"{value:.3g} s"
    return f"{value / 60:.3g} min" if value < 5400 else f"{value / HOUR:.3g} h"


def as_data(report: Plan) -> dict[str, Any]:
    """The plan as JSON knows it. Units are in `unit`; shares are fractions of 1."""
    return {
        "environment": report.environment,
        "subject": report.subject,
        "fits": report.fits,
        "answers": {
            answer.key: {
                "title": answer.title,
                "answer": answer.head,
                "figures": [_row(row) for row in answer.rows],
                "notes": answer.notes,
            }
            for answer in report.answers
        },
        "decided_by": [
            {"what": driver.name, **dict(zip(LEVELS, map(_finite, driver.days), strict=True))}
            for driver in (decides.drivers(report.outlook) if report.fits else [])
        ],
        "alternatives": [_alternative(row) for row in report.others],
        "not_known": report.refused,
    }


def _alternative(row: Alternative) -> dict[str, Any]:
    spans = {"days": row.days, "dollars": row.dollars}
    figures = {
        name: None if span is None else dict(zip(LEVELS, map(_finite, span), strict=True))
        for name, span in spans.items()
    }
    return {"name": row.name, "own": row.own, "fits": row.fits, **figures, "goodput": row.goodput, "note": row.note}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _row(row: Row) -> dict[str, Any]:
    base = {"what": row.what, "unit": row.unit, "source": row.source}
    if isinstance(row.value, Range):
        low, central, high = (None if value == float("inf") else value for value in row.value)
        return {**base, "low": low, "central": central, "high": high}
    return {**base, "value": row.value}
