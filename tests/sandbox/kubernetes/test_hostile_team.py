"""Two teams on one cluster: a member of one tries to reach the other and to take more than the quota.

The API server decides by the rendered roles, pod security labels and admission policies. Kueue's stand-in admits jobs
into queues of the service's shape, which Kueue's own definitions judge, and the operator's stand-in makes their pods.
Who is hostile has every right of a member of team `speech`, and the operator's hands by what they write into a RayJob.
The friendly team `vision` trains meanwhile.
"""

from __future__ import annotations

import copy
import http.client
import json
import ssl
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from hyperpod_ray import k8s
from hyperpod_ray.core import load, names
from hyperpod_ray.core.job import Job
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.core.team_files import uid
from hyperpod_ray.ops.jobs import job_object
from hyperpod_ray_sandbox.kubernetes.controllers import governance, raypods
from hyperpod_ray_sandbox.kubernetes.kueue import digests
from tests.k8s.conftest import BINDINGS
from tests.sandbox.kubernetes.test_controllers import OPERATOR
from tests.sandbox.kubernetes.test_team_policies import crd

pytestmark = [pytest.mark.emulator, pytest.mark.slow]

Json = dict[str, Any]
FRIENDLY, HOSTILE, STANDING = "hyperpod-ns-vision", "hyperpod-ns-speech", "ray"
TYPE, GROUP = "node.kubernetes.io/instance-type", "sagemaker.amazonaws.com/instance-group-name"
MEMBERS = {space: {"Impersonate-User": f"{space}-member", "Impersonate-Group": f"ray-users:{space}"}
           for space in (FRIENDLY, HOSTILE)}  # fmt: skip
CONTROLLER = {
    "Impersonate-User": "system:serviceaccount:kuberay-operator:kuberay-operator",
    "Impersonate-Group": "system:masters,system:serviceaccounts:kuberay-operator",
}
ADMINISTRATOR: dict[str, str] = {}
PATCHES = {"PATCH": "application/merge-patch+json"}


@dataclass
class World:
    """The server, and a request to it as somebody."""

    cluster: Any
    live: Json
    plan: Any

    def ask(self, who: dict[str, str], method: str, path: str, body: Any = None, *, sort: str = "") -> tuple[int, Any]:
        url = urllib.parse.urlsplit(self.cluster.server["url"])
        context = ssl.create_default_context(cafile=self.cluster.server["ca_file"])
        connection = http.client.HTTPSConnection(url.netloc, context=context, timeout=600)
        text = json.dumps(body).encode() if body is not None else b""
        connection.putrequest(method, path)
        connection.putheader("Authorization", f"Bearer {self.cluster.server['token']}")
        connection.putheader("Content-Type", sort or PATCHES.get(method, "application/json"))
        connection.putheader("Content-Length", str(len(text)))
        for key, values in who.items():
            for value in values.split(","):
                connection.putheader(key, value)
        connection.endheaders(text)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        try:
            return answer.status, json.loads(content or b"null")
        except ValueError:
            return answer.status, {"message": content.decode(errors="replace")}

    def job(self, team: str, name: str, **fields: Any) -> Json:
        """What `submit --team` makes."""
        job = Job(**{"command": "python main.py", "team": team, "workers": 1, **fields})
        return job_object.ray_job(self.plan, copy.deepcopy(self.live), job, name=name, code=f"{name}-code")


def jobs(space: str, name: str = "") -> str:
    return f"/apis/ray.io/v1/namespaces/{space}/rayjobs{'/' if name else ''}{name}"


def core_path(space: str, kind: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{space}/{kind}{'/' if name else ''}{name}"


def node(name: str, group: str, kind: str, gpus: int) -> Json:
    devices = {"nvidia.com/gpu": str(gpus), "vpc.amazonaws.com/efa": "1"} if gpus else {}
    room = {"cpu": "32", "memory": "160Gi", "pods": "29", **devices}
    labels = {GROUP: group, TYPE: kind, "kubernetes.io/hostname": name}
    labels["sagemaker.amazonaws.com/node-health-status"] = "Schedulable"
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
            "status": {"allocatable": room, "capacity": room}}  # fmt: skip


def quotas(plan: Any) -> list[Json]:
    """The teams' quotas, as the service has them."""
    return [
        {
            "ComputeQuotaTarget": {"TeamName": team.name, "FairShareWeight": team.fair_share_weight},
            "ComputeQuotaConfig": {
                "ComputeQuotaResources": [
                    {"InstanceType": entry.type, "Count": entry.instances} for entry in team.quota
                ],
                "ResourceSharingConfig": {"Strategy": "LendAndBorrow", "BorrowLimit": team.borrow_limit_percent},
            },
        }
        for team in plan.settings.teams
    ]


def queue_objects(plan: Any) -> list[Json]:
    """Queues, flavors and priorities as task governance makes them, but for the namespaces."""
    classes = [
        {"Name": class_.name, "Weight": class_.weight} for class_ in plan.settings.task_governance.priority_classes
    ]
    policies = [{"SchedulerConfig": {"PriorityClasses": classes}}]
    rows = governance.objects(quotas(plan), policies)
    return [governance.manifest(*row) for row in rows if row[0] != "Namespace"]


def conditions(world: World, space: str, job: str) -> dict[str, Json]:
    """What Kueue says of a job, by the condition's type."""
    uid = world.cluster.get("-n", space, "rayjob", job)["metadata"]["uid"]
    for workload in world.cluster.get("-n", space, "workloads.kueue.x-k8s.io")["items"]:
        if workload["metadata"]["ownerReferences"][0]["uid"] == uid:
            return {
                condition["type"]: condition for condition in (workload.get("status") or {}).get("conditions") or []
            }
    return {}


def admitted(world: World, space: str, job: str) -> bool:
    return (conditions(world, space, job).get("Admitted") or {}).get("status") == "True"


def gpus(world: World, space: str) -> str:
    """GPUs that a team has by its queue's own count."""
    queue = world.cluster.get("clusterqueue", f"{space}-clusterqueue")
    (row,) = [row for row in queue["status"]["flavorsUsage"] if row["name"] == "ml.g5.8xlarge"]
    (amount,) = [amount for amount in row["resources"] if amount["name"] == "nvidia.com/gpu"]
    return str(amount["total"])


