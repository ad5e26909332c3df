"""Deletion protection and support type of EKS clusters, which MiniStack lacks: in templates and by EKS's own calls."""

from __future__ import annotations

import json
import re
import urllib.parse
import uuid
from collections.abc import Callable
from typing import Any

from hyperpod_ray_sandbox.aws.emulator.cloudformation import Registry
from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError

Json = dict[str, Any]
TYPE = "AWS::EKS::Cluster"
UPDATES = {"deletionProtection": "DeletionProtectionUpdate", "upgradePolicy": "UpgradePolicyUpdate"}
"""Settings that UpdateClusterConfig changes here, and the type of each update."""
PATH = re.compile(r"/clusters/([^/]+)/(?:(update-config)|updates/([^/]+))")


def extend(registry: Registry, eks: Any) -> None:
    """Let the cluster's type and EKS's API know both settings. `eks` is MiniStack's module of the service."""
    delete_cluster = eks._delete_cluster

    def delete(name: str) -> Any:
        cluster = eks._clusters.get(name)
        if cluster is not None and (message := _refusal(name, cluster)):
            return eks._error(400, "InvalidRequestException", message)
        return delete_cluster(name)

    eks._delete_cluster = delete
    _answer_calls(eks)

    def creates(original: Callable[..., Any]) -> Callable[..., Any]:
        def create(logical_id: str, properties: Json, stack: str) -> Any:
            name, attributes = original(logical_id, properties, stack)
            _configure(eks._clusters[name], properties)
            return name, attributes

        return create

    def updates(original: Callable[..., Any]) -> Callable[..., Any]:
        def update(identifier: str, old: Json, new: Json, *rest: Any, **named: Any) -> Any:
            answer = original(identifier, old, new, *rest, **named)
            _configure(eks._clusters[answer[0]], new)
            return answer

        return update

    def deletes(original: Callable[..., Any]) -> Callable[..., Any]:
        def delete_resource(identifier: str, properties: Json) -> Any:
            cluster = eks._clusters.get(identifier)
            if cluster is not None and (message := _refusal(identifier, cluster)):
                # MiniStack's step does not look at the answer of the service
                raise ServiceError("InvalidRequestException", message)
            return original(identifier, properties)

        return delete_resource

    registry.wrap(TYPE, "create", creates)
    registry.wrap(TYPE, "update", updates)
    registry.wrap(TYPE, "delete", deletes)


def _refusal(name: str, cluster: Json) -> str:
    """Why EKS does not delete a cluster; empty where it does.

    https://docs.aws.amazon.com/eks/latest/userguide/deletion-protection.html
    """
    if cluster.get("deletionProtection") and cluster["status"] == "ACTIVE":
        return f"Cluster {name} has deletion protection enabled. Disable it before you delete the cluster."
    return ""


def _configure(cluster: Json, properties: Json) -> None:
    """What a template says of both settings; what it does not name stays."""
    if "DeletionProtection" in properties:
        cluster["deletionProtection"] = str(properties["DeletionProtection"]).lower() == "true"
    if support := (properties.get("UpgradePolicy") or {}).get("SupportType"):
        cluster["upgradePolicy"] = {"supportType": support}


def _answer_calls(eks: Any) -> None:
    """Answer UpdateClusterConfig and DescribeUpdate.

    https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateClusterConfig.html
    """
    original = eks._handle_request_sync
    done: dict[str, Json] = {}

    def handle(method: str, path: str, headers: Json, body: bytes, query: Json) -> Any:
        match = PATH.fullmatch(path)
        if match is None or method != ("POST" if match[2] else "GET"):
            return original(method, path, headers, body, query)
        name = urllib.parse.unquote(match[1])
        cluster = eks._clusters.get(name)
        if cluster is None or (match[3] and match[3] not in done):
            return eks._error(404, "ResourceNotFoundException", f"No cluster or update of {name}.")
        if match[3]:
            return eks._json_resp(200, {"update": done[match[3]]})
        asked = json.loads(body or b"{}")
        asked.pop("clientRequestToken", None)
        if len(asked) != 1 or set(asked) - set(UPDATES):
            return eks._error(400, "InvalidParameterException", f"Expected one of {', '.join(UPDATES)}.")
        if cluster["status"] != "ACTIVE":
            return eks._error(400, "ResourceInUseException", f"Cluster {name} is {cluster['status']}.")
        cluster.update(asked)
        update = {
            "id": str(uuid.uuid4()), "status": "Successful", "type": UPDATES[next(iter(asked))], "params": [],
            "createdAt": eks._now(), "errors": [],
        }  # fmt: skip
        done[update["id"]] = update
        return eks._json_resp(200, {"update": update})

    eks._handle_request_sync = handle
