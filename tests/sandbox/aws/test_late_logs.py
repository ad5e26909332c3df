"""A late line of a function whose log group went: the group comes back on AWS, unless the role is denied that."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray_sandbox.aws.emulator import lambdas

ROLE = "arn:aws:iam::1:role/r"
DENY = {"Statement": [{"Effect": "Deny", "Action": "logs:CreateLogGroup", "Resource": "*"}]}
ALLOW = {"Statement": {"Effect": "Allow", "Action": "logs:*", "Resource": "*"}}


@pytest.mark.parametrize(
    ("groups", "role", "comes"),
    [
        (["own"], {"InlinePolicies": {"p": DENY}}, True),
        ([], {"InlinePolicies": {"p": ALLOW}}, True),
        ([], {"InlinePolicies": {}}, True),
        ([], {"InlinePolicies": {"p": DENY}}, False),
        ([], None, False),
    ],
)
def test_a_late_line(groups: list[str], role: Any, comes: bool) -> None:
    emitted: list[Any] = []
    hooks = SimpleNamespace(
        lambda_svc=SimpleNamespace(_emit_lambda_logs=lambda function, *_: emitted.append(function)),
        cloudwatch_logs=SimpleNamespace(_log_groups=dict.fromkeys(groups)),
        iam=SimpleNamespace(_roles={"r": role} if role else {}),
    )
    lambdas.deliver_late_logs(SimpleNamespace(hooks=hooks))  # type: ignore[arg-type]
    function = {"FunctionName": "f", "Role": ROLE, "LoggingConfig": {"LogGroup": "own"}}
    hooks.lambda_svc._emit_lambda_logs({"config": function}, "request", "text")
    assert bool(emitted) is comes
