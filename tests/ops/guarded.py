"""The node guard's pods as processes of this machine, against the local Kubernetes API and the embedded AWS.

The program is the one in the ConfigMap, with the container's own command line, arguments and variables, and without any
installed package. Its token is its service account's, so that RBAC and the admission policy judge it. Its AWS
credentials come from EKS Pod Identity for its pod. A stand-in hands them out where the node's agent would.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from hyperpod_ray.core.names import GUARD, GUARD_MARK, OUT_OF_SERVICE, POD_IDENTITY_ADDON, instance_id
from hyperpod_ray.k8s.guard import CODE_FOLDER, READY_FILE
from hyperpod_ray_sandbox.errors import SandboxError
from tests.ops.world import World, environment_text
from tests.support import kubectl, roles

Json = dict[str, Any]
PODS = f"/api/v1/namespaces/{GUARD}/pods"


class Agent:
    """In the place of the EKS Pod Identity agent of every node: credentials for whoever has a pod's token."""

    def __init__(self, world: World) -> None:
        self.pods: dict[str, Json] = {}
        agent = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                pod = agent.pods.get(self.headers["Authorization"] or "")
                status, answer = 400, {"message": "no such pod"}
                if pod is not None:
                    try:
                        node = instance_id(pod["spec"]["nodeName"])
                        name = world.plan.eks_cluster_name
                        answer = world.running.client.pod_credentials(cluster=name, node_id=node, pod=pod)
                        status = 200
                    except SandboxError as error:
                        answer = {"message": str(error)}
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1/credentials"


