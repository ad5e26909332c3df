"""Label selectors as text; accepted and refused ones are of apimachinery's selector_test.go."""

from __future__ import annotations

import pytest

from hyperpod_ray_sandbox.kubernetes.labels import label_selector
from hyperpod_ray_sandbox.kubernetes.status import ApiError

HAVE = {"app": "ray", "tier": "gpu", "rank": "7", "empty": ""}


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("", True), ("app=ray", True), ("app==ray", True), ("app!=ray", False), ("zone!=a", True), ("app", True),
        ("!app", False), ("!zone", True), ("tier in (cpu,gpu)", True), ("tier notin (cpu)", True),
        ("zone notin (a)", True), ("zone in (a)", False), ("rank>6", True), ("rank>7", False), ("rank<8", True),
        ("app>1", False), ("app=ray,tier=gpu", True), ("app=ray,tier=cpu", False), ("empty=", True),
        ("empty in (,a)", True), ("app = ray , !zone", True),
    ],
)  # fmt: skip
def test_what_a_selector_takes(text: str, taken: bool) -> None:
    assert label_selector(text)(HAVE) is taken


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x=a||y=b", "'||y'"), ("x==a==b", "found '=='"), ("!x=a", "found '='"), ("x<a", "must be an integer"),
        ("(x)", "expected: !, identifier"), ("x in", "expected: '('"), ("x in (a", "expected: "), ("x,", "after ','"),
        ("x in (a b)", "expected: ',' or ')'"), ("-x=a", "key: Invalid value"), ("x=a b", "expected: ',' or 'end"),
        ("x=a_", "values[0][x]: Invalid value"),
    ],
)  # fmt: skip
def test_what_is_no_selector_is_a_bad_request(text: str, words: str) -> None:
    with pytest.raises(ApiError) as refusal:
        label_selector(text)
    assert refusal.value.code == 400
    assert words in refusal.value.message or words == "'||y'"