@pytest.fixture(scope="module")
def world(tools: None, make_cluster: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The example with two teams as it is deployed, and a job of the friendly team that runs."""
    cluster = make_cluster(tmp_path_factory.mktemp("teams"), ["--time-scale", "0.02"])
    cluster.start()
    plan = load("teams", folder=FOLDER / "examples").plan
    ray = [item for manifest in k8s.ray_manifests(plan, BINDINGS) for item in manifest.objects]
    (live,) = [item for item in ray if item["kind"] == "RayCluster"]
    made = World(cluster, live, plan)
    definitions = [*map(crd, ("RayCluster", "RayJob", "RayService", "RayCronJob")), *digests.definitions()]
    cluster.kubectl("create", "-f", "-", stdin=yaml.safe_dump_all(definitions))
    nodes = [node(f"head-{i}", "head", "ml.m5.2xlarge", 0) for i in range(3)]
    nodes.append(node("cpu-1", "cpu", "ml.m5.xlarge", 0))  # the operator's
    nodes += [node(f"gpu-{i}", "workers", "ml.g5.8xlarge", 1) for i in range(4)]
    cluster.kubectl("create", "-f", "-", stdin=yaml.safe_dump_all(nodes))
    first = [item for manifest in k8s.namespace_manifests(plan) for item in manifest.objects]
    later = [item for item in ray if item["kind"] not in ("Job", "RayCluster", "DaemonSet")]
    spaces = [item for item in (*first, *later) if item["kind"] == "Namespace"]
    cluster.apply(*spaces)
    cluster.apply(*(item for item in (*first, *later) if item["kind"] != "Namespace"))
    cluster.apply(*queue_objects(plan))
    cluster.apply({**live, "spec": {**live["spec"], "suspend": True}})
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ours", "namespace": FRIENDLY},
              "stringData": {"token": "friendly-secret"}}  # fmt: skip
    cluster.apply(OPERATOR, secret)
    for space, team in ((FRIENDLY, "vision"), (HOSTILE, "speech")):
        code, answer = made.ask(MEMBERS[space], "POST", jobs(space), made.job(team, "train"))
        assert code == 201, answer
        cluster.until(lambda space=space: state_of(made, space) == "Running", f"the job in {space} runs")
    yield made
    if cluster.process is not None and cluster.process.poll() is None:
        cluster.stop()


def state_of(world: World, space: str) -> str:
    return str((world.cluster.get("-n", space, "rayjob", "train").get("status") or {}).get("jobDeploymentStatus", ""))


def own_cluster(world: World, space: str) -> str:
    return str(world.cluster.get("-n", space, "rayjob", "train")["status"]["rayClusterName"])


def running(world: World, space: str) -> dict[str, str]:
    """Pods of a namespace by name, with their UIDs."""
    found = world.cluster.get("-n", space, "pods")["items"]
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in found if pod["status"]["phase"] == "Running"}


def test_the_friendly_team_trains_as_its_own_user(world: World) -> None:
    pods = world.cluster.get("-n", FRIENDLY, "pods")["items"]
    workers = [pod for pod in pods if pod["metadata"]["labels"].get("ray.io/node-type")]
    assert len(workers) == 2, "a head and a worker, made by the operator and let in by the policies"
    for pod in workers:
        context = pod["spec"]["securityContext"]
        team = next(team for team in world.plan.settings.teams if team.name == "vision")
        assert (context["runAsUser"], context["runAsGroup"]) == (uid(team), uid(team))
        mounted = {mount["name"]: mount["mountPath"] for mount in pod["spec"]["containers"][0]["volumeMounts"]}
        assert mounted["team-files"] == "/fsx"


def drop_a_resource(spec: Json) -> None:
    spec["resourceGroups"][0]["flavors"][0]["resources"].pop()


def leave_the_cohort(spec: Json) -> None:
    spec.pop("cohortName")


def reclaim_nothing_while_borrowing(spec: Json) -> None:
    spec["preemption"] = {"reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "LowerPriority"}}


KUEUES_RULES: dict[str, tuple[Callable[[Json], Any], str]] = {
    "a flavor that lacks a resource": (
        drop_a_resource, "flavors must have the same number of resources as the coveredResources",
    ),
    "a borrowing limit without a cohort": (leave_the_cohort, "borrowingLimit must be nil when cohort is empty"),
    "borrowing that preempts without reclaiming": (
        reclaim_nothing_while_borrowing, "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never",
    ),
    "a strategy that is none": (lambda spec: spec.update(queueingStrategy="LIFO"), "Unsupported value"),
    "resources in another order": (
        lambda spec: spec["resourceGroups"][0]["flavors"][0]["resources"].reverse(),
        "must match the name in coveredResources",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KUEUES_RULES)
def test_kueues_own_rules_judge_the_queues(world: World, name: str) -> None:
    """What the stand-in makes of the teams' quotas is accepted; what real Kueue refuses is refused in its words."""
    change, said = KUEUES_RULES[name]
    (body,) = [body for body in queue_objects(world.plan) if body["metadata"]["name"] == f"{HOSTILE}-clusterqueue"]
    path = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
    queue = {**body, "metadata": {"name": "tried"}}
    code, answer = world.ask(ADMINISTRATOR, "POST", f"{path}?dryRun=All", queue)
    assert code == 201, answer
    change(queue["spec"])
    code, answer = world.ask(ADMINISTRATOR, "POST", f"{path}?dryRun=All", queue)
    assert code == (403 if "webhook" in answer["message"] else 422)
    assert said in answer["message"], answer["message"]


def test_a_local_queue_stays_with_its_quota(world: World) -> None:
    path = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{HOSTILE}/localqueues/{HOSTILE}-localqueue"
    body = {"spec": {"clusterQueue": f"{FRIENDLY}-clusterqueue"}}
    code, answer = world.ask(ADMINISTRATOR, "PATCH", path, body)
    assert (code, "field is immutable" in answer["message"]) == (422, True), answer


# --- what a member may ask for ---------------------------------------------------------------------------------------

POD: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
             "spec": {"containers": [{"name": "c", "image": "b:1"}]}}  # fmt: skip
