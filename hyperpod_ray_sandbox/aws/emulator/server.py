"""The emulator process: MiniStack with everything added, and a control plane under /_local on the same port."""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import hashlib
import importlib
import json
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from hyperpod_ray_sandbox.aws.emulator import (
    codebuild,
    eks_tokens,
    inventory,
    lambdas,
    resources_ec2,
    resources_eks,
    resources_other,
    taken,
)
from hyperpod_ray_sandbox.aws.emulator.answers import answer_at_the_end
from hyperpod_ray_sandbox.aws.emulator.api_faults import inject
from hyperpod_ray_sandbox.aws.emulator.chat import Chat
from hyperpod_ray_sandbox.aws.emulator.cloudformation import Registry
from hyperpod_ray_sandbox.aws.emulator.context import Context
from hyperpod_ray_sandbox.aws.emulator.cost_explorer import CostExplorer
from hyperpod_ray_sandbox.aws.emulator.credentials import Credentials, root_secret
from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError
from hyperpod_ray_sandbox.aws.emulator.execution import Execution
from hyperpod_ray_sandbox.aws.emulator.faults import Faults
from hyperpod_ray_sandbox.aws.emulator.fsx import Fsx
from hyperpod_ray_sandbox.aws.emulator.gate import CONTROL, Gate
from hyperpod_ray_sandbox.aws.emulator.hooks import HookError, load
from hyperpod_ray_sandbox.aws.emulator.hyperpod.mounts import Mounts
from hyperpod_ray_sandbox.aws.emulator.json_service import JsonService
from hyperpod_ray_sandbox.aws.emulator.mlflow import mlflow_type
from hyperpod_ray_sandbox.aws.emulator.model import know_protocols_alone
from hyperpod_ray_sandbox.aws.emulator.network import Network
from hyperpod_ray_sandbox.aws.emulator.offerings import Offerings
from hyperpod_ray_sandbox.aws.emulator.pod_identity import Pod, PodIdentity
from hyperpod_ray_sandbox.aws.emulator.pulls import Pulls
from hyperpod_ray_sandbox.aws.emulator.resources_governance import governance_types
from hyperpod_ray_sandbox.aws.emulator.resources_sagemaker import cluster_type, data_repository_type, file_system_type
from hyperpod_ray_sandbox.aws.emulator.roles import Roles
from hyperpod_ray_sandbox.aws.emulator.sagemaker import SageMaker
from hyperpod_ray_sandbox.aws.emulator.service_quotas import ServiceQuotas
from hyperpod_ray_sandbox.aws.emulator.sessions import OPERATIONS as SESSION_OPERATIONS
from hyperpod_ray_sandbox.aws.emulator.sessions import Sessions

Json = dict[str, Any]
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Json]]
Send = Callable[[Json], Awaitable[None]]
log = logging.getLogger("emulator")


