"""Expressions with formats, as the evaluator gets them."""

from __future__ import annotations

import pytest

from hyperpod_ray_sandbox.kubernetes.expressions import named_formats
from hyperpod_ray_sandbox.kubernetes.status import ApiError


@pytest.mark.parametrize(
    ("expression", "rewritten"),
    [
        ("!format.uuid().validate(self.a).hasValue()", "!format.uuid().validate(self.a).format_hasValue()"),
        ("format.named('uri').value() != '.value()'", "format.named('uri').format_value() != '.value()'"),
        ("self.?a.hasValue()", "self.?a.hasValue()"),
        ("self.a == 'format.uri()'", "self.a == 'format.uri()'"),
    ],
)
def test_methods_of_optional_values_are_renamed_beside_a_format_alone(expression: str, rewritten: str) -> None:
    assert named_formats.rewritten(expression) == rewritten


def test_optional_values_beside_a_format_are_refused_by_name() -> None:
    with pytest.raises(ApiError, match=r"does not evaluate \.\? beside format") as error:
        named_formats.rewritten("format.uri().validate(self.?a.orValue('')).hasValue()")
    assert error.value.code == 501
