"""`hyperpod-ray deploy` and `diff`: the project's own cdk CLI, with what it leaves open."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from cli.options import Env, command, current, foreign_folder, target
from ops.errors import ERROR, OK, OpsError


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""

    @command(app, examples=["deploy dev"])
    def deploy(
        env: Env,
        assembly: Annotated[str, typer.Option("--app", metavar="FOLDER", help="Use this synthesized assembly.")] = "",
        poll: Annotated[float, typer.Option(min=0.1, help="Seconds between two checks.")] = 10,
    ) -> int:
        """Create or update the environment. Asks nothing: run review first. Waits for stacks in progress."""
        from ops import deploy as verb  # noqa: PLC0415

        return verb.deploy(target(env), app=assembly, poll=poll)

    @command(app, examples=["diff dev"])
    def diff(env: Env) -> int:
        """Compare the templates with what is deployed. For the effect on training, use review."""
        import core  # noqa: PLC0415
        from core import project  # noqa: PLC0415

        current.environment = env
        where = foreign_folder()
        core.load(env, folder=where or project.OWN_ENVIRONMENTS)
        program = project.SOURCE / "node_modules" / ".bin" / "cdk"
        if not program.exists():
            raise OpsError("the cdk CLI is not installed: expected node_modules/.bin/cdk", next="make setup")
        with tempfile.TemporaryDirectory(prefix="hyperpod-ray-") as out:
            arguments = [str(program), "diff", f"{env}/*", "-c", f"env={env}", "--output", str(Path(out) / "cdk.out")]
            arguments += ["--app", f"{shlex.quote(sys.executable)} app.py"]
            arguments += ["-c", f"environments={where}"] if where else []
            path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
            # the CDK's template validation is more than half of a synthesis, and belongs to tests, CI and deploys
            environment = {**os.environ, "PATH": path, "CDK_VALIDATION": os.environ.get("CDK_VALIDATION", "false")}
            ended = subprocess.run(arguments, cwd=project.SOURCE, env=environment, check=False).returncode
        if ended:
            raise OpsError(f"cdk diff failed: exit code {ended}", next="see its messages above", code=ERROR)
        return OK
