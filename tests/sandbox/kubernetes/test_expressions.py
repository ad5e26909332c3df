"""Types and costs of expressions, against what a Kubernetes 1.36.2 API server said of the same ones.

Each expression stood as a rule on the items of a list. The server named its cost, as a factor of the limit, or refused
its types.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray_sandbox.aws import paths

ANSWERS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("expression_answers.yaml").read_text())

PROGRAM = """
import json, sys
from hyperpod_ray_sandbox.kubernetes.expressions import costs, declared, language
request = json.load(sys.stdin)
root = declared.of_schema(request["schema"], root=False)
answers = {}
for expression in request["expressions"]:
    try:
        checked = language.check(expression, {"self": root, "oldSelf": root})
        answers[expression] = costs.most(checked, root)
    except ValueError as error:
        answers[expression] = str(error)
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def judged() -> dict[str, Any]:
    """Ours, from the interpreter that has the evaluator."""
    expressions = [*ANSWERS["costs"], *ANSWERS["refused"]]
    ended = subprocess.run(
        [str(paths.PYTHON), "-c", PROGRAM],
        input=json.dumps({"schema": ANSWERS["schema"], "expressions": expressions}),
        cwd=paths.ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    answers: dict[str, Any] = json.loads(ended.stdout)
    return answers


def test_costs_are_those_of_a_real_server(judged: dict[str, Any]) -> None:
    assert {expression: judged[expression] for expression in ANSWERS["costs"]} == ANSWERS["costs"]


@pytest.mark.parametrize("expression", ANSWERS["refused"])
def test_what_a_real_server_refuses_is_refused_with_its_words(expression: str, judged: dict[str, Any]) -> None:
    assert ANSWERS["refused"][expression] in str(judged[expression])
