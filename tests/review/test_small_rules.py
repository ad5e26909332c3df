"""Small rules of the review, each asked for what the page or the sentence beside its case says."""

# ruff: noqa: E501  (a row is one line, to be read across)

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.core.names import GPU_RESOURCE, INSTANCE_GROUP_LABEL
from hyperpod_ray.review import assembly, expiry, renames, severity
from hyperpod_ray.review.changes import compare
from hyperpod_ray.review.deployed import deployed
from hyperpod_ray.review.effects import alarms, karpenter, raycluster
from hyperpod_ray.review.findings import Effect, Findings
from hyperpod_ray.review.kubernetes import KubernetesObject, ObjectName
from hyperpod_ray.review.references import references
from hyperpod_ray.review.report.grouping import RemarkGroup
from hyperpod_ray.review.review import EnvironmentReview, review
from hyperpod_ray.review.security import objects
from tests.review.small import resources, write

Json = dict[str, Any]


def read(folder: Path, **listed: Json) -> assembly.EnvironmentAssembly:
    return assembly.read(write(folder, {"A": resources(**listed)}))["env"]


def compared(folder: Path, before: Json, after: Json) -> EnvironmentReview:
    sides = [write(folder / name, {"A": resources(**side)}) for name, side in (("base", before), ("head", after))]
    (environment,) = review(*sides).environments
    return environment


def of(form: str, **properties: Any) -> Json:
    return {"Type": f"AWS::{form}", "Properties": properties}


# --- lifecycle rules -------------------------------------------------------------------------------------------------
def rule(**more: Any) -> Json:
    return {"Status": "Enabled", **more}


