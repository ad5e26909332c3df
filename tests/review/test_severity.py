"""The severity table: every resource type of the templates × {removed, retention lowered, policy lowered}."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.core import names
from hyperpod_ray.review import assembly, severity
from hyperpod_ray.review.findings import Effect
from hyperpod_ray.review.review import EnvironmentReview, review
from tests.review.scenario import Assemble, Side
from tests.review.small import compared, resources, write

ENVIRONMENTS = ("prod", "dev", "local")
USER = {"Type": "AWS::EC2::FlowLog", "Properties": {"ResourceId": {"Ref": "Item"}}}
ROLE = {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {}}}


@pytest.fixture(scope="module")
def of_templates(assemble: Assemble) -> dict[str, dict[str, Any]]:
    """One resource of each type that the shipped environments have."""
    found: dict[str, dict[str, Any]] = {}
    for name in ENVIRONMENTS:
        for _, resource in assembly.read(assemble(name, Side()))[name].all():
            if (
                resource.get("Properties", {}).get("Namespace") != names.GUARD
            ):  # a scenario has the node guard's identity
                found.setdefault(resource["Type"], resource)
    return found


def test_the_table_has_every_type_of_the_templates(of_templates: dict[str, dict[str, Any]]) -> None:
    assert set(of_templates) - set(severity.table()["types"]) == set()


@pytest.mark.slow
def test_a_removed_resource_is_as_bad_as_the_table_says(
    of_templates: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    wrong = {}
    for number, (name, resource) in enumerate(_judged(of_templates)):
        entry = severity.entry(name)
        for kept in (False, True):
            item = {**resource, "DeletionPolicy": "Retain" if kept else "Delete"}
            made = _compare(tmp_path / f"{number}{kept}", {"Item": item, **_users(name)}, _users(name))
            wanted = entry.get("kept", entry["removed"]) if kept else entry["removed"]
            if made.effect.code != wanted:
                wrong[name, kept] = (made.effect.code, wanted)
    assert wrong == {}


def test_what_only_a_function_used_is_no_loss(of_templates: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    function = {"Type": "AWS::Lambda::Function", "Properties": {"LoggingConfig": {"LogGroup": {"Ref": "Item"}}}}
    group = {**of_templates["AWS::Logs::LogGroup"], "DeletionPolicy": "Delete"}
    caller = {"Type": "Custom::S3AutoDeleteObjects", "Properties": {"ServiceToken": {"Fn::GetAtt": ["User", "Arn"]}}}
    whole = {"Item": group, "User": function, "Caller": caller}
    assert _compare(tmp_path / "log", whole, {}).effect is Effect.SAFE
    called_by_others = _compare(tmp_path / "called", {"Item": group, "User": function}, {})
    assert called_by_others.effect is Effect.INTERRUPTS, "nobody here knows who calls it"
    assert _compare(tmp_path / "role", {"Item": of_templates["AWS::IAM::Role"]}, {}).effect is Effect.SAFE


GOOD: dict[tuple[str, str], Any] = {
    # https://docs.aws.amazon.com/eks/latest/userguide/grant-k8s-access.html, …/deletion-protection.html
    ("AWS::EKS::Cluster", "AccessConfig/AuthenticationMode"): "API",
    ("AWS::EKS::Cluster", "DeletionProtection"): True,
    ("AWS::EKS::Cluster", "UpgradePolicy/SupportType"): ["EXTENDED", None],
    # https://docs.aws.amazon.com/AmazonECR/latest/userguide/image-tag-mutability.html, …/image-scanning-basic.html
    ("AWS::ECR::Repository", "ImageTagMutability"): "IMMUTABLE",
    ("AWS::ECR::Repository", "ImageScanningConfiguration/ScanOnPush"): True,
    # https://docs.aws.amazon.com/AmazonS3/latest/userguide/access-control-block-public-access.html
    ("AWS::S3::Bucket", "PublicAccessBlockConfiguration/BlockPublicAcls"): True,
    ("AWS::S3::Bucket", "PublicAccessBlockConfiguration/BlockPublicPolicy"): True,
    ("AWS::S3::Bucket", "PublicAccessBlockConfiguration/RestrictPublicBuckets"): True,
    ("AWS::S3::Bucket", "PublicAccessBlockConfiguration/IgnorePublicAcls"): True,
    ("AWS::S3::Bucket", "VersioningConfiguration/Status"): "Enabled",
    # https://docs.aws.amazon.com/kms/latest/developerguide/rotate-keys.html, …/enabling-keys.html
    ("AWS::KMS::Key", "EnableKeyRotation"): True,
    ("AWS::KMS::Key", "Enabled"): [True, None],
    ("AWS::Events::Rule", "State"): ["ENABLED", None],
    # https://docs.aws.amazon.com/vpc/latest/userguide/flow-log-records.html, …/AmazonDNS-concepts.html
    ("AWS::EC2::FlowLog", "TrafficType"): "ALL",
    ("AWS::EC2::VPC", "EnableDnsSupport"): [True, None],
    ("AWS::EC2::VPC", "EnableDnsHostnames"): True,
    ("AWS::EC2::Subnet", "MapPublicIpOnLaunch"): [False, None],
    # https://docs.aws.amazon.com/eks/latest/userguide/enable-iam-roles-for-service-accounts.html (audience)
    ("AWS::IAM::OIDCProvider", "ClientIdList"): [["sts.amazonaws.com"]],
    # https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/USER_ModifyInstance.Settings.html (and DocumentDB, Neptune)
    **dict.fromkeys(
        (
            (f"AWS::{form}", "DeletionProtection")
            for form in ("RDS::DBInstance", "RDS::DBCluster", "DocDB::DBCluster", "Neptune::DBCluster")
        ),
        True,
    ),
    ("AWS::RDS::DBInstance", "PubliclyAccessible"): [False, None],
    ("AWS::RDS::DBInstance", "MultiAZ"): True,
    # https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/TTL.html, …/PointInTimeRecovery.html
    ("AWS::DynamoDB::Table", "TimeToLiveSpecification/Enabled"): [False, None],
    ("AWS::DynamoDB::Table", "PointInTimeRecoverySpecification/PointInTimeRecoveryEnabled"): True,
    ("AWS::DynamoDB::Table", "DeletionProtectionEnabled"): True,
    ("AWS::EC2::Instance", "DisableApiTermination"): True,
    ("AWS::EFS::FileSystem", "BackupPolicy/Status"): "ENABLED",
    # https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/AutoFailover.html
    ("AWS::ElastiCache::ReplicationGroup", "AutomaticFailoverEnabled"): True,
    ("AWS::ElastiCache::ReplicationGroup", "MultiAZEnabled"): True,
    # https://docs.aws.amazon.com/vpc/latest/privatelink/manage-dns-names.html
    ("AWS::EC2::VPCEndpoint", "PrivateDnsEnabled"): True,
    # https://docs.aws.amazon.com/awscloudtrail/latest/APIReference/API_StopLogging.html
    ("AWS::CloudTrail::Trail", "IsLogging"): True,
    ("AWS::CloudTrail::Trail", "IsMultiRegionTrail"): True,
    ("AWS::CloudWatch::CompositeAlarm", "ActionsEnabled"): [True, None],
    # https://docs.aws.amazon.com/lambda/latest/dg/urls-auth.html
    ("AWS::Lambda::Url", "AuthType"): "AWS_IAM",
    # https://docs.aws.amazon.com/codebuild/latest/APIReference/API_ProjectEnvironment.html (privilegedMode)
    ("AWS::CodeBuild::Project", "Environment/PrivilegedMode"): False,
}


def test_the_good_values_are_those_of_the_services_pages() -> None:
    """By hand: the tests below take the good value from the table itself."""
    listed = {
        (name, setting["property"]): setting["good"]
        for name, entry in severity.table()["types"].items()
        for setting in entry.get("settings", [])
        if setting["kind"] == "value"
    }
    assert listed == GOOD


def test_a_lowered_setting_is_as_bad_as_the_table_says(of_templates: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    wrong: dict[tuple[str, ...], tuple[str, str]] = {}
    walked = 0
    for number, (name, resource) in enumerate(_judged(of_templates)):
        for index, guard in enumerate(severity.entry(name).get("settings", [])):
            high, low = _values(guard)
            sides = [_with(resource, guard["property"], value) for value in (high, low)]
            users = _users(name) if name != "AWS::IAM::Role" else {}
            down, up = (
                _compare(tmp_path / f"{number}-{index}-{way}", {"Item": one, **users}, {"Item": other, **users})
                for way, one, other in (("down", *sides), ("up", *sides[::-1]))
            )
            walked += 1
            wanted = guard.get("effect", "weakens")
            # encryption that cannot be taken away replaces or is refused: then it is worse, never milder
            replaced = any(row.code in {"replaced", "custom-name"} for row in down.rows)
            if down.effect.code != wanted and not (replaced and down.effect > Effect.of(wanted)):
                wrong[name, guard["property"]] = (down.effect.code, wanted)
            if Effect.WEAKENS in up.effects and guard["kind"] != "any":
                wrong[name, guard["property"], "raised"] = (up.effect.code, "safe")
    assert wrong == {}
    assert walked > 20


def test_a_lowered_policy_is_as_bad_as_the_table_says(of_templates: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    wrong = {}
    for number, (name, resource) in enumerate(_judged(of_templates)):
        kept, free = ({**resource, "DeletionPolicy": policy} for policy in ("Retain", "Delete"))
        made = _compare(tmp_path / str(number), {"Item": kept}, {"Item": free})
        wanted = severity.entry(name).get("policy", "safe")
        if made.effect.code != wanted:
            wrong[name] = (made.effect.code, wanted)
        back = _compare(tmp_path / f"{number}-back", {"Item": free}, {"Item": kept})
        if back.effect is not Effect.SAFE:
            wrong[f"{name} back"] = (back.effect.code, "safe")
    assert wrong == {}


def test_the_table_is_well_formed() -> None:
    for name, entry in severity.table()["types"].items():
        if entry.get("by_object"):
            continue
        removed = Effect.of(entry["removed"])
        for milder in ("kept", "helper", "unused"):
            assert Effect.of(entry.get(milder, "safe")) <= removed, name
        assert not entry.get("holds") or removed > Effect.SAFE, name
        assert not entry.get("noun") or removed >= Effect.LOSES_NODES, name
        for guard in entry.get("settings", []):
            assert Effect.of(guard.get("effect", "weakens")) >= Effect.WEAKENS, name


def _judged(found: dict[str, dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Types that the table judges by themselves; manifests are judged by the objects in them."""
    yield from ((name, one) for name, one in found.items() if not severity.entry(name).get("by_object"))


