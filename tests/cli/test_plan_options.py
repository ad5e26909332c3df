"""Every option of `plan` reaches what plans; how long a first deploy takes is what the review says."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.cli import plan, synthesis
from hyperpod_ray.cli.main import main
from hyperpod_ray.ops import output
from hyperpod_ray.planner import answers, writing
from hyperpod_ray.planner.answers import Deploy
from hyperpod_ray.planner.data import node_durations
from hyperpod_ray.review import schedule
from hyperpod_ray.review.schedule import Minutes, Nodes, Schedule, Step
from tests.cli.deploy_helpers import assembly
from tests.review.small import resources

BASE = ["plan", "prod", "--model", "llama-3.1-8b", "--tokens", "2B"]
OF_THE_RUN = {
    "--model qwen3-30b-a3b": ("model", "qwen3-30b-a3b"), "--params 13B": ("parameters", "13B"),
    "--config c.json": ("config", Path("c.json")), "--tokens 3B": ("tokens", "3B"),
    "--sequence 4096": ("sequence", 4096),
    "--batch-tokens 2M": ("batch_tokens", "2M"), "--save sync": ("save", "sync"), "--keep 5": ("keep", 5),
    "--precision fp8": ("precision", "fp8"), "--lora-rank 16": ("lora_rank", 16),
    "--parallel tp=2": ("parallel", "tp=2"),
    "--recompute full": ("recompute", "full"), "--stack megatron": ("stack", "megatron"),
    "--tokens-per-second 900": ("tokens_per_second", 900.0),
}  # fmt: skip
OF_THE_ENVIRONMENT = {
    "--from-run r.jsonl": ("run", Path("r.jsonl")), "--team research": ("team", "research"),
    "--node-price 12.5": ("node_price", 12.5), "--failures high": ("failures", "high"),
    "--storage 4800@500": ("storage", "4800@500"), "--rehearsal r.json": ("rehearsal", Path("r.json")),
    "--sort days": ("sort", "days"),
}  # fmt: skip


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What would be planned: the environment, the run, and the rest."""
    asked: list[dict[str, Any]] = []

    def planned(name: str, wish: Any, **rest: Any) -> Any:
        asked.append({"env": name, **vars(wish), **rest})
        return SimpleNamespace(as_the_jobs_do=name != "dev", outlook=f"outlook of {name}")

    monkeypatch.setattr(plan, "_plan", planned)
    monkeypatch.setattr(plan, "_show", lambda reports, *, form, out: asked.append({"form": form.value, "out": out}))
    return asked


def test_each_option_changes_one_value(asked: list[dict[str, Any]]) -> None:
    assert main(BASE) == 0
    plain, shown = asked
    assert shown == {"form": "table", "out": None}
    assert (plain["env"], plain["model"], plain["tokens"], plain["failures"], plain["sort"]) == (
        "prod", "llama-3.1-8b", "2B", "central", "dollars",
    )  # fmt: skip
    unset = {key for key, value in plain.items() if value in (None, "")}
    assert unset == {field for field, _ in [*OF_THE_RUN.values(), *OF_THE_ENVIRONMENT.values()]} - {
        "model", "tokens", "failures", "sort",
    }  # fmt: skip
    for words, (field, value) in {**OF_THE_RUN, **OF_THE_ENVIRONMENT}.items():
        asked.clear()
        assert main([*BASE, *words.split()]) == 0
        differing = {key: own for key, own in asked[0].items() if own != plain[key] and key != "deploy"}
        assert differing == {field: value}, words


def test_what_a_deploy_is_read_from_is_an_option_each(asked: list[dict[str, Any]]) -> None:
    for words, arguments in {
        "": {"assembly_folder": None, "synthesize": False},
        "--deploy": {"assembly_folder": None, "synthesize": True},
        "--deploy --no-deploy": {"assembly_folder": None, "synthesize": False},
        "--app a": {"assembly_folder": Path("a"), "synthesize": False},
    }.items():
        asked.clear()
        assert main([*BASE, *words.split()]) == 0
        assert asked[0]["deploy"].func is plan._deploy
        assert asked[0]["deploy"].args == ("prod",)
        assert asked[0]["deploy"].keywords == arguments, words


def test_a_second_environment_is_planned_too_and_once(asked: list[dict[str, Any]]) -> None:
    assert main([*BASE, "--compare", "prod"]) == 0
    assert [each.get("env") for each in asked] == ["prod", None]
    asked.clear()
    assert main([*BASE, "--compare", "dev"]) == 3, "exit code 3 when the training does not fit one of them"
    assert [each.get("env") for each in asked] == ["prod", "dev", None]


def test_the_format_and_the_file_are_options_each(asked: list[dict[str, Any]], tmp_path: Path) -> None:
    out = tmp_path / "plan.md"
    assert main([*BASE, "-o", "markdown", "--out", str(out)]) == 0
    assert asked[1] == {"form": "markdown", "out": out}
    for bad, said in ((tmp_path, "a folder"), (tmp_path / "none" / "plan.md", f"no folder {tmp_path / 'none'}")):
        asked.clear()
        assert main([*BASE, "--out", str(bad)]) == 2, said
        assert asked == [], "refused before anything is planned"


