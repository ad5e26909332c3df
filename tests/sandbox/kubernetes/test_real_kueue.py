"""Kueue itself, where somebody has built it, in place of the stand-in: its webhooks judge the queues, and it admits.

    git clone --branch v0.19.2 …/kueue && cd kueue && go build -o kueue ./cmd/kueue
    KUEUE_SOURCE=$PWD make test-all

Without certificates of its own, that Kueue reads some for its metrics from `/etc/kueue/metrics/certs`: put a `tls.crt`
and a `tls.key` there. KubeRay is not there: its part is that of the requests.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray import k8s
from hyperpod_ray.core import load
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.ops.observe import queues
from tests.k8s.conftest import BINDINGS
from tests.sandbox.kubernetes.conftest import PROJECT, PYTHON, Cluster
from tests.sandbox.kubernetes.test_hostile_team import (
    ADMINISTRATOR,
    FRIENDLY,
    HOSTILE,
    MEMBERS,
    World,
    admitted,
    conditions,
    gpus,
    jobs,
    node,
    queue_objects,
)
from tests.sandbox.kubernetes.test_team_policies import crd
from tests.support.ports import free_port

SOURCE = Path(os.environ.get("KUEUE_SOURCE", "/nowhere"))
CERTIFICATE = Path("/etc/kueue/metrics/certs/tls.crt")
pytestmark = [
    pytest.mark.emulator, pytest.mark.slow,
    pytest.mark.skipif(not ((SOURCE / "kueue").is_file() and CERTIFICATE.is_file()),
                       reason=f"KUEUE_SOURCE names no folder with a built kueue, or {CERTIFICATE} is missing"),
]  # fmt: skip
WITHOUT_STAND_IN = """
import runpy, sys
import hyperpod_ray_sandbox.kubernetes.controllers as controllers

class Nothing:
    def __init__(self, api): pass
    def reconcile(self): pass

