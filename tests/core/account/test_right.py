"""Accounts that look wrong at first sight and are right, and their neighbours that are not."""

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray.core.checks import account_rules
from hyperpod_ray.core.evidence import Evidence
from hyperpod_ray.core.today import VARIABLE
from tests.core.account.good import ACCOUNT, EXISTING, NEW, NODES_1, NODES_2, REGION, TAG, VPC, account
from tests.core.account.recorded import RecordedAccount
from tests.core.environment_files import plan

# ruff: noqa: E501  (a case on one line)

Json = dict[str, Any]
RULE = {rule.title: rule for rule in account_rules()}
ARN = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:cluster/abc"
ON_SHARED = {"Orchestrator": {"Eks": {"ClusterArn": f"arn:aws:eks:{REGION}:{ACCOUNT}:cluster/shared"}}}
MINE = {"status": "CREATE_COMPLETE", "tags": TAG}
STACKS = {f"test-{name}": MINE for name in ("Network", "Eks", "Storage", "Image", "HyperPod", "Platform", "Ray")}
EXPORT = "test-Network:ExportsOutputRefVpc8378EB38272D6E3A"
BUDGET: Json = {**NEW, "budget": {"usd_per_month": 1000}}
ARM, INTEL = ({"platform": {"architecture": one, "os": "linux"}} for one in ("arm64", "amd64"))


def entries(*rules: tuple[int, str]) -> Json:
    made = [
        {"RuleNumber": number, "Egress": out, "RuleAction": action, "Protocol": "-1", "CidrBlock": "0.0.0.0/0"}
        for out in (True, False)
        for number, action in rules
    ]
    link = [{"SubnetId": NODES_1}, {"SubnetId": NODES_2}]
    return {"network_acls": [{"NetworkAclId": "acl-1", "VpcId": VPC, "Associations": link, "Entries": made}]}


def admits(**rule: Any) -> Json:
    return {"security_groups > sg-0fedcba9876543210": [{"IpProtocol": "tcp", "FromPort": 0, "ToPort": 65535, **rule}]}


def routes(*more: Json) -> Json:
    local = {"DestinationCidrBlock": "10.0.0.0/16", "GatewayId": "local", "State": "active"}
    return {"route_tables > 0 > Routes": [local, *more]}


TEAMS: Json = {
    "teams": [
        {"name": "vision", "quota": [{"type": "ml.p5.48xlarge", "instances": 2}, {"type": "ml.m5.2xlarge", "vcpus": 4}]}
    ],
    "ray/workers/0/replicas": 0,
}
ADDON, POLICY, QUOTA = (
    "amazon-sagemaker-hyperpod-taskgovernance",
    "arn:aws:sagemaker:us-west-2:1:cluster-scheduler-config/abcdefabcdef",
    "arn:aws:sagemaker:us-west-2:1:compute-quota/abcdefabcdef",
)
THERE: Json = {"hyperpod > test": {"ClusterName": "test", "ClusterArn": ARN, "ClusterStatus": "InService"}}


