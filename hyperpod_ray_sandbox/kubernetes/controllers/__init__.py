"""Small models of the controllers of a cluster: for rehearsal, each a documented rule, none of it Kubernetes' code.

Every controller looks at the whole state and moves it one step towards what it should be; they run after each change
and twice a second. Those that need AWS are off without `--aws-endpoint`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.auth import control
from hyperpod_ray_sandbox.kubernetes.controllers.budgets import Budgets
from hyperpod_ray_sandbox.kubernetes.controllers.entrypoints import Entrypoints
from hyperpod_ray_sandbox.kubernetes.controllers.kubelet import Kubelet
from hyperpod_ray_sandbox.kubernetes.controllers.kueue import Kueue
from hyperpod_ray_sandbox.kubernetes.controllers.lifecycle import Lifecycle
from hyperpod_ray_sandbox.kubernetes.controllers.nodes import Nodes
from hyperpod_ray_sandbox.kubernetes.controllers.pulls import Pulls
from hyperpod_ray_sandbox.kubernetes.controllers.raycluster import RayClusters
from hyperpod_ray_sandbox.kubernetes.controllers.scheduler import Scheduler
from hyperpod_ray_sandbox.kubernetes.controllers.settings import Settings
from hyperpod_ray_sandbox.kubernetes.controllers.volumes import Volumes
from hyperpod_ray_sandbox.kubernetes.controllers.workloads import Workloads
from hyperpod_ray_sandbox.kubernetes.status import bad_request, no_such_path

__all__ = ["Controllers", "Settings"]

Json = dict[str, Any]

log = logging.getLogger(__name__)

_IDLE_SECONDS = 0.5
_REST_SECONDS = 0.05
_OWN = True
"""Marks models of what a real kube-controller-manager does."""


class Controllers:
    """Runs all controllers.

    Args:
        api: The embedded API, or a real one.
        settings: Of the controllers.
        control_plane: Whether Kubernetes' own controllers are modelled too. A real kube-controller-manager is them.
    """

    def __init__(self, api: Api, settings: Settings, *, control_plane: bool = True) -> None:
        self.api = api
        self.settings = settings
        client = control(settings.aws_endpoint, settings.region) if settings.aws_endpoint else None
        self.nodes = Nodes(api, settings.time_scale, network=client.node_network if client else None)
        passes: list[tuple[bool, Callable[[], None]]] = [
            (_OWN, Lifecycle(api).reconcile),
            (False, self.nodes.follow_given),
            (_OWN, Workloads(api).reconcile),
            (False, Kueue(api).reconcile),
            (False, RayClusters(api, Entrypoints(settings.entrypoints, settings.runs)).reconcile),
            (_OWN, Volumes(api).reconcile),
            (False, Scheduler(api).reconcile),
            (_OWN, Budgets(api).reconcile),
            (False, Kubelet(api, settings.time_scale, Pulls(api, client, settings.time_scale)).reconcile),
        ]
        self._passes = [act for own, act in passes if control_plane or not own]

    def hook(self, method: str, path: str, body: Any) -> Any:
        """`POST /rehearsal/nodes/NAME {"mode": …}`."""
        parts = path.strip("/").split("/")
        if method == "POST" and parts[1:2] == ["nodes"] and len(parts) == 3:
            if not isinstance(body, dict):
                raise bad_request('the body must be {"mode": "unreachable" | "gone" | "restore"}')
            return self.nodes.hook(parts[2], str(body.get("mode", "")))
        raise no_such_path()

    async def run(self) -> None:
        """Run until cancelled."""
        if self.settings.static_nodes:
            for node in json.loads(self.settings.static_nodes.read_text()):
                if self.api.find("v1", "Node", "", node["metadata"]["name"]) is None:
                    self.api.create(self.api.kind("v1", "Node"), "", node, trusted=True)
        tasks = [asyncio.ensure_future(self._local())]
        if self.settings.aws_endpoint:
            from hyperpod_ray_sandbox.kubernetes.controllers.cloud import Cloud  # botocore is needed only then

            tasks.append(asyncio.ensure_future(Cloud(self.api, self.settings, self.nodes).run()))
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def _local(self) -> None:
        changed = self.api.store.changed
        while True:
            changed.clear()
            self.api.store.refresh()
            for act in self._passes:
                try:
                    act()
                except Exception:  # one controller's mistake must not stop the others
                    log.exception("controller %s failed", act.__qualname__)
                await asyncio.sleep(0)
            await asyncio.sleep(_REST_SECONDS)
            # not wait_for: in Python 3.11 it can swallow the cancellation that ends this loop
            try:
                async with asyncio.timeout(_IDLE_SECONDS):
                    await changed.wait()
            except TimeoutError:
                continue
