"""Each rule has a file that trips it and nothing else, and one next to it that does not."""

# ruff: noqa: E501  (a case of the table is one line, to be read across)

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hyperpod_ray.core import checks, shapes
from hyperpod_ray.core.evidence import Evidence, Repository
from hyperpod_ray.core.findings import RULES
from hyperpod_ray.core.model import Environment
from hyperpod_ray.core.plan import Plan
from tests.core.account.good import EXISTING as EKS_OF_OTHERS
from tests.core.environment_files import GONE, Case, changed, judged, problems, text_of
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


CASES = [
    # --- lists
    Case("secrets_are_mounted_once", {"ray/secrets": ["a", "b", "a"]}, "ray.secrets[2]", "'a' is already entry 0", {"ray/secrets": ["a", "b"]}),
    Case("secrets_are_mounted_once", {"ray/access": {"secret_arns": [SECRET, SECRET]}}, "ray.access.secret_arns[1]", "already entry 0", {"ray/access": {"secret_arns": [SECRET]}}),
    Case("secrets_are_mounted_once", {"ray/access": {"s3": [{"bucket": "datasets"}], "kms_key_arns": [KEY_ARN, KEY_ARN]}}, "ray.access.kms_key_arns[1]", "already entry 0", {"ray/access": {"s3": [{"bucket": "datasets"}], "kms_key_arns": [KEY_ARN]}}),
    Case("secrets_are_mounted_once", {"ray/observability": {"scrape_namespaces": ["a", "a"]}}, "ray.observability.scrape_namespaces[1]", "already entry 0", {"ray/observability": {"scrape_namespaces": ["a"]}}),
    Case("registries_are_named_once", {"registries": {"pull_from": [TEAM_IMAGES, TEAM_IMAGES]}}, "registries.pull_from[1]", "already entry 0", {"registries": {"pull_from": [TEAM_IMAGES]}}),
    Case("registries_are_named_once", {"registries": {"pull_through_caches": ["quay", "quay"]}}, "registries.pull_through_caches[1]", "already entry 0", {"registries": {"pull_through_caches": ["quay"]}}),
    Case("alert_percents_differ", {"budget": {"usd_per_month": 900000, "alert_percent": [80, 80]}, **MAILS}, "budget.alert_percent[1]", "'80' is already entry 0", {"budget": {"usd_per_month": 900000, "alert_percent": [80, 90]}, **MAILS}),
    Case("rollback_alarms_differ", {f"{WORKERS}/update_schedule": {**SCHEDULE, "rolling": {"rollback_alarm_names": ["a", "a"]}}}, "hyperpod.instance_groups[1].update_schedule.rolling.rollback_alarm_names[1]", "already entry 0", {f"{WORKERS}/update_schedule": {**SCHEDULE, "rolling": {"rollback_alarm_names": ["a", "b"]}}}),
    Case("public_ranges_differ", {"eks/endpoint": {"public": True, "public_cidrs": ["20.0.0.0/24", "20.0.0.0/24"]}}, "eks.endpoint.public_cidrs[1]", "already entry 0", {"eks/endpoint": PUBLIC}),
    # --- mails
    Case("somebody_gets_the_budgets_mails", {"budget": {"usd_per_month": 900000}}, "budget", "its mails go to nobody", {"budget": {"usd_per_month": 900000}, **MAILS}, "warning"),
    Case("somebody_gets_the_alerts", {"observability": {}}, "observability", "its alerts go to nobody", {"observability": {}, **MAILS}, "warning"),
    Case("a_channel_is_named_once", {"hyperpod/alarm_slack": [SLACK, {**SLACK, "workspace_id": "T9"}]}, "hyperpod.alarm_slack[1]", "'C0123ABCDEF' is named twice", {"hyperpod/alarm_slack": [SLACK]}),
    Case("a_channel_is_named_once", {"hyperpod/alarm_teams": [TEAMS, dict(TEAMS)]}, "hyperpod.alarm_teams[1]", "is named twice", {"hyperpod/alarm_teams": [TEAMS]}),
    Case("somebody_gets_the_alerts", {"observability": {}}, "observability", "its alerts go to nobody", {"observability": {}, "hyperpod/alarm_slack": [SLACK]}, "warning"),
    Case("an_alert_sees_two_samples", {"observability": {"scrape_seconds": 300, "no_step_minutes": 9}, **MAILS}, "observability.no_step_minutes", "9 minutes have fewer than two samples", {"observability": {"scrape_seconds": 300, "no_step_minutes": 10}, **MAILS}, "warning"),
    Case("an_alert_sees_two_samples", {"observability": {"scrape_seconds": 60, "operator_down_minutes": 1}, **MAILS}, "observability.operator_down_minutes", "1 minutes have fewer than two samples", {"observability": {"scrape_seconds": 60, "operator_down_minutes": 2}, **MAILS}, "warning"),
    Case("grafana_is_in_the_region", {"observability": {"grafana": GRAFANA}, **MAILS}, "observability.grafana.workspace_arn", "is in eu-west-1", {"observability": {"grafana": {**GRAFANA, "workspace_arn": GRAFANA["workspace_arn"].replace("eu-west-1", "us-west-2")}}, **MAILS}, "warning"),
    # --- training
    Case("a_gpu_reaches_the_tokens", {"training": {**TRAINING, "tokens_per_second": 1e9}}, "training.tokens_per_second", "1,000,000,000 tokens per second", {"training": {**TRAINING, "tokens_per_second": 10000}}),
    Case("a_gpu_reaches_the_tokens", {"training": {"parameters": "70B", "tokens": "1T", "tokens_per_second": 30000.0}}, "training.tokens_per_second", "with 70B parameters", {"training": {"parameters": "70B", "tokens": "1T", "tokens_per_second": 20000.0}}),
    Case("the_size_is_said_once", {"training": {**TRAINING, "parameters": "13B"}}, "training.parameters", "13B beside model llama-3.1-8b", {"training": TRAINING}),
    Case("a_step_has_a_sequence", {"training": {**TRAINING, "batch_tokens": "8191"}}, "training.batch_tokens", "one sequence has 8,192", {"training": TRAINING}),
    Case("every_gpu_has_a_sequence", {"training": {**TRAINING, "batch_tokens": "262143"}}, "training.batch_tokens", "31 sequences, and there are 32 GPUs", {"training": {**TRAINING, "batch_tokens": "262144"}}, "warning"),
    # --- scripts, links, registries, plans, quotas
    Case("scripts_of_nodes_stay_ours", {"ray/access": {"s3": [{"bucket": SCRIPTS, "mode": "write"}]}}, "ray.access.s3[0].mode", "every node runs as root", {"ray/access": {"s3": [{"bucket": SCRIPTS, "mode": "read"}]}}),
    Case("scripts_of_nodes_stay_ours", {"ray/access": {"s3": [{"bucket": "cdk-hnb659fds-assets-123456789012-us-west-2", "mode": "write"}]}}, "ray.access.s3[0].mode", "what the CDK deploys", {"ray/access": {"s3": [{"bucket": "assets", "mode": "write"}]}}),
    Case("scripts_of_nodes_stay_ours", {TIER: {"memory_percent": 20, "bucket": SCRIPTS}}, "hyperpod.tiered_storage.bucket", "every node runs as root", {TIER: {"memory_percent": 20, "bucket": "checkpoints"}}),
    Case("scripts_of_nodes_stay_ours", teams(team(access={"s3": [{"bucket": SCRIPTS, "mode": "write"}]})), "teams[0].access.s3[0].mode", "every node runs as root", teams(team(access={"s3": [{"bucket": SCRIPTS, "mode": "read"}]}))),
    Case("exports_leave_scripts_alone", {LINKS: [{**DATA, "bucket": SCRIPTS, "auto_export": ["NEW"]}]}, "storage.data_repositories[0].bucket", "every node runs as root", {LINKS: [{**DATA, "bucket": SCRIPTS}]}),
    Case("linked_folders_lie_apart", {LINKS: [{**DATA, "path": "/fsx/data"}]}, f"{LINKS.replace('/', '.')}[0].path", "is /fsx/fsx/data in Ray's pods", {LINKS: [{**DATA, "path": "/fsxdata"}]}),
    Case("repositories_are_reachable", {**CLOSED, "registries": {"mirror": True, "pull_from": [TEAM_IMAGES.replace("us-west-2", "us-east-1")]}}, "registries.pull_from[0]", "is in us-east-1", {**CLOSED, "registries": {"mirror": True, "pull_from": [TEAM_IMAGES]}}),
    Case("a_training_plan_is_of_one_zone", {f"{WORKERS}/training_plan_arn": PLAN_ARN, f"{GROUPS}/2": {**MORE_P5, "training_plan_arn": PLAN_ARN, "availability_zone_id": "usw2-az2"}, "ray/workers/1": worker(instance_group="more"), "storage": {"mode": "static"}}, "hyperpod.instance_groups[2].availability_zone_id", "of the same training plan in usw2-az1", {f"{WORKERS}/training_plan_arn": PLAN_ARN, f"{GROUPS}/2": {**MORE_P5, "training_plan_arn": PLAN_ARN}, "ray/workers/1": worker(instance_group="more")}, "warning", ("ray.workers[1].instance_group",)),
    Case("quotas_are_there", {**teams(team("a", {"type": "ml.p5.48xlarge", "instances": 4})), "ray/autoscaling": True, f"{WORKER}/max_replicas": 2}, "teams[0].quota[1].instances", "of which the standing RayCluster has 2", {**teams(team("a", {"type": "ml.p5.48xlarge", "instances": 2})), "ray/autoscaling": True, f"{WORKER}/max_replicas": 2}),
    Case("a_worker_of_the_team_fits", teams(team("a", {"type": "ml.p5.48xlarge", "accelerators": 4}, sharing="lend")), "teams[0].quota[1]", "0.5 instances of ml.p5.48xlarge, and one worker of 'gpu' takes 1", teams(team("a", {"type": "ml.p5.48xlarge", "accelerators": 8}, sharing="lend"))),
    Case("a_worker_of_the_team_fits", teams(team("a", {"type": "ml.p5.48xlarge", "accelerators": 4})), "teams[0].quota[1]", "with what it borrows 0.75", teams(team("a", {"type": "ml.p5.48xlarge", "accelerators": 4}, borrow_limit_percent=100))),
    # --- instance groups
    Case("group_names_differ", {f"{GROUPS}/2": {**CPU_GROUP, "name": "HEAD"}}, "hyperpod.instance_groups[2].name", "already the name of instance_groups[0]", {f"{GROUPS}/2": {**CPU_GROUP, "name": "head2"}}),
    Case("type_is_known", {f"{WORKERS}/type": "ml.p5.48xlrge"}, "hyperpod.instance_groups[1].type", "did you mean 'ml.p5.48xlarge'?", {f"{WORKERS}/type": "ml.p5e.48xlarge"}),
    Case("type_is_known", {f"{WORKERS}/type": "ml.p6e-gb200.36xlarge"}, "hyperpod.instance_groups[1].type", "no specification of", {f"{WORKERS}/type": "ml.p6e-gb200.36xlarge", "instance_types": {"ml.p6e-gb200.36xlarge": NEW_TYPE}}),
    Case("type_is_known", {f"{WORKERS}/type": "ml.p9.48xlarge", "instance_types": {"ml.p9.48xlarge": NEW_TYPE}}, "hyperpod.instance_groups[1].type", "the specification in instance_types is used", {}, "warning"),
    Case("specs_are_used", {"instance_types": {"ml.p9.48xlarge": NEW_TYPE}}, "instance_types['ml.p9.48xlarge']", "no instance group is of this type", {f"{WORKERS}/type": "ml.p6e-gb200.36xlarge", "instance_types": {"ml.p6e-gb200.36xlarge": NEW_TYPE}}, "warning"),
    Case("specs_agree", {f"{WORKERS}/type": "ml.p6e-gb200.36xlarge", "instance_types": {"ml.p6e-gb200.36xlarge": {**NEW_TYPE, "accelerator": "none"}}}, "instance_types['ml.p6e-gb200.36xlarge'].accelerators", "8 with accelerator 'none'", {f"{WORKERS}/type": "ml.p6e-gb200.36xlarge", "instance_types": {"ml.p6e-gb200.36xlarge": NEW_TYPE}}, beside=("instance_types['ml.p6e-gb200.36xlarge'].architecture", "hyperpod.instance_groups[1].type", "hyperpod.instance_groups[1].count")),
    Case("deep_health_checks_have_a_device", {f"{HEAD}/deep_health_checks": ["InstanceStress"]}, "hyperpod.instance_groups[0].deep_health_checks", "has no accelerator", {f"{HEAD}/deep_health_checks": [], f"{WORKERS}/deep_health_checks": ["InstanceStress"]}),
    Case("connectivity_needs_two", {f"{WORKERS}/count": 1, f"{WORKER}/replicas": 1, f"{WORKERS}/deep_health_checks": ["InstanceConnectivity"]}, "hyperpod.instance_groups[1].deep_health_checks", "and count is 1. Expected a count of 2 or more", {f"{WORKERS}/count": 2, f"{WORKER}/replicas": 1, f"{WORKERS}/deep_health_checks": ["InstanceConnectivity"]}),
    Case("deep_health_checks_once", {f"{WORKERS}/deep_health_checks": ["InstanceStress", "InstanceStress"]}, "hyperpod.instance_groups[1].deep_health_checks", "named twice", {f"{WORKERS}/deep_health_checks": ["InstanceStress", "InstanceConnectivity"]}),
    Case("taints_meet_deep_health_checks", {f"{WORKERS}/taints": [{"key": "example.com/x", "effect": "NoSchedule"}]}, "hyperpod.instance_groups[1].taints", "may not tolerate", {f"{WORKERS}/taints": [{"key": "example.com/x", "effect": "NoSchedule"}], f"{WORKERS}/deep_health_checks": []}, "warning"),
    Case("continuous_features", {"hyperpod/node_provisioning_mode": None, f"{WORKERS}/capacity": "spot"}, "hyperpod.instance_groups[1].capacity", "without provisioning mode Continuous", {f"{WORKERS}/capacity": "spot"}),
    Case("continuous_features", {"hyperpod/node_provisioning_mode": None, f"{WORKERS}/min_count": 1}, "hyperpod.instance_groups[1].min_count", "without provisioning mode Continuous", {f"{WORKERS}/min_count": 1}),
    Case("continuous_features", {"hyperpod/node_provisioning_mode": None, "hyperpod/managed_autoscaling": True, f"{GROUPS}/2": BURST, "ray/autoscaling": True}, "hyperpod.managed_autoscaling", "without provisioning mode Continuous", {"hyperpod/managed_autoscaling": True, f"{GROUPS}/2": BURST, "ray/autoscaling": True}),
    Case("continuous_features", {"hyperpod/node_recovery": "None", "hyperpod/managed_autoscaling": True, f"{GROUPS}/2": BURST, "ray/autoscaling": True}, "hyperpod.managed_autoscaling", "set hyperpod.node_recovery: Automatic", {"hyperpod/managed_autoscaling": True, f"{GROUPS}/2": BURST, "ray/autoscaling": True}, beside=("hyperpod.node_recovery",)),
    Case("continuous_features", {"hyperpod/node_provisioning_mode": None, f"{HEAD}/fallback_types": ["ml.m5.4xlarge"]}, "hyperpod.instance_groups[0].fallback_types", "without provisioning mode Continuous", {f"{HEAD}/fallback_types": ["ml.m5.4xlarge"]}),
    Case("fallback_types_stand_in", {f"{HEAD}/fallback_types": ["ml.m5.4xlarge", "ml.m5.4xlarge"]}, "hyperpod.instance_groups[0].fallback_types[1]", "'ml.m5.4xlarge' is named twice", {f"{HEAD}/fallback_types": ["ml.m5.4xlarge", "ml.m6i.2xlarge"]}),
    Case("fallback_types_stand_in", {f"{HEAD}/fallback_types": ["ml.m5.2xlarge"]}, "hyperpod.instance_groups[0].fallback_types[0]", "'ml.m5.2xlarge' is named twice", {f"{HEAD}/fallback_types": ["ml.m5.4xlarge"]}),
    Case("fallback_types_stand_in", {f"{HEAD}/fallback_types": ["ml.m5.3xlarge"]}, "hyperpod.instance_groups[0].fallback_types[0]", "did you mean 'ml.m5.xlarge'?", {f"{HEAD}/fallback_types": ["ml.m5.8xlarge"]}),
    Case("fallback_types_stand_in", {f"{HEAD}/fallback_types": ["ml.m5.xlarge"]}, "hyperpod.instance_groups[0].fallback_types[0]", "has 4 vCPUs. Expected 8 or more", {f"{HEAD}/fallback_types": ["ml.m5.4xlarge"]}),
    Case("fallback_types_stand_in", {f"{HEAD}/fallback_types": ["ml.c5.4xlarge"], f"{HEAD}/type": "ml.r6i.2xlarge"}, "hyperpod.instance_groups[0].fallback_types[0]", "has 32 GiB of memory. Expected 64 or more", {f"{HEAD}/fallback_types": ["ml.r7i.4xlarge"], f"{HEAD}/type": "ml.r6i.2xlarge"}),
    Case("fallback_types_stand_in", {f"{WORKERS}/fallback_types": ["ml.p5en.48xlarge"]}, "hyperpod.instance_groups[1].fallback_types[0]", "has 16 EFA interfaces. Expected 32 or more", {f"{WORKERS}/type": "ml.p5en.48xlarge"}),
    Case("fallback_types_stand_in", {f"{WORKERS}/fallback_types": ["ml.p5e.48xlarge"]}, "hyperpod.instance_groups[1].fallback_types[0]", "has other accelerators than ml.p5.48xlarge", {f"{WORKERS}/type": "ml.g5.12xlarge", f"{WORKERS}/fallback_types": ["ml.g5.24xlarge"]}, "warning"),
    Case("fallback_types_stand_in", {f"{WORKERS}/type": "ml.g5.12xlarge", f"{WORKERS}/fallback_types": ["ml.g5.48xlarge"]}, "hyperpod.instance_groups[1].fallback_types[0]", "accelerators of ml.g5.48xlarge: 8. Expected 4", {f"{WORKERS}/type": "ml.g5.12xlarge", f"{WORKERS}/fallback_types": ["ml.g5.24xlarge"]}),
    Case("fallback_types_stand_in", {f"{HEAD}/fallback_types": ["ml.m7g.4xlarge"]}, "hyperpod.instance_groups[0].fallback_types[0]", "architecture of ml.m7g.4xlarge: arm64. Expected x86_64", {f"{HEAD}/fallback_types": ["ml.m5.4xlarge"]}),
    Case("fallback_types_have_no_reader_of_one", {f"{WORKERS}/fallback_types": ["ml.p5e.48xlarge"], f"{WORKERS}/training_plan_arn": PLAN_ARN}, "hyperpod.instance_groups[1].fallback_types", "a training plan reserves one type, and 'workers' has 2", {f"{WORKERS}/training_plan_arn": PLAN_ARN}, beside=("hyperpod.instance_groups[1].fallback_types[0]",)),
    Case("fallback_types_have_no_reader_of_one", {**teams(team()), f"{HEAD}/fallback_types": ["ml.m5.4xlarge"]}, "hyperpod.instance_groups[0].fallback_types", "quota counts instances of one type", teams(team())),
    Case("fallback_types_have_no_reader_of_one", {"hyperpod/managed_autoscaling": True, f"{GROUPS}/2": {**BURST, "fallback_types": ["ml.p5e.48xlarge"]}, "ray/autoscaling": True}, "hyperpod.instance_groups[2].fallback_types", "a NodePool of managed Karpenter has one type", {"hyperpod/managed_autoscaling": True, f"{GROUPS}/2": BURST, "ray/autoscaling": True}, beside=("hyperpod.instance_groups[2].fallback_types[0]",)),
    Case("min_count_at_most_count", {f"{WORKERS}/min_count": 5}, "hyperpod.instance_groups[1].min_count", "5 is more than the group's count of 4", {f"{WORKERS}/min_count": 4}),
    Case("spot_draws_from_no_plan", {f"{WORKERS}/capacity": "spot", f"{WORKERS}/training_plan_arn": "arn:aws:sagemaker:us-west-2:123456789012:training-plan/p"}, "hyperpod.instance_groups[1].capacity", "exclude each other", {f"{WORKERS}/training_plan_arn": "arn:aws:sagemaker:us-west-2:123456789012:training-plan/p"}),
    Case("plan_and_key_are_ours", {f"{WORKERS}/training_plan_arn": "arn:aws:sagemaker:us-east-1:123456789012:training-plan/p"}, "hyperpod.instance_groups[1].training_plan_arn", "is of region us-east-1", {f"{WORKERS}/training_plan_arn": "arn:aws:sagemaker:us-west-2:123456789012:training-plan/p"}),
    Case("plan_and_key_are_ours", {f"{WORKERS}/training_plan_arn": "arn:aws:sagemaker:us-west-2:210987654321:training-plan/p"}, "hyperpod.instance_groups[1].training_plan_arn", "is of account 210987654321", {f"{WORKERS}/volume_kms_key_arn": "arn:aws:kms:us-west-2:210987654321:key/1234abcd-12ab-34cd-56ef-1234567890ab"}),
    Case("threads_exist", {f"{GROUPS}/2": {**CPU_GROUP, "type": "ml.m7g.4xlarge"}}, "hyperpod.instance_groups[2].threads_per_core", "have one thread", {f"{GROUPS}/2": {**CPU_GROUP, "type": "ml.m7g.4xlarge", "threads_per_core": 1}}),
    Case("schedule_is_cron", {f"{WORKERS}/update_schedule": {"cron": "cron(0 24 ? * SUN *)"}}, "hyperpod.instance_groups[1].update_schedule.cron", "invalid hours field '24'. Expected 0-23", {f"{WORKERS}/update_schedule": {"cron": "cron(0 23 ? * SUN *)"}}),
    Case("schedule_is_cron", {f"{WORKERS}/update_schedule": {"cron": "cron(0 6 ? * SUN)"}}, "hyperpod.instance_groups[1].update_schedule.cron", "5 fields. Expected six", {f"{WORKERS}/update_schedule": {"cron": "cron(0 6 1 */3 ? 2027)"}}),
    Case("schedule_is_cron", {f"{WORKERS}/update_schedule": {"cron": "cron(0 6 1 * SUN *)"}}, "hyperpod.instance_groups[1].update_schedule.cron", "'1' with day of week 'SUN'. Expected ? in exactly one", {f"{WORKERS}/update_schedule": SCHEDULE}),
    Case("interfaces_are_efa", {f"{HEAD}/network_interface": "efa-only"}, "hyperpod.instance_groups[0].network_interface", "'efa-only' on ml.m5.2xlarge, which has no EFA", {f"{WORKERS}/network_interface": "efa-only"}),
    Case("images_have_one_source", {f"{WORKERS}/image_id": AMI, f"{WORKERS}/image_release_version": "1.2.3"}, "hyperpod.instance_groups[1].image_release_version", "1.2.3 is of HyperPod's AMI", {f"{WORKERS}/image_id": AMI}),
    Case("images_have_one_source", {f"{GROUPS}/2": {**CPU_GROUP, "image_id": AMI, "auto_patch": "WhenIdle"}}, "hyperpod.instance_groups[2].auto_patch", "auto_patch takes AMIs of HyperPod", {f"{GROUPS}/2": {**CPU_GROUP, "image_id": AMI}}),
    Case("images_have_one_source", {f"{WORKERS}/image_id": AMI, f"{WORKERS}/update_schedule": SCHEDULE}, "hyperpod.instance_groups[1].update_schedule", "update_schedule takes AMIs of HyperPod", {f"{WORKERS}/image_id": AMI}),
    Case("addresses_fit", {"network/node_subnet_prefix": 24, f"{HEAD}/count": 3, f"{WORKERS}/network_interface": "efa"}, "hyperpod.instance_groups[1].count", "4 × 81 of ml.p5.48xlarge", {"network/node_subnet_prefix": 24, f"{HEAD}/availability_zone_id": "usw2-az2", f"{WORKERS}/network_interface": "efa-only"}),
    Case("batches_fit", {f"{WORKERS}/update_schedule": {**SCHEDULE, "rolling": {"maximum_batch": 101, "batch_unit": "CAPACITY_PERCENTAGE"}}}, "hyperpod.instance_groups[1].update_schedule.rolling.maximum_batch", "101 percent. Expected 1 to 100", {f"{WORKERS}/update_schedule": {**SCHEDULE, "rolling": {"maximum_batch": 100, "batch_unit": "CAPACITY_PERCENTAGE"}}}),
    Case("batches_fit", {f"{WORKERS}/update_schedule": {**SCHEDULE, "rolling": {"maximum_batch": 5}}}, "hyperpod.instance_groups[1].update_schedule.rolling.maximum_batch", "5 nodes at once, but the group has 4", {f"{WORKERS}/update_schedule": {**SCHEDULE, "rolling": {"maximum_batch": 4}}}),
    Case("patches_find_idle_nodes", {f"{WORKERS}/auto_patch": "WhenIdle"}, "hyperpod.instance_groups[1].auto_patch", "its nodes are never idle", {f"{GROUPS}/2": {**CPU_GROUP, "auto_patch": "WhenIdle"}}, "warning"),
    Case("groups_are_used", {f"{GROUPS}/2": MORE_P5}, "hyperpod.instance_groups[2].name", "stand idle", {f"{GROUPS}/2": CPU_GROUP}, "warning"),
    Case("system_pods_have_a_place", {f"{HEAD}/count": 0}, "hyperpod.instance_groups", "no group of a CPU type with nodes", {f"{GROUPS}/2": CPU_GROUP}, beside=("hyperpod.instance_groups[0].count", "ray.head.instance_group")),
    Case("recovery_is_on", {"hyperpod/node_recovery": "None"}, "hyperpod.node_recovery", "until you replace them", {}, "warning"),
    # --- network
    Case("ranges_exist", {"network/cidr": "10.0.0.0/99"}, "network.cidr", "Expected a prefix length from 0 to 32", {"network/cidr": "10.0.0.0/16"}),
    Case("ranges_exist", {"network/cidr": "10.0.300.0/16"}, "network.cidr", "0 to 255", {"network/cidr": "10.255.0.0/16"}),
    Case("ranges_exist", {"network/cidr": "10.0.0.1/16"}, "network.cidr", "did you mean '10.0.0.0/16'?", {"network/cidr": "10.0.0.0/16"}),
    Case("ranges_exist", {"network/cidr": "10.0.0.0/21"}, "network.cidr", "Expected /16 to /20", {"network/cidr": "10.0.0.0/20"}),
    Case("ranges_exist", {**EXISTING, "network/existing/node_subnet_cidrs/usw2-az2": "10.0.16.0/29"}, "network.existing.node_subnet_cidrs.usw2-az2", "Expected /16 to /28", {**EXISTING, "network/existing/node_subnet_cidrs/usw2-az2": "10.0.16.0/28"}),
    Case("range_is_private", {"network/cidr": "11.0.0.0/16"}, "network.cidr", "is not private", {"network/cidr": "172.31.0.0/16"}),
    Case("range_is_private", {"network/cidr": "172.17.0.0/16"}, "network.cidr", "bridge network", {"network/cidr": "172.18.0.0/16"}, "warning"),
    Case("subnets_lie_in_the_vpc", {**EXISTING, "network/existing/node_subnet_cidrs/usw2-az2": "10.0.8.0/21"}, "network.existing.node_subnet_cidrs.usw2-az2", "overlaps 10.0.0.0/20", EXISTING),
    Case("subnets_lie_in_the_vpc", {**EXISTING, "network/existing/node_subnet_cidrs/usw2-az2": "10.1.0.0/20"}, "network.existing.node_subnet_cidrs.usw2-az2", "outside vpc_cidr", EXISTING, "warning"),
    Case("existing_subnets_are_described", {**EXISTING, "network/existing/node_subnet_cidrs": {"usw2-az1": "10.0.0.0/20"}}, "network.existing.node_subnet_ids.usw2-az2", "has no entry in node_subnet_cidrs", EXISTING),
    Case("existing_subnets_are_described", {**EXISTING, "network/existing/node_subnet_cidrs/usw2-az3": "10.0.32.0/20"}, "network.existing.node_subnet_cidrs.usw2-az3", "has no entry in node_subnet_ids", EXISTING),
    Case("existing_subnets_are_described", {**EXISTING, "network/existing/node_subnet_ids/usw2-az3": "subnet-0123456789abcdef9", "network/existing/node_subnet_cidrs/usw2-az3": "10.0.32.0/20"}, "network.existing.node_subnet_ids.usw2-az3", "is not one of network.availability_zone_ids", EXISTING),
    Case("control_plane_subnets_are_described", {**EXISTING, "network/existing/control_plane_subnet_ids": ["subnet-0123456789abcdef2"] * 2}, "network.existing.control_plane_subnet_ids[1]", "named twice", EXISTING),
    Case("control_plane_subnets_are_described", {**EXISTING, "network/existing/control_plane_subnet_ids/2": "subnet-0123456789abcdef4"}, "network.existing.control_plane_subnet_ids", "3 subnets for 2 zones", EXISTING),
    Case("zones_differ", {"network/availability_zone_ids": ["usw2-az1", "usw2-az1"]}, "network.availability_zone_ids[1]", "named twice", {"network/availability_zone_ids": ["usw2-az1", "usw2-az3"]}),
    Case("type_is_in_the_region", {f"{WORKERS}/type": "ml.p6-b300.48xlarge", "region": "us-west-1", "network/availability_zone_ids": ["usw1-az1", "usw1-az3"]}, "hyperpod.instance_groups[1].type", "is not offered in us-west-1", {f"{WORKERS}/type": "ml.p6-b300.48xlarge"}),
    Case("type_is_in_the_region", {f"{WORKERS}/type": "ml.p5e.48xlarge"}, "hyperpod.instance_groups[1].type", "in any region", {f"{WORKERS}/type": "ml.p5.48xlarge"}, "warning"),
    Case("region_has_clusters", {"region": "eu-west-3", "network/availability_zone_ids": ["euw3-az1", "euw3-az2"]}, "region", "no HyperPod clusters", {"region": "eu-west-1", "network/availability_zone_ids": ["euw1-az1", "euw1-az2"]}),
    Case("control_plane_zones_are_accepted", {"region": "us-east-1", "network/availability_zone_ids": ["use1-az1", "use1-az3"]}, "network.availability_zone_ids[1]", "EKS takes no control-plane subnet in use1-az3", {"region": "us-east-1", "network/availability_zone_ids": ["use1-az1", "use1-az2"]}),
    Case("control_plane_zones_are_accepted", {**EAST, "network/availability_zone_ids": ["use1-az1", "use1-az3", "use1-az2"]}, "network.availability_zone_ids[1]", "name zones that have a control-plane subnet first", {**EAST, "network/availability_zone_ids": ["use1-az1", "use1-az2", "use1-az3"]}),
    Case("zones_belong_to_the_region", {"network/availability_zone_ids": ["usw2-az1", "use2-az2"]}, "network.availability_zone_ids[1]", "did you mean 'usw2-az2'?", {"region": "ap-southeast-2", "network/availability_zone_ids": ["apse2-az1", "apse2-az3"]}),
    Case("region_is_known", {"region": "us-west-9", "network/availability_zone_ids": ["usw9-az1", "usw9-az2"]}, "region", "no AWS Region known here. Expected a Region that botocore lists. Fix: did you mean 'us-west-2'?", {}),
    Case("zones_exist_somewhere", {"network/availability_zone_ids": ["usw2-az1", "usw2-az9"]}, "network.availability_zone_ids[1]", "Expected az1 to az4", {"network/availability_zone_ids": ["usw2-az1", "usw2-az4"]}),
    Case("zones_exist_somewhere", {"network/availability_zone_ids": ["usw2-az1", "usw2-az5"]}, "network.availability_zone_ids[1]", "Expected az1 to az4", {"network/availability_zone_ids": ["usw2-az1", "usw2-az4"]}, "warning"),
    Case("control_plane_has_its_own_subnets", {**EXISTING, "network/existing/control_plane_subnet_ids": ["subnet-0123456789abcdef2", "subnet-0123456789abcdef1"]}, "network.existing.control_plane_subnet_ids[1]", "also carries nodes", EXISTING, "warning"),
    Case("groups_stand_in_our_zones", {f"{HEAD}/availability_zone_id": "usw2-az4"}, "hyperpod.instance_groups[0].availability_zone_id", "is not one of network.availability_zone_ids", {f"{HEAD}/availability_zone_id": "usw2-az2"}),
    Case("groups_stand_in_our_zones", {"network/existing": {**SUBNETS, "node_subnet_ids": {"usw2-az2": "subnet-0123456789abcdef1"}, "node_subnet_cidrs": {"usw2-az2": "10.0.16.0/20"}}, f"{WORKERS}/availability_zone_id": "usw2-az2"}, "hyperpod.instance_groups[0]", "no entry in network.existing.node_subnet_ids", EXISTING),
    Case("addresses_fit", {"network/node_subnet_prefix": 24, f"{HEAD}/count": 3}, "hyperpod.instance_groups[1].count", "Expected at most 2 nodes of this group", {"network/node_subnet_prefix": 23, f"{HEAD}/count": 3}),
    Case("addresses_fit", {**EXISTING, "network/existing/node_subnet_cidrs/usw2-az1": "10.0.0.0/24", f"{HEAD}/availability_zone_id": "usw2-az2"}, "hyperpod.instance_groups[1].count", "4 × 81 of ml.p5.48xlarge", EXISTING),
    Case("addresses_fit", {"network/node_subnet_prefix": 24, f"{HEAD}/availability_zone_id": "usw2-az2", f"{WORKERS}/count": 3, f"{WORKER}/replicas": 3}, "network.node_subnet_prefix", "Expected 81 more, for one replacement per group", {"network/node_subnet_prefix": 24, f"{HEAD}/availability_zone_id": "usw2-az2", f"{WORKERS}/count": 2, f"{WORKER}/replicas": 2}, "warning"),
    Case("subnets_fit_the_vpc", {"network/node_subnet_prefix": 18}, "network.node_subnet_prefix", "set node_subnet_prefix: 19", {"network/node_subnet_prefix": 18, "network/zone_slots": 3}),
    Case("zones_have_slots", {"network/zone_slots": 2, "network/availability_zone_ids": ["usw2-az1", "usw2-az2", "usw2-az3"]}, "network.zone_slots", "2 slots for 3 zones", {"network/zone_slots": 3, "network/availability_zone_ids": ["usw2-az1", "usw2-az2", "usw2-az3"]}),
    Case("nat_gateways_have_zones", {"network/nat_gateways": 3}, "network.nat_gateways", "at most one per zone", {"network/nat_gateways": 2}),
    Case("settings_have_effect", {**CLOSED, "network/nat_gateways": 2}, "network.nat_gateways", "creates no NAT gateway", CLOSED, "warning"),
    # --- EKS
    Case("version_is_supported", {"eks/version": "1.27"}, "eks.version", "does not support Kubernetes 1.27. Expected one of 1.30", {"eks/version": "1.35"}),
    Case("version_is_in_standard_support", {"eks/version": "1.34"}, "eks.version", "standard support of 1.34 ends in 10 days, on 2026-12-02; extended support costs more. Expected a version in standard support for more than 60 days. Fix: raise eks.version to 1.35", {"eks/version": "1.35"}, "warning"),
    Case("version_is_in_standard_support", {"eks/version": "1.33"}, "eks.version", "1.33 is in extended support since 2026-07-29", {"eks/version": "1.35"}, "warning"),
    Case("version_is_in_standard_support", {**EXISTING, "eks/existing": CLUSTER, "eks/version": "1.30"}, "eks.version", "EKS ended its support of 1.30 on 2026-07-23: it creates no new cluster of it. Expected a version in standard support for more than 60 days. Fix: update the cluster to 1.35", {**EXISTING, "eks/existing": CLUSTER, "eks/version": "1.35"}, "warning"),
    Case("standard_support_updates_by_itself", {"eks/support_type": "STANDARD"}, "eks.support_type", "after 2027-03-27 EKS updates the cluster to 1.36 by itself, which HyperPod does not support: 1.35 is its newest", {}, "warning"),
    Case("standard_support_updates_by_itself", {"eks/support_type": "STANDARD", "eks/version": "1.34"}, "eks.support_type", "after 2026-12-02 EKS updates the cluster to 1.35 by itself. Expected", {"eks/support_type": "EXTENDED", "eks/version": "1.35"}, "warning"),
    Case("standard_support_updates_by_itself", {"eks/support_type": "STANDARD", "eks/version": "1.33"}, "eks.support_type", "standard support of 1.33 ended on 2026-07-29", {"eks/version": "1.35"}),
    Case("public_endpoint_is_limited", {"eks/endpoint": {"public": True}}, "eks.endpoint.public_cidrs", "Expected the ranges that may reach it", {"eks/endpoint": PUBLIC}),
    Case("public_endpoint_is_limited", {"eks/endpoint": {"public": True, "public_cidrs": ["0.0.0.0/0"]}}, "eks.endpoint.public_cidrs[0]", "the whole internet", {"eks/endpoint": PUBLIC}),
    Case("public_endpoint_is_limited", {"eks/endpoint": {"public": True, "public_cidrs": ["32.0.0.0/7"]}}, "eks.endpoint.public_cidrs[0]", "a large part of the internet", {"eks/endpoint": {"public": True, "public_cidrs": ["32.0.0.0/8"]}}),
    Case("public_endpoint_is_limited", {"eks/endpoint": {"public": True, "public_cidrs": ["10.0.0.0/8"]}}, "eks.endpoint.public_cidrs[0]", "is private", {"eks/endpoint": PUBLIC}),
    Case("public_endpoint_is_limited", {"eks/endpoint": {"public": True, "public_cidrs": ["203.0.113.0/24"]}}, "eks.endpoint.public_cidrs[0]", "reserved for examples", {"eks/endpoint": PUBLIC}),
    Case("public_endpoint_is_limited", {"eks/endpoint": {"public_cidrs": ["20.0.0.0/24"]}}, "eks.endpoint.public_cidrs", "has no effect", {"eks/endpoint": PUBLIC}, "warning"),
    Case("closed_network_reaches_nothing", {**CLOSED, "eks/endpoint": PUBLIC}, "eks.endpoint.public", "otherwise closed", {"eks/endpoint": PUBLIC}, "warning"),
    Case("existing_cluster_has_existing_network", {"eks/existing": CLUSTER}, "eks.existing", "name its VPC in network.existing", {"eks/existing": CLUSTER, **EXISTING}),
    Case("issuer_is_of_the_region", {**EXISTING, "eks/existing": {**CLUSTER, "oidc_issuer_url": "https://oidc.eks.us-east-1.amazonaws.com/id/ABC"}}, "eks.existing.oidc_issuer_url", "is not in us-west-2", {"eks/existing": CLUSTER, **EXISTING}),
    Case("roles_are_plausible", {"eks/admin_role_arns": [ROLE.replace("aws", "aws-cn", 1)]}, "eks.admin_role_arns[0]", "in partition aws-cn", {"eks/admin_role_arns": [ROLE]}),
    Case("roles_are_plausible", {"eks/admin_role_arns": [f"{ROLE}*"]}, "eks.admin_role_arns[0]", "without a wildcard", {"eks/admin_role_arns": [ROLE]}),
    Case("roles_are_plausible", {"eks/admin_role_arns": [ROLE, ROLE]}, "eks.admin_role_arns[1]", "one access entry for each role", {"eks/admin_role_arns": [ROLE, f"{ROLE}2"]}),
    Case("roles_are_plausible", {"eks/admin_role_arns": [ROLE.replace("1234", "4321")]}, "eks.admin_role_arns[0]", "is a role of account 432156789012", {"eks/admin_role_arns": [ROLE]}, "warning"),
    Case("users_get_ray_namespaces", {"eks/ray_users": [{"role_arn": ROLE, "namespaces": ["ray", "kube-system"]}]}, "eks.ray_users[0].namespaces[1]", "belongs to the cluster itself", {"eks/ray_users": [{"role_arn": ROLE, "namespaces": ["ray", "mine"]}]}),
    Case("users_get_ray_namespaces", {"eks/ray_users": [{"role_arn": ROLE, "namespaces": ["mine"]}]}, "eks.ray_users[0].namespaces", "'ray', where the RayCluster is", {"eks/ray_users": [{"role_arn": ROLE, "namespaces": ["mine", "ray"]}]}, "warning"),
    # --- storage
    Case("capacity_is_a_step", {"storage/capacity_gib": 3600}, "storage.capacity_gib", "Fix: set 2400 or 4800", {"storage/capacity_gib": 4800}),
    Case("capacity_is_a_step", {"storage": {"efa": True, "capacity_gib": 4800, "throughput_mbs_per_tib": 500}}, "storage.capacity_gib", "multiples of 9600. Fix: set 9600", {"storage": {"efa": True, "capacity_gib": 9600, "throughput_mbs_per_tib": 500}}),
    Case("capacity_is_a_step", {"storage": {"efa": True, "capacity_gib": 12000, "throughput_mbs_per_tib": 1000}}, "storage.capacity_gib", "multiples of 4800. Fix: set 9600 or 14400", {"storage": {"efa": True, "capacity_gib": 14400, "throughput_mbs_per_tib": 1000}}),
    Case("efa_storage_has_efa_clients", {"storage": {"efa": True, "capacity_gib": 19200}, f"{WORKERS}/type": "ml.p4d.24xlarge"}, "storage.efa", "Lustre has no EFA on ml.p4d.24xlarge", {"storage": {"efa": True, "capacity_gib": 19200}}, "warning"),
    Case("efa_storage_has_efa_clients", {"storage": {"efa": True, "capacity_gib": 19200}, f"{WORKERS}/type": "ml.g5.2xlarge"}, "storage.efa", "Lustre has no EFA on ml.g5.2xlarge", {"storage": {"efa": True, "capacity_gib": 19200}, f"{WORKERS}/type": "ml.g6.8xlarge"}, "warning"),
    Case("efa_storage_has_connections", {"storage": {"efa": True, "capacity_gib": 19200}, f"{WORKERS}/type": "ml.p6-b200.48xlarge", f"{WORKERS}/count": 129}, "storage.efa", "1,032 EFA connections", {"storage": {"efa": True, "capacity_gib": 19200}, f"{WORKERS}/type": "ml.p6-b200.48xlarge", f"{WORKERS}/count": 128}, "warning"),
    Case("storage_zone_exists", {"storage": {"existing": {**FILE_SYSTEM, "availability_zone_id": "usw2-az9"}}}, "storage.existing.availability_zone_id", "is not one of network.availability_zone_ids", {"storage": {"existing": FILE_SYSTEM}}, beside=("storage.existing.availability_zone_id", "storage.existing.file_system_id")),
    Case("storage_is_beside_the_workers", {"storage/availability_zone_id": "usw2-az2"}, "storage.availability_zone_id", "traffic between zones is slow", {"storage/availability_zone_id": "usw2-az1"}),
    Case("storage_is_beside_the_workers", {"storage": {"existing": {**FILE_SYSTEM, "availability_zone_id": "usw2-az2"}}}, "storage.existing.availability_zone_id", "move the group, or the data", {"storage": {"existing": FILE_SYSTEM}}, "warning", beside=("storage.existing.file_system_id",)),
    # --- access to AWS
    Case("environment_variables_are_allowed", {"ray/env": {"DATA": "s3://sets/a"}, "ray/access": {"s3": [{"bucket": "sets", "prefix": "b/"}]}}, "ray.env.DATA", "add {bucket: sets, prefix: a/, mode: read} to ray.access.s3", {"ray/env": {"DATA": "s3://sets/a"}, "ray/access": {"s3": [{"bucket": "sets"}]}}),
    Case("environment_variables_are_allowed", {f"{WORKER}/env": {"TIERED_S3_BASE": "s3://runs/a"}, "ray/access": {"s3": [{"bucket": "runs"}]}}, "ray.workers[0].env.TIERED_S3_BASE", "may not write s3://runs/a", {f"{WORKER}/env": {"TIERED_S3_BASE": "s3://runs/a"}, "ray/access": {"s3": [{"bucket": "runs", "mode": "write"}]}}),
    Case("environment_variables_are_allowed", {"ray/head/env": {"MLFLOW_TRACKING_URI": MLFLOW}}, "ray.head.env.MLFLOW_TRACKING_URI", "set ray.access.mlflow_arn", {"ray/head/env": {"MLFLOW_TRACKING_URI": MLFLOW}, "ray/access": {"mlflow_arn": MLFLOW}}),
    Case("secrets_are_reachable", {"ray/access": {"secret_arns": [SECRET]}, **CLOSED}, "ray.access.secret_arns[0]", "no route to AWS Secrets Manager", {"ray/access": {"secret_arns": [SECRET]}}),
    Case("secrets_are_reachable", {"ray/access": {"secret_arns": [SECRET.replace("us-west-2", "us-east-1")]}}, "ray.access.secret_arns[0]", "the secret is in us-east-1", {"ray/access": {"secret_arns": [SECRET]}}),
    Case("mlflow_is_reachable", {"ray/access": {"mlflow_arn": MLFLOW}, **CLOSED}, "ray.access.mlflow_arn", "no route to SageMaker's MLflow", {"ray/access": {"mlflow_arn": MLFLOW}}),
    Case("mlflow_is_reachable", {"ray/access": {"mlflow_arn": MLFLOW.replace("us-west-2", "us-east-1")}}, "ray.access.mlflow_arn", "the server is in us-east-1", {"ray/access": {"mlflow_arn": MLFLOW}}),
    Case("keys_are_regional", {"ray/access": {"s3": [{"bucket": "sets"}], "kms_key_arns": ["arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"]}}, "ray.access.kms_key_arns[0]", "the key is in us-east-1", {"ray/access": {"s3": [{"bucket": "sets"}], "kms_key_arns": ["arn:aws:kms:us-west-2:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"]}}),
    Case("access_says_something_once", {"ray/access": {}}, "ray.access", "allows nothing", {"ray/access": {"s3": [{"bucket": "sets"}]}}, "warning"),
    Case("access_says_something_once", {"ray/access": {"s3": [{"bucket": "sets"}, {"bucket": "sets", "mode": "write"}]}}, "ray.access.s3[1]", "is already s3[0]", {"ray/access": {"s3": [{"bucket": "sets"}, {"bucket": "sets", "prefix": "a/"}]}}),
    Case("claims_keep_their_data", {"storage": {"on_destroy": "delete", "backup_retention_days": 7}}, "storage.backup_retention_days", "deleted together with the file system", {"storage": {"on_destroy": "retain", "backup_retention_days": 7}}, "warning"),
    # --- protection
    Case("protected_keeps_data", {"protected": True, "storage/on_destroy": "delete", "storage/backup_retention_days": 7}, "storage.on_destroy", "'delete' in a protected environment", {"protected": True, "storage/backup_retention_days": 7}, beside=("storage.backup_retention_days",)),
    Case("protected_keeps_images", {"protected": True, "image/on_destroy": "delete", "storage/backup_retention_days": 7}, "image.on_destroy", "'delete' in a protected environment", {"protected": True, "storage/backup_retention_days": 7}),
    Case("protected_has_backups", {"protected": True}, "storage.backup_retention_days", "set 7, which keeps a week", {"protected": True, "storage/backup_retention_days": 1}, "warning"),
    Case("protected_has_auth", {"protected": True, "storage/backup_retention_days": 7, "ray/auth": "none"}, "ray.auth", "run code on the cluster", {"ray/auth": "token"}),
    Case("protected_has_auth", {"ray/auth": "none"}, "ray.auth", "run code on the cluster", {"ray/auth": "token"}, "warning"),
    # --- names
    Case("labels_are_valid", {f"{WORKERS}/labels": {"sagemaker.amazonaws.com/x": "y"}}, "hyperpod.instance_groups[1].labels['sagemaker.amazonaws.com/x']", "is reserved", {f"{WORKERS}/labels": {"example.com/x": "y"}}),
    Case("labels_are_valid", {f"{WORKERS}/labels": {"node.kubernetes.io/x": "y"}}, "hyperpod.instance_groups[1].labels['node.kubernetes.io/x']", "kubernetes.io/ is reserved", {f"{WORKERS}/labels": {"notkubernetes.io/x": "y"}}),
    Case("labels_are_valid", {f"{WORKERS}/labels": {"team": "a b"}}, "hyperpod.instance_groups[1].labels.team", "is no label value", {f"{WORKERS}/labels": {"team": "a" * 63}}),
    Case("labels_are_valid", {f"{WORKERS}/labels": {"-team": "a"}}, "hyperpod.instance_groups[1].labels['-team']", "is no label key", {f"{WORKERS}/labels": {"a" * 63: "b"}}),
    Case("taints_are_valid", {f"{HEAD}/taints": [{"key": "k8s.io/x", "effect": "NoSchedule"}]}, "hyperpod.instance_groups[0].taints[0].key", "is reserved", {f"{HEAD}/taints": [{"key": "x", "effect": "NoSchedule"}]}),
    Case("taints_are_valid", {f"{HEAD}/taints": [{"key": "x", "effect": "NoSchedule"}, {"key": "x", "value": "y", "effect": "NoSchedule"}]}, "hyperpod.instance_groups[0].taints[1]", "keep one", {f"{HEAD}/taints": [{"key": "x", "effect": "NoSchedule"}, {"key": "x", "effect": "NoExecute"}]}),
    Case("tags_are_valid", {"tags": {"aws:x": "y"}}, "tags['aws:x']", "reserved", {"tags": {"awsx": "y"}}),
    Case("tags_are_valid", {"tags": {"hyperpod-ray:x": "y"}}, "tags['hyperpod-ray:x']", "this project's own", {"tags": {"hyperpod-rays": "y"}}),
    Case("tags_are_valid", {"tags": {"x": "y" * 257}}, "tags.x", "the value has 257 characters. Expected at most 256", {"tags": {"x": "y" * 256}}),
    Case("tags_are_valid", {"tags": {"x": "a;b"}}, "tags.x", "a character that tags cannot have", {"tags": {"x": "a b_c:d/e=f+g-h@i.ü"}}),
    Case("tags_are_valid", {"tags": {"x": "a", "X": "b"}}, "tags.X", "in case only", {"tags": {"x": "a", "y": "b"}}),
    Case("ray_cluster_name_fits", {"ray/cluster_name": "1ray"}, "ray.cluster_name", "begins with a digit", {"ray/cluster_name": "ray1"}),
    Case("ray_cluster_name_fits", {"ray/cluster_name": "r" * 54}, "ray.cluster_name", "54 characters. Expected at most 53", {"ray/cluster_name": "r" * 53}),
    Case("namespace_is_ours", {"ray/namespace": "default"}, "ray.namespace", "a namespace of Ray's own", {"ray/namespace": "training"}),
    Case("namespace_is_ours", {"ray/namespace": "hyperpod-ns-vision"}, "ray.namespace", "is the name of a team's namespace", {"ray/namespace": "vision"}),
    Case("bucket_name_fits", {"hyperpod/cluster_name": "c" * 31}, "hyperpod.cluster_name", "at most 30 characters in us-west-2", {"hyperpod/cluster_name": "c" * 30}),
    Case("proxy_is_reachable", {"network/proxy": {"url": "http://127.0.0.1:3128"}}, "network.proxy.url", "another machine on each node", {"network/proxy": {"url": "http://10.0.0.9:3128"}}),
    Case("proxy_is_reachable", {**CLOSED, "network/proxy": {"url": "http://proxy.example.com:3128"}}, "network.proxy.url", "outside the VPC, which has no way out", {**CLOSED, "network/proxy": {"url": "http://10.0.0.9:3128"}}),
    Case("proxy_is_reachable", {**CLOSED, "network/proxy": {"url": "http://10.1.0.9:3128"}}, "network.proxy.url", "an address within 10.0.0.0/16", {**CLOSED, "network/proxy": {"url": "http://10.0.255.9:3128"}}),
    Case("proxy_is_reachable", {"network/proxy": {"url": "http://169.254.169.254:80"}}, "network.proxy.url", "another machine on each node", {"network/proxy": {"url": "http://10.0.0.9:80"}}),
    Case("proxy_is_reachable", {"network/proxy": {"url": "http://proxy.example.com:65536"}}, "network.proxy.url", "port 65536", {"network/proxy": {"url": "http://proxy.example.com:65535"}}),
    Case("proxy_is_reachable", {"network/proxy": {"url": "http://proxy.example.com:70000"}}, "network.proxy.url", "port 70000", {"network/proxy": {"url": "http://proxy.example.com:7000"}}),
    Case("what_passes_the_proxy_is_a_range", {"network/proxy": {"url": "http://proxy.example.com:3128", "no_proxy": ["0.0.0.0/0"]}}, "network.proxy.no_proxy[0]", "is every address", {"network/proxy": {"url": "http://proxy.example.com:3128", "no_proxy": ["10.1.0.0/16", ".corp.example.com"]}}),
    Case("what_passes_the_proxy_is_a_range", {"network/proxy": {"url": "http://proxy.example.com:3128", "no_proxy": ["a.example.com/99"]}}, "network.proxy.no_proxy[0]", "is no IPv4 range", {"network/proxy": {"url": "http://proxy.example.com:3128", "no_proxy": ["a.example.com"]}}),
    Case("builds_pull_their_base_past_the_proxy", {"image/in_vpc": True, "network/proxy": {"url": "http://proxy.example.com:3128"}}, "image.base", "pulls the base without the proxy", {"image/in_vpc": True, "image/base": OTHER_REGION.replace("eu-west-1", "us-west-2"), "network/proxy": {"url": "http://proxy.example.com:3128"}}, severity="warning"),
    Case("an_endpoint_is_named_once", {"hyperpod/alarm_https": ["https://a.example.com/x", "https://a.example.com/x"]}, "hyperpod.alarm_https[1]", "named twice", {"hyperpod/alarm_https": ["https://a.example.com/x", "https://a.example.com/y"]}),
    # https://repost.aws/knowledge-center/sns-topic-https-endpoints-notification
    *(
        Case("sns_reaches_the_endpoint", {"hyperpod/alarm_https": [f"https://{host}/sns"]}, "hyperpod.alarm_https[0]", "SNS never posts there", {"hyperpod/alarm_https": [f"https://{near}/sns"]})
        for host, near in (("10.0.0.1", "8.8.8.8"), ("localhost", "localhost.example.com"), ("pager.corp", "pager.corp.example.com"), ("169.254.169.254", "alerts.example.com"))
    ),
    Case("the_other_topic_is_near", {"hyperpod/alarm_topic_arn": "arn:aws:sns:eu-west-1:111122223333:on-call"}, "hyperpod.alarm_topic_arn", "a topic of eu-west-1", {"hyperpod/alarm_topic_arn": "arn:aws:sns:us-west-2:111122223333:on-call"}),
    Case("mails_differ", {"hyperpod/alarm_emails": ["a@example.com", "A@example.com"]}, "hyperpod.alarm_emails[1]", "named twice", {"hyperpod/alarm_emails": ["a@example.com", "b@example.com"]}),
    Case("folder_is_inside", {"image/folder": "../image"}, "image.folder", "no folder inside the project", {"image/folder": "image"}),
    Case("lock_file_is_inside", {"helm/lock_file": "charts/../../x.yaml"}, "helm.lock_file", "leaves the project", {"helm/lock_file": "hyperpod_ray_sandbox/charts/charts.lock.yaml"}),
    Case("variables_are_free", {"ray/env": {"RAY_ADDRESS": "x"}}, "ray.env.RAY_ADDRESS", "KubeRay sets it", {"ray/env": {"RAY_DEDUP_LOGS": "0"}}),
    Case("variables_are_free", {f"{WORKER}/env": {"HF_TOKEN": "x"}}, "ray.workers[0].env.HF_TOKEN", "looks like a secret", {f"{WORKER}/env": {"TOKENIZERS_PARALLELISM": "false"}}, "warning"),
    # --- Ray
    Case("groups_exist", {f"{WORKER}/instance_group": "worker"}, "ray.workers[0].instance_group", "did you mean 'workers'?", {}),
    Case("worker_names_differ", {f"{WORKER}/replicas": 3, "ray/workers/1": worker(name="gpu")}, "ray.workers[1].name", "already the name of workers[0]", {f"{WORKER}/replicas": 3, "ray/workers/1": worker()}),
    Case("worker_names_differ", {f"{WORKER}/name": "driver"}, "ray.workers[0].name", "is taken", {f"{WORKER}/name": "drivers"}),
    Case("replicas_are_in_order", {f"{WORKER}/min_replicas": 5}, "ray.workers[0].min_replicas", "5 is more than replicas, 4", {f"{WORKER}/min_replicas": 4}),
    Case("replicas_are_in_order", {f"{WORKER}/max_replicas": 3}, "ray.workers[0].max_replicas", "3 is less than replicas, 4", {f"{WORKER}/max_replicas": 4}),
    Case("replicas_have_effect", {f"{WORKER}/replicas": 3, f"{WORKER}/max_replicas": 4}, "ray.workers[0].max_replicas", "has no effect without ray.autoscaling", {f"{WORKER}/replicas": 3, f"{WORKER}/max_replicas": 4, "ray/autoscaling": True}, "warning"),
    Case("some_worker_works", {f"{WORKER}/replicas": 0}, "ray.workers", "nothing trains", {f"{WORKER}/replicas": 1}, "warning"),
    Case("version_is_recent_enough", {"ray/version": "2.51.2", **OWN_IMAGE}, "ray.version", "Expected 2.52.0 or newer", {"ray/version": "2.52.0", **OWN_IMAGE}),
    Case("version_is_recent_enough", {"ray/version": "2.50.0", "ray/auth": "none", **OWN_IMAGE}, "ray.version", "older than Train V2", {"ray/version": "2.51.0", "ray/auth": "none", **OWN_IMAGE}, beside=("ray.auth",)),
    Case("spares_have_places", {"ray/training_spares": 32}, "ray.training_spares", "leave nothing to train: the worker groups have 32 places", {"ray/training_spares": 8}),
    Case("spares_have_places", {"ray/training_spares": 1}, "ray.training_spares", "do not cover a lost node, which takes up to 8", {"ray/training_spares": 8}, "warning"),
    Case("operator_knows_auth", {"helm/kuberay_operator": "1.5.0"}, "helm.kuberay_operator", "Expected 1.5.1 or newer", {"helm/kuberay_operator": "1.7.0"}, beside=("helm.kuberay_operator",)),
    Case("head_is_off_accelerators", {f"{GROUPS}/2": MORE_P5, "ray/head/instance_group": "more"}, "ray.head.instance_group", "an accelerated type", {f"{GROUPS}/2": CPU_GROUP, "ray/head/instance_group": "cpu"}),
    Case("head_is_off_accelerators", {f"{HEAD}/capacity": "spot"}, "ray.head.instance_group", "is spot capacity", {f"{HEAD}/capacity": "on-demand"}, "warning"),
    Case("head_has_a_second_node", {f"{HEAD}/count": 1}, "hyperpod.instance_groups[0].count", "Fix: set count: 2", {f"{HEAD}/count": 2}, "warning"),
    Case("redis_is_given_once", {"ray/gcs_fault_tolerance": {"driver_instance_group": "head"}}, "ray.gcs_fault_tolerance", "needs a Redis", {"ray/gcs_fault_tolerance": {"driver_instance_group": "head", "redis_image": DIGEST}}),
    Case("redis_is_given_once", {"ray/gcs_fault_tolerance": {"driver_instance_group": "head", "redis_image": DIGEST, "redis_address": "redis:6379"}}, "ray.gcs_fault_tolerance.redis_address", "exclude each other", {"ray/gcs_fault_tolerance": {"driver_instance_group": "head", "redis_address": "redis:6379"}}),
    Case("redis_is_given_once", {"ray/gcs_fault_tolerance": {"driver_instance_group": "head", "redis_address": "redis:65536"}}, "ray.gcs_fault_tolerance.redis_address", "no port between", {"ray/gcs_fault_tolerance": {"driver_instance_group": "head", "redis_address": "redis:65535"}}),
    Case("driver_is_off_the_head", {"ray/gcs_fault_tolerance": {"driver_instance_group": "workers", "redis_image": DIGEST}, f"{WORKERS}/count": 5}, "ray.gcs_fault_tolerance.driver_instance_group", "a group of a CPU type for the driver", {"ray/gcs_fault_tolerance": {"driver_instance_group": "head", "redis_image": DIGEST}}),
    Case("driver_is_off_the_head", {"ray/gcs_fault_tolerance": {"driver_instance_group": "head", "redis_image": DIGEST}, f"{HEAD}/count": 1}, "ray.gcs_fault_tolerance.driver_instance_group", "a second node for the driver", {"ray/gcs_fault_tolerance": {"driver_instance_group": "head", "redis_image": DIGEST}}, beside=("hyperpod.instance_groups[0].count",)),
    Case("workers_share_a_zone", {f"{GROUPS}/2": {**MORE_P5, "availability_zone_id": "usw2-az2"}, "ray/workers/1": worker(instance_group="more")}, "ray.workers[1].instance_group", "EFA does not cross zones", {f"{GROUPS}/2": MORE_P5, "ray/workers/1": worker(instance_group="more")}, "warning"),
    Case("one_architecture", {f"{HEAD}/type": "ml.m7g.2xlarge", f"{HEAD}/threads_per_core": 1, **OWN_IMAGE}, "ray.workers[0].instance_group", "head and workers share one image", {f"{HEAD}/type": "ml.m7i.2xlarge"}),
    Case("workers_have_one_kind_of_accelerator", {f"{GROUPS}/2": {**MORE_P5, "type": "ml.trn1.32xlarge"}, "ray/workers/1": worker(instance_group="more"), **OWN_IMAGE}, "ray.workers[1].instance_group", "which no one image serves", {f"{GROUPS}/2": {**MORE_P5, "type": "ml.p5en.48xlarge"}, "ray/workers/1": worker(instance_group="more")}),
    Case("nodes_scale_too", {"hyperpod/managed_autoscaling": True, f"{GROUPS}/2": BURST}, "hyperpod.managed_autoscaling", "none are asked for", {"hyperpod/managed_autoscaling": True, f"{GROUPS}/2": BURST, "ray/autoscaling": True}, "warning"),
    Case("karpenter_has_groups", {"hyperpod/managed_autoscaling": True, "ray/autoscaling": True}, "hyperpod.managed_autoscaling", "no group has a count of 0", {f"{GROUPS}/2": BURST, "hyperpod/managed_autoscaling": True, "ray/autoscaling": True}),
    Case("karpenter_has_groups", {f"{GROUPS}/2": {**BURST, "deep_health_checks": ["InstanceStress"]}, "hyperpod/managed_autoscaling": True, "ray/autoscaling": True}, "hyperpod.instance_groups[2].deep_health_checks", "does not scale a group with deep health checks", {f"{GROUPS}/2": BURST, "hyperpod/managed_autoscaling": True, "ray/autoscaling": True}),
    Case("karpenter_has_groups", {f"{GROUPS}/2": {**BURST, "training_plan_arn": PLAN_ARN}, "hyperpod/managed_autoscaling": True, "ray/autoscaling": True}, "hyperpod.instance_groups[2].training_plan_arn", "does not scale reserved capacity", {f"{GROUPS}/2": BURST, "hyperpod/managed_autoscaling": True, "ray/autoscaling": True}),
    Case("hosts_are_addresses", {"ray/observability": {"grafana_host": "grafana:3000", "prometheus_host": "http://p:9090"}}, "ray.observability.grafana_host", "Expected http:// or https:// in front", {"ray/observability": {"grafana_host": "http://grafana:3000", "prometheus_host": "http://p:9090"}}),
    Case("hosts_are_addresses", {"ray/observability": {"grafana_host": "http://1.2.3.4:99999", "prometheus_host": "http://p:9090"}}, "ray.observability.grafana_host", "Expected a port from 1 to 65535", {"ray/observability": {"grafana_host": "http://1.2.3.4:9999", "prometheus_host": "http://p:9090"}}),
    Case("hosts_are_addresses", {"ray/observability": {"grafana_host": "http://g:0", "prometheus_host": "http://p:9090"}}, "ray.observability.grafana_host", "Expected a port from 1 to 65535", {"ray/observability": {"grafana_host": "http://g:1", "prometheus_host": "http://p:9090"}}),
    Case("hosts_are_addresses", {"ray/observability": {"grafana_host": "http://g:80", "prometheus_host": "https://:9090"}}, "ray.observability.prometheus_host", "Expected the name of a host", {"ray/observability": {"grafana_host": "http://g:80", "prometheus_host": "https://p:9090"}}),
    Case("alerts_have_their_source", {"image": {"uri": "123456789012.dkr.ecr.us-west-2.amazonaws.com/team/ray@sha256:" + "a" * 64}, "hyperpod/instance_groups/1/type": "ml.trn1.32xlarge", "observability": {"gpus_idle_minutes": 30}, **MAILS}, "observability.gpus_idle_minutes", "no NVIDIA GPU", {"image": {"uri": "123456789012.dkr.ecr.us-west-2.amazonaws.com/team/ray@sha256:" + "a" * 64}, "hyperpod/instance_groups/1/type": "ml.trn1.32xlarge", "observability": {}}),
    Case("the_add_on_is_installed_by_somebody", {"ray/observability": {"scrape_namespaces": ["hyperpod-observability"]}}, "ray.observability.scrape_namespaces", "nothing here installs", {"observability": {}, "ray/observability": {"scrape_namespaces": ["hyperpod-observability"]}}, "warning"),
    Case("the_add_ons_images_are_within_reach", {**CLOSED, "observability": {}, **MAILS}, "observability", "does not publish where the add-on's images are", {"observability": {}, **MAILS}, "warning"),
    # --- hung jobs
    Case("a_tracker_is_named", {"ray/tracking": {}}, "ray.tracking", "no tracker", {"ray/tracking": {}, "ray/access": {"mlflow_arn": MLFLOW}}),
    Case("a_tracker_is_named", {"ray/tracking": {"mlflow": "https://mlflow.example.com"}, "ray/access": {"mlflow_arn": MLFLOW}}, "ray.tracking.mlflow", "a second MLflow server", {"ray/tracking": {"mlflow": "https://mlflow.example.com/base"}}),
    Case("a_tracker_is_named", {"ray/tracking": {"mlflow_app": {}}, "ray/access": {"mlflow_arn": MLFLOW}}, "ray.tracking.mlflow_app", "a second MLflow server", {"ray/tracking": {"mlflow_app": {}}}),
    Case("a_tracker_is_named", {"ray/tracking": {"mlflow_app": {}, "mlflow": "https://mlflow.example.com"}}, "ray.tracking.mlflow_app", "beside https://mlflow.example.com", {"ray/tracking": {"mlflow": "https://mlflow.example.com"}}),
    Case("a_new_mlflow_app_works_here", {"ray/tracking": {"mlflow_app": {}}, **CLOSED}, "ray.tracking.mlflow_app", "no route to mlflow.sagemaker.us-west-2.app.aws", {"ray/tracking": {"mlflow_app": {}}}),
    Case("a_new_mlflow_app_works_here", {"ray/tracking": {"mlflow_app": {}}, "ray/env": {"MLFLOW_TRACKING_URI": "https://mlflow.example.com"}}, "ray.env.MLFLOW_TRACKING_URI", "the pods get the app's ARN", {"ray/tracking": {"mlflow_app": {}}}),
    Case("a_new_mlflow_app_works_here", {"ray/tracking": {"mlflow_app": {}}, "region": "eu-south-2", "network/availability_zone_ids": ["eus2-az1", "eus2-az2"]}, "ray.tracking.mlflow_app", "AWS::SageMaker::MlflowApp is not in eu-south-2", {"ray/tracking": {"mlflow_app": {}}}, beside=("hyperpod.instance_groups[1].type",)),
    Case("protected_keeps_runs", {"ray/tracking": {"mlflow_app": {"on_destroy": "delete"}}, "protected": True, "storage/backup_retention_days": 7}, "ray.tracking.mlflow_app.on_destroy", "'delete' in a protected environment", {"ray/tracking": {"mlflow_app": {}}, "protected": True, "storage/backup_retention_days": 7}),
    Case("destinations_are_reachable", {"ray/tracking": {"mlflow": "https://mlflow.example.com"}, **CLOSED}, "ray.tracking.mlflow", "mlflow.example.com:443 is reachable from a closed network only", {"ray/tracking": {"mlflow": "https://mlflow.example.com"}}, "warning"),
    Case("a_tracker_is_reachable", {"ray/tracking": {"wandb_project": "mine"}, **CLOSED}, "ray.tracking.wandb_project", "no route to api.wandb.ai", {"ray/tracking": {"wandb_project": "mine"}}),
    Case("hang_patterns_are_re2", {HANGS: {"rules": [HUNG, {**OOM, "log_pattern": "(?<!no )OOM"}]}}, "ray.hung_job_detection.rules[1].log_pattern", "is no pattern of RE2: invalid perl operator: (?<!", {HANGS: {"rules": [HUNG, OOM]}}),
    Case("hang_patterns_are_re2", {HANGS: {"rules": [{**HUNG, "stop_pattern": r"(done) \1"}]}}, "ray.hung_job_detection.rules[0].stop_pattern", "is no pattern of RE2: invalid escape sequence", {HANGS: {"rules": [{**HUNG, "stop_pattern": r"\pL+ done\z"}]}}),
    Case("hang_patterns_are_re2", {HANGS: {"rules": [{**HUNG, "log_pattern": "(step)*"}]}}, "ray.hung_job_detection.rules[0].log_pattern", "matches every line", {HANGS: {"rules": [HUNG]}}),
    Case("hang_rules_can_fire", {HANGS: {"rules": [{k: v for k, v in HUNG.items() if k != "timeout_minutes"}]}}, "ray.hung_job_detection.rules[0]", "it never fires", {HANGS: {"rules": [{**HUNG, "start_timeout_minutes": 30}]}}),
    Case("hang_rules_can_fire", {HANGS: {"rules": [HUNG, {**OOM, "start_timeout_minutes": 30}]}}, "ray.hung_job_detection.rules[1].start_timeout_minutes", "for a fault and for progress at once", {HANGS: {"rules": [HUNG, OOM]}}),
    Case("hang_rules_can_fire", {HANGS: {"rules": [{**OOM, "stop_pattern": OOM["log_pattern"]}]}}, "ray.hung_job_detection.rules[0].stop_pattern", "ends by the line by which it fires", {HANGS: {"rules": [{**OOM, "stop_pattern": "done"}]}}),
    Case("hang_rules_can_fire", {HANGS: {"rules": [{**HUNG, "timeout_minutes": 0.5}]}}, "ray.hung_job_detection.rules[0].timeout_minutes", "0.5 minutes are shorter", {HANGS: {"rules": [{**HUNG, "timeout_minutes": 1}]}}, "warning"),
    Case("hang_rules_are_on", {HANGS: {"rules": [HUNG, {k: v for k, v in OOM.items() if k != "enabled"}]}}, "ray.hung_job_detection.rules[1]", "default of enabled is false", {HANGS: {"rules": [HUNG, {**OOM, "enabled": False}]}}, "warning"),
    Case("hang_rules_are_on", {HANGS: {"rules": [HUNG, {**OOM, "name": "progress"}]}}, "ray.hung_job_detection.rules[1].name", "is the name of 2 rules", {HANGS: {"rules": [HUNG, OOM]}}),
    Case("hang_rules_are_on", {HANGS: {}}, "ray.hung_job_detection", "replaces the default detection by nothing", {HANGS: {"enabled": False}}),
    Case("hang_rules_are_on", {HANGS: {"rules": [{**HUNG, "enabled": False}]}}, "ray.hung_job_detection", "no rule is enabled", {HANGS: {"rules": [HUNG]}}),
    Case("hang_rules_are_on", {HANGS: {"enabled": False, "rules": [HUNG]}}, "ray.hung_job_detection.rules", "have no effect with", {HANGS: {"rules": [HUNG]}}, "warning"),
    Case("the_library_is_in_the_image", {HANGS: {"rules": [HUNG]}, "image": {"uri": "123456789012.dkr.ecr.us-west-2.amazonaws.com/team/ray@sha256:" + "a" * 64}}, "ray.hung_job_detection", "may lack AWS's library", {HANGS: {"rules": [HUNG]}}, "warning"),
    Case("observability_says_something", {"ray/observability": {}}, "ray.observability", "has no effect without a value", {"ray/observability": {"scrape_namespaces": ["hyperpod-observability"]}}),
    Case("observability_says_something", {"ray/observability": {"grafana_host": "http://g:80"}}, "ray.observability", "Expected both, or neither", {"ray/observability": {"grafana_host": "http://g:80", "prometheus_host": "http://p:9090"}}),
    Case("observability_says_something", {"ray/observability": {"prometheus_host": "http://p:80"}}, "ray.observability", "Expected both, or neither", {"ray/observability": {"grafana_host": "http://g:80", "prometheus_host": "http://p:9090"}}),
    Case("observability_says_something", {"ray/observability": {"grafana_iframe_host": "http://g:80", "scrape_namespaces": ["x"]}}, "ray.observability", "Expected both, or neither", {"ray/observability": {"grafana_iframe_host": "http://g:80", "grafana_host": "http://g:80", "prometheus_host": "http://p:9090"}}),
    # --- teams; tests/core/test_team_quotas.py has more
    Case("team_names_differ", teams(team(), team()), "teams[1].name", "already the name of teams[0]", teams(team(), team("speech"))),
    Case("quotas_are_of_the_clusters_types", {**teams(team("a")), "teams/0/quota/0": {"type": "ml.m5.2xlarge", "vcpus": 4, "accelerators": 1}}, "teams[0].quota[0].accelerators", "1, and ml.m5.2xlarge has none", teams(team("a"))),
    Case("quotas_are_of_the_clusters_types", teams(team("a", {"type": "ml.p5e.48xlarge", "instances": 1})), "teams[0].quota[1].type", "no instance group is of type", teams(team("a", {"type": "ml.p5.48xlarge", "instances": 1}))),
    Case("quotas_are_there", teams(team("a", {"type": "ml.p5.48xlarge", "instances": 5})), "teams[0].quota[1].instances", "and there are 4", teams(team("a", {"type": "ml.p5.48xlarge", "instances": 4}))),
    Case("a_job_of_the_team_fits", teams({"name": "a", "quota": [{"type": "ml.p5.48xlarge", "instances": 1}]}), "teams[0].quota", "the head of one job", teams(team())),
    Case("places_are_one_teams", teams(team(access={"s3": [{"bucket": "runs-bucket", "prefix": "a/", "mode": "write"}]}), team("speech", access={"s3": [{"bucket": "runs-bucket", "prefix": "a/b/"}]})), "teams[1].access.s3[0]", "meets s3://runs-bucket/a/ of team 'vision'", teams(team(access={"s3": [{"bucket": "runs-bucket", "prefix": "a/", "mode": "write"}]}), team("speech", access={"s3": [{"bucket": "runs-bucket", "prefix": "b/"}]}))),
    Case("what_is_read_is_no_teams", {**teams(team()), "ray/access": {"s3": [{"bucket": "runs-bucket"}, {"bucket": "runs-bucket", "prefix": "a/", "mode": "write"}]}}, "ray.access.s3[0]", "for reading has the teams' folders", {**teams(team()), "ray/access": {"s3": [{"bucket": "runs-bucket", "prefix": "data/"}, {"bucket": "runs-bucket", "prefix": "a/", "mode": "write"}]}}),
    Case("secrets_are_given_by_name", {**teams(team()), "ray/access": {"secret_arns": ["arn:aws:secretsmanager:us-west-2:111122223333:secret:a-AbCdEf"]}}, "teams[0]", "has no access of its own", {**teams(team(access={})), "ray/access": {"secret_arns": ["arn:aws:secretsmanager:us-west-2:111122223333:secret:a-AbCdEf"]}}, "warning"),
    Case("users_differ", teams(team(uid=5000), team("speech", uid=5000)), "teams[1].uid", "is that of team 'vision' too", teams(team(uid=5000), team("speech", uid=5001))),
    Case("users_differ", teams(team(uid=65534)), "teams[0].uid", "is the user 'nobody'", teams(team(uid=65533))),
    Case("folders_move_to_one_team", teams(team(moves=["runs/a"]), team("speech", moves=["runs/a/b"])), "teams[1].moves[0]", "moves with 'runs/a' to team 'vision'", teams(team(moves=["runs/a"]), team("speech", moves=["runs/ab"]))),
    Case("folders_move_to_one_team", teams(team(moves=["data/x"])), "teams[0].moves[0]", "part of what all teams have", teams(team(moves=["datasets/x"]))),
    Case("a_link_leaves_teams_apart", {**teams(team()), "storage/data_repositories": [{"bucket": "data-bucket", "path": "/teams/a"}]}, "storage.data_repositories[0].path", "has the teams' own folders", {**teams(team()), "storage/data_repositories": [{"bucket": "data-bucket", "path": "/data"}]}, "warning"),
    Case("limits_of_borrowing_are_of_the_quotas_types", teams(team(borrow_limits=[{"type": "ml.p5.48xlarge", "instances": 1}])), "teams[0].borrow_limits", "no limit of ml.m5.2xlarge", teams(team(borrow_limits=[{"type": "ml.p5.48xlarge", "instances": 1}, {"type": "ml.m5.2xlarge", "instances": 0}]))),
    Case("partitions_are_of_the_types_gpus", teams(team("a", {"type": "ml.p5.48xlarge", "partition": {"profile": "mig-1g.5gb", "count": 7}})), "teams[0].quota[1].partition.profile", "is no profile of the GPUs of ml.p5.48xlarge", teams(team("a", {"type": "ml.p5.48xlarge", "partition": {"profile": "mig-1g.10gb", "count": 7}}))),
    Case("sharing_has_effect", teams(team(sharing="lend", borrow_limit_percent=5)), "teams[0].borrow_limit_percent", "does not borrow", teams(team(borrow_limit_percent=5))),
    Case("priorities_differ", {"task_governance": {}}, "task_governance", "there are no teams", {**teams(team()), "task_governance": {}}),
    Case("weights_have_effect", teams(team(fair_share_weight=0)), "teams[0].fair_share_weight", "gets nothing", teams(team(fair_share_weight=0, sharing="lend")), "warning"),
    Case("task_governance_is_in_the_region", {**teams(team()), "region": "ca-central-1", "network/availability_zone_ids": ["cac1-az1", "cac1-az2"], f"{WORKERS}/type": "ml.g5.48xlarge", "teams": [team("a", {"type": "ml.g5.48xlarge", "instances": 1})]}, "teams", "is not in ca-central-1", teams(team())),
    Case("no_worker_group_is_called_head", {**teams(team()), f"{WORKER}/name": "head"}, "ray.workers[0].name", "what Kueue calls the head's group", {f"{WORKER}/name": "head"}),
    Case("jobs_are_small_enough_for_a_queue", {**teams(team()), **{f"ray/workers/{n}": worker(name=f"w{n}", replicas=0) for n in range(1, 7)}}, "ray.workers", "7 groups, and older versions of Kueue take 6", {**teams(team()), **{f"ray/workers/{n}": worker(name=f"w{n}", replicas=0) for n in range(1, 6)}}, "warning"),
    Case("users_are_of_one_list", teams(team(role_arns=[ROLE, ROLE])), "teams[0].role_arns[1]", "named twice", teams(team(role_arns=[ROLE]))),
    Case("a_kueue_of_its_own_is_gone", {**EKS_OF_OTHERS, "ray/access": None, **teams(team())}, "eks.existing.cluster_name", "may have a Kueue of its own", EKS_OF_OTHERS, "warning"),
    Case("the_add_ons_images_of_kueue_are_within_reach", {**CLOSED, **teams(team())}, "teams", "does not publish where the images", teams(team()), "warning"),
    # --- reach
    Case("images_are_reachable", {"network/egress": "closed"}, "network.egress", "cannot pull nvcr.io/nvidia/k8s-device-plugin (nvidia-device-plugin), quay.io/kuberay/operator (kuberay-operator). Expected images in Amazon ECR. Fix: set registries.mirror: true", CLOSED),
    Case("images_are_reachable", {**CLOSED, "helm/lock_file": "other.lock.yaml"}, "helm.lock_file", "Fix: run `hyperpod-ray charts fetch` with this lock file", CLOSED, beside=("registries.mirror", "helm.lock_file")),
    Case("images_are_reachable", {**CLOSED, "image": {"uri": OTHER_REGION}}, "image.uri", "in a registry of another Region", {**CLOSED, "image": {"uri": DIGEST}}),
    Case("destinations_are_reachable", {**CLOSED, "ray/observability": {"grafana_host": "https://grafana.example.com", "prometheus_host": "http://p.monitoring.svc:80"}}, "ray.observability.grafana_host", "grafana.example.com:443 is reachable from a closed network only by", {**CLOSED, "ray/observability": {}}, "warning"),
    Case("mirror_has_work", {"registries": {"mirror": True}, "helm/lock_file": "other.lock.yaml"}, "registries.mirror", "has no effect", {"registries": {"mirror": True}}, "warning", beside=("helm.lock_file",)),
    # --- image and operator
    Case("linked_folders_lie_apart", {LINKS: [DATA, {"bucket": "other", "path": "/data/x"}]}, "storage.data_repositories[1].path", "'/data/x' overlaps '/data'", {LINKS: [DATA, {"bucket": "other", "path": "/data-x"}]}),
    Case("events_are_named_once", {LINKS: [{**DATA, "auto_export": ["NEW", "NEW"]}]}, "storage.data_repositories[0].auto_export", "names an event twice", {LINKS: [{**DATA, "auto_export": ["NEW", "CHANGED"]}]}),
    Case("linked_file_systems_take_no_backups", {LINKS: [DATA], "storage/backup_retention_days": 7}, "storage.backup_retention_days", "7, and FSx takes no backups", {LINKS: [DATA]}),
    Case("tier_settings_have_effect", {TIER: {"memory_percent": 20, "bucket": "mine", "keep_days": 3}}, "hyperpod.tiered_storage.keep_days", "is of a new bucket, and tiered_storage.bucket names mine", {TIER: {"memory_percent": 20, "bucket": "mine"}}),
    Case("protected_keeps_checkpoints", {TIER: {"memory_percent": 20, "on_destroy": "delete"}, "protected": True, "storage/backup_retention_days": 7}, "hyperpod.tiered_storage.on_destroy", "in a protected environment", {TIER: {"memory_percent": 20}, "protected": True, "storage/backup_retention_days": 7}),
    Case("redis_is_given_once", {REDIS: {"driver_instance_group": "head", "redis_address": "rediss://redis:6379", "redis_username": "ray"}}, "ray.gcs_fault_tolerance.redis_username", "a user without redis_password_secret", {REDIS: {"driver_instance_group": "head", "redis_address": "rediss://redis:6379", "redis_username": "ray", "redis_password_secret": "auth"}}),
    Case("redis_is_given_once", {REDIS: {"driver_instance_group": "head", "redis_image": DIGEST, "redis_password_secret": "auth"}}, "ray.gcs_fault_tolerance.redis_password_secret", "is of an existing Redis", {REDIS: {"driver_instance_group": "head", "redis_image": DIGEST}}),
    Case("redis_is_given_once", {REDIS: {"driver_instance_group": "head", "redis_address": "redis:6379", "redis_password_secret": "auth"}}, "ray.gcs_fault_tolerance.redis_password_secret", "in plain text", {REDIS: {"driver_instance_group": "head", "redis_address": "rediss://redis:6379", "redis_password_secret": "auth"}}, "warning"),
    Case("addresses_fit", {"hyperpod/managed_autoscaling": True, "ray/autoscaling": True, f"{GROUPS}/2": BURST, "ray/workers/1": worker(name="burst", instance_group="burst", replicas=0, max_replicas=9), "network/node_subnet_prefix": 23}, "hyperpod.instance_groups[2].count", "9 × 81 of ml.p5.48xlarge by max_replicas", {"hyperpod/managed_autoscaling": True, "ray/autoscaling": True, f"{GROUPS}/2": BURST, "ray/workers/1": worker(name="burst", instance_group="burst", replicas=0, max_replicas=1), "network/node_subnet_prefix": 23}),
    Case("what_exists_keeps_its_settings", {"eks/log_group_exists": True, "eks/log_retention_days": 30}, "eks.log_retention_days", "is of a new log group", {"eks/log_group_exists": True}),
    Case("what_exists_keeps_its_settings", {"network/flow_log_group_exists": True, "network/flow_log_retention_days": 30}, "network.flow_log_retention_days", "is of a new log group, and flow_log_group_exists", {"network/flow_log_group_exists": True}),
    Case("what_exists_keeps_its_settings", {"hyperpod/event_log_group_exists": True, "hyperpod/event_retention_days": 30}, "hyperpod.event_retention_days", "is of a new log group, and event_log_group_exists", {"hyperpod/event_log_group_exists": True}),
    Case("what_exists_keeps_its_settings", {"image/repository_exists": True, "image/keep_images": 3}, "image.keep_images", "is of a new repository", {"image/repository_exists": True}),
    Case("version_is_the_images", {"ray/version": "2.59.0"}, "ray.version", "is not the Ray of image set 'cu130'. Expected 2.60.0", {"ray/version": "2.59.0", **OWN_IMAGE}),
    Case("version_is_the_images", {"ray/version": "2.61.0"}, "ray.version", "set 2.60.0, or change hyperpod_ray/image/versions.yaml", {"ray/version": "2.60.0"}),
    Case("version_is_the_images", {"ray/version": "2.59.0", "image/on_destroy": "delete"}, "ray.version", "is not the Ray of", {"ray/version": "2.59.0", "image/folder": "jobs"}),
    Case("image_serves_the_nodes", {f"{HEAD}/type": "ml.m7g.2xlarge", f"{HEAD}/threads_per_core": 1}, "ray.head.instance_group", "no image set for arm64 (ml.m7g.2xlarge). Expected x86_64 with nvidia, as image set 'cu130'", {f"{HEAD}/type": "ml.m7i.2xlarge"}, beside=("ray.workers[0].instance_group",)),
    Case("image_serves_the_nodes", {f"{WORKERS}/type": "ml.trn1.32xlarge"}, "ray.workers[0].instance_group", "no image set for x86_64 with neuron (ml.trn1.32xlarge)", {f"{WORKERS}/type": "ml.trn1.32xlarge", **OWN_IMAGE}),
    Case("image_serves_the_nodes", {f"{WORKERS}/type": "ml.p6e-gb200.36xlarge", "instance_types": {"ml.p6e-gb200.36xlarge": GB200}}, "instance_types['ml.p6e-gb200.36xlarge'].architecture", "has ARM processors. Expected arm64", {}, beside=("hyperpod.instance_groups[1].type", "hyperpod.instance_groups[1].count")),
    Case("operator_accepts_the_cluster", {"ray/head/env": {"RAY_enable_autoscaler_v2": "1"}}, "ray.head.env.RAY_enable_autoscaler_v2", "cannot be set to '1' when enableInTreeAutoscaling is false", {"ray/head/env": {"RAY_enable_autoscaler_v2": "0"}}),
    Case("operator_accepts_the_cluster", {"ray/env": {"RAY_enable_autoscaler_v2": "true"}, "ray/autoscaling": True}, "ray.env.RAY_enable_autoscaler_v2", "both .spec.autoscalerOptions.version and head Pod env var", {"ray/autoscaling": True}),
    Case("operator_accepts_the_cluster", {"ray/head/env": {"REDIS_USERNAME": "x"}}, "ray.head.env.REDIS_USERNAME", "use GcsFaultToleranceOptions.RedisUsername", {}),
    # --- pods
    Case("pods_fit_their_node", {TIER: {"memory_percent": 100}, f"{WORKER}/memory_gib": 8}, "ray.head.memory_gib", "has 0 after system pods", {TIER: {"memory_percent": 20}}, beside=("ray.workers[0].memory_gib",)),
    Case("pods_fit_their_node", {f"{WORKER}/gpus": 9}, "ray.workers[0].gpus", "asks for 9 accelerators, but a node of 'workers' (ml.p5.48xlarge) has 8", {f"{WORKER}/gpus": 8}),
    Case("pods_fit_their_node", {f"{WORKER}/efa": 33}, "ray.workers[0].efa", "asks for 33 EFA interfaces", {f"{WORKER}/efa": 32}),
    Case("pods_fit_their_node", {"ray/head/cpu": 8}, "ray.head.cpu", "asks for 8 vCPUs, but a node of 'head' (ml.m5.2xlarge) has 7", {"ray/head/cpu": 7}),
    Case("pods_fit_their_node", {"ray/head/memory_gib": 29}, "ray.head.memory_gib", "has 28 after system pods", {"ray/head/memory_gib": 28}),
    Case("pods_fit_their_node", {"ray/head/cpu": 4, f"{HEAD}/threads_per_core": 1}, "ray.head.cpu", "with threads_per_core 1; with 2 it has 7", {"ray/head/cpu": 3, f"{HEAD}/threads_per_core": 1}),
    Case("pods_fit_their_node", {f"{HEAD}/type": "ml.t3.medium", "ray/head": {"instance_group": "head", "cpu": 1, "memory_gib": 1}}, "ray.head.instance_group", "carries 5 pods, and the 5 daemon sets", {f"{HEAD}/type": "ml.t3.large", "ray/head": {"instance_group": "head", "cpu": 1, "memory_gib": 1}}, beside=("ray.head.memory_gib",)),
    Case("pods_fit_their_node", {"ray/head/cpu": 7, "ray/autoscaling": True}, "ray.head.cpu", "asks for 8 vCPUs", {"ray/head/cpu": 6, "ray/autoscaling": True}),
    Case("pods_fit_their_node", {"hyperpod/tiered_storage": {"memory_percent": 20}, f"{WORKER}/memory_gib": 1500}, "ray.workers[0].memory_gib", "has 1482", {"hyperpod/tiered_storage": {"memory_percent": 20}, f"{WORKER}/memory_gib": 1482}),
    Case("replicas_fit_the_group", {f"{WORKER}/replicas": 5}, "ray.workers[0].replicas", "need 5 nodes, 'workers' has 4 × ml.p5.48xlarge", {f"{WORKER}/replicas": 4}),
    Case("replicas_fit_the_group", {f"{WORKER}/replicas": 9, f"{WORKER}/gpus": 4}, "ray.workers[0].replicas", "9 × worker of 'gpu' (4 accelerators, 16 EFA", {f"{WORKER}/replicas": 8, f"{WORKER}/gpus": 4}),
    Case("replicas_fit_the_group", {"ray/workers/1": worker()}, "ray.workers[1].replicas", "together 'gpu' and 'more' ask for 40 accelerators", {f"{WORKER}/replicas": 3, "ray/workers/1": worker()}),
    Case("replicas_fit_the_group", {f"{WORKER}/replicas": 2, f"{WORKER}/gpus": 5, f"{WORKERS}/count": 2, "ray/workers/1": worker(replicas=2, gpus=3), "ray/workers/2": worker(name="third", gpus=0, efa=0, cpu=30, memory_gib=1)}, "ray.workers[2].replicas", "ask for 216 vCPUs", {f"{WORKER}/replicas": 2, f"{WORKER}/gpus": 5, f"{WORKERS}/count": 2, "ray/workers/1": worker(replicas=2, gpus=3)}, beside=("ray.workers[2].gpus",)),
    Case("replicas_fit_the_group", {f"{WORKER}/replicas": 2, f"{WORKER}/gpus": 6, f"{WORKERS}/count": 2, f"{WORKER}/cpu": 10, f"{WORKER}/memory_gib": 10, "ray/workers/1": worker(gpus=4, cpu=10, memory_gib=10, efa=4)}, "ray.workers[1].replicas", "node by node it does not", {f"{WORKER}/replicas": 2, f"{WORKER}/gpus": 6, f"{WORKERS}/count": 2, f"{WORKER}/cpu": 10, f"{WORKER}/memory_gib": 10, "ray/workers/1": worker(gpus=2, cpu=10, memory_gib=10, efa=4)}, "warning"),
    Case("max_replicas_are_reachable", {f"{WORKER}/max_replicas": 5, "ray/autoscaling": True}, "ray.workers[0].max_replicas", "need 5 nodes", {f"{WORKER}/max_replicas": 5, "ray/autoscaling": True, "hyperpod/managed_autoscaling": True, f"{GROUPS}/2": BURST}),
    Case("efa_goes_to_its_pods", {f"{WORKER}/gpus": 0}, "ray.workers[0].gpus", "stand idle", {f"{WORKER}/gpus": 1}, "warning"),
    Case("efa_goes_to_its_pods", {f"{WORKER}/efa": 0}, "ray.workers[0].efa", "many times slower", {f"{WORKER}/efa": 1}, "warning"),
    Case("shared_memory_fits", {f"{WORKER}/memory_gib": 100, f"{WORKER}/shared_memory_gib": 100}, "ray.workers[0].shared_memory_gib", "Fix: set 25, a quarter", {f"{WORKER}/memory_gib": 100, f"{WORKER}/shared_memory_gib": 99}),
    # --- what a stranger's files found
    Case("bucket_names_are_valid", {"ray/access": {"s3": [{"bucket": "10.0.0.1"}]}}, "ray.access.s3[0].bucket", "IP address", {"ray/access": {"s3": [{"bucket": "10.0.0.a"}]}}),
    Case("bucket_names_are_valid", {"ray/access": {"s3": [{"bucket": "xn--a"}]}}, "ray.access.s3[0].bucket", "a name without a reserved", {"ray/access": {"s3": [{"bucket": "xn-a"}]}}),
    Case("bucket_names_are_valid", {"ray/access": {"s3": [{"bucket": "a-s3alias"}]}}, "ray.access.s3[0].bucket", "a name without a reserved", {"ray/access": {"s3": [{"bucket": "a-s3alia"}]}}),
    Case("bucket_names_are_valid", {LINKS: [{"bucket": "a..b", "path": "/d"}]}, "storage.data_repositories[0].bucket", "Expected single dots", {LINKS: [{"bucket": "a.b", "path": "/d"}]}),
    Case("public_endpoint_is_limited", {"eks/endpoint": {"public": True, "public_cidrs": ["100.64.0.0/10"]}}, "eks.endpoint.public_cidrs[0]", "RFC 6598", {"eks/endpoint": PUBLIC}),
    Case("public_endpoint_is_limited", {"eks/endpoint": {"public": True, "public_cidrs": ["224.0.0.0/8"]}}, "eks.endpoint.public_cidrs[0]", "is multicast", {"eks/endpoint": PUBLIC}),
    Case("public_endpoint_is_limited", {"eks/endpoint": {"public": True, "public_cidrs": ["20.0.0.0/8", "40.0.0.0/8"]}}, "eks.endpoint.public_cidrs", "a large part of the internet", {"eks/endpoint": {"public": True, "public_cidrs": ["20.0.0.0/8", "40.0.0.0/9"]}}),
    Case("roles_are_plausible", {"eks/admin_role_arns": [ROLE.replace("role/", "role/aws-service-role/eks.amazonaws.com/")]}, "eks.admin_role_arns[0]", "service-linked role", {"eks/admin_role_arns": [ROLE.replace("role/", "role/a/b/")]}),
    Case("roles_are_plausible", {"eks/existing": {**CLUSTER, "kubectl_role_arn": ROLE.replace("1234", "4321")}, **EXISTING}, "eks.existing.kubectl_role_arn", "Lambda uses roles of its own account only", {"eks/existing": CLUSTER, **EXISTING}),
    Case("training_plans_sell_the_types", {f"{WORKERS}/training_plan_arn": PLAN_ARN, f"{WORKERS}/type": "ml.g5.48xlarge"}, "hyperpod.instance_groups[1].training_plan_arn", "training plans do not exist for ml.g5.48xlarge", {f"{WORKERS}/training_plan_arn": PLAN_ARN}),
    Case("training_plans_sell_the_types", {f"{WORKERS}/training_plan_arn": PLAN_ARN, f"{GROUPS}/2": {"name": "more", "type": "ml.p4d.24xlarge", "count": 0, "training_plan_arn": PLAN_ARN}}, "hyperpod.instance_groups[2].training_plan_arn", "is used for ml.p5.48xlarge and for ml.p4d.24xlarge", {f"{WORKERS}/training_plan_arn": PLAN_ARN, f"{GROUPS}/2": {"name": "more", "type": "ml.p5.48xlarge", "count": 0, "training_plan_arn": PLAN_ARN}}),
    Case("plan_and_key_are_ours", {f"{WORKERS}/training_plan_arn": PLAN_ARN.replace("aws", "aws-us-gov", 1)}, "hyperpod.instance_groups[1].training_plan_arn", "is in partition aws-us-gov", {f"{WORKERS}/training_plan_arn": PLAN_ARN}),
    Case("plan_and_key_are_ours", {f"{WORKERS}/volume_kms_key_arn": KEY_ARN.replace("aws", "aws-cn", 1)}, "hyperpod.instance_groups[1].volume_kms_key_arn", "is in partition aws-cn", {f"{WORKERS}/volume_kms_key_arn": KEY_ARN}),
    Case("keys_of_others_are_granted", {f"{WORKERS}/volume_kms_key_arn": KEY_ARN.replace("123456789012", "210987654321")}, "hyperpod.instance_groups[1].volume_kms_key_arn", "use the key and create grants", {f"{WORKERS}/volume_kms_key_arn": KEY_ARN}, "warning"),
    Case("keys_are_regional", {"ray/access": {"s3": [{"bucket": "sets"}], "kms_key_arns": [KEY_ARN.replace("aws", "aws-cn", 1)]}}, "ray.access.kms_key_arns[0]", "in partition aws-cn", {"ray/access": {"s3": [{"bucket": "sets"}], "kms_key_arns": [KEY_ARN]}}),
    Case("ultraservers_are_whole", {f"{WORKERS}/type": "ml.p6e-gb200.36xlarge", f"{WORKERS}/count": 10, f"{WORKER}/replicas": 10, "instance_types": {"ml.p6e-gb200.36xlarge": {**GB200, "architecture": "arm64"}}, **OWN_IMAGE, f"{HEAD}/type": "ml.m7g.4xlarge", f"{HEAD}/threads_per_core": 1}, "hyperpod.instance_groups[1].count", "whole UltraServers of 9 or 18", {f"{WORKERS}/type": "ml.p6e-gb200.36xlarge", f"{WORKERS}/count": 18, f"{WORKER}/replicas": 18, "instance_types": {"ml.p6e-gb200.36xlarge": {**GB200, "architecture": "arm64"}}, **OWN_IMAGE, f"{HEAD}/type": "ml.m7g.4xlarge", f"{HEAD}/threads_per_core": 1}, "warning", beside=("hyperpod.instance_groups[1].type",)),
    Case("volumes_hold_an_image", {f"{WORKERS}/data_volume_gib": 49}, "hyperpod.instance_groups[1].data_volume_gib", "cannot store a training image", {f"{WORKERS}/data_volume_gib": 50}, "warning"),
    Case("schedule_is_cron", {f"{WORKERS}/update_schedule": {"cron": "cron(0 6 30 2 ? *)"}}, "hyperpod.instance_groups[1].update_schedule.cron", "never fires: no month of '2' has 30 days", {f"{WORKERS}/update_schedule": {"cron": "cron(0 6 29 2 ? *)"}}),
    Case("schedule_is_cron", {f"{WORKERS}/update_schedule": {"cron": "cron(0 6 ? * SUN 2025)"}}, "hyperpod.instance_groups[1].update_schedule.cron", "the year 2025 is over", {f"{WORKERS}/update_schedule": {"cron": "cron(0 6 ? * SUN 2026)"}}),
    Case("batches_fit", {f"{WORKERS}/update_schedule": {**SCHEDULE, "rolling": {"maximum_batch": 4}}}, "hyperpod.instance_groups[1].update_schedule.rolling.maximum_batch", "takes all 4 nodes at once", {f"{WORKERS}/update_schedule": {**SCHEDULE, "rolling": {"maximum_batch": 3}}}, "warning"),
    Case("batches_fit", {f"{WORKERS}/update_schedule": {**SCHEDULE, "rolling": {"maximum_batch": 100, "batch_unit": "CAPACITY_PERCENTAGE"}}}, "hyperpod.instance_groups[1].update_schedule.rolling.maximum_batch", "100 percent takes all 4 nodes", {f"{WORKERS}/update_schedule": {**SCHEDULE, "rolling": {"maximum_batch": 99, "batch_unit": "CAPACITY_PERCENTAGE"}}}, "warning"),
    Case("specs_are_those_of_the_catalogue", {"instance_types": {"ml.p5.48xlarge": {**P5, "memory_gib": 1024}}}, "instance_types['ml.p5.48xlarge'].memory_gib", "and ml.p5.48xlarge has 2048", {"instance_types": {"ml.p5.48xlarge": P5}}, "warning"),
    Case("capacity_is_within_the_default_quota", {"storage/capacity_gib": 103200}, "storage.capacity_gib", "the default quota", {"storage/capacity_gib": 100800}, "warning"),
    Case("existing_file_system_has_its_network", {"storage": {"existing": FILE_SYSTEM}}, "storage.existing.file_system_id", "name its VPC in network.existing", {"storage": {"existing": FILE_SYSTEM}, **EXISTING}, "warning"),
    Case("linked_folders_lie_apart", {LINKS: [{"bucket": "a-b", "path": "/d"}, {"bucket": "a-b", "prefix": "c/", "path": "/e"}]}, "storage.data_repositories[1].prefix", "an object in two folders changes in both", {LINKS: [{"bucket": "a-b", "prefix": "b/", "path": "/d"}, {"bucket": "a-b", "prefix": "c/", "path": "/e"}]}, "warning"),
    Case("linked_folders_lie_apart", {LINKS: [{"bucket": "a-b", "path": "/d/../e"}]}, "storage.data_repositories[0].path", "does not resolve", {LINKS: [{"bucket": "a-b", "path": "/d/..e"}]}),
    Case("linked_folders_lie_apart", {LINKS: [{"bucket": "a-b", "prefix": "a//b/", "path": "/d"}]}, "storage.data_repositories[0].prefix", "Fix: remove one slash", {LINKS: [{"bucket": "a-b", "prefix": "a/b/", "path": "/d"}]}, "warning"),
    Case("replicas_have_effect", {f"{WORKER}/min_replicas": 1}, "ray.workers[0].min_replicas", "has no effect without ray.autoscaling", {f"{WORKER}/min_replicas": 4}, "warning"),
    Case("redis_is_given_once", {REDIS: {"driver_instance_group": "head", "redis_address": "localhost:6379"}}, "ray.gcs_fault_tolerance.redis_address", "is the head's own pod", {REDIS: {"driver_instance_group": "head", "redis_address": "localhost.example.com:6379"}}),
    Case("head_is_large_enough", {"ray/head/memory_gib": 3}, "ray.head.memory_gib", "too little for Ray's head", {"ray/head/memory_gib": 4}, "warning"),
    Case("efa_goes_to_its_pods", {f"{WORKER}/gpus": 3, f"{WORKER}/replicas": 8}, "ray.workers[0].gpus", "2 of each node stand idle", {f"{WORKER}/gpus": 4, f"{WORKER}/replicas": 8}, "warning"),
    Case("folder_exists", {"image/folder": "nowhere"}, "image.folder", "is no folder of the project", {"image/folder": "image"}),
    Case("folder_exists", {"image/folder": "docs"}, "image.folder", "has no Dockerfile", {"image/folder": "image"}),
    Case("set_is_known", {"image/set": "cu130-transformer"}, "image.set", "did you mean 'cu130-transformers'?", {"image/set": "cu130-transformers"}),
    Case("own_packages_are_locked", {"image/requirements": "nowhere.in"}, "image.requirements", "is no file of the project", {"image/set": "cu130"}),
    Case("one_index_is_named", {"image/index": {}}, "image.index", "no address", {"image/index": {"url": "https://packages.example.com/simple"}}),
    Case("a_build_in_a_closed_network_reaches_its_sources", {**CLOSED, "image/in_vpc": True, "image/base": OTHER_REGION, "image/index": CODEARTIFACT}, "image.base", "the build has no way to", {**CLOSED, "image/in_vpc": True, "image/base": OTHER_REGION.replace("eu-west-1", "us-west-2"), "image/index": CODEARTIFACT}),
    Case("wheels_are_what_the_locks_name", {"image/wheels": "nowhere"}, "image.wheels", "is no folder of the project", {"image/wheels": "hyperpod_ray/image/wheels"}),
    Case("registries_are_of_the_partition", {"image/uri": OTHER_REGION.replace("eu-west-1.amazonaws.com", "us-west-2.amazonaws.com.cn")}, "image.uri", "is no registry of aws", {"image/uri": OTHER_REGION}),
    Case("charts_are_locked", {"helm/kuberay_operator": "1.7.1"}, "helm.kuberay_operator", "locks kuberay-operator 1.7.0", {"helm/kuberay_operator": "1.7.0"}),
    Case("charts_are_locked", {"helm/lock_file": "chart.lock.yaml"}, "helm.lock_file", "is no file of the project. Expected a lock file of charts. Fix: did you mean 'charts.lock.yaml'?", {"helm/lock_file": "charts.lock.yaml"}),
    Case("labels_are_valid", {f"{WORKERS}/labels": {"team": ""}}, "hyperpod.instance_groups[1].labels.team", "is empty, and HyperPod does not accept empty label values", {f"{WORKERS}/labels": {"team": "a"}}),
    Case("tags_are_valid", {"tags": {"a": "b\nc"}}, "tags.a", "a character that tags cannot have", {"tags": {"a": "b c"}}),
]  # fmt: skip


