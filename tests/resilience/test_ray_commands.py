"""Ray's own command line judges what `local ray` asks of it by hand; nothing is started."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.scripts.scripts import cli

from hyperpod_ray_sandbox.rehearsal.ray_hosts.cluster import Cluster


def test_a_node_is_drained_as_ray_documents_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[list[str]]()

    def run(command: list[str], **_: Any) -> Any:
        asked.append(command)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(subprocess, "run", run)
    cluster: Any = SimpleNamespace(bin=Path("/bin"), client_env=dict, _node_id=lambda _: "ab" * 28)
    Cluster.drain(cluster, SimpleNamespace(), seconds=5)  # type: ignore[arg-type]
    ((program, *words),) = asked
    assert program == "/bin/ray"
    name, *rest = words
    given = cli.commands[name].make_context(name, rest).params
    assert given["node_id"] == "ab" * 28
    assert given["reason"] == "DRAIN_NODE_REASON_PREEMPTION"
    assert given["deadline_remaining_seconds"] == 5
