"""The model of what an environment needs: which image is pulled from where, and the page that is made of it."""

from __future__ import annotations

import re

from hyperpod_ray.core import Plan, needs
from hyperpod_ray.core.images import Reference
from hyperpod_ray.core.model import Environment
from hyperpod_ray.core.service_limits import platform
from tests.core.environment_files import changed, plan, problems

CLOSED = {"network/egress": "closed", "registries": {"mirror": True}}


def pulled(changes: dict[str, object]) -> dict[str, Reference]:
    return {need.workload: need.pulled for need in needs.images(plan(changes)) if need.chart or need.setting}


def test_without_a_mirror_pods_pull_what_the_charts_name() -> None:
    assert str(pulled({})["kuberay-operator"]) == "quay.io/kuberay/operator:v1.7.0"
    assert not needs.copies(plan({}))


def test_with_one_they_pull_copies_in_this_account() -> None:
    one = plan({"registries": {"mirror": True}})
    own = f"{one.settings.account}.dkr.ecr.{one.settings.region}.amazonaws.com"
    assert (
        pulled({"registries": {"mirror": True}})["kuberay-operator"].name
        == f"{own}/{one.name}/quay.io/kuberay/operator"
    )
    assert {copy.source.name for copy in needs.copies(one)} == {
        "quay.io/kuberay/operator",
        "nvcr.io/nvidia/k8s-device-plugin",
    }


STORE = {"ray/gcs_fault_tolerance": {"driver_instance_group": "head", "volume_gib": 8}}


def test_a_volume_of_the_head_brings_the_ebs_driver_with_its_calls() -> None:
    workloads = {need.workload for need in needs.images(plan({}))}
    assert {need.workload for need in needs.images(plan(STORE))} - workloads == {"add-on aws-ebs-csi-driver"}
    added = [call for call in needs.calls(plan({**CLOSED, **STORE})) if call.role == "ebs-csi"]
    assert {call.endpoint for call in added} == {"ec2", "eks", "sagemaker.api", "sts"}
    assert needs.interface_endpoints(plan({**CLOSED, **STORE})) == needs.interface_endpoints(plan(CLOSED))
    assert not [call for call in needs.calls(plan({})) if call.role == "ebs-csi"]


def test_its_pod_takes_a_place_on_every_node() -> None:
    with_store, without = plan(STORE), plan({})
    for group in without.groups:
        assert with_store.daemon_sets(with_store.group(group.name)) == without.daemon_sets(group) + 1


def test_two_environments_of_an_account_do_not_share_a_repository() -> None:
    here, there = (Plan(name=name, settings=plan({"registries": {"mirror": True}}).settings) for name in ("one", "two"))
    assert not {copy.repository for copy in needs.copies(here)} & {copy.repository for copy in needs.copies(there)}


def test_the_efa_plugin_comes_from_the_regions_own_registry() -> None:
    zones = {"network/availability_zone_ids": ["euc1-az1", "euc1-az2"]}
    twin = pulled({"region": "eu-central-1", **zones})["aws-efa-k8s-device-plugin"]
    assert twin.name == "602401143452.dkr.ecr.eu-central-1.amazonaws.com/eks/aws-efa-k8s-device-plugin"
    # without the checks: HyperPod has no clusters in cn-north-1, whose partition names registries in another way
    settings = changed({"region": "cn-north-1", "network/availability_zone_ids": ["cnn1-az1", "cnn1-az2"]})
    there = Plan(name="x", settings=Environment.model_validate(settings))
    china = next(image.pulled for image in needs.images(there) if image.workload == "aws-efa-k8s-device-plugin")
    assert china.registry == "918309763551.dkr.ecr.cn-north-1.amazonaws.com.cn"
    assert china.ecr == ("918309763551", "cn-north-1")


def test_every_region_has_a_registry_or_any_account() -> None:
    """AWS's table of the add-ons' registries has no row for its newest regions."""
    data = needs.catalogue()["eks_registries"]
    assert not set(data["default_regions"]) & set(data["others"])
    for region in platform().regions:
        assert re.fullmatch(r"\d{12}|\*", needs.eks_registry(region))
    assert needs.eks_registry("us-west-2") == "602401143452"
    assert needs.eks_registry("me-south-1") == "558608220178"
    assert needs.eks_registry("ap-southeast-7") == "*"


def test_an_image_that_no_value_moves_is_refused_in_a_closed_network() -> None:
    """The Neuron device plugin's image stands in its template."""
    trainium = {"hyperpod/instance_groups/1/type": "ml.trn1.32xlarge"}
    (problem,) = [problem for problem in problems({**CLOSED, **trainium}) if problem.path == "network.egress"]
    assert "neuron-device-plugin needs public.ecr.aws/neuron/neuron-device-plugin" in problem.message
    assert "Fix: set network.egress: nat" in problem.message
    # without the checks: that other rules refuse the type as well is not what this is about
    settings = Environment.model_validate(changed({"registries": {"mirror": True}, **trainium}))
    one = Plan(name="neuron", settings=settings)
    (neuron,) = [need for need in needs.images(one) if need.workload == "neuron-device-plugin"]
    assert not neuron.movable
    assert neuron.pulled.name == "public.ecr.aws/neuron/neuron-device-plugin"
    assert "neuron" not in {copy.source.name for copy in needs.copies(one)}


def test_ports_outside_follow_from_the_file() -> None:
    one = plan(
        {
            "ray/observability": {
                "grafana_host": "http://grafana.example.com:3000",
                "prometheus_host": "http://prometheus.monitoring.svc:9090",
            },
            "ray/gcs_fault_tolerance": {"driver_instance_group": "head", "redis_address": "redis.example.com:6380"},
        }
    )
    assert needs.outside_ports(one) == [3000, 6380]
    assert [destination.namespace for destination in needs.destinations(one) if not destination.node] == [
        None,
        None,
        "monitoring",
    ]
