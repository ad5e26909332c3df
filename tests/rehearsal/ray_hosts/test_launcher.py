"""Pods that start: addresses, environment and secrets, and one that does not start."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from hyperpod_ray_sandbox.rehearsal.ray_hosts import isolation
from hyperpod_ray_sandbox.rehearsal.ray_hosts.cluster import Cluster
from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError
from hyperpod_ray_sandbox.rehearsal.ray_hosts.manifest import load
from tests.rehearsal.ray_hosts.local_ray_cluster_helpers import HERE, told


def test_three_pods_at_three_addresses_with_the_manifest_s_environment(cluster: Cluster) -> None:
    assert [pod.group for pod in cluster.state.pods] == ["headgroup", "gpu", "gpu"]
    assert len({pod.ip for pod in cluster.state.pods} | {pod.temp for pod in cluster.state.pods}) == 6
    assert all(pod.ip.startswith("127.") for pod in cluster.state.pods)
    head, worker = cluster.state.pods[:2]
    assert told(cluster, head, "environment")["RAY_health_check_period_ms"] == "1000"
    assert "RAY_ADDRESS" not in told(cluster, head, "environment")
    assert told(cluster, worker, "environment")["RAY_ADDRESS"] == f"{cluster.head_ip}:{cluster.state.gcs_port}"
    assert told(cluster, worker, "environment")["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"] == "90"
    for pod in cluster.state.pods:
        environment = told(cluster, pod, "environment")
        assert (environment["RAY_worker_niceness"], environment["RAY_enable_metrics_collection"]) == ("0", "false")
    assert "--num-cpus=1" in told(cluster, worker, "arguments")
    assert f"--dashboard-host={cluster.head_ip}" in told(cluster, head, "arguments"), "never 0.0.0.0"


def test_no_secret_of_the_caller_reaches_a_pod_and_the_token_is_no_argument(cluster: Cluster) -> None:
    token = cluster.token_path.read_text()
    assert stat.S_IMODE(cluster.token_path.stat().st_mode) == 0o600
    for pod in cluster.state.pods:
        for pid in cluster.members(pod):
            assert token not in isolation.command_line(pid)
            assert b"must-not-reach" not in Path(f"/proc/{pid}/environ").read_bytes()
    assert token not in (cluster.folder / "state.json").read_text()
    assert cluster.dashboard.request("/api/v0/nodes", token="wrong", timeout=600)[0] == 401


def test_a_pod_that_will_not_start_is_told_with_its_last_words(project: Path) -> None:
    (project / ".venv-rehearsal" / "bin" / "ray").write_text("#!/bin/sh\necho no room on this machine\nexit 1\n")
    with pytest.raises(LocalError, match="ended while it started: no room on this machine") as caught:
        Cluster.start(manifest=load(HERE / "raycluster.yaml"), project=project, name="broken")
    assert caught.value.code == 1
    assert Cluster.names(project=project) == []
