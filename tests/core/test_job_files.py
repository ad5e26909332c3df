"""Job files: what is wrong is said with its place; what cannot work in the environment is refused before it runs."""

# ruff: noqa: E501  (a case of a table is one line, to be read across)

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from hyperpod_ray.core import job_checks, job_file, reference
from hyperpod_ray.core.job import Job
from hyperpod_ray.core.loader import dotted
from hyperpod_ray.core.plan import Plan
from tests.core.environment_files import judged, text_of
from tests.core.three_parts import assert_form

GOOD = {"command": "python train.py", "name": "first", "workers": 4, "gpus_per_worker": 1}


def plan_of(edits: dict[str, Any] | None = None) -> Plan:
    """The small good environment (four nodes with eight GPUs, all in use), changed."""
    file, problems = judged(text_of(edits or {}))
    assert file is not None, problems
    return file.plan


def load(tmp_path: Path, text: str, options: dict[str, Any] | None = None) -> job_file.JobFile:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    return job_file.load(path, options or {})


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


def test_every_field_is_in_the_whole_file_or_a_flag_of_submit() -> None:
    """The same fields as options: a field without one cannot be replaced."""
    import inspect

    from hyperpod_ray.cli import submit

    source = inspect.getsource(submit)
    assert [name for name in Job.model_fields if f'"{name}"' not in source] == ["training"]


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