CASES: list[tuple[str, str, Json, Json, str]] = [
    ("its own HyperPod cluster", "orchestrated cluster", EXISTING, {"hyperpod > test": {"ClusterArn": ARN, "ClusterStatus": "InService", **ON_SHARED}}, "fine"),
    ("its own add-on", "add-ons that are created", EXISTING, {"addons > aws-fsx-csi-driver": "v1", "stacks > test-Platform": {**MINE, "resources": ["shared|aws-fsx-csi-driver"]}}, "fine"),
    ("an add-on of others", "add-ons that are created", EXISTING, {"addons > aws-fsx-csi-driver": "v1", "stacks > their-Platform": {**MINE, "resources": ["shared|aws-fsx-csi-driver"]}}, "error"),
    ("task governance of others, and no teams", "add-ons that are created", EXISTING, {f"addons > {ADDON}": "v1"}, "fine"),
    ("its own task governance", "add-ons that are created", {**EXISTING, **TEAMS}, {f"addons > {ADDON}": "v1", "stacks > test-Platform": {**MINE, "resources": [f"shared|{ADDON}"]}}, "fine"),
    ("its own policy and quota", "task governance", {**NEW, **TEAMS}, {**THERE, "policies": {POLICY: "test-policy"}, "team_quotas": {QUOTA: "vision"}, "stacks > test-Platform": {**MINE, "resources": [POLICY, QUOTA]}}, "fine"),
    ("a quota of another team", "task governance", {**NEW, **TEAMS}, {**THERE, "team_quotas": {QUOTA: "speech"}}, "fine"),
    ("a quota of the team by hand", "task governance", {**NEW, **TEAMS}, {**THERE, "team_quotas": {QUOTA: "vision"}}, "error"),
    ("a cluster that is not there yet", "task governance", {**NEW, **TEAMS}, {"team_quotas": {QUOTA: "vision"}}, "fine"),
    ("no teams", "task governance", NEW, {**THERE, "team_quotas": {QUOTA: "vision"}}, "skipped"),
    ("its own exports", "export names", NEW, {"exports": {EXPORT: "test-Network"}}, "fine"),
    ("exports of other names", "export names", NEW, {"exports": {"vpc": "theirs", "theirs:Vpc": "theirs"}}, "fine"),
    ("few roles left, and deployed", "IAM quotas", NEW, {"summary": {"Roles": 999, "RolesQuota": 1000}, "stacks": STACKS}, "fine"),
    ("few roles left, half deployed", "IAM quotas", NEW, {"summary": {"Roles": 999, "RolesQuota": 1000}, "stacks > test-Eks": MINE}, "error"),
    ("just enough roles", "IAM quotas", NEW, {"summary": {"Roles": 970, "RolesQuota": 1000}}, "fine"),
    ("its own stacks fill the quota", "stack quota", NEW, {"quotas > cloudformation": {"Stack count": 7}, "stacks": STACKS}, "fine"),
    ("one stack of others too many", "stack quota", NEW, {"quotas > cloudformation": {"Stack count": 7}, "more_stacks": 1}, "error"),
    ("an image of both processors", "image's processor", EXISTING, {"manifests": {"team/ray": {"manifests": [ARM, INTEL]}}}, "fine"),
    ("an image of one platform", "image's processor", EXISTING, {"manifests": {"team/ray": {"layers": []}}}, "skipped"),
    ("allowed before it is denied", "network ACLs", EXISTING, entries((32767, "deny"), (100, "allow")), "fine"),
    ("denied before it is allowed", "network ACLs", EXISTING, entries((100, "allow"), (50, "deny")), "warning"),
    ("a group that is admitted", "file system's use", EXISTING, admits(UserIdGroupPairs=[{"GroupId": "sg-1"}]), "fine"),
    ("every protocol", "file system's use", EXISTING, {"security_groups > sg-0fedcba9876543210": [{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "10.0.0.0/8"}]}]}, "fine"),
    ("one subnet of two", "file system's use", EXISTING, admits(IpRanges=[{"CidrIp": "10.0.0.0/20"}]), "warning"),
    ("another port", "file system's use", EXISTING, {"security_groups > sg-0fedcba9876543210": [{"IpProtocol": "tcp", "FromPort": 2049, "ToPort": 2049, "IpRanges": [{"CidrIp": "10.0.0.0/8"}]}]}, "warning"),
    ("a gateway endpoint is no way out", "routes", EXISTING, routes({"DestinationPrefixListId": "pl-1", "GatewayId": "vpce-1", "State": "active"}), "error"),
    ("a transit gateway may be one", "routes", EXISTING, routes({"DestinationCidrBlock": "10.0.0.0/8", "TransitGatewayId": "tgw-1", "State": "active"}), "warning"),
    ("a plan that lasts", "training plans", EXISTING, {}, "fine"),
    ("no budget", "cost allocation tag", NEW, {"cost_tags": {}}, "skipped"),
    ("a budget whose tag is active", "cost allocation tag", BUDGET, {"cost_tags": {"hyperpod-ray:environment": "Active"}}, "fine"),
    ("a budget whose tag is inactive", "cost allocation tag", BUDGET, {"cost_tags": {"hyperpod-ray:environment": "Inactive"}}, "warning"),
    ("a budget whose tag was never used", "cost allocation tag", BUDGET, {"cost_tags": {}}, "warning"),
    ("another tag is active", "cost allocation tag", BUDGET, {"cost_tags": {"team": "Active"}}, "warning"),
    ("the payer's tags are not ours to see", "cost allocation tag", BUDGET, {"errors": {"ce.list_cost_allocation_tags": "AccessDeniedException"}}, "unknown"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "2026-11-22")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_a_rule_says(case: tuple[str, str, Json, Json, str]) -> None:
    _, title, file, edits, severity = case
    found = list(RULE[title](plan(file), Evidence(account=RecordedAccount(account(edits)))))
    worst = [one for one in ("error", "warning", "unknown", "fine", "skipped") if any(f.severity == one for f in found)]
    assert worst[0] == severity, [one.message for one in found]
