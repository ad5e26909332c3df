"""Documents: the version that clients ask for first."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = pytest.mark.emulator


def test_says_what_it_is(cluster: Any) -> None:
    version = json.loads(cluster.kubectl("version", "-o", "json").stdout)["serverVersion"]["gitVersion"]
    assert version.startswith("v1.35.")
    assert version.endswith("+rehearsal")