# https://docs.aws.amazon.com/AmazonS3/latest/userguide/intro-lifecycle-rules.html
RULES: dict[str, tuple[list[Json], list[Json], bool | None]] = {
    "sooner": ([rule(ExpirationInDays=30)], [rule(ExpirationInDays=29)], True),
    "later": ([rule(ExpirationInDays=30)], [rule(ExpirationInDays=31)], False),
    "the same": ([rule(ExpirationInDays=30)], [rule(ExpirationInDays=30)], None),
    "disabled": ([rule(ExpirationInDays=30)], [rule(ExpirationInDays=30) | {"Status": "Disabled"}], False),
    "of a folder more": ([rule(ExpirationInDays=3)], [rule(ExpirationInDays=3), rule(ExpirationInDays=3, Prefix="a/")], None),
    "of a folder sooner": ([rule(ExpirationInDays=3)], [rule(ExpirationInDays=3), rule(ExpirationInDays=1, Prefix="a/")], True),
    "of a folder alone": ([rule(ExpirationInDays=3)], [rule(ExpirationInDays=3, Prefix="a/")], False),
    "of another folder": ([rule(ExpirationInDays=3, Prefix="a/")], [rule(ExpirationInDays=3, Prefix="b/")], True),
    "of a tag alone": ([rule(ExpirationInDays=3)], [rule(ExpirationInDays=3, TagFilters=[{"Key": "k", "Value": "v"}])], False),
    "of every tag": ([rule(ExpirationInDays=3, TagFilters=[{"Key": "k", "Value": "v"}])], [rule(ExpirationInDays=3)], True),
    "of small ones too": ([rule(ExpirationInDays=3, ObjectSizeGreaterThan=9)], [rule(ExpirationInDays=3)], True),
    "of other sizes": (
        [rule(ExpirationInDays=3, ObjectSizeLessThan=9)], [rule(ExpirationInDays=3, ObjectSizeLessThan=99)], True,
    ),
    "old versions": ([], [rule(NoncurrentVersionExpirationInDays=30)], True),
    "old versions, fewer days": (
        [rule(NoncurrentVersionExpiration={"NoncurrentDays": 30})],
        [rule(NoncurrentVersionExpiration={"NoncurrentDays": 7})], True,
    ),
    "old versions, kept no more": (
        [rule(NoncurrentVersionExpiration={"NoncurrentDays": 7, "NewerNoncurrentVersions": 5})],
        [rule(NoncurrentVersionExpiration={"NoncurrentDays": 7})], True,
    ),
    "old versions, kept more": (
        [rule(NoncurrentVersionExpiration={"NoncurrentDays": 7, "NewerNoncurrentVersions": 2})],
        [rule(NoncurrentVersionExpiration={"NoncurrentDays": 7, "NewerNoncurrentVersions": 5})], False,
    ),
    "old versions, one kept less": (
        [rule(NoncurrentVersionExpiration={"NoncurrentDays": 7, "NewerNoncurrentVersions": 1})],
        [rule(NoncurrentVersionExpiration={"NoncurrentDays": 7})], True,
    ),
    "at another day": ([rule(ExpirationDate="2027-01-01T00:00:00Z")], [rule(ExpirationDate="2026-12-01T00:00:00Z")], True),
    "at a day": ([], [rule(ExpirationDate="2026-12-01T00:00:00Z")], True),
    "parts of uploads": ([], [rule(AbortIncompleteMultipartUpload={"DaysAfterInitiation": 1})], None),
    "a cheaper class": ([], [rule(Transitions=[{"StorageClass": "STANDARD_IA", "TransitionInDays": 30}])], None),
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_what_rules_of_a_bucket_delete(name: str) -> None:
    before, after, more = RULES[name]
    assert expiry.more_objects(before, after) is more


@pytest.mark.parametrize(
    ("transition", "more"),
    [
        # https://docs.aws.amazon.com/AmazonS3/latest/userguide/storage-class-intro.html (archived objects)
        ({"StorageClass": "GLACIER", "TransitionInDays": 30}, True),
        ({"StorageClass": "DEEP_ARCHIVE", "TransitionInDays": 30}, True),
        ({"StorageClass": "Glacier", "TransitionDate": "2026-12-01T00:00:00Z"}, True),
        ({"StorageClass": "GLACIER_IR", "TransitionInDays": 30}, None),
        ({"StorageClass": "INTELLIGENT_TIERING", "TransitionInDays": 0}, None),
    ],
    ids=str,
)
def test_what_nobody_reads_before_it_is_restored(transition: Json, more: bool | None) -> None:
    for form in ({"Transitions": [transition]}, {"Transition": transition}):
        assert expiry.more_archived([], [rule(**form)]) is more
        assert expiry.more_archived([rule(**form)], []) is (None if more is None else False)


def test_an_archive_at_another_day_is_another_one() -> None:
    earlier, later = (
        [rule(Transitions=[{"StorageClass": "GLACIER", "TransitionDate": f"{year}-01-01T00:00:00Z"}])]
        for year in (2027, 2028)
    )
    assert expiry.more_archived(later, earlier) is True
    assert expiry.more_archived(later, later) is None


def images(*selections: Json) -> str:
    listed = [{"rulePriority": 1, "selection": selection, "action": {"type": "expire"}} for selection in selections]
    return json.dumps({"rules": listed})


COUNT = {"tagStatus": "any", "countType": "imageCountMoreThan", "countNumber": 30}
AGE = {"tagStatus": "tagged", "tagPrefixList": ["run"], "countType": "sinceImagePushed", "countNumber": 14}


@pytest.mark.parametrize(
    ("before", "after", "more"),
    [
        # https://docs.aws.amazon.com/AmazonECR/latest/userguide/lifecycle_policy_parameters.html
        (images(COUNT), images(COUNT | {"countNumber": 29}), True),
        (images(COUNT), images(COUNT | {"countNumber": 31}), False),
        (images(COUNT), images(COUNT, AGE), True),
        (images(AGE), images(AGE | {"tagPrefixList": ["run", "dev"]}), False),
        (images(AGE), images(COUNT | {"countType": "sinceImagePushed", "countNumber": 14}), True),
        # an image that is named by digest stays in use when its tag moves
        (None, images(COUNT | {"tagStatus": "untagged"}), True),
        (images(COUNT), images(COUNT, COUNT | {"tagStatus": "untagged"}), None),
        (images(COUNT | {"tagStatus": "untagged"}), images(COUNT), True),
        (images(COUNT | {"tagStatus": "untagged"}), images(COUNT | {"tagStatus": "tagged"}), True),
        (images(COUNT), "no JSON", False),
        (None, None, None),
    ],
)
def test_what_rules_of_a_repository_delete(before: Any, after: Any, more: bool | None) -> None:
    assert expiry.more_images(before, after) is more


# --- events and alarms -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("before", "after", "wider"),
    [
        # https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-create-pattern.html
        ({"source": ["a"]}, {"source": ["a", "b"]}, True),
        ({"source": ["a"], "detail": {"state": ["x"]}}, {"source": ["a"]}, True),
        ({"source": ["a"], "detail": {"state": ["x"]}}, {"source": ["a"], "detail": {"state": ["x", "y"]}}, True),
        ({"source": ["a"]}, {"source": ["a"], "detail": {"state": ["x"]}}, False),
        ({"source": ["a", "b"]}, {"source": ["a"]}, False),
        ({"source": ["a"], "detail": {"state": ["x"]}}, {"source": ["a"], "detail": {"state": ["y"]}}, False),
    ],
    ids=str,
)
def test_events_that_a_rule_takes(before: Json, after: Json, wider: bool) -> None:
    assert severity.wider_pattern(before, after) is wider


