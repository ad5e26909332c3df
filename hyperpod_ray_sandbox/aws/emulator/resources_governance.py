"""AWS::SageMaker::ClusterSchedulerConfig and AWS::SageMaker::ComputeQuota over the emulated service."""

from __future__ import annotations

from typing import Any

from hyperpod_ray_sandbox.aws.emulator.cloudformation import Created, ResourceType
from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError
from hyperpod_ray_sandbox.aws.emulator.hyperpod.governance import POLICY, QUOTA
from hyperpod_ray_sandbox.aws.emulator.json_service import JsonService

Json = dict[str, Any]
CHANGEABLE = {
    QUOTA: ("ComputeQuotaConfig", "ComputeQuotaTarget", "ActivationState", "Description"),
    POLICY: ("SchedulerConfig", "Description"),
}


def governance_types(api: JsonService) -> list[ResourceType]:
    """Return both types."""
    return [_type(api, POLICY, ("Name", "ClusterArn")), _type(api, QUOTA, ("Name", "ClusterArn"))]


def _type(api: JsonService, resource: str, replacing: tuple[str, ...]) -> ResourceType:
    def described(identifier: str) -> Json:
        description: Json = api.call(f"Describe{resource}", {f"{resource}Id": identifier})
        return description

    def attributes(identifier: str) -> Created:
        record = described(identifier)
        returned = {key: record[key] for key in (f"{resource}Arn", f"{resource}Id", f"{resource}Version", "Status")}
        return record[f"{resource}Arn"], returned

    def create(_logical_id: str, properties: Json, _stack: str) -> Created:
        answer = api.call(f"Create{resource}", api.model.coerce(f"Create{resource}", properties))
        return attributes(answer[f"{resource}Id"])

    def update(arn: str, _old: Json, new: Json, _stack: str) -> Created:
        identifier = arn.rpartition("/")[2]
        data = {key: new[key] for key in CHANGEABLE[resource] if key in new}
        version = described(identifier)[f"{resource}Version"]
        data |= {f"{resource}Id": identifier, "TargetVersion": version}
        api.call(f"Update{resource}", api.model.coerce(f"Update{resource}", data))
        return attributes(identifier)

    def delete(arn: str, _properties: Json) -> None:
        try:
            api.call(f"Delete{resource}", {f"{resource}Id": arn.rpartition("/")[2]})
        except ServiceError as error:
            if error.code != "ResourceNotFound":
                raise

    return ResourceType(
        type=f"AWS::SageMaker::{resource}",
        create=create,
        update=update,
        delete=delete,
        replacing=replacing,
        name="Name",
    )
