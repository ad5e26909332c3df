"""What kubelets and the node lifecycle controller do to pods: start, end, and be lost with their node.

Times in real life, multiplied by `time_scale`: a container starts after 20 s; a Job's container ends after another 20
s; a deleted pod goes after 2 s. A container starts when its node has the image (`pulls.py`), else it waits in
ErrImagePull and ImagePullBackOff.

A taint with the effect NoExecute evicts pods that do not tolerate it, on every node (pkg/controller/tainteviction);
those of a node that is not ready are tolerated for 300 s unless the pod says otherwise. On a node that does not answer,
an evicted pod stays Terminating until the node's object goes, or until the node has the taint
`node.kubernetes.io/out-of-service` and the garbage collector comes by, every 20 s (pkg/controller/podgc).
"""

from __future__ import annotations

import time
from typing import Any

from hyperpod_ray_rules import names
from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.controllers.common import (
    alive,
    condition,
    event,
    has,
    node_ready,
    remove,
    set_status,
)
from hyperpod_ray_sandbox.kubernetes.controllers.pulls import Pull, Pulls
from hyperpod_ray_sandbox.kubernetes.controllers.scheduler import tolerates
from hyperpod_ray_sandbox.kubernetes.times import now

Json = dict[str, Any]

START_SECONDS = 20.0
RUN_SECONDS = 20.0
STOP_SECONDS = 2.0
ERROR_SECONDS = 2.0
TOLERATION_SECONDS = 300.0
COLLECT_SECONDS = 20.0
UNREACHABLE = names.UNREACHABLE
OUT_OF_SERVICE = names.OUT_OF_SERVICE
# a pod with this annotation set to "failed" ends badly: a hook for tests
OUTCOME = "rehearsal.local/outcome"
# a pod with this annotation keeps the status that a test gives it
KEPT = "rehearsal.local/kept"


