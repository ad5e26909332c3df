"""The life of an environment in somebody's own project, with every extension, from the wheels, on the sandbox."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.project.conftest import Run
from tests.project.examples import extend_with_all, install_check

pytestmark = [pytest.mark.emulator, pytest.mark.slow]

RULES = """
import boto3, json
print(boto3.client("kms").create_key()["KeyMetadata"]["Arn"])
policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
boto3.client("iam").create_policy(PolicyName="company-boundary", PolicyDocument=json.dumps(policy))
"""
"""A company's key and boundary, which are there before any environment."""
LEFT = """
import boto3
print([stack["StackName"] for stack in boto3.client("cloudformation").describe_stacks()["Stacks"]])
"""


def account_of(project: Path, run: Run) -> dict[str, str]:
    return dict(re.findall(r"^export (\w+)=(.*)$", run("local", "env", cwd=project).stdout, re.MULTILINE))


def test_the_life_of_an_environment_with_every_extension(project: Path, run: Run, tmp_path: Path) -> None:
    """One of each: stack, alarm, objects, chart, dashboard rows, boundary, names, keys, tags, lifecycle step, check."""
    checks = {"PYTHONPATH": str(install_check(tmp_path))}
    extend_with_all(project)
    try:
        assert run("local", "up", "--account", "111122223333", cwd=project).returncode == 0
        answer = run("python", "-c", RULES, cwd=project, **account_of(project, run))
        assert answer.returncode == 0, answer.stderr
        app = (project / "app.py").read_text()
        key = re.search(r'^KEY = "(.*)"$', app, re.MULTILINE)
        assert key is not None
        (project / "app.py").write_text(app.replace(key[1], answer.stdout.strip()))
        refused = run("local", "deploy", "dev", cwd=project, **checks)
        assert (refused.returncode, "tags: no tag 'cost-center'" in refused.stderr) == (2, True), refused.stderr
        file = project / "environments" / "dev.yaml"
        file.write_text(file.read_text() + "\ntags: {cost-center: '4711'}\n")
        done = run("local", "deploy", "dev", cwd=project, **checks)
        assert done.returncode == 0, done.stderr[-3000:]
        account = {**account_of(project, run), **checks}
        account["HYPERPOD_RAY_ENVIRONMENTS"] = ".local/aws/rehearsed/dev/environments"
        waited = run("wait", "dev", "--for", "healthy", "--timeout", "300", "--poll", "1", cwd=project, **account)
        assert waited.returncode == 0, waited.stderr
        status = json.loads(run("status", "dev", "-o", "json", cwd=project, **account).stdout)
        states = {stack["name"]: stack["status"] for stack in status["stacks"]}
        assert (states["dev-Company"], states["dev-Charts"]) == ("CREATE_COMPLETE", "CREATE_COMPLETE")
        reviewed = run("review", "dev", "--deployed", "--fail-on", "any-change", cwd=project, **account)
        assert reviewed.returncode == 0, reviewed.stdout
        again = run("deploy", "dev", "--poll", "1", cwd=project, **account)
        assert again.returncode == 0, again.stderr[-3000:]
        assert "'dev' is deployed: 9 stacks" in again.stderr
        dry = run("teardown", "dev", "--dry-run", cwd=project, **account)
        assert "dev-Company" in dry.stdout
        assert "dev-Charts" in dry.stdout
        down = run("teardown", "dev", "--yes", cwd=project, **account)
        assert down.returncode == 0, down.stderr[-3000:]
        assert "is down; nothing is left" in down.stderr
        left = run("python", "-c", LEFT, cwd=project, **account).stdout
        assert left.strip() == "['CDKToolkit']"
    finally:
        run("local", "down", cwd=project)


def test_a_stack_that_left_the_app_is_no_nothing_left(project: Path, run: Run) -> None:
    """Its template is gone from the project: teardown cannot destroy it, and says that it is there."""
    try:
        assert run("local", "up", "--account", "111122223333", cwd=project).returncode == 0
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