@pytest.mark.parametrize(
    ("before", "after", "less"),
    [
        # https://prometheus.io/docs/prometheus/latest/querying/operators/#comparison-binary-operators
        ("temp > 80", "temp > 90", True), ("temp > 80", "temp > 70", False), ("free < 10", "free < 5", True),
        ("free <= 10", "free <= 20", False), ("temp > 80", "load > 80", True), ("temp > 80", "temp > 80", False),
        ("max_over_time(x[5m]) > 1", "max_over_time(x[9m]) > 1", False), ("a > 1 and b < 2", "a > 1 and b < 1", True),
    ],
)  # fmt: skip
def test_an_alert_that_fires_for_less(before: str, after: str, less: bool) -> None:
    assert bool(alarms._fires_for_less(before, after)) is less


def alarm(**properties: Any) -> Json:
    usual = {
        "Namespace": "Ray", "MetricName": "Faults", "Threshold": 5, "ComparisonOperator": "GreaterThanThreshold",
        "Statistic": "Sum", "EvaluationPeriods": 1, "Period": 60,
        "Dimensions": [{"Name": "Cluster", "Value": "a"}], "AlarmActions": [{"Ref": "Topic"}],
    }  # fmt: skip
    return of("CloudWatch::Alarm", **(usual | properties))


@pytest.mark.parametrize(
    ("properties", "effect"),
    [
        # https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html
        ({"Threshold": 6}, "weakens"),
        ({"Threshold": 4}, "safe"),
        ({"Statistic": "Average"}, "weakens"),
        ({"Statistic": "Maximum"}, "safe"),
        ({"Statistic": "Minimum"}, "weakens"),
        ({"Namespace": "Other"}, "weakens"),
        ({"Dimensions": []}, "weakens"),
        ({"AlarmActions": [{"Ref": "Other"}]}, "weakens"),
        ({"AlarmActions": [{"Ref": "Topic"}, {"Ref": "Other"}]}, "safe"),
        ({"AlarmDescription": "x"}, "safe"),
    ],
    ids=str,
)
def test_an_alarm_of_too_much(properties: Json, effect: str, tmp_path: Path) -> None:
    topics = {"Topic": of("SNS::Topic"), "Other": of("SNS::Topic")}
    environment = compared(tmp_path, {"Alarm": alarm(), **topics}, {"Alarm": alarm(**properties), **topics})
    assert environment.effect.code == effect, environment.rows


def manager(**more: Any) -> str:
    config: Json = {
        "route": {"receiver": "mails"},
        "receivers": [{"name": "mails", "sns_configs": [{"topic_arn": "one", "message": "a"}, {"topic_arn": "two"}]}],
    }
    text = "\n".join(f"  {line}" for line in json.dumps(config | more, indent=1).splitlines())
    return f"alertmanager_config: |\n{text}\n"


ONE = [{"name": "mails", "sns_configs": [{"topic_arn": "one"}]}]


