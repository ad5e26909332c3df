"""A second opinion on policies: MiniStack's evaluator, in its own environment, beside `tests.support.iam`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.support.iam import Request

PYTHON = Path(__file__).resolve().parents[2] / ".venv-emulator" / "bin" / "python"
PROGRAM = """
import json, sys
from ministack.core import iam_evaluator as iam

decisions = []
for statements, action, resource, context in json.load(sys.stdin):
    asked = iam.EvalContext(
        principal_arn="arn:aws:sts::111122223333:assumed-role/r/s", principal_type="AssumedRole",
        principal_account="111122223333", action=action, resource_arn=resource, region="us-west-2",
        service_context={key.lower(): value for key, value in context.items()},
    )
    parsed = iam.parse_policy_document({"Version": "2012-10-17", "Statement": statements})
    decisions.append(iam.evaluate(asked, [parsed]).decision == "Allow")
json.dump(decisions, sys.stdout)
"""


def decisions(asked: Iterable[tuple[Sequence[Any], Request]]) -> list[bool]:
    """Whether each request is allowed by its statements."""
    rows = [
        (list(statements), request.action, request.resource, dict(request.context)) for statements, request in asked
    ]
    answer = subprocess.run(
        [PYTHON, "-c", PROGRAM], input=json.dumps(rows), capture_output=True, text=True, check=True, timeout=600
    )
    decided: list[bool] = json.loads(answer.stdout)
    assert len(decided) == len(rows)
    return decided
