"""Strategic merge patches, by the examples of Kubernetes' own page.

https://github.com/kubernetes/community/blob/master/contributors/devel/sig-api-machinery/strategic-merge-patch.md
"""

# ruff: noqa: E501  (a row is one line, to be read across)

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.status import ApiError
from hyperpod_ray_sandbox.kubernetes.strategic import strategic_merge

Json = dict[str, Any]
BY_NAME = {"x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"}
CONTAINER: Json = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "image": {"type": "string"}, "args": {"type": "array", "items": {"type": "string"}}},
}  # fmt: skip
SCHEMA: Json = {
    "type": "object",
    "properties": {
        "containers": {"type": "array", "items": CONTAINER, **BY_NAME},
        "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"},
        "tolerations": {"type": "array", "items": {"type": "object"}},
        "strategy": {"type": "object", "x-kubernetes-patch-strategy": "retainKeys", "properties": {"type": {}, "rollingUpdate": {}}},
        "replaced": {"type": "object", "x-kubernetes-patch-strategy": "replace"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}  # fmt: skip
NGINX, LOGS = {"name": "nginx", "image": "nginx-1.0"}, {"name": "log-tailer", "image": "log-tailer-1.0"}
MERGED: dict[str, tuple[Json, Json, Json]] = {
    "a list merges by its key": (
        {"containers": [NGINX]}, {"containers": [LOGS]}, {"containers": [LOGS, NGINX]},
    ),
    "an element of a list changes": (
        {"containers": [NGINX, LOGS]}, {"containers": [{"name": "nginx", "image": "2"}]},
        {"containers": [{"name": "nginx", "image": "2"}, LOGS]},
    ),
    "an element goes": (
        {"containers": [NGINX, LOGS]}, {"containers": [{"name": "nginx", "$patch": "delete"}]}, {"containers": [LOGS]},
    ),
    "a list is replaced": (
        {"containers": [NGINX]}, {"containers": [LOGS, {"$patch": "replace"}]}, {"containers": [LOGS]},
    ),
    "an order is set": (
        {"containers": [NGINX, LOGS]}, {"$setElementOrder/containers": [{"name": "log-tailer"}, {"name": "nginx"}]},
        {"containers": [LOGS, NGINX]},
    ),
    "values merge as a set": (
        {"finalizers": ["a", "b"]}, {"finalizers": ["b", "c"]}, {"finalizers": ["a", "b", "c"]},
    ),
    "values go": (
        {"finalizers": ["a", "b", "c"]}, {"$deleteFromPrimitiveList/finalizers": ["a", "c"]}, {"finalizers": ["b"]},
    ),
    "a list without a strategy is replaced": (
        {"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}, {"tolerations": [{"key": "b"}]},
    ),
    "a map merges": ({"labels": {"a": "1", "b": "2"}}, {"labels": {"b": "3"}}, {"labels": {"a": "1", "b": "3"}}),
    "null deletes": ({"labels": {"a": "1", "b": "2"}}, {"labels": {"a": None}}, {"labels": {"b": "2"}}),
    "a map is replaced": ({"labels": {"a": "1"}}, {"labels": {"$patch": "replace", "b": "2"}}, {"labels": {"b": "2"}}),
    "a map is emptied": ({"labels": {"a": "1"}}, {"labels": {"$patch": "delete"}}, {"labels": {}}),
    "a map whose strategy is to replace": ({"replaced": {"a": 1}}, {"replaced": {"b": 2}}, {"replaced": {"b": 2}}),
    "keys are retained": (
        {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
        {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}, {"strategy": {"type": "Recreate"}},
    ),
    "nothing": ({"labels": {"a": "1"}}, {}, {"labels": {"a": "1"}}),
    "into nothing": ({}, {"containers": [NGINX], "labels": {"a": None}}, {"containers": [NGINX], "labels": {}}),
}  # fmt: skip


@pytest.mark.parametrize("name", MERGED)
def test_an_example_of_the_page(name: str) -> None:
    target, patch, merged = MERGED[name]
    before = str((target, patch))
    result = strategic_merge(target, patch, SCHEMA)
    if name == "a list merges by its key":  # the page leaves the order open
        assert sorted(result["containers"], key=str) == sorted(merged["containers"], key=str)
    else:
        assert result == merged
    assert str((target, patch)) == before, "neither is changed"


@pytest.mark.parametrize(
    ("patch", "code", "words"),
    [
        ([], 400, "cannot unmarshal list"),
        ({"labels": {"$patch": "merge?"}}, 500, "unknown patch type: merge?"),
        ({"containers": [{"image": "x"}]}, 500, "does not contain declared merge key: name"),
        ({"containers": [{"name": "x", "$patch": "merge"}]}, 500, "merging lists cannot yet be specified"),
        ({"strategy": {"$retainKeys": ["type"], "rollingUpdate": {}}}, 400, "retainKeys"),
        ({"$deleteFromPrimitiveList/finalizers": "a"}, 400, "primitive list"),
        ({"$setElementOrder/containers": "x"}, 500, "expected a list"),
        ({"finalizers": ["a", 1]}, 500, "list element types are not identical"),
        (
            {"$setElementOrder/containers": [{"name": "a"}, {"name": "b"}], "containers": [{"name": "b"}, {"name": "a"}]},
            500, "doesn't match",
        ),
    ],
)  # fmt: skip
def test_a_patch_that_contradicts_itself_is_refused(patch: Any, code: int, words: str) -> None:
    target = {"labels": {}, "containers": [NGINX], "strategy": {"type": "RollingUpdate"}, "finalizers": ["a"]}
    with pytest.raises(ApiError, match=words.replace("?", r"\?")) as refused:
        strategic_merge(target, patch, SCHEMA)
    assert refused.value.code == code
