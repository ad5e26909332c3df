"""GitHub workflows: what actionlint does not look at."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray.cli.deploy import Verdict
from hyperpod_ray.cli.review import Limit
from hyperpod_ray.core import environment_names
from hyperpod_ray.review.report.failure import MARKER

FOLDER = Path(__file__).parents[2] / ".github" / "workflows"
FILES = sorted(FOLDER.glob("*.yml"))
TEMPLATE = FOLDER.parents[1] / "hyperpod_ray" / "template" / "github" / "workflows"
"""Workflows that `hyperpod-ray init` writes."""
REVIEWS = pytest.mark.parametrize("folder", [FOLDER, TEMPLATE], ids=["own", "init"])


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
    assert offered <= set(environment_names())


def run(
    script: str, folder: Path, ended: int, *, reports: bool = True, **variables: str
) -> tuple[int, list[str], dict[str, str]]:
    """Run a step's script with a program in the command's place: exit code, its calls, the step's outputs."""
    program = folder / ".venv" / "bin" / "hyperpod-ray"  # on the path too, as the steps before it put it there
    program.parent.mkdir(parents=True)
    report = 'echo "## ⛔ loses data" > report.md' if reports else ":"
    program.write_text(f'#!/bin/sh\necho "$*" >> calls\n{report}\nexit {ended}\n')
    program.chmod(0o755)
    files = {"GITHUB_OUTPUT": str(folder / "output"), "GITHUB_STEP_SUMMARY": str(folder / "summary")}
    files["PATH"] = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script], cwd=folder, env={**os.environ, **files, **variables}, check=False
    )
    calls = (folder / "calls").read_text().splitlines() if (folder / "calls").exists() else []
    written = (folder / "output").read_text().splitlines() if (folder / "output").exists() else []
    return done.returncode, calls, dict(line.split("=", 1) for line in written if "=" in line)


def script_of(file: str, job: str, word: str, *, folder: Path = FOLDER) -> str:
    jobs = yaml.safe_load((folder / file).read_text())["jobs"]
    (found,) = (step["run"] for step in jobs[job]["steps"] if word in step.get("run", ""))
    return str(found)


@REVIEWS
@pytest.mark.parametrize(("ended", "status"), [(0, "0"), (2, "2"), (3, "3")])
def test_a_review_that_fails_still_comments_and_then_fails(
    tmp_path: Path, folder: Path, ended: int, status: str
) -> None:
    made = script_of("review.yml", "review", "hyperpod-ray review", folder=folder)
    code, calls, outputs = run(made, tmp_path, ended, BASE="abc", FAIL_ON="loses-nodes")
    assert (code, outputs["status"], outputs["verdict"]) == (0, status, "⛔ loses data")
    assert "--fail-on loses-nodes" in calls[0]
    verdict = script_of("review.yml", "verdict", "STATUS", folder=folder)
    ended_with, _, _ = run(verdict, tmp_path / "verdict", 0, STATUS=status, VERDICT=outputs["verdict"])
    assert ended_with == (1 if ended else 0)


@REVIEWS
def test_a_review_that_cannot_be_made_fails_at_once_and_so_does_the_required_check(
    tmp_path: Path, folder: Path
) -> None:
    """A required job that is skipped counts as a success, and one that a path filter skips stays pending.

    https://docs.github.com/en/actions/how-tos/write-workflows/choose-when-workflows-run/control-jobs-with-conditions
    """
    made = script_of("review.yml", "review", "hyperpod-ray review", folder=folder)
    assert run(made, tmp_path / "one", 2, reports=False, BASE="abc", FAIL_ON="never")[0] != 0
    assert run(made, tmp_path / "two", 1, BASE="abc", FAIL_ON="never")[0] == 1
    workflow = yaml.safe_load((folder / "review.yml").read_text())
    assert workflow["jobs"]["verdict"]["if"] == "${{ always() }}"
    assert not workflow[True]["pull_request"], "no path filter"
    verdict = script_of("review.yml", "verdict", "STATUS", folder=folder)
    assert run(verdict, tmp_path / "verdict", 0, STATUS="", VERDICT="")[0] == 1, "the review ended without outputs"


def test_the_review_of_a_new_project_runs_nothing_that_fails_before_the_comment() -> None:
    """Charts without a digest stop a deployment; a review needs none of them."""
    jobs = yaml.safe_load((TEMPLATE / "review.yml").read_text())["jobs"]
    assert not [step for step in jobs["review"]["steps"] if "charts fetch" in step.get("run", "")]
    assert MARKER in jobs["comment"]["steps"][0]["run"]


@pytest.mark.parametrize(
    ("accept", "limit"),
    [
        ("safe", "weakens"),
        ("weakens", "interrupts"),
        ("interrupts", "rejected"),
        ("loses-nodes", "loses-data"),
        ("loses-data", "never"),
    ],
)
def test_a_deploy_goes_as_far_as_it_was_accepted(tmp_path: Path, accept: str, limit: str) -> None:
    reviewed = script_of("deploy.yml", "review", "hyperpod-ray review")
    code, calls, _ = run(reviewed, tmp_path / "review", 3, ENVIRONMENT="prod", ACCEPT=accept)
    assert code == 3
    assert "review prod --deployed" in calls[0]
    assert f"--fail-on {limit} --fail-on any-rejected" in calls[0]
    deployed = script_of("deploy.yml", "deploy", "hyperpod-ray deploy")
    code, calls, _ = run(deployed, tmp_path / "deploy", 3, ENVIRONMENT="prod", ACCEPT=accept)
    assert (code, calls) == (3, [f"deploy prod --accept {accept}"])


