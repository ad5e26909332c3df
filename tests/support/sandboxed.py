"""The faults of `faults.py`, played in a running sandbox: its own APIs answer, its rules mail, its controllers heal.

Each change has the name and arguments that it has in `answers.py`. What the table calls by a fixed name (a node, a pod)
is one of the sandbox's: `translated` writes its name into what the table expects.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from hyperpod_ray.core import names
from hyperpod_ray.ops.observe import controllers
from hyperpod_ray.ops.observe.snapshot import Instance
from hyperpod_ray_sandbox.aws import paths
from tests.ops.snapshots import HEAD, NOW, ONE, SPARE_HEAD, THREE, TWO
from tests.ops.world import World
from tests.support.answers import FILE, Answers, Dashboard, patch_at

Json = dict[str, Any]
KEPT = {"metadata": {"annotations": {"rehearsal.local/kept": "status"}}}
LET_GO = {"metadata": {"annotations": {"rehearsal.local/kept": None}}}
MERGE = "application/merge-patch+json"
PODS = "/api/v1/namespaces/ray/pods"
SLACK = timedelta(seconds=20)
"""The looker looks so long after the row began, so that what its play takes is the past."""


class Stage:
    """The sandbox of all rows: clients, the looker's clock, and the head's dashboard."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._clients: dict[str, Any] = {}
        self.at = datetime.now(UTC)
        self.answers = Answers()
        self.address = ""
        self.minutes_of_free_space = 25

    def client(self, service: str) -> Any:
        """A client, made once."""
        if service not in self._clients:
            self._clients[service] = self.world.client(service)
        return self._clients[service]

    def now(self) -> datetime:
        """The looker's time."""
        return self.at

    def hyperpod(self, **state: Any) -> None:
        """What HyperPod says from now on."""
        self.world.running.client.set_hyperpod("ray-ops", **state)

    def patch(self, path: str, body: Json) -> Json:
        """A merge patch to Kubernetes."""
        return self.world.request("PATCH", path, body, content_type=MERGE)

    def pods(self, labels: str = "ray.io/cluster") -> list[Json]:
        """Ray's pods that are not on their way out."""
        listed = self.world.get(f"{PODS}?labelSelector={labels}")["items"]
        return [pod for pod in listed if not pod["metadata"].get("deletionTimestamp")]

    def log(self, stream: str, message: str, *, at: datetime | None = None) -> Callable[[], object]:
        """Write a line into the cluster's log group; return what deletes its stream."""
        logs = self.client("logs")
        arn = str(self.client("sagemaker").describe_cluster(ClusterName="ray-ops")["ClusterArn"])
        group = names.cluster_log_group("ray-ops", arn)
        with contextlib.suppress(logs.exceptions.ResourceAlreadyExistsException):
            logs.create_log_group(logGroupName=group)
        with contextlib.suppress(logs.exceptions.ResourceAlreadyExistsException):
            logs.create_log_stream(logGroupName=group, logStreamName=stream)
        event = {"timestamp": int((at or datetime.now(UTC)).timestamp() * 1000), "message": message}
        logs.put_log_events(logGroupName=group, logStreamName=stream, logEvents=[event])
        return lambda: logs.delete_log_stream(logGroupName=group, logStreamName=stream)

    def settle(self) -> None:
        """Until every node and every pod of Ray's runs."""

        def whole() -> bool:
            nodes = self.world.get("/api/v1/nodes")["items"]
            there = {names.node_name(instance["InstanceId"]): instance for instance in self.world.instances()}
            return (
                len(nodes) == 5
                and {node["metadata"]["name"] for node in nodes} == there.keys()
                and all(item["InstanceStatus"]["Status"] == "Running" for item in there.values())
                and all(is_ready(node) and health(node) == "Schedulable" for node in nodes)
                and len(self.pods()) == 3
                and all(is_ready(pod) for pod in self.pods())
            )

        self.world.until(whole, "five nodes and three pods of Ray's")

    @contextlib.contextmanager
    def dashboard(self) -> Iterator[None]:
        """The head's port 8265 answers with the jobs of the row."""
        stage = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                code, body = stage.ask(self.path)
                self._answer(code, body)

            def do_POST(self) -> None:
                number = self.path.split("/")[3]
                for job in stage.answers.jobs:
                    if job["submission_id"] == number:
                        job |= {"status": "STOPPED", "end_time": job["start_time"] + 1}
                self._answer(200, b'{"stopped": true}')

            def _answer(self, code: int, body: bytes) -> None:
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def date_time_string(self, timestamp: float | None = None) -> str:
                return format_datetime(stage.at, usegmt=True)

            def log_message(self, format: str, *args: object) -> None:
                """Nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        bridge = {"namespace": "ray", "selector": "ray.io/node-type=head", "port": names.DASHBOARD_PORT}
        made = self.world.request(
            "POST", "/rehearsal/bridges", {**bridge, "to": f"127.0.0.1:{server.server_address[1]}"}
        )
        try:
            yield
        finally:
            self.world.request("DELETE", f"/rehearsal/bridges/{made['id']}")
            server.shutdown()
            server.server_close()

    def ask(self, path: str) -> tuple[int, bytes]:  # noqa: PLR0911  # one line per request
        """What the head answers; its times moved to the looker's."""
        moved = (self.at - NOW).total_seconds()
        one = re.fullmatch(r"/api/jobs/([^/]+?)(/logs)?", path)
        if path == "/api/version":
            return 200, b'{"version": "4", "ray_version": "2.60.0"}'
        code, body = Dashboard(self.answers).call("GET", "/api/jobs/" if one else path)
        if code != 200:
            return code, body
        if path.startswith("/api/jobs/"):
            jobs = json.loads(body)
            for job in jobs:
                for key in ("start_time", "end_time"):
                    job[key] = job[key] and job[key] + int(1000 * moved)
            if one is None:
                return 200, json.dumps(jobs).encode()
            found = [job for job in jobs if job["submission_id"] == one[1]]
            if not found:
                return 404, b"no such job"
            return 200, json.dumps({"logs": "a line\n"} if one[2] else found[0]).encode()
        if "progress.json" in path or "events.jsonl" in path:
            lines = [json.loads(line) for line in body.decode().splitlines()]
            for line in lines:
                for key, value in line.items():
                    if key == "t" or key.endswith("_t"):
                        line[key] = value + moved
            return 200, "\n".join(json.dumps(line) for line in lines).encode()
        return code, body


