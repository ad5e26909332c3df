"""Schemas of custom kinds in the words of the API server."""

# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes import json_schema


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": ["size"], "properties": {"size": {"type": "integer"}, **properties}}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"size": 1}, ""), ({}, "Required value"), ({"size": "1"}, 'size in body must be of type integer: "string"'),
        ({"size": 1, "port": True}, 'port in body must be of type integer,string: "boolean"'),
        ({"size": 1, "port": "http"}, ""), ({"size": 1, "color": "red"}, 'Unsupported value: "red": supported values: "blue"'),
        ({"size": 1, "maybe": None}, ""), ({"size": 1, "share": 1}, "Invalid value"), ({"size": 1, "share": 0.5}, ""),
    ],
)  # fmt: skip
def test_why_a_value_is_not_of_the_schema(value: Any, words: str) -> None:
    declared = schema(
        port={"x-kubernetes-int-or-string": True},
        color={"type": "string", "enum": ["blue"]},
        maybe={"type": "string", "nullable": True},
        share={"type": "number", "maximum": 1, "exclusiveMaximum": True},
    )
    why = json_schema.mismatch(declared, value)
    assert (why == "") == (words == "") and words in why, why


def test_a_path_reads_as_the_server_writes_it() -> None:
    assert json_schema.dotted(["spec", "containers", 0, "name"]) == "spec.containers[0].name"
    assert json_schema.dotted([]) == ""


def test_types_have_their_names_in_json() -> None:
    values: tuple[Any, ...] = (True, None, {}, [], "a", 1, 1.5)
    assert [json_schema.json_type(value) for value in values] == [
        "boolean", "null", "object", "array", "string", "integer", "number",
    ]  # fmt: skip
