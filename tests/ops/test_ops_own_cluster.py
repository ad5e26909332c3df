"""A job on a RayCluster of its own, under the model of KubeRay's operator: created, explained, followed, deleted."""

from __future__ import annotations

import base64
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.core.job_file import load
from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.jobs import job_object, own_cluster
from hyperpod_ray.ops.observe import queues
from hyperpod_ray.ops.orchestrators.eks import runs
from hyperpod_ray.ops.reach.clients import target as target_of
from tests.ops.world import World

Json = dict[str, Any]
JOBS = "/apis/ray.io/v1/namespaces/ray/rayjobs"


def deployment(world: World, name: str) -> str:
    return str((world.get(f"{JOBS}/{name}").get("status") or {}).get("jobDeploymentStatus") or "")


def named(world: World, path: str) -> list[str]:
    return [str(one["metadata"]["name"]) for one in world.get(path)["items"]]


def end(world: World, name: str, **status: str) -> None:
    """What the operator says when Ray says that the job has ended; the model of the operator runs no job."""
    body = {"status": status}
    world.request("PATCH", f"{JOBS}/{name}/status", body, content_type="application/merge-patch+json")


@pytest.mark.emulator
@pytest.mark.slow
def test_a_job_has_a_cluster_of_its_own_from_its_creation_to_its_end(  # noqa: PLR0915 - one story
    faults: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three nodes, two of them with pods of the standing cluster: one job runs, the second says why it waits."""
    code = tmp_path / "code"
    code.mkdir()
    (code / "main.py").write_text("print(1)\n")
    job = tmp_path / "job.yaml"
    job.write_text(
        "name: first_run\ncommand: python main.py --steps 3\ncluster: own\nworkers: 1\ngpus_per_worker: 1\n"
        "working_dir: code\nsecrets: {HF_TOKEN: hugging-face/token}\n"
    )
    submit = ("submit", faults.name, "-f", str(job), "--no-wait", "--submission-id")
    done = faults.ops(*submit, "one")
    assert done.code == 0, done.err
    try:
        assert done.out.strip() == "one"
        assert "it takes 1 GPU on 1 node ml.g5.8xlarge" in done.err
        faults.until(lambda: deployment(faults, "one") == "Running", "its cluster is ready")
        item = faults.get(f"{JOBS}/one")
        cluster = item["status"]["rayClusterName"]
        pods = faults.get(f"/api/v1/namespaces/ray/pods?labelSelector=ray.io/cluster={cluster}")["items"]
        roles = sorted(pod["metadata"]["labels"]["ray.io/node-type"] for pod in pods)
        assert roles == ["head", "worker"]
        standing = faults.get("/apis/ray.io/v1/namespaces/ray/rayclusters/ray")
        image = standing["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["image"]
        assert {pod["spec"]["containers"][0]["image"] for pod in pods} == {image}
        found = faults.get("/api/v1/namespaces/ray/configmaps/one-code")
        assert found["metadata"]["ownerReferences"][0]["uid"] == item["metadata"]["uid"]
        archive = zipfile.ZipFile(io.BytesIO(base64.b64decode(found["binaryData"]["code.zip"])))
        assert {"main.py", "hyperpod_ray_job/with_secrets.py"} <= set(archive.namelist())
        assert "secretKeyRef" in json.dumps(item)

        # the same name again is refused, and nothing of the first is touched
        again = faults.ops(*submit, "one")
        assert again.code == 2
        assert "a job called 'one' exists" in again.err
        assert faults.get("/api/v1/namespaces/ray/configmaps/one-code")["metadata"]["uid"] == found["metadata"]["uid"]

        # the second one waits, and for what
        assert faults.ops(*submit, "two").code == 0
        waits: list[str] = []

        faults.until(lambda: deployment(faults, "two") == "Initializing", "the second is accepted")
        for key, value in faults.environ().items():
            monkeypatch.setenv(key, value)
        target = target_of(faults.name, folder=faults.folder)

        def reason() -> bool:
            found = queues.why_it_waits(target, own_cluster.find(target, "two"))
            waits[:] = [str(found)]
            return found is not None and "find no node (group workers)" in found.what

        faults.until(reason, "the second says why")
        assert f"RayCluster {cluster} has 1, RayCluster ray has 2" in waits[0]
        listed = {run.id: run for run in runs.own_runs(target)}
        assert "find no node" in listed["two"].waits
        assert (listed["one"].waits, listed["one"].name, listed["one"].folder) == (
            "",
            "first_run",
            "/fsx/runs/first_run",
        )
        assert listed["one"].command == "python main.py --steps 3"
        assert "HF_TOKEN" in listed["one"].variables
        queued = queues.why_it_waits(
            target, {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "q"}}, "spec": {"suspend": True}}
        )
        assert str(queued) == "queue 'q' has not admitted it"

        # followed to its end, with the driver's own exit code
        end(faults, "one", jobStatus="FAILED", jobDeploymentStatus="Failed",
            message="Job entrypoint command failed with exit code 7, last available logs: x")  # fmt: skip
        followed = faults.ops("runs", "logs", faults.name, "one", "--follow")
        assert followed.code == 7, followed.err
        assert "one FAILED: Job entrypoint command failed with exit code 7" in followed.err

        # stopped: the RayJob, its cluster and its code go
        assert faults.ops("runs", "stop", faults.name, "two").code == 2, "nobody is asked here"
        stopped = faults.ops("runs", "stop", faults.name, "two", "--yes")
        assert stopped.code == 0, stopped.err
        assert named(faults, JOBS) == ["one"]
    finally:
        for one in faults.get(JOBS)["items"]:
            faults.request("DELETE", f"{JOBS}/{one['metadata']['name']}")
        faults.until(lambda: not faults.get(JOBS)["items"], "no job is left")
    assert [one["metadata"]["name"] for one in faults.get("/apis/ray.io/v1/namespaces/ray/rayclusters")["items"]] == [
        "ray"
    ]
    maps = "/api/v1/namespaces/ray/configmaps"
    faults.until(lambda: not any(name.endswith("-code") for name in named(faults, maps)), "no code is left")


@pytest.mark.emulator
@pytest.mark.slow
def test_a_queue_that_does_not_exist_is_refused_before_anything_is_created(faults: World) -> None:
    submit = ("submit", faults.name, "--cluster", "own", "--workers", "1", "--queue", "research")
    done = faults.ops(*submit, "--", "python", "main.py")
    assert done.code == 2
    assert "queue: 'research', and the cluster has no Kueue" in done.err
    assert faults.get(JOBS)["items"] == []
    for option in (("--address", "http://127.0.0.1:1"), ("--runtime-env", "x.yaml")):
        done = faults.ops("submit", faults.name, "--cluster", "own", *option, "--", "true")
        assert done.code == 2
        assert f"{option[0]}: with a cluster of the job's own" in done.err


def test_two_files_of_one_name_and_too_much_code_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("code", "lib"):
        (tmp_path / name / "helper").mkdir(parents=True)
        (tmp_path / name / "helper" / "__init__.py").write_text("")
    fields = {"command": "x", "working_dir": str(tmp_path / "code")}
    assert job_object.code_of(load(None, fields)) == job_object.code_of(load(None, fields))
    with pytest.raises(OpsError, match=r"helper/__init__\.py: in two of the job's folders"):
        job_object.code_of(load(None, {**fields, "py_modules": [str(tmp_path / "lib" / "helper")]}))
    (tmp_path / "code" / "data").write_bytes(os.urandom(1_100_000))
    with pytest.raises(OpsError, match="at most 1,000,000, which a ConfigMap takes"):
        job_object.code_of(load(None, fields))


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ({"jobStatus": "SUCCEEDED", "message": "exit code 7"}, 0),
        ({"jobStatus": "FAILED", "message": "Job entrypoint command failed with exit code 3, logs"}, 3),
        ({"jobStatus": "FAILED", "message": "the node died"}, None),
        ({"jobStatus": "RUNNING", "message": "exit code 7"}, None),
        ({}, None),
    ],
)
def test_the_exit_code_of_the_driver(status: Json, code: int | None) -> None:
    assert own_cluster.exit_code(status) == code


@pytest.mark.parametrize("name", ["First_Run", "9", "-", "x" * 80, "llama.8b", ""])
def test_names_of_ray_jobs_are_labels(name: str) -> None:
    import re

    from hyperpod_ray.core.job import Job

    made = own_cluster._name(Job.model_construct(name=name or None, command="x"))
    assert re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", made)
    assert len(made) <= 47