def test_the_interval_is_written_on_request_alone(
    asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written: list[tuple[Path, Any]] = []

    def write(file: Path, outlook: Any) -> Path:
        written.append((file, outlook))
        return file

    monkeypatch.setattr(writing, "write", write)
    (tmp_path / "prod.yaml").touch()
    assert main(["--environments", str(tmp_path), *BASE]) == 0
    assert written == []
    assert main(["--environments", str(tmp_path), *BASE, "--compare", "dev", "--write"]) == 3
    assert written == [(tmp_path / "prod.yaml", "outlook of prod")]
    assert f"wrote section training of {tmp_path / 'prod.yaml'}: look at it with git diff" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--model", "--storage", "--failures", "--batch-tokens"])
def test_an_option_with_nothing_in_it_is_refused(
    asked: list[dict[str, Any]], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*BASE, option, ""]) == 2
    assert asked == []
    said = capsys.readouterr().err
    assert f"{option}: nothing. Expected a value" in said
    assert f"give one, or remove {option}" in said


# --- how long a first deploy takes ------------------------------------------------------------------------------------

VPC = {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}}
TEMPLATES = {"Network": resources(Vpc=VPC)}


def test_a_deploy_is_read_on_request_and_in_a_project_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "folder", lambda: tmp_path)
    monkeypatch.chdir(tmp_path)
    asked = plan._deploy("dev", assembly_folder=None, synthesize=False)
    assert asked == "Not asked for: --deploy synthesizes the templates and answers it."
    missing = plan._deploy("dev", assembly_folder=None, synthesize=True)
    assert missing == "Not known: it needs a synthesized assembly (--app FOLDER), or a project with cdk.json."


def test_a_deploy_is_read_of_what_is_synthesized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cdk.json").write_text("{}")
    (tmp_path / "environments").mkdir()
    monkeypatch.setattr(plan, "folder", lambda: tmp_path / "environments")
    codes = iter((0, 1))

    def synthesized(name: str, *, out: Path) -> int:
        assert name == "dev"
        assembly(out, TEMPLATES)
        return next(codes)

    monkeypatch.setattr(synthesis, "app", synthesized)
    assert isinstance(plan._deploy("dev", assembly_folder=None, synthesize=True), Deploy)
    failed = plan._deploy("dev", assembly_folder=None, synthesize=True)
    assert failed == "Not known: the synthesis failed; see its messages above."


def test_a_folder_without_the_environment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network = assembly(tmp_path / "network", TEMPLATES)
    other = plan._deploy("prod", assembly_folder=network, synthesize=False)
    assert other == f"Not known: {network} has no environment prod."
    empty = assembly(tmp_path / "empty", {"Network": resources()})
    assert plan._deploy("dev", assembly_folder=empty, synthesize=True) == f"Not known: {empty} creates nothing."
    assert main([*BASE, "--app", str(tmp_path)]) == 2
    assert "manifest.json: no such file. Expected a folder that `cdk synth` wrote" in capsys.readouterr().err


def test_nodes_take_work_when_the_image_is_there(tmp_path: Path) -> None:
    """Where no group comes later than the stacks, its pods still pull their image."""
    read = plan.deploy_of(assembly(tmp_path, TEMPLATES), "dev")
    assert isinstance(read, Deploy)
    (low, mid, high), source = node_durations()["image_pull"]
    stacks = read.stacks
    pulled = [stacks.low + low / 60, stacks.central + mid / 60, stacks.high + high / 60]
    assert list(read.nodes) == pytest.approx(pulled)
    assert read.nodes_why == f"all stacks, then the image: {source}"


def test_nodes_take_work_with_the_last_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    later = [
        Nodes(group=name, minutes=Minutes(*span), why=f"why {name}")
        for name, span in (("head", (5, 6, 7)), ("workers", (50, 60, 70)))
    ]
    path = [Step(title="Vpc", type="AWS::EC2::VPC", action="create", minutes=Minutes(1, 2, 3), source="measured")]
    known = Schedule(in_turn=Minutes(9, 9, 9), side_by_side=Minutes(4, 5, 6), path=path, nodes=later)
    monkeypatch.setattr(schedule, "first_deploy", lambda _: known)
    read = plan.deploy_of(assembly(tmp_path, TEMPLATES), "dev")
    assert isinstance(read, Deploy)
    assert tuple(read.stacks) == (4, 5, 6)
    assert (tuple(read.nodes), read.nodes_why) == ((50, 60, 70), "group workers: why workers")
    (step,) = read.path
    assert (step.title, tuple(step.minutes), step.source) == ("create Vpc", (1, 2, 3), "measured")


# --- output -----------------------------------------------------------------------------------------------------------


def test_the_second_plan_is_beside_the_first_in_a_document(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed: list[dict[str, Any]] = []
    monkeypatch.setattr(answers, "as_data", lambda report: {"environment": report})
    monkeypatch.setattr(output, "write_json", lambda kind, data: printed.append({"kind": kind, **data}))
    monkeypatch.setattr(output, "json_text", lambda kind, data: json.dumps({"kind": kind, **data}))
    file = tmp_path / "plan.json"
    for reports, more in ((["prod"], {}), (["prod", "dev"], {"compared_with": {"environment": "dev"}})):
        plan._show(reports, form=plan.PlanFormat.json, out=None)  # type: ignore[arg-type]
        plan._show(reports, form=plan.PlanFormat.json, out=file)  # type: ignore[arg-type]
        assert printed == [{"kind": "plan", "environment": "prod", **more}]
        assert json.loads(file.read_text()) == printed.pop()
        said = capsys.readouterr()
        assert (said.out, said.err) == ("", f"wrote {file}\n")
