"""What AWS, Kubernetes and Ray answer about one environment, in their own shapes: well, and after a fault.

Every answer is judged by what its service publishes: botocore's models, Kubernetes' and KubeRay's schemas. What Ray
answers has the keys that a real Ray answered, and a run's journal those that a real run wrote; `test_ops_training.py`
compares them with a Ray that runs.
"""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import parse_qs, urlsplit

import botocore.session
import jsonschema
import yaml
from botocore import xform_name
from botocore.validate import validate_parameters

from hyperpod_ray.core import names
from hyperpod_ray.core.loader import parse
from hyperpod_ray.ops.errors import ApiError
from hyperpod_ray.ops.observe import controllers, training
from hyperpod_ray.ops.observe.snapshot import Instance, Snapshot
from hyperpod_ray.ops.orchestrators import gather
from hyperpod_ray.ops.reach.clients import Target
from hyperpod_ray.ops.reach.jobs_api import Jobs
from hyperpod_ray.ops.status import with_failures
from hyperpod_ray_training.history import History
from tests.ops.snapshots import HEAD, NOW, ONE, SPARE_HEAD, THREE, TWO, ago
from tests.ops.snapshots import instance as some_instance
from tests.ops.world import ACCOUNT, ROOT, environment_text
from tests.support import kubernetes_schemas

Json = dict[str, Any]

CLUSTER = "ray-ops"
CLUSTER_ARN = f"arn:aws:sagemaker:us-west-2:{ACCOUNT}:cluster/abcdefghijkl"
FILE = parse(environment_text(), name="demo", path=Path("demo.yaml"))
FRESH = some_instance(9, launched=ago(60))
"""The instance that replaces a lost one."""
RAY_NODE = "4f1a0f3c0b6f5c8d2f0e7a9b1c3d5e7f90a1b2c3d4e5f60718293a4b"
JOB_KEYS = frozenset(
    {
        *("type", "job_id", "submission_id", "driver_info", "status", "entrypoint", "message", "error_type"),
        *("start_time", "end_time", "metadata", "runtime_env", "driver_agent_http_address", "driver_node_id"),
        "driver_exit_code",
    }
)
"""`JobDetails`, as Ray 2.60 lists it."""


