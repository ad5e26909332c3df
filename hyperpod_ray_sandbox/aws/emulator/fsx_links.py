"""Data repository associations: links between a folder of a Lustre file system and a bucket; no file is ever copied.

Source: the FSx API reference (CreateDataRepositoryAssociation and its neighbours).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from hyperpod_ray_rules import fsx as rules
from hyperpod_ray_sandbox.aws.emulator.context import Context, hex_id, tag_list, tag_map
from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError

Json = dict[str, Any]

LIMIT = 8
"""Associations of one file system."""


class Links:
    """The part of the FSx API for data repository associations.

    Args:
        file_system: Answers a file system's record, `FileSystemNotFound` without one.
    """

    def __init__(self, context: Context, *, file_system: Callable[[str], Json]) -> None:
        self._context = context
        self._hooks = context.hooks
        self._file_system = file_system
        self._links: Any = context.hooks.scoped_dict()
        context.tickers.append(self._tick)

    def create(self, data: Json) -> Json:
        """Begin to make a link; what the service refuses is refused."""
        record = self._file_system(data["FileSystemId"])
        self._check(record, data)
        identifier = hex_id("dra-")
        members = ("FileSystemId", "FileSystemPath", "DataRepositoryPath", "BatchImportMetaDataOnCreate", "S3")
        link: Json = {
            "FileSystemPath": "/",
            "BatchImportMetaDataOnCreate": False,
            "ImportedFileChunkSize": data.get("ImportedFileChunkSize", 1024),
            **{name: data[name] for name in members if name in data},
            "AssociationId": identifier,
            "ResourceARN": self._hooks.arn("fsx", f"association/{data['FileSystemId']}/{identifier}"),
            "Lifecycle": "CREATING",
            "CreationTime": time.time(),
            "Tags": tag_list(tag_map(data.get("Tags"))),
            "_until": self._context.later(),
            "_scope": (self._hooks.account(), self._hooks.region()),
        }
        self._links[identifier] = link
        return _view(link)

    def describe(self, data: Json) -> list[Json]:
        """The links asked for by id or by file system, or all."""
        if identifiers := data.get("AssociationIds"):
            return [_view(self.find(identifier)) for identifier in identifiers]
        file_systems = {
            value
            for criterion in data.get("Filters", [])
            if criterion.get("Name") == "file-system-id"
            for value in criterion.get("Values", [])
        }
        return [_view(link) for link in self._present() if not file_systems or link["FileSystemId"] in file_systems]

    def update(self, data: Json) -> Json:
        """Change the events and the chunk size; nothing else of a link changes."""
        link = self.find(data["AssociationId"])
        if link["Lifecycle"] != "AVAILABLE":
            raise ServiceError(
                "BadRequest", f"Data repository association {link['AssociationId']} is {link['Lifecycle']}"
            )
        link.update({name: data[name] for name in ("S3", "ImportedFileChunkSize") if name in data})
        link.update(Lifecycle="UPDATING", _until=self._context.later())
        return _view(link)

    def delete(self, data: Json) -> Json:
        """Begin to delete a link; the files stay unless the request says otherwise."""
        link = self.find(data["AssociationId"])
        if link["Lifecycle"] != "DELETING":
            link.update(Lifecycle="DELETING", _until=self._context.later())
        return {
            "AssociationId": link["AssociationId"],
            "Lifecycle": "DELETING",
            "DeleteDataInFileSystem": bool(data.get("DeleteDataInFileSystem")),
        }

    # -- for the rest of the emulator ---------------------------------------------------------------------------

    def find(self, identifier: str) -> Json:
        """Return the record of a link; `DataRepositoryAssociationNotFound` without one."""
        link = self._links.get(identifier)
        if link is not None:
            self._advance(link, self._context.now())
            link = self._links.get(identifier)
        if link is None:
            raise ServiceError(
                "DataRepositoryAssociationNotFound", f"Data repository association '{identifier}' does not exist."
            )
        association: Json = link
        return association

    def exists(self, identifier: str) -> bool:
        """Say whether a link is there, in whatever state."""
        try:
            self.find(identifier)
        except ServiceError:
            return False
        return True

    def forget(self, file_system: str) -> None:
        """A file system is gone, and its links with it."""
        for identifier in [link["AssociationId"] for link in self._present() if link["FileSystemId"] == file_system]:
            self._links.pop(identifier, None)

    def inventory(self) -> list[Json]:
        """Return what exists now."""
        return [
            {"type": "AWS::FSx::DataRepositoryAssociation", "id": link["AssociationId"], "state": link["Lifecycle"]}
            for link in self._links.values()
        ]

    def _present(self) -> list[Json]:
        return [self._links[key] for key in sorted(self._links.keys()) if self.exists(key)]

    def _check(self, record: Json, data: Json) -> None:
        if record["Lifecycle"] != "AVAILABLE":
            raise ServiceError("BadRequest", f"File system {record['FileSystemId']} is {record['Lifecycle']}")
        lustre = record["LustreConfiguration"]
        if record["StorageType"] == rules.INTELLIGENT_TIERING:
            # https://docs.aws.amazon.com/fsx/latest/LustreGuide/fsx-data-repositories.html
            raise ServiceError("BadRequest", "Intelligent-Tiering file systems take no data repository association")
        if lustre["DeploymentType"] == "SCRATCH_1" or record.get("FileSystemTypeVersion") == "2.10":
            raise ServiceError(
                "UnsupportedOperation",
                "Data repository associations need Lustre 2.12 or 2.15 and a deployment type other than SCRATCH_1",
            )
        if lustre.get("AutomaticBackupRetentionDays"):
            raise ServiceError(
                "BadRequest", "A file system with automatic backups takes no data repository association"
            )
        path, repository = data.get("FileSystemPath", "/"), data["DataRepositoryPath"]
        if not path.startswith("/"):
            raise ServiceError("BadRequest", f"FileSystemPath begins with /, got {path}")
        links = [link for link in self._present() if link["FileSystemId"] == record["FileSystemId"]]
        if len(links) >= LIMIT:
            raise ServiceError(
                "ServiceLimitExceeded", f"A file system has at most {LIMIT} data repository associations"
            )
        for link in links:
            if _overlap(path, link["FileSystemPath"]):
                raise ServiceError("BadRequest", f"FileSystemPath {path} overlaps {link['FileSystemPath']}")
            if repository.rstrip("/") == link["DataRepositoryPath"].rstrip("/"):
                raise ServiceError("BadRequest", f"{repository} is already linked to {link['FileSystemPath']}")
        bucket = repository.removeprefix("s3://").partition("/")[0]
        if not repository.startswith("s3://") or bucket not in self._hooks.s3._buckets:
            raise ServiceError("BadRequest", f"Amazon FSx is unable to validate access to the S3 bucket: {repository}")

    def _tick(self, now: float) -> None:
        for link in self._links.all_values():
            with self._hooks.responses.request_scope(*link["_scope"]):
                self._advance(link, now)

    def _advance(self, link: Json, now: float) -> None:
        if link["_until"] is None or now < link["_until"]:
            return
        link["_until"] = None
        if link["Lifecycle"] == "DELETING":
            self._links.pop(link["AssociationId"], None)
        else:
            link["Lifecycle"] = "AVAILABLE"


def _overlap(first_path: str, second_path: str) -> bool:
    a, b = (f"{path.rstrip('/')}/" for path in (first_path, second_path))
    return a.startswith(b) or b.startswith(a)


def _view(link: Json) -> Json:
    return {key: value for key, value in link.items() if not key.startswith("_") and (value or key != "Tags")}
