"""`submit` against a real Ray head with token authentication, and what it packs."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.cli.main import main
from hyperpod_ray.core import names
from hyperpod_ray.core.job_file import load
from hyperpod_ray.ops import in_ray
from hyperpod_ray.ops.in_ray import runs, with_secrets
from hyperpod_ray.ops.jobs import job_object
from hyperpod_ray.ops.jobs.packing import files_of, pack
from hyperpod_ray.ops.reach.jobs_api import Jobs
from tests.ops.ray_head import COMMAND, OWN_RUN, RAY, Head
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
    # /fsx is a folder of the test
    monkeypatch.setattr("hyperpod_ray.core.job_checks._below_mount", lambda place: place == str(tmp_path))
    head = {"namespace": "ray", "selector": "ray.io/node-type=head", "port": 8265}
    faults.request("POST", "/rehearsal/bridges", {**head, "to": ray.url.removeprefix("http://")})
    try:
        # the image has `resilience` installed
        result = faults.ops("submit", faults.name, "--env", f"PYTHONPATH={ROOT}", *shlex.split(line))
        seen = faults.ops("status", faults.name, "-o", "json").json
    finally:
        faults.request("DELETE", "/rehearsal/bridges")
    assert result.code == 0, result.out + result.err
    assert "SUCCEEDED" in result.err
    kinds = [json.loads(line)["kind"] for line in (tmp_path / "first" / "events.jsonl").read_text().splitlines()]
    assert kinds.count("step") == 3
    assert "save" in kinds
    # `status` sees it by a forward of its own, with the RayCluster's token
    assert not [item for item in seen["unseen"] if item["source"] == "Ray jobs"], seen["unseen"]
    run = next(run for run in seen["runs"] if run["name"] == "first")
    assert (run["state"], run["step"], run["last_checkpoint_step"]) == ("done", 3, 3)
    kinds = [event["kind"] for event in run["events"]]
    assert (kinds[0], kinds[-1]) == ("start", "done")
    assert "save" in kinds
    job = next(job for job in seen["jobs"] if job["id"] == run["job"])
    assert (job["state"], job["run"]) == ("SUCCEEDED", "first")


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
    options = ("--no-wait", "--submission-id", "long-run", "--env", "WHO=hidden", *here)
    assert main(["submit", "demo", *options, "--", *sleeper]) == 0
    capfd.readouterr()
    until(lambda: "begun" in data("show", "demo", "long-run")["log_tail"])
    seen = data("show", "demo", "long-run")
    assert (seen["state"], seen["exit_code"], seen["variables"]) == ("RUNNING", None, ["WHO"])
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


SENTINEL = "s3ntinel-of-a-secret-0123456789"


@pytest.mark.rehearsal
@pytest.mark.slow
def test_a_job_file_with_options_and_secrets(
    environment: Path, dashboard: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`submit -f job.yaml --secret`: driver and worker have the value, and nothing else does."""
    file = environment.parent / "demo.yaml"
    file.write_text(file.read_text() + "  secrets: [hugging-face]\n")
    mounted = environment.parent / "mounted"
    (mounted / "hugging-face").mkdir(parents=True)
    (mounted / "hugging-face" / "token").write_text(f"{SENTINEL}\n")
    (environment / "train.py").write_text(
        "import hashlib, json, os, pathlib, ray\n"
        "def text(path):\n"
        "    try:\n"
        "        return path.read_bytes()\n"
        "    except OSError:\n"
        "        return b''\n"
        "def seen():\n"
        "    lines = [text(path) for path in pathlib.Path('/proc').glob('[0-9]*/cmdline')]\n"
        "    value = os.environ['HF_TOKEN']\n"
        "    return hashlib.sha256(value.encode()).hexdigest(), any(value.encode() in line for line in lines)\n"
        "ray.init()\n"
        "print('driver', *seen()); print('worker', *ray.get(ray.remote(num_cpus=0)(seen).remote()))\n"
        "import helper; print('module', helper.ONE)\n"
    )
    (environment.parent / "lib" / "helper").mkdir(parents=True)
    (environment.parent / "lib" / "helper" / "__init__.py").write_text("ONE = 1\n")
    job = environment / "job.yaml"
    job.write_text(
        "name: with-secret\ncommand: python train.py\nworking_dir: .\npy_modules: [../lib/helper]\n"
        f"env: {{HYPERPOD_RAY_SECRETS_FOLDER: {mounted}}}\n"
    )
    here = ("--address", dashboard, "--secret", "HF_TOKEN=hugging-face/token", "--submission-id", "secret-run")
    assert main(["submit", "demo", "-f", str(job), *here]) == 0
    out, err = capfd.readouterr()
    import hashlib

    digest = hashlib.sha256(SENTINEL.encode()).hexdigest()
    assert f"driver {digest} False" in out
    assert f"worker {digest} False" in out
    assert "module 1" in out
    jobs = Jobs(dashboard, token=os.environ["RAY_AUTH_TOKEN"])
    for path in ("/api/jobs/", "/api/jobs/secret-run", "/api/jobs/secret-run/logs", "/api/v0/workers", "/api/v0/tasks",
                 "/api/v0/actors?detail=1", "/api/v0/runtime_envs?detail=1"):  # fmt: skip
        status, raw = jobs.call("GET", path)
        assert status == 200, path
        assert SENTINEL.encode() not in raw, path
    assert SENTINEL not in out + err
    logs = Path(f"/tmp/r{os.getpid()}-")
    found = [path for path in Path("/tmp").glob(f"{logs.name}*/session_latest/logs/**/*") if path.is_file()]
    assert found, "Ray's own logs"
    assert not [path for path in found if SENTINEL.encode() in path.read_bytes()]
    # a secret that is not there ends the job with one line that names it
    (mounted / "hugging-face" / "token").unlink()
    assert main(["submit", "demo", "-f", str(job), *here[:-1], "secret-missing"]) == 2
    assert "secret hugging-face/token" in capfd.readouterr().out


