"""A way to a private Kubernetes API without a VPN: a Session Manager port forward through a node of the cluster.

The session ends on a node, which reaches the private endpoint as kubelet does. TLS is end to end: the certificate must
be the endpoint's, so a tunnel that leads elsewhere is refused. `session-manager-plugin` carries the bytes. This module
calls StartSession itself: the AWS CLI is not needed, and the session's token is in the plugin's environment, never in
its arguments (https://github.com/aws/session-manager-plugin, session.go).
https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-working-with-sessions-start.html
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from hyperpod_ray.core.evidence import code
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import DENIED, LaptopError, OpsError, shortened

Mode = Literal["auto", "always", "never"]
"""`auto`: only where the endpoint is private and does not answer from here."""

LOOPBACK = "127.0.0.1"
DOCUMENT = "AWS-StartPortForwardingSessionToRemoteHost"
PLUGIN = "session-manager-plugin"
LEAST_PLUGIN = (1, 2, 536, 0)
"""The first release that reads the session's token from its environment (https://github.com/aws/session-manager-plugin/blob/mainline/RELEASENOTES.md)."""
RESPONSE_VARIABLE = "AWS_SSM_START_SESSION_RESPONSE"
INSTALL = (
    "https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-working-with-install-plugin.html"
)
OTHER_WAYS = "a way to it: a VPN, a host in the VPC, or an SSM tunnel"
REACH_SECONDS = 3
OPEN_SECONDS = 60
CLOSE_SECONDS = 5
ATTEMPTS = 5
"""Sessions that may end early one after another before the tunnel is given up."""
EARLY_SECONDS = 60
NODES = 3
"""Nodes that are tried for one session."""
_OPENED = re.compile(r"^Port (\d+) opened for sessionId ")
_VERSION = re.compile(r"\d+(\.\d+){1,3}")