@pytest.mark.parametrize(
    ("after", "effect"),
    [
        # https://docs.aws.amazon.com/prometheus/latest/userguide/AMP-alertmanager-config.html
        (manager(receivers=ONE), "weakens"),
        (manager(route={"receiver": "mails", "repeat_interval": "240h"}), "weakens"),
        (manager(inhibit_rules=[{"source_match": {"a": "b"}}]), "weakens"),
        (manager(receivers=[{"name": "mails", "sns_configs": [{"topic_arn": name} for name in ("one", "two", "three")]}]),
         "safe"),
        ("alertmanager_config: [", "weakens"),
    ],
    ids=["one of two", "rarely", "silenced", "one more", "not to be read"],
)  # fmt: skip
def test_whom_an_alert_manager_tells(after: str, effect: str, tmp_path: Path) -> None:
    sides = ({"W": of("APS::Workspace", AlertManagerDefinition=text)} for text in (manager(), after))
    environment = compared(tmp_path, *sides)
    assert environment.effect.code == effect, environment.rows


# --- rights ----------------------------------------------------------------------------------------------------------
def document(*statements: Json) -> Json:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def allow(action: Any, resource: str = "*", **more: Any) -> Json:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


DENY = {"Effect": "Deny", "Action": "s3:PutObject", "Resource": "*"}
TLS = {
    "Effect": "Deny",
    "Action": "s3:*",
    "Resource": "*",
    "Principal": "*",
    "Condition": {"Bool": {"aws:SecureTransport": "false"}},
}
ROLE = of(
    "IAM::Role", AssumeRolePolicyDocument=document(allow("sts:AssumeRole", Principal={"Service": "ec2.amazonaws.com"}))
)


def of_role(*statements: Json, role: str = "Role") -> Json:
    return of("IAM::Policy", PolicyName="p", Roles=[{"Ref": role}], PolicyDocument=document(*statements))