@functools.cache
def whole(index: int) -> Environment:
    """The settings that trip a case, valid by themselves."""
    return Environment.model_validate(changed(CASES[index].trips), strict=True)


OF_FILES = [
    rule for rule in RULES if rule.needs != "account" and rule.stage == "load" and rule.orchestrator in ("", "eks")
]
"""Rules of the account have accounts as cases (`tests/core/account`), those of a deployment are in test_records.py, and
those of Slurm in test_slurm_files.py."""
RULE: dict[str, Callable[[Plan], Any]] = {
    rule.check.__name__: functools.partial(rule, evidence=Evidence(repository=Repository.around("test")))
    for rule in OF_FILES
}


def test_the_good_environment_has_no_problem() -> None:
    found, said = judged(text_of({}))
    assert found is not None
    assert said == []


def test_every_rule_has_a_case() -> None:
    # tests/environments/test_broken.py; tests of files of other versions
    elsewhere = {"names_differ_from_siblings", "the_file_is_not_newer"}
    assert sorted(RULE) == sorted({case.rule for case in CASES} | elsewhere)
    assert len(RULE) == len(OF_FILES)


def said_by_cases() -> Iterator[str]:
    """What each case's rule says, for `messages.txt`."""
    for case in CASES:
        for problem in problems(case.trips):
            if problem.path == case.path and case.says in problem.message:
                yield line_of(case.rule, problem.severity, problem.path, problem.message)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.says[:30]}")
