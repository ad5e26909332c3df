"""`hyperpod-ray diff`: the properties that differ from what is deployed."""

from __future__ import annotations

import tempfile
from pathlib import Path

import typer

from hyperpod_ray.cli import synthesis
from hyperpod_ray.cli.options import Env, command, current, folder
from hyperpod_ray.ops.errors import ERROR, OK, OpsError


def register(app: typer.Typer) -> None:
    """Add the command to the root."""

    @command(app, examples=["diff dev"])
    def diff(env: Env) -> int:
        """Compare the templates with what is deployed. For the effect on training, use review."""
        from hyperpod_ray import core

        current.environment = env
        core.load_any(env, folder=folder())
        with tempfile.TemporaryDirectory(prefix="hyperpod-ray-") as out:
            # the CDK's template validation belongs to tests, CI and deploys
            ended = synthesis.cdk(env, ["diff", f"{env}/*"], out=Path(out) / "cdk.out", validate=False)
        if ended:
            raise OpsError(
                f"cdk diff failed: exit code {ended}", expected="0", fix="see its messages above", code=ERROR
            )
        return OK