FORBIDDEN: dict[str, tuple[str, str, Any]] = {
    **{
        f"read {kind} of the other team": ("GET", core_path(FRIENDLY, kind), None)
        for kind in ("pods", "secrets", "configmaps", "events", "services", "persistentvolumeclaims", "serviceaccounts")
    },
    **{
        f"read {kind} of the other team": ("GET", f"/apis/{group}/namespaces/{FRIENDLY}/{kind}", None)
        for group, kind in (
            ("ray.io/v1", "rayjobs"), ("ray.io/v1", "rayclusters"), ("kueue.x-k8s.io/v1beta2", "workloads"),
            ("kueue.x-k8s.io/v1beta2", "localqueues"), ("batch/v1", "jobs"),
            ("networking.k8s.io/v1", "networkpolicies"),
        )
    },
    "read the other team's secret by name": ("GET", core_path(FRIENDLY, "secrets", "ours"), None),
    "read a log of the other team": ("GET", core_path(FRIENDLY, "pods", "any/log"), None),
    "reach a dashboard of the other team": ("POST", core_path(FRIENDLY, "pods", "any/portforward"), {}),
    "run something in a pod of the other team": ("POST", core_path(FRIENDLY, "pods", "any/exec"), {}),
    "submit to the other team's queue": ("POST", jobs(FRIENDLY), {}),
    "stop a job of the other team": ("DELETE", jobs(FRIENDLY, "train"), None),
    "change a job of the other team": ("PATCH", jobs(FRIENDLY, "train"), {"spec": {"suspend": True}}),
    "reach the standing cluster": ("POST", core_path(STANDING, "pods", "any/portforward"), {}),
    "read the standing cluster's token": ("GET", core_path(STANDING, "secrets", "ray"), None),
    "reach a Service of the other team by the API server": ("GET", core_path(FRIENDLY, "services", "any/proxy"), None),
    "reach a pod of the other team by the API server": ("GET", core_path(FRIENDLY, "pods", "any/proxy"), None),
    "join a process of the other team": ("POST", core_path(FRIENDLY, "pods", "any/attach"), {}),
    "stop a pod of the other team": ("DELETE", core_path(FRIENDLY, "pods", "any"), None),
    "evict a pod of the other team": ("POST", core_path(FRIENDLY, "pods", "any/eviction"), {}),
    "take connections of the other team": (
        "POST", f"/apis/discovery.k8s.io/v1/namespaces/{FRIENDLY}/endpointslices", {},
    ),
    "list pods of every namespace": ("GET", "/api/v1/pods", None),
    "list secrets of every namespace": ("GET", "/api/v1/secrets", None),
    "list secrets of its own namespace": ("GET", core_path(HOSTILE, "secrets"), None),
    "create a pod": ("POST", core_path(HOSTILE, "pods"), POD),
    "run something in its own pod": ("POST", core_path(HOSTILE, "pods", "any/exec"), {}),
    "add an ephemeral container": ("PATCH", core_path(HOSTILE, "pods", "any/ephemeralcontainers"), {}),
    "change a pod": ("PATCH", core_path(HOSTILE, "pods", "any"), {"spec": {"tolerations": [{"operator": "Exists"}]}}),
    "make a claim": ("POST", core_path(HOSTILE, "persistentvolumeclaims"), {}),
    "make a token of a service account": ("POST", core_path(HOSTILE, "serviceaccounts", "ray/token"), {}),
    "open its network": ("POST", f"/apis/networking.k8s.io/v1/namespaces/{HOSTILE}/networkpolicies", {}),
    "give itself a role": ("POST", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{HOSTILE}/rolebindings", {}),
    "enlarge its RayCluster": ("PATCH", f"/apis/ray.io/v1/namespaces/{HOSTILE}/rayclusters/any", {}),
    "create a RayCluster": ("POST", f"/apis/ray.io/v1/namespaces/{HOSTILE}/rayclusters", {}),
    "create a RayService": ("POST", f"/apis/ray.io/v1/namespaces/{HOSTILE}/rayservices", {}),
    "create a RayCronJob": ("POST", f"/apis/ray.io/v1/namespaces/{HOSTILE}/raycronjobs", {}),
    **{
        f"create a {kind}": ("POST", f"/apis/{group}/namespaces/{HOSTILE}/{kind.lower()}s", {})
        for group, kind in (
            ("batch/v1", "Job"), ("batch/v1", "CronJob"), ("apps/v1", "Deployment"), ("apps/v1", "StatefulSet"),
            ("apps/v1", "DaemonSet"), ("apps/v1", "ReplicaSet"),
        )
    },
    "create a Service": ("POST", core_path(HOSTILE, "services"), {}),
    "create a Secret": ("POST", core_path(HOSTILE, "secrets"), {}),
    "create a service account": ("POST", core_path(HOSTILE, "serviceaccounts"), {}),
    "write that its job runs": ("PATCH", jobs(HOSTILE, "train") + "/status", {"status": {"jobStatus": "RUNNING"}}),
    "make a Workload": ("POST", f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{HOSTILE}/workloads", {}),
    "shrink what its Workload counts": (
        "PATCH", f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{HOSTILE}/workloads/any", {},
    ),
    "remove its Workload": ("DELETE", f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{HOSTILE}/workloads/any", None),
    "make a queue in its namespace": ("POST", f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{HOSTILE}/localqueues", {}),
    **{
        f"make a {kind}": ("POST", f"/apis/kueue.x-k8s.io/v1beta2/{kind.lower()}s", {})
        for kind in ("ClusterQueue", "ResourceFlavor", "Cohort")
    },
    "admit itself": ("PATCH", f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{HOSTILE}/workloads/any/status", {}),
    "change its queue": ("PATCH", f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{HOSTILE}/localqueues/any", {}),
    "change a quota": ("PATCH", f"/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{FRIENDLY}-clusterqueue", {}),
    "change a flavor": ("PATCH", "/apis/kueue.x-k8s.io/v1beta2/resourceflavors/ml.g5.8xlarge", {}),
    "create a priority": ("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {}),
    "create a queue's priority": ("POST", "/apis/kueue.x-k8s.io/v1beta2/workloadpriorityclasses", {}),
    "change a node": ("PATCH", "/api/v1/nodes/gpu-0", {"metadata": {"labels": {TYPE: "ml.m5.2xlarge"}}}),
    "read volumes": ("GET", "/api/v1/persistentvolumes", None),
    "make a volume of the whole file system": ("POST", "/api/v1/persistentvolumes", {}),
    "give itself a role of the cluster": ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {}),
    "ask for a certificate of somebody": (
        "POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests", {},
    ),
    "make a namespace": ("POST", "/api/v1/namespaces", {}),
    "change its namespace": ("PATCH", f"/api/v1/namespaces/{HOSTILE}", {"metadata": {"labels": {}}}),
    "remove what binds the policy": (
        "DELETE", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/team-queues", None,
    ),
    "remove the policy": (
        "DELETE", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/team-pods", None,
    ),
    "change Kueue's configuration": ("PATCH", core_path("kueue-system", "configmaps", "kueue-manager-config"), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", FORBIDDEN)
def test_a_member_may_not(world: World, name: str) -> None:
    method, path, body = FORBIDDEN[name]
    code, answer = world.ask(MEMBERS[HOSTILE], method, path, body)
    assert code == 403, (code, answer)
    assert "is forbidden: User" in answer["message"], "refused by rights, and not for its form"


# --- what a member may write into a RayJob ---------------------------------------------------------------------------


def changed(**spec: Any) -> Callable[[Json], None]:
    return lambda job: job["spec"].update(spec)


def owned(job: Json) -> None:
    job["metadata"]["ownerReferences"] = [
        {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "train", "uid": "1", "controller": True}
    ]


def in_cluster(**fields: Any) -> Callable[[Json], None]:
    return lambda job: job["spec"]["rayClusterSpec"].update(fields)


def in_head(**fields: Any) -> Callable[[Json], None]:
    return lambda job: job["spec"]["rayClusterSpec"]["headGroupSpec"].update(fields)


def workers(**counts: int) -> Callable[[Json], None]:
    return lambda job: job["spec"]["rayClusterSpec"]["workerGroupSpecs"][0].update(counts)


def annotated(key: str, value: str) -> Callable[[Json], None]:
    return lambda job: job["metadata"]["annotations"].update({key: value})


JOBS: dict[str, tuple[Callable[[Json], Any], str]] = {
    "no queue": (lambda job: job["metadata"]["labels"].pop(names.QUEUE_LABEL), "names the team's queue"),
    "the other team's queue": (
        lambda job: job["metadata"]["labels"].update({names.QUEUE_LABEL: f"{FRIENDLY}-localqueue"}),
        "names the team's queue",
    ),
    "it starts itself": (changed(suspend=False), "created suspended"),
    "an owner that Kueue has counted": (owned, "has no owner"),
    "more pods than the replicas that the queue counts": (
        workers(replicas=1, minReplicas=4, maxReplicas=4), "no minReplicas above replicas",
    ),
    "an autoscaler of its own": (in_cluster(enableInTreeAutoscaling=True), "no enableInTreeAutoscaling"),
    "a size that changes while it runs": (annotated("kueue.x-k8s.io/elastic-job", "true"), "no annotation"),
    "a cluster that stays when the job has ended": (
        changed(ttlSecondsAfterFinished=10**9), "goes when the job ends",
    ),
    "a cluster that nobody deletes": (changed(shutdownAfterJobFinishes=False), "goes when the job ends"),
    "rules of its own for the end": (
        changed(deletionStrategy={"deletionRules": [
            {"policy": "DeleteNone", "condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": 0}},
        ]}), "goes when the job ends",
    ),
    "a finalizer, so that it is deleted and stays": (
        lambda job: job["metadata"].update(finalizers=["hold.example.com/nodes"]), "has no finalizers",
    ),
    "an address of somebody else for its head": (
        in_head(headService={"spec": {"externalIPs": ["10.0.0.10"]}}), "opens no network",
    ),
    "a load balancer for its head": (in_head(serviceType="LoadBalancer"), "opens no network"),
    "a port of every node for its head": (in_head(serviceType="NodePort"), "opens no network"),
    "an Ingress for its head": (in_head(enableIngress=True), "opens no network"),
    "network policies of its own": (
        in_cluster(networkPolicy={"head": {"egressRules": [{}]}}), "opens no network",
    ),
    "a sidecar by the operator that nobody counts": (
        in_cluster(historyServerOptions={"collectorOptions": {"image": "b:1"}}), "opens no network",
    ),
    "certificates by the operator": (in_cluster(tlsOptions={"enabled": True}), "opens no network"),
    "a Job of the operator that nobody counts": (
        in_cluster(gcsFaultToleranceOptions={"redisAddress": "redis:6379"}), "opens no network",
    ),
    "the same by its annotation": (annotated("ray.io/ft-enabled", "true"), "opens no network"),
}  # fmt: skip


@pytest.mark.parametrize("name", JOBS)
def test_a_job_that_is_refused(world: World, name: str) -> None:
    change, said = JOBS[name]
    job = world.job("speech", "refused")
    code, answer = world.ask(MEMBERS[HOSTILE], "POST", jobs(HOSTILE) + "?dryRun=All", job)
    assert code == 201, f"the same job without the change: {answer}"
    change(job)
    code, answer = world.ask(MEMBERS[HOSTILE], "POST", jobs(HOSTILE) + "?dryRun=All", job)
    assert (code, said in answer.get("message", "")) == (422, True), answer


LATER: dict[str, tuple[Json, str]] = {
    "no queue any more": ({"metadata": {"labels": {names.QUEUE_LABEL: None}}}, "names the team's queue"),
    "another queue while it runs": (
        {"metadata": {"labels": {names.QUEUE_LABEL: f"{FRIENDLY}-localqueue"}}}, "names the team's queue",
    ),
    "other nodes while it runs": (
        {"spec": {"rayClusterSpec": {"headGroupSpec": {"template": {"spec": {"nodeSelector": {TYPE: "ml.x"}}}}}}},
        "does not change while it runs",
    ),
    "an autoscaler, added while it runs": (
        {"spec": {"rayClusterSpec": {"enableInTreeAutoscaling": True, "autoscalerOptions": {"idleTimeoutSeconds": 1}}}},
        "does not change while it runs",
    ),
    "more pods that submit, while it runs": (
        {"spec": {"submitterPodTemplate": {"spec": {"containers": [{"name": "more", "image": "b:1"}]}}}},
        "does not change while it runs",
    ),
    "a time to live, written while it runs": ({"spec": {"ttlSecondsAfterFinished": 10**9}}, "goes when the job ends"),
    "a finalizer, added while it runs": (
        {"metadata": {"finalizers": ["hold.example.com/nodes"]}}, "has no finalizers",
    ),
    "another size while it runs": (
        {"metadata": {"annotations": {"kueue.x-k8s.io/elastic-job": "true"}}}, "no annotation",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LATER)
def test_a_job_that_runs_becomes_none_that_is_refused(world: World, name: str) -> None:
    patch, said = LATER[name]
    code, answer = world.ask(MEMBERS[HOSTILE], "PATCH", jobs(HOSTILE, "train"), patch)
    assert (code, said in answer["message"]) == (422, True), answer


def test_a_job_from_before_the_rules_may_still_be_suspended(world: World) -> None:
    """The queue takes back what an older job has, whatever it says; what a member changes of it meets the rules."""
    policy = world.cluster.get("validatingadmissionpolicy", "team-queues")
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/team-queues"
    rules = policy["spec"]["validations"]
    older = [rule for rule in rules if "goes when the job ends" not in rule["message"]]
    assert len(older) == len(rules) - 1
    job = world.job("speech", "older", workers=4)
    job["spec"]["ttlSecondsAfterFinished"] = 60
    try:
        assert world.ask(ADMINISTRATOR, "PATCH", path, {"spec": {"validations": older}})[0] == 200
        world.cluster.until(
            lambda: world.ask(MEMBERS[HOSTILE], "POST", jobs(HOSTILE), job)[0] in (201, 409), "it is there"
        )
    finally:
        assert world.ask(ADMINISTRATOR, "PATCH", path, {"spec": {"validations": rules}})[0] == 200
    queue = {
        "Impersonate-User": "system:serviceaccount:kueue-system:kueue-controller-manager",
        "Impersonate-Group": "system:masters,system:serviceaccounts:kueue-system",
    }
    again = jobs(HOSTILE, "older")
    labels = {"metadata": {"labels": {"seen": "yes"}}}
    assert world.ask(MEMBERS[HOSTILE], "PATCH", again, labels)[0] == 200, "what no rule reads may change"
    assert world.ask(queue, "PATCH", again, {"spec": {"suspend": True, "backoffLimit": 2}})[0] == 200
    for who in (queue, MEMBERS[HOSTILE]):
        code, answer = world.ask(who, "PATCH", again, {"spec": {"suspend": who is not queue, "backoffLimit": 1}})
        assert (code, "goes when the job ends" in answer["message"]) == (422, True), answer
    assert world.ask(MEMBERS[HOSTILE], "DELETE", again)[0] == 200


def test_what_the_queue_admitted_stays(world: World) -> None:
    """The quota's bypass: two workers more, in the RayCluster or in the RayJob of which the next one is made."""
    name = own_cluster(world, HOSTILE)
    path = f"/apis/ray.io/v1/namespaces/{HOSTILE}/rayclusters/{name}"
    more = [{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 4},
            {"op": "replace", "path": "/spec/workerGroupSpecs/0/maxReplicas", "value": 4}]  # fmt: skip
    patch = "application/json-patch+json"
    code, _ = world.ask(MEMBERS[HOSTILE], "PATCH", path, more, sort=patch)
    assert code == 403
    # not even with rights that somebody else gave them
    code, answer = world.ask(ADMINISTRATOR, "PATCH", path, more, sort=patch)
    assert (code, "only the KubeRay operator" in answer["message"]) == (422, True), answer
    code, answer = world.ask(ADMINISTRATOR, "PATCH", path, {"metadata": {"annotations": {"seen": "yes"}}})
    assert code == 200, "what is not its size may change"
    code, answer = world.ask(CONTROLLER, "PATCH", path, {"spec": {"suspend": False}})
    assert code == 200, answer
    in_job = [{**one, "path": str(one["path"]).replace("/spec/", "/spec/rayClusterSpec/")} for one in more]
    for who in (MEMBERS[HOSTILE], ADMINISTRATOR):
        code, answer = world.ask(who, "PATCH", jobs(HOSTILE, "train"), in_job, sort=patch)
        assert (code, "does not change while it runs" in answer["message"]) == (422, True), answer
    forged = copy.deepcopy(world.cluster.get("-n", HOSTILE, "raycluster", name))
    forged["metadata"] = {
        "name": "forged", "namespace": HOSTILE, "labels": forged["metadata"]["labels"],
        "ownerReferences": forged["metadata"]["ownerReferences"],
    }  # fmt: skip
    code, answer = world.ask(
        ADMINISTRATOR, "POST", f"/apis/ray.io/v1/namespaces/{HOSTILE}/rayclusters", {**forged, "status": None}
    )
    assert (code, "only the KubeRay operator" in answer["message"]) == (422, True), answer
    workers = [pod for pod in running(world, HOSTILE) if "-worker-" in pod]
    assert len(workers) == int(gpus(world, HOSTILE)) == 1, "what runs is what the queue counts"


def test_only_the_queue_starts_a_job(world: World) -> None:
    waiting = world.job("speech", "waits", workers=4)
    assert world.ask(MEMBERS[HOSTILE], "POST", jobs(HOSTILE), waiting)[0] == 201
    code, answer = world.ask(MEMBERS[HOSTILE], "PATCH", jobs(HOSTILE, "waits"), {"spec": {"suspend": False}})
    assert (code, "only the queue starts" in answer["message"]) == (422, True), answer
    world.cluster.until(lambda: "QuotaReserved" in conditions(world, HOSTILE, "waits"), "Kueue has looked at it")
    assert "maximum capacity" in conditions(world, HOSTILE, "waits")["QuotaReserved"]["message"]
    # what waits may change, and go: the queue counts it again
    code, _ = world.ask(MEMBERS[HOSTILE], "PATCH", jobs(HOSTILE, "waits"), {"spec": {"backoffLimit": 1}})
    assert code == 200
    assert world.ask(MEMBERS[HOSTILE], "DELETE", jobs(HOSTILE, "waits"))[0] == 200


# --- what the operator makes of it -----------------------------------------------------------------------------------


def pod_of(world: World, space: str, team: str) -> Json:
    """A worker's pod as the operator makes it of a job of the team."""
    job = world.job(team, "x")
    group = job["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]
    cluster = {"metadata": {"name": "x-00000", "namespace": space, "uid": "u"}, "spec": job["spec"]["rayClusterSpec"]}
    pod: Json = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "probe", "namespace": space, "labels": dict(group["template"]["metadata"]["labels"])},
        "spec": copy.deepcopy(group["template"]["spec"]),
    }  # fmt: skip
    raypods.build(cluster, pod, node_type="worker", start_params={})
    return pod


def spec(**fields: Any) -> Callable[[Json], None]:
    return lambda pod: pod["spec"].update(fields)


def main(**fields: Any) -> Callable[[Json], None]:
    return lambda pod: pod["spec"]["containers"][0].update(fields)


def volume(**source: Any) -> Callable[[Json], None]:
    return lambda pod: pod["spec"]["volumes"].append({"name": "more", **source})


def variable(**entry: Any) -> Callable[[Json], None]:
    return lambda pod: pod["spec"]["containers"][0]["env"].append(entry)


def user(**fields: Any) -> Callable[[Json], None]:
    return lambda pod: pod["spec"]["securityContext"].update(fields)


def container_user(**fields: Any) -> Callable[[Json], None]:
    return lambda pod: pod["spec"]["containers"][0]["securityContext"].update(fields)


def limits(**amounts: Any) -> Callable[[Json], None]:
    return lambda pod: pod["spec"]["containers"][0]["resources"]["limits"].update(amounts)


def without_gpu(pod: Json) -> None:
    for amounts in pod["spec"]["containers"][0]["resources"].values():
        amounts.pop("nvidia.com/gpu")


def sidecar(pod: Json) -> None:
    pod["spec"]["containers"].append(
        {"name": "more", "image": "b:1", "securityContext": pod["spec"]["containers"][0]["securityContext"]}
    )


def beside(where: str) -> Callable[[Json], None]:
    """A container that requests all but GPUs, so that its image's own variables decide which it sees."""

    def change(pod: Json) -> None:
        container = pod["spec"]["containers"][0]
        amounts = {"cpu": "1", "memory": "1Gi"}
        pod["spec"][where].append({
            "name": "more", "image": "b:1", "securityContext": container["securityContext"],
            "resources": {"requests": amounts, "limits": dict(amounts)},
        })  # fmt: skip

    return change


VICTIM = uid(load("teams", folder=FOLDER / "examples").plan.settings.teams[0])
PODS: dict[str, tuple[Callable[[Json], Any], str]] = {
    "the other team's user": (user(runAsUser=VICTIM), "the team's user and group"),
    "the standing cluster's user": (user(runAsUser=1000), "the team's user and group"),
    "the other team's group": (user(runAsGroup=VICTIM), "the team's user and group"),
    "no user": (lambda pod: pod["spec"]["securityContext"].pop("runAsUser"), "the team's user and group"),
    "the other team's group beside its own": (user(supplementalGroups=[100, VICTIM]), "in no other|and no other"),
    "the other team's file group": (user(fsGroup=VICTIM), "and no other"),
    "a container as the other team": (container_user(runAsUser=VICTIM), "no container of a team"),
    "a container in the other team's group": (container_user(runAsGroup=VICTIM), "no container of a team"),
    "an init container as the other team": (
        lambda pod: pod["spec"]["initContainers"][0]["securityContext"].update(runAsUser=VICTIM), "no container",
    ),
    "root": (user(runAsUser=0, runAsNonRoot=False), "PodSecurity|the team's user"),
    "a folder of the node": (volume(hostPath={"path": "/"}), "PodSecurity|mounts ConfigMaps"),
    "the node's network": (spec(hostNetwork=True), "PodSecurity"),
    "privilege": (container_user(privileged=True, allowPrivilegeEscalation=True), "PodSecurity"),
    "the standing cluster's claim": (volume(persistentVolumeClaim={"claimName": "fsx"}), "mounts ConfigMaps"),
    "a claim of its own making": (
        volume(ephemeral={"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteMany"], "resources": {
            "requests": {"storage": "1200Gi"}}}}}), "mounts ConfigMaps",
    ),
    "the driver inside the pod": (volume(csi={"driver": "fsx.csi.aws.com"}), "mounts ConfigMaps"),
    "a priority that preempts": (spec(priorityClassName="system-node-critical"), "preempts no other pod"),
    "the cluster's priority": (spec(priorityClassName="system-cluster-critical"), "preempts no other pod"),
    "a priority of somebody's class": (spec(priorityClassName="fast"), "preempts no other pod"),
    "a node of its choice": (spec(nodeName="gpu-0"), "placed by the scheduler"),
    "another scheduler": (spec(schedulerName="mine"), "placed by the scheduler"),
    "any node": (lambda pod: pod["spec"]["nodeSelector"].pop(TYPE), "names the instance type"),
    "a type of no group": (
        lambda pod: pod["spec"]["nodeSelector"].update({TYPE: "ml.p5.48xlarge"}), "names the instance type",
    ),
    "every taint": (spec(tolerations=[{"operator": "Exists"}]), "tolerates no other taints"),
    "nodes under repair": (
        spec(tolerations=[{"key": "sagemaker.amazonaws.com/node-health-status", "operator": "Exists"}]),
        "tolerates no other taints",
    ),
    "more CPU than requested": (limits(cpu="32"), "requests equal to limits"),
    "memory without a limit": (
        lambda pod: pod["spec"]["containers"][0]["resources"]["limits"].pop("memory"), "requests equal to limits",
    ),
    "no requests": (main(resources={}), "requests equal to limits"),
    "a sidecar that nobody counts": (sidecar, "requests equal to limits"),
    "GPUs that were not requested": (variable(name="NVIDIA_VISIBLE_DEVICES", value="all"), "NVIDIA_VISIBLE_DEVICES"),
    "the same, from a ConfigMap": (main(envFrom=[{"configMapRef": {"name": "mine"}}]), "envFrom"),
    "a node of GPUs without a request": (without_gpu, "with accelerators requests some"),
    "a sidecar whose image asks for all GPUs": (beside("containers"), "sets NVIDIA_VISIBLE_DEVICES to void"),
    "an init container whose image asks for all GPUs": (
        beside("initContainers"), "sets NVIDIA_VISIBLE_DEVICES to void",
    ),
    "an end that never comes": (spec(terminationGracePeriodSeconds=10**9), "a pod of a team ends within"),
    "a service account of somebody's": (spec(serviceAccountName="theirs"), "and no other of its namespace"),
    "a claim of devices": (
        spec(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}]), "no resource claims",
    ),
}  # fmt: skip


def fits(said: str, message: str) -> bool:
    return any(words in message for words in said.split("|"))


@pytest.mark.parametrize("name", PODS)
def test_a_pod_that_the_operator_may_not_make(world: World, name: str) -> None:
    """Kueue counts what is requested; this is what a pod could have besides."""
    world.cluster.apply(
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "fast"}, "value": 1000},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "theirs", "namespace": HOSTILE}},
    )
    change, said = PODS[name]
    pod = pod_of(world, HOSTILE, "speech")
    code, answer = world.ask(CONTROLLER, "POST", core_path(HOSTILE, "pods") + "?dryRun=All", pod)
    assert code == 201, f"the same pod without the change: {answer}"
    change(pod)
    code, answer = world.ask(CONTROLLER, "POST", core_path(HOSTILE, "pods") + "?dryRun=All", pod)
    assert code in (403, 422), answer
    assert fits(said, answer["message"]), answer["message"]