@dataclass
class Guarded:
    """An environment with its guard's pods, each as a process of this machine."""

    world: World
    folder: Path
    agent: Agent
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    """By the node that the pod is on."""

    def start(self, pod: Json) -> None:
        """Do what a kubelet does for the pod: mount the ConfigMap and the token, set the variables, run the command."""
        spec, node = pod["spec"], pod["spec"]["nodeName"]
        (container,) = spec["containers"]
        place = self.folder / node
        program = self.world.get(f"/api/v1/namespaces/{GUARD}/configmaps/{GUARD}")["data"]
        (mounted,) = [volume["configMap"] for volume in spec["volumes"] if volume["name"] == "program"]
        for item in mounted["items"]:
            path = place / "program" / item["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(program[item["key"]])
        account = place / "account"
        account.mkdir()
        config = yaml.safe_load(Path(self.world.running.kubeconfig).read_text())["clusters"][0]["cluster"]
        (account / "ca.crt").write_text(Path(config["certificate-authority"]).read_text())
        (account / "token").write_text(self.token())
        identity = place / "identity"
        identity.write_text(pod["metadata"]["uid"])
        self.agent.pods[pod["metadata"]["uid"]] = pod
        server = urlsplit(config["server"])
        replaced = {CODE_FOLDER: str(place / "program"), "spec.nodeName": node}
        variables = {
            item["name"]: replaced.get(value, value)
            for item in container["env"]
            for value in [item.get("value") or item["valueFrom"]["fieldRef"]["fieldPath"]]
        }
        arguments = [
            f"--endpoint={self.world.running.client.endpoint}" if word.startswith("--endpoint=")
            else word.replace(READY_FILE, str(place / "ready"))
            for word in container["args"]
        ]  # fmt: skip
        python, *rest = container["command"]
        assert python == "python3"
        self.processes[node] = subprocess.Popen(
            [sys.executable, "-S", *rest, *arguments, f"--service-account={account}"],
            cwd=place / "program",
            stderr=(place / "log").open("wb"),
            env={
                **variables,
                "KUBERNETES_SERVICE_HOST": str(server.hostname),
                "KUBERNETES_SERVICE_PORT": str(server.port),
                "AWS_CONTAINER_CREDENTIALS_FULL_URI": self.agent.url,
                "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(identity),
            },
        )

    def token(self) -> str:
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        path = f"/api/v1/namespaces/{GUARD}/serviceaccounts/{GUARD}/token"
        return str(self.world.request("POST", path, request)["status"]["token"])

    def logs(self) -> str:
        return "\n".join(f"{path.parent.name}: {path.read_text()}" for path in self.folder.glob("*/log"))

    def until(self, condition: Any, what: str) -> None:
        try:
            self.world.until(lambda: bool(condition()), what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.logs()}") from None

    def ready(self, node: str) -> bool:
        return (self.folder / node / "ready").exists()

    def node(self, name: str) -> Json:
        return self.world.get(f"/api/v1/nodes/{name}")

    def answers(self, name: str) -> str:
        return next(str(c["status"]) for c in self.node(name)["status"]["conditions"] if c["type"] == "Ready")

    def freed(self, name: str) -> tuple[bool, bool]:
        """Whether a node has the taint, and the guard's mark."""
        node = self.node(name)
        taints = [taint["key"] for taint in node["spec"].get("taints") or []]
        return OUT_OF_SERVICE in taints, GUARD_MARK in (node["metadata"].get("annotations") or {})

    def reasons(self, name: str) -> list[str]:
        found = self.world.get("/api/v1/namespaces/default/events")["items"]
        own = [event for event in found if event["involvedObject"]["name"] == name]
        return [event["reason"] for event in own if event["reason"].startswith("NodeGuard")]

    def ray_pods(self, kind: str) -> list[Json]:
        found = self.world.get("/api/v1/namespaces/ray/pods")["items"]
        return [
            pod for pod in found
            if pod["metadata"]["labels"].get("ray.io/node-type") == kind
            and not pod["metadata"].get("deletionTimestamp") and pod["status"].get("phase") == "Running"
        ]  # fmt: skip

    def run(self, *arguments: str) -> str:
        """Run kubectl; what it prints."""
        environment = {**self.world.environ(), "KUBECONFIG": self.world.running.kubeconfig}
        done = kubectl.run(arguments[0], arguments[1:], environment=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def worker_node(self) -> str:
        """A node that carries a worker and answers."""
        self.until(lambda: len(self.ray_pods("worker")) == 2, "two workers")
        names = [str(pod["spec"]["nodeName"]) for pod in self.ray_pods("worker")]
        return next(name for name in names if self.answers(name) == "True")


def identity(world: World) -> None:
    """What the Ray stack creates for the guard: a role for its service account alone, with two actions."""
    eks, iam = world.client("eks"), world.client("iam")
    cluster = eks.describe_cluster(name=world.plan.eks_cluster_name)["cluster"]
    eks.create_addon(clusterName=cluster["name"], addonName=POD_IDENTITY_ADDON)
    tags = {"eks-cluster-arn": cluster["arn"], "kubernetes-namespace": GUARD, "kubernetes-service-account": GUARD}
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "pods.eks.amazonaws.com"},
        "Action": ["sts:AssumeRole", "sts:TagSession"],
        "Condition": {"StringEquals": {f"aws:RequestTag/{key}": value for key, value in tags.items()}},
    }
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    role = iam.create_role(RoleName="node-guard", AssumeRolePolicyDocument=document)["Role"]["Arn"]
    hyperpod = world.client("sagemaker").describe_cluster(ClusterName=world.plan.settings.hyperpod.cluster_name)
    actions = ("sagemaker:DescribeClusterNode", "sagemaker:ListClusterNodes")
    allowed = roles.allowing(*actions, resource=hyperpod["ClusterArn"])
    iam.put_role_policy(RoleName="node-guard", PolicyName="nodes", PolicyDocument=allowed)
    nodes = roles.allowing(*roles.ACTIONS, "eks-auth:AssumeRoleForPodIdentity")
    iam.put_role_policy(RoleName="execution", PolicyName="nodes", PolicyDocument=nodes)
    eks.create_pod_identity_association(
        clusterName=cluster["name"], namespace=GUARD, serviceAccount=GUARD, roleArn=role
    )


@contextlib.contextmanager
def guarding(world: World, folder: Path) -> Iterator[Guarded]:
    """A world whose guard runs: two pods, both ready."""
    # without automatic recovery: a failed instance stays, so that its node can return
    world.write(environment_text(count=5, recovery="None"))
    world.create()
    identity(world)
    world.install()
    world.settle()
    made = Guarded(world=world, folder=folder, agent=Agent(world))
    world.until(
        lambda: len([p for p in world.get(PODS)["items"] if p["spec"].get("nodeName")]) == 2, "the guard's pods"
    )
    for pod in world.get(PODS)["items"]:
        made.start(pod)
    made.until(lambda: all(made.ready(node) for node in made.processes), "both are ready")
    yield made
    for process in made.processes.values():
        process.terminate()
    ended = [process.wait(timeout=600) for process in made.processes.values()]
    made.agent.server.shutdown()
    made.agent.server.server_close()
    assert 0 in ended, "SIGTERM ends it at once and in order"
