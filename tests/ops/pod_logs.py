"""A pod's log as the kubelet serves it: `tailLines`, `timestamps`, and `sinceTime` in whole seconds.

Its source: kubernetes/kubernetes, pkg/kubelet/kuberuntime/logs/logs.go.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hyperpod_ray.ops.reach.clients import Json


class Pods:
    """Pods of one job, each with lines and their times."""

    def __init__(self) -> None:
        self.logs: dict[str, list[tuple[str, str]]] = {}
        self.sent: list[int] = []
        """Lines of each answer."""

    def items(self, _path: str, *, labels: str) -> list[Json]:
        """The pods, the newest last."""
        assert labels == "job-name=x"
        return [
            {"metadata": {"name": name, "creationTimestamp": str(number)}, "status": {"phase": "Running"}}
            for number, name in enumerate(self.logs)
        ]

    def text(self, path: str, *, query: Json) -> str:
        """A log."""
        lines = self.logs[path.split("/")[-2]]
        if "sinceTime" in query:
            lines = [(at, line) for at, line in lines if at[:19] >= query["sinceTime"][:19]]
        if "tailLines" in query:
            lines = lines[-query["tailLines"] :]
        self.sent.append(len(lines))
        stamped = query.get("timestamps") == "true"
        return "".join(f"{at} {line}" if stamped else line for at, line in lines)


def target_of(pods: Pods) -> Any:
    """An environment whose Kubernetes API has these pods."""
    return SimpleNamespace(kubernetes=pods)


def with_log(text: str) -> Any:
    """One whose job has printed this."""
    pods = Pods()
    pods.logs["one"] = [
        (f"2026-11-23T02:00:{number % 60:02d}.000000000Z", line)
        for number, line in enumerate(text.splitlines(keepends=True))
    ]
    return target_of(pods)