def test_the_workflows_offer_what_the_command_accepts() -> None:
    workflow = yaml.safe_load((FOLDER / "deploy.yml").read_text())
    offered = set(workflow[True]["workflow_dispatch"]["inputs"]["accept"]["options"])
    assert offered == {verdict.value for verdict in Verdict} - {Verdict.rejected.value}
    default = re.search(r"\|\| '([a-z-]+)'", (FOLDER / "review.yml").read_text())
    assert default and default[1] in {limit.value for limit in Limit}


def test_no_workflow_deploys_past_the_command() -> None:
    assert [file.name for file in FILES if re.search(r"cdk\S* deploy", file.read_text())] == []


def test_every_pull_request_runs_lint_types_tests_demo_and_site() -> None:
    workflow = yaml.safe_load((FOLDER / "ci.yml").read_text())
    assert "pull_request" in workflow[True]
    assert not workflow[True]["pull_request"], "no paths and no branches are left out"
    run = " ".join(step.get("run", "") for step in steps(FOLDER / "ci.yml"))
    assert all(re.search(rf"make\b[^\n]*\b{word}\b", run) for word in ("lint", "types", "test", "demo", "docs"))


def test_each_leg_types_its_own_python() -> None:
    settings = tomllib.loads((FOLDER.parents[1] / "pyproject.toml").read_text())["tool"]["mypy"]
    assert "python_version" not in settings
    legs = yaml.safe_load((FOLDER / "ci.yml").read_text())["jobs"]["lint"]["strategy"]["matrix"]["python"]
    assert len(legs) == len(set(legs)) == 3


def test_a_deploy_is_compared_with_what_is_deployed_by_a_role_that_reads() -> None:
    workflow = yaml.safe_load((FOLDER / "deploy.yml").read_text())
    assert set(workflow[True]["workflow_dispatch"]["inputs"]) == {"environment", "accept"}
    review = workflow["jobs"]["review"]
    assert review["environment"] == "${{ inputs.environment }}-read"
    (role,) = (step["with"]["role-to-assume"] for step in review["steps"] if "role-to-assume" in step.get("with", {}))
    assert role == "${{ vars.DRIFT_ROLE_ARN }}"


def test_the_owners_approve_the_last_push(tmp_path: Path) -> None:
    """The script runs; what reaches GitHub is what its API documents for branch protection.

    https://docs.github.com/en/rest/branches/branch-protection#update-branch-protection
    """
    program = tmp_path / "gh"
    program.write_text('#!/bin/sh\necho "$*" >> "$CALLS"\ncase "$*" in *"--input -"*) cat > "$CALLS.body";; esac\n')
    program.chmod(0o755)
    calls = tmp_path / "calls"
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "CALLS": str(calls)}
    script = FOLDER.parent / "protect.sh"
    subprocess.run(["bash", str(script), "owner/repository"], env=environ, check=True)
    assert "PUT repos/owner/repository/branches/main/protection" in calls.read_text()
    body = json.loads(Path(f"{calls}.body").read_text())
    reviews = body["required_pull_request_reviews"]
    assert reviews["required_approving_review_count"] >= 1
    for setting in ("require_code_owner_reviews", "dismiss_stale_reviews", "require_last_push_approval"):
        assert reviews[setting] is True, setting
    assert body["enforce_admins"] is True and body["required_status_checks"]["strict"] is True


def test_what_computes_the_verdict_has_owners() -> None:
    rules = [line.split() for line in (FOLDER.parent / "CODEOWNERS").read_text().splitlines() if line[:1] in "*/"]
    owners = {words[0]: set(words[1:]) for words in rules if words}
    assert next(iter(owners)) == "*", "every file has an owner"
    security = "@your-organization/security"
    for place in (
        "/.github/",
        "/hyperpod_ray/review/",
        "/hyperpod_ray/cli/",
        "/Makefile",
        "/constructs/",
        "/stacks/",
        "/k8s/",
    ):
        assert security in owners[place], place


def test_protect_covers_every_environment_and_every_check() -> None:
    guide = (FOLDER.parent / "protect.sh").read_text()
    used = set()
    for file in FILES:
        for job in yaml.safe_load(file.read_text())["jobs"].values():
            name = str(job.get("environment", ""))
            suffix = "-read" if name.endswith("-read") else ""
            used |= {f"{one}{suffix}" for one in ("dev", "prod") if name}
    assert used == {"dev", "prod", "dev-read", "prod-read"}
    (loop,) = re.findall(r"for environment in ([^;]+); do", guide)
    assert set(loop.split()) == used
    assert "deployment-branch-policies" in guide
    assert "branches/main/protection" in guide
    ci = yaml.safe_load((FOLDER / "ci.yml").read_text())["jobs"]
    names = {"verdict"}
    for name, job in ci.items():
        versions = job.get("strategy", {}).get("matrix", {}).get("python", [])
        names |= {f"{name} ({version})" for version in versions} or {name}
    (contexts,) = re.findall(r'"contexts": (\[[^\]]+\])', guide)
    assert set(json.loads(contexts)) == names
    assert "verdict" in yaml.safe_load((FOLDER / "review.yml").read_text())["jobs"]