def is_ready(item: Json) -> bool:
    """Whether a node or pod is ready."""
    conditions = (item.get("status") or {}).get("conditions") or []
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def health(node: Json) -> str:
    """The label of HyperPod's health-monitoring agent."""
    return str(node["metadata"]["labels"].get(names.HEALTH_LABEL, ""))


class Sandboxed(Answers):
    """One row: every change happens to the sandbox, and `end` ends its cause."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.stage, self.world = stage, stage.world
        self.begun = datetime.now(UTC).replace(microsecond=0) + SLACK
        stage.at, stage.answers = self.begun, self
        self.undone: list[Callable[[], object]] = []
        self.names = self._names()

    def _names(self) -> dict[str, str]:
        """The sandbox's name of each name of the table."""
        pods = {pod["spec"]["nodeName"]: pod for pod in self.stage.pods()}
        groups: dict[str, list[str]] = {"head": [], "workers": []}
        for node in self.world.get("/api/v1/nodes")["items"]:
            groups[node["metadata"]["labels"][names.INSTANCE_GROUP_LABEL]].append(node["metadata"]["name"])
        found: dict[str, str] = {}
        for group, ofs in (("head", (HEAD, SPARE_HEAD)), ("workers", (ONE, TWO, THREE))):
            named = sorted(groups[group], key=lambda name: (name not in pods or not pods[name], name))
            carrying = [name for name in named if name in pods]
            others = [name for name in named if name not in pods]
            for of, name in zip(ofs, [*carrying, *others], strict=True):
                found[of.id] = names.instance_id(name)
        for short, of in (("ray-head", HEAD), ("w1", ONE), ("w2", TWO)):
            found[short] = str(pods[names.node_name(found[of.id])]["metadata"]["name"])
        found["fs-0123456789abcdef0"] = str(self.world.made["file_system"])
        found["hyperpod-dependencies-nvidia-device-plugin"] = "nvidia-device-plugin"
        cluster = self.stage.client("sagemaker").describe_cluster(ClusterName="ray-ops")
        self.arn = str(cluster["ClusterArn"])
        return found

    def translated(self, text: str) -> str:
        """A text of the table with the sandbox's names."""
        for known, own in self.names.items():
            text = re.sub(rf"(?<![\w-])(hyperpod-)?{re.escape(known)}(?![\w-])", rf"\g<1>{own}", text)
        return text

    def own(self, of: Instance) -> str:
        """The sandbox's instance."""
        return self.names[of.id]

    def node_path(self, of: Instance) -> str:
        """Its Node."""
        return f"/api/v1/nodes/{names.node_name(self.own(of))}"

    def finally_(self, act: Callable[[], object]) -> None:
        """What ends the cause."""
        self.undone.append(act)

    def end(self) -> None:
        """End the cause of the fault, in the reverse order of its play."""
        failed: list[Exception] = []
        changed = bool(self.undone)
        while self.undone:
            try:
                self.undone.pop()()
            except Exception as error:  # the other causes end too
                failed.append(error)
        self.dashboard_fails = ""
        if self.jobs or self.hangs:
            end = self.healed()
            self.jobs, self.files = end.jobs, end.files
        if changed:
            self.stage.settle()
        if failed:
            raise failed[0]

    def later(self, minutes: float) -> None:
        """The looker looks so much later."""
        self.stage.at = max(self.stage.at, self.begun + timedelta(minutes=minutes))

    # --- HyperPod --------------------------------------------------------------------------------------------------

    def heard(self, event: Json, *, minutes: float = 2) -> None:
        """The sandbox publishes the event as this cluster's, and is in the state that it says."""
        text = json.dumps(event)
        for documented in re.findall(r"arn:aws:sagemaker:[\w-]+:\d+:cluster/[\w-]+", text):
            text = text.replace(documented, self.arn)
        said: Json = json.loads(self.translated(text))
        detail, state = said["detail"], {}
        if "EventDetails" in detail:
            detail["EventDetails"] |= {"EventId": str(uuid.uuid4()), "EventTime": int(time.time() * 1000)}
        elif "HealthSummary" in detail:
            self._agent_says(detail["InstanceId"], detail["HealthSummary"])
        else:
            state["fields"] = {key: detail[key] for key in ("ClusterStatus", "FailureMessage")}
            if detail["ClusterStatus"] == "Creating":
                before = self.stage.client("sagemaker").describe_cluster(ClusterName="ray-ops")["CreationTime"]
                state["fields"]["CreationTime"] = before.timestamp() - 36_000
                self.finally_(lambda: self.stage.hyperpod(fields={"CreationTime": before.timestamp()}))
            self.finally_(lambda: self._in_service(detail["ClusterStatus"]))
        self.stage.hyperpod(event=said, **state)

    def _in_service(self, status: str) -> None:
        if status == "Failed":  # what a deploy sends
            self.stage.client("sagemaker").update_cluster(ClusterName="ray-ops", NodeRecovery="Automatic")
            self.world.until(lambda: self.world.status() == "InService", "the end of the update")
        self.stage.hyperpod(fields={"ClusterStatus": "InService", "FailureMessage": ""})

    def _agent_says(self, node: str, summary: Json) -> None:
        """The labels of HyperPod's agent; the service's answer to them comes with `end`."""
        repair = summary.get("RepairAction", "")
        label = {"Replace": names.REPLACE, "Reboot": names.REBOOT}.get(repair, "Unschedulable")
        if summary["HealthStatus"] == "Healthy":
            return
        batch = f"Batch{repair}ClusterNodes"
        if label != "Unschedulable":
            self.world.running.client.set_fault(operation=f"sagemaker.{batch}", code="ThrottlingException", count=-1)
        path = f"/api/v1/nodes/{names.node_name(node)}"
        self.stage.patch(path, {"metadata": {"labels": {names.HEALTH_LABEL: label}}})

        def repaired() -> None:
            self.world.running.client.clear_faults()
            if label == names.REPLACE:
                self._replaced(node)
            elif self._there(node):
                self.stage.patch(path, {"metadata": {"labels": {names.HEALTH_LABEL: "Schedulable"}}})

        self.finally_(repaired)

    def _there(self, node: str) -> bool:
        return any(instance["InstanceId"] == node for instance in self.world.instances())

    def _replaced(self, node: str) -> None:
        """The service replaces a node."""
        if self._there(node):
            self.stage.client("sagemaker").batch_replace_cluster_nodes(ClusterName="ray-ops", NodeIds=[node])
            self.world.until(lambda: not self._there(node), "the end of the replaced node")

    def hyperpod_says(self, of: Instance, status: str, message: str = "") -> None:
        """`InstanceStatus` of a node."""
        node = self.own(of)
        self.stage.hyperpod(nodes={node: {"status": status, "message": message}})

        def over() -> None:
            if status == "Failure" and of.group == "workers":
                self._replaced(node)
            elif self._there(node):
                self.stage.hyperpod(nodes={node: {"status": "Running"}})

        self.finally_(over)
        self._follows(node, status)

    def _follows(self, node: str, status: str) -> None:
        """Until Kubernetes has heard of it."""
        path = f"/api/v1/nodes/{names.node_name(node)}"

        def heard() -> bool:
            found = self.world.get(path)
            return "metadata" not in found if status == "Pending" else health(found) != "Schedulable"

        self.world.until(heard, f"the node of an instance that is {status}")

    def group(self, name: str = "workers", **changes: Any) -> None:
        """Change an instance group of DescribeCluster."""
        super().group(name, **changes)
        self.stage.hyperpod(groups={name: changes})
        self.finally_(lambda: self.stage.hyperpod(groups={name: dict.fromkeys(changes)}))

    def training_plan(self, status: str, ends: timedelta) -> None:
        """A training plan of the workers."""
        super().training_plan(status, ends)
        times = {"StartTime": self.begun.timestamp() - 3600, "EndTime": (self.begun + ends).timestamp()}
        self.stage.hyperpod(plans={"block": {**self.plan, **times}})

    def patched(self, after: timedelta) -> None:
        """When HyperPod patches the workers' AMI."""
        self.group(AutoPatchConfig=patch_at((self.begun + after).timestamp()))

    def recovery_is_off(self) -> None:
        """`NodeRecovery: None`."""
        self.stage.hyperpod(fields={"NodeRecovery": "None"})
        self.finally_(lambda: self.stage.hyperpod(fields={"NodeRecovery": "Automatic"}))

    def short(self, count: int = 1) -> None:
        """A group has fewer nodes than it asks for, and no other comes yet."""
        lost = [self.own(of) for of in (THREE, TWO)[:count]]
        self.stage.hyperpod(still=["workers"], lose=lost)
        self.finally_(lambda: self.stage.hyperpod(still=[]))
        nodes = {names.node_name(node) for node in lost}

        def listed() -> set[str]:
            return {str(item["metadata"]["name"]) for item in self.world.get("/api/v1/nodes")["items"]}

        self.world.until(lambda: not nodes & listed(), "the nodes' end")

    def late(self, minutes: float) -> None:
        """So long ago it happened."""
        self.later(minutes)

    def unjoined(self, of: Instance, minutes: float) -> None:
        """An instance that runs since so long and is no node of the cluster."""
        node = names.node_name(self.own(of))
        self.world.node_mode(node, "absent")
        self.finally_(lambda: self.world.node_mode(node, "restore"))
        self.later(minutes)

    def outlived(self, of: Instance, minutes: float) -> None:
        """A silent node whose instance HyperPod no longer has."""
        node = self.own(of)
        self.silent(of, minutes)
        self.undone.pop()
        self.stage.hyperpod(forget=[node])

        def over() -> None:
            if "metadata" in self.world.get(f"/api/v1/nodes/{names.node_name(node)}"):
                self.world.node_mode(names.node_name(node), "gone")
            more = [{"InstanceGroupName": "workers", "IncrementTargetCountBy": 1}]
            self.stage.client("sagemaker").batch_add_cluster_nodes(ClusterName="ray-ops", NodesToAdd=more)

        self.finally_(over)

    def launched(self, of: Instance, minutes: float) -> None:
        """The instance was started so long ago."""
        at = self.begun.timestamp() - 60 * minutes
        self.stage.hyperpod(nodes={self.own(of): {"status": "Pending", "launched": at}})

    # --- Kubernetes ------------------------------------------------------------------------------------------------

    def silent(self, of: Instance, minutes: float) -> None:
        """The kubelet posts no status any more. Ray's pod on it keeps the status that it had."""
        name, path = names.node_name(self.own(of)), self.node_path(of)
        for short, on in (("ray-head", HEAD), ("w1", ONE), ("w2", TWO)):
            if on is of:
                self._keep(self.names[short])
        self.world.node_mode(name, "unreachable")
        self.world.until(lambda: not is_ready(self.world.get(path)), "the node's silence")
        self.later(minutes)

        def back() -> None:
            if "metadata" not in self.world.get(path):
                return
            self.world.node_mode(name, "restore")
            self.world.until(lambda: is_ready(self.world.get(path)), "the node's return")
            taints = self.world.get(path)["spec"].get("taints") or []
            kept = [taint for taint in taints if taint["key"] != names.OUT_OF_SERVICE]
            self.stage.patch(path, {"spec": {"taints": kept}})

        self.finally_(back)

    def _keep(self, pod: str, status: Json | None = None, *, namespace: str = "ray") -> None:
        """A pod keeps its status, or the one given, whatever its kubelet would say."""
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}"
        self.stage.patch(path, KEPT)
        if status:
            self.stage.patch(f"{path}/status", {"status": status})

        def let_go() -> None:
            found = self.world.get(path)
            if "metadata" in found:
                self.stage.patch(path, LET_GO)
                if status and not found["metadata"].get("deletionTimestamp"):
                    self.world.request("DELETE", path)

        self.finally_(let_go)

    def ends(self, name: str, minutes: float) -> None:
        """A pod that was deleted so long ago, and is still there."""
        pod = self.names[name]
        self._keep(pod)
        self.world.request("DELETE", f"{PODS}/{pod}")
        self.later(minutes)

    def waits(self, name: str, reason: str, message: str = "", *, minutes: float = 10, restarts: int = 0) -> None:
        """A pod whose container waits, in the kubelet's words."""
        found = self.world.get(f"{PODS}/{self.names[name]}")
        super().waits(name, reason, message, minutes=minutes, restarts=restarts)
        (container,) = self.pod(name)["status"]["containerStatuses"]
        own = found["spec"]["containers"][0]
        status = {**container, "name": own["name"], "image": own["image"]}
        self._keep(self.names[name], {"containerStatuses": [status], "conditions": unready(found)})
        self.later(minutes)

    def unscheduled(self, name: str, message: str, *, minutes: float = 10) -> None:
        """A pod without a node: a stranger has the GPUs. The scheduler's words are the sandbox's."""
        taken = [names.node_name(self.own(of)) for of in (TWO, THREE) if self._there(self.own(of))]
        before = {pod["metadata"]["name"] for pod in self.stage.pods()}
        for node in taken:
            self._stranger(node)
        self.world.request("DELETE", f"{PODS}/{self.names[name]}")

        def fresh() -> list[Json]:
            return [pod for pod in self.stage.pods() if pod["metadata"]["name"] not in before]

        def waits() -> bool:
            return any(condition["reason"] == "Unschedulable" for pod in fresh() for condition in conditions(pod))

        self.world.until(waits, "a pod that the scheduler refuses")
        (found,) = fresh()
        self.names[name] = str(found["metadata"]["name"])
        (said,) = [
            condition["message"] for condition in conditions(found) if condition.get("reason") == "Unschedulable"
        ]
        self.said = said
        self.later(minutes)

    def _stranger(self, node: str) -> None:
        name, gpu = f"stranger-{node[-5:]}", {names.GPU_RESOURCE: "1"}
        container = {"name": "main", "image": "main", "resources": {"limits": gpu, "requests": gpu}}
        path = "/api/v1/namespaces/default/pods"
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}
        self.world.request("POST", path, {**pod, "spec": {"nodeName": node, "containers": [container]}})
        self.finally_(lambda: self._without(f"{path}/{name}"))

    def _without(self, path: str) -> None:
        if "metadata" in self.world.get(path):
            self.world.request("DELETE", path)

    def controller(
        self, name: str, *, wanted: int | None = None, ready: int = 0, minutes: float = 20, why: str = "", on: str = ""
    ) -> None:
        """A Deployment or DaemonSet of which so many pods run."""
        if on and not is_ready(self.world.get(f"/api/v1/nodes/{self.translated(on)}")):
            return  # its node's silence has done it
        path, found = self._whole(name)
        daemon = found["kind"] == "DaemonSet"
        if daemon or wanted != 0:
            self.later(minutes)
        if wanted == 0:
            none = {"template": {"spec": {"nodeSelector": {"nowhere": "true"}}}} if daemon else {"replicas": 0}
            self.stage.patch(path, {"spec": none})
            was = {"template": {"spec": {"nodeSelector": {"nowhere": None}}}} if daemon else {"replicas": 2}
            self.finally_(lambda: self.stage.patch(path, {"spec": was}))
            count = "desiredNumberScheduled" if daemon else "replicas"
            self.world.until(lambda: not self.world.get(path)["status"].get(count), f"no pod of the {name}")
            return
        labels = ",".join(f"{key}={value}" for key, value in found["spec"]["selector"]["matchLabels"].items())
        namespace = found["metadata"]["namespace"]
        pods = self.world.get(f"/api/v1/namespaces/{namespace}/pods?labelSelector={labels}")["items"]
        if on:
            pods = [pod for pod in pods if pod["spec"]["nodeName"] == self.translated(on)]
        elif not daemon:
            pods = pods[ready:]
        for pod in pods:
            own = pod["status"]["containerStatuses"][0]
            waiting = {"ready": False, "state": {"waiting": {"reason": why}}} if why else {"ready": False}
            status = {"containerStatuses": [{**own, **waiting}], "conditions": unready(pod)}
            self._keep(pod["metadata"]["name"], status, namespace=namespace)
        count = "numberReady" if daemon else "readyReplicas"
        whole = found["status"].get("desiredNumberScheduled") or found["spec"].get("replicas")

        def seen() -> int:
            return int(self.world.get(path)["status"].get(count, 0))

        self.world.until(lambda: seen() == whole - len(pods), f"fewer pods of the {name}")
        self.finally_(lambda: self.world.until(lambda: seen() == whole, f"all pods of the {name}"))
        self.undone.insert(0, self.undone.pop())

    def _workload(self, name: str) -> tuple[str, Json]:
        (item,) = [item for item in controllers.expected(FILE.plan) if item.name == name]
        listing = f"/apis/apps/v1/namespaces/{item.namespace}/{controllers.PATHS[item.kind]}"
        found = next(one for one in self.world.get(listing)["items"] if one["metadata"]["name"].endswith(item.stem))
        return f"{listing}/{found['metadata']['name']}", {**found, "kind": item.kind}

    def _whole(self, name: str) -> tuple[str, Json]:
        """A workload of which every pod runs."""

        def whole() -> bool:
            _, found = self._workload(name)
            if found["kind"] == "DaemonSet":
                return bool(found["status"].get("numberReady") == found["status"].get("desiredNumberScheduled"))
            return bool(found["status"].get("readyReplicas") == found["spec"]["replicas"])

        self.world.until(whole, f"all pods of the {name}")
        return self._workload(name)

    def gone(self, name: str) -> None:
        """A Deployment or DaemonSet that was deleted."""
        path, found = self._whole(name)
        self.world.request("DELETE", path)
        self.world.until(lambda: "metadata" not in self.world.get(path), f"the {name}'s end")
        kept = {key: found["metadata"][key] for key in ("name", "namespace", "labels") if key in found["metadata"]}
        again = {"apiVersion": "apps/v1", "kind": found["kind"], "metadata": kept, "spec": found["spec"]}

        def back() -> None:
            if "metadata" not in self.world.get(path):
                self.world.request("POST", path.rpartition("/")[0], again)
            count = "numberReady" if found["kind"] == "DaemonSet" else "readyReplicas"
            if found["kind"] == "Deployment":
                self.stage.patch(path, {"spec": {"replicas": found["spec"]["replicas"]}})
            whole = found["status"][count]
            self.world.until(lambda: self.world.get(path).get("status", {}).get(count) == whole, f"the {name}")

        self.finally_(back)

    def ray_job(self, *, minutes: float = 60, suspend: bool = False, **status: Any) -> None:
        """A RayJob, in the operator's words; its cluster is not there."""
        path = f"/apis/{names.RAY_API_VERSION}/namespaces/ray/rayjobs"
        cluster = self.world.get(f"/apis/{names.RAY_API_VERSION}/namespaces/ray/rayclusters/ray")["spec"]
        own: Json = {"rayClusterSpec": cluster} if suspend else {"clusterSelector": {names.RAY_CLUSTER_LABEL: "absent"}}
        spec = {"entrypoint": "python train.py", **({"suspend": True} if suspend else {}), **own}
        body = {"apiVersion": names.RAY_API_VERSION, "kind": "RayJob", "metadata": {"name": "nightly"}, "spec": spec}
        self.world.request("POST", path, body)
        self.finally_(lambda: self._gone_for_good(f"{path}/nightly"))
        self.stage.patch(f"{path}/nightly/status", {"status": status})
        self.later(minutes)

    def _gone_for_good(self, path: str) -> None:
        self._without(path)
        self.world.until(lambda: "metadata" not in self.world.get(path), f"the end of {path}")

    # --- stacks ----------------------------------------------------------------------------------------------------

    def stack(self, name: str, status: str, *, resource: tuple[str, str, str] | None = None) -> None:
        """A stack that CloudFormation brings into a state, by a resource that fails or takes its time."""
        stack, control = names.stack_name("demo", name), self.world.running.client
        logical, kind, words = resource or ("Marker", "", "no such thing")
        self.names[kind or "-"] = "AWS::SSM::Parameter"
        self.names[words] = f'Resource handler returned message: "{words}" (Service error: Failed)'
        updates = status.startswith("UPDATE")
        fault = {"delay_seconds": 600.0} if status.endswith("IN_PROGRESS") else {"code": "Failed", "message": words}
        if not updates:
            self._delete(stack)
        control.set_fault(operation=f"AWS::SSM::Parameter.{'update' if updates else 'create'}", **fault)
        self._make(stack, logical, "y", update=updates)
        self._is(stack, status)

        def repaired() -> None:
            control.clear_faults()
            if status.endswith("IN_PROGRESS"):
                self._is(stack, "CREATE_COMPLETE")
                return
            if not updates:
                self._delete(stack)
            self._make(stack, "Marker", "z", update=updates)
            self._is(stack, "UPDATE_COMPLETE" if updates else "CREATE_COMPLETE")

        self.finally_(repaired)

    def _make(self, stack: str, logical: str, value: str, *, update: bool) -> None:
        body = {
            "Resources": {logical: {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": value}}}
        }
        cloudformation = self.stage.client("cloudformation")
        (cloudformation.update_stack if update else cloudformation.create_stack)(
            StackName=stack, TemplateBody=json.dumps(body)
        )

    def _delete(self, stack: str) -> None:
        cloudformation = self.stage.client("cloudformation")
        cloudformation.delete_stack(StackName=stack)

        def gone() -> bool:
            try:
                found = cloudformation.describe_stacks(StackName=stack)["Stacks"]
            except cloudformation.exceptions.ClientError:
                return True
            return bool(found[0]["StackStatus"] == "DELETE_COMPLETE")

        self.world.until(gone, f"the end of {stack}")

    def _is(self, stack: str, status: str) -> None:
        describe = self.stage.client("cloudformation").describe_stacks
        self.world.until(lambda: describe(StackName=stack)["Stacks"][0]["StackStatus"] == status, f"{stack} {status}")

    # --- storage and logs ------------------------------------------------------------------------------------------

    def free(self, gib: float) -> None:
        """FSx publishes its free space."""
        self._publish(gib)
        self.finally_(lambda: self._publish(900.0))

    def _publish(self, gib: float) -> None:
        """A minute later each time: the newest minute counts."""
        self.stage.minutes_of_free_space -= 1
        at = datetime.now(UTC).replace(second=30) - timedelta(minutes=self.stage.minutes_of_free_space)
        dimensions = [{"Name": "FileSystemId", "Value": self.world.made["file_system"]}]
        datum = {"MetricName": "FreeDataStorageCapacity", "Dimensions": dimensions, "Timestamp": at}
        self.stage.client("cloudwatch").put_metric_data(
            Namespace="AWS/FSx", MetricData=[{**datum, "Value": gib * 1024.0**3}]
        )

    def hang(self, minutes: float, *, job: str = "", text: str = "no line for 10 min") -> None:
        """An event of HyperPod's job monitoring agent in the cluster's log group."""
        super().hang(minutes, job=job, text=text)
        stream = f"{names.HANG_STREAMS}workers/{self.own(ONE)}"
        at = self.begun - timedelta(minutes=minutes)
        self.finally_(self.stage.log(stream, self.hangs[-1]["message"], at=at))


def conditions(item: Json) -> list[Json]:
    """What a pod's status says."""
    return [{"reason": "", **condition} for condition in (item.get("status") or {}).get("conditions") or []]


def unready(item: Json) -> list[Json]:
    """The conditions of a pod that is not ready from now on."""
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    no = {"status": "False", "reason": "ContainersNotReady", "lastTransitionTime": at}
    return [
        {**condition, **no} if condition["type"] in ("Ready", "ContainersReady") else condition
        for condition in conditions(item)
    ]


def shell(world: World, command: str) -> str:
    """Run a command line of kubectl and helm; what it prints."""
    tools = ":".join(str(paths.KUBECTL_LAYER / tool) for tool in ("kubectl", "helm"))
    environ = {**world.environ(), "KUBECONFIG": world.running.kubeconfig}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], env={**environ, "PATH": f"{tools}:{environ['PATH']}"},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout
