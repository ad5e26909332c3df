"""Lambda functions run as processes of this machine: what goes wrong there must not hang a stack.

A function that dies never answers its ResponseURL, and CloudFormation would wait an hour for it.
"""

from __future__ import annotations

import json
import threading
from typing import Any

from local.aws.emulator.context import Context

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
        if RESPONSE_PATH in url and isinstance(result, dict) and (result.get("error") or result.get("function_error")):
            custom.deliver_response(url.rpartition("/")[2], {"Status": "FAILED", "Reason": _reason(result)})
        return result

    lambdas._execute_function_with_config_scope = execute


def _reason(result: Json) -> str:
    body = result.get("body")
    if isinstance(body, dict):
        return f"{body.get('errorType', 'Error')}: {body.get('errorMessage', '')}"[:1000]
    return f"function failed: {json.dumps(body, default=str)}"[:1000]
