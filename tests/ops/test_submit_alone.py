"""`submit` without a Ray: a reply that is lost, and what is packed."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.core import job_file
from hyperpod_ray.core.job import Job
from hyperpod_ray.core.loader import parse
from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.jobs import own_cluster, submit
from hyperpod_ray.ops.jobs.submit import Packages
from hyperpod_ray.ops.reach import jobs_api
from hyperpod_ray.ops.reach.clients import Target
from tests.ops.world import environment_text


def posted(monkeypatch: pytest.MonkeyPatch, *answers: Exception | None) -> str:
    """What `post` makes of answers that come one after the other."""
    left = iter(answers)

    def answer(*_: Any, **__: Any) -> None:
        if (error := next(left)) is not None:
            raise error

    monkeypatch.setattr(
        "hyperpod_ray.ops.reach.jobs_api.time", SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda _: None)
    )
    jobs: Any = SimpleNamespace(json=answer)
    return jobs_api.post(jobs, {"submission_id": "mine"})


EXISTS = OpsError("the Jobs API answers 400: mine already exists", expected="x", fix="x")
LATER = OpsError("the Jobs API answers 500: try again later", expected="x", fix="x")


def test_a_job_is_submitted_once_though_a_reply_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    assert posted(monkeypatch, None) == "mine"
    assert posted(monkeypatch, ConnectionError("reset"), EXISTS) == "mine"
    assert posted(monkeypatch, LATER, None) == "mine"


def test_a_job_of_somebody_elses_is_not_taken_for_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OpsError, match="already exists"):
        posted(monkeypatch, EXISTS)
    with pytest.raises(OpsError, match="already exists"):
        posted(monkeypatch, LATER, EXISTS)


def target(more: str = "") -> Target:
    return Target(parse(environment_text() + more, name="demo", path=Path("demo.yaml")))


TRAINING = "training: {model: llama-3.2-1b, tokens: 1B, tokens_per_second: 3000, save_every_seconds: 90}\n"
REQUESTS: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "a command": (
        "",
        {},
        {},
        {"entrypoint": "a b", "runtime_env": {}, "metadata": {"environment": "demo", "command": "a b"}},
    ),
    "variables, of which the job's own have their way": (
        "",
        {"env": {"A": "job"}},
        {"env_vars": {"A": "file", "B": "file"}, "conda": "x"},
        {
            "entrypoint": "a b",
            "runtime_env": {"conda": "x", "env_vars": {"A": "job", "B": "file"}},
            "metadata": {"environment": "demo", "command": "a b"},
        },
    ),
    "a run": (
        "",
        {"name": "first", "storage": "/fsx/mine/"},
        {},
        {
            "entrypoint": "a b",
            "runtime_env": {"env_vars": {"RUN_NAME": "first", "RUN_STORAGE": "/fsx/mine/"}},
            "metadata": {"environment": "demo", "command": "a b", "run": "first", "run_folder": "/fsx/mine/first"},
        },
    ),
    "packages of Python": (
        "",
        {"packages": ["tqdm==4.66"]},
        {},
        {
            "entrypoint": "a b",
            "runtime_env": {"pip": {"packages": ["tqdm==4.66"], "pip_check": False}},
            "metadata": {"environment": "demo", "command": "a b"},
        },
    ),
    "secrets": (
        "",
        {"secrets": {"B": "s/k", "A": "t/k"}},
        {},
        {
            "entrypoint": "python -m hyperpod_ray_job.with_secrets -- sh -c 'a b'",
            "runtime_env": {
                "worker_process_setup_hook": "hyperpod_ray_job.with_secrets.load",
                "env_vars": {"HYPERPOD_RAY_SECRETS": '{"A": "t/k", "B": "s/k"}'},
            },
            "metadata": {"environment": "demo", "command": "a b"},
        },
    ),
    "seconds between checkpoints, as the file plans": (
        TRAINING,
        {},
        {},
        {
            "entrypoint": "a b",
            "runtime_env": {"env_vars": {"RESILIENCE_SAVE_EVERY_S": "90"}},
            "metadata": {"environment": "demo", "command": "a b"},
        },
    ),
    "unless the job counts steps": (
        TRAINING,
        {"command": "a --save-every-steps 5"},
        {},
        {
            "entrypoint": "a --save-every-steps 5",
            "runtime_env": {},
            "metadata": {"environment": "demo", "command": "a --save-every-steps 5"},
        },
    ),
    "or names its own": (
        TRAINING,
        {"env": {"RESILIENCE_SAVE_EVERY_S": "5"}},
        {},
        {
            "entrypoint": "a b",
            "runtime_env": {"env_vars": {"RESILIENCE_SAVE_EVERY_S": "5"}},
            "metadata": {"environment": "demo", "command": "a b"},
        },
    ),
}


@pytest.mark.parametrize("case", REQUESTS)
def test_the_request_to_the_jobs_api(case: str) -> None:
    """https://docs.ray.io/en/latest/cluster/running-applications/job-submission/api.html"""
    more, fields, runtime, request = REQUESTS[case]
    before = json.dumps(runtime)
    job = Job(**{"command": "a b", **fields})
    assert submit.request_of(target(more), job, runtime=runtime) == request
    assert submit.request_of(target(more), job, runtime=runtime, submission_id="mine") == {
        **request, "submission_id": "mine",
    }  # fmt: skip
    assert json.dumps(runtime) == before, "what the caller has stays as it was"


