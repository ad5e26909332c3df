"""MLflow apps of SageMaker AI: the records, and `AWS::SageMaker::MlflowApp` over them. No app records a run here.

Source: the SageMaker API reference (CreateMlflowApp and its neighbours), and the type's resource schema.
"""

from __future__ import annotations

import time
from typing import Any

from hyperpod_ray_rules.mlflow import app_host
from hyperpod_ray_sandbox.aws.emulator.cloudformation import Created, ResourceType
from hyperpod_ray_sandbox.aws.emulator.context import Context, tag_map, word
from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError
from hyperpod_ray_sandbox.aws.emulator.json_service import JsonService
from hyperpod_ray_sandbox.aws.emulator.roles import Roles

Json = dict[str, Any]
TYPE = "AWS::SageMaker::MlflowApp"
CHANGEABLE = ("ArtifactStoreUri", "ModelRegistrationMode", "WeeklyMaintenanceWindowStart")
SHOWN = ("Arn", "Name", "Status", "MlflowVersion", "CreationTime", "LastModifiedTime")
VERSION = "3.4.0"
"""What a new app says of itself; the service chooses it."""


class MlflowOperations:
    """Each public method answers the operation of its name."""

    def __init__(self, context: Context, roles: Roles, tags: Any) -> None:
        self._hooks = context.hooks
        self._roles = roles
        self._tags = tags
        self.apps: Any = context.hooks.scoped_dict()
        """ARN to record."""

    def CreateMlflowApp(self, data: Json) -> Json:
        """Create an app whose role reaches its bucket. Its name need not be unique."""
        arn = self._hooks.arn("sagemaker", f"mlflow-app/app-{word(12).upper()}")
        self._check(data, arn)
        now = time.time()
        settings = {key: value for key, value in data.items() if key != "Tags"}
        self.apps[arn] = {
            "ModelRegistrationMode": "AutoModelRegistrationDisabled",
            **settings,
            "Arn": arn,
            "MlflowVersion": VERSION,
            "Status": "Created",
            "CreationTime": now,
            "LastModifiedTime": now,
        }
        self._tags[arn] = tag_map(data.get("Tags"))
        return {"Arn": arn}

    def UpdateMlflowApp(self, data: Json) -> Json:
        """Change an app in place."""
        app = self._find(data["Arn"])
        self._check({**app, **data}, app["Arn"])
        app.update({**data, "Status": "Updated", "LastModifiedTime": time.time()})
        return {"Arn": app["Arn"]}

    def DescribeMlflowApp(self, data: Json) -> Json:
        """Answer an app."""
        return dict(self._find(data["Arn"]))

    def DeleteMlflowApp(self, data: Json) -> Json:
        """Delete an app with the record of its runs; its bucket stays."""
        arn = self._find(data["Arn"])["Arn"]
        self.apps.pop(arn, None)
        self._tags.pop(arn, None)
        return {"Arn": arn}

    def CreatePresignedMlflowAppUrl(self, data: Json) -> Json:
        """Answer an address that nothing serves."""
        name = self._find(data["Arn"])["Arn"].rpartition("/")[2]
        return {"AuthorizedUrl": f"https://{app_host(self._hooks.region())}/auth?app={name}&authToken={word(12)}"}

    def ListMlflowApps(self, _data: Json) -> Json:
        """Answer all apps."""
        return {"Summaries": [{key: app[key] for key in SHOWN} for app in self.apps.values()]}

    def mlflow_inventory(self) -> list[Json]:
        """Return what exists now."""
        return [{"type": TYPE, "id": arn, "state": app["Status"]} for arn, app in self.apps.items()]

    def _find(self, arn: str) -> Json:
        record: Json | None = self.apps.get(arn)
        if record is None:
            raise ServiceError("ResourceNotFound", f"MLflow App {arn} not found")
        return record

    def _check(self, data: Json, arn: str) -> None:
        role, store = str(data["RoleArn"]), str(data["ArtifactStoreUri"])
        bucket, _, prefix = store.partition("://")[2].partition("/")
        if bucket not in self._hooks.s3._buckets:
            raise ServiceError("ValidationException", f"Bucket {bucket} of the artifact store does not exist")
        if not self._roles.trusts(role, service="sagemaker.amazonaws.com", source=arn):
            raise ServiceError("ValidationException", f"Could not assume role {role}")
        objects = f"arn:aws:s3:::{bucket}/{prefix.rstrip('/') + '/' if prefix else ''}1/artifact"
        for action in ("s3:PutObject", "s3:GetObject"):
            if refused := self._roles.refusal(role, action, objects, session="SageMaker"):
                raise ServiceError("ValidationException", refused)


def mlflow_type(api: JsonService) -> ResourceType:
    """Return the resource type."""

    def attributes(arn: str) -> Created:
        record = api.call("DescribeMlflowApp", {"Arn": arn})
        times = {key: str(record[key]) for key in ("CreationTime", "LastModifiedTime")}
        returned = {key: record[key] for key in ("Arn", "Status", "MlflowVersion")}
        return arn, {**returned, **times, "MlflowAppId": arn.rpartition("/")[2]}

    def create(_logical_id: str, properties: Json, _stack: str) -> Created:
        return attributes(api.call("CreateMlflowApp", api.model.coerce("CreateMlflowApp", properties))["Arn"])

    def update(arn: str, _old: Json, new: Json, _stack: str) -> Created:
        data = {"Arn": arn, **{key: new[key] for key in CHANGEABLE if key in new}}
        api.call("UpdateMlflowApp", api.model.coerce("UpdateMlflowApp", data))
        return attributes(arn)

    def delete(arn: str, _properties: Json) -> None:
        try:
            api.call("DeleteMlflowApp", {"Arn": arn})
        except ServiceError as error:
            if error.code != "ResourceNotFound":
                raise

    return ResourceType(
        type=TYPE, create=create, update=update, delete=delete, replacing=("Name", "RoleArn"), name="Name"
    )
