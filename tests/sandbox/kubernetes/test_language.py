"""Expressions: what the evaluator answers, and what no evaluator here has is refused by name."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.expressions import language
from hyperpod_ray_sandbox.kubernetes.status import ApiError
from tests.sandbox.kubernetes.conftest import PROJECT, PYTHON

SPEC: dict[str, Any] = {
    "minReplicas": 1, "replicas": 3, "maxReplicas": 5, "names": ["a", "b"], "health": "ok", "widgets": [{"foo": 4}],
    "stock": {"apple": 2},
}  # fmt: skip
EXPRESSIONS: list[tuple[str, Any]] = [
    ("self.minReplicas <= self.replicas && self.replicas <= self.maxReplicas", True),
    ("self.names.exists(n, n == 'b')", True),
    ("self.widgets.all(w, w.foo < 4)", False),
    ("has(self.nobody) ? self.nobody > 1 : true", True),
    ("'apple' in self.stock && self.stock['apple'] > 1", True),
    ("self.health.startsWith('o')", True),
    ("size(self.names) == 2", True),
]
"""After the examples of https://kubernetes.io/docs/reference/using-api/cel/#cel-options-language-features-and-libraries"""
SCRIPT = """
import json, sys
from hyperpod_ray_sandbox.kubernetes.expressions import language
data, expressions = json.loads(sys.stdin.read())
print(json.dumps([language.evaluate(expression, {"self": data}) for expression in expressions]))
"""


@pytest.mark.emulator
def test_documented_examples_have_their_answers(tools: None) -> None:
    expressions = [expression for expression, _ in EXPRESSIONS]
    done = subprocess.run(
        [PYTHON, "-c", SCRIPT], cwd=PROJECT, input=json.dumps([SPEC, expressions]),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert dict(zip(expressions, json.loads(done.stdout), strict=True)) == dict(EXPRESSIONS)


@pytest.mark.parametrize(
    ("expression", "refused"),
    [("self.all(i, v, i < v)", True), ("self.name == 'a.all(i, v, true)'", False), ("self.size > 1", False)],
)  # fmt: skip
def test_what_is_not_evaluated_is_refused_and_a_text_about_it_is_not(expression: str, refused: bool) -> None:
    """A wrong verdict would be worse than none."""
    if not refused:
        language.refuse_unserved(expression)
        return
    with pytest.raises(ApiError, match=r"the sandbox does not evaluate \.all") as error:
        language.refuse_unserved(expression)
    assert error.value.code == 501