@pytest.mark.rehearsal
@pytest.mark.slow
def test_the_operators_command_runs_the_jobs_own(ray: Head, tmp_path: Path) -> None:
    """`ray job submit` as KubeRay's submitter writes it, with the code of the ConfigMap, through all its shells."""
    (ray.home / OWN_RUN).mkdir()
    (ray.home / OWN_RUN / "progress.json").write_text('{"last_step": 7}')
    code = tmp_path / "code"
    code.mkdir()
    (code / "main.py").write_text("import sys, helper\nprint('got', sys.argv[1:], helper.ONE)\n")
    (tmp_path / "lib" / "helper").mkdir(parents=True)
    (tmp_path / "lib" / "helper" / "__init__.py").write_text("ONE = 1\n")
    file = load(None, {"command": COMMAND, "working_dir": str(code), "py_modules": [str(tmp_path / "lib" / "helper")]})
    (tmp_path / "code.zip").write_bytes(job_object.code_of(file))
    runtime = json.dumps({"working_dir": str(tmp_path / "code.zip")})
    quoted = '"' + runtime.replace("\\", "\\\\").replace('"', '\\"') + '"'  # Go's strconv.Quote
    at = f"--address {ray.url}"
    script = f"{RAY} job submit {at} --no-wait --runtime-env-json {quoted} --submission-id own-code -- "
    script += f"{in_ray.COMMAND} ; {RAY} job logs {at} --follow own-code"
    environ = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": ray.token}
    environ["PATH"] = f"{RAY.parent}:{os.environ['PATH']}"
    shell = ["/bin/sh", "-c", script]
    done = subprocess.run(shell, env=environ, capture_output=True, text=True, timeout=1800, check=False)
    assert f"got ['two words', '{os.environ['HOME']}'] 1" in done.stdout, done.stdout + done.stderr
    assert "piped" in done.stdout
    (line,) = [line for line in done.stdout.splitlines() if line.startswith(runs.MARK)]
    assert json.loads(line.removeprefix(runs.MARK))[0]["progress"] == {"last_step": 7}, "the last report is in the log"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--env", f"HF_TOKEN={SENTINEL}", "--", "true"],
        ["--secret", f"HF_TOKEN={SENTINEL}", "--", "true"],
        ["--", "python", "train.py", "--api-key", SENTINEL],
        ["--runtime-env", "RUNTIME", "--", "true"],
        ["-f", "JOB"],
    ],
)
def test_a_secret_is_refused_and_not_repeated(
    environment: Path, capfd: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    (environment / "runtime.yaml").write_text(f"env_vars: {{WANDB_API_KEY: {SENTINEL}}}\n")
    (environment / "job.yaml").write_text(f"command: 'true'\nenv: {{WANDB_API_KEY: {SENTINEL}}}\n")
    files = {"RUNTIME": str(environment / "runtime.yaml"), "JOB": str(environment / "job.yaml")}
    given = [files.get(word, word) for word in arguments]
    assert main(["submit", "demo", "--address", "http://127.0.0.1:1", *given]) == 2
    out, err = capfd.readouterr()
    assert SENTINEL not in out + err


def test_what_is_wrong_in_a_job_file_is_said_before_anything_is_asked(
    environment: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    job = environment / "job.yaml"
    job.write_text("command: python train.py\nworkers: 3\ngpus_per_worker: 1\nworking_dir: nowhere\n")
    assert main(["submit", "demo", "-f", str(job)]) == 2
    said = capfd.readouterr().err
    assert "job.yaml:2: workers: 3 workers (1 GPU each), and the standing RayCluster of 'demo' has places for 2" in said
    assert "job.yaml:4: working_dir: " in said


def test_the_estimate_of_a_job(environment: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = environment.parent / "demo.yaml"
    file.write_text(file.read_text() + "training: {model: llama-3.2-1b, tokens: 1B, tokens_per_second: 3000}\n")
    arguments = ["--workers", "2", "--gpus-per-worker", "1", "--address", f"http://127.0.0.1:{free_port()}", "--", "a"]
    assert main(["submit", "demo", *arguments]) == 1
    said = capfd.readouterr().err
    assert "it takes 2 GPUs on 2 nodes ml.g5.8xlarge: " in said
    assert "it ends in about " in said
    assert main(["submit", "demo", *arguments[4:]]) == 1
    assert "it takes 2 GPUs on 2 nodes" in capfd.readouterr().err, "without a size: all of the cluster's"


def test_both_sides_call_the_variable_alike() -> None:
    assert in_ray.SECRETS_VARIABLE == with_secrets.VARIABLE
    assert with_secrets.SECRETS_FOLDER == names.SECRETS_PATH
    assert in_ray.RUN_FOLDER_VARIABLE == with_secrets.RUN_FOLDER_VARIABLE
    assert in_ray.COMMAND_VARIABLE == with_secrets.COMMAND_VARIABLE


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
    with web_server(ray=False) as address:
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
