from __future__ import annotations

import subprocess
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.ops.acceptance import node_probe, ray_probe
from tests.ops.ops_probes_helpers import Json, hosts

HEAD: Any = {ray_probe.HEAD: 1}


REQUEST: Json = {"seconds": 5, "storage": "/fsx/x", "storage_mib": 64, "limit": 30, "hosts": []}


class RayError(Exception):
    """As ray.exceptions has it."""


class GetTimeoutError(Exception):
    """As ray.exceptions has it."""


class Agent:
    """Stands for the actor on one node: what it answers to `look` and `measure`; an error is raised."""

    def __init__(self, node: Json) -> None:
        self.node = node
        self.measured: list[tuple[list[str], float]] = []
        self.look = SimpleNamespace(remote=lambda: ("look", node["NodeID"]))
        self.measure = SimpleNamespace(remote=self._measure)

    def _measure(self, words: list[str], limit: float) -> tuple[str, str]:
        self.measured.append((words, limit))
        return ("measure", self.node["NodeID"])


class Cluster:
    """A Ray cluster whose nodes answer as the test says."""

    def __init__(self) -> None:
        self.listed: list[Json] = []
        self.answers: dict[tuple[str, str], Any] = {}
        self.silent: set[str] = set()
        self.available: dict[str, Json] = {}
        self.killed: list[str] = []
        self.options: list[Json] = []
        self.agents: dict[str, Agent] = {}
        self.limits: list[float] = []

    def node(self, name: str, *, alive: bool = True, devices: int = 0, error: str = "", **resources: float) -> None:
        self.listed.append(
            {
                "NodeID": name, "Alive": alive, "Resources": resources, "NodeManagerHostname": f"host-{name}",
                "NodeName": f"name-{name}", "NodeManagerAddress": f"10.0.0.{len(self.listed)}",
            }
        )  # fmt: skip
        place = {"host": f"host-{name}", "address": f"10.0.0.{len(self.listed) - 1}", "port": 4000 + len(self.listed)}
        self.answers["look", name] = {**place, "error": error} if error else {**place, "devices": devices}
        self.answers["measure", name] = {"tflops": 1.0}
        self.available[name] = dict(resources)

    # --- as the module `ray` has it

    def nodes(self) -> list[Json]:
        return self.listed

    def remote(self, **options: Any) -> Any:
        self.options.append(options)
        name = options["scheduling_strategy"].node
        node = next(node for node in self.listed if node["NodeID"] == name)
        agent = self.agents[name] = Agent(node)
        return lambda cls: SimpleNamespace(remote=lambda: agent)

    def wait(self, calls: list[Any], *, num_returns: int, timeout: float) -> tuple[list[Any], list[Any]]:
        assert num_returns == len(calls)
        self.limits.append(timeout)
        return [call for call in calls if call[1] not in self.silent], []

    def get(self, call: tuple[str, str], timeout: float | None = None) -> Any:
        answer = self.answers[call]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def kill(self, agent: Agent) -> None:
        self.killed.append(agent.node["NodeID"])


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    fake = Cluster()
    ray: Any = ModuleType("ray")
    for name in ("nodes", "remote", "wait", "get", "kill"):
        setattr(ray, name, getattr(fake, name))
    ray.exceptions = SimpleNamespace(RayError=RayError, GetTimeoutError=GetTimeoutError)
    ray._private = SimpleNamespace(state=SimpleNamespace(available_resources_per_node=lambda: fake.available))
    strategies: Any = ModuleType("ray.util.scheduling_strategies")
    strategies.NodeAffinitySchedulingStrategy = lambda node, soft: SimpleNamespace(node=node, soft=soft)
    for name, module in (("ray", ray), ("ray.util", ModuleType("ray.util")), (strategies.__name__, strategies)):
        monkeypatch.setitem(sys.modules, name, module)
    return fake


def test_an_agent_takes_all_gpus_of_its_node_and_of_no_other(cluster: Cluster) -> None:
    cluster.node("head", CPU=4, **HEAD)
    cluster.node("a", CPU=8, GPU=2, devices=2)
    cluster.node("b", CPU=8, GPU=2, devices=2)
    cluster.node("dead", alive=False, CPU=8, GPU=2)
    answer = ray_probe.run(REQUEST)
    assert hosts(answer) == ["host-a", "host-b"]
    assert (answer["busy"], answer["cuda"], answer["ranks"]) == ([], True, 2)
    assert [(o["num_gpus"], o["num_cpus"], o["scheduling_strategy"].soft) for o in cluster.options] == [
        (2, 0, False)
    ] * 2
    words = [cluster.agents[name].measured[0][0] for name in ("a", "b")]
    assert [dict(zip(line[::2], line[1::2], strict=True)) for line in words] == [
        {
            "--node": str(number), "--nodes": "2", "--ranks": "2", "--limit": "30.0", "--master": "10.0.0.1:4002",
            "--seconds": "5", "--storage": "/fsx/x", "--storage-mib": "64",
        }
        for number in range(2)
    ]  # fmt: skip
    assert cluster.limits == [ray_probe.WAIT_SECONDS]