def written(at: datetime) -> str:
    """A time as Kubernetes writes it."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def patch_at(at: datetime | float) -> Json:
    """`AutoPatchConfig` of a group, as DescribeCluster answers it."""
    return {"PatchingStrategy": "WhenIdle", "CurrentPatchSchedule": {"NextPatchDate": at}}


def milliseconds(at: datetime) -> int:
    """A time as Ray writes it."""
    return int(at.timestamp() * 1000)


class Answers:
    """A healthy environment without jobs. A fault changes the answers; `snapshot` is what `status` makes of them."""

    def __init__(self) -> None:
        self.cluster: Json = {
            "ClusterArn": CLUSTER_ARN, "ClusterName": CLUSTER, "ClusterStatus": "InService",
            "NodeRecovery": "Automatic", "CreationTime": ago(600),
            "InstanceGroups": [
                {"InstanceGroupName": "head", "InstanceType": HEAD.type, "TargetCount": 2, "CurrentCount": 2},
                {"InstanceGroupName": "workers", "InstanceType": ONE.type, "TargetCount": 3, "CurrentCount": 3},
            ],
        }  # fmt: skip
        self.instances: list[Json] = []
        self.nodes: list[Json] = []
        for of in (HEAD, SPARE_HEAD, ONE, TWO, THREE):
            self.join(of)
        self.events: list[Json] = []
        self.stacks: dict[str, Json] = {
            name: {"StackName": name, "StackStatus": "CREATE_COMPLETE", "CreationTime": ago(600)}
            for name in (names.stack_name("demo", stack) for stack in names.STACKS)
        }
        self.stack_events: list[Json] = []
        self.file_system: Json = {
            "FileSystemId": "fs-0123456789abcdef0", "Lifecycle": "AVAILABLE", "StorageCapacity": 1200,
            "Tags": [{"Key": names.ENVIRONMENT_TAG, "Value": "demo"}],
        }  # fmt: skip
        self.free_gib = 900.0
        self.plan: Json = {}
        self.hangs: list[Json] = []
        self.pods = [pod("ray-head", HEAD, "head"), pod("w1", ONE), pod("w2", TWO)]
        self.ray_cluster = ray_cluster()
        self.ray_jobs: list[Json] = []
        self.workloads = {item.name: workload(item) for item in controllers.expected(FILE.plan)}
        self.system_pods: dict[str, list[Json]] = {}
        self.jobs: list[Json] = []
        self.files: dict[str, str] = {}
        self.dashboard_fails = ""
        self.actors: list[Json] = []
        self.ray_nodes: list[Json] = []

    # --- changes ---------------------------------------------------------------------------------------------------

    def join(self, of: Instance) -> None:
        """An instance that runs, and its node."""
        self.instances.append(
            {
                "InstanceId": of.id, "InstanceGroupName": of.group, "InstanceType": of.type, "LaunchTime": of.launched,
                "InstanceStatus": {"Status": "Running", "Message": ""},
            }
        )  # fmt: skip
        self.nodes.append(node(of))

    def leave(self, of: Instance) -> None:
        """An instance that is gone, and its node."""
        self.instances = [instance for instance in self.instances if instance["InstanceId"] != of.id]
        self.nodes = [item for item in self.nodes if item["metadata"]["name"] != names.node_name(of.id)]

    def short(self, count: int = 1) -> None:
        """A group has fewer nodes than it asks for."""
        for of in (THREE, TWO)[:count]:
            self.leave(of)
        self.group(CurrentCount=3 - count)

    def late(self, minutes: float) -> None:
        """So long ago it happened, where nothing else has a time."""

    def unjoined(self, of: Instance, minutes: float) -> None:
        """An instance that runs since so long and is no node of the cluster."""
        self.nodes.remove(self.node(of))
        self.events[0]["EventTime"] = ago(minutes)

    def outlived(self, of: Instance, minutes: float) -> None:
        """A silent node whose instance HyperPod no longer has."""
        self.silent(of, minutes)
        self.instances.remove(self.instance(of))
        self.group(TargetCount=2, CurrentCount=2)

    def launched(self, of: Instance, minutes: float) -> None:
        """The instance was started so long ago."""
        self.instance(of)["LaunchTime"] = ago(minutes)

    def recovery_is_off(self) -> None:
        """`NodeRecovery: None`."""
        self.cluster["NodeRecovery"] = "None"

    def free(self, gib: float) -> None:
        """Free space of the file system."""
        self.free_gib = gib

    def training_plan(self, status: str, ends: timedelta) -> None:
        """A training plan of the workers."""
        arn = f"arn:aws:sagemaker:us-west-2:{ACCOUNT}:training-plan/block"
        self.group(TrainingPlanArn=arn)
        self.plan = {
            "TrainingPlanArn": arn, "TrainingPlanName": "block", "Status": status, "StartTime": ago(60),
            "EndTime": NOW + ends,
        }  # fmt: skip

    def patched(self, after: timedelta) -> None:
        """When HyperPod patches the workers' AMI."""
        self.group(AutoPatchConfig=patch_at(NOW + after))

    def hyperpod_says(self, of: Instance, status: str, message: str = "") -> None:
        """`InstanceStatus` of a node."""
        self.instance(of)["InstanceStatus"] = {"Status": status, "Message": message}

    def instance(self, of: Instance) -> Json:
        """An instance of ListClusterNodes."""
        (instance,) = [instance for instance in self.instances if instance["InstanceId"] == of.id]
        return instance

    def group(self, name: str = "workers", **changes: Any) -> None:
        """Change an instance group of DescribeCluster."""
        (found,) = [group for group in self.cluster["InstanceGroups"] if group["InstanceGroupName"] == name]
        found |= changes

    def node(self, of: Instance) -> Json:
        """The Node object of an instance."""
        (found,) = [item for item in self.nodes if item["metadata"]["name"] == names.node_name(of.id)]
        return found

    def silent(self, of: Instance, minutes: float) -> None:
        """The kubelet posts no status any more: the node controller's condition and taint."""
        found = self.node(of)
        (ready,) = found["status"]["conditions"]
        ready |= {"status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": written(ago(minutes))}
        found["spec"]["taints"] = [{"key": names.UNREACHABLE, "effect": "NoExecute"}]

    def health(self, of: Instance, status: str, *, fault: str = "") -> None:
        """The labels of HyperPod's health-monitoring agent."""
        labels = self.node(of)["metadata"]["labels"]
        labels[names.HEALTH_LABEL] = status
        if fault:
            labels[names.FAULT_TYPE_LABELS[0]] = fault

    def pod(self, name: str) -> Json:
        """A pod of Ray's."""
        (found,) = [item for item in self.pods if item["metadata"]["name"] == name]
        return found

    def ends(self, name: str, minutes: float) -> None:
        """A pod that was deleted so long ago, and is still there."""
        found = self.pod(name)
        found["metadata"] |= {"deletionTimestamp": written(ago(minutes)), "deletionGracePeriodSeconds": 30}
        unready(found, minutes)

    def waits(self, name: str, reason: str, message: str = "", *, minutes: float = 10, restarts: int = 0) -> None:
        """A pod whose container waits, in the kubelet's words."""
        found = self.pod(name)
        unready(found, minutes)
        found["metadata"]["creationTimestamp"] = written(ago(minutes))
        (container,) = found["status"]["containerStatuses"]
        container |= {"ready": False, "restartCount": restarts, "state": {"waiting": {"reason": reason}}}
        if message:
            container["state"]["waiting"]["message"] = message
        if restarts:
            container["lastState"] = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}

    def unscheduled(self, name: str, message: str, *, minutes: float = 10) -> None:
        """A pod without a node, in the scheduler's words."""
        found = self.pod(name)
        found["metadata"]["creationTimestamp"] = written(ago(minutes))
        found["spec"].pop("nodeName")
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        found["status"] = {"phase": "Pending", "conditions": [condition]}

    def controller(
        self, name: str, *, wanted: int | None = None, ready: int = 0, minutes: float = 20, why: str = "", on: str = ""
    ) -> None:
        """A Deployment or DaemonSet of which so many pods run."""
        found = self.workloads[name]
        spec, status = found["spec"], found["status"]
        daemon = found["kind"] == "DaemonSet"
        if wanted is not None and daemon:
            status["desiredNumberScheduled"] = wanted
        elif wanted is not None:
            spec["replicas"] = wanted
        whole = status["desiredNumberScheduled"] if daemon else spec["replicas"]
        status["numberReady" if daemon else "readyReplicas"] = ready
        if whole > ready:
            made = pod(f"{found['metadata']['name']}-x", ONE)
            made["metadata"] |= {"namespace": found["metadata"]["namespace"], "labels": spec["selector"]["matchLabels"]}
            made["spec"] |= {"nodeName": on} if on else {}
            unready(made, minutes)
            if why:
                made["status"]["containerStatuses"][0] |= {"ready": False, "state": {"waiting": {"reason": why}}}
            self.system_pods[name] = [made]

    def gone(self, name: str) -> None:
        """A Deployment or DaemonSet that was deleted."""
        del self.workloads[name]

    def stack(self, name: str, status: str, *, resource: tuple[str, str, str] | None = None) -> None:
        """A stack's state; and the resource that failed: logical ID, type, its own words."""
        stack = names.stack_name("demo", name)
        self.stacks[stack] |= {"StackStatus": status, "StackStatusReason": "The following resource(s) failed"}
        begun = {"LogicalResourceId": stack, "ResourceStatus": "UPDATE_IN_PROGRESS"}
        events = [begun]
        if resource:
            logical, kind, words = resource
            failed = {"LogicalResourceId": logical, "ResourceType": kind, "ResourceStatus": "CREATE_FAILED"}
            events.insert(0, {**failed, "ResourceStatusReason": words})
        self.stack_events = [
            {**item, "StackId": "arn:s", "StackName": stack, "EventId": str(number), "Timestamp": ago(9)}
            for number, item in enumerate(events)
        ]

    def heard(self, event: Json, *, minutes: float = 2) -> None:
        """What the services answer after an event that EventBridge has delivered."""
        detail = event["detail"]
        if "EventDetails" in detail:
            self.events.insert(0, {**detail["EventDetails"], "ClusterArn": CLUSTER_ARN, "EventTime": ago(minutes)})
        elif "HealthSummary" in detail:
            summary = detail["HealthSummary"]
            of = Instance(id=detail["InstanceId"], group="", type="", status="")
            label = {"Replace": names.REPLACE, "Reboot": names.REBOOT}.get(
                summary.get("RepairAction", ""), "Unschedulable"
            )
            healthy = summary["HealthStatus"] == "Healthy"
            self.health(of, "Schedulable" if healthy else label, fault="" if healthy else "NvidiaErrorTerminate")
        else:
            self.cluster |= {
                "ClusterStatus": detail["ClusterStatus"],
                "FailureMessage": detail.get("FailureMessage", ""),
            }

    def hang(self, minutes: float, *, job: str = "", text: str = "no line for 10 min") -> None:
        """An event of HyperPod's job monitoring agent in the cluster's log group."""
        said = {"event": names.HANG_DETECTED, "message": text, **({"job_id": job} if job else {})}
        stream = f"{names.HANG_STREAMS}workers/{ONE.id}"
        event = {"logStreamName": stream, "timestamp": milliseconds(ago(minutes)), "message": json.dumps(said)}
        self.hangs.append({**event, "eventId": str(len(self.hangs))})

    def ray_job(self, *, minutes: float = 60, suspend: bool = False, **status: Any) -> None:
        """A RayJob."""
        meta = {"name": "nightly", "namespace": "ray", "creationTimestamp": written(ago(minutes))}
        spec = {"entrypoint": "python train.py", "suspend": suspend}
        made = {"apiVersion": names.RAY_API_VERSION, "kind": "RayJob", "metadata": meta, "spec": spec}
        self.ray_jobs = [{**made, "status": {"rayClusterName": "nightly-x", **status}}]

    def job(self, number: int = 1, state: str = "RUNNING", *, minutes: float = 100, **more: Any) -> None:
        """A job of Ray's, newest first."""
        ended = more.pop("ended", None)
        self.jobs.insert(
            0,
            {
                "type": "SUBMISSION", "job_id": f"{number:02}000000", "submission_id": f"raysubmit_{number}",
                "driver_info": {"id": f"{number:02}000000", "node_ip_address": "10.0.0.7", "pid": "99"},
                "status": state, "entrypoint": "python train.py", "message": None, "error_type": None,
                "start_time": milliseconds(ago(minutes)), "end_time": milliseconds(ended) if ended else None,
                "metadata": {}, "runtime_env": {}, "driver_agent_http_address": "http://10.0.0.7:52365",
                "driver_node_id": RAY_NODE, "driver_exit_code": None, **more,
            },
        )  # fmt: skip

    def run(
        self, number: int = 1, name: str = "first", *, saves: tuple[float, ...] = (16, 12, 8, 4), **more: Any
    ) -> None:
        """The journal of a job's run: `last_step=` is a step, and `last_step_t=` seconds before now."""
        times = {
            "started_t": 5950.0,
            "begun_t": 5940.0,
            "state_t": 5880.0,
            "last_step_t": 1.0,
            "last_checkpoint_t": 240.0,
        }
        fields: Json = {
            "version": 1, "name": name, "state": "running", "t": 1.0, "last_step": 4000, "total_steps": 10_000,
            "step_s": 0.9, "best_step_s": 0.8, "pauses_s": [9.0, 6.0], "last_checkpoint_step": 3900,
            "last_checkpoint_path": "/fsx/runs/first/step-00003900-abc123", "world_size": 2, "attempt": "abc123",
            "metrics": {"loss": 2.5}, "last_error": None, "history": json.dumps(History().summary()), **times, **more,
        }  # fmt: skip
        at = NOW.timestamp()
        aged = ("t", *times)
        known = {key: at - value if key in aged else value for key, value in fields.items() if value is not None}
        lines = [json.dumps({"t": at - 60 * before, "kind": "save", "step": 1, "seconds": 1.0}) for before in saves]
        folder = f"{names.PUBLISHED_RUNS}raysubmit_{number}"
        self.files |= {f"{folder}/progress.json": json.dumps(known), f"{folder}/events.jsonl": "\n".join(lines)}

    def busy(self, number: int = 1, *, alive: int, pending: int, gpu_percent: int) -> None:
        """What Ray lists of a job's actors, and of the GPUs of the node that they are on."""
        states = ["ALIVE"] * alive + ["PENDING_CREATION"] * pending
        of = {"class_name": "RayTrainWorker", "job_id": f"{number:02}000000", "name": "", "pid": 7, "ray_namespace": ""}
        self.actors = [
            {**of, "actor_id": f"{index:032x}", "state": state, "node_id": RAY_NODE if state == "ALIVE" else None}
            for index, state in enumerate(states)
        ]
        gpu = {"index": 0, "name": "NVIDIA A10G", "uuid": "GPU-0", "memoryUsed": 1, "memoryTotal": 23028}
        idle = {"raylet": {"nodeId": "other"}, "gpus": [{**gpu, "utilizationGpu": 0}]}
        self.ray_nodes = [{"raylet": {"nodeId": RAY_NODE}, "gpus": [{**gpu, "utilizationGpu": gpu_percent}]}, idle]

    def trains(self, number: int = 1, **more: Any) -> None:
        """A job that runs and publishes its steps."""
        self.job(number)
        self.run(number, **more)

    def healed(self) -> Answers:
        """The environment when the fault is over: what was asked for runs again, and what happened is history.

        A lost instance was replaced, jobs were submitted again and train; events, hangs and ended jobs stay listed.
        """
        end = Answers()
        end.events = copy.deepcopy(self.events)
        end.hangs = copy.deepcopy(self.hangs)
        lost = {
            instance["InstanceId"] for instance in self.instances if instance["InstanceStatus"]["Status"] != "Running"
        }
        for of in (ONE, TWO, THREE):
            if of.id in lost:
                end.leave(of)
                end.join(FRESH)
                for item in end.pods:
                    if item["spec"]["nodeName"] == names.node_name(of.id):
                        item["spec"]["nodeName"] = names.node_name(FRESH.id)
        if self.jobs or self.hangs:
            end.jobs = [job for job in copy.deepcopy(self.jobs) if job["status"] == "FAILED"]
            end.job(9, minutes=1)
            end.run(9, started_t=55.0, begun_t=50.0, state_t=40.0)
        return end

    # --- as the services answer ------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """What `status` sees, by its own calls. Its moment is `NOW`."""
        target = Target(FILE)
        target.aws = Aws(self)  # type: ignore[assignment]
        target.__dict__["kubernetes"] = Kubernetes(self)
        with mock.patch.object(training, "training", self._training):
            seen = with_failures(target, gather.snapshot(target), limit=5)
        return replace(seen, at=NOW)

    def _training(self, _target: Target, *, namespace: str, cluster: str) -> Any:
        return training.read(Dashboard(self), namespace=namespace, cluster=cluster)


