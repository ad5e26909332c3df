"""`python -m hyperpod_ray_sandbox.kubernetes.follower`: HyperPod's nodes as Node objects of a cluster of your own.

A HyperPod instance joins its EKS cluster by itself. Where `up --kubeconfig` puts another cluster in EKS's place, no
instance is there to join it: this process makes the Node objects, keeps their heartbeat, labels and taints, and deletes
them, by the rules of `controllers/nodes.py`. It runs no pod: that takes the cluster's own nodes, or simulated kubelets.

The cluster is reached through `kubectl proxy` on a socket in a folder of mode 0700, so that every way to log in that
the kubeconfig knows works and no port is opened.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import copy
import http.client
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyperpod_ray_sandbox.kubernetes.controllers.aws import Aws, AwsError
from hyperpod_ray_sandbox.kubernetes.controllers.common import condition, node_ready, set_status
from hyperpod_ray_sandbox.kubernetes.controllers.nodes import PREFIX, Nodes
from hyperpod_ray_sandbox.kubernetes.status import ApiError
from hyperpod_ray_sandbox.kubernetes.times import now

Json = dict[str, Any]
log = logging.getLogger("follower")
# a node whose heartbeat is older than 40 s is unknown to Kubernetes' node controller
HEARTBEAT_SECONDS = 10.0
CONFLICTS = 5
ANSWER_SECONDS = 180.0
"""How long a server that is starting may answer with an error of the proxy's, which is no JSON."""


@dataclass(frozen=True)
class Kind:
    """Where the objects of a kind live."""

    base: str
    plural: str

    def path(self, namespace: str, name: str = "") -> str:
        """The path of an object, or of all in a namespace."""
        prefix = f"/namespaces/{namespace}" if namespace else ""
        return f"{self.base}{prefix}/{self.plural}" + (f"/{name}" if name else "")


KINDS = {("v1", "Node"): Kind("/api/v1", "nodes"), ("v1", "Event"): Kind("/api/v1", "events")}


class Remote:
    """What `Nodes` needs of an API, asked of a real one; `store` and `key` serve the recording of events."""

    def __init__(self, path: Path) -> None:
        self._socket = path
        self.store = self

    def request(self, method: str, path: str, body: Json | None = None) -> Json:
        """Send a request; `ApiError` is the server's refusal."""
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

    def kind(self, version: str, kind: str) -> Kind:
        """A kind by its version and name."""
        return KINDS[version, kind]

    def key(self, resource: Kind, namespace: str, name: str) -> str:
        """The path of an object."""
        return resource.path(namespace, name)

    def get(self, path: str) -> Json | None:
        """An object by its path, None where there is none."""
        try:
            return self.request("GET", path)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def all(self, version: str, kind: str) -> list[Json]:
        """Every object of a kind; a list does not repeat version and kind."""
        items = self.request("GET", KINDS[version, kind].path("")).get("items") or []
        return [{"apiVersion": version, "kind": kind, **manifest} for manifest in items]

    def find(self, version: str, kind: str, namespace: str, name: str) -> Json | None:
        """An object by its name."""
        return self.get(KINDS[version, kind].path(namespace, name))

    def create(self, resource: Kind, namespace: str, body: Json, *, trusted: bool = False) -> Json:
        """Create an object; a trusted one with its status."""
        created = self.request("POST", resource.path(namespace), body)
        if trusted and body.get("status"):
            created["status"] = body["status"]
            created = self.request("PUT", f"{resource.path(namespace, created['metadata']['name'])}/status", created)
        return created

    def modify(self, obj: Json, change: Callable[[Json], None], *, status: bool = False) -> Json | None:
        """Change an object as it is now, again where somebody else was faster; None where it is gone."""
        meta = obj["metadata"]
        path = KINDS[obj["apiVersion"], obj["kind"]].path(meta.get("namespace", ""), meta["name"])
        for attempt in range(CONFLICTS):
            current = self.get(path)
            if current is None:
                return None
            before = copy.deepcopy(current)
            change(current)
            if current == before:
                return current
            try:
                return self.request("PUT", f"{path}/status" if status else path, current)
            except ApiError as error:
                if error.code != 409 or attempt == CONFLICTS - 1:
                    raise
        return None

    def delete(self, resource: Kind, namespace: str, name: str, _options: object) -> None:
        """Delete an object."""
        self.request("DELETE", resource.path(namespace, name))