def test_without_gpus_the_nodes_beside_the_head_are_measured_on_cpus(cluster: Cluster) -> None:
    cluster.node("head", CPU=4, **HEAD)
    cluster.node("a", CPU=8)
    cluster.node("none", memory=1)
    answer = ray_probe.run({**REQUEST, "wait": 3})
    assert hosts(answer) == ["host-a"]
    assert (answer["cuda"], answer["ranks"]) == (False, 1)
    assert (cluster.options[0]["num_cpus"], "num_gpus" in cluster.options[0]) == (8, False)
    assert cluster.limits == [3]
    assert ray_probe.run({**REQUEST, "hosts": ["nobody"]})["answers"] == []


def test_nodes_that_are_named_by_host_or_by_ray(cluster: Cluster) -> None:
    for name in ("a", "b", "c"):
        cluster.node(name, GPU=1, devices=1)
    assert hosts(ray_probe.run({**REQUEST, "hosts": ["host-a", "name-c"]})) == ["host-a", "host-c"]


def test_a_node_that_a_run_holds_is_busy_and_one_that_is_silent_is_faulty(cluster: Cluster) -> None:
    for name in ("held", "silent", "left", "good"):
        cluster.node(name, GPU=2, CPU=8, devices=2)
    cluster.silent = {"held", "silent", "left"}
    cluster.available["held"]["GPU"] = 1
    del cluster.available["left"]
    answer = ray_probe.run(REQUEST)
    assert hosts(answer, "busy") == ["host-held"]
    assert sorted(cluster.killed) == ["held", "left", "silent"], "what waits there would take the GPUs of the next run"
    errors = {entry["host"]: entry.get("error") for entry in answer["answers"]}
    silent = "the node does not answer Ray, though no run holds it"
    assert errors == {"host-silent": silent, "host-left": silent, "host-good": None}
    cluster.listed[0]["Resources"] = {"CPU": 8}
    cluster.available["held"] = {"CPU": 8, "GPU": 0}
    assert ray_probe.held(cluster.listed[0]) is False, "of a node without GPUs its CPUs count"
    cluster.available["held"] = {}
    assert ray_probe.held(cluster.listed[0]) is True


def test_a_node_with_fewer_gpus_than_the_others_is_not_measured(cluster: Cluster) -> None:
    cluster.node("whole", GPU=8, devices=8)
    cluster.node("less", GPU=8, devices=7)
    cluster.node("broken", GPU=8, error="nvidia-smi: not found")
    cluster.node("ended", GPU=8)
    cluster.answers["look", "ended"] = RayError()
    answer = ray_probe.run(REQUEST)
    errors = {entry["host"]: entry.get("error") for entry in answer["answers"]}
    assert errors == {
        "host-whole": None,
        "host-less": "7 of 8 GPUs answer",
        "host-broken": "nvidia-smi: not found",
        "host-ended": "RayError: the agent ended",
    }
    assert cluster.agents["whole"].measured[0][0][:4] == ["--node", "0", "--nodes", "1"]
    assert "less" not in {name for name, agent in cluster.agents.items() if agent.measured}


@pytest.mark.parametrize("error", [RayError(), GetTimeoutError()])
def test_an_agent_that_is_lost_while_it_measures_is_an_answer(cluster: Cluster, error: Exception) -> None:
    cluster.node("a", GPU=1, devices=1)
    cluster.node("b", GPU=1, devices=1)
    cluster.answers["measure", "a"] = error
    first, second = ray_probe.run(REQUEST)["answers"]
    assert first["error"] == f"{type(error).__name__}: the node's agent was lost"
    assert (second["host"], second["address"], second["tflops"]) == ("host-b", "10.0.0.1", 1.0)


@pytest.mark.parametrize(
    ("code", "out", "err", "answer"),
    [
        (0, f'x\n{node_probe.MARK}{{"a": 1}}\n', "", {"a": 1}),
        (1, "", "Traceback\nRuntimeError: no GPU\n\n", {"error": "RuntimeError: no GPU"}),
        (-9, "", "", {"error": "exit code -9"}),
    ],
)
def test_an_agent_starts_the_probe_on_its_node(
    monkeypatch: pytest.MonkeyPatch, code: int, out: str, err: str, answer: Json
) -> None:
    started: list[Any] = []

    def start(command: list[str], **options: Any) -> Any:
        started.append((command, options["timeout"]))
        return SimpleNamespace(returncode=code, stdout=out, stderr=err)

    monkeypatch.setattr(subprocess, "run", start)
    assert ray_probe.Agent().measure(["--node", "0"], 30) == answer
    (command, timeout), *_ = started
    assert command == [sys.executable, node_probe.__file__, "agent", "--node", "0"]
    assert timeout > 30