class Dashboard(Jobs):
    """Ray's dashboard: the Jobs API, the state API and the log API."""

    def __init__(self, answers: Answers) -> None:
        super().__init__("http://127.0.0.1:8265")
        self.answers = answers

    def call(self, method: str, path: str, **_: Any) -> tuple[int, bytes]:
        """Status and body; 500 for a file that is not there."""
        assert method == "GET"
        self.clock = NOW
        if self.answers.dashboard_fails:
            return 500, self.answers.dashboard_fails.encode()
        if path == "/api/jobs/":
            for job in self.answers.jobs:
                assert job.keys() == JOB_KEYS
            return 200, json.dumps(self.answers.jobs).encode()
        parts = urlsplit(path)
        if parts.path == "/api/v0/logs/file":
            name = parse_qs(parts.query)["filename"][0]
            text = self.answers.files.get(name)
            return (500, b"no such file") if text is None else (200, text.encode())
        if parts.path == "/api/v0/actors":
            driver = parse_qs(parts.query)["filter_values"][0]
            listed = [actor for actor in self.answers.actors if actor["job_id"] == driver]
            return 200, json.dumps({"result": True, "data": {"result": {"result": listed}}}).encode()
        assert path == "/nodes?view=summary", path
        return 200, json.dumps({"result": True, "data": {"summary": self.answers.ray_nodes}}).encode()


