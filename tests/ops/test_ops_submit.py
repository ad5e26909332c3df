"""`submit` against a real Ray head with token authentication, and what it packs."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cli.main import main
from ops.submit import files_of, pack
from tests.ops.ray_head import Head
from tests.ops.world import ROOT, World, environment_text
from tests.support.emulator import until
from tests.support.ports import free_port
from tests.support.web import web_server


@pytest.fixture
def dashboard(ray: Head, monkeypatch: pytest.MonkeyPatch) -> str:
    """The dashboard of a Ray head on loopback, whose token is set."""
    monkeypatch.setenv("RAY_AUTH_TOKEN", ray.token)
    return ray.url


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "demo.yaml").write_text(environment_text())
    monkeypatch.setenv("HYPERPOD_RAY_ENVIRONMENTS", str(tmp_path))
    monkeypatch.setenv("RAY_AUTH_TOKEN", "of-nobody")
    work = tmp_path / "work"
    work.mkdir()
    return work


SMALLER = {"/fsx/runs": "STORAGE", "--workers 16 --gpus-per-worker 1": "--workers 0", "--steps 1000": "--steps 3"}
"""What differs from the printed job: one process in place of 16 GPUs, three steps, and a folder of the test."""


def printed_job(page: str) -> list[str]:
    """The words of a page's one `submit` line, after the environment."""
    text = (ROOT / page).read_text(encoding="utf-8").replace("\\\n", " ")
    (line,) = re.findall(r"^hyperpod-ray submit \w+ (.*)$", text, re.MULTILINE)
    return shlex.split(line)