class Emulator:
    """Everything wired together, as an ASGI application."""

    def __init__(self, context: Context, credentials: Credentials, *, own_hosts: frozenset[str]) -> None:
        self._context = context
        self._credentials = credentials
        self._own_hosts = own_hosts
        network = Network(context.hooks)
        roles = Roles(context)
        self._fsx = Fsx(context, network)
        self._sagemaker = SageMaker(context, network, roles, Mounts(context.hooks, self._fsx))
        self._quotas = ServiceQuotas(context)
        self._roles = roles
        self._pulls = Pulls(context, roles, self._sagemaker)
        self._chat = Chat(context)
        self._pods = PodIdentity(context, roles, self._sagemaker)
        sagemaker_api = JsonService(context, self._sagemaker)
        fsx_api = JsonService(context, self._fsx)
        sagemaker_api.mount("sagemaker")
        fsx_api.mount("fsx")
        JsonService(context, self._quotas).mount("servicequotas")
        JsonService(context, CostExplorer()).mount("ce")
        sessions = Sessions(context, roles, self._sagemaker)
        JsonService(context, sessions).share("ssm", SESSION_OPERATIONS)
        self._offerings = Offerings(context)
        registry = Registry(context)
        registry.add(
            [
                cluster_type(context, self._sagemaker, sagemaker_api),
                file_system_type(context, self._fsx, fsx_api),
                data_repository_type(context, self._fsx, fsx_api),
                *governance_types(sagemaker_api),
                mlflow_type(sagemaker_api),
                *self._chat.types(),
                *resources_ec2.ec2_types(context),
                *resources_eks.eks_types(context),
                *resources_other.other_types(context),
            ]
        )
        resources_ec2.protect(registry, context, network)
        resources_eks.extend_cluster(registry, context, network, roles)
        resources_other.keep_bucket_tags(registry, context)
        resources_other.give_administrator(registry)
        resources_ec2.open_default_groups(registry, context)
        taken.refuse_taken_names(registry, context)
        codebuild.answer_builds(context, roles)
        lambdas.fail_fast(context)
        lambdas.find_layer_tools(context)
        lambdas.deliver_late_logs(context)
        registry.enable_faults(Execution(context, roles))
        know_protocols_alone(context)
        answer_at_the_end(context)
        inject(context)
        context.start_clock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the control plane, and hand everything else to MiniStack; the gate let the request in."""
        if scope["type"] == "http" and scope["path"].startswith(CONTROL):
            await self._control(scope, receive, send)
            return
        if scope["type"] == "http":
            # the port is loopback: policies that demand aws:SecureTransport count it as such
            scope = {**scope, "scheme": "https"}
        await self._context.hooks.app.app(scope, receive, send)

    async def _control(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        try:
            data = json.loads(body or b"{}")
            if not isinstance(data, dict):
                raise ValueError("the body is a JSON object")
            with self._context.lock:
                status, answer = self._command(scope["method"], scope["path"].removeprefix(CONTROL), data)
        except (ValueError, KeyError) as error:
            status, answer = 400, {"error": str(error).strip("'\"") or type(error).__name__}
        except ServiceError as error:
            status, answer = error.status, {"error": error.message}
        payload = json.dumps(answer, default=str).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(payload)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": payload})

    def _command(  # noqa: PLR0911, PLR0912  # one line per command
        self, method: str, path: str, data: Json
    ) -> tuple[int, Json]:
        faults = self._context.faults
        match method, path:
            case "GET", "health":
                return 200, {"ready": True, "seconds_per_state": self._context.seconds_per_state}
            case "GET", "faults":
                return 200, {"faults": faults.list()}
            case "POST", "faults":
                faults.add(data)
                return 200, {"faults": faults.list()}
            case "DELETE", "faults":
                faults.clear()
                self._fsx.release_stuck()
                return 200, {"faults": []}
            case "POST", "fail-node":
                message = str(data.get("message", "NVRM: Xid 74: NVLink error"))
                with self._scope(data):
                    return 200, self._sagemaker.fail_node(str(data["node_id"]), message)
            case "POST", "hyperpod":
                with self._scope(data):
                    return 200, self._sagemaker.set_state(data)
            case "POST", "token-review":
                token, arn = str(data["token"]), str(data["cluster_arn"])
                return 200, eks_tokens.review(
                    self._context, token, cluster_arn=arn, own_hosts=self._own_hosts, lookup=self._credentials.lookup
                )
            case "POST", "revision":
                with self._scope(data):
                    return 200, {"revision": self._revision()}
            case "POST", "pulls":
                with self._scope(data):
                    node = str(data["node_id"])
                    return 200, {"reasons": {image: self._pulls.judge(node, image) for image in data["images"]}}
            case "POST", "web-identity":
                with self._scope(data):
                    return 200, {"reason": self._web_identity(data)}
            case "POST", "node-network":
                with self._scope(data):
                    return 200, {"reason": self._pulls.network_of(str(data["node_id"]))}
            case "POST", "pod-credentials":
                pod = {name: str(data[name]) for name in Pod.__dataclass_fields__ if name != "created"}
                with self._scope(data):
                    return 200, self._pods.credentials(Pod(**pod, created=datetime.fromisoformat(str(data["created"]))))
            case "POST", "clock":
                self._context.hold(bool(data["held"]))
                return 200, {}
            case "POST", "quotas":
                self._quotas.set_value(str(data["name"]), float(data["value"]))
                return 200, {}
            case "POST", "offerings":
                self._offerings.withdraw(str(data["instance_type"]), str(data["zone_id"]))
                return 200, {}
            case "POST", "inventory":
                listers = [self._sagemaker.inventory, self._fsx.inventory, self._chat.inventory]
                account, region = str(data["account"]), str(data["region"])
                resources = inventory.take(self._context, account=account, region=region, extra=listers)
                return 200, {"resources": resources}
        return 404, {"error": f"no {method} {CONTROL}{path}"}

    def _revision(self) -> str:
        """A text that changes with what EKS and HyperPod answer of clusters, nodes, add-ons and quotas."""
        eks = self._context.hooks.eks
        state = f"{self._sagemaker.state()}{list(eks._clusters.items())!r}{list(eks._addons.items())!r}"
        return hashlib.sha256(state.encode()).hexdigest()

    def _web_identity(self, data: Json) -> str:
        """Why a pod's service account may not call with its role, or nothing."""
        role, cluster = str(data["role_arn"]), self._context.hooks.eks._clusters.get(str(data["cluster"])) or {}
        issuer = str(cluster.get("identity", {}).get("oidc", {}).get("issuer", "")).partition("//")[2]
        provider = f"arn:aws:iam::{data['account']}:oidc-provider/{issuer}"
        claims = {"aud": "sts.amazonaws.com", "sub": str(data["subject"])}
        registered = self._context.hooks.iam._oidc_providers.get(provider)
        if registered is None:
            return f"InvalidIdentityToken: No OpenIDConnect provider found in your account for https://{issuer}"
        if claims["aud"] not in registered["ClientIDList"]:
            return "InvalidIdentityToken: Incorrect token audience"
        if not self._roles.trusts_web(role, provider=provider, claims=claims):
            return "AccessDenied: Not authorized to perform sts:AssumeRoleWithWebIdentity"
        reason = self._roles.refusal(role, str(data["action"]), str(data["resource"]), keys=data["keys"])
        return f"AccessDeniedException: {reason}" if reason else ""

    def _scope(self, data: Json) -> Any:
        return self._context.hooks.responses.request_scope(str(data["account"]), str(data["region"]))


