"""What a plan answers, word by word: `answers.txt`, for a person to read. `make records` writes it.

Each case is an environment, a run, and what is known beside them. Figures have four digits. A wrong unit, a note that
is missing and a factor that changes show as a changed line; read it before you write the file again.
"""

from __future__ import annotations

import functools
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from unittest import mock

from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.loader import FOLDER, load_any
from hyperpod_ray.planner import PlanError, alternatives, answers, checks, failures, page, pictures, storage, writing
from hyperpod_ray.planner.alternatives import Sort
from hyperpod_ray.planner.answers import Deploy, DeployStep
from hyperpod_ray.planner.checked_nodes import Checked
from hyperpod_ray.planner.cluster import bill, cluster, file_systems, with_storage
from hyperpod_ray.planner.data import Level
from hyperpod_ray.planner.job import Wish, job
from hyperpod_ray.planner.outlook import Outlook, Rehearsed
from hyperpod_ray.planner.ranges import Range
from hyperpod_ray.pricing import price_file
from tests.planner.test_checks import WORKERS, plan_of

FILE = Path(__file__).with_name("answers.txt")
DAY = date(2026, 11, 22)
NODES = {f"hyper-{number}": "good" for number in range(7)}
CHECKED = Checked(
    at=datetime(2026, 11, 20, 8, tzinfo=UTC), instance_type="ml.p5.48xlarge", transport="efa", all_reduce_gb_s=180.0,
    nodes={**NODES, "hyper-7": "faulty", "hyper-8": "busy"}, findings=("hyper-7: 3 of 8 GPUs",), write_gb_s=4.0,
)  # fmt: skip
DEPLOY = Deploy(
    stacks=Range(30, 45, 70),
    path=(
        DeployStep(title="create cluster", minutes=Range(9, 10, 14), source="EKS"),
        DeployStep(title="create file system", minutes=Range(8, 10, 15), source="FSx"),
    ),
    nodes=Range(60, 90, 200),
    nodes_why="group workers: deep health checks",
)
JAMBA = {
    "model_type": "jamba", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 65536, "attn_layer_period": 8,
    "attn_layer_offset": 4, "expert_layer_period": 2, "expert_layer_offset": 1, "num_experts": 16,
    "num_experts_per_tok": 2, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_dt_rank": 256,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Question:
    """One environment with one run.

    Args:
        file: shipped environment file. Default: eight P5 with `edits`.
        wish: options of the command.
        storage: another file system, as the command takes it.
        level: of interruptions.
        all_alternatives: record the table of them too.
    """

    file: str = ""
    edits: dict[str, Any] = field(default_factory=dict)
    wish: Wish = field(default_factory=Wish)
    storage: str = ""
    team: str = ""
    level: Level = "central"
    node_price: float | None = None
    deploy: Deploy | str = ""
    checked: Checked | None = None
    rehearsed: Rehearsed | None = None
    sort: Sort = "dollars"
    all_alternatives: bool = False


FIRST = "eight P5"
LLAMA = Wish(model="llama-3.1-70b", tokens="1T")
SMALL = Wish(model="llama-3.1-8b", tokens="1T")
TEAM = {"name": "research"}
TEAMS = {f"{WORKERS}/count": 8, "ray/workers/0/replicas": 2}
QUESTIONS = {
    FIRST: Question(deploy=DEPLOY, all_alternatives=True),
    "low, with a rehearsal": Question(
        level="low",
        sort="days",
        all_alternatives=True,
        rehearsed=Rehearsed(detect=4.0, start=9.0, source="report.json"),
    ),
    "high, with a spare": Question(level="high", edits={f"{WORKERS}/count": 9}, sort="goodput", all_alternatives=True),
    "measured, with warm spares": Question(
        edits={"ray/training_spares": 8, "ray/workers/0/memory_gib": 400}, wish=Wish(tokens_per_second=700.0)
    ),
    "nodes were checked": Question(checked=CHECKED),
    "one node of eight GPUs": Question(edits={"ray/workers/0/replicas": 1, f"{WORKERS}/count": 1}, wish=SMALL),
    "too few GPUs": Question(edits={"ray/workers/0/replicas": 4, f"{WORKERS}/count": 4}),
    "too little storage": Question(storage="2400@250"),
    "EFA on the file system": Question(storage="38400@1000+efa"),
    "Intelligent-Tiering": Question(file="examples/intelligent-tiering", wish=SMALL),
    "Intelligent-Tiering asked for": Question(storage="elastic@8000"),
    "long sequences, split": Question(
        wish=Wish(model="llama-3.1-70b", tokens="1T", sequence=131072, parallel="tp=8,cp=2", batch_tokens="16M")
    ),
    "split beyond the node": Question(wish=Wish(model="llama-3.1-70b", tokens="1T", parallel="tp=16")),
    "a pipeline": Question(wish=Wish(model="llama-3.1-70b", tokens="1T", parallel="tp=4,pp=4,vp=2", stack="megatron")),
    "experts, not split": Question(wish=Wish(model="qwen3-30b-a3b", tokens="1T")),
    "experts, split, FP8": Question(
        wish=Wish(model="qwen3-30b-a3b", tokens="1T", parallel="ep=8", precision="fp8", recompute="full")
    ),
    "adapters": Question(wish=Wish(model="llama-3.1-8b", tokens="2B", lora_rank=16, sequence=4096, keep=5)),
    "a size": Question(wish=Wish(parameters="13B", tokens="300B", save="sync")),
    "A10G": Question(file="dev", wish=Wish(model="llama-3.1-8b", tokens="1B")),
    "A10G, long": Question(file="dev", wish=Wish(model="llama-3.1-8b", tokens="1B", sequence=8192)),
    "A10G, measured": Question(file="dev", wish=Wish(model="llama-3.2-1b", tokens="1B", tokens_per_second=3000.0)),
    "spot": Question(file="examples/spot", wish=SMALL, all_alternatives=True),
    "a training plan": Question(file="examples/training-plan", wish=LLAMA),
    "a training plan with a price": Question(
        file="examples/training-plan", wish=LLAMA, node_price=40.0, all_alternatives=True
    ),
    "a spare in the file": Question(file="examples/spare-node", wish=LLAMA),
    "Slurm": Question(file="examples/slurm", wish=SMALL, all_alternatives=True),
    "a team": Question(file="examples/teams", wish=SMALL, team="vision"),
    "beside teams, without workers": Question(file="examples/teams", wish=SMALL),
    "an existing file system": Question(file="examples/existing-file-system", wish=SMALL, storage="9600@1000"),
    "an existing file system of unknown size": Question(file="examples/existing-file-system", wish=SMALL),
    "no such team": Question(team="nobody"),
    "a team with GPUs in its quota": Question(
        edits={**TEAMS, "teams": [{**TEAM, "quota": [{"type": "ml.p5.48xlarge", "accelerators": 20}]}]},
        wish=SMALL,
        team="research",
    ),
    "a team beside the workers and another team": Question(
        edits={
            **TEAMS,
            "teams": [
                {
                    **TEAM,
                    "quota": [{"type": "ml.p5.48xlarge", "instances": 3}, {"type": "ml.m5.2xlarge", "instances": 1}],
                },
                {**TEAM, "name": "vision", "quota": [{"type": "ml.p5.48xlarge", "instances": 2}]},
            ],
        },
        wish=SMALL,
        team="research",
    ),
    "a team without GPUs": Question(
        edits={**TEAMS, "teams": [{**TEAM, "quota": [{"type": "ml.m5.2xlarge", "instances": 1}]}]}, team="research"
    ),
    "a team that keeps one GPU and has spares": Question(
        edits={
            **TEAMS,
            "ray/training_spares": 8,
            "teams": [
                {**TEAM, "quota": [{"type": "ml.p5.48xlarge", "accelerators": 1}]},
            ],
        },
        wish=Wish(model="llama-3.2-1b", tokens="1B"),
        team="research",
    ),
    "two types": Question(
        edits={
            "hyperpod/instance_groups/2": {"name": "more", "type": "ml.p4d.24xlarge", "count": 2},
            "ray/workers/1": {"name": "more", "instance_group": "more", "replicas": 2},
        }
    ),
    "two groups of one type, one that grows": Question(
        edits={
            "ray/autoscaling": True,
            "ray/workers/0/replicas": 6,
            "hyperpod/instance_groups/2": {"name": "more", "type": "ml.p5.48xlarge", "count": 4},
            "ray/workers/1": {"name": "more", "instance_group": "more", "replicas": 1, "max_replicas": 3},
        }
    ),
    "two spares": Question(edits={f"{WORKERS}/count": 10, "training": {"model": "llama-3.1-70b", "tokens": "1T"}}),
    "one GPU": Question(
        edits={
            f"{WORKERS}/type": "ml.g5.8xlarge",
            f"{WORKERS}/count": 1,
            "ray/workers/0/replicas": 1,
            "training": {"model": "llama-3.2-1b", "tokens": "1B", "save_every_seconds": 900},
        }
    ),
    "groups of several types": Question(edits={f"{WORKERS}/fallback_types": ["ml.p5e.48xlarge"]}),
    "not divided": Question(wish=Wish(model="llama-3.1-70b", tokens="1T", parallel="tp=8,pp=3")),
    "too small a step": Question(wish=Wish(model="llama-3.1-70b", tokens="1T", batch_tokens="64k")),
    "nobody replaces a node": Question(edits={"hyperpod/node_recovery": "None"}),
    "no GPU": Question(edits={"ray/workers/0/instance_group": "head"}),
    "a type without figures": Question(edits={f"{WORKERS}/type": "ml.trn1.32xlarge"}),
    "not a price": Question(node_price=0.001),
    "a size that is none": Question(wish=Wish(parameters="1M", tokens="1T")),
    "a size in the file": Question(edits={"training": {"parameters": "13B", "tokens": "1T"}}),
    "a model and a size in the file": Question(
        edits={"training": {"model": "llama-3.1-70b", "parameters": "70B", "tokens": "1T"}}
    ),
    "more parts than layers": Question(wish=Wish(model="llama-3.1-70b", tokens="1T", parallel="pp=8,vp=16")),
    "a sequence that is not divided": Question(
        wish=Wish(model="llama-3.1-70b", tokens="1T", parallel="cp=16", sequence=8200)
    ),
    "one node for a large model": Question(
        edits={"ray/workers/0/replicas": 1, f"{WORKERS}/count": 1}, wish=Wish(model="llama-3.1-70b", tokens="1B")
    ),
    "EFA that the nodes have no use for": Question(
        file="dev", wish=Wish(model="llama-3.2-1b", tokens="1B"), storage="38400@125+efa"
    ),
    "fast storage without EFA": Question(storage="96000@1000"),
    "two models": Question(wish=Wish(model="llama-3.1-70b", parameters="70B")),
}


PAGES = ("spot",)
WRITTEN = ("eight P5", "a size", "A10G, measured", "a pipeline", "experts, split, FP8", "adapters")


@functools.cache
def recorded() -> dict[str, list[str]]:
    """The file's lines by case."""
    cases: dict[str, list[str]] = {}
    for line in FILE.read_text(encoding="utf-8").splitlines() if FILE.exists() else []:
        if line.startswith("# "):
            lines = cases.setdefault(line.removeprefix("# "), [])
        else:
            lines.append(line)
    return cases


def cases() -> list[str]:
    """The names of all cases."""
    return [*QUESTIONS, *(f"page: {name}" for name in PAGES), *(f"written: {name}" for name in WRITTEN)]


def today(name: str) -> list[str]:
    """What is answered now: the first case whole, of the others what differs and how many lines do not."""
    form, _, case = name.rpartition(": ")
    try:
        if form:
            return _page(case) if form == "page" else _written(case)
        lines = list(_lines(QUESTIONS[name]))
    except PlanError as refusal:
        return [f"refused: {refusal}"]
    if name == FIRST:
        return lines
    own = [line for line in lines if line not in _first()]
    return [*own, f"{len(lines) - len(own)} lines as in '{FIRST}'"]


def _page(name: str) -> list[str]:
    """The page without its style, a line for each row, heading, and paragraph; no pictures."""
    with mock.patch.object(pictures, "there", return_value=False):
        text = page.html([report(QUESTIONS[name])])
    return re.sub(
        r"<style>.*?</style>", "", re.sub(r"(?<!\n)(?=<(tr|h\d|p|li)\b)", "\n", text), flags=re.DOTALL
    ).splitlines()


def _written(name: str) -> list[str]:
    """A file after `plan --write`; it had another section in its middle."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "test.yaml")
        file.write_text(
            "region: us-west-2\n# of last week\ntraining:\n  model: old\n\n  # kept where it is\ntags: {}\n"
        )
        text = writing.write(file, report(QUESTIONS[name]).outlook).read_text(encoding="utf-8")
        return [f"| {line}" for line in text.splitlines()]


@functools.cache
def _first() -> frozenset[str]:
    return frozenset(_lines(QUESTIONS[FIRST]))


def report(question: Question) -> answers.Plan:
    """The plan, as the command makes it."""
    plan: CommonPlan = (
        load_any(Path(question.file).name, folder=FOLDER / Path(question.file).parent).plan
        if question.file
        else plan_of(question.edits)
    )
    system = storage.parse(question.storage) if question.storage else None
    part = cluster(plan, team=question.team)
    if system:
        plan, part = with_storage(plan, system), part.with_storage(system)
    outlook = Outlook(
        cluster=part.with_checked(question.checked), job=job(question.wish, plan.training),
        rates=failures.published(question.level), rehearsed=question.rehearsed,
    )  # fmt: skip
    prices = price_file.recorded()
    own = bill(plan, prices, day=DAY, part=part)
    systems = file_systems(plan, prices, day=DAY, gib=outlook.needed_gib, part=part)
    if question.node_price is not None:
        own = own.at_node_price(question.node_price)
    offers = alternatives.table(outlook, own, plan, prices, sort=question.sort)
    return answers.plan(outlook, own, deploy=question.deploy, systems=systems, alternatives=offers, simulated=False)


def _lines(question: Question) -> Iterator[str]:
    plan = report(question)
    data = answers.as_data(plan)
    yield f"{data['environment']}: {data['subject']}; fits: {data['fits']}, as the jobs do: {plan.as_the_jobs_do}"
    sources = _sources()
    for key, answer in data["answers"].items():
        yield f"{key} | {answer['title']} | {answer['answer']}"
        for figure in answer["figures"]:
            what, unit, source, *values = figure.values()
            known = sources.get((key, what)) == source
            yield f"{key} | {what} | {_span(values)} {unit}" + ("" if known else f" | {source}")
            if question is QUESTIONS[FIRST]:
                yield f"{key} | {what} | {source}"
        yield from (f"{key} | note: {note}" for note in answer["notes"])
    yield from (f"decided by | {what} | {_span(values)}" for what, *values in map(dict.values, data["decided_by"]))
    for row in data["alternatives"] if question.all_alternatives else ():
        yield "alternative | " + " | ".join(map(_text, row.values()))
    yield from (f"not known | {line}" for line in data["not_known"])
    if not question.file:
        for doubt in checks.findings(plan_of(question.edits), price_file.recorded(), day=DAY):
            yield f"doubt | {doubt.severity} | {'.'.join(map(str, doubt.path))} | {doubt.message}"


@functools.cache
def _sources() -> dict[tuple[str, str], str]:
    """Where each figure of the first case is from; other cases name what differs."""
    made = answers.as_data(report(QUESTIONS[FIRST]))["answers"]
    return {(key, row["what"]): row["source"] for key, answer in made.items() for row in answer["figures"]}


def _span(values: list[Any]) -> str:
    """Low, central and high, or the one that all three are."""
    return " ".join(map(_text, values[:1] if len(set(values)) == 1 else values))


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return _span(list(value.values()))
    return str(value)


def main() -> int:
    """Write the file."""
    lines = [line for name in cases() for line in (f"# {name}", *today(name))]
    FILE.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    sys.stdout.write(f"{len(lines)} lines\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
