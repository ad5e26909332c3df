"""One process, one Node.js, every assembly synthesized once per session."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest

from tests.review.scenario import PROJECT, Assemble, Side, patched, settings_text


@pytest.fixture(scope="session")
def assemble(tmp_path_factory: pytest.TempPathFactory) -> Assemble:
    """Synthesizes an environment with a side's changes by the real app; equal ones only once."""
    os.environ["CDK_VALIDATION"] = "false"
    import app as project_app

    project_app.use_pinned_node()
    import aws_cdk as cdk

    import environments
    from stacks.environment import EnvironmentStage

    made: dict[str, Path] = {}
    root = tmp_path_factory.mktemp("assemblies")

    def synthesize(environment: str, side: Side) -> Path:
        text = settings_text(environment, side)
        key = hashlib.sha256(json.dumps([environment, text, side.files], sort_keys=True).encode()).hexdigest()[:16]
        if key not in made:
            folder = root / key
            file = environments.parse(text, name=environment, path=Path(f"environments/{environment}.yaml"))
            app = cdk.App(context=project_app.feature_flags(), outdir=str(folder))
            EnvironmentStage(app, plan=file.plan, project=_project(side, root / f"{key}-project"))
            app.synth()
            made[key] = folder
        whole = hashlib.sha256(json.dumps([key, side.resources, side.objects], sort_keys=True).encode()).hexdigest()[:16]
        if whole not in made:
            made[whole] = patched(made[key], environment, side, root / f"{key}-{whole}")
        return made[whole]

    return synthesize


def _project(side: Side, folder: Path) -> Path:
    """The project itself, or a copy of its uploaded folders with a side's edits."""
    if not side.files:
        return PROJECT
    for name in ("lifecycle", "image", "jobs"):
        if (PROJECT / name).is_dir():
            shutil.copytree(PROJECT / name, folder / name)
    for name, text in side.files.items():
        with (folder / name).open("a", encoding="utf-8") as file:
            file.write(text)
    return folder
