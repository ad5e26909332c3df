"""The life of an environment in somebody's own project, with every extension, from the wheels, on the sandbox.

`test_story.py` tells it with what is installed here, and `elsewhere.py` in an empty folder with an index.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

Run = Callable[..., subprocess.CompletedProcess[str]]
"""Runs a program in a folder (`cwd`), with further variables."""
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
ROLES = """
import boto3
iam = boto3.client("iam")
for role in iam.list_roles()["Roles"]:
    boundary = iam.get_role(RoleName=role["RoleName"])["Role"].get("PermissionsBoundary", {})
    if not role["RoleName"].startswith(("cdk-", "AWSServiceRole")):
        print(role["RoleName"], boundary.get("PermissionsBoundaryArn", "none"))
"""


def account_of(project: Path, run: Run) -> dict[str, str]:
    """The variables of the sandbox's account."""
    return dict(re.findall(r"^export (\w+)=(.*)$", run("local", "env", cwd=project).stdout, re.MULTILINE))


def ok(done: subprocess.CompletedProcess[str], code: int = 0) -> str:
    """What it printed; it must have ended with `code`, and with no failure of its own."""
    assert done.returncode == code, f"{done.args}: {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert "internal error" not in done.stderr, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


@dataclass(frozen=True, kw_only=True)
class Story:
    """One environment of a project that `init` made, under version control, extended by everything of docs/extend.md.

    Args:
        project: Folder of the project.
        run: Runs a program.
        env: Name of the environment.
        account: Number of its account.
        region: Its Region.
        checks: Variables with which the package with the check is there.
        submit: Submits a job to the environment of these variables. Default: none is submitted.
    """

    project: Path
    run: Run
    env: str
    account: str
    region: str
    checks: Mapping[str, str] = field(default_factory=dict)
    submit: Callable[[Mapping[str, str]], None] = lambda _: None

    def ok(self, *words: str, variables: Mapping[str, str] | None = None) -> str:
        """What a program of the project prints that succeeds."""
        return ok(self.run(*words, cwd=self.project, **{**self.checks, **(variables or {})}))

    def says(self, *words: str, code: int, variables: Mapping[str, str] | None = None) -> str:
        """What a program prints, and what it says beside that."""
        done = self.run(*words, cwd=self.project, **{**self.checks, **(variables or {})})
        return ok(done, code) + done.stderr

    def tell(self) -> None:
        """All of it."""
        self.before_deployment()
        try:
            self.ok("local", "up", "--account", self.account, "--region", self.region)
            sandbox = account_of(self.project, self.run)
            app = (self.project / "app.py").read_text()
            key = re.search(r'^KEY = "(.*)"$', app, re.MULTILINE)
            assert key is not None
            arn = self.ok("python", "-c", RULES, variables=sandbox).strip()
            (self.project / "app.py").write_text(app.replace(key[1], arn))
            self.ok("local", "deploy", self.env)
            folder = f".local/aws/rehearsed/{self.env}/environments"
            sandbox = {**account_of(self.project, self.run), "HYPERPOD_RAY_ENVIRONMENTS": folder}
            self.after_deployment(sandbox)
            self.submit(sandbox)
            self.end(sandbox)
        finally:
            self.run("local", "down", cwd=self.project)

    def before_deployment(self) -> None:
        """A check of one's own refuses the file; then synth, and a review by the project's own history."""
        file = self.project / "environments" / f"{self.env}.yaml"
        refused = self.says("env", "check", code=2)
        assert re.search(rf"environments/{self.env}\.yaml:\d+: tags: no tag 'cost-center'", refused), refused
        good = file.read_text() + "\ntags: {cost-center: '4711'}\n"
        file.write_text(good)
        assert self.ok("env", "check") == f"ok {self.env}\n"
        # a review would refuse the revision that the check refuses
        past = self.says("review", "--base", "main", code=2)
        assert "(base)" in past, past
        assert "commit the correction" in past, past
        self.ok("git", "add", "--all")
        self.ok("git", "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "--quiet", "-m", "extensions")
        self.ok("charts", "fetch", "--lock", "company.lock.yaml")
        self.ok("cdk", "synth", "--quiet", variables={"CDK_VALIDATION": "false"})
        # a group renamed, storage replaced and deleted with the environment: never safe
        changed = re.sub(r"\b(name|instance_group): workers\b", r"\1: trainers", good)
        changed = changed.replace("mode: static", "mode: dynamic").replace("on_destroy: retain", "on_destroy: delete")
        file.write_text(changed)
        reviewed = self.says("review", "--base", "main", "--fail-on", "loses-nodes", code=3)
        assert "renamed to trainers" in reviewed, reviewed
        file.write_text(good)

    def after_deployment(self, sandbox: Mapping[str, str]) -> None:
        """What knows the stacks of one's own."""
        self.ok("wait", self.env, "--for", "healthy", "--timeout", "600", "--poll", "1", variables=sandbox)
        status = json.loads(self.ok("status", self.env, "-o", "json", variables=sandbox))
        states = {stack["name"]: stack["status"] for stack in status["stacks"]}
        assert states[f"{self.env}-Company"] == "CREATE_COMPLETE", states
        assert states[f"{self.env}-Charts"] == "CREATE_COMPLETE", states
        roles = self.ok("python", "-c", ROLES, variables=sandbox).splitlines()
        assert len(roles) > 15
        assert all(role.startswith("company-") and role.endswith(":policy/company-boundary") for role in roles), roles
        self.ok("diff", self.env, variables=sandbox)
        self.ok("review", self.env, "--deployed", "--fail-on", "any-change", variables=sandbox)
        again = self.says("deploy", self.env, "--poll", "1", code=0, variables=sandbox)
        assert f"'{self.env}' is deployed: {len(states)} stacks" in again, again

    def end(self, sandbox: Mapping[str, str]) -> None:
        """Everything is destroyed, the stacks of one's own too."""
        dry = self.ok("teardown", self.env, "--dry-run", variables=sandbox)
        assert f"{self.env}-Company" in dry
        assert f"{self.env}-Charts" in dry
        assert "is down; nothing is left" in self.says("teardown", self.env, "--yes", code=0, variables=sandbox)
        assert self.ok("python", "-c", LEFT, variables=sandbox).strip() == "['CDKToolkit']"
