"""File systems for claims: a model of the FSx for Lustre CSI driver's controller with its provisioner.

A claim gets CreateFileSystem with the parameters of its class; a released volume gets DeleteFileSystem.
Source: https://github.com/kubernetes-sigs/aws-fsx-csi-driver (pkg/driver/controller.go, pkg/cloud/cloud.go).
"""

from __future__ import annotations

from typing import Any

from hyperpod_ray_rules import names
from hyperpod_ray_rules.quantity import number
from hyperpod_ray_sandbox.aws.client import Client
from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.controllers.aws import Aws, AwsError
from hyperpod_ray_sandbox.kubernetes.controllers.provisioner import GIB, Provisioner, volume_name

Json = dict[str, Any]

VOLUME_TAG = names.CLAIM_TAG
_STEP_GIB = 2400

# parameter of the class -> (member of LustreConfiguration, how to read it); unknown parameters are ignored, as
# the driver does
_LUSTRE = {
    "deploymentType": ("DeploymentType", str),
    "autoImportPolicy": ("AutoImportPolicy", str),
    "s3ImportPath": ("ImportPath", str),
    "s3ExportPath": ("ExportPath", str),
    "perUnitStorageThroughput": ("PerUnitStorageThroughput", int),
    "driveCacheType": ("DriveCacheType", str),
    "automaticBackupRetentionDays": ("AutomaticBackupRetentionDays", int),
    "dailyAutomaticBackupStartTime": ("DailyAutomaticBackupStartTime", str),
    "copyTagsToBackups": ("CopyTagsToBackups", "bool"),
    "dataCompressionType": ("DataCompressionType", str),
    "weeklyMaintenanceStartTime": ("WeeklyMaintenanceStartTime", str),
    "efaEnabled": ("EfaEnabled", "bool"),
}


def round_up(gib: int) -> int:
    """The capacity the driver asks for: 1200 GiB, or the next multiple of 2400."""
    return 1200 if gib <= 1200 else -(-gib // _STEP_GIB) * _STEP_GIB


def arguments(claim: Json, storage_class: Json) -> Json:
    """The CreateFileSystem call for a claim; raises ValueError for a parameter that cannot be read."""
    parameters: dict[str, str] = storage_class.get("parameters") or {}
    name = volume_name(claim)
    if not parameters.get("subnetId"):
        raise ValueError("the StorageClass has no subnetId")
    tags = [{"Key": VOLUME_TAG, "Value": name}]
    for pair in filter(None, parameters.get("extraTags", "").split(",")):
        key, _, value = pair.partition("=")
        tags.append({"Key": key, "Value": value})
    lustre: Json = {}
    for key, (member, value_type) in _LUSTRE.items():
        if key in parameters:
            text = parameters[key]
            lustre[member] = text == "true" if value_type == "bool" else (int(text) if value_type is int else text)
    if "metadataConfigurationMode" in parameters or "metadataIops" in parameters:
        metadata: Json = {}
        if "metadataConfigurationMode" in parameters:
            metadata["Mode"] = parameters["metadataConfigurationMode"]
        if "metadataIops" in parameters:
            metadata["Iops"] = int(parameters["metadataIops"])
        lustre["MetadataConfiguration"] = metadata
    requested = number(claim["spec"]["resources"]["requests"]["storage"])
    call: Json = {
        "ClientRequestToken": name,
        "FileSystemType": "LUSTRE",
        "StorageCapacity": round_up(int(-(-requested // GIB))),
        "SubnetIds": [parameters["subnetId"]],
        "Tags": tags,
        "LustreConfiguration": lustre,
    }
    if parameters.get("securityGroupIds"):
        call["SecurityGroupIds"] = parameters["securityGroupIds"].split(",")
    for key, member in (
        ("storageType", "StorageType"),
        ("kmsKeyId", "KmsKeyId"),
        ("fileSystemTypeVersion", "FileSystemTypeVersion"),
    ):
        if parameters.get(key):
            call[member] = parameters[key]
    return call


class FsxProvisioner(Provisioner):
    """Makes and deletes file systems for claims."""

    def __init__(self, api: Api, client: Client) -> None:
        super().__init__(
            api,
            client,
            driver=names.CSI_DRIVER,
            addon=names.CSI_ADDON,
            service_account=names.CSI_SERVICE_ACCOUNT,
        )

    async def existing(self, aws: Aws) -> list[Json]:
        """All file systems."""
        return await aws.pages("fsx", "describe_file_systems", "FileSystems")

    async def provision(self, aws: Aws, claim: Json, storage_class: Json, existing: list[Json]) -> None:
        """CreateFileSystem, and the volume once the file system is available."""
        name = volume_name(claim)
        system = next((s for s in existing if {"Key": VOLUME_TAG, "Value": name} in (s.get("Tags") or [])), None)
        try:
            if system is None:
                message = f"External provisioner is provisioning volume for claim {name}"
                self.record(claim, "Normal", "Provisioning", message)
                call = arguments(claim, storage_class)
                tags = {tag["Key"]: tag["Value"] for tag in call["Tags"]}
                keys = {**{f"aws:RequestTag/{k}": v for k, v in tags.items()}, "aws:TagKeys": sorted(tags)}
                for action in ("fsx:CreateFileSystem", "fsx:TagResource"):
                    await self.allowed(aws, action, "file-system/*", keys)
                await aws.call("fsx", "create_file_system", **call)
                return
        except (AwsError, ValueError) as error:
            self.record(claim, "Warning", "ProvisioningFailed", f"failed to provision volume: {error}")
            return
        if system["Lifecycle"] == "FAILED":
            self.record(claim, "Warning", "ProvisioningFailed", f"file system {system['FileSystemId']} failed")
        if system["Lifecycle"] != "AVAILABLE" or self.api.find("v1", "PersistentVolume", "", name):
            return
        lustre = system.get("LustreConfiguration") or {}
        self.add_volume(
            claim,
            storage_class,
            gib=int(system["StorageCapacity"]),
            csi={
                "volumeHandle": system["FileSystemId"],
                "volumeAttributes": {
                    "dnsname": str(system.get("DNSName", "")),
                    "mountname": str(lustre.get("MountName", "fsx")),
                },
            },
        )

    async def reclaim(self, aws: Aws, volume: Json, existing: list[Json]) -> None:
        """DeleteFileSystem, and the volume's end once the file system has gone."""
        identifier = volume["spec"]["csi"]["volumeHandle"]
        system = next((s for s in existing if s["FileSystemId"] == identifier), None)
        if system is None:
            self.remove_volume(volume)
        elif system["Lifecycle"] != "DELETING":
            try:
                keys = {f"aws:ResourceTag/{tag['Key']}": tag["Value"] for tag in system.get("Tags") or []}
                await self.allowed(aws, "fsx:DeleteFileSystem", f"file-system/{identifier}", keys)
                await aws.call("fsx", "delete_file_system", FileSystemId=identifier)
            except AwsError as error:
                self.record(volume, "Warning", "VolumeFailedDelete", str(error))
