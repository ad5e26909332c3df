"""docs/extend.md in a project of somebody's own, from the wheels: each example does what the page says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.project.conftest import Run
from tests.project.examples import ASPECTS, CHECK, PACKAGE, STACK, STEP, extend


def templates(project: Path, run: Run) -> dict[str, dict[str, Any]]:
    done = run("cdk", "synth", "--quiet", cwd=project, CDK_VALIDATION="false")
    assert done.returncode == 0, done.stderr
    return {
        path.name.removesuffix(".template.json"): json.loads(path.read_text())["Resources"]
        for path in (project / "cdk.out").glob("assembly-dev/*.template.json")
    }


def of_type(resources: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [each["Properties"] for each in resources.values() if each["Type"] == name]


@pytest.mark.slow
def test_an_own_stack_with_an_alarm_and_kubernetes_objects(project: Path, run: Run) -> None:
    before = templates(project, run)
    extend(project, STACK)
    after = templates(project, run)
    (name,) = after.keys() - before.keys()
    assert "Company" in name
    own = after[name]
    assert len(of_type(own, "AWS::S3::Bucket")) == 1
    (alarm,) = of_type(own, "AWS::CloudWatch::Alarm")
    assert "Topic" in json.dumps(alarm["AlarmActions"])
    (policy,) = of_type(own, "AWS::IAM::Policy")
    assert "Execution" in json.dumps(policy["Roles"])
    (applied,) = of_type(own, "Custom::AWSCDK-EKS-KubernetesResource")
    assert '"namespace":"ray"' in json.dumps(applied["Manifest"]).replace("\\", "").replace(" ", "")
    # the environment's own stacks differ in exports only
    assert {key: after[key] for key in before} == before


def test_aspects_reach_every_role_and_resource(project: Path, run: Run) -> None:
    extend(project, ASPECTS)
    roles = [role for resources in templates(project, run).values() for role in of_type(resources, "AWS::IAM::Role")]
    assert len(roles) > 15
    assert all("company-boundary" in json.dumps(role.get("PermissionsBoundary")) for role in roles)
    manifest = json.loads((project / "cdk.out" / "assembly-dev" / "manifest.json").read_text())
    stacks = [each for each in manifest["artifacts"].values() if each["type"] == "aws:cloudformation:stack"]
    assert all(stack["properties"]["tags"]["cost-center"] == "4711" for stack in stacks)


def test_an_own_step_travels_with_the_lifecycle_scripts(project: Path, run: Run) -> None:
    (project / "lifecycle").mkdir()
    (project / "lifecycle" / "after_create.sh").write_text(STEP)
    templates(project, run)
    (uploaded,) = (project / "cdk.out").glob("asset.*/after_create.sh")
    assert uploaded.read_text() == STEP


def test_an_own_check_with_its_place(project: Path, run: Run, tmp_path: Path) -> None:
    package = tmp_path / "company"
    package.mkdir()
    (package / "company_checks.py").write_text(CHECK)
    (package / "pyproject.toml").write_text(PACKAGE)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=package, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("company*.whl")
    own = tmp_path / "own"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(own)]
    subprocess.run([*pip, str(wheel)], check=True)
    done = run("env", "check", cwd=project, PYTHONPATH=str(own))
    assert done.returncode == 2, done.stderr
    assert "environments/dev.yaml:" in done.stderr
    assert "tags: no tag 'cost-center'. Expected one on every environment. Fix: add it to tags" in done.stderr
    file = project / "environments" / "dev.yaml"
    file.write_text(file.read_text() + "\ntags: {cost-center: '4711'}\n")
    assert run("env", "check", cwd=project, PYTHONPATH=str(own)).stdout == "ok dev\n"
    (own / "company_checks.py").write_text("import nowhere_at_all\n")
    done = run("env", "check", cwd=project, PYTHONPATH=str(own))
    assert done.returncode == 2
    assert "checks of 'company_checks' cannot be imported: ModuleNotFoundError" in done.stderr
    assert "Traceback" not in done.stderr
