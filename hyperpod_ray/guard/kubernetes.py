"""The Kubernetes API as a pod reaches it: nodes to read, watch and patch, events to write."""

from __future__ import annotations

import http.client
import json
import os
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from hyperpod_ray.guard import NAME
from hyperpod_ray.guard.connections import UnreachableError, ask, connect

Json = dict[str, Any]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
MERGE_PATCH = "application/merge-patch+json"
GRACE_SECONDS = 10.0


class KubernetesError(Exception):
    """An answer that is an error, or none (code 0)."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}" if code else message)
        self.code = code


class Kubernetes:
    """A client with the pod's service account token, which is read for each request because it is renewed."""

    def __init__(self, *, folder: Path = SERVICE_ACCOUNT, environment: Mapping[str, str] = os.environ) -> None:
        host, port = environment["KUBERNETES_SERVICE_HOST"], environment["KUBERNETES_SERVICE_PORT"]
        self._url = f"https://{f'[{host}]' if ':' in host else host}:{port}"
        self._token = folder / "token"
        self._context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        # Python 3.13 sets this flag, which refuses the authorities of EKS: they carry no Authority Key Identifier
        self._context.verify_flags &= ~ssl.VERIFY_X509_STRICT

    def nodes(self) -> tuple[list[Json], str]:
        """Every node, and the version of the list, from which a watch continues."""
        # version 0: what the API server has at hand. An older state does no harm, as a patch names its version.
        answer = self._call("GET", "/api/v1/nodes?resourceVersion=0")
        return list(answer["items"]), str(answer["metadata"]["resourceVersion"])

    def watch_nodes(self, version: str, *, seconds: int, until: Callable[[Json], bool]) -> None:
        """Wait until a node changes so that `until` says yes to its object, or for so many seconds."""
        query = urlencode({"watch": "true", "resourceVersion": version, "timeoutSeconds": max(1, seconds)})
        connection, path = connect(
            f"{self._url}/api/v1/nodes?{query}", seconds=seconds + GRACE_SECONDS, context=self._context
        )
        try:
            connection.request("GET", path, headers=self._headers())
            answer = connection.getresponse()
            if answer.status != 200:
                raise KubernetesError(answer.status, answer.read(2000).decode(errors="replace"))
            while line := answer.readline():
                event = json.loads(line)
                if event.get("type") == "ERROR":
                    return  # the version is too old: the next list has a newer one
                if until(event["object"]):
                    return
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise KubernetesError(0, f"watch of nodes: {type(error).__name__}: {error}") from error
        finally:
            connection.close()

    def patch_node(self, name: str, patch: Json) -> None:
        """Merge a patch into a node."""
        self._call("PATCH", f"/api/v1/nodes/{name}", patch, content_type=MERGE_PATCH)

    def create_event(self, namespace: str, event: Json) -> None:
        """Write an Event."""
        self._call("POST", f"/api/v1/namespaces/{namespace}/events", event)

    def _headers(self, content_type: str = "application/json") -> dict[str, str]:
        token = self._token.read_text(encoding="utf-8").strip()
        return {
            "Authorization": f"Bearer {token}",
            "Accept": "application/json",
            "Content-Type": content_type,
            "User-Agent": NAME,
        }

    def _call(
        self, method: str, path: str, body: Json | None = None, *, content_type: str = "application/json"
    ) -> Json:
        data = None if body is None else json.dumps(body).encode()
        try:
            status, text = ask(
                method, self._url + path, headers=self._headers(content_type), body=data, context=self._context
            )
            answer = json.loads(text or b"{}")
        except (UnreachableError, OSError) as error:
            raise KubernetesError(0, str(error)) from error
        except ValueError as error:
            raise KubernetesError(0, f"{method} {path}: no JSON") from error
        if status >= 400:
            raise KubernetesError(status, str(answer.get("message", "")))
        decoded: Json = answer
        return decoded
