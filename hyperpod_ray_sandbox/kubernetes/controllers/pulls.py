"""Images that nodes have, and why they do not get others: the embedded AWS judges, as it knows roles and routes.

A node that no HyperPod cluster made (given at start, or by hand) has every image.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Any

from hyperpod_ray_sandbox.aws.client import Client, ControlError
from hyperpod_ray_sandbox.kubernetes.api import Api

Json = dict[str, Any]
log = logging.getLogger(__name__)
NODE_PREFIX = "hyperpod-"
# the kubelet's back-off in real life: 10 s, doubled at each failure up to 5 minutes
FIRST_BACK_OFF, LONGEST_BACK_OFF = 10.0, 300.0


@dataclass
class Pull:
    """What is known of one image on one node; `reason` is None while it is being pulled."""

    reason: str | None = None
    failures: int = 0
    until: float = 0.0


class Pulls:
    """Asks once for each image and node, and again after each back-off."""

    def __init__(self, api: Api, client: Client | None, time_scale: float) -> None:
        self._api, self._client, self._scale = api, client, time_scale
        self._known: dict[tuple[str, str], Pull] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def of(self, node: Json, image: str) -> Pull:
        """What is known now; a question is under way where nothing is."""
        name = str(node["metadata"]["name"])
        if self._client is None or not name.startswith(NODE_PREFIX):
            return Pull(reason="")
        key = (str(node["metadata"]["uid"]), image)
        pull = self._known.get(key)
        if pull is None or (pull.reason and time.monotonic() >= pull.until):
            pull = self._known[key] = Pull(failures=pull.failures if pull else 0)
            task = asyncio.get_running_loop().create_task(self._ask(name.removeprefix(NODE_PREFIX), image, pull))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return pull

    def forget(self, nodes: set[str]) -> None:
        """Drop what is known of nodes that are no more; `nodes` are the uids of those there are."""
        for key in [key for key in self._known if key[0] not in nodes]:
            del self._known[key]

    async def _ask(self, instance: str, image: str, pull: Pull) -> None:
        assert self._client is not None  # noqa: S101  (narrowing only)
        try:
            reason = (await asyncio.to_thread(self._client.pulls, instance, [image]))[image]
        except ControlError as error:
            log.warning("the embedded AWS does not judge %s: %s", image, error)
            reason = f"failed to pull image {image}: {error}"
        if reason:
            wait = min(LONGEST_BACK_OFF, FIRST_BACK_OFF * 2**pull.failures)
            pull.until = time.monotonic() + wait * self._scale
            pull.failures += 1
        pull.reason = reason
        self._api.store.changed.set()