BOTH = allow(["s3:GetObject", "s3:PutObject"])
CODES: dict[str, tuple[Json, Json, str, str]] = {
    # https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
    "a right goes": ({"P": of_role(BOTH), "Role": ROLE}, {"P": of_role(allow("s3:GetObject")), "Role": ROLE}, "right-taken", "interrupts"),
    "another policy of the role has it": (
        {"P": of_role(BOTH), "Q": of_role(allow("a:B")), "Role": ROLE},
        {"P": of_role(allow("s3:GetObject")), "Q": of_role(allow("a:B"), allow("s3:PutObject")), "Role": ROLE}, "", "weakens",
    ),
    "a right is denied": ({"P": of_role(BOTH), "Role": ROLE}, {"P": of_role(BOTH, DENY), "Role": ROLE}, "right-taken", "interrupts"),
    "what it is of goes too": (
        {"P": of_role(allow("s3:GetObject"), {**BOTH, "Resource": {"Fn::GetAtt": ["B", "Arn"]}}), "Role": ROLE, "B": of("S3::Bucket")},
        {"P": of_role(allow("s3:GetObject")), "Role": ROLE}, "", "loses-data",
    ),
    "of something else with a longer name": (
        {"P": of_role(allow("s3:GetObject"), {**BOTH, "Resource": {"Fn::GetAtt": ["B2", "Arn"]}}), "Role": ROLE, "B": of("S3::Bucket"), "B2": of("S3::Bucket")},
        {"P": of_role(allow("s3:GetObject")), "Role": ROLE, "B2": of("S3::Bucket")}, "right-taken", "loses-data",
    ),
    "of a function of the deployment": (
        {"P": of_role(BOTH), "Role": ROLE, "F": of("Lambda::Function", Role={"Fn::GetAtt": ["Role", "Arn"]})},
        {"P": of_role(allow("s3:GetObject")), "Role": ROLE, "F": of("Lambda::Function", Role={"Fn::GetAtt": ["Role", "Arn"]})}, "", "safe",
    ),
    "TLS alone": ({"B": of("S3::BucketPolicy", Bucket="b", PolicyDocument=document())}, {"B": of("S3::BucketPolicy", Bucket="b", PolicyDocument=document(TLS))}, "", "safe"),
    "a service publishes no more": (
        {"T": of("SNS::TopicPolicy", Topics=["t"], PolicyDocument=document(allow("sns:Publish", Principal={"Service": "cloudwatch.amazonaws.com"})))},
        {"T": of("SNS::TopicPolicy", Topics=["t"], PolicyDocument=document())}, "publisher-taken", "weakens",
    ),
    "an account publishes no more": (
        {"T": of("SNS::TopicPolicy", Topics=["t"], PolicyDocument=document(allow("sns:Publish", Principal={"AWS": "arn:aws:iam::1:root"})))},
        {"T": of("SNS::TopicPolicy", Topics=["t"], PolicyDocument=document())}, "right-taken", "interrupts",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CODES)
def test_rights_that_something_loses(name: str, tmp_path: Path) -> None:
    before, after, code, effect = CODES[name]
    environment = compared(tmp_path, before, after)
    taken = {row.code for row in environment.rows} & {"right-taken", "publisher-taken"}
    assert taken == ({code} if code else set()), environment.rows
    assert environment.effect.code == effect, [*environment.rows, *environment.remarks]


@pytest.mark.parametrize(
    ("thing", "effect"),
    [
        # https://docs.aws.amazon.com/lambda/latest/dg/urls-auth.html, …/lambda-permissions.html
        (of("Lambda::Url", AuthType="AWS_IAM", TargetFunctionArn="f"), "safe"),
        (of("Lambda::Url", AuthType="NONE", TargetFunctionArn="f"), "weakens"),
        (of("EC2::NetworkAclEntry", RuleAction="allow", RuleNumber=1, NetworkAclId="a", Protocol=-1), "safe"),
        (of("EC2::NetworkAclEntry", RuleAction="deny", RuleNumber=1, NetworkAclId="a", Protocol=-1), "interrupts"),
    ],
    ids=str,
)
def test_something_that_comes(thing: Json, effect: str, tmp_path: Path) -> None:
    stays = {"Topic": of("SNS::Topic")}
    assert compared(tmp_path, stays, {**stays, "New": thing}).effect.code == effect


# --- one function ----------------------------------------------------------------------------------------------------
def test_no_deployed_stack_is_no_deployed_side(tmp_path: Path) -> None:
    assert deployed(read(tmp_path, Topic=of("SNS::Topic")), []) is None


def test_a_name_of_a_role_is_taken_in_the_account_and_others_in_their_region(tmp_path: Path) -> None:
    """https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html (names are unique in an account)."""
    named = read(
        tmp_path, R=of("IAM::Role", RoleName="ray"), T=of("SNS::Topic", TopicName="t"), E=of("EKS::Cluster", Name="c")
    )
    taken = {(form, name): scope for scope, form, name in renames._names(named)}
    assert taken["AWS::IAM::Role", "ray"] == "111122223333"
    assert taken["AWS::EKS::Cluster", "c"] == "111122223333/us-west-2"


def test_a_role_that_only_a_policy_names_is_unused(tmp_path: Path) -> None:
    statement = allow("sns:Publish", Principal={"AWS": {"Fn::GetAtt": ["Role", "Arn"]}})
    topic = of("SNS::TopicPolicy", Topics=["t"], PolicyDocument=document(statement))
    sides = [
        read(tmp_path / "a", Role=ROLE, T=topic),
        read(tmp_path / "b", T=of("SNS::TopicPolicy", Topics=["t"], PolicyDocument=document())),
    ]
    changes = compare(*sides)
    (gone,) = changes.of_type("AWS::IAM::Role")
    assert severity.when_removed(gone, changes) is Effect.SAFE


def test_an_import_whose_name_is_made_refers_to_what_its_name_refers_to(tmp_path: Path) -> None:
    environment = read(tmp_path, Topic=of("SNS::Topic"))
    (stack,) = environment.stacks.values()
    value = {"Fn::ImportValue": {"Fn::Sub": "${Topic}-x"}}
    assert [reference.key.logical_id for reference in references(value, stack, environment)] == ["Topic"]


def test_an_object_is_named_as_kubectl_names_it() -> None:
    assert str(ObjectName("Pod", "ray", "head")) == "Pod ray/head"
    assert str(ObjectName("Node", "", "head")) == "Node head"


def cluster_of(*pools: Json) -> Any:
    listed = [
        KubernetesObject(id=ObjectName(karpenter.POOL, "", f"p{index}"), data=pool, manifest=None, where="")  # type: ignore[arg-type]
        for index, pool in enumerate(pools)
    ]
    return SimpleNamespace(objects={k8s_object.id: k8s_object for k8s_object in listed})


def pool(group: str, **limits: Any) -> Json:
    return {"spec": {"template": {"metadata": {"labels": {INSTANCE_GROUP_LABEL: group}}}, "limits": limits}}


@pytest.mark.parametrize(
    ("limits", "form", "nodes"),
    [
        # https://karpenter.sh/docs/concepts/nodepools/#speclimits; a p5.48xlarge has 8 GPUs and 192 vCPUs
        ({GPU_RESOURCE: 20}, "ml.p5.48xlarge", 2),
        ({GPU_RESOURCE: 80, "cpu": 400}, "ml.p5.48xlarge", 2),
        ({"memory": "1Ti"}, "ml.p5.48xlarge", None),
        ({}, "ml.p5.48xlarge", None),
        ({GPU_RESOURCE: 20}, "ml.none.48xlarge", None),
    ],
    ids=str,
)
def test_nodes_that_karpenter_may_add(limits: Json, form: str, nodes: int | None) -> None:
    listed = cluster_of(pool("others", cpu=1), pool("burst", **limits))
    assert karpenter.most_nodes(listed, "burst", form) == nodes
    assert karpenter.most_nodes(listed, "nobody", form) is None


def test_a_raycluster_that_is_made_again() -> None:
    """https://ray-project.github.io/kuberay/reference/api/ (RayClusterUpgradeStrategy)."""
    assert raycluster._strategy({"upgradeStrategy": {"type": "Recreate"}}) == "Recreate"
    assert raycluster._strategy({}) == "None"


def namespaced(level: str | None) -> KubernetesObject:
    labels = {} if level is None else {"pod-security.kubernetes.io/enforce": level}
    name = ObjectName("Namespace", "", "ray")
    return KubernetesObject(id=name, data={"metadata": {"labels": labels}}, manifest=None, where="")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "after", "direction"),
    [
        # https://kubernetes.io/docs/concepts/security/pod-security-standards/; without a label everything is allowed
        (None, "privileged", None), (None, "baseline", "narrowed"), ("baseline", "restricted", "narrowed"),
        ("restricted", "baseline", "broadened"), ("baseline", None, "broadened"), ("restricted", "restricted", None),
    ],
)  # fmt: skip
def test_levels_of_pod_security(before: str | None, after: str | None, direction: str | None) -> None:
    said = [remark.direction for remark in objects._namespace(namespaced(before), namespaced(after))]
    assert said == ([] if direction is None else [direction])


