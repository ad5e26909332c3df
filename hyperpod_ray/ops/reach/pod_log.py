"""The log of a job on a RayCluster of its own: that of the pod which submitted it, and prints what the driver prints.

A log of weeks has gigabytes. To follow one asks for the lines since the last; what looks for its end asks for that.
https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#get-read-log-of-the-specified-pod
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass

from hyperpod_ray.ops.in_ray import runs as reader
from hyperpod_ray.ops.reach.clients import Json, Target

REPORT_LINES = 5_000
"""Lines from the end that are searched for a report before the whole log is."""
STAMPED = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+\S+) (.*)", re.DOTALL)
"""A line with `timestamps=true`: the kubelet writes all nine digits of the second."""


def text_of(target: Target, name: str, *, namespace: str, lines: int | None = None) -> str:
    """The log, or its last lines, without the run's reports; empty where the job does not run yet."""
    pod = _pod(target, name, namespace=namespace)
    return _without_reports(_read(target, pod, namespace=namespace, lines=lines)) if pod else ""


def report_of(target: Target, name: str, *, namespace: str) -> Json | None:
    """The newest report of the run folder in the log; None where there is none."""
    pod = _pod(target, name, namespace=namespace)
    for lines in (REPORT_LINES, None) if pod else ():
        text = _read(target, pod, namespace=namespace, lines=lines)
        for line in reversed(text.splitlines()):
            if line.startswith(reader.MARK):
                with contextlib.suppress(ValueError):  # one that is being written
                    (report,) = json.loads(line.removeprefix(reader.MARK))
                    return dict(report)
        if lines is not None and text.count("\n") < lines:
            return None  # that was the whole log
    return None


@dataclass(kw_only=True)
class Follower:
    """Reads a log in portions.

    Args:
        pod: Whose log was read last; a retry of the job has a new one.
        at: Time of the last line, as the kubelet writes it.
        seen: Lines of that time.
    """

    pod: str = ""
    at: str = ""
    seen: int = 0

    def more(self, target: Target, name: str, *, namespace: str) -> str:
        """What came since the last call, without the run's reports."""
        pod = _pod(target, name, namespace=namespace)
        if not pod:
            return ""
        if pod != self.pod:
            self.pod, self.at, self.seen = pod, "", 0
        fresh, to_skip = [], self.seen
        for line in _lines(_read(target, pod, namespace=namespace, since=self.at)):
            stamped = STAMPED.fullmatch(line)
            if stamped is None or stamped[1] < self.at:
                continue
            if stamped[1] > self.at:
                self.at, self.seen, to_skip = stamped[1], 0, 0
            if to_skip:
                to_skip -= 1
                continue
            self.seen += 1
            fresh.append(stamped[2])
        return _without_reports("".join(fresh))


def _lines(text: str) -> list[str]:
    """Lines with their ends; what a progress bar writes behind a carriage return is none."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _without_reports(text: str) -> str:
    return "".join(line for line in _lines(text) if not line.startswith(reader.MARK))


def _pod(target: Target, name: str, *, namespace: str) -> str:
    """The newest submitter that has begun; empty where there is none."""
    pods = target.kubernetes.items(f"/api/v1/namespaces/{namespace}/pods", labels=f"job-name={name}")
    begun = [pod for pod in pods if (pod.get("status") or {}).get("phase") in ("Running", "Succeeded", "Failed")]
    if not begun:
        return ""
    newest = max(begun, key=lambda pod: str(pod["metadata"].get("creationTimestamp") or ""))
    return str(newest["metadata"]["name"])


def _read(target: Target, pod: str, *, namespace: str, lines: int | None = None, since: str | None = None) -> str:
    """A log, or its last lines; with `since`, lines from that time on, each behind its time."""
    query: Json = {"tailLines": lines} if lines is not None else {}
    if since is not None:
        query["timestamps"] = "true"
        query |= {"sinceTime": since} if since else {}
    try:
        return target.kubernetes.text(f"/api/v1/namespaces/{namespace}/pods/{pod}/log", query=query)
    except Exception as error:
        if getattr(error, "status", None) in (400, 404):
            return ""  # its container has not begun, or the pod is gone
        raise
