"""What HyperPod and KubeRay would do about a lost machine, with the delay as a setting.

On the cluster: the node is found dead, its object goes away, KubeRay makes a new pod and a spare (or a replaced node)
takes it. Here: a pod whose processes are gone, or that stands still and that Ray has given up, is replaced by a fresh
one on a new address after `delay_s`. A head keeps its address, which stands for the head service's name.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from hyperpod_ray_sandbox.rehearsal.ray_hosts.cluster import Cluster
from hyperpod_ray_sandbox.rehearsal.ray_hosts.state import Pod


class Replacement:
    """Replaces what is gone; call `tick` often.

    Args:
        cluster: whose pods.
        delay_s: seconds from a loss (or, for a frozen machine, from Ray giving it up) to the new pod's start.
        note: receives a line for each replacement.
    """

    def __init__(self, cluster: Cluster, *, delay_s: float, note: Callable[[str], None]) -> None:
        self.cluster, self.delay_s, self.note = cluster, delay_s, note
        self.missing: dict[str, float] = {}
        self.held: set[str] = set()

    def hold(self, pod: Pod) -> None:
        """Let no replacement come for this pod until `release`: no spare, the node itself has to be replaced."""
        self.held.add(pod.name)

    def release(self) -> None:
        """Let the retained ones start, `delay_s` from now."""
        for name in self.held:
            self.missing[name] = time.time()
        self.held.clear()

    def tick(self, nodes: dict[str, str]) -> None:
        """Note losses, start what is due, and end pods that outstay their grace period."""
        now = time.time()
        for pod in self.cluster.expire():
            self.note(f"{pod.name}: grace period over, killed")
        for pod in list(self.cluster.state.pods):
            if pod.alive and not (pod.frozen and nodes.get(pod.ip) == "DEAD"):
                continue
            since = self.missing.setdefault(pod.name, now)
            if pod.name in self.held or now < since + self.delay_s:
                continue
            head = self.cluster.group(pod).head
            if not head and not self.cluster.gcs_up():
                continue  # KubeRay's init container wait-gcs-ready
            fresh = self.cluster.replace(pod, wait_for_it=False)
            del self.missing[pod.name]
            self.note(f"{pod.name} is replaced by {fresh.name} at {fresh.ip}")

    @property
    def complete(self) -> bool:
        """Whether every pod runs and none is about to be replaced."""
        return all(pod.alive and not pod.frozen and not pod.deleted_at for pod in self.cluster.state.pods)
