"""What kubelets and the node lifecycle controller do to pods: start, end, and be lost with their node.

Times in real life, multiplied by `time_scale`: a container starts after 20 s; a Job's container ends after another 20
s; a deleted pod goes after 2 s; a pod on a node that does not answer is evicted after its toleration of the
unreachable taint (300 s unless it says otherwise) and then stays Terminating until the node's object goes or carries
the taint `node.kubernetes.io/out-of-service` (a node that is unreachable but whose object is kept). A container starts
when its node has the image (`pulls.py`), else it waits in ErrImagePull and ImagePullBackOff.
"""

from __future__ import annotations

import time
from typing import Any

from sandbox.kubernetes.api import Api
from sandbox.kubernetes.controllers.common import alive, condition, event, has, node_ready, remove, set_status
from sandbox.kubernetes.controllers.pulls import Pull, Pulls
from sandbox.kubernetes.times import now
from service_rules import names

Json = dict[str, Any]

START_SECONDS = 20.0
RUN_SECONDS = 20.0
STOP_SECONDS = 2.0
ERROR_SECONDS = 2.0
TOLERATION_SECONDS = 300.0
UNREACHABLE = names.UNREACHABLE
OUT_OF_SERVICE = names.OUT_OF_SERVICE
# a pod with this annotation set to "failed" ends badly: a hook for tests
OUTCOME = "rehearsal.local/outcome"


class Kubelet:
    """Moves pods through their phases."""

    def __init__(self, api: Api, time_scale: float, pulls: Pulls) -> None:
        self.api = api
        self.scale = time_scale
        self.pulls = pulls
        self._since: dict[str, float] = {}

    def _waited(self, mark: str, seconds: float) -> bool:
        """Whether so many (real-life) seconds have gone by since this was first asked."""
        return time.monotonic() - self._since.setdefault(mark, time.monotonic()) >= seconds * self.scale

    def reconcile(self) -> None:
        """One pass over the pods that have a node."""
        nodes = {n["metadata"]["name"]: n for n in self.api.all("v1", "Node")}
        self.pulls.forget({n["metadata"]["uid"] for n in nodes.values()})
        marks = set()
        for pod in self.api.all("v1", "Pod"):
            name = pod["spec"].get("nodeName")
            if not name:
                continue
            marks.add(pod["metadata"]["uid"])
            node = nodes.get(name)
            if node is None:
                # pod garbage collection: its node is no more
                self.api.finish(("/pods", pod["metadata"]["namespace"], pod["metadata"]["name"]))
            elif node_ready(node):
                self._served(pod, node)
            else:
                self._lost(pod, node)
        for mark in [m for m in self._since if m.split("/")[0] not in marks]:
            del self._since[mark]

    def _served(self, pod: Json, node: Json) -> None:
        uid = pod["metadata"]["uid"]
        self._since.pop(f"{uid}/evict", None)
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
            first = container["name"] in initial
            pull = missing.get(container["image"]) if first or not blocked else None
            state = _waiting(pull, container["image"], fresh=pull is not None and self._told(uid, pull))
            statuses[first].append(_not_started(container, state))

        def fill(status: Json) -> None:
            status.update(phase="Pending", containerStatuses=statuses[False])
            if statuses[True]:
                status["initContainerStatuses"] = statuses[True]
            waits = ", ".join(c["name"] for c in pod["spec"]["containers"])
            condition(status, "Initialized", "False" if blocked else "True")
            for kind in ("ContainersReady", "Ready"):
                condition(status, kind, "False", "ContainersNotReady", f"containers with unready status: [{waits}]")

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
            for kind in ("Initialized", "ContainersReady", "Ready"):
                condition(status, kind, "True")

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
        bad = (pod["metadata"].get("annotations") or {}).get(OUTCOME) == "failed"
        code, reason = (1, "Error") if bad else (0, "Completed")

        def fill(status: Json) -> None:
            status["phase"] = "Failed" if bad else "Succeeded"
            for container in status.get("containerStatuses") or []:
                started = container["state"].get("running", {}).get("startedAt", now())
                container.update(
                    ready=False,
                    started=False,
                    state={
                        "terminated": {"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": now()}
                    },
                )
            condition(status, "Ready", "False", "PodFailed" if bad else "PodCompleted")
            condition(status, "ContainersReady", "False", "PodFailed" if bad else "PodCompleted")

        set_status(self.api, pod, fill)

    def _lost(self, pod: Json, node: Json) -> None:
        taints = (node.get("spec") or {}).get("taints") or []
        if has(pod, "Ready"):
            self._ready(pod, ready=False)
            event(self.api, pod, "Warning", "NodeNotReady", "Node is not ready", "node-controller")
        if pod["metadata"].get("deletionTimestamp"):
            if any(t["key"] == OUT_OF_SERVICE for t in taints):
                self.api.finish(("/pods", pod["metadata"]["namespace"], pod["metadata"]["name"]))
            return
        if not alive(pod) or not any(t["key"] == UNREACHABLE and t["effect"] == "NoExecute" for t in taints):
            return
        if any(t["key"] == OUT_OF_SERVICE for t in taints):
            remove(self.api, pod)
            return
        seconds: float | None = TOLERATION_SECONDS
        for toleration in pod["spec"].get("tolerations") or []:
            if toleration.get("key") in (None, "", UNREACHABLE) and toleration.get("effect") in (None, "", "NoExecute"):
                seconds = toleration.get("tolerationSeconds")  # without one: forever
        if seconds is not None and self._waited(f"{pod['metadata']['uid']}/evict", float(seconds)):
            event(
                self.api, pod, "Normal", "TaintManagerEviction", "Marking for deletion Pod", "taint-eviction-controller"
            )
            remove(self.api, pod)


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
