"""EBS volumes of claims: made in the zone of their pod with the driver's tags, and deleted with their claim."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.controllers.aws import AwsError
from hyperpod_ray_sandbox.kubernetes.controllers.ebs import EbsProvisioner
from hyperpod_ray_sandbox.kubernetes.controllers.lifecycle import Lifecycle
from hyperpod_ray_sandbox.kubernetes.controllers.volumes import Volumes
from hyperpod_ray_sandbox.kubernetes.store import Store

Json = dict[str, Any]
PARAMETERS = {
    "type": "gp3",
    "encrypted": "true",
    "kmsKeyId": "arn:aws:kms:us-west-2:111122223333:key/k",
    "tagSpecification_1": "hyperpod-ray:environment=dev",
}


class Aws:
    """EC2 with volumes, EKS with the add-on or without."""

    region = "us-west-2"

    def __init__(self, *, addon: bool = True) -> None:
        self.addon = addon
        self.volumes: list[Json] = []
        self.calls: list[tuple[str, Json]] = []

    async def pages(self, _service: str, _operation: str, _key: str, **_given: Any) -> list[Json]:
        return list(self.volumes)

    async def call(self, _service: str, operation: str, **given: Any) -> Json:
        self.calls.append((operation, given))
        match operation:
            case "describe_addon" if not self.addon:
                raise AwsError("ResourceNotFoundException", "none")
            case "describe_addon":
                return {"addon": {"status": "ACTIVE", "serviceAccountRoleArn": "arn:aws:iam::111122223333:role/r"}}
            case "create_volume":
                tags = given["TagSpecifications"][0]["Tags"]
                volume = {"VolumeId": "vol-1", "State": "available", "Tags": tags}
                self.volumes.append({**volume, **{key: given[key] for key in ("Size", "AvailabilityZone")}})
            case "delete_volume":
                self.volumes.clear()
        return {}


class Client:
    """Rights of the driver's role."""

    def __init__(self, *refused: str) -> None:
        self.refused = refused
        self.asked: list[tuple[str, str, str, Json]] = []

    def web_identity(self, *, subject: str, action: str, resource: str, keys: Json, **_: Any) -> str:
        self.asked.append((subject, action, resource, keys))
        return f"AccessDeniedException: no {action}" if action in self.refused else ""


@pytest.fixture
def api(tmp_path: Path) -> Api:
    api = Api(Store(tmp_path / "objects.sqlite"))
    labels = {"topology.kubernetes.io/zone": "us-west-2b"}
    node = {
        "metadata": {"name": "n1", "labels": labels},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    api.create(api.kind("v1", "Node"), "", node, trusted=True)
    kind = {"metadata": {"name": "state"}, "provisioner": "ebs.csi.aws.com", "parameters": PARAMETERS}
    kind |= {"volumeBindingMode": "WaitForFirstConsumer", "reclaimPolicy": "Delete"}
    api.create(api.kind("storage.k8s.io/v1", "StorageClass"), "", kind)
    size = {"requests": {"storage": "8Gi"}}
    spec = {"accessModes": ["ReadWriteOncePod"], "storageClassName": "state", "resources": size}
    api.create(api.kind("v1", "PersistentVolumeClaim"), "default", {"metadata": {"name": "ray-gcs-pvc"}, "spec": spec})
    return api


def choose(api: Api) -> None:
    """What the scheduler does for the claim's first pod."""
    claim = claim_of(api)
    note = {"volume.kubernetes.io/selected-node": "n1"}
    api.modify(claim, lambda current: current["metadata"].setdefault("annotations", {}).update(note))


def claim_of(api: Api) -> Json:
    claim = api.find("v1", "PersistentVolumeClaim", "default", "ray-gcs-pvc")
    assert claim is not None
    return claim


def poll(api: Api, aws: Any, client: Any, *, times: int = 2) -> None:
    provisioner = EbsProvisioner(api, client)
    for _ in range(times):
        asyncio.run(provisioner.poll(aws, "eks"))
        Volumes(api).reconcile()
        Lifecycle(api).reconcile()


def test_a_claim_has_a_volume_in_the_zone_of_its_pod(api: Api) -> None:
    """https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/docs/tagging.md"""
    aws, client = Aws(), Client()
    poll(api, aws, client)
    assert aws.volumes == [], "no pod has a node yet"
    choose(api)
    poll(api, aws, client)
    (call,) = [given for operation, given in aws.calls if operation == "create_volume"]
    assert (call["AvailabilityZone"], call["Size"], call["VolumeType"], call["Encrypted"]) == (
        "us-west-2b",
        8,
        "gp3",
        True,
    )
    assert call["KmsKeyId"] == PARAMETERS["kmsKeyId"]
    tags = {tag["Key"]: tag["Value"] for tag in call["TagSpecifications"][0]["Tags"]}
    uid = claim_of(api)["metadata"]["uid"]
    assert tags == {
        "CSIVolumeName": f"pvc-{uid}",
        "ebs.csi.aws.com/cluster": "true",
        "hyperpod-ray:environment": "dev",
    }
    assert [(subject, action) for subject, action, _, _ in client.asked] == [
        ("system:serviceaccount:kube-system:ebs-csi-controller-sa", action)
        for action in ("ec2:CreateVolume", "ec2:CreateTags")
    ]
    claim = claim_of(api)
    assert claim["status"]["phase"] == "Bound"
    volume = api.find("v1", "PersistentVolume", "", claim["spec"]["volumeName"])
    assert volume is not None
    assert volume["spec"]["csi"] == {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"}
    (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["us-west-2b"]


def test_a_volume_goes_with_its_claim(api: Api) -> None:
    aws, client = Aws(), Client()
    choose(api)
    poll(api, aws, client)
    claim = claim_of(api)
    api.modify(claim, lambda current: current["metadata"].update(finalizers=[]))
    api.delete(api.kind("v1", "PersistentVolumeClaim"), "default", "ray-gcs-pvc")
    poll(api, aws, client, times=3)
    assert aws.volumes == []
    assert api.all("v1", "PersistentVolume") == []
    (_, _, resource, keys) = client.asked[-1]
    assert resource == "arn:aws:ec2:us-west-2:111122223333:volume/vol-1"
    assert keys["aws:ResourceTag/hyperpod-ray:environment"] == "dev"


@pytest.mark.parametrize("refused", ["ec2:CreateVolume", "ec2:CreateTags"])
def test_a_role_without_the_right_makes_none(api: Api, refused: str) -> None:
    aws = Aws()
    choose(api)
    poll(api, aws, Client(refused))
    assert aws.volumes == []
    assert any(f"no {refused}" in e["message"] for e in api.all("v1", "Event", "default"))


def test_a_driver_that_went_first_leaves_an_orphan(api: Api) -> None:
    aws, client = Aws(), Client()
    choose(api)
    poll(api, aws, client)
    aws.addon = False
    claim = claim_of(api)
    api.modify(claim, lambda current: current["metadata"].update(finalizers=[]))
    api.delete(api.kind("v1", "PersistentVolumeClaim"), "default", "ray-gcs-pvc")
    poll(api, aws, client, times=3)
    assert [volume["VolumeId"] for volume in aws.volumes] == ["vol-1"]
    (volume,) = api.all("v1", "PersistentVolume")
    assert volume["status"]["phase"] == "Released"