def _users(name: str) -> dict[str, Any]:
    """Something that uses the resource and stays."""
    if name in {"AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"}:
        return {"User": {**ROLE, "Properties": {"ManagedPolicyArns": [{"Ref": "Item"}]}}}
    return {"User": USER}


def _compare(folder: Path, base: dict[str, Any], head: dict[str, Any]) -> EnvironmentReview:
    sides = [write(folder / side, {"A": resources(**items)}) for side, items in (("base", base), ("head", head))]
    (environment,) = review(*sides).environments
    return environment


def _with(resource: dict[str, Any], pointer: str, value: Any) -> dict[str, Any]:
    made = copy.deepcopy(resource)
    place = made.setdefault("Properties", {})
    *parents, last = pointer.split("/")
    for parent in parents:
        place = place.setdefault(parent, {})
    place[last] = value
    return made


ARCHIVING = {"Status": "Enabled", "Transitions": [{"StorageClass": "GLACIER", "TransitionInDays": 1}]}
VALUES: dict[str, tuple[Any, Any]] = {
    "number": (30, 7),
    "logs": ([{"Type": "audit"}, {"Type": "api"}], [{"Type": "api"}]),
    "items": ([{"Arn": "a"}, {"Arn": "b"}], [{"Arn": "a"}]),
    "pattern": ({"source": ["a", "b"]}, {"source": ["a"]}),
    "archive": ([], [ARCHIVING]),
    "any": (None, ["a"]),
    "expiry": ([{"Status": "Enabled", "ExpirationInDays": 90}], [{"Status": "Enabled", "ExpirationInDays": 1}]),
    "present": ({"any": "thing"}, None),
}