class _Connection(http.client.HTTPConnection):
    """HTTP over a socket in a folder."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=30)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(30)
        self.sock.connect(str(self._path))


class Follower:
    """Asks the embedded AWS, and brings the cluster's Node objects in line."""

    def __init__(self, remote: Remote, aws: Aws, *, time_scale: float) -> None:
        self._remote, self._aws = remote, aws
        api: Any = remote
        self._nodes = Nodes(api, time_scale)
        self._beat = 0.0

    async def once(self) -> None:
        """One look."""
        clusters = await self._aws.pages("eks", "list_clusters", "clusters")
        arn = ""
        if len(clusters) == 1:
            arn = str((await self._aws.call("eks", "describe_cluster", name=clusters[0]))["cluster"]["arn"])
        await self._nodes.poll(self._aws, arn)
        if time.monotonic() - self._beat >= HEARTBEAT_SECONDS:
            self._beat = time.monotonic()
            self._heartbeats()

    def _heartbeats(self) -> None:
        api: Any = self._remote
        for node in ours(self._remote):
            if node_ready(node):
                set_status(api, node, beat)

    async def run(self, poll_seconds: float) -> None:
        """Follow until cancelled."""
        while True:
            try:
                await self.once()
            except (AwsError, ApiError) as error:
                log.warning("%s", error)
            except Exception:
                log.exception("following the embedded AWS failed")
            await asyncio.sleep(poll_seconds)


def first_answer(remote: Remote, *, seconds: float = ANSWER_SECONDS, every: float = 0.2) -> None:
    """List nodes; a refusal counts at once, and a server that is still starting gets some time."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            remote.all("v1", "Node")
            return
        except ApiError as error:
            if error.code not in (502, 503) or time.monotonic() > deadline:
                raise
        time.sleep(every)


def beat(status: Json) -> None:
    """Say that the node's kubelet is there."""
    condition(status, "Ready", "True", "KubeletReady", "kubelet is posting ready status")
    for node_condition in status["conditions"]:
        node_condition["lastHeartbeatTime"] = now()


def ours(remote: Remote) -> list[Json]:
    """The Node objects that this process made or would make."""
    nodes = remote.all("v1", "Node")
    return [n for n in nodes if (n["metadata"].get("labels") or {}).get(PREFIX + "compute-type") == "hyperpod"]


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
        while not path.exists():
            if started.poll() is not None:
                raise SystemExit(f"kubectl proxy ended with {started.returncode}: is {kubeconfig} right?")
            time.sleep(0.02)
        yield path
    finally:
        started.terminate()
        started.wait()
        os.close(opened)
        shutil.rmtree(folder, ignore_errors=True)


def main(argv: list[str] | None = None) -> int:
    """Follow until SIGTERM; the Node objects go at the end, as their instances are gone with the emulator."""
    parser = argparse.ArgumentParser(prog="python -m hyperpod_ray_sandbox.kubernetes.follower", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--aws-endpoint", required=True)
    parser.add_argument("--region", required=True)
    parser.add_argument("--poll-seconds", type=float, default=1.0)
    parser.add_argument("--time-scale", type=float, default=0.05, help="as of the local Kubernetes API")
    options = parser.parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    with proxy(options.kubeconfig) as path:
        remote = Remote(path)
        first_answer(remote)
        follower = Follower(remote, Aws(options.aws_endpoint, options.region), time_scale=options.time_scale)

        async def follow() -> None:
            task = asyncio.ensure_future(follower.run(options.poll_seconds))
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, task.cancel)
            # `up` returns at this line: from here on a signal ends the following, and not the process
            sys.stderr.write(f"following the embedded AWS on {options.aws_endpoint}, process {os.getpid()}\n")
            with contextlib.suppress(asyncio.CancelledError):
                await task

        asyncio.run(follow())
        for node in ours(remote):
            with contextlib.suppress(ApiError):
                remote.delete(KINDS["v1", "Node"], "", node["metadata"]["name"], None)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
