"""A team's job as RayJob: in the team's namespace and queue, of the quota's types; Kueue and KubeRay accept it."""

from __future__ import annotations

import copy
import functools
import re
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from hyperpod_ray import k8s
from hyperpod_ray.core import Plan, load
from hyperpod_ray.core.common_plan import catalogue
from hyperpod_ray.core.job import Job
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.k8s.rayjob import through_shells
from hyperpod_ray.k8s.team_policies import policies
from hyperpod_ray.ops.jobs import job_object
from hyperpod_ray_rules import kuberay, kueue
from tests.core.environment_files import plan as plan_of
from tests.core.team_quotas_helpers import shared
from tests.core.team_quotas_helpers import team as team_of
from tests.k8s.conftest import BINDINGS

TYPE, GROUP = "node.kubernetes.io/instance-type", "sagemaker.amazonaws.com/instance-group-name"


@functools.cache
def plan() -> Plan:
    return load("teams", folder=FOLDER / "examples").plan


@functools.cache
def _live() -> dict[str, Any]:
    """The standing RayCluster, as the stack deploys it."""
    (manifest,) = [
        item for made in k8s.ray_manifests(plan(), BINDINGS) for item in made.objects if item["kind"] == "RayCluster"
    ]
    return manifest


def made(**fields: Any) -> dict[str, Any]:
    job = Job(**{"command": "python main.py", "team": "vision", "workers": 2, **fields})
    return job_object.ray_job(plan(), copy.deepcopy(_live()), job, name="x", code="x-code")


def templates(job: dict[str, Any]) -> dict[str, dict[str, Any]]:
    cluster = job["spec"]["rayClusterSpec"]
    found = {"head": cluster["headGroupSpec"]["template"], "submitter": job["spec"]["submitterPodTemplate"]}
    return found | {group["groupName"]: group["template"] for group in cluster["workerGroupSpecs"]}


def test_it_is_in_the_teams_namespace_and_queue() -> None:
    job = made(priority="deadline")
    assert job["metadata"]["namespace"] == "hyperpod-ns-vision"
    labels = job["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/queue-name"] == "hyperpod-ns-vision-localqueue"
    assert labels["kueue.x-k8s.io/priority-class"] == "deadline-priority"
    assert kueue.judge(job) == []
    assert kuberay.judge(job) == []
    assert kueue.defaulted(job) == job, "it is suspended as the webhook would leave it"
    assert job["spec"]["shutdownAfterJobFinishes"] is True


def test_every_pod_names_the_instance_type_whose_quota_it_takes() -> None:
    """Kueue matches a pod's node selector with the flavors' labels; a flavor is an instance type."""
    wanted = {"head": "ml.m5.2xlarge", "submitter": "ml.m5.2xlarge", "gpu": "ml.g5.8xlarge"}
    for name, template in templates(made()).items():
        selector = template["spec"]["nodeSelector"]
        assert selector[TYPE] == wanted[name]
        assert plan().group(selector[GROUP]).type == wanted[name]
    standing = made(team=None, cluster="own")
    assert all(TYPE not in template["spec"]["nodeSelector"] for template in templates(standing).values()), (
        "no queue, no flavor"
    )


def test_a_standing_cluster_that_is_suspended_suspends_no_job() -> None:
    """The RayJob would be admitted, and its cluster would keep the quota without a pod."""
    live = copy.deepcopy(_live())
    for suspended in (live["spec"], *live["spec"]["workerGroupSpecs"]):
        suspended["suspend"] = True
    job = job_object.ray_job(plan(), live, Job(command="python main.py", team="vision", workers="2"), name="x")
    cluster = job["spec"]["rayClusterSpec"]
    assert not any("suspend" in part for part in (cluster, *cluster["workerGroupSpecs"]))
    assert job["spec"]["suspend"] is True, "Kueue starts it"


def test_its_token_is_its_own() -> None:
    """The token of the standing cluster is in another namespace."""
    assert made()["spec"]["rayClusterSpec"]["authOptions"] == {"mode": "token"}
    assert made(team=None, cluster="own")["spec"]["rayClusterSpec"]["authOptions"]["secretName"] == "ray"


