# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.core import Plan, job_checks, job_file
from hyperpod_ray.core import load as load_environment
from hyperpod_ray.core.job import Job
from hyperpod_ray.core.loader import FOLDER, dotted
from tests.core.environment_files import plan as plan_of
from tests.core.job_files_helpers import load
from tests.core.three_parts import assert_form

GOOD = {"command": "python train.py", "name": "first", "workers": 4, "gpus_per_worker": 1}


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
    ("places that only autoscaling would bring", {**FREE, "ray/workers/0/max_replicas": 4}, {"workers": 9}, "has places for 8. Expected at most 8"),
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


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[2] / "jobs").glob("*/job.yaml")), ids=lambda path: path.parent.name
)
def test_the_job_file_of_a_recipe_is_whole(path: Path) -> None:
    found = job_file.load(path, {})
    plan = plan_of({"ray/access": {"s3": [{"bucket": "research-datasets"}]}})
    assert [*job_checks.run(plan, found.job), *job_checks.folders(found)] == []


@functools.cache
def plan() -> Plan:
    return load_environment("teams", folder=FOLDER / "examples").plan


def findings(**fields: Any) -> list[tuple[str, str, str]]:
    job = Job(**{"command": "python main.py", "team": "speech", "workers": 2, **fields})
    return [(str(one.path[0]), one.severity, one.message) for one in job_checks.run(plan(), job)]


def test_a_job_within_its_quota_says_nothing() -> None:
    assert findings() == []
    assert findings(priority="deadline", topology="layer-3", topology_required=True) == []


TEAM_CASES: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "no such team": ({"team": "visoin"}, "team", "error", "one of vision, speech. Fix: did you mean 'vision'?"),
    "a queue beside it": ({"queue": "other"}, "queue", "error", "the team's own, hyperpod-ns-speech-localqueue"),
    "no such priority": ({"priority": "dedline"}, "priority", "error", "did you mean 'deadline'?"),
    "no size": ({"workers": None}, "workers", "error", "not set, and the standing RayCluster"),
    "it borrows": ({"workers": 3}, "workers", "warning", "borrows 1 instances of ml.g5.8xlarge"),
    "more than it may borrow": (
        {"workers": 4},
        "workers",
        "error",
        "takes 4 instances of ml.g5.8xlarge, and team 'speech' has 2 and may borrow 1. Expected at most 3",
    ),
    "it may grow beyond what it may borrow": (
        {"workers": "1:4"},
        "workers",
        "error",
        "takes 4 instances of ml.g5.8xlarge, and team 'speech' has 2 and may borrow 1. Expected at most 3",
    ),
    "no team": ({"team": None, "cluster": "own"}, "cluster", "warning", "own, without a team"),
    "standing": ({"cluster": "standing"}, "team", "error", "speech on the standing RayCluster"),
    "topology of nobody": (
        {"team": None, "cluster": "own", "topology": "layer-1"},
        "topology",
        "error",
        "Kueue places pods by topology",
    ),
    "a requirement of nothing": ({"topology_required": True}, "topology_required", "error", "true without topology"),
}


@pytest.mark.parametrize("name", TEAM_CASES)
def test_what_the_queue_would_not_say(name: str) -> None:
    fields, path, severity, message = TEAM_CASES[name]
    found = [finding for finding in findings(**fields) if finding[0] == path and finding[1] == severity]
    assert any(message in said for _, _, said in found), findings(**fields)


def test_a_team_that_lends_only_has_its_quota_and_no_more() -> None:
    quota = [{"type": "ml.p5.48xlarge", "accelerators": 8}, {"type": "ml.m5.2xlarge", "vcpus": 4}]
    made = plan_of({"teams": [{"name": "a", "quota": quota, "sharing": "lend"}], "ray/workers/0/replicas": 0})
    job = Job(command="x", team="a", workers="9", gpus_per_worker=1)
    (found,) = [one for one in job_checks.run(made, job) if one.severity == "error"]
    assert "takes 2 instances of ml.p5.48xlarge, and team 'a' has 1. Expected at most 1:" in found.message
    eight = Job(command="x", team="a", workers="8", gpus_per_worker=1)
    assert not [one for one in job_checks.run(made, eight) if one.severity == "error"]