def test_rule(case: Case) -> None:
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


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.says[:30]}")
def test_the_named_rule_says_it(case: Case) -> None:
    """... and not another one that happens to look at the same setting."""
    settings = whole(CASES.index(case))
    assert any(case.says in finding.message for finding in RULE[case.rule](Plan(name="test", settings=settings)))


@pytest.mark.parametrize("rule", OF_FILES, ids=lambda rule: rule.check.__name__)
def test_rules_read_what_they_declare(rule: Any) -> None:
    """A rule runs while other sections are broken, so it must not look at them: here they are not there at all."""
    sections = rule.reads("eks")
    # a case differs from the others for this rule by what it changes in these sections alone
    differing = {
        repr(sorted((path, value) for path, value in case.trips.items() if path.partition("/")[0] in sections)): index
        for index, case in enumerate(CASES)
    }
    for index in differing.values():
        part = Environment.model_construct(**{name: getattr(whole(index), name) for name in sections})
        list(rule(Plan(name="test", settings=part), evidence=Evidence(repository=Repository.around("test"))))


def test_groups_without_standing_pods_are_patched() -> None:
    idle = {f"{GROUPS}/2": {**CPU_GROUP, "auto_patch": "WhenIdle"}}
    assert [one.path for one in problems(idle) if "auto_patch" in one.path] == []


