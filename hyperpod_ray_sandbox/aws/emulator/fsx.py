"""Amazon FSx for Lustre and OpenZFS: file systems that are created, are available and go away, with interfaces.

Source: the FSx API reference (CreateFileSystem, UpdateFileSystem, DeleteFileSystem).
"""

from __future__ import annotations

import time
from typing import Any

from hyperpod_ray_rules import fsx as rules
from hyperpod_ray_sandbox.aws.emulator.context import Context, hex_id, tag_list, tag_map, word
from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError, refuse
from hyperpod_ray_sandbox.aws.emulator.fsx_links import Links
from hyperpod_ray_sandbox.aws.emulator.network import Network

Json = dict[str, Any]

NAMES = {"LUSTRE": "Lustre", "OPENZFS": "OpenZFS"}
DELETE_STATES = 2.0  # deleting takes longer than creating the other things: it is what a destroy waits for


class Fsx:
    """The part of the FSx API for Lustre and OpenZFS file systems."""

    botocore_name = "fsx"

    def __init__(self, context: Context, network: Network) -> None:
        self._context = context
        self._hooks = context.hooks
        self._network = network
        self._file_systems: Any = context.hooks.scoped_dict()
        self.links = Links(context, file_system=self.find)
        context.tickers.append(self._tick)

    def CreateFileSystem(self, data: Json) -> Json:
        """Create a file system; the same client token answers the same one."""
        token = data.get("ClientRequestToken")
        for existing in self._file_systems.values():
            if token and existing["_token"] == token:
                return {"FileSystem": self._view(existing)}
        if data["FileSystemType"] not in ("LUSTRE", "OPENZFS"):
            raise ServiceError("BadRequest", f"LUSTRE and OPENZFS are emulated, got {data['FileSystemType']}", 400)
        refuse(rules.create_file_system(data), code="BadRequest")
        self._network.check(data["SubnetIds"], data.get("SecurityGroupIds", []))
        identifier = hex_id("fs-")
        interface, _, _ = self._network.create_interface(
            data["SubnetIds"],
            data.get("SecurityGroupIds", []),
            f"Created by FSx for {NAMES[data['FileSystemType']]} {identifier}",
        )
        subnet = self._hooks.ec2._subnets.get(data["SubnetIds"][0], {})
        members = ("FileSystemType", "StorageCapacity", "StorageType", "SubnetIds", "KmsKeyId", "FileSystemTypeVersion")
        record: Json = {
            "StorageType": "SSD",
            **_of_type(data),
            **{k: data[k] for k in members if k in data},
            "OwnerId": self._hooks.account(),
            "CreationTime": time.time(),
            "FileSystemId": identifier,
            "Lifecycle": "CREATING",
            "VpcId": subnet.get("VpcId", ""),
            "NetworkInterfaceIds": [interface],
            "DNSName": f"{identifier}.fsx.{self._hooks.region()}.amazonaws.com",
            "ResourceARN": self._hooks.arn("fsx", f"file-system/{identifier}"),
            "Tags": tag_list(tag_map(data.get("Tags"))),
            "_token": token,
            "_until": self._context.later(),
            "_scope": (self._hooks.account(), self._hooks.region()),
        }
        self._file_systems[identifier] = record
        return {"FileSystem": self._view(record)}

    def DescribeFileSystems(self, data: Json) -> Json:
        """Answer the file systems asked for, or all."""
        if identifiers := data.get("FileSystemIds"):
            return {"FileSystems": [self._view(self.find(identifier)) for identifier in identifiers]}
        # a file system that goes away while the list is built is omitted: only one asked for by name is missed
        present = [identifier for identifier in sorted(self._file_systems.keys()) if self.exists(identifier)]
        records = (self._file_systems.get(identifier) for identifier in present)
        return {"FileSystems": [self._view(record) for record in records if record is not None]}

    def UpdateFileSystem(self, data: Json) -> Json:
        """Change size, throughput, read cache and Lustre settings; sizes only grow."""
        record = self.find(data["FileSystemId"])
        self._available(record)
        if (storage_type := data.get("StorageType", record["StorageType"])) != record["StorageType"]:
            raise ServiceError(
                "BadRequest", f"The storage type is {record['StorageType']} and stays, got {storage_type}"
            )
        capacity = int(data.get("StorageCapacity") or record.get("StorageCapacity") or 0)
        if record["FileSystemType"] == "OPENZFS":
            return {"FileSystem": self._update_openzfs(record, capacity, data.get("OpenZFSConfiguration", {}))}
        lustre = {**record["LustreConfiguration"], **data.get("LustreConfiguration", {})}
        linked = [{"Name": "file-system-id", "Values": [record["FileSystemId"]]}]
        if lustre.get("AutomaticBackupRetentionDays") and self.links.describe({"Filters": linked}):
            raise ServiceError("BadRequest", "A file system with data repository associations takes no backups")
        if record["StorageType"] == rules.INTELLIGENT_TIERING:
            size = {"StorageCapacity": capacity} if capacity else {}
            refuse(rules.update_elastic(record, record | size | {"LustreConfiguration": lustre}), code="BadRequest")
            record.update(LustreConfiguration=lustre)
            return {"FileSystem": self._view(record)}
        grown = rules.update_file_system(record["StorageCapacity"], capacity, deployment=lustre["DeploymentType"])
        refuse(grown, code="BadRequest")
        record.update(StorageCapacity=capacity, LustreConfiguration=lustre)
        return {"FileSystem": self._view(record)}

    def _update_openzfs(self, record: Json, capacity: int, configuration: Json) -> Json:
        changed = {"StorageCapacity": capacity, "OpenZFSConfiguration": record["OpenZFSConfiguration"] | configuration}
        refuse(rules.update_openzfs(record, record | changed), code="BadRequest")
        record.update(changed)
        return self._view(record)

    def DeleteFileSystem(self, data: Json) -> Json:
        """Begin to delete a file system; its network interface stays until it is gone."""
        record = self.find(data["FileSystemId"])
        if record["Lifecycle"] != "DELETING":
            self._available(record)
            stuck = self._context.faults.take("fsx", "DeleteFileSystem", effect="stuck")
            record.update(Lifecycle="DELETING", _until=None if stuck else self._context.later(DELETE_STATES))
        return {"FileSystemId": record["FileSystemId"], "Lifecycle": "DELETING"}

    def CreateDataRepositoryAssociation(self, data: Json) -> Json:
        """Link a folder to a bucket."""
        return {"Association": self.links.create(data)}

    def DescribeDataRepositoryAssociations(self, data: Json) -> Json:
        """Answer links by id or by file system."""
        return {"Associations": self.links.describe(data)}

    def UpdateDataRepositoryAssociation(self, data: Json) -> Json:
        """Change a link's events."""
        return {"Association": self.links.update(data)}

    def DeleteDataRepositoryAssociation(self, data: Json) -> Json:
        """Take a link away; files stay."""
        return self.links.delete(data)

    def TagResource(self, data: Json) -> Json:
        """Add tags to a file system or a link."""
        record = self._by_arn(data["ResourceARN"])
        record["Tags"] = tag_list({**tag_map(record["Tags"]), **tag_map(data["Tags"])})
        return {}

    def UntagResource(self, data: Json) -> Json:
        """Remove tags from a file system or a link."""
        record = self._by_arn(data["ResourceARN"])
        record["Tags"] = [t for t in record["Tags"] if t["Key"] not in data["TagKeys"]]
        return {}

    def ListTagsForResource(self, data: Json) -> Json:
        """Answer the tags of a file system."""
        return {"Tags": self._by_arn(data["ResourceARN"])["Tags"]}

    # -- for the rest of the emulator ---------------------------------------------------------------------------

    def find(self, identifier: str) -> Json:
        """Return the record of a file system, advanced to now; `FileSystemNotFound` without one."""
        record = self._file_systems.get(identifier)
        if record is not None:
            self._advance(record, self._context.now())
            record = self._file_systems.get(identifier)
        if record is None:
            raise ServiceError("FileSystemNotFound", f"File system '{identifier}' does not exist.")
        file_system: Json = record
        return file_system

    def exists(self, identifier: str) -> bool:
        """Say whether a file system is there, in whatever state."""
        try:
            self.find(identifier)
        except ServiceError:
            return False
        return True

    def records(self) -> list[Json]:
        """Return every file system of the account and Region that is not on its way out."""
        return [record for record in self._file_systems.values() if record["Lifecycle"] != "DELETING"]

    def release_stuck(self) -> None:
        """Let what is stuck in DELETING be deleted."""
        for record in self._file_systems.all_values():
            if record["Lifecycle"] == "DELETING" and record["_until"] is None:
                record["_until"] = self._context.later()

    def inventory(self) -> list[Json]:
        """Return what exists now."""
        return [
            {"type": "AWS::FSx::FileSystem", "id": f["FileSystemId"], "state": f["Lifecycle"]}
            for f in self._file_systems.values()
        ] + self.links.inventory()

    def _tick(self, now: float) -> None:
        for record in self._file_systems.all_values():
            with self._hooks.responses.request_scope(*record["_scope"]):
                self._advance(record, now)

    def _advance(self, record: Json, now: float) -> None:
        if record["_until"] is None or now < record["_until"]:
            return
        record["_until"] = None
        if record["Lifecycle"] == "CREATING":
            record["Lifecycle"] = "AVAILABLE"
        elif record["Lifecycle"] == "DELETING":
            for interface in record["NetworkInterfaceIds"]:
                self._network.delete_interface(interface)
            self._file_systems.pop(record["FileSystemId"], None)
            self.links.forget(record["FileSystemId"])

    def _available(self, record: Json) -> None:
        if record["Lifecycle"] != "AVAILABLE":
            raise ServiceError("BadRequest", f"File system {record['FileSystemId']} is {record['Lifecycle']}")

    def _by_arn(self, arn: str) -> Json:
        identifier = arn.rsplit("/", 1)[-1]
        return self.links.find(identifier) if identifier.startswith("dra-") else self.find(identifier)

    def _view(self, record: Json) -> Json:
        # the service leaves Tags out where there are none
        return {k: v for k, v in record.items() if not k.startswith("_") and (v or k != "Tags")}


def _of_type(data: Json) -> Json:
    """Members that depend on the type of the file system."""
    if data["FileSystemType"] == "OPENZFS":
        configuration = dict(data["OpenZFSConfiguration"])
        configuration.pop("RootVolumeConfiguration", None)  # a volume of its own in the API, which is not emulated
        return {"OpenZFSConfiguration": {**configuration, "RootVolumeId": hex_id("fsvol-")}}
    configuration = data.get("LustreConfiguration", {})
    lustre = {"DeploymentType": "SCRATCH_1", "MountName": word(8), "DataCompressionType": "NONE", **configuration}
    version = "2.12" if lustre["DeploymentType"] == "PERSISTENT_2" else "2.10"
    if lustre.get("MetadataConfiguration"):
        version = "2.15"
    return {"FileSystemTypeVersion": version, "LustreConfiguration": lustre}
