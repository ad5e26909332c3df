"""What tests of `hyperpod_logs`, `hyperpod_nodes`, `ops_node_services` share."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from botocore.exceptions import ClientError
from botocore.validate import validate_parameters

from hyperpod_ray.core.loader import parse
from hyperpod_ray.ops.observe.snapshot import Instance
from hyperpod_ray.ops.reach.clients import Target
from tests.ops.snapshots import ago
from tests.ops.world import environment_text
from tests.support.answers import CLUSTER_ARN, Answers, operation_model

Json = dict[str, Any]


class Aws:
    """Answers by operation, several in turn; what is asked and answered has the shapes of botocore's models."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {"describe_cluster": Answers().cluster, **answers}
        self.asked: list[tuple[str, Json]] = []

    def require_account(self) -> str:
        return "arn"

    def call(self, service: str, operation: str, **arguments: Any) -> Json:
        model = operation_model(service, operation)
        validate_parameters(arguments, model.input_shape)
        self.asked.append((operation, dict(arguments)))
        answer = self.answers[operation]
        if isinstance(answer, list):
            answer = answer.pop(0)
        if isinstance(answer, Exception):
            raise answer
        validate_parameters(answer, model.output_shape)
        return cast("Json", answer)

    def pages(self, service: str, operation: str, key: str, **arguments: Any) -> list[Json]:
        listed: list[Json] = self.call(service, operation, **arguments)[key]
        return listed

    def arguments(self, operation: str) -> list[Json]:
        return [arguments for name, arguments in self.asked if name == operation]


def of(**answers: Any) -> tuple[Target, Aws]:
    target = Target(parse(environment_text(), name="demo", path=Path("demo.yaml")))
    account = Aws(**answers)
    target.aws = account  # type: ignore[assignment]
    return target, account


def refusal(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "Operation")


def summary(of: Instance, host: str = "") -> Json:
    listed: Json = {
        "InstanceId": of.id,
        "InstanceGroupName": of.group,
        "InstanceType": of.type,
        "LaunchTime": of.launched,
    }
    listed["InstanceStatus"] = {"Status": of.status}
    return {**listed, **({"PrivateDnsHostname": host} if host else {})}


def event(number: int, **more: Any) -> Json:
    usual = {"EventId": f"e{number}", "ClusterArn": CLUSTER_ARN, "ClusterName": "ray-ops", "EventTime": ago(number)}
    return {**usual, "ResourceType": "Cluster", "EventLevel": "Info", "Description": "x", **more}


def stream(name: str) -> Json:
    return {"logStreamName": name}
