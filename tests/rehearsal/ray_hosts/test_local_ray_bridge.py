from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_sandbox.rehearsal.ray_hosts.bridge import Kubernetes, bridge
from hyperpod_ray_sandbox.rehearsal.ray_hosts.cluster import Cluster
from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError


def test_no_job_is_led_to_the_machine_s_own_shared_file_system(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sent: list[str] = []

    class Api(Kubernetes):
        def __init__(self) -> None:
            pass

        def request(self, method: str, path: str, body: Any, *, content_type: str = "application/json") -> None:
            sent.append(path)

    for writable in (False, True):
        monkeypatch.setattr(os, "access", lambda path, mode, answer=writable: answer)
        if cluster.state.mode == "session" and writable:
            with pytest.raises(LocalError, match="would write to this machine's own /fsx"):
                bridge(cluster, Api())
        else:
            assert "leads to" in bridge(cluster, Api())
    assert sent.count("/rehearsal/bridges") == (1 if cluster.state.mode == "session" else 2)
