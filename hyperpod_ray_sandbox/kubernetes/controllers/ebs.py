"""EBS volumes for claims: a model of the Amazon EBS CSI driver's controller with its provisioner.

A claim gets CreateVolume with the parameters of its class, in the zone of the node that its first pod is to run on; a
released volume gets DeleteVolume. Not modelled: attaching to a node, and what keeps a lost node's volume attached.
Source: https://github.com/kubernetes-sigs/aws-ebs-csi-driver (pkg/driver/controller.go, pkg/cloud/cloud.go) and
https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/docs/tagging.md.
"""

from __future__ import annotations

from typing import Any

from hyperpod_ray_rules import names
from hyperpod_ray_rules.quantity import number
from hyperpod_ray_sandbox.aws.client import Client
from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.controllers.aws import Aws, AwsError
from hyperpod_ray_sandbox.kubernetes.controllers.provisioner import GIB, Provisioner, volume_name
from hyperpod_ray_sandbox.kubernetes.controllers.scheduler import SELECTED_NODE

Json = dict[str, Any]

MANAGED_TAG = "ebs.csi.aws.com/cluster"
"""Tag that the driver puts on all of its volumes, with the value `true`."""


def arguments(claim: Json, storage_class: Json, zone: str) -> Json:
    """The CreateVolume call for a claim."""
    parameters = {key.lower(): value for key, value in (storage_class.get("parameters") or {}).items()}
    tags = {names.CLAIM_TAG: volume_name(claim), MANAGED_TAG: "true"}
    for key in sorted(parameters):
        if key.startswith("tagspecification"):
            name, _, value = parameters[key].partition("=")
            tags[name] = value
    requested = number(claim["spec"]["resources"]["requests"]["storage"])
    call: Json = {
        "AvailabilityZone": zone,
        "Size": int(-(-requested // GIB)),
        "VolumeType": parameters.get("type", "gp3"),
        "Encrypted": parameters.get("encrypted") == "true",
        "TagSpecifications": [
            {"ResourceType": "volume", "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}
        ],
    }
    return call | ({"KmsKeyId": parameters["kmskeyid"]} if parameters.get("kmskeyid") else {})


class EbsProvisioner(Provisioner):
    """Makes and deletes EBS volumes for claims."""

    def __init__(self, api: Api, client: Client) -> None:
        super().__init__(
            api,
            client,
            driver=names.EBS_CSI_DRIVER,
            addon=names.EBS_CSI_ADDON,
            service_account=names.EBS_CSI_SERVICE_ACCOUNT,
        )

    async def existing(self, aws: Aws) -> list[Json]:
        """All volumes."""
        return await aws.pages("ec2", "describe_volumes", "Volumes")

    async def provision(self, aws: Aws, claim: Json, storage_class: Json, existing: list[Json]) -> None:
        """CreateVolume, and the volume's object once it is available."""
        name, zone = volume_name(claim), self._zone(claim)
        disk = next((v for v in existing if {"Key": names.CLAIM_TAG, "Value": name} in (v.get("Tags") or [])), None)
        if disk is None:
            try:
                self.record(
                    claim, "Normal", "Provisioning", f"External provisioner is provisioning volume for claim {name}"
                )
                call = arguments(claim, storage_class, zone)
                tags = {tag["Key"]: tag["Value"] for tag in call["TagSpecifications"][0]["Tags"]}
                keys = {**{f"aws:RequestTag/{k}": v for k, v in tags.items()}, "aws:TagKeys": sorted(tags)}
                await self.allowed(aws, "ec2:CreateVolume", "volume/*", keys)
                await self.allowed(aws, "ec2:CreateTags", "volume/*", {**keys, "ec2:CreateAction": "CreateVolume"})
                await aws.call("ec2", "create_volume", **call)
            except AwsError as error:
                self.record(claim, "Warning", "ProvisioningFailed", f"failed to provision volume: {error}")
        elif disk["State"] == "available" and not self.api.find("v1", "PersistentVolume", "", name):
            in_zone = {"key": names.ZONE_LABEL, "operator": "In", "values": [disk["AvailabilityZone"]]}
            self.add_volume(
                claim,
                storage_class,
                gib=int(disk["Size"]),
                csi={"volumeHandle": disk["VolumeId"]},
                nodeAffinity={"required": {"nodeSelectorTerms": [{"matchExpressions": [in_zone]}]}},
            )

    async def reclaim(self, aws: Aws, volume: Json, existing: list[Json]) -> None:
        """DeleteVolume, and the end of its object."""
        identifier = volume["spec"]["csi"]["volumeHandle"]
        disk = next((v for v in existing if v["VolumeId"] == identifier), None)
        if disk is None:
            self.remove_volume(volume)
            return
        try:
            keys = {f"ec2:ResourceTag/{tag['Key']}": tag["Value"] for tag in disk.get("Tags") or []}
            keys |= {f"aws:ResourceTag/{tag['Key']}": tag["Value"] for tag in disk.get("Tags") or []}
            await self.allowed(aws, "ec2:DeleteVolume", f"volume/{identifier}", keys)
            await aws.call("ec2", "delete_volume", VolumeId=identifier)
        except AwsError as error:
            self.record(volume, "Warning", "VolumeFailedDelete", str(error))

    def _zone(self, claim: Json) -> str:
        """Zone of the node that the scheduler chose for the claim's first pod."""
        chosen = (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE, "")
        node = self.api.find("v1", "Node", "", chosen) or {"metadata": {}}
        return str((node["metadata"].get("labels") or {}).get(names.ZONE_LABEL, ""))
