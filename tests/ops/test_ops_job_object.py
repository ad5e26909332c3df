"""A RayJob that `submit` creates, by the rules of Kubernetes and KubeRay: mounts, variables, sizes, deletion."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from hyperpod_ray.core.job import Job
from hyperpod_ray.ops.jobs import job_object
from tests.k8s import test_k8s_team_jobs as teams

Json = dict[str, Any]
TEAM_CLAIMS = {"team-files", "team-files-shared", "team-files-data"}


def pods(job: Json) -> Iterator[tuple[str, Json]]:
    for name, template in teams.templates(job).items():
        yield name, template["spec"]


JOBS: dict[str, Json] = {
    "of a team": {},
    "of a team, with its own size": {"workers": "2", "gpus_per_pod": 1},
    "standing": {"team": None, "cluster": "own"},
    "with secrets": {
        "secrets": {"HUB": "hub/token", "X": "arn:aws:secretsmanager:us-west-2:111122223333:secret:x-AbCdEf"}
    },
}


def job_of(name: str) -> Json:
    fields = dict(JOBS[name])
    fields.pop("gpus_per_pod", None)
    return teams.made(**fields)


@pytest.mark.parametrize("name", JOBS)
def test_every_mount_has_its_volume_and_every_name_is_there_once(name: str) -> None:
    """https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#PodSpec"""
    for part, pod in pods(job_of(name)):
        volumes = [volume["name"] for volume in pod.get("volumes") or []]
        assert len(volumes) == len(set(volumes)), part
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            mounts = container.get("volumeMounts") or []
            assert {mount["name"] for mount in mounts} <= set(volumes), part
            paths = [mount["mountPath"] for mount in mounts]
            assert len(paths) == len(set(paths)), part
            variables = [variable["name"] for variable in container.get("env") or []]
            assert len(variables) == len(set(variables)), (part, variables)


def test_a_teams_pods_have_the_teams_user_and_folders_and_no_others() -> None:
    job, standing = job_of("of a team"), dict(pods(job_of("standing")))
    numbers = set()
    for part, pod in pods(job):
        context = pod["securityContext"]
        numbers.add((context["runAsUser"], context["runAsGroup"]))
        assert context["runAsUser"] >= 1000, part
        assert context["supplementalGroups"] == [100], "the image's files are readable for group 100"
        claims = {v["persistentVolumeClaim"]["claimName"] for v in pod["volumes"] if "persistentVolumeClaim" in v}
        own_claims = {v["name"] for v in standing[part]["volumes"] if "persistentVolumeClaim" in v}
        assert claims == (TEAM_CLAIMS if own_claims else set()), part
        others = {v["name"] for v in standing[part]["volumes"]} - own_claims
        assert others <= {v["name"] for v in pod["volumes"]}, "scratch and shared memory stay"
        (container, *_) = pod["containers"]
        mounts = {m["name"]: m for m in container["volumeMounts"]}
        assert {m["name"] for m in standing[part]["containers"][0]["volumeMounts"]} - own_claims <= set(mounts), part
        if own_claims:
            assert {name: m["mountPath"] for name, m in mounts.items() if name in TEAM_CLAIMS} == {
                "team-files": "/fsx", "team-files-shared": "/fsx/shared", "team-files-data": "/fsx/data"
            }  # fmt: skip
            assert [name for name, m in mounts.items() if m.get("readOnly") and name in TEAM_CLAIMS] == [
                "team-files-data"
            ]
        env = {variable["name"]: variable.get("value") for variable in container["env"]}
        assert (env["HOME"], env["USER"], env["LOGNAME"]) == ("/tmp", "vision", "vision")
    assert len(numbers) == 1
    other = {pod["securityContext"]["runAsUser"] for _, pod in pods(teams.made(team="speech"))}
    assert not other & {number for number, _ in numbers}


def test_secrets_are_references_to_the_kubelet_or_to_the_job() -> None:
    job = job_of("with secrets")
    for part, pod in pods(job):
        if part == "submitter":
            continue
        env = {variable["name"]: variable for variable in pod["containers"][0]["env"]}
        assert env["HUB"]["valueFrom"] == {"secretKeyRef": {"name": "hub", "key": "token"}}
        assert "value" not in env["HUB"]
        assert "X" not in env
        assert '"X": "arn:aws:secretsmanager:' in env["HYPERPOD_RAY_SECRETS"]["value"]
        assert "hub" not in env["HYPERPOD_RAY_SECRETS"]["value"]


