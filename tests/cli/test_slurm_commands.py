"""Every command of the program on the example of Slurm: it works there, or one message names what to use instead."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.cli.main import tree
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.core.names import ENVIRONMENT_TAG
from hyperpod_ray.core.orchestrator_support import ON_SLURM, WORKS
from hyperpod_ray.ops.reach.clients import SlurmTarget
from tests.cli.slurm_commands_helpers import line
from tests.cli.test_command_line import LEAVES
from tests.core.account.good import GOOD
from tests.core.account.recorded import RecordedAccount
from tests.support.slurm_account import ACCOUNT, NAME, SlurmAccount

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


@pytest.mark.parametrize(
    ("what", "state", "code", "says"),
    [
        ("cluster", "idle", 0, "InService"),
        ("storage", "idle", 0, "AVAILABLE"),
        ("healthy", "running", 0, "Healthy"),
        ("controller", "down", 0, "1/1 ready"),
        ("workers", "down", 4, "3/4 ready"),
        ("healthy", "down", 4, "Action required"),
        ("ray", "idle", 2, "one of cluster, storage, healthy, or a group: controller, login, workers"),
    ],
)
def test_wait(account: SlurmAccount, what: str, state: str, code: int, says: str) -> None:
    done = account.state(state).run("wait", NAME, "--for", what, "--timeout", "0.1", "--poll", "0.1")
    assert (done.code, says in done.err) == (code, True), done.err


def test_wait_says_what_comes_then(account: SlurmAccount) -> None:
    assert "jobs start there" in account.run("wait", NAME, "--for", "workers").err


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


def test_all_environments_are_compared_with_it(account: SlurmAccount) -> None:
    rows = {row["environment"]: row for row in account.run("cost", "--all", "-o", "json").json["environments"]}
    assert rows[NAME]["gpus"] == 32
    assert len(rows) > 5


def test_what_is_spent_so_far_is_counted_by_slurms_jobs(account: SlurmAccount) -> None:
    found = account.state("running").run("cost", NAME, "--so-far", "--offline", "-o", "json").json["so_far"]
    assert (found["gpus"], found["busy_gpus"]) == (32, 16)
    assert {"controller", "login", "workers", "volumes of nodes"} <= {item["name"] for item in found["items"]}
    assert [item["name"] for item in found["items"] if "EKS" in item["name"]] == []
    (idle,) = found["idle"]
    assert (idle["group"], idle["gpus"]) == ("workers", 16)
    assert (found["unseen"], found["runs"]) == ([], [])
    words = account.run("cost", NAME, "--so-far", "--offline").out
    assert "no job of Slurm on" in " ".join(words.split())
    assert "Ray" not in words


def test_the_bill_is_asked_for_by_the_environments_tag(account: SlurmAccount) -> None:
    done = account.run("cost", NAME, "--actual", "--offline")
    assert (done.code, "Amazon SageMaker" in done.out) == (0, True), done.err
    (asked,) = account.asked("GetCostAndUsage")
    assert asked["Filter"]["Tags"] == {"Key": ENVIRONMENT_TAG, "Values": [NAME], "MatchOptions": ["EQUALS"]}


def test_cost_has_no_control_plane(account: SlurmAccount) -> None:
    lines = [one["name"] for one in account.run("cost", NAME, "--offline", "-o", "json").json["lines"]]
    assert {"controller", "login", "workers"} <= set(lines)
    assert not [name for name in lines if "EKS" in name]


def test_logs_are_those_of_hyperpods_streams(account: SlurmAccount) -> None:
    assert account.run("logs", NAME, "--kind", "lifecycle", "--node", "n2").code == 0
    (asked,) = account.asked("DescribeLogStreams")
    assert asked["logGroupName"].startswith("/aws/sagemaker/Clusters/train-slurm/")


def rehearsal(account: SlurmAccount) -> list[tuple[str, ...]]:
    """Let `local deploy` and `local destroy` reach the cdk CLI and the embedded AWS, and note what they ask of them."""
    from hyperpod_ray.cli import local_deploy
    from hyperpod_ray_sandbox.aws import commands as sandbox
    from tests.support.slurm_account import ACCOUNT, REGION

    class Client:
        endpoint, secret = "http://127.0.0.1:1", "x"

        def environment(self) -> dict[str, str]:
            return {}

    class Running:
        account, region, client = ACCOUNT, REGION, Client()

    asked: list[tuple[str, ...]] = []
    patch = account.monkeypatch
    patch.setattr("hyperpod_ray_sandbox.aws.process.find", lambda _: None)

    def up(*, account: str, region: str, **_: Any) -> Running:
        asked.append(("up", account, region))
        return Running()

    patch.setattr(sandbox, "up", up)
    patch.setattr(sandbox, "found", lambda _: Running())
    patch.setattr(sandbox, "inventory", lambda **_: [])
    patch.setattr("hyperpod_ray.charts.store.fetch", lambda _: asked.append(("chart",)))
    patch.setattr(local_deploy.Cdk, "run", lambda _self, verb, *_: asked.append((verb,)))
    patch.setattr(local_deploy.Cdk, "synthesize", lambda _self: asked.append(("synth",)))

    @contextlib.contextmanager
    def bootstrapping(_self: Any, _target: str) -> Iterator[None]:
        asked.append(("bootstrap",))
        yield

    patch.setattr(local_deploy.Cdk, "bootstrapping", bootstrapping)
    return asked


def test_a_local_deploy_needs_no_chart(account: SlurmAccount, tmp_path: Path) -> None:
    asked = rehearsal(account)
    done = account.run("local", "deploy", NAME, "--state", str(tmp_path / "state"))
    assert done.code == 0, done.err
    assert asked == [("up", "111122223333", "us-west-2"), ("bootstrap",), ("synth",), ("deploy",)]
    (file,) = (tmp_path / "state").rglob(f"{NAME}.yaml")
    assert "orchestrator: slurm" in file.read_text()
    assert done.err.count("stand-in: ") == 1


def test_a_local_destroy_says_that_nothing_is_left(account: SlurmAccount, tmp_path: Path) -> None:
    asked = rehearsal(account)
    assert account.run("local", "destroy", NAME, "--state", str(tmp_path / "state")).code == 0
    assert asked == [("synth",), ("destroy",)]


def test_the_tree_is_the_programs() -> None:
    assert set(tree().commands) == {path[0] for path in LEAVES}


@pytest.mark.parametrize("verb", ["replace", "reboot"])
def test_only_slurm_waits_for_jobs(account: SlurmAccount, verb: str) -> None:
    account.environments = FOLDER
    done = account.run("nodes", verb, "dev", "i-0123456789abcdef0", "--when", "after-jobs", "--yes")
    assert (done.code, "only Slurm knows when a node's jobs end" in done.err) == (2, True)
    assert not account.calls


# --- preflight with an account ---------------------------------------------------------------------------------------


def in_this_account(data: Any) -> Any:
    """The recorded account under the number of the example's."""
    if isinstance(data, dict):
        return {in_this_account(key): in_this_account(value) for key, value in data.items()}
    if isinstance(data, list):
        return [in_this_account(one) for one in data]
    return data.replace("123456789012", ACCOUNT) if isinstance(data, str) else data


