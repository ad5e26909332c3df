"""Starts a command with its secrets as environment variables: `python -m hyperpod_ray_job.with_secrets -- COMMAND`.

Without a command it runs that of `HYPERPOD_RAY_COMMAND`, in a shell, and `reports` the run folder of
`HYPERPOD_RAY_RUN_FOLDER` in its log.
`HYPERPOD_RAY_SECRETS` maps each variable to a reference. A reference is `NAME/KEY`, a file of a Kubernetes Secret that
the pods mount, or the ARN of a secret in AWS Secrets Manager, read with the pod's own role. Values are in the memory
of the job's processes: in no argument, no file and no answer of Ray's APIs. `load` is Ray's
`worker_process_setup_hook`: it does the same in each worker.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

VARIABLE = "HYPERPOD_RAY_SECRETS"
SECRETS_FOLDER_VARIABLE = "HYPERPOD_RAY_SECRETS_FOLDER"
"""Where the pods mount their Secrets, in place of `SECRETS_FOLDER`."""
SECRETS_FOLDER = "/etc/ray-secrets"
COMMAND_VARIABLE = "HYPERPOD_RAY_COMMAND"
RUN_FOLDER_VARIABLE = "HYPERPOD_RAY_RUN_FOLDER"
NOTIFY_VARIABLE = "HYPERPOD_RAY_NOTIFY_URL"


class SecretError(Exception):
    """A secret cannot be read; the message has its reference and never its value."""


def load() -> None:
    """Put the values into this process's environment."""
    for name, reference in json.loads(os.environ.get(VARIABLE) or "{}").items():
        os.environ[name] = value_of(reference)


def value_of(reference: str) -> str:
    """The secret that a reference names."""
    if reference.startswith("arn:"):
        return _from_secrets_manager(reference)
    path = Path(os.environ.get(SECRETS_FOLDER_VARIABLE) or SECRETS_FOLDER, *reference.split("/"))
    try:
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    except FileNotFoundError:
        name, _, key = reference.partition("/")
        raise SecretError(
            f"secret {reference}: {path} does not exist. Expected Secret '{name}' with key '{key}' in the Ray "
            f"namespace. Fix: kubectl create secret generic {name} --from-file={key}=FILE, and wait two minutes"
        ) from None


def _from_secrets_manager(reference: str) -> str:
    arn, _, field = reference.partition("#")
    try:
        import boto3
        from botocore.utils import ArnParser

        client = boto3.client("secretsmanager", region_name=ArnParser().parse_arn(arn)["region"])
        text = str(client.get_secret_value(SecretId=arn)["SecretString"])
    except Exception as error:
        raise SecretError(
            f"secret {arn}: {type(error).__name__}. Expected GetSecretValue to be allowed. "
            "Fix: add the ARN to ray.access.secret_arns and deploy"
        ) from None
    if not field:
        return text
    try:
        return str(json.loads(text)[field])
    except (ValueError, KeyError, TypeError):
        raise SecretError(
            f"secret {arn}: no field '{field}'. Expected a JSON object with it. Fix: correct the part after #"
        ) from None


def main(arguments: list[str]) -> None:
    """Become the command; exits with 2 where a secret cannot be read."""
    command = arguments[1:] if arguments[:1] == ["--"] else arguments
    words = command or ["sh", "-c", os.environ[COMMAND_VARIABLE]]
    try:
        load()
    except SecretError as error:
        sys.stderr.write(f"error: {error}\n")
        raise SystemExit(2) from None
    sys.stdout.flush()
    folder = "" if command else os.environ.get(RUN_FOLDER_VARIABLE, "")
    address = os.environ.pop(NOTIFY_VARIABLE, "")
    if folder or address:
        from . import reports

        reports.run(words, folder, address)
    os.execvp(words[0], words)  # noqa: S606 - the job's own command, without a shell of ours


if __name__ == "__main__":
    main(sys.argv[1:])