def test_a_sidecar_that_sees_no_gpu_is_let_in(world: World) -> None:
    pod = pod_of(world, HOSTILE, "speech")
    beside("containers")(pod)
    pod["spec"]["containers"][1]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
    code, answer = world.ask(CONTROLLER, "POST", core_path(HOSTILE, "pods") + "?dryRun=All", pod)
    assert code == 201, answer


def test_a_pod_that_runs_gets_nothing_besides(world: World) -> None:
    """Nobody adds a container or room to what the queue counted, whatever rights they have."""
    worker = next(name for name in running(world, HOSTILE) if "-worker-" in name)
    container = world.cluster.get("-n", HOSTILE, "pod", worker)["spec"]["containers"][0]
    amounts = {"cpu": "31"}
    assert container["resources"]["requests"]["cpu"] != "31"
    larger = {
        "spec": {"containers": [{"name": container["name"], "resources": {"requests": amounts, "limits": amounts}}]}
    }
    path = core_path(HOSTILE, "pods", f"{worker}/resize")
    strategic = "application/strategic-merge-patch+json"
    assert world.ask(MEMBERS[HOSTILE], "PATCH", path, larger, sort=strategic)[0] == 403
    code, answer = world.ask(ADMINISTRATOR, "PATCH", path, larger, sort=strategic)
    assert (code, fits("as the queue counted it", answer["message"])) == (422, True), answer["message"]


