"""`runs` on Slurm: the program's commands read run folders on a login node, as Session Manager runs a command there.

The folders are those that the training library's own journal writes; the reader is Python of the system.
"""

from __future__ import annotations

import ast
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.in_ray import history
from hyperpod_ray.ops.in_ray import runs as reader
from hyperpod_ray.ops.observe import slurm
from hyperpod_ray.ops.orchestrators.slurm import run_folders as slurm_runs
from tests.ops.test_ops_run_state import write_run
from tests.support.slurm_account import CONTROLLER, LOGIN, NAME, SlurmAccount


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlurmAccount:
    return SlurmAccount(folder=tmp_path, monkeypatch=monkeypatch).install()


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "it's fsx" / "runs"
    write_run(folder, "first", monkeypatch, steps=32, slope=0.1)
    write_run(folder, "second", monkeypatch, steps=20, slope=0.05, every=1.0)
    (folder / "no-run").mkdir()
    (folder / ".ray-7").mkdir()
    return folder


def test_every_view_of_runs_is_that_of_folders_that_are_here(account: SlurmAccount, storage: Path) -> None:
    """Both ways read by the same module and show by the same code: what is said differs in nothing."""
    on_nodes, here = ("--storage", str(storage)), ("--here", str(storage))
    views = (
        ("list", NAME), ("list", NAME, "--state", "succeeded"), ("show", NAME, "first"),
        ("compare", NAME, "first", "second"), ("best", NAME), ("best", NAME, "--metric", "accuracy", "--mode", "max"),
    )  # fmt: skip
    for view in views:
        far, near = (account.run("runs", *view, *place, "-o", "json") for place in (on_nodes, here))
        assert (far.code, near.code) == (0, 0), far.err
        assert _timeless(far.json) == _timeless(near.json), view
    listed = account.run("runs", "list", NAME, *on_nodes)
    assert "32 of 100" in listed.out
    assert (
        account.run("runs", "plot", NAME, "first", *on_nodes).out
        == account.run("runs", "plot", NAME, "first", *here).out
    )
    assert account.run("runs", "best", NAME, *on_nodes).out.strip() == f"{storage}/first/step-00000020-abc123"
    sessions = account.sessions
    assert len(sessions) == len(views) + 3, "folders that are here ask no node"
    assert all(session["Target"].endswith(f"_login-{LOGIN}") for session in sessions)


def _timeless(data: Any) -> Any:
    """Without what is counted until now, and when it was."""
    if isinstance(data, dict):
        moving = {key for key in data if key in ("seconds", "generated_at") or "age" in key}
        return {key: _timeless(value) for key, value in data.items() if key not in moving}
    return [_timeless(one) for one in data] if isinstance(data, list) else data


def test_where_runs_are_unless_another_folder_is_named(account: SlurmAccount) -> None:
    done = account.run("runs", "list", NAME)
    (session,) = account.sessions
    (command,) = session["Parameters"]["command"]
    assert shlex.split(command)[-4:] == [slurm_runs.STORAGE, "&&", "echo", slurm.DONE]
    assert "\n" not in command
    assert len(command) < 16_000
    assert done.code == 1
    assert "/fsx/runs: No such file or directory" in done.err
    assert "give --storage FOLDER" in done.err


def test_a_name_that_is_none_and_no_run_at_all(account: SlurmAccount, storage: Path) -> None:
    wrong = account.run("runs", "show", NAME, "firsst", "--storage", str(storage))
    assert (wrong.code, "did you mean 'first'?" in wrong.err) == (2, True), wrong.err
    none = account.run("runs", "list", NAME, "--storage", str(storage / "no-run"))
    assert (none.code, "next: sbatch jobs/slurm/train.sbatch" in none.err) == (0, True), none.err


def test_what_others_keep_to_themselves_is_named(account: SlurmAccount, storage: Path) -> None:
    """The tests may run as root, who reads everything: the node's Python says what its user may not."""
    hook = account.folder / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(
        "import os\nreal = os.access\n"
        "os.access = lambda path, mode: not path.endswith(('second', '.ray-7')) and real(path, mode)\n"
    )
    account.monkeypatch.setenv("PYTHONPATH", str(hook))
    done = account.run("runs", "list", NAME, "--storage", str(storage))
    assert done.code == 0, done.err
    assert "not readable on login: second" in done.err
    assert ".ray-7" not in done.err


