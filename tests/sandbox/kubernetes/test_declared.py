"""How much of a schema's type a request can hold at most, by the figures of Kubernetes' own test.

Source: k8s.io/apiserver, pkg/cel/common/schemas_test.go, TestEstimateMaxLengthJSON. A request has three MiB at most.
"""

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.expressions import declared

Json = dict[str, Any]
TEXT: Json = {"type": "string"}


def list_of(**items: Any) -> Json:
    return {"type": "array", "items": items}


@pytest.mark.parametrize(
    ("schema", "most"),
    [
        (list_of(type="boolean"), 629_145),
        (list_of(type="string", format="duration"), 786_431),
        (list_of(type="string", format="date-time"), 142_987),
        (list_of(type="string", format="date"), 241_978),
        (list_of(type="integer"), 1_572_863),
        (list_of(type="string"), 1_048_575),
        ({"type": "object", "additionalProperties": TEXT}, 393_215),
        (list_of(type="object", properties={"required": TEXT, "optional": TEXT}, required=["required"]), 185_042),
        (list_of(type="object", properties={"field": {**TEXT, "default": "default"}}, required=["field"]), 1_048_575),
        ({**list_of(type="integer", format="int64"), "maxItems": 10}, 10),
        ({**TEXT, "maxLength": 20}, 80),
        ({"type": "object", "additionalProperties": TEXT, "maxProperties": 15}, 15),
        ({"x-kubernetes-int-or-string": True}, 3_145_726),
        ({**TEXT, "format": "byte"}, 3_145_726),
        ({**TEXT, "format": "byte", "maxLength": 20}, 20),
    ],
)  # fmt: skip
def test_a_request_holds_so_many_at_most(schema: Json, most: int) -> None:
    declaration = declared.of_schema(schema, root=False)
    assert declaration is not None
    assert declaration.bound == most
