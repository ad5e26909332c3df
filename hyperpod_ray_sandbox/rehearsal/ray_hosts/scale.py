"""The one rule that makes a cluster of GPU machines fit on one: fewer pods, few CPUs each.

The rule, in words, is `RULE`; `hyperpod-ray local ray start` prints it. Everything else in the manifest is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

RULE = (
    "a worker group keeps min(replicas × numOfHosts, {pods}) pods; a pod with CPUs or GPUs offers {cpus} CPU and no "
    "GPU, a pod with num-cpus 0 stays at 0; custom resources are kept"
)

OBJECT_STORE_BYTES = 80_000_000  # Ray's minimum is 75 MiB; training here moves no large objects
MEMORY_BYTES = 2 * 1024**3  # what a pod tells Ray's scheduler it has; not enforced


@dataclass(frozen=True, kw_only=True)
class Scaled:
    """What is left of a pod group on this machine: pods and the CPUs each offers to Ray."""

    pods: int
    cpus: int


def scale(*, replicas: int, hosts: int = 1, cpus: float, gpus: float, max_pods: int) -> Scaled:
    """Apply `RULE` to one group.

    Args:
        replicas: the manifest's replicas (0 or more).
        hosts: the manifest's numOfHosts (pods per replica).
        cpus: CPUs that Ray would have in the cluster.
        gpus: GPUs that Ray would have in the cluster.
        max_pods: most pods kept of one group (1 or more).
    """
    if max_pods < 1:
        raise ValueError(f"max_pods must be 1 or more, got {max_pods}")
    return Scaled(pods=min(replicas * hosts, max_pods), cpus=1 if cpus > 0 or gpus > 0 else 0)


def rule(*, max_pods: int, cpus: int = 1) -> str:
    """The rule as a sentence, with its numbers filled in."""
    return RULE.format(pods=max_pods, cpus=cpus)
