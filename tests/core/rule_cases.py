"""Words of the cases of rules, and how a case is judged: the file that trips a rule, and the nearest that does not."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from hyperpod_ray.core.evidence import Evidence, Repository
from hyperpod_ray.core.findings import RULES
from hyperpod_ray.core.model import Environment
from hyperpod_ray.core.plan import Plan
from tests.core.environment_files import Case, changed, problems
from tests.core.said import assert_said, line_of
from tests.core.three_parts import assert_form

GROUPS = "hyperpod/instance_groups"
HEAD, WORKERS = f"{GROUPS}/0", f"{GROUPS}/1"
WORKER = "ray/workers/0"
NEW_TYPE = {
    "vcpus": 96,
    "memory_gib": 1024,
    "accelerator": "nvidia",
    "accelerators": 8,
    "efa": 8,
    "ips": 60,
    "pods": 49,
}
SUBNETS = {
    "vpc_id": "vpc-0123456789abcdef0",
    "vpc_cidr": "10.0.0.0/16",
    "node_subnet_ids": {"usw2-az1": "subnet-0123456789abcdef0", "usw2-az2": "subnet-0123456789abcdef1"},
    "node_subnet_cidrs": {"usw2-az1": "10.0.0.0/20", "usw2-az2": "10.0.16.0/20"},
    "control_plane_subnet_ids": ["subnet-0123456789abcdef2", "subnet-0123456789abcdef3"],
}
EXISTING = {"network/existing": SUBNETS}
EAST = {
    "region": "us-east-1",
    "network/existing": {
        **SUBNETS,
        "node_subnet_ids": {"use1-az1": "subnet-0123456789abcdef0", "use1-az3": "subnet-0123456789abcdef1"},
        "node_subnet_cidrs": {"use1-az1": "10.0.0.0/20", "use1-az3": "10.0.16.0/20"},
    },
}
ELASTIC = {"mode": "intelligent_tiering"}
FILE_SYSTEM = {"file_system_id": "fs-0123456789abcdef0", "mount_name": "fsx", "availability_zone_id": "usw2-az1"}
CLUSTER = {
    "cluster_name": "shared",
    "security_group_id": "sg-0123456789abcdef0",
    "oidc_issuer_url": "https://oidc.eks.us-west-2.amazonaws.com/id/ABC",
    "kubectl_role_arn": "arn:aws:iam::123456789012:role/kubectl",
}
CODEARTIFACT = {"codeartifact_arn": "arn:aws:codeartifact:us-west-2:123456789012:repository/ml/pypi"}
REDIS = "ray/gcs_fault_tolerance"
TIER = "hyperpod/tiered_storage"
HANGS = "ray/hung_job_detection"
HUNG = {"name": "progress", "enabled": True, "log_pattern": "step [0-9]+", "timeout_minutes": 10}
OOM = {"name": "memory", "enabled": True, "log_pattern": "CUDA out of memory", "fault_on_match": True}
LINKS, DATA = "storage/data_repositories", {"bucket": "datasets", "path": "/data"}
SECRET = "arn:aws:secretsmanager:us-west-2:123456789012:secret:hugging-face-AbCdEf"
MLFLOW = "arn:aws:sagemaker:us-west-2:123456789012:mlflow-tracking-server/team"
ROLE = "arn:aws:iam::123456789012:role/Admin"
CPU_GROUP = {"name": "cpu", "type": "ml.m5.4xlarge", "count": 2, "threads_per_core": 2}
MORE_P5 = {"name": "more", "type": "ml.p5.48xlarge", "count": 2}
DIGEST = "redis@sha256:" + "a" * 64
OTHER_REGION = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/ray@sha256:" + "a" * 64
OWN_IMAGE = {"image/uri": "example.com/ray@sha256:" + "0" * 64}
GB200 = {"vcpus": 144, "memory_gib": 960, "accelerator": "nvidia", "accelerators": 4, "efa": 17, "ips": 50, "pods": 49}
P5 = {"vcpus": 192, "memory_gib": 2048, "accelerator": "nvidia", "accelerators": 8, "efa": 32, "ips": 81, "pods": 49}
KEY_ARN = "arn:aws:kms:us-west-2:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
BURST = {"name": "burst", "type": "ml.p5.48xlarge", "count": 0}
PLAN_ARN = "arn:aws:sagemaker:us-west-2:123456789012:training-plan/x"
PUBLIC = {"public": True, "public_cidrs": ["20.0.0.0/24"]}
CLOSED = {"network/egress": "closed", "registries": {"mirror": True}}
TEAM_IMAGES = "123456789012.dkr.ecr.us-west-2.amazonaws.com/team"
MAILS = {"hyperpod/alarm_emails": ["oncall@example.com"]}
GRAFANA = {
    "workspace_name": "research",
    "workspace_arn": "arn:aws:grafana:eu-west-1:123456789012:/workspaces/g-0123456789",
}
TRAINING = {"model": "llama-3.1-8b", "tokens": "1T", "sequence": 8192, "batch_tokens": "4M"}
SCRIPTS = "sagemaker-test-123456789012-us-west-2"
SLACK = {"workspace_id": "T0123ABCDEF", "channel_id": "C0123ABCDEF"}
TEAMS = {
    "tenant_id": "0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f",
    "team_id": "1a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f",
    "channel_id": "19%3Aabc123%40thread.tacv2",
}
AMI = "ami-0123456789abcdef0"
SCHEDULE = {"cron": "cron(0 6 ? * SUN *)"}


def worker(**settings: Any) -> dict[str, Any]:
    return {"name": "more", "instance_group": "workers", "replicas": 1, **settings}


def team(name: str = "vision", *more: dict[str, Any], **settings: Any) -> dict[str, Any]:
    quota = more or ({"type": "ml.p5.48xlarge", "instances": 2},)
    return {"name": name, "quota": [{"type": "ml.m5.2xlarge", "vcpus": 4}, *quota], **settings}


def teams(*found: dict[str, Any]) -> dict[str, Any]:
    """Teams of a cluster whose standing RayCluster has no workers."""
    return {"teams": list(found), "ray/workers/0/replicas": 0}


def case_id(case: Case) -> str:
    """Name of a case in pytest's output."""
    return f"{case.rule}-{case.says[:30]}"