class Aws:
    """AWS: what is asked and what is answered must be of the shapes of botocore's models."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    def require_account(self) -> str:
        """The caller."""
        return ACCOUNT

    def pages(self, service: str, operation: str, key: str, *, limit: int = 0, **arguments: Any) -> list[Json]:
        """All items of a listing."""
        found: list[Json] = self.call(service, operation, **arguments)[key]
        return found[: limit or None]

    def call(self, service: str, operation: str, **arguments: Any) -> Json:
        """One call."""
        model = operation_model(service, operation)
        assert model.input_shape is not None
        assert model.output_shape is not None
        validate_parameters(arguments, model.input_shape)
        answer = self._eks() if service == "eks" else self._answer(operation, arguments)
        validate_parameters(answer, model.output_shape)
        return answer

    def _eks(self) -> Json:
        """The control plane, as the file has it."""
        plan = FILE.plan
        assert plan.new_eks is not None
        protected = plan.settings.protected
        return {"cluster": {"name": plan.eks_cluster_name, "version": plan.new_eks.version,
                            "deletionProtection": protected}}  # fmt: skip

    def _answer(self, operation: str, arguments: Json) -> Json:
        answers = self.answers
        if operation == "describe_stacks":
            names = [arguments["StackName"]] if "StackName" in arguments else list(answers.stacks)
            return {"Stacks": [answers.stacks[name] for name in names]}
        if operation == "describe_cluster_event":
            (found,) = [event for event in answers.events if event["EventId"] == arguments["EventId"]]
            return {"EventDetails": found}
        return {
            "describe_stack_events": {"StackEvents": answers.stack_events},
            "describe_cluster": answers.cluster,
            "list_cluster_nodes": {"ClusterNodeSummaries": answers.instances, "NextToken": ""},
            # the listing has no failure messages
            "list_cluster_events": {
                "Events": [
                    {key: item for key, item in event.items() if key != "EventDetails"} for event in answers.events
                ]
            },
            "describe_training_plan": answers.plan,
            "describe_file_systems": {"FileSystems": [answers.file_system]},
            "get_metric_data": {
                "MetricDataResults": [{"Id": "free0", "Timestamps": [ago(1)], "Values": [answers.free_gib * 1024.0**3]}]
            },
            "filter_log_events": {"events": answers.hangs},
        }[operation]


@functools.cache
def operation_model(service: str, operation: str) -> Any:
    """botocore's model of an operation in boto3's spelling."""
    model = session().get_service_model(service)
    (name,) = [name for name in model.operation_names if xform_name(name) == operation]
    return model.operation_model(name)


@functools.cache
def session() -> Any:
    """One session, so that each model is parsed once."""
    return botocore.session.get_session()


class Kubernetes:
    """The Kubernetes API: objects as it sends them, judged by its and KubeRay's schemas."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    def items(self, path: str, *, labels: str = "", fields: str = "") -> list[Json]:
        """Objects of a listing."""
        found = [item for item in self._all(path) if selected(item, labels)]
        for item in found:
            check(json.dumps(item, sort_keys=True))
        return found

    def request(self, method: str, path: str, **_: Any) -> Json:
        """No object is asked for by name here."""
        raise ApiError(status=404, reason=f"{method} {path}")

    def _all(self, path: str) -> Iterator[Json]:
        answers, kind = self.answers, path.rpartition("/")[2]
        if path == "/api/v1/nodes":
            yield from answers.nodes
        elif kind == "pods":
            yield from answers.pods if "/ray/" in path else ()
            for listed in answers.system_pods.values():
                yield from (item for item in listed if f"/{item['metadata']['namespace']}/" in path)
        elif kind in ("deployments", "daemonsets"):
            for item in answers.workloads.values():
                if f"{item['kind'].lower()}s" == kind and f"/{item['metadata']['namespace']}/" in path:
                    yield item
        elif kind == "rayclusters":
            yield answers.ray_cluster
        elif kind == "rayjobs":
            yield from answers.ray_jobs
        elif kind == "persistentvolumeclaims":
            yield CLAIM


