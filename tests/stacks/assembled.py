"""A synthesized environment as tests read it; one synth per environment (`tests/support/assemblies.py`)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hyperpod_ray.core.loader import FOLDER
from tests.support import assemblies as assemblies_of

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

    def lint_errors(self) -> list[str]:
        """What cfn-lint calls an error. One run for all templates: it loads its rules once."""
        import cfnlint.config
        import cfnlint.runner

        files = [str(path) for path in self.template_files()]
        assert files
        config = cfnlint.config.ConfigMixIn([], regions=["us-west-2"], templates=files)
        matches = cfnlint.runner.Runner(config).run()
        return [f"{Path(match.filename).name}: {match}" for match in matches if match.rule.id.startswith("E")]

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


def synthesize(name: str, *, folder: Path = FOLDER, validation: bool = False, uploads: bool = False) -> Assembly:
    """Synthesize one environment of a folder; once for all tests (`tests/support/assemblies.py`).

    :param validation: the CDK's own validation must have passed, which costs more than the synth.
    """
    path = folder / f"{name}.yaml"
    text = path.read_text(encoding="utf-8")
    made = assemblies_of.synthesized(name, text, path=path, validation=validation, uploads=uploads)
    return Assembly(name=name, folder=made)