ACCESS = {"ray/access": {"s3": [{"bucket": "sets", "prefix": "a/"}, {"bucket": "runs", "mode": "write"}]}}
ARN = "arn:aws:secretsmanager:us-west-2:123456789012:secret:hf-AbCdEf"
REPOSITORY = {"storage/data_repositories": [{"bucket": "buck", "path": "/data/sets"}]}
EXPORTED = {"storage/data_repositories": [{"bucket": "buck", "path": "/data/sets", "auto_export": ["NEW"]}]}
CPU = {"hyperpod/instance_groups/1/type": "ml.m5.2xlarge", "ray/workers/0/gpus": 0}
FREE = {"ray/workers/0/replicas": 1}
OWN = {"cluster": "own"}
DIGEST = f"sha256:{'0' * 64}"
OTHER = "210987654321.dkr.ecr.us-west-2.amazonaws.com"
CASES: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("more workers than places", {}, {"workers": 33}, "workers: 33 workers (1 GPU each)"),
    ("the least of an elastic size", {}, {"workers": "33:40"}, "has places for 32. Expected at most 32"),
    ("spares do not fit", {}, {"workers": 30, "spares": 3}, "spares: 3 beside 30 workers need 33 places"),
    ("spares of an elastic size", {}, {"workers": "2:4", "spares": 1}, "Expected 0 for a run that continues"),
    ("sizes the wrong way round", {}, {"workers": "4:2"}, "Expected MIN:MAX with MIN at most MAX"),
    ("no GPUs", CPU, {"workers": 1}, "gpus_per_worker: 1, and no worker group of 'test' has GPUs (gpu). Expected 0"),
    ("more GPUs than a pod has", {}, {"gpus_per_worker": 16}, "16, and a worker pod of 'test' has 8"),
    ("said twice", {}, {"command": "python a.py --workers 2"}, "workers: 4, and the command says --workers 2"),
    ("two names", {}, {"command": "python a.py --name=other"}, "name: first, and the command says --name other"),
    ("storage in the pod", {}, {"storage": "/tmp/runs"}, "storage: /tmp/runs is in the pod only"),
    ("storage that only begins alike", {}, {"storage": "/fsxruns"}, "storage: /fsxruns is in the pod only"),
    ("storage that leaves the mount", {}, {"storage": "/fsx/../tmp"}, "is in the pod only"),
    ("storage of the command", {}, {"command": "python a.py --storage /runs"}, "command: /runs is in the pod only"),
    ("storage for reading", REPOSITORY, {"storage": "/fsx/data/sets/x"}, "linked to s3://buck/ for reading"),
    ("storage in a foreign bucket", ACCESS, {"storage": "s3://sets/a"}, "storage: Ray's pods may not write s3://sets/a"),
    ("data in no file system", {}, {"data": ["/data"]}, "data[0]: /data is in no mounted file system"),
    ("data in a foreign bucket", ACCESS, {"data": ["/fsx/x", "s3://other"]}, "data[1]: Ray's pods may not read s3://other"),
    ("a variable that names a bucket", ACCESS, {"env": {"D": "s3://other"}}, "env.D: Ray's pods may not read"),
    ("a queue without a cluster", {}, {"queue": "q"}, "queue: q on the standing RayCluster. Expected a cluster of its"),
    ("retries without a cluster", {}, {"retries": 1}, "retries: 1 on the standing RayCluster"),
    ("an end without a cluster", {}, {"most_hours": 1.5}, "most_hours: 1.5 on the standing RayCluster"),
    ("a priority without a queue", {}, {"cluster": "own", "priority": "high"}, "priority: 'high' without a queue"),
    ("own: more than the nodes", {}, {"cluster": "own", "workers": 33}, "the nodes of 'test' have places for 32"),
    ("an image on the standing cluster", {}, {"image": f"docker.io/team/ray@{DIGEST}"}, "on the standing RayCluster, whose pods are there"),
    ("a part of a node on the standing cluster", {}, {"pod_gpus": 2}, "pod_gpus: 2 on the standing RayCluster"),
    ("a group that is not there", {}, {**OWN, "group": "gpus"}, "group: 'gpus' is no worker group of 'test'. Expected one of gpu. Fix: did you mean 'gpu'?"),
    ("more GPUs than a node has", {}, {**OWN, "pod_gpus": 9}, "pod_gpus: 9, and a node of no group has more than 8"),
    ("more memory than a node has", {}, {**OWN, "group": "gpu", "pod_memory_gib": 3000}, "pod_memory_gib: 3000, and a node of its group has room for"),
    ("a size of pods without workers", {}, {**OWN, "workers": None, "pod_cpu": 4}, "workers: not set, and pod_cpu chooses pods"),
    ("workers larger than its pods", {}, {**OWN, "pod_gpus": 2, "gpus_per_worker": 4}, "gpus_per_worker: 4, and a worker pod of 'test' has 2"),
    ("more pods than nodes have room for", {}, {**OWN, "pod_gpus": 3, "gpus_per_worker": 3, "workers": 9}, "the nodes of 'test' have places for 8"),
    ("an image that nodes may not pull", {}, {**OWN, "image": f"{OTHER}/secret/ray@{DIGEST}"}, f"image: the nodes of 'test' may not pull from {OTHER}/secret/ray"),
    ("an image of elsewhere in a closed network", {"network/egress": "closed", "registries/mirror": True},
     {**OWN, "image": f"quay.io/team/ray@{DIGEST}"}, "image: quay.io is out of reach of a closed network"),
    ("packages in a closed network", {"network/egress": "closed", "registries/mirror": True},
     {"packages": ["a==1"]}, "packages: a==1, and network.egress of 'test' is closed"),
    ("a token as a variable", {}, {"env": {"HF_TOKEN": "abc"}}, "env.HF_TOKEN: looks like a secret"),
    ("a token by its form", {}, {"env": {"X": f"hf_{'a' * 34}"}}, "env.X: looks like a secret"),
    ("a token in the command", {}, {"command": "python a.py --api-key abc"}, "command: the value of --api-key looks like"),
    ("a token as a word", {}, {"command": f"python a.py hf_{'a' * 34}"}, "command: a word looks like a secret"),
    ("a reserved variable", {}, {"env": {"RAY_ADDRESS": "x"}}, "env.RAY_ADDRESS: is not yours to set"),
    ("a secret that is not mounted", {}, {"secrets": {"T": "hf/token"}}, "the pods of the standing RayCluster do not mount"),
    ("a secret that is nearly so", {"ray/secrets": ["hugging-face"]}, {"secrets": {"T": "huging-face/token"}},
     "Expected one of ray.secrets (hugging-face). Fix: did you mean 'hugging-face'?"),
    ("a secret of AWS", {}, {"secrets": {"T": ARN}}, f"secrets.T: Ray's pods may not read {ARN}"),
    ("a webhook that is not mounted", {}, {"notify": "chat/url"}, "notify: chat/url: the pods of the standing RayCluster do not mount Secret 'chat'"),
    ("a webhook of AWS", {}, {**OWN, "notify": ARN}, f"notify: Ray's pods may not read {ARN}"),
    ("a webhook out of reach", {"network/egress": "closed", "registries/mirror": True}, {**OWN, "notify": "chat/url"}, "the job reaches no webhook"),
    ("a webhook's address as a variable", {}, {"env": {"HYPERPOD_RAY_NOTIFY_URL": "https://a.example"}}, "env.HYPERPOD_RAY_NOTIFY_URL: is not yours to set"),
    ("in both", {"ray/secrets": ["hf"]}, {"secrets": {"T": "hf/t"}, "env": {"T": "x"}}, "secrets.T: is in env too"),
]  # fmt: skip
FINE: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("as it is", {}, {}),
    ("all places", {}, {"workers": 32}),
    ("spares that fit", {}, {"workers": 30, "spares": 2}),
    ("two GPUs each", {}, {"workers": 16, "gpus_per_worker": 2}),
    ("on CPU", CPU, {"workers": 2, "gpus_per_worker": 0}),
    ("below the mount", {}, {"storage": "/fsx/a/../b"}),
    ("in S3", ACCESS, {"storage": "s3://runs/x", "data": ["s3://sets/a/b", "/fsx/data"]}),
    ("own, beside the standing one", FREE, {"cluster": "own", "workers": 24, "queue": "q", "priority": "high"}),
    ("own, two pods on a node", {**FREE, "ray/workers/0/gpus": 4}, {"cluster": "own", "workers": 24}),
    ("own, eight pods on two nodes", FREE, {**OWN, "pod_gpus": 2, "gpus_per_worker": 2, "workers": 8}),
    ("own, an image that nodes may pull", {**FREE, "registries/pull_from": [f"{OTHER}/team/*"]}, {**OWN, "image": f"{OTHER}/team/ray@{DIGEST}"}),
    ("own, a webhook", FREE, {**OWN, "notify": "chat/url"}),
    ("own, an image of the internet", FREE, {**OWN, "image": f"quay.io/team/ray@{DIGEST}"}),
    ("below a link that exports", EXPORTED, {"storage": "/fsx/data/sets/x"}),
    ("a mounted secret", {"ray/secrets": ["hf"]}, {"secrets": {"HF_TOKEN": "hf/token"}}),
    ("any secret in a cluster of its own", FREE, {"cluster": "own", "secrets": {"HF_TOKEN": "hf/token"}}),
    ("a secret of AWS that pods may read", {"ray/access": {"secret_arns": [ARN]}}, {"secrets": {"T": f"{ARN}#field"}}),
    ("words about tokens", {}, {"command": "python a.py --max-tokens 100 --tokenizer x", "env": {"MAX_TOKENS": "5"}}),
    ("a shell", {}, {"command": "sh -c 'python a.py && echo \"it'\"'\"'s done\"'"}),
]  # fmt: skip