def test_without_a_login_node_that_runs_the_controller_reads(account: SlurmAccount, storage: Path) -> None:
    every = account.ListClusterNodes({})["ClusterNodeSummaries"]

    def of(nodes: list[dict[str, Any]]) -> None:
        account.ListClusterNodes = lambda _: {"ClusterNodeSummaries": nodes}  # type: ignore[method-assign]

    starts = [
        {**one, "InstanceStatus": {"Status": "Pending"}} if one["InstanceGroupName"] == "login" else one
        for one in every
    ]  # fmt: skip
    for nodes in (starts, [one for one in every if one["InstanceGroupName"] != "login"]):
        of(nodes)
        assert account.run("runs", "list", NAME, "--storage", str(storage)).code == 0
        assert account.sessions[-1]["Target"].endswith(f"_controller-{CONTROLLER}")
    of([])
    done = account.run("runs", "list", NAME)
    assert (done.code, "no controller or login node runs" in done.err) == (1, True), done.err


def test_before_there_is_a_cluster_it_is_said(account: SlurmAccount) -> None:
    account.there = False
    done = account.run("runs", "list", NAME)
    assert (done.code, "no controller or login node runs" in done.err) == (1, True), done.err
    assert not account.sessions


@pytest.mark.parametrize("cut", [20, 2000])
def test_an_answer_that_was_cut_is_refused(cut: int, storage: Path, account: SlurmAccount) -> None:
    import subprocess

    whole = subprocess.run(
        ["sh", "-c", slurm_runs.command(str(storage))], capture_output=True, text=True, check=True, timeout=120
    ).stdout
    assert [run["folder"] for run in slurm_runs.parsed(f"Starting session\r\n{whole}\r\nExiting")["runs"]] == [
        f"{storage}/first", f"{storage}/second"
    ]  # fmt: skip
    lines = whole.splitlines()
    for text in ("\n".join(lines[:-1])[:cut], "\n".join([*lines[:2], lines[-1]]), f"{slurm.MARK}\n{slurm.DONE}"):
        with pytest.raises(OpsError, match="cut short"):
            slurm_runs.parsed(text)


@pytest.mark.parametrize(
    ("environment", "option", "says"),
    [
        (NAME, ("--address", "http://127.0.0.1:8265"), "Slurm has no Jobs API"),
        ("dev", ("--storage", "/fsx/runs"), "Ray knows each run's folder"),
    ],
)
def test_an_option_of_the_other_orchestrator_is_refused(
    account: SlurmAccount, environment: str, option: tuple[str, str], says: str
) -> None:
    account.environments = FOLDER / "examples" if environment == NAME else FOLDER
    done = account.run("runs", "list", environment, *option)
    assert (done.code, says in done.err) == (2, True), done.err
    assert not account.calls


def test_the_reader_is_python_3_8() -> None:
    """Ubuntu 20.04's, on HyperPod's older images. The grammar is judged by Python; these names came later."""
    for text in (Path(reader.__file__).read_text(), Path(history.__file__).read_text(), slurm_runs._ON_NODE):
        tree = ast.parse(text, feature_version=(3, 8))
        names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        names |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert not names & {"pairwise", "removeprefix", "removesuffix", "batched", "StrEnum", "tomllib", "UTC"}
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
        for call in calls:
            if call.func.id == "isinstance":  # type: ignore[attr-defined]
                assert not isinstance(call.args[1], ast.BinOp), ast.unparse(call)
            assert not {word.arg for word in call.keywords} & {"strict"}, ast.unparse(call)


def test_the_answer_is_json_of_the_reader(storage: Path) -> None:
    from tests.ops.ops_run_state_helpers import BEGIN

    found = reader.read_all(str(storage))
    assert [one["progress"]["last_step"] for one in found] == [32, 20]
    assert found[0]["history"]["begin"] == BEGIN
    assert json.dumps(found)