def live(*, workers: int = 0, scales: bool = False) -> Json:
    cluster = copy.deepcopy(teams._live())
    group = cluster["spec"]["workerGroupSpecs"][0]
    group |= {"replicas": workers, "minReplicas": workers, "maxReplicas": workers}
    other = copy.deepcopy(group)
    cluster["spec"]["workerGroupSpecs"].append(other | {"groupName": "other"})
    if scales:
        cluster["spec"] |= {"enableInTreeAutoscaling": True, "autoscalerOptions": {"idleTimeoutSeconds": 60}}
    return cluster


def groups(job: Json) -> dict[str, tuple[int, int, int]]:
    listed = job["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    return {g["groupName"]: (g["replicas"], g["minReplicas"], g["maxReplicas"]) for g in listed}


def ray_job(cluster: Json, **fields: Any) -> Json:
    job = Job(**{"command": "python main.py", "cluster": "own", **fields})
    return job_object.ray_job(teams.plan(), cluster, job, name="x")


def test_a_job_that_names_its_size_has_no_groups_without_workers() -> None:
    assert groups(ray_job(live(), workers="3")) == {"gpu": (3, 3, 3)}
    assert set(groups(ray_job(live(workers=1)))) == {"gpu", "other"}, "the size is that of the environment"
    queued = groups(ray_job(live(scales=True), team="vision", workers="1:3"))
    assert queued == {"gpu": (3, 3, 3)}, "Kueue admits whole jobs"
    scaling = ray_job(live(scales=True), workers="1:3")
    assert groups(scaling) == {"gpu": (1, 1, 3)}
    assert scaling["spec"]["rayClusterSpec"]["enableInTreeAutoscaling"] is True
    fixed = ray_job(live(), workers="1:3")["spec"]["rayClusterSpec"]
    assert not {"enableInTreeAutoscaling", "autoscalerOptions"} & set(fixed)


def test_a_cluster_goes_with_its_job_and_a_failed_one_can_be_looked_at() -> None:
    """https://docs.ray.io/en/latest/cluster/kubernetes/getting-started/rayjob-quick-start.html: deletionStrategy"""
    for scales in (False, True):
        spec = ray_job(live(scales=scales), workers="1:3" if scales else "2")["spec"]
        rules = [
            (rule["policy"], *sorted(set(rule["condition"].values()), key=str))
            for rule in spec["deletionStrategy"]["deletionRules"]
        ]
        ended = {rule[0]: rule[1:] for rule in rules if "SUCCEEDED" in rule}
        assert 0 in ended["DeleteCluster"]
        failed = {rule[0]: rule[1:] for rule in rules if "Failed" in rule}
        assert ("DeleteWorkers" in failed) is not scales, "an autoscaler would start them again"
        assert min(n for n in failed["DeleteCluster"] if isinstance(n, int)) > 0
        assert set(ended) | set(failed) >= {"DeleteSelf"}
        assert "shutdownAfterJobFinishes" not in spec
    assert ray_job(live(), workers="2")["spec"]["submissionMode"] == "K8sJobMode"


def test_a_teams_cluster_has_no_store_and_no_token_of_another_namespace() -> None:
    cluster = live()
    cluster["spec"] |= {"gcsFaultToleranceOptions": {"redisAddress": "r:6379"}, "authOptions": {"mode": "token"}}
    of_team = ray_job(copy.deepcopy(cluster), team="vision")["spec"]["rayClusterSpec"]
    own = ray_job(copy.deepcopy(cluster))["spec"]["rayClusterSpec"]
    assert "gcsFaultToleranceOptions" not in of_team
    assert own["gcsFaultToleranceOptions"] == {"redisAddress": "r:6379"}
    assert of_team["authOptions"] == {"mode": "token"}
    assert own["authOptions"] == {"mode": "token", "secretName": teams.plan().settings.ray.cluster_name}
