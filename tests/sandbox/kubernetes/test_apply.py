"""Patches: apply is three-way, a conflict is named with its manager, and force takes the field."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.sandbox.kubernetes.kubectl_helpers import config_map

pytestmark = pytest.mark.emulator


def test_apply_is_three_way_and_conflicts_are_told(cluster: Any) -> None:
    cluster.apply(config_map("c", "default", a="1", b="1"))
    cluster.kubectl("annotate", "cm", "c", "by=hand")
    cluster.apply(config_map("c", "default", a="2"))
    found = cluster.get("cm", "c")
    assert found["data"] == {"a": "2"}
    assert found["metadata"]["annotations"]["by"] == "hand"
    conflict = cluster.kubectl(
        "apply",
        "--server-side",
        "--field-manager=other",
        "-f",
        "-",
        stdin=yaml.safe_dump(config_map("c", "default", a="3")),
        ok=False,
    )
    assert 'conflict with "kubectl-client-side-apply"' in conflict.stderr
    cluster.kubectl(
        "apply",
        "--server-side",
        "--force-conflicts",
        "--field-manager=other",
        "-f",
        "-",
        stdin=yaml.safe_dump(config_map("c", "default", a="3", z="1")),
    )
    cluster.kubectl(
        "apply",
        "--server-side",
        "--field-manager=other",
        "-f",
        "-",
        stdin=yaml.safe_dump(config_map("c", "default", a="3")),
    )
    assert cluster.get("cm", "c")["data"] == {"a": "3"}  # z was other's alone, so it went
    stale = cluster.get("cm", "c")
    cluster.kubectl("label", "cm", "c", "x=y")
    refused = cluster.kubectl("replace", "-f", "-", stdin=json.dumps(stale), ok=False)
    assert "the object has been modified" in refused.stderr
    cluster.kubectl("delete", "cm", "c")
