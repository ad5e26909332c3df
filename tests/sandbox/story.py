"""An environment of a test's own on an embedded AWS of its own, with the real `cdk` CLI and the day-2 commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.emulator import ROOT, Emulator


@dataclass(frozen=True)
class Story:
    """The embedded AWS, the environment's file and its assembly."""

    emulator: Emulator
    environments: Path
    assembly: Path

    def cdk(self, *arguments: str) -> None:
        """Run the real CLI; fails with its output."""
        self.emulator.cdk(*arguments, "--app", str(self.assembly), cwd=self.environments.parent)

    def ops(self, *arguments: str, allowed: tuple[int, ...] = (0,)) -> Any:
        """Run a day-2 command and read its JSON."""
        command = [sys.executable, "-m", "cli", "--environments", str(self.environments), *arguments, "-o", "json"]
        done = subprocess.run(
            command, cwd=ROOT, env=self.emulator.environment(), capture_output=True, text=True, check=False
        )
        assert done.returncode in allowed, done.stderr
        return json.loads(done.stdout)

    def file_systems(self) -> list[dict[str, Any]]:
        """What FSx has."""
        return list(self.emulator.boto("fsx").describe_file_systems()["FileSystems"])

    def stack(self, name: str) -> str:
        """Status of a stack, empty when there is none."""
        for stack in self.emulator.boto("cloudformation").list_stacks()["StackSummaries"]:
            if stack["StackName"] == name and stack["StackStatus"] != "DELETE_COMPLETE":
                return str(stack["StackStatus"])
        return ""

    def left(self) -> list[str]:
        """What exists beside the bootstrap's own."""
        return [
            f"{resource['type']} {resource['id']}"
            for resource in self.emulator.control.inventory()
            if resource["stack"] != "CDKToolkit" and resource["id"] != "CDKToolkit"
        ]


def synthesized(emulator: Emulator, root: Path, *, name: str, settings: dict[str, Any]) -> Story:
    """Write the environment's file and synthesize it once, for every later command."""
    environments, assembly = root / "environments", root / "cdk.out"
    environments.mkdir()
    (environments / f"{name}.yaml").write_text(yaml.safe_dump(settings))
    context = {"env": name, "environments": str(environments)}
    environ = {**os.environ, "CDK_OUTDIR": str(assembly), "CDK_CONTEXT_JSON": json.dumps(context)}
    subprocess.run([sys.executable, "app.py"], cwd=ROOT, env={**environ, "CDK_VALIDATION": "false"}, check=True)
    return Story(emulator=emulator, environments=environments, assembly=assembly)
