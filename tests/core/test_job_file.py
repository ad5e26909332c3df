# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray.core import job_file
from hyperpod_ray.core.yaml_source import MAX_BYTES
from tests.core.job_files_helpers import load
from tests.core.three_parts import assert_form

GOOD = {"command": "python train.py", "name": "first", "workers": 4, "gpus_per_worker": 1}


def refusal(tmp_path: Path, text: str, options: dict[str, Any] | None = None) -> str:
    with pytest.raises(job_file.JobFileError) as caught:
        load(tmp_path, text, options)
    for problem in caught.value.problems:
        assert_form(problem)
    return str(caught.value)


def test_a_whole_file_is_read(tmp_path: Path) -> None:
    text = yaml.safe_dump(
        {
            **GOOD,
            "cluster": "own", "workers": "2:4", "image": f"quay.io/team/ray@{DIGEST}", "group": "gpu", "pod_gpus": 2,
            "pod_cpu": 8, "pod_memory_gib": 64, "working_dir": "code", "py_modules": ["lib"],
            "packages": ["transformers==4.57.1"], "env": {"EPOCHS": "3"}, "secrets": {"HF_TOKEN": "hugging-face/token"}, "notify": "chat/url",
            "storage": "s3://bucket/runs", "data": ["/fsx/data"], "retries": 2, "queue": "research", "priority": "high",
            "training": {"model": "llama-3.1-8b", "tokens": "1B"},
        }
    )  # fmt: skip
    found = load(tmp_path, text)
    assert found.job.sizes == (2, 4)
    assert found.job.folder == "s3://bucket/runs/first"
    assert found.local("working_dir", "code") == tmp_path / "code"
    assert found.job.variables == {
        "EPOCHS": "3", "RUN_NAME": "first", "RUN_STORAGE": "s3://bucket/runs", "RUN_WORKERS": "2:4",
        "RUN_GPUS_PER_WORKER": "1",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: x\ncomm_and: python a.py\n", "job.yaml:2: comm_and: unknown setting. Expected a setting of this section. "
         "Fix: did you mean 'command'?"),
        ("name: x\n", "job.yaml:1: command: required setting is missing"),
        ("command: a\nworkers: 0\n", "job.yaml:2: workers: '0'. Expected a number of workers"),
        ("command: a\nworkers: '4:'\n", "job.yaml:2: workers: '4:'. Expected a number of workers"),
        ("command: a\nworkers: 2:4\n", "job.yaml:2: workers: 2:4 means different things to different YAML readers"),
        ("command: a\nworkers: true\n", "job.yaml:2: workers: "),
        ("command: a\nenv: {A: 1}\n", "job.yaml:2: env.A: `1` is a number in YAML. Expected text. Fix: quote it: '1'"),
        ("command: a\nenv:\n  A-B: x\n", "job.yaml:3: env.A-B: 'A-B'. Expected the name of an environment variable"),
        ("command: a\nsecrets: {T: hf_abcdef}\n", "job.yaml:2: secrets.T: no reference (its value is not shown). Expected a reference to a secret"),
        ("command: a\npackages: [torch]\n", "job.yaml:2: packages[0]: 'torch'. Expected a Python package with its exact"),
        ("command: a\ncluster: new\n", "job.yaml:2: cluster: 'new'. Expected one of standing, own"),
        ("command: a\nstorage: runs\n", "job.yaml:2: storage: 'runs'. Expected a folder of the shared file system"),
        ("command: a\ntraining: {model: llama-3.1-8b}\n", "job.yaml:2: training.tokens: required setting is missing"),
        ("command: a\nretries: -1\n", "job.yaml:2: retries: -1 is too small. Expected 0 or more"),
        ("command: &x a\n", "job.yaml:1: command: anchor &x. Expected no anchors in job files"),
        ("- a\n", "job.yaml:1: (file): a list of 1. Expected fields of a job"),
        ("", "job.yaml:1: (file): the file is empty. Expected fields of a job"),
        ("command: [\n", "(file): not valid YAML"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    assert words in refusal(tmp_path, text)


def test_all_of_it_at_once(tmp_path: Path) -> None:
    said = refusal(tmp_path, "comm_and: a\nworkers: none\ncluster: new\n").splitlines()
    assert [line.rpartition("job.yaml")[2][:3] for line in said] == [":1:", ":2:", ":3:"]


def test_a_file_that_is_not_there_is_named_with_the_one_that_is(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("command: a\n")
    with pytest.raises(job_file.JobFileError, match=r"did you mean 'job\.yaml'\?"):
        job_file.load(tmp_path / "jop.yaml", {})
    with pytest.raises(job_file.JobFileError, match="not UTF-8"):
        (tmp_path / "bad.yaml").write_bytes(b"command: \xff\n")
        job_file.load(tmp_path / "bad.yaml", {})
    with pytest.raises(job_file.JobFileError, match=r"more than 1,000,000 bytes\. Expected a job file"):
        (tmp_path / "large.yaml").write_text("command: a\n" + "#" * MAX_BYTES)
        job_file.load(tmp_path / "large.yaml", {})
    with pytest.raises(job_file.JobFileError, match="cannot be read: is a directory"):
        job_file.load(tmp_path, {})


def test_options_replace_fields_and_add_to_mappings(tmp_path: Path) -> None:
    text = "command: a\nworkers: 2\nworking_dir: code\nenv: {A: x, B: y}\n"
    found = load(tmp_path, text, {"workers": "2:8", "env": {"B": "z"}, "working_dir": "other"})
    assert (found.job.workers, found.job.env) == ("2:8", {"A": "x", "B": "z"})
    assert found.local("working_dir", "other") == Path("other"), "an option's path is of the current folder"


def test_an_option_is_named_where_it_is_wrong(tmp_path: Path) -> None:
    assert refusal(tmp_path, "command: a\n", {"gpus_per_worker": -1}).startswith("--gpus-per-worker: -1 is too small")
    with pytest.raises(job_file.JobFileError, match=r"^--package \[0\]: 'torch'"):
        job_file.load(None, {"command": "a", "packages": ["torch"]})


DIGEST = f"sha256:{'0' * 64}"
