"""What a client of the embedded AWS needs: environment variables, and calls to the control plane."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hyperpod_ray_sandbox.aws import paths
from hyperpod_ray_sandbox.errors import SandboxError

# settings of the person's own AWS that must not reach a command meant for the emulator
FORBIDDEN = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_SESSION_TOKEN", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE")

CONTROL_SERVICE = "sandbox"
PATIENCE_SECONDS = 300.0


class ControlError(SandboxError):
    """The emulator refused a command of the control plane, or does not answer."""


@dataclass(frozen=True)
class Client:
    """A running emulator, seen from outside; `account` is its root user's access key, `secret` this start's secret."""

    port: int
    account: str
    region: str
    home: Path
    secret: str = field(repr=False)

    @property
    def endpoint(self) -> str:
        """The URL of every AWS service."""
        return f"http://127.0.0.1:{self.port}"

    def environment(self) -> dict[str, str]:
        """Return the variables that make the AWS CLI, SDKs and `cdk` talk to the emulator and to nothing else."""
        return {
            "AWS_ACCESS_KEY_ID": self.account,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_CONFIG_FILE": str(self.home / "no-config"),
            "AWS_SHARED_CREDENTIALS_FILE": str(self.home / "no-credentials"),
            "AWS_EC2_METADATA_DISABLED": "true",
            # ~/.cdk/cache remembers which account a key belongs to: a HOME of its own keeps it out of the person's
            "HOME": str(self.home),
            "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(paths.CACHE / "jsii"),
            # of the cdk CLI, of jsii and of functions in Node.js: each start would compile their modules again
            "NODE_COMPILE_CACHE": str(paths.CACHE / "node"),
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "CDK_DISABLE_VERSION_CHECK": "true",
            "CDK_NOTICES": "false",
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
        }

    def exports(self) -> dict[str, str]:
        """Return the variables for a shell of the user: HOME stays."""
        return {name: value for name, value in self.environment().items() if name != "HOME"}

    def health(self, *, patience: float = PATIENCE_SECONDS) -> bool:
        """Say whether the emulator answers within some seconds."""
        try:
            return bool(self._call("GET", "health", patience=patience).get("ready"))
        except ControlError:
            return False

    def set_fault(self, **fault: Any) -> list[dict[str, Any]]:
        """Inject a fault (see `hyperpod_ray_sandbox.aws.emulator.faults`); return those set now."""
        return list(self._call("POST", "faults", fault)["faults"])

    def faults(self) -> list[dict[str, Any]]:
        """Return the faults set now."""
        return list(self._call("GET", "faults")["faults"])

    def clear_faults(self) -> None:
        """Remove every fault; what was stuck continues."""
        self._call("DELETE", "faults")

    def fail_node(self, node_id: str, message: str = "NVRM: Xid 74: NVLink error") -> dict[str, Any]:
        """Make a HyperPod node faulty, as the health-monitoring agent would."""
        return self._call("POST", "fail-node", {**self._scope(), "node_id": node_id, "message": message})

    def set_hyperpod(self, cluster: str, **state: Any) -> dict[str, Any]:
        """Set what HyperPod says of a cluster (see `emulator.hyperpod.states`), and publish its event."""
        return self._call("POST", "hyperpod", {**self._scope(), "cluster": cluster, **state})

    @contextmanager
    def time_held(self) -> Iterator[None]:
        """Stop the emulator's time inside the block: no state changes by itself, so that a test can look at it."""
        self._call("POST", "clock", {"held": True})
        try:
            yield
        finally:
            self._call("POST", "clock", {"held": False})

    def token_review(self, token: str, cluster_arn: str) -> dict[str, Any]:
        """Return whose EKS token it is, as EKS answers an API server: `{authenticated, username, groups, policies}`."""
        return self._call("POST", "token-review", {"token": token, "cluster_arn": cluster_arn})

    def pulls(self, node_id: str, images: list[str]) -> dict[str, str]:
        """Return why a HyperPod node cannot pull images, by image; nothing for those that it can."""
        return dict(self._call("POST", "pulls", {**self._scope(), "node_id": node_id, "images": images})["reasons"])

    def revision(self) -> str:
        """Return a text that changes with what EKS and HyperPod answer of clusters, nodes, add-ons and quotas."""
        return str(self._call("POST", "revision", self._scope())["revision"])

    def web_identity(
        self, *, cluster: str, subject: str, role_arn: str, action: str, resource: str, keys: dict[str, Any]
    ) -> str:
        """Return why a service account of an EKS cluster may not do something with its IAM role, or nothing."""
        request = {"cluster": cluster, "subject": subject, "role_arn": role_arn, "action": action, "resource": resource}
        return str(self._call("POST", "web-identity", {**self._scope(), **request, "keys": keys})["reason"])

    def pod_credentials(self, *, cluster: str, node_id: str, pod: dict[str, Any]) -> dict[str, str]:
        """Return the credentials that EKS Pod Identity gives a pod (its object) on a HyperPod node.

        Raises:
            ControlError: It gives none, and why.
        """
        meta = pod["metadata"]
        request = {
            "cluster": cluster,
            "node_id": node_id,
            "namespace": meta["namespace"],
            "service_account": pod["spec"].get("serviceAccountName") or "default",
            "name": meta["name"],
            "uid": meta["uid"],
            "created": meta["creationTimestamp"],
        }
        return {
            name: str(value)
            for name, value in self._call("POST", "pod-credentials", {**self._scope(), **request}).items()
        }

    def node_network(self, node_id: str) -> str:
        """Return why a HyperPod node gets no pod network, or nothing."""
        return str(self._call("POST", "node-network", {**self._scope(), "node_id": node_id})["reason"])

    def set_quota(self, name: str, value: float) -> None:
        """Set a service quota by its name or by an instance type."""
        self._call("POST", "quotas", {"name": name, "value": value})

    def withdraw(self, instance_type: str, zone_id: str) -> None:
        """Offer an instance type no more in a zone (DescribeInstanceTypeOfferings)."""
        self._call("POST", "offerings", {"instance_type": instance_type, "zone_id": zone_id})

    def inventory(self) -> list[dict[str, Any]]:
        """Return every resource that exists now as `{type, id, stack, …}`."""
        return list(self._call("POST", "inventory", self._scope())["resources"])

    def signed(self, method: str, url: str, body: bytes, headers: dict[str, str]) -> dict[str, str]:
        """Return a request's headers with its signature, made as for any AWS service."""
        import botocore.auth  # slow to import, and `--help` needs no request
        import botocore.awsrequest
        import botocore.credentials

        request = botocore.awsrequest.AWSRequest(method=method, url=url, data=body, headers=headers)
        credentials = botocore.credentials.Credentials(self.account, self.secret)
        botocore.auth.SigV4Auth(credentials, CONTROL_SERVICE, self.region).add_auth(request)
        return dict(request.headers.items())

    def _scope(self) -> dict[str, Any]:
        return {"account": self.account, "region": self.region}

    def _call(
        self, method: str, path: str, data: dict[str, Any] | None = None, *, patience: float = PATIENCE_SECONDS
    ) -> dict[str, Any]:
        body = json.dumps(data or {}).encode()
        url = f"{self.endpoint}/_local/{path}"
        headers = self.signed(method, url, body, {"Content-Type": "application/json"})
        request = urllib.request.Request(url, data=body, method=method, headers=headers)  # noqa: S310  # on loopback
        # a proxy of the environment has no business with loopback
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=patience) as answer:
                decoded: dict[str, Any] = json.load(answer)
                return decoded
        except urllib.error.HTTPError as error:
            raise ControlError(
                _message(error), expected="a request that the control plane knows", fix="correct what it names"
            ) from None
        except (OSError, ValueError) as error:
            raise ControlError(
                f"the embedded AWS does not answer on {self.endpoint}: {error}",
                expected="an answer",
                fix=f"{paths.command('status', self.home.parent)}",
            ) from None


def _message(error: urllib.error.HTTPError) -> str:
    try:
        answer = json.load(error)
        return str(answer.get("error") or answer["message"])
    except (ValueError, KeyError, AttributeError):
        return f"HTTP {error.code}"
