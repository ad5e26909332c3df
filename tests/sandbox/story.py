"""An environment of a test's own on an embedded AWS of its own, with the real `cdk` CLI and the day-2 commands."""

from __future__ import annotations

import contextlib
import io
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hyperpod_ray.cli.main import main
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.core.new_file import default_zones
from hyperpod_ray.ops.reach import api_server, clients
from tests.support import assemblies, boto_models
from tests.support.emulator import Emulator

boto_models.share()
# beside a busy suite the embedded AWS and the Kubernetes API are slow, not away
clients.CONNECT_SECONDS, clients.READ_SECONDS = 120, 900
api_server.CONNECT_SECONDS, api_server.READ_SECONDS = 120, 900


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
        """Run a day-2 command in this process, where it need not be one of its own, and read its JSON."""
        out, err = io.StringIO(), io.StringIO()
        before = dict(os.environ)
        os.environ.clear()
        os.environ.update(self.emulator.environment())
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = main(["--environments", str(self.environments), *arguments, "-o", "json"])
        finally:
            os.environ.clear()
            os.environ.update(before)
        assert code in allowed, err.getvalue()
        return json.loads(out.getvalue())

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


def settings_in(region: str, *, name: str = "local") -> dict[str, Any]:
    """A shipped environment in a region, with zones of that region."""
    found: dict[str, Any] = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    found["region"] = region
    found["network"]["availability_zone_ids"] = list(default_zones(region))
    return found


def synthesized(emulator: Emulator, root: Path, *, name: str, settings: dict[str, Any]) -> Story:
    """Write the environment's file and synthesize it once, for every later command."""
    environments = root / "environments"
    environments.mkdir()
    text = yaml.safe_dump(settings)
    (environments / f"{name}.yaml").write_text(text)
    # other tests validate the templates
    assembly = assemblies.synthesized(name, text, path=environments / f"{name}.yaml", validation=False, uploads=True)
    return Story(emulator=emulator, environments=environments, assembly=assembly)