def test_a_container_is_found_again_by_its_name_where_another_comes_before_it() -> None:
    ray = {"name": "ray", "securityContext": {"runAsNonRoot": True}}
    first = {"containers": [ray]}
    second = {"containers": [{"name": "log"}, ray]}
    assert list(objects._pods("pod", first, second)) == []


def test_details_that_have_no_room_are_counted() -> None:
    long = tuple(letter * 130 for letter in "abc")
    group = RemarkGroup(direction="new", what="x", details=long, weakens=False)
    assert group.text == f"{long[0]}; and 2 more", "130, 2 and 130 are more than 260"
    short = RemarkGroup(direction="new", what="x", details=("a" * 130, "b" * 128), weakens=False)
    assert "more" not in short.text


@pytest.mark.parametrize(
    ("form", "words"),
    [("Custom::Database", "Its function decides"), ("AWS::CloudFormation::CustomResource", "Its function decides"),
     ("AWS::MWAA::Environment", "no rule for the type")],
)  # fmt: skip
def test_a_change_that_nobody_here_knows_is_named_with_its_properties(form: str, words: str, tmp_path: Path) -> None:
    sides = (
        {"Thing": {"Type": form, "Properties": {"Size": size, "Tags": tags}}} for size, tags in ((1, []), (2, ["a"]))
    )
    (row,) = [row for row in compared(tmp_path, *sides).rows if row.code == "in-place-unknown"]
    assert (row.change, row.effect) == ("Size", Effect.INTERRUPTS)
    assert words in row.consequence


