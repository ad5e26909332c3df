"""The private names of MiniStack that the extension uses, looked up in one place and tested before they are used.

MiniStack has no extension API, so the release is pinned exactly; `load()` refuses another release and every name
that is missing or has another shape, with one line that says which.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hyperpod_ray_sandbox.aws import paths
from hyperpod_ray_sandbox.errors import SandboxError

PINNED = "1.5.33"


class HookError(SandboxError):
    """MiniStack is not the release this extension was written for."""


@dataclass(frozen=True)
class Hooks:
    """The modules of MiniStack the extension reaches into; untyped upstream, hence `Any`."""

    app: Any
    router: Any
    responses: Any
    iam_actions: Any
    iam_evaluator: Any
    provisioners: Any
    stacks: Any
    drift: Any
    custom_resource: Any
    cloudformation: Any
    cloudwatch_logs: Any
    budgets: Any
    codebuild: Any
    ec2: Any
    ecr: Any
    eks: Any
    eventbridge: Any
    iam: Any
    kms: Any
    lambda_runtime: Any
    lambda_svc: Any
    s3: Any
    sns: Any
    sts: Any

    def account(self) -> str:
        """Return the account id of the request or stack operation in progress."""
        return str(self.responses.get_account_id())

    def region(self) -> str:
        """Return the region of the request or stack operation in progress."""
        return str(self.responses.get_region())

    def arn(self, service: str, rest: str) -> str:
        """Return the ARN of something in the account and region in progress."""
        return f"arn:aws:{service}:{self.region()}:{self.account()}:{rest}"

    def scoped_dict(self) -> Any:
        """Return a dictionary that keeps what is stored per account and region."""
        return self.responses.AccountRegionScopedDict()


_MODULES = {
    "app": "ministack.app",
    "router": "ministack.core.router",
    "lambda_runtime": "ministack.core.lambda_runtime",
    "responses": "ministack.core.responses",
    "iam_actions": "ministack.core.iam_actions",
    "iam_evaluator": "ministack.core.iam_evaluator",
    "provisioners": "ministack.services.cloudformation.provisioners",
    "stacks": "ministack.services.cloudformation.stacks",
    "drift": "ministack.services.cloudformation.drift",
    "custom_resource": "ministack.services.cloudformation.custom_resource",
    "cloudformation": "ministack.services.cloudformation",
    **{
        name: f"ministack.services.{name}"
        for name in (
            "budgets", "cloudwatch_logs", "codebuild", "ec2", "ecr", "eks", "eventbridge", "iam", "kms", "lambda_svc",
            "s3", "sns", "sts",
        )
    },
}  # fmt: skip

# module -> the names used, with the parameters each call passes (None: not a function)
_USED: dict[str, dict[str, int | None]] = {
    "app": {"app": 3, "SERVICE_HANDLERS": None},
    "router": {"SERVICE_PATTERNS": None},
    "lambda_runtime": {"Worker": 3, "_account_region_from_function_config": 1, "execution_credentials": 1},
    "responses": {
        "AccountRegionScopedDict": None,
        "_BOTOCORE_NAME": None,
        "_service_model": 1,
        "_account_from_sts_session": 1,
        "get_account_id": 0,
        "get_region": 0,
        "request_scope": 2,
    },
    "iam_actions": {"SERVICE_TO_IAM_NAMESPACE": None, "extract_resource_arn": 8},
    "iam_evaluator": {
        "AmbiguousAccessKeyError": None,
        "ResolvedCredential": None,
        "find_iam_access_key_account": 1,
        "is_root_access_key": 1,
        "EvalContext": None,
        "_action_matches": 3,
        "_conditions_met": 2,
        "_gather_role_policies": 2,
        "_permissions_boundary": 3,
        "evaluate": 2,
        "evaluate_trust_policy": 3,
        "parse_policy_document": 1,
        "resolve_credential": 2,
    },
    "provisioners": {
        "_RESOURCE_HANDLERS": None,
        "_REPLACING_PROPERTIES": None,
        "_CUSTOM_NAME_REPLACEMENT": None,
        "_custom_resource_create": 4,
        "_ec2_apply_tags": 2,
        "_ec2_sg_permissions": 1,
        "_ec2_sg_reconcile": 3,
        "_pascal_to_camel": 1,
        "_physical_name": 2,
        "_tag_map": 1,
    },
    "stacks": {"_runs_on_worker_thread": 1},
    "drift": {"_DRIFT_READERS": None},
    "custom_resource": {"deliver_response": 2, "_pending": None},
    "cloudformation": {"_stacks": None, "_change_sets": None, "_ACTION_HANDLERS": None},
    "cloudwatch_logs": {"_log_groups": None, "_resource_policies": None},
    "budgets": {"_create_budget": 1, "_budgets": None},
    "codebuild": {"_projects": None, "_builds": None, "_start_build": 1},
    "ec2": {
        "_ACTION_MAP": None,
        "_xml": 3,
        "_addresses": None,
        "_flow_logs": None,
        "_nat_gateways": None,
        "_network_interfaces": None,
        "_route_tables": None,
        "_vpc_endpoints": None,
        "_security_groups": None,
        "_subnets": None,
        "_tags": None,
        "_vpcs": None,
    },
    "ecr": {"_repositories": None, "_images": None, "_put_image": 1},
    "eks": {
        "_addons": None,
        "_clusters": None,
        "_pod_identity_associations": None,
        "_cluster_endpoint": 1,
        "_create_cluster": 1,
        "_error": 3,
        "_create_addon": 2,
        "_update_addon": 3,
        "_delete_addon": 2,
        "_create_access_entry": 2,
        "_delete_access_entry": 2,
        "_associate_access_policy": 3,
        "_disassociate_access_policy": 3,
        "_create_pod_identity_association": 2,
        "_update_pod_identity_association": 3,
        "_delete_pod_identity_association": 2,
        "_access_entry_for_principal": 4,
        "_access_policy_associations": 3,
    },
    "eventbridge": {"_put_events": 2},
    "sns": {"_topics": None},
    "iam": {
        "_aws_managed_policies": None,
        "_create_oidc_provider": 1,
        "_make_aws_managed_record": 2,
        "_oidc_providers": None,
        "_roles": None,
    },
    "kms": {"_keys": None},
    "lambda_svc": {
        "_execute_function_with_config_scope": 2,
        "_emit_lambda_logs": 5,
        "_functions": None,
        "_resolve_layer_zip": 1,
        "execution_credentials": 1,
    },
    "s3": {"_bucket_tags": None, "_buckets": None},
    "sts": {"_web_identity_principal": 3, "register_session": 2},
}


def load() -> Hooks:
    """Import MiniStack and check every name the extension uses; `HookError` with one line where one is amiss."""
    try:
        installed = importlib.metadata.version("ministack")
    except importlib.metadata.PackageNotFoundError:
        raise HookError("ministack is not installed", expected=f"{PINNED}", fix=f"{paths.COMMAND} setup") from None
    if installed != PINNED:
        raise HookError(f"ministack {installed}", expected=f"{PINNED}, exactly", fix=f"{paths.COMMAND} setup")
    modules = {field: importlib.import_module(name) for field, name in _MODULES.items()}
    problems = [
        f"{_MODULES[field]}.{name} {problem}"
        for field, names in _USED.items()
        for name, arguments in names.items()
        if (problem := _problem(modules[field], name, arguments))
    ]
    if problems:
        raise HookError(
            f"ministack {installed}: {'; '.join(problems)}",
            expected="what the extension uses",
            fix=f"{paths.COMMAND} setup",
        )
    return Hooks(**modules)


def _problem(module: Any, name: str, arguments: int | None) -> str:
    value = getattr(module, name, None)
    if value is None:
        return "is missing"
    if arguments is None:
        return ""
    if not callable(value):
        return "is not callable"
    return "" if _accepts(value, arguments) else f"does not take {arguments} arguments"


def _accepts(function: Callable[..., Any], arguments: int) -> bool:
    try:
        inspect.signature(function).bind(*range(arguments))
    except TypeError:
        return False
    return True
