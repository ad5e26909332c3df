"""AWS::SageMaker::Cluster, AWS::FSx::FileSystem and its links to S3 over the emulated services."""

from __future__ import annotations

from typing import Any

from hyperpod_ray_sandbox.aws.emulator.cloudformation import Created, ResourceType, stack_name
from hyperpod_ray_sandbox.aws.emulator.context import Context, tag_map
from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError
from hyperpod_ray_sandbox.aws.emulator.fsx import Fsx
from hyperpod_ray_sandbox.aws.emulator.hyperpod.operations import UPDATABLE
from hyperpod_ray_sandbox.aws.emulator.json_service import JsonService
from hyperpod_ray_sandbox.aws.emulator.sagemaker import SageMaker

Json = dict[str, Any]


def _groups(properties: Json) -> dict[str, Json]:
    return {group["InstanceGroupName"]: group for group in properties.get("InstanceGroups", [])}


def _software(old: dict[str, Json], new: dict[str, Json]) -> list[Json]:
    """Requests for each group whose AMI changes. CloudFormation's own: "triggers a software update"."""
    changed = [group for name, group in new.items() if name in old]
    return [
        {
            "InstanceGroups": [
                {key: group[key] for key in ("InstanceGroupName", "ImageReleaseVersion") if key in group},
            ],
            **({"ImageId": group["ImageId"]} if "ImageId" in group else {}),
        }
        for group in changed
        if any(
            key in group and group[key] != old[group["InstanceGroupName"]].get(key)
            for key in ("ImageReleaseVersion", "ImageId")
        )
    ]


def cluster_type(context: Context, sagemaker: SageMaker, api: JsonService) -> ResourceType:
    """Return AWS::SageMaker::Cluster; every step waits as the service's own handler does."""

    def settled(name: str, *passing: str) -> Json:
        context.wait(lambda: sagemaker.find(name)["ClusterStatus"] not in passing, f"cluster {name}")
        cluster = sagemaker.find(name)
        if cluster["ClusterStatus"] == "Failed":
            raise ServiceError("NotStabilized", f"cluster {name} failed: {cluster.get('FailureMessage', '')}")
        return {
            "ClusterArn": cluster["ClusterArn"],
            "ClusterStatus": cluster["ClusterStatus"],
            "CreationTime": str(cluster["CreationTime"]),
            "FailureMessage": cluster.get("FailureMessage", ""),
        }

    def create(logical_id: str, properties: Json, stack: str) -> Created:
        name = properties.get("ClusterName") or stack_name(logical_id, stack, context, 63)
        data = api.model.coerce("CreateCluster", {**properties, "ClusterName": name})
        if "Tags" in data and not data["Tags"]:
            del data["Tags"]
        arn = api.call("CreateCluster", data)["ClusterArn"]
        return arn, settled(arn, "Creating")

    def update(arn: str, old: Json, new: Json, _stack: str) -> Created:
        data: Json = {"ClusterName": arn, **{k: new[k] for k in UPDATABLE if k in new}}
        data["InstanceGroups"] = list(_groups(new).values())
        gone = sorted(set(_groups(old)) - set(_groups(new)))
        if gone:
            data["InstanceGroupsToDelete"] = gone
        api.call("UpdateCluster", api.model.coerce("UpdateCluster", data))
        for request in _software(_groups(old), _groups(new)):
            settled(arn, "Updating")
            api.call(
                "UpdateClusterSoftware", api.model.coerce("UpdateClusterSoftware", {"ClusterName": arn, **request})
            )
        _tag(api, arn, old.get("Tags"), new.get("Tags"))
        return arn, settled(arn, "Updating", "SystemUpdating")

    def delete(arn: str, _properties: Json) -> None:
        if not sagemaker.exists(arn):
            return
        api.call("DeleteCluster", {"ClusterName": arn})
        context.wait(lambda: not sagemaker.exists(arn), f"deletion of cluster {arn}")

    def read(arn: str, _properties: Json) -> Json | None:
        return sagemaker.template_view(arn) if sagemaker.exists(arn) else None

    return ResourceType(
        type="AWS::SageMaker::Cluster",
        create=create,
        update=update,
        delete=delete,
        replacing=("ClusterName", "VpcConfig", "Orchestrator"),
        name="ClusterName",
        blocking=True,
        read=read,
        drifting=frozenset({"InstanceGroups", "NodeRecovery", "NodeProvisioningMode"}),
    )


def _tag(api: JsonService, arn: str, before: Any, after: Any) -> None:
    """Give a cluster the tags that its template has now."""
    if tag_map(before) == tag_map(after):
        return
    removed = sorted(set(tag_map(before)) - set(tag_map(after)))
    if removed:
        api.call("DeleteTags", {"ResourceArn": arn, "TagKeys": removed})
    if after:
        api.call("AddTags", {"ResourceArn": arn, "Tags": after})


