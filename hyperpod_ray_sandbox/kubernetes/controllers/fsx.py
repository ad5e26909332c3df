"""File systems for claims: a model of the FSx for Lustre CSI driver's controller with its provisioner.

Works only while the add-on `aws-fsx-csi-driver` exists in the embedded EKS, its role exists, and a node is ready to
run it: whatever goes first, the file systems left over are orphans, as in real life. A claim of a class with
provisioner `fsx.csi.aws.com` gets CreateFileSystem with the class's parameters, then a PersistentVolume, and is bound
by `volumes.py`. A released volume with reclaim policy Delete gets DeleteFileSystem; its object goes when the file
system has gone. Source: https://github.com/kubernetes-sigs/aws-fsx-csi-driver (pkg/driver/controller.go,
pkg/cloud/cloud.go).
"""

from __future__ import annotations

import asyncio
from typing import Any

from hyperpod_ray_rules import names
from hyperpod_ray_rules.quantity import number
from hyperpod_ray_sandbox.aws.client import Client, ControlError
from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.controllers.aws import Aws, AwsError
from hyperpod_ray_sandbox.kubernetes.controllers.common import event, node_ready, remove
from hyperpod_ray_sandbox.kubernetes.controllers.volumes import PROVISIONED_BY
from hyperpod_ray_sandbox.kubernetes.status import ApiError

Json = dict[str, Any]