def selected(item: Json, labels: str) -> bool:
    """Whether an object has the labels of a selector."""
    own = item["metadata"].get("labels") or {}
    for part in filter(None, labels.split(",")):
        key, equals, value = part.partition("=")
        if key not in own or (equals and own[key] != value):
            return False
    return True


@functools.cache
def check(text: str) -> None:
    """An object against its kind's schema, once for each content."""
    item = json.loads(text)
    if item["apiVersion"] == names.RAY_API_VERSION:
        validator = jsonschema.Draft202012Validator(ray_schema(item["kind"]))
        assert [error.message for error in validator.iter_errors(item)] == []
    else:
        kubernetes_schemas.validate(item)


@functools.cache
def ray_schema(kind: str) -> Json:
    """KubeRay's schema of a kind; what it does not know is refused at the first two levels."""
    path = ROOT / "hyperpod_ray_sandbox" / "charts" / "kuberay-operator" / "crds" / f"ray.io_{kind.lower()}s.yaml"
    crd = yaml.safe_load(path.read_text("utf-8"))
    (found,) = [
        version["schema"]["openAPIV3Schema"]
        for version in crd["spec"]["versions"]
        if version["name"] == names.RAY_API_VERSION.partition("/")[2]
    ]
    schema: Json = copy.deepcopy(found)
    for part in ("spec", "status"):
        schema["properties"][part]["additionalProperties"] = False
    return schema


