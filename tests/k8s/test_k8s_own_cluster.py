"""`submit` with `cluster: own` makes of the live RayCluster what `k8s.ray_job` renders, and the operator accepts it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from hyperpod_ray import k8s
from hyperpod_ray.core.job import Job
from hyperpod_ray.ops import in_ray
from hyperpod_ray.ops.jobs import job_object
from hyperpod_ray_rules import kuberay

Render = Callable[[str], Any]


def live(variant: Any) -> dict[str, Any]:
    """The variant's RayCluster, as the API has it."""
    namespace = variant.plan.settings.ray.namespace
    return {"metadata": {"name": "ray", "namespace": namespace}, "spec": copy.deepcopy(variant.cluster)}


def made(variant: Any, **fields: Any) -> dict[str, Any]:
    job = Job(command="python main.py", cluster="own", **fields)
    return job_object.ray_job(variant.plan, live(variant), job, name="x", code="x-code")


def without(cluster: dict[str, Any]) -> dict[str, Any]:
    """A cluster without what only one of the two ways gives it: the job's variables, and the shared token."""
    spec = copy.deepcopy(cluster)
    spec.pop("authOptions", None)
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        (container,) = [container for container in pod["containers"] if container["name"].startswith("ray-")]
        container["env"] = [e for e in container["env"] if e["name"] not in {in_ray.COMMAND_VARIABLE, "RUN_STORAGE"}]
        pod["volumes"] = [volume for volume in pod["volumes"] if not volume["name"].startswith("secret-")]
        mounts = container["volumeMounts"]
        container["volumeMounts"] = [mount for mount in mounts if not mount["name"].startswith("secret-")]
        for key in ("replicas", "minReplicas", "maxReplicas"):
            group.pop(key, None)
    return spec


def test_it_is_the_rendered_job_of_every_variant(variant: Any, bindings: k8s.Bindings) -> None:
    """But for its token, its variables and its size: a change of one that the other lacks shows here."""
    rendered = k8s.ray_job(variant.plan, bindings, name="x", entrypoint="python main.py")["spec"]
    ours = made(variant)["spec"]
    assert without(ours["rayClusterSpec"]) == without(rendered["rayClusterSpec"])
    assert ours.get("entrypointResources") == rendered.get("entrypointResources")
    submitter = copy.deepcopy(ours["submitterPodTemplate"])
    submitter["spec"].pop("volumes")
    submitter["spec"]["containers"][0].pop("volumeMounts")
    assert submitter == rendered["submitterPodTemplate"]


def test_the_operator_accepts_it_and_its_cluster(variant: Any) -> None:
    for fields in ({}, {"queue": "research", "priority": "high"}, {"retries": 0, "packages": ["a==1"]}):
        job = made(variant, **fields)
        assert kuberay.judge(job) == []
        cluster = {
            "kind": "RayCluster",
            "metadata": {"name": "x-abcde", "labels": {"ray.io/originated-from-crd": "RayJob"}},
            "spec": job["spec"]["rayClusterSpec"],
        }
        assert kuberay.judge(cluster) == []


def test_its_pods_are_parts_of_nodes(render: Render) -> None:
    """Two of eight GPUs: a quarter of the EFA interfaces, and pods of one job may share a node."""
    variant, image = render("prod"), f"quay.io/team/ray@sha256:{'0' * 64}"
    whole = copy.deepcopy(variant.cluster["workerGroupSpecs"][0]["template"]["spec"])
    job = made(variant, workers=8, gpus_per_worker=2, pod_gpus=2, image=image)["spec"]
    (group,) = job["rayClusterSpec"]["workerGroupSpecs"]
    pod = group["template"]["spec"]
    amounts = pod["containers"][0]["resources"]
    assert amounts["requests"] == amounts["limits"]
    assert (group["replicas"], amounts["limits"]["nvidia.com/gpu"], amounts["limits"]["vpc.amazonaws.com/efa"]) == (8, "2", "8")  # noqa: E501  # fmt: skip
    before = whole["containers"][0]["resources"]["limits"]
    assert (before["nvidia.com/gpu"], before["vpc.amazonaws.com/efa"]) == ("8", "32")
    assert 4 * int(amounts["limits"]["cpu"]) <= int(before["cpu"])
    assert 4 * int(amounts["limits"]["memory"].removesuffix("Gi")) <= int(before["memory"].removesuffix("Gi"))
    rules = pod["affinity"]["podAntiAffinity"]
    assert "requiredDuringSchedulingIgnoredDuringExecution" in whole["affinity"]["podAntiAffinity"]
    assert set(rules) == {"preferredDuringSchedulingIgnoredDuringExecution"}
    assert "FI_PROVIDER" in {variable["name"] for variable in pod["containers"][0]["env"]}
    templates = [job["rayClusterSpec"]["headGroupSpec"]["template"], group["template"], job["submitterPodTemplate"]]
    assert {template["spec"]["containers"][0]["image"] for template in templates} == {image}


