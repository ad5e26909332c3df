"""Pods started, broken, replaced and stopped. `ray` is a stand-in (`stand_in_ray.py`), the rest is real.

With Ray itself the same happens in tests/rehearsal/test_rehearse_cluster.py.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_sandbox import leash
from hyperpod_ray_sandbox.rehearsal.ray_hosts import isolation
from hyperpod_ray_sandbox.rehearsal.ray_hosts.cluster import Cluster
from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError
from hyperpod_ray_sandbox.rehearsal.ray_hosts.manifest import load
from tests.rehearsal.ray_hosts.local_ray_cluster_helpers import HERE, told


def soon(check: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 600
    while not (result := check()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return result


def test_a_script_without_an_address_leaves_ray_s_address_file_of_the_machine_alone(cluster: Cluster) -> None:
    for pod in cluster.state.pods:
        assert told(cluster, pod, "environment")["RAY_TMPDIR"] == pod.temp


def test_every_process_ends_with_the_command_that_holds_it(cluster: Cluster) -> None:
    marks = os.environ[leash.VARIABLE].split(",")
    inside = [pid for pod in cluster.state.pods for pid in (pod.pid, *cluster.members(pod))]
    assert len(inside) >= 9
    assert set(inside) <= set(leash.carriers(marks[-1]))


def test_a_killed_node_is_gone_with_all_its_processes_and_replaced_at_a_new_address(cluster: Cluster) -> None:
    pod = cluster.training_pods()[0]
    inside = cluster.members(pod)
    assert sum(isolation.command_line(pid).startswith("sleep 100") for pid in inside) == 2
    cluster.kill(pod)
    assert soon(lambda: not any(isolation.command_line(pid).startswith("sleep 100") for pid in inside))
    assert soon(lambda: cluster.dashboard.nodes().get(pod.ip) == "DEAD")
    fresh = cluster.replace(pod)
    assert fresh.ip != pod.ip
    assert fresh.name != pod.name
    assert soon(lambda: cluster.dashboard.nodes().get(fresh.ip) == "ALIVE")
    assert len(cluster.training_pods()) == 2


def test_another_command_sees_the_same_cluster(cluster: Cluster) -> None:
    again = Cluster.load(name=cluster.state.name, project=cluster.project)
    pod = cluster.training_pods()[0]

    def states() -> set[str]:
        return {isolation._stat(pid)[0] for pid in cluster.members(pod)}

    # a process stops and goes on when it is next scheduled
    again.freeze(again.training_pods()[0])
    assert soon(lambda: states() == {"T"}), states()
    again.freeze(again.training_pods()[0], thaw=True)
    assert soon(lambda: "T" not in states()), states()


def test_a_new_head_keeps_the_address_of_the_head_service(cluster: Cluster) -> None:
    old = cluster.head()
    cluster.kill(old)
    assert not cluster.gcs_up()
    fresh = cluster.replace(old)
    assert fresh.ip == old.ip
    assert cluster.gcs_up()


def test_a_deleted_pod_gets_sigterm_and_after_its_grace_period_sigkill(cluster: Cluster) -> None:
    first, second = cluster.training_pods()
    cluster.delete(first)
    assert soon(lambda: not first.alive), "the stand-in ends on SIGTERM"
    cluster.freeze(second)  # cannot answer SIGTERM
    cluster.delete(second)
    assert cluster.expire() == []
    second.deleted_at = time.time() - cluster.group(second).grace_seconds - 60
    assert cluster.expire() == [second]
    assert not second.alive


def test_stop_ends_everything_and_leaves_no_secret_and_no_folder(cluster: Cluster) -> None:
    inside = [pid for pod in cluster.state.pods for pid in cluster.members(pod)]
    folders = [Path(pod.temp) for pod in cluster.state.pods]
    gone = cluster.training_pods()[0]
    cluster.replace(gone)
    assert cluster.stop() == []
    assert soon(lambda: not any("sleep 100" in isolation.command_line(pid) for pid in inside))
    assert not any(folder.exists() for folder in folders), "a replaced pod's included"
    assert not cluster.token_path.exists()
    assert (cluster.folder / "logs").exists()
    assert gone not in cluster.state.pods
    with pytest.raises(LocalError, match="ray cluster: "):
        Cluster.load(name=cluster.state.name, project=cluster.project)


def test_a_second_start_of_a_running_cluster_is_refused(cluster: Cluster) -> None:
    with pytest.raises(LocalError, match="runs already"):
        Cluster.start(manifest=load(HERE / "raycluster.yaml"), project=cluster.project, name=cluster.state.name)
    assert len(cluster.alive_pods()) == 3


def test_what_a_killed_command_left_is_no_running_cluster_and_is_cleared_at_the_next_start(cluster: Cluster) -> None:
    for pod in cluster.state.pods:
        isolation.destroy(pod.process, mode=cluster.state.mode, marker=pod.name)
    assert soon(lambda: Cluster.running(project=cluster.project) == [])
    assert Cluster.names(project=cluster.project) == [cluster.state.name]
    assert cluster.token_path.exists()
    told: list[str] = []
    manifest = load(HERE / "raycluster.yaml")
    second = Cluster.start(manifest=manifest, project=cluster.project, name="second", note=told.append)
    try:
        assert told[0] == f"cleared up after {cluster.state.name}, whose command was killed"
        assert Cluster.names(project=cluster.project) == ["second"] == Cluster.running(project=cluster.project)
        assert not cluster.token_path.exists()
        assert not any(Path(temp).exists() for temp in cluster.state.temps)
    finally:
        second.stop()