# --- objects ---------------------------------------------------------------------------------------------------------


def node(of: Instance) -> Json:
    """A node that is ready and schedulable."""
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": written(ago(300))}
    labels = {names.INSTANCE_GROUP_LABEL: of.group, names.HEALTH_LABEL: "Schedulable"}
    meta = {"name": names.node_name(of.id), "labels": labels, "creationTimestamp": written(ago(300))}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {}, "status": {"conditions": [ready]}}


def pod(name: str, on: Instance, role: str = "worker") -> Json:
    """A pod of Ray's that runs."""
    container = {"name": f"ray-{role}", "image": "ray"}
    ran = {**container, "imageID": "sha256:0", "ready": True, "restartCount": 0}
    running = {"running": {"startedAt": written(ago(190))}}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": written(ago(190))}
    labels = {
        names.RAY_CLUSTER_LABEL: "ray", names.RAY_ROLE_LABEL: role,
        names.RAY_GROUP_LABEL: "gpu" if role == "worker" else "headgroup",
    }  # fmt: skip
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "ray", "labels": labels, "creationTimestamp": written(ago(200))},
        "spec": {
            "containers": [container], "nodeName": names.node_name(on.id),
            "nodeSelector": {names.INSTANCE_GROUP_LABEL: on.group},
        },
        "status": {"phase": "Running", "conditions": [ready], "containerStatuses": [{**ran, "state": running}]},
    }  # fmt: skip