@pytest.mark.parametrize(("edits", "fields", "words"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_what_cannot_work_is_refused(edits: dict[str, Any], fields: dict[str, Any], words: str) -> None:
    job = job_file.load(None, {**GOOD, **fields})
    findings = job_checks.run(plan_of(edits), job.job)
    for finding in findings:
        assert_form(finding)
    said = [f"{dotted(f.path)}: {f.message}" for f in findings if f.severity == "error"]
    assert any(words in line for line in said), said


@pytest.mark.parametrize(("edits", "fields"), [case[1:] for case in FINE], ids=[case[0] for case in FINE])
def test_what_works_is_not(edits: dict[str, Any], fields: dict[str, Any]) -> None:
    job = job_file.load(None, {**GOOD, **fields})
    assert [str(f.message) for f in job_checks.run(plan_of(edits), job.job)] == []


def test_what_waits_or_is_never_reached_is_a_warning() -> None:
    own = job_file.load(None, {**GOOD, "cluster": "own", "workers": 8}).job
    (found,) = job_checks.run(plan_of(), own)
    assert (found.severity, found.path) == ("warning", ("cluster",))
    assert "needs 1 pods of group 'gpu', the standing RayCluster keeps 4, and the nodes have room for 4" in found.what
    most = job_file.load(None, {**GOOD, "workers": "4:64"}).job
    (found,) = job_checks.run(plan_of(), most)
    assert (found.severity, found.what[:31]) == ("warning", "never more than 32 of 64 worker")


def test_pods_of_a_cluster_of_its_own() -> None:
    def pods(**fields: Any) -> dict[str, tuple[int, int]]:
        return job_checks.pods_for(plan_of(), job_file.load(None, {"command": "a", "cluster": "own", **fields}).job)

    assert pods() == {"gpu": (4, 4)}
    assert pods(workers="9:16") == {"gpu": (2, 2)}
    assert pods(workers=8, spares=8) == {"gpu": (2, 2)}
    assert pods(workers=3, gpus_per_worker=8) == {"gpu": (3, 3)}


def test_folders_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    text = "command: a\nworking_dir: code\npy_modules: [empty]\n"
    found = load(tmp_path, text)
    said = [str(problem) for problem in found.located(job_checks.folders(found))]
    assert len(said) == 2
    assert "job.yaml:2: working_dir: " in said[0]
    assert "job.yaml:3: py_modules[0]: " in said[1]
    (tmp_path / "code").mkdir()
    (tmp_path / "empty" / "__init__.py").write_text("")
    assert found.located(job_checks.folders(found)) == []


def test_the_schema_for_editors_is_that_of_the_model() -> None:
    schema = json.loads(reference.job_schema())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for good in ({"command": "a", "workers": 4}, {"command": "a", "workers": "2:4"}, {**GOOD, "data": ["s3://bucket"]}):
        assert list(validator.iter_errors(good)) == []
    for bad in ({}, {"command": "a", "workers": 0}, {"command": "a", "x": 1}, {"command": "a", "secrets": {"T": "v"}}):
        assert list(validator.iter_errors(bad))


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[2] / "jobs").glob("*/job.yaml")), ids=lambda path: path.parent.name
)
def test_the_job_file_of_a_recipe_is_whole(path: Path) -> None:
    found = job_file.load(path, {})
    plan = plan_of({"ray/access": {"s3": [{"bucket": "research-datasets"}]}})
    assert [*job_checks.run(plan, found.job), *job_checks.folders(found)] == []
