"""Session Manager's sessions on HyperPod nodes, as far as the API goes: who may have one, on what, with which document.

No bytes travel through it: a stand-in plugin connects to the host of the request itself. The names of targets are those
of the service's guide, the errors those of botocore's model.
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-run-jobs-slurm-access-nodes.html
https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_StartSession.html
"""

from __future__ import annotations

import re
import secrets
from typing import Any

from hyperpod_ray_sandbox.aws.emulator.context import Context
from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError
from hyperpod_ray_sandbox.aws.emulator.reach import Reach
from hyperpod_ray_sandbox.aws.emulator.roles import Roles
from hyperpod_ray_sandbox.aws.emulator.sagemaker import SageMaker

Json = dict[str, Any]
OPERATIONS = frozenset({"StartSession", "TerminateSession"})
SHELL, COMMAND = "SSM-SessionManagerRunShell", "AWS-StartNonInteractiveCommand"
DOCUMENTS: dict[str, frozenset[str]] = {
    SHELL: frozenset(),
    COMMAND: frozenset({"command"}),
    "AWS-StartSSHSession": frozenset({"portNumber"}),
    "AWS-StartPortForwardingSession": frozenset({"portNumber", "localPortNumber"}),
    "AWS-StartPortForwardingSessionToRemoteHost": frozenset({"host", "portNumber", "localPortNumber"}),
}
"""Session documents that AWS owns, and their parameters."""
AGENT_CALLS = (("ssm", "ssm:UpdateInstanceInformation"), ("ssmmessages", "ssmmessages:OpenDataChannel"))
"""What the agent of a node must reach."""
TARGET = re.compile(r"sagemaker-cluster:([a-z0-9]+)_(.+)-(i-[0-9a-f]+)")
PORT = re.compile(r"[0-9]{1,5}")


class Sessions:
    """StartSession and TerminateSession; MiniStack keeps the rest of Systems Manager."""

    botocore_name = "ssm"

    def __init__(self, context: Context, roles: Roles, sagemaker: SageMaker) -> None:
        self._hooks, self._roles, self._sagemaker = context.hooks, roles, sagemaker
        self.open: dict[str, Json] = {}

    def resource(self, data: Json) -> str | None:
        """The ARN that a policy must allow; None where MiniStack knows it."""
        if match := TARGET.fullmatch(str(data.get("Target", ""))):
            return str(self._hooks.arn("sagemaker", f"cluster/{match[1]}"))
        if isinstance(data.get("SessionId"), str):
            return str(self._hooks.arn("ssm", f"session/{data['SessionId']}"))
        return None

    def StartSession(self, data: Json) -> Json:
        """Start a session on a running node that reaches the service."""
        target = str(data["Target"])
        document = str(data.get("DocumentName") or SHELL)
        if document not in DOCUMENTS:
            raise ServiceError("InvalidDocument", f"Document with name {document} does not exist.")
        for name, values in (data.get("Parameters") or {}).items():
            valid = len(values) == 1 and (name in ("host", "command") or PORT.fullmatch(values[0]))
            if name not in DOCUMENTS[document] or not valid:
                raise ServiceError("ValidationException", f"Parameter {name} of {document} is not valid: {values}")
        if not self._connected(target):
            raise ServiceError("TargetNotConnected", f"{target} is not connected.")
        session = f"sandbox-{secrets.token_hex(9)}"
        self.open[session] = dict(data)
        stream = (
            f"wss://ssmmessages.{self._hooks.region()}.amazonaws.com/v1/data-channel/{session}?role=publish_subscribe"
        )
        return {"SessionId": session, "TokenValue": secrets.token_urlsafe(48), "StreamUrl": stream}

    def TerminateSession(self, data: Json) -> Json:
        """End a session; one that has ended is no error."""
        self.open.pop(str(data["SessionId"]), None)
        return {"SessionId": data["SessionId"]}

    def _connected(self, target: str) -> bool:
        """Whether the node is there, runs, and its agent reaches the service from the node's subnet."""
        match = TARGET.fullmatch(target)
        if match is None:
            return False
        cluster, group, node = match.groups()
        try:
            record = self._sagemaker.find(str(self._hooks.arn("sagemaker", f"cluster/{cluster}")))
            _, subnet, groups = self._sagemaker.place(node)
        except ServiceError:
            return False
        nodes = [
            candidate
            for candidate in record["_nodes"]
            if candidate["InstanceId"] == node and candidate["InstanceGroupName"] == group
        ]
        if not nodes or nodes[0]["_status"] != "Running":
            return False
        reach = Reach(self._hooks, self._roles, subnet=subnet, groups=groups)
        return all(reach.service(name, action, "*", account=self._hooks.account()) for name, action in AGENT_CALLS)
