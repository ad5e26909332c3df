"""Clients of one environment: boto3 and Kubernetes, with timeouts and retries, never of another account."""

from __future__ import annotations

import base64
import functools
import json
import os
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyperpod_ray import core
from hyperpod_ray.core import names
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.evidence import absent
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.slurm_plan import SlurmPlan
from hyperpod_ray.ops.errors import LOGIN, ApiError, OpsError, guarded
from hyperpod_ray.ops.reach import tunnel
from hyperpod_ray.ops.reach.api_server import ApiServer
from hyperpod_ray.ops.reach.kubeconfig import Credential, Kubeconfig

if TYPE_CHECKING:
    import boto3.session

Json = dict[str, Any]

CONNECT_SECONDS, READ_SECONDS = 5, 30
ATTEMPTS = 6
RESTARTS = 3
"""How often a listing begins again that the API server has forgotten in the middle."""
PAGE = 100
"""Entries of a page: the most that SageMaker lists at once. By its default, a thousand nodes would take more calls."""
TOKEN_SECONDS = 10 * 60
"""EKS tokens live 15 minutes; a fresh one is created after ten."""


class AnyTarget:
    """One environment of any orchestrator and how to reach it. Nothing is called before something is asked."""

    def __init__(self, file: core.AnyFile, *, folder: Path | None = None) -> None:
        self.file: core.AnyFile = file
        self.folder = folder
        self.aws = Aws(file.plan)

    @property
    def plan(self) -> CommonPlan:
        """The settings with what follows from them."""
        return self.file.plan

    def again(self) -> AnyTarget:
        """The same environment with fresh clients."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The environment's name."""
        return self.plan.name

    def command(self, verb: str, *arguments: str) -> str:
        """A command line of this program for the environment, to copy: it works from the checkout's folder."""
        folder = ["--environments", str(self.folder)] if self.folder else []
        return shlex.join(["hyperpod-ray", *folder, verb, self.name, *arguments])

    @property
    def deploy_command(self) -> str:
        """What creates or updates the environment."""
        return self.command("deploy")


class SlurmTarget(AnyTarget):
    """An environment whose orchestrator is Slurm."""

    def __init__(self, file: core.SlurmFile, *, folder: Path | None = None) -> None:
        super().__init__(file, folder=folder)
        self._slurm, self._plan = file, file.plan

    def again(self) -> SlurmTarget:
        """The same environment with fresh clients."""
        return SlurmTarget(self._slurm, folder=self.folder)

    @property
    def plan(self) -> SlurmPlan:
        """The settings with what follows from them."""
        return self._plan


class Target(AnyTarget):
    """An environment whose orchestrator is EKS.

    Args:
        mode: Whether the Kubernetes API is reached through a Session Manager tunnel.
    """

    def __init__(self, file: core.EnvironmentFile, *, folder: Path | None = None, mode: tunnel.Mode = "auto") -> None:
        super().__init__(file, folder=folder)
        self.mode: tunnel.Mode = mode
        self._file, self._plan = file, file.plan

    def again(self) -> Target:
        """The same environment with fresh clients."""
        return Target(self._file, folder=self.folder, mode=self.mode)

    @property
    def plan(self) -> Plan:
        """The settings with what follows from them."""
        return self._plan

    @functools.cached_property
    def kubernetes(self) -> Kubernetes:
        """The Kubernetes API of the environment's EKS cluster."""
        with guarded(self.name):
            return Kubernetes(self.plan, self.aws, mode=self.mode)


def target(name: str, *, folder: Path | None = None, mode: tunnel.Mode = "auto") -> Target:
    """The environment called `name`, from its file in `folder` (default: the project's own)."""
    with guarded(name):
        file = core.load(name, folder=folder) if folder else core.load(name)
        return Target(file, folder=folder, mode=mode)


