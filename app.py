"""The CDK app: one Stage per file in `environments/`.

`-c env=NAME` restricts it to one, `-c environments=FOLDER` reads the files of another folder.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path

from hyperpod_ray import core
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.core.project_files import ProjectFileError

PROJECT = Path(__file__).resolve().parent


def main(*, outdir: str | None = None, context: dict[str, str] | None = None) -> int:
    """Build the app; exit code 2 with located messages when an environment file cannot be used.

    Args:
        outdir: Folder of the assembly. Default: what the CDK's CLI or `CDK_OUTDIR` says.
        context: More context. The environment's own variables of the CDK reach Node.js once, at its start.
    """
    gc.disable()  # a process of seconds that ends: looking for garbage among the CDK's modules is a tenth of its time
    use_pinned_node()
    import aws_cdk as cdk  # after use_pinned_node: importing it starts Node

    from hyperpod_ray.charts.errors import ChartError
    from hyperpod_ray.stacks.environment import EnvironmentStage

    app = cdk.App(context={**feature_flags(), **(context or {})}, outdir=outdir)
    wanted = app.node.try_get_context("env")
    folder = Path(app.node.try_get_context("environments") or FOLDER)
    try:
        names = [wanted] if wanted else core.environment_names(folder=folder)
        files = [core.load_any(name, folder=folder) for name in names]
    except (core.EnvironmentFileError, ProjectFileError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    try:
        for file in files:
            for warning in file.warnings:
                sys.stderr.write(f"warning: {warning}\n")
            EnvironmentStage(app, plan=file.plan, project=PROJECT)
    except (ChartError, ProjectFileError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    app.synth()
    return 0


def feature_flags() -> dict[str, object]:
    """The flags of cdk.json: only the CLI reads that file, `python app.py` and tests must load it themselves."""
    context = json.loads((PROJECT / "cdk.json").read_text(encoding="utf-8"))["context"]
    assert isinstance(context, dict)  # noqa: S101  (narrowing only)
    return context


def use_pinned_node() -> None:
    """Let jsii run the Node.js of requirements.txt; the system's may be one that jsii no longer supports."""
    node = Path(sys.executable).parent / "node"
    if node.exists():
        os.environ["PATH"] = f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"


if __name__ == "__main__":
    raise SystemExit(main())
