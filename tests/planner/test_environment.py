"""The environment as it is: teams and their quotas, managed Karpenter, warm spares, and a run's own measured speed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray import core
from hyperpod_ray.cli.main import main
from hyperpod_ray.core import checks as rules
from hyperpod_ray.core.findings import Finding
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.planner import answers, checks, data
from hyperpod_ray.planner.cluster import bill, cluster
from hyperpod_ray.planner.ranges import DAY
from hyperpod_ray.pricing import price_file
from tests.planner.environment_helpers import DATE, events, rows
from tests.planner.test_checks import TRAINING, WORKERS, plan_of, said

PROJECT = Path(__file__).resolve().parents[2]
GROUPS_OPEN = "the groups, six of them, processor time of a rank"


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


@pytest.mark.parametrize("nodes", [8, 64, 512])
def test_more_ranks_take_longer_to_be_back_as_the_docs_say(nodes: int) -> None:
    """What opens for each rank at 64, 512 and 4,096: the line "NCCL opens" of the page, and the groups beside it."""
    size = {"ray/workers/0/replicas": nodes, f"{WORKERS}/count": nodes, "training": {**TRAINING, "batch_tokens": "64M"}}
    figures = rows(size)
    share = figures["copies of a step take"].central
    parts = data.times()
    opened = figures[f"a lost rank is back, of {8 * nodes} ranks"].central - share - parts["rebuild"].range.central
    page = (PROJECT / "docs" / "what-happens-when-a-node-dies.md").read_text(encoding="utf-8")
    table = page.partition("### At 64, 512 and 4,096 ranks")[2].partition("\n## ")[0]
    lines = {line.split("|")[1].strip(): line.split("|")[2:] for line in table.splitlines() if line.startswith("| ")}
    place = [int(cell.replace(",", "")) for cell in lines["a part of a recovery"][:3]].index(8 * nodes)
    nccl, groups = (float(lines[name][place].split()[0]) for name in ("NCCL opens", GROUPS_OPEN))
    assert opened == pytest.approx(nccl + groups, rel=0.1, abs=0.05)


# --- a run's own speed ------------------------------------------------------------------------------------------------


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


def test_a_split_that_the_file_cannot_hold_is_not_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (PROJECT / "environments" / "prod.yaml").read_text(encoding="utf-8")
    (tmp_path / "prod.yaml").write_text(text, encoding="utf-8")
    for option in (("--precision", "fp8"), ("--lora-rank", "8"), ("--parallel", "tp=8"), ("--recompute", "full"),
                   ("--stack", "megatron")):  # fmt: skip
        run = ("--environments", str(tmp_path), "plan", "prod", *option, "--write")
        assert main([*run]) == 2
        assert "--write: the section training cannot hold" in capsys.readouterr().err
        assert (tmp_path / "prod.yaml").read_text(encoding="utf-8") == text


def test_the_shipped_environments_are_planned() -> None:
    for name in ("prod", "dev", "local"):
        assert checks.outlook(core.load(name).plan) is not None
