"""A custom resource fails at once where its own function died, and only there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray_sandbox.aws.emulator import lambdas

TOKEN = "arn:aws:lambda:us-west-2:1:function:on-event"
ERROR = {"error": True, "body": {"errorType": "Runtime.HandlerError", "errorMessage": "no"}}


@pytest.mark.parametrize(
    ("function", "url", "result", "fails"),
    [
        ("on-event", "http://localhost/_ministack/cfn-response/7", ERROR, True),
        ("on-event", "http://localhost/_ministack/cfn-response/7", {"body": {}}, False),
        # a waiter's function fails until the resource is complete, and Step Functions calls it again
        ("is-complete", "http://localhost/_ministack/cfn-response/7", ERROR, False),
        ("on-event", "...", ERROR, False),
    ],
)
def test_who_answers_for_a_function_that_failed(function: str, url: str, result: Any, *, fails: bool) -> None:
    answers: list[tuple[str, Any]] = []
    hooks = SimpleNamespace(
        lambda_svc=SimpleNamespace(_execute_function_with_config_scope=lambda _function, _event: result),
        custom_resource=SimpleNamespace(deliver_response=lambda token, answer: answers.append((token, answer))),
    )
    lambdas.fail_fast(SimpleNamespace(hooks=hooks))  # type: ignore[arg-type]
    event = {"ResponseURL": url, "ResourceType": "Custom::Any", "ResourceProperties": {"ServiceToken": TOKEN}}
    record = {"config": {"FunctionArn": TOKEN.replace("on-event", function)}}
    assert hooks.lambda_svc._execute_function_with_config_scope(record, event) == result
    assert [token for token, _ in answers] == (["7"] if fails else [])


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
