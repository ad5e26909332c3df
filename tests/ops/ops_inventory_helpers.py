"""What tests of `ops_inventory`, `workloads` share."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from botocore.exceptions import ClientError
from botocore.validate import validate_parameters

from hyperpod_ray.core import names
from hyperpod_ray.core.loader import parse
from hyperpod_ray.ops.reach.clients import Target
from tests.ops.snapshots import ago
from tests.ops.world import environment_text
from tests.support.answers import operation_model

Json = dict[str, Any]


def refusal(code: str, message: str = "no") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "Operation")


def stack(name: str, status: str = "CREATE_COMPLETE", **more: Any) -> Json:
    return {"StackName": name, "StackStatus": status, "CreationTime": ago(600), **more}


class Aws:
    """An account; calls and answers have the shapes of botocore's models. What is not listed is empty."""

    def __init__(self, **answers: Any) -> None:
        self.stacks = {"demo-Network": stack("demo-Network"), "demo-Eks": stack("demo-Eks")}
        self.answers: Json = {
            "describe_cluster": {"cluster": {"endpoint": "https://e", "status": "ACTIVE"}},
            "describe_file_systems": {"FileSystems": []},
            "describe_addon": {"addon": {"addonName": names.CSI_ADDON}},
            "describe_log_groups": {"logGroups": []},
            "list_images": refusal("RepositoryNotFoundException"),
            "describe_vpcs": {"Vpcs": []},
            "describe_network_interfaces": {"NetworkInterfaces": []},
            "describe_vpc_endpoints": {"VpcEndpoints": []},
            "describe_security_groups": {"SecurityGroups": []},
            "describe_volumes": {"Volumes": []},
            "delete_file_system": {},
            "delete_volume": {},
            "delete_log_group": {},
            "describe_stack_events": {"StackEvents": []},
            **answers,
        }
        self.asked: list[tuple[str, Json]] = []

    def require_account(self) -> str:
        self.asked.append(("get_caller_identity", {}))
        return "arn"

    def call(self, service: str, operation: str, **arguments: Any) -> Json:
        model = operation_model(service, operation)
        validate_parameters(arguments, model.input_shape)
        self.asked.append((operation, arguments))
        answer = self._stacks(arguments) if operation == "describe_stacks" else self.answers[operation]
        if callable(answer):
            answer = answer(arguments)
        if isinstance(answer, Exception):
            raise answer
        if model.output_shape is not None:
            validate_parameters(answer, model.output_shape)
        return cast("Json", answer)

    def pages(self, service: str, operation: str, key: str, **arguments: Any) -> list[Json]:
        listed: list[Json] = self.call(service, operation, **arguments)[key]
        return listed

    def _stacks(self, arguments: Json) -> Json:
        if "StackName" not in arguments:
            return {"Stacks": list(self.stacks.values())}
        if arguments["StackName"] not in self.stacks:
            raise refusal("ValidationError", f"Stack with id {arguments['StackName']} does not exist")
        return {"Stacks": [self.stacks[arguments["StackName"]]]}

    def arguments(self, operation: str) -> list[Json]:
        return [arguments for name, arguments in self.asked if name == operation]


def service(name: str, form: str) -> Json:
    return {"metadata": {"name": name, "namespace": "web"}, "spec": {"type": form}}


class Api:
    """Kubernetes: listings by path, and what is deleted. A listing may refuse."""

    def __init__(self, **listings: Any) -> None:
        self.listings: dict[str, Any] = {}
        self.deleted: list[tuple[str, str]] = []
        self.absent: set[str] = set()

    def items(self, path: str, *, labels: str = "", fields: str = "") -> list[Json]:
        listed = self.listings.get(path, [])
        if isinstance(listed, Exception):
            raise listed
        return cast("list[Json]", listed)

    def delete(self, path: str, *, propagation: str = "Foreground") -> bool:
        self.deleted.append((path, propagation))
        return path not in self.absent


def of(text: str = "", **answers: Any) -> tuple[Target, Aws, Api]:
    target = Target(parse(text or environment_text(), name="demo", path=Path("demo.yaml")))
    account, api = Aws(**answers), Api()
    target.aws = account  # type: ignore[assignment]
    target.__dict__["kubernetes"] = api
    return target, account, api


def volume(storage_class: str, driver: str) -> Json:
    return {"metadata": {"name": "pv"}, "spec": {"storageClassName": storage_class, "csi": {"driver": driver}}}


def listings(*looks: list[Json]) -> Any:
    """What FSx lists, look by look; the last for ever."""
    remaining = list(looks)
    return lambda _: {"FileSystems": remaining.pop(0) if len(remaining) > 1 else remaining[0]}
