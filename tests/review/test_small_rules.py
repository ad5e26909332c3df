"""Small rules of the review, each asked for what the page or the sentence beside its case says."""

# ruff: noqa: E501  (a row is one line, to be read across)

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.core.names import GPU_RESOURCE, INSTANCE_GROUP_LABEL
from hyperpod_ray.review import renames, severity
from hyperpod_ray.review.changes import compare
from hyperpod_ray.review.effects import alarms, karpenter
from hyperpod_ray.review.findings import Effect, Findings
from hyperpod_ray.review.kubernetes import KubernetesObject, ObjectName
from hyperpod_ray.review.references import references
from hyperpod_ray.review.report.grouping import RemarkGroup
from hyperpod_ray.review.security import objects
from tests.review.small import ROLE, Json, allow, compared, document, of, read


# --- links to S3 ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        # https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-linked-dra.html: no two with overlapping paths
        ("/data", "/data", True), ("/data", "/data/images", True), ("/data/images", "/data", True),
        ("/data/images", "/", True), ("/data", "/database", False), ("/database", "/data", False),
    ],
)  # fmt: skip
def test_a_link_in_the_place_of_another(before: str, after: str, refused: bool, tmp_path: Path) -> None:
    def link(path: str, bucket: str) -> Json:
        there = {"FileSystemPath": path, "DataRepositoryPath": f"s3://{bucket}"}
        return of("FSx::DataRepositoryAssociation", FileSystemId="fs-1", **there)

    environment = compared(tmp_path, {"Old": link(before, "a")}, {"New": link(after, "b")})
    assert ("link-moved" in {row.code for row in environment.rows}) is refused


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


# --- one function ----------------------------------------------------------------------------------------------------
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


@pytest.mark.parametrize(
    ("disruption", "effect"),
    [
        # https://karpenter.sh/docs/concepts/disruption/#consolidation: WhenEmptyOrUnderutilized is the default
        ({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30m"}, Effect.SAFE),
        ({"consolidationPolicy": "WhenEmptyOrUnderutilized"}, Effect.INTERRUPTS),
        ({"consolidateAfter": "30m"}, Effect.INTERRUPTS),
        ({}, Effect.INTERRUPTS),
        (None, Effect.INTERRUPTS),
    ],
    ids=str,
)
def test_when_karpenter_removes_nodes(disruption: Json | None, effect: Effect) -> None:
    before, after = (
        KubernetesObject(id=ObjectName(karpenter.POOL, "", "p"), data=data, manifest=None, where="")  # type: ignore[arg-type]
        for data in (
            {"spec": {"disruption": {"consolidationPolicy": "WhenEmpty"}}},
            {"spec": {} if disruption is None else {"disruption": disruption}},
        )
    )
    findings = Findings()
    karpenter.find(before, after, findings)
    assert [(row.code, row.effect) for row in findings.rows] == [("nodepool-disruption", effect)]


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


SECRET = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}


@pytest.mark.parametrize(
    ("before", "after", "directions"),
    [
        # https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources; without names it is all
        ({**SECRET, "resourceNames": ["a"]}, SECRET, {"broadened", "narrowed"}),
        ({**SECRET, "resourceNames": ["a"]}, {**SECRET, "resourceNames": ["a", "b"]}, {"broadened", "narrowed"}),
        (SECRET, {**SECRET, "verbs": ["get", "list"]}, {"broadened"}),
        (SECRET, {**SECRET, "resources": ["secrets", "pods"]}, {"broadened"}),
        (SECRET, {**SECRET, "apiGroups": ["", "apps"]}, {"broadened"}),
        (SECRET, SECRET, set()),
    ],
    ids=str,
)
def test_rights_of_a_role_of_kubernetes(before: Json, after: Json, directions: set[str]) -> None:
    sides = []
    for rule in (before, after):
        role = KubernetesObject(id=ObjectName("Role", "ray", "r"), data={"rules": [rule]}, manifest=None, where="")  # type: ignore[arg-type]
        sides.append(SimpleNamespace(objects={role.id: role}))
    assert {remark.direction for remark in objects.remarks(*sides)} == directions  # type: ignore[arg-type]


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
