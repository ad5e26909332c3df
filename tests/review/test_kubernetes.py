from __future__ import annotations

from dataclasses import replace

import pytest

from hyperpod_ray.review.assembly import Key
from hyperpod_ray.review.effects import kubernetes
from hyperpod_ray.review.findings import Findings
from hyperpod_ray.review.kubernetes import Release
from tests.review.parts_helpers import Json

RELEASE = Release(
    name="kuberay", namespace="kuberay-operator", chart="kuberay-operator", version="1.7.0", content="abc",
    values={"a": 1}, where="Platform/Kuberay", key=Key("A", "Release"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("after", "change", "crds"),
    [
        ({"version": "1.8.0"}, "kuberay-operator 1.7.0 → 1.8.0", True),
        ({"version": "1.8.0", "content": "def"}, "kuberay-operator 1.7.0 → 1.8.0", True),
        ({"chart": "other"}, "kuberay-operator 1.7.0 → other 1.7.0", True),
        ({"values": {"a": 2}}, "values: a", False),
        ({"content": "def"}, "content of chart kuberay-operator 1.7.0", True),
        ({"version": "1.8.0", "values": {"a": 2}}, "kuberay-operator 1.7.0 → 1.8.0; values: a", True),
        ({"chart": "?", "version": "?"}, "kuberay-operator 1.7.0 → a chart that was not fetched", True),
        ({"where": "elsewhere"}, None, False),
    ],
)
def test_what_an_upgrade_of_a_release_is(after: Json, change: str | None, crds: bool) -> None:
    """https://helm.sh/docs/chart_best_practices/custom_resource_definitions/"""
    findings = Findings()
    kubernetes._release(RELEASE, replace(RELEASE, **after), findings)
    assert [row.change for row in findings.rows] == ([] if change is None else [change])
    assert ["Helm does not upgrade CRDs" in row.consequence for row in findings.rows] == (
        [] if change is None else [crds]
    )
