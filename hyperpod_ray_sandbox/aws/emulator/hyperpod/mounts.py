"""The file systems that a group's nodes mount (`InstanceStorageConfigs`), which must be within their reach.

The API reference names no refusal. Nodes of the service find out when they mount, and the group never has one; here the
request is refused, so that a deploy ends at the cause.
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterFsxLustreConfig.html
https://docs.aws.amazon.com/fsx/latest/LustreGuide/mounting-on-premises.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError
from hyperpod_ray_sandbox.aws.emulator.fsx import Fsx
from hyperpod_ray_sandbox.aws.emulator.hooks import Hooks

Json = dict[str, Any]
TYPES = {"FsxLustreConfig": "LUSTRE", "FsxOpenZfsConfig": "OPENZFS"}
"""Type of the file system that a member of `InstanceStorageConfigs` mounts."""


class Mounts:
    """Judges the mounts of instance groups by the file systems that there are."""

    def __init__(self, hooks: Hooks, fsx: Fsx) -> None:
        self._ec2 = hooks.ec2
        self._fsx = fsx

    def check(self, groups: list[Json], network: Json) -> None:
        """Raise where a group mounts what is not there, under another name, or in another VPC than its nodes.

        Args:
            groups: Instance groups of a request.
            network: The cluster's own `VpcConfig`; a group's `OverrideVpcConfig` comes before it.
        """
        for group in groups:
            subnets = (group.get("OverrideVpcConfig") or network).get("Subnets", [])
            for config_name, mount in _mounts(group):
                self._check(
                    f"{config_name} of instance group {group['InstanceGroupName']}", config_name, mount, subnets
                )

    def _check(self, owner: str, config_name: str, mount: Json, subnets: list[str]) -> None:
        dns_name = mount["DnsName"]
        of_type = [record for record in self._fsx.records() if record["FileSystemType"] == TYPES[config_name]]
        file_system = next((record for record in of_type if record["DNSName"] == dns_name), None)
        if file_system is None:
            message = f"{owner}: no {TYPES[config_name]} file system has {dns_name}"
            raise ServiceError("ValidationException", message)
        if config_name == "FsxLustreConfig" and mount["MountName"] != file_system["LustreConfiguration"]["MountName"]:
            name = file_system["LustreConfiguration"]["MountName"]
            raise ServiceError("ValidationException", f"{owner}: the mount name of {dns_name} is {name}")
        for subnet in subnets:
            vpc = self._ec2._subnets.get(subnet, {}).get("VpcId")
            if vpc != file_system["VpcId"]:
                raise ServiceError(
                    "ValidationException",
                    f"{owner}: {dns_name} is in {file_system['VpcId']}, and {subnet} is in {vpc}",
                )


def _mounts(group: Json) -> Iterator[tuple[str, Json]]:
    for config in group.get("InstanceStorageConfigs", []):
        for config_name in TYPES:
            if config_name in config:
                yield config_name, config[config_name]
