from __future__ import annotations

from hyperpod_ray_sandbox.rehearsal.ray_hosts.cluster import Cluster
from hyperpod_ray_sandbox.rehearsal.replacement import Replacement


def test_replacement_waits_for_its_delay_and_for_the_head(cluster: Cluster) -> None:
    lines: list[str] = []
    replacement = Replacement(cluster, delay_s=3600, note=lines.append)
    pod = cluster.training_pods()[0]
    cluster.kill(pod)
    replacement.tick({})
    assert not replacement.complete
    assert lines == []
    replacement.delay_s = 0
    replacement.tick({})
    assert replacement.complete
    assert "is replaced by" in lines[0]


def test_a_held_replacement_comes_when_released(cluster: Cluster) -> None:
    replacement = Replacement(cluster, delay_s=0, note=lambda line: None)
    pod = cluster.training_pods()[0]
    replacement.hold(pod)
    cluster.kill(pod)
    replacement.tick({})
    assert not replacement.complete
    replacement.release()
    replacement.tick({})
    assert replacement.complete


def test_a_frozen_node_is_replaced_only_once_ray_has_given_it_up(cluster: Cluster) -> None:
    replacement = Replacement(cluster, delay_s=0, note=lambda line: None)
    pod = cluster.training_pods()[0]
    cluster.freeze(pod)
    replacement.tick({pod.ip: "ALIVE"})
    assert pod in cluster.state.pods
    replacement.tick({pod.ip: "DEAD"})
    assert pod not in cluster.state.pods
    assert not pod.alive
