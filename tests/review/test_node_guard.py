"""What a change takes from the node guard, and who keeps a file system: templates written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.core import names
from hyperpod_ray.review.review import EnvironmentReview, review
from tests.review.small import resources, write

NAME = names.GUARD
Objects = list[dict[str, Any]]


def k8s(kind: str, *, namespace: str = NAME, name: str = NAME, **content: Any) -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **content}


def guard(replicas: int = 2) -> dict[str, Any]:
    return k8s("Deployment", spec={"replicas": replicas, "template": {"spec": {"containers": [{"args": []}]}}})


def role(*verbs: str) -> dict[str, Any]:
    return k8s("ClusterRole", namespace="", rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": list(verbs)}])


def bound(*accounts: str) -> dict[str, Any]:
    return k8s("RoleBinding", subjects=[{"kind": "ServiceAccount", "name": account} for account in accounts])


def policy(failure: str) -> dict[str, Any]:
    return k8s("ValidatingAdmissionPolicy", namespace="", spec={"failurePolicy": failure})


PROGRAM = k8s("ConfigMap", data={"watching.py": "…"})


def template(objects: Objects, **more: dict[str, Any]) -> dict[str, Any]:
    manifest = {"Type": "Custom::AWSCDK-EKS-KubernetesResource", "Properties": {"Manifest": json.dumps(objects)}}
    return resources(Manifest=manifest, **more)


def compared(folder: Path, before: dict[str, Any], after: dict[str, Any]) -> EnvironmentReview:
    sides = [write(folder / name, {"Ray": side}) for name, side in (("base", before), ("head", after))]
    (environment,) = review(*sides).environments
    return environment


@pytest.mark.parametrize(
    ("before", "after", "effect", "says"),
    [
        ([guard(2)], [guard(1)], "weakens", "a fault of its own node stops the guard"),
        ([guard(2)], [guard(0)], "weakens", "nobody replaces the pods of a silent node"),
        ([guard(1)], [guard(2)], "safe", "Its pods are replaced one at a time"),
        ([guard(), role("get", "delete")], [guard(), role("get")], "weakens", "The guard loses a right"),
        ([guard(), role("get")], [guard(), role("get", "delete")], "weakens", "A part of the node guard"),
        ([guard(), bound("a", "b")], [guard(), bound("a")], "weakens", "The guard loses a right"),
        ([guard(), policy("Fail")], [guard(), policy("Ignore")], "weakens", "It limits what the guard may change"),
        # kubectl prunes a ConfigMap; a policy of admission stays in the cluster
        ([guard(), PROGRAM], [guard()], "weakens", "The guard's pods run without it"),
        ([guard(), policy("Fail")], [guard()], "safe", "A part of the node guard"),
        ([guard()], [guard(), PROGRAM], "safe", "A part of the node guard"),
    ],
)
def test_what_the_guard_loses(tmp_path: Path, before: Objects, after: Objects, effect: str, says: str) -> None:
    environment = compared(tmp_path, template(before), template(after))
    said = [f"{row.effect.code} {row.consequence}" for row in environment.rows]
    assert environment.effect.code == effect, said
    assert any(says in text for text in said), said


def test_a_guard_that_goes_takes_its_parts_along(tmp_path: Path) -> None:
    environment = compared(tmp_path, template([guard(), PROGRAM]), template([k8s("ConfigMap", name="other")]))
    assert {row.code: row.effect.code for row in environment.rows if row.code.startswith("node-guard")} == {
        "node-guard-off": "weakens",
        "node-guard-part": "safe",
    }


def test_a_guard_that_runs_makes_no_renamed_alarm_worse(tmp_path: Path) -> None:
    before, after = (
        {name: {"Type": "AWS::CloudWatch::Alarm", "Properties": {"MetricName": "Faults", "Threshold": 1}}}
        for name in ("Old", "New")
    )
    environment = compared(tmp_path, template([guard()], **before), template([guard()], **after))
    assert environment.effect.code == "safe"


def identity(arn: Any, *, namespace: str = NAME) -> dict[str, Any]:
    properties = {"ClusterName": "c", "Namespace": namespace, "ServiceAccount": "pods", "RoleArn": arn}
    return {"Type": "AWS::EKS::PodIdentityAssociation", "Properties": properties}


def aws_role(*actions: str) -> dict[str, Any]:
    statement = {"Effect": "Allow", "Action": list(actions), "Resource": "*"}
    policies = [{"PolicyName": "p", "PolicyDocument": {"Version": "2012-10-17", "Statement": [statement]}}]
    return {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {}, "Policies": policies}}


OWN = {"Fn::GetAtt": ["Role", "Arn"]}
ASKS = aws_role("sagemaker:DescribeClusterNode", "sagemaker:ListClusterNodes")
OTHER = "arn:aws:iam::111122223333:role/other"
RAY = k8s("RayCluster", namespace="ray", name="ray", spec={"headGroupSpec": {"template": {"spec": {}}}})


@pytest.mark.parametrize(
    ("after", "says"),
    [
        ({"Role": aws_role("sagemaker:ListClusterNodes"), "Identity": identity(OWN)}, "DescribeClusterNode"),
        ({"Role": ASKS, "Identity": identity(OTHER)}, "a role that no template has"),
        ({"Role": ASKS}, "removed from the template"),
    ],
)
def test_the_guards_rights_in_aws(tmp_path: Path, after: dict[str, Any], says: str) -> None:
    before = template([guard()], Role=ASKS, Identity=identity(OWN))
    environment = compared(tmp_path, before, template([guard()], **after))
    assert environment.effect.code == "weakens"
    assert any(says in row.change and row.effect.code == "weakens" for row in environment.rows)


def test_jobs_get_a_role_that_nobody_can_compare(tmp_path: Path) -> None:
    before = template([RAY], Role=ASKS, Identity=identity(OWN, namespace="ray"))
    environment = compared(tmp_path, before, template([RAY], Role=ASKS, Identity=identity(OTHER, namespace="ray")))
    assert [(row.effect.code, row.code, row.change) for row in environment.rows if row.code == "right-taken"] == [
        ("interrupts", "right-taken", "a role that no template has")
    ]


def test_a_volume_that_goes_with_its_claim(tmp_path: Path) -> None:
    kept, gone = (
        k8s("PersistentVolume", namespace="", name="fsx", spec={"persistentVolumeReclaimPolicy": reclaims})
        for reclaims in ("Retain", "Delete")
    )
    down = compared(tmp_path / "down", template([kept]), template([gone]))
    assert down.effect.code == "weakens"
    assert [remark.direction for remark in down.remarks] == ["switched off"]
    assert "deletes the file system" in down.remarks[0].detail
    up = compared(tmp_path / "up", template([gone]), template([kept]))
    assert (up.effect.code, [remark.direction for remark in up.remarks]) == ("safe", ["switched on"])


@pytest.mark.parametrize(("entry", "effect"), [("HYPERPOD_LINUX", "interrupts"), ("STANDARD", "safe")])
def test_nodes_that_may_not_join(tmp_path: Path, entry: str, effect: str) -> None:
    """https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html"""
    access = {"Type": "AWS::EKS::AccessEntry", "Properties": {"ClusterName": "c", "PrincipalArn": OTHER, "Type": entry}}
    topic = {"Type": "AWS::SNS::Topic"}
    environment = compared(tmp_path, resources(Access=access, Topic=topic), resources(Topic=topic))
    assert environment.effect.code == effect
