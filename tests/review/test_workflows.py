"""GitHub workflows: what actionlint does not look at."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from core import names
from review.report.markdown import MARKER

FOLDER = Path(__file__).parents[2] / ".github" / "workflows"
FILES = sorted(FOLDER.glob("*.yml"))


def steps(file: Path) -> Iterator[dict[str, Any]]:
    for job in yaml.safe_load(file.read_text())["jobs"].values():
        yield from job["steps"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_actions_are_pinned_by_commit(file: Path) -> None:
    used = [step["uses"] for step in steps(file) if "uses" in step]
    assert [one for one in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", one)] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_stored_secret_and_no_permission_by_default(file: Path) -> None:
    text = file.read_text()
    assert "secrets." not in text
    assert yaml.safe_load(text)["permissions"] == {}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_expression_inside_a_script(file: Path) -> None:
    """Values come by environment variables: a branch name must not become shell."""
    assert [step["run"] for step in steps(file) if "${{" in step.get("run", "")] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_scripts_pass_shellcheck(file: Path, tmp_path: Path) -> None:
    for index, step in enumerate(step for step in steps(file) if "run" in step):
        script = tmp_path / f"{index}.sh"
        script.write_text("#!/bin/bash\nset -eo pipefail\n" + step["run"])
        done = subprocess.run(["shellcheck", str(script)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def test_the_pull_requests_code_runs_without_write_access() -> None:
    jobs = yaml.safe_load((FOLDER / "review.yml").read_text())["jobs"]
    assert jobs["review"]["permissions"] == {"contents": "read"}
    assert jobs["comment"]["permissions"] == {"pull-requests": "write"}
    assert not [step for step in jobs["comment"]["steps"] if "uses" in step]
    assert MARKER in jobs["comment"]["steps"][0]["run"]


def test_deploy_asks_for_approval_and_offers_the_shipped_environments() -> None:
    workflow = yaml.safe_load((FOLDER / "deploy.yml").read_text())
    assert workflow["jobs"]["deploy"]["environment"] == "${{ inputs.environment }}"
    # YAML 1.1 reads `on` as true
    offered = set(workflow[True]["workflow_dispatch"]["inputs"]["environment"]["options"])
    assert offered <= set(names())