controllers.Kueue = Nothing
runpy.run_module("hyperpod_ray_sandbox.kubernetes.server", run_name="__main__")
"""
DRA = "KueueDRAIntegration"
SWITCHED_OFF = (
    "VisibilityOnDemand", f"{DRA}ConsumableCapacity", f"{DRA}ExtendedResource", f"{DRA}PartitionableDevices", DRA,
)  # fmt: skip
"""Gates of what needs an API server of its own, and of `resource.k8s.io`, which the API here does not serve."""
JUDGED = ("rayjobs", "rayclusters", "clusterqueues", "workloads", "localqueues", "resourceflavors", "cohorts")
BINDING = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"


@dataclass
class WithoutStandIn(Cluster):
    """The API with every controller but the stand-in for Kueue."""

    def start(self) -> None:
        record = self.state / "server.json"
        with (self.state / "log").open("ab") as log:
            command = [str(PYTHON), "-c", WITHOUT_STAND_IN, "--state", str(self.state)]
            self.process = subprocess.Popen(command, cwd=PROJECT, stdout=log, stderr=log)
        self.until(record.exists, "the server has started")
        self.server = json.loads(record.read_text())


def definitions() -> list[dict[str, Any]]:
    found = []
    for file in sorted((SOURCE / "config" / "components" / "crd" / "bases").glob("*.yaml")):
        # the API here takes no flag in the middle of a pattern
        body = yaml.safe_load(file.read_text().replace("^(?i)", "(?i)^"))
        body["spec"].pop("conversion", None)
        found.append(body)
    return found


def hooks(address: str, certificate: Path) -> list[dict[str, Any]]:
    bundle = base64.b64encode(certificate.read_bytes()).decode()
    found = list(yaml.safe_load_all((SOURCE / "config/components/webhook/manifests.yaml").read_text()))
    for body in found:
        body["webhooks"] = [
            {**hook, "clientConfig": {"url": address + hook["clientConfig"]["service"]["path"], "caBundle": bundle}}
            for hook in body["webhooks"]
            if any(resource.split("/")[0] in JUDGED for rule in hook["rules"] for resource in rule["resources"])
        ]
    return found


@pytest.fixture(scope="module")
def world(tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("kueue")
    (state := folder / "state").mkdir()
    cluster = WithoutStandIn(state)
    cluster.start()
    plan = load("teams", folder=FOLDER / "examples").plan
    ray = [item for manifest in k8s.ray_manifests(plan, BINDINGS) for item in manifest.objects]
    (live,) = [item for item in ray if item["kind"] == "RayCluster"]
    rayed = [crd(kind) for kind in ("RayCluster", "RayJob", "RayService", "RayCronJob")]
    cluster.kubectl("create", "-f", "-", stdin=yaml.safe_dump_all([*definitions(), *rayed]))
    nodes = [node(f"head-{i}", "head", "ml.m5.2xlarge", 0) for i in range(3)]
    nodes += [node(f"gpu-{i}", "workers", "ml.g5.8xlarge", 1) for i in range(4)]
    cluster.kubectl("create", "-f", "-", stdin=yaml.safe_dump_all(nodes))
    namespaces = [item for manifest in k8s.namespace_manifests(plan) for item in manifest.objects]
    everything = [*namespaces, *(item for item in ray if item["kind"] not in ("Job", "RayCluster", "DaemonSet"))]
    cluster.apply(*(item for item in everything if item["kind"] == "Namespace"))
    cluster.apply(*(item for item in everything if item["kind"] != "Namespace"))
    (certs := folder / "certs").mkdir()
    port = free_port()
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", certs / "tls.key", "-out",
         certs / "tls.crt", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    settings = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration",
        "health": {"healthProbeBindAddress": "0"}, "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(certs)},
        "leaderElection": {"leaderElect": False}, "internalCertManagement": {"enable": False},
        "integrations": {"frameworks": ["ray.io/rayjob", "ray.io/raycluster"]},
    }  # fmt: skip
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    access = yaml.safe_load(Path(cluster.server["kubeconfig"]).read_text())
    access["users"][0]["user"] |= {
        "as": "system:serviceaccount:kueue-system:kueue-controller-manager",
        "as-groups": ["system:masters", "system:serviceaccounts:kueue-system"],
    }
    (folder / "kubeconfig").write_text(yaml.safe_dump(access))
    with (folder / "log").open("w") as log:
        kueue = subprocess.Popen(
            [SOURCE / "kueue", "--config", folder / "config.yaml", "--kubeconfig", folder / "kubeconfig",
             "--feature-gates=" + ",".join(f"{gate}=false" for gate in SWITCHED_OFF)],
            stdout=log, stderr=log, env={**os.environ, "POD_NAMESPACE": "kueue-system"},
        )  # fmt: skip
    cluster.kubectl(
        "create", "-f", "-", stdin=yaml.safe_dump_all(hooks(f"https://127.0.0.1:{port}", certs / "tls.crt"))
    )
    cluster.until(
        lambda: (
            cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(queue_objects(plan)), ok=False).returncode == 0
        ),
        "Kueue takes the queues",
    )
    yield World(cluster, live, plan)
    kueue.terminate()
    kueue.wait(timeout=120)
    cluster.stop()


def submit(world: World, space: str, job: dict[str, Any]) -> int:
    return world.ask(MEMBERS[space], "POST", jobs(space), job)[0]


def remove(world: World, space: str, name: str) -> None:
    world.ask(ADMINISTRATOR, "PATCH", jobs(space, name), {"metadata": {"finalizers": None}})
    world.ask(ADMINISTRATOR, "DELETE", jobs(space, name))
    world.cluster.until(lambda: world.ask(ADMINISTRATOR, "GET", jobs(space, name))[0] == 404, "it is gone")


@pytest.fixture
def without_policy(world: World) -> Iterator[None]:
    """What Kueue does by itself."""
    _, binding = world.ask(ADMINISTRATOR, "GET", f"{BINDING}/team-queues")
    assert world.ask(ADMINISTRATOR, "DELETE", f"{BINDING}/team-queues")[0] == 200
    time.sleep(0.5)
    yield
    binding["metadata"] = {"name": "team-queues"}
    assert world.ask(ADMINISTRATOR, "POST", BINDING, binding)[0] == 201


def test_the_queues_are_active(world: World) -> None:
    for space in (FRIENDLY, HOSTILE):
        world.cluster.until(
            lambda space=space: any(
                condition["type"] == "Active" and condition["status"] == "True"
                for condition in (world.cluster.get("clusterqueue", f"{space}-clusterqueue").get("status") or {}).get(
                    "conditions", []
                )
            ),
            f"the queue of {space}",
        )


def test_what_submit_makes_is_admitted_and_a_larger_one_waits_with_words(world: World) -> None:
    for space, team in ((FRIENDLY, "vision"), (HOSTILE, "speech")):
        assert submit(world, space, world.job(team, "train")) == 201
        world.cluster.until(lambda space=space: admitted(world, space, "train"), f"the job in {space}")
        world.cluster.until(lambda space=space: gpus(world, space) == "1", "its queue counts it")
    for name, workers, words in (
        ("never", 4, queues.NEVER_ADMITTED),
        ("waits", 3, "more nvidia.com/gpu of ml.g5.8xlarge"),
    ):
        assert submit(world, HOSTILE, world.job("speech", name, workers=workers)) == 201
        world.cluster.until(lambda name=name: "QuotaReserved" in conditions(world, HOSTILE, name), "Kueue's words")
        said = conditions(world, HOSTILE, name)["QuotaReserved"]
        assert (said["status"], said["reason"]) == ("False", "Pending")
        assert words in queues._needs(said["message"]), said["message"]
        remove(world, HOSTILE, name)
    for space in (FRIENDLY, HOSTILE):
        remove(world, space, "train")


def test_it_counts_replicas_where_kuberay_makes_the_least(world: World, without_policy: None) -> None:
    """Hence the rule of `team-queues`."""
    job = world.job("speech", "more")
    job["spec"]["rayClusterSpec"]["workerGroupSpecs"][0].update(replicas=1, minReplicas=2, maxReplicas=2)
    assert submit(world, HOSTILE, job) == 201
    world.cluster.until(lambda: admitted(world, HOSTILE, "more"), "it is admitted")
    world.cluster.until(lambda: gpus(world, HOSTILE) == "1", "its queue counts it")
    remove(world, HOSTILE, "more")


def test_it_frees_the_quota_of_a_job_that_a_finalizer_keeps(world: World, without_policy: None) -> None:
    """Its pods would run on: KubeRay touches no cluster of a RayJob that is being deleted."""
    job = world.job("speech", "holds", workers=3)
    job["metadata"]["finalizers"] = ["hold.example.com/nodes"]
    assert submit(world, HOSTILE, job) == 201
    world.cluster.until(lambda: admitted(world, HOSTILE, "holds"), "it borrows")
    assert world.ask(MEMBERS[HOSTILE], "DELETE", jobs(HOSTILE, "holds"))[0] == 200
    world.cluster.until(lambda: "Finished" in conditions(world, HOSTILE, "holds"), "its quota is free")
    _, kept = world.ask(ADMINISTRATOR, "GET", jobs(HOSTILE, "holds"))
    assert kept["metadata"]["deletionTimestamp"]
    assert not kept["spec"].get("suspend")
    remove(world, HOSTILE, "holds")