OTHER_MAKERS = {
    "a member with rights of somebody's": ADMINISTRATOR,
    "a Deployment": {"Impersonate-User": "system:serviceaccount:kube-system:replicaset-controller"},
    "another operator": {"Impersonate-User": "system:serviceaccount:default:kuberay-operator"},
}
IN_CHARGE = {"Impersonate-Group": "system:masters"}


@pytest.mark.parametrize("name", OTHER_MAKERS)
def test_a_pod_that_no_queue_counts(world: World, name: str) -> None:
    """It has all that the rules ask of a pod, and would take nodes beside the quota."""
    who = OTHER_MAKERS[name] and OTHER_MAKERS[name] | IN_CHARGE
    pods = core_path(HOSTILE, "pods") + "?dryRun=All"
    pod = pod_of(world, HOSTILE, "speech")
    assert world.ask(CONTROLLER, "POST", pods, pod)[0] == 201
    code, answer = world.ask(who, "POST", pods, pod)
    assert (code, "of what the queue admitted" in answer["message"]) == (422, True), answer


def test_a_job_of_kubernetes_is_the_operators_alone(world: World) -> None:
    """The Job that submits is counted with one pod; nobody else makes one, or lets it make more."""
    path = f"/apis/batch/v1/namespaces/{HOSTILE}/jobs"
    pod = pod_of(world, HOSTILE, "speech")
    body = {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "submits", "namespace": HOSTILE},
        "spec": {"suspend": True, "template": {"spec": {**pod["spec"], "restartPolicy": "Never"}}},
    }  # fmt: skip
    code, answer = world.ask(ADMINISTRATOR, "POST", path, body)
    assert (code, "a Job in a team's namespace is KubeRay's" in answer["message"]) == (422, True), answer
    code, answer = world.ask(CONTROLLER, "POST", path, body)
    assert code == 201, answer
    more = {"spec": {"parallelism": 4}}
    for who, expected in ((MEMBERS[HOSTILE], 403), (ADMINISTRATOR, 422), (CONTROLLER, 200)):
        assert world.ask(who, "PATCH", f"{path}/submits?dryRun=All", more)[0] == expected
    assert world.ask(ADMINISTRATOR, "PATCH", f"{path}/submits", {"metadata": {"labels": {"seen": "yes"}}})[0] == 200
    makes = {"Impersonate-User": "system:serviceaccount:kube-system:job-controller", **IN_CHARGE}
    code, answer = world.ask(makes, "POST", core_path(HOSTILE, "pods") + "?dryRun=All", pod)
    assert code == 201, answer
    assert world.ask(ADMINISTRATOR, "DELETE", f"{path}/submits")[0] == 200


