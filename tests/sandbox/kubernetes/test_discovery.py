"""Discovery: what kubectl lists of groups, kinds, short names and columns."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.emulator


def test_get_wide_and_api_resources(cluster: Any) -> None:
    wide = cluster.kubectl("get", "nodes", "-o", "wide").stdout
    assert wide.splitlines()[0].split()[:2] == ["NAME", "STATUS"]
    assert "gpu-1" in wide
    assert "rayclusters" not in cluster.kubectl("api-resources").stdout
    assert "Number of desired pods" in cluster.kubectl("explain", "deployment.spec.replicas").stdout
    assert cluster.kubectl("auth", "can-i", "create", "pods").stdout.strip() == "yes"