def test_it_has_workers_although_the_standing_cluster_has_none() -> None:
    (group,) = made()["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    assert (group["replicas"], group["minReplicas"], group["maxReplicas"]) == (2, 2, 2)
    assert _live()["spec"]["workerGroupSpecs"][0]["replicas"] == 0
    assert "enableInTreeAutoscaling" not in made()["spec"]["rayClusterSpec"]


@pytest.mark.parametrize(("required", "key"), [(False, "preferred"), (True, "required")])
def test_workers_are_placed_together(required: bool, key: str) -> None:
    job = made(topology="layer-3", topology_required=required)
    annotations = {name: one["metadata"].get("annotations") or {} for name, one in templates(job).items()}
    wanted = {f"kueue.x-k8s.io/podset-{key}-topology": "topology.k8s.aws/network-node-layer-3"}
    assert annotations["gpu"].items() >= wanted.items()
    assert not any("topology" in word for name in ("head", "submitter") for word in annotations[name])
    assert kueue.judge(job) == []


def test_what_the_namespace_needs_is_there() -> None:
    objects = [item for manifest in k8s.ray_manifests(plan(), BINDINGS) for item in manifest.objects]
    for team in ("vision", "speech"):
        space = f"hyperpod-ns-{team}"
        there = {
            (item["kind"], item["metadata"]["name"]) for item in objects if item["metadata"].get("namespace") == space
        }
        pod = made(team=team)["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
        claims = {
            volume["persistentVolumeClaim"]["claimName"]
            for volume in pod["volumes"]
            if "persistentVolumeClaim" in volume
        }
        assert {("PersistentVolumeClaim", name) for name in claims} <= there
        assert ("ServiceAccount", pod["serviceAccountName"]) in there
        assert ("NetworkPolicy", "default-deny") in there
        volumes = [
            item
            for item in objects
            if item["kind"] == "PersistentVolume" and item["spec"]["claimRef"]["namespace"] == space
        ]
        assert {volume["spec"]["claimRef"]["name"] for volume in volumes} == claims, "a volume binds one claim"
        handles = {volume["spec"]["csi"]["volumeHandle"] for volume in volumes}
        assert len(handles) == len(volumes), "kubelet takes volumes of one handle in one pod for the same one"
        assert {handle.partition("/")[0] for handle in handles} == {BINDINGS.file_system_id}
    (operator,) = [release for release in k8s.helm_releases(plan()) if release.name == "kuberay-operator"]
    assert set(operator.values["watchNamespace"]) == {"ray", "hyperpod-ns-vision", "hyperpod-ns-speech"}


COMMANDS = (
    "echo one && echo two",
    "cd / && pwd",
    "echo 'a b' | tr a-z A-Z; exit 0",
    'X="a  b"; echo "$X" $HOME `echo c`',
    "echo $((1+2)) *nothing* \\\\ '\"'",
    "python -c 'print(1)'\necho two",
    "echo plain words",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_reaches_the_heads_shell_as_it_was_written(command: str) -> None:
    """Through the submitter's bash, into Ray's words, joined as Ray joins them, into the head's shell."""
    joined = "import subprocess, sys; sys.stdout.write(subprocess.list2cmdline(sys.argv[1:]))"
    script = f"{sys.executable} -c '{joined}' {through_shells(command)}"
    line = subprocess.run(["/bin/bash", "-ce", script], capture_output=True, text=True, check=True).stdout
    line = line.replace("python -c", f"{sys.executable} -c", 1) if line.startswith('python -c "import base64') else line
    got = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=False)
    wanted = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
    assert (got.stdout, got.returncode) == (wanted.stdout, wanted.returncode)


def test_a_compound_command_is_still_to_be_read() -> None:
    job = k8s.ray_job(plan(), BINDINGS, name="x", entrypoint="a && b", on_existing_cluster=True)
    assert job["metadata"]["annotations"] == {"hyperpod-ray/command": "a && b"}
    assert "&" not in job["spec"]["entrypoint"]
    plain = k8s.ray_job(plan(), BINDINGS, name="x", entrypoint="python main.py", on_existing_cluster=True)
    assert plain["spec"]["entrypoint"] == "python main.py"
    assert "annotations" not in plain["metadata"]


DEVICES = {"nvidia": "nvidia.com/gpu", "neuron": "aws.amazon.com/neuron"}
"""What the device plugins of NVIDIA and of AWS Neuron offer on a node.
https://github.com/NVIDIA/k8s-device-plugin
https://awsdocs-neuron.readthedocs-hosted.com/en/latest/containers/kubernetes-getting-started.html"""


@pytest.mark.parametrize("accelerator", DEVICES)
def test_a_pod_takes_no_devices_of_any_type_without_a_request(accelerator: str) -> None:
    """A container without a request sees all devices of its node: each type with some is in the policy."""
    types = [name for name, spec in catalogue().items() if spec.accelerator == accelerator]
    head, *_ = plan().settings.hyperpod.instance_groups
    groups = [head, *(head.model_copy(update={"name": f"group-{n}", "type": name}) for n, name in enumerate(types))]
    hyperpod = plan().settings.hyperpod.model_copy(update={"instance_groups": groups})
    settled = replace(plan(), settings=plan().settings.model_copy(update={"hyperpod": hyperpod}))
    rules = [
        rule["expression"]
        for policy in policies(settled).objects if policy["kind"] == "ValidatingAdmissionPolicy"
        for rule in policy["spec"]["validations"] if "accelerators" in rule["message"]
    ]  # fmt: skip
    assert len(rules) == 2
    for name in types:
        assert all(f"'{name}': '{DEVICES[accelerator]}'" in rule for rule in rules), name


def test_partitions_of_a_gpu_are_devices_by_the_plugins_name() -> None:
    """NVIDIA's device plugin calls them `nvidia.com/mig-<slices>g.<memory>gb` (strategy `mixed`).

    https://docs.nvidia.com/datacenter/cloud-native/kubernetes/latest/index.html
    """
    quota = {"type": "ml.p5.48xlarge", "partition": {"profile": "mig-1g.10gb", "count": 7}}
    settled = plan_of(shared(team_of("vision", quota, {"type": "ml.m5.2xlarge", "vcpus": 4})))
    text = "".join(str(policy["spec"]) for policy in policies(settled).objects)
    assert set(re.findall(r"nvidia\.com/mig-[^']*", text)) == {"nvidia.com/mig-1g.10gb"}