def test_the_policy_is_asked_about_ephemeral_containers_too(world: World) -> None:
    """The API here serves none; a real one asks the policy by these rules."""
    policy = world.cluster.get("validatingadmissionpolicy", "team-pods")
    asked = {
        (operation, resource)
        for rule in policy["spec"]["matchConstraints"]["resourceRules"]
        for operation in rule["operations"]
        for resource in rule["resources"]
    }
    assert asked == {
        ("CREATE", "pods"), ("UPDATE", "pods/ephemeralcontainers"), ("UPDATE", "pods/resize"),
        ("CREATE", "jobs"), ("UPDATE", "jobs"),
    }  # fmt: skip


def test_a_pod_of_one_team_is_none_of_the_other(world: World) -> None:
    pod = pod_of(world, FRIENDLY, "vision")
    pod["metadata"]["namespace"] = HOSTILE
    code, answer = world.ask(CONTROLLER, "POST", core_path(HOSTILE, "pods") + "?dryRun=All", pod)
    assert (code, fits("the team's user and group", answer["message"])) == (422, True), answer


def test_a_hostile_job_gets_no_pods_and_says_why(world: World) -> None:
    """Through the operator: the job is admitted, and its cluster stays empty with the policy's words as an event."""
    job = world.job("speech", "hostile")
    for group in (job["spec"]["rayClusterSpec"]["headGroupSpec"], *job["spec"]["rayClusterSpec"]["workerGroupSpecs"]):
        group["template"]["spec"]["securityContext"]["runAsUser"] = VICTIM
    assert world.ask(MEMBERS[HOSTILE], "POST", jobs(HOSTILE), job)[0] == 201
    world.cluster.until(lambda: admitted(world, HOSTILE, "hostile"), "the queue admits it: it sees the size alone")

    def said() -> bool:
        events = world.cluster.get("-n", HOSTILE, "events")["items"]
        told = [event["message"] for event in events if event["involvedObject"]["name"].startswith("hostile-")]
        return any("team's user and group" in message for message in told)

    world.cluster.until(said, "the policy's words")
    assert not [name for name in running(world, HOSTILE) if name.startswith("hostile-")]
    assert world.ask(MEMBERS[HOSTILE], "DELETE", jobs(HOSTILE, "hostile"))[0] == 200


