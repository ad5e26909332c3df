"""The real cdk CLI on the synthesized environments: no credentials, no account, no lookup."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.stacks.assembled import PROJECT, Assembly

CDK = PROJECT / "node_modules" / ".bin" / "cdk"
STACKS = {"Network", "Eks", "Image", "HyperPod", "Platform", "Ray"}


def cdk(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it as somebody who has no AWS settings at all."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    environment |= {"HOME": str(home), "AWS_EC2_METADATA_DISABLED": "true", "CDK_DISABLE_CLI_TELEMETRY": "true"}
    return subprocess.run(
        [str(CDK), *arguments], cwd=home, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", ["dev", "prod"])
def test_ls_needs_no_account(assemblies: dict[str, Assembly], tmp_path: Path, name: str) -> None:
    done = cdk(tmp_path, "ls", "--app", str(assemblies[name].folder))
    assert done.returncode == 0, done.stderr
    listed = {line.split()[0].removeprefix(f"{name}/") for line in done.stdout.splitlines() if line.startswith(name)}
    assert listed >= STACKS


@pytest.mark.parametrize("name", ["prod", pytest.param("dev", marks=pytest.mark.slow)])
def test_diff_against_a_template_needs_no_account(assemblies: dict[str, Assembly], tmp_path: Path, name: str) -> None:
    assembly = assemblies[name]
    template = assembly.templates[f"{name}-HyperPod"]
    same, other = tmp_path / "same.json", tmp_path / "other.json"
    same.write_text(json.dumps(template))
    cluster = next(r for r in template["Resources"].values() if r["Type"] == "AWS::SageMaker::Cluster")
    before = cluster["Properties"]["InstanceGroups"][0]["InstanceCount"]
    cluster["Properties"]["InstanceGroups"][0]["InstanceCount"] = before + 1
    other.write_text(json.dumps(template))
    cluster["Properties"]["InstanceGroups"][0]["InstanceCount"] = before
    where = ("--app", str(assembly.folder), "--exclusively", f"{name}/HyperPod", "--fail")
    clean = cdk(tmp_path, "diff", *where, "--template", str(same))
    assert clean.returncode == 0, clean.stdout + clean.stderr
    changed = cdk(tmp_path, "diff", *where, "--template", str(other))
    assert changed.returncode == 1
    assert "InstanceCount" in changed.stdout + changed.stderr
