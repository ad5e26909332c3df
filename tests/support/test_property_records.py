"""A record says in words what changed, and an edit that concerns nobody leaves it as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import records

QUEUE = "Jobs/Queue AWS::SQS::Queue"


def stacks(*, seconds: int = 30, key: str = "a" * 64, name: str = "blue", **more: Any) -> dict[str, Any]:
    """Two small stacks of somebody's, with all that CloudFormation lets a template hold."""
    return {
        f"{name}-Jobs": {
            "Resources": {
                "Queue1A2B3C4D": {
                    "Type": "AWS::SQS::Queue",
                    "Properties": {
                        "VisibilityTimeout": seconds,
                        "QueueName": f"{name}-jobs",
                        "Tags": [{"Key": "team", "Value": "x"}, {"Key": "own", "Value": "y"}],
                        **more,
                    },
                    "DeletionPolicy": "Retain",
                }
            },
            "Outputs": {
                "Out": {"Value": {"Fn::GetAtt": ["Queue1A2B3C4D", "Arn"]}, "Export": {"Name": f"{name}:Queue"}},
                "Shown": {"Value": {"Ref": "Queue1A2B3C4D"}},
            },
        },
        f"{name}-Use": {
            "Resources": {
                "Code5E6F7A8B": {
                    "Type": "AWS::Lambda::Function",
                    "Properties": {
                        "Code": {"S3Key": f"{key}.zip"},
                        "Target": {"Fn::ImportValue": f"{name}:Queue"},
                        "Body": {"Fn::Join": ["", ['{"to": "', {"Ref": "AWS::Region"}, '", "list": [{"Id": "one"}]}']]},
                    },
                    "DependsOn": ["Code5E6F7A8B"],
                }
            }
        },
    }


def of(templates: dict[str, Any], name: str = "blue") -> records.Record:
    return records.of_templates(templates, environment=name, cluster="ray-blue", tags={"team": "x"})


def test_every_property_is_a_line_and_references_say_to_what() -> None:
    record = of(stacks())
    assert record[QUEUE] == {
        "DeletionPolicy": '"Retain"',
        "DependsOn": "[]",
        "QueueName": '"<env>-jobs"',
        "Tags.<tags>": '"all"',
        "Tags.own": '"y"',
        "VisibilityTimeout": "30",
    }
    code = record["Use/Code AWS::Lambda::Function"]
    assert code["Target"] == '"Jobs/${Queue.Arn}"'
    assert code["Code.S3Key"] == '"<hash>.zip"'
    assert (code["Body|.to"], code["Body|.list[]"]) == ('"${AWS::Region}"', '["one"]')
    assert record["Jobs/Shown Outputs"] == {"Value": '"${Queue}"'}
    assert "Jobs/Out Outputs" not in record, "an export is where it is imported"


def test_other_uploads_and_another_name_change_nothing() -> None:
    assert of(stacks(key="b" * 64)) == of(stacks())
    assert of(stacks(name="green"), name="green") == of(stacks())


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"seconds": 31}, "VisibilityTimeout: 30 → 31"),
        ({"Kms": {"on": True}}, "Kms.on: new, true"),
        ({"Tags": [{"Key": "own", "Value": "y"}]}, 'Tags.<tags>: no longer there, was "all"'),
        ({"Allowed": ["b", "c"]}, 'Allowed: without ["a"], with ["c"]'),
        ({"Allowed": ["b", "a"]}, 'Allowed: ["a", "b"] → ["b", "a"]'),
        ({"Steps": [{"Name": "two"}, {"Name": "one"}]}, 'Steps[]: ["one", "two"] → ["two", "one"]'),
        ({"Steps": [{"Name": "one"}, {"Name": "two", "Run": False}]}, "Steps[two].Run: new, false"),
        ({"Empty": []}, "Empty: {} → []"),
    ],
)
def test_what_changed_is_said(changed: dict[str, Any], said: str) -> None:
    common: dict[str, Any] = {"Allowed": ["a", "b"], "Steps": [{"Name": "one"}, {"Name": "two"}], "Empty": {}}
    if said.startswith("Kms"):
        common.pop("Allowed")
    before, after = of(stacks(**common)), of(stacks(**{**common, **changed}))
    assert records.differences(before, after) == [f"{QUEUE}: {said}"]


def test_a_resource_more_or_less_is_one_line() -> None:
    before = of(stacks())
    after = {name: lines for name, lines in before.items() if name != QUEUE}
    assert records.differences(before, after) == [f"{QUEUE}: no longer there"]
    assert records.differences(after, before) == [f"{QUEUE}: new"]


def test_kubernetes_objects_are_entries_of_their_own() -> None:
    objects = [
        {"kind": "Role", "metadata": {"name": "a", "namespace": space}, "rules": [{"verbs": ["get"]}]}
        for space in ("x", "y")
    ]
    templates = {
        "blue-Eks": {
            "Resources": {"M00000000": {"Type": records.MANIFEST, "Properties": {"Manifest": json.dumps(objects)}}}
        }
    }
    record = of(templates)
    assert record["Eks/M: Role y a"]["rules[0].verbs"] == '["get"]'
    assert record[f"Eks/M {records.MANIFEST}"]["Manifest"] == '["Role x a", "Role y a"]'


def test_a_shipped_file_is_its_name() -> None:
    shipped = records.PROJECT / "hyperpod_ray" / "guard" / "judge.py"
    record = of(stacks(Text=shipped.read_text(encoding="utf-8")))
    assert record[QUEUE]["Text"] == '"<text of hyperpod_ray/guard/judge.py>"'


def test_a_record_starts_from_another(tmp_path: Path) -> None:
    base, own = of(stacks(Old=1)), of(stacks(seconds=31, New=2))
    own.pop("Jobs/Shown Outputs")
    text = records.written(own, title="Blue.", base=base)
    assert text.splitlines()[1:] == [QUEUE, "  - Old", "  New = 2", "  VisibilityTimeout = 31", "- Jobs/Shown Outputs"]
    assert records.read(text, base=base) == own
    assert records.read(records.written(own, title="Blue.")) == own
    file = tmp_path / "blue.txt"
    assert records.difference(file, own).endswith(f"Fix: {records.COMMAND}")
    file.write_text(text, encoding="utf-8")
    assert records.difference(file, own, base=base) == ""
    said = records.difference(file, of(stacks()), base=base).splitlines()
    assert said[0].endswith("Fix: correct the code, or make records")
    assert said[1:] == [
        f"{QUEUE}: New: no longer there, was 2",
        f"{QUEUE}: VisibilityTimeout: 31 → 30",
        "Jobs/Shown Outputs: new",
    ]


def test_a_long_difference_is_cut_and_counted(tmp_path: Path) -> None:
    file = tmp_path / "blue.txt"
    file.write_text(records.written({"A": {}}, title="Blue."), encoding="utf-8")
    said = records.difference(file, {f"B{number}": {} for number in range(60)}).splitlines()
    assert len(said) == records.LONGEST + 2
    assert said[-1] == f"… and {61 - records.LONGEST} more"
