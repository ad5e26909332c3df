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


def _type(api: JsonService, kind: str, replacing: tuple[str, ...]) -> ResourceType:
    def described(identifier: str) -> Json:
        found: Json = api.call(f"Describe{kind}", {f"{kind}Id": identifier})
        return found

    def attributes(identifier: str) -> Created:
        record = described(identifier)
        shown = {key: record[key] for key in (f"{kind}Arn", f"{kind}Id", f"{kind}Version", "Status")}
        return record[f"{kind}Arn"], shown

    def create(_logical_id: str, properties: Json, _stack: str) -> Created:
        answer = api.call(f"Create{kind}", api.model.coerce(f"Create{kind}", properties))
        return attributes(answer[f"{kind}Id"])

    def update(arn: str, _old: Json, new: Json, _stack: str) -> Created:
        identifier = arn.rpartition("/")[2]
        data = {key: new[key] for key in CHANGEABLE[kind] if key in new}
        version = described(identifier)[f"{kind}Version"]
        data |= {f"{kind}Id": identifier, "TargetVersion": version}
        api.call(f"Update{kind}", api.model.coerce(f"Update{kind}", data))
        return attributes(identifier)

    def delete(arn: str, _properties: Json) -> None:
        try:
            api.call(f"Delete{kind}", {f"{kind}Id": arn.rpartition("/")[2]})
        except ServiceError as error:
            if error.code != "ResourceNotFound":
                raise

    return ResourceType(
        type=f"AWS::SageMaker::{kind}",
        create=create,
        update=update,
        delete=delete,
        replacing=replacing,
        name="Name",
    )
