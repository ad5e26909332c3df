"""Accounts in which an environment cannot be deployed, and how they are judged."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hyperpod_ray.core.checks import account_rules
from hyperpod_ray.core.evidence import Evidence
from hyperpod_ray.core.findings import Finding
from hyperpod_ray.core.model import Environment
from tests.core.account.good import (
    ACCOUNT,
    EXISTING,
    NEW,
    REGION,
    TAG,
    account,
)
from tests.core.account.recorded import RecordedAccount
from tests.core.environment_files import plan
from tests.core.said import assert_said, line_of
from tests.core.three_parts import assert_form

Json = dict[str, Any]
DAY = "2026-11-22"
STATES: Json = yaml.safe_load((Path(__file__).parents[2] / "ops" / "account_states.yaml").read_text())
BUCKET = f"sagemaker-test-{ACCOUNT}-{REGION}"
TIER = f"tier-test-{ACCOUNT}-{REGION}"
OUR_STACK = {"status": "CREATE_COMPLETE", "tags": TAG}
ARN = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:cluster/abc"
APP = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:mlflow-app/app-ABCDEF123456"
RUNS = f"mlflow-test-{ACCOUNT}-{REGION}"
RECORDED = {**NEW, "ray/tracking": {"mlflow_app": {}}}
PACKAGES = f"arn:aws:codeartifact:{REGION}:{ACCOUNT}:repository/ml/pypi"
LOGIN = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:index-AbCdEf"
COPY = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/team/ray@sha256:{'b' * 64}"
BY_ARTIFACT = {**NEW, "image": {"index": {"codeartifact_arn": PACKAGES}}}
BY_ADDRESS = {**NEW, "image": {"index": {"url": "https://pypi.example.com/simple", "secret_arn": LOGIN}}}
AMI = "ami-0123456789abcdef0"
LINKED = {**NEW, "storage/data_repositories": [{"bucket": "research-datasets", "path": "/data"}]}
OWN_AMI = {**NEW, "hyperpod/instance_groups/1/image_id": AMI}
AMI_THERE = {
    "Name": "ours", "State": "available", "OwnerId": ACCOUNT, "Architecture": "x86_64",
    "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {"Encrypted": False}}],
}  # fmt: skip
TIERED = {"hyperpod/tiered_storage": {"memory_percent": 20}}
METRICS: Json = {"observability": {}}
GRAFANA = {
    **NEW,
    "hyperpod/alarm_emails": ["oncall@example.com"],
    "observability": {
        "grafana": {
            "workspace_name": "research",
            "workspace_arn": f"arn:aws:grafana:{REGION}:{ACCOUNT}:/workspaces/g-0123456789",
        }
    },
}
CLOSED = {"network/egress": "closed", "registries": {"mirror": True}}
TEAMS = {
    "teams": [
        {"name": "vision", "quota": [{"type": "ml.p5.48xlarge", "instances": 2}, {"type": "ml.m5.2xlarge", "vcpus": 4}]}
    ],
    "ray/workers/0/replicas": 0,
}
POLICY, QUOTA = (
    f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:{kind}/abcdefabcdef"
    for kind in ("cluster-scheduler-config", "compute-quota")
)
THERE = {
    "hyperpod > test": {"ClusterName": "test", "ClusterArn": ARN, "ClusterStatus": "InService", "InstanceGroups": []},
    "stacks > test-HyperPod": {**OUR_STACK, "resources": [ARN]},
}


@dataclass(frozen=True)
class Sabotage:
    """What is wrong with an account, and the rows that say so: title, severity, words of message and fix."""

    name: str
    edits: Json
    said: tuple[tuple[str, str, str], ...]
    file: Json = field(default_factory=lambda: EXISTING)


SECTIONS = {name.partition("/")[0] for name in Environment.model_fields}


DESTROYS = re.compile(r"\b(delete-[a-z-]+|rb s3|kubectl delete|s3 rm|batch-delete|deregister|terminate)\b")


LOOKED = re.compile(r"which is empty|see that nobody|describe-|look at|--preserve")


def destroys_blindly(fix: str) -> bool:
    """Whether a fix deletes something that nobody has looked at, or forces it."""
    return "--force" in fix or bool(DESTROYS.search(fix) and not LOOKED.search(fix))


def judged(file: Json, edits: Json) -> dict[str, list[Finding]]:
    """Findings of each rule of the account, by its title."""
    evidence = Evidence(account=RecordedAccount(account(edits)))
    made = plan(file)
    return {rule.title: list(rule(made, evidence)) for rule in account_rules() if rule.concerns(made)}


def bad(found: dict[str, list[Finding]]) -> list[tuple[str, Finding]]:
    return [(title, one) for title, all_ in found.items() for one in all_ if one.severity not in ("fine", "skipped")]


def said_by_named(case: Sabotage) -> list[tuple[str, Finding]]:
    """What the rules say that a case names."""
    made = plan(case.file)
    evidence = Evidence(account=RecordedAccount(account(case.edits)))
    titles = {title for title, _, _ in case.said}
    rules = [rule for rule in account_rules() if rule.title in titles and rule.concerns(made)]
    return bad({rule.title: list(rule(made, evidence)) for rule in rules})


def case_id(case: Sabotage) -> str:
    """Name of a case in pytest's output."""
    return case.name


def assert_sabotage(case: Sabotage) -> None:
    """All rules together say of an account what its case lists, and nothing else."""
    rows = bad(judged(case.file, case.edits))
    shown = [(title, finding.severity, finding.message) for title, finding in rows]
    assert len(shown) == len(case.said), shown
    for title, severity, words in case.said:
        assert any(a == title and b == severity and words in text for a, b, text in shown), shown
    for _, finding in rows:
        assert_form(finding)
        assert not destroys_blindly(finding.fix), finding.fix


def assert_named_rules(case: Sabotage) -> None:
    """The named rules say it, each at a setting of the file."""
    rows = said_by_named(case)
    shown = [(title, finding.severity, finding.message) for title, finding in rows]
    assert len(shown) == len(case.said), shown
    for title, severity, words in case.said:
        assert any(a == title and b == severity and words in text for a, b, text in shown), shown
    assert {finding.path[0] for _, finding in rows if finding.path} <= SECTIONS
    for title, finding in rows:
        assert_said(line_of(title, finding.severity, ".".join(map(str, finding.path)), finding.message))
