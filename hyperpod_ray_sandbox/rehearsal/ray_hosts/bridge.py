"""Puts a Ray cluster of this machine behind the RayCluster that the local Kubernetes API has recorded.

Then `hyperpod-ray connect local` and `hyperpod-ray submit local -- …` reach a Ray that runs. The head's port 8265
leads to the head's address on loopback, and the RayCluster's Secret holds this cluster's token.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from hyperpod_ray.core import names
from hyperpod_ray_sandbox.rehearsal.ray_hosts.cluster import Cluster
from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError

Json = dict[str, Any]


class Kubernetes:
    """The local Kubernetes API whose state lies in a folder (`.local/aws/kubernetes`)."""

    def __init__(self, folder: Path) -> None:
        try:
            self._server: Json = json.loads((folder / "server.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise LocalError(
                f"no local Kubernetes API in {folder}",
                expected="a running one",
                fix="hyperpod-ray local up, then deploy the environment",
            ) from None

    def request(self, method: str, path: str, body: Json, *, content_type: str = "application/json") -> None:
        """One request; LocalError with the API's own message where it is refused."""
        request = urllib.request.Request(  # noqa: S310  (the address comes from our own record)
            self._server["url"] + path,
            data=json.dumps(body).encode(),
            method=method,
            headers={"Authorization": f"Bearer {self._server['token']}", "Content-Type": content_type},
        )
        context = ssl.create_default_context(cafile=self._server["ca_file"])
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        try:
            opener.open(request, timeout=30).close()
        except urllib.error.HTTPError as error:
            raise LocalError(
                f"the local Kubernetes API refuses: {_message(error)}",
                expected="it to accept the request",
                fix="deploy the environment again",
                code=1,
            ) from None
        except OSError as error:
            raise LocalError(
                f"the local Kubernetes API at {self._server['url']} does not answer: {error}",
                expected="an answer",
                fix="hyperpod-ray local up",
                code=1,
            ) from None


def _message(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["message"])
    except (ValueError, KeyError, TypeError):
        return str(error)


def bridge(cluster: Cluster, kubernetes: Kubernetes) -> str:
    """Bridge a cluster's dashboard; what was done, in a line. Again after the head got a new address.

    Raises:
        LocalError: the RayCluster is not deployed there, the API does not answer, or jobs would write to this machine's
            own shared folder.
    """
    mount = Path(names.MOUNT_PATH)
    if cluster.state.mode == "session" and os.access(mount if mount.exists() else mount.parent, os.W_OK):
        raise LocalError(
            f"bridge: jobs of {cluster.state.name!r} would write to this machine's own {mount}",
            expected="process and mount namespaces, in which it is the cluster's folder",
            fix=f"allow `unshare --user --mount`, or start the cluster as a user who may not write to {mount}",
            code=1,
        )
    meta = cluster.manifest["metadata"]
    namespace, name = meta.get("namespace", "default"), meta["name"]
    if cluster.plan.token_auth:
        token = base64.b64encode(cluster.token_path.read_text(encoding="utf-8").strip().encode()).decode()
        kubernetes.request(
            "PATCH",
            f"/api/v1/namespaces/{namespace}/secrets/{name}",
            {"data": {names.TOKEN_KEY: token}},
            content_type="application/merge-patch+json",
        )
    to = f"{cluster.head_ip}:{cluster.state.dashboard_port}"
    selector = f"{names.RAY_CLUSTER_LABEL}={name},{names.RAY_ROLE_LABEL}=head"
    body = {"namespace": namespace, "selector": selector, "port": names.DASHBOARD_PORT, "to": to}
    kubernetes.request("POST", "/rehearsal/bridges", body)
    return f"port {names.DASHBOARD_PORT} of the head of RayCluster {namespace}/{name} leads to {to}"
