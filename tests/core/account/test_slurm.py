"""Accounts in which an environment on Slurm can and cannot be deployed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from hyperpod_ray.core import names
from hyperpod_ray.core.checks import account_rules
from hyperpod_ray.core.evidence import Evidence
from hyperpod_ray.core.findings import Finding
from hyperpod_ray.core.slurm_model import SlurmEnvironment
from hyperpod_ray.core.slurm_plan import SlurmPlan
from hyperpod_ray.core.today import VARIABLE
from tests.core.account.good import (
    ACCOUNT,
    DIGEST,
    FILE_SYSTEM,
    GONE,
    KEY,
    NODES_1,
    NODES_2,
    OPEN_ZFS,
    REGION,
    VPC,
    account,
)
from tests.core.account.good import EXISTING as EKS
from tests.core.account.recorded import RecordedAccount
from tests.core.environment_files import SLURM, changed
from tests.core.three_parts import assert_form

# ruff: noqa: E501  (a case on one line)

Json = dict[str, Any]
GROUPS = "hyperpod/instance_groups"
SECRET = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:slurm-AbCdEf"
NEW: Json = {
    "account": ACCOUNT,
    f"{GROUPS}/0/type": "ml.m5.2xlarge",
    "network/availability_zone_ids": ["usw2-az1", "usw2-az2"],
}
"""Edits of the example: everything is created."""
EXISTING: Json = {
    **NEW,
    "network/existing": {k: v for k, v in EKS["network/existing"].items() if k != "control_plane_subnet_ids"},
    "storage": EKS["storage"],
    "image": {"uri": EKS["image/uri"]},
    "hyperpod/accounting_database": {"endpoint": "db.example.com", "secret_arn": SECRET},
    f"{GROUPS}/2/volume_kms_key_arn": KEY,
}
"""Likewise: everything that can be named is."""
KEYED: Json = {
    **{key: value for key, value in EXISTING.items() if "volume" not in key},
    "hyperpod/accounting_database": {"endpoint": "db.example.com", "secret_arn": SECRET, "kms_key_arn": KEY},
}
THERE: Json = {"secrets": {SECRET: {"Name": "slurm"}}}
BUILT: Json = {**NEW, "image": {}}
HOMES: Json = {**EXISTING, "homes": {"existing": {"file_system_id": OPEN_ZFS}}}
ARN = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:cluster/abc"


def judged(file: Json, edits: Json) -> tuple[RecordedAccount, dict[str, list[Finding]]]:
    settings = SlurmEnvironment.model_validate(changed(file, of=SLURM))
    plan, asked = SlurmPlan(name="test", settings=settings), RecordedAccount(account({**THERE, **edits}))
    rules = [rule for rule in account_rules() if rule.concerns(plan)]
    return asked, {rule.title: list(rule(plan, Evidence(account=asked))) for rule in rules}


def bad(found: dict[str, list[Finding]]) -> list[tuple[str, Finding]]:
    return [(title, one) for title, all_ in found.items() for one in all_ if one.severity not in ("fine", "skipped")]


@pytest.fixture(autouse=True)
def day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "2026-11-22")


@pytest.mark.parametrize("file", [NEW, EXISTING, BUILT, HOMES], ids=["new", "existing", "built", "homes"])
def test_a_good_account_is_fine_and_nobody_asks_for_eks(file: Json) -> None:
    asked, found = judged(file, {})
    assert [(title, one.message) for title, one in bad(found)] == []
    assert all(found.values()), "every rule answers"
    assert [call for call in asked.asked if call.startswith(("eks:", "iam:list_open"))] == []
    simulated = [one["ActionNames"] for operation, one in asked.requests if operation == "simulate_principal_policy"]
    assert simulated
    assert [action for actions in simulated for action in actions if action.startswith("eks:")] == []


CASES: list[tuple[str, Json, Json, str, str, str]] = [
    # what the file names and the account does not have
    ("subnet is not there", EXISTING, {f"subnets > {NODES_1}": GONE}, "subnets", "error", "no such subnet"),
    ("subnet of another zone", EXISTING, {f"subnets > {NODES_2}": {"AvailabilityZoneId": "usw2-az3"}}, "subnets", "error", "is in usw2-az3"),
    ("subnet too full", EXISTING, {f"subnets > {NODES_1}": {"AvailableIpAddressCount": 129}}, "subnets", "error", "130 addresses needed, 129 free"),
    ("no VPC", EXISTING, {f"vpcs > {VPC}": GONE}, "VPC", "error", "no such VPC"),
    ("image is not there", EXISTING, {"images": {"team/ray": []}}, "image", "error", "is not in ECR"),
    ("key of volumes is disabled", EXISTING, {f"keys > {KEY}": {"KeyState": "Disabled"}}, "KMS keys", "error", "is Disabled"),
    ("file system keeps nothing", EXISTING, {f"file_systems > {FILE_SYSTEM} > LustreConfiguration": {"DeploymentType": "SCRATCH_2"}}, "file system's use", "warning", "SCRATCH_2"),
    ("file system of another VPC", EXISTING, {f"file_systems > {FILE_SYSTEM} > VpcId": "vpc-0aaaaaaaaaaaaaaaa"}, "file system", "error", "vpc-0aaaaaaaaaaaaaaaa"),
    ("no secret", EXISTING, {"secrets": {}}, "accounting secret", "error", "no such secret"),
    ("secret goes away", EXISTING, {f"secrets > {SECRET}": {"DeletedDate": datetime(2026, 11, 1, tzinfo=UTC)}}, "accounting secret", "error", "scheduled for deletion"),
    ("secret with a key of its own", EXISTING, {f"secrets > {SECRET}": {"KmsKeyId": KEY}}, "accounting secret", "warning", "the nodes' role may not decrypt with it"),
    ("secret with another key than the file's", KEYED, {f"secrets > {SECRET}": {"KmsKeyId": KEY.replace("-", "0")}}, "accounting secret", "warning", "which the file names"),
    ("key of the secret is disabled", KEYED, {f"keys > {KEY}": {"KeyState": "Disabled"}, f"secrets > {SECRET}": {"KmsKeyId": KEY}}, "KMS keys", "error", "is Disabled"),
    ("home folders are not there", HOMES, {f"file_systems > {OPEN_ZFS}": GONE}, "home folders", "error", "no such file system"),
    ("home folders are on Lustre", HOMES, {f"file_systems > {OPEN_ZFS} > FileSystemType": "LUSTRE"}, "home folders", "error", "is LUSTRE"),
    ("home folders failed", HOMES, {f"file_systems > {OPEN_ZFS} > Lifecycle": "FAILED"}, "home folders", "error", "is FAILED. Expected AVAILABLE"),
    ("home folders of another VPC", HOMES, {f"file_systems > {OPEN_ZFS} > VpcId": "vpc-0aaaaaaaaaaaaaaaa"}, "home folders", "error", "vpc-0aaaaaaaaaaaaaaaa"),
    ("home folders that a teardown kept", NEW, {f"file_systems > {OPEN_ZFS} > Tags": [{"Key": names.ENVIRONMENT_TAG, "Value": "test"}]}, "kept file systems", "warning", f"homes.existing {{file_system_id: {OPEN_ZFS}}}"),
    ("quotas of home folders", {**NEW, "homes": {}}, {}, "FSx quotas", "unknown", "quotas of FSx for OpenZFS are not compared"),
    # names that are taken
    ("HyperPod cluster of others", NEW, {"hyperpod > train-slurm": {"ClusterName": "train-slurm", "ClusterArn": ARN, "ClusterStatus": "InService"}}, "cluster names", "error", "no stack has it"),
    ("HyperPod cluster goes away", NEW, {"hyperpod > train-slurm": {"ClusterName": "train-slurm", "ClusterArn": ARN, "ClusterStatus": "Deleting"}}, "cluster names", "error", "is Deleting"),
    ("archive of an earlier one", NEW, {"log_groups": [names.event_log_group("test")]}, "left behind", "error", "set hyperpod.event_log_group_exists: true"),
    ("repository of an earlier one", BUILT, {"repositories": ["ray-test"]}, "left behind", "error", "set image.repository_exists: true"),
    ("exports of another stack", NEW, {"exports": {"test-Network:ExportsOutputRefVpc": "theirs"}}, "export names", "error", "stack theirs exports"),
    # limits
    ("no quota for the type", NEW, {"quotas > sagemaker": {"ml.p5.48xlarge for cluster usage": 3}}, "quotas", "error", "ml.p5.48xlarge"),
    ("no quota for controller and login", NEW, {"quotas > sagemaker": {"ml.m5.2xlarge for cluster usage": 1}}, "quotas", "error", "ml.m5.2xlarge"),
    ("no quota for the file system", NEW, {"quotas > fsx": {"Lustre Persistent_2 storage capacity": 2400}}, "FSx quotas", "error", "4800"),
    ("few roles left", NEW, {"summary": {"Roles": 991, "RolesQuota": 1000}}, "IAM quotas", "error", "room for 10"),
    ("few roles left for groups", {**NEW, f"{GROUPS}/2/access": {"s3": [{"bucket": "data-sets"}]}}, {"summary": {"Roles": 990, "RolesQuota": 1000}}, "IAM quotas", "error", "room for 11"),
    ("stacks fill the quota", NEW, {"quotas > cloudformation": {"Stack count": 2}}, "stack quota", "error", "3"),
    ("nothing may be built", BUILT, {"quotas > codebuild": {"Concurrently running builds for Linux/Small environment": 0}}, "build quota", "error", "0"),
    # who deploys
    ("role that may not create the cluster", NEW, {"denied": ["sagemaker:CreateCluster"]}, "deployment role", "error", "sagemaker:CreateCluster"),
    ("no role of the bootstrap", NEW, {f"roles > cdk-hnb659fds-cfn-exec-role-{ACCOUNT}-{REGION}": GONE}, "deployment role", "error", "no such role"),
    ("type that no zone offers", NEW, {"offerings > p5.48xlarge": []}, "instance types", "error", "ml.p5.48xlarge"),
    ("Region without its zones", {**NEW, "network/availability_zone_ids": ["usw2-az1", "usw2-az4"]}, {}, "zones", "error", "usw2-az4"),
    ("not bootstrapped", NEW, {"parameters > /cdk-bootstrap/hnb659fds/version": GONE}, "bootstrap", "error", "is not bootstrapped"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_sabotage(case: tuple[str, Json, Json, str, str, str]) -> None:
    _, file, edits, title, severity, words = case
    found = bad(judged(file, edits)[1])
    shown = [(one, row.severity, row.message) for one, row in found]
    assert any(a == title and b == severity and words in text for a, b, text in shown), shown
    assert {one for one, _ in found} == {title}, shown
    for _, one in found:
        assert_form(one)


@pytest.mark.parametrize("key", [KEY, KEY.rpartition("/")[2], "alias/slurm", KEY.rpartition(":")[0] + ":alias/slurm"])
def test_a_key_that_the_file_names_may_be_the_secrets(key: str) -> None:
    """Secrets Manager answers with what the secret was given: an ARN, an ID or an alias."""
    found = judged(KEYED, {f"secrets > {SECRET}": {"KmsKeyId": key}})[1]
    assert bad(found) == []
    (secret,) = found["accounting secret"]
    assert (secret.severity, "encrypted with" in secret.message) == ("fine", True)
    (there,) = found["KMS keys"]
    assert (there.severity, "Enabled" in there.message) == ("fine", True)


def test_grants_are_asked_for_keys_of_volumes_alone() -> None:
    """A secret is decrypted by the role itself; a volume needs a grant."""
    nobody: Json = {"key_policy": {"Version": "2012-10-17", "Statement": []}}
    edits = {**nobody, f"secrets > {SECRET}": {"KmsKeyId": KEY}}
    assert bad(judged(KEYED, edits)[1]) == []
    ((title, found),) = bad(judged(EXISTING, nobody)[1])
    assert (title, "create grants" in found.message) == ("KMS keys", True)


@pytest.mark.parametrize(
    ("file", "said"),
    [(NEW, "the file names no image"), (EXISTING, "the image exists"), (BUILT, "the Image stack creates it")],
)
def test_an_image_that_nobody_names_is_not_there(file: Json, said: str) -> None:
    (found,) = judged(file, {})[1]["repository"]
    assert (found.severity, said in found.message) == ("skipped", True), found.message


def test_roles_of_eks_are_not_missed() -> None:
    (found,) = judged(NEW, {"roles > AWSServiceRoleForAmazonEKS": GONE})[1]["deployment role"]
    assert (found.severity, "will be created" in found.message) == ("fine", False)
    (found,) = judged(NEW, {"roles > AWSServiceRoleForAmazonFSx": GONE})[1]["deployment role"]
    assert (found.severity, "AWSServiceRoleForAmazonFSx will be created" in found.message) == ("fine", True)


def test_what_it_names_is_asked_by_its_digest() -> None:
    asked, _ = judged(EXISTING, {})
    assert {"imageDigest": DIGEST} in [
        id_ for operation, request in asked.requests if operation == "describe_images" for id_ in request["imageIds"]
    ]


def test_a_kept_file_system_that_the_file_names_is_none_that_is_left() -> None:
    tagged = {f"file_systems > {OPEN_ZFS} > Tags": [{"Key": names.ENVIRONMENT_TAG, "Value": "test"}]}
    assert bad(judged(HOMES, tagged)[1]) == []
    # the shared one is named there, and says nothing of home folders
    (left,) = bad(judged(EXISTING, tagged)[1])
    assert left[0] == "kept file systems" and OPEN_ZFS in left[1].message