CLUSTER = of(
    "SageMaker::Cluster", ClusterName="c", Orchestrator={"Eks": {"ClusterArn": "arn:aws:eks:us-west-2:1:cluster/c"}},
    InstanceGroups=[{
        "InstanceGroupName": "g", "InstanceType": "ml.m5.large", "InstanceCount": 1,
        "ExecutionRole": {"Fn::GetAtt": ["Role", "Arn"]}, "LifeCycleConfig": {"SourceS3Uri": "s3://scripts", "OnCreate": "a"},
    }],
)  # fmt: skip
PULL = allow("ecr:BatchGetImage", "arn:aws:ecr:us-west-2:1:repository/team/tools")
ISSUER = {"Federated": "arn:aws:iam::1:oidc-provider/oidc.eks.us-west-2.amazonaws.com/id/A"}
TAKES = {"Effect": "Allow", "Action": "sts:AssumeRoleWithWebIdentity", "Principal": ISSUER}


@pytest.mark.parametrize(
    ("before", "after", "codes"),
    [
        ([BOTH, PULL], [allow("s3:GetObject"), PULL], {"right-taken"}),
        # https://docs.aws.amazon.com/AmazonECR/latest/userguide/ECR_on_EKS.html
        ([BOTH, PULL], [BOTH], {"pull-taken"}),
        ([BOTH, PULL], [BOTH, PULL, DENY], {"right-taken"}),
        ([BOTH, PULL], [BOTH, PULL, allow("s3:ListBucket")], set()),
        # what every node runs as root
        (
            [allow("s3:GetObject")],
            [allow("s3:GetObject"), allow("s3:PutObject", "arn:aws:s3:::scripts/*")],
            {"scripts-writable"},
        ),
        ([allow("s3:GetObject")], [allow("s3:GetObject"), allow("s3:PutObject", "arn:aws:s3:::others/*")], set()),
        (
            [allow("s3:GetObject")],
            [allow("s3:GetObject"), {**DENY, "Resource": "arn:aws:s3:::scripts/*"}],
            {"right-taken"},
        ),
    ],
)
def test_rights_of_the_nodes(before: list[Json], after: list[Json], codes: set[str], tmp_path: Path) -> None:
    sides = ({"C": CLUSTER, "Role": ROLE, "P": of_role(*statements)} for statements in (before, after))
    said = {row.code for row in compared(tmp_path, *sides).rows}
    assert said & {"right-taken", "pull-taken", "scripts-writable"} == codes


def test_a_role_that_pods_take_no_more_by_their_tokens(tmp_path: Path) -> None:
    """https://docs.aws.amazon.com/eks/latest/userguide/iam-roles-for-service-accounts.html."""
    other = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "ec2.amazonaws.com"}}
    sides = ({"R": of("IAM::Role", AssumeRolePolicyDocument=document(*taken))} for taken in ([TAKES, other], [other]))
    said = {row.code for row in compared(tmp_path, *sides).rows}
    assert said & {"trust-taken", "right-taken"} == {"trust-taken"}, "one row says it"


@pytest.mark.parametrize(
    ("before", "after", "effect", "remarked"),
    [
        # https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/kuberay-gcs-ft.html
        ("", "redis.example.com:6379", None, 0),
        ("redis.example.com:6379", "redis.example.com:6379", None, 0),
        ("redis.example.com:6379", "other.example.com:6379", "interrupts", 0),
        ("redis.example.com:6379", "", "weakens", 0),
        ("rediss://redis.example.com:6379", "redis.example.com:6379", None, 1),
        ("redis.example.com:6379", "rediss://redis.example.com:6379", None, 0),
    ],
)
def test_where_the_head_keeps_its_state(before: str, after: str, effect: str | None, remarked: int) -> None:
    found = Findings()
    old, new = (
        {"gcsFaultToleranceOptions": {"redisAddress": address} if address else {}} for address in (before, after)
    )
    raycluster._state_store(old, new, found, {"what": "RayCluster ray/ray", "where": "x"})
    assert [row.effect.code for row in found.rows] == ([] if effect is None else [effect])
    assert [remark.direction for remark in found.remarks] == ["switched off"] * remarked