def unready(item: Json, minutes: float) -> None:
    """A pod that has not been ready for so long."""
    (ready,) = [condition for condition in item["status"]["conditions"] if condition["type"] == "Ready"]
    ready |= {"status": "False", "lastTransitionTime": written(ago(minutes))}


def ray_cluster() -> Json:
    """A RayCluster with two workers, as KubeRay reports it."""
    template = {"spec": {"containers": [{"name": "ray", "image": "ray"}]}}
    ready = {
        "type": "RayClusterProvisioned", "status": "True", "reason": "AllPodRunningAndReadyFirstTime", "message": "",
        "lastTransitionTime": written(ago(200)),
    }  # fmt: skip
    group = {"groupName": "gpu", "replicas": 2, "minReplicas": 2, "maxReplicas": 2}
    return {
        "apiVersion": names.RAY_API_VERSION, "kind": "RayCluster",
        "metadata": {"name": "ray", "namespace": "ray", "creationTimestamp": written(ago(300))},
        "spec": {
            "headGroupSpec": {"rayStartParams": {}, "template": template},
            "workerGroupSpecs": [{**group, "rayStartParams": {}, "template": template}],
        },
        "status": {"state": "ready", "desiredWorkerReplicas": 2, "readyWorkerReplicas": 2, "conditions": [ready]},
    }  # fmt: skip


def workload(item: controllers.Expected) -> Json:
    """A Deployment or DaemonSet of which every pod runs."""
    release = names.DEPENDENCIES_CHART
    name = f"{release}-{item.stem}" if item.name.endswith("plugin") else item.stem
    labels = {"app.kubernetes.io/name": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "main"}]}}
    spec: Json = {"selector": {"matchLabels": labels}, "template": template}
    if item.kind == "Deployment":
        spec["replicas"] = 2
        status = {"replicas": 2, "readyReplicas": 2}
    else:
        count = 3 if item.serves else 5
        status = {
            "currentNumberScheduled": count, "desiredNumberScheduled": count, "numberMisscheduled": 0,
            "numberReady": count,
        }  # fmt: skip
    meta = {"name": name, "namespace": item.namespace, "creationTimestamp": written(ago(300))}
    return {"apiVersion": "apps/v1", "kind": item.kind, "metadata": meta, "spec": spec, "status": status}


CLAIM: Json = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": names.CLAIM, "namespace": "ray", "creationTimestamp": written(ago(300))},
    "spec": {"volumeName": "fsx"},
    "status": {"phase": "Bound"},
}
