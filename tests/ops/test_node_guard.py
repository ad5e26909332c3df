"""The node guard itself, against the local Kubernetes API and the embedded AWS: a loss, a cut network, a return.

The program is the one in the ConfigMap, with the container's own command line, arguments and variables, and without any
installed package. Its token is its service account's, so that RBAC and the admission policy judge it. Its AWS
credentials come from EKS Pod Identity for its pod. A stand-in hands them out where the node's agent would.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import urllib.error
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from core.names import (
    GUARD,
    GUARD_MARK,
    HEALTH_LABEL,
    OUT_OF_SERVICE,
    POD_IDENTITY_ADDON,
    REPLACE,
    instance_id,
    node_name,
)
from k8s.guard import CODE_FOLDER, READY_FILE
from sandbox.aws import paths
from sandbox.errors import SandboxError
from tests.ops.world import World, environment_text
from tests.support import roles

pytestmark = [pytest.mark.emulator, pytest.mark.slow]

Json = dict[str, Any]
PODS = f"/api/v1/namespaces/{GUARD}/pods"
MERGE = "application/merge-patch+json"


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
        tool = paths.KUBECTL_LAYER / arguments[0] / arguments[0]
        done = subprocess.run(
            [str(tool), *arguments[1:]],
            env={**self.world.environ(), "KUBECONFIG": self.world.running.kubeconfig},
            capture_output=True, text=True, check=True, timeout=120,
        )  # fmt: skip
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


@pytest.fixture(scope="module")
def guarded(start_world: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    world: World = start_world()  # type: ignore[operator]
    # without automatic recovery: a failed instance stays, so that its node can return
    world.write(environment_text(count=5, recovery="None"))
    world.create()
    identity(world)
    world.install()
    world.settle()
    made = Guarded(world=world, folder=tmp_path_factory.mktemp("guard"), agent=Agent(world))
    world.until(
        lambda: len([p for p in world.get(PODS)["items"] if p["spec"].get("nodeName")]) == 2, "the guard's pods"
    )
    for pod in world.get(PODS)["items"]:
        made.start(pod)
    made.until(lambda: all(made.ready(node) for node in made.processes), "both are ready")
    yield made
    for process in made.processes.values():
        process.terminate()
    ended = [process.wait(timeout=60) for process in made.processes.values()]
    made.agent.server.shutdown()
    made.agent.server.server_close()
    assert 0 in ended, "SIGTERM ends it at once and in order"


def test_two_pods_on_two_nodes_of_the_heads_group(guarded: Guarded) -> None:
    heads = {node_name(node["InstanceId"]) for node in guarded.world.instances("head")}
    assert set(guarded.processes) == heads
    assert len(heads) == 2


def test_a_cut_network_changes_nothing(guarded: Guarded) -> None:
    lost = guarded.worker_node()
    guarded.world.node_mode(lost, "unreachable")
    guarded.until(lambda: "NodeGuardWaits" in guarded.reasons(lost), "the guard looked at it")
    assert guarded.answers(lost) == "Unknown"
    assert guarded.freed(lost) == (False, False)
    guarded.world.node_mode(lost, "restore")
    guarded.until(lambda: guarded.answers(lost) == "True", "it answers again")
    assert guarded.freed(lost) == (False, False)
    assert guarded.reasons(lost) == ["NodeGuardWaits"], "two guards, one event"


def test_a_lost_nodes_pods_are_replaced_and_it_may_return(guarded: Guarded) -> None:
    lost = guarded.worker_node()
    (old,) = [pod["metadata"]["uid"] for pod in guarded.ray_pods("worker") if pod["spec"]["nodeName"] == lost]
    guarded.world.node_mode(lost, "unreachable")
    guarded.world.running.client.fail_node(instance_id(lost))

    def replaced() -> bool:
        workers = guarded.ray_pods("worker")
        return len(workers) == 2 and all(pod["spec"]["nodeName"] != lost for pod in workers)

    guarded.until(replaced, "a new worker on another node")
    assert guarded.freed(lost) == (True, True)
    left = [pod["metadata"]["uid"] for pod in guarded.world.get("/api/v1/namespaces/ray/pods")["items"]]
    assert old not in left
    guarded.world.node_mode(lost, "restore")
    guarded.until(lambda: guarded.freed(lost) == (False, False), "taint and mark are gone")
    assert guarded.answers(lost) == "True"
    assert sorted(set(guarded.reasons(lost)) - {"NodeGuardWaits"}) == ["NodeGuardFreed", "NodeGuardReturned"]
    for arguments in (
        ("kubectl", "describe", "node", lost),
        ("kubectl", "get", "events", "--field-selector", "involvedObject.kind=Node"),
    ):
        shown = guarded.run(*arguments)
        assert "NodeGuardFreed" in shown
        assert "NodeGuardReturned" in shown


def test_no_answer_of_hyperpod_changes_nothing(guarded: Guarded) -> None:
    lost = guarded.worker_node()
    guarded.world.node_mode(lost, "unreachable")
    guarded.until(lambda: guarded.answers(lost) == "Unknown", "it is silent")
    client = guarded.world.running.client
    client.set_fault(operation="sagemaker.ListClusterNodes", code="ThrottlingException", count=-1)
    try:
        client.fail_node(instance_id(lost))
        guarded.until(lambda: "NodeGuardCannotAsk" in guarded.reasons(lost), "the guard says that it cannot ask")
        guarded.until(lambda: not any(guarded.ready(node) for node in guarded.processes), "neither is ready")
        assert guarded.freed(lost) == (False, False)
    finally:
        client.clear_faults()
    guarded.until(lambda: guarded.freed(lost) == (True, True), "it asks again")
    guarded.until(lambda: any(guarded.ready(node) for node in guarded.processes), "ready again")


FREED = {"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}
BEYOND: dict[str, tuple[Json, str]] = {
    "the label that replaces it": ({"metadata": {"labels": {HEALTH_LABEL: REPLACE}}}, "labels"),
    "an annotation": ({"metadata": {"annotations": {"a": "b"}}}, "annotations"),
    "an annotation taken off": ({"metadata": {"annotations": {"rehearsal.local/state": None}}}, "annotations"),
    "a finalizer": ({"metadata": {"finalizers": ["example.com/x"]}}, "finalizers"),
    "a cordon": ({"spec": {"unschedulable": True}}, "taints alone"),
    "another taint": ({"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}, "alone"),
    "out of service although it answers": ({"spec": {"taints": [FREED]}}, "not ready"),
}
FORBIDDEN = [
    ("DELETE", "/api/v1/nodes/NODE"),
    ("GET", "/api/v1/nodes/NODE"),
    ("PATCH", "/api/v1/nodes/NODE/status"),
    ("GET", "/api/v1/namespaces/ray/pods"),
    ("GET", "/api/v1/namespaces/ray/secrets"),
    ("GET", f"/api/v1/namespaces/{GUARD}/configmaps"),
    ("POST", "/api/v1/namespaces/ray/events"),
    ("GET", "/api/v1/namespaces/default/events"),
]


def refusal(guarded: Guarded, method: str, path: str, body: Json | None = None) -> tuple[int, str]:
    """How the API answers the guard's token; (200, "") where it does what is asked."""
    world = guarded.world
    config = yaml.safe_load(Path(world.running.kubeconfig).read_text())
    config["users"][0]["user"]["token"] = guarded.token()
    own = guarded.folder / "kubeconfig"
    own.write_text(yaml.safe_dump(config))
    as_guard = World(running=replace(world.running, kubeconfig=str(own)), state=world.state, folder=world.folder)
    try:
        as_guard.request(method, path, body, content_type=MERGE if method == "PATCH" else "application/json")
    except urllib.error.HTTPError as error:
        return error.code, str(json.load(error)["message"])
    return 200, ""


