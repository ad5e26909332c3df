"""Every command of the program on the example of Slurm: it works there, or one message names what to use instead."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.cli.main import tree
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.core.orchestrator_support import ON_SLURM, WORKS
from hyperpod_ray.ops.reach.clients import SlurmTarget
from tests.cli.slurm_commands_helpers import line
from tests.cli.test_command_line import LEAVES
from tests.support.slurm_account import NAME, SlurmAccount

WORKING = sorted(words for words, found in ON_SLURM.items() if found == WORKS)


def test_a_refusal_is_json_where_json_was_asked_for(account: SlurmAccount) -> None:
    done = account.run("runs", "pull", NAME, "x", "--to", "y", "-o", "json")
    assert done.code == 2
    assert "look into /fsx/runs/NAME" in done.json["error"]["fix"]


@pytest.mark.parametrize("words", ["submit", "runs list", "connect"])
def test_an_environment_on_eks_is_not_refused(account: SlurmAccount, words: str) -> None:
    account.environments = FOLDER
    done = account.run(*[word if word != NAME else "dev" for word in line(words)])
    assert "is on Slurm" not in done.err


@pytest.mark.parametrize("text", ["orchestrator: [slurm\n", "orchestrator: other\n", "- slurm\n", ""])
def test_a_file_that_cannot_be_read_is_not_taken_for_slurm(account: SlurmAccount, text: str) -> None:
    account.environments = account.folder / "environments"
    account.environments.mkdir()
    (account.environments / f"{NAME}.yaml").write_text(text)
    done = account.run("submit", NAME, "--", "x")
    assert done.code == 2
    assert "is on Slurm" not in done.err


# --- what works ------------------------------------------------------------------------------------------------------


class Stop(Exception):
    """The command has its environment; what follows is proved elsewhere."""


def stopped(seen: list[Any], *, at: int = 0) -> Callable[..., Any]:
    def stop(*arguments: Any, **_: Any) -> Any:
        seen.append(arguments[at])
        raise Stop

    return stop


ELSEWHERE = {
    "nodes check": ("hyperpod_ray.ops.acceptance.check.run", []),
    "deploy": ("hyperpod_ray.ops.change.deploy.deploy", ["--app", "ASSEMBLY"]),
    "teardown": ("hyperpod_ray.ops.change.teardown.run", []),
    "review": ("hyperpod_ray.cli.deploy_review.deployed_stacks", ["--deployed", "--head-assembly", "ASSEMBLY"]),
}
"""A step that the sandbox's and the reviews' tests prove, and what leads to it; it takes the environment."""
HERE: dict[str, tuple[list[str], int, str]] = {
    "capacity": ([], 0, "tpo-1"),
    "cost": (["--offline", "-o", "json"], 0, "usd_per_hour"),
    "cost --actual": (["--offline", "-o", "json"], 0, '"usd_month": 1540.5'),
    "cost --so-far": (["--offline", "-o", "json"], 0, '"busy_gpus": 0'),
    "env check": ([], 0, "ok slurm"),
    "env upgrade": (["--from", "0.2.0"], 0, "+written_for: "),
    "env needs": ([], 0, "# What `slurm` needs"),
    "env show": ([], 0, "orchestrator: slurm"),
    "image lock": ([], 2, "names no packages of its own"),
    "logs": ([], 0, "lifecycle: ready"),
    "nodes events": ([], 0, "What"),
    "nodes list": ([], 0, "idle"),
    "nodes reboot": (["--yes"], 2, "'x' is not in cluster"),
    "nodes replace": (["--yes"], 2, "'x' is not in cluster"),
    "nodes remove": (["--yes"], 2, "'x' is not in cluster"),
    "nodes shell": (["--print"], 2, "'x' is not in cluster"),
    "nodes show": ([], 2, "'x' is not in cluster"),
    "plan": (["--model", "llama-3.1-8b", "--tokens", "10B", "--no-deploy"], 0, "4 × ml.p5.48xlarge"),
    "preflight": (["--offline"], 0, "6 nodes in 3 groups"),
    "status": ([], 0, "slurm: Healthy"),
    "wait": (["--for", "workers"], 0, "4/4 ready"),
}
"""Options, exit code and what is said."""
APART_TESTED = {"diff", "local deploy", "local destroy", "status --web"} | {
    f"runs {verb}" for verb in ("list", "show", "compare", "best", "plot")
}
"""Tests of their own: below, and those of `runs` in tests/ops/test_run_folders.py."""


def test_every_working_command_is_run() -> None:
    assert set(WORKING) == set(HERE) | set(ELSEWHERE) | APART_TESTED


@pytest.mark.parametrize("words", sorted(HERE))
def test_it_works(account: SlurmAccount, words: str) -> None:
    options, code, says = HERE[words]
    done = account.run(*line(words), *options)
    assert (done.code, says in done.out + done.err) == (code, True), done.out + done.err


@pytest.mark.parametrize("words", sorted(ELSEWHERE))
def test_it_takes_the_environment(account: SlurmAccount, words: str) -> None:
    where, options = ELSEWHERE[words]
    seen: list[Any] = []
    (account.folder / "manifest.json").write_text("{}")
    account.monkeypatch.setattr(where, stopped(seen))
    for step in ("hyperpod_ray.cli.deploy_review.read", "hyperpod_ray.review.deployed.deployed"):
        account.monkeypatch.setattr(step, lambda *_: SimpleNamespace(stacks={}))
    account.monkeypatch.setenv("HYPERPOD_RAY_TRACEBACK", "1")
    with pytest.raises(Stop):
        account.run(*line(words), *(word.replace("ASSEMBLY", str(account.folder)) for word in options))
    assert isinstance(seen[0], SlurmTarget)


def test_diff_is_cdks(account: SlurmAccount) -> None:
    seen: list[Any] = []
    account.monkeypatch.setattr("hyperpod_ray.cli.synthesis.cdk", stopped(seen))
    account.monkeypatch.setenv("HYPERPOD_RAY_TRACEBACK", "1")
    with pytest.raises(Stop):
        account.run("diff", NAME)
    assert seen == [NAME]


def test_the_page_shows_nodes_and_jobs(account: SlurmAccount) -> None:
    """What the server asks for is asked here: the data of the page, from the same account."""
    seen: list[Any] = []
    account.state("running").monkeypatch.setattr("hyperpod_ray.ops.web.serve.run", stopped(seen))
    account.monkeypatch.setenv("HYPERPOD_RAY_TRACEBACK", "1")
    with pytest.raises(Stop):
        account.run("status", NAME, "--web")
    view = seen[0]()
    lines = {node.id: node for node in view.nodes}
    assert [(one.tone, one.pods) for one in lines.values() if one.group == "workers"] == [
        ("good", ("job 1",)), ("good", ("job 1",)), ("good", ()), ("good", ()),
    ]  # fmt: skip
    assert [node.state for node in view.nodes if node.group == "login"] == ["Running"]
    assert view.spend is not None
    assert (view.spend.gpus, view.spend.busy_gpus) == (32, 16)
    assert [len(one.nodes) for one in view.spend.idle] == [2]
    assert isinstance(seen[0]._target.again(), SlurmTarget)


@pytest.mark.parametrize(
    ("state", "tones"),
    [
        ("down", ["good", "bad", "good", "good"]),
        ("action-replace", ["good", "busy", "busy", "busy"]),
        ("drained", ["good", "busy", "busy", "good"]),
        ("silent", ["good", "busy", "good", "good"]),
    ],
)
def test_the_page_has_a_tone_for_each_state(account: SlurmAccount, state: str, tones: list[str]) -> None:
    seen: list[Any] = []
    account.state(state).monkeypatch.setattr("hyperpod_ray.ops.web.serve.run", stopped(seen))
    account.monkeypatch.setenv("HYPERPOD_RAY_TRACEBACK", "1")
    with pytest.raises(Stop):
        account.run("status", NAME, "--web")
    assert [node.tone for node in seen[0]().nodes if node.group == "workers"] == tones


# --- the same, further -----------------------------------------------------------------------------------------------


def test_a_plan_of_slurm_takes_whole_compute_nodes(account: SlurmAccount) -> None:
    words = ["--model", "llama-3.1-8b", "--tokens", "10B", "--no-deploy", "-o", "json"]
    found = account.run("plan", NAME, *words).json
    assert "4 × ml.p5.48xlarge" in json.dumps(found, ensure_ascii=False)


def test_a_plan_needs_gpus(account: SlurmAccount) -> None:
    account.environments = account.folder / "environments"
    account.environments.mkdir()
    text = (FOLDER / "examples" / f"{NAME}.yaml").read_text(encoding="utf-8")
    (account.environments / f"{NAME}.yaml").write_text(text.replace("ml.p5.48xlarge", "ml.m5.4xlarge"))
    done = account.run("plan", NAME, "--model", "llama-3.1-8b", "--tokens", "10B", "--no-deploy")
    assert (done.code, "trains on no GPU" in done.err) == (2, True), done.err


def test_the_tree_is_the_programs() -> None:
    assert set(tree().commands) == {path[0] for path in LEAVES}


@pytest.mark.parametrize("verb", ["replace", "reboot"])
def test_only_slurm_waits_for_jobs(account: SlurmAccount, verb: str) -> None:
    account.environments = FOLDER
    done = account.run("nodes", verb, "dev", "i-0123456789abcdef0", "--when", "after-jobs", "--yes")
    assert (done.code, "only Slurm knows when a node's jobs end" in done.err) == (2, True)
    assert not account.calls


# --- preflight with an account ---------------------------------------------------------------------------------------
