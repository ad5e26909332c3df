"""A real API server with the methods that the models of controllers call on the embedded one.

It is reached through `kubectl proxy` on a socket in a folder of mode 0700, so that every way to log in that the
kubeconfig knows works and no port is opened.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import http.client
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hyperpod_ray_rules import names
from hyperpod_ray_sandbox.kubernetes.options import Options
from hyperpod_ray_sandbox.kubernetes.resources import Resource, builtin_resources
from hyperpod_ray_sandbox.kubernetes.status import ApiError
from hyperpod_ray_sandbox.kubernetes.store import Key

Json = dict[str, Any]

CONFLICTS = 5
_SYSTEM = ("default", names.KUBE_SYSTEM, names.KUBE_PUBLIC, names.KUBE_NODE_LEASE)
_BOOTSTRAPPED = "kubernetes.io/bootstrapping"
_OF_THE_CLUSTER = (
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"),
    ("v1", "PersistentVolume"),
    ("v1", "Node"),
    ("storage.k8s.io/v1", "StorageClass"),
    ("storage.k8s.io/v1", "CSIDriver"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
)


class Remote:
    """What the models of controllers need of an API, asked of a real one; it is its own `store` and `registry`."""

    def __init__(self, path: Path) -> None:
        self._socket = path
        self.store = self.registry = self
        self.changed = asyncio.Event()
        self.version = 0
        self._notes: dict[str, str] = {}
        self._resources = {(r.api_version, r.kind): r for r in builtin_resources()}
        self._lists: dict[str, list[Json]] = {}

    def refresh(self) -> None:
        """Forget lists: those of one pass of the controllers are read once."""
        self._lists.clear()

    def request(self, method: str, path: str, body: Json | None = None) -> Json:
        """Send a request; `ApiError` is the server's refusal."""
        if method != "GET":
            self.refresh()
        connection = _Connection(self._socket)
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, body=content, headers={"Content-Type": "application/json"})
            answer = connection.getresponse()
            reply: Json = json.loads(answer.read() or b"{}")
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise ApiError(503, "ServiceUnavailable", f"the cluster does not answer: {error}") from None
        finally:
            connection.close()
        if answer.status >= 400:
            raise ApiError(answer.status, str(reply.get("reason", "")), str(reply.get("message", "")))
        return reply

    # ---- kinds -----------------------------------------------------------------------------------------------------

    def by_kind(self, version: str, kind: str) -> Resource | None:
        """A kind that the server serves; None where it does not."""
        if (version, kind) not in self._resources:
            group, _, short = version.rpartition("/")
            listed = self.get(f"/apis/{version}") or {}
            for served in listed.get("resources") or []:
                if "/" not in served["name"]:
                    self._resources[version, served["kind"]] = Resource(
                        group,
                        short,
                        served["kind"],
                        served["name"],
                        namespaced=served["namespaced"],
                    )
        return self._resources.get((version, kind))

    def kind(self, version: str, kind: str) -> Resource:
        """A kind by its version and name; raises 404."""
        resource = self.by_kind(version, kind)
        if resource is None:
            raise ApiError(404, "NotFound", f'no matches for kind "{kind}" in version "{version}"')
        return resource

    @staticmethod
    def key(resource: Resource, namespace: str, name: str) -> str:
        """The path of an object, or of all in a namespace."""
        base = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
        prefix = f"/namespaces/{namespace}" if namespace and resource.namespaced else ""
        return f"{base}{prefix}/{resource.plural}" + (f"/{name}" if name else "")

    @staticmethod
    def present(_resource: Resource, obj: Json) -> Json:
        """An object in the version that was asked for: the server converts."""
        return obj

    # ---- reads -----------------------------------------------------------------------------------------------------

    def get(self, path: str) -> Json | None:
        """An object by its path, None where there is none."""
        try:
            return self.request("GET", path)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def all(self, version: str, kind: str, namespace: str = "") -> list[Json]:
        """Every object of a kind; a list does not repeat version and kind."""
        resource = self.by_kind(version, kind)
        return [] if resource is None else self._all(resource, namespace)

    def _all(self, resource: Resource, namespace: str) -> list[Json]:
        path = self.key(resource, namespace, "")
        if path not in self._lists:
            items = (self.get(path) or {}).get("items") or []
            envelope = {"apiVersion": resource.api_version, "kind": resource.kind}
            self._lists[path] = [{**envelope, **manifest} for manifest in items]
        return copy.deepcopy(self._lists[path])

    def objects(self, bucket: str, namespace: str = "") -> list[Json]:
        """Every object of a place of the embedded API's store."""
        return self._all(self._of(bucket), namespace)

    def _of(self, bucket: str) -> Resource:
        return next(resource for resource in self._resources.values() if resource.store == bucket)

    def find(self, version: str, kind: str, namespace: str, name: str) -> Json | None:
        """An object by its name."""
        resource = self.by_kind(version, kind)
        return self.get(self.key(resource, namespace, name)) if resource and name else None

    def note(self, key: str, value: str | None = None) -> str:
        """What was noted under a key, or note something."""
        if value is not None:
            self._notes[key] = value
        return self._notes.get(key, "")

    # ---- writes ----------------------------------------------------------------------------------------------------

    def create(
        self, resource: Resource, namespace: str, body: Json, _options: Options | None = None, *, trusted: bool = False
    ) -> Json:
        """Create an object; a trusted one with its status."""
        created = self.request("POST", self.key(resource, namespace, ""), body)
        if trusted and body.get("status"):
            created["status"] = body["status"]
            created = self.request(
                "PUT", f"{self.key(resource, namespace, created['metadata']['name'])}/status", created
            )
        return created

    def modify(self, obj: Json, change: Callable[[Json], None], *, status: bool = False) -> Json | None:
        """Change an object as it is now, again where somebody else was faster; None where it is gone."""
        meta = obj["metadata"]
        path = self.key(self.kind(obj["apiVersion"], obj["kind"]), meta.get("namespace", ""), meta["name"])
        for attempt in range(CONFLICTS):
            current = self.get(path)
            if current is None:
                return None
            before = copy.deepcopy(current)
            change(current)
            if current == before:
                return current
            try:
                if current["kind"] == "Pod" and current["spec"].get("nodeName") != before["spec"].get("nodeName"):
                    return self._bind(path, current)
                return self.request("PUT", f"{path}/status" if status else path, current)
            except ApiError as error:
                if error.code != 409 or attempt == CONFLICTS - 1:
                    raise
        return None

    def _bind(self, path: str, pod: Json) -> Json | None:
        """Give a pod its node: no update may."""
        target = {"apiVersion": "v1", "kind": "Node", "name": pod["spec"]["nodeName"]}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod["metadata"]["name"]}, "target": target}
        self.request("POST", f"{path}/binding", body)
        return self.get(path)

    def delete(self, resource: Resource, namespace: str, name: str, options: Options | None = None) -> None:
        """Delete an object."""
        body: Json = {"propagationPolicy": options.propagation if options else "Background"}
        if options and options.grace_seconds is not None:
            body["gracePeriodSeconds"] = options.grace_seconds
        self.request("DELETE", self.key(resource, namespace, name), body)

    def finish(self, key: Key) -> None:
        """Take an object out for good, as a kubelet does with a pod that has ended."""
        with contextlib.suppress(ApiError):
            self.delete(self._of(key[0]), key[1], key[2], Options(grace_seconds=0))

    def reset(self) -> None:
        """Delete what people and controllers created, as when a control plane is deleted."""
        for namespace in self.all("v1", "Namespace"):
            if namespace["metadata"]["name"] not in _SYSTEM:
                self._drop(namespace)
        for workload in ("Deployment", "DaemonSet"):
            for obj in self.all("apps/v1", workload, names.KUBE_SYSTEM):
                self._drop(obj)
        for version, cluster_kind in _OF_THE_CLUSTER:
            for obj in self.all(version, cluster_kind):
                if _BOOTSTRAPPED not in (obj["metadata"].get("labels") or {}):
                    self._drop(obj)
        self._notes.clear()

    def _drop(self, obj: Json) -> None:
        resource, meta = self.kind(obj["apiVersion"], obj["kind"]), obj["metadata"]
        with contextlib.suppress(ApiError):
            self.delete(resource, meta.get("namespace", ""), meta["name"])