_SETTINGS: dict[int, Environment] = {}


def settings_of(case: Case) -> Environment:
    """The settings that trip a case, valid by themselves."""
    if id(case) not in _SETTINGS:
        _SETTINGS[id(case)] = Environment.model_validate(changed(case.trips), strict=True)
    return _SETTINGS[id(case)]


OF_FILES = [
    rule for rule in RULES if rule.needs != "account" and rule.stage == "load" and rule.orchestrator in ("", "eks")
]
"""Rules of the account have accounts as cases (`tests/core/account`), those of a deployment are in test_records.py, and
those of Slurm in test_slurm_files.py."""
RULE: dict[str, Callable[[Plan], Any]] = {
    rule.check.__name__: functools.partial(rule, evidence=Evidence(repository=Repository.around("test")))
    for rule in OF_FILES
}


def said_by(cases: Iterable[Case]) -> Iterator[str]:
    """What each case's rule says, for `messages.txt`."""
    for case in cases:
        for problem in problems(case.trips):
            if problem.path == case.path and case.says in problem.message:
                yield line_of(case.rule, problem.severity, problem.path, problem.message)


def assert_rule(case: Case) -> None:
    """The file of a case trips its rule and, beside what the case lists, nothing else; the nearest file does not."""
    said = problems(case.trips)
    ours = [problem for problem in said if problem.path == case.path and case.says in problem.message]
    assert len(ours) == 1, [str(problem) for problem in said]
    assert ours[0].severity == case.severity
    assert ours[0].line >= 1
    assert_said(line_of(case.rule, ours[0].severity, ours[0].path, ours[0].message))
    for problem in said:
        assert_form(problem)
    others = [problem.path for problem in said if problem is not ours[0]]
    assert sorted(others) == sorted(case.beside), [str(problem) for problem in said]
    near = [
        problem for problem in problems(case.passes) if problem.path == case.path and problem.severity == case.severity
    ]
    assert near == [], "the boundary trips the rule as well"


def assert_named_rule(case: Case) -> None:
    """... and not another rule that happens to look at the same setting says it."""
    plan = Plan(name="test", settings=settings_of(case))
    assert any(case.says in finding.message for finding in RULE[case.rule](plan))
    near = Plan(name="test", settings=Environment.model_validate(changed(case.passes), strict=True))
    still = [finding for finding in RULE[case.rule](near) if finding.severity == case.severity]
    assert still == [], "the rule refuses the nearest file that it accepts"
