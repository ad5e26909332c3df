"""The places of a worker group, bound to the nodes that they were given on.

Ray's placement group keeps the bundle of a lost node and looks for a new place for it. Where another node could hold
it and has no room, Ray 2.60 tries again without a pause: its GCS, of which a cluster has one, uses a whole processor
until a node comes (https://github.com/ray-project/ray/pull/65007 was closed without a change). A node that HyperPod
replaces comes after 20 minutes. A bundle that is bound to a node which is gone has no place anywhere, which Ray sees at
once. The successor of a lost worker gets a placement group of its own, which Ray tries at most once a second.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import ray
from ray._raylet import RAY_NODE_ID_KEY
from ray.train.v2._internal.execution.worker_group.placement_group_handle import DefaultPlacementGroupHandle
from ray.util.placement_group import PlacementGroup, placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from hyperpod_ray_training.journal import log

_BIND_S = 60.0
"""So long the same places may take to be given again. Ray gives back those of a removed group in a moment."""


class Places(DefaultPlacementGroupHandle):  # type: ignore[misc]
    """The placement group of a worker group, and those of successors on other nodes.

    Args:
        first: The placement group as Ray makes it: it says which nodes have room.
        strategy: Ray's name of the placement strategy.
        label_selector: What the run asks of the node of each bundle. Default: nothing.
    """

    def __init__(
        self, first: PlacementGroup, *, strategy: str, label_selector: Sequence[dict[str, str]] | None = None
    ) -> None:
        self._pg = first
        self.strategy = strategy
        self.selectors = [dict(selector) for selector in label_selector or [{}] * len(first.bundle_specs)]
        self.nodes: dict[int, str] = {}
        self.successors: dict[int, PlacementGroup] = {}

    def wait(self, timeout_seconds: float = 30) -> bool:
        """Wait for room, then bind each bundle to its node.

        Args:
            timeout_seconds: For room. Binding has a minute more.

        Returns:
            Whether all places are reserved. Where they are not, Ray starts the group again; the log says why.
        """
        if not super().wait(timeout_seconds):
            return False
        try:
            self._bind()
        except Exception as error:  # as Ray's own wait: whatever it is, the group is started again
            log(f"places: not bound ({type(error).__name__}: {(str(error) or 'no message').splitlines()[0][:200]})")
            return False
        if super().wait(_BIND_S):
            return True
        log(f"places: not given again within {_BIND_S:g} s: another run took them, or a node was lost")
        return False

    def _bind(self) -> None:
        if self.nodes:
            return
        bundles, nodes = self._pg.bundle_specs, placement_group_table(self._pg)["bundles_to_node_id"]
        placed = {index: str(nodes[index]) for index in range(len(bundles))}
        remove_placement_group(self._pg)
        self._pg = placement_group(
            bundles, strategy=self.strategy,
            bundle_label_selector=[
                {**selector, RAY_NODE_ID_KEY: placed[index]} for index, selector in enumerate(self.selectors)
            ],
        )  # fmt: skip
        self.nodes = placed

    def of_successor(self, bundle: int, *, node_lives: bool) -> PlacementGroupSchedulingStrategy:
        """Where the successor of a lost worker runs: in its place, or where there is room if its node is gone.

        Args:
            bundle: Of the lost worker.
            node_lives: Whether the node lives on which it was.
        """
        if node_lives:
            own = self.successors.get(bundle)
            return PlacementGroupSchedulingStrategy(
                placement_group=self._pg if own is None else own,
                placement_group_bundle_index=bundle if own is None else 0,
            )
        self._remove(self.successors.pop(bundle, None))
        selector = self.selectors[bundle]
        successor = placement_group(
            [self._pg.bundle_specs[bundle]],
            strategy=self.strategy,
            bundle_label_selector=[selector] if selector else None,
        )
        self.successors[bundle] = successor
        return PlacementGroupSchedulingStrategy(placement_group=successor, placement_group_bundle_index=0)

    def shutdown(self) -> None:
        """Give back all places."""
        for bundle in list(self.successors):
            self._remove(self.successors.pop(bundle))
        super().shutdown()

    @staticmethod
    def _remove(group: PlacementGroup | None) -> None:
        if group is not None:
            with contextlib.suppress(Exception):  # Ray removes those of a run that has ended
                remove_placement_group(group)


def node_lives(node_id: str) -> bool:
    """Whether Ray counts a node as alive."""
    return any(node["NodeID"] == node_id and node["Alive"] for node in ray.nodes())


def bound(handle: Any, context: Any) -> Any:
    """Ray's handle of a worker group's places as `Places`; another kind of handle, as for TPUs, stays as it is."""
    if type(handle) is not DefaultPlacementGroupHandle:
        return handle
    return Places(handle.placement_group, strategy=context.placement_strategy, label_selector=context.label_selector)