class Caller(Protocol):
    """What calls AWS for one environment."""

    def call(self, service: str, operation: str, *, region: str | None = None, **arguments: Any) -> dict[str, Any]:
        """One call."""

    def pages(
        self, service: str, operation: str, key: str, *, limit: int = 0, **arguments: Any
    ) -> list[dict[str, Any]]:
        """All entries of a listing."""

    def client(self, service: str, *, region: str | None = None) -> Any:
        """A client of a service."""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """The Kubernetes API as EKS describes it."""

    url: str
    private: bool
    """Whether it has no public address."""

    @classmethod
    def of(cls, cluster: dict[str, Any]) -> Endpoint:
        """The endpoint of what `DescribeCluster` answers."""
        network = cluster.get("resourcesVpcConfig") or {}
        return cls(url=str(cluster.get("endpoint", "")), private=not network.get("endpointPublicAccess", True))

    @property
    def host(self) -> str:
        """Its name, which its certificate carries."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """Its port; EKS uses 443."""
        return urlsplit(self.url).port or 443


def session_target(cluster_arn: str, *, group: str, instance: str) -> str:
    """What Session Manager calls a HyperPod node: `sagemaker-cluster:<cluster id>_<group>-<instance id>`."""
    return f"sagemaker-cluster:{cluster_arn.rpartition('/')[2]}_{group}-{instance}"


def needed(mode: Mode, endpoint: Endpoint, *, proxied: bool = False) -> bool:
    """Whether requests go through a tunnel."""
    if mode != "auto":
        return mode == "always"
    return endpoint.private and not proxied and not reachable(endpoint.host, endpoint.port)


def reachable(host: str, port: int) -> bool:
    """Whether something accepts connections there, as with a VPN or from inside the VPC."""
    try:
        socket.create_connection((host, port), timeout=REACH_SECONDS).close()
    except OSError:
        return False
    return True


def require_plugin() -> str:
    """The plugin's path; an `OpsError` where it is missing or would put the session's token into its arguments."""
    path = shutil.which(PLUGIN)
    if path is None:
        raise LaptopError(
            f"'{PLUGIN}' is not installed, and the Kubernetes API is private",
            expected=OTHER_WAYS,
            fix=f"install it ({INSTALL}), or connect to the VPC and give --tunnel never",
        )
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        answer = str(error)
    text = answer.strip()
    version = tuple(int(part) for part in text.split(".")) if _VERSION.fullmatch(text) else ()
    if version < LEAST_PLUGIN:
        raise LaptopError(
            f"'{PLUGIN}' is {shortened(text, limit=40) or 'of no known version'}",
            expected=f"{'.'.join(map(str, LEAST_PLUGIN))} or newer, which takes the token from its environment",
            fix=f"update it ({INSTALL})",
        )
    return path


def targets(plan: Plan, aws: Caller) -> list[str]:
    """Nodes to try, as Session Manager names them: running ones, CPU nodes first."""
    name = plan.settings.hyperpod.cluster_name
    arn = str(aws.call("sagemaker", "describe_cluster", ClusterName=name)["ClusterArn"])
    listed = aws.pages("sagemaker", "list_cluster_nodes", "ClusterNodeSummaries", ClusterName=name)
    cpu = {
        group.name
        for group in plan.settings.hyperpod.instance_groups
        if plan.type_spec(group.type).accelerator == "none"
    }
    running = [node for node in listed if node["InstanceStatus"]["Status"] == "Running"]
    running.sort(key=lambda node: (node["InstanceGroupName"] not in cpu, node["InstanceGroupName"], node["InstanceId"]))
    return [session_target(arn, group=node["InstanceGroupName"], instance=node["InstanceId"]) for node in running]


class Tunnel:
    """A local port that leads to one host and port inside the VPC, as long as it is open.

    Only this machine reaches the port; a session that ends is replaced by another, on the same port.

    Args:
        aws: Clients of the environment's account.
        targets: The nodes to try now, in their order; asked again for each session.
        host: Host that the node connects to.
        port: Its port.
        region: Region of the sessions.
        reason: What the history of sessions says that each is for.
    """

    def __init__(
        self, aws: Caller, *, targets: Callable[[], Sequence[str]], host: str, port: int, region: str, reason: str
    ) -> None:
        self._aws, self._targets, self._region, self._reason = aws, targets, region, reason
        self._host, self._remote = host, port
        self._plugin = ""
        self._session = ""
        self._process: subprocess.Popen[str] | None = None
        self._interrupted: subprocess.Popen[str] | None = None
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._interrupting = threading.Lock()
        self.port = 0
        """The local port."""
        self.node = ""
        """The node that the session is on."""

    def open(self) -> Tunnel:
        """Start the first session; an `OpsError` where none can be had."""
        self._plugin = require_plugin()
        self._start()
        _open.append(self)
        threading.Thread(target=self._keep, daemon=True).start()
        return self

    def close(self) -> None:
        """End the session and the plugin; may be called twice."""
        self._closing.set()
        self._interrupt()  # also a plugin that does not listen yet and keeps the lock
        with self._lock:
            self._end()
        with contextlib.suppress(ValueError):
            _open.remove(self)

    # --- one session -----------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """A session on the first node that has one for us, and the plugin for it."""
        nodes = list(self._targets())[:NODES]
        if not nodes:
            raise OpsError(
                "the HyperPod cluster has no running node",
                expected="a node for the tunnel to end on",
                fix="run the command again when a node runs",
            )
        refused: list[str] = []
        for node in nodes:
            try:
                answer = self._ask(node)
            except Exception as error:
                if code(error) != "TargetNotConnected":
                    raise
                refused.append(node)
                continue
            self._session, self.node = str(answer["SessionId"]), node
            self._run(node, answer)
            return
        raise OpsError(
            f"Session Manager reaches none of {', '.join(refused)}",
            expected="nodes that reach ssm and ssmmessages, through NAT or interface endpoints",
            fix="check the route of the nodes' subnets; https://docs.aws.amazon.com/systems-manager/latest/userguide/"
            "session-manager-troubleshooting.html",
        )

    def _parameters(self, node: str) -> dict[str, Any]:
        return {
            "Target": node,
            "DocumentName": DOCUMENT,
            "Reason": self._reason,
            "Parameters": {
                "host": [self._host],
                "portNumber": [str(self._remote)],
                # 0: the plugin takes a free one and says which
                "localPortNumber": [str(self.port)],
            },
        }

    def _ask(self, node: str) -> dict[str, Any]:
        try:
            return self._aws.call("ssm", "start_session", **self._parameters(node))
        except Exception as error:
            if code(error) not in DENIED:
                raise
            raise OpsError(
                f"ssm:StartSession on {node} is not allowed",
                expected=f"the right to start sessions on this cluster with document {DOCUMENT}",
                fix="ask for the statements Tunnel of docs/reference/access.md",
            ) from error

    def _run(self, node: str, answer: dict[str, Any]) -> None:
        """The plugin, called as the AWS CLI calls it, until it listens."""
        session = {key: answer[key] for key in ("SessionId", "TokenValue", "StreamUrl")}
        client = self._aws.client("ssm")
        self._process = subprocess.Popen(
            [
                self._plugin,
                RESPONSE_VARIABLE,
                self._region,
                "StartSession",
                os.environ.get("AWS_PROFILE", ""),
                json.dumps(self._parameters(node)),
                str(client.meta.endpoint_url),
            ],
            env={**os.environ, RESPONSE_VARIABLE: json.dumps(session)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # a Ctrl-C is ours: it ends the session first
        )
        printed: list[str] = []
        timer = threading.Timer(OPEN_SECONDS, self._process.kill)
        timer.start()
        try:
            assert self._process.stdout is not None  # noqa: S101
            for line in self._process.stdout:
                if match := _OPENED.match(line):
                    self.port = int(match[1])
                    return
                printed += [line.strip()] if line.strip() else []
        finally:
            timer.cancel()
        self._end()
        raise OpsError(
            f"{PLUGIN} opened no port: {shortened(' '.join(printed[-3:])) or 'it ended without a word'}",
            expected="a session that forwards a port",
            fix="run the command again; --tunnel never uses a VPN instead",
        )

    def _interrupt(self) -> None:
        """Send the plugin a SIGINT, and no second one, which would end it before it has ended its session."""
        with self._interrupting:
            process = self._process
            if process is not None and process is not self._interrupted and process.poll() is None:
                self._interrupted = process
                process.send_signal(signal.SIGINT)

    def _end(self) -> None:
        """End the plugin as Ctrl-C does, which ends the session; then make sure of both."""
        self._interrupt()
        process, self._process = self._process, None
        if process is not None:
            try:
                process.wait(timeout=CLOSE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        session, self._session = self._session, ""
        if session:
            with contextlib.suppress(Exception):  # it has ended already, or ends when it is idle
                self._aws.call("ssm", "terminate_session", SessionId=session)

    # --- the sessions after it -------------------------------------------------------------------------------------

    def _keep(self) -> None:
        """Read what the plugin says; where it ends before we do, start another session on the same port."""
        early = 0
        while (process := self._process) is not None and process.stdout is not None:
            began = time.monotonic()
            for _ in process.stdout:
                pass
            early = early + 1 if time.monotonic() - began < EARLY_SECONDS else 0
            self._closing.wait(min(2**early - 1, 15))
            with self._lock:
                if self._closing.is_set():
                    return
                self._end()
                outcome = self._again() if early < ATTEMPTS else "its sessions end at once; no other is started"
            if not self._closing.is_set():
                output.log(f"tunnel: {outcome}")

    def _again(self) -> str:
        """Another session; what is said of it."""
        try:
            self._start()
        except Exception as error:
            return f"the session ended, and another cannot be had: {shortened(str(error))}"
        return f"the session ended; another goes through {self.node}"


_open: list[Tunnel] = []


def close_all() -> None:
    """End every tunnel of this process."""
    for tunnel in list(_open):
        tunnel.close()


atexit.register(close_all)