def test_a_pod_without_efa_does_not_ask_libfabric_for_it(render: Render) -> None:
    job = made(render("prod"), workers=4, gpus_per_worker=0, pod_gpus=0, pod_cpu=4, pod_memory_gib=16)["spec"]
    (group,) = job["rayClusterSpec"]["workerGroupSpecs"]
    (container,) = group["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"cpu": "4", "memory": "16Gi"}
    names = {variable["name"] for variable in container["env"]}
    assert not {name for name in names if name.startswith("FI_")}
    assert group["template"]["spec"]["volumes"][2]["emptyDir"]["sizeLimit"] == "4Gi"


def test_it_has_the_size_of_the_job(render: Render) -> None:
    job = made(render("prod"), workers=9, gpus_per_worker=1)["spec"]
    assert [(g["groupName"], g["replicas"], g["minReplicas"], g["maxReplicas"]) for g in job["rayClusterSpec"]["workerGroupSpecs"]] == [("gpu", 2, 2, 2)]  # noqa: E501  # fmt: skip
    scaled = made(render("dev"), workers="1:2", gpus_per_worker=4)["spec"]["rayClusterSpec"]
    (group,) = scaled["workerGroupSpecs"]
    assert scaled["enableInTreeAutoscaling"] is True
    assert group["minReplicas"] <= group["maxReplicas"]
    queued = made(render("dev"), workers="1:2", gpus_per_worker=4, queue="q")["spec"]
    assert queued["suspend"] is True
    assert "enableInTreeAutoscaling" not in queued["rayClusterSpec"], "a queue admits a fixed size"


def test_it_shares_the_token_that_a_researcher_may_read(render: Render) -> None:
    assert made(render("prod"))["spec"]["rayClusterSpec"]["authOptions"] == {"mode": "token", "secretName": "ray"}


def test_secrets_are_references_and_only_its_own(render: Render) -> None:
    arn = "arn:aws:secretsmanager:us-west-2:111122223333:secret:wandb-AbCdEf"
    variant = render("fault-tolerant")
    job = made(variant, secrets={"HF_TOKEN": "hugging-face/token", "WANDB_API_KEY": arn})
    for group in (job["spec"]["rayClusterSpec"]["headGroupSpec"], *job["spec"]["rayClusterSpec"]["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        env = {one["name"]: one for one in pod["containers"][0]["env"]}
        assert env["HF_TOKEN"]["valueFrom"] == {"secretKeyRef": {"name": "hugging-face", "key": "token"}}
        assert json.loads(env[in_ray.SECRETS_VARIABLE]["value"]) == {"WANDB_API_KEY": arn}
        assert "secret" not in json.dumps(pod["volumes"]), "the standing cluster's Secrets are not mounted"
        assert "ray-secrets" not in json.dumps(pod["containers"][0]["volumeMounts"])
    assert json.loads(job["spec"]["runtimeEnvYAML"])["worker_process_setup_hook"] == in_ray.SETUP_HOOK


def test_it_is_deleted_and_its_record_after_a_week(render: Render) -> None:
    rules = made(render("prod"))["spec"]["deletionStrategy"]["deletionRules"]
    assert [(rule["policy"], rule["condition"]) for rule in rules] == [
        ("DeleteCluster", {"jobStatus": "SUCCEEDED", "ttlSeconds": 0}),
        ("DeleteSelf", {"jobStatus": "SUCCEEDED", "ttlSeconds": 604800}),
        ("DeleteWorkers", {"jobDeploymentStatus": "Failed", "ttlSeconds": 0}),
        ("DeleteCluster", {"jobDeploymentStatus": "Failed", "ttlSeconds": 3600}),
        ("DeleteSelf", {"jobDeploymentStatus": "Failed", "ttlSeconds": 604800}),
    ]


def test_what_the_kubelet_would_expand_is_escaped(render: Render) -> None:
    job = job_object.ray_job(
        render("prod").plan, live(render("prod")), Job(command="echo $(date) $HOME", cluster="own"), name="x"
    )
    env = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": in_ray.COMMAND_VARIABLE, "value": "echo $$(date) $HOME"} in env
    assert job["spec"]["entrypoint"] == "python -m hyperpod_ray_job.with_secrets", "no word that a shell changes"
    assert "volumes" not in job["spec"]["submitterPodTemplate"]["spec"]
