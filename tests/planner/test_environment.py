"""The environment as it is: teams and their quotas, managed Karpenter, warm spares, and a run's own measured speed."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray import core
from hyperpod_ray.cli.main import main
from hyperpod_ray.core import checks as rules
from hyperpod_ray.core.findings import Finding
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.planner import PlanError, alternatives, answers, checks, decides, journal
from hyperpod_ray.planner.cluster import bill, cluster
from hyperpod_ray.planner.failures import published
from hyperpod_ray.planner.job import Wish, job
from hyperpod_ray.planner.outlook import Outlook
from hyperpod_ray.planner.ranges import DAY, Range
from hyperpod_ray.pricing import price_file
from tests.planner.test_checks import TRAINING, WORKERS, plan_of, said

PROJECT = Path(__file__).resolve().parents[2]
DATE = date(2026, 11, 22)


def team(name: str, instances: int) -> dict[str, Any]:
    return {"name": name, "quota": [{"type": "ml.p5.48xlarge", "instances": instances}]}


def found_by_rules(plan: Plan) -> list[Finding]:
    everything = rules.run(plan, valid=frozenset(type(plan.settings).model_fields))
    return [finding for finding in everything if finding.path and finding.path[0] == "teams"]


# --- teams ------------------------------------------------------------------------------------------------------------


def test_nodes_that_a_team_is_sure_of_are_no_spares() -> None:
    """Two nodes train, one is research's, as its quota says: nobody is told to lower the count."""
    shared = {f"{WORKERS}/count": 3, "ray/workers/0/replicas": 2, "teams": [team("research", 1)],
              "training": {"model": "llama-3.1-8b", "tokens": "1T"}}  # fmt: skip
    assert cluster(plan_of({**shared, "teams": []})).spares == 1
    assert "lower count by 1" in said({**shared, "teams": []})["hyperpod.instance_groups.1.count"]
    part = cluster(plan_of(shared))
    assert (part.spares, part.promised) == (0, 1.0)
    assert said(shared) == {}


def test_a_spare_beside_the_quotas_is_still_one() -> None:
    shared = {f"{WORKERS}/count": 4, "ray/workers/0/replicas": 2, "teams": [team("research", 1)],
              "training": {"model": "llama-3.1-8b", "tokens": "1T"}}  # fmt: skip
    assert cluster(plan_of(shared)).spares == 1
    assert "lower count by 1" in said(shared)["hyperpod.instance_groups.1.count"]


def test_what_the_planner_advises_the_team_check_allows() -> None:
    """The count without the spares that the planner names holds all quotas; one node less does not."""
    shared = {f"{WORKERS}/count": 4, "ray/workers/0/replicas": 2, "teams": [team("research", 1)]}
    part = cluster(plan_of(shared))
    for count, allowed in ((4, True), (4 - part.spares, True), (4 - part.spares - 1, False)):
        wrong = [finding for finding in found_by_rules(plan_of({**shared, f"{WORKERS}/count": count}))
                 if "quotas" in finding.message]  # fmt: skip
        assert (wrong == []) is allowed, count


