"""What EC2 and EKS say that they offer: instance types by zone, and Kubernetes versions with their support.

MiniStack answers neither DescribeInstanceTypeOfferings nor DescribeClusterVersions. The data is that of
`hyperpod_ray_rules`: every HyperPod type is offered in every zone, unless a test withdraws it; versions have EKS's own
dates.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

from hyperpod_ray_rules import data
from hyperpod_ray_sandbox.aws.emulator.context import Context

Json = dict[str, Any]


class Offerings:
    """The answers, and the types that are withdrawn from zones."""

    def __init__(self, context: Context) -> None:
        self._hooks = context.hooks
        self._withdrawn: set[tuple[str, str]] = set()
        context.hooks.ec2._ACTION_MAP["DescribeInstanceTypeOfferings"] = self._types
        self._owners()
        handler = context.hooks.app.SERVICE_HANDLERS["eks"]

        async def handle(method: str, path: str, headers: Json, body: bytes, query: Json) -> Any:
            if method == "GET" and path.rstrip("/") == "/cluster-versions":
                return 200, {"Content-Type": "application/json"}, json.dumps(self._versions(query)).encode()
            return await handler(method, path, headers, body, query)

        context.hooks.app.SERVICE_HANDLERS["eks"] = handle

    def withdraw(self, instance_type: str, zone_id: str) -> None:
        """Offer a type no more in a zone; every type of the services is offered until then."""
        self._withdrawn.add((instance_type.removeprefix("ml."), zone_id))

    def _types(self, parameters: Json) -> Any:
        """Answer DescribeInstanceTypeOfferings by zone ID, for the types that the filter names."""
        requested: list[str] = []
        for key, values in parameters.items():
            if key.startswith("Filter.") and key.endswith(".Name") and values[0] == "instance-type":
                prefix = f"{key.removesuffix('Name')}Value."
                requested += [value[0] for name, value in parameters.items() if name.startswith(prefix)]
        offered = {
            name.removeprefix("ml.") for name in data.read("platform_versions.yaml")["hyperpod"]["instance_types"]
        }
        items = "".join(
            f"<item><instanceType>{instance_type}</instanceType><locationType>availability-zone-id</locationType>"
            f"<location>{zone}</location></item>"
            for instance_type in requested
            if instance_type in offered
            for zone in self._zones()
            if (instance_type, zone) not in self._withdrawn
        )
        body = f"<instanceTypeOfferingSet>{items}</instanceTypeOfferingSet>"
        return self._hooks.ec2._xml(200, "DescribeInstanceTypeOfferingsResponse", body)

    def _owners(self) -> None:
        """Let DescribeStackResources find the stack of a physical ID, which MiniStack's ignores."""
        cloudformation = self._hooks.cloudformation
        original = cloudformation._ACTION_HANDLERS["DescribeStackResources"]

        def describe(parameters: Json) -> Any:
            physical_id = (parameters.get("PhysicalResourceId") or [""])[0]
            for name, stack in cloudformation._stacks.items() if physical_id else ():
                held = [resource.get("PhysicalResourceId") for resource in stack.get("_resources", {}).values()]
                if physical_id in held and stack.get("StackStatus") != "DELETE_COMPLETE":
                    return original({**parameters, "StackName": [str(stack.get("StackName", name))]})
            return original(parameters)

        cloudformation._ACTION_HANDLERS["DescribeStackResources"] = describe

    def _zones(self) -> list[str]:
        """Zone IDs of the Region, from MiniStack's own answer."""
        _, _, body = self._hooks.ec2._ACTION_MAP["DescribeAvailabilityZones"]({})
        return [part.partition("<")[0] for part in body.decode().split("<zoneId>")[1:]]

    def _versions(self, query: Json) -> Json:
        """Answer DescribeClusterVersions."""
        parameter = query.get("clusterVersions") or []
        requested = set(parameter if isinstance(parameter, list) else [parameter])
        ends = data.read("platform_versions.yaml")["eks"]["support_ends"]
        versions = [
            _version(version, ends[version]) for version in sorted(ends) if not requested or version in requested
        ]
        return {"clusterVersions": versions}


def _version(version: str, ends: dict[str, date]) -> Json:
    day = datetime.now(UTC).date()
    status = (
        "STANDARD_SUPPORT"
        if day < ends["standard"]
        else "EXTENDED_SUPPORT"
        if day < ends["extended"]
        else "UNSUPPORTED"
    )
    return {
        "clusterVersion": version,
        "clusterType": "eks",
        "versionStatus": status,
        "status": status.lower().replace("_", "-"),
        "endOfStandardSupportDate": _moment(ends["standard"]),
        "endOfExtendedSupportDate": _moment(ends["extended"]),
    }


def _moment(day: date) -> float:
    return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()
