"""Accounts that look wrong at first sight and are right, and their neighbours that are not."""

from __future__ import annotations

import pytest

from tests.core.account.good import ACCOUNT, EXISTING, NEW, REGION, TAG
from tests.core.account.right_helpers import Json, Right, assert_says

pytestmark = pytest.mark.usefixtures("day")
# ruff: noqa: E501  (a case on one line)

ARN = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:cluster/abc"
ON_SHARED = {"Orchestrator": {"Eks": {"ClusterArn": f"arn:aws:eks:{REGION}:{ACCOUNT}:cluster/shared"}}}
MINE = {"status": "CREATE_COMPLETE", "tags": TAG}
STACKS = {f"test-{name}": MINE for name in ("Network", "Eks", "Storage", "Image", "HyperPod", "Platform", "Ray")}
EXPORT = "test-Network:ExportsOutputRefVpc8378EB38272D6E3A"
BUDGET: Json = {**NEW, "budget": {"usd_per_month": 1000}}
ARM, INTEL = ({"platform": {"architecture": one, "os": "linux"}} for one in ("arm64", "amd64"))


def routes(*more: Json) -> Json:
    local = {"DestinationCidrBlock": "10.0.0.0/16", "GatewayId": "local", "State": "active"}
    return {"route_tables > 0 > Routes": [local, *more]}


TEAMS: Json = {
    "teams": [
        {"name": "vision", "quota": [{"type": "ml.p5.48xlarge", "instances": 2}, {"type": "ml.m5.2xlarge", "vcpus": 4}]}
    ],
    "ray/workers/0/replicas": 0,
}
HEAD_VOLUME: Json = {"ray/gcs_fault_tolerance": {"driver_instance_group": "head", "volume_gib": 8}}
ADDON, POLICY, QUOTA = (
    "amazon-sagemaker-hyperpod-taskgovernance",
    "arn:aws:sagemaker:us-west-2:1:cluster-scheduler-config/abcdefabcdef",
    "arn:aws:sagemaker:us-west-2:1:compute-quota/abcdefabcdef",
)
THERE: Json = {"hyperpod > test": {"ClusterName": "test", "ClusterArn": ARN, "ClusterStatus": "InService"}}


CASES: list[Right] = [
    ("its own HyperPod cluster", "orchestrated cluster", EXISTING, {"hyperpod > test": {"ClusterArn": ARN, "ClusterStatus": "InService", **ON_SHARED}}, "fine"),
    ("its own add-on", "add-ons that are created", EXISTING, {"addons > aws-fsx-csi-driver": "v1", "stacks > test-Platform": {**MINE, "resources": ["shared|aws-fsx-csi-driver"]}}, "fine"),
    ("an add-on of others", "add-ons that are created", EXISTING, {"addons > aws-fsx-csi-driver": "v1", "stacks > their-Platform": {**MINE, "resources": ["shared|aws-fsx-csi-driver"]}}, "error"),
    ("an EBS driver of others, and no volume of a head", "add-ons that are created", EXISTING, {"addons > aws-ebs-csi-driver": "v1"}, "fine"),
    ("an EBS driver of others", "add-ons that are created", {**EXISTING, **HEAD_VOLUME}, {"addons > aws-ebs-csi-driver": "v1"}, "error"),
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


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_a_rule_says(case: Right) -> None:
    assert_says(case)
