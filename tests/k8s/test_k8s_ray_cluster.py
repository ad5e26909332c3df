"""The RayCluster and RayJob: where pods go, what they may do, and the settings that make training survive."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from hyperpod_ray import k8s
from hyperpod_ray.core import names
from tests.k8s.k8s_ray_cluster_helpers import env_of

GROUP = "sagemaker.amazonaws.com/instance-group-name"
Render = Callable[[str], Any]


def test_every_pod_is_pinned_to_its_group_and_to_schedulable_nodes(variant: Any) -> None:
    ray = variant.plan.settings.ray
    expected = {"head": ray.head.instance_group, **{worker.name: worker.instance_group for worker in ray.workers}}
    expected[names.GUARD] = ray.head.instance_group
    if ray.gcs_fault_tolerance:
        expected |= dict.fromkeys(("driver", "ray-redis"), ray.gcs_fault_tolerance.driver_instance_group)
    for name, spec in variant.pods().items():
        group = ray.head.instance_group if name.startswith("volume-owner") else expected[name]
        assert spec["nodeSelector"] == {GROUP: group}, name
        (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ]
        assert {
            "key": "sagemaker.amazonaws.com/node-health-status",
            "operator": "In",
            "values": ["Schedulable"],
        } in term["matchExpressions"], name


def test_nodes_that_passed_deep_health_checks_are_preferred_where_there_are_checks(render: Render) -> None:
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    (wish,) = render("prod").pods()["gpu"]["affinity"]["nodeAffinity"][preferred]
    assert wish["preference"]["matchExpressions"] == [
        {"key": "sagemaker.amazonaws.com/deep-health-check-status", "operator": "In", "values": ["Passed"]}
    ]
    assert preferred not in render("prod").pods()["head"]["affinity"]["nodeAffinity"]


def test_rays_pods_have_the_service_account_of_ray_access(variant: Any) -> None:
    """EKS Pod Identity gives credentials to this account, and the operator's Role for autoscaling names it."""
    pods = {name: spec for name, spec in variant.pods().items() if name in {"head", "gpu", "cpu", "workers"}}
    assert "head" in pods
    assert {name: spec["serviceAccountName"] for name, spec in pods.items()} == dict.fromkeys(pods, "ray")


def test_secrets_of_the_file_are_mounted_and_in_no_variable(render: Render) -> None:
    """Where `hyperpod_ray/ops/in_ray/with_secrets.py` reads them, in each pod that runs a driver or a worker."""
    pods = {name: spec for name, spec in render("fault-tolerant").pods().items() if name in {"head", "driver", "gpu"}}
    assert len(pods) == 3
    for name, spec in pods.items():
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        (container,) = spec["containers"]
        mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
        for secret in ("hugging-face", "wandb"):
            mount = mounts[f"/etc/ray-secrets/{secret}"]
            assert mount["readOnly"] is True, name
            found = volumes[mount["name"]]["secret"]
            # a pod starts before the Secret exists; Ray's user is neither the owner nor in the group of the files
            assert (found["secretName"], found["optional"], found["defaultMode"] & 0o004) == (secret, True, 0o004), name
        assert not container.get("envFrom"), name
        assert not [one for one in container["env"] if "secretKeyRef" in one.get("valueFrom", {})], name
    assert "secret" not in json.dumps(render("prod").pods()["gpu"]["volumes"])


def test_rays_pods_are_guaranteed(variant: Any) -> None:
    """The kubelet ends pods of that class last where a node runs short, and none that keeps to its limits.

    https://kubernetes.io/docs/tasks/configure-pod-container/quality-service-pod/
    """
    pods = {name: spec for name, spec in variant.pods().items() if name in {"head", "driver", "gpu", "cpu", "workers"}}
    for name, spec in pods.items():
        for container in spec["containers"]:
            requests, limits = (container["resources"][part] for part in ("requests", "limits"))
            assert requests == limits, name
            assert {"cpu", "memory"} <= requests.keys(), name


def test_no_training_lands_on_the_head(variant: Any) -> None:
    head = variant.cluster["headGroupSpec"]
    assert head["rayStartParams"]["num-cpus"] == "0"
    assert head["serviceType"] == "ClusterIP"
    assert not [key for key in variant.pods()["head"]["containers"][0]["resources"]["limits"] if "/" in key]


def test_pods_run_without_root_and_without_privileges(variant: Any) -> None:
    for name, spec in variant.pods().items():
        if name.startswith("volume-owner"):
            continue
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["runAsUser"] == 1000, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False, name
            assert context["capabilities"] == {"drop": ["ALL"]}, name
    autoscaler = variant.cluster.get("autoscalerOptions")
    if autoscaler:
        assert autoscaler["securityContext"]["allowPrivilegeEscalation"] is False


def test_no_pod_gets_a_token_of_the_kubernetes_api_but_the_autoscalers(variant: Any) -> None:
    for name, spec in variant.pods().items():
        # the node guard asks the Kubernetes API about nodes
        wanted = name == names.GUARD or (name == "head" and variant.plan.settings.ray.autoscaling)
        assert spec["automountServiceAccountToken"] is wanted, name


