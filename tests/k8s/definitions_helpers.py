"""What tests of `definitions`, `k8s_node_pools` share."""

from __future__ import annotations

from typing import Any

from tests.core.environment_files import GOOD, changed

BURST = {"name": "Burst", "type": "ml.p5.48xlarge", "count": 0, "deep_health_checks": []}
WORKER = {"name": "burst", "instance_group": "Burst", "replicas": 0, "max_replicas": 4}


def scaled(group: dict[str, Any]) -> dict[str, Any]:
    """A file with one group that Karpenter scales."""
    groups, workers = GOOD["hyperpod"]["instance_groups"], GOOD["ray"]["workers"]
    return changed(
        {
            "hyperpod/managed_autoscaling": True,
            "ray/autoscaling": True,
            f"hyperpod/instance_groups/{len(groups)}": {**BURST, **group},
            f"ray/workers/{len(workers)}": WORKER,
        }
    )