def file_system_type(context: Context, fsx: Fsx, api: JsonService) -> ResourceType:
    """Return AWS::FSx::FileSystem; create waits until it is available, delete until it is gone."""

    def attributes(record: Json) -> Json:
        return {
            "Id": record["FileSystemId"],
            "DNSName": record["DNSName"],
            "LustreMountName": record.get("LustreConfiguration", {}).get("MountName", ""),
            "ResourceARN": record["ResourceARN"],
            "RootVolumeId": record.get("OpenZFSConfiguration", {}).get("RootVolumeId", ""),
        }

    def create(_logical_id: str, properties: Json, _stack: str) -> Created:
        request = dict(properties)
        if "OpenZFSConfiguration" in request:  # what CloudFormation keeps for the deletion
            request["OpenZFSConfiguration"] = {
                k: v for k, v in request["OpenZFSConfiguration"].items() if k != "Options"
            }
        answer = api.call("CreateFileSystem", api.model.coerce("CreateFileSystem", request))
        identifier: str = answer["FileSystem"]["FileSystemId"]
        context.wait(lambda: fsx.find(identifier)["Lifecycle"] == "AVAILABLE", f"file system {identifier}")
        return identifier, attributes(fsx.find(identifier))

    def update(identifier: str, old: Json, new: Json, _stack: str) -> Created:
        data: Json = {"FileSystemId": identifier}
        if new.get("StorageCapacity") != old.get("StorageCapacity"):
            data["StorageCapacity"] = new["StorageCapacity"]
        for configuration in ("LustreConfiguration", "OpenZFSConfiguration"):
            before, after = old.get(configuration, {}), new.get(configuration, {})
            if changed := {k: v for k, v in after.items() if before.get(k) != v}:
                data[configuration] = changed
        if len(data) > 1:
            api.call("UpdateFileSystem", api.model.coerce("UpdateFileSystem", data))
        _tags(api, fsx.find(identifier)["ResourceARN"], old, new)
        return identifier, attributes(fsx.find(identifier))

    def delete(identifier: str, _properties: Json) -> None:
        if not fsx.exists(identifier):
            return
        api.call("DeleteFileSystem", {"FileSystemId": identifier})
        context.wait(lambda: not fsx.exists(identifier), f"deletion of file system {identifier}")

    def read(identifier: str, _properties: Json) -> Json | None:
        return fsx.find(identifier) if fsx.exists(identifier) else None

    return ResourceType(
        type="AWS::FSx::FileSystem",
        create=create,
        update=update,
        delete=delete,
        replacing=("BackupId", "FileSystemType", "FileSystemTypeVersion", "KmsKeyId", "SecurityGroupIds", "SubnetIds",
                   "StorageType"),
        blocking=True,
        read=read,
        drifting=frozenset({"StorageCapacity"}),
    )  # fmt: skip


def data_repository_type(context: Context, fsx: Fsx, api: JsonService) -> ResourceType:
    """Return AWS::FSx::DataRepositoryAssociation; each step waits until the link is available or gone."""
    links = fsx.links

    def settled(identifier: str) -> Created:
        context.wait(lambda: links.find(identifier)["Lifecycle"] == "AVAILABLE", f"association {identifier}")
        return identifier, {"AssociationId": identifier, "ResourceARN": links.find(identifier)["ResourceARN"]}

    def create(_logical_id: str, properties: Json, _stack: str) -> Created:
        operation = "CreateDataRepositoryAssociation"
        identifier: str = api.call(operation, api.model.coerce(operation, properties))["Association"]["AssociationId"]
        return settled(identifier)

    def update(identifier: str, old: Json, new: Json, _stack: str) -> Created:
        data = {name: new[name] for name in ("S3", "ImportedFileChunkSize") if new.get(name) != old.get(name)}
        if data:
            operation = "UpdateDataRepositoryAssociation"
            api.call(operation, api.model.coerce(operation, {**data, "AssociationId": identifier}))
        _tags(api, links.find(identifier)["ResourceARN"], old, new)
        return settled(identifier)

    def delete(identifier: str, _properties: Json) -> None:
        if not links.exists(identifier):
            return
        api.call("DeleteDataRepositoryAssociation", {"AssociationId": identifier})
        context.wait(lambda: not links.exists(identifier), f"deletion of association {identifier}")

    return ResourceType(
        type="AWS::FSx::DataRepositoryAssociation",
        create=create,
        update=update,
        delete=delete,
        replacing=("FileSystemId", "FileSystemPath", "DataRepositoryPath", "BatchImportMetaDataOnCreate"),
        blocking=True,
    )


def _tags(api: JsonService, arn: str, old: Json, new: Json) -> None:
    removed = sorted(set(tag_map(old.get("Tags"))) - set(tag_map(new.get("Tags"))))
    if removed:
        api.call("UntagResource", {"ResourceARN": arn, "TagKeys": removed})
    if new.get("Tags"):
        api.call("TagResource", {"ResourceARN": arn, "Tags": new["Tags"]})