def test_preflight_asks_the_account_for_what_slurm_needs(account: SlurmAccount) -> None:
    data = in_this_account(GOOD)
    data["offerings"] = {kind: ["usw2-az1", "usw2-az2"] for kind in ("m5.2xlarge", "p5.48xlarge")}
    account.recorded = RecordedAccount(data)
    account.environments = account.folder / "environments"
    account.environments.mkdir()
    text = (FOLDER / "examples" / f"{NAME}.yaml").read_text(encoding="utf-8")
    # the recorded account has a quota of this type
    (account.environments / f"{NAME}.yaml").write_text(text.replace("ml.m5.4xlarge", "ml.m5.2xlarge"))
    done = account.run("preflight", NAME, "-o", "json")
    rows = done.json["checks"]
    assert (done.code, [row for row in rows if row["result"] not in ("ok", "skipped")]) == (0, [])
    asked = {one.partition(":")[0] for one in account.recorded.asked}
    assert "eks" not in asked
    assert {"ec2", "service-quotas", "fsx", "iam", "sagemaker"} <= asked
    quotas = [row["what"] for row in rows if row["check"] == "quotas"]
    assert any("ml.p5.48xlarge for cluster usage: 4 asked" in what for what in quotas)
    data["offerings"] = {}
    failed = account.run("preflight", NAME, "-o", "json")
    assert failed.code == 3
    assert {row["check"] for row in failed.json["checks"] if row["result"] == "failed"} == {"instance types"}