def test_a_broken_section_hides_nothing_of_the_others() -> None:
    said = problems({"storage/capacity_gib": "many", "network/cidr": "10.0.0.0/99", f"{HEAD}/count": 1})
    assert [problem.path for problem in said] == [
        "network.cidr",
        "hyperpod.instance_groups[0].count",
        "storage.capacity_gib",
    ]


def test_a_section_with_a_flaw_is_not_cross_checked() -> None:
    assert [problem.path for problem in problems({"hyperpod/node_recovery": "Sometimes", f"{WORKERS}/count": 1})] == [
        "hyperpod.node_recovery"
    ]


def test_run_needs_all_sections() -> None:
    settings = Environment.model_validate(changed({f"{WORKER}/instance_group": "nobody"}), strict=True)
    plan = Plan(name="test", settings=settings)
    assert checks.run(plan, valid=frozenset({"network", "region"})) == []
    assert len(checks.run(plan, valid=frozenset(Environment.model_fields))) == 1


def test_every_pattern_of_the_model_has_words() -> None:
    def patterns(value: Any) -> set[str]:
        if isinstance(value, dict):
            own = {value["pattern"]} if isinstance(value.get("pattern"), str) else set()
            keyed = set(value.get("patternProperties", {}))
            return own.union(keyed, *(patterns(child) for child in value.values()))
        return set().union(*(patterns(child) for child in value)) if isinstance(value, list) else set()

    schema = json.loads(json.dumps(Environment.model_json_schema()))
    assert patterns(schema) - set(shapes.BY_PATTERN) == set()


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({**EXISTING, "network/egress": "closed"}, "network.egress"),
        ({"eks/existing": CLUSTER, **EXISTING, "eks/log_retention_days": 30}, "eks.log_retention_days"),
        ({"eks/existing": CLUSTER, **EXISTING, "eks/endpoint": PUBLIC}, "eks.endpoint"),
        ({"storage": {"existing": FILE_SYSTEM, "capacity_gib": 2400}}, "storage.capacity_gib"),
        ({"storage": {"existing": FILE_SYSTEM, "mode": "static"}}, "storage.mode"),
        ({"storage": {"existing": FILE_SYSTEM, "on_destroy": "delete"}}, "storage.on_destroy"),
        ({"image": {"uri": DIGEST, "folder": "image"}}, "image.folder"),
    ],
)
def test_what_is_new_cannot_stand_beside_what_exists(changes: dict[str, Any], path: str) -> None:
    said = problems(changes)
    assert [problem.path for problem in said] == [path]
    mark = "uri" if path.startswith("image") else "existing"
    assert said[0].message == f"cannot be used with '{mark}'. Expected one of the two. Fix: remove one"


