"""`nodes check` on a real Ray: three nodes on loopback, one of them slowed from outside, one held by a run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.ops.acceptance import node_probe, verdict
from hyperpod_ray.ops.acceptance.verdict import Expected
from hyperpod_ray.ops.orchestrators.eks.node_check import measured_by_ray
from hyperpod_ray.ops.orchestrators.node_check import MARK, Request
from hyperpod_ray.ops.reach.jobs_api import Jobs
from hyperpod_ray_sandbox import leash
from tests.ops import ray_head
from tests.ops.world import ROOT
from tests.support.ports import free_port

pytestmark = pytest.mark.slow
PYTHON = ROOT / ".venv-rehearsal" / "bin" / "python"
NOTHING = Expected()


@contextlib.contextmanager
def slowed(command: str) -> Iterator[None]:
    """Stop the processes whose command line has these words for nine tenths of the time, as a faulty node stalls."""
    over = threading.Event()

    def pause() -> None:
        while not over.is_set():
            pids = [
                int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit() and command in _command(path)
            ]
            for signum, seconds in ((signal.SIGSTOP, 0.27), (signal.SIGCONT, 0.03)):
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signum)
                time.sleep(seconds)

    thread = threading.Thread(target=pause)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _command(entry: Path) -> str:
    with contextlib.suppress(OSError):
        return (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def measured(tmp_path: Path, *, nodes: int, port: int) -> dict[str, Any]:
    """Agents as `srun` or Ray start them, each a process, over gloo on loopback."""
    words = ["--nodes", str(nodes), "--master", f"127.0.0.1:{port}", "--storage", str(tmp_path / "files")]
    words += ["--storage-mib", "16", "--seconds", "2", "--limit", "240", "--patience", "60"]
    agents = [
        subprocess.Popen(
            [str(PYTHON), node_probe.__file__, "agent", "--node", str(node), *words],
            stdout=subprocess.PIPE, text=True,
        )
        for node in range(nodes)
    ]  # fmt: skip
    answers = []
    for agent in agents:
        printed, _ = agent.communicate(timeout=600)
        (line,) = [line for line in printed.splitlines() if line.startswith(node_probe.MARK)]
        answer = json.loads(line[len(node_probe.MARK) :])
        answers.append({**answer, "host": f"node-{answer['node']}"})
    return {"answers": answers, "busy": [], "cuda": False, "ranks": 1}


def test_the_slow_node_is_named_by_real_collectives(tmp_path: Path) -> None:
    port = free_port()
    with slowed(f"--node 1 --nodes 3 --ranks 1 --master 127.0.0.1:{port}"):
        answer = measured(tmp_path, nodes=3, port=port)
    report = verdict.judge(answer, NOTHING)
    areas = {(finding.node, finding.area) for finding in report.faults}
    assert ("node-1", "compute") in areas
    # a busy machine slows the others too: then they are named, and stay far from the one that stands still
    assert min(report.nodes, key=lambda node: node.tflops or 0.0).name == "node-1"
    assert min(report.nodes, key=lambda node: node.pair_gb_s or 0.0).name == "node-1", "the fabric"
    assert report.transport == "gloo"
    assert not (tmp_path / "files").exists()


def test_a_node_that_dies_in_the_test_is_the_fault_and_those_that_waited_are_not(tmp_path: Path) -> None:
    port = free_port()
    over = threading.Event()

    def kill() -> None:
        while not over.is_set():
            for path in Path("/proc").iterdir():
                if path.name.isdigit() and f"rank --local 0 --node 2 --nodes 3 --ranks 1 --master 127.0.0.1:{port}" in (
                    _command(path)
                ):
                    time.sleep(1)
                    os.kill(int(path.name), signal.SIGKILL)
                    return
            time.sleep(0.05)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        answer = measured(tmp_path, nodes=3, port=port)
    finally:
        over.set()
        thread.join()
    report = verdict.judge(answer, NOTHING)
    assert {finding.node for finding in report.faults} == {"node-2"}
    assert any("exit code -9" in finding.text for finding in report.faults)
    assert {finding.node for finding in report.findings if "waited" in finding.text} == {"node-0", "node-1"}


@pytest.fixture(scope="module")
def ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ray_head.Head]:
    with ray_head.ray_head(tmp_path_factory.mktemp("ray"), token="check-token") as head:
        yield head


def test_without_a_worker_nothing_is_measured(ray: ray_head.Head) -> None:
    content = Request(seconds=1, storage="none").content(hosts=[], wait=5)
    answer = measured_by_ray(Jobs(ray.url, token=ray.token), content)
    assert answer["answers"] == [] == answer["busy"]


def test_by_ray_the_free_nodes_are_measured_and_the_busy_one_is_named(ray: ray_head.Head, tmp_path: Path) -> None:
    jobs = Jobs(ray.url, token=ray.token)
    content = Request(seconds=1, storage=str(tmp_path), storage_mib=8).content(hosts=[], wait=40)
    with ray.node(2, cpus=1), ray.node(3, cpus=1) as dying, ray.node(4, cpus=1):
        _wait_for_nodes(ray, 4)
        with _run_on(ray, "127.0.0.4"):
            answer = measured_by_ray(jobs, content)
        dying.lose()
        after = measured_by_ray(jobs, Request(seconds=1, storage="none").content(hosts=[], wait=15))
    later = {node.name.rpartition("/")[2]: node.state for node in verdict.judge(after, NOTHING).nodes}
    assert later.get("127.0.0.3", "faulty") == "faulty", "a node that was just lost is not busy"
    assert "busy" not in later.values()
    report = verdict.judge(answer, NOTHING)
    states = {node.name.rpartition("/")[2]: node.state == "busy" for node in report.nodes}
    assert states == {"127.0.0.2": False, "127.0.0.3": False, "127.0.0.4": True}, report.findings
    good = [node for node in report.nodes if node.state != "busy"]
    assert all(node.pair_gb_s and node.all_reduce_gb_s and node.tflops and node.write_gb_s for node in good)


HOLD = """
import ray, sys, time
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
ray.init(address=sys.argv[1], log_to_driver=False)
(node,) = [node for node in ray.nodes() if node["Alive"] and node["NodeManagerAddress"] == sys.argv[2]]
@ray.remote(num_cpus=1, scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False))
class Holder:
    def here(self):
        return True
holder = Holder.remote()
ray.get(holder.here.remote())
print("held", flush=True)
time.sleep(600)
"""
COUNT = """
import ray, sys, time
ray.init(address=sys.argv[1], log_to_driver=False)
while sum(node["Alive"] for node in ray.nodes()) < int(sys.argv[2]):
    time.sleep(0.2)
"""


def _environment(ray: ray_head.Head) -> dict[str, str]:
    mark = leash.SEPARATOR.join(filter(None, [os.environ.get(leash.VARIABLE, ""), "nodes-check"]))
    return {**os.environ, leash.VARIABLE: mark, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": ray.token}


def _wait_for_nodes(ray: ray_head.Head, count: int) -> None:
    command = [str(PYTHON), "-c", COUNT, ray.gcs, str(count)]
    subprocess.run(command, env=_environment(ray), check=True, timeout=300, capture_output=True)


@contextlib.contextmanager
def _run_on(ray: ray_head.Head, address: str) -> Iterator[None]:
    """A process of a run that holds a node's CPUs."""
    process = subprocess.Popen(
        [str(PYTHON), "-c", HOLD, ray.gcs, address], env=_environment(ray), stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "held"
        yield
    finally:
        process.kill()
        process.wait()


def test_both_marks_are_one() -> None:
    assert node_probe.MARK == MARK
