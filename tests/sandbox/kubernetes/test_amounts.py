from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.amounts import quality

Json = dict[str, Any]


LIMITS = {"cpu": "4", "memory": "16Gi"}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": LIMITS}, "Burstable"),
        ({"limits": LIMITS}, "Guaranteed"),
        ({"limits": LIMITS, "requests": LIMITS}, "Guaranteed"),
        ({"limits": LIMITS, "requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "4"}}, "Burstable"),
    ],
)
def test_quality_of_service(resources: Json, expected: str) -> None:
    assert quality({"containers": [{"resources": resources}]}) == expected
    beside = "Burstable" if expected == "Guaranteed" else expected
    assert quality({"containers": [{"resources": resources}, {}]}) == beside
