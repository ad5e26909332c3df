"""Nodes that stand by: what they save, what they cost, and from how many nodes on one pays.

Each interruption is counted as a lost node. Many are not, so that a spare looks better here than it is.
"""

from __future__ import annotations

import math

COPIES = 4
"""Copies of a rank's state that its pod keeps for warm spares. A test compares it with the training library."""


def memory_needed(*, parameters: float, shards: int, bytes_per_parameter: int, ranks_per_node: int) -> int:
    """Bytes of host memory that one pod keeps for warm spares.

    Args:
        parameters: Parameters of the model.
        shards: Ranks that share one copy of them.
        bytes_per_parameter: Of a rank's state.
        ranks_per_node: Ranks in the pod.
    """
    return round(parameters / shards * bytes_per_parameter) * ranks_per_node * COPIES


def expected_wait(*, spares: int, in_repair: float, repair: float) -> float:
    """Mean wait for a node after an interruption, in seconds.

    Nodes that are in repair when one more is lost are Poisson distributed. With fewer of them than spares there is no
    wait. Else training waits until enough are back: the ends of their repairs are spread evenly over one repair time.

    Args:
        spares: Nodes that stand by.
        in_repair: Mean number of nodes in repair: rate × repair time.
        repair: Seconds until a lost node is replaced.
    """
    total, chance = 0.0, math.exp(-in_repair)
    for failed in range(400):
        if failed >= spares:
            total += chance * repair * (failed - spares + 1) / (failed + 1)
        chance *= in_repair / (failed + 1)
        if failed > in_repair and chance < 1e-15:
            break
    return total


def pays_from(*, rate_per_node: float, repair: float) -> float:
    """Nodes from which on the first spare pays: it costs 1/N of the cluster and saves N × rate × repair of its time."""
    return 1 / math.sqrt(rate_per_node * repair)


def pays_over_elastic_from(*, rate_per_node: float, repair: float) -> float:
    """Nodes from which on a spare pays where training continues with one node less."""
    return 1 / (rate_per_node * repair)


def elastic_goodput(rigid: float, *, rate: float, restart: float, repair: float, nodes: int) -> float:
    """Goodput of training that continues with one node less until the lost one is replaced.

    Args:
        rigid: Goodput with no wait for nodes.
        rate: Interruptions per second.
        restart: Seconds of one restart: a second one takes the node in again.
        repair: Seconds until the node is replaced.
        nodes: Nodes that train.
    """
    smaller = min(1.0, rate * repair) / nodes
    return max(0.0, rigid * (1 - smaller) * math.exp(-rate * restart))
