from __future__ import annotations

from typing import Any

from tests.core.account.good import NEW
from tests.ops.ops_preflight_support_helpers import asked


def links(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"storage/data_repositories": list(entries)}


def test_linked_buckets_are_near() -> None:
    near, far = {"bucket": "near", "path": "/a"}, {"bucket": "far", "path": "/b"}
    there = {"buckets": {"near": "us-west-2", "far": "eu-west-1"}}
    assert asked("buckets", NEW, {})[0].severity == "skipped"
    found = asked("buckets", links(near, far), there)
    assert {(one.severity, one.message.partition(" ")[0]) for one in found} == {("fine", "near"), ("error", "far")}
    assert any("imports automatically from" in one.message for one in found)
    exported = {**far, "auto_import": []}
    assert [one.severity for one in asked("buckets", links(exported), there)] == ["fine"]