DRIVER = names.CSI_DRIVER
ADDON = names.CSI_ADDON
VOLUME_TAG = names.CLAIM_TAG
# of the add-on's controller, as its IAM role must trust it
SUBJECT = f"system:serviceaccount:{names.KUBE_SYSTEM}:{names.CSI_SERVICE_ACCOUNT}"
_FINALIZER = "external-provisioner.volume.kubernetes.io/finalizer"
_GIB = 2**30
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
        "StorageCapacity": round_up(int(-(-requested // _GIB))),
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


def volume_name(claim: Json) -> str:
    """The name the provisioner gives the volume of a claim."""
    return f"pvc-{claim['metadata']['uid']}"


class FsxProvisioner:
    """Makes and deletes file systems for claims."""

    def __init__(self, api: Api, client: Client) -> None:
        self.api = api
        self._client = client
        self._role = self._eks = ""

    def _claims(self) -> list[tuple[Json, Json]]:
        pairs = []
        for claim in self.api.all("v1", "PersistentVolumeClaim"):
            if (claim.get("status") or {}).get("phase") != "Pending" or claim["metadata"].get("deletionTimestamp"):
                continue
            storage_class = self.api.find(
                "storage.k8s.io/v1", "StorageClass", "", claim["spec"].get("storageClassName", "")
            )
            if (
                storage_class
                and storage_class.get("provisioner") == DRIVER
                and not claim["spec"].get("volumeName")
                and self._wanted(claim, storage_class)
            ):
                pairs.append((claim, storage_class))
        return pairs

    def _wanted(self, claim: Json, storage_class: Json) -> bool:
        if storage_class.get("volumeBindingMode") != "WaitForFirstConsumer":
            return True
        return any(
            (v.get("persistentVolumeClaim") or {}).get("claimName") == claim["metadata"]["name"]
            for pod in self.api.all("v1", "Pod", claim["metadata"]["namespace"])
            for v in pod["spec"].get("volumes") or []
        )

    def _released(self) -> list[Json]:
        return [
            v
            for v in self.api.all("v1", "PersistentVolume")
            if (v.get("status") or {}).get("phase") == "Released"
            and v["spec"].get("persistentVolumeReclaimPolicy") == "Delete"
            and (v["metadata"].get("annotations") or {}).get(PROVISIONED_BY) == DRIVER
        ]

    async def poll(self, aws: Aws, eks_name: str) -> None:
        """One pass; does nothing at all while the driver could not run."""
        claims, released = self._claims(), self._released()
        if not claims and not released:
            return
        why = await self._driver_missing(aws, eks_name)
        if why:
            for claim, _ in claims:
                event(
                    self.api,
                    claim,
                    "Normal",
                    "ExternalProvisioning",
                    f"Waiting for a volume to be created by the external provisioner '{DRIVER}': {why}",
                    "persistentvolume-controller",
                ) if not self._told(claim, why) else None
            return
        systems = await aws.pages("fsx", "describe_file_systems", "FileSystems")
        for claim, storage_class in claims:
            await self._provision(aws, claim, storage_class, systems)
        for volume in released:
            await self._reclaim(aws, volume, systems)

    def _told(self, obj: Json, text: str) -> bool:
        return any(
            text in e.get("message", "") and (e.get("involvedObject") or {}).get("uid") == obj["metadata"]["uid"]
            for e in self.api.all("v1", "Event", obj["metadata"].get("namespace", ""))
        )

    async def _driver_missing(self, aws: Aws, eks_name: str) -> str:
        if not any(node_ready(n) for n in self.api.all("v1", "Node")):
            return "no node is ready to run the driver"
        try:
            addon = (await aws.call("eks", "describe_addon", clusterName=eks_name, addonName=ADDON))["addon"]
        except AwsError as error:
            return f"the add-on {ADDON} is not there ({error.code})"
        if addon.get("status") not in ("ACTIVE", "DEGRADED"):
            return f"the add-on {ADDON} is {addon.get('status')}"
        role = str(addon.get("serviceAccountRoleArn") or "")
        self._role, self._eks = role, eks_name
        if role:
            try:
                await aws.call("iam", "get_role", RoleName=role.rpartition("/")[2])
            except AwsError as error:
                return f"the driver's role cannot be assumed ({error.code})"
        return ""

    async def _allowed(self, aws: Aws, action: str, resource: str, keys: Json) -> None:
        """Raise AwsError where the driver's role, taken by its service account, may not do something."""
        account = self._role.split(":")[4] if self._role else ""
        try:
            reason = await asyncio.to_thread(
                self._client.web_identity,
                cluster=self._eks,
                subject=SUBJECT,
                role_arn=self._role,
                action=action,
                resource=f"arn:aws:fsx:{aws.region}:{account}:{resource}",
                keys=keys,
            )
        except ControlError as error:
            raise AwsError("Unreachable", str(error)) from None
        if reason:
            code, _, message = reason.partition(": ")
            raise AwsError(code, message)

    async def _provision(self, aws: Aws, claim: Json, storage_class: Json, systems: list[Json]) -> None:
        name = volume_name(claim)
        system = next((s for s in systems if {"Key": VOLUME_TAG, "Value": name} in (s.get("Tags") or [])), None)
        try:
            if system is None:
                event(
                    self.api,
                    claim,
                    "Normal",
                    "Provisioning",
                    f"External provisioner is provisioning volume for claim {name}",
                    DRIVER,
                )
                call = arguments(claim, storage_class)
                tags = {tag["Key"]: tag["Value"] for tag in call["Tags"]}
                keys = {**{f"aws:RequestTag/{k}": v for k, v in tags.items()}, "aws:TagKeys": sorted(tags)}
                for action in ("fsx:CreateFileSystem", "fsx:TagResource"):
                    await self._allowed(aws, action, "file-system/*", keys)
                await aws.call("fsx", "create_file_system", **call)
                return
        except (AwsError, ValueError) as error:
            event(self.api, claim, "Warning", "ProvisioningFailed", f"failed to provision volume: {error}", DRIVER)
            return
        if system["Lifecycle"] == "FAILED":
            event(
                self.api, claim, "Warning", "ProvisioningFailed", f"file system {system['FileSystemId']} failed", DRIVER
            )
        if system["Lifecycle"] != "AVAILABLE" or self.api.find("v1", "PersistentVolume", "", name):
            return
        lustre = system.get("LustreConfiguration") or {}
        body = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name, "annotations": {PROVISIONED_BY: DRIVER}, "finalizers": [_FINALIZER]},
            "spec": {
                "accessModes": claim["spec"]["accessModes"],
                "capacity": {"storage": f"{system['StorageCapacity']}Gi"},
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": claim["metadata"]["namespace"],
                    "name": claim["metadata"]["name"],
                    "uid": claim["metadata"]["uid"],
                },
                "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
                "storageClassName": storage_class["metadata"]["name"],
                "mountOptions": storage_class.get("mountOptions") or [],
                "csi": {
                    "driver": DRIVER,
                    "volumeHandle": system["FileSystemId"],
                    "volumeAttributes": {
                        "dnsname": str(system.get("DNSName", "")),
                        "mountname": str(lustre.get("MountName", "fsx")),
                    },
                },
            },
        }
        try:
            self.api.create(self.api.kind("v1", "PersistentVolume"), "", body)
        except ApiError as error:
            event(self.api, claim, "Warning", "ProvisioningFailed", error.message, DRIVER)
            return
        event(self.api, claim, "Normal", "ProvisioningSucceeded", f"Successfully provisioned volume {name}", DRIVER)

    async def _reclaim(self, aws: Aws, volume: Json, systems: list[Json]) -> None:
        identifier = volume["spec"]["csi"]["volumeHandle"]
        system = next((s for s in systems if s["FileSystemId"] == identifier), None)
        if system is not None and system["Lifecycle"] != "DELETING":
            try:
                keys = {f"aws:ResourceTag/{tag['Key']}": tag["Value"] for tag in system.get("Tags") or []}
                await self._allowed(aws, "fsx:DeleteFileSystem", f"file-system/{identifier}", keys)
                await aws.call("fsx", "delete_file_system", FileSystemId=identifier)
            except AwsError as error:
                event(self.api, volume, "Warning", "VolumeFailedDelete", str(error), DRIVER)
            return
        if system is None:
            remove(self.api, volume)

            def release(current: Json) -> None:
                current["metadata"]["finalizers"] = [
                    f for f in current["metadata"].get("finalizers") or [] if f != _FINALIZER
                ]

            self.api.modify(volume, release)
