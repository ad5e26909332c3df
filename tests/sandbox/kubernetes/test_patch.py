"""The two patches of JSON; the examples are those of RFC 6902, appendix A, and of RFC 7396, appendix A."""

# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.patch import json_patch, merge_patch
from hyperpod_ray_sandbox.kubernetes.status import ApiError


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}), ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}), ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}), ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}), ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]), ({"a": "b"}, ["c"], ["c"]), ({"a": "foo"}, None, None),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}), ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)  # fmt: skip
def test_the_table_of_rfc_7396(target: Any, patch: Any, result: Any) -> None:
    assert merge_patch(target, patch) == result


@pytest.mark.parametrize(
    ("target", "operations", "result"),
    [
        ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}], {"foo": "bar", "baz": "qux"}),
        ({"foo": ["bar", "baz"]}, [{"op": "add", "path": "/foo/1", "value": "qux"}], {"foo": ["bar", "qux", "baz"]}),
        ({"baz": "qux", "foo": "bar"}, [{"op": "remove", "path": "/baz"}], {"foo": "bar"}),
        ({"foo": ["bar", "qux", "baz"]}, [{"op": "remove", "path": "/foo/1"}], {"foo": ["bar", "baz"]}),
        ({"baz": "qux"}, [{"op": "replace", "path": "/baz", "value": "boo"}], {"baz": "boo"}),
        ({"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
         [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}],
         {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}}),
        ({"foo": ["all", "grass", "cows", "eat"]}, [{"op": "move", "from": "/foo/1", "path": "/foo/3"}],
         {"foo": ["all", "cows", "eat", "grass"]}),
        ({"foo": ["bar"]}, [{"op": "add", "path": "/foo/-", "value": ["abc", "def"]}], {"foo": ["bar", ["abc", "def"]]}),
        ({"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], {"/": 9, "~1": 10}),
        ({"a": {"b": 1}}, [{"op": "copy", "from": "/a", "path": "/c"}], {"a": {"b": 1}, "c": {"b": 1}}),
        ({"foo": None}, [{"op": "test", "path": "/foo", "value": None}], {"foo": None}),
    ],
)  # fmt: skip
def test_the_examples_of_rfc_6902(target: Any, operations: Any, result: Any) -> None:
    before = str(target)
    assert json_patch(target, operations) == result
    assert str(target) == before, "the object that is stored stays as it is"


@pytest.mark.parametrize(
    ("operations", "code", "words"),
    [
        ([{"op": "test", "path": "/baz", "value": "bar"}], 422, "testing value /baz failed"),
        ([{"op": "test", "path": "/n", "value": "10"}], 422, "testing value /n failed"),
        ([{"op": "add", "path": "/a/b/c", "value": 1}], 422, "is not there"),
        ([{"op": "remove", "path": "/nobody"}], 422, "is not there"),
        ([{"op": "remove", "path": "/list/9"}], 422, "Unable to access invalid index: 9"),
        ([{"op": "remove", "path": "/list/x"}], 422, "not a proper array index"),
        ([{"op": "spring", "path": "/baz"}], 422, "Unexpected kind: spring"),
        ([{"op": "move", "path": "/baz"}], 422, "missing from field"),
        ([{"op": "add"}], 422, "missing path field"), ({"op": "add"}, 400, "cannot unmarshal object"),
        ([1], 400, "cannot unmarshal integer"),
        ([{"op": "test", "path": "/baz", "value": "qux"}] * 10_001, 413, "allowed maximum operations"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused(operations: Any, code: int, words: str) -> None:
    with pytest.raises(ApiError) as refusal:
        json_patch({"baz": "qux", "n": 10, "list": [1]}, operations)
    assert (refusal.value.code, words in refusal.value.message) == (code, True), refusal.value.message
