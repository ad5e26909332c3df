"""Three workers' places on three nodes of a real Ray, of which one is lost: `python places_run.py bound|unbound`."""

from __future__ import annotations

import json
import sys
import time
from types import SimpleNamespace

import ray
from ray.cluster_utils import Cluster
from ray.train.v2._internal.execution.worker_group.placement_group_handle import DefaultPlacementGroupHandle
from ray.util.placement_group import placement_group, placement_group_table

from hyperpod_ray_training.spares import placement

LIMIT_S = 120.0
BETWEEN_S = 3.0
"""In which Ray without a pause tries thousands of times."""


class Worker:
    def node(self) -> str:
        return str(ray.get_runtime_context().get_node_id())


def attempts(places: DefaultPlacementGroupHandle) -> int:
    return int(placement_group_table(places.placement_group)["stats"]["scheduling_attempt"])


def main() -> None:
    remote_worker = ray.remote(num_cpus=1)(Worker)
    cluster = Cluster()
    cluster.add_node(num_cpus=0)
    nodes = [cluster.add_node(num_cpus=1) for _ in range(3)]
    ray.init(address=cluster.address, log_to_driver=False)
    places = DefaultPlacementGroupHandle(placement_group([{"CPU": 1}] * 3, strategy="PACK"))
    if sys.argv[1] == "bound":
        places = placement.bound(places, SimpleNamespace(placement_strategy="PACK", label_selector=None))
    assert places.wait(LIMIT_S)
    held = placement_group_table(places.placement_group)["bundles_to_node_id"]
    lost = next(bundle for bundle, node_id in held.items() if node_id == nodes[0].node_id)
    cluster.remove_node(nodes[0], allow_graceful=False)
    until = time.monotonic() + LIMIT_S
    while placement.node_lives(nodes[0].node_id):
        assert time.monotonic() < until
        time.sleep(0.1)
    before = attempts(places)
    time.sleep(BETWEEN_S)
    shown: dict[str, object] = {"attempts": attempts(places) - before}
    if isinstance(places, placement.Places):
        strategy = places.of_successor(lost, node_lives=False)
        worker = remote_worker.options(scheduling_strategy=strategy).remote()
        replacement = cluster.add_node(num_cpus=1)
        shown["on_the_replacement"] = ray.get(worker.node.remote(), timeout=LIMIT_S) == replacement.node_id
        survivor = next(bundle for bundle in held if bundle != lost)
        in_place = remote_worker.options(scheduling_strategy=places.of_successor(survivor, node_lives=True)).remote()
        shown["in_place"] = ray.get(in_place.node.remote(), timeout=LIMIT_S) == held[survivor]
        places.shutdown()
        groups = placement_group_table().values()
        shown["left"] = [group["state"] for group in groups if group["state"] != "REMOVED"]
    print(json.dumps(shown))
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main()
