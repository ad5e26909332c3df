"""Commands that look at an environment, wait for it and count its cost, on the example of Slurm."""

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.core.names import ENVIRONMENT_TAG
from tests.core.account.good import GOOD
from tests.core.account.recorded import RecordedAccount
from tests.support.slurm_account import ACCOUNT, NAME, SlurmAccount


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
