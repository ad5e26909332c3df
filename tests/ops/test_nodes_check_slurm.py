"""`nodes check` on Slurm: over Session Manager and `srun`, with real probes; and HyperPod's own deep health checks."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.planner import checked_nodes
from tests.ops.world import ROOT
from tests.support.slurm_account import NAME, NODES, WORKERS, SlurmAccount

PYTHON = ROOT / ".venv-rehearsal" / "bin" / "python"
SRUN = f"""#!{sys.executable} -IS
import os, subprocess, sys
words = sys.argv[1:]
open(os.environ["UPDATES"], "a").write("srun " + " ".join(words[:12]) + "\\n")
if os.environ.get("SRUN_SAYS"):
    sys.exit(os.environ["SRUN_SAYS"])
hosts = words[words.index("--nodelist") + 1].split(",")
first = next(place for place, word in enumerate(words) if word.startswith("/") or word == "bash")
tasks = []
for number, host in enumerate(hosts):
    own = dict(os.environ, SLURMD_NODENAME=host, SLURM_NODEID=str(number), SLURM_NNODES=str(len(hosts)),
               SLURM_STEP_NODELIST=",".join(hosts), SLURM_JOB_ID=os.environ["JOB"])
    tasks.append(subprocess.Popen(words[first:], env=own))
sys.exit(max(task.wait() for task in tasks))
"""
"""As Slurm: one task on each node, with its variables."""
SCONTROL = "#!/bin/sh\necho 127.0.0.1\n"


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlurmAccount:
    environments = tmp_path / "environments"
    shutil.copytree(FOLDER / "examples", environments)
    account = SlurmAccount(folder=tmp_path, monkeypatch=monkeypatch, environments=environments).install()
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("JOB", "4711")
    return account


def check(account: SlurmAccount, *words: str) -> Any:
    quick = ("--seconds", "1", "--storage-mib", "8", "--python", str(PYTHON))
    return account.run("nodes", "check", NAME, "--storage", str(account.folder / "fsx"), *quick, *words)


@pytest.mark.slow
def test_srun_measures_the_idle_nodes_with_real_probes(account: SlurmAccount) -> None:
    node = (WORKERS[0], WORKERS[1])
    done = check(account, "--node", node[0], "--node", node[1], "-o", "json")
    data = json.loads(done.out)
    assert {node["name"] for node in data["nodes"]} == set(node), done.err
    assert all(node["tflops"] and node["pair_gb_s"] and node["write_gb_s"] for node in data["nodes"])
    assert data["transport"] == "gloo"
    assert "no node could" not in done.err
    steps = account.updates
    assert len(steps) == 2
    assert all("--immediate=60" in step and "--nodelist n1,n2" in step for step in steps)
    assert not list((account.folder / "fsx").iterdir())
    kept = checked_nodes.newest(NAME, account.environments)
    assert kept is not None
    assert set(kept.nodes) == set(node)
    assert not kept.on_gpus


def test_what_srun_refuses_is_said(account: SlurmAccount, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SRUN_SAYS", "srun: error: Unable to allocate resources: Requested nodes are busy")
    done = check(account)
    assert done.code == 3
    assert "no node could be measured: srun: error: Unable to allocate resources" in done.err


def test_a_python_without_torch_is_named_on_each_node(account: SlurmAccount) -> None:
    bare = account.folder / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -IS "$@"\n')
    bare.chmod(0o755)
    done = check(account, "--python", str(bare))
    assert done.code == 3
    assert done.out.count("No module named 'torch'") == len(NODES)


def test_nodes_with_jobs_are_busy(account: SlurmAccount) -> None:
    done = check(account.state("running"), "--node", WORKERS[0])
    assert done.code == 3
    assert "no node is free" in done.err
    assert account.updates == []


def test_an_address_of_ray_is_refused(account: SlurmAccount) -> None:
    done = check(account, "--address", "http://127.0.0.1:8265")
    assert done.code == 2
    assert "Slurm has no Jobs API" in done.err


def test_deep_health_checks_are_the_services_own(account: SlurmAccount, monkeypatch: pytest.MonkeyPatch) -> None:
    """botocore's model judges the call: names, checks, identifiers."""
    monkeypatch.setattr(
        SlurmAccount, "StartClusterHealthCheck", lambda self, _: {"ClusterArn": self.DescribeCluster({})["ClusterArn"]},
        raising=False,
    )  # fmt: skip
    done = account.run("nodes", "check", NAME, "--deep", "stress", "--deep", "training", "--node", WORKERS[1], "--yes")
    assert done.code == 0, done.err
    assert account.asked("StartClusterHealthCheck") == [
        {
            "ClusterName": "train-slurm",
            "DeepHealthCheckConfigurations": [
                {
                    "InstanceGroupName": "workers",
                    "InstanceIds": [WORKERS[1]],
                    "DeepHealthChecks": ["InstanceStress", "MultiNodeTrainingValidation"],
                }
            ],
        }
    ]
    assert "reboots or replaces a node that fails" in done.err
    whole = account.run("nodes", "check", NAME, "--deep", "connectivity", "--yes")
    assert whole.code == 0, whole.err
    (entry,) = account.asked("StartClusterHealthCheck")[1]["DeepHealthCheckConfigurations"]
    assert entry == {"InstanceGroupName": "workers", "DeepHealthChecks": ["InstanceConnectivity"]}


def test_deep_health_checks_ask_first(account: SlurmAccount) -> None:
    done = account.run("nodes", "check", NAME, "--deep", "stress")
    assert done.code != 0
    assert account.asked("StartClusterHealthCheck") == []
