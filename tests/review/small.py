"""Small assemblies written by hand, for what no shipped environment has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Templates = dict[str, dict[str, Any]]


def write(
    folder: Path, stacks: Templates, *, depends: dict[str, list[str]] | None = None, files: Templates | None = None
) -> Path:
    """An assembly with one environment `env`; stacks are deployed in the order given."""
    inner = folder / "assembly-env"
    inner.mkdir(parents=True)
    artifacts = {}
    for name, template in stacks.items():
        artifacts[name] = {
            "type": "aws:cloudformation:stack",
            "environment": "aws://111122223333/us-west-2",
            "displayName": f"env/{name}",
            "dependencies": (depends or {}).get(name, []),
            "properties": {"templateFile": f"{name}.template.json", "stackName": f"env-{name}"},
        }
        (inner / f"{name}.template.json").write_text(json.dumps(template))
    for name, template in (files or {}).items():
        (inner / name).write_text(json.dumps(template))
    (inner / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))
    outer = {
        "assembly-env": {
            "type": "cdk:cloud-assembly",
            "properties": {"directoryName": "assembly-env", "displayName": "env"},
        }
    }
    (folder / "manifest.json").write_text(json.dumps({"artifacts": outer}))
    return folder


def resources(**items: dict[str, Any]) -> dict[str, Any]:
    """A template of some resources."""
    return {"Resources": items}
