"""What `env check` says of a section `training`, and what `submit` takes from it."""

from __future__ import annotations

import shlex
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray import core
from hyperpod_ray.core.job import Job
from hyperpod_ray.core.loader import located
from hyperpod_ray.core.model import Environment
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.ops.jobs.submit import request_of
from hyperpod_ray.ops.reach.clients import Target
from hyperpod_ray.planner import answers, checks, cluster
from hyperpod_ray.planner.ranges import Range
from hyperpod_ray.pricing import price_file
from tests.core.environment_files import changed

TRAINING = {"model": "llama-3.1-70b", "tokens": "1T", "save_every_seconds": 4600}
BIG = {"capacity_gib": 9600, "throughput_mbs_per_tib": 1000}
WORKERS = "hyperpod/instance_groups/1"


def plan_of(edits: dict[str, Any]) -> Plan:
    # eight nodes that train, on storage with room
    base = {"ray/workers/0/replicas": 8, f"{WORKERS}/count": 8, "storage": BIG, "training": TRAINING}
    return Plan(name="test", settings=Environment.model_validate(changed({**base, **edits})))


def said(edits: dict[str, Any]) -> dict[str, str]:
    found = checks.findings(plan_of(edits), price_file.recorded(), day=date(2026, 11, 22))
    return {".".join(map(str, one.path)): f"{one.severity}: {one.message}" for one in found}


def test_a_plan_that_pays_has_no_doubt() -> None:
    assert said({}) == {}


def test_without_the_section_nothing_is_said() -> None:
    assert said({"training": None, f"{WORKERS}/count": 9}) == {}


@pytest.mark.parametrize(
    ("edits", "path", "words"),
    [
        ({f"{WORKERS}/count": 9}, "hyperpod.instance_groups.1.count", "a useful GPU-hour costs 12% more with it"),
        ({"storage": {"capacity_gib": 2400}}, "training.keep", "3 checkpoints of 788 GiB and the next one need 3,154"),
        ({"training": {**TRAINING, "save_every_seconds": 60}}, "training.save_every_seconds", "the next one waits"),
        ({"training": {**TRAINING, "save_every_seconds": 60_000}}, "training.save_every_seconds", "Fix: set 4646"),
        ({"ray/workers/0/replicas": 4, f"{WORKERS}/count": 4}, "training", "Fix: use 48 GPUs or more"),
        ({"ray/training_spares": 8, "ray/workers/0/memory_gib": 400}, "ray.training_spares", "keep 451 GiB of copies"),
        ({"training": {"model": "lama-70b", "tokens": "1T"}}, "training.model", "error: model: lama-70b. Expected"),
        ({"training": {"tokens": "1T"}}, "training", "error: no model is given"),
    ],
)  # fmt: skip
def test_doubts(edits: dict[str, Any], path: str, words: str) -> None:
    assert words in said(edits)[path]


@pytest.mark.parametrize(
    ("edits", "path", "words"),
    [
        # 9,600 GiB hold twelve checkpoints of 788: eleven and the next one
        ({"training": {**TRAINING, "keep": 11}}, "training.keep", None),
        ({"training": {**TRAINING, "keep": 12}}, "training.keep", "Fix: lower keep, or raise storage.capacity_gib"),
        ({"training": {**TRAINING, "save_every_seconds": 2100}}, "training.save_every_seconds", None),
        ({"training": {**TRAINING, "save_every_seconds": 1900}}, "training.save_every_seconds", "1900 s costs 0.1%"),
        ({"training": {**TRAINING, "save_every_seconds": 10_500}}, "training.save_every_seconds", None),
        ({"training": {**TRAINING, "save_every_seconds": 60_000}}, "training.save_every_seconds", "60000 s costs 1.5%"),
        ({"training": {**TRAINING, "batch_tokens": "8192"}}, "training.batch_tokens", "give batch_tokens: 524288,"),
        ({"training": {**TRAINING, "batch_tokens": "524288"}}, "training.batch_tokens", None),
    ],
)  # fmt: skip
def test_the_last_that_is_no_doubt(edits: dict[str, Any], path: str, words: str | None) -> None:
    found = said(edits).get(path)
    assert found is None if words is None else words in str(found), found


def test_copies_that_fit_are_no_doubt_and_are_in_the_plan() -> None:
    edits = {"ray/training_spares": 8, "ray/workers/0/memory_gib": 1800}
    assert "ray.training_spares" not in said(edits)
    found = checks.outlook(plan_of(edits))
    assert found is not None
    # four copies of twelve bytes a parameter of 56 ranks, for eight ranks of a pod
    assert found.copies == pytest.approx(4 * 8 * 12 * found.job.model.parameters / 56 / 2**30, rel=1e-6)
    bill = cluster.bill(plan_of(edits), price_file.recorded(), day=date(2026, 11, 22))
    rows = answers.plan(found, bill, simulated=False).answers[0].rows
    assert [row.value for row in rows if row.what == "copies in host memory"] == [Range.exact(found.copies)]
    standbys = checks.outlook(plan_of({"ray/workers/0/memory_gib": 300}))
    assert standbys is not None
    # no spare: the standby of each node needs them too, and a run whose pods have no room trains without
    assert standbys.copies == pytest.approx(4 * 8 * 12 * standbys.job.model.parameters / 64 / 2**30, rel=1e-6)
    assert not standbys.keeps_copies
    assert any("keeps none" in note for note in answers.plan(standbys, bill, simulated=False).answers[0].notes)


def test_a_doubt_has_the_line_of_its_setting(tmp_path: Path) -> None:
    settings = changed({"ray/workers/0/replicas": 8, f"{WORKERS}/count": 9, "storage": BIG, "training": TRAINING})
    (tmp_path / "big.yaml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    file = core.load("big", folder=tmp_path)
    (problem,) = located(file, checks.findings(file.plan, price_file.recorded(), day=date(2026, 11, 22)))
    lines = (tmp_path / "big.yaml").read_text(encoding="utf-8").splitlines()
    assert lines[problem.line - 1].strip() == "count: 9"


@pytest.mark.parametrize(
    ("command", "variables", "expected"),
    [
        (["python", "train.py"], [], "4600"),
        (["python", "train.py"], ["RESILIENCE_SAVE_EVERY_S=60"], "60"),
        (["python", "train.py", "--save-every-steps", "10"], [], None),
    ],
)
def test_submit_passes_seconds(command: list[str], variables: list[str], expected: str | None, tmp_path: Path) -> None:
    settings = changed({"ray/workers/0/replicas": 8, f"{WORKERS}/count": 8, "storage": BIG, "training": TRAINING})
    (tmp_path / "big.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    target = Target(core.load("big", folder=tmp_path), folder=tmp_path)
    job = Job(command=shlex.join(command), env=dict(variable.split("=", 1) for variable in variables))
    request = request_of(target, job, runtime={})
    assert request["runtime_env"].get("env_vars", {}).get("RESILIENCE_SAVE_EVERY_S") == expected


def test_without_a_plan_submit_passes_nothing(tmp_path: Path) -> None:
    (tmp_path / "big.yaml").write_text(yaml.safe_dump(changed({})), encoding="utf-8")
    target = Target(core.load("big", folder=tmp_path), folder=tmp_path)
    assert request_of(target, Job(command="x"), runtime={})["runtime_env"] == {}