class Aws:
    """boto3 clients in the environment's region, for its account only."""

    def __init__(self, plan: CommonPlan) -> None:
        self._plan = plan
        self._clients: dict[str, Any] = {}
        self._checked = False

    @functools.cached_property
    def session(self) -> boto3.session.Session:
        """A session with whatever credentials the environment variables, profile or role give."""
        import boto3.session

        return boto3.session.Session(region_name=self._plan.settings.region)

    def client(self, service: str, *, region: str | None = None) -> Any:
        """A client that gives up in reasonable time.

        It retries with backoff, and after a throttle it sends at the rate that the service takes: commands of several
        people share the account's limits.
        """
        from botocore.config import Config

        key = f"{service}/{region}"
        if key not in self._clients:
            config = Config(
                connect_timeout=CONNECT_SECONDS,
                read_timeout=READ_SECONDS,
                retries={"mode": "adaptive", "total_max_attempts": ATTEMPTS},
                user_agent_extra=f"{names.PROJECT}-ops",
            )
            with guarded(self._plan.name):
                make: Any = self.session.client  # typed by service name, which is a variable here
                self._clients[key] = make(service, config=config, region_name=region)
        return self._clients[key]

    def call(self, service: str, operation: str, *, region: str | None = None, **arguments: Any) -> Json:
        """One call; a failure comes as an `OpsError`, except where the caller looks for the code (`missing`)."""
        answer: Json = getattr(self.client(service, region=region), operation)(**arguments)
        return answer

    def pages(self, service: str, operation: str, key: str, *, limit: int = 0, **arguments: Any) -> list[Json]:
        """All items of a listing; with `limit`, not many more than that."""
        collected: list[Json] = []
        if service == "sagemaker":
            arguments = {"PaginationConfig": {"PageSize": PAGE}, **arguments}
        for page in self.client(service).get_paginator(operation).paginate(**arguments):
            collected += page.get(key, [])
            if limit and len(collected) >= limit:
                return collected[:limit]
        return collected

    def require_account(self) -> str:
        """Who is calling; refuses an account that is not the environment's, before anything else is asked of AWS."""
        account = self._plan.settings.account
        with guarded(self._plan.name):
            identity = self.call("sts", "get_caller_identity")
        if identity["Account"] != account:
            raise OpsError(
                f"the credentials belong to account {identity['Account']}",
                expected=f"{account}, the account of environment '{self._plan.name}'",
                fix="export AWS_PROFILE=… of that account; `aws sts get-caller-identity` shows who you are",
            )
        return str(identity["Arn"])