def _values(guard: dict[str, Any]) -> tuple[Any, Any]:
    """A value that guards, and one that guards less."""
    if guard["kind"] == "images":
        return _images(30), _images(1)
    if guard["kind"] != "value":
        return VALUES[guard["kind"]]
    good = guard["good"][0] if isinstance(guard["good"], list) else guard["good"]
    return good, not good if isinstance(good, bool) else "another"


def _images(number: int) -> str:
    selection = {"tagStatus": "any", "countType": "imageCountMoreThan", "countNumber": number}
    return json.dumps({"rules": [{"rulePriority": 1, "selection": selection, "action": {"type": "expire"}}]})


@pytest.mark.parametrize(
    ("writers", "effect"),
    [
        (["AWS::Lambda::Function"], Effect.SAFE),
        (["AWS::Lambda::Function", "AWS::CodeBuild::Project"], Effect.SAFE),
        # the lines of what runs are in it as well
        (["AWS::Lambda::Function", "AWS::EC2::FlowLog"], Effect.LOSES_DATA),
        ([], Effect.LOSES_DATA),
    ],
)
def test_a_log_group_is_a_helpers_where_nothing_else_writes_to_it(
    writers: list[str], effect: Effect, tmp_path: Path
) -> None:
    users = {f"User{i}": {"Type": writer, "Properties": {"Name": {"Ref": "Log"}}} for i, writer in enumerate(writers)}
    others = {name: {"Type": user["Type"], "Properties": {"Name": "other"}} for name, user in users.items()}
    log = {"Type": "AWS::Logs::LogGroup", "DeletionPolicy": "Delete", "Properties": {}}
    assert max(row.effect for row in compared(tmp_path, {"Log": log, **users}, others).rows) is effect
