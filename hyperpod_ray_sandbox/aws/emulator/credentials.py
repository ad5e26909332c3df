"""The secrets that sign requests: the account's, made at each start, and those of the sessions of roles."""

from __future__ import annotations

import os
import re
import secrets
import threading
from typing import Any

from hyperpod_ray_sandbox.aws.emulator.context import Context
from hyperpod_ray_sandbox.aws.emulator.gate import Secret

Json = dict[str, Any]
ROOT_KEY = re.compile(r"[0-9]{12}")


class Credentials:
    """Looks up access keys; a key of twelve digits is that account's root user."""

    def __init__(self, context: Context, *, root_secret: str) -> None:
        self._hooks = context.hooks
        self._root_secret = root_secret
        self._sessions: dict[tuple[str, str], dict[str, str]] = {}
        self._lock = threading.Lock()
        # MiniStack derives a function's secret from its ARN, which anybody can guess
        self._hooks.lambda_runtime.execution_credentials = self._of_function
        self._hooks.lambda_svc.execution_credentials = self._of_function

    def lookup(self, key: str) -> Secret | None:
        """Return the secret of an access key, None for a key that was not made here or has expired."""
        if ROOT_KEY.fullmatch(key):
            return Secret(value=self._root_secret, root=True, arn=f"arn:aws:iam::{key}:root", account=key)
        iam = self._hooks.iam_evaluator
        if iam.is_root_access_key(key):  # MiniStack would take `test` and the empty key for root, too
            return None
        try:
            account = self._hooks.responses._account_from_sts_session(key) or iam.find_iam_access_key_account(key)
        except iam.AmbiguousAccessKeyError:
            return None
        credential = iam.resolve_credential(key, account) if account else None
        if not isinstance(credential, iam.ResolvedCredential):
            return None
        return Secret(
            value=credential.secret_access_key,
            token=credential.session_token or "",
            arn=credential.principal_arn,
            account=credential.account_id,
        )

    def _of_function(self, config: Json) -> dict[str, str]:
        """A session of a function's role, one for each function and role."""
        account, _region = self._hooks.lambda_runtime._account_region_from_function_config(config)
        role, function = str(config.get("Role", "")), str(config.get("FunctionArn", ""))
        with self._lock:
            issued = self._sessions.get((function, role))
            if issued is None:
                issued = {
                    "AWS_ACCESS_KEY_ID": f"ASIA{secrets.token_hex(8).upper()}",
                    "AWS_SECRET_ACCESS_KEY": secrets.token_urlsafe(30),
                    "AWS_SESSION_TOKEN": secrets.token_urlsafe(60),
                }
                self._sessions[function, role] = issued
        name, session = role.rpartition("/")[2], str(config.get("FunctionName", "function"))[:64]
        self._hooks.sts.register_session(
            issued["AWS_ACCESS_KEY_ID"],
            {
                "Arn": f"arn:aws:sts::{account}:assumed-role/{name}/{session}",
                "UserId": f"{name}:{session}",
                "SecretAccessKey": issued["AWS_SECRET_ACCESS_KEY"],
                "SessionToken": issued["AWS_SESSION_TOKEN"],
            },
        )
        return dict(issued)


def root_secret() -> str:
    """Return the secret that the one who starts the emulator made for it; it never stands on a command line."""
    secret = os.environ.get("AWS_SECRET_ACCESS_KEY", "")
    if len(secret) < 32:
        raise ValueError("AWS_SECRET_ACCESS_KEY must hold this start's secret, 32 characters or more")
    return secret
