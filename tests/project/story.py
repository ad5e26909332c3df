"""The life of an environment in somebody's own project, with every extension, from the wheels, on the sandbox.

`test_story.py` tells it with what is installed here, and `elsewhere.py` in an empty folder with an index.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
for role in boto3.client("iam").list_roles()["Roles"]:
    if not role["RoleName"].startswith(("cdk-", "AWSServiceRole")):
        print(role["RoleName"])
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


def properties(assets: Path, env: str, type_: str) -> list[dict[str, Any]]:
    """Properties of an environment's resources of one type."""
    templates = [json.loads(path.read_text()) for path in assets.glob(f"assembly-{env}/*.template.json")]
    return [resource["Properties"] for template in templates for resource in template["Resources"].values()
            if resource["Type"] == type_]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Story:
    """One environment of a project that `init` made, under version control, extended by everything of docs/extend.md.

    Args:
        project: Folder of the project.
        run: Runs a program.
        env: Name of the environment.
        account: Number of its account.
        region: Its Region.
        on_slurm: Name of another environment of the project, on Slurm.
        checks: Variables with which the package with the check is there.
        submit: Submits a job to the environment of these variables. Default: none is submitted.
    """

    project: Path
    run: Run
    env: str
    account: str
    region: str
    on_slurm: str
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
            self.life_on_slurm()
        finally:
            self.run("local", "down", cwd=self.project)

    def before_deployment(self) -> None:
        """A check of one's own refuses the file; then synth, and a review by the project's own history."""
        names = sorted([self.env, self.on_slurm])
        file = self.project / "environments" / f"{self.env}.yaml"
        refused = self.says("env", "check", code=2)
        assert re.search(rf"environments/{self.env}\.yaml:\d+: tags: no tag 'cost-center'", refused), refused
        good = file.read_text() + "\ntags: {cost-center: '4711'}\n"
        file.write_text(good)
        assert self.ok("env", "check") == "".join(f"ok {name}\n" for name in names)
        # a review would refuse the revision that the check refuses
        past = self.says("review", "--base", "main", code=2)
        assert "(base)" in past, past
        assert "commit the correction" in past, past
        self.ok("git", "add", "--all")
        self.ok("git", "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "--quiet", "-m", "extensions")
        self.ok("charts", "fetch", "--lock", "company.lock.yaml")
        self.ok("cdk", "synth", "--quiet", variables={"CDK_VALIDATION": "false"})
        self.synthesized(names)
        # a group renamed, storage replaced and deleted with the environment: never safe
        changed = re.sub(r"\b(name|instance_group): workers\b", r"\1: trainers", good)
        changed = changed.replace("mode: static", "mode: dynamic").replace("on_destroy: retain", "on_destroy: delete")
        file.write_text(changed)
        reviewed = self.says("review", "--base", "main", "--fail-on", "loses-nodes", code=3)
        assert "renamed to trainers" in reviewed, reviewed
        file.write_text(good)

    def synthesized(self, names: Sequence[str]) -> None:
        """Nodes of each environment run the project's own step, and learn of its proxy first; so do pods."""
        assets = self.project / "cdk.out"
        steps = [path for path in (self.project / "lifecycle").rglob("*") if path.is_file()]
        assert len(steps) == len(names)
        for step in steps:
            (uploaded,) = assets.glob(f"asset.*/{step.name}")
            assert uploaded.read_text() == step.read_text()
        proxy = re.search(r"url: (http://\S+)", (self.project / "environments" / f"{self.env}.yaml").read_text())
        assert proxy is not None
        for name in names:
            (cluster,) = properties(assets, name, "AWS::SageMaker::Cluster")
            scripts = [group.get("LifeCycleConfig", {}) for group in cluster["InstanceGroups"]]
            assert all("with_proxy.sh" in script.values() for script in scripts), scripts
        variables = [path.read_text() for path in assets.glob("asset.*/proxy.env")]
        assert variables
        assert all(f"HTTPS_PROXY={proxy[1]}\n" in text for text in variables), variables
        objects = json.dumps(properties(assets, self.env, "Custom::AWSCDK-EKS-KubernetesResource"))
        assert f'"name":"HTTPS_PROXY","value":"{proxy[1]}"' in objects.replace("\\", "")

    def after_deployment(self, sandbox: Mapping[str, str]) -> None:
        """What knows the stacks of one's own."""
        self.ok("wait", self.env, "--for", "healthy", "--timeout", "600", "--poll", "1", variables=sandbox)
        status = json.loads(self.ok("status", self.env, "-o", "json", variables=sandbox))
        states = {stack["name"]: stack["status"] for stack in status["stacks"]}
        assert states[f"{self.env}-Company"] == "CREATE_COMPLETE", states
        assert states[f"{self.env}-Charts"] == "CREATE_COMPLETE", states
        roles = self.ok("python", "-c", ROLES, variables=sandbox).splitlines()
        assert len(roles) > 15
        assert all(role.startswith("company-") for role in roles), roles
        # the embedded AWS keeps no boundary of a role: what was deployed names it
        templates = (self.project / ".local" / "aws" / "rehearsed" / self.env / "cdk.out").rglob("*.template.json")
        deployed = [json.loads(path.read_text())["Resources"].values() for path in templates]
        boundaries = [
            json.dumps(resource["Properties"].get("PermissionsBoundary"))
            for resources in deployed
            for resource in resources
            if resource["Type"] == "AWS::IAM::Role"
        ]
        assert len(boundaries) > 15
        assert all(":policy/company-boundary" in boundary for boundary in boundaries), boundaries
        self.ok("diff", self.env, variables=sandbox)
        self.ok("review", self.env, "--deployed", "--fail-on", "any-change", variables=sandbox)
        again = self.says("deploy", self.env, "--poll", "1", code=0, variables=sandbox)
        assert f"'{self.env}' is deployed: {len(states)} stacks" in again, again

    def life_on_slurm(self) -> None:
        """The environment on Slurm is deployed, healthy, and destroyed, with the stack of one's own."""
        self.ok("local", "deploy", self.on_slurm)
        folder = f".local/aws/rehearsed/{self.on_slurm}/environments"
        sandbox = {**account_of(self.project, self.run), "HYPERPOD_RAY_ENVIRONMENTS": folder}
        self.ok("wait", self.on_slurm, "--for", "healthy", "--timeout", "600", "--poll", "1", variables=sandbox)
        status = json.loads(self.ok("status", self.on_slurm, "-o", "json", variables=sandbox))
        states = {stack["name"]: stack["status"] for stack in status["stacks"]}
        assert states[f"{self.on_slurm}-Company"] == "CREATE_COMPLETE", states
        down = self.says("teardown", self.on_slurm, "--yes", code=0, variables=sandbox)
        assert "is down; nothing is left" in down, down
        assert self.ok("python", "-c", LEFT, variables=sandbox).strip() == "['CDKToolkit']"

    def end(self, sandbox: Mapping[str, str]) -> None:
        """Everything is destroyed, the stacks of one's own too."""
        dry = self.ok("teardown", self.env, "--dry-run", variables=sandbox)
        assert f"{self.env}-Company" in dry
        assert f"{self.env}-Charts" in dry
        assert "is down; nothing is left" in self.says("teardown", self.env, "--yes", code=0, variables=sandbox)
        assert self.ok("python", "-c", LEFT, variables=sandbox).strip() == "['CDKToolkit']"
