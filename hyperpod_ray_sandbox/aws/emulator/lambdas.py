"""Lambda functions run as processes of this machine: what goes wrong there must not hang a stack.

A function that dies never answers its ResponseURL, and CloudFormation would wait an hour for it.
"""

from __future__ import annotations

import io
import json
import shutil
import threading
import zipfile
from typing import Any

from hyperpod_ray_sandbox.aws.emulator.context import Context

Json = dict[str, Any]
RESPONSE_PATH = "/_ministack/cfn-response/"


def fail_fast(context: Context) -> None:
    """Answer FAILED at once for a custom resource whose function died; run kubectl handlers one at a time."""
    lambdas, custom = context.hooks.lambda_svc, context.hooks.custom_resource
    original = lambdas._execute_function_with_config_scope
    # CDK's kubectl handler keeps its files under fixed names: each real Lambda has a /tmp of its own
    kubectl = threading.Lock()

    def execute(function: Json, event: Any) -> Any:
        request = event if isinstance(event, dict) else {}
        url = str(request.get("ResponseURL", ""))
        # the provider framework calls the handler with the same event, the ResponseURL blanked out
        handler = str(request.get("ResourceType", "")).startswith("Custom::AWSCDK-EKS-") and RESPONSE_PATH not in url
        if handler:
            with kubectl:
                result = original(function, event)
        else:
            result = original(function, event)
        died = isinstance(result, dict) and (result.get("error") or result.get("function_error"))
        if RESPONSE_PATH in url and died and _serves(function, request):
            custom.deliver_response(url.rpartition("/")[2], {"Status": "FAILED", "Reason": _reason(result)})
        return result

    lambdas._execute_function_with_config_scope = execute


def _serves(function: Json, request: Json) -> bool:
    """Whether CloudFormation itself called this function.

    A waiter's function gets the same event from Step Functions. It fails on purpose until the resource is complete.
    """
    arn = (function.get("config") or function).get("FunctionArn")
    return bool((request.get("ResourceProperties") or {}).get("ServiceToken") == arn)


def deliver_late_logs(context: Context) -> None:
    """What a function logs after its group went makes the group again, unless its role is denied that, as on AWS.

    The first line of a function whose group is there goes the usual way.
    """
    lambdas = context.hooks.lambda_svc
    emit = lambdas._emit_lambda_logs

    def emit_as_allowed(function: Json, *arguments: Any, **options: Any) -> None:
        config = function.get("config") or function
        group = (config.get("LoggingConfig") or {}).get("LogGroup") or f"/aws/lambda/{config.get('FunctionName')}"
        if group in context.hooks.cloudwatch_logs._log_groups or not denied(context, config, "logs:CreateLogGroup"):
            emit(function, *arguments, **options)

    lambdas._emit_lambda_logs = emit_as_allowed


def denied(context: Context, config: Json, action: str) -> bool:
    """Whether an inline policy of a function's role denies an action on everything. A role that is gone gives none."""
    role = context.hooks.iam._roles.get(str(config.get("Role", "")).rpartition("/")[2])
    if role is None:
        return True
    documents = [json.loads(d) if isinstance(d, str) else d for d in (role.get("InlinePolicies") or {}).values()]
    return any(
        statement["Effect"] == "Deny" and action in _many(statement["Action"]) and "*" in _many(statement["Resource"])
        for document in documents
        for statement in _many(document["Statement"])
    )


def _many(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


TOOLS = frozenset({"awscli", "kubectl", "helm"})
"""Folders of the CDK's layers. What is in them is on the PATH of functions."""


def find_layer_tools(context: Context) -> None:
    """Let functions find the tools that they expect from a layer under /opt on their PATH.

    Layers cannot be mounted there without touching the machine; CDK's bucket deployment names the file in its code.
    A layer with nothing but those tools is not unpacked: nothing would read its ten thousand files.
    """
    runtime, lambdas = context.hooks.lambda_runtime, context.hooks.lambda_svc
    aws = shutil.which("aws")
    if not aws:
        return

    class Worker(runtime.Worker):  # type: ignore[name-defined]  # MiniStack is untyped
        def __init__(self, name: str, config: Json, code_zip: bytes) -> None:
            if str(config.get("Runtime", "")).startswith("python"):
                code_zip = _replace(code_zip, b'"/opt/awscli/aws"', json.dumps(aws).encode())
            layers = [
                layer for layer in config.get("Layers") or [] if not has_tools_only(lambdas._resolve_layer_zip(layer))
            ]
            super().__init__(name, {**config, "Layers": layers}, code_zip)

    runtime.Worker = Worker


def has_tools_only(archive: bytes | None) -> bool:
    """Whether a layer is one of the CDK's with the AWS CLI, or with kubectl and Helm."""
    if not archive or not zipfile.is_zipfile(io.BytesIO(archive)):
        return False
    with zipfile.ZipFile(io.BytesIO(archive)) as layer:
        return {name.partition("/")[0] for name in layer.namelist()} <= TOOLS


def _replace(archive: bytes, old: bytes, new: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(archive)) as source:
        members = [(info, source.read(info)) for info in source.infolist()]
    if not any(old in content for _, content in members):
        return archive
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        for info, content in members:
            target.writestr(info, content.replace(old, new) if info.filename.endswith(".py") else content)
    return out.getvalue()


def _reason(result: Json) -> str:
    body = result.get("body")
    if isinstance(body, dict):
        return f"{body.get('errorType', 'Error')}: {body.get('errorMessage', '')}"[:1000]
    return f"function failed: {json.dumps(body, default=str)}"[:1000]
