"""What `test_deploy_review.py`, `test_deploy.py` share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NAME = "dev"


def assembly(folder: Path, given: dict[str, Any]) -> Path:
    """An assembly with the environment `dev`; HyperPod comes after Network."""
    inner = folder / f"assembly-{NAME}"
    inner.mkdir(parents=True)
    artifacts = {}
    for name, template in given.items():
        artifacts[f"{NAME}{name}"] = {
            "type": "aws:cloudformation:stack",
            "environment": "aws://111122223333/us-west-2",
            "displayName": f"{NAME}/{name}",
            "dependencies": [f"{NAME}Network"] if name == "HyperPod" else [],
            "properties": {"templateFile": f"{name}.template.json", "stackName": f"{NAME}-{name}"},
        }
        (inner / f"{name}.template.json").write_text(json.dumps(template))
    (inner / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))
    nested = {"directoryName": f"assembly-{NAME}", "displayName": NAME}
    outer = {"artifacts": {"one": {"type": "cdk:cloud-assembly", "properties": nested}}}
    (folder / "manifest.json").write_text(json.dumps(outer))
    return folder