def test_a_mode_that_does_not_exist() -> None:
    (said,) = problems({"storage": {"mode": "existing"}})
    assert (said.path, said.message) == (
        "storage.mode",
        "'existing'. Expected one of static, dynamic. Fix: choose one of them",
    )


def test_every_shape_has_an_example_of_its_own_form() -> None:
    for shape in shapes.BY_PATTERN.values():
        assert re.fullmatch(shape.pattern, shape.example), shape


def test_removing_a_required_key_is_said_once() -> None:
    said = problems({f"{WORKER}/replicas": GONE})
    assert [problem.path for problem in said] == ["ray.workers[0].replicas"]
    assert "required setting is missing. Expected replicas: number of pods" in said[0].message


def test_a_misspelled_required_key_is_said_once() -> None:
    _, said = judged(text_of({}).replace("region:", "xregion:", 1))
    assert [(problem.path, problem.fix) for problem in said] == [("xregion", "did you mean 'region'?")]


REFUSED_ZONE = "EKS takes no control-plane subnet"
EAST_SUBNETS = ["subnet-0123456789abcdef2", "subnet-0123456789abcdef3"]
"""Those of `SUBNETS`."""
EAST_ZONES = ["use1-az1", "use1-az2", "use1-az3"]


def refused_zones(edits: dict[str, Any]) -> list[str]:
    return [one.path for one in problems({**EAST, **edits}) if REFUSED_ZONE in one.message]


def test_nodes_may_be_in_a_zone_that_eks_refuses() -> None:
    """The first zones have the control plane's subnets, one each; only those are judged."""
    assert refused_zones({"network/availability_zone_ids": EAST_ZONES}) == []
    three = [*EAST_SUBNETS, "subnet-0123456789abcdef4"]
    edits = {"network/availability_zone_ids": EAST_ZONES, "network/existing/control_plane_subnet_ids": three}
    assert refused_zones(edits) == ["network.availability_zone_ids[2]"]


def test_a_cluster_that_exists_has_its_subnets() -> None:
    zones = {"network/availability_zone_ids": ["use1-az1", "use1-az3"]}
    issuer = "https://oidc.eks.us-east-1.amazonaws.com/id/ABC"
    assert refused_zones(zones) == ["network.availability_zone_ids[1]"]
    assert refused_zones({**zones, "eks/existing": {**CLUSTER, "oidc_issuer_url": issuer}}) == []
