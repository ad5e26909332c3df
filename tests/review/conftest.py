"""One process, one Node.js, every assembly synthesized once per session."""

from __future__ import annotations

import hashlib
import json
import shutil
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.review.scenario import PROJECT, Assemble, Side, patched, settings_text

SOURCES = (
    "app.py", "cdk.json", "charts.lock.yaml", "charts", "constructs", "core", "environments", "image", "jobs", "k8s",
    "lifecycle", "resilience", "stacks",
)  # fmt: skip
"""Everything that an assembly is made of."""
KEEP = 3
"""Versions of the sources whose assemblies are kept."""


@pytest.fixture(scope="session")
def assemble(tmp_path_factory: pytest.TempPathFactory) -> Assemble:
    """Synthesizes an environment with a side's changes by the real app; equal ones only once."""
    import app as project_app

    project_app.use_pinned_node()
    import aws_cdk as cdk

    from core import loader
    from stacks.environment import EnvironmentStage

    made: dict[str, Path] = {}
    root, scratch = _kept(), tmp_path_factory.mktemp("patched")

    def synthesize(environment: str, side: Side) -> Path:
        text = settings_text(environment, side)
        key = _digest([environment, text, side.files])
        if key not in made:
            folder = root / key
            made[key] = folder
        if not (made[key] / "manifest.json").is_file():
            file = loader.parse(text, name=environment, path=Path(f"environments/{environment}.yaml"))
            # other tests validate the templates; here it would double the time
            app = cdk.App(
                context=project_app.feature_flags(), outdir=str(made[key]), builtin_cloud_formation_validation=False
            )
            EnvironmentStage(app, plan=file.plan, project=_project(side, scratch / f"{key}-project"))
            app.synth()
            _without_uploads(made[key])
        whole = _digest([key, side.resources, side.objects])
        if whole not in made:
            made[whole] = patched(made[key], environment, side, scratch / f"{key}-{whole}")
        return made[whole]

    return synthesize


def _digest(data: object) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]


def _kept() -> Path:
    """Folder of the assemblies that these very sources make: a second run synthesizes nothing. Older ones go."""
    digest = hashlib.sha256(version("aws-cdk-lib").encode())
    for name in SOURCES:
        place = PROJECT / name
        for file in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(str(file.relative_to(PROJECT)).encode() + b"\0" + file.read_bytes() + b"\0")
    parent = PROJECT / ".cache" / "review-assemblies"
    folder = parent / digest.hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    # a few, as another run may be at work with other sources
    for old in sorted(parent.iterdir(), key=lambda place: place.stat().st_mtime)[:-KEEP]:
        if old != folder:
            shutil.rmtree(old, ignore_errors=True)
    return folder


def _without_uploads(assembly: Path) -> None:
    """Files to upload are most of an assembly, and a review reads none but charts."""
    for asset in assembly.glob("**/asset.*"):
        if asset.is_file():
            asset.unlink()
        elif asset.is_dir() and not (asset / "Chart.yaml").is_file():
            shutil.rmtree(asset)


def _project(side: Side, folder: Path) -> Path:
    """The project itself, or a copy of its uploaded folders with a side's edits."""
    if not side.files:
        return PROJECT
    for name in ("lifecycle", "image", "resilience"):
        if (PROJECT / name).is_dir():
            shutil.copytree(PROJECT / name, folder / name)
    for name, text in side.files.items():
        with (folder / name).open("a", encoding="utf-8") as file:
            file.write(text)
    return folder
