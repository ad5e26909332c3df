"""`hyperpod-ray runs export`: here, from a pulled folder, and the line that a job gets; what comes out is loaded."""

from __future__ import annotations

import dataclasses
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import ROOT, job_environment
from safetensors.torch import load_file
from test_export import tiny_gpt, trained
from torch import nn

from hyperpod_ray.cli.main import main
from hyperpod_ray.core.job_file import JobFile
from hyperpod_ray.ops.orchestrators.eks import jobs
from hyperpod_ray.ops.orchestrators.run_list import Source
from hyperpod_ray.ops.runs import pull


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Here the commands run, with the project's environments."""
    monkeypatch.setenv("HYPERPOD_RAY_ENVIRONMENTS", str(ROOT / "environments"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def export(*words: str) -> int:
    return main(["runs", "export", "dev", *words])


def equal(model: nn.Module, folder: str) -> bool:
    written = load_file(f"{folder}/model.safetensors")
    own = model.state_dict()
    return bool(written) and all(torch.equal(own[name], tensor) for name, tensor in written.items())


@pytest.mark.slow
def test_a_run_of_this_machine_by_its_name(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = tiny_gpt()
    model.save_pretrained("base")
    trained(folder / "runs", model, name="first")
    assert export("first", "--here", "runs", "--to", "model", "--like", "base") == 0
    said = capfd.readouterr()
    assert said.out.splitlines()[-1] == "model" and "step-00000004" in said.err
    from transformers import AutoModelForCausalLM

    again = AutoModelForCausalLM.from_pretrained("model")
    assert all(torch.equal(again.state_dict()[name], tensor) for name, tensor in model.state_dict().items())
    assert export("first", "--here", "runs", "--to", "second", "--step", "2") == 0
    assert not equal(model, "second"), "an older step has other weights"


@pytest.mark.slow
def test_a_pulled_folder_has_a_name_of_its_own(folder: Path) -> None:
    model = nn.Linear(4, 4).to(torch.bfloat16)
    trained(folder / "runs", model, name="first")
    assert main(["runs", "pull", "dev", "first", "--here", "runs", "--to", "taken"]) == 0
    assert export("./taken", "--to", "model") == 0
    assert equal(model, "model")
    assert load_file("model/model.safetensors")["weight"].dtype == torch.bfloat16


@pytest.mark.slow
def test_a_run_elsewhere_is_copied_for_as_long_as_it_takes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    model = nn.Linear(4, 4)
    trained(folder / "runs", model, name="first")
    fetch, sources = pull.fetch, []

    def from_here(*positional: Any, source: Source, **named: Any) -> Any:
        sources.append(source)
        return fetch(*positional, source=dataclasses.replace(source, here=(folder / "runs",)), **named)

    monkeypatch.setattr(pull, "fetch", from_here)
    assert export("first", "--to", "model", "--address", "http://127.0.0.1:1") == 0
    assert equal(model, "model") and not Path("model.checkpoint").exists()
    assert sources[0].address == "http://127.0.0.1:1"
    # what fails keeps the copy, and the message's own line goes on from it
    assert export("first", "--to", "other", "--prefix", "wrong.") == 2
    assert Path("other.checkpoint", ".metadata").exists() and not Path("other").exists()
    assert "no tensor of the model begins with 'wrong.'" in capfd.readouterr().err
    assert export("first", "--to", "other") == 2
    fix = capfd.readouterr().err.partition("Fix: ")[2].partition(", or")[0]
    assert main(shlex.split(fix)[1:]) == 0
    assert equal(model, "other")


@pytest.mark.slow
def test_a_job_gets_a_line_that_does_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_gpt()
    base = folder / "a base"
    model.save_pretrained(base)
    run = trained(folder / "runs", model, name="first")
    submitted: list[JobFile] = []

    def submit(_: jobs.EksJobs, file: JobFile, **__: Any) -> int:
        submitted.append(file)
        return 0

    monkeypatch.setattr(jobs.EksJobs, "submit", submit)
    assert export(run, "--job", "--to", f"{folder}/model", "--like", str(base)) == 0
    (file,) = submitted
    words = shlex.split(str(file.job.command))
    assert words[0] == "python"
    done = subprocess.run([sys.executable, *words[1:]], env=job_environment(), cwd=ROOT, check=False)
    assert done.returncode == 0
    assert equal(model, str(folder / "model"))
    assert (folder / "model" / "config.json").exists()


@pytest.mark.parametrize(("words", "message"), [
    (["first", "--to", "model", "--python", "/none"], "/none: "),
    (["first", "--to", "there"], "there exists"),
    (["first", "--to", "model", "--job"], "--to: model is no folder of the cluster"),
    (["first", "--to", "/fsx/model", "--job", "--here", "."], "--here: without meaning with --job"),
    (["./taken", "--to", "model", "--step", "2"], "--step: without meaning for ./taken"),
    (["first", "--to", "model", "--best", "loss", "--step", "2"], "--best and --step: given together"),
    (["./none", "--to", "model"], "./none has no usable checkpoint"),
])  # fmt: skip
def test_what_is_refused(words: list[str], message: str, capfd: pytest.CaptureFixture[str]) -> None:
    Path("there").mkdir()
    assert export(*words) == 2
    said = capfd.readouterr().err
    assert message in said and "Fix: " in said and "Traceback" not in said
    assert not Path("model").exists()


def test_a_python_without_torch_says_what_it_needs(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    bare = folder / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    bare.chmod(0o755)
    assert export("./any", "--to", "model", "--python", str(bare)) == 2
    assert "No module named 'torch'" in capfd.readouterr().err