class Kubelet:
    """Moves pods through their phases."""

    def __init__(self, api: Api, time_scale: float, pulls: Pulls) -> None:
        self.api = api
        self.scale = time_scale
        self.pulls = pulls
        self._since: dict[str, float] = {}
        self._collected = time.monotonic()

    def _waited(self, mark: str, seconds: float) -> bool:
        """Whether so many (real-life) seconds have gone by since this was first asked."""
        return time.monotonic() - self._since.setdefault(mark, time.monotonic()) >= seconds * self.scale

    def reconcile(self) -> None:
        """One pass over the pods that have a node."""
        nodes = {n["metadata"]["name"]: n for n in self.api.all("v1", "Node")}
        self.pulls.forget({n["metadata"]["uid"] for n in nodes.values()})
        marks = set()
        collects = time.monotonic() - self._collected >= COLLECT_SECONDS * self.scale
        if collects:
            self._collected = time.monotonic()
        for pod in self.api.all("v1", "Pod"):
            name = pod["spec"].get("nodeName")
            if not name:
                continue
            marks.add(pod["metadata"]["uid"])
            if KEPT in (pod["metadata"].get("annotations") or {}):
                continue
            node = nodes.get(name)
            if node is None:
                # pod garbage collection: its node is no more
                self.api.finish(("/pods", pod["metadata"]["namespace"], pod["metadata"]["name"]))
            elif node_ready(node):
                self._served(pod, node)
            else:
                self._lost(pod, node, collects=collects)
        for mark in [m for m in self._since if m.split("/")[0] not in marks]:
            del self._since[mark]

    def _served(self, pod: Json, node: Json) -> None:
        uid = pod["metadata"]["uid"]
        if not pod["metadata"].get("deletionTimestamp") and self._evict(pod, node):
            return
        if pod["metadata"].get("deletionTimestamp"):
            if self._waited(f"{uid}/stop", STOP_SECONDS) and not pod["metadata"].get("finalizers"):
                self.api.finish(("/pods", pod["metadata"]["namespace"], pod["metadata"]["name"]))
            return
        phase = (pod.get("status") or {}).get("phase", "Pending")
        if phase == "Pending":
            waited = self._waited(f"{uid}/start", START_SECONDS)
            if self._has_images(pod, node) and waited:
                self._run(pod)
        elif phase == "Running":
            if not has(pod, "Ready"):
                self._ready(pod, ready=True)
            self._debug(pod)
            if pod["spec"].get("restartPolicy") != "Always" and self._waited(f"{uid}/run", RUN_SECONDS):
                self._end(pod)

    def _has_images(self, pod: Json, node: Json) -> bool:
        """Whether every image is there; what is not is being pulled, or its container waits."""
        pulls = {c["image"]: self.pulls.of(node, c["image"]) for c in _containers(pod)}
        missing = {image: pull for image, pull in pulls.items() if pull.reason}
        if missing:
            self._wait_for(pod, missing)
        return all(pull.reason == "" for pull in pulls.values())

    def _wait_for(self, pod: Json, missing: dict[str, Pull]) -> None:
        """Report what cannot be pulled, as the kubelet does: the error at each try, the back-off in between."""
        uid = pod["metadata"]["uid"]
        initial = {c["name"] for c in pod["spec"].get("initContainers") or []}
        blocked = [c for c in _containers(pod) if c["name"] in initial and c["image"] in missing]
        statuses = {True: [], False: []}  # type: dict[bool, list[Json]]
        for container in _containers(pod):
            is_initial = container["name"] in initial
            pull = missing.get(container["image"]) if is_initial or not blocked else None
            state = _waiting(pull, container["image"], fresh=pull is not None and self._told(uid, pull))
            statuses[is_initial].append(_not_started(container, state))

        def fill(status: Json) -> None:
            status.update(phase="Pending", containerStatuses=statuses[False])
            if statuses[True]:
                status["initContainerStatuses"] = statuses[True]
            waits = ", ".join(c["name"] for c in pod["spec"]["containers"])
            condition(status, "Initialized", "False" if blocked else "True")
            for condition_type in ("ContainersReady", "Ready"):
                condition(
                    status, condition_type, "False", "ContainersNotReady", f"containers with unready status: [{waits}]"
                )

        set_status(self.api, pod, fill)
        for image, pull in missing.items():
            key = f"{uid}/pull/{image}/{pull.failures}"
            if key in self._since:
                continue
            self._since[key] = time.monotonic()
            event(self.api, pod, "Warning", "Failed", f'Failed to pull image "{image}": {pull.reason}', "kubelet")
            event(self.api, pod, "Warning", "Failed", "Error: ErrImagePull", "kubelet")
            event(self.api, pod, "Normal", "BackOff", f'Back-off pulling image "{image}"', "kubelet")

    def _told(self, uid: str, pull: Pull) -> bool:
        """Whether a failure is new: then it is ErrImagePull for a moment, and ImagePullBackOff until the next try."""
        return not self._waited(f"{uid}/{id(pull)}", ERROR_SECONDS)

    def _run(self, pod: Json) -> None:
        address = f"10.1.{int(pod['metadata']['uid'][:2], 16)}.{1 + int(pod['metadata']['uid'][2:4], 16) % 250}"
        started = now()

        def fill(status: Json) -> None:
            status.update(phase="Running", podIP=address, podIPs=[{"ip": address}], startTime=started)
            status["containerStatuses"] = [
                {
                    "name": c["name"],
                    "image": c["image"],
                    "imageID": "",
                    "ready": True,
                    "started": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": started}},
                }
                for c in pod["spec"]["containers"]
            ]
            status.pop("initContainerStatuses", None)
            for condition_type in ("Initialized", "ContainersReady", "Ready"):
                condition(status, condition_type, "True")

        set_status(self.api, pod, fill)

    def _debug(self, pod: Json) -> None:
        """Start ephemeral containers that somebody added."""
        reported = {status["name"] for status in pod["status"].get("ephemeralContainerStatuses") or []}
        added = [c for c in pod["spec"].get("ephemeralContainers") or [] if c["name"] not in reported]
        if not added:
            return

        def fill(status: Json) -> None:
            running = {"running": {"startedAt": now()}}
            status.setdefault("ephemeralContainerStatuses", []).extend(
                {
                    "name": c["name"],
                    "image": c["image"],
                    "imageID": "",
                    "ready": False,
                    "restartCount": 0,
                    "state": running,
                }
                for c in added
            )

        set_status(self.api, pod, fill)

    def _ready(self, pod: Json, *, ready: bool) -> None:
        def fill(status: Json) -> None:
            reason = "" if ready else "NodeNotReady"
            condition(status, "Ready", "True" if ready else "False", reason)
            # as in real life the container statuses keep what the kubelet last said
            if ready:
                condition(status, "ContainersReady", "True")

        set_status(self.api, pod, fill)

    def _end(self, pod: Json) -> None:
        failed = (pod["metadata"].get("annotations") or {}).get(OUTCOME) == "failed"
        code, reason = (1, "Error") if failed else (0, "Completed")

        def fill(status: Json) -> None:
            status["phase"] = "Failed" if failed else "Succeeded"
            for container in status.get("containerStatuses") or []:
                started = container["state"].get("running", {}).get("startedAt", now())
                container.update(
                    ready=False,
                    started=False,
                    state={
                        "terminated": {"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": now()}
                    },
                )
            condition(status, "Ready", "False", "PodFailed" if failed else "PodCompleted")
            condition(status, "ContainersReady", "False", "PodFailed" if failed else "PodCompleted")

        set_status(self.api, pod, fill)

    def _lost(self, pod: Json, node: Json, *, collects: bool) -> None:
        if has(pod, "Ready"):
            self._ready(pod, ready=False)
            event(self.api, pod, "Warning", "NodeNotReady", "Node is not ready", "node-controller")
        if not pod["metadata"].get("deletionTimestamp"):
            self._evict(pod, node)
        elif collects and any(taint["key"] == OUT_OF_SERVICE for taint in _taints(node)):
            self.api.finish(("/pods", pod["metadata"]["namespace"], pod["metadata"]["name"]))

    def _evict(self, pod: Json, node: Json) -> bool:
        """Delete a pod whose toleration of its node's taints is over; say whether."""
        seconds = _tolerated_seconds(pod, node)
        mark = f"{pod['metadata']['uid']}/evict"
        if seconds is None or not alive(pod):
            self._since.pop(mark, None)
            return False
        if not self._waited(mark, seconds):
            return False
        event(self.api, pod, "Normal", "TaintManagerEviction", "Marking for deletion Pod", "taint-eviction-controller")
        remove(self.api, pod)
        return True


