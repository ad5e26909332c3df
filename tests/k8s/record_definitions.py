"""Writes `definitions.yaml`: what the definitions of Karpenter and Kueue limit, without their descriptions.

.venv/bin/python -m tests.k8s.record_definitions KARPENTER KUEUE

Both are git repositories of the projects, which are under Apache-2.0.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).with_name("definitions.yaml")
KARPENTER = "v1.9.1"
KUEUE = {"0.17": "v0.17.0", "0.18": "v0.18.0", "0.19": "v0.19.2"}
_POOLS = "pkg/apis/crds/karpenter.sh_nodepools.yaml"
_WORKLOADS = "config/components/crd/bases/kueue.x-k8s.io_workloads.yaml"


def schema(repository: str, tag: str, path: str, version: str) -> Any:
    """The schema of a definition's version at a tag."""
    command = ["git", "-C", repository, "show", f"{tag}:{path}"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    (found,) = [each for each in yaml.safe_load(text)["spec"]["versions"] if each["name"] == version]
    return found["schema"]["openAPIV3Schema"]


def bare(value: Any, *, names: bool = False) -> Any:
    """The schema without what only people read; `names` where keys are names of fields."""
    if isinstance(value, dict):
        return {
            key: bare(inner, names=key == "properties" and not names)
            for key, inner in value.items()
            if names or key not in {"description", "format"}
        }
    return [bare(inner) for inner in value] if isinstance(value, list) else value


def main(karpenter: str, kueue: str) -> None:
    """Write the file."""
    pool = schema(karpenter, KARPENTER, _POOLS, "v1")
    definitions = {
        "about": {
            "NodePool": f"https://github.com/kubernetes-sigs/karpenter/blob/{KARPENTER}/{_POOLS}",
            "Workload": f"https://github.com/kubernetes-sigs/kueue/blob/{KUEUE['0.19']}/{_WORKLOADS}",
            "license": "Apache-2.0",
        },
        "NodePool": bare(pool["properties"]["spec"]),
        "Workload": {
            version: {
                key: bare(workload[key] if key != "name" else workload["podSets"]["items"]["properties"]["name"])
                if key != "podSets"
                else {"maxItems": workload["podSets"]["maxItems"]}
                for key in ("podSets", "name", "queueName")
            }
            for version, tag in KUEUE.items()
            for workload in [schema(kueue, tag, _WORKLOADS, "v1beta1")["properties"]["spec"]["properties"]]
        },
    }
    text = yaml.safe_dump(definitions, sort_keys=False, width=110)
    FILE.write_text(f"# Written by tests/k8s/record_definitions.py; do not edit.\n{text}", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