class Kubernetes:
    """The Kubernetes API, as plain objects (the JSON that the API server sends)."""

    def __init__(self, plan: Plan, aws: Aws, *, mode: tunnel.Mode = "auto") -> None:
        self._plan = plan
        self._aws = aws
        self._mode: tunnel.Mode = mode
        self._token = ("", 0.0)
        self.cluster_name = plan.eks_cluster_name
        self.tunnel: tunnel.Tunnel | None = None
        """The way to a private endpoint, where this machine has no other."""
        self.endpoint, self._authority = self._eks()
        files = os.environ.get("KUBECONFIG")
        self.api = self._reach(self._by_kubeconfig(files) if files else self._own())

    # --- connecting ------------------------------------------------------------------------------------------------

    def _eks(self) -> tuple[tunnel.Endpoint, str]:
        try:
            cluster = self._aws.call("eks", "describe_cluster", name=self.cluster_name)["cluster"]
        except Exception as error:
            if not absent(error):
                raise
            raise OpsError(
                f"EKS cluster '{self.cluster_name}' does not exist",
                expected="the environment to be deployed",
                fix=f"hyperpod-ray deploy {self._plan.name}",
            ) from None
        if not cluster.get("endpoint"):
            raise OpsError(
                f"EKS cluster '{self.cluster_name}' is {cluster.get('status')} and has no endpoint yet",
                expected="ACTIVE",
                fix=f"hyperpod-ray wait {self._plan.name} --for cluster",
            )
        return tunnel.Endpoint.of(cluster), str(cluster.get("certificateAuthority", {}).get("data", ""))

    def _reach(self, api: ApiServer) -> ApiServer:
        """Send requests through a tunnel where that is needed; the certificate must still be the endpoint's."""
        if not tunnel.needed(self._mode, self.endpoint, proxied=bool(api.proxy)):
            return api
        self._aws.require_account()
        settings = self._plan.settings
        self.tunnel = tunnel.Tunnel(
            self._aws,
            targets=lambda: tunnel.targets(self._plan, self._aws),
            host=self.endpoint.host,
            port=self.endpoint.port,
            region=settings.region,
            reason=f"{names.PROGRAM} {self._plan.name}",
        ).open()
        return api.through(f"https://{tunnel.LOOPBACK}:{self.tunnel.port}")

    def _own(self) -> ApiServer:
        """Through EKS: the cluster's own address and authority, and a token as `aws eks get-token` makes it."""
        authority = base64.b64decode(self._authority).decode() if self._authority else ""
        return ApiServer(self.endpoint.url, self._credential, authority=authority)

    def _credential(self, *, renewed: bool = False) -> Credential:
        token, since = self._token
        if renewed or not token or time.monotonic() - since > TOKEN_SECONDS:
            token = eks_token(self._aws.session, cluster_name=self.cluster_name, region=self._plan.settings.region)
            self._token = (token, time.monotonic())
        return Credential(headers={"Authorization": f"Bearer {token}"})

    def _by_kubeconfig(self, files: str) -> ApiServer:
        """Through KUBECONFIG, but only where its current context is this environment's cluster."""
        config = Kubeconfig(files)
        if config.server != self.endpoint.url.rstrip("/"):
            raise OpsError(
                f"KUBECONFIG's current context is {config.server}",
                expected=f"the environment's cluster, {self.endpoint.url}",
                fix="unset KUBECONFIG, or "
                f"aws eks update-kubeconfig --name {self.cluster_name} --region {self._plan.settings.region}",
            )
        return ApiServer(
            config.server,
            config.credential,
            authority=config.authority,
            insecure=config.insecure,
            tls_server_name=config.tls_server_name,
            proxy=config.proxy,
        )

    # --- objects ---------------------------------------------------------------------------------------------------

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Json | None = None,
        body: Any = None,
        content_type: str = "application/json",
    ) -> Json:
        """One request by path; a refusal is an `ApiError`."""
        headers = {"Accept": "application/json", "Content-Type": content_type}
        data: Json = json.loads(self.api.send(method, path, query=query or {}, headers=headers, body=body) or b"{}")
        return data

    def text(self, path: str, *, query: Json | None = None) -> str:
        """What the API server sends as text, such as a container's log."""
        return self.api.send("GET", path, query=query or {}, headers={"Accept": "*/*"}).decode(errors="replace")

    def items(self, path: str, *, labels: str = "", fields: str = "") -> list[Json]:
        """Objects of a listing, a few hundred at a time."""
        objects: list[Json] = []
        query: Json = {"limit": 500}
        query |= {"labelSelector": labels} if labels else {}
        query |= {"fieldSelector": fields} if fields else {}
        begin, restarts = query, 0
        while True:
            try:
                page = self.request("GET", path, query=query)
            except ApiError as error:
                if error.status != 410 or "continue" not in query or restarts == RESTARTS:
                    raise
                # the listing is older than what the API server keeps: it begins again, from now on
                objects, query, restarts = [], begin, restarts + 1
                continue
            objects += page.get("items") or []
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return objects
            query = {**query, "continue": token}

    def delete(self, path: str, *, propagation: str = "Foreground") -> bool:
        """Ask for an object's deletion; False where it is not there."""
        try:
            self.request("DELETE", path, body={"propagationPolicy": propagation})
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    def patch(self, path: str, body: Json) -> Json:
        """Change an object by a merge patch."""
        return self.request("PATCH", path, body=body, content_type="application/merge-patch+json")


def eks_token(session: boto3.session.Session, *, cluster_name: str, region: str) -> str:
    """A token for an EKS cluster: a presigned STS call that names it, as `aws eks get-token` makes it.

    https://github.com/kubernetes-sigs/aws-iam-authenticator#api-authorization-from-outside-a-cluster
    """
    from botocore.config import Config
    from botocore.signers import RequestSigner

    # the signed host must be the service's own, whatever endpoint is configured
    options: Any = {"ignore_configured_endpoint_urls": True}  # newer than botocore's stubs
    service: Any = session.client("sts", region_name=region, config=Config(**options))
    credentials = session.get_credentials()
    if credentials is None:
        raise OpsError(
            "no AWS credentials were found", expected="credentials in the environment, a profile or a role", fix=LOGIN
        )
    signer = RequestSigner(service.meta.service_model.service_id, region, "sts", "v4", credentials, session.events)
    request = {
        "method": "GET",
        "url": f"{service.meta.endpoint_url}/?Action=GetCallerIdentity&Version=2011-06-15",
        "body": {},
        "headers": {"x-k8s-aws-id": cluster_name},
        "context": {},
    }
    url = signer.generate_presigned_url(request, region_name=region, expires_in=60, operation_name="")
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")