class _Connection(http.client.HTTPConnection):
    """HTTP over a socket in a folder."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=30)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(30)
        self.sock.connect(str(self._path))


def _listens(path: Path) -> bool:
    """Whether a connection to the socket is taken."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(str(path)) == 0


@contextlib.contextmanager
def proxy(kubeconfig: Path) -> Iterator[Path]:
    """A `kubectl proxy` on a socket of its own.

    A socket's name has room for 107 bytes, and the folder's may be longer: both ends name it relative to the folder.
    """
    folder = Path(tempfile.mkdtemp(prefix="follow-"))  # mode 0700
    opened = os.open(folder, os.O_PATH)
    path = Path(f"/proc/self/fd/{opened}/api")
    command = ["kubectl", "--kubeconfig", str(kubeconfig.resolve()), "proxy", "--unix-socket=api"]
    # a session of its own: it must outlive the signal that ends this process, to take the nodes away
    started = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        while not _listens(path):  # its name is there before it listens
            if started.poll() is not None:
                raise SystemExit(f"kubectl proxy ended with {started.returncode}: is {kubeconfig} right?")
            time.sleep(0.02)
        yield path
    finally:
        started.terminate()
        started.wait()
        os.close(opened)
        shutil.rmtree(folder, ignore_errors=True)