def test_the_guards_token_can_do_nothing_else(guarded: Guarded) -> None:
    """RBAC knows verbs and kinds; the admission policy knows fields."""
    names = [str(node["metadata"]["name"]) for node in guarded.world.get("/api/v1/nodes")["items"]]
    node = next(name for name in names if guarded.answers(name) == "True")
    for method, path in FORBIDDEN:
        code, said = refusal(guarded, method, path.replace("NODE", node), None if method in ("GET", "DELETE") else {})
        assert (code, "forbidden" in said) == (403, True), f"{method} {path}: {code} {said}"
    before = guarded.node(node)
    for what, (patch, word) in BEYOND.items():
        code, said = refusal(guarded, "PATCH", f"/api/v1/nodes/{node}", patch)
        assert code == 422, f"{what}: {code} {said}"
        assert f"ValidatingAdmissionPolicy '{GUARD}' with binding '{GUARD}' denied request" in said
        assert word in said, f"{what}: {said}"
    after = guarded.node(node)
    assert (after["metadata"].get("labels"), after["spec"]) == (before["metadata"].get("labels"), before["spec"])
    # a person's taint, and one of another value on a node that is silent
    world = guarded.world
    world.request("PATCH", f"/api/v1/nodes/{node}", {"spec": {"taints": [FREED]}}, content_type=MERGE)
    code, said = refusal(guarded, "PATCH", f"/api/v1/nodes/{node}", {"spec": {"taints": []}})
    world.request("PATCH", f"/api/v1/nodes/{node}", {"spec": before["spec"]}, content_type=MERGE)
    assert (code, "where it put it" in said) == (422, True), said
    world.node_mode(node, "unreachable")
    guarded.until(lambda: guarded.answers(node) == "Unknown", "it is silent")
    taints = guarded.node(node)["spec"]["taints"]
    other = {"spec": {"taints": [*taints, {**FREED, "value": "other"}]}}
    code, said = refusal(guarded, "PATCH", f"/api/v1/nodes/{node}", other)
    world.node_mode(node, "restore")
    assert (code, "nodeshutdown" in said) == (422, True), said


def test_the_other_guard_frees_the_heads_node(guarded: Guarded) -> None:
    """The node takes its own guard along."""
    guarded.until(lambda: len(guarded.ray_pods("head")) == 1, "the head")
    (head,) = guarded.ray_pods("head")
    lost = str(head["spec"]["nodeName"])
    guarded.processes[lost].kill()
    guarded.world.node_mode(lost, "unreachable")
    guarded.world.running.client.fail_node(instance_id(lost))

    def moved() -> bool:
        return any(pod["spec"]["nodeName"] != lost for pod in guarded.ray_pods("head"))

    guarded.until(moved, "the head on the other node")
    assert guarded.freed(lost) == (True, True)