def _taints(node: Json) -> list[Json]:
    return list((node.get("spec") or {}).get("taints") or [])


def _tolerated_seconds(pod: Json, node: Json) -> float | None:
    """How long a pod stays on its node under the taints that evict; None: without end."""
    seconds: list[float] = []
    for taint in _taints(node):
        if taint["effect"] != "NoExecute":
            continue
        matching = [t for t in pod["spec"].get("tolerations") or [] if tolerates(taint, [t])]
        if not matching:
            # the API server adds these tolerations to every pod (DefaultTolerationSeconds)
            seconds.append(TOLERATION_SECONDS if taint["key"] in (UNREACHABLE, names.NOT_READY) else 0.0)
        seconds += [float(t["tolerationSeconds"]) for t in matching if t.get("tolerationSeconds") is not None]
    return min(seconds, default=None)


def _containers(pod: Json) -> list[Json]:
    return [*(pod["spec"].get("initContainers") or []), *pod["spec"]["containers"]]


def _waiting(pull: Pull | None, image: str, *, fresh: bool) -> Json:
    if pull is None:
        return {"reason": "PodInitializing"}
    if fresh:
        return {"reason": "ErrImagePull", "message": pull.reason}
    message = f'Back-off pulling image "{image}": ErrImagePull: {pull.reason}'
    return {"reason": "ImagePullBackOff", "message": message}


def _not_started(container: Json, waiting: Json) -> Json:
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": False,
        "started": False,
        "restartCount": 0,
        "state": {"waiting": waiting},
    }
