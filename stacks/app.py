"""The CDK app of a project: one Stage per file in `environments/`, for the `app.py` of a few lines beside them."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from hyperpod_ray import core
from hyperpod_ray.core.project import CONFIGURATION, FOLDER_NAME

if TYPE_CHECKING:
    from hyperpod_ray.stacks.environment import EnvironmentStage

Extend = Callable[["EnvironmentStage"], None]
"""What a project adds to each of its environments: stacks, alarms, aspects."""


def synthesize(
    project: Path,
    *,
    extend: Extend | None = None,
    outdir: str | None = None,
    context: dict[str, str] | None = None,
) -> int:
    """Build the app of a project.

    `-c env=NAME` restricts it to one environment, `-c environments=FOLDER` reads the files of another folder.

    Args:
        project: The folder of `app.py` and `cdk.json`.
        extend: Called with the Stage of each environment. Default: nothing is added.
        outdir: Folder of the assembly. Default: what the CDK's CLI or `CDK_OUTDIR` says.
        context: More context. The environment's own variables of the CDK reach Node.js once, at its start.

    Returns:
        The exit code: 2, with located messages, when an environment file or a chart cannot be used.
    """
    gc.disable()  # a process of seconds that ends: looking for garbage among the CDK's modules is a tenth of its time
    use_pinned_node()
    import aws_cdk as cdk  # after use_pinned_node: importing it starts Node

    from hyperpod_ray.core.errors import ProjectError
    from hyperpod_ray.stacks.environment import EnvironmentStage

    app = cdk.App(context={**feature_flags(project), **(context or {})}, outdir=outdir)
    name = app.node.try_get_context("env")
    folder = Path(app.node.try_get_context("environments") or project / FOLDER_NAME)
    try:
        names = [name] if name else core.environment_names(folder=folder)
        files = [core.load_any(environment, folder=folder, project=project) for environment in names]
    except core.EnvironmentFileError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    try:
        for file in files:
            for warning in file.warnings:
                sys.stderr.write(f"warning: {warning}\n")
            stage = EnvironmentStage(app, plan=file.plan, project=project)
            if extend is not None:
                extend(stage)
    except ProjectError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    app.synth()
    return 0


def feature_flags(project: Path) -> dict[str, object]:
    """The flags of cdk.json: only the CLI reads that file, `python app.py` and tests must load it themselves."""
    context = json.loads((project / CONFIGURATION).read_text(encoding="utf-8")).get("context", {})
    assert isinstance(context, dict)  # noqa: S101  (narrowing only)
    return context


def use_pinned_node() -> None:
    """Let jsii run the Node.js that is installed beside Python; the system's may be one that jsii does not support."""
    node = Path(sys.executable).parent / "node"
    if node.exists():
        os.environ["PATH"] = f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"
