"""Server-side apply: each manager keeps what it set, and lists merge by their keys."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.sandbox.kubernetes.kubectl_helpers import deployment

pytestmark = pytest.mark.emulator


def test_server_side_apply_merges_lists_by_key(cluster: Any) -> None:
    one = deployment("ssa", "default", env=[{"name": "A", "value": "1"}, {"name": "B", "value": "1"}])
    cluster.kubectl("apply", "--server-side", "--field-manager=one", "-f", "-", stdin=yaml.safe_dump(one))
    two = deployment("ssa", "default", env=[{"name": "C", "value": "1"}])
    cluster.kubectl("apply", "--server-side", "--field-manager=two", "-f", "-", stdin=yaml.safe_dump(two))
    one["spec"]["template"]["spec"]["containers"][0]["env"].pop(0)
    cluster.kubectl("apply", "--server-side", "--field-manager=one", "-f", "-", stdin=yaml.safe_dump(one))
    container = cluster.get("deploy", "ssa")["spec"]["template"]["spec"]["containers"][0]
    assert {e["name"] for e in container["env"]} == {"B", "C"}
    cluster.kubectl("delete", "deploy", "ssa")
