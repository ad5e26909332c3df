"""What HyperPod says of the cluster's instances, asked with the pod's own AWS identity."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hyperpod_ray.guard.connections import UnreachableError, ask
from hyperpod_ray.guard.judge import GONE, epoch
from hyperpod_ray.guard.signing import Credentials, signed

Json = dict[str, Any]

RENEW_SECONDS = 300
"""Credentials are asked for again this long before they expire."""
PAGES = 200
"""More pages of a hundred instances than a cluster can have."""
UNKNOWN = ("ResourceNotFound", "ResourceNotFoundException", "ValidationException")
"""Errors with which `DescribeClusterNode` says that the cluster has no such instance."""


class NoAnswerError(Exception):
    """HyperPod did not answer, or did not answer what was asked: nothing is known."""


class RefusedError(NoAnswerError):
    """HyperPod answered with an error; `code` is the service's word."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class PodIdentity:
    """Credentials of the pod's role, from the EKS Pod Identity agent of its node.

    https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._environment = environment
        self._known: Credentials | None = None

    def credentials(self) -> Credentials:
        """Credentials that are valid for some minutes more."""
        if self._known is None or self._known.expires - time.time() < RENEW_SECONDS:
            self._known = self._ask()
        return self._known

    def forget(self) -> None:
        """Ask the agent again before the next call."""
        self._known = None

    def _ask(self) -> Credentials:
        try:
            url = self._environment["AWS_CONTAINER_CREDENTIALS_FULL_URI"]
            token = Path(self._environment["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"]).read_text(encoding="utf-8")
        except (KeyError, OSError) as error:
            raise NoAnswerError(f"this pod has no EKS Pod Identity: {error}") from error
        try:
            status, body = ask("GET", url, headers={"Authorization": token.strip()}, seconds=5)
            credentials = json.loads(body) if status == 200 else {}
            return Credentials(
                key=credentials["AccessKeyId"],
                secret=credentials["SecretAccessKey"],
                token=credentials["Token"],
                expires=epoch(credentials["Expiration"]),
            )
        except UnreachableError as error:
            raise NoAnswerError(str(error)) from error
        except (ValueError, KeyError) as error:
            raise NoAnswerError(f"the EKS Pod Identity agent answered {status}") from error


class HyperPod:
    """Two calls of the SageMaker API, `ListClusterNodes` and `DescribeClusterNode`, of one cluster."""

    def __init__(self, *, cluster: str, region: str, endpoint: str, identity: PodIdentity) -> None:
        self._cluster, self._region, self._endpoint, self._identity = cluster, region, endpoint, identity

    def statuses(self) -> dict[str, str]:
        """`InstanceStatus` of every instance of the cluster, by instance id.

        Raises:
            NoAnswerError: not all of them are known.
        """
        statuses: dict[str, str] = {}
        page_token: Json = {}
        for _ in range(PAGES):
            answer = self._call("ListClusterNodes", {"MaxResults": 100, **page_token})
            try:
                for node in answer["ClusterNodeSummaries"]:
                    statuses[node["InstanceId"]] = node["InstanceStatus"]["Status"]
            except (KeyError, TypeError) as error:
                raise NoAnswerError(f"ListClusterNodes: unexpected answer: {error}") from error
            if not answer.get("NextToken"):
                return statuses
            page_token = {"NextToken": answer["NextToken"]}
        raise NoAnswerError(f"ListClusterNodes: more than {PAGES} pages")

    def status(self, instance: str) -> str:
        """`InstanceStatus` of one instance, `NotFound` where the cluster has none of that id."""
        try:
            answer = self._call("DescribeClusterNode", {"NodeId": instance})
        except RefusedError as error:
            if error.code in UNKNOWN:
                return GONE
            raise
        try:
            return str(answer["NodeDetails"]["InstanceStatus"]["Status"])
        except (KeyError, TypeError) as error:
            raise NoAnswerError(f"DescribeClusterNode: unexpected answer: {error}") from error

    def _call(self, operation: str, arguments: Json) -> Json:
        body = json.dumps({"ClusterName": self._cluster, **arguments}).encode()
        headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": f"SageMaker.{operation}"}
        sent = signed(
            credentials=self._identity.credentials(),
            host=urlsplit(self._endpoint).netloc,
            region=self._region,
            service="sagemaker",
            headers=headers,
            body=body,
            now=time.time(),
        )
        try:
            status, text = ask("POST", self._endpoint, headers=sent, body=body)
        except UnreachableError as error:
            raise NoAnswerError(str(error)) from error
        try:
            answer = json.loads(text or b"{}")
        except ValueError as error:
            raise NoAnswerError(f"{operation}: status {status}, and no JSON") from error
        if not isinstance(answer, dict):
            raise NoAnswerError(f"{operation}: unexpected answer")
        if status != 200:
            code = str(answer.get("__type", status)).rpartition("#")[2]
            if status in (400, 403) and ("Token" in code or "Signature" in code or "Client" in code):
                self._identity.forget()
            raise RefusedError(code, str(answer.get("message") or answer.get("Message") or f"status {status}"))
        return answer
