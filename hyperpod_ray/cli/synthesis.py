"""The project's own cdk CLI, with what it leaves open: which Python runs the app, and which files it reads."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from hyperpod_ray.cli.options import folder, project_folder
from hyperpod_ray.ops.errors import BAD_USE, ERROR, OpsError


def program() -> list[str]:
    """How the cdk CLI is started.

    Raises:
        OpsError: it is not installed.
    """
    from hyperpod_ray.ops.change import cdk

    return cdk.started(cdk.program(project_folder()))


def cdk(env: str, verb: Sequence[str], *, out: Path, validate: bool) -> int:
    """Run a command of the cdk CLI that synthesizes one environment; its exit code.

    Args:
        env: The environment.
        verb: The command and its own arguments.
        out: Folder for the assembly.
        validate: Whether to validate the templates. Takes more than half of a synthesis.
    """
    top = project_folder()
    _refuse_broken(top / "cdk.json")
    arguments = [*program(), *verb, "-c", f"env={env}", "--output", str(out)]
    arguments += ["--app", f"{shlex.quote(sys.executable)} app.py"]
    arguments += ["-c", f"environments={folder()}"]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    if not validate:
        environment.setdefault("CDK_VALIDATION", "false")
    return subprocess.run(arguments, cwd=top, env=environment, stdin=subprocess.DEVNULL, check=False).returncode


def _refuse_broken(configuration: Path) -> None:
    """The cdk CLI answers with a stack trace of its own where `cdk.json` is no JSON."""
    from hyperpod_ray.core.project_files import RESOLVE, conflict

    text = configuration.read_text(encoding="utf-8", errors="replace")
    try:
        json.loads(text)
    except ValueError as error:
        marker = conflict(text)
        raise OpsError(
            f"{configuration}:{marker}: conflict markers of a merge"
            if marker
            else f"{configuration}: no JSON: {error}",
            expected="one of the two versions" if marker else "the configuration of the cdk CLI",
            fix=RESOLVE if marker else "correct the line",
            code=BAD_USE,
        ) from error


def app(env: str, *, out: Path) -> int:
    """Synthesize one environment without validation and without the cdk CLI, whose start is a third of it.

    Returns:
        The exit code of `app.py`; its messages go to stderr.
    """
    top = project_folder()
    context = {"env": env, "environments": str(folder())}
    environment = {**os.environ, "CDK_OUTDIR": str(out), "CDK_CONTEXT_JSON": json.dumps(context)}
    environment.setdefault("CDK_VALIDATION", "false")
    return subprocess.run(
        [sys.executable, "app.py"], cwd=top, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, check=False,
    ).returncode  # fmt: skip


@contextlib.contextmanager
def assembly(env: str, *, given: Path | None) -> Iterator[Path]:
    """A folder with the environment's assembly: the given one, or one that is synthesized and validated for this.

    Raises:
        OpsError: the given folder holds none, or the synthesis fails.
    """
    if given is not None:
        if not (given / "manifest.json").is_file():
            raise OpsError(
                f"no assembly: {given}",
                expected="a folder that `cdk synth` wrote",
                fix=f"hyperpod-ray deploy {env}, which synthesizes it",
                code=BAD_USE,
            )
        yield given.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="hyperpod-ray-") as name:
        out = Path(name) / "cdk.out"
        ended = cdk(env, ["synth", "--quiet"], out=out, validate=True)
        if ended:
            raise OpsError(
                f"cdk synth failed: exit code {ended}", expected="0", fix="see its messages above", code=ERROR
            )
        yield out
