"""One jsii process, one synth per environment, with the CDK's own validation on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from core import Plan, environment_names, load
from core.loader import FOLDER

PROJECT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Assembly:
    """One synthesized environment."""

    name: str
    folder: Path

    @cached_property
    def templates(self) -> dict[str, dict[str, Any]]:
        """Stack name (`dev-Network`) to template."""
        found = {}
        for path in sorted(self.folder.rglob("manifest.json")):
            for artifact in json.loads(path.read_text())["artifacts"].values():
                if artifact["type"] == "aws:cloudformation:stack":
                    name = artifact["properties"].get("stackName", artifact.get("displayName", ""))
                    found[name] = json.loads((path.parent / artifact["properties"]["templateFile"]).read_text())
        return found

    def before(self, stack: str) -> set[str]:
        """Names of the stacks that a stack waits for."""
        names, waits = {}, {}
        for path in self.folder.rglob("manifest.json"):
            for key, artifact in json.loads(path.read_text())["artifacts"].items():
                names[key] = artifact.get("properties", {}).get("stackName", key)
                waits[names[key]] = artifact.get("dependencies", [])
        return {names[key] for key in waits[stack]}

    def template_files(self) -> list[Path]:
        """Paths of the templates."""
        return sorted(self.folder.rglob("*.template.json"))

    def of_type(self, kind: str) -> dict[str, dict[str, Any]]:
        """`stack/logical id` to resource, of one CloudFormation type."""
        return {
            f"{stack}/{logical_id}": resource
            for stack, template in self.templates.items()
            for logical_id, resource in template["Resources"].items()
            if resource["Type"] == kind
        }

    def one(self, kind: str) -> dict[str, Any]:
        """Properties of the only resource of a type."""
        found = list(self.of_type(kind).values())
        assert len(found) == 1, f"{len(found)} resources of type {kind} in {self.name}"
        return dict(found[0]["Properties"])


def synthesize(name: str, out: Path, *, folder: Path = FOLDER) -> Assembly:
    """Synthesize one environment of a folder in this process."""
    import aws_cdk as cdk

    import app
    from stacks.environment import EnvironmentStage

    file = load(name, folder=folder)
    cdk_app = cdk.App(context=app.feature_flags(), outdir=str(out))
    EnvironmentStage(cdk_app, plan=Plan(name=file.name, settings=file.settings), project=PROJECT)
    cdk_app.synth()
    return Assembly(name=name, folder=out)


@pytest.fixture(scope="session")
def assemblies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Assembly]:
    """Every shipped environment, synthesized once."""
    root = tmp_path_factory.mktemp("assemblies")
    return {name: synthesize(name, root / name) for name in environment_names()}


@pytest.fixture(scope="session", params=environment_names())
def assembly(request: pytest.FixtureRequest, assemblies: dict[str, Assembly]) -> Assembly:
    """Each shipped environment in turn."""
    return assemblies[request.param]