def test_a_teams_quota_is_planned(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The shipped example: no standing workers, each team is sure of two nodes with one A10G."""
    text = (PROJECT / "environments" / "examples" / "teams.yaml").read_text(encoding="utf-8")
    (tmp_path / "shared.yaml").write_text(text, encoding="utf-8")
    run = ("--environments", str(tmp_path), "plan", "shared", "--model", "smollm2-360m", "--tokens", "1B",
           "--batch-tokens", "128k", "--tokens-per-second", "9000")  # fmt: skip
    assert main([*run]) == 2
    assert "Fix: give --team vision" in capsys.readouterr().err
    assert main([*run, "--team", "vision", "-o", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert "on 2 × ml.g5.8xlarge" in data["subject"]
    assert "and 0 spare" not in data["subject"]
    assert any("Quotas of teams take 2 nodes" in note for note in data["answers"]["spares"]["notes"])
    assert main([*run, "--team", "nobody"]) == 2
    assert "Expected one of vision, speech" in capsys.readouterr().err


# --- Karpenter --------------------------------------------------------------------------------------------------------


SCALED = {
    "hyperpod/managed_autoscaling": True, f"{WORKERS}/count": 0, "ray/autoscaling": True, "ray/workers/0/replicas": 0,
    "ray/workers/0/max_replicas": 8, "training": TRAINING,
}  # fmt: skip


def test_nodes_of_managed_karpenter_are_planned_and_are_no_spares() -> None:
    plan = plan_of(SCALED)
    part = cluster(plan)
    assert (part.nodes, part.spares, part.scaled) == (8, 0, True)
    own = bill(plan, price_file.recorded(), day=DATE)
    outlook = checks.outlook(plan)
    assert outlook is not None
    made = answers.plan(outlook, own, simulated=False)
    time = next(answer for answer in made.answers if answer.key == "time")
    assert any("`cost` counts none of them" in note for note in time.notes)
    # the same nodes cost the same, whoever adds them
    standing = plan_of({"ray/workers/0/replicas": 8, f"{WORKERS}/count": 8, "training": TRAINING})
    fixed = bill(standing, price_file.recorded(), day=DATE)
    assert own.node == fixed.node
    assert own.per_hour(nodes=8) == pytest.approx(fixed.per_hour(nodes=8), rel=0.02)


# --- warm spares ------------------------------------------------------------------------------------------------------


def rows(edits: dict[str, Any]) -> dict[str, Range]:
    outlook = checks.outlook(plan_of({"ray/workers/0/replicas": 8, f"{WORKERS}/count": 8, **edits}))
    assert outlook is not None
    plan = plan_of({"ray/workers/0/replicas": 8, f"{WORKERS}/count": 8})
    made = answers.plan(outlook, bill(plan, price_file.recorded(), day=DATE), simulated=False)
    found = [row for answer in made.answers if answer.key == "goodput" for row in answer.rows]
    return {row.what: row.value for row in found if isinstance(row.value, Range)}


def test_copies_cost_a_step_where_they_take_longer_than_it() -> None:
    """70B on 56 ranks: 15.1 GB a copy take 12 to 24 s over one flow: hidden in a long step, not in a short one."""
    spare = {"ray/training_spares": 8, "ray/workers/0/memory_gib": 1800}
    assert "copies of a step take" not in rows({"training": TRAINING, "ray/workers/0/memory_gib": 300})
    assert "copies of a step take" in rows({"training": TRAINING}), "a standby needs them as well"
    short = rows({**spare, "training": {**TRAINING, "batch_tokens": "524288"}})
    long = rows({**spare, "training": {**TRAINING, "batch_tokens": "4M"}})
    assert [round(seconds) for seconds in short["copies of a step take"]] == [12, 17, 24]
    assert short["so a copy is sent after"].central > 1
    assert long["so a copy is sent after"] == (1, 1, 1)
    back = long["a lost rank is back, of 64 ranks"]
    assert 20 < back.low < back.central < back.high < 60


# --- a run's own speed ------------------------------------------------------------------------------------------------


def work(**more: Any) -> Any:
    return job(Wish(model="llama-3.1-70b", tokens="1T", batch_tokens="4M", **more), None)


def events(path: Path, times: list[tuple[float, int, int]]) -> Path:
    lines = [json.dumps({"t": 1.7e9 + at, "kind": "step", "step": step, "world": world}) for at, step, world in times]
    lines.insert(1, json.dumps({"t": 1.7e9, "kind": "save", "step": 1}))
    path.write_text("\n".join([*lines, '{"t": 17000']), encoding="utf-8")
    return path


def test_progress_gives_the_speed_of_steps(tmp_path: Path) -> None:
    file = tmp_path / "progress.json"
    file.write_text(json.dumps({"step_s": 80.0, "world_size": 64, "last_step": 900}), encoding="utf-8")
    found = journal.measured(work(), file)
    assert found.tokens_per_second == pytest.approx(4e6 / (80 * 64))
    assert not found.whole
    assert "80 s a step of 4,000,000 tokens on 64 GPUs (progress.json)" in found.measured


def test_a_short_record_gives_the_median_of_steps(tmp_path: Path) -> None:
    """A stop of an hour between two steps is no step's time."""
    file = events(tmp_path / "events.jsonl", [(0, 1, 64), (80, 2, 64), (160, 3, 64), (3760, 4, 64), (3840, 5, 64)])
    found = journal.measured(work(), file)
    assert found.tokens_per_second == pytest.approx(4e6 / (80 * 64))
    assert not found.whole


def test_a_record_of_days_is_a_whole_run_with_what_was_done_again(tmp_path: Path) -> None:
    """Two days, 1,000 steps reached, 100 of them twice: the steps that count, over all the time."""
    times = [(DAY / 550 * index, index + 1, 64) for index in range(551)]
    times += [(DAY + DAY / 550 * index, 451 + index, 64) for index in range(1, 551)]
    found = journal.measured(work(), events(tmp_path / "events.jsonl", times))
    assert found.whole
    assert found.tokens_per_second == pytest.approx(4e6 * (1001 - 1) / (2 * DAY * 64), rel=1e-6)


def test_fewer_ranks_for_a_while_are_counted_by_their_gpu_time(tmp_path: Path) -> None:
    times = [(800.0 * index, index, 64) for index in range(100)]
    times += [(80_000 + 1600.0 * index, 100 + index, 32) for index in range(100)]
    found = journal.measured(work(), events(tmp_path / "events.jsonl", times))
    assert found.tokens_per_second == pytest.approx(4e6 / (800 * 64), rel=0.01)


def test_a_measured_whole_run_has_its_interruptions_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    times = [(DAY / 500 * index, index, 64) for index in range(1001)]
    file = events(tmp_path / "events.jsonl", times)
    run = ("plan", "prod", "--model", "llama-3.1-70b", "--tokens", "1T", "--from-run", str(file))
    assert main([*run, "-o", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    figures = {row["what"]: row for row in data["answers"]["time"]["figures"]}
    days = 1e12 / 4e6 / 500
    assert figures["to the end"]["central"] == pytest.approx(days)
    assert figures["to the end"]["source"].endswith("interruptions are in the measured speed")
    assert main([*run, "--write"]) == 2
    assert "--write: the speed of a whole run" in capsys.readouterr().err


# --- alternatives -----------------------------------------------------------------------------------------------------


def table(sort: alternatives.Sort, **training: Any) -> list[alternatives.Alternative]:
    section = {**TRAINING, **training}
    plan = plan_of({"ray/workers/0/replicas": 8, f"{WORKERS}/count": 8, "training": section})
    outlook = Outlook(cluster=cluster(plan), job=job(Wish(), plan.settings.training), rates=published())
    prices = price_file.recorded()
    return alternatives.table(outlook, bill(plan, prices, day=DATE), plan, prices, sort=sort)


def test_the_ends_of_goodput_are_the_bad_and_the_good_one() -> None:
    """The high rate of interruptions is the low end of goodput."""
    plan = plan_of({"ray/workers/0/replicas": 8, f"{WORKERS}/count": 8, "training": TRAINING})
    outlook = Outlook(cluster=cluster(plan), job=job(Wish(), plan.settings.training), rates=published())
    low, central, high = outlook.goodputs
    assert low < central < high < 1
    assert low == outlook.goodput("high")


@pytest.mark.parametrize("sort", ["days", "dollars", "goodput"])
def test_what_does_not_run_comes_after_all_that_does(sort: alternatives.Sort) -> None:
    """By the figures themselves: nodes whose accelerators are too small have neither days nor goodput."""
    rows = table(sort)
    figures = [
        {"days": row.days and row.days.central, "dollars": row.dollars and row.dollars.central, "goodput": row.goodput}[
            sort
        ]
        for row in rows
    ]
    known = [figure for figure in figures if figure is not None]
    assert figures == [*known, *[None] * (len(figures) - len(known))]
    assert known == sorted(known, reverse=sort == "goodput")
    impossible = [row for row in rows if row.fits not in {"yes", "probably"}]
    assert impossible
    assert all(row.days is None and row.dollars is None and row.goodput is None for row in impossible)


@pytest.mark.parametrize("sort", ["days", "dollars", "goodput"])
def test_alternatives_are_sorted_by_what_is_asked_for(sort: alternatives.Sort) -> None:
    made = table(sort)
    values = [row.key(sort) for row in made]
    assert values == sorted(values)
    assert sum(row.own for row in made) == 1
    names = " ".join(row.name for row in made)
    for part in ("ml.p5en.48xlarge", "ml.p6-b200.48xlarge", "ml.p4de.24xlarge", "us-east-1", "spot", "training plan"):
        assert part in names
    if sort == "days":
        known = [row for row in made if row.days]
        assert known[0].name.startswith("8 × ml.p6-b200.48xlarge")
        assert "ml.p4de.24xlarge" in known[-1].name
        assert made[-1].days is None


def test_an_alternative_claims_nothing_that_is_not_known() -> None:
    made = {row.name: row for row in table("dollars")}
    spot, paid = made["ml.p5.48xlarge on spot"], made["ml.p5.48xlarge on a training plan"]
    assert (spot.days, spot.dollars, spot.goodput, paid.dollars) == (None, None, None, None)
    assert paid.days is not None
    small = next(row for name, row in made.items() if "ml.g6.48xlarge" in name)
    assert (small.fits, small.days, small.dollars) == ("no", None, None)
    # types are compared with the published speed, not with the measured one of another type
    days = [made[f"8 × {kind}, us-west-2"].days for kind in ("ml.p4de.24xlarge", "ml.p5en.48xlarge")]
    assert days[0] is not None
    assert days[1] is not None
    assert days[0].central > 2 * days[1].central


def test_a_measured_speed_is_of_its_own_type_only() -> None:
    published_, measured = (
        {row.name: row for row in table("dollars", **training)} for training in ({}, {"tokens_per_second": 300})
    )
    other, own = "8 × ml.p4de.24xlarge, us-west-2", "8 × ml.p5.48xlarge, us-west-2"
    assert published_[other].days == measured[other].days
    assert published_[own].days != measured[own].days


def test_what_decides_the_end_is_the_widest_span() -> None:
    """A measured speed leaves the interruptions; twice the rate and slower repairs are then what counts."""
    base = {"ray/workers/0/replicas": 8, f"{WORKERS}/count": 8}
    unsure = checks.outlook(plan_of({**base, "training": TRAINING}))
    sure = checks.outlook(plan_of({**base, "training": {**TRAINING, "tokens_per_second": 600}}))
    assert unsure is not None
    assert sure is not None
    first, *rest = decides.drivers(unsure)
    assert first.name == "speed of a whole run"
    assert all(first.width >= driver.width for driver in rest)
    assert decides.drivers(sure)[0].name == "how often it is interrupted"
    assert "What decides it: how often it is interrupted" in decides.bound_by(sure)
    # each span alone lies inside the span of all together
    assert unsure.finish_seconds is not None
    for driver in decides.drivers(unsure):
        assert unsure.finish_seconds.low / DAY <= driver.days.low <= driver.days.high
        assert driver.days.high <= unsure.finish_seconds.high / DAY


def test_each_span_moves_one_thing_alone() -> None:
    """Of interruptions the rate; of restarts what each takes; all else is central."""
    run = checks.outlook(plan_of({"ray/workers/0/replicas": 8, f"{WORKERS}/count": 8, "training": TRAINING}))
    assert run is not None and run.work_seconds is not None
    by_name = {driver.name: driver.days for driver in decides.drivers(run)}
    central = run.work_seconds.central / DAY
    shares = [run.goodput(level, only_rate=True) for level in ("low", "central", "high")]
    rate = by_name["how often it is interrupted"]
    assert (rate.low, rate.central, rate.high) == pytest.approx([central / share for share in sorted(shares)[::-1]])
    both = [central / run.goodput(level) for level in ("low", "high")]
    assert rate.high - rate.low < abs(both[1] - both[0]), "with restarts too it would be wider"


def test_a_span_of_days_is_work_by_share() -> None:
    span = decides._driver("x", 100.0, [0.5, 0.8, 1.0])
    assert (span.days.low, span.days.central, span.days.high, span.width) == (100, 125, 200, 100)
    assert decides._driver("x", 100.0, [0.0, 0.8, 1.0]).days.high == float("inf")


def test_a_split_that_the_file_cannot_hold_is_not_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (PROJECT / "environments" / "prod.yaml").read_text(encoding="utf-8")
    (tmp_path / "prod.yaml").write_text(text, encoding="utf-8")
    for option in (("--precision", "fp8"), ("--lora-rank", "8"), ("--parallel", "tp=8"), ("--recompute", "full"),
                   ("--stack", "megatron")):  # fmt: skip
        run = ("--environments", str(tmp_path), "plan", "prod", *option, "--write")
        assert main([*run]) == 2
        assert "--write: the section training cannot hold" in capsys.readouterr().err
        assert (tmp_path / "prod.yaml").read_text(encoding="utf-8") == text


def test_gpus_that_a_split_does_not_divide() -> None:
    plan = plan_of({"ray/workers/0/replicas": 6, f"{WORKERS}/count": 6, "training": TRAINING})
    run = job(Wish(model="llama-3.1-8b", tokens="1T", parallel="tp=8,cp=4"), None)
    with pytest.raises(PlanError, match="on 48 GPUs"):
        Outlook(cluster=cluster(plan), job=run, rates=published())


def test_the_shipped_environments_are_planned() -> None:
    for name in ("prod", "dev", "local"):
        assert checks.outlook(core.load(name).plan) is not None
