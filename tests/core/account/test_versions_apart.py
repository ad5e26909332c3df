"""The kubectl that applies manifests is at most one minor version older or newer than the cluster.

https://kubernetes.io/releases/version-skew-policy/#kubectl
"""

from __future__ import annotations

import pytest

from hyperpod_ray.core.checks.account.cluster import _version
from tests.core.environment_files import plan
from tests.core.rule_cases import CLUSTER, EXISTING


@pytest.mark.parametrize(
    ("written", "actual", "said"),
    [
        ("1.35", "1.35", []),
        ("1.34", "1.35", ["warning"]),
        ("1.35", "1.34", ["warning"]),
        ("1.33", "1.35", ["error"]),
        ("1.35", "1.33", ["error"]),
    ],
)
def test_versions(written: str, actual: str, said: list[str]) -> None:
    existing = plan({**EXISTING, "eks/existing": CLUSTER, "eks/version": written})
    findings = _version(existing, {"name": "shared", "version": actual})
    assert [finding.severity for finding in findings] == said
