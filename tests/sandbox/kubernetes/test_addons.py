"""Workloads of EKS add-ons: there with the add-on, placed as its configuration says, and gone with it."""

# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.controllers.addons import Addons, registry
from hyperpod_ray_sandbox.kubernetes.store import Store

Json = dict[str, Any]
HEAD = {"sagemaker.amazonaws.com/instance-group-name": "head"}
TAINT = {"key": "dedicated", "operator": "Equal", "value": "ray", "effect": "NoSchedule"}
SET: dict[str, Json] = {
    "coredns": {"nodeSelector": HEAD, "tolerations": [TAINT]},
    "aws-fsx-csi-driver": {"controller": {"nodeSelector": HEAD, "tolerations": [TAINT]}},
}


class Aws:
    """EKS with these add-ons."""

    region = "us-west-2"

    def __init__(self, **addons: Json) -> None:
        self.addons = {name.replace("_", "-"): configuration for name, configuration in addons.items()}

    async def pages(self, _service: str, operation: str, _member: str, **given: Any) -> list[str]:
        assert (operation, given) == ("list_addons", {"clusterName": "ray"})
        return list(self.addons)

    async def call(self, _service: str, operation: str, **given: Any) -> Json:
        assert operation == "describe_addon"
        configuration = json.dumps(self.addons[given["addonName"]])
        return {"addon": {"addonArn": f"arn:{given['addonName']}", "configurationValues": configuration}}


@pytest.fixture
def api(tmp_path: Path) -> Api:
    return Api(Store(tmp_path / "objects.sqlite"))


def poll(api: Api, aws: Any) -> dict[str, Json]:
    asyncio.run(Addons(api).poll(aws, "ray", mark="first"))
    kinds = ("Deployment", "DaemonSet")
    return {obj["metadata"]["name"]: obj for kind in kinds for obj in api.all("apps/v1", kind, "kube-system")}


def test_what_an_add_on_brings_comes_and_goes_with_it(api: Api) -> None:
    """https://docs.aws.amazon.com/eks/latest/userguide/workloads-add-ons-available-eks.html"""
    assert poll(api, Aws()) == {}
    both = poll(api, Aws(coredns={}, aws_fsx_csi_driver={}))
    assert set(both) == {"coredns", "fsx-csi-controller", "fsx-csi-node"}
    assert set(poll(api, Aws(coredns={}, aws_fsx_csi_driver={}, aws_ebs_csi_driver={}))) == {
        *both,
        "ebs-csi-controller",
        "ebs-csi-node",
    }
    assert both["fsx-csi-node"]["kind"] == "DaemonSet", "one on each node"
    assert set(poll(api, Aws(coredns={}))) == {"coredns"}
    assert poll(api, Aws()) == {}


def test_its_pods_are_placed_as_the_configuration_says(api: Api) -> None:
    """DNS and the controller run on the head's group; the driver of a node runs on each, whatever its taints."""
    objects = poll(api, Aws(coredns=SET["coredns"], aws_fsx_csi_driver=SET["aws-fsx-csi-driver"]))
    pods = {name: obj["spec"]["template"]["spec"] for name, obj in objects.items()}
    for name in ("coredns", "fsx-csi-controller"):
        assert (pods[name]["nodeSelector"], pods[name]["tolerations"]) == (HEAD, [TAINT])
    assert "nodeSelector" not in pods["fsx-csi-node"]
    assert [toleration["operator"] for toleration in pods["fsx-csi-node"]["tolerations"]] == ["Exists"]
    labels = objects["coredns"]["spec"]["template"]["metadata"]["labels"]
    assert labels["k8s-app"] == "kube-dns", "network policies select DNS by it"


def test_who_scales_it_keeps_it_so(api: Api) -> None:
    """Between its creation and its end an add-on's workload belongs to whoever changes it."""
    poll(api, Aws(coredns={}))
    deployment = api.find("apps/v1", "Deployment", "kube-system", "coredns")
    assert deployment is not None
    api.modify(deployment, lambda current: current["spec"].update(replicas=5))
    assert poll(api, Aws(coredns={}))["coredns"]["spec"]["replicas"] == 5
    api.delete(api.kind("apps/v1", "Deployment"), "kube-system", "coredns")
    assert poll(api, Aws(coredns={})) == {}


@pytest.mark.parametrize(
    ("region", "host"),
    [("us-west-2", "602401143452.dkr.ecr.us-west-2.amazonaws.com"), ("eu-west-1", "602401143452.dkr.ecr.eu-west-1.amazonaws.com"),
     ("ap-east-1", "800184023465.dkr.ecr.ap-east-1.amazonaws.com"), ("cn-north-1", "918309763551.dkr.ecr.cn-north-1.amazonaws.com.cn")],
)  # fmt: skip
def test_images_are_of_the_regions_registry(region: str, host: str) -> None:
    """https://docs.aws.amazon.com/eks/latest/userguide/add-ons-images.html"""
    assert registry(region) == host