def cluster_of(record: Path) -> tuple[str, str]:
    """Address and certificates of the API server that writes this record. Who started both ends this one without it."""
    while True:
        with contextlib.suppress(FileNotFoundError, ValueError):  # not there yet
            server = json.loads(record.read_text())
            return server["url"], base64.b64encode(Path(server["ca_file"]).read_bytes()).decode()
        time.sleep(0.02)


def main(argv: list[str]) -> int:
    """Serve until stopped; exit code 1 with one line where it cannot start.

    The environment holds the root user's secret: `AWS_SECRET_ACCESS_KEY`.
    """
    parser = argparse.ArgumentParser(prog="python -m hyperpod_ray_sandbox.aws.emulator")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--listen-fd", type=int, help="a socket that listens on that port already")
    parser.add_argument("--seconds-per-state", type=float, default=1.0)
    parser.add_argument("--kubernetes-endpoint", default="")
    parser.add_argument("--kubernetes-ca", default="", help="base64 of the API server's CA certificates")
    parser.add_argument(
        "--kubernetes-record", type=Path, help="the file with both, which an API server on its way writes"
    )
    options = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    # MiniStack reads these when it is imported
    os.environ["GATEWAY_PORT"] = str(options.port)
    os.environ["BIND_HOST"] = "127.0.0.1"
    # functions run with a session of their role, and what they do is checked against its policies
    os.environ["AUTH"] = "true"
    try:
        hooks = load()
        secret = root_secret()
    except (HookError, ValueError) as error:
        sys.stderr.write(f"embedded AWS: {error}\n")
        return 1
    endpoint, authority = options.kubernetes_endpoint, options.kubernetes_ca
    if options.kubernetes_record:
        endpoint, authority = cluster_of(options.kubernetes_record)
    context = Context(
        hooks=hooks,
        faults=Faults(),
        seconds_per_state=options.seconds_per_state,
        kubernetes_endpoint=endpoint,
        kubernetes_ca=authority,
    )
    credentials = Credentials(context, root_secret=secret)
    own_hosts = frozenset({f"127.0.0.1:{options.port}", f"localhost:{options.port}"})
    emulator = Emulator(context, credentials, own_hosts=own_hosts)
    application = Gate(emulator, hosts=own_hosts, lookup=credentials.lookup)
    config = importlib.import_module("hypercorn.config").Config()
    config.bind = [f"127.0.0.1:{options.port}" if options.listen_fd is None else f"fd://{options.listen_fd}"]
    config.keep_alive_timeout = 75
    # nothing that is served outlives this process: clients that keep a connection open are not waited for
    config.graceful_timeout = 0.2
    serve = importlib.import_module("hypercorn.asyncio").serve
    asyncio.run(serve(application, config))
    return 0