@pytest.mark.rehearsal
@pytest.mark.slow
def test_the_printed_job_runs_whole(faults: World, ray: Head, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """README's job: by a port forward, with the RayCluster's own token, from the upload to the exit code."""
    monkeypatch.chdir(ROOT)
    assert printed_job("README.md") == printed_job("docs/tutorial.md")
    line = shlex.join(printed_job("README.md"))
    for old, new in SMALLER.items():
        assert old in line
        line = line.replace(old, new.replace("STORAGE", str(tmp_path)))
    head = {"namespace": "ray", "selector": "ray.io/node-type=head", "port": 8265}
    faults.request("POST", "/rehearsal/bridges", {**head, "to": ray.url.removeprefix("http://")})
    try:
        # the image has `resilience` installed
        result = faults.ops("submit", faults.name, "--env", f"PYTHONPATH={ROOT}", *shlex.split(line))
    finally:
        faults.request("DELETE", "/rehearsal/bridges")
    assert result.code == 0, result.out + result.err
    assert "SUCCEEDED" in result.err
    kinds = [json.loads(one)["kind"] for one in (tmp_path / "first" / "events.jsonl").read_text().splitlines()]
    assert kinds.count("step") == 3
    assert "save" in kinds


@pytest.mark.rehearsal
@pytest.mark.slow
def test_a_job_with_its_folder_environment_and_log(
    environment: Path, dashboard: str, capfd: pytest.CaptureFixture[str]
) -> None:
    file = environment.parent / "demo.yaml"
    training = "training: {model: llama-3.2-1b, tokens: 1B, sequence: 2048, save_every_seconds: 4600}\n"
    file.write_text(file.read_text() + training)
    (environment / "train.py").write_text(
        "import os, sys, helper\nprint('step', helper.ONE, os.environ['WHO'])\n"
        "print('every', os.environ['RESILIENCE_SAVE_EVERY_S'])\nsys.exit(int(sys.argv[1]))\n"
    )
    (environment / "helper.py").write_text("ONE = 1\n")
    submit = [
        "submit",
        "demo",
        "--address",
        dashboard,
        "--working-dir",
        str(environment),
        "--env",
        "WHO=me",
        "--",
        "python",
        "train.py",
    ]
    assert main([*submit, "0"]) == 0
    out, err = capfd.readouterr()
    assert "step 1 me" in out
    assert "every 4600" in out  # the section training's interval
    assert "SUCCEEDED" in err
    assert "uploading the working directory" in err
    # the same folder is not uploaded again; the job's own exit code comes through
    assert main([*submit, "7"]) == 7
    _, err = capfd.readouterr()
    assert "uploading" not in err
    assert "FAILED" in err


@pytest.mark.rehearsal
@pytest.mark.slow
def test_submit_without_waiting_then_follow(
    environment: Path, dashboard: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(
            [
                "submit",
                "demo",
                "--address",
                dashboard,
                "--no-wait",
                "--submission-id",
                "later",
                "--",
                "echo",
                "hello there",
            ]
        )
        == 0
    )
    assert capfd.readouterr().out.strip() == "later"
    assert main(["runs", "logs", "demo", "later", "--follow", "--address", dashboard]) == 0
    assert "hello there" in capfd.readouterr().out


@pytest.mark.rehearsal
@pytest.mark.slow
def test_a_run_is_listed_looked_at_and_stopped(
    environment: Path, dashboard: str, capfd: pytest.CaptureFixture[str]
) -> None:
    here = ("--address", dashboard)

    def data(*arguments: str) -> dict[str, Any]:
        assert main(["runs", *arguments, *here, "-o", "json"]) == 0
        made: dict[str, Any] = json.loads(capfd.readouterr().out)
        return made

    sleeper = ["python", "-c", "import time; print('begun', flush=True); time.sleep(900)"]
    options = ("--no-wait", "--submission-id", "long-run", "--env", "TOKEN=hidden", *here)
    assert main(["submit", "demo", *options, "--", *sleeper]) == 0
    capfd.readouterr()
    until(lambda: "begun" in data("show", "demo", "long-run")["log_tail"])
    seen = data("show", "demo", "long-run")
    assert (seen["state"], seen["exit_code"], seen["variables"]) == ("RUNNING", None, ["TOKEN"])
    assert seen["seconds"] > 0
    assert "time.sleep(900)" in seen["command"]
    assert data("demo", "--state", "running")["runs"][0]["id"] == "long-run", "`runs ENV` is `runs list ENV`"
    assert main(["runs", "show", "demo", "long-run", *here]) == 0
    shown = capfd.readouterr()
    assert "begun" in shown.out
    assert "hidden" not in shown.out + shown.err
    assert "runs logs demo long-run --follow" in shown.err

    # nobody is asked here: nothing is stopped without --yes
    assert main(["runs", "stop", "demo", "long-run", *here]) == 2
    assert "no terminal" in capfd.readouterr().err
    assert data("show", "demo", "long-run")["state"] == "RUNNING"
    assert main(["runs", "stop", "demo", "long-rum", "--yes", *here]) == 2
    assert "did you mean 'long-run'?" in capfd.readouterr().err
    assert main(["runs", "stop", "demo", "long-run", "--yes", *here]) == 0
    assert "long-run STOPPED" in capfd.readouterr().err
    assert main(["runs", "stop", "demo", "long-run", "--yes", *here]) == 0
    assert "long-run has ended: STOPPED" in capfd.readouterr().err
    assert main(["runs", "logs", "demo", "long-run", *here]) == 0
    assert "begun" in capfd.readouterr().out
    # following what was stopped is no success
    assert main(["runs", "logs", "demo", "long-run", "--follow", *here]) == 1
    capfd.readouterr()
    assert "long-run" not in [run["id"] for run in data("demo", "--state", "running")["runs"]]
    assert main(["runs", "list", "demo", *here]) == 0
    assert "STOPPED" in capfd.readouterr().out


@pytest.mark.rehearsal
@pytest.mark.slow
def test_a_wrong_token_is_said(
    environment: Path, dashboard: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "wrong")
    assert main(["submit", "demo", "--address", dashboard, "--", "true"]) == 1
    assert "Ray does not accept it" in capfd.readouterr().err


def test_no_dashboard_there(environment: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["submit", "demo", "--address", f"http://127.0.0.1:{free_port()}", "--", "true"]) == 1
    assert "dashboard does not answer" in capfd.readouterr().err


def test_what_answers_is_not_ray(environment: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with web_server() as address:
        assert main(["runs", "list", "demo", "--address", f"http://{address}"]) == 1
    assert "/api/jobs/ without JSON: 'ok'. Expected Ray's Jobs API" in capfd.readouterr().err


def test_what_git_ignores_is_not_packed(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("data/\n")
    (tmp_path / "train.py").write_text("1")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "big").write_text("2")
    assert [path.name for path in files_of(tmp_path)] == [".gitignore", "train.py"]
    # the same content, the same name
    assert pack(tmp_path)[0] == pack(tmp_path)[0]
    before = pack(tmp_path)[0]
    (tmp_path / "train.py").write_text("3")
    assert pack(tmp_path)[0] != before


ACCESS = """
  access:
    s3:
      - {bucket: sets, prefix: images/}
      - {bucket: runs, mode: write}
"""


@pytest.mark.parametrize(
    ("access", "arguments", "words"),
    [
        ("", ["--", "python", "train.py", "--storage", "s3://runs/a"], "{bucket: runs, prefix: a/, mode: write}"),
        ("", ["--", "sh", "-c", "python train.py --storage=s3://runs"], "{bucket: runs, mode: write}"),
        (ACCESS, ["--", "python", "train.py", "--storage", "s3://sets/images"], "may not write s3://sets/images"),
        (ACCESS, ["--", "python", "train.py", "--data", "s3://sets/texts/a"], "prefix: texts/a/, mode: read"),
        (ACCESS, ["--env", "DATA=s3://other", "--", "true"], "{bucket: other, mode: read}"),
        (ACCESS, ["--", "python", "train.py", "--writer", "tiered"], "set hyperpod.tiered_storage"),
        (
            ACCESS,
            ["--env", "MLFLOW_TRACKING_URI=arn:aws:sagemaker:us-west-2:1:mlflow-app/x", "--", "true"],
            "set ray.access.mlflow_arn: arn:aws:sagemaker:us-west-2:1:mlflow-app/x",
        ),
    ],
)
def test_what_the_pods_may_not_reach_is_refused_with_the_setting_that_is_missing(
    environment: Path, capfd: pytest.CaptureFixture[str], access: str, arguments: list[str], words: str
) -> None:
    file = environment.parent / "demo.yaml"
    file.write_text(file.read_text().rstrip() + access)
    assert main(["submit", "demo", "--address", "http://127.0.0.1:1", *arguments]) == 2
    assert words in capfd.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--", "python", "train.py", "--storage", "s3://runs/a", "--data", "s3://sets/images/b"],
        ["--", "python", "train.py", "--storage", "/fsx/runs"],
        ["--env", "TIERED_S3_BASE=s3://runs/tier", "--", "true"],
    ],
)
def test_what_they_may_reach_goes_on_to_the_dashboard(
    environment: Path, capfd: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    file = environment.parent / "demo.yaml"
    file.write_text(file.read_text().rstrip() + ACCESS)
    assert main(["submit", "demo", "--address", f"http://127.0.0.1:{free_port()}", *arguments]) == 1
    assert "dashboard does not answer" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--env", "NOVALUE", "--", "true"], "--env: 'NOVALUE'. Expected NAME=VALUE"),
        (["--working-dir", "/nowhere", "--", "true"], "Expected a folder"),
        (["--runtime-env", "/nowhere.yaml", "--", "true"], "/nowhere.yaml"),
        (["--address", "ray://x:1", "--", "true"], "Expected http://HOST:PORT"),
        ([], "Expected a command after --"),
    ],
)
def test_bad_use(environment: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    assert main(["submit", "demo", *arguments]) == 2
    assert words in capfd.readouterr().err
