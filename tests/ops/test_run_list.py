from __future__ import annotations

import ast
import json
import typing
from pathlib import Path

import pytest

import hyperpod_ray_training
from hyperpod_ray.cli.runs import State
from hyperpod_ray.ops.errors import BAD_USE, OpsError
from hyperpod_ray.ops.journal import run_state
from hyperpod_ray.ops.orchestrators import run_list
from hyperpod_ray.ops.orchestrators.eks import runs as eks_runs


def written_states() -> set[str]:
    """Every state that the training library writes into `progress.json`."""
    modules = (ast.parse(file.read_text()) for file in Path(hyperpod_ray_training.__file__).parent.rglob("*.py"))
    return {
        str(value.value)
        for module in modules
        for call in ast.walk(module)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "update"
        for word in call.keywords
        if word.arg == "state"
        for value in ast.walk(word.value)
        if isinstance(value, ast.Constant) and isinstance(value.value, str)
    }


def test_a_run_that_saves_or_recovers_is_one_that_runs(tmp_path: Path) -> None:
    """`runs list --state` takes the states of Ray's jobs; a folder has those of the training library."""
    states = written_states()
    assert states >= {"starting", "restoring", "saving", "draining", "paused", "done", "failed"}
    for state in states:
        (tmp_path / state).mkdir()
        (tmp_path / state / "progress.json").write_text(json.dumps({"state": state}))
    folders = run_state.read_here([str(tmp_path)], whole=True)
    found: set[str] = set()
    for chosen in filter(None, typing.get_args(State)):
        found |= {run.name for run in run_list.of_states(folders, state=chosen, names=[], environment="e")[0]}
    assert found == states, "each is found by one of the states that the command takes"
    running, _ = run_list.of_states(folders, state="running", names=[], environment="e")
    assert {run.name for run in running} == states - {"done", "failed"}


def test_an_id_goes_before_a_name_and_the_newest_of_a_name_is_meant() -> None:
    made = [
        eks_runs._run(
            {"submission_id": one, "status": "RUNNING", "metadata": {"run": name, "run_folder": "/fsx/runs/x"}}
        )
        for one, name in (("b", "a"), ("a", "c"), ("d", "c"))
    ]
    assert [run_list.pick(made, name, environment="e").id for name in ("a", "c", "d")] == ["a", "a", "d"]


@pytest.mark.parametrize(
    ("listed", "name", "message"),
    [
        ([("job-1", "first"), ("job-2", "")], "firsd",
         "no run 'firsd'; did you mean 'first'?. Expected one of job-1, job-2"),
        ([("job-1", "first")], "zzz", "no run 'zzz'. Expected one of job-1"),
        ([(f"job-{number}", "") for number in range(7)], "zzz",
         "no run 'zzz'. Expected one of job-0, job-1, job-2, job-3, job-4"),
        ([], "first", "no run 'first'. Expected a run; there is none"),
    ],
)  # fmt: skip
def test_a_run_that_there_is_not_is_refused(listed: list[tuple[str, str]], name: str, message: str) -> None:
    runs = [
        eks_runs._run({"submission_id": one, "status": "RUNNING", "metadata": {"run": of, "run_folder": "/fsx/runs/x"}})
        for one, of in listed
    ]
    with pytest.raises(OpsError) as refused:
        run_list.pick(runs, name, environment="demo")
    assert refused.value.message == message
    assert (refused.value.fix, refused.value.code) == ("hyperpod-ray runs list demo", BAD_USE)