# --- what a member may ask the queue for -----------------------------------------------------------------------------

QUEUED_JOBS: dict[str, tuple[Json, str]] = {
    "a job beyond its quota and what it may borrow": ({"workers": 4}, "insufficient quota"),
    "the highest priority, for nodes that the other team has of its own": (
        {"workers": 3, "priority": "deadline"}, "insufficient unused quota",
    ),
}  # fmt: skip
"""Jobs of the hostile team, and Kueue's words for why they wait, while the other team has all its nodes."""


@pytest.fixture
def both_at_work(world: World) -> Iterator[None]:
    """The friendly team has both its nodes."""
    assert world.ask(MEMBERS[FRIENDLY], "POST", jobs(FRIENDLY), world.job("vision", "more"))[0] == 201
    world.cluster.until(lambda: admitted(world, FRIENDLY, "more"), "the second job of the friendly team")
    yield
    assert world.ask(MEMBERS[FRIENDLY], "DELETE", jobs(FRIENDLY, "more"))[0] == 200
    world.cluster.until(lambda: world.ask(ADMINISTRATOR, "GET", jobs(FRIENDLY, "more"))[0] == 404, "it is gone")


@pytest.mark.parametrize("name", QUEUED_JOBS)
def test_a_job_that_the_queue_does_not_admit(world: World, both_at_work: None, name: str) -> None:
    fields, words = QUEUED_JOBS[name]
    assert world.ask(MEMBERS[HOSTILE], "POST", jobs(HOSTILE), world.job("speech", "greedy", **fields))[0] == 201
    world.cluster.until(lambda: "QuotaReserved" in conditions(world, HOSTILE, "greedy"), "Kueue has looked at it")
    said = conditions(world, HOSTILE, "greedy")["QuotaReserved"]
    assert (said["status"], said["reason"]) == ("False", "Pending"), said
    assert f"{words} for nvidia.com/gpu in flavor ml.g5.8xlarge" in said["message"], said
    assert admitted(world, FRIENDLY, "train")
    assert admitted(world, FRIENDLY, "more")
    assert world.ask(MEMBERS[HOSTILE], "DELETE", jobs(HOSTILE, "greedy"))[0] == 200
    world.cluster.until(lambda: world.ask(ADMINISTRATOR, "GET", jobs(HOSTILE, "greedy"))[0] == 404, "it is gone")