class Dashboard:
    """Ray's Jobs API as far as `submit` asks it; keeps what it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, ends: int | type[BaseException] = 0) -> None:
        self.done: list[Any] = []
        monkeypatch.setattr(submit, "require_dashboard", lambda jobs, *, environment: self.done.append(environment))
        monkeypatch.setattr(submit, "upload", self._upload)
        monkeypatch.setattr(submit, "post", self._post)
        monkeypatch.setattr(submit, "follow", self._follow)
        self.ends = ends

    def _upload(self, _jobs: Any, package: tuple[str, bytes], *, what: str) -> str:
        self.done.append((package[0], what))
        return f"gcs://{package[0]}"

    def _post(self, _jobs: Any, request: dict[str, Any]) -> str:
        self.done.append(request)
        return "job-1"

    def _follow(self, _jobs: Any, job: str, *, environment: str) -> int:
        if isinstance(self.ends, int):
            return self.ends
        raise self.ends


JOBS: Any = object()
REQUEST = {"entrypoint": "sh -c x", "runtime_env": {"py_modules": ["s3://a"]}, "metadata": {"command": "x"}}
PACKED = Packages(working_dir=("w.zip", b""), py_modules=(("m.zip", b""), ("n.zip", b"")))


def test_folders_are_uploaded_before_the_job_that_names_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ray = Dashboard(monkeypatch)
    assert submit.submit(JOBS, REQUEST, packages=PACKED, wait=False, environment="demo") == 0
    assert ray.done == [
        "demo", ("w.zip", "the working directory"), ("m.zip", "a Python package"), ("n.zip", "a Python package"),
        {**REQUEST, "runtime_env": {"working_dir": "gcs://w.zip", "py_modules": ["s3://a", "gcs://m.zip",
                                                                                "gcs://n.zip"]}},
    ]  # fmt: skip
    assert capsys.readouterr() == ("job-1\n", "submitted job-1: x\n")
    ray.done.clear()
    bare = {"entrypoint": "sh -c x", "runtime_env": {}, "metadata": {}}
    submit.submit(JOBS, bare, packages=Packages(), wait=False, environment="demo")
    assert ray.done == ["demo", bare]
    assert capsys.readouterr().err == "submitted job-1: sh -c x\n"


def test_who_follows_gets_the_jobs_own_end(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    Dashboard(monkeypatch, ends=7)
    assert submit.submit(JOBS, REQUEST, packages=Packages(), wait=True, environment="demo") == 7
    assert capsys.readouterr().out == ""
    Dashboard(monkeypatch, ends=KeyboardInterrupt)
    assert submit.submit(JOBS, REQUEST, packages=Packages(), wait=True, environment="demo") == 130
    assert capsys.readouterr().err.splitlines()[-1] == (
        "stopped following; job-1 continues. Follow it again: hyperpod-ray runs logs demo job-1 --follow"
    )


RUNTIMES: dict[str, tuple[str | None, str, str, str]] = {
    "no YAML": ("a: [", "while parsing a flow node", "a readable YAML file",
                "correct the file, or remove --runtime-env"),
    "no file": (None, "[Errno 2] No such file or directory: ", "a readable YAML file",
                "correct the file, or remove --runtime-env"),
    "a list": ("[1]", "list", "a mapping",
               "write it as in https://docs.ray.io/en/latest/ray-core/handling-dependencies.html"),
    "a secret": (
        "env_vars: {WANDB_API_KEY: 0123456789abcdef0123456789abcdef01234567}", "env_vars.WANDB_API_KEY looks like a "
        "secret", "a reference: everybody who reaches the dashboard reads env_vars",
        "remove it, and give --secret WANDB_API_KEY=NAME/KEY",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", RUNTIMES)
def test_a_runtime_env_that_cannot_be_used(case: str, tmp_path: Path) -> None:
    text, what, expected, fix = RUNTIMES[case]
    file = tmp_path / "runtime.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(OpsError) as refused:
        submit._given(file)
    assert refused.value.what.startswith(f"{file}: {what}")
    assert "0123456789" not in refused.value.message
    assert (refused.value.expected, refused.value.fix, refused.value.code) == (expected, fix, 2)


def test_a_runtime_env_is_rays_own(tmp_path: Path) -> None:
    file = tmp_path / "runtime.yaml"
    file.write_text("conda: x\nenv_vars: {A: b}\n")
    assert submit._given(file) == {"conda": "x", "env_vars": {"A": "b"}}
    file.write_text("")
    assert submit._given(file) == submit._given(None) == {}


@pytest.fixture
def code(tmp_path: Path) -> Path:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "main.py").write_text("print(1)\n")
    return tmp_path / "code"


def test_what_is_packed_for_a_job(code: Path) -> None:
    fields = {"command": "x", "working_dir": str(code), "py_modules": [str(code)]}
    packages = submit.packages_of(job_file.load(None, fields))
    assert packages.working_dir is not None and len(packages.py_modules) == 1
    assert packages.working_dir[0] != packages.py_modules[0][0], "a module is inside of its folder"
    secret = submit.packages_of(job_file.load(None, {**fields, "secrets": {"A": "s/k"}}))
    assert len(secret.py_modules) == 2, "what reads the secret travels with the job"
    assert submit.packages_of(job_file.load(None, {"command": "x"})) == Packages()


def test_a_job_on_the_standing_cluster_is_checked_estimated_and_submitted(
    code: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ray, asked = Dashboard(monkeypatch, ends=3), list[tuple[Target, str]]()

    @contextlib.contextmanager
    def jobs_of(of: Target, *, address: str) -> Iterator[Any]:
        asked.append((of, address))
        yield JOBS

    monkeypatch.setattr(submit, "jobs_of", jobs_of)
    file = job_file.load(None, {"command": "python main.py", "working_dir": str(code), "workers": "2"})
    demo = target()
    code_of_job = submit.run(demo, file, runtime_env=None, submission_id="mine", address="http://x:1", wait=True)
    assert code_of_job == 3
    assert asked == [(demo, "http://x:1")]
    request = ray.done[-1]
    assert (request["submission_id"], request["entrypoint"]) == ("mine", "python main.py")
    assert request["runtime_env"]["working_dir"].startswith("gcs://_ray_pkg_")
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("it takes 2 GPUs on 2 nodes ml.g5.8xlarge: ")
    assert said[1].startswith("when it ends is not known: no section training")


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({}, ""),
        ({"address": "http://x:1"}, "--address"),
        ({"runtime_env": Path("r.yaml")}, "--runtime-env"),
    ],
    ids=["neither", "address", "runtime-env"],
)
def test_a_job_with_a_cluster_of_its_own_takes_no_dashboard(
    code: Path, options: dict[str, Any], refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[Any] = []

    def own(of: Target, file: job_file.JobFile, *, name: str, wait: bool) -> int:
        done.append((of.name, file.job.command, name, wait))
        return 5

    monkeypatch.setattr(own_cluster, "submit", own)
    fields = {"command": "python main.py", "working_dir": str(code), "cluster": "own", "workers": "2"}
    arguments = {"runtime_env": None, "address": "", **options}
    file = job_file.load(None, fields)
    if not refused:
        assert submit.run(target(), file, submission_id="mine", wait=False, **arguments) == 5
        assert done == [("demo", "python main.py", "mine", False)]
        return
    with pytest.raises(OpsError) as error:
        submit.run(target(), file, submission_id="mine", wait=False, **arguments)
    assert (error.value.what, error.value.code) == (f"{refused}: with a cluster of the job's own", 2)
    assert error.value.expected == "the standing RayCluster, which is there before the job"
    assert error.value.fix == f"remove {refused}, or use cluster: standing"
    assert done == []