def test_grace_exceeds_the_drain_and_nothing_cuts_it_short(variant: Any) -> None:
    drain = variant.plan.settings.ray.drain_timeout_seconds
    for name in ["head", *(group["groupName"] for group in variant.cluster["workerGroupSpecs"])]:
        spec = variant.pods()[name]
        assert spec["terminationGracePeriodSeconds"] == drain + 30, name
        assert env_of(spec)["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"] == str(drain), name
        assert "lifecycle" not in spec["containers"][0], name


def test_short_tolerations_of_lost_nodes(render: Render) -> None:
    for name, spec in render("dev").pods().items():
        if name.startswith("volume-owner"):
            continue
        found = {
            toleration["key"]: toleration["tolerationSeconds"]
            for toleration in spec["tolerations"]
            if toleration["effect"] == "NoExecute" and "tolerationSeconds" in toleration
        }
        assert found == {"node.kubernetes.io/not-ready": 30, "node.kubernetes.io/unreachable": 30}, name


def test_taints_of_the_groups_are_tolerated(render: Render) -> None:
    pods = render("tainted").pods()
    assert {"key": "dedicated", "operator": "Equal", "value": "ray", "effect": "NoSchedule"} in pods["head"][
        "tolerations"
    ]
    gpu = [toleration for toleration in pods["gpu"]["tolerations"] if toleration["key"] == "nvidia.com/gpu"]
    assert gpu == [{"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"}]
    assert {"key": "reserved", "operator": "Exists", "effect": "NoExecute"} in pods["gpu"]["tolerations"]
    assert not [
        toleration for toleration in pods["head"]["tolerations"] if toleration["key"] in {"nvidia.com/gpu", "reserved"}
    ]


def test_figures_of_a_p5_worker(render: Render) -> None:
    spec = render("prod").pods()["gpu"]
    limits = spec["containers"][0]["resources"]["limits"]
    assert (limits["nvidia.com/gpu"], limits["vpc.amazonaws.com/efa"]) == ("8", "32")
    assert int(limits["cpu"]) > 80
    assert 1500 < int(limits["memory"].removesuffix("Gi")) < 2048
    env = env_of(spec)
    assert env["FI_PROVIDER"] == "efa"
    assert env["FI_EFA_USE_DEVICE_RDMA"] == "1"


def test_neuron_devices_instead_of_gpus(render: Render) -> None:
    spec = render("neuron").pods()["gpu"]
    limits = spec["containers"][0]["resources"]["limits"]
    assert limits["aws.amazon.com/neuron"] == "16"
    assert "nvidia.com/gpu" not in limits
    assert {"key": "aws.amazon.com/neuron", "operator": "Exists", "effect": "NoSchedule"} in spec["tolerations"]


def test_one_pod_per_node_when_it_takes_all_gpus(render: Render) -> None:
    pods = render("several-groups").pods()
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    (rule,) = pods["gpu"]["affinity"]["podAntiAffinity"][required]
    assert rule == {
        "labelSelector": {"matchLabels": {"ray.io/group": "gpu", "ray.io/cluster": "ray"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    assert required not in pods["half"]["affinity"]["podAntiAffinity"]


def test_volumes(variant: Any) -> None:
    for name in ["head", *(group["groupName"] for group in variant.cluster["workerGroupSpecs"])]:
        spec = variant.pods()[name]
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in spec["containers"][0]["volumeMounts"]}
        assert mounts["/fsx"]["persistentVolumeClaim"] == {"claimName": "fsx"}
        assert mounts["/tmp/ray"]["emptyDir"] == {}
        shared = mounts["/dev/shm"]["emptyDir"]
        memory = spec["containers"][0]["resources"]["limits"]["memory"]
        assert shared["medium"] == "Memory"
        assert 0 < int(shared["sizeLimit"].removesuffix("Gi")) < int(memory.removesuffix("Gi"))


def test_replicas_min_max(render: Render) -> None:
    prod, dev = render("prod").group("gpu"), render("dev").group("gpu")
    assert (prod["minReplicas"], prod["replicas"], prod["maxReplicas"]) == (8, 8, 8)
    assert (dev["minReplicas"], dev["maxReplicas"]) == (0, 2)


def test_an_edit_of_the_manifest_ends_no_run(variant: Any) -> None:
    """`Recreate`, KubeRay's other value, deletes head and workers when a template of the cluster changes.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/apis/ray/v1/raycluster_types.go
    """
    assert variant.cluster["upgradeStrategy"] == {"type": "None"}


def test_auth_and_version(render: Render) -> None:
    assert render("prod").cluster["authOptions"] == {"mode": "token"}
    assert render("prod").cluster["rayVersion"] == render("prod").plan.settings.ray.version
    assert "authOptions" not in render("several-groups").cluster


def test_the_image_goes_in_untouched(variant: Any, bindings: k8s.Bindings) -> None:
    for name, spec in variant.pods().items():
        if name != "ray-redis":
            assert spec["containers"][0]["image"] == bindings.image_uri, name


@pytest.mark.parametrize("name", ["gpu", "head"])
def test_two_renderings_are_the_same(name: str, render: Render, bindings: k8s.Bindings) -> None:
    variant = render("prod")
    again = k8s.ray_manifests(variant.plan, bindings)[-1].objects[0]
    assert again == variant.one("RayCluster"), name