def test_what_the_hostile_team_borrowed_goes_back(world: World) -> None:
    """A job with the highest priority on borrowed nodes gives way to one without any on nodes of its own."""
    member = MEMBERS[HOSTILE]
    assert world.ask(member, "DELETE", jobs(HOSTILE, "train"))[0] == 200
    world.cluster.until(lambda: gpus(world, HOSTILE) == "0", "its nodes are idle")
    job = world.job("speech", "borrows", workers=3, priority="deadline")
    assert world.ask(member, "POST", jobs(HOSTILE), job)[0] == 201
    world.cluster.until(lambda: admitted(world, HOSTILE, "borrows"), "it borrows the node that is idle")
    assert gpus(world, HOSTILE) == "3"
    assert world.ask(MEMBERS[FRIENDLY], "POST", jobs(FRIENDLY), world.job("vision", "own"))[0] == 201
    world.cluster.until(lambda: admitted(world, FRIENDLY, "own"), "the friendly team has its node back")
    said = conditions(world, HOSTILE, "borrows")
    assert (said["Preempted"]["status"], said["Preempted"]["reason"]) == ("True", "InCohortReclamation")
    assert gpus(world, HOSTILE) == "0"
    world.cluster.until(
        lambda: world.cluster.get("-n", FRIENDLY, "rayjob", "own")["status"].get("jobDeploymentStatus") == "Running",
        "its pods run",
    )
    assert world.ask(MEMBERS[FRIENDLY], "DELETE", jobs(FRIENDLY, "own"))[0] == 200
    assert world.ask(member, "DELETE", jobs(HOSTILE, "borrows"))[0] == 200


def test_the_friendly_team_noticed_nothing(world: World) -> None:
    # of its job that is deleted, the pods end in their own time
    world.cluster.until(
        lambda: len([name for name in running(world, FRIENDLY) if "-worker-" in name]) == 1,
        "its first job alone is left",
    )
    status = world.cluster.get("-n", FRIENDLY, "rayjob", "train")["status"]
    assert status["jobDeploymentStatus"] == "Running"
    events = world.cluster.get("-n", FRIENDLY, "events")["items"]
    assert not [event["message"] for event in events if event["reason"] in ("FailedCreate", "Killing", "Preempted")]
    # and may still do what a member does
    member = MEMBERS[FRIENDLY]
    code, _ = world.ask(member, "POST", jobs(FRIENDLY), world.job("vision", "second", workers=2))
    assert code == 201
    assert world.ask(member, "GET", core_path(FRIENDLY, "pods"))[0] == 200
    assert world.ask(member, "GET", f"/apis/ray.io/v1/namespaces/{FRIENDLY}/rayclusters")[0] == 200
    assert world.ask(member, "GET", f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{FRIENDLY}/workloads")[0] == 200
    assert world.ask(member, "DELETE", jobs(FRIENDLY, "second"))[0] == 200
