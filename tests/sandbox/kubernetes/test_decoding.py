"""Bodies of requests: what they hold, and which fields they give twice."""

from __future__ import annotations

import pytest

from hyperpod_ray_sandbox.kubernetes import decoding


@pytest.mark.parametrize(
    ("body", "value", "doubled"),
    [
        (b"", None, []),
        (b'{"a": 1, "b": [{"c": 2}]}', {"a": 1, "b": [{"c": 2}]}, []),
        (b'{"a": 1, "a": 2}', {"a": 2}, ["a"]),
        (b'{"spec": {"n": 1, "n": 1}, "list": [{}, {"x": 1, "x": 2, "x": 3}]}', None, ["spec.n", "list[1].x"]),
    ],
)
def test_json_says_which_fields_it_gives_twice(body: bytes, value: object, doubled: list[str]) -> None:
    read, paths = decoding.read(body)
    assert paths == doubled
    assert value is None or read == value


def test_yaml_keeps_days_as_text_and_keys_as_kubernetes_reads_them() -> None:
    read, paths = decoding.read_yaml(b"day: 2026-11-27\n8: port\nbase: &b {x: 1}\nown: {<<: *b, y: 2}\n")
    assert read == {"day": "2026-11-27", "8": "port", "base": {"x": 1}, "own": {"x": 1, "y": 2}}
    assert paths == []


def test_yaml_that_is_json_and_yaml_of_several_documents() -> None:
    assert decoding.read_yaml(b'{"a": 1, "a": 2}') == ({"a": 2}, ["a"])
    assert decoding.read_yaml(b"a: 1\n---\nb: 2\n") == ({"a": 1}, [])
    assert decoding.read_yaml(b"a: 1\na: 2\n")[1] == ["a"]
