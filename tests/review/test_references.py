"""How template values read: CloudFormation's intrinsic functions as text that is equal between two synths."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.review import assembly
from hyperpod_ray.review.references import Reader, references
from tests.review.small import write

ROLE = {"Type": "AWS::IAM::Role"}
BUCKET = {"Type": "AWS::S3::Bucket"}
ARN = {"Fn::GetAtt": ["Role", "Arn"]}
SPLIT = {"Fn::Split": [":", ARN]}
STACKS: dict[str, dict[str, Any]] = {
    "A": {"Resources": {"Role": ROLE}},
    "B": {
        "Resources": {"Bucket": BUCKET},
        "Outputs": {"Name": {"Value": {"Ref": "Bucket"}, "Export": {"Name": "env-B:Bucket"}}},
    },
}


@pytest.fixture
def environment(tmp_path: Path) -> assembly.EnvironmentAssembly:
    return assembly.read(write(tmp_path, STACKS))["env"]


@pytest.fixture
def stack(environment: assembly.EnvironmentAssembly) -> Iterator[assembly.Stack]:
    (found,) = [stack for stack in environment.stacks.values() if stack.name == "env-A"]
    yield found


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        (True, "true"),
        (False, "false"),
        (None, "None"),
        (3, "3"),
        (1.5, "1.5"),
        (["a", 1, True], "a, 1, true"),
        ({"b": 1, "a": {"Ref": "Role"}}, '{"a": "${A/Role}", "b": 1}'),
        ({"Ref": "Role"}, "${A/Role}"),
        (ARN, "${A/Role.Arn}"),
        ({"Ref": "AWS::Region"}, "us-west-2"),
        ({"Ref": "AWS::AccountId"}, "111122223333"),
        ({"Ref": "AWS::Partition"}, "${AWS::Partition}"),
        ({"Ref": "Absent"}, '${Ref "Absent"}'),
        ({"Fn::ImportValue": "env-B:Bucket"}, "${B/Bucket}"),
        ({"Fn::GetStackOutput": {"StackName": "env-B", "OutputName": "Name"}}, "${B/Bucket}"),
        ({"Fn::Join": ["/", ["s3:/", {"Fn::ImportValue": "env-B:Bucket"}, "x"]]}, "s3://${B/Bucket}/x"),
        ({"Fn::Sub": "arn:${AWS::Region}:${Role.Arn}:${Role}"}, "arn:us-west-2:${A/Role.Arn}:${A/Role}"),
        ({"Fn::Sub": ["${Here}-${!Kept}", {"Here": {"Ref": "Role"}}]}, "${A/Role}-${Kept}"),
        ({"Fn::Select": [1, ["a", {"Ref": "Role"}]]}, "${A/Role}"),
        ({"Fn::Select": ["0", ["a", "b"]]}, "a"),
        ({"Fn::Select": [3, SPLIT]}, "us-west-2"),
        ({"Fn::Select": [4, SPLIT]}, "111122223333"),
        ({"Fn::Select": [6, SPLIT]}, "${element 6 of ${A/Role.Arn}}"),
        ({"Fn::Select": [2, SPLIT]}, "${service of A/Role.Arn}"),
        ({"Fn::Select": [0, {"Fn::GetAZs": ""}]}, '${element 0 of ${Fn::GetAZs ""}}'),
    ],
    ids=lambda value: json.dumps(value)[:50],
)
def test_a_value_reads_the_same_in_every_synth(
    environment: assembly.EnvironmentAssembly, stack: assembly.Stack, value: Any, text: str
) -> None:
    """https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/intrinsic-function-reference.html"""
    assert Reader(environment).text(value, stack) == text


def test_what_is_replaced_is_marked(environment: assembly.EnvironmentAssembly, stack: assembly.Stack) -> None:
    reader = Reader(environment, changed=lambda reference: reference.attribute == "Arn")
    assert reader.text([ARN, {"Ref": "Role"}], stack) == "${A/Role.Arn (new)}, ${A/Role}"


def test_a_manifest_stays_json(environment: assembly.EnvironmentAssembly, stack: assembly.Stack) -> None:
    joined = {"Fn::Join": ["", ['{"role":"', ARN, '","n":1}']]}
    assert json.loads(Reader(environment).json_text(joined, stack)) == {"role": "${A/Role.Arn}", "n": 1}
    assert Reader(environment).plain({"a": [ARN], "b": {"c": {"Ref": "Role"}}}, stack) == {
        "a": ["${A/Role.Arn}"],
        "b": {"c": "${A/Role}"},
    }


def test_what_a_value_refers_to(environment: assembly.EnvironmentAssembly, stack: assembly.Stack) -> None:
    value = {"a": [ARN, {"Fn::Sub": "${Role}"}], "b": {"Fn::ImportValue": "env-B:Bucket"}, "c": {"Ref": "AWS::Region"}}
    found = {(reference.key.logical_id, reference.attribute) for reference in references(value, stack, environment)}
    assert found == {("Role", "Arn"), ("Role", ""), ("Bucket", "")}
