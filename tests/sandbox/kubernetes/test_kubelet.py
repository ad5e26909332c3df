"""Kubelets: containers of a job end, well or not, and pods show it."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.emulator, pytest.mark.slow]
Json = dict[str, Any]


def test_jobs_complete_and_fail(cluster: Any) -> None:
    def job(name: str, **annotations: str) -> Json:
        spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"},
                "spec": {"backoffLimit": 1, "template": {"metadata": {"annotations": annotations}, "spec": spec}}}  # fmt: skip  # noqa: E501

    cluster.apply(job("good"), job("bad", **{"rehearsal.local/outcome": "failed"}))
    cluster.kubectl("wait", "--for=condition=complete", "job/good", "--timeout=600s")
    cluster.kubectl("wait", "--for=condition=failed", "job/bad", "--timeout=600s")
    assert cluster.get("job", "bad")["status"]["failed"] == 2
    cluster.kubectl("delete", "job", "good", "bad")
    cluster.until(lambda: not cluster.get("pods", "-l", "job-name")["items"], "pods gone with their jobs")
