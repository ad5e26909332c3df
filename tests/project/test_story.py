"""The life of an environment in somebody's own project, with a stack of their own, from the wheels, on the sandbox."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.project.conftest import Run
from tests.project.examples import STACK, extend

pytestmark = [pytest.mark.emulator, pytest.mark.slow]


def test_deploy_status_review_and_teardown_with_an_own_stack(project: Path, run: Run) -> None:
    extend(project, STACK)
    try:
        done = run("local", "deploy", "dev", cwd=project)
        assert done.returncode == 0, done.stderr[-3000:]
        exports = run("local", "env", cwd=project).stdout
        account = dict(re.findall(r"^export (\w+)=(.*)$", exports, re.MULTILINE))
        account["HYPERPOD_RAY_ENVIRONMENTS"] = ".local/aws/rehearsed/dev/environments"
        waited = run("wait", "dev", "--for", "healthy", "--timeout", "300", "--poll", "1", cwd=project, **account)
        assert waited.returncode == 0, waited.stderr
        status = json.loads(run("status", "dev", "-o", "json", cwd=project, **account).stdout)
        assert {"name": "dev-Company", "status": "CREATE_COMPLETE"}.items() <= {
            key: value
            for stack in status["stacks"] if stack["name"] == "dev-Company"
            for key, value in stack.items()
        }.items()  # fmt: skip
        reviewed = run("review", "dev", "--deployed", "--fail-on", "any-change", cwd=project, **account)
        assert reviewed.returncode == 0, reviewed.stdout
        again = run("deploy", "dev", "--poll", "1", cwd=project, **account)
        assert again.returncode == 0, again.stderr[-3000:]
        assert "'dev' is deployed: 8 stacks" in again.stderr
        dry = run("teardown", "dev", "--dry-run", cwd=project, **account)
        assert "dev-Company" in dry.stdout
        down = run("teardown", "dev", "--yes", cwd=project, **account)
        assert down.returncode == 0, down.stderr[-3000:]
        assert "is down; nothing is left" in down.stderr
        code = (
            "import boto3; print([s['StackName'] for s in boto3.client('cloudformation').describe_stacks()['Stacks']])"
        )
        left = run("python", "-c", code, cwd=project, **account).stdout
        assert left.strip() == "['CDKToolkit']"
    finally:
        run("local", "down", cwd=project)


def test_a_stack_that_left_the_app_is_no_nothing_left(project: Path, run: Run) -> None:
    """Its template is gone from the project: teardown cannot destroy it, and says that it is there."""
    account = {}
    try:
        assert run("local", "up", "--account", "111122223333", cwd=project).returncode == 0
        exports = run("local", "env", cwd=project).stdout
        account = dict(re.findall(r"^export (\w+)=(.*)$", exports, re.MULTILINE))
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
