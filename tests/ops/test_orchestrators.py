"""An orchestrator is one package and one line: a third one, registered here, works in every command that it serves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.ops import orchestrators
from hyperpod_ray.ops.orchestrators.run_list import Source
from tests.ops.kuberay import CLOUD
from tests.ops.orchestrators_helpers import ops, target


def data(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert ops(folder, *words, "-o", "json") == 0
    return json.loads(capsys.readouterr().out)


def test_nodes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = data(folder, capsys, "nodes", "list", "third")["nodes"]
    assert [(row["id"], row["kubernetes"]) for row in listed] == [("n1", "in kube"), ("n2", "in kube")]
    assert ops(folder, "nodes", "list", "third") == 0
    assert "in kube" in capsys.readouterr().out
    shown = data(folder, capsys, "nodes", "show", "third", "n2")
    assert shown["hyperpod"] == {"Kernel": "6.1"}
    assert shown["session_manager_target"] == "kube/n2"
    (event,) = data(folder, capsys, "nodes", "events", "third", "--node", "n1")["events"]
    assert event["failure"] == "disk full"
    assert ops(folder, "nodes", "shell", "third", "n1", "--print") == 0
    assert "--target kube/n1" in capsys.readouterr().out
    assert ops(folder, "nodes", "show", "third", "n9") == 2


def test_repair(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ops(folder, "nodes", "replace", "third", "n1", "--yes") == 0
    said = capsys.readouterr().err
    assert "the node pool starts another one" in said
    assert "no pod is there" in said
    assert "watch the pool" in said
    assert ops(folder, "nodes", "reboot", "third", "n2", "--when", "after-jobs", "--yes") == 0
    assert ops(folder, "nodes", "drill", "third", "--node", "n2", "--action", "replace", "--yes") == 0
    assert ops(folder, "nodes", "free", "third", "n1", "--yes") == 0
    assert CLOUD.done == [
        ("replace", "n1", "now"), ("reboot", "n2", "after-jobs"), ("drill", "n2", "replace"), ("free", "n1"),
    ]  # fmt: skip
    assert CLOUD.nodes == {"n1": "Pending", "n2": "Pending"}


def test_jobs_and_runs(folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert ops(folder, "runs", "list", "third") == 0
    assert "kubectl create -f rayjob.yaml" in capsys.readouterr().err
    assert ops(folder, "submit", "third", "--submission-id", "first", "--", "python", "train.py") == 0
    capsys.readouterr()
    (run,) = data(folder, capsys, "runs", "list", "third")["runs"]
    assert (run["id"], run["command"], run["state"]) == ("first", "python train.py", "RUNNING")
    shown = data(folder, capsys, "runs", "show", "third", "first")
    assert shown["log_tail"] == ["step 1", "step 2"]
    assert ops(folder, "runs", "show", "third", "first") == 0
    assert "runs logs third first --follow" in capsys.readouterr().err
    assert ops(folder, "runs", "logs", "third", "first") == 0
    assert "log of first" in capsys.readouterr().out
    assert ops(folder, "runs", "logs", "third", "first", "--follow") == 7
    assert ops(folder, "runs", "stop", "third", "first", "--yes") == 0
    assert CLOUD.runs["first"].state == "STOPPED"
    assert ops(folder, "runs", "list", "third", "--storage", "/x") == 2
    with orchestrators.of(target(folder)).runs.files("/fsx/runs/first", [], Source()) as (files, read):
        assert [file.name for file in files] == ["model.pt"]
        with read("model.pt") as chunks:
            assert b"".join(chunks) == b"weights"


def test_logs_status_and_wait(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = data(folder, capsys, "logs", "third", "--kind", "lifecycle", "--node", "n1")
    assert answer["log_group"] == "pods of kube"
    assert [line["message"] for line in answer["lines"]] == ["joined"]
    assert CLOUD.done == [("reader", "lifecycle", "n1")]
    assert ops(folder, "status", "third") == 0
    assert "Healthy" in capsys.readouterr().out
    CLOUD.nodes["n2"] = "Failure"
    assert ops(folder, "status", "third") == 3
    assert "n2" in capsys.readouterr().out
    assert ops(folder, "wait", "third", "--for", "ray") == 2
    assert "one of cluster, healthy, or a group" in capsys.readouterr().err


def test_what_nobody_registered_is_no_orchestrator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "third.yaml").write_text("orchestrator: kuberay\n")
    assert ops(tmp_path, "nodes", "list", "third") == 2
    assert "one of eks, slurm" in capsys.readouterr().err
