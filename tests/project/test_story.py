"""The life of an environment in somebody's own project; `.ci/elsewhere` tells it again where this checkout is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.project.conftest import ANSWERS, install_check
from tests.project.examples import ON_SLURM, extend_with_all
from tests.project.story import Run, Story, account_of

ACCOUNT = ANSWERS[1]
pytestmark = [pytest.mark.emulator, pytest.mark.slow]


def test_the_life_of_an_environment_with_every_extension(project: Path, run: Run, tmp_path: Path) -> None:
    """Stack, alarm, objects, chart, dashboard rows, boundary, names, keys, tags, lifecycle steps, proxy and check."""
    extend_with_all(project, "dev")
    checks = {"PYTHONPATH": str(install_check(tmp_path))}
    Story(
        project=project, run=run, env="dev", account=ACCOUNT, region="us-west-2", on_slurm=ON_SLURM, checks=checks
    ).tell()


def test_a_stack_that_left_the_app_is_no_nothing_left(project: Path, run: Run) -> None:
    """Its template is gone from the project: teardown cannot destroy it, and says that it is there."""
    try:
        assert run("local", "up", "--account", ACCOUNT, cwd=project).returncode == 0
        account = account_of(project, run)
        code = """
import boto3, json
template = {"Resources": {"Jobs": {"Type": "AWS::SQS::Queue"}}}
tags = [{"Key": "hyperpod-ray:environment", "Value": "dev"}]
client = boto3.client("cloudformation")
client.create_stack(StackName="company-queues", TemplateBody=json.dumps(template), Tags=tags)
client.get_waiter("stack_create_complete").wait(StackName="company-queues")
"""
        assert run("python", "-c", code, cwd=project, **account).returncode == 0
        down = run("teardown", "dev", "--yes", cwd=project, **account)
        assert down.returncode == 1, down.stderr
        assert "left over: stack company-queues" in down.stderr
    finally:
        run("local", "down", cwd=project)
